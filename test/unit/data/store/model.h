/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model - random I/O against a bdev and against bytes in memory, which must agree.
 *
 * Many I/Os are under way at a time, none on a block that another is on, with vectors that are cut anywhere. Each read is
 * checked byte by byte; memory around buffers must stay as it was, vectors come back as they were, and the statistics are
 * exact at the end.
 */
#ifndef TEST_UNIT_STORE_MODEL_H
#define TEST_UNIT_STORE_MODEL_H

#include "rig.h"

struct model_options {
	uint64_t seed;
	uint32_t ops;
	uint32_t depth;		/* at most MODEL_DEPTH_MAX */
	uint32_t blocks_max;	/* of one I/O */
	uint32_t iov_count_max; /* at most MODEL_IOV_MAX */
	uint32_t cut_bytes;	/* vectors are cut at multiples of this; buffers begin at multiples too */
	bool no_unmap;
	bool may_abort; /* resets are among the operations: IO_ABORTED is expected, and its blocks are unknown then */
};

enum { MODEL_DEPTH_MAX = 64, MODEL_IOV_MAX = 48 };

/* Runs on rig_thread(0). The bdev's blocks are zeroes at first. */
void model_run(const char *name, const struct model_options *options);

#endif
