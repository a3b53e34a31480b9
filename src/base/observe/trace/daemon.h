/* SPDX-License-Identifier: BSD-2-Clause */
/* daemon - the trace of one of our own programs: open from the start, and told of how the process ends. */
#ifndef OBSERVE_TRACE_DAEMON_H
#define OBSERVE_TRACE_DAEMON_H

#include "base/fault.h"
#include "fathom/trace/trace.h"

/*
 * trace_open() (NULL: there is to be no file), and trace_mask_set() of `spec`; a failed must() and a signal that ends the
 * process leave their records, and the file its second name. Once, before there are threads. Errors (explained): those of
 * the two.
 */
MUST_CHECK int trace_daemon_open(const struct trace_options *options, const char *spec, struct fault *why);

/* What a daemon prints for `-e help`: its groups and their points, on standard output. */
void trace_daemon_list_groups(void);

/*
 * The signals by which people stop a daemon, and SIGUSR1, come through a descriptor from now on, and SIGPIPE is ignored.
 * Not blocking, close on exec. Before there are threads. Errors: negative errno.
 */
MUST_CHECK int trace_daemon_signals(int *fd_ret);

#endif
