/* SPDX-License-Identifier: BSD-2-Clause */
/* print - the page of `fathom blame`: the sentence, the table by cause, what the file covers, what to look at next. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "cmd/fathom/blame/blame.h"

static const struct table_column columns[] = {
	{ "CAUSE", TABLE_LEFT, 7 },  { "REQUESTS", TABLE_RIGHT, 8 }, { "TIME", TABLE_RIGHT, 8 },
	{ "SHARE", TABLE_RIGHT, 7 }, { "P50", TABLE_RIGHT, 8 },	     { "P99", TABLE_RIGHT, 8 },
	{ "MAX", TABLE_RIGHT, 8 },   { "MOST IN", TABLE_LEFT, 12 },  { "EXAMPLE", TABLE_LEFT, 0 },
};
static const struct table_layout layout = { TABLE_COLUMNS(columns), .indent = 2, .gap = 2 };

static void print_row(const struct blame_answer *answer, enum blame_cause cause)
{
	const struct blame_row *row = &answer->verdict.rows[cause];
	const struct blame_request *example = row->example == UINT32_MAX ? NULL
									 : blame_request_at(answer->blame, row->example);
	const uint64_t times[] = { row->p50, row->p99, row->max };
	char command[BLAME_TEXT_BYTES], text[32];
	struct table_line line;

	blame_example_command(answer, cause, command, sizeof(command));
	table_line_begin(&line, &layout);
	table_cell(&line, "%s", blame_cause_key(cause));
	table_cell(&line, "%u", row->count);
	blame_duration_text(answer->reader, row->ticks, text, sizeof(text));
	table_cell(&line, "%s", text);
	table_cell(&line, "%.1f %%", blame_share(&answer->verdict, cause));
	for (size_t i = 0; i < ARRAY_COUNT(times); i++) {
		blame_duration_text(answer->reader, times[i], text, sizeof(text));
		table_cell(&line, "%s", row->count ? text : "-");
	}
	table_cell(&line, "%s", example && example->split.where[cause] ? example->split.where[cause] : "-");
	table_cell(&line, "%s", command);
	printf("%s\n", table_line_text(&line));
}

static void print_table(const struct blame_answer *answer)
{
	struct table_line line;
	char text[32];

	printf("\n%s\n", table_line_titles(&line, &layout));
	for (enum blame_cause cause = 0; cause < BLAME_CAUSES; cause++)
		print_row(answer, cause);
	blame_duration_text(answer->reader, answer->verdict.whole, text, sizeof(text));
	printf("  %-7s  %8u  %8s  100.0 %%\n", "all", answer->count, text);
	printf("\nREQUESTS: those of which the cause took at least a tenth; P50, P99 and MAX of its time in them. MOST IN: "
	       "the\n"
	       "stage of the example with most of it.\n");
}

static void print_coverage(const struct blame_answer *answer)
{
	const struct blame_coverage *coverage = blame_coverage(answer->blame);
	char limit[32], text[64];

	blame_duration_text(answer->reader, coverage->slow_ticks, limit, sizeof(limit));
	printf("\n");
	if (answer->options->query.slow_ns)
		printf("slow: requests that took %s or longer (--slow)\n", limit);
	else if (coverage->slow_by_count)
		printf("slow: the %u slowest requests; few reached %s, the limit of the slowest percent of all requests\n",
		       answer->count, limit);
	else
		printf("slow: the slowest percent of all requests: %s or longer\n", limit);
	if (coverage->is_full)
		printf("there are more requests in the file: these are the slowest %u\n", answer->count);
	if (reader_is_recording(answer->reader)) {
		blame_time_text(answer->reader, coverage->rings_from, text, sizeof(text));
		printf("this recording has all requests since %s\n", text);
		return;
	}
	if (coverage->kept_from) {
		blame_time_text(answer->reader, coverage->kept_from, text, sizeof(text));
		printf("kept slow requests reach back to %s", text);
	} else {
		printf("no slow request is kept");
	}
	if (coverage->rings_from) {
		blame_time_text(answer->reader, coverage->rings_from, text, sizeof(text));
		printf("; all requests are known since %s\n", text);
	} else {
		printf("; the rings have no requests\n");
	}
	if (coverage->holds_from == UINT64_MAX)
		printf("this file does not record what held the reactors\n");
	if (coverage->torn)
		printf("%" PRIu64 " kept requests are damaged and left out\n", coverage->torn);
	blame_duration_text(answer->reader, coverage->send_queue_max, limit, sizeof(limit));
	if (coverage->send_queue_max > reader_info(answer->reader)->tick_rate / 1000)
		printf("beside the requests: bytes waited up to %s in the kernel's send buffer since the start "
		       "(tcp_send_sample)\n",
		       limit);
}

void blame_print_page(const struct blame_answer *answer)
{
	char sentence[3 * BLAME_TEXT_BYTES], lines[BLAME_NEXT_MAX][BLAME_TEXT_BYTES];
	uint32_t count = blame_next_steps(answer, lines);

	blame_sentence(answer, sentence, sizeof(sentence));
	printf("%s\n", sentence);
	if (answer->options->choices.count == 0) /* the reader cannot know which of several engines this is */
		printf("read from %s (select another with -s, -p or -f)\n", reader_info(answer->reader)->path);
	if (answer->count)
		print_table(answer);
	print_coverage(answer);
	for (uint32_t i = 0; i < count; i++)
		printf("%s%s\n", i ? "      " : "next: ", lines[i]);
}
