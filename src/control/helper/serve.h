/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serve - the loop of fathom-helper: receives requests, starts a child for each, sends the replies.
 *
 *      RUNNING --answer--> free                  the child has sent its reply, and is reaped
 *      RUNNING --died----> ENDED ----> free      the reply is -ECHILD, with the signal
 *      RUNNING --limit---> KILLED ---> free      the reply -ETIMEDOUT is sent at once; device and folder stay reserved
 *
 * The loop itself opens no device, so no device can block it. A child that hangs in the kernel blocks only its own slot,
 * device and folder. A second request for the same device or folder is rejected while the first is under way, except that
 * health is read beside the others. When the server's end of the socketpair closes, running children finish within their
 * time-outs, and the helper ends. When the helper is killed, the kernel kills its children.
 */
#ifndef CONTROL_HELPER_SERVE_H
#define CONTROL_HELPER_SERVE_H

#include "control/helper/operations.h"

struct helper_serve_options {
	int fd; /* the helper's end of the socketpair; borrowed */
	struct provider *provider;
	const struct helper_policy *policy;
	const char *version;
};

/*
 * Check the user at the other end, confine this process irrevocably, and serve until the other end closes. One thread.
 * Errors (explained): -EPERM: the user is not on the list; -ENOTSOCK, -EPROTOTYPE: not such a socket; -EPIPE: the server
 * does not read replies; errors of recvmsg(2), after all children have ended; errors of helper_confine().
 */
MUST_CHECK int helper_serve(const struct helper_serve_options *options, struct fathom_fault *why);

#endif
