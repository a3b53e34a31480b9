/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target - the NVMe target, which knows no socket: subsystems, namespaces, controllers, and the poll groups they are served
 * on.
 *
 *   control thread                                   poll groups, one light thread per data reactor
 *   --------------                                   ----------------------------------------------
 *   the target's states, transports, listeners       queue pairs and their requests (data/target/request/request.h)
 *   subsystems, hosts, namespaces, the list of       controllers, each on the group of its admin queue
 *   controllers, who may connect                     of each subsystem a copy: state, channels, what is under way
 *
 * What belongs to the control thread is changed and read there alone; a poll group has copies of what it needs, which
 * messages change. A namespace is constant while any group knows of it. So hosts and listeners come and go without anybody
 * waiting, and a namespace with nobody but its own commands waiting.
 *
 * What a block device has is waited for, but not for ever: drain_ms (NVMF_DRAIN_MS_DEFAULT) when a namespace, a connection,
 * a controller or a subsystem goes, NVMF_STOP_DRAIN_MS_MAX when the target stops. Then the commands are answered with an
 * error, and what the device holds of them (its data, mostly) is kept until it returns them; see request/parking.c.
 *
 *   nvmf_transport_register() -> nvmf_target_start() -> nvmf_transport_create(), nvmf_subsystem_create() ... ->
 *   nvmf_target_stop()
 *
 * All functions are for the control thread unless they say otherwise. Those with a `done` start something and call it
 * exactly once on the control thread, possibly before they return; strings and structures they take are borrowed for the
 * call. `rc` is 0 or a negative errno, `why` (never NULL) explains it and is borrowed from the callee. Changes of the hosts
 * and listeners of one subsystem happen in the order they were asked for, so do its starts, stops and pauses; changes of
 * different namespaces do not wait for each other.
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
	NVMF_SUBSYSTEMS_MAX = 1024, /* the discovery subsystem included */
	NVMF_NAMESPACES_MAX = 1024, /* of a subsystem */
	NVMF_NAMESPACES_DEFAULT = 32,
	NVMF_HOSTS_MAX = 1024,		    /* of a subsystem */
	NVMF_LISTENERS_MAX = 64,	    /* of a subsystem */
	NVMF_ADDRESSES_MAX = 4096,	    /* that are listened at, for however many subsystems */
	NVMF_CONTROLLERS_MAX = 1024,	    /* of a subsystem */
	NVMF_HOST_CONTROLLERS_DEFAULT = 64, /* of a host in a subsystem: sixteen such hosts leave none for others */
	NVMF_TRANSPORTS_MAX = 4,
	NVMF_DRAIN_MS_DEFAULT = 10000, /* less than a controller says it takes (CAP.TO) */
	NVMF_DRAIN_MS_MAX = 3600000,
	NVMF_STOP_DRAIN_MS_MAX = 2000, /* less than a supervisor waits */
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

typedef void (*nvmf_done_fn)(void *ctx, int rc, const struct fault *why);

/* ---- the target ---- */

/*
 * NONE -> ... -> RUNNING: make the poll groups and start the subsystems that exist. -EALREADY: it is not in NONE.
 * Each state can be watched: one state a turn of the control thread.
 */
void nvmf_target_start(nvmf_done_fn done, void *ctx);

/*
 * RUNNING -> ... -> STOPPED: stop subsystems, listening and groups; every connection is closed. -EINVAL: it is not RUNNING.
 */
void nvmf_target_stop(nvmf_done_fn done, void *ctx);

/*
 * `stuck(count)` (NULL: nobody) is called on the way down, once, when all is gone but `count` commands that block devices
 * do not return. The target goes on when they do; who does not want to wait ends the process.
 */
typedef void (*nvmf_stuck_fn)(uint32_t count);
void nvmf_target_on_stuck(nvmf_stuck_fn stuck);

/* How long block devices are waited for. While the target is in NONE. */
void nvmf_target_set_drain_ms(uint32_t ms);

/* STOPPED or ERROR -> NONE, for a new start and for tests. */
void nvmf_target_reset(void);

enum nvmf_tgt_state nvmf_target_state(void);

/* Whether hosts may come. Where not, a connection is closed as soon as it was accepted; those that are there stay. */
void nvmf_target_admit(bool admit);

/* The retry delays (100 ms each) of Identify Controller, for subsystems created afterwards. nvmf_set_crdt. */
void nvmf_target_set_crdt(const uint16_t crdt[3]);
void nvmf_target_get_crdt(uint16_t crdt_ret[3]);

