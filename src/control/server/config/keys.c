/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys of the configuration: types, defaults and descriptions. The reference page is printed from here. */
#include "control/server/config/configuration.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpuset.h"
#include "base/inject/inject.h"
#include "base/text.h"
#include "control/system/member.h"
#include "rpc/figures/checks.h"

static const char *check_absolute(const char *value)
{
	return *value == '/' ? NULL : "an absolute path";
}

static const char *check_interface(const char *value)
{
	return *value && !strpbrk(value, "/ ") && strlen(value) < 64 ? NULL : "the name of a network interface: eth0";
}

static const char *check_host(const char *value)
{
	struct host_set *set;
	bool is_one;

	if (host_set_parse(value, &set, NULL) != 0)
		return "one host: node1, 10.0.0.1:10001, [fd00::1]:10001";
	is_one = host_set_count(set) == 1;
	host_set_destroy(set);
	return is_one ? NULL : "one host: node1, 10.0.0.1:10001, [fd00::1]:10001";
}

static const char *check_address(const char *value)
{
	uint8_t binary[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, value, binary) == 1 || inet_pton(AF_INET6, value, binary) == 1
		       ? NULL
		       : "an address in numbers: 127.0.0.1, 0.0.0.0, ::";
}

static const char *check_domain(const char *value)
{
	char labels[MEMBER_DOMAIN_BYTES];
	uint32_t depth;

	return member_domain_parse(value, &depth, labels, NULL) == 0
		       ? NULL
		       : "levels: /rack0/node0, or with labels /rack=0/node=0";
}

static const char *check_scheme(const char *value)
{
	size_t letters = strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789+;_-");

	return letters > 0 && letters < 32 && !value[letters] ? NULL : "a provider: nvme+tcp";
}

static const char *check_log_mask(const char *value)
{
	enum log_level level;

	return log_level_parse(value, &level) == 0 ? NULL : "ERROR, WARNING, NOTICE, INFO or DEBUG";
}

static const char *check_injection(const char *value)
{
	return inject_check_text(value, NULL) == 0 ? NULL : "a rule of fault injection, such as db_write=fail";
}

static const char *check_assignment(const char *value)
{
	const char *sign = strchr(value, '=');

	return sign && sign > value ? NULL : "NAME=value";
}

static const char *check_variable(const char *value)
{
	return *value && !strchr(value, '=') ? NULL : "the name of a variable";
}

static const char *check_cpus(const char *value)
{
	struct cpuset set = { 0 };

	return cpuset_parse(value, &set) == 0 && cpuset_count(&set) > 0 ? NULL : "a mask of CPUs (0x3) or a list ([0,2-3])";
}

static const char *check_small_number(const char *value)
{
	uint64_t number;

	return text_parse_u64(value, 10, CPUSET_CPUS_MAX - 1, &number) == 0 ? NULL : "a number, 0 or more";
}

static const char *check_duration(const char *value)
{
	uint64_t ns;

	return text_parse_duration(value, &ns) == 0 ? NULL : "a time: 500ms, 10s, 5m";
}

static const char *check_pause(const char *value)
{
	uint64_t ns;

	return text_parse_duration(value, &ns) == 0 && ns >= 100 * NS_PER_MS && ns <= 3600 * NS_PER_SEC
		       ? NULL
		       : "a time from 100ms to 1h";
}

static const char *check_health_check(const char *value)
{
	enum figure_check check;

	return figure_check_find(value, &check)
		       ? NULL
		       : "a code of fathom_health_check (docs/metrics.md), such as pool_nearly_full";
}

#define AT(structure, field) .offset = offsetof(struct structure, field)

static_assert(sizeof(((struct server_storage *)0)->class) == sizeof(uint32_t), "the type of a choice");
static_assert(sizeof(((struct server_config *)0)->port) == sizeof(uint64_t), "the type of a number");

