/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * volume, internal:
 *
 *	volumes.c	open and close; queries
 *	model.c		the copy in memory: pools, volumes, their block devices
 *	queue.c		changes: one at a time, each on a worker thread
 *	changes.c	what each kind of change checks, does and applies; changes_publish.c: of hosts
 *	rename.c	the change of a name; changes_move.c: of the part in a move to another engine
 *	resize.c	the change of a size; properties.c: thick or thin; changes_pool.c: of properties of a pool
 *	changes_snapshot.c	the same for snapshots
 *	changes_clone.c	clones and restored volumes
 *	copy.c, barrier.c, quiesce.c	copies of data, beside the queue
 *	upkeep.c	work on the files of volumes in the background
 *	changed.c	in which ranges two snapshots differ
 *	ledger.c	the space that is promised; space.c: readings of it; usage.c: levels and forecasts
 */
#ifndef DATA_STORE_VOLUME_INTERNAL_H
#define DATA_STORE_VOLUME_INTERNAL_H

#include "base/reactor/worker.h"
#include "data/store/pool/tree.h"
#include "data/store/volume/volumes.h"

TAILQ_HEAD(pool_list, pool);

/* ---- queue.c ---- */

struct change;
struct space_limit;

struct change_kind {
	enum volume_change change;
	/* Control thread: check the change against the copy. -EALREADY: nothing is to do, and the change succeeds. */
	int (*check)(struct change *change, struct fathom_fault *why);
	int (*work)(struct change *change, struct fathom_fault *why); /* worker thread: change the tree */
	/* Control thread, after `work` succeeded. May set `error` and `why` of the change. */
	void (*apply)(struct change *change);
	/* Control thread, after `prepare` or `work` failed; NULL: nothing is to undo. */
	void (*undo)(struct change *change);
	/* Control thread, before `work`: ends with change_prepared(), now or later. NULL: nothing is to prepare. */
	void (*prepare)(struct change *change);
};

struct change {
	struct worker_job job;
	struct volumes *volumes;
	const struct change_kind *kind;
	char pool[POOL_NAME_BYTES_MAX];
	struct pool_record pool_record;	    /* POOL_CREATE, POOL_SET */
	uint32_t pool_properties;	    /* POOL_SET: as of a setting */
	struct volume_record record;	    /* CREATE; DESTROY, RENAME: its name; RESIZE: as it is */
	uint64_t size_bytes;		    /* RESIZE */
	char new_name[POOL_NAME_BYTES_MAX]; /* RENAME */
	struct space_reading *space;	    /* READ_SPACE: made by `work`, freed by `apply` */
	char host[POOL_NQN_BYTES_MAX];	    /* PUBLISH, UNPUBLISH */
	enum volume_move from, to;	    /* MOVE; its hosts are those of `record` until the check */
	uint32_t snapshot_count;	    /* MOVE to OUTGOING */
	bool force;
	bool is_shrunk;	  /* RESIZE: the block device has the new length already */
	int trash_result; /* EMPTY_TRASH: of pool_tree_delete_trash(), set by `work` */
	char snapshot[POOL_NAME_BYTES_MAX];
	struct snapshot_record snapshot_record; /* CLONE, RESTORE: of which */
	struct volume_changed *changed;		/* SNAPSHOT_CHANGES: the caller's, filled by `work` */
	bool is_thick;				/* PROPERTY */
	struct shared_search step;		/* UNSHARE; ALLOCATE: its offset, */
	uint64_t step_bytes;			/* and length */
	bool is_unshared;			/* UNSHARE: the last step */
	struct file_bdev *opened;		/* CREATE, CLONE: the files of the new volume; owned; NULL: */
	struct fathom_fault opened_why;		/* why they cannot be opened */
	struct copy *copy;			/* owned; NULL: it copies nothing */
	bool is_copying;			/* from copy_begin() to copy_end() */
	bool is_ending;				/* its end kind: it runs whatever the state of the storage */
	bool is_reported;			/* `done` was called */
	volumes_done_fn done;
	void *ctx;
	int error;
	struct fathom_fault why;
	uint64_t begin_ns; /* clock_monotonic_ns() */
	uint64_t since_ns; /* the same moment, since 1970 */
	STAILQ_ENTRY(change) link;
};

enum { VOLUME_BUCKETS = 4096 };

