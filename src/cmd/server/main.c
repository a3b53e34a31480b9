/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom-server - the server of a host: its command line, backup and restore of its database, stop-engines. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/options/daemon.h"
#include "cmd/server/command.h"
#include "control/db/sqlite.h"
#include "control/db/system_store.h"
#include "control/fault/fault.h"
#include "control/server/command/command.h"
#include "control/server/server.h"
#include "fathom/trace/trace.h"
#include "base/observe/trace/daemon.h"
#include "base/observe/trace/points.gen.h"

static uint64_t began_ns;

/* ---- start ---- */

struct start_command_line {
	struct server_options server;
	struct daemon_options daemon;
};

static const struct option_row start_rows[] = {
	{ "config", 'o', OPTION_TEXT, "FILE", "configuration (default " SERVER_CONFIG_DEFAULT ")",
	  .offset = offsetof(struct start_command_line, server.config_path), .values = OPTION_FILES },
	{ "new-system", 0, OPTION_FLAG, NULL,
	  "start with an empty database, although engines of this host have ranks of a system",
	  .offset = offsetof(struct start_command_line, server.is_new_system) },
	DAEMON_OPTION_ROWS(struct start_command_line, daemon, SERVER_NAME_DEFAULT),
	{ "version", 0, OPTION_PRINT_VERSION, .help = "print the version" },
	OPTION_HELP_ROW,
};

static const struct option_table start_table = {
	.name = "fathom-server",
	.usage = "fathom-server [start] [OPTION...]",
	.about = "Run the engines of this host, and answer `fathom` and other servers.",
	OPTION_ROWS(start_rows),
	.version = FATHOM_VERSION INJECT_NOTE,
	.more = "Without --log-level and --log-to, the configuration sets the level and the destination of the log.",
};

/* Options take precedence over the configuration, whose values were checked when it was read. */
static void configure_log(struct daemon_options *options, const struct server_config *config)
{
	if (!options->log_level)
		options->log_level = config->log_mask;
	if (!options->log_output)
		options->log_output = config->log_json ? "json" : "stderr";
	daemon_set_log(options, "fathom-server");
}

void command_programs(char *folder)
{
	char path[PATH_MAX], *slash;
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[bytes < 0 ? 0 : bytes] = '\0';
	(void)text_copy(folder, PATH_MAX, path); /* the same size */
	slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
}

static int run_configured_server(struct start_command_line *start)
{
	struct server_config config;
	struct server_places places;
	char programs[PATH_MAX];
	struct fathom_fault why = { 0 };
	int status;

	if (server_config_read(start->server.config_path, &config, &why) != 0)
		return command_fail(&why);
	configure_log(&start->daemon, &config);
	command_programs(programs);
	if (server_places_find(&config, start->server.config_path, provider_system(), &places, &why) != 0) {
		server_config_free(&config);
		return command_fail(&why);
	}
	start->server.trace_spec = start->daemon.trace_spec;
	start->server.name = start->daemon.name;
	start->server.config = &config;
	start->server.places = &places;
	start->server.programs = programs;
	status = server_run(&start->server);
	server_places_free(&places);
	server_config_free(&config);
	return status;
}

