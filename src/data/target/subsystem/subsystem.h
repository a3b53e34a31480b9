/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * subsystem - the control thread's view of a subsystem, and each poll group's part of it.
 *
 * Hosts, listeners and the list of controllers are the control thread's alone: they change at any time, and nothing waits.
 * Options are constant, but for allow_any_host, which is the control thread's, too.
 *
 * A namespace (struct nvmf_ns) is constant from the moment that groups are told of it until the last of them has let go.
 * Each group has its own table of those that exist for it, which a message changes: struct nvmf_group_ns, its hold on one.
 * So a change of one namespace concerns its own commands, and no other namespace, host or listener waits for it.
 *
 *   add      control: ADDING -> groups: take, each at its time -> control: ACTIVE, hosts are told
 *   remove   control: REMOVING -> groups: QUIESCING, no new command -> control: hosts are told
 *            groups: all commands have ended, or been given up -> control: `done`; GONE, or LENT until devices return
 * theirs
 *
 * The subsystem's own states change by operations that wait for each other in `states`: START and STOP also wait for
 * changes of namespaces that are under way, and those for them. Changes of hosts and listeners wait for each other in
 * `access`.
 */
#ifndef TARGET_SUBSYSTEM_H
#define TARGET_SUBSYSTEM_H

#include "data/target/internal.h"

enum { NVMF_NS_PARKED_MAX = 128 }; /* commands given up that a group's device may hold before others are refused at once */

struct nvmf_ns {
	/* constant while groups know of it */
	uint32_t nsid;
	uint32_t generation;		  /* unlike that of any other namespace this subsystem had */
	struct nvmf_subsystem *subsystem; /* the control thread's: NULL once that has gone */
	const struct trace_istr *nqn_istr;
	struct bdev_desc *desc;
	struct bdev *bdev;
	uint8_t uuid[16], nguid[16], eui64[8];
	uint32_t anagrpid;
	bool claimed;
	/* the control thread's */
	struct trace_object trace;
	enum nvmf_ns_state state;
	uint32_t holders; /* groups that hold it */
	bool device_goes; /* and it is to be removed as soon as it has been added */
};

struct nvmf_host {
	char nqn[NVME_NQN_FIELD_BYTES];
	TAILQ_ENTRY(nvmf_host) link;
};

struct nvmf_listener {
	struct nvmf_address address;
	struct nvmf_listener_options options;
	const struct nvmf_listen *listen; /* NULL: it is being opened */
	TAILQ_ENTRY(nvmf_listener) link;
};

/* What SMART / Health counts. */
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
 * How much of a Dataset Management command is processed, as Identify tells it: DMRL, DMRSL, DMSL. The specification knows
 * all three or none; none is all 0.
 */
struct nvmf_dsm_limits {
	uint8_t ranges;
	uint32_t range_blocks;
	uint64_t blocks; /* of all ranges */
};

struct nvmf_subsystem_op;
struct nvmf_ns_change;
struct nvmf_waiter;

/* Operations that wait for each other. */
struct nvmf_op_line {
	TAILQ_HEAD(, nvmf_subsystem_op) ops;
	struct nvmf_subsystem_op *op; /* under way */
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
	uint32_t ns_changes;			 /* under way */
	TAILQ_HEAD(, nvmf_ns_change) ns_waiting; /* until it has started or stopped */
	uint64_t deadline_tick;			 /* of the walk under way: how long groups wait for devices */
	enum nvmf_subsystem_state requested, original;
	TAILQ_HEAD(, nvmf_waiter) waiters;
	/* of groups' parts that are gone; written by a group only while the control thread waits for it */
	struct nvmf_counters counters;
	TAILQ_ENTRY(nvmf_subsystem) link;
};

/* ---- operations; state.c ---- */

enum nvmf_op_kind { NVMF_OP_START, NVMF_OP_STOP, NVMF_OP_PAUSE, NVMF_OP_RESUME, NVMF_OP_ACCESS };

