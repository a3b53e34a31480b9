/* SPDX-License-Identifier: BSD-2-Clause */
/* The shares of a pool on its ranks: their states in the record, and as objects that are traced. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"

static const char *const words[] = {
	[MGMT_SHARE_ABSENT] = "absent",	    [MGMT_SHARE_EXTENDING] = "extending",
	[MGMT_SHARE_REMOVING] = "removing", [MGMT_SHARE_UP] = "up",
	[MGMT_SHARE_DRAINING] = "draining", [MGMT_SHARE_DRAINED] = "drained",
	[MGMT_SHARE_EXCLUDED] = "excluded",
};

const char *catalog_share_word(enum mgmt_share_state state)
{
	return words[state];
}

int catalog_share_state(const char *word)
{
	for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
		if (i != MGMT_SHARE_ABSENT && strcmp(words[i], word) == 0)
			return (int)i;
	}
	return -1;
}

struct catalog_use catalog_use(const struct catalog_pool_record *record, uint32_t index)
{
	must(index < record->place_count);
	if (record->uses)
		return record->uses[index];
	return (struct catalog_use){ .state = MGMT_SHARE_UP, .since_ns = record->created_ns };
}

struct catalog_use *catalog_copy_uses(const struct catalog_pool_record *record)
{
	struct catalog_use *uses = calloc(record->place_count, sizeof(*uses));

	for (uint32_t i = 0; uses && i < record->place_count; i++)
		uses[i] = catalog_use(record, i);
	return uses;
}

int catalog_share_index(const struct catalog_pool *pool, uint32_t rank)
{
	for (uint32_t i = 0; i < pool->record.place_count; i++) {
		if (pool->record.places[i].rank == rank)
			return (int)i;
	}
	return -1;
}

bool catalog_share_is_up(const struct catalog_pool *pool, uint32_t rank)
{
	int index = catalog_share_index(pool, rank);

	return index >= 0 && catalog_use(&pool->record, (uint32_t)index).state == MGMT_SHARE_UP;
}

static bool is_changing(enum mgmt_share_state state)
{
	return state == MGMT_SHARE_EXTENDING || state == MGMT_SHARE_REMOVING;
}

bool catalog_share_changes(const struct catalog_pool *pool, uint32_t index)
{
	return is_changing(catalog_use(&pool->record, index).state);
}

uint32_t catalog_changing_shares(const struct catalog_pool *pool)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < pool->record.place_count; i++)
		count += catalog_share_changes(pool, i);
	return count;
}

enum mgmt_share_state catalog_changing_state(const struct catalog_pool *pool)
{
	for (uint32_t i = 0; i < pool->record.place_count; i++) {
		if (catalog_share_changes(pool, i))
			return catalog_use(&pool->record, i).state;
	}
	return MGMT_SHARE_UP;
}

/* ---- layouts ---- */

int catalog_layout(const struct catalog_pool *pool, uint32_t room, struct catalog_layout *layout_ret)
{
	const struct catalog_pool_record *record = &pool->record;
	size_t count = (size_t)record->place_count + room;
	struct catalog_layout layout = { .places = calloc(count, sizeof(*layout.places)),
					 .uses = calloc(count, sizeof(*layout.uses)),
					 .count = record->place_count };

	if (!layout.places || !layout.uses) {
		catalog_layout_free(&layout);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < record->place_count; i++) {
		layout.places[i] = record->places[i];
		layout.uses[i] = catalog_use(record, i);
	}
	*layout_ret = layout;
	return 0;
}

void catalog_layout_free(struct catalog_layout *layout)
{
	free(layout->places);
	free(layout->uses);
	*layout = (struct catalog_layout){ 0 };
}

void catalog_layout_add(struct catalog_layout *layout, const struct catalog_place *place, enum mgmt_share_state state)
{
	uint32_t at = layout->count++;

	for (; at > 0 && layout->places[at - 1].rank > place->rank; at--) {
		layout->places[at] = layout->places[at - 1];
		layout->uses[at] = layout->uses[at - 1];
	}
	must(at == 0 || layout->places[at - 1].rank < place->rank);
	layout->places[at] = *place;
	layout->uses[at] = (struct catalog_use){ .state = state, .since_ns = clock_realtime_ns() };
}

void catalog_layout_replace(struct catalog_layout *layout, const struct catalog_place *place)
{
	uint32_t at = 0;

	while (at < layout->count && layout->places[at].rank != place->rank)
		at++;
	must(at < layout->count);
	must(!is_changing(layout->uses[at].state));
	layout->uses[at] =
		(struct catalog_use){ .state = MGMT_SHARE_EXTENDING, .since_ns = clock_realtime_ns(), .has_former = true };
	memcpy(layout->uses[at].former, layout->places[at].member, sizeof(layout->uses[at].former));
	layout->places[at] = *place;
}

void catalog_layout_move(struct catalog_layout *layout, uint32_t index, enum mgmt_share_state state)
{
	struct catalog_use *use = &layout->uses[index];

	must(index < layout->count);
	if (state == MGMT_SHARE_ABSENT && use->has_former) {
		memcpy(layout->places[index].member, use->former, sizeof(use->former));
		state = MGMT_SHARE_EXCLUDED;
	}
	if (state != MGMT_SHARE_ABSENT) {
		use->state = state;
		use->since_ns = clock_realtime_ns();
		use->has_former = use->has_former && is_changing(state);
		return;
	}
	layout->count--;
	memmove(&layout->places[index], &layout->places[index + 1], (layout->count - index) * sizeof(layout->places[0]));
	memmove(&layout->uses[index], &layout->uses[index + 1], (layout->count - index) * sizeof(layout->uses[0]));
}

int catalog_set_layout(struct catalog *catalog, struct catalog_pool *pool, struct catalog_layout *layout,
		       struct fathom_fault *why)
{
	struct catalog_pool_record next = pool->record;
	int error;

	next.places = layout->places;
	next.uses = layout->uses;
	next.place_count = layout->count;
	error = catalog_store_pool(catalog, pool, &next, why);
	if (!error)
		*layout = (struct catalog_layout){ 0 };
	return error;
}

/* ---- traced objects ---- */

struct catalog_share *catalog_make_shares(const struct catalog_pool *pool, const struct catalog_pool_record *record)
{
	struct catalog_share *shares = calloc(record->place_count, sizeof(*shares));

	for (uint32_t i = 0; shares && i < record->place_count; i++) {
		int old = pool->shares ? catalog_share_index(pool, record->places[i].rank) : -1;

		if (old >= 0) {
			shares[i] = pool->shares[old];
			continue;
		}
		shares[i].rank = record->places[i].rank;
		trace_object_init(&shares[i].trace, TRACE_OBJECT_CATALOG_SHARE);
	}
	return shares;
}

static bool has_share(const struct catalog_pool *pool, uint32_t rank)
{
	return catalog_share_index(pool, rank) >= 0;
}

void catalog_take_shares(struct catalog_pool *pool, struct catalog_share *shares, uint32_t old_count)
{
	struct catalog_share *old = pool->shares;

	for (uint32_t i = 0; i < old_count; i++) {
		if (!has_share(pool, old[i].rank))
			mgmt_share_state_move(reactor_tick(), &old[i], MGMT_SHARE_ABSENT);
	}
	free(old);
	pool->shares = shares;
	for (uint32_t i = 0; i < pool->record.place_count; i++) {
		enum mgmt_share_state state = catalog_use(&pool->record, i).state;

		if (shares[i].state != state)
			mgmt_share_state_move(reactor_tick(), &shares[i], state);
	}
}
