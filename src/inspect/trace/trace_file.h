/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace_file - reads a trace file: of a running engine, of a killed one, of one on another machine.
 *
 *   reader_open() -> reader_events() -> reader_event_next() ... -> reader_events_free() -> reader_close()
 *                    reader_story_next(), reader_thread(), reader_owner() ...
 *
 * A file is untrusted: every offset, size and count is checked before use; invalid parts are left out and counted. The
 * rest stays readable: a truncated file gives the events that it still has.
 *
 * Rings of a running engine are copied before they are read, and their head is read again afterwards: records that the
 * writer may have overwritten meanwhile are counted and never shown. A ring that fits is copied completely when reading
 * begins, so that all threads are shown at about the same moment; larger ones are copied a window at a time. Memory is
 * bounded for a file of any size.
 *
 * Order: a thread's events come in the order in which it recorded them, across both of its rings. Between threads the
 * tick decides; for equal ticks, the thread's place in the file. An event may share a tick that was read for an
 * earlier event (`shared`); it stays behind those recorded before it.
 *
 * Trace files of SPDK targets are read, too: they are translated into this format when opened (inspect/spdk). A running
 * target's file is read as it was at that moment, unless it was opened to be followed.
 *
 * Not here: export, comparison, search for slow requests. Thread: one at a time per reader.
 */
#ifndef INSPECT_TRACE_TRACE_FILE_H
#define INSPECT_TRACE_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "base/fault.h"
#include "fathom/trace/format.h"

enum {
	READER_SLOTS_MAX = 23, /* of an event; Fathom's own have at most 15 */
	READER_THREADS_MAX = 1024,
	READER_OWNER_TEXT_BYTES = 256,
	READER_STORY_SLOTS_MAX = 6,
	READER_ARGS_MAX = READER_SLOTS_MAX,
};

#define READER_NO_OBJECT UINT32_MAX

struct reader;

/* ---- what the schema says ---- */

enum reader_arg_type {
	READER_U8,
	READER_U16,
	READER_U32,
	READER_U64,
	READER_I32,
	READER_I64,
	READER_BOOL,
	READER_HEX8,
	READER_HEX16,
	READER_HEX32,
	READER_HEX64,
	READER_PTR,
	READER_STR,
	READER_OBJ,
	READER_REF,
};

struct reader_label {
	int64_t value;
	const char *text;
};

struct reader_enum {
	const char *name;
	const struct reader_label *labels;
	uint32_t label_count;
};

struct reader_state {
	const char *name;
	const char *text; /* "": not documented */
	bool resting;	  /* a long time in this state is normal: it waits for a host to act */
};

/* State i of a story is entered at ticks[i]; state 0 means "not in progress". */
struct reader_machine {
	const char *name;
	const struct reader_state *states;
	uint32_t state_count;
};

struct reader_object;

enum reader_unit_kind {
	READER_UNIT_NONE, /* no unit, or a count */
	READER_UNIT_TICKS,
	READER_UNIT_TIME,
	READER_UNIT_OTHER,
};

struct reader_arg {
	const char *name;
	enum reader_arg_type type;
	uint32_t slot;	  /* the first of its one or two */
	const char *unit; /* NULL: none */
	enum reader_unit_kind unit_kind;
	bool function;			    /* READER_PTR: the offset of a function in the program, for reader_function() */
	bool optional;			    /* a value of 0 is not printed */
	const struct reader_enum *labels;   /* NULL: a plain number */
	const struct reader_object *object; /* READER_OBJ: what it names */
};

struct reader_object {
	uint16_t id;
	const char *name, *prefix;
	const struct reader_machine *machine; /* NULL: has no story */
	const struct reader_arg *story_args;
	uint32_t story_arg_count;
};

struct reader_group {
	const char *name, *text;
};

enum { READER_USDT_ARGS_MAX = 12, READER_USDT_OBJECT = -1 };

