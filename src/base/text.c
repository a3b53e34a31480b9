/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int text_parse_u64(const char *text, int base, uint64_t max, uint64_t *number_ret)
{
	unsigned long long number;
	char *end;

	if (!isxdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, base);
	if (end == text || *end)
		return -EINVAL;
	if (errno || number > max)
		return -ERANGE;
	*number_ret = number;
	return 0;
}

int text_parse_bytes(const char *text, uint64_t *bytes_ret)
{
	static const char units[] = "KMGTP";
	unsigned long long number;
	const char *unit;
	char *end;
	int shift = 0;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	if (*end) {
		unit = strchr(units, toupper((unsigned char)*end));
		if (!unit || (end[1] && strcasecmp(end + 1, "iB") != 0 && strcasecmp(end + 1, "B") != 0))
			return -EINVAL;
		shift = (int)(unit - units + 1) * 10;
	}
	if (number > UINT64_MAX >> shift)
		return -ERANGE;
	*bytes_ret = (uint64_t)number << shift;
	return 0;
}

int text_copy(char *to, size_t to_bytes, const char *from)
{
	size_t bytes = strlen(from);

	must(to_bytes > 0);
	if (bytes < to_bytes) {
		memcpy(to, from, bytes + 1);
		return 0;
	}
	memcpy(to, from, to_bytes - 1);
	to[to_bytes - 1] = '\0';
	return -ENAMETOOLONG;
}
