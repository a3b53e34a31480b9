/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace - setting up what record.h writes into: the file, its threads, owners, strings and pools.
 *
 * Without trace_open() everything here works and nothing is recorded: unit tests and tools need no file. All functions are
 * for rare moments, take one lock, and may be called from any pthread unless they say otherwise.
 */
#ifndef FATHOM_TRACE_TRACE_H
#define FATHOM_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/fault.h"
#include "fathom/trace/format.h"
#include "fathom/trace/record.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	TRACE_SLOW_ONE_IN = 10000,
	TRACE_SLOW_FLOOR_PER_SEC = 500000,  /* nothing under 2 us is slow unless somebody says so */
	TRACE_IO_ENTRIES_DEFAULT = 1 << 15, /* 1 MiB for each reactor: it stays in the cache */
	TRACE_RARE_ENTRIES_DEFAULT = 1 << 15,
	TRACE_IO_ENTRIES_MIN = 1 << 10,
	TRACE_IO_ENTRIES_MAX = 1 << 26,
	TRACE_THREADS_DEFAULT = 8,
	TRACE_SMALL_THREADS_DEFAULT = 8,
	TRACE_NAME_BYTES_MAX = 64,
};

struct trace_schema;

struct trace_options {
	const struct trace_schema *schema; /* the program's, of its generated header */
	const char *name;		   /* of the file: /dev/shm/<name>_trace.pid<pid> */
	const char *version;		   /* of the program; NULL: none */
	const char *groups;		   /* to record from the start, as for trace_mask_set(); NULL: none */
	/*
	 * Slots: for threads with an I/O ring of `io_entries` and exemplars, and for others, whose I/O ring has
	 * TRACE_IO_ENTRIES_MIN. 0: the defaults. At most TRACE_THREADS_MAX together.
	 */
	uint32_t thread_count, small_thread_count;
	uint32_t io_entries, rare_entries; /* of 32 bytes; powers of two; 0: the defaults */
	uint64_t pool_bytes;		   /* room for request pools; 0: default, 8 MiB */
	const char *directory;		   /* NULL: /dev/shm */
	const char *size_option;	   /* by which people choose io_entries, for messages; NULL: none */
	/* Takes a line for the operator, without a newline, from within trace_open(). NULL: lines go to stderr. */
	void (*say)(const char *text);
	/*
	 * The simulator's: memory instead of a file, and nothing of this machine in it (pid, host and clocks are 0), so
	 * that one seed gives the same bytes everywhere.
	 */
	bool in_memory;
	uint64_t in_memory_tick;
};

/*
 * What trace_open() does with `schema`, for those who ask about groups before there is a file, or without one. `schema`
 * is lent for good. Before any other thread is there.
 */
void trace_schema_set(const struct trace_schema *schema) TRACE_API(trace_schema_set);

/*
 * Make the file and reserve its memory; what `groups` names is recorded then. One file at a time: a daemon opens it after
 * its last fork(), and a child of fork() records nothing until it opens one of its own. If the filesystem is too small, the
 * I/O rings are halved until it fits, and a line says so.
 * Errors (explained in `why`): -EINVAL (schema, name, groups, entries, threads), -EBUSY (one is open), -EEXIST,
 * -ENOSPC (also the smallest did not fit), -EACCES ...
 */
TRACE_MUST_CHECK int trace_open(const struct trace_options *options, struct fathom_fault *why) TRACE_API(trace_open);

/*
 * The file stays if anything was ever recorded in it, and is removed otherwise. Threads that are still attached may go on,
 * and end: nothing is recorded any more. They attach anew to a file that is opened later.
 */
void trace_close(void) TRACE_API(trace_close);

const char *trace_path(void) TRACE_API(trace_path); /* "" without a file */

/* The whole file in memory; NULL without one. */
const void *trace_memory(size_t *bytes_ret) TRACE_API(trace_memory);

/*
 * Give the calling pthread a slot, named `name`, with a pair of rings; `full`: one with an I/O ring of full size, or if all
 * of these are taken, a small one. `cpu`: -1 unless it is pinned. Errors: -ENOSPC (all are taken: the file counts the
 * thread as refused, and then its events as unregistered), -ENOENT (no file; nothing is counted), -ENOMEM.
 */
int trace_thread_attach(const char *name, int cpu, bool full) TRACE_API(trace_thread_attach);
/*
 * The rings stay readable and are given to a later thread when no slot is unused. A thread that ends attached is
 * detached then. Without effect if it is not attached.
 */
void trace_thread_detach(void) TRACE_API(trace_thread_detach);

/* Publish what the calling pthread runs now: plain stores, for the reactor's loop. `name` NULL: nothing. */
static inline void trace_running(const struct trace_istr *name, const struct trace_istr *thread, uint64_t since)
{
	struct trace_thread *slot = trace_self.slot;

	if (TRACE_UNLIKELY(!slot))
		return;
	slot->running_thread = thread ? thread->id : 0;
	slot->running_since = since;
	__atomic_store_n(&slot->running_name, name ? name->id : 0, __ATOMIC_RELEASE);
}