static const struct config_key transport_keys[] = {
	{ .name = "allow_insecure",
	  .type = CONFIG_BOOL,
	  AT(server_transport, allow_insecure),
	  .initial = "false",
	  .doc = "connect without certificates: any host that reaches the port may do everything" },
	{ .name = "allow_tls12",
	  .type = CONFIG_BOOL,
	  AT(server_transport, allow_tls12),
	  .initial = "false",
	  .doc = "also accept TLS 1.2, with the one cipher suite of DAOS's tools" },
	{ .name = "ca_cert",
	  .type = CONFIG_STRING,
	  AT(server_transport, ca_cert),
	  .initial = "/etc/fathom/certs/ca.crt",
	  .check = check_absolute,
	  .doc = "the certificate of this system's authority" },
	{ .name = "cert",
	  .type = CONFIG_STRING,
	  AT(server_transport, cert),
	  .initial = "/etc/fathom/certs/server.crt",
	  .check = check_absolute,
	  .doc = "the certificate of this server" },
	{ .name = "key",
	  .type = CONFIG_STRING,
	  AT(server_transport, key),
	  .initial = "/etc/fathom/certs/server.key",
	  .check = check_absolute,
	  .doc = "its private key; a key that all users may read or write is rejected" },
	{ .name = "client_cert_dir",
	  .type = CONFIG_STRING,
	  AT(server_transport, client_cert_dir),
	  .check = check_absolute,
	  .doc = "folder with agent.crt, which then must have signed the credentials of agents; by default the certificate "
		 "of the agent's connection is enough" },
};
static const struct config_schema transport_schema = CONFIG_SCHEMA(struct server_transport, transport_keys);

static const struct config_key telemetry_keys[] = {
	{ .name = "allow_insecure",
	  .type = CONFIG_BOOL,
	  AT(server_telemetry, allow_insecure),
	  .initial = "false",
	  .doc = "serve telemetry_port without TLS also if transport_config has certificates: any host that reaches the "
		 "port may read metrics and the status page" },
	{ .name = "muted",
	  .type = CONFIG_STRINGS,
	  AT(server_telemetry, muted),
	  .check = check_health_check,
	  .doc = "codes of the metric fathom_health_check with muted=\"yes\", for which no alert fires: "
		 "[pool_nearly_full]" },
};
static const struct config_schema telemetry_schema = CONFIG_SCHEMA(struct server_telemetry, telemetry_keys);

static const struct config_key metadata_keys[] = {
	{ .name = "path",
	  .type = CONFIG_STRING,
	  AT(server_metadata, path),
	  .check = check_absolute,
	  .doc = "the folder of the superblocks (engineN/superblock) and of the database; "
		 "default: superblocks in the engines' storage, the database in state_dir" },
};
static const struct config_schema metadata_schema = CONFIG_SCHEMA(struct server_metadata, metadata_keys);

/* Each cause has its own table, since the defaults depend on the cause. */
#define RESTART_KEYS(cause, yes, least, most, times)                                                                       \
	static const struct config_key restart_##cause##_keys[] = {                                                        \
		{ .name = "restart",                                                                                       \
		  .type = CONFIG_BOOL,                                                                                     \
		  AT(server_restart, restart),                                                                             \
		  .initial = (yes),                                                                                        \
		  .doc = "whether the engine is restarted" },                                                              \
		{ .name = "delay_min",                                                                                     \
		  .type = CONFIG_STRING,                                                                                   \
		  AT(server_restart, delay_min),                                                                           \
		  .initial = (least),                                                                                      \
		  .check = check_duration,                                                                                 \
		  .doc = "the delay before the first restart in a row; it doubles with each restart" },                    \
		{ .name = "delay_max",                                                                                     \
		  .type = CONFIG_STRING,                                                                                   \
		  AT(server_restart, delay_max),                                                                           \
		  .initial = (most),                                                                                       \
		  .check = check_duration,                                                                                 \
		  .doc = "the longest delay" },                                                                            \
		{ .name = "limit",                                                                                         \
		  .type = CONFIG_NUMBER,                                                                                   \
		  AT(server_restart, limit),                                                                               \
		  .initial = (times),                                                                                      \
		  .max = UINT32_MAX,                                                                                       \
		  .doc = "restarts in a row; 0: no limit" },                                                               \
	};                                                                                                                 \
	static const struct config_schema restart_##cause##_schema = CONFIG_SCHEMA(struct server_restart,                  \
										   restart_##cause##_keys);