/* The first member of what an operation needs. Each function may be NULL. */
struct nvmf_subsystem_op {
	enum nvmf_op_kind kind;
	/* ACCESS: change the view. 0 or a negative errno, explained in op->why. */
	int (*apply)(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
	/* rc tells how it went; ends with nvmf_op_end(), at once or later. NULL: that. */
	void (*after)(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
	/* Tell the caller; `op` is freed afterwards. */
	void (*finish)(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
	nvmf_done_fn done;
	void *ctx;
	int rc;
	struct fault why;
	TAILQ_ENTRY(nvmf_subsystem_op) link;
};

/* `bytes` of zeroes that begin with an operation. */
void *nvmf_op_create(size_t bytes, enum nvmf_op_kind kind, nvmf_done_fn done, void *ctx);
void nvmf_op_submit(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
void nvmf_op_end(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
/* It starts or stops, or will before what is asked now: its namespaces cannot change. */
bool nvmf_subsystem_is_turning(const struct nvmf_subsystem *subsystem);
/* The last change of its namespaces has ended: it may start or stop. */
void nvmf_subsystem_go_on(struct nvmf_subsystem *subsystem);
/* Nothing is under way on it or waits. */
bool nvmf_subsystem_is_idle(const struct nvmf_subsystem *subsystem);

/* Say -ENOENT where there is no such subsystem. NULL then; done has been called. */
struct nvmf_subsystem *nvmf_subsystem_or_refuse(const char *nqn, nvmf_done_fn done, void *ctx);

/* Call `done(ctx, 0)` when no controller for which `concerns` says true is left. */
struct nvmf_waiter {
	bool (*concerns)(const struct nvmf_ctrlr *ctrlr, const void *what);
	void (*done)(void *ctx);
	void *ctx;
	const void *what;
	TAILQ_ENTRY(nvmf_waiter) link;
};
/* Disconnect those controllers, then wait for them. */
void nvmf_subsystem_drop_ctrlrs(struct nvmf_subsystem *subsystem, bool (*concerns)(const struct nvmf_ctrlr *, const void *),
				const void *what, const char *reason, void (*done)(void *ctx), void *ctx);
/* A controller has left `subsystem`. */
void nvmf_subsystem_ctrlr_gone(struct nvmf_subsystem *subsystem);

/* ---- subsystem.c, namespace.c, access.c ---- */

void nvmf_subsystem_create_discovery(void);
/* INACTIVE, without controllers: free it with all it has. */
void nvmf_subsystem_free(struct nvmf_subsystem *subsystem);
/* NULL: none; it may be on its way in or out. Control thread, or a group that the subsystem starts on. */
struct nvmf_ns *nvmf_subsystem_ns(const struct nvmf_subsystem *subsystem, uint32_t nsid);
/* No group has it in its table. It is closed when no group holds it any more. */
void nvmf_ns_let_go(struct nvmf_ns *ns);
/* Changes that waited for the subsystem to start or stop begin. */
void nvmf_ns_changes_go_on(struct nvmf_subsystem *subsystem);
/* Messages of groups: one holds it, one no longer does. */
void nvmf_ns_held(void *ns);
void nvmf_ns_released(void *ns);
bool nvmf_subsystem_host_allowed(const struct nvmf_subsystem *subsystem, const char *host_nqn);
/* Whether a connection that came in at this local address may use it. */
bool nvmf_subsystem_serves(const struct nvmf_subsystem *subsystem, const char *address, const char *service);
bool nvmf_nqn_valid(const char *nqn);
/* Any thread: they are constant. */
struct nvmf_dsm_limits nvmf_subsystem_dsm_limits(const struct nvmf_subsystem *subsystem);
/* Listeners, hosts or subsystems changed: discovery controllers are told. */
void nvmf_discovery_changed(void);
/* Namespace `nsid` came, went or changed: controllers are told. */
void nvmf_ns_changed(struct nvmf_subsystem *subsystem, uint32_t nsid);
/* The listeners of a subsystem go, one after the other; `done(ctx)` when the last has. */
void nvmf_subsystem_stop_listening(struct nvmf_subsystem *subsystem, void (*done)(void *ctx), void *ctx);

/* ---- a poll group's part; group_part.c; on the group's thread ---- */

/* A group's hold on a namespace, and what I/O needs of it; group_ns.c. */
struct nvmf_group_ns {
	struct bdev_channel *channel;
	uint64_t block_count;
	enum nvmf_group_ns_state state;
	uint8_t block_shift;
	bool read_only, write_cache, inline_done, reads_zeroes;
	uint32_t outstanding; /* its commands that the device has, and that have not been answered */
	uint32_t parked;      /* and those that have */
	const struct nvmf_ns *ns;
	struct nvmf_poll_group *group;
	struct nvmf_group_subsystem *part; /* NULL: LENT */
	struct trace_object trace;
	struct nvmf_drain drain;
	/* QUIESCING: called when it no longer is; the hold may be gone then. NULL: nobody waits */
	void (*left)(void *ctx);
	void *left_ctx;
	TAILQ_ENTRY(nvmf_group_ns) link; /* in part->quiescing */
};

struct nvmf_group_subsystem {
	struct nvmf_subsystem *subsystem;
	struct nvmf_poll_group *group;
	bool active;	      /* commands run; else they wait */
	uint32_t outstanding; /* commands that a pause waits for */
	uint32_t ns_count;
	struct nvmf_counters counters;
	TAILQ_HEAD(, nvmf_req) waiting;
	TAILQ_HEAD(, nvmf_group_ns) quiescing;
	struct channel_iter *pausing, *leaving;
	struct nvmf_drain drain; /* pausing */
	uint64_t deadline_cap;	 /* it stops, or is in a hurry: devices are waited for no longer than this; 0: it is not */
	struct nvmf_group_ns *ns[];
};

/* Visits; ctx is the subsystem. */
void nvmf_group_activate(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_pause(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_resume(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_deactivate(struct channel_iter *iter, struct channel *channel, void *ctx);
/* The last counted command has ended, or a queue pair has gone: whoever waits for that goes on. */
void nvmf_group_subsystem_check(struct nvmf_group_subsystem *part) COLD;

/* On every group: what waits for devices of this subsystem does so no longer than to `deadline_tick`. Control thread. */
void nvmf_group_hurry_all(const struct nvmf_subsystem *subsystem, uint64_t deadline_tick);

/* The namespace of a command; NULL: none. */
static inline struct nvmf_group_ns *nvmf_group_ns(const struct nvmf_group_subsystem *part, uint32_t nsid)
{
	/* nsid 0 wraps */
	return likely(nsid - 1 < part->ns_count) ? part->ns[nsid - 1] : NULL;
}

/* ---- group_ns.c ---- */

/* Take `ns` into the table. Errors: -ENOMEM, what its device says. */
MUST_CHECK int nvmf_group_ns_take(struct nvmf_group_subsystem *part, const struct nvmf_ns *ns);
/*
 * Out of the table; `left(ctx)` when its device has none of its commands, or at `deadline_tick`, when these are given up.
 * Possibly before this returns.
 */
void nvmf_group_ns_quiesce(struct nvmf_group_ns *here, uint64_t deadline_tick, void (*left)(void *ctx), void *ctx);
/* A command of one that is not ACTIVE has ended or been returned. `here` may be gone afterwards. */
void nvmf_group_ns_check(struct nvmf_group_ns *here) COLD;

#endif