/* Note the time on all clocks. The control thread calls it now and then; cheap. */
void trace_clock_note(void) TRACE_API(trace_clock_note);

/* The string's one copy. Never NULL; when the file's room for strings has ended, its id is that of "(strings full)". */
const struct trace_istr *trace_intern(const char *text) TRACE_API(trace_intern);

/*
 * Likewise for what a stranger chose, such as the NQNs in a Connect, and can choose anew as often as it likes: strings are
 * never forgotten, so all that came this way take at most TRACE_FOREIGN_BYTES; then it is "(too many names)".
 */
const struct trace_istr *trace_intern_foreign(const char *text) TRACE_API(trace_intern_foreign);

/* The next identity of `type` (TRACE_OBJECT_* of points.gen.h) for an object that is in no pool. */
void trace_object_init(struct trace_object *object, uint16_t type) TRACE_API(trace_object_init);

/*
 * An owner: who events happen on behalf of. Ids are used again, the one longest free first. 0, the nobody, when all
 * TRACE_OWNERS_MAX are taken. `tick` 0: now.
 */
uint16_t trace_owner_create(uint16_t type, uint64_t tick, const char *format, ...) TRACE_API(trace_owner_create)
	TRACE_PRINTF_LIKE(3, 4);
/* Change the text, as when a connection has learnt which host it belongs to. Owner 0 is ignored. */
void trace_owner_describe(uint16_t owner, const char *format, ...) TRACE_API(trace_owner_describe) TRACE_PRINTF_LIKE(2, 3);
void trace_owner_destroy(uint16_t owner, uint64_t tick) TRACE_API(trace_owner_destroy);

/*
 * `count` zeroed objects of `stride` bytes (a multiple of 64), whose struct trace_story at `story_offset` is initialised
 * with consecutive ids. In the trace file while there is room, so that hung requests are seen after SIGKILL; else in
 * private memory, which works as well and is counted. A second story in the same objects (`also_type` not 0, at
 * `also_offset`) gets the same ids. Aborts when out of memory.
 */
struct trace_pool_spec {
	uint16_t type;
	size_t story_offset;
	uint16_t also_type;
	size_t also_offset;
	size_t stride;
	uint32_t count;
};
void *trace_pool_create(const struct trace_pool_spec *spec) TRACE_API(trace_pool_create);
void trace_pool_destroy(void *pool) TRACE_API(trace_pool_destroy);

/* ---- which points are recorded ---- */

/*
 * Set the points to record from what -e takes: `group`, `group:NAME+NAME`, `group:HEXMASK`, a hexadecimal mask of groups
 * (0xFFFF), comma-separated; `all`, `none`. Nothing changes on error. Errors (explained): -EINVAL.
 */
TRACE_MUST_CHECK int trace_mask_set(const char *spec, struct fathom_fault *why) TRACE_API(trace_mask_set);

/*
 * Switch one group by name, or "all", or the points of `group` in `points` (bit n: its n-th point). -ENOENT: no such group.
 */
TRACE_MUST_CHECK int trace_group_enable(const char *group, uint64_t points, bool enable) TRACE_API(trace_group_enable);

struct trace_point_info {
	const char *name;
	const char *group;
	uint16_t point;
	uint16_t group_index;
	uint16_t index_in_group;
	bool enabled;
};
unsigned int trace_group_count(void) TRACE_API(trace_group_count);
const char *trace_group_name(unsigned int group) TRACE_API(trace_group_name);
const char *trace_group_text(unsigned int group) TRACE_API(trace_group_text);
/* The points of `group`, one after the other; false: no more. */
bool trace_group_point(unsigned int group, unsigned int index, struct trace_point_info *info_ret)
	TRACE_API(trace_group_point);
uint64_t trace_group_enabled_points(unsigned int group) TRACE_API(trace_group_enabled_points);

/* ---- what is slow ---- */

/*
 * The life of an `object`, such as nvmf_req, is kept whole if it stays in `state` (NULL: lives) for `slow_ns`; UINT64_MAX:
 * as long as about one in TRACE_SLOW_ONE_IN does, which is the default. Errors (explained): -ENOENT.
 */
TRACE_MUST_CHECK int trace_slow_set(const char *object, const char *state, uint64_t slow_ns, struct fathom_fault *why)
	TRACE_API(trace_slow_set);

/*
 * Record into the I/O rings only what happens on behalf of owners whose text contains `text`, now or later: a host's NQN,
 * a queue pair's address, a volume's name. NULL: all. What is rare is recorded as ever, and lives are summed and kept.
 */
void trace_filter_set(const char *text) TRACE_API(trace_filter_set);
/* "" without one. Valid until the next set. */
const char *trace_filter_text(void) TRACE_API(trace_filter_text);

/* Forget what the rings hold: readers skip records before the tick of this call. */
void trace_clear(void) TRACE_API(trace_clear);

#ifdef __cplusplus
}
#endif

#endif
