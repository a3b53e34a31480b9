/* SPDX-License-Identifier: BSD-2-Clause */
/* options - the command lines of `fathom replay`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/replay/replay.h"

int replay_complain(const char *text)
{
	fprintf(stderr, "fathom replay: %s\n", text);
	return EXIT_USAGE;
}

/* ---- values ---- */

/* "ADDRESS", "ADDRESS:PORT", "[IPV6]:PORT"; an address with several colons is IPv6 without a port. */
static int read_against(void *to, const char *text, struct fathom_fault *why)
{
	struct replay_options *options = to;
	const char *end = text[0] == '[' ? strchr(text, ']') : strchr(text, ':');
	const char *address = text[0] == '[' ? text + 1 : text, *port = NULL;

	if (text[0] == '[' && (!end || (end[1] && end[1] != ':')))
		return fault(why, -EINVAL, "is not an address, such as 192.0.2.1:4420 or [2001:db8::1]:4420");
	if (text[0] == '[')
		port = end[1] ? end + 2 : NULL;
	else if (end && !strchr(end + 1, ':'))
		port = end + 1;
	else
		end = text + strlen(text);
	if (end == address || (size_t)(end - address) >= sizeof(options->address) ||
	    (port && (!*port || strlen(port) >= sizeof(options->service))))
		return fault(why, -EINVAL, "is not an address, such as 192.0.2.1:4420 or [2001:db8::1]:4420");
	memcpy(options->address, address, (size_t)(end - address));
	options->address[end - address] = '\0';
	options->service[0] = '\0';
	if (port)
		memcpy(options->service, port, strlen(port) + 1);
	options->against = text;
	return 0;
}

static int read_map(void *to, const char *text, struct fathom_fault *why)
{
	struct replay_options *options = to;
	struct replay_map *map = &options->maps[options->map_count];
	const char *equals = strrchr(text, '=');
	uint64_t nsid;

	if (options->map_count == REPLAY_MAPS_MAX)
		return fault(why, -EINVAL, "is more than %d maps", REPLAY_MAPS_MAX);
	if (!equals || equals == text || (size_t)(equals - text) >= sizeof(map->device) ||
	    text_parse_u64(equals + 1, 10, UINT32_MAX - 1, &nsid) != 0 || nsid == 0)
		return fault(why, -EINVAL, "is not DEVICE=NAMESPACE, such as 1=2 or volume7=1");
	memcpy(map->device, text, (size_t)(equals - text));
	map->device[equals - text] = '\0';
	map->nsid = (uint32_t)nsid;
	options->map_count++;
	return 0;
}

static int read_speed(void *to, const char *text, struct fathom_fault *why)
{
	struct replay_options *options = to;
	char *end;

	if (strcmp(text, "max") == 0) {
		options->speed = 0;
		return 0;
	}
	options->speed = strtod(text, &end);
	if (end == text || *end || !(options->speed >= 0.001) || options->speed > 1000)
		return fault(why, -EINVAL, "is not a number from 0.001 to 1000, or max");
	return 0;
}

static int read_threshold(void *to, const char *text, struct fathom_fault *why)
{
	struct replay_options *options = to;
	char *end;
	double number = strtod(text, &end);

	if (end == text || !(number >= 0) || number > 1e6 || (*end && strcmp(end, "%") != 0))
		return fault(why, -EINVAL, "is not a percentage, such as 10");
	options->threshold = number / 100;
	options->threshold_given = true;
	return 0;
}

/* ---- tables ---- */

#define AT(member) .offset = offsetof(struct replay_options, member)

#define DEVICE_ROW                                                                                                         \
	{ "device", 0, OPTION_TEXT, "DEVICE", "operations of this device: its number or name", AT(choice.device) },

#define CHOICE_ROWS                                                                                                        \
	{ .type = OPTION_HEADING, .help = "Select operations (default: all):" },                                           \
		{ "owner",                                                                                                 \
		  0,                                                                                                       \
		  OPTION_TEXT,                                                                                             \
		  "HOST",                                                                                                  \
		  "operations of hosts whose name contains HOST; of an incident without names: the host's number",         \
		  AT(choice.owner) },                                                                                      \
		{ "from",                                                                                                  \
		  0,                                                                                                       \
		  OPTION_TEXT,                                                                                             \
		  "T",                                                                                                     \
		  "operations from this time on: 5s (after the start), -5s (before the end); of a trace also 12:30:00",    \
		  AT(choice.from) },                                                                                       \
		{ "to", 0, OPTION_TEXT, "T", "operations up to this time", AT(choice.to) },

