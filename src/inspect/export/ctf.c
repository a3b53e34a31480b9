/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctf - Common Trace Format 1.8: a directory with `metadata` and a stream file for each thread.
 *
 * A packet holds consecutive events of one thread. Its counter of discarded events has the number lost since the
 * previous packet, by the thread's sequence numbers. Where records of the rare ring are older than the whole I/O ring,
 * events are missing in front of each of them; a packet for each would be exact, but would cause ten thousand warnings.
 * Therefore a packet with gaps holds PACKET_EVENTS_WITH_GAPS events.
 *
 * Readers merge streams by time stamp, and time stamps of a stream must not decrease; but a record's tick may decrease
 * (`shared`), and ticks of two threads may be equal. So the time stamp is not the tick, which is in the event's context:
 * it is the highest nanosecond so far, plus one if the event's thread differs from that of the previous event. This
 * gives the order of `fathom trace show`.
 */
#include "inspect/export/ctf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

enum {
	PACKET_BYTES_MAX = 1 << 19,
	PACKET_BYTES_FULL = 1 << 18, /* start a new packet beyond this */
	PACKET_EVENTS_WITH_GAPS = 1 << 10,
	EVENT_BYTES_MAX = READER_ARGS_MAX * (VALUE_TEXT_BYTES_MAX + 1) + 1024,
};
static_assert(PACKET_BYTES_FULL + EVENT_BYTES_MAX <= PACKET_BYTES_MAX,
	      "an event always fits into a packet that is not full");

struct stream {
	int fd; /* 0: no event yet */
	uint8_t *packet;
	size_t used;
	size_t fields; /* offset in the packet of the context's numbers, which end_packet() fills in */
	uint64_t begin_ns, end_ns, event_count;
	uint64_t discarded, discarded_before; /* up to the last event; up to the packet's beginning */
	struct reader_thread thread;
};

struct ctf {
	struct stream streams[TRACE_THREADS_MAX];
	uint64_t lost[TRACE_THREADS_MAX];     /* number of lost events so far */
	uint32_t next_seq[TRACE_THREADS_MAX]; /* expected in the next event */
	uint64_t last_ns;
	uint32_t last_thread;
	uint8_t uuid[CTF_UUID_BYTES];
	int error; /* the first error; negative errno */
};

/* Limit the time: a damaged file may have any tick. */
static uint64_t time_of(const struct reader *reader, uint64_t tick)
{
	return min_u64(value_ns(reader, tick), BIT(CTF_NS_BITS) - 1);
}

/* ---- packets ---- */

static void put_uint(struct stream *stream, uint64_t number, size_t bytes)
{
	must(stream->used + bytes <= PACKET_BYTES_MAX);
	for (size_t i = 0; i < bytes; i++, number >>= 8)
		stream->packet[stream->used++] = (uint8_t)number;
}

/*
 * A NUL inside the string becomes '?', since it would end the string. An empty string becomes "-": babeltrace2 2.0.4
 * shows the string of an earlier event in place of an empty one (fixed in later versions).
 */
static void put_ctf_string(struct stream *stream, const char *text, size_t bytes)
{
	if (bytes == 0) {
		text = "-";
		bytes = 1;
	}
	must(stream->used + bytes < PACKET_BYTES_MAX);
	for (size_t i = 0; i < bytes; i++)
		stream->packet[stream->used++] = text[i] ? (uint8_t)text[i] : '?';
	stream->packet[stream->used++] = 0;
}

static void put_ctf_text(struct stream *stream, const char *text)
{
	put_ctf_string(stream, text, strlen(text));
}

