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
	bool unnamed; /* until it is whole */
	int fd;	      /* of the file, for the lock on it */
	char path[256];
	struct trace_header *header;
	struct trace_process *process;
	struct trace_clocks *clocks;
	struct trace_mask_words *masks;
	struct trace_owner *owners;
	struct trace_thread *threads;
	struct trace_frozen *frozen;
	uint32_t thread_count;
	struct trace_pool *pools;
	uint64_t pool_offset, pool_bytes; /* the pool memory's place */
};

extern struct trace_file trace_file;
extern pthread_mutex_t trace_lock;

const struct trace_schema *trace_schema(void); /* never NULL: an empty one before there is one */

/* The file that `options` asks for, whole but for its magic, and in memory. Nothing is left on failure. Lock held. */
MUST_CHECK int trace_file_make(const struct trace_options *options, struct fault *why);
/* Now it is whole, and everybody may see it. Lock held. */
MUST_CHECK int trace_file_give_name(const struct trace_options *options, struct fault *why);

void trace_strings_moved(char *area); /* the string area lies in the file from now on; NULL: no longer. Lock held. */
void trace_pools_forget(void);	      /* the file goes: pools in it become invalid. Lock held. */
void trace_owners_reset(void);	      /* Lock held. */
void trace_masks_published(void);     /* copy the masks into the file. Lock held. */
void trace_objects_reset(void);
bool trace_filter_is_on(void);	 /* Lock held. */
void trace_filter_changed(void); /* the masks follow. Lock held. */

/*
 * heartbeat.c: while it is on, `header->alive_tick` is brought up to date every TRACE_HEARTBEAT_MS. Lock not held by stop,
 * which waits for the thread's end.
 */
void trace_heartbeat_start(struct trace_header *header);
void trace_heartbeat_stop(void);
void trace_heartbeat_leave_to_parent(void); /* in a child of fork(), which has no such thread */

void trace_threads_prepare(void); /* once a process: what happens to threads at fork() and at their end */
void trace_leave_to_parent(void); /* in a child of fork(): the file is the parent's */
bool trace_threads_live(void);	  /* a thread is attached. Lock held. */

/* Bytes of a thread's lives and, for a reactor, exemplars (0: none); to make zeroed memory such, once process is filled. */
uint64_t trace_lives_bytes(void);
uint64_t trace_exemplars_bytes(bool reactor);
void trace_lives_init(struct trace_lives *lives, uint32_t thread);
void trace_exemplars_init(struct trace_exemplars *exemplars);
/* The calling thread is to be given a slot's lives and exemplars. Errors: -ENOMEM. */
MUST_CHECK int trace_lives_attach(const struct trace_lives *lives);
void trace_lives_detach(void);

#endif
