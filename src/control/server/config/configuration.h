/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * configuration - reads fathom-server.yml. Keys have the names of DAOS's daos_server.yml where both have the setting.
 *
 * The file is parsed strictly (control/config), then checked as a whole: values that contradict each other are a fault with
 * the file and the keys. docs/server-configuration.md is printed from the tables here. Any thread.
 */
#ifndef CONTROL_SERVER_CONFIGURATION_H
#define CONTROL_SERVER_CONFIGURATION_H

#include "base/fault.h"
#include "base/log.h"
#include "control/config/config.h"
#include "control/hostlist/hostlist.h"

#define SERVER_CONFIG_DEFAULT "/etc/fathom/server.yml"
/* The folder of the engines' mount points. Root owns it, so it is not in state_dir, which the server's user owns. */
#define SERVER_MOUNTS_DEFAULT "/srv/fathom"
#define SERVER_PROVIDER_DEFAULT "nvme+tcp"
#define SERVER_SOCKET "fathom_server.sock" /* in socket_dir: dRPC of engines and of `fathom-server backup` */

enum { SERVER_PORT_DEFAULT = 10001, SERVER_ENGINES_MAX = 64, SERVER_CAUSES = 8 };

/* The names in the file, in the order of enum instance_cause. */
extern const char *const server_cause_names[SERVER_CAUSES];

enum server_storage_class { SERVER_STORAGE_KDEV, SERVER_STORAGE_NVME, SERVER_STORAGE_FILE };

struct server_transport {
	bool allow_insecure, allow_tls12;
	char *ca_cert, *cert, *key, *client_cert_dir;
};

struct server_telemetry {
	bool allow_insecure;
	struct config_strings muted; /* names of checks */
};

struct server_metadata {
	char *path;
};

struct server_restart {
	bool restart;
	char *delay_min, *delay_max; /* durations as text_parse_duration() takes them: "10s" */
	uint64_t limit;
};

struct server_storage {
	uint32_t class; /* enum server_storage_class */
	struct config_strings bdev_list;
	uint64_t bdev_size;
	char *scm_mount;
};

struct server_engine {
	char *fabric_iface;
	uint64_t fabric_iface_port;
	uint64_t paranoid_blocks; /* at most UINT32_MAX; 0: none */
	char *log_mask, *log_file;
	struct config_strings env_vars, env_pass_through, arguments;
	char *cpus, *first_core, *pinned_numa_node; /* at most one is not NULL; the last two are numbers */
	struct config_list storage;		    /* of struct server_storage; one entry */
};

struct server_config {
	char *name;
	uint64_t port;
	uint64_t telemetry_port; /* 0: no metrics */
	char *telemetry_address;
	struct server_telemetry telemetry;
	char *control_iface;
	struct config_strings mgmt_svc_replicas;
	struct server_transport transport;
	struct server_metadata metadata;
	char *fault_path, *fault_cb;
	char *provider;
	char *socket_dir, *state_dir;
	char *log_mask, *log_file;
	bool log_json;
	char *helper, *engine_program;
	bool disable_engine_auto_restart;
	uint64_t engine_auto_restart_min_delay; /* seconds */
	struct server_restart restart[SERVER_CAUSES];
	uint64_t events_max;
	char *server_heartbeat, *engine_heartbeat, *database_copy_after, *health_interval; /* durations */
	struct config_strings inject;							   /* rules of fault injection */
	struct config_list engines;							   /* of struct server_engine */
};

extern const struct config_schema server_config_schema;

enum { SERVER_PLACE_BYTES = 512 };
/* "/etc/fathom/server.yml:12": the line of `key` in the current file. Returns `place`, of SERVER_PLACE_BYTES. */
const char *server_config_place(const char *file, const char *key, char *place);

/*
 * Read and check the file at `path`; server_config_free() the result. Errors (explained): those of config_read_file() and
 * the faults config_...; -ENOMEM. On an error there is nothing to free.
 */
MUST_CHECK int server_config_read(const char *path, struct server_config *config_ret, struct fathom_fault *why);
/* The same for the text `text` of `bytes`; `name` is the name of the file in faults. */
MUST_CHECK int server_config_read_text(const char *name, const char *text, size_t bytes, struct server_config *config_ret,
				       struct fathom_fault *why);
/* Accepts a zeroed one. */
void server_config_free(struct server_config *config);

/*
 * Check that the programs and folders that it names exist; the default folder of programs is `programs`. `file`: it was
 * read from there. Errors (explained): config_absent.
 */
MUST_CHECK int server_config_check(const struct server_config *config, const char *file, const char *programs,
				   struct fathom_fault *why);

const struct server_engine *server_config_engine(const struct server_config *config, size_t index);
const struct server_storage *server_engine_storage(const struct server_engine *engine);

/* Whether the storage of an engine is a device, which the privileged helper formats and mounts. */
bool server_config_needs_helper(const struct server_config *config);

/* The path of the database: "system.db" in control_metadata's path, or in state_dir. -ENAMETOOLONG. */
MUST_CHECK int server_database_path(const struct server_config *config, char *path, size_t bytes);
/* The path of the superblock of engine `index`: in its storage, or in control_metadata's path. -ENAMETOOLONG. */
MUST_CHECK int server_superblock_path(const struct server_config *config, size_t index, char *path, size_t bytes);

/* Print the page docs/server-configuration.md. The caller checks ferror(out). */
void server_config_print_reference(FILE *out);

#endif