static const struct option_row rows[] = {
	{ .type = OPTION_HEADING, .help = "Target:" },
	{ "against", 0, OPTION_CALL, "ADDRESS[:PORT]", "the target (port 4420)", .read = read_against },
	{ "nqn", 'n', OPTION_TEXT, "NQN", "its subsystem", AT(connect.subnqn) },
	{ "nsid", 0, OPTION_NUMBER32, "N", "send all operations to namespace N", AT(nsid), 1, UINT32_MAX - 1 },
	{ "map", 0, OPTION_CALL, "DEVICE=N", "send those of this device to namespace N; may be repeated",
	  .read = read_map },
	{ "wrap", 0, OPTION_FLAG, NULL, "put blocks beyond the end of a smaller namespace at their number modulo its size",
	  AT(wrap) },
	{ "write", 0, OPTION_FLAG, NULL, "also write, unmap and write zeroes: this destroys the data of the namespaces",
	  AT(write) },
	{ "hostnqn", 0, OPTION_TEXT, "NQN", "this host's name (default: generated)", AT(connect.hostnqn) },
	{ "timeout", 0, OPTION_NUMBER32, "MS", "timeout of an operation; 0: none (30000)", AT(connect.command_timeout_ms),
	  0, INT32_MAX },
	{ "connect-timeout", 0, OPTION_NUMBER32, "MS", "timeout of each step of connecting (10000)",
	  AT(connect.connect_timeout_ms), OPTION_RANGE(1, INT32_MAX) },
	{ .type = OPTION_HEADING, .help = "Time:" },
	{ "speed", 0, OPTION_CALL, "X", "1: as recorded (the default); 2: twice as fast; max: as fast as the queues allow",
	  .read = read_speed, .values = "1 2 max" },
	{ "depth", 0, OPTION_NUMBER32, "N", "operations in flight on each queue (default: as many as in the recording)",
	  AT(depth), 1, FATHOM_DEPTH_MAX },
	{ "keep-gaps", 0, OPTION_FLAG, NULL,
	  "start an operation as long after the end of the one before it on its queue as in the recording", AT(keep_gaps) },
	CHOICE_ROWS DEVICE_ROW{ .type = OPTION_HEADING, .help = "Result:" },
	{ "threshold", 0, OPTION_CALL, "PCT",
	  "exit with status 3 if the 99th percentile of a kind is more than PCT per cent longer", .read = read_threshold },
	{ "json", 0, OPTION_FLAG, NULL, "print the result as a JSON object", AT(json) },
	{ "quiet", 0, OPTION_FLAG, NULL, "print no progress", AT(quiet) },
	OPTION_HELP_ROW,
};

static const struct option_row extract_rows[] = {
	{ NULL, 'o', OPTION_TEXT, "INCIDENT", "file to write", AT(output), .values = OPTION_FILES },
	{ "names", 0, OPTION_FLAG, NULL, "keep the names of hosts, devices and the program (default: numbers)", AT(names) },
	{ "force", 0, OPTION_FLAG, NULL, "overwrite an existing file", AT(force) },
	CHOICE_ROWS{ .type = OPTION_HEADING, .help = "Result:" },
	{ "json", 0, OPTION_FLAG, NULL, "print the result as a JSON object", AT(json) },
	OPTION_HELP_ROW,
};

static const struct option_row show_rows[] = {
	{ "json", 0, OPTION_FLAG, NULL, "print a JSON object", AT(json) },
	CHOICE_ROWS DEVICE_ROW OPTION_HELP_ROW,
};

const struct option_table replay_extract_table = {
	.name = "fathom replay extract",
	.usage = "fathom replay extract FILE... -o INCIDENT [OPTION...]",
	.about =
		"Write the operations of hosts in a trace file to a small file that can be shared. It has the kind, place, "
		"length, queue and times of each operation, and no data. Hosts and devices become numbers. Several files "
		"are "
		"those of one recording.",
	OPTION_ROWS(extract_rows),
	.operands = OPTION_FILES,
	.more = "Exit status: 0: success; 2: an error.",
};

const struct option_table replay_show_table = {
	.name = "fathom replay show",
	.usage = "fathom replay show FILE... [OPTION...]",
	.about = "Print what an incident, or a trace file, has for a replay: operations, rates, sizes, queues and devices.",
	OPTION_ROWS(show_rows),
	.operands = OPTION_FILES,
	.more = "Exit status: 0: success; 2: an error.",
};

static const struct option_command commands[] = {
	{ "extract", "FILE...", "write the operations of a trace to a small file without data", .run = replay_extract,
	  .table = &replay_extract_table },
	{ "show", "FILE...", "print what a file has for a replay", .run = replay_show, .table = &replay_show_table },
};

const struct option_table replay_table = {
	.name = "fathom replay",
	.usage = "fathom replay FILE... --against ADDRESS[:PORT] --nqn NQN [OPTION...]\n"
		 "fathom replay extract FILE... -o INCIDENT [OPTION...]\n"
		 "fathom replay show FILE... [OPTION...]",
	.about =
		"Send the operations of a recording to a target again, with the queues, depths and times of the recording, "
		"and compare the latencies. FILE is an incident, or a trace file of an engine; several files are those of "
		"one "
		"recording, as `fathom trace record --rotate` writes them. Operations that change data "
		"are left out unless --write is given; what is written then is a pattern.",
	OPTION_COMMANDS(commands),
	OPTION_ROWS(rows),
	.operands = OPTION_FILES,
	.more = "Exit status: 0: all operations were replayed; 1: an operation failed or was not done; 2: an error of the "
		"command line, of the file or of connecting; 3: slower than --threshold allows.",
};

/* ---- reading ---- */

int replay_parse_options(const struct option_table *table, int argc, char **argv, struct replay_options *options_ret)
{
	struct replay_options *options = options_ret;
	int at, status;

	*options = (struct replay_options){ .speed = 1 };
	fathom_connect_options_init(&options->connect);
	status = options_parse(table, argc, argv, options, &at);
	if (status != OPTIONS_RUN)
		return status;
	if (at == argc)
		return options_reject(table, "FILE is missing: an incident or a trace file");
	if (argc - at > REPLAY_FILES_MAX)
		return options_reject(table, "%d files are too many: at most %d of a recording", argc - at,
				      REPLAY_FILES_MAX);
	options->files = (struct replay_files){ argv + at, (uint32_t)(argc - at) };
	options->connect.address = options->address;
	options->connect.service = options->service[0] ? options->service : NULL;
	if (table == &replay_extract_table && !options->output)
		return options_reject(table, "-o INCIDENT is missing: the file to write");
	if (table != &replay_table)
		return OPTIONS_RUN;
	if (!options->against || !options->connect.subnqn)
		return options_reject(table, "--against ADDRESS and --nqn NQN are missing");
	if (options->nsid && options->map_count)
		return options_reject(table, "--nsid and --map exclude each other");
	return OPTIONS_RUN;
}
