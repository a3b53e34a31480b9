/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry - the probes of all processes. Objects arrive by a UNIX socket (server.h) or by DTrace's helper device (cuse.h).
 * The registry identifies the process by /proc, a jailed child parses the object (inspect/probed/jail), and the tree stores
 * the probes (inspect/probed/stash).
 *
 *   registry 1 -- n process (with a pidfd, which reports its end) 1 -- n held (a stored registration)
 *            1 -- n registration (in progress)
 *
 * All persistent state is in the tree. A registry that opens a tree adopts every process in it that lives, and removes the
 * others. A process may unmap a file without removing its probes: this is detected at a LIST (listing.c), and every
 * REGISTRY_CHECK_SEC for some of the processes.
 *
 * Thread: control.
 */
#ifndef PROBED_REGISTER_REGISTRY_H
#define PROBED_REGISTER_REGISTRY_H

#include "inspect/probed/jail/jail.h"
#include "inspect/probed/register/states.gen.h"
#include "inspect/probed/stash/stash.h"

enum {
	REGISTRY_CHECK_SEC = 30,
	REGISTRY_CHECKED_MAX = 64,	/* processes checked at a time */
	REGISTRY_UNDER_WAY_MAX = 16384, /* small, except for their objects, which have limits of their own */
	REGISTRY_UNDER_WAY_PER_USER_MAX = 4096,
};
/* A larger object is copied in slices of this size, one per turn of the thread: large.c. */
enum { REGISTRY_SLICE_BYTES = STASH_SLICE_BYTES };
/* Default limits of one object, and of all objects in progress. */
enum { REGISTRY_OBJECT_BYTES = 64 << 20, REGISTRY_UNDER_WAY_BYTES = 256 << 20 };

struct registry_options {
	struct stash_options stash;
	struct jail_options jail;
	uint64_t object_bytes_max; /* 0: REGISTRY_OBJECT_BYTES */
	uint64_t check_ns;	   /* 0: REGISTRY_CHECK_SEC; UINT64_MAX: never */
	/* Called when the registrations of the tree are adopted. */
	void (*ready)(void *ctx);
	void *ready_ctx;
};

struct registry;

/* Open the tree; calls `options.ready` later. Errors (explained): those of stash_open() and jail_create(). */
MUST_CHECK int registry_create(const struct registry_options *options, struct registry **registry_ret,
			       struct fathom_fault *why);
/* Registrations in progress get -ECANCELED. The tree stays. */
void registry_destroy(struct registry *registry);

struct registry_object {
	enum probed_way way;
	pid_t pid;
	uid_t uid;
	struct dof_helper helper;
	uint64_t address; /* in the mapping that contains the probes; 0: the program's */
	void *data;	  /* taken, for free(); NULL: the object is in `file`, or is the notes of the mapped file */
	int file;	  /* a memfd that begins with a large object; borrowed; -1: none */
	size_t bytes;
	int connection; /* the socket of the process, to detect its end; borrowed; -1: none */
};

/* `error` 0: `generation` is valid; else `why` explains the error. */
typedef void (*registry_added_fn)(void *ctx, int error, uint64_t generation, const struct fathom_fault *why);

/*
 * Register `object`. Calls `done` once, perhaps before it returns. Errors: those of stash_add() and of jail_done_fn;
 * -EBUSY: too much is in progress; -E2BIG: over a limit of the daemon; -ESRCH: the process has ended; -EACCES: the daemon
 * may not inspect it; -EINVAL: no file is mapped at the address.
 */
void registry_add(struct registry *registry, struct registry_object *object, registry_added_fn done, void *ctx);

/*
 * Count, trace and log an object that is refused before registry_add(), with the `error` (a negative errno) and `why` that
 * its sender gets. Borrows all; `object` needs way, pid, uid and helper.
 */
void registry_refuse_object(struct registry *registry, const struct registry_object *object, int error, const char *why);

/* Remove a registration. 0 also if it does not exist. */
MUST_CHECK int registry_remove(struct registry *registry, pid_t pid, uint64_t generation, struct fathom_fault *why);

struct registry_stats {
	uint64_t received, stored, refused, removed, processes_dead, execs, mappings_gone;
	uint64_t large, slices; /* large objects, and their slices that were received and compared */
	uint32_t processes, under_way;
};

void registry_get_stats(const struct registry *registry, struct registry_stats *registry_ret, struct stash_stats *stash_ret,
			struct jail_stats *jail_ret);

#endif