RESTART_KEYS(exited, "false", "1s", "300s", "0")
RESTART_KEYS(failed, "true", "1s", "300s", "10")
RESTART_KEYS(crashed, "true", "1s", "300s", "0")
RESTART_KEYS(killed, "true", "1s", "300s", "0")
RESTART_KEYS(self_terminated, "true", "10s", "300s", "0")
RESTART_KEYS(never_ready, "true", "5s", "300s", "5")
RESTART_KEYS(gone, "true", "1s", "300s", "0")
RESTART_KEYS(hung, "false", "5s", "300s", "5")

const char *const server_cause_names[SERVER_CAUSES] = { "exited",	   "failed",	  "crashed", "killed",
							"self_terminated", "never_ready", "gone",    "hung" };

#define RESTART_ROW(index, cause, text)                                                                                    \
	{                                                                                                                  \
		.name = #cause, .type = CONFIG_MAP, .offset = (index) * sizeof(struct server_restart),                     \
		.schema = &restart_##cause##_schema, .doc = (text)                                                         \
	}
static const struct config_key restart_keys[] = {
	RESTART_ROW(0, exited, "it exited with status 0"),
	RESTART_ROW(1, failed, "it exited with another status"),
	RESTART_ROW(2, crashed, "it crashed: SIGSEGV, SIGABRT ..."),
	RESTART_ROW(3, killed, "another process killed it: SIGKILL, SIGTERM"),
	RESTART_ROW(4, self_terminated, "it ended itself because its rank was excluded"),
	RESTART_ROW(5, never_ready, "it did not become ready, or never joined"),
	RESTART_ROW(6, gone, "it ended while no server was running"),
	RESTART_ROW(7, hung, "it does not answer pings: it is killed only if `restart` is true"),
};
static_assert(ARRAY_COUNT(restart_keys) == SERVER_CAUSES, "each cause has its row");
static const struct config_schema restart_schema = {
	.keys = restart_keys,
	.key_count = ARRAY_COUNT(restart_keys),
	.struct_bytes = SERVER_CAUSES * sizeof(struct server_restart),
};

static const char *const storage_classes[] = { "kdev", "nvme", "file", NULL };
static_assert(ARRAY_COUNT(storage_classes) == SERVER_STORAGE_FILE + 2, "each class has its name");

static const struct config_key storage_keys[] = {
	{ .name = "class",
	  .type = CONFIG_CHOICE,
	  AT(server_storage, class),
	  .is_required = true,
	  .choices = storage_classes,
	  .doc = "kdev, nvme: a block device that is formatted with XFS and mounted by the helper; "
		 "file: an existing folder, which needs no privilege" },
	{ .name = "bdev_list",
	  .type = CONFIG_STRINGS,
	  AT(server_storage, bdev_list),
	  .check = check_absolute,
	  .doc = "with kdev and nvme: one device: [/dev/nvme0n1]" },
	{ .name = "bdev_size",
	  .type = CONFIG_BYTES,
	  AT(server_storage, bdev_size),
	  .min = 1 << 20,
	  .max = 1ull << 50,
	  .doc = "with file: formatting creates data.img of this size in the folder" },
	{ .name = "scm_mount",
	  .type = CONFIG_STRING,
	  AT(server_storage, scm_mount),
	  .is_required = true,
	  .check = check_absolute,
	  .doc = "the mount point of the device, or the folder, which must exist" },
};
static const struct config_schema storage_schema = CONFIG_SCHEMA(struct server_storage, storage_keys);

