/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter - a block device on top of another that does wrong on purpose: for tests that must prove that somebody notices.
 *
 * Rules say which I/O, how often and what. Chance comes from a seed: the same I/O in the same order meets the same faults.
 * Each fault leaves a record (filter_fault). Without rules everything passes.
 *
 * All functions: control thread.
 */
#ifndef STORE_FILTER_FILTER_H
#define STORE_FILTER_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "data/store/bdev/states.gen.h"
#include "data/store/filter/states.gen.h" /* enum filter_effect */

enum { FILTER_RULES_MAX = 32 };

/*
 * What to do to I/O of `types`, to the `one_in`-th by chance (0, 1: each), after the first `skip` of them, `count` times
 * (0: no end). The first rule that applies is used.
 *
 *   FAIL      ends with `status`, not done
 *   PENDING   never ends, until a reset of the channel aborts it
 *   REFUSE    -EAGAIN to the core, which tries again: counts as one of `count` each time
 *   CORRUPT   a byte is other than it should be: written, or read. At `corrupt_offset` from its beginning it becomes
 *             `corrupt_value`; corrupt_value 0: somewhere, by chance, something else
 *   DROP      ends well, not done (write, unmap, write zeroes)
 *   SWAP      done to other blocks of the device, by chance (write, read)
 *   STALE     reads what was there before it was last written; needs keep_versions
 *   DELAY     done `delay_ns` later
 */
struct filter_rule {
	uint32_t types; /* bit per enum io_type; reset is never touched */
	enum filter_effect effect;
	uint32_t one_in;
	uint64_t skip, count;
	enum io_status status;
	uint64_t delay_ns;
	uint64_t corrupt_offset;
	uint8_t corrupt_value;
};

struct filter_options {
	const char *name; /* NULL: "EE_<base_name>" */
	const char *base_name;
	uint64_t seed;
	bool keep_versions; /* twice what is written in memory; what never was counts as zeroes */
	uint8_t uuid[16];
};

/*
 * The base is claimed until the filter goes; the filter goes when the base does. Remove it with filter_delete(). Its
 * options are what save_config writes of it; its rules are not.
 * Errors (explained): -ENODEV (no base), -EPERM (the base is somebody's), -EEXIST, -ENOMEM, -EINVAL.
 */
MUST_CHECK int filter_create(const struct filter_options *options, struct fault *why);

/*
 * Errors: -ENODEV: no such filter; -EBUSY: on its way out. `done(ctx)` (or NULL) when it is gone, perhaps before this
 * returns.
 */
MUST_CHECK int filter_delete(const char *name, void (*done)(void *ctx), void *ctx);

/* Add a rule behind those there are. Errors (explained): -ENODEV, -ENOSPC (FILTER_RULES_MAX), -EINVAL (it does nothing). */
MUST_CHECK int filter_inject(const char *name, const struct filter_rule *rule, struct fault *why);

/* Forget the rules that have one of `types`. What is pending stays so. -ENODEV. */
MUST_CHECK int filter_clear(const char *name, uint32_t types);

/* How often each effect has been had; `counts` by enum filter_effect. -ENODEV. */
enum { FILTER_EFFECTS_MAX = 16 };
static_assert((int)FILTER_DELAY < (int)FILTER_EFFECTS_MAX, "a count for each effect");
MUST_CHECK int filter_counts(const char *name, uint64_t counts[FILTER_EFFECTS_MAX]);

#endif
