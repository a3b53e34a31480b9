/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target - the NVMe target: subsystems, namespaces, controllers, and the poll groups that serve them. It uses no sockets.
 *
 *   control thread                                   poll groups, one light thread per data reactor
 *   --------------                                   ----------------------------------------------
 *   the target's states, transports, listeners       queue pairs and their requests (data/target/request/request.h)
 *   subsystems, hosts, namespaces, the list of       controllers, each on the group of its admin queue
 *   controllers, access checks                       a part of each subsystem: state, channels, commands in flight
 *
 * Data of the control thread are read and written only there; a poll group has copies, which messages change. A namespace
 * is constant while any group holds it. So changes of hosts and listeners block no I/O, and removing a namespace blocks
 * only its own commands.
 *
 * Commands at a block device are drained, up to a deadline: drain_ms (NVMF_DRAIN_MS_DEFAULT) when a namespace, a
 * connection, a controller or a subsystem is removed, at most NVMF_STOP_DRAIN_MS_MAX when the target stops. Then the
 * commands are answered with an error, and memory that the device holds is kept until it returns them; see
 * request/parking.c.
 *
 *   nvmf_transport_register() -> nvmf_target_start() -> nvmf_transport_create(), nvmf_subsystem_create() ... ->
 *   nvmf_target_stop()
 *
 * All functions must be called on the control thread unless their comment says otherwise. Functions with a `done` start an
 * operation and call `done` exactly once on the control thread, possibly before they return. Their arguments are borrowed
 * for the call. `rc` is 0 or a negative errno, `why` (never NULL) explains it and is borrowed from the callee. Changes of
 * the hosts and listeners of one subsystem run in the order of the calls, and so do its starts, stops and pauses. Changes
 * of different namespaces run concurrently.
 */
#ifndef TARGET_TARGET_H
#define TARGET_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "data/nvme/fabrics.h"
#include "data/target/states.gen.h" /* enum nvmf_tgt_state, enum nvmf_subsystem_state, and their names */

enum {
	NVMF_SUBSYSTEMS_MAX = 16384, /* the discovery subsystem included */
	NVMF_NAMESPACES_MAX = 1024,  /* of a subsystem */
	NVMF_NAMESPACES_DEFAULT = 32,
	NVMF_HOSTS_MAX = 1024,		    /* of a subsystem */
	NVMF_LISTENERS_MAX = 64,	    /* of a subsystem */
	NVMF_ADDRESSES_MAX = 4096,	    /* listening addresses of the target; subsystems may share one */
	NVMF_CONTROLLERS_MAX = 1024,	    /* of a subsystem */
	NVMF_HOST_CONTROLLERS_DEFAULT = 64, /* of a host in a subsystem; 16 hosts can take all controllers */
	NVMF_TRANSPORTS_MAX = 4,
	NVMF_DRAIN_MS_DEFAULT = 10000, /* less than CAP.TO, the time-out hosts use for enable and disable */
	NVMF_DRAIN_MS_MAX = 3600000,
	NVMF_STOP_DRAIN_MS_MAX = 2000, /* less than the stop time-out of a supervisor */
	NVMF_TRANSPORT_NAME_BYTES_MAX = 32,
	NVMF_SERIAL_BYTES = 20,	     /* without the NUL */
	NVMF_MODEL_BYTES = 40,	     /* likewise */
	NVMF_TRADDR_BYTES_MAX = 257, /* with the NUL */
	NVMF_TRSVCID_BYTES_MAX = 33, /* likewise */
	NVMF_CNTLID_MIN = 1,
	NVMF_CNTLID_MAX = NVME_CNTLID_MAX,
};
static_assert(NVMF_NAMESPACES_DEFAULT <= NVMF_NAMESPACES_MAX, "what is not said is allowed");
static_assert(NVMF_CONTROLLERS_MAX <= NVMF_CNTLID_MAX - NVMF_CNTLID_MIN + 1, "each controller of a subsystem has an id");
static_assert(NVMF_TRADDR_BYTES_MAX == NVME_TRADDR_FIELD_BYTES + 1, "the discovery log has room for any address");
static_assert(NVMF_TRSVCID_BYTES_MAX == NVME_TRSVCID_FIELD_BYTES + 1, "likewise");