static int command_start(int argc, char **argv)
{
	struct start_command_line start = {
		.server = { .config_path = SERVER_CONFIG_DEFAULT, .version = FATHOM_VERSION, .began_ns = began_ns },
		.daemon = { .trace_spec = "all", .name = SERVER_NAME_DEFAULT },
	};
	int at, status = options_parse(&start_table, argc, argv, &start, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (at < argc)
		return options_reject(&start_table, "unexpected argument: %s", argv[at]);
	if (daemon_print_trace_groups(&start.daemon))
		return EXIT_SUCCESS;
	return run_configured_server(&start);
}

/* ---- the database's copies ---- */

struct copy {
	const char *config_path, *copy;
	bool is_forced;
};

static const struct option_row backup_rows[] = { SERVER_CONFIG_ROW(struct copy), OPTION_HELP_ROW };

static const struct option_table backup_table = {
	.name = "fathom-server backup",
	.usage = "fathom-server backup [-o FILE] COPY",
	.about = "Copy the system's database of this management host to a new file COPY. If the server is running, it "
		 "writes the copy.",
	OPTION_ROWS(backup_rows),
	.operands = OPTION_FILES,
};

static const struct option_row restore_rows[] = {
	SERVER_CONFIG_ROW(struct copy),
	{ "from", 0, OPTION_TEXT, "COPY", "file that `fathom-server backup` wrote", .offset = offsetof(struct copy, copy),
	  .values = OPTION_FILES },
	{ "force", 0, OPTION_FLAG, NULL, "replace an existing database, which is kept beside the new one",
	  .offset = offsetof(struct copy, is_forced) },
	OPTION_HELP_ROW,
};

static const struct option_table restore_table = {
	.name = "fathom-server restore",
	.usage = "fathom-server restore [-o FILE] --from COPY [--force]",
	.about = "Replace the system's database of this management host by a copy. The server must not be running.",
	OPTION_ROWS(restore_rows),
};

static int find_database(const struct copy *copy, char *path)
{
	struct server_config config;
	struct fathom_fault why = { 0 };
	int error;

	if (server_config_read(copy->config_path, &config, &why) != 0)
		return command_fail(&why);
	error = server_database_path(&config, path, PATH_MAX);
	server_config_free(&config);
	if (error) {
		fprintf(stderr, "fathom-server: the database's path is too long\n");
		return EXIT_FAILURE;
	}
	return 0;
}

static void print_copied_revision(const char *copy, const char *path, uint64_t revision)
{
	printf("copied %s to %s, revision %llu\n", path, copy, (unsigned long long)revision);
}

/* The server has the database open, so it makes the copy: a relative path is made absolute for it. */
static int backup_by_server(const struct copy *copy, const char *path)
{
	char folder[PATH_MAX] = "", full[2 * PATH_MAX];
	struct server_config config;
	struct fathom_fault why = { 0 };
	uint64_t revision;
	int error;

	if (copy->copy[0] != '/' && !getcwd(folder, sizeof(folder))) {
		fprintf(stderr, "fathom-server: %s: %s\n", copy->copy, strerror(errno));
		return EXIT_FAILURE;
	}
	snprintf(full, sizeof(full), "%s%s%s", folder, folder[0] ? "/" : "", copy->copy);
	if (server_config_read(copy->config_path, &config, &why) != 0)
		return command_fail(&why);
	error = server_backup(&config, full, &revision, &why);
	server_config_free(&config);
	if (error)
		return command_fail(&why);
	print_copied_revision(copy->copy, path, revision);
	return EXIT_SUCCESS;
}

static int command_backup(int argc, char **argv)
{
	struct copy copy = { .config_path = SERVER_CONFIG_DEFAULT };
	int at, status = options_parse(&backup_table, argc, argv, &copy, &at);
	struct fathom_fault why = { 0 };
	char path[PATH_MAX];
	struct db *db;

	if (status != OPTIONS_RUN)
		return status;
	if (at + 1 != argc)
		return options_reject(&backup_table, "COPY must be given once: the name of a new file");
	copy.copy = argv[at];
	status = find_database(&copy, path);
	if (status)
		return status;
	if (access(path, F_OK) != 0) {
		fprintf(stderr, "fathom-server: there is no database %s: %s\n", path, strerror(errno));
		return EXIT_FAILURE;
	}
	switch (db_open_sqlite(path, &db, &why)) {
	case 0:
		break;
	case -EBUSY:
		return backup_by_server(&copy, path);
	default:
		return command_fail(&why);
	}
	if (db_backup(db, copy.copy, &why) != 0)
		status = command_fail(&why);
	else
		print_copied_revision(copy.copy, path, db_revision(db));
	db_close(db);
	return status;
}

static int command_restore(int argc, char **argv)
{
	struct copy copy = { .config_path = SERVER_CONFIG_DEFAULT };
	int at, status = options_parse(&restore_table, argc, argv, &copy, &at);
	struct fathom_fault why = { 0 };
	char path[PATH_MAX];

	if (status != OPTIONS_RUN)
		return status;
	if (!copy.copy || at < argc)
		return options_reject(&restore_table, at < argc ? "unexpected argument: %s" : "--from is missing%s",
				      at < argc ? argv[at] : "");
	status = find_database(&copy, path);
	if (status)
		return status;
	if (db_restore_sqlite(path, copy.copy, copy.is_forced, system_store_restored, &why) != 0)
		return command_fail(&why);
	printf("restored %s from %s\n", path, copy.copy);
	return EXIT_SUCCESS;
}

/* ---- the engines ---- */

struct stop_command_line {
	const char *config_path;
	bool is_forced;
};

static const struct option_row stop_rows[] = {
	SERVER_CONFIG_ROW(struct stop_command_line),
	{ "force", 0, OPTION_FLAG, NULL, "kill them at once, by SIGKILL",
	  .offset = offsetof(struct stop_command_line, is_forced) },
	OPTION_HELP_ROW,
};

static const struct option_table stop_engines_table = {
	.name = "fathom-server stop-engines",
	.usage = "fathom-server stop-engines [-o FILE] [--force]",
	.about = "Tell the running server of this host to stop its engines. They disconnect their hosts, then end; the "
		 "server keeps running. Use it before a host shuts down; `fathom system stop` stops a system.",
	OPTION_ROWS(stop_rows),
};

static int request_engines_stop(const char *path, bool is_forced)
{
	struct server_config config;
	struct server_places places;
	struct fathom_fault why = { 0 };
	int error = server_config_read(path, &config, &why);

	if (error)
		return command_fail(&why);
	error = server_places_find(&config, path, provider_system(), &places, &why);
	if (!error) {
		error = server_request_engines_stop(&config, &places, FATHOM_VERSION, is_forced, stdout, &why);
		server_places_free(&places);
	}
	server_config_free(&config);
	return error ? command_fail(&why) : EXIT_SUCCESS;
}

static int command_stop_engines(int argc, char **argv)
{
	struct stop_command_line line = { .config_path = SERVER_CONFIG_DEFAULT };
	int at, status = options_parse(&stop_engines_table, argc, argv, &line, &at);

	if (status != OPTIONS_RUN)
		return status;
	if (at < argc)
		return options_reject(&stop_engines_table, "unexpected argument: %s", argv[at]);
	return request_engines_stop(line.config_path, line.is_forced);
}

/* ---- commands ---- */

static int command_version(int argc, char **argv)
{
	puts("fathom-server " FATHOM_VERSION INJECT_NOTE);
	return EXIT_SUCCESS;
}

static const struct option_command commands[] = {
	{ "start", NULL, "run the server; the default", .run = command_start, .table = &start_table },
	{ "config", NULL, "check a configuration, write one for this host, print the reference", .run = command_config,
	  .table = &config_table },
	{ "storage", NULL, "show the block devices of this host", .run = command_storage, .table = &storage_table },
	{ "network", NULL, "show the network interfaces of this host", .run = command_network, .table = &network_table },
	{ "stop-engines", NULL, "stop the engines of this host, before it shuts down", .run = command_stop_engines,
	  .table = &stop_engines_table },
	{ "stats", NULL, "show the counters of the running server", .run = command_stats, .table = &stats_table },
	{ "backup", NULL, "copy the system's database", .run = command_backup, .table = &backup_table },
	{ "restore", NULL, "replace the system's database by a copy", .run = command_restore, .table = &restore_table },
	{ "version", NULL, "print the version", .run = command_version },
};

static const struct option_row server_rows[] = {
	{ "version", 0, OPTION_PRINT_VERSION, .help = "print the version" },
	OPTION_HELP_ROW,
};

static const struct option_table server_table = {
	.name = "fathom-server",
	.usage = "fathom-server [COMMAND] [ARGUMENT...]",
	.about = "Run the engines of this host, and answer `fathom` and other servers.",
	OPTION_COMMANDS(commands),
	OPTION_ROWS(server_rows),
	.more = "`fathom-server COMMAND --help` shows the options of a command.",
	.version = FATHOM_VERSION INJECT_NOTE,
	.otherwise = &start_table,
	.in_front = true,
};

int main(int argc, char **argv)
{
	if (options_offer(&server_table, argc, argv))
		return EXIT_SUCCESS;
	began_ns = clock_monotonic_ns();
	trace_schema_set(&fathom_server_schema);
	return options_run_program(&server_table, argc, argv);
}
