/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys of the configuration: types, defaults and descriptions. The reference page is printed from here. */
#include "control/server/config/configuration.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpuset.h"
#include "base/text.h"
#include "control/system/member.h"

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

	return text_parse_u64(value, 10, CPUSET_CPUS_MAX - 1, &number) == 0 ? NULL : "a number from 0 on";
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

#define AT(structure, field) .offset = offsetof(struct structure, field)

static const struct config_key transport_keys[] = {
	{ .name = "allow_insecure",
	  .type = CONFIG_BOOL,
	  AT(server_transport, allow_insecure),
	  .initial = "false",
	  .doc = "talk without certificates: whoever reaches the port may do everything" },
	{ .name = "allow_tls12",
	  .type = CONFIG_BOOL,
	  AT(server_transport, allow_tls12),
	  .initial = "false",
	  .doc = "take TLS 1.2 with the one suite of DAOS's tools, too" },
	{ .name = "ca_cert",
	  .type = CONFIG_STRING,
	  AT(server_transport, ca_cert),
	  .initial = "/etc/fathom/certs/ca.crt",
	  .check = check_absolute,
	  .doc = "certificate of the authority of this system" },
	{ .name = "cert",
	  .type = CONFIG_STRING,
	  AT(server_transport, cert),
	  .initial = "/etc/fathom/certs/server.crt",
	  .check = check_absolute,
	  .doc = "certificate of this server" },
	{ .name = "key",
	  .type = CONFIG_STRING,
	  AT(server_transport, key),
	  .initial = "/etc/fathom/certs/server.key",
	  .check = check_absolute,
	  .doc = "its key; one that everybody may read or write is refused" },
	{ .name = "client_cert_dir",
	  .type = CONFIG_STRING,
	  AT(server_transport, client_cert_dir),
	  .check = check_absolute,
	  .doc = "taken from DAOS's files and not read: who has a certificate of the authority has its role" },
};
static const struct config_schema transport_schema = CONFIG_SCHEMA(struct server_transport, transport_keys);

static const struct config_key metadata_keys[] = {
	{ .name = "path",
	  .type = CONFIG_STRING,
	  AT(server_metadata, path),
	  .check = check_absolute,
	  .doc = "a folder for the superblocks (engineN/superblock) and the database; "
		 "without it superblocks lie in the engines' storage and the database in state_dir" },
};
static const struct config_schema metadata_schema = CONFIG_SCHEMA(struct server_metadata, metadata_keys);

/* Each cause has its own table, since the defaults depend on the cause. */
#define RESTART_KEYS(cause, yes, least, most, times)                                                                       \
	static const struct config_key restart_##cause##_keys[] = {                                                        \
		{ .name = "restart",                                                                                       \
		  .type = CONFIG_BOOL,                                                                                     \
		  AT(server_restart, restart),                                                                             \
		  .initial = (yes),                                                                                        \
		  .doc = "whether it is started again" },                                                                  \
		{ .name = "delay_min",                                                                                     \
		  .type = CONFIG_STRING,                                                                                   \
		  AT(server_restart, delay_min),                                                                           \
		  .initial = (least),                                                                                      \
		  .check = check_duration,                                                                                 \
		  .doc = "time before the first restart in a row; doubled with each" },                                    \
		{ .name = "delay_max",                                                                                     \
		  .type = CONFIG_STRING,                                                                                   \
		  AT(server_restart, delay_max),                                                                           \
		  .initial = (most),                                                                                       \
		  .check = check_duration,                                                                                 \
		  .doc = "the longest it becomes" },                                                                       \
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
	RESTART_ROW(0, exited, "it ended by itself, with status 0"),
	RESTART_ROW(1, failed, "it ended by itself, with another status"),
	RESTART_ROW(2, crashed, "a signal of its own ended it: SIGSEGV, SIGABRT ..."),
	RESTART_ROW(3, killed, "somebody ended it: SIGKILL, SIGTERM"),
	RESTART_ROW(4, self_terminated, "it ended itself because the others had excluded it"),
	RESTART_ROW(5, never_ready, "it did not become ready, or never joined"),
	RESTART_ROW(6, gone, "it ended while no server watched it"),
	RESTART_ROW(7, hung, "it does not answer any more: it is killed only if it is to be started again"),
};
static const struct config_schema restart_schema = {
	.keys = restart_keys,
	.key_count = ARRAY_COUNT(restart_keys),
	.struct_bytes = SERVER_CAUSES * sizeof(struct server_restart),
};

static const char *const storage_classes[] = { "kdev", "nvme", "file", NULL };

