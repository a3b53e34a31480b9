/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * progress - what was in progress, by the trace in the core: requests, I/Os of block devices, all else that has a story.
 *
 * It needs neither the program nor its debug information. The list `io` has the same columns as with them; what only the
 * program's memory has is left out: addresses, and the full name of the host.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/nvme/opcode.h"
#include "inspect/core/internal.h"
#include "inspect/core/lists.h"
#include "inspect/trace/trace_file.h"

enum { ARGS_BYTES = 256 };

static uint64_t ns_until_now(const struct reader *trace, uint64_t tick)
{
	uint64_t now = reader_now(trace);

	return now > tick ? reader_ns_from_ticks(trace, now - tick) : 0;
}

static const char *stage_of(const struct reader_story *story)
{
	const struct reader_machine *machine = story->object->machine;

	return machine && story->state < machine->state_count ? machine->states[story->state].name : "?";
}

static const char *owner_of(struct core_rows *rows, const struct reader_story *story)
{
	struct reader_owner owner;

	if (!reader_owner(rows->layout->core->trace, story->owner, story->begin_tick, &owner) || !owner.text[0])
		return NULL;
	return core_keep_text(rows->layout->core, owner.text, sizeof(owner.text));
}

/* An argument of the story by its name; 0: it has none. */
static uint64_t number_of(const struct reader_story *story, const char *name)
{
	for (uint32_t i = 0; i < story->object->story_arg_count; i++) {
		if (strcmp(story->object->story_args[i].name, name) == 0)
			return reader_arg_value(&story->object->story_args[i], story->args);
	}
	return 0;
}

/* ---- all ---- */

static const struct core_column progress_columns[] = {
	{ "ID", "id", CORE_CELL_TEXT },		 { "OBJECT", "object", CORE_CELL_TEXT },
	{ "STAGE", "stage", CORE_CELL_TEXT },	 { "FOR", "stage_ns", CORE_CELL_NS },
	{ "AGE", "age_ns", CORE_CELL_NS },	 { "AT LEAST", "partial", CORE_CELL_FLAG },
	{ "PART OF", "parent", CORE_CELL_TEXT }, { "OF", "owner", CORE_CELL_TEXT },
	{ "WHAT", "args", CORE_CELL_TEXT },
};

static void add_arg(struct core_rows *rows, const struct reader_arg *arg, uint64_t value, char *text)
{
	const struct reader *trace = rows->layout->core->trace;
	size_t used = strlen(text), bytes;
	const char *label = arg->labels ? reader_label(arg->labels, (int64_t)value) : NULL;
	bool is_hex = arg->type >= READER_HEX8 && arg->type <= READER_PTR;

	used += (size_t)snprintf(text + used, ARGS_BYTES - used, "%s%s ", used ? ", " : "", arg->name);
	if (used >= ARGS_BYTES)
		return;
	if (label) {
		snprintf(text + used, ARGS_BYTES - used, "%s", label);
	} else if (arg->type == READER_STR) {
		label = reader_string(trace, (uint32_t)value, &bytes);
		snprintf(text + used, ARGS_BYTES - used, "%.*s", (int)min_u64(bytes, ARGS_BYTES), label);
	} else {
		snprintf(text + used, ARGS_BYTES - used, is_hex ? "0x%" PRIx64 : "%" PRIu64, value);
	}
}

static const char *args_of(struct core_rows *rows, const struct reader_story *story)
{
	char text[ARGS_BYTES] = "";

	for (uint32_t i = 0; i < story->object->story_arg_count; i++) {
		const struct reader_arg *arg = &story->object->story_args[i];

		if (arg->type < READER_OBJ) /* the parent has a column */
			add_arg(rows, arg, reader_arg_value(arg, story->args), text);
	}
	return core_keep_text(rows->layout->core, text, sizeof(text));
}

static void fill_progress(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	const struct reader *trace = layout->core->trace;
	struct reader_walk walk = { 0 };
	struct reader_story story;

	while (reader_story_next(trace, &walk, &story)) {
		core_add_text(rows, core_format(layout, "%s%u", story.object->prefix, story.id));
		core_add_text(rows, story.object->name);
		core_add_text(rows, stage_of(&story));
		core_add_ns(rows, ns_until_now(trace, story.entered_tick));
		core_add_ns(rows, ns_until_now(trace, story.begin_tick));
		core_add_number(rows, story.partial);
		core_add_text(rows,
			      story.parent ? core_format(layout, "%s%u", story.parent->prefix, story.parent_id) : NULL);
		core_add_text(rows, owner_of(rows, &story));
		core_add_text(rows, args_of(rows, &story));
	}
}

