/* SPDX-License-Identifier: BSD-2-Clause */
/* file - the state that opening (file_open.c) determines for I/O (file.c) and for the close (file_close.c). */
#ifndef STORE_BACKEND_FILE_INTERNAL_H
#define STORE_BACKEND_FILE_INTERNAL_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/reactor/reactor.h"
#include "base/reactor/worker.h"
#include "data/store/backend/backend.h"
#include "data/store/bdev/bdev.h"

struct sums;
struct written;
struct file_bdev;

STAILQ_HEAD(file_queue, file_bdev);

struct file_bdev {
	struct bdev bdev;
	int fd;
	bool direct;	/* O_DIRECT: bypasses the page cache */
	bool can_punch; /* fallocate can punch holes: unmap is supported */
	bool can_zero;	/* try fallocate for zeroes; it may still return EOPNOTSUPP */
	bool block_device;
	bool is_blocking;	   /* each operation would need a pthread: see struct uring_device */
	uint32_t offset_alignment; /* of O_DIRECT, in the file */
	int claim_fd;		   /* see file_open.c */
	dev_t device;		   /* with `inode` the file's identity; of a block device: its own number, */
	ino_t inode;		   /* and 0 */
	/* source of the UUID, see identity.c */
	enum { FILE_IDENTITY_GIVEN, FILE_IDENTITY_DEVICE, FILE_IDENTITY_KEPT, FILE_IDENTITY_MADE } identity;
	atomic_int flush_error;		       /* negative errno: written data may be lost; see file.c */
	atomic_int stop_error;		       /* negative errno: a volume takes no writes any more */
	void (*stopped)(void *ctx, int error); /* NULL: none */
	void *stopped_ctx;
	struct space_limit *limit; /* NULL: none; see file_limit.c */
	int limit_kind;		   /* enum file_limit; atomic */
	struct uring_device io;	   /* its share of the io_uring queue or of the helper pthreads */
	char *filename;
	struct sums *sums;	     /* NULL: it has no checksums */
	struct written *written;     /* NULL: reads are not compared with writes */
	struct uring_device sums_io; /* of the sidecar */
	struct uring_device seek_io; /* of searches for holes, see file_limit.c */
	int former_fd;		     /* of files that another bdev got: keeps its former file open until their close */
	/* under the mutex of file_open.c */
	bool is_entered;
	LIST_ENTRY(file_bdev) in_use;
	/* file_close.c */
	void (*closed)(struct file_bdev *self); /* NULL: it is not being closed */
	STAILQ_ENTRY(file_bdev) in_batch;
	/* of the first file of a batch */
	struct file_queue batch;
	uint32_t batch_count;
	LIST_ENTRY(file_bdev) batches;
	struct worker_job closing;
};

struct file_channel;

/* ---- file.c ---- */

extern const struct bdev_ops file_uring_ops, file_aio_ops, file_volume_ops;

/* It is not registered, or not any more. It blocks if it was not closed: worker thread. */
void file_free(struct file_bdev *self);
/* Start `io` on the data file; `slot`: of sums_data_done(), if there are checksums. As bdev_ops.submit. */
int file_start(struct file_channel *channel, struct bdev_io *io, uint32_t slot);
/* A sync of a volume's file, or of its sidecar, failed: it takes no writes. Any channel's thread; only the first counts. */
void file_note_lost(struct file_bdev *file, int32_t error);

/* ---- file_open.c ---- */

/*
 * Open `self->filename` and fill the fields that depend on it: fd, direct and so on, and the bdev's geometry and alignment.
 * Errors (explained): file_bdev_open()'s. It blocks: worker thread.
 */
MUST_CHECK int file_open(struct file_bdev *self, const struct file_options *options, struct fathom_fault *why);
/* Close all files that are open. It blocks: worker thread. */
void file_close(struct file_bdev *self);
/* `self` has the file of `other` now, and the other way round, as far as it matters to those that open it. */
void file_swap_identity(struct file_bdev *self, struct file_bdev *other);

/* ---- file_close.c ---- */

/* Close all its files on a worker thread, then call `closed`, on the control thread. Control thread. */
void file_close_later(struct file_bdev *self, void (*closed)(struct file_bdev *self));

/* ---- file_limit.c ---- */

/*
 * Take the space that a write to these bytes needs from the file's limit. UNKNOWN: the caller submits an operation with
 * file_count_holes(), and calls file_take_holes() with its result; false: IO_NO_SPACE. I/O threads.
 */
enum file_space { FILE_SPACE_TAKEN, FILE_SPACE_REFUSED, FILE_SPACE_UNKNOWN };
MUST_CHECK enum file_space file_take_space(struct file_bdev *self, uint64_t offset, uint64_t bytes);
/* URING_CALL: the number of the file system's blocks in the range of `op` that have no data. */
int32_t file_count_holes(const struct uring_op *op);
MUST_CHECK bool file_take_holes(struct file_bdev *self, int32_t count);

/* Alignment of an O_DIRECT I/O in memory and in the file, in bytes. Offset 0: O_DIRECT is not supported. */
struct direct_rules {
	uint32_t memory, offset;
};

/* Read them from the kernel; false: it does not report them. */
bool file_direct_rules(int fd, struct direct_rules *rules_ret);

/* ---- identity.c ---- */

#define SYSFS "/sys"

/*
 * Fill `self->bdev.uuid` if it is all zero, and `self->identity`, of a file that is open. May set an attribute of a regular
 * file. `sysfs` is the mount point of sysfs.
 */
void file_identify(struct file_bdev *self, const char *sysfs);

/*
 * The identity that the block device `device`, or the disk of this partition, reports: "source:value", plus ":number" for a
 * partition. Errors: -ENODATA: it reports none; -ENAMETOOLONG.
 */
MUST_CHECK int sysfs_wwid(const char *sysfs, dev_t device, char *text, size_t bytes);

/*
 * Whether the kernel can punch holes in this block device. It uses Write Zeroes, so the device, or the disk of this
 * partition, must have that command.
 */
bool sysfs_punches_holes(const char *sysfs, dev_t device);

/* Read an attribute of a block device as text, without trailing blanks. Returns its length, or negative errno. */
MUST_CHECK ssize_t sysfs_read(const char *sysfs, dev_t device, const char *attribute, char *text, size_t bytes);

#endif