static const struct config_key engine_keys[] = {
	{ .name = "fabric_iface",
	  .type = CONFIG_STRING,
	  AT(server_engine, fabric_iface),
	  .check = check_interface,
	  .doc = "the engine serves NVMe/TCP at the first address of this interface; default: the address of the server" },
	{ .name = "fabric_iface_port",
	  .type = CONFIG_NUMBER,
	  AT(server_engine, fabric_iface_port),
	  .initial = "4420",
	  .min = 1,
	  .max = 65535,
	  .doc = "its port: different for each engine, and different from the server's port at the same address" },
	{ .name = "log_mask",
	  .type = CONFIG_STRING,
	  AT(server_engine, log_mask),
	  .check = check_log_mask,
	  .doc = "ERROR, WARNING, NOTICE, INFO or DEBUG; default: that of the engine" },
	{ .name = "log_file",
	  .type = CONFIG_STRING,
	  AT(server_engine, log_file),
	  .check = check_absolute,
	  .doc = "the file of its log; default: engineN.log in state_dir" },
	{ .name = "env_vars",
	  .type = CONFIG_STRINGS,
	  AT(server_engine, env_vars),
	  .check = check_assignment,
	  .doc = "its environment: [NAME=value]; it has no other variables" },
	{ .name = "env_pass_through",
	  .type = CONFIG_STRINGS,
	  AT(server_engine, env_pass_through),
	  .check = check_variable,
	  .doc = "names of variables that it inherits from the server" },
	{ .name = "cpus",
	  .type = CONFIG_STRING,
	  AT(server_engine, cpus),
	  .check = check_cpus,
	  .doc = "the CPUs of its reactors, as for `fathom-engine -m`: [0,2-3]; default: the first CPU" },
	{ .name = "first_core",
	  .type = CONFIG_STRING,
	  AT(server_engine, first_core),
	  .check = check_small_number,
	  .doc = "instead of cpus: the number of one CPU" },
	{ .name = "pinned_numa_node",
	  .type = CONFIG_STRING,
	  AT(server_engine, pinned_numa_node),
	  .check = check_small_number,
	  .doc = "instead of cpus: all CPUs of the NUMA node of this number" },
	{ .name = "paranoid_blocks",
	  .type = CONFIG_NUMBER,
	  AT(server_engine, paranoid_blocks),
	  .min = 64,
	  .max = 16777216,
	  .doc = "it keeps checksums of this number of blocks of 4 KiB that were last written to each volume, in memory, "
		 "and a read that returns other data fails; such as 16384; default: none" },
	{ .name = "arguments",
	  .type = CONFIG_STRINGS,
	  AT(server_engine, arguments),
	  .doc = "further arguments of fathom-engine" },
	{ .name = "storage",
	  .type = CONFIG_LIST,
	  AT(server_engine, storage),
	  .is_required = true,
	  .schema = &storage_schema,
	  .doc = "a list with one entry" },
};
static const struct config_schema engine_schema = CONFIG_SCHEMA(struct server_engine, engine_keys);

