/* SPDX-License-Identifier: BSD-2-Clause */
/* record - `fathom trace record`: writes all records of a running engine to files, until Ctrl-C or its end. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/trace/trace.h"
#include "inspect/record/record.h"
#include "inspect/spdk/spdk_file.h"

enum { PROGRESS_MS = 500, OPTION_ROTATE = 256, OPTION_KEEP, OPTION_TIME, OPTION_FORCE, OPTION_JSON };

struct record_request {
	struct trace_choices choices;
	bool json;
	uint64_t time_ns; /* 0: until interrupted */
	struct recorder_options options;
};

static const char help_text[] =
	"usage: fathom trace record -o FILE [-z] [--rotate SIZE] [--keep COUNT] [--time TIME] [--force]\n"
	"                          [-s NAME] [-p PID] [-f FILE]\n"
	"\n"
	"Write all that a running engine traces into a file, from what its rings still hold on, until Ctrl-C, or until "
	"the\n"
	"engine ends. The file is read by all words of `fathom trace`, with -f FILE. What the engine wrote faster than it "
	"could be\n"
	"read is counted as lost; a larger ring (--num-trace-entries of fathom-engine) loses less.\n"
	"\n"
	"  -o FILE            into this file; the next ones are FILE.1, FILE.2 ...\n"
	"  -z                 compress it (zstd, FILE.zst)\n"
	"  --rotate SIZE      begin another file after so much: 64M, 1G (the default)\n"
	"  --keep COUNT       keep that many files, the newest; without it all\n"
	"  --time TIME        end after 10s, 5m, 1h\n"
	"  --force            overwrite files that are there already; without it they are refused\n"
	"  -s NAME, -p PID, -f FILE\n"
	"                     which engine, by its name, its process or its trace file; without these the newest\n"
	"  --json             print the result as a JSON object\n"
	"  -h, --help         this text\n"
	"\n"
	"exit status: 0; 1: some records were lost; 2: an error\n";

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
	stopped = 1;
}

static int parse_number(const char *text, const char *what, uint64_t max, uint64_t *number_ret)
{
	if (text_parse_u64(text, 10, max, number_ret) == 0 && *number_ret > 0)
		return 0;
	return trace_complain(what, text) + 1;
}

/* 0: continue; else the exit status + 1. */
static int parse_options(int argc, char **argv, struct record_request *request)
{
	static const struct option options[] = {
		{ "rotate", required_argument, NULL, OPTION_ROTATE },
		{ "keep", required_argument, NULL, OPTION_KEEP },
		{ "time", required_argument, NULL, OPTION_TIME },
		{ "force", no_argument, NULL, OPTION_FORCE },
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t number;
	int option, rc = 0;

	while (rc == 0 && (option = getopt_long(argc, argv, TRACE_CHOICE_OPTIONS "o:zh", options, NULL)) != -1) {
		if (trace_choice_take(&request->choices, option, optarg, &rc))
			continue;
		switch (option) {
		case 'o':
			request->options.output = optarg;
			break;
		case 'z':
			request->options.compress = true;
			break;
		case OPTION_ROTATE:
			if (text_parse_bytes(optarg, &request->options.rotate_bytes) != 0)
				rc = trace_complain("--rotate takes a size such as 64M, not", optarg) + 1;
			break;
		case OPTION_KEEP:
			rc = parse_number(optarg, "--keep takes a number of files, not", UINT32_MAX, &number);
			request->options.keep = rc ? 0 : (uint32_t)number;
			break;
		case OPTION_TIME:
			if (text_parse_duration(optarg, &request->time_ns) != 0 || request->time_ns == 0)
				rc = trace_complain("--time takes a time such as 10s, not", optarg) + 1;
			break;
		case OPTION_FORCE:
			request->options.force = true;
			break;
		case OPTION_JSON:
			request->json = true;
			break;
		case 'h':
			fputs(help_text, stdout);
			return EXIT_SUCCESS + 1;
		default:
			fprintf(stderr, "`fathom trace record --help` says more\n");
			return EXIT_USAGE + 1;
		}
	}
	return rc;
}

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

	while (!stopped && rc == 0 && !progress.source_ended && !(request->time_ns && now - began >= request->time_ns)) {
		struct timespec wait;

		rc = recorder_step(recorder, &sleep_ns, why);
		recorder_progress(recorder, &progress);
		wait = (struct timespec){ .tv_nsec = (long)sleep_ns };
		if (rc == 0 && sleep_ns && !progress.source_ended)
			(void)nanosleep(&wait, NULL); /* Ctrl-C may end it early */
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

static int report_result(const struct record_request *request, const struct recorder_progress *progress)
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

bool trace_record_knows(int argc, char **argv)
{
	return argc > 1 && strcmp(argv[1], "record") == 0;
}

/* SPDK's targets have their own recorder. */
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
	const struct sigaction action = { .sa_handler = stop };
	struct recorder_progress progress;
	struct record_request request = { 0 };
	struct recorder *recorder = NULL;
	struct fathom_fault why = { 0 }, close_why;
	char path[PATH_MAX];
	int rc = parse_options(argc, argv, &request), close_rc;

	if (rc)
		return rc - 1;
	if (argc - optind > 1)
		return trace_complain("this is one word too many:", argv[optind + 1]);
	if (!request.options.output)
		return trace_complain("say into which file, by -o FILE", NULL);
	rc = trace_choice_only_path(&request.choices, "record", path);
	if (rc)
		return rc;
	request.options.source = path;
	if (is_of_spdk(path)) {
		fprintf(stderr,
			"fathom trace: %s is of an SPDK target: `spdk_trace_record` records it, and `fathom trace -f`\n"
			"reads what that wrote; `fathom trace follow` prints what comes\n",
			path);
		return EXIT_USAGE;
	}
	if (recorder_open(&request.options, &recorder, &why) != 0)
		return trace_complain(why.text, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	rc = run_recorder(&request, recorder, &why);
	recorder_progress(recorder, &progress);
	close_rc = recorder_close(recorder, &progress, rc ? &close_why : &why);
	if (rc || close_rc)
		return trace_complain(why.text, NULL);
	return report_result(&request, &progress);
}
