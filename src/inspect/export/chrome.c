/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chrome - JSON in the Trace Event Format, for chrome://tracing and other tools that read it.
 *
 * The engine is a process with its threads; each record is an instant. Each type of objects with states is a process of
 * its own, and each object of the type is a thread of it. A life is a complete event with one nested event per stage,
 * written when it ends. A life that has not ended by the last event ends there, marked `unfinished`. A flow leads from
 * an object to the object that starts to work for it; both ends are written at once.
 *
 * Times are microseconds since the program started; `otherData` has the wall-clock time of the start.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "inspect/export/internal.h"

enum { TYPE_PIDS = 1 << 30 };

struct chrome {
	struct lives *lives;
	bool any; /* an event was written */
	bool threads[TRACE_THREADS_MAX];
	int32_t tids[TRACE_THREADS_MAX];
	bool types[UINT16_MAX + 1];
	uint64_t flow_count, last_tick;
};

/* `,"key":` */
static void put_key(struct out *out, const char *key)
{
	out_char(out, ',');
	out_json(out, key, strlen(key));
	out_char(out, ':');
}

static void put_text(struct out *out, const char *key, const char *text)
{
	put_key(out, key);
	out_json(out, text, strlen(text));
}

static void put_number(struct out *out, const char *key, uint64_t number)
{
	put_key(out, key);
	out_u64(out, number);
}

