/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perfetto - writes a stream of TracePackets (perfetto.dev, protos/perfetto/trace).
 *
 *   process            the engine
 *     thread           an instant event for each record, with its arguments
 *     nvmf_req         a track that groups
 *       r435           a slice for each life, in it one for each stage
 *     bdev_io
 *       i435
 *
 * When an object starts to work for another, such as a bdev_io for its nvmf_req, a flow connects an instant on the
 * other's track with the slice of the new life.
 *
 * There is one packet sequence. Names are interned at first use. Time stamps are nanoseconds since the program started,
 * in a clock of this sequence; clock snapshots, one for each second with events, map it to the time of day.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "inspect/export/internal.h"
#include "inspect/export/proto.h"

/* Field numbers, as published. */
enum {
	TRACE_PACKET = 1,

	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED_DATA = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK_DESCRIPTOR = 60,
	PACKET_FIRST_ON_SEQUENCE = 87,

	DEFAULTS_TIMESTAMP_CLOCK_ID = 58,

	SNAPSHOT_CLOCKS = 1,
	SNAPSHOT_PRIMARY_CLOCK = 2,
	CLOCK_ID = 1,
	CLOCK_TIMESTAMP = 2,

	INTERNED_CATEGORIES = 1,
	INTERNED_EVENT_NAMES = 2,
	INTERNED_ANNOTATION_NAMES = 3,
	INTERNED_IID = 1,
	INTERNED_NAME = 2,

	DESCRIPTOR_UUID = 1,
	DESCRIPTOR_NAME = 2,
	DESCRIPTOR_PROCESS = 3,
	DESCRIPTOR_THREAD = 4,
	DESCRIPTOR_PARENT_UUID = 5,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,

	EVENT_CATEGORY_IIDS = 3,
	EVENT_DEBUG_ANNOTATIONS = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_IID = 10,
	EVENT_TRACK_UUID = 11,
	EVENT_FLOW_IDS = 47,
	EVENT_TERMINATING_FLOW_IDS = 48,

	ANNOTATION_NAME_IID = 1,
	ANNOTATION_BOOL = 2,
	ANNOTATION_UINT = 3,
	ANNOTATION_INT = 4,
	ANNOTATION_STRING = 6,
};

enum { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_INSTANT = 3 };
enum { SEQUENCE_CLEARED = 1, SEQUENCE_NEEDS_STATE = 2 };
enum { CLOCK_OURS = 64, CLOCK_REALTIME_ID = 1 };

enum { SEQUENCE = 1, INTERNED_MAX = 1 << 15 };

/* Ranges of track ids: the process, threads, types of objects; objects have object_track(). */
enum { TRACK_PROCESS = 1, TRACK_THREADS = 0x100, TRACK_TYPES = 0x10000 };

/* Texts of the schema, identified by their addresses. */
struct interned {
	const char *text;
	uint32_t field;
	uint64_t iid;
};

struct perfetto {
	struct lives *lives;
	struct proto packet, interned_data; /* interned_data: of the current packet */
	struct interned interned[INTERNED_MAX];
	uint64_t iid_count, flow_count;
	bool threads[TRACE_THREADS_MAX];
	bool types[UINT16_MAX + 1];
	uint64_t *objects; /* a hash set of tracks with a descriptor: open addressing, 0 is free */
	uint64_t object_places, object_count;
	uint64_t snapshot_second, snapshot_realtime; /* second + 1 */
};

/* ---- packets ---- */

static void packet_begin(struct perfetto *perfetto)
{
	perfetto->packet.used = perfetto->interned_data.used = 0;
}

static void packet_end(struct export *export, uint32_t flags)
{
	struct perfetto *perfetto = export->state;
	struct proto *packet = &perfetto->packet;
	uint8_t head[1 + PROTO_VARINT_BYTES_MAX] = { TRACE_PACKET << 3 | 2 };

	proto_u64(packet, PACKET_SEQUENCE_ID, SEQUENCE);
	proto_u64(packet, PACKET_SEQUENCE_FLAGS, flags);
	if (perfetto->interned_data.used)
		proto_bytes(packet, PACKET_INTERNED_DATA, perfetto->interned_data.bytes, perfetto->interned_data.used);
	out_bytes(export->out, head, 1 + proto_put_varint(head + 1, packet->used));
	out_bytes(export->out, packet->bytes, packet->used);
}

