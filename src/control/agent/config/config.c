/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/agent/config/config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/fault/fault.h"

static const char *check_absolute(const char *value)
{
	return value[0] == '/' ? NULL : "an absolute path";
}

static const char *check_log_mask(const char *value)
{
	enum log_level level;

	return log_level_parse(value, &level) == 0 ? NULL : "ERROR, WARNING, NOTICE, INFO or DEBUG";
}

static const char *check_seconds(const char *value)
{
	uint64_t ns;

	return text_parse_duration(value, &ns) == 0 && ns >= NS_PER_SEC && ns <= 86400 * NS_PER_SEC
		       ? NULL
		       : "a time from 1s to 24h";
}

static const char *check_pause(const char *value)
{
	uint64_t ns;

	return text_parse_duration(value, &ns) == 0 && ns <= 86400 * NS_PER_SEC ? NULL : "a time of at most 24h";
}

static const char *check_not_empty(const char *value)
{
	return value[0] ? NULL : "a text that is not empty";
}

#define AT(type, field) .offset = offsetof(struct type, field)

static const struct config_key transport_keys[] = {
	{ .name = "allow_insecure",
	  .type = CONFIG_BOOL,
	  AT(agent_transport, allow_insecure),
	  .initial = "false",
	  .doc = "talk without certificates, and sign credentials with a digest that proves nothing" },
	{ .name = "ca_cert",
	  .type = CONFIG_STRING,
	  AT(agent_transport, ca_cert),
	  .initial = "/etc/fathom/certs/ca.crt",
	  .check = check_absolute,
	  .doc = "certificate of the authority that has signed all others of the system" },
	{ .name = "cert",
	  .type = CONFIG_STRING,
	  AT(agent_transport, cert),
	  .initial = "/etc/fathom/certs/agent.crt",
	  .check = check_absolute,
	  .doc = "the agent's certificate" },
	{ .name = "key",
	  .type = CONFIG_STRING,
	  AT(agent_transport, key),
	  .initial = "/etc/fathom/certs/agent.key",
	  .check = check_absolute,
	  .doc = "its key, which also signs credentials; readable by its owner alone" },
};
static const struct config_schema transport_schema = CONFIG_SCHEMA(struct agent_transport, transport_keys);

static const struct config_key user_keys[] = {
	{ .name = "uid",
	  .type = CONFIG_NUMBER,
	  AT(agent_user, uid),
	  .is_required = true,
	  .max = UINT32_MAX,
	  .doc = "the number of the user" },
	{ .name = "user",
	  .type = CONFIG_STRING,
	  AT(agent_user, user),
	  .is_required = true,
	  .check = check_not_empty,
	  .doc = "its name" },
	{ .name = "group",
	  .type = CONFIG_STRING,
	  AT(agent_user, group),
	  .is_required = true,
	  .check = check_not_empty,
	  .doc = "its primary group" },
	{ .name = "groups",
	  .type = CONFIG_STRINGS,
	  AT(agent_user, groups),
	  .check = check_not_empty,
	  .doc = "its other groups" },
};
static const struct config_schema user_schema = CONFIG_SCHEMA(struct agent_user, user_keys);

static const struct config_key credential_keys[] = {
	{ .name = "cache_expiration",
	  .type = CONFIG_STRING,
	  AT(agent_credentials, cache_expiration),
	  .initial = "30s",
	  .check = check_pause,
	  .doc = "how long the names of a user and of its groups are kept; 0: not at all" },
	{ .name = "client_user_map",
	  .type = CONFIG_LIST,
	  AT(agent_credentials, users),
	  .schema = &user_schema,
	  .doc = "users that this host does not know; DAOS's agent has them by number, this one as a list" },
};
static const struct config_schema credential_schema = CONFIG_SCHEMA(struct agent_credentials, credential_keys);

static const struct config_key device_keys[] = {
	{ .name = "iface",
	  .type = CONFIG_STRING,
	  AT(agent_fabric_device, iface),
	  .is_required = true,
	  .check = check_not_empty,
	  .doc = "an interface: eth0" },
	{ .name = "domain",
	  .type = CONFIG_STRING,
	  AT(agent_fabric_device, domain),
	  .check = check_not_empty,
	  .doc = "its domain; default: the interface" },
};
static const struct config_schema device_schema = CONFIG_SCHEMA(struct agent_fabric_device, device_keys);

