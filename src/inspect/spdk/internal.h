/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - what the files of inspect/spdk share. */
#ifndef INSPECT_SPDK_INTERNAL_H
#define INSPECT_SPDK_INTERNAL_H

#include <jansson.h>

#include "base/bits.h"
#include "base/must.h"
#include "inspect/spdk/layout.h"
#include "inspect/spdk/spdk_file.h"
#include "fathom/trace/format.h"

enum { TYPES_MAX = 256, STATES_MAX = TRACE_STORY_STATES_MAX - 1 };

/* ---- source.c: the parts of the file, each within it ---- */

/* A tracepoint, and what the entries say of it. */
struct point {
	struct spdk_tpoint tpoint; /* a copy; name and argument names end with a NUL */
	bool named;
	uint32_t part_count; /* entries of an event */
	uint32_t slot_count, record_count;
	uint16_t id;	      /* in the image; 0: none */
	uint8_t size_slot;    /* 1: the events have sizes, which is slot 0 */
	uint64_t total;	      /* how often it was recorded, since the target started */
	uint64_t event_count; /* in the file */
	/* what an object did next after it */
	uint64_t begun_after, other_after;
	bool ends;	/* a life */
	uint32_t state; /* it leads to; 0: none */
};

struct ring {
	char name[32];
	int32_t cpu; /* -1: not a core's */
	uint64_t entry_count, next;
	uint64_t entries_there; /* of the entries, how many the file holds */
	const struct spdk_ring *there;
	const struct spdk_entry *entries_in_file;
	const struct spdk_entry *entries; /* those, or `copy` */
	struct spdk_entry *copy;
	uint64_t place_mask; /* of a position: its place in `entries` */
	uint64_t first;	     /* position of the oldest entry that counts */
	uint64_t taken;	     /* of a ring that is followed: the position that is next */
	bool linear;	     /* entries lie from the oldest to the newest */
	uint64_t record_count;
};

/* An event: where its head is. */
struct item {
	uint64_t tick;
	uint64_t position;
	uint32_t ring;
	uint16_t point;
};

struct source {
	const uint8_t *map;
	uint64_t bytes;
	struct spdk_header header;
	struct spdk_main main;
	struct point *points;
	uint32_t point_count;
	uint16_t part_mark; /* `tpoint` of continuations */
	uint32_t part_max;  /* entries of an event, at most */
	char owner_prefixes[TYPES_MAX], object_prefixes[TYPES_MAX];
	uint64_t *masks;
	uint32_t mask_count;
	struct ring *rings;
	uint32_t ring_count;
	struct item *items; /* by tick, then ring, then position */
	uint64_t item_count, item_room;
	bool machines[TYPES_MAX]; /* objects that have one */
	bool live;		  /* more will come: of points, too, that have not been seen yet */
	struct spdk_image *image; /* counts and problem */
};

/* `bytes` at `offset`; NULL: not within the file. */
const void *source_at(const struct source *source, uint64_t offset, uint64_t bytes);
/* Note what could not be read; the first is kept. */
void source_problem(struct source *source, const char *format, ...) PRINTF_LIKE(2, 3);
MUST_CHECK int source_open(struct source *source, struct fault *why);
void source_close(struct source *source);

/* ---- ring.c: entries become items ---- */

/* All rings. `alive`: they are being written. -ENOMEM. */
MUST_CHECK int rings_take(struct source *source, bool alive);

/* Entries of a ring that are taken at a time from a target that is followed. */
enum { FOLLOW_ENTRIES = 1 << 16 };

/* Prepare for rings_take_more(), which begins with what is recent. -ENOMEM; -ENOTSUP: not all rings are whole. */
MUST_CHECK int rings_follow(struct source *source);
/*
 * What has been recorded since: items in place of those before. `*until_ret`: no earlier tick is left to be taken.
 * -ENOMEM: nothing has been taken.
 */
MUST_CHECK int rings_take_more(struct source *source, uint64_t *until_ret);

static inline const struct spdk_entry *ring_entry(const struct ring *ring, uint64_t position)
{
	return &ring->entries[ring->linear ? position : position & ring->place_mask];
}

