/* SPDX-License-Identifier: BSD-2-Clause */
/* blame - `fathom blame`: why the slow requests of a volume took their time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/blame/blame.h"
#include "cmd/fathom/command.h"

enum { EXIT_NO_REQUEST = 1, FILES_TRIED_MAX = 64 };

#define AT(member) .offset = offsetof(struct blame_options, member)

static const struct option_row rows[] = {
	{ .type = OPTION_HEADING,
	  .help = "Select the file (default: of a running engine that has requests of VOLUME, else the newest in "
		  "/dev/shm):" },
	TRACE_CHOICE_ROWS(struct blame_options),
	{ .type = OPTION_HEADING, .help = "Select requests:" },
	{ "since", 0, OPTION_TEXT, "AGO", "requests of this last time, such as 10m, or since a time of day",
	  AT(since_ago) },
	{ "from", 0, OPTION_TEXT, "T",
	  "requests from this time on: 12:30:00 (time of day), 5s (after the start), -5s (before the end)", AT(from) },
	{ "to", 0, OPTION_TEXT, "T", "requests up to this time", AT(to) },
	{ "slow", 0, OPTION_DURATION, "TIME",
	  "requests that took at least this long, such as 5ms (default: the slowest 1 percent)", AT(query.slow_ns),
	  OPTION_RANGE(1, 0) },
	{ "host", 0, OPTION_TEXT, "NQN", "requests of this host: a part of its NQN or address", AT(query.host) },
	{ .type = OPTION_HEADING, .help = "Format of the output:" },
	{ "json", 0, OPTION_FLAG, NULL, "print a JSON object", AT(json) },
	OPTION_HELP_ROW,
};

const struct option_table blame_table = {
	.name = "fathom blame",
	.usage = "fathom blame [OPTION...] [VOLUME|NSID|DEVICE]",
	.about =
		"Say how much of the time of slow requests was the disk, the host, the network, a queue of the engine, or "
		"its "
		"CPU. The first line is the answer, with how sure it is. The table has each cause with an example. Works "
		"on a "
		"running engine, on the file of a dead one, on a recording, and as far as its events go on an SPDK target. "
		"VOLUME is POOL/NAME; a DEVICE is a block device of the engine; a number is a namespace id. Default: all.",
	OPTION_ROWS(rows),
	.more = "An engine keeps the slowest requests of each quarter hour for three hours, the latest slow ones, and all "
		"of "
		"the last seconds. `fathom trace record` keeps everything.\n\n"
		"Exit status: 0: success, also if no request was slow; 1: the file has no request of this volume; 2: an "
		"error "
		"of the command line or the file.",
};

static int complain(const char *text)
{
	fprintf(stderr, "fathom blame: %s\n", text);
	return EXIT_USAGE;
}

/* A sign makes it a time as for --from; times of day have colons. */
static bool is_since(const char *text)
{
	uint64_t ns;

	return text_parse_duration(text, &ns) == 0 || text[0] == '-' || text[0] == '+' || strchr(text, ':');
}

/* --since 10m counts back from the end; a time of day is taken as it is. */
static void choose_times(struct blame_options *options, char *ago, size_t bytes)
{
	const char *since = options->since_ago;
	uint64_t ns;

	if (since && text_parse_duration(since, &ns) == 0)
		snprintf(ago, bytes, "-%s", since);
	else if (since)
		snprintf(ago, bytes, "%s", since);
	options->query.since = since ? ago : options->from;
	options->query.until = options->to;
}

static int print_no_request(const struct blame_answer *answer)
{
	const struct blame_coverage *coverage = blame_coverage(answer->blame);
	const struct blame_query *query = &answer->options->query;

	fprintf(stderr, "fathom blame: %s has no request of %s%s%s%s", reader_info(answer->reader)->path, answer->subject,
		query->host ? " by host " : "", query->host ? query->host : "",
		query->since || query->until ? " in that time" : "");
	for (uint32_t i = 0; i < coverage->device_count; i++)
		fprintf(stderr, "%s%s", i ? ", " : "; it has requests of: ", coverage->devices[i]);
	fprintf(stderr, "\n");
	if (answer->options->choices.count == 0 && query->volume)
		fprintf(stderr, "fathom blame: no running engine with a trace file has such requests; -f FILE selects "
				"another file\n");
	return EXIT_NO_REQUEST;
}

