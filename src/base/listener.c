/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

enum { BACKLOG_DEFAULT = 128, LOCK_TRIES_MAX = 16 };

static void write_pid(int fd)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d\n", getpid());

	/* only for the error message of a second server */
	if (ftruncate(fd, 0) == 0)
		(void)!pwrite(fd, text, (size_t)n, 0);
}

static int report_in_use(const struct listener_options *options, int lock_fd, struct fathom_fault *why)
{
	char pid[16] = "";
	ssize_t n = lock_fd >= 0 ? pread(lock_fd, pid, sizeof(pid) - 1, 0) : 0;

	pid[n > 0 ? strcspn(pid, "\n") : 0] = '\0';
	return fault(why, -EADDRINUSE, "%s: process %s serves this socket already; choose another with %s", options->path,
		     pid[0] ? pid : "(unknown)", options->option);
}

/* Does `path` still name the file of `fd`? The previous owner may remove the file between our open() and flock(). */
static bool is_file_at(int fd, const char *path)
{
	struct stat ours, theirs;

	return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
	       ours.st_dev == theirs.st_dev;
}

static int acquire_lock(const struct listener_options *options, struct listener *listener, struct fathom_fault *why)
{
	for (int i = 0; i < LOCK_TRIES_MAX; i++) {
		int fd = open(listener->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), error;

		if (fd < 0)
			return fault(why, -errno, "%s: %s", listener->lock_path, strerror(errno));
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			error = errno == EWOULDBLOCK ? report_in_use(options, fd, why)
						     : fault(why, -errno, "%s: %s", listener->lock_path, strerror(errno));
			close(fd);
			return error;
		}
		if (is_file_at(fd, listener->lock_path)) {
			write_pid(fd);
			listener->lock_fd = fd;
			return 0;
		}
		close(fd);
	}
	return fault(why, -EBUSY, "%s: comes and goes", listener->lock_path);
}

static void release_lock(struct listener *listener)
{
	unlink(listener->lock_path);
	close(listener->lock_fd);
	listener->lock_fd = -1;
}

/* Remove a socket at the path. We hold the lock, so it belongs to a dead server or to a program that uses no lock file. */
static int clear_path(const struct listener_options *options, const struct sockaddr_un *address, struct fathom_fault *why)
{
	const char *path = options->path;
	struct stat stat;
	int fd, result;

	if (lstat(path, &stat) < 0)
		return errno == ENOENT ? 0 : fault(why, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISSOCK(stat.st_mode))
		return fault(why, -EEXIST, "%s exists and is not a socket; choose another with %s", path, options->option);
	fd = socket(AF_UNIX, options->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fault(why, -errno, "socket: %s", strerror(errno));
	result = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;
	close(fd);
	if (result == 0 || result == -EAGAIN)
		return report_in_use(options, -1, why);
	if (unlink(path) < 0 && errno != ENOENT)
		return fault(why, -errno, "%s, of a process that is gone, cannot be removed: %s", path, strerror(errno));
	return 0;
}

static int listen_at_path(const struct listener_options *options, struct listener *listener, struct fathom_fault *why)
{
	const struct sockaddr *address = (const struct sockaddr *)&listener->address;
	int error = clear_path(options, &listener->address, why);

	if (error)
		return error;
	listener->fd = socket(AF_UNIX, options->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0)
		return fault(why, -errno, "socket: %s", strerror(errno));
	/* bind() creates the file with the socket's mode, less the umask: at no moment can other users connect */
	if (fchmod(listener->fd, options->mode) == 0 && bind(listener->fd, address, sizeof(listener->address)) == 0) {
		if (chmod(options->path, options->mode) == 0 &&
		    listen(listener->fd, options->backlog ? options->backlog : BACKLOG_DEFAULT) == 0)
			return 0;
		error = errno;
		unlink(options->path);
		errno = error;
	}
	error = fault(why, -errno, "%s: %s", options->path, strerror(errno));
	close(listener->fd);
	listener->fd = -1;
	return error;
}

int listener_open(const struct listener_options *options, struct listener *listener_ret, struct fathom_fault *why)
{
	struct listener listener = { .address.sun_family = AF_UNIX, .fd = -1, .lock_fd = -1 };
	int error;

	if (options->path[0] == '\0') /* Linux would bind a random abstract name */
		return fault(why, -EINVAL, "the control socket's path is empty");
	if (text_copy(listener.address.sun_path, sizeof(listener.address.sun_path), options->path) < 0)
		return fault(why, -ENAMETOOLONG, "%s: the path of a socket has at most %zu bytes", options->path,
			     sizeof(listener.address.sun_path) - 1);
	snprintf(listener.lock_path, sizeof(listener.lock_path), "%s.lock", options->path);
	error = acquire_lock(options, &listener, why);
	if (error)
		return error;
	error = listen_at_path(options, &listener, why);
	if (error)
		release_lock(&listener);
	else
		*listener_ret = listener;
	return error;
}

void listener_close(struct listener *listener)
{
	unlink(listener->address.sun_path);
	close(listener->fd);
	listener->fd = -1;
	release_lock(listener);
}
