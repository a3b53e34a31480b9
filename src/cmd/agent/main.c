/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom-agent - the agent of a client host: its command line, and the program that udev asks for names. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/log.h"
#include "base/observe/trace/daemon.h"
#include "base/observe/trace/points.gen.h"
#include "base/table.h"
#include "cmd/options/daemon.h"
#include "control/agent/agent.h"
#include "control/agent/command/command.h"
#include "control/attach/attach.h"
#include "control/fault/fault.h"
#include "fathom/trace/trace.h"

static uint64_t began_ns;

static int command_fail(const struct fathom_fault *why)
{
	char text[FAULT_LINES_BYTES_MAX];
	struct fault_shown shown;

	fault_show(why, &shown);
	fputs(fault_print(&shown, "fathom-agent: ", text, sizeof(text)), stderr);
	return EXIT_FAILURE;
}

/* ---- start ---- */

struct start_command_line {
	const char *config_path;
	struct daemon_options daemon;
};

#define CONFIG_ROW(type)                                                                                                   \
	{                                                                                                                  \
		"config", 'o', OPTION_TEXT, "FILE", "configuration (default " AGENT_CONFIG_DEFAULT ")",                    \
			.offset = offsetof(type, config_path), .values = OPTION_FILES                                      \
	}

static const struct option_row start_rows[] = {
	CONFIG_ROW(struct start_command_line),
	DAEMON_OPTION_ROWS(struct start_command_line, daemon, AGENT_NAME_DEFAULT),
	{ "version", 0, OPTION_PRINT_VERSION, .help = "print the version" },
	OPTION_HELP_ROW,
};

static const struct option_table start_table = {
	.name = "fathom-agent",
	.usage = "fathom-agent [start] [OPTION...]",
	.about = "Serve the programs of this client host: attach information, credentials, and volumes as block devices.",
	OPTION_ROWS(start_rows),
	.version = FATHOM_VERSION INJECT_NOTE,
	.more = "Without --log-level, the configuration sets the level of the log.",
};

static int command_start(int argc, char **argv)
{
	struct start_command_line start = { .daemon = { .trace_spec = "all", .name = AGENT_NAME_DEFAULT } };
	struct agent_options options = { .version = FATHOM_VERSION, .began_ns = began_ns };
	struct agent_config config;
	struct fathom_fault why = { 0 };
	int at, status = options_parse(&start_table, argc, argv, &start, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (at < argc)
		return options_reject(&start_table, "unexpected argument: %s", argv[at]);
	if (daemon_print_trace_groups(&start.daemon))
		return EXIT_SUCCESS;
	if (agent_config_read(start.config_path, &config, &why) != 0)
		return command_fail(&why);
	if (!start.daemon.log_level)
		start.daemon.log_level = config.log_mask;
	daemon_set_log(&start.daemon, "fathom-agent");
	options.config = &config;
	options.name = start.daemon.name;
	options.trace_spec = start.daemon.trace_spec;
	status = agent_run(&options);
	agent_config_free(&config);
	return status;
}

/* ---- config ---- */

static const struct option_row config_rows[] = { OPTION_HELP_ROW };

static const struct option_table config_table = {
	.name = "fathom-agent config",
	.usage = "fathom-agent config check [FILE]\nfathom-agent config reference",
	.about = "Check a configuration (default " AGENT_CONFIG_DEFAULT "), or print every key as a page.",
	OPTION_ROWS(config_rows),
	.operands = "check reference",
};

static int command_config(int argc, char **argv)
{
	struct agent_config config;
	struct fathom_fault why = { 0 };
	int nothing, at, status = options_parse(&config_table, argc, argv, &nothing, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (argc - at == 1 && strcmp(argv[at], "reference") == 0) {
		agent_config_print_reference(stdout);
		return EXIT_SUCCESS;
	}
	if (argc - at < 1 || argc - at > 2 || strcmp(argv[at], "check") != 0)
		return options_reject(&config_table, "one of these is needed: check [FILE], reference");
	if (agent_config_read(argc - at == 2 ? argv[at + 1] : AGENT_CONFIG_DEFAULT, &config, &why) != 0)
		return command_fail(&why);
	agent_config_free(&config);
	puts("the configuration is valid");
	return EXIT_SUCCESS;
}

/* ---- attachments and statistics ---- */

struct show_command_line {
	const char *config_path;
	bool is_json;
};

static const struct option_row show_rows[] = {
	CONFIG_ROW(struct show_command_line),
	{ "json", 'j', OPTION_FLAG, NULL, "print JSON", .offset = offsetof(struct show_command_line, is_json) },
	OPTION_HELP_ROW,
};

static const struct option_table attachments_table = {
	.name = "fathom-agent attachments",
	.usage = "fathom-agent attachments [-o FILE] [-j]",
	.about = "Show the volumes that this host has attached, or is to attach.",
	OPTION_ROWS(show_rows),
};

static const struct option_table stats_table = {
	.name = "fathom-agent stats",
	.usage = "fathom-agent stats [-o FILE] [-j]",
	.about = "Show the counters of the running agent since its start.",
	OPTION_ROWS(show_rows),
};

static int add_attachment_row(void *ctx, const Agent__Attachment *attachment)
{
	const char *device = attachment->link[0] ? attachment->link : attachment->device;

	return table_add(ctx, (const char *const[]){ attachment->name, attachment->state, device,
						     attachment->temporary ? "no" : "yes", attachment->reason });
}

static int add_attachment_json(void *ctx, const Agent__Attachment *attachment)
{
	json_t *addresses = json_array(), *one;

	for (size_t i = 0; i < attachment->n_addresses; i++) {
		if (json_array_append_new(addresses, json_string(attachment->addresses[i])) < 0)
			return -ENOMEM;
	}
	one = json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:I, s:b}", "name", attachment->name, "uuid",
			attachment->uuid, "nqn", attachment->nqn, "addresses", addresses, "state", attachment->state,
			"reason", attachment->reason, "device", attachment->device, "link", attachment->link, "size_bytes",
			(json_int_t)attachment->size_bytes, "temporary", (int)attachment->temporary);
	return json_array_append_new(ctx, one) < 0 ? -ENOMEM : 0;
}

