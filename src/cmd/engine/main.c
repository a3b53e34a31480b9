/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom-engine - the data plane. This folder parses its command line; src/data/engine is the program. */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/cpuset.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/engine/options.h"
#include "data/engine/end_report.h"
#include "data/engine/engine.h"
#include "base/observe/trace/daemon.h"
#include "base/observe/trace/points.gen.h"
#include "fathom/trace/trace.h"

enum {
	OPTION_WAIT_FOR_RPC = 256,
	OPTION_TRACE_ENTRIES,
	OPTION_NAME,
	OPTION_VERSION,
	OPTION_TEST_METHODS,
	OPTION_LOG_TO,
	OPTION_SERVER, /* the first option of server_options.c */
};

static const struct option long_options[] = {
	{ "cpumask", required_argument, NULL, 'm' },
	{ "rpc-socket", required_argument, NULL, 'r' },
	{ "config", required_argument, NULL, 'c' },
	{ "tpoint-group", required_argument, NULL, 'e' },
	{ "num-trace-entries", required_argument, NULL, OPTION_TRACE_ENTRIES },
	{ "name", required_argument, NULL, OPTION_NAME },
	{ "wait-for-rpc", no_argument, NULL, OPTION_WAIT_FOR_RPC },
	{ "log-level", required_argument, NULL, 'L' },
	{ "log-to", required_argument, NULL, OPTION_LOG_TO },
	{ "socket-dir", required_argument, NULL, OPTION_SERVER + SERVER_OPTION_SOCKET_DIR },
	{ "instance", required_argument, NULL, OPTION_SERVER + SERVER_OPTION_INSTANCE },
	{ "uuid", required_argument, NULL, OPTION_SERVER + SERVER_OPTION_UUID },
	{ "listen", required_argument, NULL, OPTION_SERVER + SERVER_OPTION_LISTEN },
	{ "storage", required_argument, NULL, OPTION_SERVER + SERVER_OPTION_STORAGE },
	{ "provider", required_argument, NULL, OPTION_SERVER + SERVER_OPTION_PROVIDER },
	{ "incarnation-above", required_argument, NULL, OPTION_SERVER + SERVER_OPTION_INCARNATION_ABOVE },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ "test-methods", no_argument, NULL, OPTION_TEST_METHODS }, /* not in the help: only for our tests */
	{ NULL, 0, NULL, 0 },
};

static void usage(FILE *to)
{
	fprintf(to,
		"usage: fathom-engine [OPTION...]\n"
		"\n"
		"Serves block devices over NVMe/TCP. `fathom rpc` tells it what to serve.\n"
		"\n"
		"  -m, --cpumask SET            CPUs to run on, a reactor each: a mask (0x3) or a list ([0,2-3]);\n"
		"                               default: the first that this process may use\n"
		"  -r, --rpc-socket PATH        control socket (default %s)\n"
		"  -c, --config FILE            begin with what `fathom rpc save_config` wrote\n"
		"      --wait-for-rpc           begin only when framework_start_init is called\n"
		"  -e, --tpoint-group GROUPS    what to trace: names, name:POINT+POINT, a mask, all (default), none;\n"
		"                               `-e help` lists them\n"
		"      --num-trace-entries N    records per reactor, a power of two from %d to %d (default %d);\n"
		"                               0: no trace file\n"
		"      --name NAME              of the trace file, /dev/shm/NAME_trace.pid... (default %s)\n"
		"  -L, --log-level LEVEL        ERROR, WARNING, NOTICE (default), INFO or DEBUG\n"
		"      --log-to WHERE           stderr (default), json (a line each, on stderr) or syslog\n"
		"      --version                print the version\n"
		"  -h, --help                   print this\n"
		"\n"
		"An engine under fathom-server:\n"
		"      --socket-dir DIR         where its socket and the server's are; with it hosts are let in only when\n"
		"                               the server has given the engine a rank and set it up\n"
		"      --listen ADDRESS:PORT    where hosts find it: numbers, [ADDRESS]:PORT for IPv6; port 0: any\n"
		"      --instance N             which of the host's engines it is (default 0)\n"
		"      --uuid UUID              who it is\n"
		"      --storage DIR            where its storage is\n"
		"      --provider NAME          the scheme of its URI (default %s)\n"
		"      --incarnation-above N    that of the process before it: its own is the time, or the next after N\n",
		ENGINE_SOCKET_DEFAULT, TRACE_IO_ENTRIES_MIN, TRACE_IO_ENTRIES_MAX, TRACE_IO_ENTRIES_DEFAULT,
		ENGINE_NAME_DEFAULT, ENGINE_PROVIDER_DEFAULT);
}

/* The first invalid argument. `error` 0: none, or getopt() has printed it. */
static struct fathom_fault usage_error;

int bad_argument(const char *option, const char *value, const char *wanted)
{
	fill_fault(&usage_error, -EINVAL, "%s %s: %s", option, value, wanted);
	fprintf(stderr, "fathom-engine: %s\n", usage_error.text);
	return EXIT_USAGE;
}

/* The CPUs that this process may use. */
static void read_allowed_cpus(cpu_set_t *ours)
{
	if (sched_getaffinity(0, sizeof(*ours), ours) != 0) {
		CPU_ZERO(ours);
		CPU_SET(0, ours);
	}
}

