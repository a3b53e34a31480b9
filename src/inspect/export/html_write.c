/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * html_write - writes the page: its own text, and between the two parts the data as JSON, in columns. Times are
 * nanoseconds since the earliest event or life on the page; columns of rising times hold differences.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "inspect/export/html.h"
#include "inspect/trace/stall.h"

/* The contents of the page, in the order of time, each once. */
struct shown {
	const struct html_life **lives;
	const struct html_event **events;
	uint32_t life_count, event_count;
	uint64_t from_ns;
};

static void put_key(struct out *out, const char *key)
{
	out_json(out, key, strlen(key));
	out_char(out, ':');
}

static void put_text_member(struct out *out, const char *key, const char *text)
{
	put_key(out, key);
	out_json(out, text, strlen(text));
}

static void put_u64_member(struct out *out, const char *key, uint64_t number)
{
	put_key(out, key);
	out_u64(out, number);
}

static void put_comma(struct out *out, uint64_t index)
{
	if (index > 0)
		out_char(out, ',');
}

/* ---- contents ---- */

static int compare_events(const void *left, const void *right)
{
	const struct html_event *a = *(const struct html_event *const *)left, *b = *(const struct html_event *const *)right;

	return a->ordinal < b->ordinal ? -1 : a->ordinal > b->ordinal;
}

static int compare_lives(const void *left, const void *right)
{
	const struct html_life *a = *(const struct html_life *const *)left, *b = *(const struct html_life *const *)right;

	if (a->life.began != b->life.began)
		return a->life.began < b->life.began ? -1 : 1;
	return a->life.serial < b->life.serial ? -1 : a->life.serial > b->life.serial;
}

static void collect_shown(const struct html *html, struct shown *shown)
{
	uint64_t newest_events = min_u64(html->event_count, HTML_EVENTS_MAX);
	uint64_t newest_lives = min_u64(html->life_count, HTML_LIVES_MAX);
	uint32_t count = 0;

	shown->events = calloc(newest_events + HTML_SLOWEST_MAX * HTML_LIFE_EVENTS_MAX + 1, sizeof(void *));
	shown->lives = calloc(newest_lives + HTML_SLOWEST_MAX * (HTML_CHILDREN_MAX + 1) + 1, sizeof(void *));
	must(shown->events && shown->lives);
	for (uint64_t i = html->event_count - newest_events; i < html->event_count; i++)
		shown->events[shown->event_count++] = &html->events[i % HTML_EVENTS_MAX];
	for (uint64_t i = html->life_count - newest_lives; i < html->life_count; i++)
		shown->lives[shown->life_count++] = &html->done[i % HTML_LIVES_MAX];
	for (uint32_t i = 0; i < html->slowest_count; i++) {
		const struct html_track *slow = html->slowest[i];

		for (uint32_t j = 0; j < slow->event_count; j++)
			shown->events[shown->event_count++] = &slow->events[j];
		for (uint32_t j = 0; j < slow->child_count; j++)
			shown->lives[shown->life_count++] = &slow->children[j];
		shown->lives[shown->life_count++] = &slow->present;
	}
	qsort(shown->events, shown->event_count, sizeof(void *), compare_events);
	for (uint32_t i = 0; i < shown->event_count; i++) {
		if (count == 0 || shown->events[count - 1]->ordinal != shown->events[i]->ordinal)
			shown->events[count++] = shown->events[i];
	}
	shown->event_count = count;
	qsort(shown->lives, shown->life_count, sizeof(void *), compare_lives);
	count = 0;
	for (uint32_t i = 0; i < shown->life_count; i++) {
		if (count == 0 || shown->lives[count - 1]->life.serial != shown->lives[i]->life.serial)
			shown->lives[count++] = shown->lives[i];
	}
	shown->life_count = count;
}

/* ---- descriptions ---- */