struct fathom_thread;
struct nvmf_poll_group;
struct nvmf_transport;
struct nvmf_subsystem;

typedef void (*nvmf_done_fn)(void *ctx, int rc, const struct fathom_fault *why);

/* ---- the target ---- */

/*
 * NONE -> ... -> RUNNING: create the poll groups and start the subsystems that exist. -EALREADY: it is not in NONE.
 * Each state lasts at least one turn of the control thread, so it can be observed.
 */
void nvmf_target_start(nvmf_done_fn done, void *ctx);

/*
 * RUNNING or ERROR -> ... -> STOPPED: stop subsystems, listeners and groups; every connection is closed. -EINVAL: another
 * state, or a start or stop has not ended.
 */
void nvmf_target_stop(nvmf_done_fn done, void *ctx);

/*
 * Set a function (or NULL) that is called once during a stop, if block devices still hold `count` commands when all else is
 * closed. The stop continues when they return them. A caller that cannot wait must end the process.
 */
typedef void (*nvmf_stuck_fn)(uint32_t count);
void nvmf_target_on_stuck(nvmf_stuck_fn stuck);

/* Set the drain time-out for block devices. Must be called while the target has no poll groups. */
void nvmf_target_set_drain_ms(uint32_t ms);

/* STOPPED -> NONE, for a new start and for tests. */
void nvmf_target_reset(void);

enum nvmf_tgt_state nvmf_target_state(void);

/* Admit new connections or not. If not, a new connection is closed after accept; existing ones stay. */
void nvmf_target_admit(bool admit);

/* The retry delays (100 ms each) of Identify Controller, for subsystems created afterwards. nvmf_set_crdt. */
void nvmf_target_set_crdt(const uint16_t crdt[3]);
void nvmf_target_get_crdt(uint16_t crdt_ret[3]);

/*
 * The most subsystems that may exist, from 1 to NVMF_SUBSYSTEMS_MAX, the default. Those that exist stay, also if they are
 * more. nvmf_set_max_subsystems.
 */
void nvmf_target_set_max_subsystems(uint32_t count);
uint32_t nvmf_target_max_subsystems(void);

/* ---- transports ---- */

/* Parameters of nvmf_create_transport, with SPDK's names. nvmf_transport_options_init() sets the defaults. */
struct nvmf_transport_options {
	uint16_t max_queue_depth;	  /* 128; 2 ... 1024 */
	uint16_t max_io_qpairs_per_ctrlr; /* 127 */
	uint32_t in_capsule_data_size;	  /* 4096; of an I/O queue: up to 65536 and max_io_size; 16 divides it */
	uint32_t max_io_size;		  /* 131072; a power of two of pages, up to 8 MiB */
	uint32_t io_unit_size;		  /* stored but unused, like all options below without a comment */
	uint32_t max_aq_depth;		  /* 128; 32 ... 256 */
	uint32_t num_shared_buffers;
	uint32_t buf_cache_size;
	uint32_t iobuf_small_cache_size, iobuf_large_cache_size; /* UINT32_MAX */
	bool c2h_success; /* true: no response capsule after the last C2HData if the host disabled SQ flow control */
	uint32_t sock_priority;
	uint32_t abort_timeout_sec; /* 1 */
	uint32_t ack_timeout;
	uint32_t data_wr_pool_size;
	bool disable_command_passthru;
	uint16_t control_msg_num;
	uint32_t acceptor_poll_rate;
	int32_t acceptor_backlog; /* 0: the transport's default */
	uint16_t kas;		  /* granularity of keep-alive timeouts, 100 ms each; 100 */
	uint32_t min_kato;	  /* ms; shorter ones are rounded up to it; 10000 */
	/* open connections, in all and per source address; 0: the transport's default */
	uint32_t max_connections, max_connections_per_address;
};
void nvmf_transport_options_init(struct nvmf_transport_options *options);