static void fill_answer(struct blame_answer *answer)
{
	const struct blame_options *options = answer->options;
	const struct trace_choice *choice = &options->choices.rows[0];
	const struct reader_info *info = reader_info(answer->reader);
	const struct blame_request **requests = calloc(answer->count + 1, sizeof(*requests));
	uint64_t first = UINT64_MAX, nsid;
	char time[48];

	must(requests);
	for (uint32_t i = 0; i < answer->count; i++) {
		requests[i] = blame_request_at(answer->blame, i);
		first = min_u64(first, requests[i]->exemplar->stories[0].begin_tick);
	}
	blame_verdict(requests, answer->count, blame_coverage(answer->blame), &answer->verdict);
	free(requests);
	if ((options->choices.count && choice->file) || info->liveness != READER_ALIVE || !info->name[0])
		snprintf(answer->selector, sizeof(answer->selector), "-f %s", info->path);
	else
		snprintf(answer->selector, sizeof(answer->selector), "-s %s", info->name);
	if (!options->query.volume)
		snprintf(answer->subject, sizeof(answer->subject), "all volumes");
	else if (text_parse_u64(options->query.volume, 10, UINT32_MAX, &nsid) == 0)
		snprintf(answer->subject, sizeof(answer->subject), "namespace %s", options->query.volume);
	else
		snprintf(answer->subject, sizeof(answer->subject), "%s", options->query.volume);
	blame_time_text(answer->reader, answer->count ? first : info->start_tick, time, sizeof(time));
	snprintf(answer->since, sizeof(answer->since), "since %s", time);
}

static int answer_query(struct blame_options *options, struct reader *reader)
{
	struct blame_answer *answer = calloc(1, sizeof(*answer));
	struct fathom_fault why = { 0 };
	struct blame *blame;
	int status = EXIT_SUCCESS, rc = blame_create(reader, &options->query, &blame, &why);

	must(answer);
	if (rc) {
		free(answer);
		return complain(why.text);
	}
	answer->options = options;
	answer->reader = reader;
	answer->blame = blame;
	answer->count = blame_request_count(blame);
	fill_answer(answer);
	if (blame_coverage(blame)->found == 0)
		status = print_no_request(answer);
	else if (options->json)
		blame_print_json(answer);
	else
		blame_print_page(answer);
	blame_destroy(blame);
	free(answer);
	return status;
}

/* Is `path` the file of a program that runs, with requests that the options select? */
static bool is_of_a_running_engine(const struct blame_options *options, const char *path)
{
	struct fathom_fault why = { 0 };
	struct reader *reader;
	struct blame *blame;
	bool has = false;

	if (reader_open(path, &reader, &why) != 0)
		return false;
	if (reader_info(reader)->liveness == READER_ALIVE && blame_create(reader, &options->query, &blame, &why) == 0) {
		has = blame_coverage(blame)->found > 0;
		blame_destroy(blame);
	}
	reader_close(reader);
	return has;
}

/* Several engines may run on a host: the newest of those that know the volume is meant. */
static bool find_engine_of_volume(const struct blame_options *options, char path[PATH_MAX])
{
	struct reader_found *files = calloc(FILES_TRIED_MAX, sizeof(*files));
	uint32_t count;
	bool found = false;

	must(files);
	count = reader_find_all(NULL, files, FILES_TRIED_MAX);
	for (uint32_t i = 0; i < count && count > 1 && !found; i++) {
		found = is_of_a_running_engine(options, files[i].path);
		if (found)
			snprintf(path, PATH_MAX, "%s", files[i].path);
	}
	free(files);
	return found;
}

static int choose_file(const struct blame_options *options, char path[PATH_MAX], struct fathom_fault *why)
{
	if (options->choices.count == 0 && options->query.volume && find_engine_of_volume(options, path))
		return 0;
	return trace_choice_path(&options->choices, 0, path, why);
}

int cmd_blame(int argc, char **argv)
{
	struct blame_options options = { 0 };
	struct fathom_fault why = { 0 };
	struct reader *reader = NULL;
	char path[PATH_MAX], ago[64];
	int at, status = options_parse(&blame_table, argc, argv, &options, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (argc - at > 1)
		return options_reject(&blame_table, "unexpected argument \"%s\": only one volume can be selected",
				      argv[at + 1]);
	if (options.since_ago && options.from)
		return options_reject(&blame_table, "use one of --since and --from");
	if (options.since_ago && !is_since(options.since_ago))
		return options_reject(
			&blame_table,
			"--since: \"%s\" is not a time; use 10m (the last ten minutes) or a time of day, such as "
			"02:10:00",
			options.since_ago);
	if (options.choices.count > 1)
		return options_reject(&blame_table, "takes one program or file: use one of -s, -p and -f");
	options.query.volume = argv[at];
	choose_times(&options, ago, sizeof(ago));
	if (choose_file(&options, path, &why) != 0 || reader_open(path, &reader, &why) != 0)
		return complain(why.text);
	if (reader_info(reader)->problem)
		fprintf(stderr, "fathom blame: %s: %s\n", path, reader_info(reader)->problem);
	status = answer_query(&options, reader);
	reader_close(reader);
	return status;
}
