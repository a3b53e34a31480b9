/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host - answers about this host: its devices, interfaces, memory and use, and a configuration made from them.
 *
 * Scans block while devices answer, so they run on worker threads: at most one of a kind, and its result answers all calls
 * that wait for it. All functions on the control thread.
 */
#ifndef CONTROL_SERVER_HOST_HOST_H
#define CONTROL_SERVER_HOST_HOST_H

#include "control/server/core/core.h"

/* -ENOMEM (explained). */
MUST_CHECK int scans_open(struct server *server, struct fathom_fault *why);
/* No scan may be under way. Accepts scans that are not open. */
void scans_close(struct server *server);

/*
 * Change the rules of fault injection of this process: remove those of the points `clear` ("all"), then give the rules
 * `arm`. Both are separated by blanks. All or none. Errors (explained): injection_absent, injection_rule.
 */
MUST_CHECK int injection_change(const char *clear, const char *arm, struct fathom_fault *why);

#endif
