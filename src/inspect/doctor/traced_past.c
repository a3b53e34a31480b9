/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * traced_past - the engine's own past: what its devices and stages did in the last minute, and in the ten minutes, the hour
 * and the day before, by the notes in the trace (points history_device and history_stage).
 *
 *     { "devices": { NAME: { "reads": PAST, "writes": PAST } }, "stages": { "nvmf_req EXECUTING": PAST ... } }
 *     PAST: { "latest": FIGURES, "ten minutes": FIGURES, "hour": ..., "day": ... }
 *     FIGURES: { "count", "us" (of one, on average), "ms" (the time that the notes cover) }; latest also: "ago_ms"
 *
 * The latest note is in none of the other figures, and neither are notes that are SLOW_FACTOR times as slow as those
 * before. Times of notes are those of the wall clock, so that a recording of an engine and the engine itself are on one
 * time line, also after a restart.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "inspect/doctor/internal.h"
#include "inspect/trace/trace_file.h"

enum { ROWS_MAX = 4096, SPANS = 3, KEY_BYTES = 352, STAGE_BYTES = 48, USUAL_MIN = 20, SLOW_FACTOR = 4 };

static const struct {
	const char *name;
	uint64_t ms;
} spans[SPANS] = { { "ten minutes", 10 * 60000 }, { "hour", 60 * 60000 }, { "day", 24 * 60 * 60000 } };

struct figures {
	uint64_t count, ns, ms;
};

enum past_kind { PAST_READS, PAST_WRITES, PAST_STAGE };

struct past_row {
	enum past_kind kind;
	uint32_t ids[2]; /* of the strings: the device; or the type of request, and the stage */
	struct figures latest, sums[SPANS];
	uint64_t latest_ago_ms;
};

struct traced_past {
	const struct reader *reader;
	const struct reader_point *device, *stage; /* NULL: the file does not have it */
	uint64_t now_ns;			   /* of the wall clock */
	struct past_row *rows;
	uint32_t count;
};

struct traced_past *traced_past_create(const struct reader *reader, uint64_t now_ns)
{
	struct traced_past *past = calloc(1, sizeof(*past));

	must(past);
	*past = (struct traced_past){ .reader = reader,
				      .device = reader_point_by_name(reader, "history_device"),
				      .stage = reader_point_by_name(reader, "history_stage"),
				      .now_ns = now_ns,
				      .rows = calloc(ROWS_MAX, sizeof(*past->rows)) };
	must(past->rows);
	return past;
}

void traced_past_destroy(struct traced_past *past)
{
	if (past)
		free(past->rows);
	free(past);
}

static uint64_t number_of(const struct reader_event *event, const char *name)
{
	for (uint32_t i = 0; i < event->point->arg_count; i++) {
		if (strcmp(event->point->args[i].name, name) == 0)
			return reader_arg_value(&event->point->args[i], event->slots);
	}
	return 0;
}

/* NULL: there are too many. */
static struct past_row *row_of(struct traced_past *past, enum past_kind kind, uint32_t id, uint32_t id2)
{
	for (uint32_t i = 0; i < past->count; i++) {
		struct past_row *row = &past->rows[i];

		if (row->ids[0] == id && row->ids[1] == id2 && row->kind == kind)
			return row;
	}
	if (past->count == ROWS_MAX)
		return NULL;
	past->rows[past->count] = (struct past_row){ .kind = kind, .ids = { id, id2 } };
	return &past->rows[past->count++];
}

/* Is a note much slower than those before it? */
static bool is_slow(const struct figures *note, const struct figures *before)
{
	return note->count > 0 && before->count >= USUAL_MIN &&
	       note->ns / note->count >= SLOW_FACTOR * (before->ns / before->count);
}

/* The latest note becomes a part of the past. A slow one does not, so that the past stays what is usual. */
static void add_latest(struct past_row *row)
{
	for (int i = 0; i < SPANS; i++) {
		if (row->latest_ago_ms >= spans[i].ms || is_slow(&row->latest, &row->sums[i]))
			continue;
		row->sums[i].count += row->latest.count;
		row->sums[i].ns += row->latest.ns;
		row->sums[i].ms += row->latest.ms;
	}
	row->latest = (struct figures){ 0 };
}

