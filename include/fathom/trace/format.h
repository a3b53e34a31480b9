/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * format - the trace file, byte for byte. Frozen: other machines and later versions read it.
 *
 *   /dev/shm/<name>_trace.pid<pid>
 *
 *   header | process | clocks | masks | schema (JSON) | strings | owners | threads | rings | pool table | pool memory |
 *   lives | exemplars | frozen
 *
 * The header's section table has the place of each part; readers use only the table, and skip unknown kinds.
 * Little-endian, natural alignment, no pointers. docs/formats/trace.md describes it in words.
 *
 * Writers: a ring has one, its pthread. Everything else is written under one lock.
 * Readers: any process, at any time, also after the writer was killed between two instructions:
 *
 *  - A ring's `head` counts the records ever published. The writer publishes n before it writes record n. A reader copies
 *    record p, then reads head h: p was whole if p + entry_count >= h + TRACE_PARTS_MAX, and may be overwritten otherwise.
 *    At most TRACE_PARTS_MAX records are being written beyond h.
 *  - A string, an owner and a pool entry are valid only if their `used`, `tick_from` or `count` includes them. It is stored
 *    last.
 *  - The `version` of an owner is odd while it is written. A copy is whole if the version before it was even and is the
 *    same after it.
 */
#ifndef FATHOM_TRACE_FORMAT_H
#define FATHOM_TRACE_FORMAT_H

#include <assert.h>
#include <stdint.h>

#ifdef __cplusplus
/* C11 has anonymous and flexible members. C++ compilers accept them; only -Wpedantic warns. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
extern "C" {
#endif

#define TRACE_MAGIC "FATHOMTR"

enum {
	TRACE_VERSION = 1,
	TRACE_SECTIONS_MAX = 16,
	TRACE_CLOCK_PAIRS_MAX = 64,
	TRACE_POINTS_MAX = 1024,
	TRACE_OBJECT_TYPES_MAX = 254, /* a `ref` has one byte for the type; all bits set: no object */
	TRACE_THREADS_MAX = 64,
	TRACE_OWNERS_MAX = 4096,
	TRACE_POOLS_MAX = 1024,
	TRACE_STRINGS_BYTES = 256 * 1024,
	TRACE_FOREIGN_BYTES = TRACE_STRINGS_BYTES / 2, /* of them: the most for untrusted strings, such as NQNs of hosts */
	TRACE_ARG_SLOTS_HEAD = 3,		       /* 32-bit argument slots in a record ... */
	TRACE_ARG_SLOTS_PART = 4,		       /* ... and in each continuation of it */
	TRACE_PARTS_MAX = 4,			       /* records of one event: the head and its continuations */
	TRACE_STORY_STATES_MAX = 11,
	TRACE_TICK_SHARED = 1,	   /* in a tick: it was read for an earlier event, which shares it */
	TRACE_POINT_PART = 0xffff, /* `point` of a continuation record */
	TRACE_BUCKETS_OCTAVE = 8,  /* of a histogram: in each doubling; below twice that, one for each tick */
	TRACE_BUCKETS = 368,	   /* to 2^48 ticks; the last has all that is longer */
	TRACE_HEARTBEAT_MS = 1000, /* period in which a live process updates alive_tick */
	TRACE_EXEMPLAR_STORIES_MAX = 2,
	TRACE_EXEMPLAR_RECORDS_MAX = 22,
};

enum trace_section_kind {
	TRACE_SECTION_PROCESS = 1,
	TRACE_SECTION_CLOCKS = 2,
	TRACE_SECTION_MASKS = 3,
	TRACE_SECTION_SCHEMA = 4,
	TRACE_SECTION_STRINGS = 5,
	TRACE_SECTION_OWNERS = 6,
	TRACE_SECTION_THREADS = 7,
	TRACE_SECTION_RINGS = 8,
	TRACE_SECTION_POOLS = 9,
	TRACE_SECTION_POOL_MEMORY = 10,
	TRACE_SECTION_LIVES = 11,
	TRACE_SECTION_EXEMPLARS = 12,
	TRACE_SECTION_FROZEN = 13,
};

struct trace_section {
	uint32_t kind;
	uint32_t stride; /* bytes of an element; 0: not an array */
	uint64_t offset; /* from the start of the file */
	uint64_t bytes;
	uint64_t count; /* capacity in elements */
};
static_assert(sizeof(struct trace_section) == 32, "frozen");

