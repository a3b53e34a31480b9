/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serve - the loop of fathom-helper: requests in, a child for each, answers out.
 *
 *      RUNNING --answer--> free                  the child has said how it went, and is reaped
 *      RUNNING --died----> ENDED ----> free      -ECHILD, with the signal
 *      RUNNING --limit---> KILLED ---> free      the time-out is answered at once; device and folder stay taken till then
 *
 * The loop itself touches no device, so that nothing can hold it up; a child that hangs in the kernel holds its place, its
 * device and its folder, and no others. Two requests for one device or folder: the second is refused while the first is
 * under way. When the asker's end closes, what runs is finished within its time, and the helper ends. When the helper is
 * killed, its children are.
 */
#ifndef CONTROL_HELPER_SERVE_H
#define CONTROL_HELPER_SERVE_H

#include "control/helper/operations.h"

struct helper_serve_options {
	int fd; /* the socketpair's end; stays the caller's */
	struct provider *provider;
	const struct helper_policy *policy;
	const char *version;
};

/*
 * Check who is at the other end, confine this process for good, and serve until the other end closes. One thread. 0, or
 * (explained) -EPERM: a user who is not on the list; -ENOTSOCK, -EPROTOTYPE: no such socket; -EPIPE: answers are not taken;
 * errors of recvmsg(2), after what ran has ended; errors of helper_confine().
 */
MUST_CHECK int helper_serve(const struct helper_serve_options *options, struct fault *why);

#endif
