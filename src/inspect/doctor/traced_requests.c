/* SPDX-License-Identifier: BSD-2-Clause */
/* traced_requests - requests under way, in groups of one stage and one owner; ended requests that the file kept. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/doctor/internal.h"
#include "inspect/trace/lives.h"

enum { GROUPS_MAX = 512, KEPT_MAX = 256, KEY_BYTES = 512, OLD_MS = 1000 };

static uint64_t ms_since(const struct reader *reader, uint64_t tick, uint64_t now)
{
	return now > tick ? reader_ns_from_ticks(reader, now - tick) / NS_PER_MS : 0;
}

static const char *state_name(const struct reader_object *object, uint32_t state)
{
	return object->machine && state < object->machine->state_count ? object->machine->states[state].name : "?";
}

static bool is_resting_state(const struct reader_object *object, uint32_t state)
{
	return object->machine && state < object->machine->state_count && object->machine->states[state].resting;
}

/* The owner's text; "": none. */
static void owner_text(const struct reader *reader, uint16_t id, uint64_t tick, char to[READER_OWNER_TEXT_BYTES])
{
	struct reader_owner owner;

	to[0] = '\0';
	if (reader_owner(reader, id, tick, &owner))
		memcpy(to, owner.text, READER_OWNER_TEXT_BYTES);
}

/* ---- under way ---- */

static json_t *group_of(json_t *groups, const struct reader *reader, const struct reader_story *story)
{
	char owner[READER_OWNER_TEXT_BYTES], key[KEY_BYTES];
	json_t *group;

	owner_text(reader, story->owner, story->begin_tick, owner);
	snprintf(key, sizeof(key), "%s|%s|%s", story->object->name, state_name(story->object, story->state), owner);
	for (char *byte = key; *byte; byte++)
		*byte = *byte & 0x80 ? '?' : *byte;
	group = json_object_get(groups, key);
	if (group || json_object_size(groups) >= GROUPS_MAX)
		return group;
	group = doc_object();
	doc_put(group, "object", doc_text(story->object->name));
	doc_put(group, "stage", doc_text(state_name(story->object, story->state)));
	doc_put(group, "owner", doc_text(owner));
	doc_put(group, "resting", json_boolean(is_resting_state(story->object, story->state)));
	doc_put(groups, key, group);
	return group;
}

static void add_story(json_t *group, const struct reader *reader, const struct reader_story *story, uint64_t now)
{
	uint64_t stage_ms = ms_since(reader, story->entered_tick, now), age_ms = ms_since(reader, story->begin_tick, now);
	char id[64];

	doc_put(group, "count", json_integer(doc_number(group, "count", 0) + 1));
	if (stage_ms >= OLD_MS)
		doc_put(group, "old", json_integer(doc_number(group, "old", 0) + 1));
	if (stage_ms >= HUNG_MS)
		doc_put(group, "hung", json_integer(doc_number(group, "hung", 0) + 1));
	if ((int64_t)stage_ms < doc_number(group, "stage_ms", -1))
		return;
	snprintf(id, sizeof(id), "%s%u", story->object->prefix, story->id);
	doc_put(group, "stage_ms", json_integer((json_int_t)stage_ms));
	doc_put(group, "age_ms", json_integer((json_int_t)age_ms));
	doc_put(group, "oldest", doc_text(id));
	if (story->parent) {
		snprintf(id, sizeof(id), "%s%u", story->parent->prefix, story->parent_id);
		doc_put(group, "oldest_of", doc_text(id));
	}
}

/* The requests that have an I/O under way: a set of texts, { "r353": true }. NULL: some I/Os are not in the file. */
static json_t *with_io(const struct reader *reader)
{
	struct reader_walk walk = { 0 };
	struct reader_story story;
	json_t *set = doc_object();
	char id[64];

	while (reader_story_next(reader, &walk, &story)) {
		if (!story.parent)
			continue;
		snprintf(id, sizeof(id), "%s%u", story.parent->prefix, story.parent_id);
		doc_put(set, id, json_true());
		if (reader_stories_outside_file(reader, story.object) > 0) {
			json_decref(set);
			return NULL;
		}
	}
	return set;
}

/* Count a request that waits for long, and for which no I/O is under way. */
static void add_without_io(json_t *group, const struct reader *reader, const struct reader_story *story, const json_t *set,
			   uint64_t now)
{
	char id[64];

	snprintf(id, sizeof(id), "%s%u", story->object->prefix, story->id);
	if (set && ms_since(reader, story->entered_tick, now) >= HUNG_MS && !json_object_get(set, id))
		doc_put(group, "without_io", json_integer(doc_number(group, "without_io", 0) + 1));
}