/* The bytes of an event's arguments. */
struct arg_cursor {
	const struct ring *ring;
	uint64_t position;
	uint32_t at; /* within the entry's arguments */
	bool in_part;
};

static inline struct arg_cursor arg_cursor(const struct source *source, const struct item *item)
{
	return (struct arg_cursor){ .ring = &source->rings[item->ring], .position = item->position };
}

/* The next `bytes` of them, which the event is known to have. */
void arg_take(struct arg_cursor *cursor, uint8_t *to, uint32_t bytes);
/* A number of 4 or 8 bytes; of others the first 8. */
uint64_t arg_number(const uint8_t *at, uint32_t bytes);

/* ---- objects.c: pointers become numbers ---- */

struct object {
	uint64_t pointer;
	uint64_t first_tick, first_item; /* of its present life */
	uint32_t id;
	uint32_t parent; /* as a `ref` argument; 0: none */
	uint32_t story;	 /* 0: none, else index + 1 */
	uint16_t last_point;
	uint8_t type;
	bool partial; /* its beginning was not seen */
};

struct objects {
	struct object *rows;
	uint32_t count, room;
	uint32_t *places; /* hash table of index + 1 */
	uint32_t place_count;
	uint32_t begun[TYPES_MAX], begun_max[TYPES_MAX], unseen[TYPES_MAX];
	bool live; /* those that began in the file have their numbers: from here on each life takes the next */
};

MUST_CHECK int objects_init(struct objects *objects, const struct source *source);
void objects_deinit(struct objects *objects);
struct object *objects_find(const struct objects *objects, uint8_t type, uint64_t pointer);
/*
 * Account for event `index`, in their order. Its object (NULL: none), valid until the next call, and what it says that
 * belongs to (as object_ref(); 0: nothing). -ENOMEM.
 */
MUST_CHECK int objects_event(struct objects *objects, struct source *source, uint64_t index, struct object **object_ret,
			     uint32_t *parent_ret);
/* An object as a `ref` argument: 0 if its number does not fit. */
uint32_t object_ref(const struct object *object);

/* ---- machines.c: what the points of an object tell about its stages ---- */

/* After all events: fill point->ends and ->state, and source->machines. */
void machines_find(struct source *source);
/* The name of the state that `point` leads to, within `room` bytes. */
void machine_state_name(const struct source *source, const struct point *point, char *name, size_t room);
/* The one point that begins lives of `type`; NULL: none, or several. */
const struct point *machine_begin(const struct source *source, uint8_t type);

/* ---- names.c: what SPDK calls its types and groups, which the file does not say ---- */

void name_of_group(uint32_t group, char *name, size_t room);
void name_of_object(uint8_t type, char *name, size_t room);
void name_of_owner(uint8_t type, char *name, size_t room);

/* ---- schema.c ---- */

/* How many slots `arg` takes; 0: it is of a type that nobody knows, and is left out. */
uint32_t arg_slots(const struct spdk_arg *arg);
/*
 * Give the points that have a name their ids, and their events a form: size (where any has one), arguments, `within` (if
 * there are relations), `address` (where lives begin).
 */
void points_lay_out(struct source *source);
/* The first slots of the event that begins a life, whole arguments of it, that fit into a story behind `within`. */
uint32_t story_slots(const struct point *begin);
/* The schema as text, when the machines are known; pair: free(). NULL: no memory. */
char *schema_text(const struct source *source);

/* ---- strings.c ---- */

struct strings {
	char *text; /* the section, with its head */
	uint64_t bytes, room;
	uint64_t bytes_max; /* what it may grow to */
	uint32_t *places;
	uint32_t place_count, used;
};

MUST_CHECK int strings_init(struct strings *strings);
void strings_deinit(struct strings *strings);
/* The id of a text without NUL in it; UINT32_MAX, which no text has, when there is no more room. -ENOMEM. */
MUST_CHECK int strings_intern(struct strings *strings, const char *text, size_t bytes, uint32_t *id_ret);

#endif
