/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * window - the last of what a live engine traces, in memory, longer than its own rings have it: `fathom trace trigger`.
 *
 *   window_open() -> window_step() ... -> window_freeze() ... -> window_close()
 *
 * As a recorder does, it reads the engine's rings faster than they go round, but into rings of its own that lie in a file
 * without a name. Each of these could take all that the window may hold; blocks of them are given back, the oldest of all
 * rings first, when there is no more room or when they are no longer wanted. So a busy thread has as much of the room as it
 * needs. One window, one thread.
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
 * `source`: the trace file of a program that runs. `bytes`: of records to be kept at most. Errors (explained): -ENOENT,
 * -EACCES ...; -EBADMSG: not a trace file; -EINVAL: `bytes`; -ENOMEM.
 */
MUST_CHECK int window_open(const char *source, uint64_t bytes, struct window **window_ret, struct fault *why);
/* Accepts NULL. */
void window_close(struct window *window);

enum window_news {
	WINDOW_IDLE, /* all there was has been taken: sleep a little */
	WINDOW_MORE, /* there may be more already */
	WINDOW_GAP,  /* what comes next, in a ring, is not what follows what has been taken: records are lost in between */
	WINDOW_FULL, /* there is more, and no room for it without forgetting what window_keep() said */
	WINDOW_END,  /* all has been taken, and the program is gone */
};

/* Take some of what there is. `sleep_ns_ret`: after WINDOW_IDLE, step again no later than that. Errors (explained): -EIO */
MUST_CHECK int window_step(struct window *window, enum window_news *news_ret, uint64_t *sleep_ns_ret, struct fault *why);

/* From this tick on nothing is forgotten for want of room; 0: that is over. */
void window_keep(struct window *window, uint64_t tick);

/* What is older than this is no longer wanted. */
MUST_CHECK int window_forget(struct window *window, uint64_t tick, struct fault *why);

struct window_state {
	uint64_t records; /* in it now */
	uint64_t lost;	  /* ever */
	uint64_t since;	  /* tick from which on it has all but what was lost */
	bool room_ended;  /* it would reach further back if there were more room */
	bool said_end;	  /* the program ended in order */
};
void window_state(const struct window *window, struct window_state *state_ret);

/* Its rings, as inspect/trace takes them (struct reader_rings). Valid, and kept up to date, until it is closed. */
int window_fd(const struct window *window);
uint32_t window_ring_count(const struct window *window);
const struct trace_ring *const *window_rings(const struct window *window);
const uint64_t *window_records_offsets(const struct window *window);

struct window_result {
	uint64_t records, lost;
};

/*
 * Write what lies between the two ticks of `frozen`, and all tables as they are now, into a trace file `path`, by zstd if
 * `compress`. The window stays as it is. Errors (explained), after which no such
 * file was made: -EEXIST (and not `force`), -ENOSPC, -EACCES ...
 */
MUST_CHECK int window_freeze(struct window *window, const struct trace_frozen *frozen, const char *path, bool compress,
			     bool force, struct window_result *result_ret, struct fault *why);

#endif
