/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model - compares random I/O on a bdev with bytes in memory.
 *
 * Many I/Os are in progress at a time, each on blocks of its own, with vectors cut at random. Each read is compared byte by
 * byte. Memory around buffers and the vectors must stay unchanged, and the statistics must be exact at the end.
 */
#ifndef TEST_UNIT_STORE_MODEL_H
#define TEST_UNIT_STORE_MODEL_H

#include "rig.h"

struct model_options {
	uint64_t seed;
	uint32_t ops;
	uint32_t depth;		/* at most MODEL_DEPTH_MAX */
	uint32_t blocks_max;	/* blocks of one I/O */
	uint32_t iov_count_max; /* at most MODEL_IOV_MAX */
	uint32_t cut_bytes;	/* vectors are cut at, and buffers aligned to, multiples of this */
	bool no_unmap;
	bool may_abort; /* include resets: I/Os may end with IO_ABORTED, which makes the content of their blocks unknown */
};

enum { MODEL_DEPTH_MAX = 64, MODEL_IOV_MAX = 48 };

/* Run on rig_thread(0). The bdev must be zeroed at first. */
void model_run(const char *name, const struct model_options *options);

#endif
