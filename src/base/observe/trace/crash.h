/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crash - what a process leaves when it ends by a signal: why, in the file's frozen part, and a second name for the file.
 *
 *   /dev/shm/<name>_trace.pid<pid>.sigsegv     or .sigbus, .sigill, .sigfpe, .sigabrt, .must
 *
 * The second name is a hard link, which costs nothing and can be made in a signal handler; ordinary pruning leaves it
 * alone. The handler does what is safe there, on a stack of its own, then gives the signal back to the system: core files
 * and exit statuses are what they are without it. Under sanitizers, which have their own handlers, nothing is caught.
 */
#ifndef OBSERVE_TRACE_CRASH_H
#define OBSERVE_TRACE_CRASH_H

#include <stdint.h>

#include "base/must.h"

enum {
	TRACE_CRASH_MODULES_MAX = 48,
	TRACE_CRASH_STACK_BYTES = 64 * 1024,
};

/* Record it in the trace. Called in a signal handler, once, on the thread that it happened to. */
typedef void (*trace_crash_note_fn)(int signal, uint64_t address, uint64_t instruction, int32_t tid);

/*
 * From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT are caught, and threads that attach get a stack for it. Once,
 * after trace_open(), before there are other threads.
 */
void trace_crash_catch(trace_crash_note_fn note);

/* A must() has failed, and the process will abort. Safe wherever that may be. */
void trace_crash_must(const char *condition, const char *file, int line) COLD;

/* Of the calling thread, as it attaches and detaches. */
void trace_crash_stack_give(void);
void trace_crash_stack_take(void);

#endif
