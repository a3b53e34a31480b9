/* SPDX-License-Identifier: BSD-2-Clause */
/* core - `fathom core FILE`: what a core file says about the process that it was made of. */
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/core/core_command.h"

enum { EXIT_INCOMPLETE = 1 };

static const char *const part_names[CORE_PARTS] = {
	[CORE_PART_PROGRAM] = "program", [CORE_PART_CRASH] = "crash",	    [CORE_PART_THREADS] = "threads",
	[CORE_PART_MODULES] = "modules", [CORE_PART_MAPPINGS] = "mappings", [CORE_PART_TRACE] = "trace",
};

#define AT(member) .offset = offsetof(struct core_request, member)

static const struct option_row rows[] = {
	{ "program", 'p', OPTION_TEXT, "FILE",
	  "the program (default: the path in the core); it must have the core's build-id", AT(program),
	  .values = OPTION_FILES },
	{ "records", 'n', OPTION_NUMBER, "COUNT", "trace: show the last COUNT records (32)", AT(record_count),
	  OPTION_RANGE(0, 100000) },
	{ "json", 0, OPTION_FLAG, NULL, "print a JSON object", AT(json) },
	OPTION_HELP_ROW,
};

const struct option_table core_table = {
	.name = "fathom core",
	.usage = "fathom core [OPTION...] FILE [PART...]",
	.about = "Read the core file of an engine, a server or another program: why it ended, and what it was doing.",
	OPTION_ROWS(rows),
	.operands = OPTION_FILES,
	.operands_after =
		"program crash threads modules mappings reactors light-threads pollers io-devices devices subsystems "
		"namespaces controllers "
		"qpairs io volumes members instances calls connections in-progress trace",
	.more = "PART selects what to show, all of it; several are possible. Without PART everything is shown, and of long "
		"lists the first "
		"rows:\n\n"
		"  program        the program, its build-id, its version, the process\n"
		"  crash          the signal or the failed check, the address and the instruction\n"
		"  threads        backtraces of all threads, the crashed one first\n"
		"  modules        the program and its libraries, with build-ids\n"
		"  mappings       the memory, and how much of it is in the core\n"
		"  reactors       reactors, and what each runs\n"
		"  light-threads  light threads\n"
		"  pollers        pollers\n"
		"  io-devices     what threads have channels to\n"
		"  devices        block devices\n"
		"  subsystems     NVMe subsystems\n"
		"  namespaces     their namespaces\n"
		"  controllers    their controllers\n"
		"  qpairs         queue pairs of hosts\n"
		"  io             requests in progress, the oldest first, with age and stage\n"
		"  volumes        volumes of an engine\n"
		"  members        members of the system (a server)\n"
		"  instances      engines of the host (a server)\n"
		"  calls          calls that have no response yet (a server)\n"
		"  connections    connections of calls (a server)\n"
		"  in-progress    everything in progress that the trace shows\n"
		"  trace          the last records of the trace\n\n"
		"gdb is not needed, and neither is the source. The program is: without it there are no function names, "
		"without debug "
		"information in it, or in /usr/lib/debug, no objects but what the trace shows: io, in-progress. FILE may "
		"be "
		"compressed by zstd.\n\n"
		"Exit status: 0: success; 1: a part of the core or of what is needed to read it is missing, as the remarks "
		"say; 2: an error.",
};

/* ---- parts ---- */

static int choose_part(struct core_request *request, const char *word)
{
	const char *name;

	for (uint32_t i = 0; i < CORE_PARTS; i++) {
		if (strcmp(word, part_names[i]) == 0) {
			request->parts[i] = true;
			return 0;
		}
	}
	for (uint32_t i = 0; (name = core_list_name(i)); i++) {
		if (strcmp(word, name) == 0) {
			request->lists[i] = true;
			return 0;
		}
	}
	return options_reject(&core_table, "no part \"%s\"", word);
}

static void choose_all(struct core_request *request)
{
	request->is_all = true;
	for (uint32_t i = 0; i < CORE_PARTS; i++)
		request->parts[i] = i != CORE_PART_MAPPINGS && i != CORE_PART_MODULES;
	for (uint32_t i = 0; core_list_name(i); i++)
		request->lists[i] = true;
}

/* ---- records ---- */

void core_each_record(struct reader *reader, uint64_t count, void (*each)(void *ctx, const struct reader_event *event),
		      void *ctx)
{
	struct reader_events *events;
	struct reader_event *last;
	uint64_t total = 0;

	if (count == 0 || reader_events(reader, &events) != 0)
		return;
	last = calloc(count, sizeof(*last));
	must(last);
	while (reader_event_next(events, &last[total % count]))
		total++;
	for (uint64_t i = total > count ? total - count : 0; i < total; i++)
		each(ctx, &last[i % count]);
	free(last);
	reader_events_free(events);
}

int cmd_core(int argc, char **argv)
{
	struct core_request request = { .record_count = CORE_RECORDS_DEFAULT };
	struct fathom_fault why = { 0 };
	struct core *core;
	uint32_t remarks;
	int at, status = options_parse(&core_table, argc, argv, &request, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (at == argc)
		return options_reject(&core_table, "FILE is missing: the core file");
	for (int i = at + 1; i < argc; i++) {
		if (choose_part(&request, argv[i]) != 0)
			return EXIT_USAGE;
	}
	if (argc == at + 1)
		choose_all(&request);
	unsetenv("DEBUGINFOD_URLS"); /* libdw would ask a server of the network */
	if (core_open(argv[at], request.program, &core, &why) != 0) {
		fprintf(stderr, "fathom core: %s\n", why.text);
		return EXIT_USAGE;
	}
	if (request.json)
		core_print_json(core, &request);
	else
		core_show(core, &request);
	remarks = core_info(core)->remark_count;
	core_close(core);
	return remarks ? EXIT_INCOMPLETE : EXIT_SUCCESS;
}
