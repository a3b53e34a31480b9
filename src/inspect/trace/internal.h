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

/* A part of the file that lies within it. */
struct section {
	const uint8_t *at; /* NULL: there is none */
	uint64_t bytes;
	uint64_t stride, count; /* of elements that lie wholly within */
};

struct owner_type {
	uint16_t id;
	const char *name, *prefix;
};

/* Everything here is allocated as the JSON is read, and names point into it. */
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

/* Ticks to nanoseconds by a multiplication, made exact by a look at the rest. */
struct tick_scale {
	uint64_t rate, multiplier;
	uint64_t quick_max; /* up to here a multiplication alone is exact */
	unsigned int shift;
};

struct reader {
	char *path;
	int fd;
	const uint8_t *map;
	uint64_t bytes;
	struct trace_header header; /* as it was at the opening */
	struct section sections[SECTION_KINDS];
	struct trace_process process;
	struct reader_frozen frozen;
	struct reader_info info;
	struct tick_scale scale;
	struct trace_clock_pair pairs[TRACE_CLOCK_PAIRS_MAX]; /* by tick */
	uint32_t pair_count;
	/* those of all files of this counter that are read together (merge.c), by tick; NULL: it is alone */
	const struct trace_clock_pair *all_pairs;
	uint32_t all_pair_count;
	struct schema schema;
	char problem[256];
	struct spdk_image *spdk; /* the file is one of SPDK, and what is mapped is its image; NULL: it is not */
	/* of a target of SPDK that is followed, which is not what is mapped; else NULL and -1 */
	struct spdk_follower *follower;
	const uint8_t *target_map;
	uint64_t target_bytes;
	int target_fd;
	struct reader_stages *lives_of_events; /* NULL, or what reader_lives() tells of */
	struct symbols *symbols;	       /* of the program's functions; NULL: nobody has asked for one */
	uint64_t shared_bit;		       /* of a recorded tick: it was lent. 0: ticks have no such bit */
};

/* ---- open.c ---- */

/* `bytes` at `offset` of the file, 8-aligned; NULL: not within the file. */
const void *reader_at(const struct reader *reader, uint64_t offset, uint64_t bytes);
/* Element `index` of a section; NULL: not there. */
const void *reader_element(const struct reader *reader, enum trace_section_kind kind, uint64_t index);
/* Note what could not be read; the first is kept. */
void reader_problem(struct reader *reader, const char *format, ...) PRINTF_LIKE(2, 3);
/* Copy up to `from_bytes` bytes or the NUL, what a terminal should not get replaced by '?'. */
void copy_printable(char *to, size_t to_bytes, const char *from, size_t from_bytes);

/* ---- find.c ---- */

/* Does process `pid` have this very file mapped? If we may not look at its maps, a file in its place must do. */
bool file_is_mapped(int fd, const char *path, int32_t pid);
/* Has a signal or a debugger stopped process `pid`? */
bool process_is_stopped(int32_t pid);
/* "<name>_trace.pid<pid>" or "<name>_trace.<id>"; of other names all is the name. `*pid_ret` 0: it does not say. */
void file_name_parse(const char *path, char *name, size_t name_bytes, int32_t *pid_ret);
/* The process that has this file mapped for writing: `*pid` if it is not 0, else any, into `*pid`. False: none. */
bool file_find_writer(int fd, const char *path, int32_t *pid);

/* ---- schema.c ---- */

/* -EBADMSG (explained): nothing of it can be used. */
MUST_CHECK int schema_parse(struct schema *schema, const char *text, size_t bytes, struct fault *why);
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
/* Ticks in `ns`, about. */
uint64_t tick_scale_ticks(const struct tick_scale *scale, uint64_t ns);
void clock_pairs_read(struct reader *reader);

/* ---- moment.c ---- */

/* filter.h says which. -EINVAL, -ENODATA (explained) */
struct reader_filter_spec;
MUST_CHECK int moment_parse(const struct reader *reader, const struct reader_filter_spec *spec, const char *text,
			    uint64_t *tick_ret, struct fault *why);

