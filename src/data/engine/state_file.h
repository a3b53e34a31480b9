/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * state_file - the file of --state. internal.h has the functions.
 *
 *   a change -> waiting -> [a turn] -> text -> worker: FILE.new, fsync, rename, fsync of the folder -> answers
 *
 * The text is what save_config writes. Changes that wait while a write is under way share the next one. A change is
 * answered when its text is durable; if the write fails, it is answered with that, and the next change writes again.
 *
 * Calls of the file that fail at the start (a device is missing) are kept: each write appends them to their subsystem,
 * unless an equal call is there, so they are made again at the next start. A file that cannot be read or parsed is HELD:
 * it is never written, and changes are refused until an operator corrects it or moves it away, and restarts the engine.
 *
 * Crash: FILE is complete, old or new. FILE.new is garbage. Not here: volumes and their hosts, which the storage keeps.
 */
#ifndef ENGINE_STATE_FILE_H
#define ENGINE_STATE_FILE_H

#include <limits.h>

#include "base/list.h"
#include "base/reactor/worker.h"
#include "data/engine/internal.h"
#include "data/engine/states.gen.h"
#include "fathom/trace/trace.h"

struct state_waiter {
	STAILQ_ENTRY(state_waiter) link;
	engine_done_fn done;
	void *ctx;
};
STAILQ_HEAD(state_waiters, state_waiter);

struct state_file {
	struct trace_object trace;
	enum state_file_state state;
	const char *path; /* lent */
	char new_path[PATH_MAX];
	bool exists, stopping, scheduled;
	json_t *kept;		 /* calls that failed at the start */
	char *saved;		 /* the text in the file; NULL: none, or unknown after a failed write */
	struct fathom_fault why; /* of HELD and UNSAVED */
	struct state_waiters waiting, writing;
	void (*closed)(void);

	/* of the write under way */
	struct worker_job job;
	char *text;
	int error;
	uint64_t begin_ns;
	uint64_t writes, failures;
};

#endif
