/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stash - registered probes as a tree of files that survives its daemon and that DTrace's tools read:
 * docs/formats/stash.md.
 *
 *   DIR/stash/dof/$dev-$ino                     the raw object, once for all processes that map the file
 *   DIR/stash/dof-pid/$pid/$dev-$ino/           a registration of a process: raw (a link), dh, parsed/
 *   DIR/probes/$pid/$prv$pid/$mod/$fun/$prb     records that consumers read
 *
 * A name appears by rename or link, when its content is complete. A registration is in the tree whole or not at all, also
 * after kill -9 at any instant: stash_open() undoes interrupted operations. All state is in the tree; memory has an
 * index of processes, mappings and counts.
 *
 * One thread. One stash per directory, held by a lock file. Functions block as long as the filesystem does.
 */
#ifndef PROBED_STASH_STASH_H
#define PROBED_STASH_STASH_H

#include <sys/types.h>

#include "inspect/probed/dof/dof.h"

#define STASH_DIRECTORY_DEFAULT "/run/dtrace"

enum { STASH_RECORD_VERSION_MIN = 1, STASH_RECORD_VERSION_MAX = 3, STASH_RECORD_VERSION_DEFAULT = 3 };

/* 0: the default; fathom-probed(8) lists them. */
struct stash_limits {
	uint32_t objects_per_process, objects_per_user, objects_total;
	uint64_t bytes_per_process, bytes_per_user, bytes_total; /* of raw objects */
	uint32_t probes_per_process, probes_per_user, probes_total;
};

struct stash_options {
	const char *directory;	 /* NULL: STASH_DIRECTORY_DEFAULT; made if it does not exist */
	uint32_t record_version; /* of files in probes/; 0: the default */
	bool provider_links;	 /* also make probes/$prv$pid */
	struct stash_limits limits;
	/* Logs a line without a newline: damage that was found, and its treatment. NULL: no log. */
	void (*log)(void *ctx, const char *text);
	void *log_ctx;
};

struct stash;

/*
 * Open or make the tree, take the lock, and sweep. Probes that are damaged are removed, and their registrations are `stale`
 * until they are parsed again. Damaged entries that parsing cannot restore are moved to DIR/stash/aside. Errors
 * (explained): -EBUSY: another daemon has the directory; -EROFS, -EACCES, -ENOSPC ...
 */
MUST_CHECK int stash_open(const struct stash_options *options, struct stash **stash_ret, struct fathom_fault *why);
void stash_close(struct stash *stash);

/* A process as the kernel knows it. */
struct stash_process {
	pid_t pid;
	uid_t uid;
	uint64_t start_time;		  /* field 22 of /proc/PID/stat: a reused pid has another start time */
	uint64_t exec_device, exec_inode; /* of its program: exec changes them */
};

struct stash_mapping {
	uint64_t device, inode; /* of the file that contains the object */
};

struct stash_upload;

/* A registration to add. All is borrowed. */
struct stash_addition {
	const struct stash_process *process;
	const struct stash_mapping *mapping;
	const struct dof_input *input;
	const struct dof_set *set; /* `input`, parsed */
	/* NULL, or an upload for each block or NULL: mapped, compared to the end, and the block's data */
	struct stash_upload *const *uploads;
};

/*
 * Add a registration. The same mapping of the same process with the same bytes is counted, not made twice: each addition
 * has its own generation, and each must be removed. If the start time or program of the pid has changed, the old
 * registrations of that pid are removed first. Errors (explained; nothing is left behind): -EDQUOT: over a limit, which the
 * text names; -EEXIST: another mapping of this process has one of the probes, and it differs; -ESTALE: the mapping is
 * registered with other bytes; -ENOSPC, -EROFS ...
 */
MUST_CHECK int stash_add(struct stash *stash, const struct stash_addition *addition, uint64_t *generation_ret,
			 struct fathom_fault *why);

/*
 * Large objects are uploaded before they are registered, in slices, so that the caller can serve others in between. An
 * upload is written in order, mapped, parsed, and compared with the object that the tree has.
 */
