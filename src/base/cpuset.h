/* SPDX-License-Identifier: BSD-2-Clause */
/* cpuset - a set of processors, written as a hexadecimal mask ("0x3") or as a list ("[0,2-3]"). */
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
 * Errors: -EINVAL (neither a mask nor a list, an empty set, a descending range), -ERANGE (a CPU number >= CPUSET_CPUS_MAX).
 */
MUST_CHECK int cpuset_parse(const char *text, struct cpuset *set_ret);
bool cpuset_has(const struct cpuset *set, unsigned int cpu);
void cpuset_add(struct cpuset *set, unsigned int cpu);
unsigned int cpuset_count(const struct cpuset *set);

/* Print a hexadecimal mask without "0x", like SPDK's RPCs. `text` is always NUL-terminated. */
void cpuset_format(const struct cpuset *set, char *text, size_t text_bytes);

#endif