static void write_about(struct export *export, const struct reader_counts *counts, const struct shown *shown)
{
	static const char *const states[] = { [READER_ALIVE] = "alive", [READER_ENDED] = "ended", [READER_DEAD] = "dead" };
	const struct reader_info *info = reader_info(export->reader);
	const struct html *html = export->state;
	struct out *out = export->out;
	uint64_t realtime;

	put_key(out, "about");
	out_char(out, '{');
	put_text_member(out, "program", info->name);
	out_char(out, ',');
	put_text_member(out, "version", info->version);
	out_char(out, ',');
	put_text_member(out, "host", info->host);
	out_format(out, ",\"pid\":%" PRId32 ",", info->pid);
	put_text_member(out, "state", states[info->liveness]);
	out_char(out, ',');
	put_text_member(out, "build", info->build_id);
	if (reader_wall_ns(export->reader, info->start_tick, &realtime) == 0) {
		out_char(out, ',');
		put_u64_member(out, "start_ms", realtime / 1000000);
	}
	out_format(out, ",\"from_ns\":%" PRIu64, shown->from_ns);
	out_format(out, ",\"overwritten\":%" PRIu64 ",\"missing\":%" PRIu64, counts->overwritten,
		   counts->missing + counts->torn);
	out_format(out, ",\"events\":%" PRIu64 ",\"events_left_out\":%" PRIu64, html->event_count,
		   html->event_count - shown->event_count);
	out_format(out, ",\"lives\":%" PRIu64 ",\"lives_left_out\":%" PRIu64 "}", html->life_count + html->not_kept,
		   html->life_count + html->not_kept - shown->life_count);
}

static void write_kinds(struct export *export)
{
	const struct html *html = export->state;
	struct out *out = export->out;

	out_text(out, ",\"kinds\":[");
	for (uint32_t i = 0; i < html->kind_count; i++) {
		const struct html_kind *kind = html->kinds[i];
		const struct reader_machine *machine = kind->object->machine;

		put_comma(out, i);
		out_char(out, '{');
		put_text_member(out, "name", kind->object->name);
		out_char(out, ',');
		put_text_member(out, "prefix", kind->object->prefix);
		out_format(out, ",\"count\":%" PRIu64 ",\"partial\":%" PRIu64 ",\"states\":[", kind->count, kind->partial);
		for (uint32_t state = 0; state < machine->state_count && state < LIVES_STATES_MAX; state++) {
			bool any = false;

			put_comma(out, state);
			out_char(out, '{');
			put_text_member(out, "name", machine->states[state].name);
			out_char(out, ',');
			put_text_member(out, "text", machine->states[state].text);
			out_format(out, ",\"resting\":%s,\"buckets\":[", machine->states[state].resting ? "true" : "false");
			for (uint32_t bucket = 0; bucket < HTML_BUCKETS; bucket++) {
				if (kind->buckets[state][bucket] == 0)
					continue;
				put_comma(out, any);
				any = true;
				out_format(out, "%u,%u", bucket, kind->buckets[state][bucket]);
			}
			out_text(out, "]}");
		}
		out_text(out, "],\"heat\":[");
		for (uint32_t cell = 0, any = 0; cell < HTML_HEAT_COLUMNS * HTML_BUCKETS; cell++) {
			uint32_t column = cell / HTML_BUCKETS, row = cell % HTML_BUCKETS;

			if (kind->heat[column][row] == 0)
				continue;
			put_comma(out, any++);
			out_format(out, "%u,%u,%u", column, row, kind->heat[column][row]);
		}
		out_text(out, "]}");
	}
	out_format(out, "],\"heat_from_ns\":%" PRIu64 ",\"heat_ns\":%" PRIu64, value_ns(export->reader, html->heat_from),
		   reader_ns_from_ticks(export->reader, html->heat_ticks));
}

