/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stash - what is registered, as a tree of files that survives its daemon and that DTrace's tools read:
 * docs/formats/stash.md.
 *
 *   DIR/stash/dof/$dev-$ino                     the raw object, once for all processes that map the file
 *   DIR/stash/dof-pid/$pid/$dev-$ino/           what a process registered of it: raw (a link), dh, parsed/
 *   DIR/probes/$pid/$prv$pid/$mod/$fun/$prb     what consumers read
 *
 * A name appears by rename or link only when what it names is complete; a registration is there whole or not at all,
 * also after kill -9 at any instant (stash_open() sweeps what was under way). The only state is the tree: what is kept
 * of it in memory are who, which mappings, and counts.
 *
 * All on one thread, one stash a directory (a lock file says so). Functions block for as long as the filesystem does.
 */
#ifndef PROBED_STASH_STASH_H
#define PROBED_STASH_STASH_H

#include <sys/types.h>

#include "inspect/probed/dof/dof.h"

#define STASH_DIRECTORY_DEFAULT "/run/dtrace"

enum { STASH_RECORD_VERSION_MIN = 1, STASH_RECORD_VERSION_MAX = 3, STASH_RECORD_VERSION_DEFAULT = 3 };

/* 0: the default, which the page of the daemon has. */
struct stash_limits {
	uint32_t objects_per_process, objects_per_user, objects_total;
	uint64_t bytes_per_process, bytes_per_user, bytes_total; /* of raw objects */
	uint32_t probes_per_process, probes_per_user, probes_total;
};

struct stash_options {
	const char *directory;	 /* NULL: STASH_DIRECTORY_DEFAULT; made if it is not there */
	uint32_t record_version; /* of files in probes/; 0: the default */
	bool provider_links;	 /* probes/$prv$pid, too */
	struct stash_limits limits;
	/* Takes a line for the operator, without a newline: what was repaired or set aside. NULL: nobody listens. */
	void (*say)(void *ctx, const char *text);
	void *say_ctx;
};

struct stash;

/*
 * Open or make the tree, take the lock, sweep what was cut short, repair what can be and set aside (DIR/stash/aside)
 * what cannot. Errors (explained): -EBUSY: another daemon has it; -EROFS, -EACCES, -ENOSPC ...
 */
MUST_CHECK int stash_open(const struct stash_options *options, struct stash **stash_ret, struct fathom_fault *why);
void stash_close(struct stash *stash);

/* A process as the kernel knows it. */
struct stash_process {
	pid_t pid;
	uid_t uid;
	uint64_t start_time;		  /* field 22 of /proc/PID/stat: a pid that is used again has another */
	uint64_t exec_device, exec_inode; /* of its program: a process that execs has another */
};

struct stash_mapping {
	uint64_t device, inode; /* of the file that the object lies in */
};

/*
 * Register what `input` was parsed into. The same mapping of the same process again, with the same bytes, is counted,
 * not made twice: `*generation_ret` differs, and each is to be removed. A process that is not the one of that pid
 * before (its start time or its program differs) first loses what that had. Errors (explained; nothing is left
 * behind): -EDQUOT: a limit, named; -EEXIST: a probe that another mapping of this process has differently; -ESTALE:
 * the mapping again with other bytes; -ENOSPC, -EROFS ...
 */
MUST_CHECK int stash_add(struct stash *stash, const struct stash_process *process, const struct stash_mapping *mapping,
			 const struct dof_input *input, const struct dof_set *set, uint64_t *generation_ret,
			 struct fathom_fault *why);

/*
 * Large objects are brought here before they are registered, a slice at a time, so that others are served in between:
 * written in order, mapped, and once they are parsed compared with what is there.
 */
enum { STASH_SLICE_BYTES = 256 << 10 };
struct stash_upload;

