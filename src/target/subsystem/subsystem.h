/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * subsystem - the control thread's view of a subsystem, and each poll group's part of it.
 *
 * The view (options, hosts, listeners, namespaces) is changed by the control thread only while the subsystem is INACTIVE or
 * PAUSED. Groups read it in admin commands, which are counted like I/O, so a pause waits for them. What I/O needs, each
 * group has of its own in struct nvmf_group_subsystem, brought up to date when the subsystem resumes.
 *
 *   an operation waits in `ops` -> [pause] -> apply -> [groups follow, resume] -> after -> done
 */
#ifndef TARGET_SUBSYSTEM_H
#define TARGET_SUBSYSTEM_H

#include "target/internal.h"

struct nvmf_ns {
	uint32_t nsid;
	uint32_t generation; /* unlike that of any other namespace this subsystem had */
	struct nvmf_subsystem *subsystem;
	struct bdev_desc *desc;
	struct bdev *bdev;
	uint8_t uuid[16], nguid[16], eui64[8];
	uint32_t anagrpid;
	bool claimed;
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
TAILQ_HEAD(nvmf_op_queue, nvmf_subsystem_op);
struct nvmf_waiter;

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
	struct nvmf_op_queue ops;
	struct nvmf_subsystem_op *op; /* under way */
	enum nvmf_subsystem_state requested, original;
	TAILQ_HEAD(, nvmf_waiter) waiters;
	/* of groups' parts that are gone; written by a group only while the control thread waits for it */
	struct nvmf_counters counters;
	TAILQ_ENTRY(nvmf_subsystem) link;
};

/* ---- operations; state.c ---- */

enum nvmf_op_kind { NVMF_OP_START, NVMF_OP_STOP, NVMF_OP_PAUSE, NVMF_OP_RESUME, NVMF_OP_CHANGE };

/* The first member of what an operation needs. Each function may be NULL. */
struct nvmf_subsystem_op {
	enum nvmf_op_kind kind;
	/* Nothing runs: change the view. 0 or a negative errno, explained in op->why. */
	int (*apply)(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
	/* The groups could not follow: as it was before. */
	void (*undo)(struct nvmf_subsystem *subsystem, struct nvmf_subsystem_op *op);
	/* It runs again (or rests), rc tells how it went; ends with nvmf_op_end(), at once or later. NULL: that. */
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
/* NULL: none. Control thread, or a counted command. */
struct nvmf_ns *nvmf_subsystem_ns(const struct nvmf_subsystem *subsystem, uint32_t nsid);
void nvmf_ns_close(struct nvmf_ns *ns);
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

/* What I/O on a namespace needs. */
struct nvmf_group_ns {
	struct bdev_channel *channel; /* NULL: no such namespace */
	uint64_t block_count;
	uint32_t generation;
	uint8_t block_shift;
	bool read_only, write_cache, inline_done, reads_zeroes;
};

struct nvmf_group_subsystem {
	struct nvmf_subsystem *subsystem;
	struct nvmf_poll_group *group;
	bool active;	      /* commands run; else they wait */
	uint32_t outstanding; /* commands that a pause waits for */
	uint32_t ns_count;
	struct nvmf_counters counters;
	TAILQ_HEAD(, nvmf_req) waiting;
	struct channel_iter *pausing, *leaving;
	struct nvmf_group_ns ns[];
};

/* Visits; ctx is the subsystem. */
void nvmf_group_activate(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_pause(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_resume(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_follow(struct channel_iter *iter, struct channel *channel, void *ctx);
void nvmf_group_deactivate(struct channel_iter *iter, struct channel *channel, void *ctx);
/* The last counted command has ended, or a queue pair has gone: whoever waits for that goes on. */
void nvmf_group_subsystem_check(struct nvmf_group_subsystem *part) COLD;

/* The namespace of a command; NULL: none. */
static inline struct nvmf_group_ns *nvmf_group_ns(struct nvmf_group_subsystem *part, uint32_t nsid)
{
	struct nvmf_group_ns *ns;

	/* nsid 0 wraps */
	if (unlikely(nsid - 1 >= part->ns_count))
		return NULL;
	ns = &part->ns[nsid - 1];
	return likely(ns->channel) ? ns : NULL;
}

#endif
