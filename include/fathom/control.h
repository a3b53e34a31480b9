/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control - requests to the servers of a Fathom system, for `fathom system`, `storage` and `network`, and for other tools.
 *
 *      fathom_control_open()  ->  fathom_control_query() ...  ->  fathom_control_free(result)  ->  fathom_control_close()
 *
 * There are two kinds of calls. Calls on the *system* go to the management service. They try the hosts in turn until one
 * runs the service; a host that does not run it names one that does. While the service is starting, or no host answers, the
 * call retries after 250 ms, and then after twice the time before, up to 8 s. A request that must not be executed twice is
 * not repeated. Calls on *hosts* go to all hosts, many at a time; hosts with equal answers share one in the result.
 *
 * Each call returns when all answers have arrived, when its time is over, or after fathom_control_cancel(). A process may
 * have several sessions, of several systems. The thread that opened the first session uses all of them, one call at a time.
 * The library starts threads only to resolve names.
 *
 * Errors are 0 or a negative errno. `why` (which may be NULL) gets the description, the code and the resolution:
 * docs/faults.md. Common to all calls: -EHOSTUNREACH (no host reached the service), -ECONNREFUSED, -ECONNRESET (of the only
 * host), -ENOENT (the name of the only host has no address), -ETIMEDOUT, -EACCES (certificate or role), -ECANCELED,
 * -EREMOTEIO (the server's text), -EBUSY (a call inside a callback of another). After an error `*ret` is unchanged.
 *
 * The caller owns results until fathom_control_free(); each is one block. Strings in results are never NULL, except as
 * stated. If the library runs out of memory, the program aborts.
 *
 * Strict C11 and POSIX. The parts between "of the table" and "end" come from src/control/operation: `make operation-pages`.
 */
#ifndef FATHOM_CONTROL_H
#define FATHOM_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/control_results.h"
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
	unsigned int parallel_max; /* hosts that are called at a time; 0: 64 */
	uint32_t timeout_ms;	   /* of each call; 0: 300,000. A query of members before a call has a time of its own */
	uint32_t patience_ms;	   /* how long a call retries while no host answers; 0: 5,000 */
	/*
	 * Called each second; when one more of `total` hosts is done; and when ranks have reached the state that a start or
	 * a stop wants. 0 of 0: the management service works on the request. The last call has `done` equal to `total`,
	 * also after an error. It runs in the calling thread, like `log`. May be NULL.
	 */
	void (*progress)(void *ctx, enum fathom_control_unit unit, uint32_t done, uint32_t total);
	void *progress_ctx;
	/*
	 * Called with each line, without its end: the addresses of names, each request, its host and its result. May be
	 * NULL.
	 */
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
};

/*
 * Open a session. It connects only when a call is made. `options` must not be NULL. Errors (explained): those of the
 * configuration (docs/faults.md), of host lists and of certificates; -EINVAL: the system's name is invalid; -EBUSY: another
 * thread has open sessions.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_open(const struct fathom_control_options *options, struct fathom_control **ret,
						  struct fathom_fault *why);
/* Close the session; not during a call. Accepts NULL. */
void fathom_control_close(struct fathom_control *control);

/* End the current call, or else the next one, with -ECANCELED. Any thread, or a signal handler. */
void fathom_control_cancel(struct fathom_control *control);

/* Free the result of a call, also after its session was closed. Accepts NULL. */
void fathom_control_free(void *result);

/*
 * The hosts of the session as a list; the path of the configuration file that was read, "": none. Valid until it is closed.
 */
const char *fathom_control_hosts(const struct fathom_control *control);
const char *fathom_control_config(const struct fathom_control *control);

/* ---- the system ---- */

/* Selects members; NULL: all. An empty list is an error (-EINVAL). */
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