/* ---- ring.c ---- */

/* One ring, read from its oldest record to the head that it had when reading began. */
struct ring_reader {
	const struct trace_ring *ring; /* NULL: there is none */
	int fd;
	uint64_t records_offset; /* in the file */
	uint64_t entry_count;
	uint64_t slots_there; /* of the entries, how many the file holds */
	uint64_t head;	      /* when reading began */
	uint64_t next;	      /* position to be copied next */
	struct trace_record *window;
	uint32_t window_capacity, window_count, window_at;
	struct reader_counts *counts;
};

/* Look at the ring at `offset`. False: none there, or damaged. The window is still to be given. */
bool ring_reader_init(struct ring_reader *ring, const struct reader *reader, uint64_t offset, struct reader_counts *counts);
/* The same of a ring that is not in the file, of which nothing has been overwritten. */
void ring_reader_init_apart(struct ring_reader *ring, const struct trace_ring *there, int fd, uint64_t records_offset,
			    struct reader_counts *counts);
/* The next record, valid until the next call of these two; NULL: no more. */
const struct trace_record *ring_reader_peek(struct ring_reader *ring);
static inline void ring_reader_take(struct ring_reader *ring)
{
	ring->window_at++;
}
/* Go on to what has been recorded since; what went by too fast is counted as overwritten. */
void ring_reader_refresh(struct ring_reader *ring);
/*
 * Before the first peek, of a file that may be a copy of a live one: leave out what was overwritten while it was copied.
 * Within `seq_decides_ticks` the sequence number cannot have gone round.
 */
void ring_reader_distrust(struct ring_reader *ring, uint64_t seq_decides_ticks);
/* The latest tick in the last few records; 0: none. */
uint64_t ring_latest_tick(const struct reader *reader, uint64_t offset);

/* ---- life.c ---- */

/* What is known of one object's present life. */
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
/* Account for `event` and fill its life fields. */
void life_table_event(struct life_table *table, struct reader_event *event);
const struct life *life_table_find(const struct life_table *table, uint16_t type, uint32_t id);

/* ---- stages.c ---- */

/* The states of a move of a machine. False: none that fit. `*from_ret` -1: the event does not say. */
bool event_move(const struct reader_event *event, int32_t *from_ret, uint32_t *to_ret);

/* ---- events.c ---- */

/* What was left out of an image, which itself is whole; `to->events` stays. */
void count_spdk(struct reader_counts *to, const struct spdk_counts *counts);

/* ---- symbols.c ---- */

void symbols_destroy(struct symbols *symbols); /* accepts NULL */

/* ---- story.c ---- */

/* All but entered_tick, which is left 0. */
void story_fill(const struct reader *reader, const struct reader_object *object, const struct trace_story *story,
		struct reader_story *story_ret);

/* What the story would say of a life that begins with `event`, by its arguments' names. False: the event does not say. */
bool story_args_of_event(const struct reader_event *event, uint32_t args[READER_STORY_SLOTS_MAX]);
/* What an object's story says of its present life: the tick of its beginning, 0: not known. */
uint64_t story_begin(const struct reader *reader, uint16_t type, uint32_t id, const struct reader_object **parent_ret,
		     uint32_t *parent_id_ret);
/* What an object's pool says of its latest life. False: it is in none, or changes too fast. */
bool story_find(const struct reader *reader, uint16_t type, uint32_t id, struct trace_story *story_ret);
const struct reader_object *schema_object_by_id(const struct schema *schema, uint32_t id);

/* ---- unpack.c ---- */

/*
 * If `fd` is a compressed trace file, or a core file that holds one, what is inside becomes `*fd_ret`, a file without a
 * name; else that is left alone. Errors (explained): -EBADMSG, -ENOSPC ...
 */
MUST_CHECK int trace_unpack(int fd, int *fd_ret, struct fault *why);

#endif
