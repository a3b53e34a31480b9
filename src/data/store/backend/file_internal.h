/* SPDX-License-Identifier: BSD-2-Clause */
/* file - what opening (file_open.c) finds out for I/O (file.c). */
#ifndef STORE_BACKEND_FILE_INTERNAL_H
#define STORE_BACKEND_FILE_INTERNAL_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/bdev/bdev.h"

struct file_bdev {
	struct bdev bdev;
	int fd;
	bool direct;	/* O_DIRECT: past the page cache */
	bool can_punch; /* holes: unmap */
	bool can_zero;	/* fallocate may be asked for zeroes; it may refuse still */
	bool block_device;
	bool is_blocking;	   /* each operation would need a pthread: see struct uring_device */
	uint32_t offset_alignment; /* of O_DIRECT, in the file */
	int claim_fd;		   /* see file_open.c */
	dev_t device;		   /* which file, by whatever name; a block device: its number, */
	ino_t inode;		   /* and 0 */
	/* where the UUID comes from, see identity.c */
	enum { FILE_IDENTITY_GIVEN, FILE_IDENTITY_DEVICE, FILE_IDENTITY_KEPT, FILE_IDENTITY_MADE } identity;
	atomic_int flush_error; /* negative errno: written data may be lost; see file.c */
	struct uring_device io; /* its share of what does file I/O */
	char filename[];
};

/*
 * Open `self->filename` and fill what depends on it: fd, direct and so on, and the bdev's geometry and alignment.
 * Errors (explained): file_create()'s.
 */
MUST_CHECK int file_open(struct file_bdev *self, const struct file_options *options, struct fault *why);
void file_close(struct file_bdev *self);

/* Where O_DIRECT may begin, in bytes. Offset 0: not at all. */
struct direct_rules {
	uint32_t memory, offset;
};

/* What the kernel says of them; false: nothing. */
bool file_direct_rules(int fd, struct direct_rules *rules_ret);

/* ---- identity.c ---- */

#define SYSFS "/sys"

/*
 * Fill `self->bdev.uuid` if it is all zero, and `self->identity`, of a file that is open. A file may be given an attribute.
 * `sysfs` is where that is mounted.
 */
void file_identify(struct file_bdev *self, const char *sysfs);

/*
 * What the block device `device`, or the disk that it is a part of, says that it is: "source:value", and ":number" of a
 * partition. Errors: -ENODATA: nothing; -ENAMETOOLONG.
 */
MUST_CHECK int sysfs_wwid(const char *sysfs, dev_t device, char *text, size_t bytes);

/*
 * Does the kernel punch holes in this block device? It does so by Write Zeroes, and refuses where the device, or the disk
 * that it is a part of, has no such command.
 */
bool sysfs_punches_holes(const char *sysfs, dev_t device);

/* An attribute of a block device as text, without the blanks at its end. Its length, or negative errno. */
MUST_CHECK ssize_t sysfs_read(const char *sysfs, dev_t device, const char *attribute, char *text, size_t bytes);

#endif
