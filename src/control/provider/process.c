/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that survive their parent: starts, opens and signals them. */
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/program.h"
#include "control/provider/internal.h"

int provider_system_start(struct provider *self, char *const argv[], char *const env[], const char *log_file,
			  pid_t *pid_ret)
{
	const struct program_fd fds[] = {
		{ .fd = STDIN_FILENO, .path = "/dev/null", .flags = O_RDONLY },
		{ .fd = STDOUT_FILENO, .path = log_file ? log_file : "/dev/null", .flags = O_WRONLY | O_CREAT | O_APPEND },
		{ .fd = STDERR_FILENO, .from = STDOUT_FILENO },
	};
	const struct program program = {
		.path = argv[0],
		.argv = argv,
		.env = env,
		.fds = fds,
		.fd_count = ARRAY_COUNT(fds),
		.flags = POSIX_SPAWN_SETSID,
	};

	must(argv[0]);
	return program_start(&program, pid_ret);
}

int provider_system_open_process(struct provider *self, pid_t pid)
{
	int fd;

	must(pid > 0);
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return fd < 0 ? -errno : fd;
}

int provider_system_signal_process(struct provider *self, int pid_fd, int signal)
{
	must(pid_fd >= 0);
	must(signal >= 0);
	return syscall(SYS_pidfd_send_signal, pid_fd, signal, NULL, 0) != 0 ? -errno : 0;
}
