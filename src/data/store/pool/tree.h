/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tree - pools, volumes and snapshots as folders and files on an engine's storage.
 *
 *     pools/POOL/pool.json
 *     pools/POOL/volumes/VOLUME/volume.json
 *                               data.N                         the generation N that volume.json states
 *                               sums.N                         its checksums (sums.h), if it has some
 *                               snapshots/SNAPSHOT/snapshot.json
 *                                                  data
 *                                                  sums
 *     pending/UUID           an object that is being built. Open removes it.
 *     commit/UUID/POOL:VOLUME:SNAPSHOT/
 *                            complete snapshots of one instant on the way to their volumes. Open moves the rest.
 *     trash/UUID             an object that was removed. Its files are deleted later, also after a restart.
 *
 * The tree is the truth: no other file or database says what exists. An object is built in pending and synced, then
 * appears by one rename, and both folders are synced. So after a crash each change is there completely or not at all, and
 * after a function has returned 0 its change is durable. A record is replaced in the same way.
 *
 * The data file of a volume may be longer than volume.json says, after a crash while its size changed; open cuts it. A file
 * that is shorter, or a record that is damaged, is reported, and the object is not used.
 *
 * If a folder cannot be synced after a rename, the state on disk is unknown. Then the tree is failed: it refuses changes
 * until it is opened again.
 *
 * Writer: one process, which holds a lock on the root folder. All functions block for as long as the device does and are
 * called by one thread at a time. Not here: the I/O of volumes, and what may be promised (ledger.h).
 */
#ifndef DATA_STORE_POOL_TREE_H
#define DATA_STORE_POOL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "data/store/pool/fs.h"
#include "data/store/pool/record.h"

enum { POOL_PATH_BYTES_MAX = 512, SNAPSHOT_GROUP_MAX = 64 };

struct pool_tree;

/* What open finds. Records are borrowed. A pool comes before its volumes, a volume before its snapshots. */
struct pool_tree_visitor {
	void *ctx;
	void (*pool)(void *ctx, const struct pool_record *pool);
	/* `allocated_bytes`: of the data file, shared blocks included */
	void (*volume)(void *ctx, const struct pool_record *pool, const struct volume_record *volume,
		       uint64_t allocated_bytes);
	void (*snapshot)(void *ctx, const struct pool_record *pool, const struct volume_record *volume,
			 const struct snapshot_record *snapshot, uint64_t allocated_bytes);
	/* The object at `path` (below the root) cannot be used; nothing below it is visited. */
	void (*damaged)(void *ctx, const char *path, const struct fathom_fault *why);
};

/*
 * Open the tree at the folder `root`, and create its folders if it has none. Finishes or undoes what a crash interrupted.
 * Errors (explained): -EBUSY (another process has it open), -ENOENT, -EACCES, -EROFS, -EIO, -ENOSPC, -ENOMEM ...
 */
MUST_CHECK int pool_tree_open(const struct pool_fs *fs, const char *root, const struct pool_tree_visitor *visitor,
			      struct pool_tree **tree_ret, struct fathom_fault *why);
/* Accepts NULL. */
void pool_tree_close(struct pool_tree *tree);

/* Whether a sync failed after a rename: see above. */
bool pool_tree_is_failed(const struct pool_tree *tree);

/* Bytes of the file system, and how many of them can still be used. */
MUST_CHECK int pool_tree_space(struct pool_tree *tree, uint64_t *total_ret, uint64_t *free_ret, struct fathom_fault *why);

/* Whether files of its file system can share blocks. False also if that cannot be tried. Writes temporary files. */
bool pool_tree_has_reflinks(struct pool_tree *tree);

/* What the trash has. `undeletable`: of the objects; they stay until the next open. */
struct pool_trash {
	uint64_t objects, bytes, undeletable;
};

void pool_tree_get_trash(const struct pool_tree *tree, struct pool_trash *trash_ret);
/*
 * Delete the files of one object of the trash. Returns 1: deleted; 2: one cannot be deleted (explained), and stays
 * until the next open; 0 if no other is left; or negative errno (explained): the trash cannot be read.
 */
MUST_CHECK int pool_tree_delete_trash(struct pool_tree *tree, struct fathom_fault *why);

/*
 * ---- pools ----
 *
 * Errors of all functions below (explained): -EROFS (the tree is failed), those of the file system (-EIO, -ENOSPC ...),
 * -ENOMEM, and what is stated. After an error nothing has changed, unless the tree is failed.
 */

