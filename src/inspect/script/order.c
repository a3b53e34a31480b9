/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/script/order.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/script/script.h"

/* SLACK: a heartbeat may interrupt a probe's program between reading the clock and printing. */
#define SLACK_NS 2000000ull
#define PATIENCE_NS (ORDER_PATIENCE_MS * 1000000ull)

enum { MARK_BYTES_MAX = 40, RECORDS_MAX = 1 << 20 };

struct record {
	uint64_t ns, seq, arrival_ns;
	uint32_t source;
	bool marked;
	char *text;
	size_t bytes;
};

struct cpu {
	uint64_t ns, arrival_ns; /* time of its latest mark, and when that arrived; arrival_ns 0: none yet */
};

enum feeding { FEED_PLAIN, FEED_MARK, FEED_TEXT };

struct source {
	bool beats, ended;
	uint64_t first_ns;  /* arrival of the first mark; 0: none yet */
	uint64_t latest_ns; /* of its marks */
	uint64_t open_ns;   /* of the latest mark, if it is an open one; else 0 */
	uint64_t lost;
	struct cpu *cpus;
	/* state of the stream's parser */
	enum feeding feeding;
	uint64_t feed_ns;
	char mark[MARK_BYTES_MAX];
	size_t mark_bytes;
	char *text;
	size_t text_bytes, text_room;
	bool printed; /* the previous unmarked line was not empty */
};

struct order {
	struct source *sources;
	uint32_t source_count, cpu_count;
	order_emit_fn emit;
	void *ctx;
	struct record *records;
	size_t record_count, record_room;
	uint64_t next_seq;
};

struct order *order_create(uint32_t source_count, uint32_t cpu_count, order_emit_fn emit, void *ctx)
{
	struct order *order = calloc(1, sizeof(*order));

	must(order);
	*order = (struct order){ .source_count = source_count, .cpu_count = cpu_count, .emit = emit, .ctx = ctx };
	order->sources = calloc(source_count, sizeof(*order->sources));
	must(order->sources);
	for (uint32_t i = 0; i < source_count; i++) {
		order->sources[i].cpus = calloc(ORDER_CPUS_MAX, sizeof(*order->sources[i].cpus));
		must(order->sources[i].cpus);
	}
	return order;
}

void order_destroy(struct order *order)
{
	if (!order)
		return;
	for (uint32_t i = 0; i < order->source_count; i++) {
		free(order->sources[i].cpus);
		free(order->sources[i].text);
	}
	for (size_t i = 0; i < order->record_count; i++)
		free(order->records[i].text);
	free(order->records);
	free(order->sources);
	free(order);
}

void order_expect(struct order *order, uint32_t source, bool beats)
{
	order->sources[source].beats = beats;
}

void order_count_lost(struct order *order, uint32_t source, uint64_t count)
{
	order->sources[source].lost += count;
}

uint64_t order_lost(const struct order *order, uint32_t source)
{
	return order->sources[source].lost;
}

/* ---- records ---- */

static void add_order_record(struct order *order, struct record record, const char *text, size_t bytes)
{
	if (bytes == 0)
		return;
	if (order->record_count == order->record_room) {
		order->record_room = order->record_room ? 2 * order->record_room : 64;
		order->records = realloc(order->records, order->record_room * sizeof(*order->records));
		must(order->records);
	}
	record.text = malloc(bytes);
	must(record.text);
	memcpy(record.text, text, bytes);
	record.bytes = bytes;
	record.seq = order->next_seq++;
	order->records[order->record_count++] = record;
}

/* Read "1a99ee5fc6,1": a CPU has reached that time. False: not a mark. */
static bool read_mark(struct source *source, const char *mark, uint64_t now_ns, uint64_t *ns_ret)
{
	unsigned long long ns;
	unsigned cpu;
	char end;

	if (sscanf(mark, "%llx,%x%c", &ns, &cpu, &end) != 2 || cpu >= ORDER_CPUS_MAX)
		return false;
	source->cpus[cpu] = (struct cpu){ .ns = max_u64(source->cpus[cpu].ns, ns), .arrival_ns = now_ns };
	source->latest_ns = max_u64(source->latest_ns, ns);
	if (!source->first_ns)
		source->first_ns = now_ns;
	*ns_ret = ns;
	return true;
}

