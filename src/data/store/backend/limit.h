/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * limit - how much several files may still allocate together, while others of their file system were promised the rest.
 *
 * The owner reads the free space now and then, and sets what the files may still take. A write that needs new blocks takes
 * its bytes from that first, and ends with IO_NO_SPACE if too few are left. So the files cannot exceed the limit between
 * two readings, however fast they write:
 *
 *   mark = space_limit_mark()     before the reading
 *   free space, promises          the reading
 *   space_limit_set(mark, bytes)  what was taken since the mark counts against `bytes`
 *
 * A write counts once more if it was submitted before the reading and allocates after it: such writes, which are those that
 * are in progress at that moment, are not covered. While much is left, nothing is counted.
 *
 * Which blocks a file lacks is known by system calls only. As long as half of the bytes of a large limit are left, a write
 * can be made without them: it takes all its bytes, and the next reading shows what it has really allocated.
 */
#ifndef STORE_BACKEND_LIMIT_H
#define STORE_BACKEND_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/must.h"

struct space_limit;

/* Whether a file's writes count. */
enum file_limit {
	FILE_LIMIT_NONE, /* no: its space was promised */
	FILE_LIMIT_NEW,	 /* those to blocks that it does not have yet */
	FILE_LIMIT_ALL,	 /* all: its blocks may be shared, and a write then needs new ones */
};

#define SPACE_LIMIT_NONE UINT64_MAX
#define SPACE_LIMIT_LARGE_BYTES (1ull << 30)

/* Control thread. NULL: out of memory. It has no limit yet. Pair: space_limit_unref(). */
struct space_limit *space_limit_create(void);
/* Returns `limit`. */
struct space_limit *space_limit_ref(struct space_limit *limit);
/* Accepts NULL. The last one frees it. */
void space_limit_unref(struct space_limit *limit);

/* Any thread; one at a time. `bytes`: SPACE_LIMIT_NONE: nothing is counted. */
uint64_t space_limit_mark(const struct space_limit *limit);
void space_limit_set(struct space_limit *limit, uint64_t mark, uint64_t bytes);

/* Any thread. */
bool space_limit_is_set(const struct space_limit *limit);
/* False: too few bytes are left, and none are taken. */
MUST_CHECK bool space_limit_take(struct space_limit *limit, uint64_t bytes);
/* The same, but false, too, if the limit is not large, or less than half of it would be left. */
MUST_CHECK bool space_limit_take_of_plenty(struct space_limit *limit, uint64_t bytes);
/* As space_limit_take(), of the bytes for which the file has no blocks yet. May block. */
MUST_CHECK bool space_limit_take_missing(struct space_limit *limit, int fd, uint64_t offset, uint64_t bytes);
/* How often they were false. */
uint64_t space_limit_refusals(const struct space_limit *limit);

#endif
