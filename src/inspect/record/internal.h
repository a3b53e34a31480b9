/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - shared by recording and packing: the source's tables, and one file in progress. */
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

/* The trace file of a live program. The parts that we use are checked. */
struct source {
	const uint8_t *map;
	uint64_t bytes;
	int fd;
	int32_t pid;
	const struct trace_header *header;
	const struct trace_section *threads; /* in `sections`, a copy of the header's table */
	const struct trace_process *process;
	struct trace_section sections[TRACE_SECTIONS_MAX];
	uint32_t section_count;
	uint32_t ring_count;
	const struct trace_ring *rings[RINGS_MAX]; /* thread i's rings at i * TRACE_RINGS_PER_THREAD ...; NULL: none */
};

/*
 * A file in progress: the source's tables at their offsets, and behind them space for each ring, which is sparse until
 * records are written.
 */
struct segment {
	int fd; /* -1: none */
	char path[PATH_MAX], packed_path[PATH_MAX];
	uint64_t tables_bytes;			    /* the rings begin here */
	uint64_t ring_entries;			    /* capacity of each ring */
	uint64_t count[RINGS_MAX], lost[RINGS_MAX]; /* records copied, and missed */
	uint32_t tables_section;		    /* next part of the tables to write: this section, */
	uint64_t tables_at;			    /* from this byte of it on */
	bool path_is_own;			    /* `path` names this file */
	bool force;				    /* an existing file at packed_path is replaced */
	uint64_t first[RINGS_MAX];		    /* index of the oldest record copied that is still in the file */
};

MUST_CHECK int record_source_open(struct source *source, const char *path, struct fathom_fault *why);
void record_source_close(struct source *source);
/* A batch of records of a ring. */
struct record_batch {
	uint32_t ring;
	uint64_t head;		    /* copy up to here */
	uint64_t *next;		    /* copy from here on; advanced */
	struct trace_record *chunk; /* room for CHUNK_RECORDS */
	/* results */
	const struct trace_record *records; /* in `chunk` */
	uint64_t count;
	uint64_t lost; /* records overwritten before or during the copy */
};

/* Copy up to CHUNK_RECORDS records of a ring. */
void record_source_copy(const struct source *source, struct record_batch *batch);
/* The oldest complete position of ring `i` now. */
uint64_t record_source_oldest(const struct source *source, uint32_t i);
/* Has the program ended? Then its rings do not change any more. */
bool record_source_has_ended(const struct source *source);
/*
 * The time to sleep in us after a step; `fill`: per cent of the fullest ring that were unread; `sleep_us`: the previous
 * time.
 */
uint64_t record_source_pace(uint64_t fill, uint64_t sleep_us);

/*
 * Create `path`, as yet without tables; `ring_entries` is a power of two. Errors (explained): -EEXIST: the file exists
 * and not `force`; ...
 */
MUST_CHECK int segment_open(struct segment *segment, const struct source *source, const char *path, uint64_t ring_entries,
			    bool force, struct fathom_fault *why);
/* The same in `fd`, which the segment takes. */
MUST_CHECK int segment_init(struct segment *segment, const struct source *source, int fd, uint64_t ring_entries,
			    struct fathom_fault *why);
/*
 * Write a part of the current tables, at most TABLES_PIECE_BYTES, so that rings can be read in between. `*whole_ret`:
 * this was the last part, with ring heads and header; the next call starts again from the beginning.
 */
MUST_CHECK int segment_tables_piece(struct segment *segment, const struct source *source, bool *whole_ret,
				    struct fathom_fault *why);
/* Write all tables and the ring heads. */
MUST_CHECK int segment_tables(struct segment *segment, const struct source *source, struct fathom_fault *why);
MUST_CHECK int segment_append(struct segment *segment, uint32_t ring, const struct trace_record *records, uint64_t count,
			      struct fathom_fault *why);
/*
 * Write the file again into packed_path with rings of minimal size, compressed by zstd if `compress`; then remove the
 * file at `path`. Closes fd. On error the file at `path` stays.
 */
MUST_CHECK int segment_pack(struct segment *segment, const struct source *source, bool compress, struct fathom_fault *why);

/* The records of a ring begin at a page. */
uint64_t segment_ring_offset(const struct segment *segment, uint32_t ring);
uint64_t segment_records_offset(const struct segment *segment, uint32_t ring);

#endif
