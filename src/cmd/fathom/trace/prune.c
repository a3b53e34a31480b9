/* SPDX-License-Identifier: BSD-2-Clause */
/* prune - `fathom trace prune`: removes files of dead processes, except the newest. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/trace/trace.h"
#include "base/observe/trace/prune.h"

enum { OPTION_JSON = 256, OPTION_KEEP, OPTION_KEEP_CRASHES, OPTION_PRUNE };

struct prune {
	const char *name, *directory;
	uint32_t keep[2]; /* by enum trace_file_kind */
	bool json;
	uint64_t files, bytes;
};

static const char help_text[] =
	"usage: fathom trace prune [--keep N] [--keep-crashes N] [-s NAME] [-d DIRECTORY] [--json]\n"
	"       fathom trace --prune ...\n"
	"\n"
	"Remove the trace files of your processes that are gone, but for the newest of each name. Those of processes that "
	"run stay,\n"
	"also of other containers that share the directory. An engine that starts does the same for its own name.\n"
	"\n"
	"  --keep N           so many of each name (4)\n"
	"  --keep-crashes N   so many of those that a crash set apart, NAME_trace.pidPID.sigsegv, .must ... (8)\n"
	"  -s NAME            of the program that was started with --name NAME alone\n"
	"  -d DIRECTORY       there; without it in /dev/shm\n"
	"  --json             a JSON object for each file, and one for all\n"
	"  -h, --help         this text\n"
	"\n"
	"exit status: 0; 2: an error\n";

static int parse_count(const char *text, uint32_t *count_ret)
{
	uint64_t number;

	if (text_parse_u64(text, 10, UINT32_MAX, &number) != 0)
		return trace_complain("how many are to be kept is a number, not", text) + 1;
	*count_ret = (uint32_t)number;
	return 0;
}

/* 0: continue; else the exit status + 1. */
static int parse_options(int argc, char **argv, struct prune *prune)
{
	static const struct option options[] = {
		{ "keep", required_argument, NULL, OPTION_KEEP },
		{ "keep-crashes", required_argument, NULL, OPTION_KEEP_CRASHES },
		{ "prune", no_argument, NULL, OPTION_PRUNE },
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option, rc = 0;

	while (rc == 0 && (option = getopt_long(argc, argv, "s:d:h", options, NULL)) != -1) {
		switch (option) {
		case 's':
			prune->name = optarg;
			break;
		case 'd':
			prune->directory = optarg;
			break;
		case OPTION_KEEP:
			rc = parse_count(optarg, &prune->keep[TRACE_FILE_LEFT]);
			break;
		case OPTION_KEEP_CRASHES:
			rc = parse_count(optarg, &prune->keep[TRACE_FILE_CRASH]);
			break;
		case OPTION_PRUNE:
			break;
		case OPTION_JSON:
			prune->json = true;
			break;
		case 'h':
			fputs(help_text, stdout);
			return EXIT_SUCCESS + 1;
		default:
			fprintf(stderr, "`fathom trace prune --help` says more\n");
			return EXIT_USAGE + 1;
		}
	}
	if (rc == 0 && optind < argc && strcmp(argv[optind], "prune") == 0)
		optind++;
	if (rc == 0 && optind < argc)
		return trace_complain("this is one word too many:", argv[optind]) + 1;
	return rc;
}

static void report_removed(const struct prune *prune, const char *path, uint64_t bytes)
{
	char *file;

	if (!prune->json) {
		printf("removed %s, %.1f MiB\n", path, (double)bytes / (1 << 20));
		return;
	}
	file = trace_json_string(path);
	printf("{\"removed\":%s,\"bytes\":%" PRIu64 "}\n", file, bytes);
	free(file);
}

static void prune_name(struct prune *prune, const char *name)
{
	char path[TRACE_FILE_PATH_BYTES];
	uint64_t bytes;

	for (int kind = TRACE_FILE_LEFT; kind <= TRACE_FILE_CRASH; kind++) {
		while (trace_prune_oldest(prune->directory, name, (enum trace_file_kind)kind, prune->keep[kind], path,
					  &bytes)) {
			report_removed(prune, path, bytes);
			prune->files++;
			prune->bytes += bytes;
		}
	}
}

bool trace_prune_knows(int argc, char **argv)
{
	return argc > 1 && (strcmp(argv[1], "prune") == 0 || strcmp(argv[1], "--prune") == 0);
}

int trace_prune(int argc, char **argv)
{
	struct prune prune = { .directory = "/dev/shm", .keep = { TRACE_DEAD_KEPT, TRACE_CRASHES_KEPT } };
	char name[TRACE_FILE_PATH_BYTES] = "";
	int rc = parse_options(argc, argv, &prune);

	if (rc)
		return rc - 1;
	if (prune.name)
		prune_name(&prune, prune.name);
	while (!prune.name && trace_prune_next_name(prune.directory, name))
		prune_name(&prune, name);
	if (prune.json)
		printf("{\"pruned\":{\"files\":%" PRIu64 ",\"bytes\":%" PRIu64 "}}\n", prune.files, prune.bytes);
	else if (prune.files)
		printf("%" PRIu64 " file%s removed, %.1f MiB free\n", prune.files, prune.files == 1 ? "" : "s",
		       (double)prune.bytes / (1 << 20));
	else
		printf("nothing to remove\n");
	return EXIT_SUCCESS;
}
