/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record - everything that a live engine traces, into files of any length: `fathom trace record`.
 *
 *   recorder_open() -> recorder_step() ... -> recorder_close()
 *
 * The engine knows nothing of it: its rings are read as any reader reads them, but faster than they go round. What was
 * overwritten before it could be read is counted, in the file too. What is written is a trace file (docs/formats/trace.md)
 * whose rings are as large as it takes; it can be read at any moment, also after the recorder was killed.
 *
 * One recorder, one thread; files that are full are packed by a thread of the recorder's own.
 */
#ifndef INSPECT_RECORD_RECORD_H
#define INSPECT_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"

struct recorder;

struct recorder_options {
	const char *source;    /* trace file of a program that runs */
	const char *output;    /* further files are called OUTPUT.1, OUTPUT.2 ... */
	bool compress;	       /* by zstd; the names end with .zst */
	uint64_t rotate_bytes; /* of records in a file; 0: RECORDER_ROTATE_DEFAULT */
	uint32_t keep;	       /* the newest files; 0: all */
	bool force;	       /* files that have these names are overwritten; else there must be none */
};

#define RECORDER_ROTATE_DEFAULT ((uint64_t)1 << 30)
#define RECORDER_ROTATE_MIN ((uint64_t)1 << 20)

struct recorder_progress {
	uint64_t records, lost, files;
	bool source_ended; /* the program is gone, and all that it left has been taken */
};

/*
 * Errors (explained): -ENOENT, -EACCES ...; -EBADMSG: not a trace file; -EINVAL: rotate_bytes is too small;
 * -EEXIST.
 */
MUST_CHECK int recorder_open(const struct recorder_options *options, struct recorder **recorder_ret, struct fault *why);

/*
 * Take what there is, without waiting. `sleep_ns_ret`: call again no later than that. Errors (explained), after which only
 * close makes sense: -ENOSPC, -EIO ...
 */
MUST_CHECK int recorder_step(struct recorder *recorder, uint64_t *sleep_ns_ret, struct fault *why);

void recorder_progress(const struct recorder *recorder, struct recorder_progress *progress_ret);

/* Take the rest, pack, close. The first error there was, explained; what was recorded is kept all the same. */
int recorder_close(struct recorder *recorder, struct recorder_progress *progress_ret, struct fault *why);

#endif
