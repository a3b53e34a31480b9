/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/perf/options.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/command.h"

enum { IO_BYTES_MAX = 1 << 30, TIME_S_MAX = 1000000, PERF_RATE_MAX = 100000000 };
static_assert((int)FATHOM_DEPTH_MAX == 4096 && (int)PERF_QUEUES_MAX == 64, "as the table and fathom-perf(1) say");

/* The mode may come after --read-percent, which is valid only for "mix". */
struct perf_values {
	struct perf_options options;
	uint32_t mix_read_percent;
};

static int read_mode(void *to, const char *text, struct fathom_fault *why)
{
	static const struct {
		const char *name;
		int read_percent; /* -1: as given */
		bool random;
	} modes[] = {
		{ "read", 100, false },	  { "write", 0, false }, { "randread", 100, true },
		{ "randwrite", 0, true }, { "mix", -1, true },
	};
	struct perf_options *options = &((struct perf_values *)to)->options;

	for (size_t i = 0; i < ARRAY_COUNT(modes); i++) {
		if (strcmp(text, modes[i].name) != 0)
			continue;
		options->rw = modes[i].name;
		options->random = modes[i].random;
		if (modes[i].read_percent >= 0)
			options->read_percent = (uint32_t)modes[i].read_percent;
		return 0;
	}
	return fault(why, -EINVAL, "is not one of read, write, randread, randwrite, mix");
}

/* "BYTES" or "OFFSET:BYTES". Errors: -EINVAL. */
static int parse_range(const char *text, uint64_t *offset_ret, uint64_t *bytes_ret)
{
	const char *colon = strchr(text, ':');
	char offset[32];

	if (colon) {
		if ((size_t)(colon - text) >= sizeof(offset))
			return -EINVAL;
		memcpy(offset, text, (size_t)(colon - text));
		offset[colon - text] = '\0';
		if (text_parse_bytes(offset, offset_ret) != 0)
			return -EINVAL;
		text = colon + 1;
	}
	return text_parse_bytes(text, bytes_ret) == 0 && *bytes_ret > 0 ? 0 : -EINVAL;
}

static int read_range(void *to, const char *text, struct fathom_fault *why)
{
	struct perf_options *options = &((struct perf_values *)to)->options;

	if (parse_range(text, &options->range_offset, &options->range_bytes) == 0)
		return 0;
	return fault(why, -EINVAL, "is not BYTES or OFFSET:BYTES, such as 1G or 4k:1G");
}

static int read_io_bytes(void *to, const char *text, struct fathom_fault *why)
{
	struct perf_options *options = &((struct perf_values *)to)->options;

	if (text_parse_bytes(text, &options->io_bytes) == 0 && options->io_bytes > 0 && options->io_bytes <= IO_BYTES_MAX &&
	    options->io_bytes % VERIFY_SECTOR_BYTES == 0)
		return 0;
	return fault(why, -EINVAL, "is not a multiple of %d bytes up to %dM", VERIFY_SECTOR_BYTES, IO_BYTES_MAX >> 20);
}

static int read_verify_state(void *to, const char *text, struct fathom_fault *why)
{
	struct perf_options *options = &((struct perf_values *)to)->options;

	options->verify_state = text;
	options->verify = true;
	return 0;
}

/* Also hexadecimal (0x) and octal (0). */
static int read_seed(void *to, const char *text, struct fathom_fault *why)
{
	if (text_parse_u64(text, 0, INT64_MAX, &((struct perf_values *)to)->options.seed) == 0)
		return 0;
	return fault(why, -EINVAL, "is not a number from 0 to %" PRId64, INT64_MAX);
}

#define AT(member) .offset = offsetof(struct perf_values, options.member)

