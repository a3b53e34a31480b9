/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - what recording and packing share: the source's tables, and one file being written. */
#ifndef INSPECT_RECORD_INTERNAL_H
#define INSPECT_RECORD_INTERNAL_H

#include <limits.h>
#include <stddef.h>

#include "base/bits.h"
#include "base/must.h"
#include "inspect/record/record.h"
#include "fathom/trace/format.h"

enum {
	RINGS_MAX = TRACE_THREADS_MAX * TRACE_RINGS_PER_THREAD,
	CHUNK_RECORDS = 1 << 14,
	PAGE_BYTES = 4096,
	TABLES_PIECE_BYTES = 256 * 1024,
};

/* A live program's file, checked as far as we use it. */
struct source {
	const uint8_t *map;
	uint64_t bytes;
	int fd;
	int32_t pid;
	const struct trace_header *header;
	const struct trace_section *threads; /* in our copy of the header's table */
	const struct trace_process *process;
	struct trace_section sections[TRACE_SECTIONS_MAX];
	uint32_t section_count;
	uint32_t ring_count;
	const struct trace_ring *rings[RINGS_MAX]; /* thread i's rings at i * TRACE_RINGS_PER_THREAD ...; NULL: none */
};

/*
 * A file being written: the source's tables at their places, and behind them room for each ring, which is not filled until
 * there are records (the file has holes).
 */
struct segment {
	int fd; /* -1: none */
	char path[PATH_MAX], packed_path[PATH_MAX];
	uint64_t tables_bytes;			    /* the rings begin here */
	uint64_t ring_entries;			    /* room of each */
	uint64_t count[RINGS_MAX], lost[RINGS_MAX]; /* records taken, and missed */
	uint32_t tables_section;		    /* the tables' next piece: of this section, */
	uint64_t tables_at;			    /* from this byte of it on */
	bool path_is_own;			    /* there is a file at `path`, which is this one */
	bool force;				    /* what has packed_path is replaced */
	uint64_t first[RINGS_MAX];		    /* of the records taken, those from this on are still there */
};

MUST_CHECK int record_source_open(struct source *source, const char *path, struct fault *why);
void record_source_close(struct source *source);
/*
 * Copy up to CHUNK_RECORDS of what ring `i` has from `*next` up to `head`, and move `*next` behind it. `*records_ret`:
 * within `chunk`, as many as are returned; `*lost_ret` were overwritten before, or meanwhile.
 */
uint64_t record_source_take(const struct source *source, uint32_t i, uint64_t head, uint64_t *next,
			    struct trace_record *chunk, const struct trace_record **records_ret, uint64_t *lost_ret);
/* The oldest position of ring `i` that is whole now. */
uint64_t record_source_oldest(const struct source *source, uint32_t i);
/* Whether its program is gone: then its rings do not grow any more. */
bool record_source_is_gone(const struct source *source);
/* How long to sleep, in us, after a turn in which the fullest ring had `fill` per cent to be taken; it was `sleep_us`. */
uint64_t record_source_pace(uint64_t fill, uint64_t sleep_us);

/*
 * Make `path`, without its tables; `ring_entries` a power of two. Errors (explained): -EEXIST: there is such a file, and
 * not `force`; ...
 */
MUST_CHECK int segment_open(struct segment *segment, const struct source *source, const char *path, uint64_t ring_entries,
			    bool force, struct fault *why);
/* The same in `fd`, which the segment takes. */
MUST_CHECK int segment_init(struct segment *segment, const struct source *source, int fd, uint64_t ring_entries,
			    struct fault *why);
/*
 * Write a piece of the tables as they are now, TABLES_PIECE_BYTES at most, so that the rings can be taken in between.
 * `*whole_ret`: it was the last, with the heads and the header; the next call begins anew.
 */
MUST_CHECK int segment_tables_piece(struct segment *segment, const struct source *source, bool *whole_ret,
				    struct fault *why);
/* Write all of them, and the heads. */
MUST_CHECK int segment_tables(struct segment *segment, const struct source *source, struct fault *why);
MUST_CHECK int segment_append(struct segment *segment, uint32_t ring, const struct trace_record *records, uint64_t count,
			      struct fault *why);
/*
 * Make it as small as it can be: write the file anew with rings of the size that they need, into packed_path, by zstd if
 * `compress`; then the file at `path` goes. Closes fd. On error the file at `path` stays.
 */
MUST_CHECK int segment_pack(struct segment *segment, const struct source *source, bool compress, struct fault *why);

/* A ring's records begin with a page. */
uint64_t segment_ring_offset(const struct segment *segment, uint32_t ring);
uint64_t segment_records_offset(const struct segment *segment, uint32_t ring);

#endif
