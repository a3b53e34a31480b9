/* SPDX-License-Identifier: BSD-2-Clause */
/* probe - `fathom probe`: the USDT probes of running programs. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/probe.h"

static int probe_docs(const struct probe_request *request);

static const struct {
	const char *name;
	int (*run)(const struct probe_request *request);
} words[] = {
	{ "check", probe_check },
	{ "docs", probe_docs },
	{ "list", probe_list },
};

static const char help_text[] =
	"usage: fathom probe list [--all] [--json] [PID|NAME...]\n"
	"       fathom probe check [--all] [--json] [PID|NAME...]\n"
	"       fathom probe docs\n"
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
	"\n"
	"  --all       every process that has probes, whoever made it\n"
	"  --json      a JSON object a line\n"
	"  -h, --help  this text\n"
	"\n"
	"exit status: 0; 1: there is no such process, or it may not attach; 2: an error\n";

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

int cmd_probe(int argc, char **argv)
{
	enum { OPTION_ALL = 256, OPTION_JSON };
	static const struct option longs[] = {
		{ "all", no_argument, NULL, OPTION_ALL },
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct probe_request request = { 0 };
	int option;

	while ((option = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (option) {
		case OPTION_ALL:
			request.all = true;
			break;
		case OPTION_JSON:
			request.json = true;
			break;
		case 'h':
			fputs(help_text, stdout);
			return EXIT_SUCCESS;
		default:
			fprintf(stderr, "`fathom probe --help` says more\n");
			return EXIT_USAGE;
		}
	}
	if (optind == argc)
		return probe_complain("a word is missing: list, check, docs", NULL);
	request.targets = argv + optind + 1;
	request.target_count = argc - optind - 1;
	for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
		if (strcmp(argv[optind], words[i].name) == 0)
			return words[i].run(&request);
	}
	return probe_complain("no such word (there are: list, check, docs):", argv[optind]);
}
