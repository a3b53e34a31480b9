/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/program.h"

#include <signal.h>

enum { MODE_NEW = 0640 };

static int set_descriptors(posix_spawn_file_actions_t *actions, const struct program_fd *fds, size_t count)
{
	int error = 0;

	for (size_t i = 0; !error && i < count; i++)
		error = fds[i].path
				? posix_spawn_file_actions_addopen(actions, fds[i].fd, fds[i].path, fds[i].flags, MODE_NEW)
				: posix_spawn_file_actions_adddup2(actions, fds[i].from, fds[i].fd);
	return error ? error : posix_spawn_file_actions_addclosefrom_np(actions, fds[count - 1].fd + 1);
}

static int set_attributes(posix_spawnattr_t *attributes, short flags)
{
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_setsigmask(attributes, &none);
	posix_spawnattr_setsigdefault(attributes, &all);
	posix_spawnattr_setpgroup(attributes, 0);
	return posix_spawnattr_setflags(attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | flags));
}

int program_start(const struct program *program, pid_t *pid_ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int error;

	must(program->path && program->argv && program->env);
	must(program->fd_count > 0);
	error = posix_spawn_file_actions_init(&actions);
	if (error)
		return -error;
	error = posix_spawnattr_init(&attributes);
	if (!error) {
		error = set_descriptors(&actions, program->fds, program->fd_count);
		if (!error)
			error = set_attributes(&attributes, program->flags);
		if (!error)
			error = posix_spawn(pid_ret, program->path, &actions, &attributes, program->argv, program->env);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return -error;
}
