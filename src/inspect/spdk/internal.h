/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - shared by the files of inspect/spdk. */
#ifndef INSPECT_SPDK_INTERNAL_H
#define INSPECT_SPDK_INTERNAL_H

#include <jansson.h>

#include "base/bits.h"
#include "base/must.h"
#include "inspect/spdk/layout.h"
#include "inspect/spdk/spdk_file.h"
#include "fathom/trace/format.h"

enum { TYPES_MAX = 256, STATES_MAX = TRACE_STORY_STATES_MAX - 1 };

/* ---- source.c: the sections of the file, each checked to be within it ---- */

/* A tracepoint, and statistics of its entries. */
struct point {
	struct spdk_tpoint tpoint; /* a copy; name and argument names end with a NUL */
	bool named;
	uint32_t part_count; /* entries of an event */
	uint32_t arg_bytes;  /* of all its arguments */
	uint32_t slot_count, record_count;
	uint32_t record_max;  /* upper bound of record_count, with and without a size */
	uint16_t id;	      /* in the image; 0: none */
	uint8_t size_slot;    /* 1: events have sizes, in slot 0 */
	uint64_t total;	      /* number of records since the target started */
	uint64_t event_count; /* in the file */
	/* what an object did next after this point */
	uint64_t begun_after, other_after;
	bool ends;	/* ends a life */
	uint32_t state; /* state after it; 0: none */
};

/* Consecutive entries of a ring, in memory. */
struct window {
	struct spdk_entry *entries; /* capacity: the source's `window_entries` */
	uint64_t first, count;
};

/* An event, by the position of its head. */
struct item {
	uint64_t tick;
	uint64_t position;
	uint32_t ring;
	uint16_t point;
	bool sized; /* its size is not 0 */
};

struct ring {
	char name[32];
	int32_t cpu; /* -1: not of a core */
	uint64_t entry_count, next;
	uint64_t entries_there; /* how many of the entries the file holds */
	const struct spdk_ring *there;
	const struct spdk_entry *entries_in_file;
	struct spdk_entry *copy; /* of a followed ring: the latest copied entries; else NULL */
	uint64_t place_mask;	 /* position & place_mask is the index in `copy` */
	int fd;			 /* of other rings: the file with the entries, from `offset` on */
	uint64_t offset;
	struct window ahead, about; /* for the walk over the entries; for the event being read */
	uint64_t first;		    /* position of the oldest entry that counts */
	uint64_t taken;		    /* of a followed ring: next position to read */
	bool linear;		    /* entries are stored from the oldest to the newest */
	uint64_t event_count, record_count;
	/* order.c */
	uint64_t position;    /* next position to read */
	uint32_t waiting_max; /* maximum of waiting events; 0: they are in `sorted_fd`, sorted */
	uint32_t waiting_at, waiting_count;
	struct item *waiting;
	uint64_t sorted_offset, sorted_taken;
	int sorted_fd;
};

struct source {
	const uint8_t *map; /* for small sections */
	uint64_t bytes;
	int fd; /* of the same file; -1: of a followed target */
	struct spdk_header header;
	struct spdk_main main;
	struct point *points;
	uint32_t point_count;
	uint16_t part_mark; /* `tpoint` of continuations */
	uint32_t part_max;  /* maximum of entries per event */
	char owner_prefixes[TYPES_MAX], object_prefixes[TYPES_MAX];
	uint64_t *masks;
	uint32_t mask_count;
	struct ring *rings;
	uint32_t ring_count;
	uint64_t window_entries;
	int copy_fd; /* copies of a running target's rings; -1: none */
	uint64_t event_count, start_tick;
	/* order.c */
	uint32_t *heap; /* rings with events left; the ring with the next event first */
	uint32_t heap_count;
	int sorted_fds[2];
	bool unread;		    /* sorted events could not be read */
	struct spdk_counts ignored; /* counts of later passes, which are discarded */
	struct item *items;	    /* of a followed target: the latest batch */
	uint64_t item_count, item_room, item_next;
	bool machines[TYPES_MAX]; /* types of objects that have a state machine */
	bool live;		  /* more events will come, also of points without an event so far */
	struct spdk_image *image; /* its counts and problem are filled in */
};

/* Returns `bytes` at `offset`; NULL: not within the file. */
const void *source_at(const struct source *source, uint64_t offset, uint64_t bytes);
/* Note what could not be read. Only the first problem is kept. */
void source_problem(struct source *source, const char *format, ...) PRINTF_LIKE(2, 3);
MUST_CHECK int source_open(struct source *source, struct fathom_fault *why);
void source_close(struct source *source);

/* ---- temporary.c ---- */

/*
 * Create a temporary file for about `bytes`, in $TMPDIR (/var/tmp), or in memory if they are few. Returns the fd, or
 * -errno.
 */
MUST_CHECK int temporary_open(uint64_t bytes);
/* Returns the number of bytes read: fewer at the file's end, and after a read error. */
MUST_CHECK uint64_t read_at(int fd, uint64_t offset, void *data, uint64_t bytes);
/* Release the pages of a mapped part of a file after reading it. A later access reads them again. */
void forget_pages(const void *from, uint64_t bytes);

/* ---- ring.c: selects entries, and finds the events in them ---- */

/* Select the entries of all rings. `alive`: they are being written. Errors: -ENOMEM, those of writing a file. */
MUST_CHECK int rings_take(struct source *source, bool alive);
/*
 * Find the next event of ring `index` that begins in [*position, end), and advance `*position` behind it. Skipped
 * entries are counted. False: no more events.
 */
