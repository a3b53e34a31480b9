/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * config - `fathom_agent.yml`: where the agent finds its system, whom it serves, and how it connects volumes. Keys have the
 * names of DAOS's daos_agent.yml where both have the setting. docs/agent-configuration.md is printed from the tables here.
 */
#ifndef CONTROL_AGENT_CONFIG_CONFIG_H
#define CONTROL_AGENT_CONFIG_CONFIG_H

#include "control/config/config.h"

#define AGENT_CONFIG_DEFAULT "/etc/fathom/fathom_agent.yml"
#define AGENT_RUNTIME_DEFAULT "/run/fathom/agent"
#define AGENT_STATE_DEFAULT "/var/lib/fathom"
#define AGENT_SOCKET "fathom_agent.sock" /* in runtime_dir */

enum { AGENT_HOSTS_MAX = 16, AGENT_CLIENTS_MAX = 4096, AGENT_CONNECTIONS_MAX = 16384 };

struct agent_transport {
	bool allow_insecure;
	char *ca_cert, *cert, *key;
};

/* A user that this host's user database does not know. */
struct agent_user {
	uint64_t uid;
	char *user, *group;
	struct config_strings groups;
};

struct agent_credentials {
	char *cache_expiration;	  /* a duration */
	struct config_list users; /* of struct agent_user */
};

struct agent_fabric_device {
	char *iface, *domain;
};

struct agent_fabric_node {
	uint64_t numa_node;
	struct config_list devices; /* of struct agent_fabric_device */
};

struct agent_attach_config {
	char *host_nqn_file, *host_id_file;
	char *reconnect_delay, *keep_alive; /* durations, of whole seconds */
	uint64_t io_queues;		    /* 0: the driver's default */
	bool header_digest, data_digest;
};

struct agent_config {
	char *name;
	struct config_strings access_points;
	uint64_t port;
	char *runtime_dir, *state_dir, *log_mask, *log_file;
	struct agent_transport transport;
	struct agent_credentials credentials;
	bool disable_caching, disable_auto_evict;
	uint64_t cache_expiration; /* minutes; 0: never */
	struct config_strings exclude_fabric_ifaces, include_fabric_ifaces;
	struct config_list fabric_ifaces; /* of struct agent_fabric_node */
	uint64_t connections_max, connections_a_user;
	struct agent_attach_config attach;
};

extern const struct config_schema agent_config_schema;

/*
 * Read `path`; NULL: AGENT_CONFIG_DEFAULT, or the defaults if that does not exist. Free with agent_config_free(). Errors
 * (explained): config_...
 */
MUST_CHECK int agent_config_read(const char *path, struct agent_config *config_ret, struct fathom_fault *why);
void agent_config_free(struct agent_config *config);
/* Print the page of all keys. */
void agent_config_print_reference(FILE *out);
/* The nanoseconds of a duration that was checked when the configuration was read. */
uint64_t agent_duration_ns(const char *text);

#endif
