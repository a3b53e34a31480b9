/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/perf/options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/command.h"

enum { IO_BYTES_MAX = 1 << 30, TIME_S_MAX = 1000000 };
static_assert((int)FATHOM_DEPTH_MAX == 4096 && (int)PERF_QUEUES_MAX == 64, "as usage() and fathom-perf(1) say");

enum option_id {
	OPTION_NSID = 256,
	OPTION_RW,
	OPTION_READ_PERCENT,
	OPTION_BS,
	OPTION_DEPTH,
	OPTION_QUEUES,
	OPTION_TIME,
	OPTION_WARMUP,
	OPTION_COUNT,
	OPTION_RANGE,
	OPTION_SEED,
	OPTION_VERIFY,
	OPTION_VERIFY_STATE,
	OPTION_HDGST,
	OPTION_DDGST,
	OPTION_NO_FLOW_CONTROL,
	OPTION_HOSTNQN,
	OPTION_KEEP_ALIVE,
	OPTION_HOLD,
	OPTION_TIMEOUT,
	OPTION_CONNECT_TIMEOUT,
	OPTION_JSON,
	OPTION_QUIET,
};

static const struct option long_options[] = {
	{ "address", required_argument, NULL, 'a' },
	{ "service", required_argument, NULL, 's' },
	{ "subnqn", required_argument, NULL, 'n' },
	{ "interval", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ "nsid", required_argument, NULL, OPTION_NSID },
	{ "rw", required_argument, NULL, OPTION_RW },
	{ "read-percent", required_argument, NULL, OPTION_READ_PERCENT },
	{ "bs", required_argument, NULL, OPTION_BS },
	{ "depth", required_argument, NULL, OPTION_DEPTH },
	{ "queues", required_argument, NULL, OPTION_QUEUES },
	{ "time", required_argument, NULL, OPTION_TIME },
	{ "warmup", required_argument, NULL, OPTION_WARMUP },
	{ "count", required_argument, NULL, OPTION_COUNT },
	{ "range", required_argument, NULL, OPTION_RANGE },
	{ "seed", required_argument, NULL, OPTION_SEED },
	{ "verify", no_argument, NULL, OPTION_VERIFY },
	{ "verify-state", required_argument, NULL, OPTION_VERIFY_STATE },
	{ "hdgst", no_argument, NULL, OPTION_HDGST },
	{ "ddgst", no_argument, NULL, OPTION_DDGST },
	{ "no-flow-control", no_argument, NULL, OPTION_NO_FLOW_CONTROL },
	{ "hostnqn", required_argument, NULL, OPTION_HOSTNQN },
	{ "keep-alive", required_argument, NULL, OPTION_KEEP_ALIVE },
	{ "hold", required_argument, NULL, OPTION_HOLD },
	{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
	{ "connect-timeout", required_argument, NULL, OPTION_CONNECT_TIMEOUT },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "quiet", no_argument, NULL, OPTION_QUIET },
	{ NULL, 0, NULL, 0 },
};

static void usage(FILE *to)
{
	fputs("usage: fathom perf -a ADDRESS [-s PORT] -n SUBNQN [OPTION...]\n"
	      "\n"
	      "Drive I/O to an NVMe/TCP namespace and tell how fast it is, and whether it keeps its data.\n"
	      "\n"
	      "  -a, --address ADDRESS   where the target listens\n"
	      "  -s, --service PORT      port (4420)\n"
	      "  -n, --subnqn NQN        subsystem\n"
	      "      --nsid N            namespace (1)\n"
	      "      --rw MODE           read, write, randread, randwrite or mix (randread)\n"
	      "      --read-percent N    of mix (70)\n"
	      "      --bs BYTES          of an I/O (4k)\n"
	      "      --depth N           I/Os in flight on each queue, up to 4096 (32)\n"
	      "      --queues N          queue pairs, each with a thread, up to 64 (1)\n"
	      "      --time SECONDS      how long (10); 0 with --verify-state: only check\n"
	      "      --warmup SECONDS    before that, not measured (0)\n"
	      "      --count N           this many I/Os instead\n"
	      "      --range [OFFSET:]BYTES  part of the namespace (all of it)\n"
	      "      --seed N            of the random choices (1)\n"
	      "      --verify            write data that tells where it belongs, check what is read, read all of it back\n"
	      "      --verify-state FILE load and save what should be where; implies --verify\n"
	      "      --hdgst, --ddgst    header digest, data digest\n"
	      "      --no-flow-control   let the target leave out responses to reads\n"
	      "      --hostnqn NQN       this host's name (made up)\n"
	      "      --keep-alive MS     keep alive timeout, 0 for none (15000)\n"
	      "      --hold SECONDS      stay connected so long afterwards, idle (0)\n"
	      "      --timeout MS        of an I/O, 0 for none (30000)\n"
	      "      --connect-timeout MS  of each step of connecting (10000)\n"
	      "      --json              results as one JSON object\n"
	      "      --quiet             no progress bar\n"
	      "  -V, --interval          a line a second\n"
	      "\n"
	      "Exit status: 0 all is well, 1 an I/O failed or data were wrong, 2 the command line or connecting.\n",
	      to);
}

