/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/cpuset.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

bool cpuset_has(const struct cpuset *set, unsigned int cpu)
{
	return cpu < CPUSET_CPUS_MAX && (set->words[cpu / 64] & BIT(cpu % 64)) != 0;
}

void cpuset_add(struct cpuset *set, unsigned int cpu)
{
	must(cpu < CPUSET_CPUS_MAX);
	set->words[cpu / 64] |= BIT(cpu % 64);
}

unsigned int cpuset_count(const struct cpuset *set)
{
	unsigned int count = 0;

	for (size_t i = 0; i < ARRAY_COUNT(set->words); i++)
		count += (unsigned int)__builtin_popcountll(set->words[i]);
	return count;
}

static int parse_mask(const char *text, struct cpuset *set)
{
	size_t digits;

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		text += 2;
	digits = strlen(text);
	if (digits == 0)
		return -EINVAL;
	for (size_t i = 0; i < digits; i++) {
		char c = text[digits - 1 - i];
		unsigned int value;

		if (!isxdigit((unsigned char)c))
			return -EINVAL;
		value = (unsigned int)(isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10);
		for (unsigned int bit = 0; bit < 4; bit++) {
			if ((value & (1u << bit)) == 0)
				continue;
			if (i * 4 + bit >= CPUSET_CPUS_MAX)
				return -ERANGE;
			cpuset_add(set, (unsigned int)(i * 4 + bit));
		}
	}
	return 0;
}

static int parse_number(const char **at, unsigned int *number_ret)
{
	unsigned long number;
	char *end;

	if (!isdigit((unsigned char)**at))
		return -EINVAL;
	errno = 0;
	number = strtoul(*at, &end, 10);
	if (errno || number >= CPUSET_CPUS_MAX)
		return -ERANGE;
	*at = end;
	*number_ret = (unsigned int)number;
	return 0;
}

static int parse_list(const char *at, struct cpuset *set)
{
	must(*at == '[');
	do {
		unsigned int first, last;
		int rc;

		at++;
		rc = parse_number(&at, &first);
		if (rc)
			return rc;
		last = first;
		if (*at == '-') {
			at++;
			rc = parse_number(&at, &last);
			if (rc)
				return rc;
		}
		if (last < first)
			return -EINVAL;
		for (unsigned int cpu = first; cpu <= last; cpu++)
			cpuset_add(set, cpu);
	} while (*at == ',');
	return strcmp(at, "]") == 0 ? 0 : -EINVAL;
}

int cpuset_parse(const char *text, struct cpuset *set_ret)
{
	struct cpuset set = { 0 };
	int rc = text[0] == '[' ? parse_list(text, &set) : parse_mask(text, &set);

	if (rc)
		return rc;
	if (cpuset_count(&set) == 0)
		return -EINVAL;
	*set_ret = set;
	return 0;
}

void cpuset_format(const struct cpuset *set, char *text, size_t text_bytes)
{
	int top = (int)ARRAY_COUNT(set->words) - 1;
	size_t used;

	while (top > 0 && set->words[top] == 0)
		top--;
	used = (size_t)snprintf(text, text_bytes, "%llx", (unsigned long long)set->words[top]);
	while (top-- > 0 && used < text_bytes)
		used += (size_t)snprintf(text + used, text_bytes - used, "%016llx", (unsigned long long)set->words[top]);
}
