/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter - a block device on top of another that injects faults, for tests of error handling.
 *
 * Rules define which I/O fails, how often and how. Randomness comes from a seed: the same I/O in the same order gets the
 * same faults. Each fault writes a trace record (filter_fault). Without rules all I/O passes.
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
 * Applies to I/O of `types`: skips the first `skip`, then affects one in `one_in` at random (0, 1: each), `count` times (0:
 * no limit). The first rule that applies is used.
 *
 *   FAIL      ends with `status`; the base does not execute it
 *   PENDING   does not end until a reset of the channel aborts it
 *   REFUSE    returns -EAGAIN to the core, which retries: each time counts as one of `count`
 *   CORRUPT   one byte of a write or read is wrong: the byte at `corrupt_offset` in the I/O (modulo its length) becomes
 *             `corrupt_value`; corrupt_value 0: a random byte changes
 *   DROP      ends with success; the base does not execute it (write, unmap, write zeroes)
 *   SWAP      uses other, random blocks of the device (write, read)
 *   STALE     reads the data from before the last write; needs keep_versions
 *   DELAY     executed `delay_ns` later
 */
struct filter_rule {
	uint32_t types; /* bit per enum io_type; reset is never affected */
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
	bool keep_versions; /* keeps two copies of written data in memory; unwritten blocks count as zeroes */
	uint8_t uuid[16];
};

/*
 * The filter claims the base until its own removal; removal of the base removes the filter. Remove it with filter_delete().
 * save_config writes its options, not its rules.
 * Errors (explained): -ENODEV (no base), -EPERM (the base is claimed), -EEXIST, -ENOMEM, -EINVAL.
 */
MUST_CHECK int filter_create(const struct filter_options *options, struct fathom_fault *why);

/*
 * Errors: -ENODEV: no such filter; -EBUSY: removal is in progress. Calls `done(ctx)` (may be NULL) after removal, possibly
 * before this returns.
 */
MUST_CHECK int filter_delete(const char *name, void (*done)(void *ctx), void *ctx);

/* Append a rule. Errors (explained): -ENODEV, -ENOSPC (FILTER_RULES_MAX), -EINVAL (the rule has no effect). */
MUST_CHECK int filter_inject(const char *name, const struct filter_rule *rule, struct fathom_fault *why);

/* Remove the rules with any of `types`. Pending I/O stays pending. -ENODEV. */
MUST_CHECK int filter_clear(const char *name, uint32_t types);

/* How often each effect was applied; `counts` by enum filter_effect. -ENODEV. */
enum { FILTER_EFFECTS_MAX = 16 };
static_assert((int)FILTER_DELAY < (int)FILTER_EFFECTS_MAX, "a count for each effect");
MUST_CHECK int filter_counts(const char *name, uint64_t counts[FILTER_EFFECTS_MAX]);

#endif
