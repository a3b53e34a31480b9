/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control - requests to the servers of a Fathom system, for `fathom system`, `storage` and `network`, and for other tools.
 *
 *      fathom_control_open()  ->  fathom_control_query() ...  ->  fathom_control_free(result)  ->  fathom_control_close()
 *
 * There are two kinds of calls. Calls on the *system* go to the management service. They try the hosts in turn until one
 * runs the service; a host that does not run it names one that does. While the service is starting, or no host answers,
 * the call retries after 250 ms, and then after twice the time before. A request that must not be executed twice is not
 * repeated. Calls on *hosts* go to all hosts, many at a time; equal answers of several hosts are in the result once.
 *
 * Each call returns when all answers have arrived, when its time is over, or after fathom_control_cancel(). A process may
 * have several sessions, of several systems. The thread that opened the first session uses all of them, one call at a time.
 * The library starts threads only to resolve names.
 *
 * Errors are 0 or a negative errno. `why` (which may be NULL) gets the description, the code and the resolution:
 * docs/faults.md. Common to all calls: -ECONNREFUSED, -ETIMEDOUT, -EACCES (certificates), -ECANCELED, -EREMOTEIO (the
 * server's text). The caller owns results until fathom_control_free(); each is one block. Strings in results are never
 * NULL. If the library runs out of memory, the program aborts.
 *
 * Strict C11 and POSIX. The parts between "of the table" and "end" come from src/control/operation: `make operation-pages`.
 */
#ifndef FATHOM_CONTROL_H
#define FATHOM_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/fault.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FATHOM_CONTROL_MUST_CHECK __attribute__((warn_unused_result))
#else
#define FATHOM_CONTROL_MUST_CHECK
#endif

enum { FATHOM_CONTROL_PORT = 10001 };
#define FATHOM_CONTROL_NO_RANK UINT32_MAX

/* ---- sessions ---- */

struct fathom_control;

/* The unit of progress. */
enum fathom_control_unit { FATHOM_CONTROL_UNIT_HOSTS, FATHOM_CONTROL_UNIT_RANKS };

/* All fields may be zero. Strings are borrowed for the call. */
struct fathom_control_options {
	size_t bytes;	    /* of this structure when the program was compiled; 0: as of version 0.1 */
	const char *config; /* NULL: ~/.fathom_control.yml, else /etc/fathom/fathom_control.yml, else built-in defaults */
	const char *hosts;  /* a host list, "node[1-4]:10001", instead of the one in the configuration; NULL */
	const char *system; /* the system's name, instead of the one in the configuration; NULL */
	bool insecure;	    /* use no certificates, whatever the configuration says */
	unsigned int parallel_max; /* hosts that are asked at a time; 0: 64 */
	uint32_t timeout_ms;	   /* of each call as a whole; 0: 300,000 */
	uint32_t patience_ms;	   /* how long a call retries while no host answers; 0: 5,000 */
	/*
	 * Called each second, and when one more of `total` hosts is done, or one more rank has reached the state that a
	 * start or a stop wants; 0 of 0: the management service is being asked. At the end of a call all are done. May be
	 * NULL.
	 */
	void (*progress)(void *ctx, enum fathom_control_unit unit, uint32_t done, uint32_t total);
	void *progress_ctx;
	/*
	 * Called with lines, without their ends: the addresses of names, each request, its host and its result. They show
	 * why a call fails or takes long. May be NULL.
	 */
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
};

/*
 * Errors (explained): those of the configuration (docs/faults.md), of host lists and of certificates; -EINVAL: the system's
 * name is invalid; -EBUSY: another thread has open sessions.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_open(const struct fathom_control_options *options, struct fathom_control **ret,
						  struct fathom_fault *why);
/* Accepts NULL. */
void fathom_control_close(struct fathom_control *control);

/* End the current call, or else the next one, with -ECANCELED. Any thread, or a signal handler. */
void fathom_control_cancel(struct fathom_control *control);

/* Free the result of a call. Accepts NULL. */
void fathom_control_free(void *result);

/* The hosts of the session, folded; borrowed until it is closed. The configuration file that was read; "": none. */
const char *fathom_control_hosts(const struct fathom_control *control);
const char *fathom_control_config(const struct fathom_control *control);

/* ---- the system ---- */

/* Selects members; NULL: all. A list that names none is refused. */
struct fathom_control_choice {
	const char *ranks; /* "0-3,7" */
	const char *hosts; /* a host list */
};

/* The states of members, as bits; 0 in a query: all. */
enum {
	FATHOM_CONTROL_AWAIT_FORMAT = 0x1,
	FATHOM_CONTROL_STARTING = 0x2,
	FATHOM_CONTROL_READY = 0x4,
	FATHOM_CONTROL_JOINED = 0x8,
	FATHOM_CONTROL_STOPPING = 0x10,
	FATHOM_CONTROL_STOPPED = 0x20,
	FATHOM_CONTROL_EXCLUDED = 0x40,
	FATHOM_CONTROL_ERRORED = 0x80,
	FATHOM_CONTROL_UNRESPONSIVE = 0x100,
	FATHOM_CONTROL_ADMIN_EXCLUDED = 0x200,
	FATHOM_CONTROL_CHECKER_STARTED = 0x400,
};

/* of the table: results of system */
/* clang-format off */
struct fathom_control_member {
	uint32_t rank;
	const char *state; /* "joined", as the service reports it */
	const char *uuid;
	const char *address;
	const char *fault_domain;
	const char *info; /* why it is in that state */
	uint64_t incarnation;
	const char *fabric_uri;
	uint32_t fabric_contexts;
	const char *const *secondary_uris;
	size_t secondary_uri_count;
	const char *last_update; /* RFC 3339 */
};

struct fathom_control_members {
	const struct fathom_control_member *members;
	size_t count;
	const char *absent_ranks; /* requested, but not in the system */
	const char *absent_hosts;
	const char *const *providers;
	size_t provider_count;
	const char *self_heal;
	uint64_t data_version;
};

struct fathom_control_leader {
	const char *leader; /* "": none */
	const char *const *replicas;
	size_t replica_count;
	const char *const *down_replicas;
	size_t down_replica_count;
};

/* The result for each rank, whether it failed or not. */
struct fathom_control_rank {
	uint32_t rank;
	const char *action; /* "start" */
	bool errored;
	const char *message;
	const char *state;
	const char *address;
};

struct fathom_control_ranks {
	const struct fathom_control_rank *ranks;
	size_t count;
	const char *absent_ranks; /* requested, but not in the system */
	const char *absent_hosts;
};

/* A name and its value. To set: a value of "" or NULL removes an attribute. To get: values are ignored. */
struct fathom_control_pair {
	const char *name;
	const char *value;
};

struct fathom_control_pairs {
	const struct fathom_control_pair *pairs;
	size_t count;
};

struct fathom_control_event {
	uint64_t number; /* from 1, in the order in which the management service took them */
	uint32_t id;
	uint32_t type;
	uint32_t severity;
	const char *name; /* "engine_died" */
	const char *type_name; /* "STATE_CHANGE" */
	const char *severity_name; /* "ERROR" */
	const char *message;
	const char *timestamp;
	const char *hostname;
	uint32_t rank; /* or FATHOM_CONTROL_NO_RANK */
	uint64_t incarnation;
	uint64_t process;
	const char *line; /* the event as a line of a log */
};

struct fathom_control_events {
	const struct fathom_control_event *events;
	size_t count;
	uint64_t first; /* the oldest that is kept */
	uint64_t last; /* the newest */
};
/* clang-format on */
/* end */

/* of the table: calls of system */
/* clang-format off */
/* `states`: FATHOM_CONTROL_JOINED ..., as bits; 0: all. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_query(struct fathom_control *control,
	const struct fathom_control_choice *choice, uint32_t states, struct fathom_control_members **ret,
	struct fathom_fault *why);

FATHOM_CONTROL_MUST_CHECK int fathom_control_leader(struct fathom_control *control, struct fathom_control_leader **ret,
	struct fathom_fault *why);

FATHOM_CONTROL_MUST_CHECK int fathom_control_start(struct fathom_control *control,
	const struct fathom_control_choice *choice, bool ignore_admin_excluded, struct fathom_control_ranks **ret,
	struct fathom_fault *why);

/* `force`: kill the engines; otherwise they finish their work first. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_stop(struct fathom_control *control,
	const struct fathom_control_choice *choice, bool force, bool ignore_admin_excluded,
	struct fathom_control_ranks **ret, struct fathom_fault *why);

/* Exclude ranks until they are cleared again. `choice` must name some. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_exclude(struct fathom_control *control,
	const struct fathom_control_choice *choice, bool clear, struct fathom_control_ranks **ret,
	struct fathom_fault *why);

/* Remove all members and the data that they hold; all must be stopped. Never repeated. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_erase(struct fathom_control *control, struct fathom_control_ranks **ret,
	struct fathom_fault *why);

FATHOM_CONTROL_MUST_CHECK int fathom_control_get_attributes(struct fathom_control *control,
	const struct fathom_control_pair *pairs, size_t count, struct fathom_control_pairs **ret, struct fathom_fault *why);

FATHOM_CONTROL_MUST_CHECK int fathom_control_set_attributes(struct fathom_control *control,
	const struct fathom_control_pair *pairs, size_t count, struct fathom_fault *why);

FATHOM_CONTROL_MUST_CHECK int fathom_control_get_properties(struct fathom_control *control,
	const struct fathom_control_pair *pairs, size_t count, struct fathom_control_pairs **ret, struct fathom_fault *why);

FATHOM_CONTROL_MUST_CHECK int fathom_control_set_properties(struct fathom_control *control,
	const struct fathom_control_pair *pairs, size_t count, struct fathom_fault *why);

/* The events after number `after`. `max`: 0: as many as fit. `wait_ms`: if there are none yet, wait up to this time. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_events(struct fathom_control *control, uint64_t after, uint32_t max,
	uint32_t wait_ms, struct fathom_control_events **ret, struct fathom_fault *why);
/* clang-format on */
/* end */

/* ---- hosts ---- */

/* of the table: results of storage */
/* clang-format off */
struct fathom_control_namespace {
	uint32_t id;
	uint64_t bytes;
};

/* What an engine stores on a device. */
struct fathom_control_smd {
	const char *uuid;
	const int32_t *targets;
	size_t target_count;
	uint32_t rank;
	uint32_t roles; /* bits: 1 data, 2 meta, 4 wal */
	uint64_t total_bytes;
	uint64_t available_bytes;
	uint64_t usable_bytes;
	uint64_t cluster_bytes;
	uint64_t meta_bytes;
	uint64_t meta_wal_bytes;
	uint64_t rdb_bytes;
	uint64_t rdb_wal_bytes;
};

struct fathom_control_nvme {
	const char *address; /* PCI address, or path of the device */
	const char *model;
	const char *serial;
	const char *firmware;
	const char *vendor;
	const char *device_type;
	int32_t numa_node;
	const char *state; /* "NORMAL", "NEW", "EVICTED", "UNPLUGGED", "UNKNOWN" */
	uint64_t bytes; /* of its namespaces */
	const struct fathom_control_namespace *namespaces;
	size_t namespace_count;
	const struct fathom_control_smd *smds;
	size_t smd_count;
};

struct fathom_control_module {
	uint32_t channel;
	uint32_t position;
	uint32_t controller;
	uint32_t numa_node;
	uint32_t physical;
	uint64_t bytes;
	const char *uid;
	const char *part;
	const char *firmware;
	const char *health;
};

struct fathom_control_mount {
	const char *path;
	const char *kind;
	const char *const *devices;
	size_t device_count;
	uint32_t rank;
	uint64_t total_bytes;
	uint64_t available_bytes;
	uint64_t usable_bytes;
};

struct fathom_control_scm {
	const char *uuid;
	const char *block_device;
	const char *device;
	uint32_t numa_node;
	uint64_t bytes;
	const struct fathom_control_mount *mount; /* NULL: not mounted */
};

struct fathom_control_memory {
	uint32_t numa_node; /* of one of `nodes` */
	uint64_t hugepages_total;
	uint64_t hugepages_free;
	uint64_t hugepages_reserved;
	uint64_t hugepages_surplus;
	uint32_t hugepage_kb;
	uint64_t total_kb;
	uint64_t free_kb;
	uint64_t available_kb;
	uint64_t used_kb;
};

struct fathom_control_storage {
	const struct fathom_control_nvme *nvmes;
	size_t nvme_count;
	const struct fathom_control_module *modules;
	size_t module_count;
	const struct fathom_control_scm *scms;
	size_t scm_count;
	bool has_memory;
	struct fathom_control_memory memory;
	const struct fathom_control_memory *nodes;
	size_t node_count;
	const char *nvme_error; /* why the host could not scan these; "": it could */
	const char *scm_error;
};

struct fathom_control_formatted {
	const char *what; /* a mount point, or a device */
	bool is_mount;
	uint32_t instance; /* of a mount point */
	uint32_t roles; /* of a device */
	int32_t status; /* 0: formatted; else ctl.ResponseStatus */
	const char *status_name; /* "CTL_SUCCESS" */
	const char *error;
	const char *info;
};

struct fathom_control_format {
	const struct fathom_control_formatted *parts;
	size_t count;
};
/* clang-format on */
/* end */

/* of the table: results of network */
/* clang-format off */
struct fathom_control_interface {
	const char *provider;
	const char *device;
	uint32_t numa_node;
	uint32_t priority;
	uint32_t device_class; /* ARPHRD_... */
};

struct fathom_control_network {
	const struct fathom_control_interface *interfaces;
	size_t count;
	int32_t numa_nodes;
	int32_t cores_per_node;
};

struct fathom_control_block_device {
	const char *path;
	const char *kind; /* "nvme", "hdd" ... */
	const char *model;
	const char *serial;
	const char *use; /* a line for a person */
	const char *pci_address;
	uint64_t bytes;
	int32_t numa_node; /* -1: not known */
	bool free;
};

struct fathom_control_host_interface {
	const char *name;
	const char *kind;
	const char *state; /* "up", "down", "unknown" */
	const char *const *addresses;
	size_t address_count;
	int64_t speed_mbps; /* -1: not known */
	int32_t numa_node; /* -1: not known */
};

/* All block devices and interfaces of a host, in use or not. */
struct fathom_control_host {
	const struct fathom_control_block_device *devices;
	size_t device_count;
	const struct fathom_control_host_interface *interfaces;
	size_t interface_count;
};
/* clang-format on */
/* end */

/* of the table: results of server */
/* clang-format off */
struct fathom_control_engine {
	uint32_t index;
	uint32_t rank; /* or FATHOM_CONTROL_NO_RANK */
	const char *state;
	const char *uuid;
	const char *uri;
	const char *storage;
	const char *info;
	const char *last_end;
	const char *rpc_socket;
	const char *version;
	uint64_t incarnation;
	uint64_t process;
	uint64_t starts;
	uint64_t restart_in_ms;
	bool adopted;
};

struct fathom_control_engines {
	const struct fathom_control_engine *engines;
	size_t count;
};

/* What the server does when an engine ends by itself, for each cause. */
struct fathom_control_policy {
	const char *cause; /* "crashed", "killed" ... */
	bool restart;
	uint64_t delay_min_ms;
	uint64_t delay_max_ms;
	uint32_t limit; /* restarts in a row; 0: no limit */
};

struct fathom_control_policies {
	const struct fathom_control_policy *policies;
	size_t count;
};

struct fathom_control_masks {
	const char *const *errors; /* of the engines that failed */
	size_t error_count;
};

/* Of the management service. Before there is a system, the call fails with -ENODATA (not_formatted_system). */
struct fathom_control_version {
	uint32_t major;
	uint32_t minor;
	uint32_t patch;
	const char *tag;
};
/* clang-format on */
/* end */

/* of the table: results of config */
/* clang-format off */
/* A configuration for fathom-server. */
struct fathom_control_proposal {
	const char *text;
};
/* clang-format on */
/* end */

/* of the table: results of support */
/* clang-format off */
/* The archive that was written. */
struct fathom_control_log {
	const char *path;
	uint64_t bytes;
	const char *warning; /* what is missing in it, and why; "": nothing */
};
/* clang-format on */
/* end */

/* The answer of hosts that answered alike. The result of the call is set, the others are NULL. */
struct fathom_control_answer {
	const char *hosts; /* folded, with ports */
	size_t host_count;
	uint64_t hash;	 /* of the answer */
	size_t left_out; /* interfaces of all these hosts that a network scan does not show: down, or without an address */

	/* of the table: answers of hosts */
	/* clang-format off */
	const struct fathom_control_storage *storage;
	const struct fathom_control_format *format;
	const struct fathom_control_network *network;
	const struct fathom_control_host *host;
	const struct fathom_control_engines *engines;
	const struct fathom_control_policies *policies;
	const struct fathom_control_masks *masks;
	const struct fathom_control_log *log;
	const struct fathom_control_proposal *proposal;
	const char *version;
	/* clang-format on */
	/* end */
};

/* Hosts without an answer, and the reason. */
struct fathom_control_error {
	const char *hosts;
	size_t host_count;
	struct fathom_fault why;
};

/* Each host is in one of the lists. The call succeeds also if hosts failed. */
struct fathom_control_answers {
	const struct fathom_control_answer *answers; /* by their first host */
	size_t count;
	const struct fathom_control_error *errors;
	size_t error_count;
	size_t host_count; /* of all */
};

/* of the table: calls of storage */
/* clang-format off */
/* `usage`: with used and free space, and the rank that uses it. `details`: with data that takes longer to collect. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_storage_scan(struct fathom_control *control, bool usage, bool details,
	struct fathom_control_answers **ret, struct fathom_fault *why);

/*
 * The devices that engines use, as nvmes of `storage`, each with its one smd. `rank`: FATHOM_CONTROL_NO_RANK: all. `uuid`:
 * NULL: all.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_devices(struct fathom_control *control, uint32_t rank, const char *uuid,
	struct fathom_control_answers **ret, struct fathom_fault *why);

/*
 * `instances`: engines of each host, such as "0,2-3"; NULL: all that wait for it; an empty list is -EINVAL. `reformat`:
 * also storage that holds data; -EBUSY (format_running) while ranks of these hosts run, if no instances are named.
 * `replace`: take over the ranks that were there. `new_storage`: also storage whose folder does not exist, or that is not
 * the storage that was there; without it those are refused (storage_missing).
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_storage_format(struct fathom_control *control, const char *instances,
	bool reformat, bool replace, bool new_storage, struct fathom_control_answers **ret, struct fathom_fault *why);
/* clang-format on */
/* end */

/* of the table: calls of network */
/* clang-format off */
/* `provider`: of the fabric; NULL or "": all. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_network_scan(struct fathom_control *control, const char *provider,
	struct fathom_control_answers **ret, struct fathom_fault *why);

/* DAOS's servers do not have this call. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_host_devices(struct fathom_control *control,
	struct fathom_control_answers **ret, struct fathom_fault *why);
/* clang-format on */
/* end */

/* of the table: calls of server */
/* clang-format off */
FATHOM_CONTROL_MUST_CHECK int fathom_control_version(struct fathom_control *control, struct fathom_control_version **ret,
	struct fathom_fault *why);

FATHOM_CONTROL_MUST_CHECK int fathom_control_engines(struct fathom_control *control, struct fathom_control_answers **ret,
	struct fathom_fault *why);

/* Of the servers themselves, with or without a system. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_versions(struct fathom_control *control, struct fathom_control_answers **ret,
	struct fathom_fault *why);

/* Set the given policies (`count` may be 0), and return all. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_restart_policy(struct fathom_control *control,
	const struct fathom_control_policy *policies, size_t count, struct fathom_control_answers **ret,
	struct fathom_fault *why);

/* NULL: as in the configuration. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_log_masks(struct fathom_control *control, const char *masks,
	const char *streams, const char *subsystems, struct fathom_control_answers **ret, struct fathom_fault *why);
/* clang-format on */
/* end */

/* The wanted configuration of each host. All fields may be zero; strings are borrowed. */
struct fathom_control_wish {
	const char *replica;   /* the host of the management service; NULL: the first of the session's hosts, at `port` */
	const char *interface; /* NULL: the first with an address */
	const char *folder;    /* for engines on files; NULL: engines on free block devices */
	uint64_t file_bytes;   /* of each of these; 0: 16 GiB */
	uint32_t engines;      /* 0: one for each device, or one */
	uint16_t port;	       /* on which the server listens; 0: 10001 */
	const char *net_class; /* of the interface: "ethernet", "infiniband"; NULL: any */
	const char *metadata;  /* a folder for superblocks and the database; NULL: none */
	const uint32_t *fabric_ports; /* one for each engine, in order; NULL: from 4420 on */
	size_t fabric_port_count;
};

/* Make a configuration of fathom-server for each host. Configurations that differ only in comments are equal. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_propose(struct fathom_control *control, const struct fathom_control_wish *wish,
						     struct fathom_control_answers **ret, struct fathom_fault *why);
/* Kinds of logs; 0: all logs, and configuration, states, devices and interfaces. */
enum {
	FATHOM_CONTROL_LOGS_CONTROL = 0x1, /* the server's log, which includes its helper's lines */
	FATHOM_CONTROL_LOGS_ENGINES = 0x2,
};

/* Strings are borrowed. */
struct fathom_control_collection {
	const char *folder;	  /* for the archives; it is created if it does not exist */
	uint64_t from_s, until_s; /* only log lines of this time: seconds since 1970, inclusive; 0: no limit */
	uint32_t kinds;
	const char *extra_folder; /* of each host, whose files are collected, too; NULL */
	bool stop_on_error;	  /* after a failure start no other host; a file that cannot be read is a failure */
};

/* Logs, configuration and states of each host as an archive. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_collect_log(struct fathom_control *control,
							 const struct fathom_control_collection *what,
							 struct fathom_control_answers **ret, struct fathom_fault *why);

#ifdef __cplusplus
}
#endif

#endif