/* A live writer holds a lock (F_OFD_SETLK, for writing) on the file. */
#define TRACE_FLAG_LOCKED 1u

struct trace_header {
	char magic[8];
	uint32_t version;
	uint32_t header_bytes;
	uint64_t file_bytes;
	uint32_t section_count;
	uint32_t flags;		       /* TRACE_FLAG_... */
	uint64_t unregistered_records; /* events on threads without rings: counted, not recorded */
	uint64_t clear_tick;	       /* trace_clear(): ignore records before it */
	uint64_t refused_threads;      /* threads without rings, because all were in use */
	uint64_t alive_tick;	       /* of the latest heartbeat; 0: the writer has none */
	struct trace_section sections[TRACE_SECTIONS_MAX];
};
static_assert(sizeof(struct trace_header) == 64 + 16 * 32, "frozen");

/* The writer. */
struct trace_process {
	char name[64];
	char host[64];
	char version[64];
	uint8_t build_id[32];
	uint32_t build_id_bytes;
	int32_t pid;
	uint64_t start_tick;
	uint64_t end_tick;  /* 0 while it runs, and after a SIGKILL */
	uint64_t tick_rate; /* ticks in a second */
	char program[216];  /* the path of its file */
	uint8_t reserved[512 - 64 * 3 - 32 - 8 - 24 - 216];
};
static_assert(sizeof(struct trace_process) == 512, "frozen");

/* The same moment on three clocks. A live process adds pairs from time to time; count is stored last. */
struct trace_clock_pair {
	uint64_t tick;
	uint64_t realtime_ns;
	uint64_t monotonic_ns;
};

struct trace_clocks {
	uint64_t
		count; /* ever taken: the first is at 0 for good, pair i > 0 at 1 + (i - 1) % (TRACE_CLOCK_PAIRS_MAX - 1) */
	uint64_t reserved[7];
	struct trace_clock_pair pairs[TRACE_CLOCK_PAIRS_MAX];
};

struct trace_mask_words {
	uint64_t words[TRACE_POINTS_MAX / 64]; /* bit n of word n / 64: point n is recorded */
};

/* An interned string's id is the offset of its text from the section's start. Id 0 is the empty string. */
struct trace_strings {
	uint64_t used; /* bytes, with this field */
};

struct trace_owner {
	uint64_t tick_from; /* when this owner got the id; 0: never used. Ids are reused, oldest first */
	uint64_t tick_to;   /* when it lost the id; 0: it has it */
	uint16_t type;
	uint16_t version; /* odd: being written, or the writer was killed while writing */
	uint16_t reserved[2];
	char text[104];
};
static_assert(sizeof(struct trace_owner) == 128, "frozen");

enum trace_ring_kind { TRACE_RING_IO = 0, TRACE_RING_RARE = 1, TRACE_RINGS_PER_THREAD = 2 };

enum trace_thread_state { TRACE_THREAD_FREE = 0, TRACE_THREAD_LIVE = 1, TRACE_THREAD_ENDED = 2 };

struct trace_thread {
	char name[32];
	int32_t tid;
	int32_t cpu; /* -1: not pinned */
	uint32_t state;
	uint32_t reserved0;
	uint64_t attached_tick;
	uint64_t ring_offset[TRACE_RINGS_PER_THREAD]; /* of a struct trace_ring, from the start of the file; 0: none */
	uint64_t lives_offset;			      /* of its struct trace_lives, one for each type of request; 0: none */
	uint64_t lives_count;
	uint64_t exemplars_offset; /* of its struct trace_exemplars; 0: none */
	uint64_t reserved1[4];
	/* what runs now: written before each poller and message, so it has a cache line of its own */
	uint32_t running_name;	 /* string id; 0: nothing */
	uint32_t running_thread; /* string id of the light thread */
	uint64_t running_since;	 /* tick */
	uint64_t turns;		 /* of the loop, stored now and then */
	uint64_t reserved2[5];
	uint64_t reserved3[8];
};
static_assert(sizeof(struct trace_thread) == 256, "frozen");

