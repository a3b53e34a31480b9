/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tricky - a backend that uses all that its contract allows: returns -EAGAIN, completes now or later and in any order,
 * fails. It ends the test if the core violates its limits.
 */
#ifndef TEST_UNIT_STORE_TRICKY_H
#define TEST_UNIT_STORE_TRICKY_H

#include "rig.h"

struct tricky_options {
	const char *name;
	uint64_t seed;
	uint64_t block_count;
	uint32_t block_bytes;
	uint32_t io_blocks_max, iov_count_max, boundary_blocks, buffer_alignment;
	uint32_t types;		  /* supported types: a bit per enum io_type */
	uint32_t refuse_percent;  /* -EAGAIN */
	uint32_t inline_percent;  /* complete inside submit */
	bool zeroes_refused_late; /* IO_UNSUPPORTED for write zeroes, although reported as supported */
	bool write_cache, read_only;
};

#define TRICKY_ALL (BIT(IO_TYPE_RESET + 1) - 1)
#define TRICKY_LEAST (BIT(IO_TYPE_READ) | BIT(IO_TYPE_WRITE) | BIT(IO_TYPE_FLUSH))

struct tricky {
	struct bdev bdev;
	struct tricky_options options;
	struct random random;
	uint8_t *memory;
	uint32_t submits;	  /* accepted submissions */
	uint32_t fail_at;	  /* the n-th accepted submission fails, from 1 */
	enum io_status fail_with; /* its status; 0: none fails */
	int refuse_next;	  /* number of next submissions to refuse */
	bool hold;		  /* complete nothing */
	uint32_t held;		  /* number of held I/Os */
	uint32_t *destroyed;	  /* incremented at destruction */
	const struct bdev_io *last;
};

/* "t", 100 blocks of 512 bytes, completes all I/O inside submit. */
extern const struct tricky_options tricky_plain;

/* Create and register; freed with the bdev. */
struct tricky *tricky_create(const struct tricky_options *options);

/* Create, open, and get a channel on rig_thread(0). */
struct tricky *tricky_open(const struct tricky_options *options, struct bdev_desc **desc_ret,
			   struct bdev_channel **channel_ret);
/* Put the channel, close the descriptor, delete the bdev `name` and wait until it is gone. Works for any bdev. */
void tricky_close(struct bdev_desc *desc, struct bdev_channel *channel, const char *name);

#endif