enum { STASH_SLICE_BYTES = 256 << 10 };

/* Begin an upload of `bytes`. -EOPNOTSUPP: the filesystem has no unnamed files; -ENOMEM, -ENOSPC ... */
MUST_CHECK int stash_upload_begin(struct stash *stash, uint64_t bytes, struct stash_upload **upload_ret);
MUST_CHECK int stash_upload_write(struct stash_upload *upload, uint64_t at, const void *data, size_t bytes);
/* Map the whole upload; `*data_ret` is valid until stash_upload_end(). -EIO: not all of it was written; -ENOMEM ... */
MUST_CHECK int stash_upload_map(struct stash_upload *upload, const void **data_ret);
/* Compare a slice with the tree's object for that block (0, 1) of the mapping. True: call it again for the next slice. */
bool stash_upload_compare(struct stash_upload *upload, pid_t pid, const struct stash_mapping *mapping, uint32_t block);
/* End an upload, registered or not; its mapping becomes invalid. Call it before stash_close(). Accepts NULL. */
void stash_upload_end(struct stash_upload *upload);

/*
 * Free one slice of the large files that were removed or not registered. False: none is left. stash_close() frees the rest.
 */
bool stash_free_slice(struct stash *stash);
bool stash_has_slices_to_free(const struct stash *stash);

/* Undo one stash_add(). 0 also if the generation does not exist. Errors (explained): of the filesystem. */
MUST_CHECK int stash_remove(struct stash *stash, pid_t pid, uint64_t generation, struct fathom_fault *why);
/*
 * Remove a registered mapping with all its generations; all mappings of a live process, whose generations are not reused;
 * and all of a dead process, with its generations.
 */
MUST_CHECK int stash_remove_mapping(struct stash *stash, pid_t pid, const struct stash_mapping *mapping,
				    struct fathom_fault *why);
MUST_CHECK int stash_clear_process(struct stash *stash, pid_t pid, struct fathom_fault *why);
MUST_CHECK int stash_remove_process(struct stash *stash, pid_t pid, struct fathom_fault *why);

/* ---- reading the tree ---- */

struct stash_registration {
	struct stash_process process;
	struct stash_mapping mapping;
	uint64_t count;	 /* additions that were not removed */
	bool stale;	 /* it has no probes until stash_reparsed(): they were of another record version, or damaged */
	uint32_t probes; /* files */
	uint64_t bytes;	 /* raw */
};

/*
 * Visit all registrations in the order of pids. A visit may remove its registration. Non-zero ends the walk, and is
 * returned.
 */
typedef int (*stash_visit_fn)(void *ctx, const struct stash_registration *registration);
MUST_CHECK int stash_walk(struct stash *stash, stash_visit_fn visit, void *ctx);

/*
 * Visit all processes, also those without registrations: a process stays until stash_remove_process(), because its
 * generations must not be reused. After a start, the caller finds and removes dead ones here.
 */
typedef int (*stash_visit_process_fn)(void *ctx, const struct stash_process *process);
MUST_CHECK int stash_walk_processes(struct stash *stash, stash_visit_process_fn visit, void *ctx);

/*
 * Read the object of a registration, to parse it again. Blocks point into `*memory_ret`, which the caller frees with
 * free(). stash_reparsed() writes the probes of a stale registration, all or nothing, as stash_add() does; else it does
 * nothing.
 */
MUST_CHECK int stash_read(struct stash *stash, const struct stash_registration *registration, struct dof_input *input_ret,
			  void **memory_ret, struct fathom_fault *why);
MUST_CHECK int stash_reparsed(struct stash *stash, const struct stash_registration *registration, const struct dof_set *set,
			      struct fathom_fault *why);

struct stash_stats {
	uint64_t processes, registrations, objects, bytes, probes;
	/* repaired: registrations with damaged probes, and generation counters that were lost */
	uint64_t added, removed, refused, swept, repaired, set_aside;
};

void stash_get_stats(const struct stash *stash, struct stash_stats *stats);

#endif
