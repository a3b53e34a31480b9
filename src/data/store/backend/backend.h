/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * backend - the implementations of block devices: null (no storage), malloc (memory), file (files and the kernel's block
 * devices).
 *
 * null and malloc have a function that creates a bdev from its options and registers it; file has two, as opening blocks.
 * backend_delete() removes any of them. All on the control thread, but for the opening. describe_config() of struct
 * bdev_ops (data/store/bdev/bdev.h) returns the options of an existing one.
 */
#ifndef STORE_BACKEND_BACKEND_H
#define STORE_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "data/store/backend/limit.h"

struct bdev;
struct bdev_io;

/*
 * In all options: `uuid` all zero: generate one; for a file, use the file's own, see identity.c. Strings are borrowed.
 */

/*
 * Discards writes and reads as zeroes, to measure the layers above. A read always fills its buffer, because the old data
 * may belong to another host. A caller that wants to save the filling reads into bdev_zeroes(), as `reads_zeroes` in struct
 * bdev permits.
 */
struct null_options {
	const char *name;
	uint64_t block_count;
	uint32_t block_bytes;	       /* 0: 512 */
	uint32_t physical_block_bytes; /* 0: block_bytes */
	uint8_t uuid[16];
};

/* Errors (explained): -EINVAL, -EEXIST, -ENOMEM, as bdev_register(). */
MUST_CHECK int null_create(const struct null_options *options, struct fathom_fault *why);

/* Memory of this process; the kernel allocates it at the first write, in huge pages if the device is large enough. */
struct malloc_options {
	const char *name;
	uint64_t block_count;
	uint32_t block_bytes;	       /* 0: 512 */
	uint32_t physical_block_bytes; /* 0: block_bytes */
	uint32_t boundary_blocks;      /* 0: none */
	uint8_t uuid[16];
};

/* Errors (explained): as null_create(); -ENOMEM also if there is not enough address space. */
MUST_CHECK int malloc_create(const struct malloc_options *options, struct fathom_fault *why);

/*
 * A regular file or a block device. I/O goes through io_uring if the kernel permits it, else through helper pthreads; it
 * bypasses the page cache if the filesystem permits that. The two kinds work alike; they differ in the names and parameters
 * of their RPCs.
 */
struct file_options {
	const char *name;
	const char *filename;
	/* VOLUME: of data/store/volume; save_config does not contain it */
	enum { FILE_KIND_URING, FILE_KIND_AIO, FILE_KIND_VOLUME } kind;
	uint32_t block_bytes; /* 0: the device's, or for a file the smallest that O_DIRECT supports there */
	bool read_only;
	bool no_fallocate; /* unmap is not supported, and zeroes are written */
	bool no_direct;	   /* use the page cache even if O_DIRECT works */
	/* of VOLUME with blocks of 4096 bytes: the sidecar with the checksums; NULL: none. See data/store/pool/sums.h */
	const char *sums_filename;
	uint8_t uuid[16];
};

struct file_bdev;

/*
 * The first step: open the files. It blocks while their disk hangs, so it is for a worker thread. Any thread. Errors
 * (explained): as null_create(); open()'s errors (-ENOENT, -EACCES, -EROFS, -EMFILE ...); -ENOTBLK: neither a file nor a
 * block device; -EINVAL also: the block size is smaller than the block device's own, or the size is less than a block;
 * -EBUSY: another bdev or another process uses it (several may share it if all are read-only); -ESTALE: the file was
 * replaced during the open.
 */
MUST_CHECK int file_bdev_open(const struct file_options *options, struct file_bdev **file_ret, struct fathom_fault *why);
/* Instead of the second step: a worker thread closes them; bdev_wait_gone() waits for that. Accepts NULL. */
void file_bdev_abandon(struct file_bdev *file);
/*
 * The second step, which takes the files. `limit`: of writes, if file_set_limit() says so; NULL: none; the bdev gets a
 * reference. Errors (explained): as null_create(); the files are abandoned then.
 */
MUST_CHECK int file_bdev_register(struct file_bdev *file, struct space_limit *limit, struct fathom_fault *why);
/* The open file of `bdev`, of FILE_KIND_VOLUME, has another path: show that. Aborts if out of memory. */
void file_set_path(struct bdev *bdev, const char *filename);

/*
 * After a failed sync a volume takes no writes any more: writes and unmaps end with IO_READ_ONLY, flushes with an error,
 * and `stopped(ctx, error)` is called once, on the control thread. NULL: it is not called.
 */
void file_on_stop(struct bdev *bdev, void (*stopped)(void *ctx, int error), void *ctx);
/* Do the same now, but for the call. `error`: negative errno. */
void file_stop_writes(struct bdev *bdev, int error);
/* Which writes of `bdev`, of FILE_KIND_VOLUME, count against the limit of its options: none until this call. */
void file_set_limit(struct bdev *bdev, enum file_limit kind);

/*
 * ---- the files of a volume ----
 *
 * The same steps. file_volume_exchange(), too, takes the files.
 */