static const struct config_key storage_keys[] = {
	{ .name = "class",
	  .type = CONFIG_CHOICE,
	  AT(server_storage, class),
	  .is_required = true,
	  .choices = storage_classes,
	  .doc = "kdev, nvme: a block device that is formatted with XFS and mounted by the helper; "
		 "file: a folder that is there, which takes no privilege" },
	{ .name = "bdev_list",
	  .type = CONFIG_STRINGS,
	  AT(server_storage, bdev_list),
	  .check = check_absolute,
	  .doc = "of kdev and nvme: the device, one: [/dev/nvme0n1]" },
	{ .name = "bdev_size",
	  .type = CONFIG_BYTES,
	  AT(server_storage, bdev_size),
	  .min = 1 << 20,
	  .max = 1ull << 50,
	  .doc = "of file: formatting makes data.img of this size in the folder" },
	{ .name = "scm_mount",
	  .type = CONFIG_STRING,
	  AT(server_storage, scm_mount),
	  .is_required = true,
	  .check = check_absolute,
	  .doc = "where it is mounted, or the folder, which must exist" },
};
static const struct config_schema storage_schema = CONFIG_SCHEMA(struct server_storage, storage_keys);

static const struct config_key engine_keys[] = {
	{ .name = "fabric_iface",
	  .type = CONFIG_STRING,
	  AT(server_engine, fabric_iface),
	  .check = check_interface,
	  .doc = "interface at whose first address it serves NVMe/TCP; without it the address of the server" },
	{ .name = "fabric_iface_port",
	  .type = CONFIG_NUMBER,
	  AT(server_engine, fabric_iface_port),
	  .initial = "4420",
	  .min = 1,
	  .max = 65535,
	  .doc = "the port there; another for each engine, and than the server's at the same address" },
	{ .name = "log_mask",
	  .type = CONFIG_STRING,
	  AT(server_engine, log_mask),
	  .check = check_log_mask,
	  .doc = "ERROR, WARNING, NOTICE, INFO or DEBUG; without it the engine's default" },
	{ .name = "log_file",
	  .type = CONFIG_STRING,
	  AT(server_engine, log_file),
	  .check = check_absolute,
	  .doc = "where its lines go; without it engineN.log in state_dir" },
	{ .name = "env_vars",
	  .type = CONFIG_STRINGS,
	  AT(server_engine, env_vars),
	  .check = check_assignment,
	  .doc = "variables of its environment: [NAME=value]; it has no others" },
	{ .name = "env_pass_through",
	  .type = CONFIG_STRINGS,
	  AT(server_engine, env_pass_through),
	  .check = check_variable,
	  .doc = "names of variables that it has from the server" },
	{ .name = "cpus",
	  .type = CONFIG_STRING,
	  AT(server_engine, cpus),
	  .check = check_cpus,
	  .doc = "CPUs of its reactors, as `fathom-engine -m` takes them: [0,2-3]; without it the first" },
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
	{ .name = "arguments",
	  .type = CONFIG_STRINGS,
	  AT(server_engine, arguments),
	  .doc = "further words for fathom-engine's command line" },
	{ .name = "storage",
	  .type = CONFIG_LIST,
	  AT(server_engine, storage),
	  .is_required = true,
	  .schema = &storage_schema,
	  .doc = "a list of one" },
};
static const struct config_schema engine_schema = CONFIG_SCHEMA(struct server_engine, engine_keys);

