/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom top - shows a live target through its control socket; see top.h. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/top/top.h"

enum { INTERVAL_MS_MIN = 100, INTERVAL_SEC_MAX = 3600, EXIT_NOBODY = 1 };

static const char help_text[] =
	"usage: fathom top [OPTION...] [PID|NAME|SOCKET]\n"
	"\n"
	"What an engine does: its threads, pollers, cores, volumes, hosts and data buffers. The engine is named by its "
	"process\n"
	"id, its program or the name of its trace file, or the path of its control socket; without that it is the one at\n"
	"/var/tmp/fathom.sock, or the only one that runs. SPDK's targets can be watched, too.\n"
	"\n"
	"  -i, --interval TIME  look so often: 500ms, 2s, a number of seconds (1s; from 100ms to 1h)\n"
	"  -n COUNT             so many times, and end; with --batch or --json\n"
	"  -b, --batch          lines instead of a screen\n"
	"      --json           a JSON document each time, in a line\n"
	"  -t, --totals         all since the engine began instead of the interval\n"
	"      --tab TAB        threads, pollers, cores, volumes, hosts or buffers: the first to show; with --batch the "
	"only one\n"
	"      --sort COLUMN    of the tab that is given, by its title or its key in --json\n"
	"      --filter TEXT    rows with this in one of their names\n"
	"  -h, --help           this text; on the screen, h lists the keys\n"
	"\n"
	"exit status: 0; 1: the engine is not there; 2: the command line\n";

enum { OPTION_JSON = 256, OPTION_TAB, OPTION_SORT, OPTION_FILTER };

static const struct option longs[] = {
	{ "interval", required_argument, NULL, 'i' },
	{ "batch", no_argument, NULL, 'b' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "totals", no_argument, NULL, 't' },
	{ "tab", required_argument, NULL, OPTION_TAB },
	{ "sort", required_argument, NULL, OPTION_SORT },
	{ "filter", required_argument, NULL, OPTION_FILTER },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int complain(const char *text, const char *value)
{
	fprintf(stderr, value ? "fathom top: %s \"%s\"\n" : "fathom top: %s\n", text, value);
	return EXIT_USAGE;
}

bool top_read_interval(const char *text, uint64_t *ns_ret)
{
	uint64_t ns;

	if (text_parse_duration(text, &ns) != 0 || ns < INTERVAL_MS_MIN * NS_PER_MS || ns > INTERVAL_SEC_MAX * NS_PER_SEC)
		return false;
	*ns_ret = ns;
	return true;
}

static int read_tab(const char *text, struct top_options *options)
{
	for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
		if (strcasecmp(top_tab_key(tab), text) == 0) {
			options->tab = tab;
			options->tab_given = true;
			return 0;
		}
	}
	return complain("--tab takes threads, pollers, cores, volumes, hosts or buffers, not", text);
}

static int read_option(int option, struct top_options *options)
{
	switch (option) {
	case 'i':
		if (!top_read_interval(optarg, &options->interval_ns))
			return complain("-i takes a time from 100ms to 1h, not", optarg);
		return 0;
	case 'n':
		if (text_parse_u64(optarg, 10, UINT32_MAX, &options->count) != 0 || options->count == 0)
			return complain("-n takes how many times to look, not", optarg);
		return 0;
	case 'b':
		options->batch = true;
		return 0;
	case OPTION_JSON:
		options->json = true;
		return 0;
	case 't':
		options->totals = true;
		return 0;
	case OPTION_TAB:
		return read_tab(optarg, options);
	case OPTION_SORT:
		options->sort = optarg;
		return 0;
	case OPTION_FILTER:
		options->filter = optarg;
		return 0;
	default:
		return complain("`fathom top --help` lists the options", NULL);
	}
}

/* Reject contradictory options. */
static int check_options(const struct top_options *options)
{
	if (options->sort && !options->tab_given)
		return complain("--sort is for the columns of one tab; --tab says which", NULL);
	if (options->sort && top_show_column(options->tab, options->sort) < 0)
		return complain("the tab has no such column:", options->sort);
	if (options->count != UINT64_MAX && !options->batch && !options->json)
		return complain("-n is for --batch and --json", NULL);
	if (!options->batch && !options->json && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		return complain("this is no terminal; --batch or --json is for scripts", NULL);
	return 0;
}

int cmd_top(int argc, char **argv)
{
	struct top_options options = { .interval_ns = NS_PER_SEC, .count = UINT64_MAX, .filter = "", .tab = TOP_THREADS };
	struct top_link *link;
	struct fathom_fault why;
	int option, status = 0;

	while (status == 0 && (option = getopt_long(argc, argv, "i:n:bth", longs, NULL)) != -1) {
		if (option == 'h') {
			fputs(help_text, stdout);
			return EXIT_SUCCESS;
		}
		status = read_option(option, &options);
	}
	if (status == 0 && argc - optind > 1)
		status = complain("one engine at a time, not also", argv[optind + 1]);
	if (status == 0)
		status = check_options(&options);
	if (status)
		return status;
	options.target = argv[optind];
	if (top_link_open(options.target, &link, &why) != 0) {
		fprintf(stderr, "fathom top: %s\n", why.text);
		return EXIT_NOBODY;
	}
	return options.batch || options.json ? top_batch(&options, link) : top_screen(&options, link);
}