struct volumes {
	struct trace_object trace;
	enum storage_state state;
	uint64_t since_ns;
	const struct pool_fs *fs;
	const char *root;
	struct pool_tree *tree; /* of the worker thread while a change runs, else of the control thread; NULL: not open */
	struct pool_list pools;
	LIST_HEAD(, volume) by_uuid[VOLUME_BUCKETS];
	uint32_t pool_count, volume_count, damaged_count, read_only_count;
	uint64_t total_bytes, free_bytes; /* as of the last READ_SPACE */
	STAILQ_HEAD(, change) changes;	  /* that wait */
	uint32_t change_count;
	struct change *running;	   /* on the worker thread; NULL: none */
	TAILQ_HEAD(, copy) copies; /* in progress, until their end kinds have run */
	struct scrub *scrub;	   /* NULL: stopped */
	struct upkeep *upkeep;
	struct usage usage;		/* of the file system */
	volumes_level_fn level_changed; /* NULL: none */
	void *level_ctx;
	struct space_limit *limit; /* of volumes without a promise: see ledger.h */
	bool has_reflinks;	   /* of the file system; read by the open */
	bool is_opening;	   /* the worker thread reads the tree */
	bool has_trash;		   /* removed objects may have files left, which are deleted while no change waits */
	struct pool_trash trash;   /* as after the last change */
	uint64_t trash_since_ns;   /* since then it is not empty; since 1970 */
	bool is_start_sent;	   /* a message that starts the next change is on its way */
	uint64_t changes_done, changes_failed;
	void (*failed)(void *ctx, const struct volume *volume); /* NULL: none */
	void *failed_ctx;
	void (*closed)(void *ctx);
	void *closed_ctx;
};

/* Add a change made by change_create() to the queue. */
void change_submit(struct change *change);
/* Aborts if out of memory, as for a message: a change is small. */
struct change *change_create(struct volumes *volumes, const struct change_kind *kind, volumes_done_fn done, void *ctx);
/* Start the next change, or end a close, by a message: callbacks must not run before the caller returns. */
void queue_wake(struct volumes *volumes);
/* Put a change that runs its end kind at the head of the queue. */
void change_submit_first(struct change *change);
/* Call `done` of a change that has not ended yet. */
void change_report(struct change *change);
/* Go on with the work of a change; or end it with `error`, of which `change->why` has the reason. */
void change_prepared(struct change *change, int error);
/* Fail all changes that wait. */
void changes_fail_waiting(struct volumes *volumes, int error, const char *text);

/* ---- changes.c ---- */

/* Deletes the files of one removed object. It has no caller. */
extern const struct change_kind empty_trash_kind;

/* The object of the change in the copy. NULL: there is none with its name and UUID; `why` says so. */
struct pool *change_find_pool(const struct change *change, struct fathom_fault *why);
struct volume *change_find_volume(const struct change *change, struct fathom_fault *why);
/* The limit of the pool for `bytes` more. With overcommit it limits the thick volumes only. Errors (explained): -ENOSPC. */
MUST_CHECK int change_check_pool_size(const struct pool *pool, const struct volume_record *asked, uint64_t bytes,
				      struct fathom_fault *why);
/* Worker thread, after a new volume of the change is in the tree: open its files, or keep why that fails. */
void change_open_files(struct change *change, const struct volume_record *record);
/* Control thread: the new volume is ONLINE with these files, or ERRORED; then that is the result of the change. */
void change_bring_online(struct change *change, struct volume *volume);
/* A name that is too long becomes an empty one, which no object has and no check accepts. */
void change_copy_name(char to[POOL_NAME_BYTES_MAX], const char *name);
/* A change that is about the object of `key`. Pair: change_submit(). */
struct change *change_of_pool(struct volumes *volumes, const struct change_kind *kind, const struct volume_key *key,
			      volumes_done_fn done, void *ctx);
struct change *change_of_volume(struct volumes *volumes, const struct change_kind *kind, const struct volume_key *key,
				volumes_done_fn done, void *ctx);

/* ---- changes_move.c ---- */

/* -EBUSY (explained): the volume is being moved to or from another engine. */
MUST_CHECK int change_check_still(const struct volume *volume, struct fathom_fault *why);

/* ---- changes_snapshot.c ---- */

/* Errors (explained): -EOPNOTSUPP. */
MUST_CHECK int change_check_reflinks(const struct change *change, struct fathom_fault *why);
/* -ENOTEMPTY: `volume` has snapshots; `why` names them. */
MUST_CHECK int change_fault_snapshots(const struct volume *volume, struct fathom_fault *why);
/* NULL: there is none; `why` says so. */
struct snapshot *change_find_snapshot(const struct change *change, struct fathom_fault *why);

