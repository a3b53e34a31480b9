/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace - sets up the file that record.h writes: its threads, owners, strings and pools.
 *
 * Without trace_open() all functions work and nothing is recorded, so unit tests and tools need no file. All functions take
 * one lock; do not call them in hot paths. Thread: any pthread, unless stated otherwise.
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
	TRACE_SLOW_FLOOR_PER_SEC = 500000,  /* times under 2 us are not slow, unless configured */
	TRACE_IO_ENTRIES_DEFAULT = 1 << 15, /* 1 MiB per reactor, which fits into the cache */
	TRACE_RARE_ENTRIES_DEFAULT = 1 << 15,
	TRACE_IO_ENTRIES_MIN = 1 << 10,
	TRACE_IO_ENTRIES_MAX = 1 << 26,
	TRACE_THREADS_DEFAULT = 8,
	TRACE_SMALL_THREADS_DEFAULT = 8,
	TRACE_NAME_BYTES_MAX = 64,
};

struct trace_schema;

struct trace_options {
	const struct trace_schema *schema; /* from the program's generated header */
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
	/* Gets lines for the operator, without a newline, during trace_open(). NULL: they go to stderr. */
	void (*say)(const char *text);
	/*
	 * For the simulator: memory instead of a file, without facts about this machine (pid, host and clocks are 0), so
	 * that a seed gives the same bytes everywhere.
	 */
	bool in_memory;
	uint64_t in_memory_tick;
	bool keeps_named; /* room for the lives that the program names elsewhere: 0.5 MiB */
};

/*
 * Set the schema without trace_open(), for calls about groups before or without a file. `schema` is lent forever. Call it
 * before the first thread is created.
 */
void trace_schema_set(const struct trace_schema *schema) TRACE_API(trace_schema_set);

/*
 * Make the file, reserve its memory, and record `groups`. One file at a time: a daemon opens it after its last fork(); a
 * child of fork() records nothing until it opens a file of its own. If the filesystem is too small, the I/O rings are
 * halved until they fit, and `say` gets a line about it. Errors (explained in `why`): -EINVAL (schema, name, groups,
 * entries, threads), -EBUSY (a file is open), -EEXIST, -ENOSPC (the smallest rings do not fit), -EACCES ...
 */
TRACE_MUST_CHECK int trace_open(const struct trace_options *options, struct fathom_fault *why) TRACE_API(trace_open);

/*
 * Close the file. It stays if anything was recorded in it, and is removed otherwise. Threads may stay attached; nothing of
 * them is recorded any more. To record in a later file they attach again.
 */
void trace_close(void) TRACE_API(trace_close);

const char *trace_path(void) TRACE_API(trace_path); /* "" without a file */

/* The whole file in memory; NULL without a file. */
const void *trace_memory(size_t *bytes_ret) TRACE_API(trace_memory);

/*
 * Give the calling pthread a slot named `name` with a pair of rings. `full`: with an I/O ring of full size, or if all of
 * these are in use, a small one. `cpu`: -1 unless it is pinned. Errors: -ENOSPC (all are in use: the file counts the thread
 * as refused and its events as unregistered), -ENOENT (no file; nothing is counted), -ENOMEM.
 */
int trace_thread_attach(const char *name, int cpu, bool full) TRACE_API(trace_thread_attach);
/*
 * Detach the calling pthread. Its rings stay readable until another thread needs the slot. The end of a thread detaches it.
 * No effect if it is not attached.
 */
void trace_thread_detach(void) TRACE_API(trace_thread_detach);

/* Publish what the calling pthread runs now, by plain stores: for the reactor's loop. `name` NULL: nothing. */
static inline void trace_running(const struct trace_istr *name, const struct trace_istr *thread, uint64_t since)
{
	struct trace_thread *slot = trace_self.slot;

	if (TRACE_UNLIKELY(!slot))
		return;
	slot->running_thread = thread ? thread->id : 0;
	slot->running_since = since;
	__atomic_store_n(&slot->running_name, name ? name->id : 0, __ATOMIC_RELEASE);
}

