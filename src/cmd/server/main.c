/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom-server - the server of a host: its command line, backup and restore of its database, stop-engines. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/server/command.h"
#include "control/db/sqlite.h"
#include "control/db/system_store.h"
#include "control/fault/fault.h"
#include "control/server/server.h"
#include "fathom/trace/trace.h"
#include "base/observe/trace/daemon.h"
#include "base/observe/trace/points.gen.h"

enum { OPTION_NAME = 256, OPTION_LOG_TO, OPTION_NEW_SYSTEM, OPTION_FROM, OPTION_FORCE };

static uint64_t began_ns;

/* ---- start ---- */

static void start_usage(FILE *to)
{
	fprintf(to,
		"usage: fathom-server [start] [OPTION...]\n"
		"\n"
		"Runs the engines of this host, and answers `fathom` and other servers.\n"
		"\n"
		"  -o, --config FILE            its configuration (default " SERVER_CONFIG_DEFAULT ")\n"
		"      --new-system             begin with an empty database, although engines here have ranks of a "
		"system\n"
		"  -e, --tpoint-group GROUPS    what to trace: names, name:POINT+POINT, all (default), none; `-e help` "
		"lists them\n"
		"      --name NAME              of the trace file, /dev/shm/NAME_trace.pid... (default " SERVER_NAME_DEFAULT
		")\n"
		"  -L, --log-level LEVEL        ERROR, WARNING, NOTICE, INFO or DEBUG, instead of what the configuration "
		"says\n"
		"      --log-to WHERE           stderr, json (a line each, on stderr) or syslog, likewise\n"
		"  -h, --help                   print this\n");
}

