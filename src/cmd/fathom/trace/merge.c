/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge - `fathom trace` with several files: on one time line (show, slowest), or one after the other.
 *
 * Each file has its own reader, its own printer, which begins lines with the process, and its own copy of the request:
 * filters are resolved in each file's schema. If a file lacks an event or argument of a filter, none of its events are
 * printed. If all files lack it, this is an error.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "cmd/fathom/trace/trace.h"
#include "inspect/trace/merge.h"
#include "inspect/trace/slowest.h"
#include "inspect/trace/summary.h"

enum { WALL_ERROR_REPORTED_NS = 10 * NS_PER_US }; /* larger errors of times of day are reported */
static_assert((int)TRACE_CHOICES_MAX <= (int)READER_MERGE_MAX, "all files of a command line can be merged");

struct file {
	struct reader *reader;
	struct reader_printer *printer;
	struct trace_request request;
	struct reader_slowest *slowest;
	uint32_t slowest_next; /* index of the next to print */
	bool passes;	       /* its filters were resolved; false: its events are not printed */
};

struct merged {
	struct trace_request *request;
	struct reader_merge *merge;
	uint32_t count;
	struct file files[TRACE_CHOICES_MAX];
};

/* ---- opening ---- */

static int open_chosen_files(struct merged *merged)
{
	const struct trace_choices *choices = &merged->request->choices;
	struct reader *readers[TRACE_CHOICES_MAX];
	struct fathom_fault why = { 0 };
	char path[PATH_MAX];
	int rc = 0;

	for (uint32_t i = 0; i < choices->count && rc == 0; i++) {
		rc = trace_choice_path(choices, i, path, &why);
		if (rc == 0)
			rc = reader_open(path, &merged->files[i].reader, &why);
		if (rc)
			break;
		merged->count++;
		readers[i] = merged->files[i].reader;
		if (reader_info(readers[i])->problem)
			fprintf(stderr, "fathom trace: %s: %s\n", path, reader_info(readers[i])->problem);
	}
	if (rc == 0)
		rc = reader_merge_create(readers, merged->count, &merged->merge, &why);
	return rc ? trace_complain(why.text, NULL) : EXIT_SUCCESS;
}

static void make_printers(struct merged *merged)
{
	const struct trace_request *request = merged->request;
	uint64_t end_ns = 0;
	int width = 0;

	for (uint32_t i = 0; i < merged->count; i++) {
		uint64_t ns;

		width = (int)max_u64((uint64_t)width, strlen(reader_merge_label(merged->merge, i)));
		if (reader_wall_ns(merged->files[i].reader, reader_now(merged->files[i].reader), &ns) == 0)
			end_ns = max_u64(end_ns, ns);
	}
	for (uint32_t i = 0; i < merged->count; i++) {
		struct file *file = &merged->files[i];

		file->request = *request;
		file->request.spec.start_ns = reader_merge_start_ns(merged->merge);
		file->request.spec.end_ns = end_ns;
		/* only files with clock pairs are merged */
		must(reader_printer_create(file->reader, stdout, request->json ? READER_PRINT_JSON : READER_PRINT_TEXT,
					   request->wall, &file->printer) == 0);
		reader_printer_set_process(file->printer, reader_merge_label(merged->merge, i), width,
					   reader_merge_start_ns(merged->merge));
		reader_printer_set_words(file->printer, trace_opcode_word);
	}
}

static int close_chosen_files(struct merged *merged, int status)
{
	for (uint32_t i = 0; i < merged->count; i++) {
		int rc = reader_printer_destroy(merged->files[i].printer);

		if (rc && status != EXIT_USAGE) {
			fprintf(stderr, "fathom trace: cannot write: %s\n", strerror(-rc));
			status = EXIT_USAGE;
		}
		reader_filter_destroy(merged->files[i].request.filter);
		free(merged->files[i].request.point_wanted);
		reader_slowest_destroy(merged->files[i].slowest);
	}
	reader_merge_destroy(merged->merge);
	for (uint32_t i = 0; i < merged->count; i++)
		reader_close(merged->files[i].reader);
	return status;
}

/* Resolve the filters for each file. 0: at least one file has them; else the exit status after an error message. */
static int choose_all_filters(struct merged *merged)
{
	uint32_t passing = 0;
	struct fathom_fault why = { 0 };

	for (uint32_t i = 0; i < merged->count; i++) {
		struct file *file = &merged->files[i];

		file->passes = trace_try_filters(&file->request, file->reader, &why) == 0;
		passing += file->passes;
	}
	return passing ? 0 : trace_complain(why.text, NULL);
}

/* ---- headers ---- */

