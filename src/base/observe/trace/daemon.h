/* SPDX-License-Identifier: BSD-2-Clause */
/* daemon - the trace of one of our own programs: opened at start; also records failed must()s and fatal signals. */
#ifndef OBSERVE_TRACE_DAEMON_H
#define OBSERVE_TRACE_DAEMON_H

#include "base/fault.h"
#include "fathom/trace/trace.h"

/*
 * Call trace_open() (`options` NULL: no trace file) and trace_mask_set() with `spec`. From now on a failed must() and a
 * fatal signal are recorded and give the file its second name (crash.h). Call it once, before the process starts threads.
 * Errors (explained): those of the two functions.
 */
MUST_CHECK int trace_daemon_open(const struct trace_options *options, const char *spec, struct fathom_fault *why);

/* Print the trace groups and their points on standard output, for a daemon's `-e help`. */
void trace_daemon_list_groups(void);

/*
 * Block SIGTERM, SIGINT, SIGHUP and SIGUSR1 and return a signalfd that delivers them, non-blocking and close-on-exec;
 * ignore SIGPIPE. Call it before the process starts threads. Errors: negative errno.
 */
MUST_CHECK int trace_daemon_signals(int *fd_ret);

#endif
