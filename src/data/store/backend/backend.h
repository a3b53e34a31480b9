/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * backend - what block devices are made of: nothing (null), memory (malloc), files and the kernel's block devices (file).
 *
 * Each has a function that makes one from its options and registers it; backend_delete() takes any of them away. All on the
 * control thread. What they are made of can be asked back: struct bdev_ops in data/store/bdev/bdev.h, describe_config().
 */
#ifndef STORE_BACKEND_BACKEND_H
#define STORE_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"

/*
 * In all options: `uuid` of zeroes: a new one is made; for a file the one that belongs to it, see identity.c. Strings are
 * borrowed.
 */

/*
 * Swallows what is written, and reads as zeroes: the layers above, alone. It leaves no buffer as it was, for the buffer may
 * hold somebody else's data; who wants to save the filling reads into bdev_zeroes(), which `reads_zeroes` in struct bdev
 * permits.
 */
struct null_options {
	const char *name;
	uint64_t block_count;
	uint32_t block_bytes;	       /* 0: 512 */
	uint32_t physical_block_bytes; /* 0: block_bytes */
	uint8_t uuid[16];
};

/* Errors (explained): -EINVAL, -EEXIST, -ENOMEM, as bdev_register(). */
MUST_CHECK int null_create(const struct null_options *options, struct fault *why);

/* Memory of this process; taken from the kernel as it is written, in huge pages where that helps. */
struct malloc_options {
	const char *name;
	uint64_t block_count;
	uint32_t block_bytes;	       /* 0: 512 */
	uint32_t physical_block_bytes; /* 0: block_bytes */
	uint32_t boundary_blocks;      /* 0: none */
	uint8_t uuid[16];
};

/* Errors (explained): as null_create(); -ENOMEM also if the address space is not there. */
MUST_CHECK int malloc_create(const struct malloc_options *options, struct fault *why);

/*
 * A regular file or a block device, through io_uring where the kernel permits it and helper pthreads where not, past the
 * page cache where the filesystem permits it. The two kinds do the same under the names and with the parameters of two
 * RPCs.
 */
struct file_options {
	const char *name;
	const char *filename;
	enum { FILE_KIND_URING, FILE_KIND_AIO } kind;
	uint32_t block_bytes; /* 0: the device's, or for a file the least that O_DIRECT can do there */
	bool read_only;
	bool no_fallocate; /* unmap is not supported, and zeroes are written out */
	bool no_direct;	   /* through the page cache, also where it could be gone past */
	uint8_t uuid[16];
};

/*
 * Errors (explained): as null_create(); what open() says (-ENOENT, -EACCES, -EROFS, -EMFILE ...); -ENOTBLK: neither a file
 * nor a block device; -EINVAL also: the block size is smaller than the block device's own, or the size is less than a
 * block; -EBUSY: another bdev or another process has it. Several may, if all of them only read.
 */
MUST_CHECK int file_create(const struct file_options *options, struct fault *why);

/*
 * Take away the bdev `name` if it is of `kind` (bdev_ops.kind: "null", "malloc", "uring", "aio"; NULL: any). `done(ctx)`
 * when it is gone, perhaps before this returns: see bdev_unregister(). Errors: -ENODEV (no such, or of another kind),
 * -EBUSY.
 */
MUST_CHECK int backend_delete(const char *name, const char *kind, void (*done)(void *ctx), void *ctx);

#endif
