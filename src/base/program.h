/* SPDX-License-Identifier: BSD-2-Clause */
/* program - starts a child process with exactly the given descriptors and with default signal handling. */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <spawn.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/must.h"

/* The child's descriptor `fd`: `path`, opened in the child with `flags`; or, if `path` is NULL, a copy of our `from`. */
struct program_fd {
	int fd;
	const char *path;
	int flags;
	int from;
};

struct program {
	const char *path;
	char *const *argv, *const *env; /* NULL-terminated */
	const struct program_fd *fds;	/* set up in order, so `from` may name an earlier one */
	size_t fd_count;		/* at least 1 */
	short flags; /* POSIX_SPAWN_SETSID: own session; POSIX_SPAWN_SETPGROUP: own process group; or 0 */
};

/*
 * Start the program. The child inherits `fds` and no other descriptor, and ignores and blocks no signal. Returns 0 or
 * -errno, also if the program cannot be executed. Any thread.
 */
MUST_CHECK int program_start(const struct program *program, pid_t *pid_ret);

#endif