/* ---- Values ---- */

/* Numeric options and their limits. */
static const struct number {
	int id;
	uint64_t min, max;
} numbers[] = {
	{ OPTION_NSID, 1, UINT32_MAX - 1 },
	{ OPTION_READ_PERCENT, 0, 100 },
	{ OPTION_DEPTH, 1, FATHOM_DEPTH_MAX },
	{ OPTION_QUEUES, 1, PERF_QUEUES_MAX },
	{ OPTION_COUNT, 1, UINT64_MAX / PERF_QUEUES_MAX },
	{ OPTION_SEED, 0, INT64_MAX },
	{ OPTION_KEEP_ALIVE, 0, INT32_MAX },
	{ OPTION_TIMEOUT, 0, INT32_MAX },
	{ OPTION_CONNECT_TIMEOUT, 1, INT32_MAX },
};

static const struct number *number_of(int id)
{
	for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
		if (numbers[i].id == id)
			return &numbers[i];
	}
	return NULL;
}

static int parse_u64(int id, const char *text, uint64_t *number_ret)
{
	const struct number *limits = number_of(id);
	uint64_t number;

	must(limits);
	if (text_parse_u64(text, id == OPTION_SEED ? 0 : 10, limits->max, &number) != 0 || number < limits->min)
		return -EINVAL;
	*number_ret = number;
	return 0;
}

/* For options with a 32-bit maximum. */
static int parse_u32(int id, const char *text, uint32_t *number_ret)
{
	uint64_t number;

	must(number_of(id)->max <= UINT32_MAX);
	if (parse_u64(id, text, &number) != 0)
		return -EINVAL;
	*number_ret = (uint32_t)number;
	return 0;
}

static int parse_seconds(const char *text, double *seconds_ret)
{
	char *end;
	double seconds;

	errno = 0;
	seconds = strtod(text, &end);
	if (errno || end == text || *end || !(seconds >= 0 && seconds <= TIME_S_MAX))
		return -EINVAL;
	*seconds_ret = seconds;
	return 0;
}

/* Describe the valid values of an option in `text`, which is also returned. */
static const char *describe_valid_values(int id, char *text, size_t text_bytes)
{
	const struct number *limits = number_of(id);

	if (limits)
		snprintf(text, text_bytes, "a number from %" PRIu64 " to %" PRIu64, limits->min, limits->max);
	else if (id == OPTION_RW)
		snprintf(text, text_bytes, "one of read, write, randread, randwrite, mix");
	else if (id == OPTION_BS)
		snprintf(text, text_bytes, "a multiple of %d bytes up to %dM", VERIFY_SECTOR_BYTES, IO_BYTES_MAX >> 20);
	else if (id == OPTION_RANGE)
		snprintf(text, text_bytes, "BYTES or OFFSET:BYTES, such as 1G or 4k:1G");
	else
		snprintf(text, text_bytes, "seconds from 0 to %d", TIME_S_MAX);
	return text;
}

static int parse_mode(const char *text, struct perf_options *options)
{
	static const struct {
		const char *name;
		int read_percent; /* -1: as said */
		bool random;
	} modes[] = {
		{ "read", 100, false },	  { "write", 0, false }, { "randread", 100, true },
		{ "randwrite", 0, true }, { "mix", -1, true },
	};

	for (size_t i = 0; i < ARRAY_COUNT(modes); i++) {
		if (strcmp(text, modes[i].name) != 0)
			continue;
		options->rw = modes[i].name;
		options->random = modes[i].random;
		if (modes[i].read_percent >= 0)
			options->read_percent = (uint32_t)modes[i].read_percent;
		return 0;
	}
	return -EINVAL;
}

/* "BYTES" or "OFFSET:BYTES". */
static int parse_range(const char *text, struct perf_options *options)
{
	const char *colon = strchr(text, ':');
	char offset[32];

	if (colon) {
		if ((size_t)(colon - text) >= sizeof(offset))
			return -EINVAL;
		memcpy(offset, text, (size_t)(colon - text));
		offset[colon - text] = '\0';
		if (text_parse_bytes(offset, &options->range_offset) != 0)
			return -EINVAL;
		text = colon + 1;
	}
	if (text_parse_bytes(text, &options->range_bytes) != 0 || options->range_bytes == 0)
		return -EINVAL;
	return 0;
}

