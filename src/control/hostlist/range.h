/* SPDX-License-Identifier: BSD-2-Clause */
/* range - one range inside brackets: "7" or "008-012". */
#ifndef CONTROL_HOSTLIST_RANGE_H
#define CONTROL_HOSTLIST_RANGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum { RANGE_DIGITS_MAX = 18 };

struct range {
	uint64_t low;
	uint64_t high;
	int width; /* minimum number of digits, padded with zeroes */
};

/*
 * Parse one range at `text`, which ends at a ',' or at `end`; `span_max` limits high - low. Returns the bytes consumed, or
 * -EINVAL; `reason_ret` is then a phrase for the message, and `at_ret` the place of the error.
 */
MUST_CHECK int range_parse(const char *text, const char *end, uint64_t span_max, struct range *range_ret,
			   const char **reason_ret, const char **at_ret);

#endif
