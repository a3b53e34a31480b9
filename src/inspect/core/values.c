/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/core/values.h"

#include <string.h>

#include "inspect/core/internal.h"

void core_find_must(struct core *core, struct core_crash *crash)
{
}

void core_must_values(struct core *core, const struct core_crash *crash, char *values, char *function)
{
}