struct nvmf_address {
	char trtype[NVMF_TRANSPORT_NAME_BYTES_MAX]; /* "TCP"; case does not matter */
	char adrfam[8];				    /* "IPv4" or "IPv6" (any case); "": derived from traddr */
	char traddr[NVMF_TRADDR_BYTES_MAX];
	char trsvcid[NVMF_TRSVCID_BYTES_MAX];
};

/* Data buffers of a transport on one poll group. */
struct nvmf_buffer_stats {
	uint64_t fair_bytes; /* divided evenly between the hosts that use buffers */
	uint64_t most_bytes; /* limit of lent_bytes */
	uint64_t lent_bytes;
	uint32_t host_count;	/* hosts that use buffers */
	uint32_t waiting_count; /* requests that wait for a buffer */
};
/* The part of one host or one block device. */
struct nvmf_buffer_user {
	const char *host_nqn, *bdev_name; /* one of them is NULL */
	uint64_t lent_bytes;
	uint32_t waiting_count;
};
/* `user` and its names are borrowed from the callee. */
typedef void (*nvmf_buffer_user_fn)(void *ctx, const struct nvmf_buffer_user *user);

/* Operations of a transport type. `name` is its trtype. Must be registered once, before the transport is created. */
struct nvmf_transport_ops {
	const char *name; /* "TCP" */
	uint8_t trtype;	  /* enum nvme_trtype */
	/*
	 * Create; *transport_ret is passed to the other operations. May change `options` to effective values. Control
	 * thread.
	 */
	int (*create)(struct nvmf_transport_options *options, void **transport_ret, struct fathom_fault *why);
	/* Destroy; all groups and listeners are gone. Control thread. */
	void (*destroy)(void *transport);
	/* Create the transport's state on one poll group; on the group's thread. */
	int (*group_create)(void *transport, struct nvmf_poll_group *group, void **group_state_ret);
	/*
	 * Destroy that state. The target has closed all queue pairs of the group. Close the remaining connections, then
	 * call `done(ctx)`, at once or later. On the group's thread.
	 */
	void (*group_destroy)(void *transport, void *group_state, void (*done)(void *ctx), void *ctx);
	/*
	 * Report data buffers; `fn` is called for each user, hosts first. On the group's thread. NULL: no shared buffers.
	 */
	void (*group_buffers)(void *group_state, struct nvmf_buffer_stats *stats_ret, nvmf_buffer_user_fn fn, void *ctx);
	/*
	 * Listen; calls `done` at once or later. Control thread. Called once per address, for all subsystems that use it.
	 */
	void (*listen)(void *transport, const struct nvmf_address *address, nvmf_done_fn done, void *ctx);
	/* Stop listening; accepted connections stay. Control thread. */
	void (*stop_listen)(void *transport, const struct nvmf_address *address, nvmf_done_fn done, void *ctx);
};

/* Register a transport type. `ops` must live as long as the process. */
void nvmf_transport_register(const struct nvmf_transport_ops *ops);
/* Unregister all types; for tests. */
void nvmf_transport_unregister_all(void);

/*
 * nvmf_create_transport. `name` in any case. Errors: -EINVAL ("Invalid transport type 'FOO'", or an option out of range),
 * -EEXIST ("Transport type 'TCP' already exists"), errors of the transport.
 */
void nvmf_transport_create(const char *name, const struct nvmf_transport_options *options, nvmf_done_fn done, void *ctx);

struct nvmf_transport *nvmf_transport_find(const char *name); /* any case; NULL: not created */
struct nvmf_transport *nvmf_transport_first(void);
struct nvmf_transport *nvmf_transport_next(const struct nvmf_transport *transport);
const char *nvmf_transport_name(const struct nvmf_transport *transport); /* "TCP" */
/* Any thread. */
const struct nvmf_transport_options *nvmf_transport_get_options(const struct nvmf_transport *transport);