/* of the table: calls of system */
/* clang-format off */
/*
 * The members that `choice` selects and that are in one of `states`. `states`: FATHOM_CONTROL_JOINED ..., as bits; 0: all.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_query(struct fathom_control *control,
	const struct fathom_control_choice *choice, uint32_t states, struct fathom_control_members **ret,
	struct fathom_fault *why);

/* The server that leads the management service, and its replicas. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_leader(struct fathom_control *control, struct fathom_control_leader **ret,
	struct fathom_fault *why);

/* Start the engines of stopped ranks. `ignore_admin_excluded`: leave out ranks that an operator has excluded. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_start(struct fathom_control *control,
	const struct fathom_control_choice *choice, bool ignore_admin_excluded, struct fathom_control_ranks **ret,
	struct fathom_fault *why);

/*
 * Stop engines. `force`: kill the engines; otherwise they finish their work first. `ignore_admin_excluded`: leave out
 * ranks that an operator has excluded.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_stop(struct fathom_control *control,
	const struct fathom_control_choice *choice, bool force, bool ignore_admin_excluded,
	struct fathom_control_ranks **ret, struct fathom_fault *why);

/* Exclude ranks until they are cleared again. `choice` must name some. `clear`: let excluded ranks join again instead. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_exclude(struct fathom_control *control,
	const struct fathom_control_choice *choice, bool clear, struct fathom_control_ranks **ret,
	struct fathom_fault *why);

/* Remove all members and the data that they hold; all must be stopped. Never retried. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_erase(struct fathom_control *control, struct fathom_control_ranks **ret,
	struct fathom_fault *why);

/* The attributes that `pairs` names; `count` 0: all. -ENOENT: one of them does not exist. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_get_attributes(struct fathom_control *control,
	const struct fathom_control_pair *pairs, size_t count, struct fathom_control_pairs **ret, struct fathom_fault *why);

/* Set or remove attributes, all or none. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_set_attributes(struct fathom_control *control,
	const struct fathom_control_pair *pairs, size_t count, struct fathom_fault *why);

/* The properties that `pairs` names; `count` 0: all. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_get_properties(struct fathom_control *control,
	const struct fathom_control_pair *pairs, size_t count, struct fathom_control_pairs **ret, struct fathom_fault *why);

/* Set properties of the system, all or none. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_set_properties(struct fathom_control *control,
	const struct fathom_control_pair *pairs, size_t count, struct fathom_fault *why);

/* The events after number `after`. `max`: 0: as many as fit. `wait_ms`: if there are none yet, wait up to this time. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_events(struct fathom_control *control, uint64_t after, uint32_t max,
	uint32_t wait_ms, struct fathom_control_events **ret, struct fathom_fault *why);

/* What `fathom doctor` finds on each host; each server runs it, which takes some seconds. Result of a host: `diagnosis`. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_host_doctor(struct fathom_control *control,
	struct fathom_control_answers **ret, struct fathom_fault *why);
/* clang-format on */
/* end */

/* ---- pools and volumes ---- */

/* What a query of a pool asks engines for, as bits, which are DAOS's. */
enum {
	FATHOM_CONTROL_POOL_SPACE = 0x1,
	FATHOM_CONTROL_POOL_REBUILD = 0x2,
	FATHOM_CONTROL_POOL_ENABLED_RANKS = 0x4,
	FATHOM_CONTROL_POOL_DISABLED_RANKS = 0x8,
	FATHOM_CONTROL_POOL_DEAD_RANKS = 0x10,
	FATHOM_CONTROL_POOL_SELF_HEAL = 0x40,
};

