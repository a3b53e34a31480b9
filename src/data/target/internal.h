/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * internal - shared by the parts of the target: the target, its transports and poll groups, and how to visit them.
 *
 *   target.c      states, start and stop         transport.c   transport types, listening addresses
 *   group.c       poll groups and visits         snapshot.c    controllers, queue pairs and statistics for RPC
 *   drain.c       deadlines for waits on devices
 *   subsystem/    the control thread's view, and each group's part of it
 *   controller/   controllers and the admin commands     discovery/   the discovery log
 *   request/      queue pairs, requests, I/O commands
 */
#ifndef TARGET_INTERNAL_H
#define TARGET_INTERNAL_H

#include "base/bits.h"
#include "base/list.h"
#include "data/nvme/identify.h"
#include "fathom/trace/trace.h"
#include "base/reactor/reactor.h"
#include "data/target/request/request.h"
#include "data/target/target.h"

struct nvmf_ctrlr;

struct nvmf_transport {
	const struct nvmf_transport_ops *ops;
	struct nvmf_transport_options options;
	void *state;
	bool ready; /* on all groups */
};

/* A listening address of a transport, shared by the subsystems that are served there. */
struct nvmf_listen {
	struct nvmf_address address;
	struct nvmf_transport *transport;
	uint32_t users;
	uint16_t port_id; /* unique; never NVME_DISCOVERY_PORTID_NONE */
	bool busy;	  /* being opened or closed */
	TAILQ_ENTRY(nvmf_listen) link;
};

enum { NVMF_NQN_BUCKETS = 4096 };

/* Control thread only, except the fields marked constant. */
struct nvmf_target {
	struct trace_object trace;
	enum nvmf_tgt_state state;
	struct nvmf_poll_group **groups; /* constant while there are any */
	unsigned int group_count;
	struct nvmf_transport transports[NVMF_TRANSPORTS_MAX]; /* constant once created */
	unsigned int transport_count;
	TAILQ_HEAD(, nvmf_subsystem) subsystems; /* in the order of creation */
	LIST_HEAD(, nvmf_subsystem) by_nqn[NVMF_NQN_BUCKETS];
	struct nvmf_subsystem *by_id[NVMF_SUBSYSTEMS_MAX];
	struct nvmf_subsystem *discovery;
	TAILQ_HEAD(, nvmf_listen) listens;
	uint32_t listen_count;
	uint32_t ctrlr_count; /* of all subsystems, those being torn down included */
	uint64_t discovery_generation;
	uint32_t subsystem_count;
	uint32_t subsystems_max; /* nvmf_set_max_subsystems */
	uint16_t crdt[3];
	uint32_t drain_ms;	     /* drain time-out for block devices */
	uint64_t stop_deadline_tick; /* while stopping, else 0 */
	uint32_t stop_id;	     /* while stopping: where in by_id to look next */
	uint32_t lent_ns_count;	     /* removed namespaces whose devices still hold commands */
	nvmf_stuck_fn stuck;
	nvmf_done_fn done;
	void *done_ctx;
	bool refuses; /* new connections are rejected */
	struct fathom_fault why;
};

extern struct nvmf_target nvmf_tgt;

struct nvmf_poll_group {
	struct trace_object trace;
	struct fathom_thread *thread;
	unsigned int index;
	char name[THREAD_NAME_BYTES_MAX];
	TAILQ_HEAD(, nvmf_qpair) qpairs;
	TAILQ_HEAD(, nvmf_qpair) parked_qpairs; /* closed, but devices still hold commands of them */
	TAILQ_HEAD(, nvmf_drain) drains;	/* armed */
	struct poller *drain_poller;
	uint64_t completed_io;
	uint64_t ended_bytes[NVMF_TRANSFERS_MAX]; /* moved by I/O queues that are closed; the others have their own */
	uint64_t admin_qpairs, io_qpairs;	  /* ever */
	uint32_t current_qpairs, current_admin_qpairs, current_io_qpairs;
	void *transport_states[NVMF_TRANSPORTS_MAX];
	struct channel *channel;		  /* the thread's to nvmf_tgt */
	struct channel_iter *emptied;		  /* visit that waits until the last queue pair is closed */
	struct channel_iter *returned;		  /* visit that waits until devices have returned all parked commands */
	struct nvmf_group_subsystem **subsystems; /* by id; NVMF_SUBSYSTEMS_MAX, owned */
	TAILQ_HEAD(, nvmf_account) accounts;
	uint32_t account_count;
	uint8_t scratch[NVME_IDENTIFY_BYTES] CACHE_ALIGNED; /* buffer for building admin data */
	/* control thread only */
	uint32_t load_io CACHE_ALIGNED;
	uint32_t load_all;
};

