/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * volumes - the pools and volumes of an engine: a copy in memory of what its storage holds, and each volume as a block
 * device named "POOL/VOLUME".
 *
 * The tree on disk (data/store/pool/tree.h) is the truth. A change runs in three steps: checked against the copy on the
 * control thread, done on disk on a worker thread, then applied to the copy and to the block devices on the control thread.
 * Changes run one at a time in the order of the calls, so the copy and the disk differ by at most the running change.
 *
 * A storage that does not respond delays changes only: queries read the copy, and the I/O of volumes does not pass here.
 * All functions are called on the control thread, and do not block: the worker thread of a change also opens the files of
 * the volume. Callbacks run there too, never before the call returns.
 */
#ifndef DATA_STORE_VOLUME_VOLUMES_H
#define DATA_STORE_VOLUME_VOLUMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/fault.h"
#include "base/must.h"
#include "data/store/bdev/bdev.h"
#include "data/store/pool/record.h"
#include "data/store/pool/tree.h"
#include "data/store/volume/states.gen.h" /* enum storage_state, enum volume_change ... */
#include "data/store/volume/usage.h"
#include "fathom/trace/trace.h"

struct file_bdev;
struct pool_fs;
struct volumes;

struct snapshot;
struct space_limit;

/* Of a volume with checksums: see scrub.h. */
struct volume_scrub {
	bool is_listed;
	uint64_t clean_ns, check_ns; /* the next ones; clock_monotonic_ns() */
	uint64_t next_check;	     /* region */
	bool has_unread;	     /* since the check began with region 0, a read of a suspect one has failed */
	bool is_wanted;		     /* all blocks are read, from next_block on */
	uint64_t next_block;
	uint64_t begun_ns, ended_ns; /* since 1970; of the last complete scrub; 0: none */
	uint64_t failed_reads;	     /* of this scrub, or the last one */
	uint64_t due_ns;	     /* of the next one; clock_monotonic_ns() */
	TAILQ_ENTRY(volume) link;
};

/* Of the background work on its files: see upkeep.h. */
struct volume_upkeep {
	bool is_listed;
	uint64_t due_ns;     /* of the next step; clock_monotonic_ns() */
	uint64_t next;	     /* allocation: all blocks before it are allocated */
	uint64_t step_bytes; /* allocation: of the next step */
	struct shared_search search;
	uint64_t wait_ms, last_wait_ms; /* the last one, if the last step failed; of the last search that found something */
	struct fathom_fault why;	/* why the last step failed; error 0: it did not */
	TAILQ_ENTRY(volume) link;
};

struct volume {
	struct trace_object trace;
	enum volume_state state;
	uint64_t since_ns; /* of `state`; since 1970 */
	struct volumes *volumes;
	struct pool *pool;
	struct volume_record record;
	struct fathom_fault why;	  /* ERRORED, READ_ONLY: the reason */
	uint64_t allocated_bytes;	  /* as of the last volumes_read_space(); shared blocks included */
	bool is_indexed;		  /* is in `by_uuid` of its storage */
	bool is_held;			  /* a running change has claimed its block device */
	TAILQ_HEAD(, snapshot) snapshots; /* in no order; see snapshots.h */
	uint32_t snapshot_count;
	bool may_share; /* another volume, a clone, may have blocks in common with it */
	char device[BDEV_NAME_BYTES_MAX];
	struct file_bdev *opened; /* its files, until it is ONLINE */
	struct volume_scrub scrub;
	struct volume_upkeep upkeep;
	LIST_ENTRY(volume) by_uuid;
	TAILQ_ENTRY(volume) link;
};

struct pool {
	struct pool_record record;
	struct fathom_fault why;      /* error 0: it is usable; else it is ERRORED: only its name is known */
	TAILQ_HEAD(, volume) volumes; /* in no order */
	uint32_t volume_count;
	struct usage usage; /* what its volumes have, of what they can get; as of the last volumes_read_space() */
	TAILQ_ENTRY(pool) link;
};

