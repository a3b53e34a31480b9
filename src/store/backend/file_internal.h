/* SPDX-License-Identifier: BSD-2-Clause */
/* file - what opening (file_open.c) finds out for I/O (file.c). */
#ifndef STORE_BACKEND_FILE_INTERNAL_H
#define STORE_BACKEND_FILE_INTERNAL_H

#include <sys/types.h>

#include "store/backend/backend.h"
#include "store/bdev/bdev.h"

struct file_bdev {
	struct bdev bdev;
	int fd;
	bool direct;	/* O_DIRECT: past the page cache */
	bool can_punch; /* holes: unmap */
	bool can_zero;	/* fallocate may be asked for zeroes; it may refuse still */
	bool block_device;
	uint32_t offset_alignment; /* of O_DIRECT, in the file */
	int claim_fd;		   /* see file_open.c */
	dev_t device;		   /* which file, by whatever name; a block device: its number, */
	ino_t inode;		   /* and 0 */
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

#endif
