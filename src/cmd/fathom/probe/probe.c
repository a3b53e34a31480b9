/* SPDX-License-Identifier: BSD-2-Clause */
/* probe - `fathom probe`: the USDT probes of running programs. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/probe/probe.h"

static int probe_docs(const struct probe_request *request);

static const struct {
	const char *name;
	int (*run)(const struct probe_request *request);
} words[] = {
	{ "check", probe_check }, { "docs", probe_docs },	  { "dof", probe_dof },
	{ "list", probe_list },	  { "registry", probe_registry }, { "run", probe_run },
};

static const char help_text[] =
	"usage: fathom probe list [--all] [--json] [PID|NAME...]\n"
	"       fathom probe check [--all] [--json] [PID|NAME...]\n"
	"       fathom probe docs\n"
	"       fathom probe dof [--check] [--json] FILE...\n"
	"       fathom probe registry [--all] [--json] [--watch] [--socket PATH | --state-dir DIR] "
	"[PID|PROVIDER|PATTERN...]\n"
	"       fathom probe run [-o FILE] [-d SECONDS] [--json] [--print] [--verbose] SCRIPT [PID|NAME...] [-- ARG...]\n"
	"       fathom probe run ... -e PROGRAM [PID|NAME...] [-- ARG...]\n"
	"\n"
	"The USDT probes of running programs, which bpftrace, perf, gdb, SystemTap and bcc can attach to.\n"
	"\n"
	"  list    the probes of engines and of SPDK's targets, or of the processes named by their id, their program or "
	"the\n"
	"          name of their trace file: with their arguments, as arg0, arg1 ... of bpftrace, where the program's "
	"trace\n"
	"          file says what they are; else with their widths\n"
	"  check   may the kernel attach to them? Each requirement with yes or no and why, and what a container would "
	"need\n"
	"  docs    every probe that this version's engine has: when it fires, its arguments, states and enums\n"
	"  dof     the probes of a file, in words: a DOF object, as `dtrace -G` writes it, or an ELF file with .SUNW_dof,\n"
	"          .note.usdt or .note.stapsdt. Addresses are those of the file\n"
	"  registry  the DTrace-style probes of all processes, as fathom-probed knows them: "
	"PROVIDERpid:MODULE:FUNCTION:PROBE, the\n"
	"          types of their arguments, where they are, and how they were found. PATTERN is DTrace's: app*:::start,\n"
	"          or start alone\n"
	"  run     run a script with bpftrace on them, until Ctrl-C, which prints its maps: a file, one that came with "
	"fathom by\n"
	"          its name alone (such as nvmf), or - for standard input. __EXE__ and __PID__ in it are the program and "
	"the\n"
	"          process, @io_status[arg3] is the word of an enum's value, struct NAME is the program's, and what it "
	"prints\n"
	"          comes in the order of time\n"
	"\n"
	"  --all         every process that has probes, whoever made it; of registry: also those with SDT notes alone\n"
	"  --check       of dof: is the file right? If not, what is wrong, and where\n"
	"  --json        a JSON object a line\n"
	"  --watch       of registry: what is there, and then what comes and goes\n"
	"  --socket PATH    of registry: of fathom-probed, if it is not /run/fathom/probed.sock\n"
	"  --state-dir DIR  of registry: read that tree, without a daemon; DTrace's is /run/dtrace\n"
	"  -e PROGRAM    the script itself\n"
	"  -o FILE       write there\n"
	"  -d SECONDS    end after that time; 500ms and the like, too\n"
	"  --print       print the program that bpftrace would get, and do not run it\n"
	"  --verbose     bpftrace's own words at the end\n"
	"  -h, --help    this text\n"
	"\n"
	"exit status: 0; 1: there is no such process, or it may not attach, or a file is not right; 2: an error\n";

int probe_complain(const char *text, const char *value)
{
	fprintf(stderr, value ? "fathom probe: %s \"%s\"\n" : "fathom probe: %s\n", text, value);
	return EXIT_USAGE;
}

static int probe_docs(const struct probe_request *request)
{
	if (request->target_count || request->all || request->json)
		return probe_complain("docs takes nothing: it is about this version's engine", NULL);
	fputs(probe_page, stdout);
	return EXIT_SUCCESS;
}

/* Arguments behind "--" belong to the script; getopt() would mix them with names of processes. */
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

enum {
	OPTION_ALL = 256,
	OPTION_CHECK,
	OPTION_FORCE,
	OPTION_JSON,
	OPTION_PRINT,
	OPTION_VERBOSE,
	OPTION_WATCH,
	OPTION_SOCKET,
	OPTION_STATE_DIR
};

/* 0; EXIT_USAGE: invalid; 1: help was requested. */
static int read_option(int option, struct probe_request *request)
{
	switch (option) {
	case OPTION_ALL:
		request->all = true;
		return 0;
	case OPTION_CHECK:
		request->check = true;
		return 0;
	case OPTION_FORCE:
		request->force = true;
		return 0;
	case OPTION_JSON:
		request->json = true;
		return 0;
	case OPTION_PRINT:
		request->print = true;
		return 0;
	case OPTION_VERBOSE:
		request->verbose = true;
		return 0;
	case OPTION_WATCH:
		request->watch = true;
		return 0;
	case OPTION_SOCKET:
		request->socket = optarg;
		return 0;
	case OPTION_STATE_DIR:
		request->state_directory = optarg;
		return 0;
	case 'e':
		request->program = optarg;
		return 0;
	case 'o':
		request->output = optarg;
		return 0;
	case 'd':
		if (text_parse_duration(optarg, &request->duration_ns) == 0 && request->duration_ns)
			return 0;
		return probe_complain("-d takes a time, such as 10 or 500ms, not", optarg);
	case 'h':
		fputs(help_text, stdout);
		return 1;
	default:
		fprintf(stderr, "`fathom probe --help` says more\n");
		return EXIT_USAGE;
	}
}

int cmd_probe(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "all", no_argument, NULL, OPTION_ALL },
		{ "check", no_argument, NULL, OPTION_CHECK },
		{ "force", no_argument, NULL, OPTION_FORCE },
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "print", no_argument, NULL, OPTION_PRINT },
		{ "dry-run", no_argument, NULL, OPTION_PRINT },
		{ "verbose", no_argument, NULL, OPTION_VERBOSE },
		{ "watch", no_argument, NULL, OPTION_WATCH },
		{ "socket", required_argument, NULL, OPTION_SOCKET },
		{ "state-dir", required_argument, NULL, OPTION_STATE_DIR },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct probe_request request = { .script_args = cut_script_args(&argc, argv) };
	int option;

	while ((option = getopt_long(argc, argv, "e:o:d:h", longs, NULL)) != -1) {
		int rc = read_option(option, &request);

		if (rc)
			return rc == 1 ? EXIT_SUCCESS : rc;
	}
	if (optind == argc)
		return probe_complain("a word is missing: check, docs, dof, list, registry, run", NULL);
	request.targets = argv + optind + 1;
	request.target_count = argc - optind - 1;
	for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
		if (strcmp(argv[optind], words[i].name) == 0)
			return words[i].run(&request);
	}
	return probe_complain("no such word (there are: check, docs, dof, list, registry, run):", argv[optind]);
}