/* `why`: NULL if it succeeded; else valid during the call only. */
typedef void (*volumes_done_fn)(void *ctx, const struct fathom_fault *why);

struct volumes_info {
	enum storage_state state;
	uint64_t since_ns; /* of `state`; since 1970 */
	uint32_t pools, volumes, damaged, read_only;
	uint32_t changes_waiting, copies;
	bool has_reflinks; /* the file system: without, there are no snapshots */
	bool is_changing;
	enum volume_change change; /* if is_changing: the running one, */
	uint64_t change_since_ns;  /* and when it began; since 1970 */
	uint64_t changes_done, changes_failed;
	uint64_t total_bytes, free_bytes; /* of the file system, and of it what can be promised; as of the last reading */
	uint64_t space_refusals; /* writes of volumes without a promise that would have used what was promised to others */
	uint64_t trash_objects, trash_bytes; /* removed volumes and pools whose files are not deleted yet */
	uint64_t trash_undeletable;	     /* of them; they stay until the next start */
	uint64_t trash_since_ns;	     /* since then the trash is not empty; since 1970; 0: it is */
};

/*
 * Open the storage in the folder `root` and register its volumes as block devices. Calls `done` when all of them are there;
 * a damaged volume is logged and listed as ERRORED, and the others are served. After an error of `done` the caller closes.
 * `fs`, `root`: lent until volumes_close() has ended. Errors of this call: -ENOMEM, -EAGAIN (no thread).
 */
MUST_CHECK int volumes_open(const struct pool_fs *fs, const char *root, volumes_done_fn done, void *ctx,
			    struct volumes **volumes_ret);
/*
 * Fail the waiting changes, let the running one end, remove the marks of volumes with checksums (scrub.h), then free
 * everything and call `closed`. The block devices of volumes
 * stay registered; the caller unregisters them then. Also after a failed open.
 */
void volumes_close(struct volumes *volumes, void (*closed)(void *ctx), void *ctx);

/* Call `failed` when a volume in use becomes READ_ONLY or ERRORED, and, with NULL, when the storage becomes FAILED. */
void volumes_on_failure(struct volumes *volumes, void (*failed)(void *ctx, const struct volume *volume), void *ctx);

/* Whether hosts can read it. */
static inline bool volume_is_served(const struct volume *volume)
{
	return volume->state == VOLUME_ONLINE || volume->state == VOLUME_READ_ONLY;
}

void volumes_get_info(const struct volumes *volumes, struct volumes_info *info_ret);
struct pool *volumes_first_pool(const struct volumes *volumes);
/* NULL: there is none. */
struct pool *volumes_find_pool(const struct volumes *volumes, const char *name);
struct volume *volumes_find(const struct volumes *volumes, const char *pool, const char *name);
/* By its UUID, which is not zero. */
struct volume *volumes_find_uuid(const struct volumes *volumes, const uint8_t uuid[POOL_UUID_BYTES]);

/*
 * ---- changes ----
 *
 * Records are copied. A repeated call succeeds if its values are those of the existing object, so a caller may repeat a
 * call whose result was lost. Errors of `done`, beside those of the storage (-EIO, -ENOSPC ...): -EROFS (the storage
 * FAILED), -ESHUTDOWN (it is being closed), -ENOMEM, and what is stated.
 */

/*
 * Which pool or volume a change is about: names, borrowed for the call, and UUIDs. An object of this name with another UUID
 * is not the one: -ENOENT. A UUID of zero fits any. A volume whose record cannot be read has no UUID, and fits any.
 */
struct volume_key {
	const char *pool, *volume; /* `volume` is unused in calls about a pool */
	uint8_t pool_uuid[POOL_UUID_BYTES], uuid[POOL_UUID_BYTES];
};