struct reader_point {
	uint16_t id;
	const char *name;
	const struct reader_group *group;
	const struct reader_object *object;   /* NULL: about no object */
	const struct reader_machine *machine; /* NULL: not a move of a state machine */
	int32_t moves_to;  /* the state after this move; -1: arguments 0 and 1 are the states `from` and `to` */
	bool begins;	   /* a life of its object begins here */
	bool begins_known; /* its object has points that begin a life, or a machine: a life not seen to begin is partial */
	const struct reader_arg *args;
	uint32_t arg_count;
	uint32_t slot_count;
	/*
	 * The arguments of the USDT probe of its name after arg0, the tick: indices of `args`; READER_USDT_OBJECT: the
	 * object.
	 */
	int8_t usdt[READER_USDT_ARGS_MAX];
	uint32_t usdt_count;
	bool total_known;
	uint64_t total; /* number of records since the program started, if the file has it */
};

/* ---- the file as a whole ---- */

enum reader_liveness {
	READER_ALIVE, /* the process maps this file now */
	READER_ENDED, /* it closed the file */
	READER_DEAD,  /* it did not, and no process here maps the file: killed, crashed, or a copy from another machine */
};

/* Why the file was frozen (struct trace_frozen). */
struct reader_frozen {
	enum trace_frozen_why why;
	uint64_t tick, from_tick, to_tick; /* from and to 0: not cut */
	uint64_t realtime_ns;		   /* 0: not known */
	uint32_t signal;
	int32_t code, tid;
	uint64_t address, instruction, offset;
	char text[217], place[217]; /* printable */
};

struct reader_info {
	const char *path;
	const char *name, *host, *version; /* of the program; printable */
	const char *program_path;	   /* its file, where it ran; "": not known */
	bool spdk;			   /* a file of SPDK: ticks are from its first event, not from the start */
	char build_id[2 * 32 + 1];	   /* hexadecimal */
	int32_t pid;
	enum reader_liveness liveness;
	bool stopped;	/* alive, and a signal or a debugger has stopped it */
	bool died;	/* it ended without closing the file, which is therefore final: requests in progress never end */
	bool truncated; /* the file is shorter than its header says */
	uint64_t start_tick, end_tick, tick_rate, clear_tick;
	uint64_t unregistered_records;
	uint64_t refused_threads; /* threads that got no rings because all were in use */
	uint32_t thread_count;	  /* rows for reader_thread() */
	uint32_t point_count;
	const char *problem;		    /* a sentence about what could not be read and was left out; NULL: nothing */
	const struct reader_frozen *frozen; /* NULL: not frozen */
};

/*
 * Open `path`. Errors (explained): -ENOENT, -EACCES ...; -EBADMSG: not a trace file, or damaged beyond use;
 * -EPROTONOSUPPORT: a later version. Close `*reader_ret` with reader_close().
 */
MUST_CHECK int reader_open(const char *path, struct reader **reader_ret, struct fathom_fault *why);
/*
 * The same, for a program whose events are to be followed. Of a running SPDK target only recent events are available at
 * first; other files are read as by reader_open().
 */
MUST_CHECK int reader_open_to_follow(const char *path, struct reader **reader_ret, struct fathom_fault *why);
/* Accepts NULL. */
void reader_close(struct reader *reader);

const struct reader_info *reader_info(const struct reader *reader);

/* The path of the report that the process wrote when it crashed, beside its trace file. False: there is none. */
bool reader_crash_report(const struct reader *reader, char *path_ret, size_t path_bytes);

/*
 * If `fd` is compressed by zstd, unpack it into an unnamed file in $TMPDIR (default /var/tmp) and return that in `*fd_ret`,
 * as much as is not truncated or damaged. Otherwise `*fd_ret` is untouched. Errors (explained): -ENOSPC, -EACCES ...
 */
MUST_CHECK int reader_decompress(int fd, int *fd_ret, struct fathom_fault *why);

/*
 * Find the newest trace file in `directory` (NULL: /dev/shm) of a program named `name` (NULL: any) with `pid` (0: any).
 * Files of other formats with such names are skipped. SPDK's files are accepted; their names may end with an instance
 * number instead of a pid. Errors (explained): -ENOENT; -EACCES: there are only files of other users.
 */
MUST_CHECK int reader_find_newest(const char *directory, const char *name, int32_t pid, char *path_ret, size_t path_bytes,
				  struct fathom_fault *why);

enum { READER_FOUND_PATH_BYTES = 512 };

struct reader_found {
	char path[READER_FOUND_PATH_BYTES];
	struct timespec changed;
};

