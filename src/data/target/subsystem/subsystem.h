/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * subsystem - the control thread's view of a subsystem, and each poll group's part of it.
 *
 * Hosts, listeners and the list of controllers belong to the control thread. They can change at any time, without waiting.
 * Options are constant, except allow_any_host, which belongs to the control thread.
 *
 * A namespace (struct nvmf_ns) is constant from the first message to a group until the last group has released it. Each
 * group has its own table of holds (struct nvmf_group_ns), changed by messages. So a change of one namespace affects only
 * its own commands; other namespaces, hosts and listeners do not wait for it.
 *
 *   add      control: ADDING -> each group: take -> control: ACTIVE, event to hosts
 *   remove   control: REMOVING -> groups: QUIESCING, no new command -> control: event to hosts
 *            groups: all commands have ended or were given up -> control: `done`; GONE, or LENT until devices return
 *            the commands given up
 *
 * The subsystem's states change by operations queued in `states`. START and STOP also wait for running changes of
 * namespaces; new changes wait for START and STOP. Changes of hosts and listeners are queued in `access`.
 */
#ifndef TARGET_SUBSYSTEM_H
#define TARGET_SUBSYSTEM_H

#include "data/target/internal.h"

enum { NVMF_NS_PARKED_MAX = 128 }; /* per group: if a device holds this many given-up commands, new ones are rejected */

struct nvmf_ns {
	/* constant while a group holds it */
	uint32_t nsid;
	uint32_t generation;		  /* unique among all namespaces this subsystem ever had */
	struct nvmf_subsystem *subsystem; /* control thread only; NULL after the namespace was removed */
	const struct trace_istr *nqn_istr;
	struct bdev_desc *desc;
	struct bdev *bdev;
	uint8_t uuid[16], nguid[16], eui64[8];
	uint32_t anagrpid;
	bool claimed;
	/* control thread only */
	struct trace_object trace;
	enum nvmf_ns_state state;
	uint32_t holders;    /* groups that hold it */
	bool device_goes;    /* the device was removed while ADDING: remove the namespace when it is added */
	bool device_resized; /* likewise: the length of the device changed while ADDING */
};

struct nvmf_host {
	char nqn[NVME_NQN_FIELD_BYTES];
	TAILQ_ENTRY(nvmf_host) link;
};

struct nvmf_listener {
	struct nvmf_address address;
	struct nvmf_listener_options options;
	const struct nvmf_listen *listen; /* NULL: the address is being opened */
	TAILQ_ENTRY(nvmf_listener) link;
};

/* Counters of the SMART / Health log. */
struct nvmf_counters {
	uint64_t read_commands, write_commands;
	uint64_t read_bytes, written_bytes;
	uint64_t media_errors;
};

static inline void nvmf_counters_add(struct nvmf_counters *to, const struct nvmf_counters *from)
{
	to->read_commands += from->read_commands;
	to->write_commands += from->write_commands;
	to->read_bytes += from->read_bytes;
	to->written_bytes += from->written_bytes;
	to->media_errors += from->media_errors;
}

/*
 * Limits of a Dataset Management command, as reported in Identify: DMRL, DMRSL, DMSL. The specification requires all three
 * or none; none is all 0.
 */
struct nvmf_dsm_limits {
	uint8_t ranges;
	uint32_t range_blocks;
	uint64_t blocks; /* of all ranges */
};

struct nvmf_subsystem_op;
struct nvmf_ns_change;
struct nvmf_waiter;

/* A queue of operations that run one at a time. */
struct nvmf_op_line {
	TAILQ_HEAD(, nvmf_subsystem_op) ops;
	struct nvmf_subsystem_op *op; /* running; NULL: none */
};

static inline bool nvmf_op_line_is_idle(const struct nvmf_op_line *line)
{
	return !line->op && TAILQ_EMPTY(&line->ops);
}

