/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - what the files of base/observe/trace share: one mapped file, one lock. */
#ifndef OBSERVE_TRACE_INTERNAL_H
#define OBSERVE_TRACE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/bits.h"
#include "base/fault.h"
#include "base/must.h"
#include "fathom/trace/schema.h"
#include "fathom/trace/trace.h"

struct trace_file {
	uint8_t *memory; /* NULL: no file */
	size_t bytes;
	bool in_memory, locked;
	bool unnamed; /* the file gets its name only when it is complete */
	int fd;	      /* of the file; holds the writer's lock */
	char path[256];
	struct trace_header *header;
	struct trace_process *process;
	struct trace_clocks *clocks;
	struct trace_mask_words *masks;
	struct trace_owner *owners;
	struct trace_thread *threads;
	struct trace_exemplars *named; /* NULL: no room for named lives */
	struct trace_frozen *frozen;
	uint32_t thread_count;
	struct trace_pool *pools;
	uint64_t pool_offset, pool_bytes; /* of the pool memory */
};

extern struct trace_file trace_file;
extern pthread_mutex_t trace_lock;

const struct trace_schema *trace_schema(void); /* never NULL: empty before trace_schema_set() */

/* Create and map the file of `options`, complete except for its magic. Leaves nothing behind on failure. Lock held. */
MUST_CHECK int trace_file_make(const struct trace_options *options, struct fathom_fault *why);
/* Give the complete file its name, which makes it visible to readers. Lock held. */
MUST_CHECK int trace_file_give_name(const struct trace_options *options, struct fathom_fault *why);

void trace_strings_moved(char *area); /* use the file's string area from now on; NULL: the private one. Lock held. */
void trace_pools_forget(void);	      /* the file is being closed: pools in it become invalid. Lock held. */
void trace_owners_reset(void);	      /* Lock held. */
void trace_masks_published(void);     /* copy the masks into the file. Lock held. */
void trace_objects_reset(void);
bool trace_filter_is_on(void);	 /* Lock held. */
void trace_filter_changed(void); /* recompute the masks. Lock held. */

/*
 * heartbeat.c: between start and stop a thread updates `header->alive_tick` every TRACE_HEARTBEAT_MS. The caller of stop,
 * which joins the thread, must not hold the lock.
 */
void trace_heartbeat_start(struct trace_header *header);
void trace_heartbeat_stop(void);
void trace_heartbeat_leave_to_parent(void); /* in a child of fork(): it has no heartbeat thread */

void trace_threads_prepare(void); /* before each file: install, once, the handlers for fork() and for the end of threads */
void trace_leave_to_parent(void); /* in a child of fork(): unmap the parent's file */
bool trace_threads_live(void);	  /* a thread is attached. Lock held. */

/*
 * Bytes of a thread's lives and, for a reactor, its exemplars (0: none). The init functions initialize zeroed memory; the
 * file's process section must be filled before.
 */
uint64_t trace_lives_bytes(void);
uint64_t trace_exemplars_bytes(bool reactor);
/* Of the room for named lives, which lies behind all exemplars of threads. */
uint64_t trace_named_bytes(void);
void trace_named_init(struct trace_exemplars *named);
/* Write a row of the calling thread. */
void trace_exemplar_write(struct trace_exemplar *row, const struct trace_exemplar *what);
void trace_exemplar_push_slow(struct trace_exemplars *exemplars, const struct trace_exemplar *what);
void trace_lives_init(struct trace_lives *lives, uint32_t thread);
void trace_exemplars_init(struct trace_exemplars *exemplars);
/* Allocate the calling thread's private state for a slot's lives and exemplars. Errors: -ENOMEM. */
MUST_CHECK int trace_lives_attach(const struct trace_lives *lives);
void trace_lives_detach(void);

#endif