/*
 * All trace files in `directory` (NULL: /dev/shm) that we can read, the newest first, at most `count_max` of them. Returns
 * their number. Their programs may have ended.
 */
uint32_t reader_find_all(const char *directory, struct reader_found *found_ret, uint32_t count_max);

/* Points in the order of the schema, index below info.point_count; by id; by name, ignoring case. NULL: none. */
const struct reader_point *reader_point_at(const struct reader *reader, uint32_t index);
const struct reader_point *reader_point_by_id(const struct reader *reader, uint16_t id);
const struct reader_point *reader_point_by_name(const struct reader *reader, const char *name);
/* NULL: none. Ignores case. */
const struct reader_group *reader_group_by_name(const struct reader *reader, const char *name);

/* Is the point enabled, by the mask in the file now? */
bool reader_point_enabled(const struct reader *reader, const struct reader_point *point);

/* The current point->total of a followed target; else point->total. */
uint64_t reader_point_total(const struct reader *reader, const struct reader_point *point);

/* The schema's enums, including the states of its machines. NULL: no more. */
const struct reader_enum *reader_enum_at(const struct reader *reader, uint32_t index);
/* An enum's label, or NULL. */
const char *reader_label(const struct reader_enum *labels, int64_t value);

/* The interned string `id`, `*bytes_ret` long; it may lack a NUL. Never NULL; unknown ids give "?". */
const char *reader_string(const struct reader *reader, uint32_t id, size_t *bytes_ret);

/* ---- time ---- */

/* Exactly floor(ticks * 10^9 / rate). */
uint64_t reader_ns_from_ticks(const struct reader *reader, uint64_t ticks);

/* The wall-clock time of a tick, interpolated between clock pairs. Errors: -ENODATA: the file has none. */
MUST_CHECK int reader_wall_ns(const struct reader *reader, uint64_t tick, uint64_t *realtime_ns_ret);

/*
 * The tick from which ages count: the present for a live engine, else its last sign of life, which is its latest
 * heartbeat or the latest tick found anywhere in the file.
 */
uint64_t reader_now(const struct reader *reader);

/* Was it written by a recorder? Then its rings hold all records of a span of time. */
bool reader_is_recording(const struct reader *reader);

/* The latest tick of a record; 0: there is none. */
uint64_t reader_latest_record(const struct reader *reader);

/*
 * The time for which a live process has shown no sign of life: its heartbeat is late, or it is stopped. 0: it is on
 * time, or the file has no heartbeat.
 */
uint64_t reader_silent_ns(const struct reader *reader);

/* ---- threads and owners ---- */

struct reader_thread {
	uint32_t index;
	char name[sizeof(((struct trace_thread *)0)->name)]; /* printable */
	int32_t tid, cpu;				     /* cpu -1: not pinned */
	enum trace_thread_state state;
	uint64_t attached_tick, turns;
	/* the poller or message that it runs now; name "": none */
	char running[64], running_thread[64];
	uint64_t running_since;			      /* tick */
	uint64_t recorded[TRACE_RINGS_PER_THREAD];    /* number of records ever written */
	uint64_t entry_count[TRACE_RINGS_PER_THREAD]; /* capacity in records; 0: no ring */
};

/* Row `index` as it is now. False: never used, or damaged. */
bool reader_thread(const struct reader *reader, uint32_t index, struct reader_thread *thread_ret);

struct reader_owner {
	uint16_t id;
	const char *type, *prefix;	    /* "owner" and "o" if the file has no type */
	char text[READER_OWNER_TEXT_BYTES]; /* printable; "" if the id was given to another owner since */
	uint64_t from_tick, to_tick;	    /* range of ticks for which this is valid */
};

/* The owner `owner` at `tick`. False: owner 0, which means none. */
bool reader_owner(const struct reader *reader, uint16_t owner, uint64_t tick, struct reader_owner *owner_ret);

/* ---- events ---- */