struct nvmf_subsystem {
	struct trace_object trace;
	enum nvmf_subsystem_state state;
	enum nvmf_subsystem_type type;
	uint32_t id; /* index in nvmf_tgt.by_id */
	struct nvmf_subsystem_options options;
	const struct trace_istr *nqn_istr;
	uint16_t crdt[3];
	struct nvmf_ns **namespaces; /* [nsid - 1], options.max_namespaces of them */
	uint32_t generation_next;
	TAILQ_HEAD(, nvmf_host) hosts;
	TAILQ_HEAD(, nvmf_listener) listeners;
	TAILQ_HEAD(, nvmf_ctrlr) ctrlrs; /* ordered by cntlid */
	uint32_t ctrlr_count;
	uint16_t cntlid_next;
	bool destroying;
	struct nvmf_op_line states, access;
	uint32_t ns_changes;			 /* running changes of namespaces */
	TAILQ_HEAD(, nvmf_ns_change) ns_waiting; /* changes that wait for a start or stop */
	uint64_t deadline_tick;			 /* of the running stop: groups wait for devices until then */
	enum nvmf_subsystem_state requested, original;
	TAILQ_HEAD(, nvmf_waiter) waiters;
	/* sums of freed group parts; a group writes them only during a visit that the control thread waits for */
	struct nvmf_counters counters;
	LIST_ENTRY(nvmf_subsystem) by_nqn;
	TAILQ_ENTRY(nvmf_subsystem) link;
};

/* ---- operations; state.c ---- */

enum nvmf_op_kind { NVMF_OP_START, NVMF_OP_STOP, NVMF_OP_PAUSE, NVMF_OP_RESUME, NVMF_OP_ACCESS };

