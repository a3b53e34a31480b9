/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * window - the latest records of a live engine, in memory, for longer than its own rings keep them: `fathom trace
 * trigger`.
 *
 *   window_open() -> window_step() ... -> window_freeze() ... -> window_close()
 *
 * Like a recorder, it reads the engine's rings before they wrap, but into its own rings in an unnamed file. Each of its
 * rings can hold as much as the whole window. When space runs out, or records are no longer wanted, the oldest blocks of
 * all rings are freed; so a busy thread gets as much space as it needs. Thread: one per window.
 */
#ifndef INSPECT_RECORD_WINDOW_H
#define INSPECT_RECORD_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "fathom/trace/format.h"

struct window;

#define WINDOW_BYTES_MIN ((uint64_t)4 << 20)
#define WINDOW_BYTES_MAX ((uint64_t)64 << 30)

/*
 * Open a window on `source`, the trace file of a running program. It keeps at most `bytes` of records, but at least one
 * block of 64 KiB for each ring, and 1 MiB for those being copied. Errors (explained): -ENOENT, -EACCES ...; -EBADMSG: not
 * a trace file; -EINVAL: `bytes`; -ENOMEM.
 */
MUST_CHECK int window_open(const char *source, uint64_t bytes, struct window **window_ret, struct fathom_fault *why);
/* Accepts NULL. */
void window_close(struct window *window);

enum window_progress {
	WINDOW_IDLE, /* all available records were copied: sleep a little */
	WINDOW_MORE, /* more may be available already */
	WINDOW_GAP,  /* the next records of a ring do not follow those copied: records in between are lost */
	WINDOW_FULL, /* more is available, but there is no space without freeing what window_keep() protects */
	WINDOW_END,  /* all was copied, and the program has ended */
};

/* Copy some of what is available. After WINDOW_IDLE, step again within `*sleep_ns_ret`. Errors (explained): -EIO. */
MUST_CHECK int window_step(struct window *window, enum window_progress *progress_ret, uint64_t *sleep_ns_ret,
			   struct fathom_fault *why);

/* Do not free records from this tick on to make space; 0: remove the protection. */
void window_keep(struct window *window, uint64_t tick);

/* Free records older than this tick. */
MUST_CHECK int window_forget(struct window *window, uint64_t tick, struct fathom_fault *why);

struct window_state {
	uint64_t records;     /* in it now */
	uint64_t lost;	      /* ever */
	uint64_t since;	      /* tick since which it is complete, except for lost records */
	bool is_size_limited; /* with more space it would reach further back */
	bool ended_normally;  /* the program ended normally */
};
void window_state(const struct window *window, struct window_state *state_ret);

/* Its rings, for inspect/trace (struct reader_rings). Valid and up to date until it is closed. */
int window_fd(const struct window *window);
uint32_t window_ring_count(const struct window *window);
const struct trace_ring *const *window_rings(const struct window *window);
const uint64_t *window_records_offsets(const struct window *window);

struct window_result {
	uint64_t records, lost;
};

struct window_output {
	const char *path;
	bool compress; /* by zstd */
	bool force;    /* replace an existing file */
};

/*
 * Write the records between the two ticks of `frozen`, and the current tables, into a trace file. The window does not
 * change. Errors (explained), after which there is no such file: -EEXIST (and not `force`), -ENOSPC, -EACCES ...
 */
MUST_CHECK int window_freeze(struct window *window, const struct trace_frozen *frozen, const struct window_output *output,
			     struct window_result *result_ret, struct fathom_fault *why);

#endif
