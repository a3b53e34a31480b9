/* SPDX-License-Identifier: BSD-2-Clause */
/* target - finds the process, the trace file and the control socket of an engine; no call here can block for long. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/doctor/doctor.h"
#include "cmd/fathom/top/top.h"
#include "inspect/trace/trace_file.h"

enum { ANSWER_MS = 2000 };

/* The process that listens on a socket whose backlog is full, so that no connection tells; 0: not known. */
static int32_t search_listener(const char *path)
{
	DIR *directory = opendir("/proc");
	char found[TOP_PATH_BYTES];
	struct dirent *entry;
	int32_t listener = 0;
	uint64_t pid;

	while (directory && !listener && (entry = readdir(directory))) {
		struct fathom_fault why;

		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &pid) == 0 &&
		    top_find_socket(entry->d_name, found, &why) == 0 && strcmp(found, path) == 0)
			listener = (int32_t)pid;
	}
	if (directory)
		closedir(directory);
	return listener;
}

/* The process that listens on a socket; 0: not known. */
static int32_t listener_of(const char *path)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct ucred peer = { .pid = 0 };
	socklen_t bytes = sizeof(peer);
	bool is_full = false;

	if (fd < 0 || text_copy(address.sun_path, sizeof(address.sun_path), path) != 0 ||
	    connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
		is_full = fd >= 0 && errno == EAGAIN;
		peer.pid = 0;
	} else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
		peer.pid = 0;
	}
	if (fd >= 0)
		close(fd);
	return is_full ? search_listener(path) : peer.pid;
}

/* 0, or the error, which `no_socket` explains. */
static int find_socket_of(struct doctor_target *target)
{
	char text[16], path[TOP_PATH_BYTES];
	struct fathom_fault why;
	int rc = -ESRCH;

	snprintf(text, sizeof(text), "%d", target->pid);
	if (target->pid > 0)
		rc = top_find_socket(text, path, &why);
	if (rc == 0)
		(void)text_copy(target->socket, sizeof(target->socket), path); /* longer than a socket's path */
	else
		(void)text_copy(target->no_socket, sizeof(target->no_socket),
				target->pid > 0 ? why.text : "the engine does not run");
	return rc;
}

/*
 * The process of a trace file. A dead one's number is used only while it is free: with it the core may be found. An SPDK
 * target may have no number in its file's name.
 */
static int find_by_trace(struct doctor_target *target, struct fathom_fault *why)
{
	struct reader *reader;
	const struct reader_info *info;
	int rc = reader_open(target->trace, &reader, why);

	if (rc)
		return rc;
	info = reader_info(reader);
	if (info->liveness == READER_ALIVE || (info->died && info->pid > 0 && kill(info->pid, 0) != 0 && errno == ESRCH))
		target->pid = info->pid;
	if (info->liveness == READER_ALIVE && !doctor_is_server(target))
		(void)find_socket_of(target);
	else
		snprintf(target->no_socket, sizeof(target->no_socket), "the engine does not run");
	reader_close(reader);
	return 0;
}

void doctor_find_trace(struct doctor_target *target)
{
	struct fathom_fault why;

	if (reader_find_newest(NULL, NULL, target->pid, target->trace, sizeof(target->trace), &why) != 0)
		target->trace[0] = '\0';
}

static int find_by_pid(struct doctor_target *target, int32_t pid, struct fathom_fault *why)
{
	int rc;

	target->pid = pid;
	doctor_find_trace(target);
	if (doctor_is_server(target))
		return 0;
	if (target->trace[0])
		return find_by_trace(target, why);
	if (kill(pid, 0) != 0 && errno == ESRCH)
		return fault(why, -ESRCH, "there is no process %d, and no trace file of one with this number", pid);
	rc = find_socket_of(target);
	if (rc == -ENOENT)
		return fault(why, rc, "process %d is no engine: it has no trace file and listens on no control socket",
			     pid);
	return rc ? fault(why, rc, "%.200s", target->no_socket) : 0;
}