static const struct option start_options[] = {
	{ "config", required_argument, NULL, 'o' },
	{ "new-system", no_argument, NULL, OPTION_NEW_SYSTEM },
	{ "tpoint-group", required_argument, NULL, 'e' },
	{ "name", required_argument, NULL, OPTION_NAME },
	{ "log-level", required_argument, NULL, 'L' },
	{ "log-to", required_argument, NULL, OPTION_LOG_TO },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct start {
	struct server_options server;
	const char *log_level, *log_to;
};

static int reject_argument(const char *option, const char *wanted)
{
	fprintf(stderr, "fathom-server: --%s %s: %s\n", option, optarg, wanted);
	return EXIT_USAGE;
}

/* 0: continue; else exit with the result minus 1. */
static int read_start_option(int option, struct start *start)
{
	enum log_output output;
	enum log_level level;
	struct fathom_fault why;

	switch (option) {
	case 'o':
		start->server.config_path = optarg;
		return 0;
	case OPTION_NEW_SYSTEM:
		start->server.is_new_system = true;
		return 0;
	case 'e':
		start->server.trace_spec = optarg;
		if (strcmp(optarg, "help") == 0) {
			trace_daemon_list_groups();
			return 1 + EXIT_SUCCESS;
		}
		return trace_mask_set(optarg, &why) == 0 ? 0 : 1 + reject_argument("tpoint-group", why.text);
	case OPTION_NAME:
		start->server.name = optarg;
		if (optarg[0] && strlen(optarg) < TRACE_NAME_BYTES_MAX && !strchr(optarg, '/') && optarg[0] != '.')
			return 0;
		return 1 + reject_argument("name", "a file's name of 1 to 63 characters, without a slash");
	case 'L':
		start->log_level = optarg;
		return log_level_parse(optarg, &level) == 0
			       ? 0
			       : 1 + reject_argument("log-level", "not ERROR, WARNING, NOTICE, INFO or DEBUG");
	case OPTION_LOG_TO:
		start->log_to = optarg;
		return log_output_parse(optarg, &output) == 0 ? 0 : 1 + reject_argument("log-to", "not " LOG_OUTPUT_NAMES);
	case 'h':
		start_usage(stdout);
		return 1 + EXIT_SUCCESS;
	default:
		fprintf(stderr, "`fathom-server --help` says more\n");
		return 1 + EXIT_USAGE;
	}
}

static void configure_log(const struct start *start, const struct server_config *config)
{
	enum log_output output = config->log_json ? LOG_OUTPUT_JSON : LOG_OUTPUT_TEXT;
	enum log_level level = LOG_LEVEL_NOTICE;

	/* both values were checked when they were read */
	must(log_level_parse(start->log_level ? start->log_level : config->log_mask, &level) == 0);
	must(!start->log_to || log_output_parse(start->log_to, &output) == 0);
	log_set_level(level);
	log_set_output(output, "fathom-server");
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

static int start_server(struct start *start)
{
	struct server_config config;
	struct server_places places;
	char programs[PATH_MAX];
	struct fathom_fault why = { 0 };
	int status;

	if (server_config_read(start->server.config_path, &config, &why) != 0)
		return command_fail(&why);
	configure_log(start, &config);
	command_programs(programs);
	if (server_places_find(&config, start->server.config_path, provider_system(), &places, &why) != 0) {
		server_config_free(&config);
		return command_fail(&why);
	}
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
	struct start start = {
		.server = { .config_path = SERVER_CONFIG_DEFAULT,
			    .name = SERVER_NAME_DEFAULT,
			    .trace_spec = "all",
			    .version = FATHOM_VERSION,
			    .began_ns = began_ns },
	};
	int option, status;

	while ((option = getopt_long(argc, argv, "o:e:L:h", start_options, NULL)) != -1) {
		status = read_start_option(option, &start);
		if (status)
			return status - 1;
	}
	if (optind < argc) {
		fprintf(stderr, "fathom-server: %s: there are only options; `fathom-server start --help` lists them\n",
			argv[optind]);
		return EXIT_USAGE;
	}
	return start_server(&start);
}

/* ---- the database's copies ---- */

static void copy_usage(FILE *to)
{
	fprintf(to,
		"usage: fathom-server backup [-o FILE] COPY\n"
		"       fathom-server restore [-o FILE] --from COPY [--force]\n"
		"\n"
		"Copies the system's database of this management host, and puts a copy in its place. A server that runs "
		"makes\nthe copy itself, and writes it; a copy is put in place while it does not run.\n"
		"\n"
		"  -o, --config FILE   the server's configuration (default " SERVER_CONFIG_DEFAULT ")\n"
		"      --from COPY     what `backup` wrote\n"
		"      --force         although there is a database: it is kept beside\n");
}

static const struct option copy_options[] = {
	{ "config", required_argument, NULL, 'o' },
	{ "from", required_argument, NULL, OPTION_FROM },
	{ "force", no_argument, NULL, OPTION_FORCE },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct copy {
	const char *config_path, *copy;
	bool is_forced;
};

/* 0: continue; else exit with the result minus 1. */
static int read_copy(int argc, char **argv, bool is_restore, struct copy *copy)
{
	int option;

	while ((option = getopt_long(argc, argv, "o:h", copy_options, NULL)) != -1) {
		if (option == 'o') {
			copy->config_path = optarg;
		} else if (option == OPTION_FROM && is_restore) {
			copy->copy = optarg;
		} else if (option == OPTION_FORCE && is_restore) {
			copy->is_forced = true;
		} else {
			copy_usage(option == 'h' ? stdout : stderr);
			return 1 + (option == 'h' ? EXIT_SUCCESS : EXIT_USAGE);
		}
	}
	if (!is_restore && optind + 1 == argc)
		copy->copy = argv[optind++];
	if (copy->copy && optind == argc)
		return 0;
	copy_usage(stderr);
	return 1 + EXIT_USAGE;
}

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

static void print_copied(const char *copy, const char *path, uint64_t revision)
{
	printf("%s has all of %s up to revision %llu\n", copy, path, (unsigned long long)revision);
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
	print_copied(copy->copy, path, revision);
	return EXIT_SUCCESS;
}

static int command_backup(int argc, char **argv)
{
	struct copy copy = { .config_path = SERVER_CONFIG_DEFAULT };
	int status = read_copy(argc, argv, false, &copy);
	struct fathom_fault why = { 0 };
	char path[PATH_MAX];
	struct db *db;

	if (status)
		return status - 1;
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
		print_copied(copy.copy, path, db_revision(db));
	db_close(db);
	return status;
}

static int command_restore(int argc, char **argv)
{
	struct copy copy = { .config_path = SERVER_CONFIG_DEFAULT };
	int status = read_copy(argc, argv, true, &copy);
	struct fathom_fault why = { 0 };
	char path[PATH_MAX];

	if (status)
		return status - 1;
	status = find_database(&copy, path);
	if (status)
		return status;
	if (db_restore_sqlite(path, copy.copy, copy.is_forced, system_store_restored, &why) != 0)
		return command_fail(&why);
	printf("%s is what %s was\n", path, copy.copy);
	return EXIT_SUCCESS;
}

/* ---- the engines ---- */

static const char halt_usage[] = "usage: fathom-server stop-engines [-o FILE] [--force]\n"
				 "\n"
				 "Asks the server of this host, which runs, to stop its engines: hosts are sent away, then "
				 "the engines end. The server "
				 "goes\non. For a host that shuts down; `fathom system stop` stops a system.\n"
				 "\n"
				 "  -o, --config FILE   the server's configuration (default " SERVER_CONFIG_DEFAULT ")\n"
				 "      --force         at once, by SIGKILL\n";

static int halt_engines(const char *path, bool is_forced)
{
	struct server_config config;
	struct server_places places;
	struct fathom_fault why = { 0 };
	int error = server_config_read(path, &config, &why);

	if (error)
		return command_fail(&why);
	error = server_places_find(&config, path, provider_system(), &places, &why);
	if (!error) {
		error = server_halt_engines(&config, &places, FATHOM_VERSION, is_forced, stdout, &why);
		server_places_free(&places);
	}
	server_config_free(&config);
	return error ? command_fail(&why) : EXIT_SUCCESS;
}

static int command_stop_engines(int argc, char **argv)
{
	const char *path = SERVER_CONFIG_DEFAULT;
	bool is_forced = false;
	int option;

	while ((option = getopt_long(argc, argv, "o:h", copy_options, NULL)) != -1) {
		if (option == 'o') {
			path = optarg;
		} else if (option == OPTION_FORCE) {
			is_forced = true;
		} else {
			fputs(halt_usage, option == 'h' ? stdout : stderr);
			return option == 'h' ? EXIT_SUCCESS : EXIT_USAGE;
		}
	}
	if (optind == argc)
		return halt_engines(path, is_forced);
	fputs(halt_usage, stderr);
	return EXIT_USAGE;
}

/* ---- which ---- */

static int command_version(int argc, char **argv)
{
	printf("fathom-server %s\n", FATHOM_VERSION);
	return EXIT_SUCCESS;
}

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "start", command_start, "run the server; what is done without a command" },
	{ "config", command_config, "check a configuration, write one for this host, print the reference" },
	{ "storage", command_storage, "show the block devices of this host" },
	{ "network", command_network, "show its network interfaces" },
	{ "stop-engines", command_stop_engines, "stop the engines of this host, for a host that shuts down" },
	{ "backup", command_backup, "copy the system's database" },
	{ "restore", command_restore, "put a copy in its place" },
	{ "version", command_version, "print the version" },
};

static void usage(FILE *to)
{
	fprintf(to, "usage: fathom-server [COMMAND] [ARGUMENT...]\n\ncommands:\n");
	for (size_t i = 0; i < ARRAY_COUNT(commands); i++)
		fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].help);
	fprintf(to, "\n`fathom-server COMMAND --help` says more. --version prints the version.\n");
}

static int run_command(int argc, char **argv)
{
	if (argc < 2)
		return command_start(argc, argv);
	if (strcmp(argv[1], "--version") == 0)
		return command_version(argc, argv);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
		usage(stdout);
		return EXIT_SUCCESS;
	}
	if (argv[1][0] == '-')
		return command_start(argc, argv);
	for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
		if (strcmp(commands[i].name, argv[1]) == 0)
			return commands[i].run(argc - 1, argv + 1);
	}
	fprintf(stderr, "fathom-server: no command \"%s\"; `fathom-server --help` lists them\n", argv[1]);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	int status;

	began_ns = clock_monotonic_ns();
	trace_schema_set(&fathom_server_schema);
	status = run_command(argc, argv);
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fprintf(stderr, "fathom-server: standard output could not be written\n");
	return status ? status : EXIT_USAGE;
}
