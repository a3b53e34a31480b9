/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace - shared by the sub-commands of `fathom trace`: the command line and its filters.
 *
 * Each sub-command is a function. It prints to `printer`, reports errors on stderr, and returns the exit status.
 */
#ifndef CMD_FATHOM_TRACE_TRACE_H
#define CMD_FATHOM_TRACE_TRACE_H

#include "base/must.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/trace/choice.h"
#include "cmd/fathom/trace/export.h"
#include "inspect/trace/filter.h"
#include "inspect/trace/slowest.h"

enum { TRACE_CORES_MAX = 256 };

#define TRACE_OLDER_THAN_DEFAULT UINT64_MAX

struct trace_request {
	char **args; /* arguments after the sub-command */
	int arg_count;
	struct trace_choices choices;
	bool json, wall, all, failed, records;
	uint64_t older_than_ns; /* TRACE_OLDER_THAN_DEFAULT: trace_older_than_ns() */
	double threshold;	/* compare: relative increase that counts as slower */
	/* filters; the default passes everything */
	const char *groups, *points;
	bool any_core, cores[TRACE_CORES_MAX];
	bool *point_wanted; /* by id; NULL: all */
	struct reader_filter_spec spec;
	struct reader_filter *filter; /* NULL: all */
	struct trace_export_files exports;
};

/* ---- options.c ---- */

/* Print "fathom trace: TEXT" and, unless it is NULL, the value in quotes. Returns EXIT_USAGE. */
int trace_complain(const char *text, const char *value);
/* Convert `text`, such as a path, to a JSON string with its quotes; invalid UTF-8 becomes "?". Pair: free(). */
char *trace_json_string(const char *text);
/* The `own` of a command's row. A row without it has a `run`, which parses its own command line. */
struct trace_word {
	/* NULL: compare, which opens its own files */
	int (*run)(struct trace_request *request, struct reader *reader, struct reader_printer *printer);
	int arg_count_max;    /* maximum of arguments after the command */
	bool follows;	      /* reads future events only */
	const char *only_one; /* why it does not accept several files, and the alternative; NULL: it accepts them */
};

/* Resolve the filters in this file. 0, or the exit status after an error message. */
MUST_CHECK int trace_choose_filters(struct trace_request *request, const struct reader *reader);
/* The same without messages. Errors (explained). */
MUST_CHECK int trace_try_filters(struct trace_request *request, const struct reader *reader, struct fathom_fault *why);
bool trace_is_on_wanted_core(const struct trace_request *request, const struct reader_event *event);
bool trace_is_wanted(const struct trace_request *request, const struct reader_event *event);
/*
 * Does the event pass the filters on core, owner and time? These are the same for all events of a request, so that its
 * whole life passes or none of it.
 */
bool trace_is_of_wanted_life(const struct trace_request *request, const struct reader_event *event);
/* Is the request's whole life wanted? */
bool trace_is_wanted_life(const struct trace_request *request, const struct reader_exemplar *exemplar);

/* ---- commands that parse their own command line; each returns the exit status ---- */

/* control.c: enable, disable, groups, clear, freeze. They control what a running program records. */
int trace_control(int argc, char **argv);
int trace_record(int argc, char **argv);
int trace_prune(int argc, char **argv);
int trace_trigger(int argc, char **argv);
extern const struct option_table trace_control_table, trace_record_table, trace_prune_table, trace_trigger_table;

/* ---- trace.c ---- */

int trace_export_events(struct trace_request *request, struct reader *reader, struct reader_printer *printer);

/* ---- slow.c ---- */

/* The name of an NVMe command's opcode; NULL: unknown. */
const char *trace_opcode_word(const struct reader_object *object, const struct reader_arg *arg, uint64_t value,
			      const char *owner_text);
int trace_slowest(struct trace_request *request, struct reader *reader, struct reader_printer *printer);
/*
 * Parts of `slowest`, for several files: the number of requests to print, and the results of one file, which the caller
 * destroys. They return 0, or the exit status after an error message.
 */
MUST_CHECK int trace_slowest_count(const struct trace_request *request, uint32_t *count_ret);
MUST_CHECK int trace_slowest_find(const struct trace_request *request, struct reader *reader,
				  struct reader_slowest **slowest_ret);
/* Print group `index` as number `number` of the list, from 1. */
void trace_slowest_print(const struct trace_request *request, struct reader_printer *printer,
			 const struct reader_slowest *slowest, uint32_t index, uint32_t number);
/* Print remarks below `printed` groups. */
void trace_slowest_remarks(const struct trace_request *request, struct reader *reader, struct reader_printer *printer,
			   const struct reader_slowest *slowest, uint32_t printed);

/* ---- compare.c ---- */

/* Opens its own files. */
int trace_compare(struct trace_request *request);

/* ---- merge.c ---- */

typedef int (*trace_word_fn)(struct trace_request *request, struct reader *reader, struct reader_printer *printer);

/* Run on all chosen files: on one time line if `run` is trace_show or trace_slowest, else one after the other. */
int trace_merged(struct trace_request *request, trace_word_fn run);

/* ---- follow.c ---- */

int trace_follow(struct trace_request *request, struct reader *reader, struct reader_printer *printer);

/* ---- io.c ---- */

int trace_io(struct trace_request *request, struct reader *reader, struct reader_printer *printer);

/* ---- summary.c ---- */

int trace_summary(struct trace_request *request, struct reader *reader, struct reader_printer *printer);

/* ---- top.c ---- */

int trace_top(struct trace_request *request, struct reader *reader, struct reader_printer *printer);

/* ---- show.c ---- */

/* Resolve the filters in this file, and count the records of its rings. 0, or the exit status. */
MUST_CHECK int trace_choose(struct trace_request *request, struct reader *reader, struct reader_counts *counts_ret);
/*
 * The age from which a request counts as stuck: the value of --older-than. Its default is a second, or 0 for the file of
 * a dead process, in which no request will ever end.
 */
uint64_t trace_older_than_ns(const struct trace_request *request, const struct reader *reader);
/* Has the request been in progress for that long, other than in a resting state? */
bool trace_is_stuck(const struct trace_request *request, const struct reader *reader, const struct reader_story *story,
		    uint64_t now);

/* Print the tables of stages of lives in the rings. Returns the exit status. */
int trace_stages_of_rings(struct trace_request *request, struct reader *reader, struct reader_printer *printer);

/* "2 under way for more than a second: ...", if any request is stuck by the default of --older-than; else "". */
void trace_under_way_remark(const struct reader *reader, char *line, size_t bytes);

int trace_show(struct trace_request *request, struct reader *reader, struct reader_printer *printer);
int trace_stages(struct trace_request *request, struct reader *reader, struct reader_printer *printer);
int trace_stuck(struct trace_request *request, struct reader *reader, struct reader_printer *printer);
int trace_threads(struct trace_request *request, struct reader *reader, struct reader_printer *printer);

#endif