static int find_by_socket(struct doctor_target *target, const char *path, struct fathom_fault *why)
{
	target->pid = listener_of(path);
	if (target->pid > 0)
		doctor_find_trace(target);
	else
		return fault(why, -ECONNREFUSED,
			     "%s: no process listens there. If its engine has ended, type the engine's name or process id "
			     "instead; the names of trace files have both (`ls /dev/shm`)",
			     path);
	(void)text_copy(target->socket, sizeof(target->socket), path);
	return 0;
}

static bool is_evidence(const char *path)
{
	char begin[16] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got = fd >= 0 ? read(fd, begin, sizeof(begin) - 1) : -1;

	if (fd >= 0)
		close(fd);
	return got > 0 && (begin[0] == '{' || strncmp(begin, "evidence.json", strlen("evidence.json")) == 0);
}

/*
 * Does the file system of `path` answer? A child asks, which may wait for ever; one that cannot be killed is left to the
 * kernel.
 */
static bool does_answer(const char *path)
{
	struct timespec pause = { .tv_nsec = 5 * NS_PER_MS };
	uint64_t deadline_ns = clock_monotonic_ns() + ANSWER_MS * NS_PER_MS;
	pid_t pid, ended = 0;
	struct stat st;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return true; /* not known */
	if (pid == 0) {
		int fd = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

		_exit(fd >= 0 && read(fd, &st, sizeof(st)) < 0);
	}
	while ((ended = waitpid(pid, NULL, WNOHANG)) == 0 && clock_monotonic_ns() < deadline_ns)
		nanosleep(&pause, NULL);
	if (ended == 0) {
		kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, WNOHANG); /* it may not end even now */
	}
	return ended != 0;
}

static int find_by_path(struct doctor_target *target, const char *path, struct fathom_fault *why)
{
	struct stat st;

	if (!does_answer(path))
		return fault(why, -ETIMEDOUT, "%.200s: its file system does not answer", path);
	if (stat(path, &st) != 0)
		return fault(why, -errno, "%.200s: %s", path, strerror(errno));
	if (S_ISSOCK(st.st_mode))
		return find_by_socket(target, path, why);
	if (!S_ISREG(st.st_mode))
		return fault(why, -EINVAL, "%.200s: neither a file nor a socket", path);
	if (doctor_is_core(path)) {
		if (text_copy(target->core, PATH_MAX, path) != 0 || text_copy(target->trace, PATH_MAX, path) != 0)
			return fault(why, -ENAMETOOLONG, "%.200s: too long", path);
		snprintf(target->no_socket, sizeof(target->no_socket), "it is a core file");
		return 0;
	}
	if (text_copy(is_evidence(path) ? target->evidence : target->trace, PATH_MAX, path) != 0)
		return fault(why, -ENAMETOOLONG, "%.200s: too long", path);
	return target->evidence[0] ? 0 : find_by_trace(target, why);
}

/* The only engine that runs, else the one that ended last. */
static int find_any(struct doctor_target *target, struct fathom_fault *why)
{
	char path[TOP_PATH_BYTES];
	struct fathom_fault no_socket;
	int rc = top_find_socket(NULL, path, &no_socket);

	if (rc == 0 && find_by_socket(target, path, &no_socket) == 0)
		return 0;
	if (rc == -EEXIST)
		return fault(why, rc, "%s", no_socket.text);
	*target = (struct doctor_target){ .pid = 0 };
	rc = reader_find_newest(NULL, NULL, 0, target->trace, sizeof(target->trace), why);
	return rc ? rc : find_by_trace(target, why);
}

int doctor_find(const char *name, struct doctor_target *target_ret, struct fathom_fault *why)
{
	struct stat st;
	uint64_t pid;
	int rc;

	*target_ret = (struct doctor_target){ .pid = 0 };
	if (!name)
		return find_any(target_ret, why);
	if (text_parse_u64(name, 10, INT32_MAX, &pid) == 0 && pid > 0)
		return find_by_pid(target_ret, (int32_t)pid, why);
	if (strchr(name, '/') || stat(name, &st) == 0)
		return find_by_path(target_ret, name, why);
	rc = reader_find_newest(NULL, name, 0, target_ret->trace, sizeof(target_ret->trace), why);
	return rc ? rc : find_by_trace(target_ret, why);
}
