/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fold a set into text. There is one pass for each number in a name, from the last number to the first. A pass joins
 * texts that differ only in that number into one text with a bracket. Example: for 2 racks with 4 nodes each, the first
 * pass makes one text per rack, and the second pass joins both.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/hostlist/internal.h"
#include "control/hostlist/range.h"

enum { PASSES_MAX = 8 };

/* A text, and the position of the number that this pass folds. */
struct piece {
	char *text;
	size_t begin;
	size_t end;   /* equal to `begin`: no such number, so this pass does not change the text */
	size_t first; /* index in the set of the first host that the text covers */
};

/* Bytes of the name, without the port. */
static size_t name_bytes(const char *text)
{
	const char *colon = strrchr(text, ':');

	return colon ? (size_t)(colon - text) : strlen(text);
}

/* Find number `pass`, counted from the right, in the name. A bracket of an earlier pass is one number. IPv6 has none. */
static void find_number(struct piece *piece, int pass)
{
	size_t at = name_bytes(piece->text);

	piece->begin = piece->end = 0;
	if (piece->text[0] == '[')
		return;
	for (int number = 0;; number++) {
		size_t end;

		while (at > 0 && !isdigit((unsigned char)piece->text[at - 1]) && piece->text[at - 1] != ']')
			at--;
		end = at;
		if (at > 0 && piece->text[at - 1] == ']') {
			while (piece->text[at - 1] != '[')
				at--;
			at--;
		}
		while (at > 0 && isdigit((unsigned char)piece->text[at - 1]) && piece->text[end - 1] != ']')
			at--;
		if (end == at)
			return;
		if (number == pass) {
			/* the parser needs a prefix before a bracket, and reads at most RANGE_DIGITS_MAX digits */
			if (at > 0 && end - at <= RANGE_DIGITS_MAX) {
				piece->begin = at;
				piece->end = end;
			}
			return;
		}
	}
}

static int compare_bytes(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	int order = memcmp(a, b, min_u64(a_bytes, b_bytes));

	if (order)
		return order;
	return a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

/* Compare without the number. 0: the texts differ at most in the number. */
static int compare_rest(const struct piece *a, const struct piece *b)
{
	int order;

	if ((a->begin == a->end) != (b->begin == b->end))
		return a->begin == a->end ? -1 : 1;
	if (a->begin == a->end)
		return strcmp(a->text, b->text);
	order = compare_bytes(a->text, a->begin, b->text, b->begin);
	return order ? order : strcmp(a->text + a->end, b->text + b->end);
}

static uint64_t number_of(const struct piece *piece)
{
	must(piece->begin < piece->end);
	return strtoull(piece->text + piece->begin, NULL, 10);
}

static int compare_pieces(const void *left, const void *right)
{
	const struct piece *a = left, *b = right;
	int order = compare_rest(a, b);

	if (order || a->begin == a->end)
		return order;
	if (number_of(a) != number_of(b))
		return number_of(a) < number_of(b) ? -1 : 1;
	return a->end - a->begin < b->end - b->begin ? -1 : a->end - a->begin > b->end - b->begin;
}

/* Whether the range from `first` to `last` can be extended by `next`: the next number, with the same padding. */
static bool extends_range(const struct piece *first, const struct piece *last, const struct piece *next)
{
	char expected[RANGE_DIGITS_MAX + 2];
	size_t bytes = next->end - next->begin;

	if (number_of(next) != number_of(last) + 1 || number_of(next) - number_of(first) > HOST_RANGE_MAX)
		return false;
	snprintf(expected, sizeof(expected), "%0*" PRIu64, (int)(first->end - first->begin), number_of(next));
	return strlen(expected) == bytes && memcmp(expected, next->text + next->begin, bytes) == 0;
}

/* Join `count` pieces, which differ only in the number, into one text. NULL: out of memory. */
static char *join_pieces(const struct piece *pieces, size_t count)
{
	size_t bytes = strlen(pieces[0].text) + 3 + count * (RANGE_DIGITS_MAX + 1), used;
	char *text = malloc(bytes);
	const char *comma = "";

	must(count > 1); /* a single number gets no bracket */
	if (!text)
		return NULL;
	used = (size_t)snprintf(text, bytes, "%.*s[", (int)pieces[0].begin, pieces[0].text);
	for (size_t i = 0, last; i < count; i = last + 1) {
		const struct piece *first = &pieces[i];

		for (last = i; last + 1 < count && extends_range(first, &pieces[last], &pieces[last + 1]); last++)
			;
		used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", comma, (int)(first->end - first->begin),
					 first->text + first->begin);
		if (last > i)
			used += (size_t)snprintf(text + used, bytes - used, "-%.*s",
						 (int)(pieces[last].end - pieces[last].begin),
						 pieces[last].text + pieces[last].begin);
		comma = ",";
	}
	used += (size_t)snprintf(text + used, bytes - used, "]%s", pieces[0].text + pieces[0].end);
	must(used < bytes);
	return text;
}

