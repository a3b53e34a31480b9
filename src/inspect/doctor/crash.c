/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crash - what a core file has: why the process ended, where each thread was, and the requests in progress.
 *
 * The trace in the core is read by the source "trace", as from any file. What stands here is what the trace does not have:
 * stacks, values of a failed must(), and the requests if the trace itself is not in the core.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/core/core.h"
#include "inspect/doctor/internal.h"

enum { FRAMES_SHOWN = 12, THREADS_SHOWN = 64, FRAME_BYTES = 256, GROUPS_MAX = 64 };

bool doctor_is_core(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	Elf64_Ehdr header = { .e_type = ET_NONE };
	ssize_t got = fd >= 0 ? read(fd, &header, sizeof(header)) : -1;

	if (fd >= 0)
		close(fd);
	/* class 32 has its type at the same place: such a core is refused later, with the reason */
	return got >= 18 && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_type == ET_CORE;
}

static void put_program(struct doctor_out *out, const struct core_info *info)
{
	doctor_put(out, "path", doc_text(info->path));
	doctor_put(out, "bytes", json_integer((json_int_t)info->bytes));
	doctor_put(out, "truncated", json_boolean(info->truncated));
	doctor_put(out, "pid", json_integer(info->pid));
	doctor_put(out, "name", doc_text(info->name));
	doctor_put(out, "program", doc_text(info->program));
	doctor_put(out, "build_id", doc_text(info->build_id));
	if (info->program_why)
		doctor_put(out, "program_problem", doc_text(info->program_why));
	if (info->trace_why)
		doctor_put(out, "trace_problem", doc_text(info->trace_why));
}

static json_t *crash_json(const struct core_crash *crash)
{
	static const char *const kinds[] = {
		[CORE_NO_CRASH] = "none", [CORE_SIGNAL] = "signal", [CORE_MUST] = "must", [CORE_UNKNOWN] = "unknown"
	};
	json_t *object = doc_object();

	doc_put(object, "kind", doc_text(kinds[crash->kind]));
	doc_put(object, "signal", json_integer(crash->signal));
	doc_put(object, "signal_name", doc_text(crash->signal_name));
	doc_put(object, "sender", json_integer(crash->sender));
	doc_put(object, "tid", json_integer(crash->tid));
	doc_put(object, "text", doc_text(crash->words));
	doc_put(object, "condition", doc_text(crash->condition));
	doc_put(object, "place", doc_text(crash->place));
	doc_put(object, "values", doc_text(crash->values));
	return object;
}

static json_t *frame_json(const struct core_frame *frame)
{
	char text[FRAME_BYTES];

	if (frame->function && frame->file)
		snprintf(text, sizeof(text), "%s() at %s:%d", frame->function, frame->file, frame->line);
	else if (frame->function)
		snprintf(text, sizeof(text), "%s()", frame->function);
	else
		snprintf(text, sizeof(text), "%s+0x%llx", frame->module ? frame->module : "?",
			 (unsigned long long)frame->offset);
	return doc_text(text);
}

static json_t *threads_json(struct core *core)
{
	json_t *threads = doc_list();

	for (uint32_t i = 0; i < core_info(core)->thread_count && i < THREADS_SHOWN; i++) {
		const struct core_thread *thread = core_thread_at(core, i);
		struct core_frame frames[CORE_FRAMES_MAX];
		json_t *row = doc_object(), *stack = doc_list();
		const char *end;
		uint32_t count = core_backtrace(core, thread, frames, &end);

		for (uint32_t j = 0; j < count && j < FRAMES_SHOWN; j++)
			doc_add(stack, frame_json(&frames[j]));
		doc_put(row, "tid", json_integer(thread->tid));
		doc_put(row, "name", doc_text(thread->name));
		doc_put(row, "stack", stack);
		doc_add(threads, row);
	}
	return threads;
}

/* ---- requests in progress ---- */

