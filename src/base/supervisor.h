/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * supervisor - systemd's protocol for daemons: readiness, sockets passed at start, and the limit of open files.
 */
#ifndef BASE_SUPERVISOR_H
#define BASE_SUPERVISOR_H

enum { SUPERVISOR_SOCKET_FIRST = 3, SUPERVISOR_SOCKETS_MAX = 16 };

/*
 * Send `state` ("READY=1", "STOPPING=1") to the supervisor at $NOTIFY_SOCKET, as one datagram. Without a supervisor nothing
 * is sent; that is not an error. Any thread.
 */
void supervisor_notify(const char *state);

/*
 * Take the sockets that the supervisor opened for this process ($LISTEN_FDS) and return their number. They are the
 * descriptors from SUPERVISOR_SOCKET_FIRST on; the caller owns them, and they are close-on-exec. Call it once, before the
 * process starts threads: it removes the variables, so children do not see them.
 */
unsigned int supervisor_sockets(void);

/* Raise the soft limit of open files (RLIMIT_NOFILE) to the hard limit. On failure the limit is unchanged. */
void supervisor_raise_descriptor_limit(void);

#endif