/* `text` must live as long as the reader. When the table is half full, further names become "?". */
static uint64_t intern_name(struct perfetto *perfetto, uint32_t field, const char *text)
{
	static const char too_many[] = "?";
	char clean[256];
	size_t begin;

	if (perfetto->iid_count >= INTERNED_MAX / 2)
		text = too_many;
	for (uint64_t at = ((uintptr_t)text * 0x9e3779b97f4a7c15ull >> 40) + field;; at++) {
		struct interned *place = &perfetto->interned[at % INTERNED_MAX];

		if (place->text == text && place->field == field)
			return place->iid;
		if (place->text)
			continue;
		must(perfetto->iid_count < INTERNED_MAX - 1);
		*place = (struct interned){ text, field, ++perfetto->iid_count };
		begin = proto_begin(&perfetto->interned_data, field);
		proto_u64(&perfetto->interned_data, INTERNED_IID, place->iid);
		proto_bytes(&perfetto->interned_data, INTERNED_NAME, clean,
			    text_utf8_copy(clean, sizeof(clean), text, strlen(text)));
		proto_end(&perfetto->interned_data, begin);
		return place->iid;
	}
}

/* ---- clocks ---- */

static void write_snapshot(struct export *export, uint64_t tick)
{
	struct perfetto *perfetto = export->state;
	struct proto *packet = &perfetto->packet;
	uint64_t ns = value_ns(export->reader, tick), second = ns / NS_PER_SEC + 1, realtime;
	size_t all, one;

	/* after the clock was set back, a snapshot would go back, too, and readers reject that */
	if (second <= perfetto->snapshot_second || reader_wall_ns(export->reader, tick, &realtime) != 0 ||
	    realtime <= perfetto->snapshot_realtime)
		return;
	perfetto->snapshot_second = second;
	perfetto->snapshot_realtime = realtime;
	packet_begin(perfetto);
	all = proto_begin(packet, PACKET_CLOCK_SNAPSHOT);
	one = proto_begin(packet, SNAPSHOT_CLOCKS);
	proto_u64(packet, CLOCK_ID, CLOCK_OURS);
	proto_u64(packet, CLOCK_TIMESTAMP, ns);
	proto_end(packet, one);
	one = proto_begin(packet, SNAPSHOT_CLOCKS);
	proto_u64(packet, CLOCK_ID, CLOCK_REALTIME_ID);
	proto_u64(packet, CLOCK_TIMESTAMP, realtime);
	proto_end(packet, one);
	proto_u64(packet, SNAPSHOT_PRIMARY_CLOCK, CLOCK_REALTIME_ID);
	proto_end(packet, all);
	packet_end(export, SEQUENCE_NEEDS_STATE);
}

/* ---- tracks ---- */

static uint64_t object_track(const struct reader_object *object, uint32_t id)
{
	return ((uint64_t)object->id + 1) << 40 | id;
}

static void describe_track(struct export *export, uint64_t uuid, uint64_t parent, const char *name)
{
	struct perfetto *perfetto = export->state;
	struct proto *packet = &perfetto->packet;
	char clean[128];
	size_t begin;

	packet_begin(perfetto);
	begin = proto_begin(packet, PACKET_TRACK_DESCRIPTOR);
	proto_u64(packet, DESCRIPTOR_UUID, uuid);
	proto_u64(packet, DESCRIPTOR_PARENT_UUID, parent);
	proto_bytes(packet, DESCRIPTOR_NAME, clean, text_utf8_copy(clean, sizeof(clean), name, strlen(name)));
	proto_end(packet, begin);
	packet_end(export, SEQUENCE_NEEDS_STATE);
}