/* ---- poll groups ---- */

/*
 * Choose the group for a new connection: the one with the fewest I/O queues, then the fewest connections. NULL: the target
 * is not RUNNING, or admits no connections. Control thread.
 */
struct nvmf_poll_group *nvmf_target_choose_group(void);
/* Undo nvmf_target_choose_group() for a connection that ended without nvmf_qpair_open(). Control thread. */
void nvmf_target_unchoose_group(struct nvmf_poll_group *group);

unsigned int nvmf_poll_group_count(void);
struct nvmf_poll_group *nvmf_poll_group_at(unsigned int index);
/* Any thread, for these three. */
struct fathom_thread *nvmf_poll_group_thread(const struct nvmf_poll_group *group);
unsigned int nvmf_poll_group_index(const struct nvmf_poll_group *group);
/* The state that ops->group_create() returned for `group`; on the group's thread. NULL: none. */
void *nvmf_poll_group_transport_state(struct nvmf_poll_group *group, const struct nvmf_transport_ops *ops);

/* ---- subsystems ---- */

enum nvmf_subsystem_type { NVMF_SUBSYSTEM_DISCOVERY, NVMF_SUBSYSTEM_NVME };

/* Parameters of nvmf_create_subsystem. nvmf_subsystem_options_init() sets the defaults. */
struct nvmf_subsystem_options {
	char nqn[NVME_NQN_FIELD_BYTES];
	char serial_number[NVMF_SERIAL_BYTES + 1]; /* "00000000000000000000" */
	char model_number[NVMF_MODEL_BYTES + 1];   /* "Fathom bdev Controller" */
	bool allow_any_host;
	bool enable_nssr;
	uint32_t max_namespaces; /* 0: NVMF_NAMESPACES_DEFAULT */
	uint16_t min_cntlid, max_cntlid;
	uint32_t max_host_controllers; /* of one host NQN; NVMF_HOST_CONTROLLERS_DEFAULT; 1 ... NVMF_CONTROLLERS_MAX */
	uint32_t dmrsl; /* Dataset Management: blocks processed per range, reported in Identify; 2097152; 0: no limit */
	uint8_t wzsl;	/* Write Zeroes size limit, 4 KiB << wzsl, reported in Identify; 12; 0: no limit */
};
void nvmf_subsystem_options_init(struct nvmf_subsystem_options *options);

/*
 * Create a subsystem and, if the target runs, start it. Errors: -EINVAL (NQN, serial or model not as specified, cntlid
 * range, max_namespaces, max_host_controllers), -EEXIST (the NQN is used), -ENOSPC (NVMF_SUBSYSTEMS_MAX), errors of the
 * start.
 */
void nvmf_subsystem_create(const struct nvmf_subsystem_options *options, nvmf_done_fn done, void *ctx);

/* Stop it, close its connections, and free it with its namespaces. Errors: -ENOENT, -EPERM (the discovery subsystem). */
void nvmf_subsystem_destroy(const char *nqn, nvmf_done_fn done, void *ctx);

/* INACTIVE <-> ACTIVE. Errors: -ENOENT, -ENOMEM. If it is in that state already, `rc` is 0. */
void nvmf_subsystem_start(const char *nqn, nvmf_done_fn done, void *ctx);
void nvmf_subsystem_stop(const char *nqn, nvmf_done_fn done, void *ctx);

/*
 * For tests and diagnosis: ACTIVE <-> PAUSED; I/O waits while PAUSED. Errors: -ENOENT, -EINVAL (state), -ETIMEDOUT (a block
 * device did not complete its commands in time; the subsystem is ACTIVE again).
 */
void nvmf_subsystem_pause(const char *nqn, nvmf_done_fn done, void *ctx);
void nvmf_subsystem_resume(const char *nqn, nvmf_done_fn done, void *ctx);

