/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * blame - shared by the files of `fathom blame`.
 *
 *   blame.c    the command line
 *   text.c     the sentence, and what to look at next
 *   print.c    the page
 *   json.c     the same as JSON
 */
#ifndef CMD_FATHOM_BLAME_BLAME_H
#define CMD_FATHOM_BLAME_BLAME_H

#include "cmd/fathom/trace/choice.h"
#include "inspect/blame/blame.h"

enum { BLAME_TEXT_BYTES = 1024, BLAME_NEXT_MAX = 4 };

struct blame_options {
	struct trace_choices choices;
	struct blame_query query;
	const char *since_ago, *from, *to; /* as typed */
	bool json;
};

/* All that is printed. */
struct blame_answer {
	const struct blame_options *options;
	struct reader *reader;
	const struct blame *blame;
	struct blame_verdict verdict;
	uint32_t count;			/* slow requests */
	char selector[512];		/* "-s NAME" or "-f FILE" */
	char subject[BLAME_NAME_BYTES]; /* "p1/db", "namespace 1", "all volumes" */
	char since[64];			/* "since 02:10:00" */
};

/* ---- text.c ---- */

/* "02:10:00.123", with the day if it is not today; "1.500 s after the start" in a file without the time of day. */
void blame_time_text(const struct reader *reader, uint64_t tick, char *text, size_t bytes);
/* "41.0 ms" */
void blame_duration_text(const struct reader *reader, uint64_t ticks, char *text, size_t bytes);
double blame_share(const struct blame_verdict *verdict, enum blame_cause cause);
/* The first line. */
void blame_sentence(const struct blame_answer *answer, char *text, size_t bytes);
/* "the disk (device p1/db)" */
void blame_cause_text(const struct blame_answer *answer, enum blame_cause cause, char *text, size_t bytes);
/* The command that shows the example of a row; "": none. */
void blame_example_command(const struct blame_answer *answer, enum blame_cause cause, char *text, size_t bytes);
/* What to look at for the main cause. Returns the number of lines. */
uint32_t blame_next_steps(const struct blame_answer *answer, char lines[BLAME_NEXT_MAX][BLAME_TEXT_BYTES]);

/* ---- print.c, json.c ---- */

void blame_print_page(const struct blame_answer *answer);
void blame_print_json(const struct blame_answer *answer);

#endif
