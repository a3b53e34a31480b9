/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record - copies all records of a live engine into files of any length: `fathom trace record`.
 *
 *   recorder_open() -> recorder_step() ... -> recorder_close()
 *
 * The engine takes no part: its rings are read as by any reader, but before they wrap. Records overwritten before they
 * could be read are counted, also in the file. The output is a trace file (docs/formats/trace.md) whose rings are as
 * large as necessary; it can be read at any time, also after the recorder was killed.
 *
 * Thread: one per recorder. Full files are packed by a thread of the recorder.
 */
#ifndef INSPECT_RECORD_RECORD_H
#define INSPECT_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"

struct recorder;

struct recorder_options {
	const char *source;    /* trace file of a running program */
	const char *output;    /* further files are named OUTPUT.1, OUTPUT.2 ... */
	bool compress;	       /* by zstd; the names end with .zst */
	uint64_t rotate_bytes; /* of records in a file; 0: RECORDER_ROTATE_DEFAULT */
	uint32_t keep;	       /* number of newest files to keep; 0: all */
	bool force;	       /* existing files of these names are overwritten; otherwise they are an error */
};

#define RECORDER_ROTATE_DEFAULT ((uint64_t)1 << 30)
#define RECORDER_ROTATE_MIN ((uint64_t)1 << 20)

struct recorder_progress {
	uint64_t records, lost, files;
	bool source_ended; /* the program has ended, and all its records are copied */
};

/* Errors (explained): -ENOENT, -EACCES ...; -EBADMSG: not a trace file; -EINVAL: rotate_bytes is too small; -EEXIST. */
MUST_CHECK int recorder_open(const struct recorder_options *options, struct recorder **recorder_ret,
			     struct fathom_fault *why);

/*
 * Copy what is available, without waiting. Call again after `*sleep_ns_ret` at the latest. Errors (explained), after
 * which only recorder_close() may follow: -ENOSPC, -EIO ...
 */
MUST_CHECK int recorder_step(struct recorder *recorder, uint64_t *sleep_ns_ret, struct fathom_fault *why);

void recorder_progress(const struct recorder *recorder, struct recorder_progress *progress_ret);

/* Copy the rest, pack, close. Returns the first error of all (explained); records written before it are kept. */
int recorder_close(struct recorder *recorder, struct recorder_progress *progress_ret, struct fathom_fault *why);

#endif
