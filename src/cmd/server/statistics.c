/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom-server stats`: prints the counters of the running server, as a table or as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/bits.h"
#include "cmd/fathom/show/dmg.h"
#include "cmd/server/command.h"
#include "control/server/command/command.h"

struct stats_command_line {
	const char *config_path;
	bool is_json;
};

static const struct option_row stats_rows[] = {
	SERVER_CONFIG_ROW(struct stats_command_line),
	{ "json", 'j', OPTION_FLAG, NULL, "print JSON: an object for each group, with the counters by name",
	  .offset = offsetof(struct stats_command_line, is_json) },
	OPTION_HELP_ROW,
};

const struct option_table stats_table = {
	.name = "fathom-server stats",
	.usage = "fathom-server stats [-o FILE] [-j]",
	.about = "Show the counters of the running server of this host since its start: of events, and, on the management "
		 "host, of requests to the management service and of rejected ones.",
	OPTION_ROWS(stats_rows),
};

static int add_counter_row(void *ctx, const char *group, const char *name, uint64_t value, const char *meaning)
{
	char number[24];

	snprintf(number, sizeof(number), "%" PRIu64, value);
	return table_add(ctx, (const char *const[]){ group, name, number, meaning });
}

static int add_counter_json(void *ctx, const char *group, const char *name, uint64_t value, const char *meaning)
{
	json_t *all = ctx, *counters = json_object_get(all, group);

	if (!counters) {
		counters = json_object();
		if (json_object_set_new(all, group, counters) < 0)
			return -ENOMEM;
	}
	return json_object_set_new(counters, name, json_integer((json_int_t)value)) < 0 ? -ENOMEM : 0;
}

static int print_statistics(const struct server_config *config, bool is_json)
{
	static const char *const titles[] = { "Group", "Counter", "Value", "Meaning" };
	struct table *table = dmg_table_create(titles, ARRAY_COUNT(titles));
	json_t *all = json_object();
	struct fathom_fault why = { 0 };
	int error = table && all ? 0 : -ENOMEM;

	if (!error)
		error = is_json ? server_statistics(config, add_counter_json, all, &why)
				: server_statistics(config, add_counter_row, table, &why);
	if (!error && is_json) {
		error = json_dumpf(all, stdout, JSON_INDENT(2)) < 0 ? -ENOMEM : 0;
		puts("");
	} else if (!error) {
		table_print(table, 0, stdout);
	}
	table_destroy(table);
	json_decref(all);
	if (error && !why.error)
		why.error = fault(&why, error, "out of memory");
	return error ? command_fail(&why) : EXIT_SUCCESS;
}

int command_stats(int argc, char **argv)
{
	struct stats_command_line line = { .config_path = SERVER_CONFIG_DEFAULT };
	int at, status = options_parse(&stats_table, argc, argv, &line, &at);
	struct server_config config;
	struct fathom_fault why = { 0 };

	if (status != OPTIONS_RUN)
		return status;
	if (at < argc)
		return options_reject(&stats_table, "unexpected argument: %s", argv[at]);
	if (server_config_read(line.config_path, &config, &why) != 0)
		return command_fail(&why);
	status = print_statistics(&config, line.is_json);
	server_config_free(&config);
	return status;
}