static int parse_io_bytes(const char *text, struct perf_options *options)
{
	if (text_parse_bytes(text, &options->io_bytes) != 0 || options->io_bytes == 0 || options->io_bytes > IO_BYTES_MAX ||
	    options->io_bytes % VERIFY_SECTOR_BYTES != 0)
		return -EINVAL;
	return 0;
}

/* ---- Options ---- */

/* Options without a value. False: not one of them. */
static bool set_flag(int id, struct perf_options *options)
{
	switch (id) {
	case OPTION_VERIFY:
		options->verify = true;
		return true;
	case OPTION_HDGST:
		options->connect.header_digest = true;
		return true;
	case OPTION_DDGST:
		options->connect.data_digest = true;
		return true;
	case OPTION_NO_FLOW_CONTROL:
		options->connect.no_flow_control = true;
		return true;
	case OPTION_JSON:
		options->json = true;
		return true;
	case OPTION_QUIET:
		options->quiet = true;
		return true;
	case 'V':
		options->interval = true;
		return true;
	}
	return false;
}

/* Options with a value. -EINVAL: invalid. `percent` is stored separately until the mode is known. */
static int set_value(int id, const char *value, struct perf_options *options, uint32_t *percent)
{
	switch (id) {
	case 'a':
		options->connect.address = value;
		return 0;
	case 's':
		options->connect.service = value;
		return 0;
	case 'n':
		options->connect.subnqn = value;
		return 0;
	case OPTION_HOSTNQN:
		options->connect.hostnqn = value;
		return 0;
	case OPTION_VERIFY_STATE:
		options->verify_state = value;
		options->verify = true;
		return 0;
	case OPTION_NSID:
		return parse_u32(id, value, &options->nsid);
	case OPTION_RW:
		return parse_mode(value, options);
	case OPTION_READ_PERCENT:
		return parse_u32(id, value, percent);
	case OPTION_BS:
		return parse_io_bytes(value, options);
	case OPTION_DEPTH:
		return parse_u32(id, value, &options->depth);
	case OPTION_QUEUES:
		return parse_u32(id, value, &options->queues);
	case OPTION_TIME:
		return parse_seconds(value, &options->time_s);
	case OPTION_WARMUP:
		return parse_seconds(value, &options->warmup_s);
	case OPTION_COUNT:
		return parse_u64(id, value, &options->count);
	case OPTION_RANGE:
		return parse_range(value, options);
	case OPTION_SEED:
		return parse_u64(id, value, &options->seed);
	case OPTION_HOLD:
		return parse_seconds(value, &options->hold_s);
	case OPTION_KEEP_ALIVE:
		return parse_u32(id, value, &options->connect.keep_alive_ms);
	case OPTION_TIMEOUT:
		return parse_u32(id, value, &options->connect.command_timeout_ms);
	case OPTION_CONNECT_TIMEOUT:
		return parse_u32(id, value, &options->connect.connect_timeout_ms);
	}
	return -EINVAL;
}

static const char *option_name(int id)
{
	for (size_t i = 0; long_options[i].name; i++) {
		if (long_options[i].val == id)
			return long_options[i].name;
	}
	return "?";
}

/* `what` is NULL if the error was printed already. */
static int report_usage_error(const char *what)
{
	if (what)
		fprintf(stderr, "fathom perf: %s\n", what);
	fprintf(stderr, "`fathom perf --help` shows the options\n");
	return EXIT_USAGE;
}

int perf_parse_options(int argc, char **argv, struct perf_options *options_ret)
{
	struct perf_options options = {
		.nsid = 1,
		.rw = "randread",
		.random = true,
		.read_percent = 100,
		.io_bytes = 4096,
		.depth = 32,
		.queues = 1,
		.time_s = 10,
		.seed = 1,
	};
	uint32_t percent = 70;
	char text[192], good[64];
	int id;

	fathom_connect_options_init(&options.connect);
	while ((id = getopt_long(argc, argv, "a:s:n:Vh", long_options, NULL)) != -1) {
		if (id == 'h') {
			usage(stdout);
			return EXIT_SUCCESS;
		}
		if (id == '?')
			return report_usage_error(NULL); /* getopt has printed the error */
		if (set_flag(id, &options) || set_value(id, optarg, &options, &percent) == 0)
			continue;
		snprintf(text, sizeof(text), "--%s: \"%.64s\" is not %s", option_name(id), optarg,
			 describe_valid_values(id, good, sizeof(good)));
		return report_usage_error(text);
	}
	if (optind < argc)
		return report_usage_error("too many arguments");
	if (!options.connect.address || !options.connect.subnqn)
		return report_usage_error("-a and -n are needed");
	if (strcmp(options.rw, "mix") == 0)
		options.read_percent = percent;
	if (options.time_s == 0 && options.count == 0 && !options.verify_state)
		return report_usage_error("--time 0 has nothing to do");
	*options_ret = options;
	return PERF_RUN;
}