static const struct config_key node_keys[] = {
	{ .name = "numa_node",
	  .type = CONFIG_NUMBER,
	  AT(agent_fabric_node, numa_node),
	  .is_required = true,
	  .max = 1023,
	  .doc = "a NUMA node of this host" },
	{ .name = "devices",
	  .type = CONFIG_LIST,
	  AT(agent_fabric_node, devices),
	  .is_required = true,
	  .schema = &device_schema,
	  .doc = "its interfaces" },
};
static const struct config_schema node_schema = CONFIG_SCHEMA(struct agent_fabric_node, node_keys);

static const struct config_key attach_keys[] = {
	{ .name = "host_nqn_file",
	  .type = CONFIG_STRING,
	  AT(agent_attach_config, host_nqn_file),
	  .initial = "/etc/nvme/hostnqn",
	  .check = check_absolute,
	  .doc = "this host's NQN, to which volumes are published" },
	{ .name = "host_id_file",
	  .type = CONFIG_STRING,
	  AT(agent_attach_config, host_id_file),
	  .initial = "/etc/nvme/hostid",
	  .check = check_absolute,
	  .doc = "this host's identifier" },
	{ .name = "reconnect_delay",
	  .type = CONFIG_STRING,
	  AT(agent_attach_config, reconnect_delay),
	  .initial = "2s",
	  .check = check_seconds,
	  .doc = "the time between two attempts of the kernel to connect again; it never gives up" },
	{ .name = "keep_alive",
	  .type = CONFIG_STRING,
	  AT(agent_attach_config, keep_alive),
	  .initial = "5s",
	  .check = check_seconds,
	  .doc = "the time-out after which a silent engine counts as lost" },
	{ .name = "io_queues",
	  .type = CONFIG_NUMBER,
	  AT(agent_attach_config, io_queues),
	  .initial = "0",
	  .max = 1024,
	  .doc = "the number of I/O queues of a connection; 0: one for each CPU" },
	{ .name = "header_digest",
	  .type = CONFIG_BOOL,
	  AT(agent_attach_config, header_digest),
	  .initial = "false",
	  .doc = "protect headers by CRC32C" },
	{ .name = "data_digest",
	  .type = CONFIG_BOOL,
	  AT(agent_attach_config, data_digest),
	  .initial = "false",
	  .doc = "protect data by CRC32C" },
};
static const struct config_schema attach_schema = CONFIG_SCHEMA(struct agent_attach_config, attach_keys);