static void begin_packet(struct ctf *ctf, struct stream *stream, uint64_t begin_ns)
{
	stream->used = 0;
	stream->event_count = 0;
	stream->discarded_before = stream->discarded;
	stream->begin_ns = stream->end_ns = begin_ns;
	put_uint(stream, CTF_MAGIC, 4);
	memcpy(stream->packet + stream->used, ctf->uuid, CTF_UUID_BYTES);
	stream->used += CTF_UUID_BYTES;
	put_uint(stream, 0, 4);
	put_uint(stream, stream->thread.index, 8);
	stream->fields = stream->used;
	for (int i = 0; i < 5; i++)
		put_uint(stream, 0, 8);
	put_uint(stream, (uint32_t)stream->thread.cpu, 4);
	put_uint(stream, (uint32_t)stream->thread.tid, 4);
	put_ctf_text(stream, stream->thread.name);
}

static void end_packet(struct ctf *ctf, struct stream *stream)
{
	size_t bytes = stream->used;

	stream->used = stream->fields;
	put_uint(stream, stream->begin_ns, 8);
	put_uint(stream, stream->end_ns, 8);
	put_uint(stream, bytes * 8, 8);
	put_uint(stream, bytes * 8, 8);
	put_uint(stream, stream->discarded, 8);
	if (ctf->error == 0)
		ctf->error = file_write(stream->fd, stream->packet, bytes);
}

static int create_ctf_file(const struct export *export, const char *name)
{
	char path[PATH_MAX + 64];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", export->temporary, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return fd < 0 ? -errno : fd;
}

static void begin_stream(struct export *export, struct stream *stream, uint32_t index)
{
	struct ctf *ctf = export->state;
	char name[32];
	int rc;

	if (!reader_thread(export->reader, index, &stream->thread))
		stream->thread = (struct reader_thread){ .name = "?", .cpu = -1 };
	stream->thread.index = index;
	snprintf(name, sizeof(name), "thread_%u", index);
	rc = create_ctf_file(export, name);
	stream->packet = malloc(PACKET_BYTES_MAX);
	must(stream->packet);
	stream->fd = rc < 0 ? -1 : rc;
	if (rc < 0 && ctf->error == 0)
		ctf->error = rc;
	/* an empty packet with nothing discarded: readers then report events lost before the first one */
	begin_packet(ctf, stream, time_of(export->reader, stream->thread.attached_tick));
	if (stream->begin_ns > ctf->last_ns)
		stream->begin_ns = stream->end_ns = ctf->last_ns;
	end_packet(ctf, stream);
	stream->used = 0;
}

/* ---- events ---- */

static void put_context(const struct reader *reader, struct stream *stream, const struct reader_event *event)
{
	struct reader_owner owner;
	char text[sizeof(owner.text) + 64] = "";

	put_uint(stream, event->tick, 8);
	put_uint(stream, event->seq, 4);
	put_uint(stream, event->shared, 1);
	if (reader_owner(reader, event->owner, event->tick, &owner))
		snprintf(text, sizeof(text), "%.32s%u%s%s", owner.prefix, event->owner, owner.text[0] ? " " : "",
			 owner.text);
	put_ctf_text(stream, text);
	text[0] = '\0';
	if (event->has_life)
		value_object(event->point->object, event->object_id, text, sizeof(text));
	put_ctf_text(stream, text);
	text[0] = '\0';
	if (event->has_life && event->related)
		value_object(event->related, event->related_id, text, sizeof(text));
	put_ctf_text(stream, text);
	put_uint(stream, event->has_life ? reader_ns_from_ticks(reader, event->dwell_ticks) : 0, 8);
	put_uint(stream, event->has_life ? reader_ns_from_ticks(reader, event->total_ticks) : 0, 8);
	put_uint(stream, event->has_life && event->total_partial, 1);
}

static void put_ctf_arg(const struct reader *reader, struct stream *stream, const struct reader_arg *arg,
			const uint32_t *slots)
{
	struct value value;

	switch (arg->type) {
	case READER_STR:
	case READER_OBJ:
	case READER_REF:
		value_of_arg(reader, arg, slots, &value);
		put_ctf_string(stream, value.text, value.kind == VALUE_NONE ? 0 : value.bytes);
		break;
	case READER_BOOL:
		put_uint(stream, reader_arg_value(arg, slots) != 0, 1);
		break;
	case READER_U64:
	case READER_I64:
	case READER_HEX64:
	case READER_PTR:
		put_uint(stream, reader_arg_value(arg, slots), 8);
		break;
	default:
		put_uint(stream, reader_arg_value(arg, slots), 4);
		break;
	}
}

