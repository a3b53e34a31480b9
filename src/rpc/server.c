/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The listening socket. Two files: `path`, and `path`.lock, which the server holds flock()ed while it lives and which has
 * its pid. Who gets the lock owns the path: a socket found there is a dead server's and is replaced. A crash leaves both
 * files; the kernel drops the lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "rpc/internal.h"

enum { LISTEN_BACKLOG = 128, LOCK_TRIES_MAX = 16 };

static struct {
	struct sockaddr_un address;
	char lock_path[sizeof(((struct sockaddr_un *)0)->sun_path) + sizeof(".lock")];
	int fd, lock_fd;
	struct fd_watch *watch;
	TAILQ_HEAD(, rpc_connection) connections;
	uint32_t connection_count;
	bool open;
	bool full; /* has been said */
} server = { .fd = -1, .lock_fd = -1, .connections = TAILQ_HEAD_INITIALIZER(server.connections) };

/* ---- connections ---- */

static void watch_listener(bool on)
{
	if (server.watch)
		fd_watch_modify(server.watch, on ? EPOLLIN : 0);
}

void server_remember(struct rpc_connection *connection)
{
	TAILQ_INSERT_TAIL(&server.connections, connection, link);
	server.connection_count++;
	if (server.connection_count == RPC_CONNECTIONS_MAX) {
		if (!server.full)
			log_warning("%s: %d clients are connected; more have to wait", server.address.sun_path,
				    RPC_CONNECTIONS_MAX);
		server.full = true;
		watch_listener(false);
	}
}

void server_forget(struct rpc_connection *connection)
{
	must(server.connection_count > 0);
	TAILQ_REMOVE(&server.connections, connection, link);
	if (server.connection_count-- == RPC_CONNECTIONS_MAX)
		watch_listener(true);
}

static void accept_some(void *ctx, uint32_t events)
{
	while (server.connection_count < RPC_CONNECTIONS_MAX) {
		int fd = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			if (!connection_create(fd))
				log_error("%s: cannot watch a new client: %s", server.address.sun_path, strerror(errno));
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN) {
			/* out of descriptors, most likely: it stays readable, so stop asking until one is closed */
			log_error("%s: cannot accept a client: %s", server.address.sun_path, strerror(errno));
			watch_listener(server.connection_count == 0);
		}
		return;
	}
}

/* ---- the two files ---- */

static void note_pid(int fd)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d\n", getpid());

	/* only for the message of whoever comes too late */
	if (ftruncate(fd, 0) == 0)
		(void)!pwrite(fd, text, (size_t)n, 0);
}

static int in_use(const char *path, int lock_fd, struct fault *why)
{
	char pid[16] = "";
	ssize_t n = lock_fd >= 0 ? pread(lock_fd, pid, sizeof(pid) - 1, 0) : 0;

	pid[n > 0 ? strcspn(pid, "\n") : 0] = '\0';
	return fault(why, -EADDRINUSE, "%s: process %s serves this socket already; choose another with -r", path,
		     pid[0] ? pid : "(unknown)");
}

/* Is `fd` still what `path` names? Its last owner removes it while we wait for the lock. */
static bool is_at(int fd, const char *path)
{
	struct stat ours, theirs;

	return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
	       ours.st_dev == theirs.st_dev;
}

static int lock(struct fault *why)
{
	for (int i = 0; i < LOCK_TRIES_MAX; i++) {
		int fd = open(server.lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), error;

		if (fd < 0)
			return fault(why, -errno, "%s: %s", server.lock_path, strerror(errno));
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			error = errno == EWOULDBLOCK ? in_use(server.address.sun_path, fd, why)
						     : fault(why, -errno, "%s: %s", server.lock_path, strerror(errno));
			close(fd);
			return error;
		}
		if (is_at(fd, server.lock_path)) {
			note_pid(fd);
			server.lock_fd = fd;
			return 0;
		}
		close(fd);
	}
	return fault(why, -EBUSY, "%s: comes and goes", server.lock_path);
}

static void unlock(void)
{
	unlink(server.lock_path);
	close(server.lock_fd);
	server.lock_fd = -1;
}

/* We have the lock, so what is at the path is a dead server's, or of somebody who knows nothing of locks. */
static int clear_path(struct fault *why)
{
	const char *path = server.address.sun_path;
	struct stat stat;
	int fd, result;

	if (lstat(path, &stat) < 0)
		return errno == ENOENT ? 0 : fault(why, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISSOCK(stat.st_mode))
		return fault(why, -EEXIST, "%s exists and is not a socket; choose another with -r", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fault(why, -errno, "socket: %s", strerror(errno));
	result = connect(fd, (const struct sockaddr *)&server.address, sizeof(server.address)) < 0 ? -errno : 0;
	close(fd);
	if (result == 0 || result == -EAGAIN)
		return in_use(path, -1, why);
	if (unlink(path) < 0 && errno != ENOENT)
		return fault(why, -errno, "%s, of a process that is gone, cannot be removed: %s", path, strerror(errno));
	return 0;
}

static int listen_at_path(struct fault *why)
{
	int error = clear_path(why);

	if (error)
		return error;
	server.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server.fd < 0)
		return fault(why, -errno, "socket: %s", strerror(errno));
	/* bind() gives the file the socket's mode: there is no moment at which others can connect */
	if (fchmod(server.fd, 0600) == 0 &&
	    bind(server.fd, (const struct sockaddr *)&server.address, sizeof(server.address)) == 0) {
		if (listen(server.fd, LISTEN_BACKLOG) == 0) {
			server.watch = fd_watch_add(server.fd, EPOLLIN, accept_some, NULL);
			if (server.watch)
				return 0;
		}
		error = errno;
		unlink(server.address.sun_path);
		errno = error;
	}
	error = fault(why, -errno, "%s: %s", server.address.sun_path, strerror(errno));
	close(server.fd);
	server.fd = -1;
	return error;
}

int rpc_server_open(const char *path, struct fault *why)
{
	int error;

	must_be_on(thread_control());
	must(!server.open);
	server.address.sun_family = AF_UNIX;
	if (path[0] == '\0') /* Linux would make up a name that nobody knows */
		return fault(why, -EINVAL, "the control socket's path is empty");
	if (text_copy(server.address.sun_path, sizeof(server.address.sun_path), path) < 0)
		return fault(why, -ENAMETOOLONG, "%s: the path of a socket has at most %zu bytes", path,
			     sizeof(server.address.sun_path) - 1);
	snprintf(server.lock_path, sizeof(server.lock_path), "%s.lock", path);
	error = lock(why);
	if (error)
		return error;
	error = listen_at_path(why);
	if (error) {
		unlock();
		return error;
	}
	server.full = false;
	server.open = true;
	return 0;
}

void rpc_server_close(void)
{
	struct rpc_connection *connection;

	must_be_on(thread_control());
	if (!server.open)
		return;
	server.open = false;
	fd_watch_remove(&server.watch);
	unlink(server.address.sun_path);
	close(server.fd);
	server.fd = -1;
	while ((connection = TAILQ_FIRST(&server.connections)))
		connection_destroy(connection, RPC_CLOSE_SERVER_ENDS);
	unlock();
}