/* ---- transports ---- */

/* Parameters of nvmf_create_transport, with SPDK's names. nvmf_transport_options_init() sets the defaults. */
struct nvmf_transport_options {
	uint16_t max_queue_depth;	  /* 128; 2 ... 1024 */
	uint16_t max_io_qpairs_per_ctrlr; /* 127 */
	uint32_t in_capsule_data_size;	  /* 4096; of an I/O queue: up to 65536 and max_io_size; 16 divides it */
	uint32_t max_io_size;		  /* 131072; a power of two of pages, up to 8 MiB */
	uint32_t io_unit_size;		  /* kept, not used, as all below that are not explained */
	uint32_t max_aq_depth;		  /* 128; 32 ... 256 */
	uint32_t num_shared_buffers;
	uint32_t buf_cache_size;
	uint32_t iobuf_small_cache_size, iobuf_large_cache_size; /* UINT32_MAX */
	bool c2h_success; /* true: no response capsule after the last C2HData where the host does without flow control */
	uint32_t sock_priority;
	uint32_t abort_timeout_sec; /* 1 */
	uint32_t ack_timeout;
	uint32_t data_wr_pool_size;
	bool disable_command_passthru;
	uint16_t control_msg_num;
	uint32_t acceptor_poll_rate;
	int32_t acceptor_backlog; /* 0: the transport's own */
	uint16_t kas;		  /* granularity of keep-alive timeouts, 100 ms each; 100 */
	uint32_t min_kato;	  /* ms; shorter ones are rounded up to it; 10000 */
	/* connections at a time, in all and of one source address; 0: the transport's own */
	uint32_t max_connections, max_connections_per_address;
};
void nvmf_transport_options_init(struct nvmf_transport_options *options);

struct nvmf_address {
	char trtype[NVMF_TRANSPORT_NAME_BYTES_MAX]; /* "TCP"; case does not matter */
	char adrfam[8];				    /* "IPv4" or "IPv6" (any case); "": by the look of traddr */
	char traddr[NVMF_TRADDR_BYTES_MAX];
	char trsvcid[NVMF_TRSVCID_BYTES_MAX];
};

/* What a transport lends of data buffers on one poll group. */
struct nvmf_buffer_stats {
	uint64_t fair_bytes; /* divided evenly between the hosts that use any */
	uint64_t most_bytes; /* never more than that are lent */
	uint64_t lent_bytes;
	uint32_t host_count;	/* that use any */
	uint32_t waiting_count; /* requests */
};
/* Of that, a host's or a block device's part. */
struct nvmf_buffer_user {
	const char *host_nqn, *bdev_name; /* one of them is NULL */
	uint64_t lent_bytes;
	uint32_t waiting_count;
};
/* `user` and its names are borrowed from the callee. */
typedef void (*nvmf_buffer_user_fn)(void *ctx, const struct nvmf_buffer_user *user);

/* What a kind of transport provides. `name` is what trtype says; registered once, before it is created. */
struct nvmf_transport_ops {
	const char *name; /* "TCP" */
	uint8_t trtype;	  /* enum nvme_trtype */
	/* Begin; *transport_ret is what the others get. `options` may be corrected to what will be. Control thread. */
	int (*create)(struct nvmf_transport_options *options, void **transport_ret, struct fault *why);
	/* All groups and listeners are gone. Control thread. */
	void (*destroy)(void *transport);
	/* The transport's state on one poll group; on the group's thread. */
	int (*group_create)(void *transport, struct nvmf_poll_group *group, void **group_state_ret);
	/*
	 * The target has closed all queue pairs of the group: end those connections that have none, then call `done(ctx)`,
	 * at once or later. On the group's thread.
	 */
	void (*group_destroy)(void *transport, void *group_state, void (*done)(void *ctx), void *ctx);
	/* Data buffers; `fn` is called for each user, hosts first. On the group's thread. NULL: it has none. */
	void (*group_buffers)(void *group_state, struct nvmf_buffer_stats *stats_ret, nvmf_buffer_user_fn fn, void *ctx);
	/* Listen; `done` at once or later. Control thread. The target calls it once for an address, however many use it. */
	void (*listen)(void *transport, const struct nvmf_address *address, nvmf_done_fn done, void *ctx);
	/* Stop; connections that have been accepted stay. Control thread. */
	void (*stop_listen)(void *transport, const struct nvmf_address *address, nvmf_done_fn done, void *ctx);
};

