/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * jail - parsing of strangers' bytes in children that can do nothing but read, write and think.
 *
 * A child has a seccomp filter, no descriptors but its pipes, no memory but what was mapped before, and no privileges. One
 * round trip an object. A child that stalls, dies or talks nonsense is ended and replaced; whoever waited for it gets the
 * error within the time-out, and nobody else waits, because others go to other children, started as they are needed up to
 * a number. A large object is copied to its child a slice a turn, and large objects leave one child to small ones. Whoever
 * was parsed before in the same child leaves nothing: an answer says whose it is and how long.
 *
 *   docs/formats/dof.md, "The jail", has what a child may do.
 *
 * A child is this program again (/proc/self/exe), held up before main(): child.h. One that runs as root makes its children
 * another user's, and so needs CAP_KILL beside CAP_SETUID and CAP_SETGID.
 *
 * All on the thread that created it (a reactor's: it watches descriptors and has timers).
 */
#ifndef PROBED_JAIL_JAIL_H
#define PROBED_JAIL_JAIL_H

#include "inspect/probed/dof/dof.h"

struct jail;

struct jail_options {
	uint32_t children_max; /* 0: 4 */
	uint64_t timeout_ns;   /* of one object, from jail_parse() to `done`; 0: 5 s */
	size_t memory_bytes;   /* a child's, beside the object and its answer; 0: 64 MiB */
	struct dof_limits limits;
	const char *program; /* what children are, for tests; lent. NULL: this program */
};

/*
 * Starts one child, and waits until it is confined. NULL (explained): no memory, descriptors or processes, or seccomp
 * refused.
 */
struct jail *jail_create(const struct jail_options *options, struct fault *why);
/* Ends its children. What is under way is answered with -ECANCELED, before it returns. Not from `done`. Accepts NULL. */
void jail_destroy(struct jail *jail);

/*
 * `set` is the callee's to free (dof_set_free()), NULL if `error`, which is explained and of dof_parse() (a deterministic
 * error, after one parse), or -ETIMEDOUT: it stalled, or all children did, -ECHILD: its child died (of what, `why` says) or
 * could not be started, -EPROTO: its child talked nonsense, -ENOMEM, -ECANCELED. `why` is borrowed.
 */
typedef void (*jail_done_fn)(void *ctx, int error, struct dof_set *set, const struct fault *why);

/* Parse `input`, whose blocks are lent until `done`, which is called later, once, never from within. */
void jail_parse(struct jail *jail, const struct dof_input *input, jail_done_fn done, void *ctx);

/* What is copied into a child's memory in one turn of the thread, between which others are served. */
enum { JAIL_SLICE_BYTES = 256 << 10, JAIL_TURN_NS = 1 };

struct jail_stats {
	uint64_t slices; /* copied to children */
	uint64_t parsed, refused, timed_out, died, nonsense;
	uint64_t children_started;
	uint32_t children, busy, waiting;
};

void jail_get_stats(const struct jail *jail, struct jail_stats *stats);

#endif