/* ---- volumes.c ---- */

void storage_move(struct volumes *volumes, enum storage_state to);
/* Read what the trash has. No change runs. */
void volumes_note_trash(struct volumes *volumes);
/* End a close that waits for the running change or for a message. */
void volumes_continue_close(struct volumes *volumes);

/* ---- model.c ---- */

/* Copies the record. NULL: out of memory. Any thread, on a list of its own. */
struct pool *model_add_pool(struct pool_list *pools, const struct pool_record *record);
struct volume *model_add_volume(struct pool *pool, const struct volume_record *record);
struct pool *model_find_pool(const struct pool_list *pools, const char *name);
struct volume *model_find_volume(const struct pool *pool, const char *name);
/* Copies the record. NULL: out of memory. Any thread, on a list of its own. */
struct snapshot *model_add_snapshot(struct volume *volume, const struct snapshot_record *record, uint64_t allocated_bytes);
/* Its block device gets the size of its record, which is not smaller. */
void model_grow_device(const struct volume *volume);
/*
 * Open the files of a generation of a volume. It blocks while the disk hangs: worker thread. Errors (explained): those of
 * the files.
 */
MUST_CHECK int model_open_files(const struct volumes *volumes, const char *pool, const struct volume_record *record,
				uint32_t generation, struct file_bdev **opened_ret, struct fathom_fault *why);
/*
 * Give the block device of the volume other files, those of the next generation, in two steps: check them; then, while the
 * I/O of the device is held, exchange them, which takes them. The device grows if `size_bytes` is larger. Errors
 * (explained): -EINVAL; -EROFS (READ_ONLY).
 */
MUST_CHECK int model_check_exchange(const struct volume *volume, struct file_bdev *opened, struct fathom_fault *why);
void model_exchange_file(struct volume *volume, uint64_t size_bytes, struct file_bdev *opened);
/* The volume cannot be used any more: `why` is logged, its block device goes, and writes to it fail from now on. */
void model_fail(struct volumes *volumes, struct volume *volume, const struct fathom_fault *why);
/*
 * Set which writes of the volume count against the limit of the storage; `shares`: its blocks are about to be shared. Call
 * it when its promise, or what it shares, has changed.
 */
void model_set_limit(struct volume *volume, bool shares);

/* The path of the data file; the caller frees it. NULL: out of memory. */
char *model_data_path(const struct volumes *volumes, const struct volume *volume);
/* The same for its file of checksums. */
char *model_sums_path(const struct volumes *volumes, const struct volume *volume);
/* A new volume of `volumes->pools`: volumes_find_uuid() finds it from now on. Before model_bring_online(). */
void model_index_volume(struct volumes *volumes, struct volume *volume);
/* Set `may_share` of clones and of the volumes that they were made of. */
void model_mark_origins(struct volumes *volumes);
void model_remove_snapshot(struct volume *volume, struct snapshot *snapshot);
void model_remove_volume(struct volumes *volumes, struct volume *volume);
/* Its volumes are removed. */
void model_remove_pool(struct volumes *volumes, struct pool *pool);
/* The volumes are about to be freed: their devices, which stay, report nothing any more. */
void model_forget_devices(struct volumes *volumes);
/* Free a list that was never registered, or whose block devices are gone. */
void model_free(struct pool_list *pools);
/*
 * Register the block device of a new volume with its `opened` files: it is ONLINE, or ERRORED with the reason, which is
 * logged. It is ERRORED also if `volume->why` has an error already.
 */
void model_bring_online(struct volumes *volumes, struct volume *volume);
/*
 * Claim its block device for the running change, so that nothing begins to use it; undo that. Errors (explained): -EBUSY: a
 * namespace or another block device uses it.
 */
MUST_CHECK int model_hold(struct volume *volume, struct fathom_fault *why);
void model_release(struct volume *volume);
/*
 * Keep the name that its block device gets by `new_name` free for the running change, then give it the name, or undo the
 * first step. Errors (explained): -EEXIST.
 */
MUST_CHECK int model_reserve_name(struct volume *volume, const char *new_name, struct fathom_fault *why);
void model_drop_name(struct volume *volume);
void model_rename(struct volumes *volumes, struct volume *volume, const char *new_name);

#endif
