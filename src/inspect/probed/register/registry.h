/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry - which processes have which probes. Objects arrive by a UNIX socket (server.h) or by DTrace's helper device
 * (cuse.h). The registry identifies their process (/proc), a jailed child parses them (inspect/probed/jail), and the tree
 * keeps them (inspect/probed/stash).
 *
 *   registry 1 -- n process (a pidfd each: its end is seen at once) 1 -- n held (what it registered)
 *            1 -- n registration (on its way, while a child parses)
 *
 * The tree is the only thing that lasts. A registry that opens a tree takes up every process in it that still lives, and
 * removes the others. What a process has unmapped without a word is found when somebody asks (list.c) and every
 * REGISTRY_LOOK_SEC, a few processes at a time.
 *
 * One thread: the control reactor's.
 */
#ifndef PROBED_REGISTER_REGISTRY_H
#define PROBED_REGISTER_REGISTRY_H

#include "inspect/probed/jail/jail.h"
#include "inspect/probed/register/states.gen.h"
#include "inspect/probed/stash/stash.h"

enum {
	REGISTRY_LOOK_SEC = 30,
	REGISTRY_LOOKED_AT_MAX = 64,	/* processes in one go */
	REGISTRY_UNDER_WAY_MAX = 16384, /* they are small but for their objects */
	REGISTRY_UNDER_WAY_PER_USER_MAX = 4096,
};
/* An object above this is copied in slices of this, one a turn of the thread: large.c. */
enum { REGISTRY_SLICE_BYTES = STASH_SLICE_BYTES };
/* Defaults: of one object, and of all that are being parsed. */
enum { REGISTRY_OBJECT_BYTES = 64 << 20, REGISTRY_UNDER_WAY_BYTES = 256 << 20 };

struct registry_options {
	struct stash_options stash;
	struct jail_options jail;
	uint64_t object_bytes_max; /* 0: REGISTRY_OBJECT_BYTES */
	uint64_t look_ns;	   /* 0: REGISTRY_LOOK_SEC; UINT64_MAX: never */
	/* The tree has been looked through. */
	void (*ready)(void *ctx);
	void *ready_ctx;
};

struct registry;

/* Opens the tree; `options.ready` follows. Errors (explained): those of stash_open() and jail_create(). */
MUST_CHECK int registry_create(const struct registry_options *options, struct registry **registry_ret,
			       struct fathom_fault *why);
/* What is under way is answered with -ECANCELED. The tree stays. */
void registry_destroy(struct registry *registry);

struct registry_object {
	enum probed_way way;
	pid_t pid;
	uid_t uid;
	struct dof_helper helper;
	uint64_t address; /* lies in the mapping that the probes belong to */
	void *data;	  /* taken, for free(); NULL: it is in `file`, or it is the notes of the mapped file */
	int file;	  /* a memfd that begins with a large object; lent for the call. -1: there is none */
	size_t bytes;
	int connection; /* a socket whose other end the process has: closed, it has ended. -1: there is none */
};

/* `generation` of `error` 0; else `why` says what is wrong. */
typedef void (*registry_added_fn)(void *ctx, int error, uint64_t generation, const struct fathom_fault *why);

/*
 * Register. `done` once, perhaps from within. Errors: those of stash_add() and of jail_done_fn; -EBUSY: too much is under
 * way; -E2BIG: a limit of the daemon; -ESRCH, -EACCES: the process is gone, or not for this daemon's eyes; -EINVAL: the
 * address lies in no mapped file.
 */
void registry_add(struct registry *registry, struct registry_object *object, registry_added_fn done, void *ctx);

/*
 * Count, trace and log an object that is refused before registry_add(): `error` (a negative errno) and `why` are what its
 * sender gets. Borrows all; `object` needs way, pid, uid and helper.
 */
void registry_turn_away(struct registry *registry, const struct registry_object *object, int error, const char *why);

/* Take one back. 0 also if there is no such thing. */
MUST_CHECK int registry_remove(struct registry *registry, pid_t pid, uint64_t generation, struct fathom_fault *why);

struct registry_stats {
	uint64_t received, stored, refused, removed, processes_dead, execs, mappings_gone;
	uint64_t large,
		slices; /* registrations of large objects, and the slices in which they were received and compared */
	uint32_t processes, under_way;
};

void registry_get_stats(const struct registry *registry, struct registry_stats *registry_ret, struct stash_stats *stash_ret,
			struct jail_stats *jail_ret);

#endif