static int add_counter_row(void *ctx, const char *name, uint64_t value, const char *meaning)
{
	char number[24];

	snprintf(number, sizeof(number), "%" PRIu64, value);
	return table_add(ctx, (const char *const[]){ name, number, meaning });
}

static int add_counter_json(void *ctx, const char *name, uint64_t value, const char *meaning)
{
	return json_object_set_new(ctx, name, json_integer((json_int_t)value)) < 0 ? -ENOMEM : 0;
}

static int print_result(struct table *table, json_t *all, bool is_json)
{
	if (!is_json) {
		table_print(table, 0, stdout);
		return 0;
	}
	if (json_dumpf(all, stdout, JSON_INDENT(2)) < 0)
		return -ENOMEM;
	puts("");
	return 0;
}

static int show_attachments(const struct agent_config *config, bool is_json, struct fathom_fault *why)
{
	static const struct table_column columns[] = { { .title = "Volume" },
						       { .title = "State" },
						       { .title = "Device" },
						       { .title = "Persistent" },
						       { .title = "Reason" } };
	const struct table_layout layout = { TABLE_COLUMNS(columns), .gap = 2 };
	struct table *table = table_create(&layout);
	json_t *all = json_array();
	int error = table && all ? agent_list(config, is_json ? add_attachment_json : add_attachment_row,
					      is_json ? (void *)all : (void *)table, why)
				 : fault(why, -ENOMEM, "out of memory");

	if (!error)
		error = print_result(table, all, is_json);
	table_destroy(table);
	json_decref(all);
	return error;
}

static int show_statistics(const struct agent_config *config, bool is_json, struct fathom_fault *why)
{
	static const struct table_column columns[] = { { .title = "Counter" },
						       { .title = "Value" },
						       { .title = "Meaning" } };
	const struct table_layout layout = { TABLE_COLUMNS(columns), .gap = 2 };
	struct table *table = table_create(&layout);
	json_t *all = json_object();
	int error = table && all ? agent_statistics(config, is_json ? add_counter_json : add_counter_row,
						    is_json ? (void *)all : (void *)table, why)
				 : fault(why, -ENOMEM, "out of memory");

	if (!error)
		error = print_result(table, all, is_json);
	table_destroy(table);
	json_decref(all);
	return error;
}