static const struct config_key keys[] = {
	{ .name = "name",
	  .type = CONFIG_STRING,
	  AT(server_config, name),
	  .initial = "fathom",
	  .check = config_system_name,
	  .doc = "of the system: letters, digits, `-`, `_` and `.`; the same on all its hosts" },
	{ .name = "port",
	  .type = CONFIG_NUMBER,
	  AT(server_config, port),
	  .initial = "10001",
	  .min = 1,
	  .max = 65535,
	  .doc = "where the server listens for gRPC" },
	{ .name = "control_iface",
	  .type = CONFIG_STRING,
	  AT(server_config, control_iface),
	  .check = check_interface,
	  .doc = "interface at whose first address it listens; without it, the address here that mgmt_svc_replicas names" },
	{ .name = "mgmt_svc_replicas",
	  .alias = "access_points",
	  .type = CONFIG_STRINGS,
	  AT(server_config, mgmt_svc_replicas),
	  .initial = "[localhost]",
	  .check = check_host,
	  .doc = "the host that keeps the system's database: [node1:10001]; one. The old name is access_points" },
	{ .name = "transport_config",
	  .type = CONFIG_MAP,
	  AT(server_config, transport),
	  .schema = &transport_schema,
	  .doc = "certificates" },
	{ .name = "control_metadata",
	  .type = CONFIG_MAP,
	  AT(server_config, metadata),
	  .schema = &metadata_schema,
	  .doc = "where the server keeps what it must not forget" },
	{ .name = "fault_path",
	  .type = CONFIG_STRING,
	  AT(server_config, fault_path),
	  .check = check_domain,
	  .doc = "fault domain of this host: /rack0/node0; without it the host's name" },
	{ .name = "fault_cb",
	  .type = CONFIG_STRING,
	  AT(server_config, fault_cb),
	  .check = check_absolute,
	  .doc = "instead of fault_path: a program that prints it; writable by its owner alone" },
	{ .name = "provider",
	  .type = CONFIG_STRING,
	  AT(server_config, provider),
	  .initial = SERVER_PROVIDER_DEFAULT,
	  .check = check_scheme,
	  .doc = "the beginning of the engines' URIs; the same in the whole system" },
	{ .name = "socket_dir",
	  .type = CONFIG_STRING,
	  AT(server_config, socket_dir),
	  .initial = "/run/fathom/server",
	  .check = check_absolute,
	  .doc = "sockets of the server and of its engines" },
	{ .name = "state_dir",
	  .type = CONFIG_STRING,
	  AT(server_config, state_dir),
	  .initial = "/var/lib/fathom",
	  .check = check_absolute,
	  .doc = "database, spooled events, logs of engines" },
	{ .name = "control_log_mask",
	  .type = CONFIG_STRING,
	  AT(server_config, log_mask),
	  .initial = "NOTICE",
	  .check = check_log_mask,
	  .doc = "what the server logs: ERROR, WARNING, NOTICE, INFO or DEBUG" },
	{ .name = "control_log_file",
	  .type = CONFIG_STRING,
	  AT(server_config, log_file),
	  .check = check_absolute,
	  .doc = "where to; without it standard error. SIGHUP opens it again" },
	{ .name = "control_log_json",
	  .type = CONFIG_BOOL,
	  AT(server_config, log_json),
	  .initial = "false",
	  .doc = "a JSON object a line" },
	{ .name = "helper",
	  .type = CONFIG_STRING,
	  AT(server_config, helper),
	  .check = check_absolute,
	  .doc = "the privileged program; without it fathom-helper beside fathom-server" },
	{ .name = "engine_program",
	  .type = CONFIG_STRING,
	  AT(server_config, engine_program),
	  .check = check_absolute,
	  .doc = "the engines' program; without it fathom-engine beside fathom-server" },
	{ .name = "disable_engine_auto_restart",
	  .type = CONFIG_BOOL,
	  AT(server_config, disable_engine_auto_restart),
	  .initial = "false",
	  .doc = "no engine is started again by itself, whatever engine_restart says" },
	{ .name = "engine_auto_restart_min_delay",
	  .type = CONFIG_NUMBER,
	  AT(server_config, engine_auto_restart_min_delay),
	  .initial = "0",
	  .max = 86400,
	  .doc = "seconds before an engine is started again that ended itself (self_terminated); 0: as engine_restart "
		 "says" },
	{ .name = "engine_restart",
	  .type = CONFIG_MAP,
	  AT(server_config, restart),
	  .schema = &restart_schema,
	  .doc = "what becomes of an engine that ended without having been told to, by cause" },
	{ .name = "events_max",
	  .type = CONFIG_NUMBER,
	  AT(server_config, events_max),
	  .initial = "100000",
	  .min = 100,
	  .max = 10000000,
	  .doc = "RAS events that the management service keeps" },
	{ .name = "server_heartbeat",
	  .type = CONFIG_STRING,
	  AT(server_config, server_heartbeat),
	  .initial = "10s",
	  .check = check_pause,
	  .doc = "on the management host: how often each server reports its engines (with more than 1000 servers, less "
		 "often); "
		 "when one has not reported for three times as long, its ranks become Unresponsive" },
	{ .name = "engine_heartbeat",
	  .type = CONFIG_STRING,
	  AT(server_config, engine_heartbeat),
	  .initial = "10s",
	  .check = check_pause,
	  .doc = "how often the server pings each engine that serves; one that does not answer three pings in a row, for "
		 "as "
		 "long each time but five seconds at most, hangs" },
	{ .name = "database_copy_after",
	  .type = CONFIG_STRING,
	  AT(server_config, database_copy_after),
	  .initial = "60s",
	  .check = check_pause,
	  .doc = "on the management host: how long after its start the database is copied beside itself, if anything has "
		 "changed; then once a day" },
	{ .name = "engines",
	  .type = CONFIG_LIST,
	  AT(server_config, engines),
	  .schema = &engine_schema,
	  .doc = "the engines of this host; a server without any only answers" },
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
	      "`fathom-server` reads one YAML file, " SERVER_CONFIG_DEFAULT
	      " or what `-o` names. It is read strictly: a key that "
	      "is not in this table, one that\nstands there twice and a value of another type are errors that name file, "
	      "line and "
	      "key. The names are those of DAOS's `daos_server.yml` where the\nthing exists here. `fathom-server config "
	      "check FILE` "
	      "says whether a file is right, `fathom-server config generate` writes one for this host, and\n"
	      "`packaging/fathom-server.yml` is a sample. Sizes may have a unit (4096, 16MiB, 2GiB), times too (500ms, "
	      "10s, 5m).\n\n"
	      "This page is printed by `fathom-server config reference`.\n\n",
	      out);
	config_print_reference(&server_config_schema, out);
}
