/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/hostlist/rankset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/hostlist/range.h"

enum { RANK_TEXT_BYTES = 24 };

static_assert(RANK_MAX < 100000000 && RANK_TEXT_BYTES >= sizeof(",12345678-12345678"), "a range of ranks fits");

void rank_set_deinit(struct rank_set *set)
{
	free(set->ranks);
	memset(set, 0, sizeof(*set));
}

/* The index of `rank`, or the index where it must be inserted. */
static size_t rank_index(const struct rank_set *set, uint32_t rank)
{
	size_t low = 0, high = set->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (set->ranks[middle] < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool rank_set_has(const struct rank_set *set, uint32_t rank)
{
	size_t at = rank_index(set, rank);

	return at < set->count && set->ranks[at] == rank;
}

int rank_set_add(struct rank_set *set, uint32_t rank)
{
	size_t at = rank_index(set, rank);

	must(rank <= RANK_MAX);
	must(set->count <= set->room);
	if (at < set->count && set->ranks[at] == rank)
		return 0;
	if (set->count == RANK_SET_MAX)
		return -ERANGE;
	if (set->count == set->room) {
		size_t room = max_u64(set->room * 2, 16);
		uint32_t *ranks = realloc(set->ranks, room * sizeof(*ranks));

		if (!ranks)
			return -ENOMEM;
		set->ranks = ranks;
		set->room = room;
	}
	memmove(&set->ranks[at + 1], &set->ranks[at], (set->count - at) * sizeof(*set->ranks));
	set->ranks[at] = rank;
	set->count++;
	must(set->count <= RANK_SET_MAX);
	/* ascending, without duplicates */
	must(at == 0 || set->ranks[at - 1] < rank);
	must(at + 1 == set->count || rank < set->ranks[at + 1]);
	return 0;
}

void rank_set_remove(struct rank_set *set, uint32_t rank)
{
	size_t at = rank_index(set, rank);

	if (at == set->count || set->ranks[at] != rank)
		return;
	set->count--;
	memmove(&set->ranks[at], &set->ranks[at + 1], (set->count - at) * sizeof(*set->ranks));
}

static int add_range(struct rank_set *set, const struct range *range)
{
	must(range->high <= RANK_MAX);
	for (uint64_t rank = range->low; rank <= range->high; rank++) {
		int error = rank_set_add(set, (uint32_t)rank);

		if (error < 0)
			return error;
	}
	return 0;
}

static int parse_ranges(const char *text, const char *at, const char *end, struct rank_set *set, struct fathom_fault *why)
{
	const char *reason = NULL, *place_of_error = at;
	struct range range;
	int taken = 0, error = 0;

	while (!error && at < end) {
		taken = range_parse(at, end, RANK_SET_MAX, &range, &reason, &place_of_error);
		if (taken < 0)
			break;
		place_of_error = at;
		reason = "no rank is that high";
		error = range.high > RANK_MAX ? -ERANGE : add_range(set, &range);
		at += taken;
		/* a rank must follow a comma */
		if (!error && at < end && ++at == end) {
			reason = "a rank is expected";
			place_of_error = at;
			taken = -EINVAL;
			break;
		}
	}
	if (error == -ENOMEM)
		return error;
	if (taken < 0 || error)
		return fault_rank_list_bad(why, text, (uint32_t)(place_of_error - text) + 1, reason);
	return 0;
}

int rank_set_parse(const char *text, struct rank_set *set_ret, struct fathom_fault *why)
{
	const char *at = text, *end = text + strlen(text);
	struct rank_set set = { 0 };
	int error;

	if (*at == '[') {
		if (end[-1] != ']' || end - at < 2)
			return fault_rank_list_bad(why, text, (uint32_t)(end - text) + 1, "the bracket is not closed");
		at++;
		end--;
	}
	error = parse_ranges(text, at, end, &set, why);
	if (error < 0) {
		rank_set_deinit(&set);
		return error;
	}
	*set_ret = set;
	return 0;
}

int rank_set_fold(const struct rank_set *set, bool is_bracketed, char **text_ret)
{
	size_t used = 0, room = set->count * RANK_TEXT_BYTES + 3, ranges = 0;
	char *text = malloc(room);

	if (!text)
		return -ENOMEM;
	text[used++] = '[';
	for (size_t i = 0, last; i < set->count; i = last + 1) {
		for (last = i; last + 1 < set->count && set->ranks[last + 1] == set->ranks[last] + 1; last++)
			;
		must(used < room);
		used += (size_t)snprintf(text + used, room - used, "%s%" PRIu32, ranges++ ? "," : "", set->ranks[i]);
		if (last > i)
			used += (size_t)snprintf(text + used, room - used, "-%" PRIu32, set->ranks[last]);
	}
	must(used + 2 <= room);
	if (!is_bracketed || set->count < 2) {
		memmove(text, text + 1, --used);
	} else {
		text[used++] = ']';
	}
	text[used] = '\0';
	*text_ret = text;
	return 0;
}
