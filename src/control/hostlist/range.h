/* SPDX-License-Identifier: BSD-2-Clause */
/* range - "7" and "008-012", inside of brackets. */
#ifndef CONTROL_HOSTLIST_RANGE_H
#define CONTROL_HOSTLIST_RANGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum { RANGE_DIGITS_MAX = 18 };

struct range {
	uint64_t low;
	uint64_t high;
	int width; /* digits at least */
};

/*
 * Read one range at `text`, which ends at a ',' or at `end`. Returns the bytes that it takes, or -EINVAL; then
 * `reason_ret` is a sentence and `at_ret` the place.
 */
MUST_CHECK int range_parse(const char *text, const char *end, uint64_t span_max, struct range *range_ret,
			   const char **reason_ret, const char **at_ret);

#endif
