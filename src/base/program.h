/* SPDX-License-Identifier: BSD-2-Clause */
/* program - another program, as a child: with the descriptors that it is given and no others, and all signals as usual. */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <spawn.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/must.h"

/* What the child has as descriptor `fd`: what `path` is when it is opened there, or, without a path, our `from`. */
struct program_fd {
	int fd;
	const char *path;
	int flags;
	int from;
};

/*
 * Start `program`. `fds` are set up in their order, so that a later one may be `from` an earlier; those above the last are
 * closed. `flags`: POSIX_SPAWN_SETSID, a session of its own; POSIX_SPAWN_SETPGROUP, a group of its own; 0. Nothing is
 * ignored or blocked in it. 0 or -errno, also where the program cannot be run. Any thread.
 */
MUST_CHECK int program_start(const char *program, char *const argv[], char *const env[], const struct program_fd *fds,
			     size_t count, short flags, pid_t *pid_ret);

#endif