static void describe_process(struct export *export)
{
	const struct reader_info *info = reader_info(export->reader);
	struct perfetto *perfetto = export->state;
	struct proto *packet = &perfetto->packet;
	size_t begin, process;

	packet_begin(perfetto);
	begin = proto_begin(packet, PACKET_TRACK_DESCRIPTOR);
	proto_u64(packet, DESCRIPTOR_UUID, TRACK_PROCESS);
	process = proto_begin(packet, DESCRIPTOR_PROCESS);
	proto_i64(packet, PROCESS_PID, info->pid);
	proto_text(packet, PROCESS_NAME, info->name);
	proto_end(packet, process);
	proto_end(packet, begin);
	packet_end(export, SEQUENCE_NEEDS_STATE);
}

static uint64_t thread_track(struct export *export, uint32_t index)
{
	struct perfetto *perfetto = export->state;
	struct proto *packet = &perfetto->packet;
	struct reader_thread row;
	char name[sizeof(row.name) + 32];
	size_t begin, thread;

	must(index < TRACE_THREADS_MAX);
	if (perfetto->threads[index])
		return TRACK_THREADS + index;
	perfetto->threads[index] = true;
	if (!reader_thread(export->reader, index, &row))
		row = (struct reader_thread){ .name = "?", .cpu = -1, .tid = (int32_t)index };
	if (row.cpu >= 0)
		snprintf(name, sizeof(name), "%s on core %d", row.name, row.cpu);
	else
		snprintf(name, sizeof(name), "%s", row.name);
	packet_begin(perfetto);
	begin = proto_begin(packet, PACKET_TRACK_DESCRIPTOR);
	proto_u64(packet, DESCRIPTOR_UUID, TRACK_THREADS + index);
	proto_u64(packet, DESCRIPTOR_PARENT_UUID, TRACK_PROCESS);
	thread = proto_begin(packet, DESCRIPTOR_THREAD);
	proto_i64(packet, THREAD_PID, reader_info(export->reader)->pid);
	proto_i64(packet, THREAD_TID, row.tid);
	proto_text(packet, THREAD_NAME, name);
	proto_end(packet, thread);
	proto_end(packet, begin);
	packet_end(export, SEQUENCE_NEEDS_STATE);
	return TRACK_THREADS + index;
}

static bool is_described(struct perfetto *perfetto, uint64_t track)
{
	uint64_t at = track * 0x9e3779b97f4a7c15ull >> 20;

	for (;; at++) {
		uint64_t *place = &perfetto->objects[at & (perfetto->object_places - 1)];

		if (*place == track)
			return true;
		if (*place)
			continue;
		*place = track;
		perfetto->object_count++;
		/* at most one track for each object that lives.c follows */
		must(perfetto->object_count <= LIVES_OBJECTS_MAX);
		return false;
	}
}

static void describe_object(struct export *export, const struct life *life)
{
	struct perfetto *perfetto = export->state;
	char name[64];

	if (is_described(perfetto, object_track(life->object, life->id)))
		return;
	if (!perfetto->types[life->object->id]) {
		perfetto->types[life->object->id] = true;
		describe_track(export, TRACK_TYPES + life->object->id, TRACK_PROCESS, life->object->name);
	}
	value_object(life->object, life->id, name, sizeof(name));
	describe_track(export, object_track(life->object, life->id), TRACK_TYPES + life->object->id, name);
}

/* ---- events ---- */

static size_t event_begin(struct export *export, uint64_t tick, uint32_t type, uint64_t track)
{
	struct perfetto *perfetto = export->state;
	struct proto *packet = &perfetto->packet;
	size_t begin;

	packet_begin(perfetto);
	proto_u64(packet, PACKET_TIMESTAMP, value_ns(export->reader, tick));
	begin = proto_begin(packet, PACKET_TRACK_EVENT);
	proto_u64(packet, EVENT_TYPE, type);
	proto_u64(packet, EVENT_TRACK_UUID, track);
	return begin;
}

static void event_end(struct export *export, size_t begin)
{
	struct perfetto *perfetto = export->state;

	proto_end(&perfetto->packet, begin);
	packet_end(export, SEQUENCE_NEEDS_STATE);
}

static void set_name(struct perfetto *perfetto, const char *category, const char *name)
{
	proto_u64(&perfetto->packet, EVENT_CATEGORY_IIDS, intern_name(perfetto, INTERNED_CATEGORIES, category));
	proto_u64(&perfetto->packet, EVENT_NAME_IID, intern_name(perfetto, INTERNED_EVENT_NAMES, name));
}

