/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agent - fathom-agent: the programs of a client host reach the system through it.
 *
 *     a client -> dRPC (socket of mode 0666) -> attach information, from a copy       attach_info.c, fabric.c
 *                                            -> a credential, by the socket's peer    identity.c
 *                                            -> handles of a process, until it ends   clients.c
 *     root     -> dRPC                       -> volumes as block devices              attachments.c
 *     the agent -> gRPC, role agent -> the management service, on one of the hosts    service.c
 *
 * Clients are not trusted: the kernel says who they are, a user and a process have a share of the connections, and each
 * wait has an end. A server that hangs delays only what needs it: clients get the copy with its age, or a fault.
 *
 * What survives: connections of the kernel to engines, which need no agent; and the records of attachments. A killed agent
 * leaves nothing else; the pool handles of clients that end meanwhile are not evicted.
 *
 * Everything runs on the control reactor's light thread. What blocks (the driver, name servers, the user database) runs on
 * worker threads.
 */
#ifndef CONTROL_AGENT_AGENT_H
#define CONTROL_AGENT_AGENT_H

#include "base/fault.h"
#include "base/must.h"
#include "control/agent/config/config.h"

#define AGENT_NAME_DEFAULT "fathom-agent"

struct agent_options {
	const struct agent_config *config;
	const char *version;
	const char *name; /* of the trace file */
	const char *trace_spec;
	uint64_t began_ns; /* clock_monotonic_ns() at the start of the process */
};

/* Run until a signal ends it; returns the exit status. Call once in a process, before it has threads. Logs. */
MUST_CHECK int agent_run(const struct agent_options *options);

#endif