/* In the order of creation; the discovery subsystem is first. Pointers are valid until nvmf_subsystem_destroy(). */
struct nvmf_subsystem *nvmf_subsystem_find(const char *nqn);
struct nvmf_subsystem *nvmf_subsystem_first(void);
struct nvmf_subsystem *nvmf_subsystem_next(const struct nvmf_subsystem *subsystem);
uint32_t nvmf_subsystem_count(void); /* at most NVMF_SUBSYSTEMS_MAX */
const struct nvmf_subsystem_options *nvmf_subsystem_get_options(const struct nvmf_subsystem *subsystem);
enum nvmf_subsystem_type nvmf_subsystem_get_type(const struct nvmf_subsystem *subsystem);
enum nvmf_subsystem_state nvmf_subsystem_get_state(const struct nvmf_subsystem *subsystem);

/* ---- namespaces ---- */

struct nvmf_ns_options {
	uint32_t nsid; /* 0: the lowest free */
	const char *bdev_name;
	uint8_t uuid[16];     /* zero: the block device's */
	uint8_t nguid[16];    /* zero: the UUID */
	uint8_t eui64[8];     /* zero: none */
	bool no_auto_visible; /* must be false */
	uint32_t anagrpid;    /* stored, unused */
};
void nvmf_ns_options_init(struct nvmf_ns_options *options);

/*
 * Add a namespace; `nsid` of `done` is its id. Hosts receive an event. Errors: -ENOENT (subsystem), -ENODEV (block device),
 * -EPERM (the device is claimed, also by a removed namespace whose commands it has not returned; the discovery subsystem),
 * -EEXIST (nsid used), -EINVAL (nsid 0xffffffff or above max_namespaces, block size, UUID in use), -ENOSPC (no nsid is
 * free), -ESTALE (the device is a volume with another UUID), -ENOMEM.
 */
typedef void (*nvmf_add_ns_done_fn)(void *ctx, int rc, const struct fathom_fault *why, uint32_t nsid);
void nvmf_subsystem_add_ns(const char *nqn, const struct nvmf_ns_options *options, nvmf_add_ns_done_fn done, void *ctx);

/*
 * Remove a namespace. New I/O is rejected. Commands at its block device are drained for at most `drain_ms` (0: not at all;
 * limited to NVMF_DRAIN_MS_MAX), then answered with Internal Error, Do Not Retry. The block device is released before
 * `done`, or, if it still holds such commands, when it has returned them. Errors: -ENOENT (subsystem or nsid, or it is
 * being removed already), -EBUSY (it is being added).
 */
void nvmf_subsystem_remove_ns(const char *nqn, uint32_t nsid, uint32_t drain_ms, nvmf_done_fn done, void *ctx);

struct nvmf_ns_info {
	uint32_t nsid;
	const char *bdev_name;
	uint8_t uuid[16], nguid[16], eui64[8];
	uint32_t anagrpid;
	uint32_t block_bytes;
	uint64_t block_count;
};
/* The namespace with the lowest nsid above `nsid`. False: no more. `info_ret->bdev_name` is valid until it is removed. */
bool nvmf_subsystem_next_ns(const struct nvmf_subsystem *subsystem, uint32_t nsid, struct nvmf_ns_info *info_ret);

/* ---- hosts ---- */

/* Errors: -ENOENT (subsystem), -EINVAL (NQN), -EEXIST, -ENOSPC. */
void nvmf_subsystem_add_host(const char *nqn, const char *host_nqn, nvmf_done_fn done, void *ctx);
/* The host's connections are closed before `done`. Errors: -ENOENT (subsystem, or no such host in it). */
void nvmf_subsystem_remove_host(const char *nqn, const char *host_nqn, nvmf_done_fn done, void *ctx);
void nvmf_subsystem_set_allow_any_host(const char *nqn, bool allow, nvmf_done_fn done, void *ctx);
/* Whether `nqn` has the syntax of an NQN. */
bool nvmf_nqn_valid(const char *nqn);
/* In the order of addition; NULL: no more. Valid until the host is removed. */
const char *nvmf_subsystem_host_at(const struct nvmf_subsystem *subsystem, unsigned int index);