/* of the table: calls of pool */
/* clang-format off */
/* Create a pool. -EEXIST: another pool has the label. A call whose time is over may take effect later. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_create(struct fathom_control *control,
	const struct fathom_control_new_pool *pool, struct fathom_control_created_pool **ret, struct fathom_fault *why);

/* The pools of the system, by label. `query`: the space of each, too. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_list(struct fathom_control *control, bool query,
	struct fathom_control_pools **ret, struct fathom_fault *why);

/* One pool. `id`: UUID or label. `mask`: what to ask engines for: FATHOM_CONTROL_POOL_SPACE ..., as bits; 0: all. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_query(struct fathom_control *control, const char *id, uint64_t mask,
	struct fathom_control_pool **ret, struct fathom_fault *why);

/*
 * Destroy a pool. -ENOENT: there is none; -EBUSY: it has volumes, or hosts are connected to them. `id`: UUID or label.
 * `force`: although hosts are connected. `recursive`: with its volumes.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_destroy(struct fathom_control *control, const char *id, bool force,
	bool recursive, struct fathom_fault *why);

/*
 * The properties of a pool that `properties` names, whose values are ignored; `count` 0: all. -ENOENT: no such pool or
 * property. `id`: UUID or label.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_get_prop(struct fathom_control *control, const char *id,
	const struct fathom_control_pool_property *properties, size_t count, struct fathom_control_pool_properties **ret,
	struct fathom_fault *why);

/*
 * Set properties of a pool. -EINVAL: not such a value; -EOPNOTSUPP: a property of DAOS that has no meaning here. `id`:
 * UUID or label.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_set_prop(struct fathom_control *control, const char *id,
	const struct fathom_control_pool_property *properties, size_t count, struct fathom_control_pool_set **ret,
	struct fathom_fault *why);

/*
 * Take the volumes of a pool from its hosts. -EBUSY: a change of one of them is pending. `id`: UUID or label. `host`: NQN;
 * NULL: all hosts.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_evict(struct fathom_control *control, const char *id, const char *host,
	struct fathom_control_pool_evicted **ret, struct fathom_fault *why);

/*
 * Add ranks to a pool: all of them or none. -EBUSY: one of them is drained or excluded. `id`: UUID or label. `ranks`:
 * "0-3,7".
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_extend(struct fathom_control *control, const char *id, const char *ranks,
	struct fathom_fault *why);

/* Give ranks of a pool no new volumes, and leave those that they have. `id`: UUID or label. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_exclude(struct fathom_control *control, const char *id, const char *ranks,
	struct fathom_fault *why);

/*
 * Give ranks of a pool no new volumes, and move their volumes to its other ranks. -ENODEV: there are none. `id`: UUID or
 * label.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_drain(struct fathom_control *control, const char *id, const char *ranks,
	struct fathom_fault *why);

/* Let ranks of a pool get new volumes again. `id`: UUID or label. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_reintegrate(struct fathom_control *control, const char *id,
	const char *ranks, struct fathom_fault *why);

/* The access control list of a pool. `id`: UUID or label. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_get_acl(struct fathom_control *control, const char *id,
	struct fathom_control_pool_acl **ret, struct fathom_fault *why);

/* Replace the access control list of a pool. Only the names of the pairs count. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_overwrite_acl(struct fathom_control *control, const char *id,
	const struct fathom_control_pair *entries, size_t count, struct fathom_control_pool_acl **ret,
	struct fathom_fault *why);

/* Add entries to the access control list of a pool, or replace those for the same principals. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_update_acl(struct fathom_control *control, const char *id,
	const struct fathom_control_pair *entries, size_t count, struct fathom_control_pool_acl **ret,
	struct fathom_fault *why);

/*
 * Remove an entry. -ENOENT: there is no such pool, or no such entry. `principal`: "OWNER@", "GROUP@", "EVERYONE@",
 * "u:bob@", "g:staff@".
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_pool_delete_acl(struct fathom_control *control, const char *id,
	const char *principal, struct fathom_control_pool_acl **ret, struct fathom_fault *why);
/* clang-format on */
/* end */

/* of the table: calls of volume */
/* clang-format off */
/*
 * Create a volume, or a clone. A repeated call succeeds if the values are equal. -EEXIST: it exists with others, which
 * `why` names; -ENOSPC.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_volume_create(struct fathom_control *control,
	const struct fathom_control_new_volume *volume, struct fathom_control_volume **ret, struct fathom_fault *why);

/*
 * Volumes by name. -ENOENT: there is no such pool or volume. `pool`: its label or UUID; NULL: all pools. `name`: only this
 * volume: "POOL/VOLUME" or UUID; NULL: all. `host`: only those that are published to this NQN; NULL: all.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_volume_list(struct fathom_control *control, const char *pool, const char *name,
	const char *host, struct fathom_control_volumes **ret, struct fathom_fault *why);

/* Change a volume's size while hosts use it. `force`: also to a smaller size. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_volume_resize(struct fathom_control *control, const char *name,
	uint64_t size_bytes, bool force, struct fathom_control_volume **ret, struct fathom_fault *why);

/*
 * Change properties of a volume while hosts use it. -ENOSPC: it cannot become thick; `why` says how many bytes are
 * missing. `properties`: "thick=on", "description=TEXT".
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_volume_set_prop(struct fathom_control *control, const char *name,
	const struct fathom_control_pair *properties, size_t count, struct fathom_control_volume **ret,
	struct fathom_fault *why);

/* Rename a volume within its pool. `new_name`: "VOLUME" or "POOL/VOLUME". */
FATHOM_CONTROL_MUST_CHECK int fathom_control_volume_rename(struct fathom_control *control, const char *name,
	const char *new_name, struct fathom_control_volume **ret, struct fathom_fault *why);

