/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/mgmt/placement.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"

static const char *const reason_texts[] = {
	[PLACEMENT_UNKNOWN] = "",
	[PLACEMENT_REQUESTED] = "requested",
	[PLACEMENT_ONLY] = "only possible rank",
	[PLACEMENT_SPACE] = "most free space",
	[PLACEMENT_LOAD] = "least I/O",
	[PLACEMENT_VOLUMES] = "fewest volumes",
	[PLACEMENT_FREE_BYTES] = "most free bytes",
	[PLACEMENT_RANK] = "lowest number of equal ranks",
	[PLACEMENT_ORIGIN] = "rank of its origin",
};
static_assert(ARRAY_COUNT(reason_texts) == PLACEMENT_REASONS, "each reason has its text");

const char *placement_reason_text(enum placement_reason reason)
{
	must(reason < PLACEMENT_REASONS);
	return reason_texts[reason];
}

enum placement_reason placement_reason_parse(const char *text)
{
	for (uint32_t i = 0; i < PLACEMENT_REASONS; i++) {
		if (strcmp(reason_texts[i], text) == 0)
			return (enum placement_reason)i;
	}
	return PLACEMENT_UNKNOWN;
}

/* ---- criteria: the lowest key is the best ---- */

struct choice {
	struct placement_rank *ranks;
	uint32_t count, kept;
	uint32_t level;	     /* of the fault domain */
	uint64_t most_bytes; /* the most room of the kept ranks */
};

static uint64_t domain_key(const struct choice *choice, const struct placement_rank *rank)
{
	return rank->shared[choice->level];
}

static uint64_t space_key(const struct choice *choice, const struct placement_rank *rank)
{
	return rank->room_bytes < choice->most_bytes - choice->most_bytes / PLACEMENT_NEAR_PARTS;
}

/* 0: idle; then one more with each doubling. */
static uint64_t load_key(const struct choice *choice, const struct placement_rank *rank)
{
	uint64_t operations = min_u64(rank->operations, UINT64_MAX / PLACEMENT_IO_BYTES);
	uint64_t weight = operations * PLACEMENT_IO_BYTES, load = rank->bytes + min_u64(weight, UINT64_MAX - rank->bytes);
	uint64_t parts = load / PLACEMENT_IDLE_BYTES;

	return parts == 0 ? 0 : 64 - (uint64_t)__builtin_clzll(parts);
}

static uint64_t volumes_key(const struct choice *choice, const struct placement_rank *rank)
{
	return (uint64_t)rank->volumes + rank->published;
}

static uint64_t bytes_key(const struct choice *choice, const struct placement_rank *rank)
{
	return UINT64_MAX - rank->room_bytes;
}

static uint64_t rank_key(const struct choice *choice, const struct placement_rank *rank)
{
	return rank->rank;
}

static const struct criterion {
	enum placement_reason reason;
	uint64_t (*key)(const struct choice *choice, const struct placement_rank *rank);
} criteria[] = {
	{ PLACEMENT_SPACE, space_key },	     { PLACEMENT_LOAD, load_key }, { PLACEMENT_VOLUMES, volumes_key },
	{ PLACEMENT_FREE_BYTES, bytes_key }, { PLACEMENT_RANK, rank_key },
};

/* Keep those of the kept ranks with the lowest key. */
static void keep_best(struct choice *choice, uint64_t (*key)(const struct choice *, const struct placement_rank *))
{
	uint64_t lowest = UINT64_MAX;

	must(choice->kept > 0);
	choice->most_bytes = 0;
	for (uint32_t i = 0; i < choice->count; i++) {
		if (choice->ranks[i].is_kept)
			choice->most_bytes = max_u64(choice->most_bytes, choice->ranks[i].room_bytes);
	}
	for (uint32_t i = 0; i < choice->count; i++) {
		if (choice->ranks[i].is_kept)
			lowest = min_u64(lowest, key(choice, &choice->ranks[i]));
	}
	choice->kept = 0;
	for (uint32_t i = 0; i < choice->count; i++) {
		struct placement_rank *rank = &choice->ranks[i];

		rank->is_kept = rank->is_kept && key(choice, rank) == lowest;
		choice->kept += rank->is_kept;
	}
	must(choice->kept > 0);
}

/* Choose one of the kept ranks, by the criteria of a volume. Returns its index. */
static uint32_t decide(struct choice *choice, enum placement_reason *reason_ret)
{
	uint32_t index = 0;

	for (size_t i = 0; choice->kept > 1 && i < ARRAY_COUNT(criteria); i++) {
		keep_best(choice, criteria[i].key);
		*reason_ret = criteria[i].reason;
	}
	must(choice->kept == 1); /* no two ranks have one number */
	while (!choice->ranks[index].is_kept)
		index++;
	must(index < choice->count);
	return index;
}

/* ---- which ranks are possible ---- */

static bool is_nearly_full(const struct placement_rank *rank)
{
	return rank->is_known && !rank->is_named && rank->free_bytes < rank->total_bytes / PLACEMENT_FULL_PARTS;
}

