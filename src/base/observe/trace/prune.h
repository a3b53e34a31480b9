/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prune - trace files whose processes are gone: which they are, and removing those that are too many.
 *
 * The writer of a file holds a lock on it for as long as it lives, which the kernel shows to everybody, also where process
 * numbers mean something else, as in another container that shares /dev/shm. Files of programs that did not yet do so go by
 * their process's number, and by when that process began. Two kinds are counted apart: what a process left, and the second
 * names that crashes gave to files. Only files of the calling user are touched.
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

/* Hold the writer's lock on a file that the caller has open for writing, while it has a descriptor or mapping. */
MUST_CHECK int trace_writer_lock(int fd);
void trace_writer_unlock(int fd);

/* Whether the process that writes the file is there. `fd` is of a trace file. */
bool trace_writer_lives(int fd);

/*
 * Remove the oldest dead file of `kind` in `directory` of programs named `name` (NULL: of any) if there are more than
 * `keep`. False: there are not. `path_ret` says which it was, `*bytes_ret` how much memory that gave back.
 */
bool trace_prune_oldest(const char *directory, const char *name, enum trace_file_kind kind, uint32_t keep,
			char path_ret[TRACE_FILE_PATH_BYTES], uint64_t *bytes_ret);

/* The names of which there are dead files, one after the other: the first that comes after `name` in order. */
bool trace_prune_next_name(const char *directory, char name[TRACE_FILE_PATH_BYTES]);

#endif
