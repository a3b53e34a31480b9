/* SPDX-License-Identifier: BSD-2-Clause */
/* The helper's process: starts it with one end of a socketpair and no other descriptors, watches, kills and reaps it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/program.h"
#include "control/fault/fault.h"
#include "control/helper/client_internal.h"

static_assert(HELPER_FD > STDERR_FILENO, "the socket is beside the standard descriptors");

static const struct helper_process no_process = { .pid_fd = -1, .fd = -1, .words = { .fd = -1 } };

/* Its descriptors: /dev/null, `words` (a pipe, or our standard error) twice, its end of the socketpair. */
static int spawn_helper(const struct helper_client *client, int theirs, int words, pid_t *pid_ret)
{
	char option[] = "--config", path[HELPER_PROGRAM_BYTES_MAX], config[HELPER_PROGRAM_BYTES_MAX];
	char *argv[] = { path, client->config[0] != '\0' ? option : NULL, config, NULL }, *env[] = { NULL };
	const struct program_fd fds[] = {
		{ .fd = STDIN_FILENO, .path = "/dev/null", .flags = O_RDONLY },
		{ .fd = STDOUT_FILENO, .from = words },
		{ .fd = STDERR_FILENO, .from = words },
		{ .fd = HELPER_FD, .from = theirs },
	};

	const struct program helper = { .path = path, .argv = argv, .env = env, .fds = fds, .fd_count = ARRAY_COUNT(fds) };

	/* the child's descriptors must not overwrite the ones that they are copied from */
	must(theirs > HELPER_FD);
	must(words == STDERR_FILENO || words > HELPER_FD);
	memcpy(path, client->program, sizeof(path));
	memcpy(config, client->config, sizeof(config));
	return program_start(&helper, pid_ret);
}

/* Both ends are above the descriptors that the child overwrites. */
static int make_socketpair(int pair[2])
{
	int low[2], on = 1, error = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, low) != 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		pair[i] = fcntl(low[i], F_DUPFD_CLOEXEC, HELPER_FD + 1);
		if (pair[i] < 0)
			error = -errno;
		close(low[i]);
	}
	/* set before the first send: frames sent before the helper runs must carry our credentials, too */
	if (!error && setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0)
		error = -errno;
	for (int i = 0; error && i < 2; i++) {
		if (pair[i] >= 0)
			close(pair[i]);
	}
	return error;
}

static int watch_process(struct helper_client *client)
{
	struct helper_process *process = &client->process;

	must(process->pid > 0);
	must(process->fd >= 0);
	process->pid_fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	if (process->pid_fd < 0)
		return -errno;
	process->ends = fd_watch_add(process->pid_fd, EPOLLIN, helper_client_process_gone, client);
	if (!process->ends)
		return errno ? -errno : -ENOMEM;
	process->answers = fd_watch_add(process->fd, EPOLLIN, helper_client_readable, client);
	if (!process->answers)
		return errno ? -errno : -ENOMEM;
	return helper_words_watch(client);
}

int helper_process_start(struct helper_client *client, struct fathom_fault *why)
{
	struct helper_process *process = &client->process;
	int pair[2], error = make_socketpair(pair), words = STDERR_FILENO, status;

	must(process->pid == 0);
	must(!process->ends && !process->answers);
	*process = no_process;
	if (error)
		return fault(why, error, "no socketpair for %s: %s", client->program, strerror(-error));
	if (client->said)
		error = helper_words_open(&process->words, &words);
	if (!error)
		error = spawn_helper(client, pair[1], words, &process->pid);
	if (words > STDERR_FILENO)
		close(words);
	close(pair[1]);
	if (error) {
		helper_words_close(client);
		close(pair[0]);
		process->pid = 0;
		if (error == -ENOENT)
			return fault_helper_missing(why, client->program);
		return fault_helper_not_started(why, client->program, strerror(-error));
	}
	process->fd = pair[0];
	error = watch_process(client);
	if (error) {
		helper_process_kill(client);
		(void)helper_process_reap(client, true, &status); /* we killed it: the status is meaningless */
		return fault(why, error, "%s cannot be watched: %s", client->program, strerror(-error));
	}
	return 0;
}

void helper_process_kill(struct helper_client *client)
{
	struct helper_process *process = &client->process;

	must_be_on(client->thread);
	must(process->pid > 0);
	fd_watch_remove(&process->answers);
	if (process->fd >= 0)
		close(process->fd);
	process->fd = -1;
	(void)kill(process->pid, SIGKILL); /* permitted: a set-user-ID process keeps our real user ID */
}

bool helper_process_reap(struct helper_client *client, bool wait, int *status_ret)
{
	struct helper_process *process = &client->process;
	pid_t reaped;

	must(process->pid > 0);
	do
		reaped = waitpid(process->pid, status_ret, wait ? 0 : WNOHANG);
	while (reaped < 0 && errno == EINTR);
	if (reaped == 0)
		return false;
	if (reaped < 0)
		*status_ret = 0; /* unknown: it was reaped elsewhere */
	fd_watch_remove(&process->ends);
	fd_watch_remove(&process->answers);
	helper_words_close(client);
	if (process->pid_fd >= 0)
		close(process->pid_fd);
	if (process->fd >= 0)
		close(process->fd);
	*process = no_process;
	return true;
}