static void put_marked(struct order *order, uint32_t source, uint64_t ns, const char *text, size_t bytes, uint64_t now_ns)
{
	order->sources[source].open_ns = 0;
	add_order_record(order, (struct record){ .ns = ns, .source = source, .marked = true, .arrival_ns = now_ns }, text,
			 bytes);
}

/* An unmarked text gets the time of the open mark in front of it, else the source's latest time. */
static void put_plain(struct order *order, uint32_t source, const char *text, size_t bytes, uint64_t now_ns)
{
	const struct source *from = &order->sources[source];
	uint64_t ns = from->open_ns ? from->open_ns : from->latest_ns;

	add_order_record(order,
			 (struct record){ .ns = ns, .source = source, .marked = from->open_ns != 0, .arrival_ns = now_ns },
			 text, bytes);
}

void order_put(struct order *order, uint32_t source, const char *text, size_t bytes, uint64_t now_ns)
{
	struct source *from = &order->sources[source];
	const char *end = bytes && *text == SCRIPT_MARK ? memchr(text, SCRIPT_MARK_END, bytes) : NULL;
	char mark[MARK_BYTES_MAX];
	uint64_t ns;

	if (!end && bytes && *text == SCRIPT_MARK && text[bytes - 1] == SCRIPT_MARK_OPEN) {
		order_feed(order, source, text, bytes, now_ns);
		return;
	}
	if (!end || (size_t)(end - text) > sizeof(mark)) {
		put_plain(order, source, text, bytes, now_ns);
		return;
	}
	memcpy(mark, text + 1, (size_t)(end - text) - 1);
	mark[end - text - 1] = '\0';
	if (!read_mark(from, mark, now_ns, &ns))
		return;
	bytes -= (size_t)(end + 1 - text);
	put_marked(order, source, ns, end + 1, bytes - (bytes && end[bytes] == SCRIPT_TEXT_END), now_ns);
}

/* ---- streams ---- */

/* Messages of bpftrace itself. */
static bool is_bpftrace_message(struct source *source, const char *line, size_t bytes)
{
	unsigned long long count;
	char text[64];
	int end = 0;

	if (bytes >= sizeof(text))
		return false;
	memcpy(text, line, bytes);
	text[bytes] = '\0';
	if (sscanf(text, "Lost %llu events\n%n", &count, &end) == 1 && (size_t)end == bytes) {
		source->lost += count;
		return true;
	}
	return sscanf(text, "Attaching %llu probe%*1[s.]..\n%n", &count, &end) == 1 && !source->latest_ns;
}

/* Put whole lines; if `all`, also a last line without an end. */
static void put_lines(struct order *order, uint32_t number, bool all, uint64_t now_ns)
{
	struct source *source = &order->sources[number];
	size_t at = 0;

	while (at < source->text_bytes) {
		const char *nl = memchr(source->text + at, '\n', source->text_bytes - at);
		size_t bytes = nl ? (size_t)(nl + 1 - (source->text + at)) : source->text_bytes - at;

		if (!nl && !all)
			break;
		/* bpftrace prints empty lines around maps, also around cleared ones: keep one of several */
		bool empty = source->text[at] == '\n';

		if (!is_bpftrace_message(source, source->text + at, bytes) && (!empty || source->printed))
			put_plain(order, number, source->text + at, bytes, now_ns);
		source->printed = !empty;
		at += bytes;
	}
	memmove(source->text, source->text + at, source->text_bytes - at);
	source->text_bytes -= at;
}

static void append_text_char(struct source *source, char c)
{
	if (source->text_bytes == source->text_room) {
		source->text_room = source->text_room ? 2 * source->text_room : 256;
		source->text = realloc(source->text, source->text_room);
		must(source->text);
	}
	source->text[source->text_bytes++] = c;
}