struct reader_event {
	uint64_t tick; /* even; any in SPDK's files */
	bool shared;   /* the tick was read for an earlier event */
	uint32_t seq;  /* of the thread, across both rings */
	uint16_t point_id;
	const struct reader_point *point; /* NULL: the schema is unreadable; slots are as recorded */
	uint16_t owner;			  /* 0: none */
	uint32_t object_id;		  /* READER_NO_OBJECT: none */
	uint32_t thread;		  /* index */
	int32_t cpu;			  /* of the thread; -1: not pinned */
	enum trace_ring_kind ring;
	uint32_t slots[READER_SLOTS_MAX]; /* point->slot_count are set */
	/* of the object's life */
	bool has_life;			     /* dwell and total are valid */
	bool total_partial;		     /* the life began before the oldest record: total is a lower bound */
	uint64_t dwell_ticks;		     /* since the object's previous event; 0 at the first of a life */
	uint64_t total_ticks;		     /* since the first event of its life */
	const struct reader_object *related; /* the parent, named by an argument in this life; NULL: none */
	uint32_t related_id;
};

/* An argument's value: for READER_STR and READER_OBJ the id, for READER_BOOL 0 or 1. Signed types are extended. */
uint64_t reader_arg_value(const struct reader_arg *arg, const uint32_t *slots);

/*
 * The function at offset `place` of the program, by the symbols of a file with its build-id; NULL: no such file, or no
 * function begins there. Valid until the reader is closed.
 */
const char *reader_function(struct reader *reader, uint64_t place);

/* The object that a READER_OBJ or READER_REF argument names. False: none, or of an unknown type. */
bool reader_arg_object(const struct reader *reader, const struct reader_arg *arg, const uint32_t *slots,
		       const struct reader_object **object_ret, uint32_t *id_ret);

/* The state after a move of a state machine; NULL: not a move, or an invalid state. */
const char *reader_event_state(const struct reader_event *event);

/* Counts of records (an event with many arguments has several); `events` counts events. */
struct reader_counts {
	uint64_t recorded;    /* ever, by all threads with a ring */
	uint64_t overwritten; /* by later ones, before or while this was read */
	uint64_t torn;	      /* half old and half new: the file was copied while it was being written */
	uint64_t missing;     /* beyond the end of a truncated file, in a damaged ring, or missed by a recorder */
	uint64_t cleared;     /* before clear_tick */
	uint64_t orphans;     /* parts of events with other parts missing */
	uint64_t unknown;     /* points that the schema does not have */
	uint64_t events;      /* returned so far */
};

struct reader_events;

/*
 * Start at the oldest event. Rings that fit are copied now. Free `*events_ret` before the reader is closed. Errors:
 * -ENOMEM.
 */
MUST_CHECK int reader_events(struct reader *reader, struct reader_events **events_ret);

/*
 * The same without the events of I/O, which are most: a file of any size is read in a short time. For SPDK's files: all
 * events.
 */
MUST_CHECK int reader_events_rare(struct reader *reader, struct reader_events **events_ret);

/* Rings outside the file: a window on a running program's rings, which the caller keeps in its own file. */
struct reader_rings {
	int fd;
	uint32_t count;
	const struct trace_ring *const
		*rings;			/* thread i's at i * TRACE_RINGS_PER_THREAD ...; NULL: none. Without records */
	const uint64_t *records_offset; /* of each, in `fd` */
};

/*
 * Start behind the latest event of a running program. There are no events until reader_events_more(), which releases
 * those up to `until_tick`. Events are in order if no event with an earlier tick is published later. Records that the
 * writer overwrote before they were read are counted as overwritten. Errors: -ENOMEM.
 */
MUST_CHECK int reader_events_follow(struct reader *reader, struct reader_events **events_ret);
/* The same with `rings`, which are lent, in place of the file's own. */
MUST_CHECK int reader_events_follow_rings(struct reader *reader, const struct reader_rings *rings,
					  struct reader_events **events_ret);
/*
 * Forget the lives of objects, after a gap in the records. Unknown beginnings are read from the objects' stories again.
 */
void reader_events_forget_lives(struct reader_events *events);
void reader_events_more(struct reader_events *events, uint64_t until_tick);
/* Does the process that writes the file still run? Checks again at each call. SPDK files: true only if followed. */
bool reader_is_alive(const struct reader *reader);
/* Accepts NULL. */
void reader_events_free(struct reader_events *events);

/* Returns the next event; false: no more. */
MUST_CHECK bool reader_event_next(struct reader_events *events, struct reader_event *event_ret);