/* `options`: of FILE_KIND_VOLUME, with a UUID. */
MUST_CHECK int file_volume_open(const struct file_options *options, struct file_bdev **file_ret, struct fathom_fault *why);
void file_volume_abandon(struct file_bdev *file);
MUST_CHECK int file_volume_register(struct file_bdev *file, struct space_limit *limit, struct fathom_fault *why);
/*
 * Whether `bdev`, of a volume, can get these files instead of its own. Errors (explained): -EINVAL: not, they are shorter
 * ...; -EMFILE.
 */
MUST_CHECK int file_volume_check(const struct bdev *bdev, struct file_bdev *file, struct fathom_fault *why);
/* After the check. No I/O of `bdev` is in progress. The former files are abandoned. */
void file_volume_exchange(struct bdev *bdev, struct file_bdev *file);

/*
 * ---- volumes with checksums; control thread ----
 *
 * A block that does not fit its checksum fails the read with IO_MEDIA_ERROR and is counted as a mismatch, unless its region
 * is suspect: after a crash its data and checksums may be of different writes (docs/decisions/017-checksums.md).
 */
enum { FILE_MISMATCHES_MAX = 64 };

struct file_sums_info {
	uint64_t regions; /* of 16 MiB each */
	uint64_t marked;  /* written since their last clean: suspect after a crash */
	uint64_t suspect;
	uint64_t mismatches; /* blocks that reads found, since the start */
	uint32_t pending;    /* of them, for file_take_mismatches() */
	uint64_t adopted;    /* blocks of suspect regions whose checksum was replaced */
	int sync_error;	     /* not 0: the sidecar cannot be synced */
};

/* The others need one that has. */
bool file_has_sums(const struct bdev *bdev);
void file_get_sums(const struct bdev *bdev, struct file_sums_info *info_ret);
/* Take the blocks of mismatches since the last call, not more than FILE_MISMATCHES_MAX. Returns their number. */
uint32_t file_take_mismatches(struct bdev *bdev, uint64_t blocks_ret[FILE_MISMATCHES_MAX]);

/*
 * Remove the marks of regions that were not written since the last call, or of `all` that are not written now: the caller
 * submits `io`, a flush, if this is true, and calls file_sums_end_clean() when it has ended. The next flush makes it
 * durable.
 */
bool file_sums_begin_clean(struct bdev *bdev, const struct bdev_io *io, bool all);
void file_sums_end_clean(struct bdev *bdev);

/* The bits of the suspect regions, as a sidecar begins with them. The caller frees them. NULL: out of memory. */
MUST_CHECK uint8_t *file_sums_copy_suspect(const struct bdev *bdev, uint64_t *bytes_ret);
/* The first suspect region at `region` or behind it; UINT64_MAX: none. */
uint64_t file_sums_next_suspect(const struct bdev *bdev, uint64_t region);
uint64_t file_sums_region_blocks(void);
/*
 * Check a suspect region: between the two calls the caller reads all of it, and reads replace checksums that do not fit.
 * `is_whole`: all reads succeeded. `failures`: of begin. One check at a time.
 */
uint64_t file_sums_begin_check(struct bdev *bdev, uint64_t region);
void file_sums_end_check(struct bdev *bdev, uint64_t failures, bool is_whole);
/* The files are longer now; before bdev_grow(). */
void file_sums_grow(struct bdev *bdev, uint64_t block_count);

/*
 * ---- checks of what was written ----
 *
 * The engine can keep checksums of the last blocks of 4096 bytes that were written to each file, in memory, and compare
 * reads with them (written.h). A read that differs fails with IO_MEDIA_ERROR.
 */
struct file_written_info {
	uint64_t blocks;     /* that are kept at most */
	uint64_t recorded;   /* blocks that writes have added, since the start, as are the others */
	uint64_t checked;    /* blocks of reads that were compared */
	uint64_t mismatches; /* of them, those that differed */
	uint32_t pending;    /* for file_take_changed() */
};

/* Files that are opened from now on keep so many blocks; 0: none, as at the start. Before the first file is opened. */
void file_keep_written(uint32_t blocks);
/* Whether `bdev`, of any kind, does that. The others need one that does. Control thread. */
bool file_keeps_written(const struct bdev *bdev);
void file_get_written(const struct bdev *bdev, struct file_written_info *info_ret);
/* Take the LBAs of blocks that differed since the last call, not more than FILE_MISMATCHES_MAX. Returns their number. */
uint32_t file_take_changed(struct bdev *bdev, uint64_t blocks_ret[FILE_MISMATCHES_MAX]);
/* The content of the file may have changed without a write of `bdev`. */
void file_forget_written(struct bdev *bdev);

/*
 * Remove the bdev `name` if it is of `kind` (bdev_ops.kind: "null", "malloc", "uring", "aio"; NULL: any). Calls `done(ctx)`
 * after removal, possibly before this returns: see bdev_unregister(). Errors: -ENODEV (none, or of another kind), -EBUSY.
 */
MUST_CHECK int backend_delete(const char *name, const char *kind, void (*done)(void *ctx), void *ctx);

#endif