/* A controller of a subsystem, as the control thread knows it: also one whose Connect is being answered or that leaves. */
struct nvmf_connection {
	const char *host_nqn, *peer_address; /* borrowed */
	uint64_t connected_ns;		     /* since 1970 */
};
/* Call `fn` for each controller, ordered by cntlid. It must not change the subsystem. */
void nvmf_subsystem_each_connection(const struct nvmf_subsystem *subsystem,
				    void (*fn)(void *ctx, const struct nvmf_connection *connection), void *ctx);

/* ---- listeners ---- */

struct nvmf_listener_options {
	char sock_impl[16]; /* stored, unused */
};

/*
 * Serve the subsystem at `address`. Errors: -ENOENT (subsystem), -EINVAL (address, "Invalid transport type 'FOO'",
 * transport not created), -EEXIST ("Listener already exists"), -ENOSPC, errors of the transport (-EADDRINUSE ...).
 * `options` may be NULL.
 */
void nvmf_subsystem_add_listener(const char *nqn, const struct nvmf_address *address,
				 const struct nvmf_listener_options *options, nvmf_done_fn done, void *ctx);
/* Connections to this subsystem at `address` are closed before `done`. Errors: -ENOENT (subsystem or listener), -EINVAL. */
void nvmf_subsystem_remove_listener(const char *nqn, const struct nvmf_address *address, nvmf_done_fn done, void *ctx);
/*
 * In the order of addition, trtype and adrfam spelt as SPDK does ("TCP", "IPv4"). NULL: no more. Valid until it is removed.
 */
const struct nvmf_address *nvmf_subsystem_listener_at(const struct nvmf_subsystem *subsystem, unsigned int index);

/* ---- snapshots of controllers, queue pairs and statistics, taken by messages to the poll groups ---- */

struct nvmf_controller_info {
	uint16_t cntlid;
	bool discovery; /* cntrltype "discovery", else "io" */
	char host_nqn[NVME_NQN_FIELD_BYTES];
	uint8_t host_id[16];
	uint32_t io_qpair_count;
};
/* `infos` is borrowed from the callee, ordered by cntlid. Errors: -ENOENT. */
typedef void (*nvmf_controllers_fn)(void *ctx, int rc, const struct fathom_fault *why,
				    const struct nvmf_controller_info *infos, size_t count);
void nvmf_subsystem_get_controllers(const char *nqn, nvmf_controllers_fn done, void *ctx);

struct nvmf_qpair_info {
	uint16_t cntlid;
	uint16_t qid;
	const char *state; /* "enabled", "deactivating" ..., as SPDK spells them */
	uint64_t thread_id;
	char thread_name[64];
	char host_nqn[NVME_NQN_FIELD_BYTES];
	char trtype[NVMF_TRANSPORT_NAME_BYTES_MAX], adrfam[8];
	char local_address[64], local_service[8];
	char peer_address[64], peer_service[8];
	uint16_t queue_entries;
	uint32_t request_count;		    /* in flight */
	uint64_t command_count;		    /* since it connected */
	uint64_t bytes_read, bytes_written; /* since it connected, by successful commands */
	/* likewise, of an I/O queue: Reads and Writes, and their time from the capsule to the result; else 0 */
	uint64_t read_count, read_ticks, write_count, write_ticks;
};
/* Likewise; ordered by cntlid and qid. */
typedef void (*nvmf_qpairs_fn)(void *ctx, int rc, const struct fathom_fault *why, const struct nvmf_qpair_info *infos,
			       size_t count);
void nvmf_subsystem_get_qpairs(const char *nqn, nvmf_qpairs_fn done, void *ctx);

struct nvmf_group_buffers {
	const struct nvmf_transport *transport;
	struct nvmf_buffer_stats stats;
	struct nvmf_buffer_user *users; /* hosts first */
	size_t user_count;
};