static const struct option_row rows[] = {
	{ "address", 'a', OPTION_TEXT, "ADDRESS", "address of the target", AT(connect.address) },
	{ "service", 's', OPTION_TEXT, "PORT", "port of the target (4420)", AT(connect.service) },
	{ "subnqn", 'n', OPTION_TEXT, "NQN", "subsystem", AT(connect.subnqn) },
	{ "nsid", 0, OPTION_NUMBER32, "N", "namespace (1)", AT(nsid), 1, UINT32_MAX - 1 },
	{ "rw", 0, OPTION_CALL, "MODE", "read, write, randread, randwrite or mix (randread)", .read = read_mode,
	  .values = "read write randread randwrite mix" },
	{ "read-percent", 0, OPTION_NUMBER32, "N", "share of reads of mix (70)",
	  .offset = offsetof(struct perf_values, mix_read_percent), OPTION_RANGE(0, 100) },
	{ "bs", 0, OPTION_CALL, "BYTES", "size of an I/O (4k)", .read = read_io_bytes },
	{ "depth", 0, OPTION_NUMBER32, "N", "I/Os in flight on each queue, up to 4096 (32)", AT(depth), 1,
	  FATHOM_DEPTH_MAX },
	{ "queues", 0, OPTION_NUMBER32, "N", "queue pairs, each with a thread, up to 64 (1)", AT(queues), 1,
	  PERF_QUEUES_MAX },
	{ "time", 0, OPTION_SECONDS, "SECONDS", "duration (10); 0 with --verify-state only checks", AT(time_s), 0,
	  TIME_S_MAX },
	{ "warmup", 0, OPTION_SECONDS, "SECONDS", "time before the measurement (0)", AT(warmup_s),
	  OPTION_RANGE(0, TIME_S_MAX) },
	{ "count", 0, OPTION_NUMBER, "N", "number of I/Os, instead of a duration", AT(count), 1,
	  UINT64_MAX / PERF_QUEUES_MAX },
	{ "rate", 0, OPTION_NUMBER, "N", "I/Os a second at most, of all queues together (no limit)", AT(rate), 1,
	  PERF_RATE_MAX },
	{ "range", 0, OPTION_CALL, "[OFFSET:]BYTES", "part of the namespace (all of it)", .read = read_range },
	{ "seed", 0, OPTION_CALL, "N", "seed of the random choices (1)", .read = read_seed },
	{ "verify", 0, OPTION_FLAG, NULL,
	  "write data that contain their address and version, check all data read, and read everything back at the end",
	  AT(verify) },
	{ "verify-state", 0, OPTION_CALL, "FILE", "load and save the expected contents; implies --verify",
	  .read = read_verify_state, .values = OPTION_FILES },
	{ "hdgst", 0, OPTION_FLAG, NULL, "header digest", AT(connect.header_digest) },
	{ "ddgst", 0, OPTION_FLAG, NULL, "data digest", AT(connect.data_digest) },
	{ "no-flow-control", 0, OPTION_FLAG, NULL, "let the target omit responses to reads", AT(connect.no_flow_control) },
	{ "hostnqn", 0, OPTION_TEXT, "NQN", "this host's name (default: generated)", AT(connect.hostnqn) },
	{ "keep-alive", 0, OPTION_NUMBER32, "MS", "keep-alive timeout; 0: none (15000)", AT(connect.keep_alive_ms), 0,
	  INT32_MAX },
	{ "hold", 0, OPTION_SECONDS, "SECONDS", "stay connected without I/O afterwards (0)", AT(hold_s),
	  OPTION_RANGE(0, TIME_S_MAX) },
	{ "timeout", 0, OPTION_NUMBER32, "MS", "timeout of an I/O; 0: none (30000)", AT(connect.command_timeout_ms), 0,
	  INT32_MAX },
	{ "connect-timeout", 0, OPTION_NUMBER32, "MS", "timeout of each step of connecting (10000)",
	  AT(connect.connect_timeout_ms), OPTION_RANGE(1, INT32_MAX) },
	{ "json", 0, OPTION_FLAG, NULL, "print the results as one JSON object", AT(json) },
	{ "quiet", 0, OPTION_FLAG, NULL, "print no progress bar", AT(quiet) },
	{ "interval", 'V', OPTION_FLAG, NULL, "print a line each second", AT(interval) },
	OPTION_HELP_ROW,
};

const struct option_table perf_table = {
	.name = "fathom perf",
	.usage = "fathom perf -a ADDRESS [-s PORT] -n SUBNQN [OPTION...]",
	.about = "Drive I/O to an NVMe/TCP namespace; measure it, and check whether the namespace keeps its data.",
	OPTION_ROWS(rows),
	.more = "Exit status: 0: success; 1: an I/O failed or data were wrong; 2: an error of the command line or of "
		"connecting.",
};

int perf_parse_options(int argc, char **argv, struct perf_options *options_ret)
{
	struct perf_values values = {
		.options = { .nsid = 1,
			     .rw = "randread",
			     .random = true,
			     .read_percent = 100,
			     .io_bytes = 4096,
			     .depth = 32,
			     .queues = 1,
			     .time_s = 10,
			     .seed = 1 },
		.mix_read_percent = 70,
	};
	struct perf_options *options = &values.options;
	int at, status;

	fathom_connect_options_init(&options->connect);
	status = options_parse(&perf_table, argc, argv, &values, &at);
	if (status != OPTIONS_RUN)
		return status;
	if (at < argc)
		return options_reject(&perf_table, "too many arguments: %s", argv[at]);
	if (!options->connect.address || !options->connect.subnqn)
		return options_reject(&perf_table, "the options -a and -n are missing");
	if (strcmp(options->rw, "mix") == 0)
		options->read_percent = values.mix_read_percent;
	if (options->time_s == 0 && options->count == 0 && !options->verify_state)
		return options_reject(&perf_table, "--time 0 without --count and --verify-state makes no I/O");
	*options_ret = *options;
	return OPTIONS_RUN;
}