json_t *traced_under_way(const struct reader *reader)
{
	json_t *groups = doc_object(), *list = doc_list(), *set, *group;
	uint64_t now = reader_now(reader);
	struct reader_walk walk = { 0 };
	struct reader_story story;
	const char *key;

	while (reader_story_next(reader, &walk, &story)) {
		group = group_of(groups, reader, &story);
		if (group)
			add_story(group, reader, &story, now);
	}
	/* afterwards: a request of the first walk whose I/O began later is not counted */
	set = with_io(reader);
	walk = (struct reader_walk){ 0 };
	while (reader_story_next(reader, &walk, &story)) {
		group = group_of(groups, reader, &story);
		if (group)
			add_without_io(group, reader, &story, set, now);
	}
	json_decref(set);
	json_object_foreach (groups, key, group)
		doc_add(list, json_incref(group));
	json_decref(groups);
	return list;
}

/* ---- kept ---- */

/* The status of a failed request, from its records. */
static void put_status(const struct reader *reader, const struct reader_exemplar *exemplar, json_t *row)
{
	struct reader_event event;

	for (uint32_t i = 0; i < exemplar->record_count; i++) {
		if (!reader_exemplar_event(reader, exemplar, i, &event) || !event.point)
			continue;
		for (uint32_t j = 0; j < event.point->arg_count; j++) {
			const struct reader_arg *arg = &event.point->args[j];
			const char *label = arg->labels
						    ? reader_label(arg->labels, (int64_t)reader_arg_value(arg, event.slots))
						    : NULL;

			if (label && strcmp(arg->name, "status") == 0)
				doc_put(row, "status", doc_text(label));
		}
	}
}

static json_t *kept_json(const struct reader *reader, const struct reader_exemplar *exemplar, uint64_t now)
{
	const struct reader_story *story = &exemplar->stories[0];
	char text[READER_OWNER_TEXT_BYTES], id[64];
	json_t *row = doc_object(), *stages = doc_object();

	snprintf(id, sizeof(id), "%s%u", story->object->prefix, story->id);
	doc_put(row, "id", doc_text(id));
	doc_put(row, "failed", json_boolean(exemplar->failed));
	doc_put(row, "ago_ms", json_integer((json_int_t)ms_since(reader, exemplar->end_ticks[0], now)));
	doc_put(row, "spent_us", json_real((double)reader_ns_from_ticks(reader, exemplar->spent_ticks) / 1e3));
	owner_text(reader, story->owner, story->begin_tick, text);
	doc_put(row, "owner", doc_text(text));
	for (uint32_t i = 0; i < exemplar->stays[0].count; i++)
		doc_put(stages, state_name(story->object, exemplar->stays[0].states[i]),
			json_real((double)reader_ns_from_ticks(reader, exemplar->stays[0].ticks[i]) / 1e3));
	doc_put(row, "stages_us", stages);
	if (exemplar->story_count > 1) {
		const struct reader_story *io = &exemplar->stories[1];

		owner_text(reader, io->owner, io->begin_tick, text);
		doc_put(row, "device", doc_text(text));
		doc_put(row, "device_us",
			json_real((double)reader_ns_from_ticks(reader, exemplar->end_ticks[1] > io->begin_tick
									       ? exemplar->end_ticks[1] - io->begin_tick
									       : 0) /
				  1e3));
	} else if (strcmp(story->object->name, "bdev_io") == 0) {
		doc_put(row, "device", doc_text(text));
		doc_put(row, "device_us", json_real((double)reader_ns_from_ticks(reader, exemplar->spent_ticks) / 1e3));
	}
	if (exemplar->failed)
		put_status(reader, exemplar, row);
	return row;
}

json_t *traced_kept(const struct reader *reader)
{
	struct reader_exemplar_walk walk = { 0 };
	struct reader_exemplar *exemplar = calloc(1, sizeof(*exemplar));
	uint64_t now = reader_now(reader);
	json_t *list = doc_list();

	must(exemplar);
	while (reader_exemplar_next(reader, &walk, exemplar) && json_array_size(list) < 4 * KEPT_MAX) {
		if (exemplar->story_count > 0 && ms_since(reader, exemplar->end_ticks[0], now) <= RECENT_MS)
			doc_add(list, kept_json(reader, exemplar, now));
	}
	free(exemplar);
	return list;
}
