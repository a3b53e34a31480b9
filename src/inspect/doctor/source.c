/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * source - looks at all sources at the same time.
 *
 * Each source runs in a child process of its own, which sends lines of JSON through a pipe. So a damaged trace file cannot
 * end the doctor, and a call that does not return (statvfs() of a file system whose server is gone) costs the time limit
 * and no more: what was sent before it is used. A child that cannot be killed is left to the kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "inspect/doctor/internal.h"

enum { SOURCES_MAX = DOCTOR_SOURCES_MAX, SENT_BYTES_MAX = 64 << 20, READ_BYTES = 65536, STEP_BYTES = 256 };

struct doctor_out {
	int fd;
	uint64_t begin_ns;
};

struct child {
	pid_t pid;
	int fd; /* -1: closed */
	uint8_t *sent;
	size_t room, bytes;
};

/* ---- in the child ---- */

static void send_line(const struct doctor_out *out, const char *key, json_t *value)
{
	json_t *line = doc_object();
	char *text;

	doc_put(line, key, value);
	text = json_dumps(line, JSON_COMPACT);
	must(text);
	text[strlen(text)] = '\n'; /* in place of the NUL */
	if (file_write(out->fd, text, strcspn(text, "\n") + 1) != 0)
		_exit(EXIT_FAILURE); /* the doctor ended */
	free(text);
	json_decref(line);
}

void doctor_put(struct doctor_out *out, const char *key, json_t *value)
{
	if (value)
		send_line(out, key, value);
}

void doctor_step(struct doctor_out *out, const char *format, ...)
{
	char text[STEP_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	send_line(out, "unfinished", doc_text(text));
}

uint64_t doctor_elapsed_ms(const struct doctor_out *out)
{
	return (clock_monotonic_ns() - out->begin_ns) / NS_PER_MS;
}

void doctor_wait_look(const struct doctor_out *out, uint64_t since_ms)
{
	uint64_t until = since_ms + DOCTOR_LOOK_MS, now = doctor_elapsed_ms(out);

	if (now < until) {
		struct timespec pause = { (time_t)((until - now) / 1000), (long)((until - now) % 1000 * NS_PER_MS) };

		nanosleep(&pause, NULL);
	}
}

static void run_source(const struct doctor_source *source, int fd)
{
	struct doctor_out out = { .fd = fd, .begin_ns = clock_monotonic_ns() };

	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* a child that never ends must not keep the doctor's pipes open */
	for (int other = STDIN_FILENO; null >= 0 && other <= STDERR_FILENO; other++)
		(void)dup2(null, other);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	source->look(&out, source->ctx);
	send_line(&out, "unfinished", json_null());
	_exit(EXIT_SUCCESS);
}

/* ---- in the doctor ---- */

static bool start_child(const struct doctor_source *source, struct child *child_ret)
{
	int fds[2];

	*child_ret = (struct child){ .pid = -1, .fd = -1 };
	if (pipe(fds) != 0)
		return false;
	child_ret->pid = fork();
	if (child_ret->pid == 0) {
		close(fds[0]);
		run_source(source, fds[1]);
	}
	close(fds[1]);
	child_ret->fd = fds[0];
	if (child_ret->pid > 0)
		return true;
	close(fds[0]);
	child_ret->fd = -1;
	return false;
}

static void read_child(struct child *child)
{
	ssize_t got;

	if (buffer_reserve(&child->sent, &child->room, child->bytes + READ_BYTES, SENT_BYTES_MAX + READ_BYTES) != 0)
		abort();
	got = read(child->fd, child->sent + child->bytes, READ_BYTES);
	if (got > 0)
		child->bytes += (size_t)got;
	if (got == 0 || (got < 0 && errno != EINTR) || child->bytes >= SENT_BYTES_MAX) {
		close(child->fd);
		child->fd = -1;
	}
}

/* Read from all children until each has closed its pipe, or the time is over. */
static void read_children(struct child *children, size_t count, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd polls[SOURCES_MAX];
		uint64_t now = clock_monotonic_ns();
		bool open = false;

		for (size_t i = 0; i < count; i++) {
			polls[i] = (struct pollfd){ .fd = children[i].fd, .events = POLLIN };
			open |= children[i].fd >= 0;
		}
		if (!open || now >= deadline_ns)
			return;
		if (poll(polls, count, (int)((deadline_ns - now) / NS_PER_MS) + 1) <= 0)
			continue;
		for (size_t i = 0; i < count; i++) {
			if (children[i].fd >= 0 && polls[i].revents)
				read_child(&children[i]);
		}
	}
}

/* Merge the complete lines that a child sent. */
static json_t *evidence_of(const struct child *child)
{
	const char *from = (const char *)child->sent, *end = from + child->bytes;
	json_t *evidence = doc_object();

	while (from && from < end) {
		const char *line_end = memchr(from, '\n', (size_t)(end - from));
		json_t *line = line_end ? json_loadb(from, (size_t)(line_end - from), 0, NULL) : NULL;

		if (json_is_object(line))
			(void)json_object_update(evidence, line);
		json_decref(line);
		from = line_end ? line_end + 1 : end;
	}
	return evidence;
}

static json_t *end_child(struct child *child, const struct doctor_source *source)
{
	json_t *evidence = evidence_of(child);
	bool ended = child->fd < 0;
	int status = 0;

	if (child->pid < 0) {
		doc_put(evidence, "crashed", doc_text("its process could not be started"));
		return evidence;
	}
	if (!ended) {
		close(child->fd);
		kill(child->pid, SIGKILL);
	}
	/* one that closed its pipe ends at once; one that waits in the kernel may not end even now */
	(void)waitpid(child->pid, &status, ended ? 0 : WNOHANG);
	if (ended && WIFSIGNALED(status)) {
		char text[64];

		snprintf(text, sizeof(text), "looking at the %s ended with signal %d", source->name, WTERMSIG(status));
		doc_put(evidence, "crashed", doc_text(text));
	}
	if (json_is_null(json_object_get(evidence, "unfinished")))
		(void)json_object_del(evidence, "unfinished");
	free(child->sent);
	return evidence;
}

json_t *doctor_look(const struct doctor_source *sources, size_t count, uint64_t limit_ms)
{
	uint64_t deadline_ns = clock_monotonic_ns() + limit_ms * NS_PER_MS;
	struct child children[SOURCES_MAX];
	json_t *evidence = doc_object();

	must(count <= SOURCES_MAX);
	fflush(NULL); /* else a child's end would print what is buffered again */
	for (size_t i = 0; i < count; i++)
		(void)start_child(&sources[i], &children[i]); /* the evidence says so */
	read_children(children, count, deadline_ns);
	for (size_t i = 0; i < count; i++)
		doc_put(evidence, sources[i].name, end_child(&children[i], &sources[i]));
	return evidence;
}
