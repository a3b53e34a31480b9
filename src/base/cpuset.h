/* SPDX-License-Identifier: BSD-2-Clause */
/* cpuset - which processors, as people write it: "0x3" (a hexadecimal mask) or "[0,2-3]" (a list). */
#ifndef BASE_CPUSET_H
#define BASE_CPUSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum { CPUSET_CPUS_MAX = 256 };

struct cpuset {
	uint64_t words[CPUSET_CPUS_MAX / 64];
};

/*
 * Errors: -EINVAL (not a mask and not a list, an empty set, a range that runs down), -ERANGE (a CPU of CPUS_MAX or more).
 */
MUST_CHECK int cpuset_parse(const char *text, struct cpuset *set_ret);
bool cpuset_has(const struct cpuset *set, unsigned int cpu);
void cpuset_add(struct cpuset *set, unsigned int cpu);
unsigned int cpuset_count(const struct cpuset *set);

/* As a hexadecimal mask without "0x", the way that SPDK's RPCs print it. `text` is always NUL-terminated. */
void cpuset_format(const struct cpuset *set, char *text, size_t text_bytes);

#endif
