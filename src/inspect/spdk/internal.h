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
	uint32_t arg_bytes;  /* of all its arguments */
	uint32_t slot_count, record_count;
	uint32_t record_max;  /* what record_count may be, whether the events turn out to have sizes or not */
	uint16_t id;	      /* in the image; 0: none */
	uint8_t size_slot;    /* 1: the events have sizes, which is slot 0 */
	uint64_t total;	      /* how often it was recorded, since the target started */
	uint64_t event_count; /* in the file */
	/* what an object did next after it */
	uint64_t begun_after, other_after;
	bool ends;	/* a life */
	uint32_t state; /* it leads to; 0: none */
};

/* Entries from one place of a ring on. */
struct window {
	struct spdk_entry *entries; /* of `window_entries` of the source */
	uint64_t first, count;
};

/* An event: where its head is. */
struct item {
	uint64_t tick;
	uint64_t position;
	uint32_t ring;
	uint16_t point;
	bool sized; /* its size is not 0 */
};

struct ring {
	char name[32];
	int32_t cpu; /* -1: not a core's */
	uint64_t entry_count, next;
	uint64_t entries_there; /* of the entries, how many the file holds */
	const struct spdk_ring *there;
	const struct spdk_entry *entries_in_file;
	struct spdk_entry *copy; /* of a ring that is followed: what was copied last; of others NULL */
	uint64_t place_mask;	 /* of a position: its place in `copy` */
	int fd;			 /* of others: the file that has the entries, from `offset` on */
	uint64_t offset;
	struct window ahead, about; /* of the entries that are gone through, and of the event that is dealt with */
	uint64_t first;		    /* position of the oldest entry that counts */
	uint64_t taken;		    /* of a ring that is followed: the position that is next */
	bool linear;		    /* entries lie from the oldest to the newest */
	uint64_t event_count, record_count;
	/* order.c */
	uint64_t position;    /* from which on nothing has been read */
	uint32_t waiting_max; /* how many events wait; 0: they are in `sorted_fd`, in order */
	uint32_t waiting_at, waiting_count;
	struct item *waiting;
	uint64_t sorted_offset, sorted_taken;
	int sorted_fd;
};

struct source {
	const uint8_t *map; /* for what is short */
	uint64_t bytes;
	int fd; /* of the same file; of a target that is followed -1 */
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
	uint64_t window_entries;
	int copy_fd; /* of the rings of a target that runs; -1: none */
	uint64_t event_count, start_tick;
	/* order.c */
	uint32_t *heap; /* of rings that have events left, that of the next first */
	uint32_t heap_count;
	int sorted_fds[2];
	bool unread;		    /* what was sorted could not be read */
	struct spdk_counts ignored; /* what was counted once */
	struct item *items;	    /* of a target that is followed: what was taken last */
	uint64_t item_count, item_room, item_next;
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

/* ---- temporary.c ---- */

/* For about so many bytes, in $TMPDIR (/var/tmp), or in memory if they are few. Returns the fd, or -errno. */
MUST_CHECK int temporary_open(uint64_t bytes);
/* Returns how many bytes there were: fewer at the file's end, and where it cannot be read. */
MUST_CHECK uint64_t read_at(int fd, uint64_t offset, void *data, uint64_t bytes);
/* A mapped part of a file was looked at: it shall not stay in our memory. It is read again when it is looked at again. */
void forget_pages(const void *from, uint64_t bytes);

/* ---- ring.c: which entries count, and which of them are events ---- */

/* Find out which entries of the rings count. `alive`: they are being written. -ENOMEM, those of writing a file. */
MUST_CHECK int rings_take(struct source *source, bool alive);
/*
 * The next event of ring `index` from `*position` on, which goes on to behind it, and that begins before `end`. What is
 * passed and is none is counted. False: there is no more.
 */
bool ring_next(struct source *source, uint32_t index, uint64_t *position, uint64_t end, struct spdk_counts *counts,
	       struct item *item_ret);

/* Entries of a ring that are taken at a time from a target that is followed. */
enum { FOLLOW_ENTRIES = 1 << 16 };

/* Prepare for rings_take_more(), which begins with what is recent. -ENOMEM; -ENOTSUP: not all rings are whole. */
MUST_CHECK int rings_follow(struct source *source);
/*
 * What has been recorded since: items in place of those before. `*until_ret`: no earlier tick is left to be taken.
 * -ENOMEM: nothing has been taken.
 */
MUST_CHECK int rings_take_more(struct source *source, uint64_t *until_ret);

/* An event with what it says. */
struct event {
	uint64_t tick, object;
	uint32_t ring, size;
	uint16_t point, owner;
	uint8_t args[SPDK_ARGS_MAX * SPDK_ARG_BYTES_MAX]; /* as many as the point has, one behind the other */
};

/* `with_args`: else without its arguments. */
void event_read(struct source *source, const struct item *item, bool with_args, struct event *event_ret);
/* A number of 4 or 8 bytes; of others the first 8. */
uint64_t arg_number(const uint8_t *at, uint32_t bytes);

/* ---- order.c: the events of all rings by tick, then ring, then position ---- */

/* When it is known which entries count, once: how many events there are, and what is needed to go through them. */
MUST_CHECK int events_count(struct source *source);
/* Go through them from the first on, as often as you like. -ENOMEM. */
MUST_CHECK int events_begin(struct source *source);
/* False: there is no more. If source->unread then, there should have been. */
bool events_next(struct source *source, struct item *item_ret);
/* Of a target that is followed. -ENOMEM. */
MUST_CHECK int items_add(struct source *source, const struct item *item);
void items_sort(struct source *source);

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

/* How many addresses are told apart: no more than a target has in its pools. */
enum { OBJECTS_MAX = 1 << 19 };

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
 * Account for an event, the `index`th, in their order. Its object (NULL: none, or one too many), valid until the next
 * call, and what it says that belongs to (as object_ref(); 0: nothing). -ENOMEM.
 */
MUST_CHECK int objects_event(struct objects *objects, struct source *source, const struct event *event, uint64_t index,
			     struct object **object_ret, uint32_t *parent_ret);
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
/* Fill point->record_max. */
void point_bound(struct point *point);
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

enum { STRINGS_BYTES_MAX = 2 << 20 };

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