/* Errors: -EEXIST, -EINVAL (name). */
MUST_CHECK int pool_create(struct pool_tree *tree, const struct pool_record *pool, struct fathom_fault *why);
/* Replace the record. Errors: -ENOENT. */
MUST_CHECK int pool_update(struct pool_tree *tree, const struct pool_record *pool, struct fathom_fault *why);
/* Move the pool with all its volumes to the trash. Errors: -ENOENT. */
MUST_CHECK int pool_remove(struct pool_tree *tree, const char *pool, struct fathom_fault *why);

/* ---- volumes ---- */

/* Errors: -EEXIST, -EINVAL (name), -ENOENT (pool); -ENOSPC also if a thick volume does not fit. */
MUST_CHECK int volume_create(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
			     struct fathom_fault *why);
/* Replace the record; size, block size and generation are as before. Errors: -ENOENT. */
MUST_CHECK int volume_update(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
			     struct fathom_fault *why);
/* Errors: -ENOENT, -EEXIST, -EINVAL (name). */
MUST_CHECK int volume_rename(struct pool_tree *tree, const char *pool, const char *from, const char *to,
			     struct fathom_fault *why);
/*
 * Change the size from volume->size_bytes to `size_bytes`. A smaller size discards the data beyond it. New blocks read as
 * zeroes. Errors: -ENOENT; -ENOSPC also if a thick volume does not fit.
 */
MUST_CHECK int volume_resize(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
			     uint64_t size_bytes, struct fathom_fault *why);
/* Move the volume with its snapshots to the trash. Its open data file stays usable. Errors: -ENOENT. */
MUST_CHECK int volume_remove(struct pool_tree *tree, const char *pool, const char *volume, struct fathom_fault *why);

/* Bytes that the data file occupies, shared ones included. Errors: -ENOENT. */
MUST_CHECK int volume_allocated(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
				uint64_t *bytes_ret, struct fathom_fault *why);
/* The end of the last data at `from` or behind it; `from` if nothing was written there. Errors: -ENOENT. */
MUST_CHECK int volume_data_end(struct pool_tree *tree, const char *pool, const struct volume_record *volume, uint64_t from,
			       uint64_t *end_ret, struct fathom_fault *why);
/* Open the data file with `flags` of open(2). Errors: -ENOENT. */
MUST_CHECK int volume_open_data(struct pool_tree *tree, const char *pool, const struct volume_record *volume, int flags,
				int *fd_ret, struct fathom_fault *why);

/* The same for the file of checksums. */
MUST_CHECK int volume_open_sums(struct pool_tree *tree, const char *pool, const struct volume_record *volume, int flags,
				int *fd_ret, struct fathom_fault *why);

/*
 * ---- upkeep: what is done in the background, in short steps, while hosts use the volume ----
 *
 * Each step may be repeated. The record says what is left: `allocating`, `shares`. So a crash between two steps loses
 * nothing but time.
 */

/* Allocate the holes of a part of the data file; not durable before volume_end_allocation(). Errors: -ENOENT, -ENOSPC. */
MUST_CHECK int volume_allocate(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
			       uint64_t offset, uint64_t bytes, struct fathom_fault *why);
/* All of the data file is allocated: do the same with the checksums, sync, and store a record that is not `allocating`. */
MUST_CHECK int volume_end_allocation(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
				     struct fathom_fault *why);

enum { SHARED_SEARCH_EXTENTS = 4096 /* of a step */ };
struct shared_search {
	uint64_t offset; /* where the next step begins; 0 first */
	uint64_t data_offset;
	bool has_data;	  /* at data_offset */
	bool is_shared;	  /* another file has blocks of the data file: the search has ended */
	bool is_complete; /* the end of the file was reached */
};
/* Search the next extents of the data file for shared blocks. Errors: -ENOENT, -EOPNOTSUPP (no maps). */
MUST_CHECK int volume_find_shared(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
				  struct shared_search *search, struct fathom_fault *why);
enum { UNSHARE_BYTES = 4096 };
/*
 * The data file shares nothing: let the file system forget that it did (it hands each write to a file with this mark to a
 * thread), sync, and store a record that does not say `shares`. `data_offset`: of a block with data, if there is one.
 */
