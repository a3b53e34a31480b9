/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * backend - the implementations of block devices: null (no storage), malloc (memory), file (files and the kernel's block
 * devices).
 *
 * Each has a function that creates a bdev from its options and registers it; backend_delete() removes any of them. All on
 * the control thread. describe_config() of struct bdev_ops (data/store/bdev/bdev.h) returns the options of an existing one.
 */
#ifndef STORE_BACKEND_BACKEND_H
#define STORE_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"

struct bdev;

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
	uint8_t uuid[16];
};

/*
 * Errors (explained): as null_create(); open()'s errors (-ENOENT, -EACCES, -EROFS, -EMFILE ...); -ENOTBLK: neither a file
 * nor a block device; -EINVAL also: the block size is smaller than the block device's own, or the size is less than a
 * block; -EBUSY: another bdev or another process uses it (several may share it if all are read-only); -ESTALE: the file was
 * replaced during the open.
 */
MUST_CHECK int file_create(const struct file_options *options, struct fathom_fault *why);
/* The open file of `bdev`, of FILE_KIND_VOLUME, has another path: show that. Aborts if out of memory. */
void file_set_path(struct bdev *bdev, const char *filename);

/*
 * After a failed sync a volume takes no writes any more: writes and unmaps end with IO_READ_ONLY, flushes with an error,
 * and `stopped(ctx, error)` is called once, on the control thread. NULL: it is not called.
 */
void file_on_stop(struct bdev *bdev, void (*stopped)(void *ctx, int error), void *ctx);
/* Do the same now, but for the call. `error`: negative errno. */
void file_stop_writes(struct bdev *bdev, int error);

/*
 * Give `bdev`, of a volume, another file, in two steps: prepare() opens and checks `filename`, which is at least as long as
 * the device; exchange() cannot fail, and no I/O of `bdev` is in progress then. exchange() and abandon() take the
 * replacement; abandon() accepts NULL. Errors (explained): those of file_create(). Aborts if out of memory.
 */
struct file_replacement;
MUST_CHECK int file_replacement_prepare(struct bdev *bdev, const char *filename, struct file_replacement **replacement_ret,
					struct fathom_fault *why);
void file_replacement_exchange(struct bdev *bdev, struct file_replacement *replacement);
void file_replacement_abandon(struct file_replacement *replacement);

/*
 * Remove the bdev `name` if it is of `kind` (bdev_ops.kind: "null", "malloc", "uring", "aio"; NULL: any). Calls `done(ctx)`
 * after removal, possibly before this returns: see bdev_unregister(). Errors: -ENODEV (none, or of another kind), -EBUSY.
 */
MUST_CHECK int backend_delete(const char *name, const char *kind, void (*done)(void *ctx), void *ctx);

#endif