static int read_cpus(const char *text, struct cpuset *cpus)
{
	char wanted[64];
	cpu_set_t ours;

	if (cpuset_parse(text, cpus) != 0)
		return bad_argument("-m", text, "not a mask of CPUs (0x3) and not a list ([0,2-3])");
	read_allowed_cpus(&ours);
	for (unsigned int cpu = 0; cpu < CPUSET_CPUS_MAX; cpu++) {
		if (cpuset_has(cpus, cpu) && !CPU_ISSET(cpu, &ours)) {
			snprintf(wanted, sizeof(wanted), "CPU %u is not there, or not for this process", cpu);
			return bad_argument("-m", text, wanted);
		}
	}
	return 0;
}

/* The default of -m: the first CPU that this process may use. */
static void add_first_cpu(struct cpuset *cpus)
{
	cpu_set_t ours;

	read_allowed_cpus(&ours);
	for (unsigned int cpu = 0; cpu < CPUSET_CPUS_MAX; cpu++) {
		if (CPU_ISSET(cpu, &ours)) {
			cpuset_add(cpus, cpu);
			return;
		}
	}
}

static int read_trace_entries(const char *text, uint32_t *entries_ret)
{
	uint64_t number;

	if (text_parse_u64(text, 0, TRACE_IO_ENTRIES_MAX, &number) != 0 ||
	    (number != 0 && (!is_power_of_two(number) || number < TRACE_IO_ENTRIES_MIN)))
		return bad_argument("--num-trace-entries", text, "not 0 and not a power of two from 1024 to 67108864");
	*entries_ret = (uint32_t)number;
	return 0;
}

static int read_name(const char *text, const char **name_ret)
{
	if (strlen(text) == 0 || strlen(text) >= TRACE_NAME_BYTES_MAX || strchr(text, '/') || text[0] == '.')
		return bad_argument("--name", text, "a file's name of 1 to 63 characters, without a slash");
	*name_ret = text;
	return 0;
}

static int read_option(int option, struct engine_options *options)
{
	enum log_output output;
	enum log_level level;
	struct fathom_fault why;

	switch (option) {
	case 'm':
		return read_cpus(optarg, &options->cpus);
	case 'r':
		if (optarg[0] == '\0')
			return bad_argument("-r", "''", "a path has at least one character");
		options->socket_path = optarg;
		return 0;
	case 'c':
		options->config_path = optarg;
		return 0;
	case 'e':
		options->trace_spec = optarg;
		if (strcmp(optarg, "help") != 0 && trace_mask_set(optarg, &why) != 0)
			return bad_argument("-e", optarg, why.text);
		return 0;
	case OPTION_TRACE_ENTRIES:
		return read_trace_entries(optarg, &options->trace_entries);
	case OPTION_NAME:
		return read_name(optarg, &options->name);
	case OPTION_WAIT_FOR_RPC:
		options->wait_for_rpc = true;
		return 0;
	case OPTION_TEST_METHODS:
		options->test_methods = true;
		return 0;
	case 'L':
		if (log_level_parse(optarg, &level) != 0)
			return bad_argument("-L", optarg, "not ERROR, WARNING, NOTICE, INFO or DEBUG");
		options->log_level = level;
		log_set_level(level);
		return 0;
	case OPTION_LOG_TO:
		if (log_output_parse(optarg, &output) != 0)
			return bad_argument("--log-to", optarg, "not " LOG_OUTPUT_NAMES);
		log_set_output(output, "fathom-engine");
		return 0;
	default:
		if (option >= OPTION_SERVER)
			return read_server_option(option - OPTION_SERVER, optarg, &options->server);
		fprintf(stderr, "`fathom-engine --help` lists the options\n");
		return EXIT_USAGE;
	}
}

/* 0, or the exit status after printing a usage error. `*only_print_ret`: set to 'h' or OPTION_VERSION if one was given. */
static int read_options(int argc, char **argv, struct engine_options *options, int *only_print_ret)
{
	int option, status;

	while ((option = getopt_long(argc, argv, "m:r:c:e:L:h", long_options, NULL)) != -1) {
		if (option == 'h' || option == OPTION_VERSION) {
			*only_print_ret = option;
			return 0;
		}
		status = read_option(option, options);
		if (status)
			return status;
	}
	if (optind < argc)
		return bad_argument("argument", argv[optind], "there are only options; `fathom-engine --help` lists them");
	return check_server_options(&options->server);
}

int main(int argc, char **argv)
{
	struct engine_options options = {
		.socket_path = ENGINE_SOCKET_DEFAULT,
		.trace_spec = "all",
		.name = ENGINE_NAME_DEFAULT,
		.version = FATHOM_VERSION,
		.server = { .uuid = "", .provider = ENGINE_PROVIDER_DEFAULT },
		.log_level = log_get_level(),
		.trace_entries = TRACE_IO_ENTRIES_DEFAULT,
	};
	int status, only_print = 0;

	trace_schema_set(&fathom_schema);
	status = read_options(argc, argv, &options, &only_print);
	if (status) {
		engine_report_end(&options.server, usage_error.error ? usage_error.text
								     : "it does not know an option, or a value is missing");
		return status;
	}
	if (only_print == 'h') {
		usage(stdout);
		return EXIT_SUCCESS;
	}
	if (only_print == OPTION_VERSION) {
		printf("fathom-engine %s\n", FATHOM_VERSION);
		return EXIT_SUCCESS;
	}
	if (strcmp(options.trace_spec, "help") == 0) {
		trace_daemon_list_groups();
		return EXIT_SUCCESS;
	}
	if (cpuset_count(&options.cpus) == 0)
		add_first_cpu(&options.cpus);
	return engine_run(&options);
}
