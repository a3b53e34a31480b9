/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/hostlist/range.h"

#include <ctype.h>
#include <errno.h>

static_assert(RANGE_DIGITS_MAX <= 19, "so many digits fit an uint64_t");

static int parse_number(const char *text, const char *end, uint64_t *number_ret)
{
	uint64_t number = 0;
	int digits = 0;

	while (text + digits < end && isdigit((unsigned char)text[digits]) && digits <= RANGE_DIGITS_MAX) {
		number = number * 10 + (uint64_t)(text[digits] - '0');
		digits++;
	}
	if (digits == 0 || digits > RANGE_DIGITS_MAX)
		return -EINVAL;
	*number_ret = number;
	return digits;
}

int range_parse(const char *text, const char *end, uint64_t span_max, struct range *range_ret, const char **reason_ret,
		const char **at_ret)
{
	const char *at = text;
	int digits;

	must(text <= end);
	*reason_ret = "a number of at most 18 digits is expected";
	*at_ret = at;
	digits = parse_number(at, end, &range_ret->low);
	if (digits < 0)
		return digits;
	range_ret->width = digits;
	range_ret->high = range_ret->low;
	at += digits;
	if (at < end && *at == '-') {
		at++;
		*at_ret = at;
		digits = parse_number(at, end, &range_ret->high);
		if (digits < 0)
			return digits;
		*reason_ret = "the range runs down";
		if (range_ret->high < range_ret->low)
			return -EINVAL;
		*reason_ret = "the range is too long";
		if (range_ret->high - range_ret->low > span_max)
			return -EINVAL;
		at += digits;
	}
	*reason_ret = "a comma, a dash or the end is expected";
	*at_ret = at;
	if (at < end && *at != ',')
		return -EINVAL;
	must(at > text);
	must(at <= end);
	must(range_ret->low <= range_ret->high);
	return (int)(at - text);
}