static void put_ctf_event(const struct reader *reader, struct stream *stream, const struct reader_event *event)
{
	const struct reader_point *point = event->point;

	put_uint(stream, point ? point->id : CTF_UNKNOWN_POINT, 2);
	put_uint(stream, stream->end_ns, 8);
	put_context(reader, stream, event);
	for (uint32_t i = 0; point && i < point->arg_count; i++)
		put_ctf_arg(reader, stream, &point->args[i], event->slots);
	if (!point) {
		put_uint(stream, event->point_id, 4);
		put_uint(stream, event->object_id, 4);
		for (int i = 0; i < 3; i++)
			put_uint(stream, event->slots[i], 4);
	}
}

static void ctf_event(struct export *export, const struct reader_event *event, bool wanted)
{
	struct ctf *ctf = export->state;
	struct stream *stream;

	must(event->thread < TRACE_THREADS_MAX);
	stream = &ctf->streams[event->thread];
	ctf->lost[event->thread] += event->seq - ctf->next_seq[event->thread];
	ctf->next_seq[event->thread] = event->seq + 1;
	if (!wanted)
		return;
	if (!stream->packet)
		begin_stream(export, stream, event->thread);
	ctf->last_ns = max_u64(time_of(export->reader, event->tick), ctf->last_ns + (ctf->last_thread != event->thread));
	ctf->last_thread = event->thread;
	if (stream->used > PACKET_BYTES_FULL ||
	    (stream->event_count >= PACKET_EVENTS_WITH_GAPS && stream->discarded_before != ctf->lost[event->thread])) {
		end_packet(ctf, stream);
		stream->used = 0;
	}
	if (stream->used == 0)
		begin_packet(ctf, stream, ctf->last_ns);
	stream->discarded = ctf->lost[event->thread];
	stream->event_count++;
	stream->end_ns = ctf->last_ns;
	put_ctf_event(export->reader, stream, event);
}

/* ---- create, finish, destroy ---- */

static int ctf_create(struct export *export)
{
	struct ctf *ctf = calloc(1, sizeof(*ctf));

	if (!ctf)
		return -ENOMEM;
	export->state = ctf;
	ctf->last_thread = UINT32_MAX;
	ctf_uuid(export->reader, ctf->uuid);
	return 0;
}

static int ctf_finish(struct export *export, const struct reader_counts *counts)
{
	struct ctf *ctf = export->state;
	struct out *out;
	int fd, rc;

	(void)counts; /* each packet has the counts of its thread */
	for (uint32_t i = 0; i < TRACE_THREADS_MAX; i++) {
		if (ctf->streams[i].used > 0)
			end_packet(ctf, &ctf->streams[i]);
	}
	if (ctf->error)
		return ctf->error;
	fd = create_ctf_file(export, "metadata");
	out = malloc(sizeof(*out));
	must(out);
	out_init(out, fd);
	if (fd >= 0)
		ctf_metadata(export->reader, out);
	rc = fd < 0 ? fd : out_flush(out);
	free(out);
	if (fd >= 0 && close(fd) != 0 && rc == 0)
		rc = -errno;
	return rc;
}

static void ctf_destroy(struct export *export)
{
	struct ctf *ctf = export->state;

	if (!ctf)
		return;
	for (uint32_t i = 0; i < TRACE_THREADS_MAX; i++) {
		if (ctf->streams[i].fd > 0)
			close(ctf->streams[i].fd);
		free(ctf->streams[i].packet);
	}
	free(ctf);
}

const struct export_kind export_ctf = {
	.name = "ctf",
	.is_directory = true,
	.create = ctf_create,
	.event = ctf_event,
	.finish = ctf_finish,
	.destroy = ctf_destroy,
};
