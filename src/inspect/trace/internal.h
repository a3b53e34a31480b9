/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - what the files of inspect/trace share. */
#ifndef INSPECT_TRACE_INTERNAL_H
#define INSPECT_TRACE_INTERNAL_H

#include <jansson.h>

#include "base/bits.h"
#include "base/must.h"
#include "inspect/spdk/spdk_file.h"
#include "inspect/trace/trace_file.h"

enum { SECTION_KINDS = 14, OBJECT_TYPES_MAX = 4096 };

/* A section of the file; all of it lies within the file. */
struct section {
	const uint8_t *at; /* NULL: there is none */
	uint64_t bytes;
	uint64_t stride, count; /* of elements that lie entirely within the file */
};

struct owner_type {
	uint16_t id;
	const char *name, *prefix;
};

/* All arrays are allocated when the JSON is parsed; names point into the JSON. */
struct schema {
	json_t *json;
	struct reader_group *groups;
	struct reader_enum *enums;
	struct reader_machine *machines;
	struct reader_object *objects;
	struct owner_type *owners;
	struct reader_point *points;
	uint32_t group_count, enum_count, machine_count, object_count, owner_count, point_count;
	const struct reader_point *by_id[TRACE_POINTS_MAX];
	const struct reader_object *object_by_id[OBJECT_TYPES_MAX];
	uint32_t slots_max; /* of an event */
};

/* Converts ticks to nanoseconds: a multiplication, then a check of the remainder where needed. */
struct tick_scale {
	uint64_t rate, multiplier;
	uint64_t quick_max; /* up to here the multiplication alone is exact */
	unsigned int shift;
};

struct reader {
	char *path;
	int fd;
	uint64_t fd_offset; /* of the trace in `fd`: a core file has other contents in front of it */
	const uint8_t *map;
	uint64_t bytes;
	struct trace_header header; /* copied when the file was opened */
	struct section sections[SECTION_KINDS];
	struct trace_process process;
	struct reader_frozen frozen;
	struct reader_info info;
	struct tick_scale scale;
	struct trace_clock_pair pairs[TRACE_CLOCK_PAIRS_MAX]; /* by tick */
	uint32_t pair_count;
	/* pairs of all files that use the same counter and are read together (merge.c), by tick; NULL: read alone */
	const struct trace_clock_pair *all_pairs;
	uint32_t all_pair_count;
	struct schema schema;
	char problem[256];
	struct spdk_image *spdk; /* an SPDK file: `map` is its translated image; NULL: a Fathom file */
	/* a followed SPDK target: its own mapping, beside the image in `map`; else NULL and -1 */
	struct spdk_follower *follower;
	const uint8_t *target_map;
	uint64_t target_bytes;
	int target_fd;
	struct reader_stages *lives_of_events; /* NULL, or the sums that reader_lives() returns */
	struct symbols *symbols;	       /* of the program's functions; NULL: not loaded yet */
	uint64_t shared_bit;		       /* bit of a recorded tick: the tick is shared. 0: ticks have no such bit */
};

/* ---- open.c ---- */

/* Returns `bytes` at `offset` of the file, 8-aligned; NULL: not within the file. */
const void *reader_at(const struct reader *reader, uint64_t offset, uint64_t bytes);
/* Returns element `index` of a section; NULL: there is none. */
const void *reader_element(const struct reader *reader, enum trace_section_kind kind, uint64_t index);
/* Note what could not be read. Only the first problem is kept. */
void reader_problem(struct reader *reader, const char *format, ...) PRINTF_LIKE(2, 3);
/* Copy up to `from_bytes` bytes or to the NUL, with control characters replaced by '?'. Always NUL-terminated. */
void copy_printable(char *to, size_t to_bytes, const char *from, size_t from_bytes);

/* ---- find.c ---- */

/*
 * Does process `pid` map this very file? If its maps are not readable for us, any file of a live process in /dev/shm
 * counts.
 */
bool file_is_mapped(int fd, const char *path, int32_t pid);
/* Is process `pid` stopped by a signal or a debugger? */
bool process_is_stopped(int32_t pid);
/*
 * Parse "<name>_trace.pid<pid>" or "<name>_trace.<id>"; any other file name is taken as the name. `*pid_ret` 0: not
 * known.
 */
void file_name_parse(const char *path, char *name, size_t name_bytes, int32_t *pid_ret);
/* Find the process that maps this file writable: `*pid` if it is not 0, else any, stored in `*pid`. False: none. */
bool file_find_writer(int fd, const char *path, int32_t *pid);

/* ---- schema.c ---- */

/* Errors (explained): -EBADMSG: no part of the schema is usable. */
MUST_CHECK int schema_parse(struct schema *schema, const char *text, size_t bytes, struct fathom_fault *why);
void schema_free(struct schema *schema);

/* ---- time.c ---- */

void tick_scale_init(struct tick_scale *scale, uint64_t rate);
uint64_t tick_scale_ns_exact(const struct tick_scale *scale, uint64_t ticks);
static inline uint64_t tick_scale_ns(const struct tick_scale *scale, uint64_t ticks)
{
	if (likely(ticks <= scale->quick_max))
		return (uint64_t)((unsigned __int128)ticks * (scale->multiplier + 1) >> scale->shift);
	return tick_scale_ns_exact(scale, ticks);
}
/* Ticks in `ns`, rounded down. */
uint64_t tick_scale_ticks(const struct tick_scale *scale, uint64_t ns);
void clock_pairs_read(struct reader *reader);