MUST_CHECK int volume_unshare(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
			      uint64_t data_offset, struct fathom_fault *why);

/*
 * ---- data that are copied before the object appears: clones and restored volumes ----
 *
 * begin() creates the empty data file; the caller clones or writes into `fd`; then commit() or abandon().
 */
struct volume_build {
	int fd;		      /* of the data file, as long as the volume will be */
	int sums_fd;	      /* of its checksums; -1: it has none */
	uint64_t deadline_ns; /* the caller's: see volume_restore_commit(); 0: none */
	/* private */
	int folder;
	char name[POOL_UUID_TEXT_BYTES];
};

/* A new volume. Errors of both as volume_create(). commit() takes the build also if it fails. */
MUST_CHECK int volume_build_begin(struct pool_tree *tree, const struct volume_record *volume,
				  struct volume_build *build_ret, struct fathom_fault *why);
MUST_CHECK int volume_build_commit(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
				   struct volume_build *build, struct fathom_fault *why);
void volume_build_abandon(struct pool_tree *tree, struct volume_build *build);

/*
 * The next generation of an existing volume: `volume` is its record now, `size_bytes` its size afterwards. Errors: -ENOENT.
 *
 * After commit() the generation is volume->generation + 1, and both data files are there. Then either close() deletes the
 * former one, which stays usable if it is open, or revert() makes the record as before and deletes the new one.
 *
 * commit() changes nothing after `deadline_ns` of the build (clock_monotonic_ns()): -ETIMEDOUT. If it fails it takes the
 * build; *is_unknown_ret: a sync failed after the record was replaced, so it is not known which generation the disk has.
 * After a failed revert() that is not known either.
 */
MUST_CHECK int volume_restore_begin(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
				    uint64_t size_bytes, struct volume_build *build_ret, struct fathom_fault *why);
MUST_CHECK int volume_restore_commit(struct pool_tree *tree, const struct volume_record *volume, uint64_t size_bytes,
				     struct volume_build *build, bool *is_unknown_ret, struct fathom_fault *why);
void volume_restore_close(struct pool_tree *tree, const struct volume_record *volume, struct volume_build *build);
MUST_CHECK int volume_restore_revert(struct pool_tree *tree, const struct volume_record *volume, struct volume_build *build,
				     struct fathom_fault *why);
void volume_restore_abandon(struct pool_tree *tree, const struct volume_record *volume, struct volume_build *build);

/*
 * ---- snapshots ----
 *
 * One group is one instant: 1 to SNAPSHOT_GROUP_MAX snapshots of different volumes. begin() creates an empty data file for
 * each; the caller clones the volumes into them; after commit() all of them exist, or after an error none.
 */
struct snapshot_member {
	const char *pool, *volume; /* borrowed until commit or abandon */
	struct snapshot_record record;
	int fd;	     /* set by begin: the empty data file, of the snapshot's size */
	int sums_fd; /* set by begin: the empty file of checksums; -1: it has none */
	/* private */
	int folder;
};

struct snapshot_group {
	struct snapshot_member *members; /* the caller's */
	size_t count;
	/* private */
	int folder;
	char name[POOL_UUID_TEXT_BYTES];
};

/* Errors: -EEXIST (a snapshot), -ENOENT (a volume), -EINVAL (name). */
MUST_CHECK int snapshot_group_begin(struct pool_tree *tree, struct snapshot_group *group, struct fathom_fault *why);
/* Takes what begin made, also if it fails. Errors: -EEXIST, -ENOENT. */
MUST_CHECK int snapshot_group_commit(struct pool_tree *tree, struct snapshot_group *group, struct fathom_fault *why);
void snapshot_group_abandon(struct pool_tree *tree, struct snapshot_group *group);

/* Move the snapshot to the trash. Errors: -ENOENT. */
MUST_CHECK int snapshot_remove(struct pool_tree *tree, const char *pool, const char *volume, const char *snapshot,
			       struct fathom_fault *why);
/* Open its data file, or its file of checksums, for reading. Errors: -ENOENT. */
MUST_CHECK int snapshot_open_data(struct pool_tree *tree, const char *pool, const char *volume, const char *snapshot,
				  int *fd_ret, struct fathom_fault *why);
MUST_CHECK int snapshot_open_sums(struct pool_tree *tree, const char *pool, const char *volume, const char *snapshot,
				  int *fd_ret, struct fathom_fault *why);

#endif
