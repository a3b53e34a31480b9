/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * supervisor - what systemd and its daemons tell each other: readiness, sockets that are already there, and how many a
 * daemon may have.
 */
#ifndef BASE_SUPERVISOR_H
#define BASE_SUPERVISOR_H

enum { SUPERVISOR_SOCKET_FIRST = 3, SUPERVISOR_SOCKETS_MAX = 16 };

/* Tell it, if it is there ($NOTIFY_SOCKET): "READY=1", "STOPPING=1". A datagram; nobody there is no error. Any thread. */
void supervisor_notify(const char *state);

/*
 * How many sockets it opened for us ($LISTEN_FDS): descriptors from SUPERVISOR_SOCKET_FIRST on, which are the caller's now
 * and close at exec. Once; children are not told. Before there are threads.
 */
unsigned int supervisor_sockets(void);

/* As many open files as this process may have (RLIMIT_NOFILE, soft to hard). Where that fails it stays as it was. */
void supervisor_raise_descriptor_limit(void);

#endif