static void begin_event(struct export *export, const char *phase, int32_t pid, uint32_t tid)
{
	struct chrome *chrome = export->state;

	out_text(export->out, chrome->any ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
	chrome->any = true;
	out_text(export->out, phase);
	out_format(export->out, "\",\"pid\":%" PRId32 ",\"tid\":%" PRIu32, pid, tid);
}

static void put_time(struct export *export, const char *key, uint64_t ns)
{
	put_key(export->out, key);
	out_us(export->out, ns);
}

/* Write a metadata event; `kind` is process_name or thread_name. */
static void name_track(struct export *export, const char *kind, int32_t pid, uint32_t tid, const char *name)
{
	begin_event(export, "M", pid, tid);
	put_text(export->out, "name", kind);
	out_text(export->out, ",\"args\":{\"name\":");
	out_json(export->out, name, strlen(name));
	out_text(export->out, "}}");
}

/* ---- threads ---- */

static uint32_t thread_id(struct export *export, uint32_t index)
{
	struct chrome *chrome = export->state;
	struct reader_thread row;

	must(index < TRACE_THREADS_MAX);
	if (!chrome->threads[index]) {
		chrome->threads[index] = true;
		if (!reader_thread(export->reader, index, &row))
			row = (struct reader_thread){ .name = "?", .tid = (int32_t)index };
		chrome->tids[index] = row.tid;
		name_track(export, "thread_name", reader_info(export->reader)->pid, (uint32_t)row.tid, row.name);
	}
	return (uint32_t)chrome->tids[index];
}

/* Without a comma in front. */
static void put_value(struct out *out, const char *key, const struct value *value)
{
	out_json(out, key, strlen(key));
	out_char(out, ':');
	switch (value->kind) {
	case VALUE_NONE:
		out_text(out, "null");
		break;
	case VALUE_UNSIGNED:
		out_u64(out, value->number);
		break;
	case VALUE_SIGNED:
		out_format(out, "%" PRId64, (int64_t)value->number);
		break;
	case VALUE_BOOL:
		out_text(out, value->number ? "true" : "false");
		break;
	case VALUE_TEXT:
		out_json(out, value->text, value->bytes);
		break;
	}
}

static void put_object(struct out *out, const char *key, const struct reader_object *object, uint32_t id)
{
	char text[64];

	value_object(object, id, text, sizeof(text));
	put_text(out, key, text);
}

static void put_owner(struct export *export, uint16_t owner, uint64_t tick)
{
	struct reader_owner row;
	char text[sizeof(row.text) + 64];

	if (!reader_owner(export->reader, owner, tick, &row))
		return;
	snprintf(text, sizeof(text), "%.32s%u%s%s", row.prefix, owner, row.text[0] ? " " : "", row.text);
	put_text(export->out, "owner", text);
}

static void write_instant(struct export *export, const struct reader_event *event)
{
	const struct reader_point *point = event->point;
	uint32_t tid = thread_id(export, event->thread);
	struct out *out = export->out;

	begin_event(export, "i", reader_info(export->reader)->pid, tid);
	out_text(out, ",\"s\":\"t\"");
	put_time(export, "ts", value_ns(export->reader, event->tick));
	put_text(out, "name", point ? point->name : "unknown point");
	put_text(out, "cat", point ? point->group->name : "unknown");
	out_format(out, ",\"args\":{\"seq\":%" PRIu32, event->seq);
	if (event->has_life)
		put_object(out, "object", point->object, event->object_id);
	if (event->related)
		put_object(out, "belongs to", event->related, event->related_id);
	put_owner(export, event->owner, event->tick);
	if (!point)
		put_number(out, "point", event->point_id);
	/* in an object of their own: an argument may have the same name as a key above */
	out_text(out, ",\"arguments\":{");
	for (uint32_t i = 0; point && i < point->arg_count; i++) {
		struct value value;

		value_of_arg(export->reader, &point->args[i], event->slots, &value);
		if (i > 0)
			out_char(out, ',');
		put_value(out, point->args[i].name, &value);
	}
	out_text(out, "}}}");
}

/* ---- lives ---- */

static int32_t type_pid(const struct reader_object *object)
{
	return TYPE_PIDS + object->id;
}

static void begin_slice(struct export *export, const struct life *life, uint64_t from, uint64_t to, const char *name)
{
	uint64_t ns = value_ns(export->reader, from);

	begin_event(export, "X", type_pid(life->object), life->id);
	put_time(export, "ts", ns);
	put_time(export, "dur", value_ns(export->reader, to) - ns);
	put_text(export->out, "name", name);
	put_text(export->out, "cat", life->object->name);
}

static void write_stage(struct export *export, const struct life *life, uint64_t tick)
{
	begin_slice(export, life, life->entered, tick, life->object->machine->states[life->state].name);
	out_char(export->out, '}');
}

static void write_life(struct export *export, const struct life *life, uint64_t tick, bool ended)
{
	struct out *out = export->out;
	char name[128];

	snprintf(name, sizeof(name), "%.64s%s%.32s", life->what ? life->what : "", life->what ? " " : "",
		 life->object->name);
	begin_slice(export, life, life->began, tick, name);
	out_format(out, ",\"args\":{\"life\":%" PRIu64, life->serial);
	put_object(out, "object", life->object, life->id);
	if (life->parent_serial)
		put_object(out, "belongs to", life->parent, life->parent_id);
	put_owner(export, life->owner, life->began);
	if (life->has_bytes)
		put_number(out, "bytes", life->bytes);
	if (!life->whole)
		out_text(out, ",\"moves are missing\":true");
	if (!ended)
		out_text(out, ",\"unfinished\":true");
	out_text(out, "}}");
}

static void write_flow_end(struct export *export, const char *phase, const struct life *life, uint64_t tick)
{
	const struct chrome *chrome = export->state;

	begin_event(export, phase, type_pid(life->object), life->id);
	put_time(export, "ts", value_ns(export->reader, tick));
	put_number(export->out, "id", chrome->flow_count);
	put_text(export->out, "name", "caused");
	put_text(export->out, "cat", "flow");
	out_text(export->out, *phase == 'f' ? ",\"bp\":\"e\"}" : "}");
}

static void chrome_event(struct export *export, const struct reader_event *event, bool wanted)
{
	struct chrome *chrome = export->state;
	struct lives_step step;

	if (!wanted)
		return;
	write_instant(export, event);
	lives_event(chrome->lives, event, &step);
	chrome->last_tick = max_u64(chrome->last_tick, step.tick);
	if (step.left_stage)
		write_stage(export, &step.before, step.tick);
	if (step.ended)
		write_life(export, &step.before, step.tick, !step.cut);
	if (!step.began)
		return;
	if (!chrome->types[step.life->object->id]) {
		chrome->types[step.life->object->id] = true;
		name_track(export, "process_name", type_pid(step.life->object), 0, step.life->object->name);
	}
	if (step.parent) {
		chrome->flow_count++;
		write_flow_end(export, "s", step.parent, step.tick);
		write_flow_end(export, "f", step.life, step.tick);
	}
}

/* ---- from create to destroy ---- */

static int chrome_create(struct export *export)
{
	const struct reader_info *info = reader_info(export->reader);
	struct chrome *chrome = calloc(1, sizeof(*chrome));

	export->state = chrome;
	if (!chrome || lives_create(&chrome->lives) != 0)
		return -ENOMEM;
	out_text(export->out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
	name_track(export, "process_name", info->pid, (uint32_t)info->pid, info->name);
	return 0;
}

static void write_unfinished(struct life *life, void *ctx)
{
	struct export *export = ctx;
	const struct chrome *chrome = export->state;

	write_stage(export, life, max_u64(chrome->last_tick, life->entered));
	write_life(export, life, max_u64(chrome->last_tick, life->began), false);
}

static int chrome_finish(struct export *export, const struct reader_counts *counts)
{
	const struct reader_info *info = reader_info(export->reader);
	struct chrome *chrome = export->state;
	struct out *out = export->out;
	uint64_t realtime;

	lives_each(chrome->lives, write_unfinished, export);
	out_format(out, "\n],\"otherData\":{\"pid\":%" PRId32, info->pid);
	put_text(out, "program", info->name);
	put_text(out, "version", info->version);
	put_text(out, "host", info->host);
	if (reader_wall_ns(export->reader, info->start_tick, &realtime) == 0)
		put_number(out, "start_realtime_ns", realtime);
	put_number(out, "overwritten", counts->overwritten);
	put_number(out, "missing", counts->missing + counts->torn);
	put_number(out, "objects_not_followed", lives_not_followed(chrome->lives));
	out_text(out, "}}\n");
	return out_flush(out);
}

static void chrome_destroy(struct export *export)
{
	struct chrome *chrome = export->state;

	if (!chrome)
		return;
	lives_destroy(chrome->lives);
	free(chrome);
}

const struct export_kind export_chrome = {
	.name = "chrome",
	.create = chrome_create,
	.event = chrome_event,
	.finish = chrome_finish,
	.destroy = chrome_destroy,
};