static void print_file_headers(struct merged *merged)
{
	for (uint32_t i = 0; i < merged->count; i++) {
		struct file *file = &merged->files[i];
		uint64_t error_ns = reader_wall_error_ns(file->reader);
		struct reader_counts counts;
		char line[256];

		reader_merge_counts(merged->merge, i, &counts);
		reader_print_header(file->printer, &counts);
		if (error_ns > WALL_ERROR_REPORTED_NS && !reader_merge_is_one_counter(merged->merge)) {
			snprintf(line, sizeof(line),
				 "its times of day are accurate to %.3f ms: its events may be shifted by that against the "
				 "others",
				 (double)error_ns / NS_PER_MS);
			reader_print_remark(file->printer, line);
		}
		if (!file->passes)
			reader_print_remark(file->printer,
					    "its events are not shown: it lacks an event or argument of the filters");
		reader_printer_yield(file->printer);
	}
	reader_print_line(merged->files[0].printer, "# times count from the start of the first program");
	reader_printer_yield(merged->files[0].printer);
}

/* ---- show ---- */

static int show_events(struct merged *merged)
{
	struct reader_counts counts;
	struct reader_event event;
	uint32_t index, printed = 0;

	print_file_headers(merged);
	while (reader_merge_next(merged->merge, &index, &event)) {
		struct file *file = &merged->files[index];

		if (!file->passes || !trace_is_wanted(&file->request, &event))
			continue;
		if (index != printed)
			reader_printer_yield(merged->files[printed].printer);
		printed = index;
		reader_print_event(file->printer, &event);
	}
	reader_printer_yield(merged->files[printed].printer);
	for (uint32_t i = 0; i < merged->count; i++) {
		reader_merge_counts(merged->merge, i, &counts);
		reader_print_end(merged->files[i].printer, &counts);
		reader_printer_yield(merged->files[i].printer);
	}
	return EXIT_SUCCESS;
}

/* ---- slowest ---- */

/* The sort key of lives: the largest comes first. */
static uint64_t sort_key(const struct file *file, const struct reader_exemplar *exemplar, bool failed)
{
	uint64_t end_ns = 0;

	if (!failed)
		return reader_ns_from_ticks(file->reader, exemplar->spent_ticks);
	if (reader_wall_ns(file->reader, exemplar->end_ticks[0], &end_ns) != 0)
		return 0;
	return end_ns;
}

static int show_slowest(struct merged *merged)
{
	uint32_t count_max = 0, number = 0;
	int status = trace_slowest_count(merged->request, &count_max);

	for (uint32_t i = 0; i < merged->count && status == EXIT_SUCCESS; i++)
		status = trace_slowest_find(&merged->files[i].request, merged->files[i].reader, &merged->files[i].slowest);
	if (status != EXIT_SUCCESS)
		return status;
	print_file_headers(merged);
	while (number < count_max) {
		struct file *best = NULL;
		uint64_t best_rank = 0;

		for (uint32_t i = 0; i < merged->count; i++) {
			struct file *file = &merged->files[i];
			uint64_t its;

			if (!file->passes || file->slowest_next == reader_slowest_count(file->slowest))
				continue;
			its = sort_key(file, reader_slowest_at(file->slowest, file->slowest_next), file->request.failed);
			if (best && its <= best_rank)
				continue;
			best = file;
			best_rank = its;
		}
		if (!best)
			break;
		trace_slowest_print(&best->request, best->printer, best->slowest, best->slowest_next++, ++number);
		reader_printer_yield(best->printer);
	}
	for (uint32_t i = 0; i < merged->count; i++) {
		struct file *file = &merged->files[i];

		trace_slowest_remarks(&file->request, file->reader, file->printer, file->slowest, number);
		reader_printer_yield(file->printer);
	}
	return EXIT_SUCCESS;
}

/* ---- running a command ---- */

/*
 * Run on one file after the other. Returns the highest exit status; an error of one file counts only if all files have
 * one.
 */
static int run_on_each_file(struct merged *merged, trace_word_fn run)
{
	int status = EXIT_SUCCESS;
	uint32_t answered = 0;

	for (uint32_t i = 0; i < merged->count; i++) {
		struct file *file = &merged->files[i];
		int its = run(&file->request, file->reader, file->printer);

		if (its != EXIT_USAGE) {
			answered++;
			status = its > status ? its : status;
		}
		reader_printer_yield(file->printer);
	}
	return answered ? status : EXIT_USAGE;
}

int trace_merged(struct trace_request *request, trace_word_fn run)
{
	struct merged *merged = calloc(1, sizeof(*merged));
	int status;

	must(merged);
	merged->request = request;
	status = open_chosen_files(merged);
	if (status == EXIT_SUCCESS) {
		make_printers(merged);
		if (run == trace_show || run == trace_slowest) {
			status = choose_all_filters(merged);
			if (status == EXIT_SUCCESS && reader_merge_begin(merged->merge) != 0)
				status = trace_complain("out of memory", NULL);
			if (status == EXIT_SUCCESS)
				status = run == trace_show ? show_events(merged) : show_slowest(merged);
		} else {
			status = run_on_each_file(merged, run);
		}
	}
	status = close_chosen_files(merged, status);
	free(merged);
	return status;
}