struct trace_record {
	uint64_t tick; /* bit 0 set: read for an earlier event, which shares it */
	union {
		struct {
			uint32_t seq; /* of the thread, across both of its rings; equal in a continuation */
			uint16_t point;
			uint16_t owner;	 /* a continuation: its number, from 1 */
			uint32_t object; /* a continuation: its first argument slot */
			uint32_t args[TRACE_ARG_SLOTS_HEAD];
		};
		uint64_t words[3]; /* the same fields, as the writer stores them */
	};
};
static_assert(sizeof(struct trace_record) == 32, "frozen");

struct trace_ring {
	uint64_t head;	      /* records ever published */
	uint64_t entry_count; /* a power of two */
	uint32_t thread;      /* index in the threads section */
	uint32_t kind;
	uint64_t lost;	/* in a recorded file: records that were overwritten before they could be recorded */
	uint64_t first; /* in a copy made by the program itself: earlier records were overwritten during the copy */
	uint64_t reserved[3];
	struct trace_record records[];
};
static_assert(sizeof(struct trace_ring) == 64, "frozen");

/* The first whole position of a ring of `entry_count`, in a copy that was made before its head was `head`. */
static inline uint64_t trace_oldest_whole(uint64_t entry_count, uint64_t head)
{
	uint64_t kept = entry_count - TRACE_PARTS_MAX;

	return head > kept ? head - kept : 0;
}

/*
 * Read the heads of a thread's two rings at one moment. The rare head seldom moves; if it moves constantly, the two are of
 * approximately one moment.
 */
static inline void trace_heads(const struct trace_ring *io, const struct trace_ring *rare, uint64_t *io_head_ret,
			       uint64_t *rare_head_ret)
{
	uint64_t before;
	int tries = 1000;

	do {
		before = __atomic_load_n(&rare->head, __ATOMIC_ACQUIRE);
		*io_head_ret = __atomic_load_n(&io->head, __ATOMIC_ACQUIRE);
		*rare_head_ret = __atomic_load_n(&rare->head, __ATOMIC_ACQUIRE);
	} while (before != *rare_head_ret && --tries > 0);
}

/* The identity of a traced object in records. */
struct trace_object {
	uint32_t id; /* within its type */
	uint16_t owner;
	uint16_t type;
};
static_assert(sizeof(struct trace_object) == 8, "frozen");

/*
 * The story of a request. `ticks[s]`: when it last entered state s; valid for this life if not before ticks[0], which is
 * when it left its first (free) state. In state 0 the request is not in progress.
 */
struct trace_story {
	struct trace_object trace;
	uint8_t state;
	uint8_t reserved0;
	uint16_t path;	  /* bit s: state s was entered in this life */
	uint32_t life;	  /* counts its lives */
	uint32_t args[6]; /* named by the schema's story_args */
	uint64_t ticks[TRACE_STORY_STATES_MAX];
};
static_assert(sizeof(struct trace_story) == 128, "frozen");

/*
 * A histogram of the times that requests of a thread stayed in one state, of all that have ended. A bucket b below 16
 * counts stays of b ticks; a bucket from 16 on counts stays of at least (8 + b % 8) << (b / 8 - 1) ticks, below the next
 * bucket's.
 */
struct trace_stage {
	uint64_t ticks; /* sum of all stays */
	uint64_t ticks_max;
	uint64_t slow_ticks; /* the life of a stay this long is kept as an exemplar */
	uint64_t reserved[5];
	uint64_t buckets[TRACE_BUCKETS];
	uint64_t before[TRACE_BUCKETS]; /* the buckets at the beginning of the current window */
};
static_assert(sizeof(struct trace_stage) == 64 + 16 * TRACE_BUCKETS, "frozen");

/*
 * The ended lives of one type of request on one thread. Requests of one batch have the same ticks: so the latest life is
 * kept in `last`, `alike` counts lives equal to it, and they are added to the stages when a different one ends. For exact
 * sums, add `last` to the stages `alike` times.
 */
struct trace_lives {
	uint32_t object_type; /* 0: not used yet */
	uint32_t thread;
	uint64_t failed;
	uint64_t kept;	      /* exemplars ever made */
	uint64_t window;      /* lives after which slow_ticks are computed again; doubles up to TRACE_WINDOW_MAX */
	uint64_t window_left; /* lives left in the current window */
	uint64_t fixed;	      /* bit s: slow_ticks of stage s were configured, not computed */
	uint64_t reserved[2];
	struct {
		uint64_t alike; /* 0: none */
		uint32_t path;
		uint32_t slow; /* a stage reached its slow_ticks: the life is kept, so none is alike */
		uint64_t end;
		uint64_t ticks[TRACE_STORY_STATES_MAX]; /* as in struct trace_story */
		uint64_t reserved[2];
	} last;
	struct trace_stage stages[TRACE_STORY_STATES_MAX]; /* [0]: the whole life */
};
static_assert(sizeof(struct trace_lives) == 64 + 128 + TRACE_STORY_STATES_MAX * sizeof(struct trace_stage), "frozen");

