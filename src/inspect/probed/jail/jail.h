/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * jail - parses untrusted bytes in child processes that can only compute, read orders and write answers.
 *
 * A child has a seccomp filter, only its pipes as descriptors, only its earlier mappings as memory, and no privileges.
 * Parsing an object takes one round trip. A child that stalls, dies or violates the protocol is ended and replaced; its
 * request fails within the timeout. Other requests do not wait: they use other children, started on demand up to
 * children_max. A large object is copied to its child in slices, one per turn, and large objects leave one child to small
 * ones. Answers carry a sequence number and a length, so remains of an earlier object cannot be taken for an answer.
 *
 *   docs/formats/dof.md, "The jail", defines the permissions of a child.
 *
 * A child runs this program (/proc/self/exe) and stops before main(): child.h. A parent that runs as root gives its
 * children another user, so it needs CAP_KILL in addition to CAP_SETUID and CAP_SETGID.
 *
 * Thread: the one that created it, of a reactor (it watches descriptors and has timers).
 */
#ifndef PROBED_JAIL_JAIL_H
#define PROBED_JAIL_JAIL_H

#include "inspect/probed/dof/dof.h"

struct jail;

struct jail_options {
	uint32_t children_max; /* 0: 4 */
	uint64_t timeout_ns;   /* of one object, from jail_parse() to `done`; 0: 5 s */
	size_t memory_bytes;   /* of a child, in addition to the object and its answer; 0: 64 MiB */
	struct dof_limits limits;
	const char *program; /* the children's program, for tests; lent. NULL: this program */
};

/*
 * Starts one child, and waits until it is confined. NULL (explained): out of memory, descriptors or processes, or seccomp
 * failed.
 */
struct jail *jail_create(const struct jail_options *options, struct fathom_fault *why);
/* Ends all children; pending requests get -ECANCELED before it returns. Must not be called from `done`. Accepts NULL. */
void jail_destroy(struct jail *jail);

/*
 * The callee frees `set` with dof_set_free(); it is NULL on error. `error` (explained): one of dof_parse(), which is
 * deterministic; -ETIMEDOUT: the child or all children stalled; -ECHILD: the child died (`why` says how) or could not be
 * started; -EPROTO: the child violated the protocol; -ENOMEM, -ECANCELED. `why` is borrowed.
 */
typedef void (*jail_done_fn)(void *ctx, int error, struct dof_set *set, const struct fathom_fault *why);

/* Parse `input`; its blocks are lent until `done`. Calls `done` once, later, never before jail_parse() returns. */
void jail_parse(struct jail *jail, const struct dof_input *input, jail_done_fn done, void *ctx);

/* Bytes copied to a child's memory in one turn of the thread; other work runs between turns. */
enum { JAIL_SLICE_BYTES = 256 << 10, JAIL_TURN_NS = 1 };

struct jail_stats {
	uint64_t slices; /* copied to children */
	uint64_t parsed, refused, timed_out, died, nonsense;
	uint64_t children_started;
	uint32_t children, busy, waiting;
};

void jail_get_stats(const struct jail *jail, struct jail_stats *stats);

#endif