static void feed_one(struct order *order, uint32_t number, char c, uint64_t now_ns)
{
	struct source *source = &order->sources[number];

	switch (source->feeding) {
	case FEED_PLAIN:
		if (c == SCRIPT_MARK) {
			put_lines(order, number, true, now_ns);
			source->feeding = FEED_MARK;
			source->mark_bytes = 0;
		} else {
			append_text_char(source, c);
		}
		break;
	case FEED_MARK:
		if (c == SCRIPT_MARK_END) {
			source->mark[source->mark_bytes] = '\0';
			source->feeding = read_mark(source, source->mark, now_ns, &source->feed_ns) ? FEED_TEXT
												    : FEED_PLAIN;
		} else if (c == SCRIPT_MARK_OPEN) {
			source->mark[source->mark_bytes] = '\0';
			source->feeding = FEED_PLAIN;
			if (!read_mark(source, source->mark, now_ns, &source->open_ns))
				source->open_ns = 0;
		} else if (source->mark_bytes + 1 < sizeof(source->mark)) {
			source->mark[source->mark_bytes++] = c;
		} else {
			source->feeding = FEED_PLAIN;
		}
		break;
	case FEED_TEXT:
		if (c == SCRIPT_TEXT_END) {
			put_marked(order, number, source->feed_ns, source->text, source->text_bytes, now_ns);
			source->text_bytes = 0;
			source->feeding = FEED_PLAIN;
		} else if (c == SCRIPT_MARK) {
			/* the mark's end was lost */
			put_marked(order, number, source->feed_ns, source->text, source->text_bytes, now_ns);
			source->text_bytes = 0;
			source->feeding = FEED_MARK;
			source->mark_bytes = 0;
		} else {
			append_text_char(source, c);
		}
		break;
	}
}

void order_feed(struct order *order, uint32_t source, const char *text, size_t bytes, uint64_t now_ns)
{
	for (size_t i = 0; i < bytes; i++)
		feed_one(order, source, text[i], now_ns);
	if (order->sources[source].feeding == FEED_PLAIN)
		put_lines(order, source, false, now_ns);
}

void order_end(struct order *order, uint32_t number)
{
	struct source *source = &order->sources[number];

	if (source->feeding == FEED_TEXT)
		source->open_ns = source->feed_ns;
	put_lines(order, number, true, source->first_ns);
	source->ended = true;
}

/* ---- output ---- */

/* The time up to which all output of a source has arrived. */
static uint64_t complete_until(const struct order *order, const struct source *source, uint64_t now_ns)
{
	uint64_t until = UINT64_MAX;
	uint32_t there = 0;

	if (source->ended || !source->beats)
		return UINT64_MAX;
	for (uint32_t i = 0; i < ORDER_CPUS_MAX; i++) {
		there += source->cpus[i].arrival_ns != 0;
		if (source->cpus[i].arrival_ns && now_ns - source->cpus[i].arrival_ns < PATIENCE_NS)
			until = min_u64(until, source->cpus[i].ns);
	}
	if (there < order->cpu_count && (!source->first_ns || now_ns - source->first_ns < PATIENCE_NS))
		return 0;
	return until == UINT64_MAX || until < SLACK_NS ? until : until - SLACK_NS;
}

static int compare_records(const void *left, const void *right)
{
	const struct record *a = left, *b = right;

	if (a->ns != b->ns)
		return a->ns < b->ns ? -1 : 1;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

void order_release(struct order *order, uint64_t now_ns)
{
	uint64_t until = UINT64_MAX;
	size_t out = 0;

	if (order->record_count == 0)
		return;
	for (uint32_t i = 0; i < order->source_count; i++)
		until = min_u64(until, complete_until(order, &order->sources[i], now_ns));
	for (size_t i = 0; i < order->record_count; i++) {
		if (now_ns > order->records[i].arrival_ns + PATIENCE_NS || order->record_count > RECORDS_MAX)
			until = max_u64(until, order->records[i].ns);
	}
	qsort(order->records, order->record_count, sizeof(*order->records), compare_records);
	for (; out < order->record_count && order->records[out].ns <= until; out++) {
		const struct record *record = &order->records[out];

		order->emit(order->ctx, &(struct order_text){ .source = record->source,
							      .marked = record->marked,
							      .ns = record->ns,
							      .text = record->text,
							      .bytes = record->bytes });
		free(record->text);
	}
	memmove(order->records, order->records + out, (order->record_count - out) * sizeof(*order->records));
	order->record_count -= out;
}