/* `recorded` and `overwritten` are complete from the start, except for records lost while reading. */
void reader_events_counts(const struct reader_events *events, struct reader_counts *counts_ret);

/* The parent of object `id` in its latest life, by the events read so far. False: none. */
bool reader_related(const struct reader_events *events, const struct reader_object *object, uint32_t id,
		    const struct reader_object **related_ret, uint32_t *related_id_ret);

/* ---- stories: requests, each with the ticks of its stages ---- */

struct reader_story {
	const struct reader_object *object;
	uint32_t id;
	uint16_t owner;
	uint8_t state; /* not 0 */
	bool partial;  /* it began before the oldest record: begin_tick is its first known tick */
	uint32_t life;
	uint64_t begin_tick;   /* when it left state 0 */
	uint64_t entered_tick; /* when it entered `state` */
	uint32_t args[READER_STORY_SLOTS_MAX];
	uint64_t ticks[TRACE_STORY_STATES_MAX]; /* of this life; 0: not entered */
	const struct reader_object *parent;	/* the parent, if a story argument names one; else NULL */
	uint32_t parent_id;
};

/* Position of a walk; zero it to start. */
struct reader_walk {
	uint64_t pool, entry;
	uint64_t seen, skipped; /* requests examined; skipped: changed too fast to be read (so not hung), or damaged */
};

/*
 * Number of requests outside the file, whose pools did not fit into it: of `object`, or with NULL of pools with several
 * types. It is not known whether they are in progress.
 */
uint64_t reader_stories_outside_file(const struct reader *reader, const struct reader_object *object);

/* Returns the next request in progress; false: no more. */
MUST_CHECK bool reader_story_next(const struct reader *reader, struct reader_walk *walk, struct reader_story *story_ret);

/* ---- stages: where the time of requests went ---- */

struct reader_stages;

/*
 * Sums up lives of requests from their moves, in bounded memory. A life counts when all of it was seen and it has ended.
 * Several stays in one state count as one. Errors: -ENOMEM.
 */
MUST_CHECK int reader_stages_create(const struct reader *reader, struct reader_stages **stages_ret);
/* Accepts NULL. */
void reader_stages_free(struct reader_stages *stages);
/* Pass all events, in their order. */
void reader_stages_event(struct reader_stages *stages, const struct reader_event *event);
/* Print only the objects chosen by calls of this (NULL: none); without a call, all. */
void reader_stages_want(struct reader_stages *stages, const struct reader_object *object);

/* ---- printing ---- */

struct reader_printer;

enum reader_print_style { READER_PRINT_TEXT, READER_PRINT_JSON };

/*
 * Print lines to `file`, which is borrowed. `wall`: print the time of day. Errors: -ENODATA: `wall`, and no clock pairs.
 */
MUST_CHECK int reader_printer_create(struct reader *reader, FILE *file, enum reader_print_style style, bool wall,
				     struct reader_printer **printer_ret);
/*
 * Write the buffer. Afterwards the ids of owners may have new meanings. Returns 0, or the negative errno of the first
 * failed write.
 */
int reader_printer_flush(struct reader_printer *printer);
/* Writes the buffer and frees the printer. Returns 0, or the negative errno of the first failed write. Accepts NULL. */
int reader_printer_destroy(struct reader_printer *printer);
/* Print the file's description and, unless `counts` is NULL, how much of the history it holds. */
void reader_print_header(struct reader_printer *printer, const struct reader_counts *counts);
void reader_print_event(struct reader_printer *printer, const struct reader_event *event);
/* Print what was left out while reading. Text: nothing if nothing was. */
void reader_print_end(struct reader_printer *printer, const struct reader_counts *counts);
/* Print "# text"; nothing in JSON. */
void reader_print_remark(struct reader_printer *printer, const char *text);
/* Print a request in progress, with its age at `now`; `related` may be NULL. */
void reader_print_story(struct reader_printer *printer, const struct reader_story *story, uint64_t now,
			const struct reader_object *related, uint32_t related_id);
/* Print tables: of each type of request, and of the most frequent I/O with its parts. */
void reader_print_stages(struct reader_printer *printer, const struct reader_stages *stages);
/* Print a thread. `now`: for the time that it has run its poller or message. */
void reader_print_thread(struct reader_printer *printer, const struct reader_thread *thread, uint64_t now);

#endif