static size_t annotation_begin(struct perfetto *perfetto, const char *name)
{
	size_t begin = proto_begin(&perfetto->packet, EVENT_DEBUG_ANNOTATIONS);

	proto_u64(&perfetto->packet, ANNOTATION_NAME_IID, intern_name(perfetto, INTERNED_ANNOTATION_NAMES, name));
	return begin;
}

static void annotate_text(struct perfetto *perfetto, const char *name, const char *text, size_t bytes)
{
	size_t begin = annotation_begin(perfetto, name);

	proto_bytes(&perfetto->packet, ANNOTATION_STRING, text, bytes);
	proto_end(&perfetto->packet, begin);
}

static void annotate_u64(struct perfetto *perfetto, const char *name, uint32_t field, uint64_t number)
{
	size_t begin = annotation_begin(perfetto, name);

	proto_u64(&perfetto->packet, field, number);
	proto_end(&perfetto->packet, begin);
}

static void annotate_object(struct perfetto *perfetto, const char *name, const struct reader_object *object, uint32_t id)
{
	char text[64];

	value_object(object, id, text, sizeof(text));
	annotate_text(perfetto, name, text, strlen(text));
}

static void annotate_owner(struct export *export, uint16_t owner, uint64_t tick)
{
	struct reader_owner row;
	char text[sizeof(row.text) + 64];

	if (!reader_owner(export->reader, owner, tick, &row))
		return;
	snprintf(text, sizeof(text), "%.32s%u%s%s", row.prefix, owner, row.text[0] ? " " : "", row.text);
	annotate_text(export->state, "owner", text, strlen(text));
}

static void annotate_arg(struct perfetto *perfetto, const struct reader_arg *arg, const struct value *value)
{
	switch (value->kind) {
	case VALUE_NONE:
		break;
	case VALUE_UNSIGNED:
		annotate_u64(perfetto, arg->name, ANNOTATION_UINT, value->number);
		break;
	case VALUE_SIGNED:
		annotate_u64(perfetto, arg->name, ANNOTATION_INT, value->number);
		break;
	case VALUE_BOOL:
		annotate_u64(perfetto, arg->name, ANNOTATION_BOOL, value->number);
		break;
	case VALUE_TEXT:
		annotate_text(perfetto, arg->name, value->text, value->bytes);
		break;
	}
}

static void write_instant(struct export *export, const struct reader_event *event)
{
	struct perfetto *perfetto = export->state;
	const struct reader_point *point = event->point;
	uint64_t track = thread_track(export, event->thread);
	size_t begin = event_begin(export, event->tick, TYPE_INSTANT, track);

	if (!point) {
		set_name(perfetto, "unknown", "unknown point");
		annotate_u64(perfetto, "point", ANNOTATION_UINT, event->point_id);
	} else {
		set_name(perfetto, point->group->name, point->name);
	}
	if (event->has_life)
		annotate_object(perfetto, "object", point->object, event->object_id);
	if (event->related)
		annotate_object(perfetto, "belongs to", event->related, event->related_id);
	annotate_owner(export, event->owner, event->tick);
	if (event->shared)
		annotate_u64(perfetto, "shared tick", ANNOTATION_BOOL, true);
	for (uint32_t i = 0; point && i < point->arg_count; i++) {
		struct value value;

		value_of_arg(export->reader, &point->args[i], event->slots, &value);
		annotate_arg(perfetto, &point->args[i], &value);
	}
	event_end(export, begin);
}

/* ---- lives ---- */

static void write_slice_end(struct export *export, const struct life *life, uint64_t tick, bool of_life)
{
	struct perfetto *perfetto = export->state;
	size_t begin = event_begin(export, tick, TYPE_SLICE_END, object_track(life->object, life->id));

	if (of_life && life->what)
		annotate_text(perfetto, "what", life->what, strlen(life->what));
	if (of_life && life->has_bytes)
		annotate_u64(perfetto, "bytes", ANNOTATION_UINT, life->bytes);
	if (of_life && !life->whole)
		annotate_u64(perfetto, "moves are missing", ANNOTATION_BOOL, true);
	event_end(export, begin);
}

