/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control - asks the servers of a Fathom system, and tells them what to do: what `fathom system`, `storage` and `network`
 * are made of, for tools of others.
 *
 *      fathom_control_open()  ->  fathom_control_query() ...  ->  fathom_control_free(result)  ->  fathom_control_close()
 *
 * There are two kinds of calls. Those on the *system* go to the management service: the hosts are asked in turn until
 * one has it; one that does not says who does, and is believed; while it is starting, or nobody answers, it is asked
 * again, after 250 ms and then twice as long each time. What could be done twice by that, and must not be, is not asked
 * again. Those on *hosts* go to all of them, many at a time; what several hosts answer alike stands in the result once.
 *
 * Each call returns when all is there, or its time is over, or fathom_control_cancel() was called. A process may have
 * several sessions, of several systems; one thread, the one that opened the first, uses them all, one call at a time.
 * There are no threads inside but those that look names up.
 *
 * Errors are 0 or a negative errno, with a sentence, a code and what to do in `why` (which may be NULL): docs/faults.md.
 * Common to all calls: -ECONNREFUSED, -ETIMEDOUT, -EACCES (certificates), -ECANCELED, -EREMOTEIO (a server's own words).
 * Results are the caller's, one block each, until fathom_control_free(); strings in them are never NULL. If an
 * allocation fails, the program aborts.
 *
 * Strict C11 and POSIX.
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

/* What progress is counted in. */
enum fathom_control_unit { FATHOM_CONTROL_UNIT_HOSTS, FATHOM_CONTROL_UNIT_RANKS };

/* All zeroes is fine. Strings are borrowed for the call. */
struct fathom_control_options {
	size_t bytes; /* of this structure, as the program was compiled with it; 0: as of version 0.1 */
	const char
		*config;   /* NULL: ~/.fathom_control.yml, else /etc/fathom/fathom_control.yml, else nothing but defaults */
	const char *hosts; /* a host list, "node[1-4]:10001", in place of the configuration's; NULL */
	const char *system;	   /* its name, as its servers have it, in place of the configuration's; NULL */
	bool insecure;		   /* no certificates, whatever the configuration says */
	unsigned int parallel_max; /* hosts asked at a time; 0: 64 */
	uint32_t timeout_ms;	   /* of each call as a whole; 0: 300,000 */
	uint32_t patience_ms;	   /* how long to go on while nobody answers at all; 0: 5,000 */
	/*
	 * Told each second, and when one more of `total` hosts is done, or ranks are where a start or a stop is to bring
	 * them; 0 of 0: the management service is asked. When a call ends it is told that all are done. May be NULL.
	 */
	void (*progress)(void *ctx, enum fathom_control_unit unit, uint32_t done, uint32_t total);
	void *progress_ctx;
	/*
	 * Told, a line each without its end, whom names stand for, what is asked of whom and how it ended: to find out why
	 * something fails or takes long. May be NULL.
	 */
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
};

/*
 * Errors (explained): those of the configuration (docs/faults.md), of host lists and certificates; -EINVAL: the system's
 * name; -EBUSY: another thread has sessions open.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_open(const struct fathom_control_options *options, struct fathom_control **ret,
						  struct fathom_fault *why);
/* Accepts NULL. */
void fathom_control_close(struct fathom_control *control);

/* The call under way, or else the next, ends with -ECANCELED. From another thread or a signal handler. */
void fathom_control_cancel(struct fathom_control *control);

/* Free what a call has returned. Accepts NULL. */
void fathom_control_free(void *result);

/* The hosts of the session, folded; borrowed until it is closed. The configuration that was read, "" if none was. */
const char *fathom_control_hosts(const struct fathom_control *control);
const char *fathom_control_config(const struct fathom_control *control);

/* ---- the system ---- */

/* Which members; NULL: all; lists that name none are refused. */
struct fathom_control_choice {
	const char *ranks; /* "0-3,7" */
	const char *hosts; /* a host list */
};

/* States of members, as bits; 0 in a query: all. */
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

struct fathom_control_member {
	uint32_t rank;
	const char *state; /* "joined", as the service says it */
	const char *uuid, *address, *fault_domain, *info;
	uint64_t incarnation;
	const char *fabric_uri;
	uint32_t fabric_contexts;
	const char *const *secondary_uris;
	size_t secondary_uri_count;
	const char *last_update; /* RFC 3339 */
};

struct fathom_control_members {
	const struct fathom_control_member *members; /* by rank */
	size_t count;
	const char *absent_ranks, *absent_hosts; /* asked for, and not there */
	const char *const *providers;
	size_t provider_count;
	const char *self_heal;
	uint64_t data_version;
};

FATHOM_CONTROL_MUST_CHECK int fathom_control_query(struct fathom_control *control,
						   const struct fathom_control_choice *choice, uint32_t states,
						   struct fathom_control_members **ret, struct fathom_fault *why);

struct fathom_control_leader {
	const char *leader; /* "": there is none */
	const char *const *replicas;
	size_t replica_count;
	const char *const *down_replicas;
	size_t down_replica_count;
};

FATHOM_CONTROL_MUST_CHECK int fathom_control_leader(struct fathom_control *control, struct fathom_control_leader **ret,
						    struct fathom_fault *why);

/* Of the management service, which says it when there is a system: -ENODATA (not_formatted_system) before. */
struct fathom_control_version {
	uint32_t major, minor, patch;
	const char *tag;
};

FATHOM_CONTROL_MUST_CHECK int fathom_control_version(struct fathom_control *control, struct fathom_control_version **ret,
						     struct fathom_fault *why);

/* What became of each rank: whoever was asked for is there, errored or not. */
struct fathom_control_rank {
	uint32_t rank;
	const char *action; /* "start" */
	bool errored;
	const char *message, *state, *address;
};

struct fathom_control_ranks {
	const struct fathom_control_rank *ranks; /* ascending */
	size_t count;
	const char *absent_ranks, *absent_hosts;
};

FATHOM_CONTROL_MUST_CHECK int fathom_control_start(struct fathom_control *control,
						   const struct fathom_control_choice *choice, bool ignore_admin_excluded,
						   struct fathom_control_ranks **ret, struct fathom_fault *why);
/* `force`: the engines are killed; else they finish what they have begun. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_stop(struct fathom_control *control,
						  const struct fathom_control_choice *choice, bool force,
						  bool ignore_admin_excluded, struct fathom_control_ranks **ret,
						  struct fathom_fault *why);
/* Out of the system until they are cleared again. `choice` names some. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_exclude(struct fathom_control *control,
						     const struct fathom_control_choice *choice, bool clear,
						     struct fathom_control_ranks **ret, struct fathom_fault *why);
/* Forget all members and what they hold; all of them are stopped. Not asked twice. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_erase(struct fathom_control *control, struct fathom_control_ranks **ret,
						   struct fathom_fault *why);

/* Names and values; to set: a value of "" or NULL deletes an attribute. To get: the values are not looked at. */
struct fathom_control_pair {
	const char *name, *value;
};

struct fathom_control_pairs {
	const struct fathom_control_pair *pairs; /* by name */
	size_t count;
};

FATHOM_CONTROL_MUST_CHECK int fathom_control_get_attributes(struct fathom_control *control,
							    const struct fathom_control_pair *pairs, size_t count,
							    struct fathom_control_pairs **ret, struct fathom_fault *why);
FATHOM_CONTROL_MUST_CHECK int fathom_control_set_attributes(struct fathom_control *control,
							    const struct fathom_control_pair *pairs, size_t count,
							    struct fathom_fault *why);
FATHOM_CONTROL_MUST_CHECK int fathom_control_get_properties(struct fathom_control *control,
							    const struct fathom_control_pair *pairs, size_t count,
							    struct fathom_control_pairs **ret, struct fathom_fault *why);
FATHOM_CONTROL_MUST_CHECK int fathom_control_set_properties(struct fathom_control *control,
							    const struct fathom_control_pair *pairs, size_t count,
							    struct fathom_fault *why);

struct fathom_control_event {
	uint64_t number; /* from 1, in the order in which the management service took them */
	uint32_t id, type, severity;
	const char *name, *type_name, *severity_name; /* "engine_died", "STATE_CHANGE", "ERROR" */
	const char *message, *timestamp, *hostname;
	uint32_t rank; /* FATHOM_CONTROL_NO_RANK */
	uint64_t incarnation, process;
	const char *line; /* all of it, as a line of a log */
};

struct fathom_control_events {
	const struct fathom_control_event *events;
	size_t count;
	uint64_t first, last; /* the oldest that is kept, the newest */
};

/* Those behind number `after`, at most `max` (0: as many as fit); with none there yet, wait up to `wait_ms`. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_events(struct fathom_control *control, uint64_t after, uint32_t max,
						    uint32_t wait_ms, struct fathom_control_events **ret,
						    struct fathom_fault *why);

/* ---- hosts ---- */

struct fathom_control_namespace {
	uint32_t id;
	uint64_t bytes;
};

/* What an engine keeps on a device. */
struct fathom_control_smd {
	const char *uuid;
	const int32_t *targets;
	size_t target_count;
	uint32_t rank, roles; /* bits: 1 data, 2 meta, 4 wal */
	uint64_t total_bytes, available_bytes, usable_bytes, cluster_bytes;
	uint64_t meta_bytes, meta_wal_bytes, rdb_bytes, rdb_wal_bytes;
};

struct fathom_control_nvme {
	const char *address; /* of PCI, or the device's path */
	const char *model, *serial, *firmware, *vendor, *device_type;
	int32_t numa_node;
	const char *state; /* "NORMAL", "NEW", "EVICTED", "UNPLUGGED", "UNKNOWN" */
	uint64_t bytes;	   /* of its namespaces */
	const struct fathom_control_namespace *namespaces;
	size_t namespace_count;
	const struct fathom_control_smd *smds;
	size_t smd_count;
};

struct fathom_control_module {
	uint32_t channel, position, controller, numa_node, physical;
	uint64_t bytes;
	const char *uid, *part, *firmware, *health;
};

struct fathom_control_mount {
	const char *path, *kind;
	const char *const *devices;
	size_t device_count;
	uint32_t rank;
	uint64_t total_bytes, available_bytes, usable_bytes;
};

struct fathom_control_scm {
	const char *uuid, *block_device, *device;
	uint32_t numa_node;
	uint64_t bytes;
	const struct fathom_control_mount *mount; /* NULL: not mounted */
};

struct fathom_control_memory {
	uint32_t numa_node; /* of one of `nodes` */
	uint64_t hugepages_total, hugepages_free, hugepages_reserved, hugepages_surplus;
	uint32_t hugepage_kb;
	uint64_t total_kb, free_kb, available_kb, used_kb;
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
	const char *nvme_error, *scm_error; /* what kept the host from scanning these; "": nothing */
};

struct fathom_control_formatted {
	const char *what; /* a mount point, or a device */
	bool is_mount;
	uint32_t instance;	 /* of a mount point */
	uint32_t roles;		 /* of a device */
	int32_t status;		 /* 0: it is done; else ctl.ResponseStatus */
	const char *status_name; /* "CTL_SUCCESS" */
	const char *error, *info;
};

struct fathom_control_format {
	const struct fathom_control_formatted *parts;
	size_t count;
};

struct fathom_control_interface {
	const char *provider, *device;
	uint32_t numa_node, priority, device_class; /* ARPHRD_... */
};

struct fathom_control_network {
	const struct fathom_control_interface *interfaces;
	size_t count;
	int32_t numa_nodes, cores_per_node;
};

struct fathom_control_block_device {
	const char *path, *kind, *model, *serial, *use,
		*pci_address; /* kind: "nvme", "hdd" ...; use: a line for a person */
	uint64_t bytes;
	int32_t numa_node; /* -1: not known */
	bool free;
};

struct fathom_control_host_interface {
	const char *name, *kind, *state; /* state: "up", "down", "unknown" */
	const char *const *addresses;
	size_t address_count;
	int64_t speed_mbps; /* -1: not known */
	int32_t numa_node;  /* -1: not known */
};

/* All block devices and interfaces of a host, in use or not. */
struct fathom_control_host {
	const struct fathom_control_block_device *devices;
	size_t device_count;
	const struct fathom_control_host_interface *interfaces;
	size_t interface_count;
};

struct fathom_control_engine {
	uint32_t index, rank; /* FATHOM_CONTROL_NO_RANK */
	const char *state, *uuid, *uri, *storage, *info, *last_end, *rpc_socket, *version;
	uint64_t incarnation, process, starts, restart_in_ms;
	bool adopted;
};

struct fathom_control_engines {
	const struct fathom_control_engine *engines;
	size_t count;
};

/* What becomes of an engine that ends by itself, by how it ends. */
struct fathom_control_policy {
	const char *cause; /* "crashed", "killed" ... */
	bool restart;
	uint64_t delay_min_ms, delay_max_ms;
	uint32_t limit; /* restarts in a row; 0: no limit */
};

struct fathom_control_policies {
	const struct fathom_control_policy *policies;
	size_t count;
};

struct fathom_control_masks {
	const char *const *errors; /* of those engines that could not */
	size_t error_count;
};

/* The file that was written. */
struct fathom_control_log {
	const char *path;
	uint64_t bytes;
	const char *warning; /* what is not in it that should be, and why; "": nothing lacks */
};

/* A configuration for fathom-server. */
struct fathom_control_proposal {
	const char *text;
};

/* What hosts said, alike. The one that was asked for is there, the others are NULL. */
struct fathom_control_answer {
	const char *hosts; /* folded, with ports */
	size_t host_count;
	uint64_t hash;	 /* of what they said */
	size_t left_out; /* interfaces of all of them that a network scan does not show: down, or without an address */
	const struct fathom_control_storage *storage;
	const struct fathom_control_format *format;
	const struct fathom_control_network *network;
	const struct fathom_control_host *host;
	const struct fathom_control_engines *engines;
	const struct fathom_control_policies *policies;
	const struct fathom_control_masks *masks;
	const struct fathom_control_log *log;
	const struct fathom_control_proposal *proposal;
	const char *version; /* of the server, "0.1.0" */
};

/* Hosts without an answer, by why. */
struct fathom_control_error {
	const char *hosts;
	size_t host_count;
	struct fathom_fault why;
};

/* Every host is in one of them. That some failed is no error of the call. */
struct fathom_control_answers {
	const struct fathom_control_answer *answers; /* by their first host */
	size_t count;
	const struct fathom_control_error *errors;
	size_t error_count;
	size_t host_count; /* of all */
};

/* `usage`: with what is used and free, and by which rank. `details`: what takes longer to find out. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_storage_scan(struct fathom_control *control, bool usage, bool details,
							  struct fathom_control_answers **ret, struct fathom_fault *why);
/*
 * The devices that engines use, as nvmes of `storage`, each with its one smd. `rank`: FATHOM_CONTROL_NO_RANK: of all;
 * `uuid`: NULL: all.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_devices(struct fathom_control *control, uint32_t rank, const char *uuid,
						     struct fathom_control_answers **ret, struct fathom_fault *why);
/*
 * `instances`: which engines of each host, as "0,2-3"; NULL: all that wait for it; one that names none is -EINVAL.
 * `reformat`: also what has something on it; -EBUSY (format_running) while ranks of these hosts run, if no instances are
 * named. `replace`: take the ranks over that were there. `new_storage`: also where the folder does not exist, or is not
 * the storage that was there; else those are refused (storage_missing).
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_storage_format(struct fathom_control *control, const char *instances,
							    bool reformat, bool replace, bool new_storage,
							    struct fathom_control_answers **ret, struct fathom_fault *why);
/* `provider`: of the fabric; NULL or "": all. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_network_scan(struct fathom_control *control, const char *provider,
							  struct fathom_control_answers **ret, struct fathom_fault *why);
/* Servers of DAOS have no such call. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_host_devices(struct fathom_control *control,
							  struct fathom_control_answers **ret, struct fathom_fault *why);
FATHOM_CONTROL_MUST_CHECK int fathom_control_engines(struct fathom_control *control, struct fathom_control_answers **ret,
						     struct fathom_fault *why);
/* Of the servers themselves, formatted or not. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_versions(struct fathom_control *control, struct fathom_control_answers **ret,
						      struct fathom_fault *why);
/* Set those that are given (`count` may be 0), and return all. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_restart_policy(struct fathom_control *control,
							    const struct fathom_control_policy *policies, size_t count,
							    struct fathom_control_answers **ret, struct fathom_fault *why);

/* What to make of each host. All zeroes is fine; strings are borrowed. */
struct fathom_control_wish {
	const char *replica;   /* the host of the management service; NULL: the first of the session's hosts, at `port` */
	const char *interface; /* NULL: the first that has an address */
	const char *folder;    /* engines on files there; NULL: on block devices that are free */
	uint64_t file_bytes;   /* of each of these; 0: 16 GiB */
	uint32_t engines;      /* 0: one for each device, or one */
	uint16_t port;	       /* where the server is to listen; 0: 10001 */
	const char *net_class; /* of the interface: "ethernet", "infiniband"; NULL: any */
	const char *metadata;  /* a folder for superblocks and the database; NULL: none of their own */
	const uint32_t *fabric_ports; /* one for each engine, in their order; NULL: from 4420 on */
	size_t fabric_port_count;
};

/* A configuration of fathom-server for each host, from what it has. Hosts that differ in comments alone are alike. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_propose(struct fathom_control *control, const struct fathom_control_wish *wish,
						     struct fathom_control_answers **ret, struct fathom_fault *why);
/* NULL: back to what the configuration says. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_log_masks(struct fathom_control *control, const char *masks,
						       const char *streams, const char *subsystems,
						       struct fathom_control_answers **ret, struct fathom_fault *why);

/* Kinds of logs; 0: these and all else: configuration, states, devices, interfaces. */
enum {
	FATHOM_CONTROL_LOGS_CONTROL = 0x1, /* the server's, in which its helper's are */
	FATHOM_CONTROL_LOGS_ENGINES = 0x2,
};

/* What to collect. Strings are borrowed. */
struct fathom_control_collection {
	const char *folder;	  /* where archives go; it is made if it is not there */
	uint64_t from_s, until_s; /* only lines of logs of this time: seconds since 1970, both within; 0: no limit */
	uint32_t kinds;
	const char *extra_folder; /* of each host: its files, too; NULL */
	bool stop_on_error; /* no other host is begun when one has failed, and a file that cannot be read is a failure */
};

/* Logs, configuration and states of each host as an archive. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_collect_log(struct fathom_control *control,
							 const struct fathom_control_collection *what,
							 struct fathom_control_answers **ret, struct fathom_fault *why);

#ifdef __cplusplus
}
#endif

#endif
