/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prune - finds trace files of dead processes and removes surplus ones.
 *
 * The writer of a file holds a lock on it while it lives. Every process can query the lock, also in another container that
 * shares /dev/shm but not the pid namespace. Older programs did not take the lock; for their files the pid and the start
 * time of its process decide. Two kinds are counted separately: files under their first name, and the second names that
 * crashes gave to files. Only files of the calling user are removed.
 */
#ifndef OBSERVE_TRACE_PRUNE_H
#define OBSERVE_TRACE_PRUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/must.h"

enum {
	TRACE_DEAD_KEPT = 4,	/* of one name and user */
	TRACE_CRASHES_KEPT = 8, /* likewise */
	TRACE_FILE_PATH_BYTES = 512,
};

enum trace_file_kind { TRACE_FILE_LEFT, TRACE_FILE_CRASH };

/*
 * Take the writer's lock on `fd`, which is open for writing. The lock lasts until trace_writer_unlock() or until the last
 * descriptor and mapping of the open file are gone. Errors: negative errno.
 */
MUST_CHECK int trace_writer_lock(int fd);
void trace_writer_unlock(int fd);

/* Whether the process that writes the trace file `fd` is alive; true also if that cannot be determined. */
bool trace_writer_lives(int fd);

/*
 * Remove the oldest dead file of `kind` in `directory` of programs named `name` (NULL: of any name) if there are more than
 * `keep`. True: `path_ret` is its path, `*bytes_ret` the memory freed. False: nothing was removed.
 */
bool trace_prune_oldest(const char *directory, const char *name, enum trace_file_kind kind, uint32_t keep,
			char path_ret[TRACE_FILE_PATH_BYTES], uint64_t *bytes_ret);

/* Iterate, in order, over the program names of dead files: replace `name` ("" to begin) by the next. False: no more. */
bool trace_prune_next_name(const char *directory, char name[TRACE_FILE_PATH_BYTES]);

#endif
