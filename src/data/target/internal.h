/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * internal - what the parts of the target share: the target, its transports and poll groups, and how to visit them.
 *
 *   target.c      states, up and down            transport.c   kinds of transport, who listens where
 *   group.c       poll groups and visits         snapshot.c    what is connected, for people
 *   drain.c       how long devices are waited for
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

/* An address that a transport listens at, however many subsystems are served there. */
struct nvmf_listen {
	struct nvmf_address address;
	struct nvmf_transport *transport;
	uint32_t users;
	uint16_t port_id; /* unlike that of any other; never NVME_DISCOVERY_PORTID_NONE */
	bool busy;	  /* being opened or closed */
	TAILQ_ENTRY(nvmf_listen) link;
};

/* The control thread's, but for what is said to be constant. */
struct nvmf_target {
	struct trace_object trace;
	enum nvmf_tgt_state state;
	struct nvmf_poll_group **groups; /* constant while there are any */
	unsigned int group_count;
	struct nvmf_transport transports[NVMF_TRANSPORTS_MAX]; /* constant once created */
	unsigned int transport_count;
	TAILQ_HEAD(, nvmf_subsystem) subsystems; /* in the order of creation */
	struct nvmf_subsystem *by_id[NVMF_SUBSYSTEMS_MAX];
	struct nvmf_subsystem *discovery;
	TAILQ_HEAD(, nvmf_listen) listens;
	uint32_t listen_count;
	uint32_t ctrlr_count; /* of all subsystems, those being torn down included */
	uint64_t discovery_generation;
	uint16_t crdt[3];
	uint32_t drain_ms;	     /* how long block devices are waited for */
	uint64_t stop_deadline_tick; /* on the way down; 0: not there */
	uint32_t lent_ns_count;	     /* namespaces that are gone, but for commands that their devices have */
	nvmf_stuck_fn stuck;
	nvmf_done_fn done;
	void *done_ctx;
	bool failed;  /* on the way down because of an error */
	bool refuses; /* new connections */
	struct fault why;
};

extern struct nvmf_target nvmf_tgt;

struct nvmf_poll_group {
	struct trace_object trace;
	struct fathom_thread *thread;
	unsigned int index;
	char name[THREAD_NAME_BYTES_MAX];
	TAILQ_HEAD(, nvmf_qpair) qpairs;
	TAILQ_HEAD(, nvmf_qpair) parked_qpairs; /* their association is over, devices have commands of them */
	TAILQ_HEAD(, nvmf_drain) drains;	/* armed */
	struct poller *drain_poller;
	uint64_t completed_io;
	uint64_t admin_qpairs, io_qpairs; /* ever */
	uint32_t current_qpairs, current_admin_qpairs, current_io_qpairs;
	void *transport_states[NVMF_TRANSPORTS_MAX];
	struct channel *channel;       /* the thread's to nvmf_tgt */
	struct channel_iter *emptied;  /* waits until the last queue pair has gone */
	struct channel_iter *returned; /* waits until devices have returned all they hold */
	struct nvmf_group_subsystem *subsystems[NVMF_SUBSYSTEMS_MAX];
	uint8_t scratch[NVME_IDENTIFY_BYTES] CACHE_ALIGNED; /* admin data being put together */
	/* the control thread's */
	uint32_t load_io CACHE_ALIGNED;
	uint32_t load_all;
};

/* All poll groups are visited by for_each_channel(&nvmf_tgt, ...), one after the other: the one that `channel` is of. */
static inline struct nvmf_poll_group *nvmf_group_of(struct channel *channel)
{
	return *(struct nvmf_poll_group **)channel_ctx(channel);
}

/* Malloc that ends the process rather than fail: rare, small, and an engine without it has already ended. */
void *nvmf_alloc(size_t bytes);

/* ---- group.c ---- */

/* `done(status)` on the control thread, whence it is called, never from inside. On an error some may be there: destroy. */
void nvmf_groups_create(void (*done)(int status));
/* On the group's thread: a queue pair has gone. */
void nvmf_group_qpair_gone(struct nvmf_poll_group *group);
/* What the control thread knows of loads: +1 or -1 I/O queue, connection. On the group's thread. */
void nvmf_group_load(struct nvmf_poll_group *group, int io, int all);
/* Visits for the way down. */
void nvmf_group_close_qpairs(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_wait_for_devices(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_end_transports(struct channel_iter *iter, struct channel *channel, void *ctx);
/* All are empty: end the threads and free. `done` on the control thread, when all have gone. */
void nvmf_groups_destroy(void (*done)(void *unused));

/* A parked queue pair has got everything back. On the group's thread. */
void nvmf_group_check_returned(struct nvmf_poll_group *group);

/* ---- drain.c; on the group's thread ---- */

/* `drain` is not armed; it expires at `deadline_tick` or soon after it. */
void nvmf_drain_arm(struct nvmf_poll_group *group, struct nvmf_drain *drain, uint64_t deadline_tick,
		    void (*expired)(struct nvmf_drain *drain));
/* Armed or not. */
void nvmf_drain_disarm(struct nvmf_poll_group *group, struct nvmf_drain *drain);
/* If it is armed, it expires no later than at `deadline_tick`. */
void nvmf_drain_hurry(struct nvmf_drain *drain, uint64_t deadline_tick);
/* The tick in `ms` from now. Any thread. */
uint64_t nvmf_drain_deadline(uint32_t ms);

/* ---- request/qpair.c ---- */

/* Ask the transport to close it, once. On the group's thread. */
void nvmf_qpair_disconnect(struct nvmf_qpair *qpair, const char *reason);

/* Fill `why`, where the error is returned another way. */
void nvmf_explain(struct fault *why, int error, const char *format, ...) PRINTF_LIKE(3, 4);

/* Refuse with an explanation. */
void nvmf_refuse(nvmf_done_fn done, void *ctx, int error, const char *format, ...) PRINTF_LIKE(4, 5);

/* ---- transport.c ---- */

/* The transport whose rules hold for a connection, or default rules. Any thread. */
const struct nvmf_transport_options *nvmf_transport_rules(void);
/* Fill in what is left open and spell it as SPDK does. Errors (explained): -EINVAL. */
MUST_CHECK int nvmf_address_normalise(struct nvmf_address *address, struct fault *why);
bool nvmf_address_equal(const struct nvmf_address *a, const struct nvmf_address *b);
/* `address` is normalised. Errors: -EBUSY, -ENOSPC (NVMF_ADDRESSES_MAX), what the transport says. Pair: remove. */
void nvmf_listen_add(const struct nvmf_address *address, nvmf_done_fn done, void *ctx);
/* One of its users no longer needs it: the last one closes it. */
void nvmf_listen_remove(const struct nvmf_address *address, nvmf_done_fn done, void *ctx);
/* NULL: nobody listens there. Control thread; good until its last user removes it. */
const struct nvmf_listen *nvmf_listen_find(const struct nvmf_address *address);
void nvmf_transports_destroy(void);
void nvmf_transport_groups_create(struct channel_iter *iter, struct channel *channel, void *ctx);

/* A controller has gone, or a subsystem: whoever waits for that on the way down looks again. Control thread. */
void nvmf_target_check_down(void);

#endif
