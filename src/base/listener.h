/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listener - a UNIX socket that one process serves. Two files: `path`, and `path`.lock, which the server holds flock()ed
 * while it lives and which has its pid. Who gets the lock owns the path: a socket found there is a dead server's and is
 * replaced. A crash leaves both files; the kernel drops the lock.
 */
#ifndef BASE_LISTENER_H
#define BASE_LISTENER_H

#include <sys/types.h>
#include <sys/un.h>

#include "base/fault.h"

struct listener {
	struct sockaddr_un address;
	char lock_path[sizeof(((struct sockaddr_un *)0)->sun_path) + sizeof(".lock")];
	int fd, lock_fd;
};

struct listener_options {
	const char *path;
	int type;	    /* SOCK_STREAM, SOCK_SEQPACKET */
	mode_t mode;	    /* of the socket: who may connect */
	int backlog;	    /* who may wait to be accepted; 0: 128 */
	const char *option; /* by which people choose another path, for messages */
};

/*
 * Not blocking, close on exec. Errors (explained): -EADDRINUSE: somebody serves it; -EEXIST: the path is something else;
 * -ENAMETOOLONG, -EINVAL (empty), -EACCES ...
 */
MUST_CHECK int listener_open(const struct listener_options *options, struct listener *listener_ret, struct fault *why);
/* Removes both files. */
void listener_close(struct listener *listener);

#endif