static void write_life_begin(struct export *export, const struct lives_step *step)
{
	struct perfetto *perfetto = export->state;
	const struct life *life = step->life;
	uint64_t flow = 0;
	size_t begin;

	describe_object(export, life);
	if (step->parent) {
		flow = ++perfetto->flow_count;
		begin = event_begin(export, step->tick, TYPE_INSTANT, object_track(step->parent->object, step->parent->id));
		set_name(perfetto, step->parent->object->name, life->object->name);
		annotate_object(perfetto, "object", life->object, life->id);
		proto_fixed64(&perfetto->packet, EVENT_FLOW_IDS, flow);
		event_end(export, begin);
	}
	begin = event_begin(export, step->tick, TYPE_SLICE_BEGIN, object_track(life->object, life->id));
	set_name(perfetto, life->object->name, life->object->name);
	annotate_object(perfetto, "object", life->object, life->id);
	if (step->parent)
		annotate_object(perfetto, "belongs to", life->parent, life->parent_id);
	annotate_owner(export, life->owner, life->began);
	if (flow)
		proto_fixed64(&perfetto->packet, EVENT_TERMINATING_FLOW_IDS, flow);
	event_end(export, begin);
}

static void write_step(struct export *export, const struct lives_step *step)
{
	struct perfetto *perfetto = export->state;
	size_t begin;

	if (step->left_stage)
		write_slice_end(export, &step->before, step->tick, false);
	if (step->ended)
		write_slice_end(export, &step->before, step->tick, true);
	if (step->began)
		write_life_begin(export, step);
	if (step->entered_stage) {
		const struct life *life = step->life;

		begin = event_begin(export, step->tick, TYPE_SLICE_BEGIN, object_track(life->object, life->id));
		set_name(perfetto, life->object->name, life->object->machine->states[life->state].name);
		event_end(export, begin);
	}
}

static void perfetto_event(struct export *export, const struct reader_event *event, bool wanted)
{
	struct perfetto *perfetto = export->state;
	struct lives_step step;

	if (!wanted)
		return;
	write_snapshot(export, event->tick);
	write_instant(export, event);
	lives_event(perfetto->lives, event, &step);
	write_step(export, &step);
}

/* ---- create, finish, destroy ---- */

static int perfetto_create(struct export *export)
{
	struct perfetto *perfetto = calloc(1, sizeof(*perfetto));
	size_t begin;

	export->state = perfetto;
	if (!perfetto || lives_create(&perfetto->lives) != 0)
		return -ENOMEM;
	perfetto->object_places = 2 * LIVES_OBJECTS_MAX;
	perfetto->objects = calloc(perfetto->object_places, sizeof(uint64_t));
	if (!perfetto->objects)
		return -ENOMEM;
	packet_begin(perfetto);
	begin = proto_begin(&perfetto->packet, PACKET_DEFAULTS);
	proto_u64(&perfetto->packet, DEFAULTS_TIMESTAMP_CLOCK_ID, CLOCK_OURS);
	proto_end(&perfetto->packet, begin);
	proto_u64(&perfetto->packet, PACKET_FIRST_ON_SEQUENCE, 1);
	packet_end(export, SEQUENCE_CLEARED);
	/* readers need a snapshot before any time stamp of this clock; the first event may come late, or never */
	write_snapshot(export, reader_info(export->reader)->start_tick);
	describe_process(export);
	return 0;
}

static int perfetto_finish(struct export *export, const struct reader_counts *counts)
{
	(void)counts; /* the format has no field for the counts */
	return out_flush(export->out);
}

static void perfetto_destroy(struct export *export)
{
	struct perfetto *perfetto = export->state;

	if (!perfetto)
		return;
	lives_destroy(perfetto->lives);
	proto_deinit(&perfetto->packet);
	proto_deinit(&perfetto->interned_data);
	free(perfetto->objects);
	free(perfetto);
}

const struct export_kind export_perfetto = {
	.name = "perfetto",
	.create = perfetto_create,
	.event = perfetto_event,
	.finish = perfetto_finish,
	.destroy = perfetto_destroy,
};