/* `ops` lives as long as the process. */
void nvmf_transport_register(const struct nvmf_transport_ops *ops);
/* Forget all kinds: for tests. */
void nvmf_transport_unregister_all(void);

/*
 * nvmf_create_transport. `name` in any case. Errors: -EINVAL ("Invalid transport type 'FOO'", or an option out of range),
 * -EEXIST ("Transport type 'TCP' already exists"), what the transport says.
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
 * The group for a new connection: that with the fewest I/O queues, then the fewest connections. NULL: none. Control thread.
 */
struct nvmf_poll_group *nvmf_target_choose_group(void);
/* The connection that `group` was chosen for ended without nvmf_qpair_open(). Control thread. */
void nvmf_target_unchoose_group(struct nvmf_poll_group *group);

unsigned int nvmf_poll_group_count(void);
struct nvmf_poll_group *nvmf_poll_group_at(unsigned int index);
/* Any thread, for these three. */
struct fathom_thread *nvmf_poll_group_thread(const struct nvmf_poll_group *group);
unsigned int nvmf_poll_group_index(const struct nvmf_poll_group *group);
/* What group_create() returned of the transport `ops`; on the group's thread. NULL: none. */
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
	uint32_t dmrsl; /* blocks of a range of Dataset Management that are processed; 2097152; told in Identify; 0: all */
	uint8_t wzsl;	/* Write Zeroes size limit, a power of two of 4 KiB; 12; likewise */
};
void nvmf_subsystem_options_init(struct nvmf_subsystem_options *options);

/*
 * Create a subsystem and, if the target runs, start it. Errors: -EINVAL (NQN, serial or model not as specified, cntlid
 * range, max_namespaces, max_host_controllers), -EEXIST (the NQN is taken), -ENOSPC (NVMF_SUBSYSTEMS_MAX), what the start
 * says.
 */
void nvmf_subsystem_create(const struct nvmf_subsystem_options *options, nvmf_done_fn done, void *ctx);

/* Stop it, end its connections and remove it with all it has. Errors: -ENOENT, -EPERM (the discovery subsystem). */
void nvmf_subsystem_destroy(const char *nqn, nvmf_done_fn done, void *ctx);

/* INACTIVE <-> ACTIVE. Errors: -ENOENT, -ENOMEM. Nothing to do is no error. */
void nvmf_subsystem_start(const char *nqn, nvmf_done_fn done, void *ctx);
void nvmf_subsystem_stop(const char *nqn, nvmf_done_fn done, void *ctx);

/*
 * By hand, for tests and diagnosis: ACTIVE <-> PAUSED; I/O meanwhile waits. Errors: -ENOENT, -EINVAL (state), -ETIMEDOUT (a
 * block device has commands and does not end them; it is ACTIVE again).
 */
void nvmf_subsystem_pause(const char *nqn, nvmf_done_fn done, void *ctx);
void nvmf_subsystem_resume(const char *nqn, nvmf_done_fn done, void *ctx);

/* In the order of creation; the first is the discovery subsystem. Pointers are good until nvmf_subsystem_destroy(). */
struct nvmf_subsystem *nvmf_subsystem_find(const char *nqn);
struct nvmf_subsystem *nvmf_subsystem_first(void);
struct nvmf_subsystem *nvmf_subsystem_next(const struct nvmf_subsystem *subsystem);
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
	uint32_t anagrpid;    /* kept */
};
void nvmf_ns_options_init(struct nvmf_ns_options *options);

/*
 * Add a namespace; `nsid` tells which it became. Errors: -ENOENT (subsystem), -ENODEV (block device), -EPERM (claimed, also
 * by a namespace that has gone while it does not return commands; the discovery subsystem), -EEXIST (nsid taken), -EINVAL
 * (nsid 0xffffffff or more than max_namespaces, block size, UUID in use), -ENOSPC (no nsid is free), -ENOMEM. Afterwards
 * hosts are told by an event.
 */
typedef void (*nvmf_add_ns_done_fn)(void *ctx, int rc, const struct fault *why, uint32_t nsid);
void nvmf_subsystem_add_ns(const char *nqn, const struct nvmf_ns_options *options, nvmf_add_ns_done_fn done, void *ctx);