static const struct config_key keys[] = {
	{ .name = "name",
	  .type = CONFIG_STRING,
	  AT(server_config, name),
	  .initial = "fathom",
	  .check = config_system_name,
	  .doc = "the system's name: letters, digits, `-`, `_` and `.`; the same on all its hosts" },
	{ .name = "port",
	  .type = CONFIG_NUMBER,
	  AT(server_config, port),
	  .initial = "10001",
	  .min = 1,
	  .max = 65535,
	  .doc = "the port where the server listens for gRPC" },
	{ .name = "telemetry_port",
	  .type = CONFIG_NUMBER,
	  AT(server_config, telemetry_port),
	  .initial = "0",
	  .max = 65535,
	  .doc = "the port of the metrics of this host (GET /metrics) and of the status page (GET /): 9191; 0: none" },
	{ .name = "telemetry_address",
	  .type = CONFIG_STRING,
	  AT(server_config, telemetry_address),
	  .initial = "127.0.0.1",
	  .check = check_address,
	  .doc = "the address of telemetry_port" },
	{ .name = "telemetry_config",
	  .type = CONFIG_MAP,
	  AT(server_config, telemetry),
	  .schema = &telemetry_schema,
	  .doc = "access to telemetry_port. With certificates (transport_config) it has TLS, and a client needs a "
		 "certificate of the role monitor, admin or server" },
	{ .name = "control_iface",
	  .type = CONFIG_STRING,
	  AT(server_config, control_iface),
	  .check = check_interface,
	  .doc = "the server listens at the first address of this interface, and at 127.0.0.1 for the commands of this "
		 "host; default: the address of this host in mgmt_svc_replicas" },
	{ .name = "mgmt_svc_replicas",
	  .alias = "access_points",
	  .type = CONFIG_STRINGS,
	  AT(server_config, mgmt_svc_replicas),
	  .initial = "[localhost]",
	  .check = check_host,
	  .doc = "the one host that keeps the system's database: [node1:10001]. The old name of this key is "
		 "access_points" },
	{ .name = "transport_config",
	  .type = CONFIG_MAP,
	  AT(server_config, transport),
	  .schema = &transport_schema,
	  .doc = "certificates" },
	{ .name = "control_metadata",
	  .type = CONFIG_MAP,
	  AT(server_config, metadata),
	  .schema = &metadata_schema,
	  .doc = "the storage of superblocks and database" },
	{ .name = "fault_path",
	  .type = CONFIG_STRING,
	  AT(server_config, fault_path),
	  .check = check_domain,
	  .doc = "the fault domain of this host: /rack0/node0; default: the host's name" },
	{ .name = "fault_cb",
	  .type = CONFIG_STRING,
	  AT(server_config, fault_cb),
	  .check = check_absolute,
	  .doc = "instead of fault_path: a program that prints it; only its owner may be able to write it" },
	{ .name = "provider",
	  .type = CONFIG_STRING,
	  AT(server_config, provider),
	  .initial = SERVER_PROVIDER_DEFAULT,
	  .check = check_scheme,
	  .doc = "the scheme of the engines' URIs; the same in the whole system" },
	{ .name = "socket_dir",
	  .type = CONFIG_STRING,
	  AT(server_config, socket_dir),
	  .initial = "/run/fathom/server",
	  .check = check_absolute,
	  .doc = "the folder of the sockets of the server and of its engines" },
	{ .name = "state_dir",
	  .type = CONFIG_STRING,
	  AT(server_config, state_dir),
	  .initial = "/var/lib/fathom",
	  .check = check_absolute,
	  .doc = "the folder of the database, of spooled events and of the engines' logs" },
	{ .name = "control_log_mask",
	  .type = CONFIG_STRING,
	  AT(server_config, log_mask),
	  .initial = "NOTICE",
	  .check = check_log_mask,
	  .doc = "the level of the server's log: ERROR, WARNING, NOTICE, INFO or DEBUG" },
	{ .name = "control_log_file",
	  .type = CONFIG_STRING,
	  AT(server_config, log_file),
	  .check = check_absolute,
	  .doc = "the file of the server's log; default: standard error. SIGHUP opens it again" },
	{ .name = "control_log_json",
	  .type = CONFIG_BOOL,
	  AT(server_config, log_json),
	  .initial = "false",
	  .doc = "log one JSON object per line" },
	{ .name = "helper",
	  .type = CONFIG_STRING,
	  AT(server_config, helper),
	  .check = check_absolute,
	  .doc = "the privileged program; default: fathom-helper in the folder of fathom-server" },
	{ .name = "engine_program",
	  .type = CONFIG_STRING,
	  AT(server_config, engine_program),
	  .check = check_absolute,
	  .doc = "the engines' program; default: fathom-engine in the folder of fathom-server" },
	{ .name = "disable_engine_auto_restart",
	  .type = CONFIG_BOOL,
	  AT(server_config, disable_engine_auto_restart),
	  .initial = "false",
	  .doc = "restart no engine automatically; overrides engine_restart" },
	{ .name = "engine_auto_restart_min_delay",
	  .type = CONFIG_NUMBER,
	  AT(server_config, engine_auto_restart_min_delay),
	  .initial = "0",
	  .max = 86400,
	  .doc = "seconds before the restart of an engine that ended itself (self_terminated); 0: as in "
		 "engine_restart" },
	{ .name = "engine_restart",
	  .type = CONFIG_MAP,
	  AT(server_config, restart),
	  .schema = &restart_schema,
	  .doc = "restarts of an engine that ended without a stop, for each cause" },
	{ .name = "inject",
	  .type = CONFIG_STRINGS,
	  AT(server_config, inject),
	  .check = check_injection,
	  .doc = "for tests: rules of fault injection, such as [\"db_write=fail,count=1\"]; only if the server was built "
		 "with it "
		 "(docs/fault-injection.md)" },
	{ .name = "events_max",
	  .type = CONFIG_NUMBER,
	  AT(server_config, events_max),
	  .initial = "100000",
	  .min = 100,
	  .max = 10000000,
	  .doc = "the number of RAS events that the management service keeps" },
	{ .name = "server_heartbeat",
	  .type = CONFIG_STRING,
	  AT(server_config, server_heartbeat),
	  .initial = "10s",
	  .check = check_pause,
	  .doc = "on the management host: the interval of each server's reports of its engines (longer with more than "
		 "1000 servers). The ranks of a server that does not report for three intervals become Unresponsive" },
	{ .name = "engine_heartbeat",
	  .type = CONFIG_STRING,
	  AT(server_config, engine_heartbeat),
	  .initial = "10s",
	  .check = check_pause,
	  .doc = "the interval of pings to each serving engine. An engine that misses three pings in a row hangs; the "
		 "time-out of a ping is the interval, at most five seconds" },
	{ .name = "database_copy_after",
	  .type = CONFIG_STRING,
	  AT(server_config, database_copy_after),
	  .initial = "60s",
	  .check = check_pause,
	  .doc = "on the management host: the time from the start to the first copy of the database, if it has changed; "
		 "then it is copied once a day" },
	{ .name = "health_interval",
	  .type = CONFIG_STRING,
	  AT(server_config, health_interval),
	  .initial = "60s",
	  .check = check_pause,
	  .doc = "the time between two readings of the health of this host's devices" },
	{ .name = "engines",
	  .type = CONFIG_LIST,
	  AT(server_config, engines),
	  .schema = &engine_schema,
	  .doc = "the engines of this host; a server without engines only answers calls" },
};
const struct config_schema server_config_schema = {
	.keys = keys,
	.key_count = ARRAY_COUNT(keys),
	.struct_bytes = sizeof(struct server_config),
	.needs_keys = true,
};

void server_config_print_reference(FILE *out)
{
	fputs("# The server's configuration\n\n"
	      "`fathom-server` reads one YAML file: " SERVER_CONFIG_DEFAULT
	      ", or the file of `-o`. These are errors with the "
	      "file, the line and the key: an unknown key,\na key that appears twice, a value of another type. Keys have "
	      "the "
	      "names of DAOS's `daos_server.yml` where both have the setting.\n\n"
	      "`fathom-server config check FILE` checks a file, and `fathom-server config generate` writes one for this "
	      "host. `packaging/fathom-server.yml`\nis a sample. Sizes and times may have a unit: 4096, 16MiB, 2GiB; "
	      "500ms, "
	      "10s, 5m.\n\n"
	      "This page is printed by `fathom-server config reference`.\n\n",
	      out);
	config_print_reference(&server_config_schema, out);
}
