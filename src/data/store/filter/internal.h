/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of a faulty device: the rules, which choose the effect on an I/O, and the versions, which keep written data.
 */
#ifndef STORE_FILTER_INTERNAL_H
#define STORE_FILTER_INTERNAL_H

#include <pthread.h>
#include <sys/uio.h>

#include "base/random.h"
#include "data/store/bdev/bdev.h"
#include "data/store/filter/filter.h"

/* ---- rules.c: channels on all threads share the rules, so a mutex protects them ---- */

struct rule_state {
	struct filter_rule rule;
	uint64_t seen, used;
};

struct rules {
	pthread_mutex_t mutex;
	struct random random;
	struct rule_state states[FILTER_RULES_MAX];
	uint32_t count;
	uint64_t counts[FILTER_EFFECTS_MAX];
};

void rules_init(struct rules *rules, uint64_t seed);
void rules_deinit(struct rules *rules);
/* -ENOSPC: full. */
MUST_CHECK int rules_add(struct rules *rules, const struct filter_rule *rule);
void rules_clear(struct rules *rules, uint32_t types);
/* The rule for this I/O of `type`; counts as one use of the rule. Effect FILTER_NONE: no rule applies. Any thread. */
struct filter_rule rules_choose(struct rules *rules, enum io_type type);
void rules_counts(struct rules *rules, uint64_t counts[FILTER_EFFECTS_MAX]);
uint64_t rules_random(struct rules *rules, uint64_t below);

/* ---- versions.c: the data of each block, and the data before its last write. No lock: concurrent writes may mix ---- */

struct versions {
	uint8_t *latest, *before; /* mapped; NULL: no versions are kept */
	uint64_t bytes;
};

/* -ENOMEM. */
MUST_CHECK int versions_init(struct versions *versions, uint64_t bytes);
void versions_deinit(struct versions *versions);
/* `iov` NULL: zeroes. */
void versions_write(struct versions *versions, uint64_t offset, uint64_t bytes, const struct iovec *iov, int iov_count);
void versions_read_before(const struct versions *versions, uint64_t offset, const struct iovec *iov, int iov_count);

#endif