/*
 * Move a volume to another rank of its pool. -ECANCELED: it was cancelled. `cancel`: undo a move that is under way; `rank`
 * is not used.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_volume_move(struct fathom_control *control, const char *name, uint32_t rank,
	bool cancel, struct fathom_control_volume **ret, struct fathom_fault *why);

/*
 * Destroy a volume. Result: the volume that is being destroyed; `name` is "" if that is done. -ENOENT: there is no such
 * volume. `force`: disconnect its hosts, and destroy its snapshots.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_volume_destroy(struct fathom_control *control, const char *name, bool force,
	struct fathom_control_volume **ret, struct fathom_fault *why);

/* Let a host attach a volume. Result: with the NQN and the addresses for the host. `host`: its NQN. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_volume_publish(struct fathom_control *control, const char *name,
	const char *host, struct fathom_control_volume **ret, struct fathom_fault *why);

/*
 * Take a volume from a host. -EBUSY: the host is connected. `host`: its NQN; NULL: all. `force`: although it is connected.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_volume_unpublish(struct fathom_control *control, const char *name,
	const char *host, bool force, struct fathom_control_volume **ret, struct fathom_fault *why);

/*
 * Take a snapshot of each named volume ("POOL/VOLUME@SNAPSHOT") at one instant. They must be on one engine. `uuid`: of the
 * first snapshot, the key: a repeated call with it and the same names succeeds; NULL: the library makes one.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_snapshot_create(struct fathom_control *control,
	const struct fathom_control_pair *names, size_t count, const char *uuid, struct fathom_control_volumes **ret,
	struct fathom_fault *why);

/* Destroy a snapshot. `name`: "POOL/VOLUME@SNAPSHOT". */
FATHOM_CONTROL_MUST_CHECK int fathom_control_snapshot_destroy(struct fathom_control *control, const char *name,
	struct fathom_control_volumes **ret, struct fathom_fault *why);

/*
 * Give a volume the content of its snapshot. Never retried: what hosts wrote after the first call would be lost. `name`:
 * "POOL/VOLUME@SNAPSHOT". `force`: although hosts are connected.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_snapshot_restore(struct fathom_control *control, const char *name, bool force,
	struct fathom_control_volumes **ret, struct fathom_fault *why);

/*
 * A part of the list of ranges in which two snapshots of a volume differ, or of all ranges that a snapshot has. The list
 * may contain equal ranges, too. `name`: "POOL/VOLUME@SNAPSHOT"; "POOL/VOLUME": the volume as it is now. `from`: name of
 * the older snapshot; NULL: none. `offset`: where the part begins: 0, then next_offset.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_snapshot_changes(struct fathom_control *control, const char *name,
	const char *from, uint64_t offset, struct fathom_control_changes **ret, struct fathom_fault *why);
/* clang-format on */
/* end */

/* ---- hosts ---- */

/* of the table: calls of storage */
/* clang-format off */
/*
 * The storage of each host. Result of a host: `storage`. `usage`: with used and free space, and the rank that uses it.
 * `details`: with data that takes longer to collect.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_storage_scan(struct fathom_control *control, bool usage, bool details,
	struct fathom_control_answers **ret, struct fathom_fault *why);

/*
 * The devices that engines use. Result of a host: `storage`, with each device in `nvmes`, which has one row in `smds`.
 * `rank`: FATHOM_CONTROL_NO_RANK: all. `uuid`: NULL: all.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_devices(struct fathom_control *control, uint32_t rank, const char *uuid,
	struct fathom_control_answers **ret, struct fathom_fault *why);

/* Store firmware on a device of each host. Result of a host: `updated`. DAOS's servers do not have this call. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_firmware_update(struct fathom_control *control,
	const struct fathom_control_firmware_update *update, struct fathom_control_answers **ret, struct fathom_fault *why);

/*
 * Switch the lamp of a device of each host. Result of a host: `led`. `device`: path, PCI address or serial number;
 * `action`: 0: only check, 1: on, 2: off; `minutes`: switch it off after these; 0: it stays on. DAOS's servers do not have
 * this call.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_device_led(struct fathom_control *control, const char *device, uint32_t action,
	uint32_t minutes, struct fathom_control_answers **ret, struct fathom_fault *why);

/*
 * The health of each host's devices, which the servers read before they answer. Result of a host: `health`. DAOS's servers
 * do not have this call.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_host_health(struct fathom_control *control,
	struct fathom_control_answers **ret, struct fathom_fault *why);

/*
 * Format the storage of engines. Result of a host: `format`. `instances`: engines of each host, such as "0,2-3"; NULL: all
 * that wait for it; an empty list is -EINVAL. `reformat`: also storage that holds data; -EBUSY (format_running) while
 * ranks of these hosts run, if no instances are named. `replace`: take over the ranks that were there. `new_storage`: also
 * storage whose folder does not exist, or that is not the storage that was there; without it those are refused
 * (storage_missing).
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_storage_format(struct fathom_control *control, const char *instances,
	bool reformat, bool replace, bool new_storage, struct fathom_control_answers **ret, struct fathom_fault *why);
/* clang-format on */
/* end */

