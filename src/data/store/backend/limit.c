/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/backend/limit.h"

#include <stdlib.h>

#include "base/bits.h"

struct space_limit {
	uint32_t ref_count; /* of the control thread */
	uint64_t taken;	    /* only grows; atomic, as the others */
	uint64_t taken_max; /* SPACE_LIMIT_NONE: nothing is counted */
	uint64_t plenty;    /* as long as no more than this is taken, half of a large limit is left */
	uint64_t refusals;
};

struct space_limit *space_limit_create(void)
{
	struct space_limit *limit = calloc(1, sizeof(*limit));

	if (!limit)
		return NULL;
	limit->ref_count = 1;
	limit->taken_max = limit->plenty = SPACE_LIMIT_NONE;
	return limit;
}

struct space_limit *space_limit_ref(struct space_limit *limit)
{
	must(limit->ref_count > 0);
	limit->ref_count++;
	return limit;
}

void space_limit_unref(struct space_limit *limit)
{
	if (!limit)
		return;
	must(limit->ref_count > 0);
	if (--limit->ref_count == 0)
		free(limit);
}

uint64_t space_limit_mark(const struct space_limit *limit)
{
	return __atomic_load_n(&limit->taken, __ATOMIC_RELAXED);
}

void space_limit_set(struct space_limit *limit, uint64_t mark, uint64_t bytes)
{
	uint64_t taken_max;

	must(mark <= space_limit_mark(limit));
	if (bytes == SPACE_LIMIT_NONE || __builtin_add_overflow(mark, bytes, &taken_max))
		taken_max = SPACE_LIMIT_NONE;
	__atomic_store_n(&limit->plenty, bytes >= SPACE_LIMIT_LARGE_BYTES ? mark + (taken_max - mark) / 2 : mark,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&limit->taken_max, taken_max, __ATOMIC_RELAXED);
}

bool space_limit_is_set(const struct space_limit *limit)
{
	return __atomic_load_n(&limit->taken_max, __ATOMIC_RELAXED) != SPACE_LIMIT_NONE;
}

/* Take bytes if no more than `max` and than taken_max are taken then. */
static bool take(struct space_limit *limit, uint64_t bytes, uint64_t max)
{
	uint64_t taken = __atomic_load_n(&limit->taken, __ATOMIC_RELAXED), taken_max;

	do {
		taken_max = __atomic_load_n(&limit->taken_max, __ATOMIC_RELAXED);
		if (taken_max == SPACE_LIMIT_NONE)
			return true;
		taken_max = min_u64(taken_max, max);
		if (taken > taken_max || bytes > taken_max - taken)
			return false;
	} while (!__atomic_compare_exchange_n(&limit->taken, &taken, taken + bytes, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return true;
}

bool space_limit_take(struct space_limit *limit, uint64_t bytes)
{
	if (take(limit, bytes, UINT64_MAX))
		return true;
	__atomic_fetch_add(&limit->refusals, 1, __ATOMIC_RELAXED);
	return false;
}

bool space_limit_take_of_plenty(struct space_limit *limit, uint64_t bytes)
{
	return take(limit, bytes, __atomic_load_n(&limit->plenty, __ATOMIC_RELAXED));
}

uint64_t space_limit_refusals(const struct space_limit *limit)
{
	return __atomic_load_n(&limit->refusals, __ATOMIC_RELAXED);
}
