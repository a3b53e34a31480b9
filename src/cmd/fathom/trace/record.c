/* SPDX-License-Identifier: BSD-2-Clause */
/* record - `fathom trace record`: writes all records of a running engine to files, until Ctrl-C or its end. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/interrupt.h"
#include "cmd/fathom/trace/trace.h"
#include "inspect/record/record.h"
#include "inspect/spdk/spdk_file.h"

enum { PROGRESS_MS = 500 };

struct record_request {
	struct trace_choices choices;
	bool json;
	uint64_t time_ns; /* 0: until interrupted */
	struct recorder_options options;
};

#define AT(member) .offset = offsetof(struct record_request, member)

static const struct option_row rows[] = {
	{ NULL, 'o', OPTION_TEXT, "FILE", "file to write; the next ones are FILE.1, FILE.2 ...", AT(options.output),
	  .values = OPTION_FILES },
	{ NULL, 'z', OPTION_FLAG, NULL, "compress it (zstd, FILE.zst)", AT(options.compress) },
	{ "rotate", 0, OPTION_SIZE, "SIZE", "start another file after this size: 64M, 1G (the default)",
	  AT(options.rotate_bytes) },
	{ "keep", 0, OPTION_NUMBER32, "COUNT", "keep only the newest COUNT files (default: all)", AT(options.keep),
	  OPTION_RANGE(1, UINT32_MAX) },
	{ "time", 0, OPTION_DURATION, "TIME", "end after this time, such as 10s, 5m, 1h", AT(time_ns), .min = 1 },
	{ "force", 0, OPTION_FLAG, NULL, "overwrite existing files", AT(options.force) },
	{ "json", 0, OPTION_FLAG, NULL, "print the result as a JSON object", AT(json) },
	OPTION_HELP_ROW,
	{ .type = OPTION_HEADING, .help = "Select the engine (default: the newest):" },
	TRACE_CHOICE_ROWS(struct record_request),
};

const struct option_table trace_record_table = {
	.name = "fathom trace record",
	.usage = "fathom trace record -o FILE [-z] [--rotate SIZE] [--keep COUNT] [--time TIME] [--force]\n"
		 "                    [-s NAME] [-p PID] [-f FILE]",
	.about = "Write all trace records of a running engine to a file, from the oldest ones in its rings on, until "
		 "Ctrl-C or the end of the engine. All commands of `fathom trace` read the file, with -f FILE. Records "
		 "that the engine overwrote before they were read count as lost; a larger ring (--num-trace-entries of "
		 "fathom-engine) loses fewer.",
	OPTION_ROWS(rows),
	.more = "Exit status: 0: success; 1: some records were lost; 2: an error.",
};

static void print_progress(const struct recorder *recorder, uint64_t ns, bool last)
{
	struct recorder_progress progress;

	recorder_progress(recorder, &progress);
	fprintf(stderr, "\r%6.1f s  %12" PRIu64 " records  %9.1f MiB  %10" PRIu64 " lost  %" PRIu64 " file%s%s",
		(double)ns / NS_PER_SEC, progress.records, (double)progress.records * 32 / (1 << 20), progress.lost,
		progress.files, progress.files == 1 ? " " : "s", last ? "\n" : "");
}

static int run_recorder(const struct record_request *request, struct recorder *recorder, struct fathom_fault *why)
{
	uint64_t began = clock_monotonic_ns(), printed = began, now = began, sleep_ns = 0;
	bool terminal = isatty(STDERR_FILENO) && !request->json;
	struct recorder_progress progress = { 0 };
	int rc = 0;

	while (!interrupt_arrived() && rc == 0 && !progress.source_ended &&
	       !(request->time_ns && now - began >= request->time_ns)) {
		rc = recorder_step(recorder, &sleep_ns, why);
		recorder_progress(recorder, &progress);
		if (rc == 0 && sleep_ns && !progress.source_ended)
			interrupt_sleep(clock_monotonic_ns() + sleep_ns);
		now = clock_monotonic_ns();
		if (terminal && now - printed > PROGRESS_MS * NS_PER_MS) {
			print_progress(recorder, now - began, false);
			printed = now;
		}
	}
	if (terminal)
		print_progress(recorder, now - began, true);
	return rc;
}

static int report_recording(const struct record_request *request, const struct recorder_progress *progress)
{
	const char *suffix = request->options.compress ? ".zst" : "";

	if (request->json) {
		printf("{\"records\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"files\": %" PRIu64 ", \"engine_ended\": %s}\n",
		       progress->records, progress->lost, progress->files, progress->source_ended ? "true" : "false");
	} else {
		printf("%" PRIu64 " records in %s%s%s, %" PRIu64 " lost%s\n", progress->records, request->options.output,
		       suffix, progress->files > 1 ? " and the files after it" : "", progress->lost,
		       progress->source_ended ? "; the engine has ended" : "");
	}
	return progress->lost ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Is it the file of an SPDK target? `record` cannot read its rings: SPDK has its own recorder. */
static bool is_of_spdk(const char *path)
{
	char begin[SPDK_HEADER_BYTES];
	FILE *file = fopen(path, "re");
	bool recognised = file && fread(begin, sizeof(begin), 1, file) == 1 && spdk_recognise(begin);

	if (file)
		fclose(file);
	return recognised;
}

int trace_record(int argc, char **argv)
{
	struct recorder_progress progress;
	struct record_request request = { 0 };
	struct recorder *recorder = NULL;
	struct fathom_fault why = { 0 }, close_why;
	char path[PATH_MAX];
	int at, rc = options_parse(&trace_record_table, argc, argv, &request, &at), close_rc;

	if (rc != OPTIONS_RUN)
		return rc;
	if (argc - at > 1)
		return options_reject(&trace_record_table, "unexpected argument \"%s\"", argv[at + 1]);
	if (!request.options.output)
		return options_reject(&trace_record_table, "-o FILE is missing: the file to write");
	rc = trace_choice_only_path(&request.choices, "record", path);
	if (rc)
		return rc;
	request.options.source = path;
	if (is_of_spdk(path)) {
		fprintf(stderr,
			"fathom trace: %s belongs to an SPDK target: record it with `spdk_trace_record`, whose file\n"
			"`fathom trace -f` reads, or print its events with `fathom trace follow`\n",
			path);
		return EXIT_USAGE;
	}
	if (recorder_open(&request.options, &recorder, &why) != 0)
		return trace_complain(why.text, NULL);
	interrupt_catch();
	rc = run_recorder(&request, recorder, &why);
	recorder_progress(recorder, &progress);
	close_rc = recorder_close(recorder, &progress, rc ? &close_why : &why);
	if (rc || close_rc)
		return trace_complain(why.text, NULL);
	return report_recording(&request, &progress);
}
