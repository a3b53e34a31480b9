/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * traced_chains - the last records of the requests that wait longest, and of their I/Os, as `fathom trace io` prints them.
 * The rings still have them unless later requests overwrote them; what a busy engine overwrote is missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/doctor/internal.h"
#include "inspect/trace/filter.h"

enum {
	CHAINS_MAX = 4,
	RECORDS_MAX = 6,	/* the last ones of each chain */
	CHECKED_EACH = 1 << 14, /* events between two looks at the time */
	CHAINS_MS_MAX = 1000,
};

struct chain {
	char id[64]; /* of the request, "r12" */
	json_t *group;
	uint64_t begin; /* tick */
	struct reader_filter *family;
	uint64_t count;
	struct reader_event last[RECORDS_MAX];
};

/* The tick at which this request under way began; UINT64_MAX: it has ended. */
static uint64_t begin_of(const struct reader *reader, const char *wanted)
{
	struct reader_walk walk = { 0 };
	struct reader_story story;
	char id[64];

	while (reader_story_next(reader, &walk, &story)) {
		snprintf(id, sizeof(id), "%s%u", story.object->prefix, story.id);
		if (strcmp(id, wanted) == 0)
			return story.begin_tick;
	}
	return UINT64_MAX;
}

static uint32_t choose_chains(const struct reader *reader, json_t *under_way, struct chain chains[CHAINS_MAX])
{
	struct fathom_fault why;
	uint32_t count = 0;
	json_t *group;
	size_t i;

	json_array_foreach (under_way, i, group) {
		struct chain *chain = &chains[count];
		const char *parent = doc_text_at(group, "oldest_of");
		const struct reader_filter_spec spec = { .object = chain->id };

		if (count == CHAINS_MAX || doc_number(group, "hung", 0) == 0 || doc_is(group, "resting"))
			continue;
		snprintf(chain->id, sizeof(chain->id), "%s", parent[0] ? parent : doc_text_at(group, "oldest"));
		chain->group = group;
		chain->begin = begin_of(reader, chain->id);
		if (chain->begin != UINT64_MAX && reader_filter_create(reader, &spec, &chain->family, &why) == 0)
			count++;
	}
	return count;
}

static void read_records(struct doctor_out *out, struct reader *reader, struct chain *chains, uint32_t chain_count)
{
	uint64_t since_ms = doctor_elapsed_ms(out), count = 0;
	struct reader_events *events;
	struct reader_event event;

	if (reader_events(reader, &events) != 0)
		return;
	while (reader_event_next(events, &event)) {
		for (uint32_t i = 0; i < chain_count; i++) {
			/* the filter learns from all events, also from those before the request */
			if (reader_filter_event(chains[i].family, &event) && event.tick >= chains[i].begin)
				chains[i].last[chains[i].count++ % RECORDS_MAX] = event;
		}
		if (++count % CHECKED_EACH == 0 && doctor_elapsed_ms(out) - since_ms > CHAINS_MS_MAX)
			break;
	}
	reader_events_free(events);
}

/* A line without the spaces that align columns. */
static json_t *narrow_line(const char *line, size_t bytes)
{
	char text[1024];
	size_t used = 0;

	for (size_t i = 0; i < bytes && used < sizeof(text); i++) {
		if (line[i] != ' ' || (used > 0 && text[used - 1] != ' '))
			text[used++] = line[i];
	}
	return doc_text_of(text, used);
}

/* The lines of a chain, the latest last. */
static json_t *lines_of(struct reader *reader, const struct chain *chain)
{
	uint64_t first = chain->count > RECORDS_MAX ? chain->count - RECORDS_MAX : 0;
	struct reader_printer *printer;
	char *text = NULL, *at, *end;
	json_t *lines = doc_list();
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	must(file);
	if (reader_printer_create(reader, file, READER_PRINT_TEXT, false, &printer) == 0) {
		for (uint64_t i = first; i < chain->count; i++)
			reader_print_event(printer, &chain->last[i % RECORDS_MAX]);
		(void)reader_printer_destroy(printer); /* memory does not fail */
	}
	fclose(file);
	for (at = text; at && (end = strchr(at, '\n')); at = end + 1)
		doc_add(lines, narrow_line(at, (size_t)(end - at)));
	free(text);
	return lines;
}

void traced_chains(struct doctor_out *out, struct reader *reader, json_t *under_way)
{
	struct chain *chains = calloc(CHAINS_MAX, sizeof(*chains));
	uint32_t count;

	must(chains);
	count = choose_chains(reader, under_way, chains);
	if (count)
		read_records(out, reader, chains, count);
	for (uint32_t i = 0; i < count; i++) {
		if (chains[i].count)
			doc_put(chains[i].group, "records", lines_of(reader, &chains[i]));
		reader_filter_destroy(chains[i].family);
	}
	free(chains);
}