static int fold_pass(struct piece *pieces, size_t *count, int pass)
{
	size_t kept = 0;

	for (size_t i = 0; i < *count; i++)
		find_number(&pieces[i], pass);
	qsort(pieces, *count, sizeof(*pieces), compare_pieces);
	for (size_t i = 0, end; i < *count; i = end) {
		size_t first = SIZE_MAX;
		char *text;

		for (end = i + 1; end < *count && compare_rest(&pieces[i], &pieces[end]) == 0; end++)
			;
		must(end == i + 1 || pieces[i].begin < pieces[i].end);
		if (end == i + 1) {
			pieces[kept++] = pieces[i];
			continue;
		}
		text = join_pieces(&pieces[i], end - i);
		for (size_t j = i; text && j < end; j++) {
			first = min_u64(first, pieces[j].first);
			free(pieces[j].text);
		}
		if (!text) {
			/* move the unfolded pieces behind the folded ones, so that the caller frees each once */
			memmove(&pieces[kept], &pieces[i], (*count - i) * sizeof(*pieces));
			*count = kept + *count - i;
			return -ENOMEM;
		}
		must(kept < end);
		must(first != SIZE_MAX);
		pieces[kept].first = first;
		pieces[kept++].text = text;
	}
	must(kept <= *count);
	*count = kept;
	return 0;
}

static int compare_firsts(const void *a, const void *b)
{
	size_t first_a = ((const struct piece *)a)->first, first_b = ((const struct piece *)b)->first;

	return first_a < first_b ? -1 : first_a > first_b;
}

static char *concatenate(const struct piece *pieces, size_t count)
{
	size_t bytes = 1, used = 0;
	char *text;

	for (size_t i = 0; i < count; i++)
		bytes += strlen(pieces[i].text) + 1;
	text = malloc(bytes);
	if (!text)
		return NULL;
	text[0] = '\0';
	for (size_t i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? "," : "", pieces[i].text);
	must(used < bytes);
	return text;
}

int host_set_fold(const struct host_set *set, char **text_ret)
{
	struct piece *pieces = calloc(max_u64(set->count, 1), sizeof(*pieces));
	size_t count = 0;
	char *text = NULL;
	int error = pieces ? 0 : -ENOMEM;

	for (; !error && count < set->count; count++) {
		pieces[count].text = strdup(set->hosts[count]);
		if (!pieces[count].text) {
			error = -ENOMEM;
			break;
		}
		pieces[count].first = count;
	}
	for (int pass = 0; !error && pass < PASSES_MAX; pass++)
		error = fold_pass(pieces, &count, pass);
	if (!error) {
		must(count <= set->count);
		qsort(pieces, count, sizeof(*pieces), compare_firsts);
		text = concatenate(pieces, count);
		error = text ? 0 : -ENOMEM;
	}
	for (size_t i = 0; pieces && i < count; i++)
		free(pieces[i].text);
	free(pieces);
	if (!error)
		*text_ret = text;
	return error;
}
