/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that live on without us: started, opened, signalled. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/provider/internal.h"

static int set_descriptors(posix_spawn_file_actions_t *actions, const char *log_file)
{
	int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

	if (!error)
		error = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, log_file ? log_file : "/dev/null",
							 O_WRONLY | O_CREAT | O_APPEND, 0640);
	if (!error)
		error = posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, STDERR_FILENO);
	if (!error)
		error = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
	return error;
}

static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_setsigmask(attributes, &none);
	posix_spawnattr_setsigdefault(attributes, &all);
	return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
}

int provider_system_start(struct provider *self, char *const argv[], char *const env[], const char *log_file,
			  pid_t *pid_ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int error = posix_spawn_file_actions_init(&actions);

	if (error)
		return -error;
	error = posix_spawnattr_init(&attributes);
	if (!error) {
		error = set_descriptors(&actions, log_file);
		if (!error)
			error = set_attributes(&attributes);
		if (!error)
			error = posix_spawn(pid_ret, argv[0], &actions, &attributes, argv, env);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return -error;
}

int provider_system_open_process(struct provider *self, pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

int provider_system_signal_process(struct provider *self, int pid_fd, int signal)
{
	return syscall(SYS_pidfd_send_signal, pid_fd, signal, NULL, 0) != 0 ? -errno : 0;
}