/* Record the time of all clocks. The control thread calls it periodically; it is cheap. */
void trace_clock_note(void) TRACE_API(trace_clock_note);

/* The only copy of the string. Never NULL; if the file has no room for more strings, its id is that of "(strings full)". */
const struct trace_istr *trace_intern(const char *text) TRACE_API(trace_intern);

/*
 * The same for an untrusted string, such as the NQNs of a Connect. A peer can send any number of them, and strings are
 * never freed: so they may use TRACE_FOREIGN_BYTES together; then the result is "(too many names)".
 */
const struct trace_istr *trace_intern_foreign(const char *text) TRACE_API(trace_intern_foreign);

/* Give an object outside of pools the next identity of `type` (TRACE_OBJECT_* of points.gen.h). */
void trace_object_init(struct trace_object *object, uint16_t type) TRACE_API(trace_object_init);

/*
 * Create an owner, on whose behalf events happen. Ids are reused, the longest free first. 0, no owner, if all
 * TRACE_OWNERS_MAX are in use. `tick` 0: now.
 */
uint16_t trace_owner_create(uint16_t type, uint64_t tick, const char *format, ...) TRACE_API(trace_owner_create)
	TRACE_PRINTF_LIKE(3, 4);
/* Change the text, for example when the host of a connection becomes known. Ignores owner 0. */
void trace_owner_describe(uint16_t owner, const char *format, ...) TRACE_API(trace_owner_describe) TRACE_PRINTF_LIKE(2, 3);
void trace_owner_destroy(uint16_t owner, uint64_t tick) TRACE_API(trace_owner_destroy);

/*
 * Create `count` zeroed objects of `stride` bytes (a multiple of 64), each with a struct trace_story at `story_offset`,
 * with consecutive ids. They are in the trace file if there is room, which shows hung requests after SIGKILL; else in
 * private memory, and the file counts them. A second story in the same objects (`also_type` not 0, at `also_offset`) gets
 * the same ids. Aborts if out of memory.
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
 * Set the points to record, by the syntax of option -e: `group`, `group:NAME+NAME`, `group:HEXMASK`, or a hexadecimal mask
 * of groups (0xFFFF), comma-separated; `all`, `none`. An error changes nothing. Errors (explained): -EINVAL.
 */
TRACE_MUST_CHECK int trace_mask_set(const char *spec, struct fathom_fault *why) TRACE_API(trace_mask_set);

/* Switch a group, or "all", or only its points in `points` (bit n: its n-th point). -ENOENT: the group does not exist. */
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
/* Point number `index` of `group`; false: no more. */
bool trace_group_point(unsigned int group, unsigned int index, struct trace_point_info *info_ret)
	TRACE_API(trace_group_point);
uint64_t trace_group_enabled_points(unsigned int group) TRACE_API(trace_group_enabled_points);

/* ---- slow lives and filters ---- */

/*
 * Keep the lives of `object`, such as nvmf_req, that stay in `state` (NULL: live) for `slow_ns`. UINT64_MAX, the default:
 * as long as about one in TRACE_SLOW_ONE_IN does. Errors (explained): -ENOENT.
 */
TRACE_MUST_CHECK int trace_slow_set(const char *object, const char *state, uint64_t slow_ns, struct fathom_fault *why)
	TRACE_API(trace_slow_set);

/*
 * Record in the I/O rings only events of owners whose text contains `text`, now or later: a host's NQN, a queue pair's
 * address, a volume's name. NULL: all. Rare events, sums and exemplars are not filtered.
 */
void trace_filter_set(const char *text) TRACE_API(trace_filter_set);
/* The text of the filter; "": none. Valid until the next trace_filter_set(). */
const char *trace_filter_text(void) TRACE_API(trace_filter_text);

/* Discard the contents of the rings: readers skip records before the tick of this call. */
void trace_clear(void) TRACE_API(trace_clear);

#ifdef __cplusplus
}
#endif

#endif
