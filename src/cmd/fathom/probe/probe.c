/* SPDX-License-Identifier: BSD-2-Clause */
/* probe - `fathom probe`: the USDT probes of running programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/probe/probe.h"

int probe_complain(const char *text, const char *value)
{
	fprintf(stderr, value ? "fathom probe: %s \"%s\"\n" : "fathom probe: %s\n", text, value);
	return EXIT_USAGE;
}

static int probe_docs(const struct probe_request *request)
{
	if (request->target_count || request->all || request->json)
		return probe_complain("docs takes no arguments: it describes the engine of this version", NULL);
	fputs(probe_page, stdout);
	return EXIT_SUCCESS;
}

/* Remove the script's arguments, those behind "--", from `argv`: getopt() would mix them with names of processes. */
static char *const *cut_script_args(int *argc, char **argv)
{
	for (int i = 1; i < *argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			*argc = i;
			argv[i] = NULL;
			return &argv[i + 1];
		}
	}
	return NULL;
}

#define AT(member) .offset = offsetof(struct probe_request, member)

static const struct option_row rows[] = {
	{ "all", 0, OPTION_FLAG, NULL, "of list, check: all processes with probes; of registry: also those with SDT notes",
	  AT(all) },
	{ "check", 0, OPTION_FLAG, NULL, "of dof: check the file, and print what is wrong and where", AT(check) },
	{ "json", 0, OPTION_FLAG, NULL, "print a JSON object on each line", AT(json) },
	{ "watch", 0, OPTION_FLAG, NULL, "of registry: print what is registered, then each change", AT(watch) },
	{ "socket", 0, OPTION_TEXT, "PATH", "of registry: socket of fathom-probed (default /run/fathom/probed.sock)",
	  AT(socket), .values = OPTION_FILES },
	{ "state-dir", 0, OPTION_TEXT, "DIR", "of registry: read this tree, without a daemon; DTrace's is /run/dtrace",
	  AT(state_directory), .values = OPTION_FOLDERS },
	{ NULL, 'e', OPTION_TEXT, "PROGRAM", "of run: the script itself", AT(program) },
	{ NULL, 'o', OPTION_TEXT, "FILE", "of run: write to this file", AT(output), .values = OPTION_FILES },
	{ NULL, 'd', OPTION_DURATION, "SECONDS", "of run: end after this time, also 500ms", AT(duration_ns), .min = 1 },
	{ "end-timeout", 0, OPTION_DURATION, "SECONDS",
	  "of run: how long bpftrace may take to print its maps and end (default 60)", AT(end_timeout_ns), .min = 1 },
	{ "print", 0, OPTION_FLAG, NULL, "of run: print the program for bpftrace, and do not run it", AT(print) },
	{ "dry-run", 0, OPTION_FLAG, AT(print) },
	{ "verbose", 0, OPTION_FLAG, NULL, "of run: print bpftrace's messages at the end", AT(verbose) },
	{ "force", 0, OPTION_FLAG, NULL, "of run: overwrite an existing file of -o", AT(force) },
	OPTION_HELP_ROW,
};

/* The function of a command; `own` of its row. */
struct probe_word {
	int (*run)(const struct probe_request *request);
};

#define WORD(function)                                                                                                     \
	.own = &(const struct probe_word)                                                                                  \
	{                                                                                                                  \
		function                                                                                                   \
	}

static const struct option_command commands[] = {
	{ "list", "[PID|NAME...]",
	  "the probes of engines and of SPDK's targets, or of the processes with this id, program or trace file name. "
	  "Arguments are arg0, arg1 ... of bpftrace; their meaning is printed if the program's trace file has it, else "
	  "their widths",
	  OPTION_TRACE_NAMES, WORD(probe_list) },
	{ "check", "[PID|NAME...]",
	  "whether the kernel allows attaching: each requirement with yes or no and why, and the settings for a container",
	  OPTION_TRACE_NAMES, WORD(probe_check) },
	{ "docs", NULL, "each probe of this version's engine: when it fires, its arguments, states and enums",
	  WORD(probe_docs) },
	{ "dof", "FILE...",
	  "the probes of a file: a DOF object, as `dtrace -G` writes it, or an ELF file with .SUNW_dof, .note.usdt or "
	  ".note.stapsdt. Addresses are those in the file",
	  OPTION_FILES, WORD(probe_dof) },
	{ "registry", "[PID|PROVIDER|PATTERN...]",
	  "the DTrace-style probes of all processes, from fathom-probed: PROVIDERpid:MODULE:FUNCTION:PROBE, the types of "
	  "their arguments, their addresses, and how they were found. PATTERN is DTrace's: app*:::start, or start alone",
	  WORD(probe_registry) },
	{ "run", "SCRIPT [PID|NAME...] [-- ARG...]",
	  "run a script with bpftrace until Ctrl-C, which prints its maps. SCRIPT is a file, the name of a supplied "
	  "script (such as nvmf), or - for standard input. In it, __EXE__ and __PID__ are the program and the process, "
	  "@io_status[arg3] is the name of an enum's value, struct NAME is the program's. Output is in the order of time",
	  OPTION_FILES, WORD(probe_run) },
};

const struct option_table probe_table = {
	.name = "fathom probe",
	.usage = "fathom probe list [--all] [--json] [PID|NAME...]\n"
		 "fathom probe check [--all] [--json] [PID|NAME...]\n"
		 "fathom probe docs\n"
		 "fathom probe dof [--check] [--json] FILE...\n"
		 "fathom probe registry [--all] [--json] [--watch] [--socket PATH | --state-dir DIR] "
		 "[PID|PROVIDER|PATTERN...]\n"
		 "fathom probe run [-o FILE [--force]] [-d SECONDS] [--json] [--print] [--verbose] SCRIPT [PID|NAME...] "
		 "[-- ARG...]\n"
		 "fathom probe run ... -e PROGRAM [PID|NAME...] [-- ARG...]",
	.about = "The USDT probes of running programs, which bpftrace, perf, gdb, SystemTap and bcc can attach to.",
	OPTION_COMMANDS(commands),
	OPTION_ROWS(rows),
	.more = "Exit status: 0: success; 1: no such process or probe, attaching is not allowed, or a file is not valid; "
		"2: an error.",
};

int cmd_probe(int argc, char **argv)
{
	struct probe_request request = { .script_args = cut_script_args(&argc, argv) };
	const struct option_command *command;
	int at, status = options_parse(&probe_table, argc, argv, &request, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (at == argc)
		return options_reject(&probe_table, "a command is missing: check, docs, dof, list, registry or run");
	request.targets = argv + at + 1;
	request.target_count = argc - at - 1;
	command = options_find_command(&probe_table, argv[at]);
	if (command)
		return ((const struct probe_word *)command->own)->run(&request);
	return options_reject(&probe_table, "\"%s\" is not check, docs, dof, list, registry or run", argv[at]);
}