/* ---- moment.c ---- */

/* Parse a moment in the syntax of filter.h. Errors (explained): -EINVAL, -ENODATA. */
struct reader_filter_spec;
MUST_CHECK int moment_parse(const struct reader *reader, const struct reader_filter_spec *spec, const char *text,
			    uint64_t *tick_ret, struct fathom_fault *why);

/* ---- ring.c ---- */

/* Reads one ring, from its oldest record to the head at the time when reading began. */
struct ring_reader {
	const struct trace_ring *ring; /* NULL: there is none */
	int fd;
	uint64_t records_offset; /* in the file */
	uint64_t entry_count;
	uint64_t slots_there; /* how many of the entries the file holds */
	uint64_t head;	      /* at the time when reading began */
	uint64_t next;	      /* position to copy next */
	struct trace_record *window;
	uint32_t window_capacity, window_count, window_at;
	bool catches_up; /* if all was overwritten before it was read: read the latest records instead */
	bool has_read;	 /* there was a record */
	struct reader_counts *counts;
};

/* Start at the oldest record of the ring at `offset`. False: no ring, or damaged. The caller then provides the window. */
bool ring_reader_init(struct ring_reader *ring, const struct reader *reader, uint64_t offset, struct reader_counts *counts);
/* The same for a ring outside the file, in which nothing has been overwritten. Starts at its head. */
void ring_reader_init_external(struct ring_reader *ring, const struct trace_ring *there, int fd, uint64_t records_offset,
			       struct reader_counts *counts);
/* Returns the next record, valid until the next peek or refresh; NULL: no more. */
const struct trace_record *ring_reader_peek(struct ring_reader *ring);
static inline void ring_reader_take(struct ring_reader *ring)
{
	ring->window_at++;
}
/* Continue with the records written since. Records overwritten before they could be read are counted. */
void ring_reader_refresh(struct ring_reader *ring);
/*
 * Call before the first peek, if the file may be a copy of a live one: skip what was overwritten during the copy. Within
 * `seq_decides_ticks` the sequence number cannot have wrapped.
 */
void ring_reader_skip_overwritten(struct ring_reader *ring, uint64_t seq_decides_ticks);
/* Returns the latest tick in the last few records; 0: none. */
uint64_t ring_latest_tick(const struct reader *reader, uint64_t offset);

/* ---- life.c ---- */

/* State of one object's current life. */
struct life {
	uint32_t id;
	uint16_t type;	       /* 0: an empty place in the table */
	uint16_t related_type; /* 0: none */
	uint32_t related_id;
	uint32_t partial;
	uint64_t first, last; /* ticks */
};

struct life_table {
	struct life *places;
	uint32_t place_count, used;
	struct reader *reader;
};

MUST_CHECK int life_table_init(struct life_table *table, struct reader *reader);
void life_table_deinit(struct life_table *table);
void life_table_forget(struct life_table *table);
/* Record `event` in the life of its object and fill the event's life fields. */
void life_table_event(struct life_table *table, struct reader_event *event);
const struct life *life_table_find(const struct life_table *table, uint16_t type, uint32_t id);

/* ---- stages.c ---- */

/* The states of a state machine's move. False: they are not valid. `*from_ret` -1: the event does not record it. */
bool event_move(const struct reader_event *event, int32_t *from_ret, uint32_t *to_ret);

/* ---- events.c ---- */

/* Copy the counts of what an SPDK image leaves out; the image itself is complete. `to->events` is kept. */
void count_spdk(struct reader_counts *to, const struct spdk_counts *counts);

/* ---- symbols.c ---- */

void symbols_destroy(struct symbols *symbols); /* accepts NULL */

/* ---- story.c ---- */

/* Fill everything but entered_tick, which is left 0. */
void story_fill(const struct reader *reader, const struct reader_object *object, const struct trace_story *story,
		struct reader_story *story_ret);

/*
 * Fill the story arguments from an event that begins a life, matched by name. False: the event does not have all of
 * them.
 */
bool story_args_of_event(const struct reader_event *event, uint32_t args[READER_STORY_SLOTS_MAX]);
/*
 * Returns the tick at which the current life of an object began, and its parent, from the object's story; 0: not known.
 */
uint64_t story_begin(const struct reader *reader, uint16_t type, uint32_t id, const struct reader_object **parent_ret,
		     uint32_t *parent_id_ret);
/* Copy an object's story from its pool. False: it is in no pool, or changes too fast to copy. */
bool story_find(const struct reader *reader, uint16_t type, uint32_t id, struct trace_story *story_ret);
const struct reader_object *schema_object_by_id(const struct schema *schema, uint32_t id);

/* ---- unpack.c ---- */

/*
 * If `fd` is a compressed trace file, unpack it into an unnamed file and return that in `*fd_ret`. If it is a core file
 * that holds one, store its place in the core. Otherwise the results are untouched. Errors (explained): -EBADMSG, -ENOSPC.
 */
MUST_CHECK int trace_unpack(int fd, int *fd_ret, uint64_t *offset_ret, uint64_t *bytes_ret, struct fathom_fault *why);

#endif