/* Must be the first member of an operation's structure. Each function may be NULL. */
struct nvmf_subsystem_op {
	enum nvmf_op_kind kind;
	/* ACCESS: change hosts or listeners. Returns 0 or a negative errno, explained in op->why. */
	int (*apply)(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
	/* Called when op->rc is set. Must call nvmf_op_end(), at once or later. NULL: only that. */
	void (*after)(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
	/* Report to the caller; `op` is freed afterwards. NULL: op->done() is called. */
	void (*finish)(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
	nvmf_done_fn done;
	void *ctx;
	int rc;
	struct fathom_fault why;
	TAILQ_ENTRY(nvmf_subsystem_op) link;
};

/* Allocate `bytes`, zeroed, whose first member is a struct nvmf_subsystem_op. Pair: nvmf_op_submit(), which takes it. */
void *nvmf_op_create(size_t bytes, enum nvmf_op_kind kind, nvmf_done_fn done, void *ctx);
void nvmf_op_submit(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
void nvmf_op_end(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
/* Whether a start or stop runs or is queued: then changes of its namespaces must wait. */
bool nvmf_subsystem_is_turning(const struct nvmf_subsystem *subsystem);
/* The last change of its namespaces has ended: run a waiting start or stop. */
void nvmf_subsystem_go_on(struct nvmf_subsystem *subsystem);
/* Whether no operation and no change of a namespace runs or waits. */
bool nvmf_subsystem_is_idle(const struct nvmf_subsystem *subsystem);

/* Find a subsystem. NULL: it does not exist or is being destroyed, and done() was called with -ENOENT. */
struct nvmf_subsystem *nvmf_subsystem_or_refuse(const char *nqn, nvmf_done_fn done, void *ctx);

/* Calls `done(ctx)` when no controller is left for which `concerns` returns true. */
struct nvmf_waiter {
	bool (*concerns)(const struct nvmf_ctrlr *ctrlr, const void *what);
	void (*done)(void *ctx);
	void *ctx;
	const void *what;
	TAILQ_ENTRY(nvmf_waiter) link;
};
/* Disconnect the controllers for which `concerns(ctrlr, what)` is true. `done(ctx)` when they are gone, perhaps at once. */
void nvmf_subsystem_drop_ctrlrs(struct nvmf_subsystem *subsystem, bool (*concerns)(const struct nvmf_ctrlr *, const void *),
				const void *what, const char *reason, void (*done)(void *ctx), void *ctx);
/* A controller was removed from `subsystem`: check the waiters. */
void nvmf_subsystem_ctrlr_gone(struct nvmf_subsystem *subsystem);

/* ---- subsystem.c, namespace.c, access.c ---- */

void nvmf_subsystem_create_discovery(void);
/* Free an INACTIVE subsystem without controllers, and all it owns. */
void nvmf_subsystem_free(struct nvmf_subsystem *subsystem);
/* NULL: none. The namespace may be ADDING or REMOVING. Control thread, or a group during the subsystem's start. */
struct nvmf_ns *nvmf_subsystem_ns(const struct nvmf_subsystem *subsystem, uint32_t nsid);
/* Release a namespace that is in no group's table. Its device is closed when no group holds it any more. */
void nvmf_ns_let_go(struct nvmf_ns *ns);
/* Run the changes of namespaces that waited for a start or stop. */
void nvmf_ns_changes_go_on(struct nvmf_subsystem *subsystem);
/* Messages from groups: a group holds the namespace, or has released it. */
void nvmf_ns_held(void *ns);
void nvmf_ns_released(void *ns);
bool nvmf_subsystem_host_allowed(const struct nvmf_subsystem *subsystem, const char *host_nqn);
/* Whether connections at this local address may use the subsystem. */
bool nvmf_subsystem_serves(const struct nvmf_subsystem *subsystem, const char *address, const char *service);
/* Any thread: the limits are constant. */
struct nvmf_dsm_limits nvmf_subsystem_dsm_limits(const struct nvmf_subsystem *subsystem);
/* Listeners, hosts or subsystems changed: send an event to discovery controllers. */
void nvmf_discovery_changed(void);
/* Namespace `nsid` was added, removed or changed: send an event to the controllers. */
void nvmf_ns_changed(struct nvmf_subsystem *subsystem, uint32_t nsid);
/* Remove the listeners of a subsystem, one after another; then call `done(ctx)`. */
void nvmf_subsystem_stop_listening(struct nvmf_subsystem *subsystem, void (*done)(void *ctx), void *ctx);

/* ---- a poll group's part; group_part.c; on the group's thread ---- */

/* A group's hold on a namespace, with a copy of the data that I/O needs; group_ns.c. */
struct nvmf_group_ns {
	struct bdev_channel *channel;
	uint64_t block_count;
	enum nvmf_group_ns_state state;
	uint8_t block_shift;
	bool read_only, write_cache, durable_writes, inline_done, reads_zeroes;
	uint32_t outstanding; /* commands at the device, not answered */
	uint32_t parked;      /* commands at the device that were given up and answered */
	const struct nvmf_ns *ns;
	struct nvmf_poll_group *group;
	struct nvmf_group_subsystem *part; /* NULL: LENT */
	struct trace_object trace;
	struct nvmf_drain drain;
	/* called at the end of QUIESCING, when the hold may already be freed; NULL: none */
	void (*left)(void *ctx);
	void *left_ctx;
	TAILQ_ENTRY(nvmf_group_ns) link; /* in part->quiescing */
};

struct nvmf_group_subsystem {
	struct nvmf_subsystem *subsystem;
	struct nvmf_poll_group *group;
	bool active;	      /* commands execute; false: they wait */
	uint32_t outstanding; /* commands that a pause waits for */
	uint32_t ns_count;
	struct nvmf_counters counters;
	TAILQ_HEAD(, nvmf_req) waiting;
	TAILQ_HEAD(, nvmf_group_ns) quiescing;
	struct channel_iter *pausing, *leaving;
	struct nvmf_drain drain; /* pausing */
	uint64_t deadline_cap;	 /* while the subsystem stops: upper limit of all drain deadlines; else 0 */
	struct nvmf_group_ns *ns[];
};

/* Visits; ctx is the subsystem. */
void nvmf_group_activate(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_pause(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_resume(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_deactivate(struct channel_iter *iter, struct channel *channel, void *ctx);
/* A counted command has ended, or a queue pair has closed: continue a pause or deactivation that waits for the last one. */
void nvmf_group_subsystem_check(struct nvmf_group_subsystem *part) COLD;

/* On every group: limit the drain deadlines of this subsystem to `deadline_tick`. Control thread. */
void nvmf_group_hurry_all(const struct nvmf_subsystem *subsystem, uint64_t deadline_tick);

/* The namespace of a command; NULL: none. */
static inline struct nvmf_group_ns *nvmf_group_ns(const struct nvmf_group_subsystem *part, uint32_t nsid)
{
	/* nsid 0 wraps */
	return likely(nsid - 1 < part->ns_count) ? part->ns[nsid - 1] : NULL;
}

/* ---- group_ns.c ---- */

/* Add `ns` to the table. Errors: -ENOMEM, errors of bdev_channel_get(). */
MUST_CHECK int nvmf_group_ns_take(struct nvmf_group_subsystem *part, const struct nvmf_ns *ns);
/*
 * Remove it from the table. `left(ctx)` is called when its device has none of its commands, or at `deadline_tick`, when
 * they are given up; possibly before this returns.
 */
void nvmf_group_ns_quiesce(struct nvmf_group_ns *here, uint64_t deadline_tick, void (*left)(void *ctx), void *ctx);
/* A command of a hold that is not ACTIVE has ended or was returned. `here` may be freed afterwards. */
void nvmf_group_ns_check(struct nvmf_group_ns *here) COLD;

#endif