/* A uuid or time of zero: generated. Errors: -EEXIST (with other values), -EINVAL (name). */
void volumes_create_pool(struct volumes *volumes, const struct pool_record *pool, volumes_done_fn done, void *ctx);
/* The properties of a pool that can be set; the numbers are those of store.proto. */
enum {
	POOL_PROPERTY_SIZE = 1,
	POOL_PROPERTY_OVERCOMMIT = 2,
	POOL_PROPERTY_SCRUB = 4,
	POOL_PROPERTY_SCRUB_SECONDS = 8,
};
struct pool_setting {
	struct pool_record values;
	uint32_t properties; /* POOL_PROPERTY_SIZE ...: the others stay; 0: all are set */
	bool force;	     /* also a size that is less than its volumes have */
};
/*
 * Set properties of the pool. Errors: -ENOENT, -EIO (ERRORED), -ENOSPC (its volumes have more than the new size; or, to end
 * overcommit, more is promised than there is), -EBUSY (another overcommit, while a volume is being moved to the pool).
 */
void volumes_set_pool(struct volumes *volumes, const struct volume_key *key, const struct pool_setting *setting,
		      volumes_done_fn done, void *ctx);
/* Destroy an empty pool, or with `force` any whose volumes are not in use. Errors: -ENOTEMPTY, -EBUSY, -ENOENT. */
void volumes_destroy_pool(struct volumes *volumes, const struct volume_key *key, bool force, volumes_done_fn done,
			  void *ctx);
/*
 * Create a volume in the pool of `key`, and its block device. In `volume`, a uuid and a time of zero are generated, a block
 * size of zero is 4096; `move` is NONE or INCOMING. Errors: -EEXIST (with other values), -EINVAL (name, size, block size),
 * -ENOENT (the pool), -ENOSPC (the pool's size, or too much is promised to others), -EFBIG (larger than a file can be).
 */
void volumes_create(struct volumes *volumes, const struct volume_key *key, const struct volume_record *volume,
		    volumes_done_fn done, void *ctx);
/*
 * Without `force` only a volume that no host may use and whose block device is not claimed. With it, namespaces on the
 * volume are removed, and their hosts get an event. The files are deleted later: see trash_objects. Errors: -EBUSY,
 * -ENOENT.
 */
void volumes_destroy(struct volumes *volumes, const struct volume_key *key, bool force, volumes_done_fn done, void *ctx);
/*
 * Change the size, also while hosts use it; they get an event. Smaller only with `force`, and never below the end of the
 * data that were written. I/O to the volume waits a moment then. Errors: -EINVAL (smaller without force,
 * not a multiple of the block size), -EBUSY (it has data beyond the size), -EIO (ERRORED), -ENOENT, -ENOSPC.
 */
void volumes_resize(struct volumes *volumes, const struct volume_key *key, uint64_t size_bytes, bool force,
		    volumes_done_fn done, void *ctx);
/*
 * Rename a volume within its pool, also while hosts use it: its data, UUID and namespaces stay, its block device has the
 * new name. A repeated call succeeds if `key` has the UUID. Errors: -ENOENT, -EEXIST (a volume or another block device has
 * the name), -EINVAL (name).
 */
void volumes_rename(struct volumes *volumes, const struct volume_key *key, const char *new_name, volumes_done_fn done,
		    void *ctx);

/*
 * Make a volume thick or thin, also while hosts use it. A thick one is promised its space before `done`; its blocks are
 * allocated afterwards, in the background: record.allocating, upkeep.next. A thin one keeps the blocks that it has. Errors:
 * -ENOENT, -ENOSPC (the pool's size, or too much is promised to others), -EIO (ERRORED), -EROFS (only read), -EBUSY (it is
 * being moved).
 */
void volumes_set_thick(struct volumes *volumes, const struct volume_key *key, bool thick, volumes_done_fn done, void *ctx);

