/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom-engine - the data plane. This folder parses its command line; src/data/engine is the program. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/cpuset.h"
#include "base/inject/inject.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/engine/options.h"
#include "data/engine/end_report.h"
#include "data/engine/engine.h"
#include "base/observe/trace/daemon.h"
#include "base/observe/trace/points.gen.h"
#include "fathom/trace/trace.h"

/* The CPUs that this process may use. */
static void read_allowed_cpus(cpu_set_t *ours)
{
	if (sched_getaffinity(0, sizeof(*ours), ours) != 0) {
		CPU_ZERO(ours);
		CPU_SET(0, ours);
	}
}

static int read_cpus(void *to, const char *text, struct fathom_fault *why)
{
	struct cpuset *cpus = to;
	cpu_set_t ours;

	if (cpuset_parse(text, cpus) != 0)
		return fault(why, -EINVAL, "is not a mask of CPUs (0x3) and not a list ([0,2-3])");
	read_allowed_cpus(&ours);
	for (unsigned int cpu = 0; cpu < CPUSET_CPUS_MAX; cpu++) {
		if (cpuset_has(cpus, cpu) && !CPU_ISSET(cpu, &ours))
			return fault(why, -EINVAL,
				     "has CPU %u, which does not exist or which this process is not allowed to use", cpu);
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

static int read_trace_entries(void *to, const char *text, struct fathom_fault *why)
{
	uint64_t number;

	if (text_parse_u64(text, 0, TRACE_IO_ENTRIES_MAX, &number) != 0 ||
	    (number != 0 && (!is_power_of_two(number) || number < TRACE_IO_ENTRIES_MIN)))
		return fault(why, -EINVAL, "is not 0 and not a power of two from %d to %d", TRACE_IO_ENTRIES_MIN,
			     TRACE_IO_ENTRIES_MAX);
	*(uint32_t *)to = (uint32_t)number;
	return 0;
}

#define AT(member) .offset = offsetof(struct engine_command_line, engine.member)
static_assert((int)TRACE_IO_ENTRIES_MIN == 1024 && (int)TRACE_IO_ENTRIES_MAX == 67108864, "as the help says");
static_assert((int)TRACE_IO_ENTRIES_DEFAULT == 32768, "as the help says");

static const struct option_row rows[] = {
	{ "cpumask", 'm', OPTION_CALL, "SET",
	  "CPUs to run on, a reactor on each: a mask (0x3) or a list ([0,2-3]); default: the first CPU that this process "
	  "is "
	  "allowed to use",
	  AT(cpus), .read = read_cpus },
	{ "rpc-socket", 'r', OPTION_CALL, "PATH", "control socket (default " ENGINE_SOCKET_DEFAULT ")", AT(socket_path),
	  .read = daemon_read_path, .values = OPTION_FILES },
	{ "config", 'c', OPTION_TEXT, "FILE", "configuration to start with, which `fathom rpc save_config` wrote",
	  AT(config_path), .values = OPTION_FILES },
	{ "state", 0, OPTION_TEXT, "FILE",
	  "file in which the engine keeps its configuration, durable before each change is answered; replaces --config "
	  "once it "
	  "exists",
	  AT(state_path), .values = OPTION_FILES },
	{ "storage", 0, OPTION_CALL, "DIR", "folder of pools and volumes (pool_create, volume_create); best on XFS",
	  AT(storage), .read = engine_read_storage, .values = OPTION_FOLDERS },
	{ "listen", 0, OPTION_CALL, "ADDRESS:PORT",
	  "address at which hosts find published volumes, in numbers; [ADDRESS]:PORT for IPv6; port 0: any", AT(server),
	  .read = engine_read_listen },
	{ "metrics", 0, OPTION_CALL, "ADDRESS:PORT",
	  "address at which monitoring systems scrape metrics (GET /metrics), in numbers; without TLS", AT(metrics),
	  .read = engine_read_metrics },
	{ "wait-for-rpc", 0, OPTION_FLAG, NULL, "serve only after the call framework_start_init", AT(wait_for_rpc) },
	{ "num-trace-entries", 0, OPTION_CALL, "N",
	  "trace records of each reactor, a power of two from 1024 to 67108864 (default 32768); 0: no trace file",
	  AT(trace_entries), .read = read_trace_entries },
	{ "history", 0, OPTION_NUMBER32, "SECONDS",
	  "note in the trace every SECONDS what block devices and stages did (default 60); 0: never", AT(history_seconds),
	  OPTION_RANGE(0, 3600) },
	{ "paranoid", 0, OPTION_NUMBER32, "BLOCKS",
	  "keep checksums of the last BLOCKS blocks of 4 KiB that were written to each file or device, such as 16384, "
	  "and let reads fail that do not return them",
	  AT(paranoid_blocks), OPTION_RANGE(64, 16777216) },
	DAEMON_OPTION_ROWS(struct engine_command_line, daemon, ENGINE_NAME_DEFAULT),
	{ "version", 0, OPTION_PRINT_VERSION, .help = "print the version" },
	OPTION_HELP_ROW,
	{ .type = OPTION_HEADING, .help = "an engine under fathom-server:" },
	{ "socket-dir", 0, OPTION_CALL, "DIR",
	  "folder of this engine's socket and the server's; the engine then accepts hosts only after the server gave it a "
	  "rank and configured it",
	  AT(server), .read = engine_read_socket_dir, .values = OPTION_FOLDERS },
	{ "instance", 0, OPTION_CALL, "N", "index of this engine on its host (default 0)", AT(server),
	  .read = engine_read_instance },
	{ "uuid", 0, OPTION_CALL, "UUID", "UUID of this engine", AT(server), .read = engine_read_uuid },
	{ "provider", 0, OPTION_CALL, "NAME", "scheme of its URI (default " ENGINE_PROVIDER_DEFAULT ")", AT(server),
	  .read = engine_read_provider },
	{ "incarnation-above", 0, OPTION_CALL, "N",
	  "incarnation of the previous process; this one's is the time, or the next after N", AT(server),
	  .read = engine_read_incarnation_above },
	{ "test-methods", 0, OPTION_FLAG, AT(test_methods) }, /* only for tests */
};

const struct option_table engine_table = {
	.name = "fathom-engine",
	.usage = "fathom-engine [OPTION...]",
	.about = "Serve block devices over NVMe/TCP. `fathom rpc` configures what is served.",
	OPTION_ROWS(rows),
	.version = FATHOM_VERSION INJECT_NOTE,
};

int main(int argc, char **argv)
{
	struct engine_command_line line = {
		.engine = { .socket_path = ENGINE_SOCKET_DEFAULT,
			    .version = FATHOM_VERSION,
			    .server = { .uuid = "", .provider = ENGINE_PROVIDER_DEFAULT },
			    .trace_entries = TRACE_IO_ENTRIES_DEFAULT,
			    .history_seconds = ENGINE_HISTORY_SECONDS_DEFAULT },
		.daemon = { .trace_spec = "all", .name = ENGINE_NAME_DEFAULT },
	};
	struct engine_options *options = &line.engine;
	int at, status;

	if (options_offer(&engine_table, argc, argv))
		return EXIT_SUCCESS;
	trace_schema_set(&fathom_schema);
	status = options_parse(&engine_table, argc, argv, &line, &at);
	if (status == EXIT_SUCCESS)
		return status;
	if (status == OPTIONS_RUN && at < argc)
		status = options_reject(&engine_table, "unexpected argument: %s", argv[at]);
	if (status == OPTIONS_RUN && engine_check_server_options(&options->server) != 0)
		status = EXIT_USAGE;
	if (status != OPTIONS_RUN) {
		engine_report_end(&options->server,
				  options_error()[0] ? options_error() : "an option is unknown, or its value is missing");
		return status;
	}
	if (daemon_print_trace_groups(&line.daemon))
		return EXIT_SUCCESS;
	daemon_set_log(&line.daemon, "fathom-engine");
	options->trace_spec = line.daemon.trace_spec;
	options->name = line.daemon.name;
	options->log_level = log_get_level();
	if (cpuset_count(&options->cpus) == 0)
		add_first_cpu(&options->cpus);
	return engine_run(options);
}