/*
 * No new I/O reaches it. What its block device has is waited for, `drain_ms` at most (0: not at all; more than
 * NVMF_DRAIN_MS_MAX is that); then it is answered with Internal Error, Do Not Retry. The block device is released before
 * `done`, unless it still has such commands: then when it has returned them. Errors: -ENOENT (subsystem or nsid, or it is
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
/* The namespace with the lowest nsid above `nsid`. False: no more. `info_ret->bdev_name` is good until it is removed. */
bool nvmf_subsystem_next_ns(const struct nvmf_subsystem *subsystem, uint32_t nsid, struct nvmf_ns_info *info_ret);

/* ---- hosts ---- */

/* Errors: -ENOENT (subsystem), -EINVAL (NQN), -EEXIST, -ENOSPC. */
void nvmf_subsystem_add_host(const char *nqn, const char *host_nqn, nvmf_done_fn done, void *ctx);
/* The host's connections are closed before `done`. Errors: -ENOENT (subsystem, or no such host in it). */
void nvmf_subsystem_remove_host(const char *nqn, const char *host_nqn, nvmf_done_fn done, void *ctx);
void nvmf_subsystem_set_allow_any_host(const char *nqn, bool allow, nvmf_done_fn done, void *ctx);
/* In the order of addition; NULL: no more. Good until it is removed. */
const char *nvmf_subsystem_host_at(const struct nvmf_subsystem *subsystem, unsigned int index);

/* ---- listeners ---- */

struct nvmf_listener_options {
	char sock_impl[16]; /* kept */
};

/*
 * Serve the subsystem at `address`. Errors: -ENOENT (subsystem), -EINVAL (address, "Invalid transport type 'FOO'",
 * transport not created), -EEXIST ("Listener already exists"), -ENOSPC, what the transport says
 * (-EADDRINUSE ...). `options` may be NULL.
 */
void nvmf_subsystem_add_listener(const char *nqn, const struct nvmf_address *address,
				 const struct nvmf_listener_options *options, nvmf_done_fn done, void *ctx);
/* Connections to this subsystem that came in there are closed. Errors: -ENOENT (subsystem or listener), -EINVAL. */
void nvmf_subsystem_remove_listener(const char *nqn, const struct nvmf_address *address, nvmf_done_fn done, void *ctx);
/*
 * In the order of addition, trtype and adrfam spelt as SPDK does ("TCP", "IPv4"). NULL: no more. Good until it is removed.
 */
const struct nvmf_address *nvmf_subsystem_listener_at(const struct nvmf_subsystem *subsystem, unsigned int index);

/* ---- what is connected; snapshots, taken by messages to the poll groups ---- */

struct nvmf_controller_info {
	uint16_t cntlid;
	bool discovery; /* cntrltype "discovery", else "io" */
	char host_nqn[NVME_NQN_FIELD_BYTES];
	uint8_t host_id[16];
	uint32_t io_qpair_count;
};
/* `infos` is borrowed from the callee, ordered by cntlid. Errors: -ENOENT. */
typedef void (*nvmf_controllers_fn)(void *ctx, int rc, const struct fault *why, const struct nvmf_controller_info *infos,
				    size_t count);
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
	uint32_t request_count; /* under way */
	uint64_t command_count; /* since it connected, as what follows: data of commands that succeeded */
	uint64_t bytes_read, bytes_written;
};
/* Likewise; ordered by cntlid and qid. */
typedef void (*nvmf_qpairs_fn)(void *ctx, int rc, const struct fault *why, const struct nvmf_qpair_info *infos,
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
	struct nvmf_group_buffers
		buffers[NVMF_TRANSPORTS_MAX]; /* of each transport that has some; the others' transport is NULL */
};
/* nvmf_get_stats; ordered by group, borrowed from the callee. */
typedef void (*nvmf_stats_fn)(void *ctx, const struct nvmf_group_stats *stats, size_t count);
void nvmf_target_get_stats(nvmf_stats_fn done, void *ctx);

/* A queue whose commands the target holds: what it waits for when it does not stop. */
struct nvmf_pending_info {
	char nqn[NVME_NQN_FIELD_BYTES]; /* of the subsystem; empty before a Connect */
	uint16_t qid;
	char peer_address[64], peer_service[8];
	uint32_t request_count;
	const char *oldest_opcode; /* its name */
	uint64_t oldest_ticks;	   /* since it came */
	char bdev_name[256];	   /* that has it; empty: none has */
};
/*
 * Those of all queues, closing ones too, and what block devices hold of those that have closed; likewise. A group that
 * hangs keeps it from ending.
 */
typedef void (*nvmf_pending_fn)(void *ctx, const struct nvmf_pending_info *infos, size_t count);
void nvmf_target_get_pending(nvmf_pending_fn done, void *ctx);

#endif
