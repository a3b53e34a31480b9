/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tricky - a backend that does what backends may: says -EAGAIN, completes now or later and in any order, fails, and stops
 * the test if the core gives it what its limits forbid.
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
	uint32_t types;		  /* bit per enum io_type that it supports */
	uint32_t refuse_percent;  /* -EAGAIN */
	uint32_t inline_percent;  /* complete inside submit */
	bool zeroes_refused_late; /* IO_UNSUPPORTED for write zeroes, which it said it supports */
	bool write_cache, read_only;
};

#define TRICKY_ALL (BIT(IO_TYPE_RESET + 1) - 1)
#define TRICKY_LEAST (BIT(IO_TYPE_READ) | BIT(IO_TYPE_WRITE) | BIT(IO_TYPE_FLUSH))

struct tricky {
	struct bdev bdev;
	struct tricky_options options;
	struct random random;
	uint8_t *memory;
	uint32_t submits;	  /* that it did not refuse */
	uint32_t fail_at;	  /* the n-th of these fails (from 1) ... */
	enum io_status fail_with; /* ... with this; 0 never */
	int refuse_next;	  /* so many submissions are refused, whatever the chance */
	bool hold;		  /* complete nothing */
	uint32_t held;		  /* how many */
	uint32_t *destroyed;	  /* counted up */
	const struct bdev_io *last;
};

/* "t", 100 blocks of 512 bytes, does everything at once. */
extern const struct tricky_options tricky_plain;

/* Registered; it goes with the bdev. */
struct tricky *tricky_create(const struct tricky_options *options);

/* Created, opened, and with a channel on rig_thread(0). */
struct tricky *tricky_open(const struct tricky_options *options, struct bdev_desc **desc_ret,
			   struct bdev_channel **channel_ret);
/* Put and close them, and wait until the bdev `name` is gone; it need not be a tricky one. */
void tricky_close(struct bdev_desc *desc, struct bdev_channel *channel, const char *name);

#endif
