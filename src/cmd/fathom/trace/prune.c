/* SPDX-License-Identifier: BSD-2-Clause */
/* prune - `fathom trace prune`: removes files of dead processes, except the newest. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/trace/trace.h"
#include "base/observe/trace/prune.h"

struct prune {
	const char *name, *directory;
	uint32_t keep[2]; /* by enum trace_file_kind */
	bool json, is_prune /* the option --prune */;
	uint64_t files, bytes;
};

#define AT(member) .offset = offsetof(struct prune, member)

static const struct option_row rows[] = {
	{ "keep", 0, OPTION_NUMBER32, "N", "files to keep of each name (4)", AT(keep[TRACE_FILE_LEFT]),
	  OPTION_RANGE(0, UINT32_MAX) },
	{ "keep-crashes", 0, OPTION_NUMBER32, "N", "files to keep of crashes, NAME_trace.pidPID.sigsegv, .must ... (8)",
	  AT(keep[TRACE_FILE_CRASH]), OPTION_RANGE(0, UINT32_MAX) },
	{ NULL, 's', OPTION_TEXT, "NAME", "only files of the program that was started with --name NAME", AT(name),
	  .values = OPTION_TRACE_NAMES },
	{ NULL, 'd', OPTION_TEXT, "DIRECTORY", "directory of the files (default /dev/shm)", AT(directory),
	  .values = OPTION_FOLDERS },
	{ "prune", 0, OPTION_FLAG, AT(is_prune) },
	{ "json", 0, OPTION_FLAG, NULL, "print a JSON object for each file, and one for all", AT(json) },
	OPTION_HELP_ROW,
};

const struct option_table trace_prune_table = {
	.name = "fathom trace prune",
	.usage = "fathom trace prune [--keep N] [--keep-crashes N] [-s NAME] [-d DIRECTORY] [--json]\n"
		 "fathom trace --prune ...",
	.about = "Remove the trace files of your ended processes, except the newest of each name. Files of running "
		 "processes stay, also those of other containers that share the directory. An engine that starts does the "
		 "same for its own name.",
	OPTION_ROWS(rows),
	.more = "Exit status: 0: success; 2: an error.",
};

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

int trace_prune(int argc, char **argv)
{
	struct prune prune = { .directory = "/dev/shm", .keep = { TRACE_DEAD_KEPT, TRACE_CRASHES_KEPT } };
	char name[TRACE_FILE_PATH_BYTES] = "";
	int at, status = options_parse(&trace_prune_table, argc, argv, &prune, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (at < argc && strcmp(argv[at], "prune") == 0)
		at++;
	if (at < argc)
		return options_reject(&trace_prune_table, "unexpected argument \"%s\"", argv[at]);
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
