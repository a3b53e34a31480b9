/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/descriptor.h"

#include <sys/resource.h>

#include "base/bits.h"
#include "base/must.h"

uint32_t descriptor_limit(void)
{
	struct rlimit limit;

	must(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	return (uint32_t)min_u64(limit.rlim_cur, INT32_MAX);
}

uint32_t descriptor_reserve(uint32_t limit)
{
	return (uint32_t)min_u64(DESCRIPTOR_RESERVE_MAX, limit / DESCRIPTOR_RESERVE_PART);
}

uint32_t descriptor_admitted_max(void)
{
	uint32_t limit = descriptor_limit();

	return limit - descriptor_reserve(limit);
}
