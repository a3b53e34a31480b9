/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * snapshots - images of volumes: taken at one instant while hosts use the volumes (barrier.h), removed, restored, cloned.
 *
 * An image shares its blocks with its volume until the volume's are written again. So it needs a file system with
 * reflinks; on others the calls that make one fail with -EOPNOTSUPP. What the volume writes afterwards needs new blocks.
 * So the space that it occupies is promised once more before the first snapshot, unless it is thin in a pool with
 * overcommit.
 *
 * A copy takes long. Changes of the volumes that take part in it wait; those of other volumes go on. All functions are
 * called on the control thread; callbacks, repeated calls and errors are as for other changes (volumes.h).
 */
#ifndef DATA_STORE_VOLUME_SNAPSHOTS_H
#define DATA_STORE_VOLUME_SNAPSHOTS_H

#include "data/store/pool/changed.h"
#include "data/store/volume/volumes.h"

enum { SNAPSHOTS_MAX = 256 /* of a volume */ };

struct snapshot {
	struct snapshot_record record;
	uint64_t allocated_bytes; /* shared ones included */
	TAILQ_ENTRY(snapshot) link;
};

/* One of a group. Strings are borrowed. A UUID of zero: of the volume, any; of the snapshot, a random one. */
struct snapshot_request {
	struct volume_key key;
	const char *name;
	uint8_t uuid[POOL_UUID_BYTES];
	/*
	 * The volume is INCOMING, and its files have the data of a snapshot of the volume that is copied. NULL: it is a new
	 * snapshot, of a volume in no move. Of `copied` count the size, the time and the group; borrowed for the call.
	 */
	const struct snapshot_record *copied;
};

/* A copy in progress. */
struct copy_info {
	const char *pool, *volume; /* of its first volume */
	enum volume_change change;
	uint64_t since_ns; /* since 1970 */
	uint64_t bytes, bytes_copied;
};

/* NULL: there is none. */
struct snapshot *volumes_find_snapshot(const struct volume *volume, const char *name);
/* The path of its data file, or with `sums` of its sidecar; the caller frees it. NULL: out of memory. */
char *volumes_snapshot_path(const struct volumes *volumes, const struct volume *volume, const struct snapshot *snapshot,
			    bool sums);
/* The copy in which the volume takes part. False: none. */
bool volumes_get_copy(const struct volumes *volumes, const struct volume *volume, struct copy_info *info_ret);

/*
 * Take `count` snapshots of different volumes, 1 to 64, of one instant: all or none. Errors: -EEXIST (with other values, or
 * one of them only), -EINVAL (name, a volume twice, count), -ENOENT, -EIO (a volume is ERRORED), -ENOSPC, -EDQUOT (the
 * volume has SNAPSHOTS_MAX), -EOPNOTSUPP, -ETIMEDOUT (the device hangs), -EBUSY (a volume is being moved).
 */
void volumes_snapshot(struct volumes *volumes, const struct snapshot_request *requests, uint32_t count,
		      volumes_done_fn done, void *ctx);
/* Errors: -ENOENT, -EBUSY (the volume is being moved). */
void volumes_destroy_snapshot(struct volumes *volumes, const struct volume_key *key, const char *snapshot,
			      volumes_done_fn done, void *ctx);
/*
 * Make a volume of a snapshot, in the same pool. Of `clone` count the name, the UUID, `thick` and `read_only`: one that is
 * only read is promised no space. Errors: -ENOENT, -EEXIST
 * (a volume of this name that is no clone of the snapshot), -EINVAL (name), -ENOSPC, -EOPNOTSUPP.
 */
void volumes_clone(struct volumes *volumes, const struct volume_key *key, const char *snapshot,
		   const struct volume_record *clone, volumes_done_fn done, void *ctx);
/*
 * Give a volume the content and the size of its snapshot. Hosts see a smaller size before the content changes.
 * Errors: -ENOENT, -EBUSY (its block device is used, and `force` is not set), -EIO (ERRORED), -EROFS (only read), -ENOSPC,
 * -EOPNOTSUPP, -ETIMEDOUT (its I/O hangs).
 */
void volumes_restore(struct volumes *volumes, const struct volume_key *key, const char *snapshot, bool force,
		     volumes_done_fn done, void *ctx);

/* ---- changed.c: in which ranges two snapshots differ ---- */

/* One part of the list, and what was asked. */
struct volume_changed {
	const char *snapshot; /* the newer one; "": the volume as it is now, with all that was written before the call */
	const char *from;     /* the older one; "": none, so that the data of the newer one are listed */
	uint64_t offset;      /* where the part begins; a multiple of the block size */
	/* the answer */
	uint8_t uuid[POOL_UUID_BYTES], from_uuid[POOL_UUID_BYTES]; /* of the snapshots; zero: none */
	uint64_t size_bytes, from_bytes;			   /* their sizes */
	uint32_t block_bytes;
	uint64_t next_offset; /* of the next part; size_bytes: this is the last */
	uint32_t ranges_max, count;
	struct changed_range ranges[];
};

/* Room for `ranges_max` ranges; 0: as many as possible. Pair: volume_changed_free(). */
struct volume_changed *volume_changed_create(uint32_t ranges_max);
void volume_changed_free(struct volume_changed *changed);
/*
 * Fill the answer: all ranges in which the two differ, and maybe more (data/store/pool/changed.h). Repeat with next_offset
 * for the next part. `changed` and its texts are lent until `done`. Errors: -ENOENT, -EINVAL (offset), -EIO (ERRORED),
 * -EOPNOTSUPP (the file system has no maps).
 */
void volumes_read_changed(struct volumes *volumes, const struct volume_key *key, struct volume_changed *changed,
			  volumes_done_fn done, void *ctx);

#endif