/* The cell of column `key`, if it is of this kind; NULL: none. */
static const union core_cell *cell_of(const struct core_list *list, uint32_t row, const char *key, enum core_cell_kind kind)
{
	for (uint32_t i = 0; i < list->column_count; i++) {
		if (list->columns[i].kind == kind && strcmp(list->columns[i].key, key) == 0)
			return &list->cells[row * list->column_count + i];
	}
	return NULL;
}

static const char *text_of(const struct core_list *list, uint32_t row, const char *key)
{
	const union core_cell *cell = cell_of(list, row, key, CORE_CELL_TEXT);

	return cell && cell->text ? cell->text : "";
}

static void add_request(json_t *groups, const struct core_list *list, uint32_t row)
{
	const union core_cell *age = cell_of(list, row, "age_ns", CORE_CELL_NS);
	const char *stage = text_of(list, row, "stage"), *device = text_of(list, row, "device");
	int64_t age_ms = age ? (int64_t)(age->number / NS_PER_MS) : 0;
	json_t *group = NULL;
	size_t i;

	json_array_foreach (groups, i, group) {
		if (strcmp(doc_text_at(group, "stage"), stage) == 0 && strcmp(doc_text_at(group, "device"), device) == 0)
			break;
	}
	if (i == GROUPS_MAX)
		return;
	if (i == json_array_size(groups)) {
		group = doc_object();
		doc_put(group, "stage", doc_text(stage));
		doc_put(group, "device", doc_text(device));
		doc_add(groups, group);
	}
	doc_put(group, "count", json_integer(doc_number(group, "count", 0) + 1));
	if (age_ms >= doc_number(group, "age_ms", -1)) {
		doc_put(group, "age_ms", json_integer(age_ms));
		doc_put(group, "oldest", doc_text(text_of(list, row, "id")));
	}
}

/* What each reactor ran. */
static json_t *reactors_json(const struct core_list *list)
{
	json_t *rows = doc_list();

	for (uint32_t i = 0; i < list->row_count; i++) {
		json_t *row = doc_object();

		doc_put(row, "reactor", doc_text(text_of(list, i, "reactor")));
		doc_put(row, "running", doc_text(text_of(list, i, "running")));
		doc_put(row, "of", doc_text(text_of(list, i, "running_thread")));
		doc_add(rows, row);
	}
	return rows;
}

static void put_lists(struct doctor_out *out, struct core *core)
{
	struct core_list list;
	const char *name;

	for (uint32_t i = 0; (name = core_list_name(i)); i++) {
		json_t *groups;

		if (strcmp(name, "io") != 0 && strcmp(name, "reactors") != 0)
			continue;
		doctor_step(out, "reading the list %s in the core", name);
		if (!core_list(core, i, &list))
			continue;
		if (strcmp(name, "reactors") == 0) {
			doctor_put(out, "reactors", reactors_json(&list));
			continue;
		}
		groups = doc_list();
		for (uint32_t row = 0; row < list.row_count; row++)
			add_request(groups, &list, row);
		doctor_put(out, "requests", groups);
		if (list.problem)
			doctor_put(out, "requests_problem", doc_text(list.problem));
	}
}

void doctor_look_core(struct doctor_out *out, const void *ctx)
{
	struct core_crash crash;
	struct fathom_fault why;
	json_t *remarks = doc_list();
	struct core *core;

	(void)unsetenv("DEBUGINFOD_URLS"); /* libdw would ask a server of the network */
	doctor_step(out, "opening %s", (const char *)ctx);
	if (core_open(ctx, NULL, &core, &why) != 0) {
		doctor_put(out, "refused", doc_text(why.text));
		json_decref(remarks);
		return;
	}
	core_load(core);
	put_program(out, core_info(core));
	doctor_step(out, "reading the crash in the core");
	core_crash(core, &crash);
	doctor_put(out, "crash", crash_json(&crash));
	doctor_step(out, "reading the stacks in the core");
	doctor_put(out, "threads", threads_json(core));
	put_lists(out, core);
	for (uint32_t i = 0; i < core_info(core)->remark_count; i++)
		doc_add(remarks, doc_text(core_remark_at(core, i)));
	doctor_put(out, "remarks", remarks);
	core_close(core);
}