static void write_points(struct export *export)
{
	struct out *out = export->out;

	out_text(out, ",\"points\":{");
	for (uint32_t i = 0; i < reader_info(export->reader)->point_count; i++) {
		const struct reader_point *point = reader_point_at(export->reader, i);

		put_comma(out, i);
		out_format(out, "\"%u\":{", point->id);
		put_text_member(out, "name", point->name);
		out_char(out, ',');
		put_text_member(out, "group", point->group->name);
		out_text(out, ",\"args\":[");
		for (uint32_t j = 0; j < point->arg_count; j++) {
			put_comma(out, j);
			out_char(out, '[');
			out_json(out, point->args[j].name, strlen(point->args[j].name));
			if (point->args[j].unit) {
				out_char(out, ',');
				out_json(out, point->args[j].unit, strlen(point->args[j].unit));
			}
			out_char(out, ']');
		}
		out_text(out, "]}");
	}
	out_text(out, "},\"threads\":{");
	for (uint32_t i = 0, any = 0; i < TRACE_THREADS_MAX; i++) {
		const struct html *html = export->state;
		struct reader_thread row;

		if (!html->threads[i])
			continue;
		if (!reader_thread(export->reader, i, &row))
			row = (struct reader_thread){ .name = "?", .cpu = -1 };
		put_comma(out, any++);
		out_format(out, "\"%u\":{", i);
		put_text_member(out, "name", row.name);
		out_format(out, ",\"core\":%" PRId32 "}", row.cpu);
	}
	out_char(out, '}');
}

/* ---- columns ---- */

/* Write `,"name":[a,b,c]` from an expression of `row`. */
#define COLUMN(out, name, count, rows, format, ...)                                                                        \
	do {                                                                                                               \
		out_text(out, ",\"" name "\":[");                                                                          \
		for (uint32_t at = 0; at < (count); at++) {                                                                \
			const typeof(**(rows)) *row = (rows)[at];                                                          \
                                                                                                                           \
			put_comma(out, at);                                                                                \
			out_format(out, format, __VA_ARGS__);                                                              \
		}                                                                                                          \
		out_char(out, ']');                                                                                        \
	} while (0)

static void put_owner(struct export *export, uint16_t owner, uint64_t tick)
{
	struct reader_owner row;
	char text[sizeof(row.text) + 64] = "";

	if (reader_owner(export->reader, owner, tick, &row))
		snprintf(text, sizeof(text), "%.32s%u%s%s", row.prefix, owner, row.text[0] ? " " : "", row.text);
	out_json(export->out, text, strlen(text));
}

static uint64_t ns_of(const struct export *export, const struct shown *shown, uint64_t tick)
{
	uint64_t ns = value_ns(export->reader, tick);

	return ns - min_u64(ns, shown->from_ns);
}