/* One of `bytes`. -EOPNOTSUPP: the filesystem has no files without names; -ENOMEM, -ENOSPC ... */
MUST_CHECK int stash_upload_begin(struct stash *stash, uint64_t bytes, struct stash_upload **upload_ret);
MUST_CHECK int stash_upload_write(struct stash_upload *upload, uint64_t at, const void *data, size_t bytes);
/* All is written: `*data_ret` is its content until its end. -EIO: it is not; -ENOMEM ... */
MUST_CHECK int stash_upload_map(struct stash_upload *upload, const void **data_ret);
/* Compare a slice with what is there of that block (0, 1) of the mapping. True: call it again. */
bool stash_upload_compare(struct stash_upload *upload, pid_t pid, const struct stash_mapping *mapping, uint32_t block);
/* Registered or not, it is not needed any more. Its content is gone. Before stash_close(). Accepts NULL. */
void stash_upload_end(struct stash_upload *upload);

/*
 * As stash_add(). `uploads`: for each block NULL, or what its data are mapped from, mapped and compared to the end; lent.
 */
MUST_CHECK int stash_add_uploaded(struct stash *stash, const struct stash_process *process,
				  const struct stash_mapping *mapping, const struct dof_input *input,
				  struct stash_upload *const *uploads, const struct dof_set *set, uint64_t *generation_ret,
				  struct fathom_fault *why);

/*
 * What was removed or uploaded in vain, and is large, is given back a slice at a time, one a call. False: there is no more.
 * stash_close() gives back the rest.
 */
bool stash_give_back(struct stash *stash);
bool stash_has_to_give_back(const struct stash *stash);

/* Undo one stash_add(). 0 also if there is no such thing. Errors (explained): of the filesystem. */
MUST_CHECK int stash_remove(struct stash *stash, pid_t pid, uint64_t generation, struct fathom_fault *why);
/*
 * Undo all of a mapping of a process; all of a process that lives on, whose generations are not given again; and all of one
 * that is dead, of which nothing is known then.
 */
MUST_CHECK int stash_remove_mapping(struct stash *stash, pid_t pid, const struct stash_mapping *mapping,
				    struct fathom_fault *why);
MUST_CHECK int stash_clear_process(struct stash *stash, pid_t pid, struct fathom_fault *why);
MUST_CHECK int stash_remove_process(struct stash *stash, pid_t pid, struct fathom_fault *why);

/* ---- what is there ---- */

struct stash_registration {
	struct stash_process process;
	struct stash_mapping mapping;
	uint64_t count;	 /* how often it was added and not removed */
	bool stale;	 /* its files in probes/ are of another record version, or not whole: stash_reparsed() */
	uint32_t probes; /* files */
	uint64_t bytes;	 /* raw */
};

/* Visit them in the order of pids; a visit may remove what it was shown. Non-zero ends the walk, and is returned. */
typedef int (*stash_visit_fn)(void *ctx, const struct stash_registration *registration);
MUST_CHECK int stash_walk(struct stash *stash, stash_visit_fn visit, void *ctx);

/*
 * Likewise the processes, also those all of whose registrations are gone: they stay until stash_remove_process(), for
 * their generations must not be given twice. So, after a start, the ones that are dead are to be found here.
 */
typedef int (*stash_visit_process_fn)(void *ctx, const struct stash_process *process);
MUST_CHECK int stash_walk_processes(struct stash *stash, stash_visit_process_fn visit, void *ctx);

/*
 * The object of a registration, to be parsed again: blocks point into one piece of memory, `*memory_ret`, for free().
 * stash_reparsed() puts what came of it in place, all or nothing, as stash_add() does; of one that is not stale, nothing.
 */
MUST_CHECK int stash_read(struct stash *stash, const struct stash_registration *registration, struct dof_input *input_ret,
			  void **memory_ret, struct fathom_fault *why);
MUST_CHECK int stash_reparsed(struct stash *stash, const struct stash_registration *registration, const struct dof_set *set,
			      struct fathom_fault *why);

struct stash_stats {
	uint64_t processes, registrations, objects, bytes, probes;
	uint64_t added, removed, refused, swept, repaired, set_aside;
};

void stash_get_stats(const struct stash *stash, struct stash_stats *stats);

#endif