enum trace_exemplar_why { TRACE_EXEMPLAR_SLOW = 1, TRACE_EXEMPLAR_FAILED = 2 };

/*
 * The life of a request, kept for hours: its story, the story of its I/O, and the records about both that the I/O ring
 * still had. A copy is whole if `version` is even, not 0, and the same after copying.
 */
struct trace_exemplar {
	uint32_t version;
	uint16_t why;	     /* enum trace_exemplar_why */
	uint16_t slow_state; /* the state with the long stay; 0: the whole life */
	uint64_t total_ticks;
	uint64_t begin_tick;
	uint64_t end_tick;
	uint32_t epoch; /* the epoch of which it is among the slowest */
	uint16_t story_count;
	uint16_t record_count;
	uint32_t records_cut; /* not 0: records may be missing: overwritten in the ring, or no room */
	uint32_t copy_of;     /* not 0: a copy of a row of thread copy_of - 1, because metrics name this life */
	uint32_t reserved[4];
	struct trace_story stories[TRACE_EXEMPLAR_STORIES_MAX];	 /* of the request, and of its I/O; in state 0 */
	struct trace_record records[TRACE_EXEMPLAR_RECORDS_MAX]; /* in order */
};
static_assert(sizeof(struct trace_exemplar) == 1024, "frozen");

/*
 * A thread's exemplars: the slowest of each recent epoch, the latest other slow ones, and the latest failed ones. Slow and
 * failed exemplar number n is at row n % count; head is the number of exemplars ever made.
 */
struct trace_exemplars {
	uint64_t epoch_ticks;
	uint32_t epoch_count; /* epochs that are kept; epoch e has the rows from e % epoch_count * epoch_rows on */
	uint32_t epoch_rows;
	uint32_t slow_rows;   /* behind those of the epochs */
	uint32_t failed_rows; /* behind the slow ones */
	uint64_t slow_head;
	uint64_t failed_head;
	uint64_t reserved[3];
	struct trace_exemplar rows[];
};
static_assert(sizeof(struct trace_exemplars) == 64, "frozen");

enum trace_frozen_why {
	TRACE_FROZEN_TRIGGER = 1, /* an event matched the expression `text` */
	TRACE_FROZEN_SIGNAL = 2,  /* a signal ended the process */
	TRACE_FROZEN_MUST = 3,	  /* a must() failed: `text`, at `place` */
	TRACE_FROZEN_ASKED = 4,	  /* an operator requested it, for the reason `text` */
	TRACE_FROZEN_ENDED = 5,	  /* the process ended without closing the file */
};

/* Why and when this file was frozen. Zeroes: the process lives, or ended normally. */
struct trace_frozen {
	uint64_t tick; /* 0: not frozen. Stored last */
	uint32_t why;
	uint32_t signal;
	int32_t code; /* si_code */
	int32_t tid;
	uint64_t address;     /* si_addr */
	uint64_t instruction; /* the thread's instruction pointer */
	uint64_t offset;      /* the same within the file `place`, for addr2line(1) */
	uint64_t realtime_ns;
	uint64_t from_tick, to_tick; /* of a trigger: only this range is in the file; 0: all that the rings had */
	uint64_t reserved;
	char text[216];
	char place[216]; /* file and line of a must(); of a signal: the program or library with the instruction */
};
static_assert(sizeof(struct trace_frozen) == 512, "frozen");

/*
 * `count` stories of one type, the first at `offset`, `stride` bytes apart. A pool is in use if count is not 0. Offset 0:
 * its requests are not in the file; with type 0 it stands for several such pools.
 */
struct trace_pool {
	uint32_t object_type;
	uint32_t first_id;
	uint64_t offset; /* from the start of the file */
	uint64_t stride;
	uint64_t count;
};
static_assert(sizeof(struct trace_pool) == 32, "frozen");

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
