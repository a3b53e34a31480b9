/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listener - a UNIX socket that one process serves. It uses two files: `path`, and the lock file `path`.lock, which
 * contains the server's pid and which the server keeps locked with flock() while it lives. The process that holds the lock
 * owns the path: it replaces a socket found there, which a dead server left. A crash leaves both files; the kernel drops
 * the lock.
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
	mode_t mode;	    /* of the socket file: controls the right to connect */
	int backlog;	    /* of listen(2); 0: 128 */
	const char *option; /* the command-line option that selects another path, for messages */
};

/*
 * Create the socket and listen; non-blocking, close-on-exec. Errors (explained): -EADDRINUSE: another process serves the
 * path; -EEXIST: the path is not a socket; -EBUSY: the lock file keeps being replaced; -ENAMETOOLONG, -EINVAL (empty path),
 * -EACCES ...
 */
MUST_CHECK int listener_open(const struct listener_options *options, struct listener *listener_ret,
			     struct fathom_fault *why);
/* Close the socket and remove both files. */
void listener_close(struct listener *listener);

#endif
