/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crash - on a fatal signal, stores the cause in the file's frozen section and gives the file a second name.
 *
 *   /dev/shm/<name>_trace.pid<pid>.sigsegv     or .sigbus, .sigill, .sigfpe, .sigabrt, .must
 *
 * The second name is a hard link: it costs nothing, a signal handler can create it, and ordinary pruning keeps it. The
 * handler uses only async-signal-safe operations, on its own stack. Then it raises the signal again with the default
 * action, so core files and exit statuses are unchanged. A part of the handler that crashes itself is left: the process
 * still ends by the first signal, at its place. Sanitizers have their own handlers; in their builds nothing is caught.
 */
#ifndef OBSERVE_TRACE_CRASH_H
#define OBSERVE_TRACE_CRASH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/must.h"

enum {
	TRACE_CRASH_MODULES_MAX = 48,
};

/* Record the signal in the trace. Called once, in the signal handler, on the thread that received the signal. */
typedef void (*trace_crash_note_fn)(int signal, uint64_t address, uint64_t instruction, int32_t tid);

/*
 * Catch SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT from now on; threads that attach get a signal stack. Call it once,
 * after trace_open(), before the process starts other threads. The calling thread gets its signal stack.
 */
void trace_crash_catch(trace_crash_note_fn note);

/* Store a failed must(), after which the process aborts. Async-signal-safe. */
void trace_crash_must(const char *condition, const char *file, int line) COLD;

/* Whether trace_crash_catch() catches signals. */
bool trace_crash_is_caught(void);

#endif
