/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/server/collection/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 10000, TIME_BYTES = 40, PATH_WORD_BYTES = 4096 };

#define UNIT "fathom-server"
#define LINES_MAX "20000" /* about as many lines as FILE_BYTES_MAX of a collection has */

bool log_place(char *place, size_t bytes)
{
	struct stat stat;
	ssize_t got;

	must(bytes > 1);
	got = readlink("/proc/self/fd/2", place, bytes - 1);
	must(got < (ssize_t)bytes);
	place[got > 0 ? got : 0] = '\0';
	return got > 0 && fstat(STDERR_FILENO, &stat) == 0 && S_ISREG(stat.st_mode);
}

/* systemd sets JOURNAL_STREAM to the journal's socket. The variable may be inherited, so compare it with our descriptor. */
bool log_is_in_journal(void)
{
	const char *said = getenv("JOURNAL_STREAM");
	uint64_t device, inode;
	struct stat stat;

	return said && sscanf(said, "%" SCNu64 ":%" SCNu64, &device, &inode) == 2 && fstat(STDERR_FILENO, &stat) == 0 &&
	       stat.st_dev == device && stat.st_ino == inode;
}

/* -ETIMEDOUT: it was killed. */
static int wait_for_exit(struct provider *os, pid_t pid, int *status_ret)
{
	int fd = os->calls->open_process(os, pid), error = fd < 0 ? fd : 0;
	struct pollfd ended = { .fd = fd, .events = POLLIN };

	if (!error && poll(&ended, 1, TIMEOUT_MS) != 1)
		error = -ETIMEDOUT;
	if (error)
		(void)kill(pid, SIGKILL); /* our child, and not waited for yet, so its pid is not reused */
	while (waitpid(pid, status_ret, 0) < 0 && errno == EINTR)
		;
	if (fd >= 0)
		os->calls->close_fd(os, fd);
	return error;
}

static int run_into_file(struct provider *os, char *const argv[], char *const env[], const char *path)
{
	int error, status = 0;
	pid_t pid;

	error = os->calls->start(os, argv, env, path, &pid);
	must(error || pid > 0);
	if (!error)
		error = wait_for_exit(os, pid, &status);
	return error ? error : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

int program_write(struct provider *os, char *const argv[], const char *path)
{
	char *const env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", NULL };

	return run_into_file(os, argv, env, path);
}

int journal_write(struct provider *os, uint64_t from_s, uint64_t until_s, const char *path)
{
	char since[TIME_BYTES], until[TIME_BYTES] = "--until=now", where[PATH_WORD_BYTES];
	const char *paths = getenv("PATH");
	char *const argv[] = { "/usr/bin/env", "journalctl",	     "--quiet", "--no-pager", "--output=short-iso",
			       "--unit=" UNIT, "--lines=" LINES_MAX, since,	until,	      NULL };
	char *const env[] = { where, "LC_ALL=C", NULL };

	snprintf(where, sizeof(where), "PATH=%s", paths ? paths : "/usr/bin:/bin");
	snprintf(since, sizeof(since), "--since=@%" PRIu64, from_s);
	if (until_s)
		snprintf(until, sizeof(until), "--until=@%" PRIu64, until_s + 1);
	return run_into_file(os, argv, env, path);
}