bool ring_next(struct source *source, uint32_t index, uint64_t *position, uint64_t end, struct spdk_counts *counts,
	       struct item *item_ret);

/* Maximum of entries of a ring per batch of a followed target. */
enum { FOLLOW_ENTRIES = 1 << 16 };

/* Prepare for rings_take_more(), which starts with recent entries. Errors: -ENOMEM; -ENOTSUP: a ring is not complete. */
MUST_CHECK int rings_follow(struct source *source);
/*
 * Replace the items by the events recorded since. `*until_ret`: all events with lower ticks have been returned. Errors:
 * -ENOMEM: nothing was consumed.
 */
MUST_CHECK int rings_take_more(struct source *source, uint64_t *until_ret);

/* An event with its contents. */
struct event {
	uint64_t tick, object;
	uint32_t ring, size;
	uint16_t point, owner;
	uint8_t args[SPDK_ARGS_MAX * SPDK_ARG_BYTES_MAX]; /* the point's arguments, packed */
};

/* `with_args` false: leaves out the arguments. */
void event_read(struct source *source, const struct item *item, bool with_args, struct event *event_ret);
/* A number of 4 or 8 bytes; of longer arguments the first 8 bytes. */
uint64_t arg_number(const uint8_t *at, uint32_t bytes);

/* ---- order.c: the events of all rings by tick, then ring, then position ---- */

/* Call once, after the entries were selected: counts the events and prepares for iterating. */
MUST_CHECK int events_count(struct source *source);
/* Start iterating at the first event; may be repeated. Errors: -ENOMEM. */
MUST_CHECK int events_begin(struct source *source);
/* False: no more events, or a read error, which sets source->unread. */
bool events_next(struct source *source, struct item *item_ret);
/* Of a followed target. Errors: -ENOMEM. */
MUST_CHECK int items_add(struct source *source, const struct item *item);
void items_sort(struct source *source);

/* ---- objects.c: maps pointers to numbers ---- */

struct object {
	uint64_t pointer;
	uint64_t first_tick, first_item; /* of its current life */
	uint32_t id;
	uint32_t parent; /* as a `ref` argument; 0: none */
	uint32_t story;	 /* 0: none, else index + 1 */
	uint16_t last_point;
	uint8_t type;
	bool partial; /* its beginning was not seen */
};

/* Maximum of distinct addresses: more than a target has in its pools. */
enum { OBJECTS_MAX = 1 << 19 };

struct objects {
	struct object *rows;
	uint32_t count, room;
	uint32_t *places; /* hash table of index + 1 */
	uint32_t place_count;
	uint32_t begun[TYPES_MAX], begun_max[TYPES_MAX], unseen[TYPES_MAX];
	bool live; /* no event in the file remains to be numbered: each further life takes the next number */
};

MUST_CHECK int objects_init(struct objects *objects, const struct source *source);
void objects_deinit(struct objects *objects);
struct object *objects_find(const struct objects *objects, uint8_t type, uint64_t pointer);
/*
 * Process event number `index`; call in order. `*object_ret`: its object (NULL: none, or above OBJECTS_MAX), valid until
 * the next call. `*parent_ret`: the parent that the event names (as object_ref(); 0: none). Errors: -ENOMEM.
 */
MUST_CHECK int objects_event(struct objects *objects, struct source *source, const struct event *event, uint64_t index,
			     struct object **object_ret, uint32_t *parent_ret);
/* An object as a `ref` argument; 0 if its number does not fit. */
uint32_t object_ref(const struct object *object);

/* ---- machines.c: derives state machines from the points of objects ---- */

/* Call after all events: fills point->ends and ->state, and source->machines. */
void machines_find(struct source *source);
/* The name of the state after `point`, within `room` bytes. */
void machine_state_name(const struct source *source, const struct point *point, char *name, size_t room);
/* The only point that begins lives of `type`; NULL: none, or several. */
const struct point *machine_begin(const struct source *source, uint8_t type);

/* ---- names.c: SPDK's names of types and groups, which are not in the file ---- */

void name_of_group(uint32_t group, char *name, size_t room);
void name_of_object(uint8_t type, char *name, size_t room);
void name_of_owner(uint8_t type, char *name, size_t room);

/* ---- schema.c ---- */

/* Number of slots of `arg`; 0: its type is unknown, and it is left out. */
uint32_t arg_slots(const struct spdk_arg *arg);
/* Fill point->record_max. */
void point_bound(struct point *point);
/*
 * Assign ids to the points with a name, and lay out their events: size (if any event has one), arguments, `within` (if
 * there are relations), `address` (if the point begins lives).
 */
void points_lay_out(struct source *source);
/* Number of slots of the beginning event that fit into a story behind `within`; whole arguments only. */
uint32_t story_slots(const struct point *begin);
/* The schema as text; the machines must be known. Pair: free(). NULL: out of memory. */
char *schema_text(const struct source *source);

/* ---- strings.c ---- */

enum { STRINGS_BYTES_MAX = 2 << 20 };

struct strings {
	char *text; /* the section, with its header */
	uint64_t bytes, room;
	uint64_t bytes_max; /* maximum size */
	uint32_t *places;
	uint32_t place_count, used;
};

MUST_CHECK int strings_init(struct strings *strings);
void strings_deinit(struct strings *strings);
/* Returns the id of a text without NUL; UINT32_MAX, which is no text's id, if there is no space. Errors: -ENOMEM. */
MUST_CHECK int strings_intern(struct strings *strings, const char *text, size_t bytes, uint32_t *id_ret);

#endif