/* Mark the possible ranks, also those without room. Those without figures count only if all are without. */
static uint32_t mark_possible(struct placement_rank *ranks, uint32_t count)
{
	uint32_t possible = 0, known = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct placement_rank *rank = &ranks[i];

		rank->is_possible = rank->is_joined && !rank->is_failed && !rank->is_excluded;
		rank->is_kept = rank->is_chosen = false;
		memset(rank->shared, 0, sizeof(rank->shared));
		possible += rank->is_possible;
		known += rank->is_possible && rank->is_known;
	}
	for (uint32_t i = 0; known > 0 && i < count; i++)
		ranks[i].is_possible = ranks[i].is_possible && ranks[i].is_known;
	return known > 0 ? known : possible;
}

/* Leave out those without room for `bytes`. Returns how many are left. */
static uint32_t drop_without_room(struct placement_rank *ranks, uint32_t count, uint64_t bytes, struct placement *placement)
{
	bool is_first = true;
	uint32_t left = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct placement_rank *rank = &ranks[i];

		if (!rank->is_possible)
			continue;
		if (rank->is_known && (is_first || rank->room_bytes > placement->most_bytes)) {
			placement->most_rank = rank->rank;
			placement->most_bytes = rank->room_bytes;
			is_first = false;
		}
		rank->is_possible = !rank->is_known || rank->room_bytes >= bytes;
		left += rank->is_possible;
	}
	return left;
}

static uint32_t drop_full(struct placement_rank *ranks, uint32_t count, struct placement *placement)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct placement_rank *rank = &ranks[i];

		if (rank->is_possible && is_nearly_full(rank)) {
			rank->is_possible = false;
			if (placement->full++ == 0)
				placement->full_rank = rank->rank;
		}
		left += rank->is_possible;
	}
	return left;
}

/* ---- a volume ---- */

int placement_choose(struct placement_rank *ranks, uint32_t count, uint64_t bytes, struct placement *placement_ret)
{
	struct choice choice = { .ranks = ranks, .count = count };

	*placement_ret = (struct placement){ 0 };
	if (mark_possible(ranks, count) == 0)
		return -ENOENT;
	if (drop_without_room(ranks, count, bytes, placement_ret) == 0)
		return -ENOSPC;
	choice.kept = drop_full(ranks, count, placement_ret);
	if (choice.kept == 0)
		return -EDQUOT;
	placement_ret->possible = choice.kept;
	placement_ret->reason = PLACEMENT_ONLY;
	for (uint32_t i = 0; i < count; i++)
		ranks[i].is_kept = ranks[i].is_possible;
	placement_ret->index = decide(&choice, &placement_ret->reason);
	ranks[placement_ret->index].is_chosen = true;
	return 0;
}

/* ---- a pool ---- */

/* How many levels from the top two domains have in common. */
static uint32_t common_levels(const char *one, const char *other)
{
	uint32_t levels = 0;

	while (levels < PLACEMENT_LEVELS_MAX && *one == '/' && *other == '/') {
		size_t bytes = 1 + strcspn(one + 1, "/");

		if (bytes != 1 + strcspn(other + 1, "/") || memcmp(one, other, bytes) != 0)
			break;
		one += bytes;
		other += bytes;
		levels++;
	}
	return levels;
}

static void note_chosen(struct choice *choice, struct placement_rank *chosen)
{
	chosen->is_chosen = true;
	chosen->is_possible = false;
	for (uint32_t i = 0; i < choice->count; i++) {
		struct placement_rank *rank = &choice->ranks[i];
		uint32_t levels = rank->is_possible ? common_levels(rank->domain, chosen->domain) : 0;

		for (uint32_t level = 0; level < levels; level++)
			rank->shared[level]++;
	}
}

/* Choose one more rank: of the possible ones in the least used fault domain, as for a volume. */
static void choose_next(struct choice *choice)
{
	enum placement_reason reason;

	choice->kept = 0;
	for (uint32_t i = 0; i < choice->count; i++) {
		choice->ranks[i].is_kept = choice->ranks[i].is_possible;
		choice->kept += choice->ranks[i].is_kept;
	}
	for (choice->level = 0; choice->kept > 1 && choice->level < PLACEMENT_LEVELS_MAX; choice->level++)
		keep_best(choice, domain_key);
	note_chosen(choice, &choice->ranks[decide(choice, &reason)]);
}

uint32_t placement_spread(struct placement_rank *ranks, uint32_t count, uint32_t wanted, struct placement *placement_ret)
{
	struct choice choice = { .ranks = ranks, .count = count };
	uint32_t chosen = 0;

	*placement_ret = (struct placement){ 0 };
	(void)mark_possible(ranks, count); /* if there are none, drop_full() leaves none */
	placement_ret->possible = drop_full(ranks, count, placement_ret);
	if (placement_ret->possible <= wanted) {
		for (uint32_t i = 0; i < count; i++)
			ranks[i].is_chosen = ranks[i].is_possible;
		return placement_ret->possible;
	}
	for (; chosen < wanted; chosen++)
		choose_next(&choice);
	return chosen;
}
