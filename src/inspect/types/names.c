/* SPDX-License-Identifier: BSD-2-Clause */
/* names - sorted lists of the words in a script. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/must.h"
#include "inspect/types/types.h"

void types_names_add(struct types_names *names, const char *name, size_t bytes)
{
	if (names->count == 0 || is_power_of_two(names->count)) {
		names->names = realloc(names->names, (size_t)(names->count ? names->count : 1) * 2 * sizeof(*names->names));
		must(names->names);
	}
	names->names[names->count] = strndup(name, bytes);
	must(names->names[names->count++]);
}

static int compare_words(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

void types_names_sort(struct types_names *names)
{
	uint32_t kept = 0;

	if (names->count)
		qsort(names->names, names->count, sizeof(*names->names), compare_words);
	for (uint32_t i = 0; i < names->count; i++) {
		if (kept && strcmp(names->names[kept - 1], names->names[i]) == 0)
			free(names->names[i]);
		else
			names->names[kept++] = names->names[i];
	}
	names->count = kept;
}

bool types_names_has(const struct types_names *names, const char *name)
{
	return names->count && bsearch(&name, names->names, names->count, sizeof(*names->names), compare_words);
}

void types_names_free(struct types_names *names)
{
	for (uint32_t i = 0; i < names->count; i++)
		free(names->names[i]);
	free(names->names);
	*names = (struct types_names){ 0 };
}

void types_wanted_free(struct types_wanted *wanted)
{
	types_names_free(&wanted->structures);
	types_names_free(&wanted->enums);
	types_names_free(&wanted->casts);
	types_names_free(&wanted->words);
	types_names_free(&wanted->members);
	types_names_free(&wanted->taken);
}