struct nvmf_group_stats {
	char name[64];
	uint64_t thread_id;
	uint64_t admin_qpairs, io_qpairs; /* ever connected */
	uint32_t current_admin_qpairs, current_io_qpairs;
	uint32_t current_unassociated_qpairs; /* no Connect yet */
	uint64_t pending_bdev_io;
	uint64_t completed_nvme_io;
	uint64_t bytes_read, bytes_written; /* by I/O queues, also closed ones */
	uint32_t io_request_count;	    /* commands of I/O queues in flight */
	uint64_t oldest_ticks;		    /* age of the oldest of these; 0: none */
	struct nvmf_group_buffers
		buffers[NVMF_TRANSPORTS_MAX]; /* one per transport with shared buffers; in others `transport` is NULL */
};
/* nvmf_get_stats; ordered by group, borrowed from the callee. */
typedef void (*nvmf_stats_fn)(void *ctx, const struct nvmf_group_stats *stats, size_t count);
void nvmf_target_get_stats(nvmf_stats_fn done, void *ctx);

/* ---- figures: accounts.c ---- */

enum {
	NVMF_ACCOUNTS_MAX = 2048,    /* pairs of subsystem and host, on each poll group; further ones are not counted */
	NVMF_REFUSED_STATUS_MAX = 16 /* different statuses */
};

/* A host in a subsystem, since the target started: also after it left. Names live as long as the process. */
struct nvmf_host_account {
	const char *nqn, *host_nqn;
	uint64_t command_count, bytes_read, bytes_written;
	uint32_t admin_qpairs, io_qpairs; /* now */
};
/* A poll group. */
struct nvmf_group_account {
	unsigned int cpu;
	uint32_t current_admin_qpairs, current_io_qpairs, current_unassociated_qpairs;
	uint64_t buffers_lent_bytes, buffers_most_bytes;
	uint32_t buffers_waiting;
};
struct nvmf_accounts {
	struct nvmf_host_account *hosts; /* one for each group that has served it */
	struct nvmf_group_account *groups;
	size_t host_count, group_count;
};
/* Asks each poll group. Takes no reference: the callee owns `accounts` until nvmf_accounts_destroy(). */
typedef void (*nvmf_accounts_fn)(void *ctx, struct nvmf_accounts *accounts);
void nvmf_target_get_accounts(nvmf_accounts_fn done, void *ctx);
void nvmf_accounts_destroy(struct nvmf_accounts *accounts); /* accepts NULL */

/* How controllers ended: the host was silent for its keep-alive time; it closed the connection; anything else. */
enum nvmf_end { NVMF_END_KEEP_ALIVE, NVMF_END_CLOSED, NVMF_END_OTHER, NVMF_ENDS_MAX };
/* Call `fn` for each host in a subsystem of which a controller has ended. */
void nvmf_target_each_end(void (*fn)(void *ctx, const char *nqn, const char *host_nqn,
				     const uint64_t counts[static NVMF_ENDS_MAX]),
			  void *ctx);
/* Call `fn` for each status with which a Connect was rejected. */
void nvmf_target_each_refusal(void (*fn)(void *ctx, uint16_t status, uint64_t count), void *ctx);

/* A queue with commands that the target or a device holds; shows why a stop does not end. */
struct nvmf_pending_info {
	char nqn[NVME_NQN_FIELD_BYTES]; /* of the subsystem; empty before a Connect */
	uint16_t qid;
	char peer_address[64], peer_service[8];
	uint32_t request_count;
	const char *oldest_opcode; /* its name */
	uint64_t oldest_ticks;	   /* its age */
	char bdev_name[256];	   /* device that holds it; empty: none */
};
/*
 * Covers all queues, also those that are closing, and closed ones with commands at block devices. `infos` is borrowed from
 * the callee. `done` is not called while a group hangs.
 */
typedef void (*nvmf_pending_fn)(void *ctx, const struct nvmf_pending_info *infos, size_t count);
void nvmf_target_get_pending(nvmf_pending_fn done, void *ctx);

#endif
