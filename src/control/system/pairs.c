/* SPDX-License-Identifier: BSD-2-Clause */
/* Names with values: attributes, and properties that were set to a value of their own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/system/internal.h"

/* The index of `name`, or the index where it must be inserted. */
static size_t pair_index(const struct pairs *pairs, const char *name)
{
	size_t low = 0, high = pairs->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (strcmp(pairs->items[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	must(low == 0 || strcmp(pairs->items[low - 1].name, name) < 0);
	must(low == pairs->count || strcmp(pairs->items[low].name, name) >= 0);
	return low;
}

static bool is_name_at(const struct pairs *pairs, size_t at, const char *name)
{
	return at < pairs->count && strcmp(pairs->items[at].name, name) == 0;
}

const char *pairs_get(const struct pairs *pairs, const char *name)
{
	size_t at = pair_index(pairs, name);

	return is_name_at(pairs, at, name) ? pairs->items[at].value : NULL;
}

static void remove_at(struct pairs *pairs, size_t at)
{
	must(at < pairs->count);
	free(pairs->items[at].name);
	free(pairs->items[at].value);
	pairs->count--;
	memmove(&pairs->items[at], &pairs->items[at + 1], (pairs->count - at) * sizeof(*pairs->items));
}

static int insert_at(struct pairs *pairs, size_t at, const char *name, const char *value)
{
	struct pair *items = realloc(pairs->items, (pairs->count + 1) * sizeof(*items));
	struct pair pair;

	must(at <= pairs->count);
	must(*value); /* an empty value means no pair */
	if (!items)
		return -ENOMEM;
	pairs->items = items;
	pair.name = strdup(name);
	pair.value = pair.name ? strdup(value) : NULL;
	if (!pair.value) {
		free(pair.name);
		return -ENOMEM;
	}
	memmove(&items[at + 1], &items[at], (pairs->count - at) * sizeof(*items));
	items[at] = pair;
	pairs->count++;
	return 0;
}

int pairs_set(struct pairs *pairs, const char *name, const char *value)
{
	size_t at = pair_index(pairs, name);
	char *copy;

	if (!is_name_at(pairs, at, name))
		return *value ? insert_at(pairs, at, name, value) : 0;
	if (!*value) {
		remove_at(pairs, at);
		return 0;
	}
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	free(pairs->items[at].value);
	pairs->items[at].value = copy;
	return 0;
}

void pairs_deinit(struct pairs *pairs)
{
	while (pairs->count > 0)
		remove_at(pairs, pairs->count - 1);
	free(pairs->items);
	pairs->items = NULL;
}

int pairs_apply(struct pairs *pairs, const struct system_pair *changes, size_t count)
{
	struct pairs after = { 0 };
	int error = 0;

	for (size_t i = 0; !error && i < pairs->count; i++)
		error = insert_at(&after, after.count, pairs->items[i].name, pairs->items[i].value);
	for (size_t i = 0; !error && i < count; i++)
		error = pairs_set(&after, changes[i].name, changes[i].value);
	if (error) {
		pairs_deinit(&after);
		return error;
	}
	must(after.count <= pairs->count + count);
	pairs_deinit(pairs);
	*pairs = after;
	return 0;
}