const struct core_list_kind core_in_progress = {
	.name = "in-progress",
	.about = "everything in progress that the trace shows: requests, I/Os of devices, calls",
	.by_trace = true,
	CORE_COLUMNS(progress_columns),
	.fill = fill_progress,
};

/* ---- requests of hosts ---- */

struct stories {
	struct reader_story *rows;
	size_t count, room;
};

static void add_story(struct stories *stories, const struct reader_story *story)
{
	if (stories->count == stories->room) {
		stories->room = stories->room ? 2 * stories->room : 64;
		stories->rows = realloc(stories->rows, stories->room * sizeof(*stories->rows));
		must(stories->rows);
	}
	stories->rows[stories->count++] = *story;
}

static int compare_ages(const void *left, const void *right)
{
	const struct reader_story *a = left, *b = right;

	if (a->begin_tick != b->begin_tick)
		return a->begin_tick < b->begin_tick ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static int compare_parents(const void *left, const void *right)
{
	const struct reader_story *a = left, *b = right;

	return a->parent_id < b->parent_id ? -1 : a->parent_id > b->parent_id;
}

static const char *opcode_of(struct core_rows *rows, uint64_t opcode, bool is_admin)
{
#define CASE(name, value, text)                                                                                            \
	case value:                                                                                                        \
		return #name;
	if (is_admin) {
		switch (opcode) {
			NVME_ADMIN_OPCODES(CASE)
		}
	} else {
		switch (opcode) {
			NVME_NVM_OPCODES(CASE)
		}
	}
#undef CASE
	return core_format(rows->layout, "0x%02" PRIx64, opcode);
}

/* The cells of the I/O of a block device that is a part of the request. NULL: none is under way. */
static void add_device_io(struct core_rows *rows, const struct reader_story *io)
{
	core_add_text(rows, io ? owner_of(rows, io) : NULL);
	core_add_text(rows, io ? core_format(rows->layout, "%s%u", io->object->prefix, io->id) : NULL);
	core_add_number(rows, io ? number_of(io, "block_index") : 0);
	core_add_number(rows, io ? number_of(io, "block_count") : 0);
	core_add_text(rows, io ? stage_of(io) : NULL);
	core_add_ns(rows, io ? ns_until_now(rows->layout->core->trace, io->entered_tick) : 0);
}

static void add_request(struct core_rows *rows, const struct reader_story *story, const struct reader_story *io)
{
	const struct reader *trace = rows->layout->core->trace;
	const char *owner = owner_of(rows, story), *queue = owner ? strstr(owner, " qid:") : NULL;
	uint64_t qid = queue ? strtoul(queue + strlen(" qid:"), NULL, 10) : 0;

	core_add_number(rows, 0);
	core_add_text(rows, core_format(rows->layout, "%s%u", story->object->prefix, story->id));
	core_add_text(rows, opcode_of(rows, number_of(story, "opcode"), qid == 0));
	core_add_number(rows, number_of(story, "cid"));
	core_add_number(rows, number_of(story, "nsid"));
	core_add_number(rows, number_of(story, "length"));
	core_add_text(rows, stage_of(story));
	core_add_ns(rows, ns_until_now(trace, story->entered_tick));
	core_add_ns(rows, ns_until_now(trace, story->begin_tick));
	add_device_io(rows, io);
	core_add_number(rows, qid);
	core_add_text(rows, owner ? core_format(rows->layout, "%.*s", (int)strcspn(owner, " "), owner) : NULL);
	core_add_text(rows, NULL);
}

void core_fill_io_by_trace(struct core_rows *rows)
{
	const struct reader *trace = rows->layout->core->trace;
	struct stories requests = { 0 }, parts = { 0 };
	const struct reader_object *object = NULL;
	struct reader_walk walk = { 0 };
	struct reader_story story;

	while (reader_story_next(trace, &walk, &story)) {
		if (strcmp(story.object->name, "nvmf_req") == 0)
			add_story(&requests, &story);
		else if (strcmp(story.object->name, "bdev_io") == 0 && story.parent &&
			 strcmp(story.parent->name, "nvmf_req") == 0)
			add_story(&parts, &story);
	}
	if (requests.count)
		qsort(requests.rows, requests.count, sizeof(*requests.rows), compare_ages);
	if (parts.count)
		qsort(parts.rows, parts.count, sizeof(*parts.rows), compare_parents);
	for (size_t i = 0; i < requests.count; i++) {
		struct reader_story key = { .parent_id = requests.rows[i].id };

		object = requests.rows[i].object;
		add_request(rows, &requests.rows[i],
			    parts.count ? bsearch(&key, parts.rows, parts.count, sizeof(key), compare_parents) : NULL);
	}
	if (reader_stories_outside_file(trace, object))
		rows->problem =
			"some requests were outside of the trace's memory: whether they were in progress is not known";
	free(requests.rows);
	free(parts.rows);
}