static void take(struct past_row *row, const struct figures *figures, uint64_t ago_ms)
{
	if (!row || figures->count == 0)
		return;
	add_latest(row);
	row->latest = *figures;
	row->latest_ago_ms = ago_ms;
}

static void take_of(struct traced_past *past, const struct reader_event *event, const char *count, const char *time,
		    struct past_row *row)
{
	const struct figures figures = { number_of(event, count), number_of(event, time), number_of(event, "span") };
	uint64_t wall_ns;

	if (reader_wall_ns(past->reader, event->tick, &wall_ns) == 0)
		take(row, &figures, past->now_ns > wall_ns ? (past->now_ns - wall_ns) / NS_PER_MS : 0);
}

void traced_past_event(struct traced_past *past, const struct reader_event *event)
{
	uint32_t id;

	if (!event->point)
		return;
	if (event->point == past->device) {
		id = (uint32_t)number_of(event, "device");
		take_of(past, event, "ios", "time", row_of(past, number_of(event, "op") ? PAST_WRITES : PAST_READS, id, 0));
	} else if (event->point == past->stage) {
		id = (uint32_t)number_of(event, "request");
		take_of(past, event, "stays", "time", row_of(past, PAST_STAGE, id, (uint32_t)number_of(event, "stage")));
	}
}

static json_t *figures_json(const struct figures *figures)
{
	json_t *row = doc_object();

	doc_put(row, "count", json_integer((json_int_t)figures->count));
	doc_put(row, "us", json_real((double)figures->ns / 1e3 / (double)figures->count));
	doc_put(row, "ms", json_integer((json_int_t)figures->ms));
	return row;
}

static json_t *row_json(struct past_row *row)
{
	json_t *result = doc_object();

	/* a device that was idle in the latest interval has no note of it: all that it has is the past */
	if (row->latest_ago_ms > 2 * row->latest.ms + DOCTOR_LOOK_MS)
		add_latest(row);
	if (row->latest.count > 0) {
		json_t *latest = figures_json(&row->latest);

		doc_put(latest, "ago_ms", json_integer((json_int_t)row->latest_ago_ms));
		doc_put(result, "latest", latest);
	}
	for (int i = 0; i < SPANS; i++) {
		if (row->sums[i].count > 0)
			doc_put(result, spans[i].name, figures_json(&row->sums[i]));
	}
	return result;
}

/* The text of a row's string, as a key in JSON. */
static void key_text(const struct traced_past *past, uint32_t id, char *to, size_t bytes)
{
	size_t there;
	const char *text = reader_string(past->reader, id, &there);

	to[text_utf8_copy(to, bytes - 1, text, strnlen(text, there))] = '\0';
}

static void put_row(const struct traced_past *past, struct past_row *row, json_t *devices, json_t *stages)
{
	char key[KEY_BYTES], stage[STAGE_BYTES], both[KEY_BYTES + STAGE_BYTES];
	json_t *device;

	key_text(past, row->ids[0], key, sizeof(key));
	if (row->kind == PAST_STAGE) {
		key_text(past, row->ids[1], stage, sizeof(stage));
		snprintf(both, sizeof(both), "%s %s", key, stage);
		doc_put(stages, both, row_json(row));
		return;
	}
	device = json_object_get(devices, key);
	if (!device) {
		device = doc_object();
		doc_put(devices, key, device);
	}
	doc_put(device, row->kind == PAST_READS ? "reads" : "writes", row_json(row));
}

json_t *traced_past_json(struct traced_past *past)
{
	json_t *result = doc_object(), *devices = doc_object(), *stages = doc_object();

	for (uint32_t i = 0; i < past->count; i++)
		put_row(past, &past->rows[i], devices, stages);
	doc_put(result, "devices", devices);
	doc_put(result, "stages", stages);
	return result;
}