static int run_show(const struct option_table *table, int argc, char **argv,
		    int (*show)(const struct agent_config *config, bool is_json, struct fathom_fault *why))
{
	struct show_command_line line = { 0 };
	struct agent_config config;
	struct fathom_fault why = { 0 };
	int at, status = options_parse(table, argc, argv, &line, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (at < argc)
		return options_reject(table, "unexpected argument: %s", argv[at]);
	if (agent_config_read(line.config_path, &config, &why) != 0)
		return command_fail(&why);
	status = show(&config, line.is_json, &why) == 0 ? EXIT_SUCCESS : command_fail(&why);
	agent_config_free(&config);
	return status;
}

static int command_attachments(int argc, char **argv)
{
	return run_show(&attachments_table, argc, argv, show_attachments);
}

static int command_stats(int argc, char **argv)
{
	return run_show(&stats_table, argc, argv, show_statistics);
}

/* ---- udev ---- */

static const struct option_row udev_rows[] = { CONFIG_ROW(struct show_command_line), OPTION_HELP_ROW };

static const struct option_table udev_table = {
	.name = "fathom-agent udev-name",
	.usage = "fathom-agent udev-name [-o FILE] UUID",
	.about = "Print POOL/VOLUME of an attached volume, for a rule of udev. It reads the records, and asks no agent.",
	OPTION_ROWS(udev_rows),
};

static bool print_name(const char *parent, const char *uuid)
{
	struct attach_record record;
	char folder[ATTACH_PATH_BYTES];
	struct fathom_fault why;

	if (snprintf(folder, sizeof(folder), "%s/attachments", parent) >= (int)sizeof(folder) - ATTACH_UUID_BYTES - 16)
		return false;
	if (attach_record_read(folder, uuid, &record, &why) != 0)
		return false;
	puts(record.name);
	return true;
}

/* Devices of other systems are asked for, too: without a record it fails silently. */
static int command_udev_name(int argc, char **argv)
{
	struct show_command_line line = { 0 };
	struct agent_config config;
	struct fathom_fault why = { 0 };
	char uuid[ATTACH_UUID_BYTES];
	uuid_t binary;
	int at, status = options_parse(&udev_table, argc, argv, &line, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (argc - at != 1 || uuid_parse(argv[at], binary) != 0)
		return options_reject(&udev_table, "one UUID is needed");
	uuid_unparse_lower(binary, uuid);
	if (agent_config_read(line.config_path, &config, &why) != 0)
		return command_fail(&why);
	status = print_name(config.state_dir, uuid) || print_name(config.runtime_dir, uuid) ? EXIT_SUCCESS : EXIT_FAILURE;
	agent_config_free(&config);
	return status;
}

/* ---- commands ---- */

static int command_version(int argc, char **argv)
{
	puts("fathom-agent " FATHOM_VERSION INJECT_NOTE);
	return EXIT_SUCCESS;
}

static const struct option_command commands[] = {
	{ "start", NULL, "run the agent; the default", .run = command_start, .table = &start_table },
	{ "attachments", NULL, "show the volumes that this host has attached", .run = command_attachments,
	  .table = &attachments_table },
	{ "config", NULL, "check a configuration, print the reference", .run = command_config, .table = &config_table },
	{ "stats", NULL, "show the counters of the running agent", .run = command_stats, .table = &stats_table },
	{ "udev-name", "UUID", "print the name of an attached volume", .run = command_udev_name, .table = &udev_table },
	{ "version", NULL, "print the version", .run = command_version },
};

static const struct option_row agent_rows[] = {
	{ "version", 0, OPTION_PRINT_VERSION, .help = "print the version" },
	OPTION_HELP_ROW,
};

static const struct option_table agent_table = {
	.name = "fathom-agent",
	.usage = "fathom-agent [COMMAND] [ARGUMENT...]",
	.about = "Serve the programs of this client host: attach information, credentials, and volumes as block devices.",
	OPTION_COMMANDS(commands),
	OPTION_ROWS(agent_rows),
	.more = "`fathom-agent COMMAND --help` shows the options of a command.",
	.version = FATHOM_VERSION INJECT_NOTE,
	.otherwise = &start_table,
	.in_front = true,
};

int main(int argc, char **argv)
{
	if (options_offer(&agent_table, argc, argv))
		return EXIT_SUCCESS;
	began_ns = clock_monotonic_ns();
	trace_schema_set(&fathom_agent_schema);
	return options_run_program(&agent_table, argc, argv);
}