static const struct config_key keys[] = {
	{ .name = "name",
	  .type = CONFIG_STRING,
	  AT(agent_config, name),
	  .initial = "fathom",
	  .check = config_system_name,
	  .doc = "of the system, as its servers have it" },
	{ .name = "access_points",
	  .alias = "mgmt_svc_replicas",
	  .type = CONFIG_STRINGS,
	  AT(agent_config, access_points),
	  .initial = "[localhost]",
	  .check = check_not_empty,
	  .doc = "hosts of the system, at most 16, of which one runs the management service or names the host that does" },
	{ .name = "port",
	  .type = CONFIG_NUMBER,
	  AT(agent_config, port),
	  .initial = "10001",
	  .min = 1,
	  .max = UINT16_MAX,
	  .doc = "of the servers, where `access_points` names none" },
	{ .name = "runtime_dir",
	  .type = CONFIG_STRING,
	  AT(agent_config, runtime_dir),
	  .initial = AGENT_RUNTIME_DEFAULT,
	  .check = check_absolute,
	  .doc = "the folder of the agent's socket, " AGENT_SOCKET ", and of temporary attachments" },
	{ .name = "state_dir",
	  .type = CONFIG_STRING,
	  AT(agent_config, state_dir),
	  .initial = AGENT_STATE_DEFAULT,
	  .check = check_absolute,
	  .doc = "the folder in which `attachments` has the persistent attachments" },
	{ .name = "control_log_mask",
	  .type = CONFIG_STRING,
	  AT(agent_config, log_mask),
	  .initial = "NOTICE",
	  .check = check_log_mask,
	  .doc = "the level of the log: ERROR, WARNING, NOTICE, INFO or DEBUG" },
	{ .name = "log_file",
	  .type = CONFIG_STRING,
	  AT(agent_config, log_file),
	  .check = check_absolute,
	  .doc = "the file of the log; default: standard error. SIGHUP opens it again" },
	{ .name = "transport_config",
	  .type = CONFIG_MAP,
	  AT(agent_config, transport),
	  .schema = &transport_schema,
	  .doc = "certificates" },
	{ .name = "credential_config",
	  .type = CONFIG_MAP,
	  AT(agent_config, credentials),
	  .schema = &credential_schema,
	  .doc = "credentials of users" },
	{ .name = "disable_caching",
	  .type = CONFIG_BOOL,
	  AT(agent_config, disable_caching),
	  .initial = "false",
	  .doc = "get the attach information from a server for each client" },
	{ .name = "cache_expiration",
	  .type = CONFIG_NUMBER,
	  AT(agent_config, cache_expiration),
	  .initial = "5",
	  .max = 100000,
	  .doc = "minutes after which the attach information is refreshed; 0: only when a client reports that it is stale, "
		 "and at SIGHUP" },
	{ .name = "disable_auto_evict",
	  .type = CONFIG_BOOL,
	  AT(agent_config, disable_auto_evict),
	  .initial = "false",
	  .doc = "leave the pool handles of client processes that end" },
	{ .name = "exclude_fabric_ifaces",
	  .type = CONFIG_STRINGS,
	  AT(agent_config, exclude_fabric_ifaces),
	  .check = check_not_empty,
	  .doc = "interfaces that clients must not use" },
	{ .name = "include_fabric_ifaces",
	  .type = CONFIG_STRINGS,
	  AT(agent_config, include_fabric_ifaces),
	  .check = check_not_empty,
	  .doc = "only these interfaces" },
	{ .name = "fabric_ifaces",
	  .type = CONFIG_LIST,
	  AT(agent_config, fabric_ifaces),
	  .schema = &node_schema,
	  .doc = "the interfaces of each NUMA node, instead of those that the agent finds" },
	{ .name = "connections_max",
	  .type = CONFIG_NUMBER,
	  AT(agent_config, connections_max),
	  .initial = "4096",
	  .min = 16,
	  .max = AGENT_CONNECTIONS_MAX,
	  .doc = "connections of clients to the socket" },
	{ .name = "connections_a_user",
	  .type = CONFIG_NUMBER,
	  AT(agent_config, connections_a_user),
	  .initial = "1024",
	  .min = 1,
	  .max = AGENT_CONNECTIONS_MAX,
	  .doc = "connections of one user's processes; root has no limit of its own" },
	{ .name = "attach",
	  .type = CONFIG_MAP,
	  AT(agent_config, attach),
	  .schema = &attach_schema,
	  .doc = "how volumes are connected" },
};
const struct config_schema agent_config_schema = {
	.keys = keys,
	.key_count = ARRAY_COUNT(keys),
	.struct_bytes = sizeof(struct agent_config),
	.needs_keys = true,
};

int agent_config_read(const char *path, struct agent_config *config_ret, struct fathom_fault *why)
{
	static const char nothing[] = "name: fathom\n";
	int error;

	if (!path && access(AGENT_CONFIG_DEFAULT, F_OK) != 0 && errno == ENOENT)
		return config_read("nothing", nothing, strlen(nothing), &agent_config_schema, config_ret, why);
	if (!path)
		path = AGENT_CONFIG_DEFAULT;
	error = config_read_file(path, &agent_config_schema, config_ret, why);
	if (error)
		return error;
	if (config_ret->access_points.count >= 1 && config_ret->access_points.count <= AGENT_HOSTS_MAX)
		return 0;
	config_free(&agent_config_schema, config_ret);
	return fault(why, -EINVAL, "%s: \"access_points\" must have 1 to %d hosts", path, AGENT_HOSTS_MAX);
}

void agent_config_free(struct agent_config *config)
{
	config_free(&agent_config_schema, config);
}

uint64_t agent_duration_ns(const char *text)
{
	uint64_t ns;

	must(text_parse_duration(text, &ns) == 0);
	return ns;
}

void agent_config_print_reference(FILE *out)
{
	fputs("# The agent's configuration\n\n"
	      "`fathom-agent` reads one YAML file: " AGENT_CONFIG_DEFAULT
	      ", or the file of `-o`. Without the first, the defaults apply. An unknown\nkey, a key that appears twice and "
	      "a "
	      "value of another type are errors with the file, the line and the key. Keys have the names of\nDAOS's "
	      "`daos_agent.yml` where both have the setting.\n\n"
	      "`fathom-agent config check FILE` checks a file. `packaging/fathom_agent.yml` is a sample.\n\n"
	      "This page is printed by `fathom-agent config reference`.\n\n",
	      out);
	config_print_reference(&agent_config_schema, out);
}