static void write_life_columns(struct export *export, const struct shown *shown)
{
	const struct html *html = export->state;
	struct out *out = export->out;
	uint64_t last = 0;

	out_text(out, ",\"lives\":{\"begin\":[");
	for (uint32_t i = 0; i < shown->life_count; i++) {
		uint64_t ns = ns_of(export, shown, shown->lives[i]->life.began);

		put_comma(out, i);
		out_u64(out, ns - last);
		last = ns;
	}
	out_char(out, ']');
	COLUMN(out, "dur", shown->life_count, shown->lives, "%" PRIu64,
	       ns_of(export, shown, row->ended) - ns_of(export, shown, row->life.began));
	COLUMN(out, "busy", shown->life_count, shown->lives, "%" PRIu64,
	       reader_ns_from_ticks(export->reader, row->busy_ticks));
	COLUMN(out, "serial", shown->life_count, shown->lives, "%" PRIu64, row->life.serial);
	COLUMN(out, "parent", shown->life_count, shown->lives, "%" PRIu64, row->life.parent_serial);
	COLUMN(out, "id", shown->life_count, shown->lives, "%" PRIu32, row->life.id);
	COLUMN(out, "flags", shown->life_count, shown->lives, "%d", row->life.whole | row->is_open << 1);
	COLUMN(out, "bytes", shown->life_count, shown->lives, "%" PRId64,
	       row->life.has_bytes ? (int64_t)min_u64(row->life.bytes, INT64_MAX) : -1);
	out_text(out, ",\"kind\":[");
	for (uint32_t i = 0; i < shown->life_count; i++) {
		uint32_t kind = 0;

		while (kind < html->kind_count && html->kinds[kind]->object != shown->lives[i]->life.object)
			kind++;
		put_comma(out, i);
		out_u64(out, kind);
	}
	out_text(out, "],\"what\":[");
	for (uint32_t i = 0; i < shown->life_count; i++) {
		const char *what = shown->lives[i]->life.what;

		put_comma(out, i);
		out_json(out, what ? what : "", what ? strlen(what) : 0);
	}
	out_text(out, "],\"owner\":[");
	for (uint32_t i = 0; i < shown->life_count; i++) {
		put_comma(out, i);
		put_owner(export, shown->lives[i]->life.owner, shown->lives[i]->life.began);
	}
	out_text(out, "],\"stages\":[");
	for (uint32_t i = 0; i < shown->life_count; i++) {
		const struct html_life *life = shown->lives[i];
		uint64_t began = value_ns(export->reader, life->life.began);

		put_comma(out, i);
		out_char(out, '[');
		for (uint32_t j = 0; j < life->stage_count; j++) {
			put_comma(out, j);
			out_format(out, "%u,%" PRIu64, life->states[j], value_ns(export->reader, life->entered[j]) - began);
		}
		out_char(out, ']');
	}
	out_text(out, "]}");
}

/* ---- the slowest ---- */

static int compare_slowest(const void *left, const void *right)
{
	const struct html_life *a = &(*(struct html_track *const *)left)->present;
	const struct html_life *b = &(*(struct html_track *const *)right)->present;

	if (a->busy_ticks != b->busy_ticks)
		return a->busy_ticks < b->busy_ticks ? 1 : -1;
	return a->life.serial < b->life.serial ? -1 : a->life.serial > b->life.serial;
}

static struct reader_stall stall_of(const struct html_track *track)
{
	const struct html_life *present = &track->present;
	const struct life *life = &present->life;
	struct reader_stall_io io = { 0 };
	struct reader_stays stays = { 0 };

	for (uint32_t i = 0; i < present->stage_count && stays.count < TRACE_STORY_STATES_MAX; i++) {
		uint64_t until = i + 1 < present->stage_count ? present->entered[i + 1] : present->ended;

		stays.states[stays.count] = present->states[i];
		stays.begins[stays.count] = present->entered[i];
		stays.ticks[stays.count++] = until - min_u64(until, present->entered[i]);
	}
	if (track->child_count)
		io = (struct reader_stall_io){ .from = track->children[0].life.began,
					       .to = track->children[0].ended,
					       .owner = track->children[0].life.owner };
	/* the wait of an unfinished life is longer than recorded */
	return present->is_open ? (struct reader_stall){ 0 }
				: reader_stall_of(life->object, &stays, present->busy_ticks, &io,
						  track->event_count ? track->events[track->event_count - 1].thread : 0);
}

/* Write the slowest lives in order; then for each stall that delayed several of them, these lives in order. */
static void write_slowest(struct export *export)
{
	struct html *html = export->state;
	struct reader_stall stalls[HTML_SLOWEST_MAX];
	bool taken[HTML_SLOWEST_MAX] = { false };
	struct out *out = export->out;
	bool any = false;

	qsort(html->slowest, html->slowest_count, sizeof(html->slowest[0]), compare_slowest);
	out_text(out, ",\"slowest\":[");
	for (uint32_t i = 0; i < html->slowest_count; i++) {
		put_comma(out, i);
		out_u64(out, html->slowest[i]->present.life.serial);
		stalls[i] = stall_of(html->slowest[i]);
	}
	out_text(out, "],\"stalls\":[");
	for (uint32_t i = 0; i < html->slowest_count; i++) {
		uint32_t count = 0;

		for (uint32_t j = i + 1; j < html->slowest_count; j++) {
			if (taken[i] || taken[j] || !reader_stall_is_one(&stalls[i], &stalls[j]))
				continue;
			taken[j] = true;
			if (count++ == 0)
				out_format(out, "%s[%" PRIu64, any ? "," : "", html->slowest[i]->present.life.serial);
			out_format(out, ",%" PRIu64, html->slowest[j]->present.life.serial);
		}
		if (count)
			out_char(out, ']');
		any = any || count;
	}
	out_char(out, ']');
}