/* of the table: calls of network */
/* clang-format off */
/*
 * The network interfaces of each host that a fabric can use. Result of a host: `network`. `provider`: of the fabric; NULL
 * or "": all.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_network_scan(struct fathom_control *control, const char *provider,
	struct fathom_control_answers **ret, struct fathom_fault *why);

/* All block devices and network interfaces of each host. Result of a host: `host`. DAOS's servers do not have this call. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_host_devices(struct fathom_control *control,
	struct fathom_control_answers **ret, struct fathom_fault *why);
/* clang-format on */
/* end */

/* of the table: calls of server */
/* clang-format off */
/* The version of the management service. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_version(struct fathom_control *control, struct fathom_control_version **ret,
	struct fathom_fault *why);

/* The engines of each host, as its server knows them. Result of a host: `engines`. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_engines(struct fathom_control *control, struct fathom_control_answers **ret,
	struct fathom_fault *why);

/* The version of each server, with or without a system. Result of a host: `version`. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_versions(struct fathom_control *control, struct fathom_control_answers **ret,
	struct fathom_fault *why);

/* Set the given policies (`count` may be 0), and return all. Result of a host: `policies`. */
FATHOM_CONTROL_MUST_CHECK int fathom_control_restart_policy(struct fathom_control *control,
	const struct fathom_control_policy *policies, size_t count, struct fathom_control_answers **ret,
	struct fathom_fault *why);

/*
 * Remove rules of fault injection (`clear`: points, or "all"; NULL: none), give some (`arm`; NULL: none), and return all
 * points. Result of a host: `injection_points`.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_faults(struct fathom_control *control, const char *arm, const char *clear,
	struct fathom_control_answers **ret, struct fathom_fault *why);

/*
 * Set what the engines log. A mask that is NULL is reset to that of the configuration. Result of a host: `masks`, with the
 * engines that failed.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_log_masks(struct fathom_control *control, const char *masks,
	const char *streams, const char *subsystems, struct fathom_control_answers **ret, struct fathom_fault *why);
/* clang-format on */
/* end */

/* The wanted configuration of each host. All fields may be zero. All is borrowed for the call. */
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

/*
 * Make a configuration of fathom-server for each host. Result of a host: `proposal`. Configurations that differ only in
 * comments are equal.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_propose(struct fathom_control *control, const struct fathom_control_wish *wish,
						     struct fathom_control_answers **ret, struct fathom_fault *why);

/* Kinds of logs; 0: all logs, and configuration, states, devices and interfaces. */
enum {
	FATHOM_CONTROL_LOGS_CONTROL = 0x1, /* the server's log, which includes its helper's lines */
	FATHOM_CONTROL_LOGS_ENGINES = 0x2,
};

/* Strings are borrowed for the call. */
struct fathom_control_collection {
	const char *folder;	  /* for the archives; created with mode 0700 if it does not exist */
	uint64_t from_s, until_s; /* only log lines of this time: seconds since 1970, inclusive; 0: no limit */
	uint32_t kinds;
	const char *extra_folder; /* on each host: its files are collected, too; NULL: none */
	bool stop_on_error;	  /* after a failure call no further host; an unreadable file on a host is a failure */
};

/*
 * Fetch logs, configuration and states of each host as an archive, eight hosts at a time. Result of a host: `log`. An
 * archive gets its name when it is complete; incomplete ones are removed.
 */
FATHOM_CONTROL_MUST_CHECK int fathom_control_collect_log(struct fathom_control *control,
							 const struct fathom_control_collection *what,
							 struct fathom_control_answers **ret, struct fathom_fault *why);

#ifdef __cplusplus
}
#endif

#endif