/* The poll group of `channel`. for_each_channel(&nvmf_tgt, ...) visits all poll groups, one after another. */
static inline struct nvmf_poll_group *nvmf_group_of(struct channel *channel)
{
	return *(struct nvmf_poll_group **)channel_ctx(channel);
}

/* calloc() that ends the process if memory is exhausted. Only for small, rare allocations. */
void *nvmf_alloc(size_t bytes);

/* ---- group.c ---- */

/*
 * Create a group on each data reactor. Control thread. `done(status)` is called there, never from inside. On an error some
 * groups may exist: the caller must still call nvmf_groups_destroy().
 */
void nvmf_groups_create(void (*done)(int status));
/* On the group's thread: a queue pair was closed. */
void nvmf_group_qpair_gone(struct nvmf_poll_group *group);
/* Add `io` I/O queues and `all` connections (each -1, 0 or 1) to the group's load. On the group's thread. */
void nvmf_group_load(struct nvmf_poll_group *group, int io, int all);
/* Visits during a stop. */
void nvmf_group_close_qpairs(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_wait_for_devices(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_end_transports(struct channel_iter *iter, struct channel *channel, void *ctx);
/* All groups are empty: end the threads and free them. Then `done` is called on the control thread. */
void nvmf_groups_destroy(void (*done)(void *unused));

/* Continue a stop if no parked queue pair is left. On the group's thread. */
void nvmf_group_check_returned(struct nvmf_poll_group *group);

/* ---- accounts.c: what each host did, for figures; on the group's thread ---- */

/* `qpair` is the host's in the subsystem, by an accepted Connect. */
void nvmf_account_open(struct nvmf_qpair *qpair, const struct trace_istr *nqn, const struct trace_istr *host);
/* It leaves its group: keep what it did. */
void nvmf_account_close(struct nvmf_qpair *qpair);
void nvmf_accounts_free(struct nvmf_poll_group *group);
/* A controller of the host ended, for this reason (NULL: none is known). Control thread. */
void nvmf_account_left(const struct trace_istr *nqn, const struct trace_istr *host, const struct trace_istr *reason);
/* A Connect was rejected with this status. Control thread. */
void nvmf_account_refused(uint16_t status);

/* ---- drain.c; on the group's thread ---- */

/* Arm `drain`, which must not be armed. It expires at `deadline_tick` or up to 10 ms later. */
void nvmf_drain_arm(struct nvmf_poll_group *group, struct nvmf_drain *drain, uint64_t deadline_tick,
		    void (*expired)(struct nvmf_drain *drain));
/* Disarm `drain`, which may be unarmed. */
void nvmf_drain_disarm(struct nvmf_poll_group *group, struct nvmf_drain *drain);
/* If it is armed, move its deadline to `deadline_tick` unless that is later. */
void nvmf_drain_hurry(struct nvmf_drain *drain, uint64_t deadline_tick);
/* The tick `ms` from now. Any thread. */
uint64_t nvmf_drain_deadline(uint32_t ms);

/* ---- request/qpair.c ---- */

/* Ask the transport to close it; repeated calls do nothing. On the group's thread. */
void nvmf_qpair_disconnect(struct nvmf_qpair *qpair, const char *reason);

/* Call `done` with `error` and an explanation. */
void nvmf_refuse(nvmf_done_fn done, void *ctx, int error, const char *format, ...) PRINTF_LIKE(4, 5);

/* ---- transport.c ---- */

/* The options of the first transport, or the defaults if there is none. Any thread. */
const struct nvmf_transport_options *nvmf_transport_rules(void);
/* Fill in empty fields and spell trtype and adrfam as SPDK does. Errors (explained): -EINVAL. */
MUST_CHECK int nvmf_address_normalise(struct nvmf_address *address, struct fathom_fault *why);
bool nvmf_address_equal(const struct nvmf_address *a, const struct nvmf_address *b);
/*
 * Listen at a normalised `address`, or count one more user. Errors: -EBUSY, -ENOSPC (NVMF_ADDRESSES_MAX), errors of the
 * transport. Pair: remove.
 */
void nvmf_listen_add(const struct nvmf_address *address, nvmf_done_fn done, void *ctx);
/* Drop one user; the last one closes the address. */
void nvmf_listen_remove(const struct nvmf_address *address, nvmf_done_fn done, void *ctx);
/* NULL: the target does not listen there. Control thread; valid until its last user removes it. */
const struct nvmf_listen *nvmf_listen_find(const struct nvmf_address *address);
void nvmf_transports_destroy(void);
void nvmf_transport_groups_create(struct channel_iter *iter, struct channel *channel, void *ctx);

/* A controller was freed, or a namespace change has ended: continue a stop that waits for it. Control thread. */
void nvmf_target_check_down(void);

#endif