/*
 * Read from the storage what the volumes occupy and what can still be promised. Waits for the changes before it. After an
 * error the values are those of the last reading.
 */
void volumes_read_space(struct volumes *volumes, volumes_done_fn done, void *ctx);

/*
 * Call `changed` when a reading finds that the level of a pool, or of the storage (`pool` NULL), has changed; `before`: the
 * former level. It must not call functions of this header that change something.
 */
typedef void (*volumes_level_fn)(void *ctx, const struct pool *pool, const struct usage *usage, enum space_level before);
void volumes_on_level(struct volumes *volumes, volumes_level_fn changed, void *ctx);
/* Of the file system: what is allocated, of all. */
const struct usage *volumes_usage(const struct volumes *volumes);
/* Whether there may be volumes without a promise: readings should be frequent then, because each sets their limit. */
bool volumes_has_unpromised(const struct volumes *volumes);

/* ---- changes_publish.c: the hosts that may use a volume ---- */

/* Errors: -EINVAL (NQN), -EIO (ERRORED), -ENOENT, -ENOSPC (POOL_VOLUME_HOSTS_MAX). */
void volumes_publish(struct volumes *volumes, const struct volume_key *key, const char *host_nqn, volumes_done_fn done,
		     void *ctx);
/* Succeeds if the host may not use it. Errors: -EIO (ERRORED, and its record cannot be read), -ENOENT. */
void volumes_unpublish(struct volumes *volumes, const struct volume_key *key, const char *host_nqn, volumes_done_fn done,
		       void *ctx);
/* ---- scrub.c: volumes with checksums ---- */

/*
 * Read all blocks of the volume at the rate of volumes_set_scrub_rate(), from the first one on; false: it is not ONLINE, or
 * has no checksums. Each volume is scrubbed without a call, too: SCRUB_FIRST_SEC after the start, then weekly, or as its
 * pool says.
 */
bool volumes_start_scrub(struct volume *volume);
void volumes_stop_scrub(struct volume *volume);
/* Bytes of each second, of all volumes together. 0: none is scrubbed now. */
void volumes_set_scrub_rate(struct volumes *volumes, uint64_t bytes_per_sec);
uint64_t volumes_get_scrub_rate(const struct volumes *volumes);

/* ---- changes_move.c: a volume that is copied to another engine ---- */

/*
 * Change the part of the volume in a move, durably: NONE -> OUTGOING (it is about to be another engine's), OUTGOING -> NONE
 * (it stays here), INCOMING -> NONE (its copy is complete: it gets `host_count` hosts). Succeeds if it is `to` already.
 * Errors: -EINVAL (it is neither `from` nor `to`), -EIO (ERRORED), -ENOENT, -ESTALE (OUTGOING: it has another number of
 * snapshots than `snapshot_count`, because one was taken meanwhile). Its snapshots stay with it.
 */
struct volume_moving {
	enum volume_move from, to;
	const struct volume_host *hosts; /* borrowed for the call */
	uint32_t host_count;
	uint32_t snapshot_count; /* to OUTGOING: those that were copied */
};
void volumes_move(struct volumes *volumes, const struct volume_key *key, const struct volume_moving *moving,
		  volumes_done_fn done, void *ctx);
/* Whether the running change is about the volume. */
bool volumes_is_changing(const struct volumes *volumes, const struct volume *volume);
/* The path of the data file of a volume that is ONLINE; the caller frees it. NULL: out of memory. */
char *volumes_data_path(const struct volumes *volumes, const struct volume *volume);
/* The same of its sidecar; it has checksums. */
char *volumes_sums_path(const struct volumes *volumes, const struct volume *volume);
/* What writes to that file have to take from, borrowed: data/store/backend/limit.h. NULL: its space was promised. */
struct space_limit *volumes_space_limit(const struct volumes *volumes, const struct volume *volume);

/* Whether the host may use the volume. */
bool volume_has_host(const struct volume *volume, const char *nqn);

#endif
