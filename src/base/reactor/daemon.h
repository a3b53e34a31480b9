/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * daemon - the frame of a program that runs in the background: signals, trace, reactors, supervisor, end.
 *
 *   daemon_run(): descriptor limit, signals, trace, reactors -> start()
 *   -> daemon_ready() -> daemon_stopping() -> daemon_end()
 *
 * The program arranges its own log (base/log.h). Signals arrive as calls on the control thread: no handler interrupts code.
 * SIGPIPE is ignored. One daemon in a process.
 */
#ifndef BASE_REACTOR_DAEMON_H
#define BASE_REACTOR_DAEMON_H

#include "base/fault.h"
#include "base/reactor/reactor.h"
#include "fathom/trace/trace.h"

struct daemon_signal {
	uint32_t number; /* SIGTERM, SIGINT or SIGHUP */
	uint32_t pid, uid;
};

/* All borrowed while the daemon runs. */
struct daemon_options {
	const char *name;		   /* in the trace */
	const struct trace_options *trace; /* NULL: no trace file */
	const char *trace_spec;		   /* what to trace: "all" */
	struct reactor_options reactors;
	const char *cpus_option;			     /* that sets reactors.cpus, for faults; NULL: none */
	void (*start)(void);				     /* the first function on the control thread */
	void (*on_signal)(const struct daemon_signal *info); /* on the control thread, until daemon_end() */
	void (*on_clock)(void); /* there every 10 s, when clocks are recorded; NULL: not needed */
	void (*ended)(void);	/* after all threads ended, before the trace ends; NULL: not needed */
};

/*
 * Run until daemon_end(), whose exit status is returned. Call it once, before the process has threads. On an error nothing
 * was started: -errno, explained, and `status_ret` is untouched.
 */
MUST_CHECK int daemon_run(const struct daemon_options *options, int *status_ret, struct fathom_fault *why);

/* A daemon without a data path: one light thread, and a trace file with small rings. All borrowed while it runs. */
struct small_daemon_options {
	const char *name, *version;
	const struct trace_schema *schema;
	const char *trace_spec; /* what to trace: "all" */
	uint32_t trace_entries; /* of the ring of rare events; a power of two */
	void (*start)(void);	/* as in daemon_options */
	void (*on_signal)(const struct daemon_signal *info);
};

/* daemon_run() with these options. */
MUST_CHECK int daemon_run_small(const struct small_daemon_options *options, int *status_ret, struct fathom_fault *why);

/* The rest on the control thread. */

/* Report to the supervisor that the daemon serves, once, and that it is stopping, once. */
void daemon_ready(void);
void daemon_stopping(void);
/* True between daemon_stopping() and the end. */
bool daemon_is_stopping(void);
/* End daemon_run(): no more signals, and the reactors stop. The program's own threads must be on their way out. Once. */
void daemon_end(int status);
/* End the process at once: something hangs that daemon_end() would wait for. */
_Noreturn void daemon_abandon(int status);

#endif