static void put_args(struct export *export, const struct html_event *event)
{
	struct out *out = export->out;

	out_char(out, '[');
	for (uint32_t i = 0; event->point && i < event->point->arg_count; i++) {
		struct value value;

		value_of_arg(export->reader, &event->point->args[i], event->slots, &value);
		put_comma(out, i);
		if (value.kind == VALUE_TEXT)
			out_json(out, value.text, value.bytes);
		else if (value.kind == VALUE_NONE)
			out_text(out, "null");
		else if (value.kind == VALUE_BOOL)
			out_text(out, value.number ? "true" : "false");
		else if (value.kind == VALUE_SIGNED)
			out_format(out, "\"%" PRId64 "\"", (int64_t)value.number);
		else
			/* a number that JavaScript cannot hold exactly is written as a string */
			out_format(out, value.number >> 53 ? "\"%" PRIu64 "\"" : "%" PRIu64 "", value.number);
	}
	out_char(out, ']');
}

static void write_events(struct export *export, const struct shown *shown)
{
	struct out *out = export->out;
	int64_t last = 0;

	out_text(out, ",\"events\":{\"t\":[");
	for (uint32_t i = 0; i < shown->event_count; i++) {
		int64_t ns = (int64_t)ns_of(export, shown, shown->events[i]->tick);

		put_comma(out, i);
		out_format(out, "%" PRId64, ns - last); /* a shared tick may be older than the previous one */
		last = ns;
	}
	out_char(out, ']');
	COLUMN(out, "point", shown->event_count, shown->events, "%u", row->point_id);
	COLUMN(out, "thread", shown->event_count, shown->events, "%u", row->thread);
	COLUMN(out, "life", shown->event_count, shown->events, "%" PRIu64, row->life);
	COLUMN(out, "shared", shown->event_count, shown->events, "%d", row->shared);
	out_text(out, ",\"object\":[");
	for (uint32_t i = 0; i < shown->event_count; i++) {
		const struct html_event *event = shown->events[i];
		char text[64] = "";

		if (event->has_object)
			value_object(event->point->object, event->object_id, text, sizeof(text));
		put_comma(out, i);
		out_json(out, text, strlen(text));
	}
	out_text(out, "],\"args\":[");
	for (uint32_t i = 0; i < shown->event_count; i++) {
		put_comma(out, i);
		put_args(export, shown->events[i]);
	}
	out_text(out, "]}");
}

void html_write(struct export *export, const struct reader_counts *counts)
{
	struct shown shown = { 0 };
	const struct html *html = export->state;
	uint64_t first = html->last_tick;

	collect_shown(html, &shown);
	for (uint32_t i = 0; i < shown.event_count; i++)
		first = min_u64(first, shown.events[i]->tick);
	for (uint32_t i = 0; i < shown.life_count; i++)
		first = min_u64(first, shown.lives[i]->life.began);
	shown.from_ns = value_ns(export->reader, first);
	out_text(export->out, html_page_before);
	out_char(export->out, '{');
	write_about(export, counts, &shown);
	write_kinds(export);
	write_points(export);
	write_life_columns(export, &shown);
	write_slowest(export);
	write_events(export, &shown);
	out_char(export->out, '}');
	out_text(export->out, html_page_after);
	free(shown.events);
	free(shown.lives);
}
