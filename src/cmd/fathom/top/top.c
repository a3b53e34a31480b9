/* SPDX-License-Identifier: BSD-2-Clause */
/* top - the command line of `fathom top`; see top.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/top/top.h"

enum {
	INTERVAL_MS_MIN = 100,
	INTERVAL_SEC_MAX = 3600,
	HISTORY_SEC_MIN = 60,
	HISTORY_SEC_MAX = 86400,
	EXIT_NO_ENGINE = 1,
};

bool top_read_interval(const char *text, uint64_t *ns_ret)
{
	uint64_t ns;

	if (text_parse_duration(text, &ns) != 0 || ns < INTERVAL_MS_MIN * NS_PER_MS || ns > INTERVAL_SEC_MAX * NS_PER_SEC)
		return false;
	*ns_ret = ns;
	return true;
}

static int read_interval(void *to, const char *text, struct fathom_fault *why)
{
	return top_read_interval(text, to) ? 0 : fault(why, -EINVAL, "is not a time from 100ms to 1h");
}

static int read_tab(void *to, const char *text, struct fathom_fault *why)
{
	struct top_options *options = to;

	for (enum top_tab tab = 0; tab < TOP_TABS; tab++) {
		if (strcasecmp(top_tab_key(tab), text) == 0) {
			options->tab = tab;
			options->tab_given = true;
			return 0;
		}
	}
	return fault(why, -EINVAL, "is not threads, pollers, cores, volumes, hosts or buffers");
}

static int read_history(void *to, const char *text, struct fathom_fault *why)
{
	uint64_t ns;

	if (text_parse_duration(text, &ns) != 0 || ns < HISTORY_SEC_MIN * NS_PER_SEC || ns > HISTORY_SEC_MAX * NS_PER_SEC)
		return fault(why, -EINVAL, "is not a time from 1m to 24h");
	*(uint64_t *)to = ns;
	return 0;
}

static int read_color(void *to, const char *text, struct fathom_fault *why)
{
	*(enum top_color *)to = TOP_COLOR_ON;
	return 0;
}

static int read_no_color(void *to, const char *text, struct fathom_fault *why)
{
	*(enum top_color *)to = TOP_COLOR_OFF;
	return 0;
}

#define AT(member) .offset = offsetof(struct top_options, member)

static const struct option_row rows[] = {
	{ "interval", 'i', OPTION_CALL, "TIME", "sampling interval: 500ms, 2s, a number of seconds (1s; from 100ms to 1h)",
	  AT(interval_ns), .read = read_interval },
	{ NULL, 'n', OPTION_NUMBER, "COUNT", "number of samples; with --batch or --json", AT(count),
	  OPTION_RANGE(1, UINT32_MAX) },
	{ "batch", 'b', OPTION_FLAG, NULL, "print tables on standard output instead of a screen", AT(batch) },
	{ "json", 0, OPTION_FLAG, NULL, "print each sample as a JSON document on one line", AT(json) },
	{ "totals", 't', OPTION_FLAG, NULL, "totals since the engine's start, instead of the interval's values",
	  AT(totals) },
	{ "tab", 0, OPTION_CALL, "TAB",
	  "tab to begin with; with --batch the only one: threads, pollers, cores, volumes, hosts or buffers",
	  .read = read_tab, .values = "threads pollers cores volumes hosts buffers" },
	{ "sort", 0, OPTION_TEXT, "COLUMN", "sort the tab by this column: its title, or its key in --json", AT(sort) },
	{ "filter", 0, OPTION_TEXT, "TEXT", "only rows with this text in a name", AT(filter) },
	{ "history", 0, OPTION_CALL, "TIME",
	  "period of the history of volumes (10m; from 1m to 24h); --batch and --json print it only with this option",
	  AT(history_ns), .read = read_history },
	{ "color", 0, OPTION_CALL, NULL, "use colours although the variable NO_COLOR is set", AT(color),
	  .read = read_color },
	{ "no-color", 0, OPTION_CALL, NULL, "use no colours", AT(color), .read = read_no_color },
	OPTION_HELP_ROW,
};

const struct option_table top_table = {
	.name = "fathom top",
	.usage = "fathom top [OPTION...] [PID|NAME|SOCKET]",
	.about = "Show the activity of an engine: its threads, pollers, cores, volumes, hosts and data buffers. The "
		 "argument names the engine by its process id, its program, the name of its trace file, or the path of its "
		 "control socket. Without an argument it is the engine at /var/tmp/fathom.sock, or the only one that runs. "
		 "SPDK's targets are supported, too. On the screen, h lists the keys.",
	OPTION_ROWS(rows),
	.operands = OPTION_TRACE_NAMES,
	.more = "Exit status: 0: success; 1: the engine cannot be reached; 2: an error of the command line or the "
		"terminal.",
};

/* Reject contradictory options. */
static int check_top_options(const struct top_options *options)
{
	if (options->sort && !options->tab_given)
		return options_reject(&top_table, "--sort needs --tab");
	if (options->sort && top_show_column(options->tab, options->sort) < 0)
		return options_reject(&top_table, "the tab has no column \"%s\"", options->sort);
	if (options->count != UINT64_MAX && !options->batch && !options->json)
		return options_reject(&top_table, "-n is only for --batch and --json");
	if (!options->batch && !options->json && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		return options_reject(&top_table, "standard input or output is not a terminal; use --batch or --json");
	return 0;
}

int cmd_top(int argc, char **argv)
{
	struct top_options options = { .interval_ns = NS_PER_SEC, .count = UINT64_MAX, .filter = "", .tab = TOP_THREADS };
	struct top_link *link;
	struct fathom_fault why;
	int at, status = options_parse(&top_table, argc, argv, &options, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (argc - at > 1)
		return options_reject(&top_table, "unexpected argument \"%s\": only one engine can be watched",
				      argv[at + 1]);
	status = check_top_options(&options);
	if (status)
		return status;
	options.target = argv[at];
	if (top_link_open(options.target, &link, &why) != 0) {
		fprintf(stderr, "fathom top: %s\n", why.text);
		return EXIT_NO_ENGINE;
	}
	return options.batch || options.json ? top_batch(&options, link) : top_screen(&options, link);
}
