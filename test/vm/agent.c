/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agent - runs commands in the guest for the tests on the host.
 *
 * It is process 1 and has one poll loop. Requests and replies are frames on a virtio port (little-endian):
 *
 *   request   u32 magic, u32 job, u32 timeout_ms, u32 bytes, then the shell command
 *   reply     u32 magic, u32 job, i32 status,     u32 bytes, then the command's output, stdout and stderr as one
 *
 * Status: the exit status; 128 + signal; or STATUS_TIMEOUT. Jobs run concurrently and reply in the order they end. The
 * frame of job 0 reports that the agent runs. A command that cannot be killed, because it waits in the kernel for a target
 * that is gone, still has its time-out reported. A shell script could not do that.
 *
 * A job ends when its shell ends; background processes continue. If the port or this program fails, the guest ends: the end
 * of process 1 is a kernel panic, QEMU exits, and the tests detect it.
 */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	FRAME_MAGIC = 0x6d687466, /* "fthm" */
	COMMAND_BYTES_MAX = 65536,
	OUTPUT_BYTES_MAX = 4 << 20, /* of a job; further output is dropped */
	JOBS_MAX = 32,
	STATUS_TIMEOUT = -1,
	STATUS_NO_SLOT = -2,
};

struct frame {
	uint32_t magic;
	uint32_t job;
	int32_t timeout_or_status;
	uint32_t bytes;
};
_Static_assert(sizeof(struct frame) == 16, "guest.py packs it as <IIiI");

/* free while pid == 0 */
struct job {
	pid_t pid; /* also the process group */
	uint32_t id;
	int output_fd;
	int64_t deadline_ms;
	char *output;
	size_t output_bytes;
};

static struct job jobs[JOBS_MAX];
static int port_fd;

static void must(bool fact, const char *what)
{
	if (fact)
		return;
	fprintf(stderr, "agent: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void port_read(void *buffer, size_t bytes)
{
	uint8_t *at = buffer;

	while (bytes > 0) {
		ssize_t got = read(port_fd, at, bytes);

		if (got == 0) { /* no peer on the host (yet) */
			usleep(10000);
			continue;
		}
		if (got < 0 && errno == EINTR)
			continue;
		must(got > 0, "read from the port");
		at += got;
		bytes -= (size_t)got;
	}
}

static void port_write(const void *buffer, size_t bytes)
{
	const uint8_t *at = buffer;

	while (bytes > 0) {
		ssize_t sent = write(port_fd, at, bytes);

		if (sent < 0 && errno == EINTR)
			continue;
		must(sent > 0, "write to the port");
		at += sent;
		bytes -= (size_t)sent;
	}
}

static void reply(uint32_t id, int32_t status, const void *output, size_t bytes)
{
	struct frame frame = { FRAME_MAGIC, id, status, (uint32_t)bytes };

	port_write(&frame, sizeof(frame));
	port_write(output, bytes);
}

/* Read the job's output; false at its end of file. */
static bool job_drain(struct job *job)
{
	char chunk[16384];
	ssize_t got;

	while ((got = read(job->output_fd, chunk, sizeof(chunk))) > 0) {
		size_t room = OUTPUT_BYTES_MAX - job->output_bytes;
		size_t take = (size_t)got < room ? (size_t)got : room;

		memcpy(job->output + job->output_bytes, chunk, take);
		job->output_bytes += take;
	}
	return got < 0 && (errno == EAGAIN || errno == EINTR);
}

static void job_end(struct job *job, int32_t status)
{
	if (job->output_fd >= 0) {
		(void)job_drain(job);
		close(job->output_fd);
	}
	reply(job->id, status, job->output, job->output_bytes);
	free(job->output);
	memset(job, 0, sizeof(*job));
}

/* In the child. Does not return. */
static void job_exec(const char *command, int output_fd)
{
	int null_fd = open("/dev/null", O_RDWR);
	sigset_t none;

	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null_fd, 0);
	dup2(output_fd, 1);
	dup2(output_fd, 2);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

static void job_start(uint32_t id, int32_t timeout_ms, const char *command)
{
	struct job *job = NULL;
	int pipe_fds[2];

	for (int i = 0; i < JOBS_MAX && job == NULL; i++)
		if (jobs[i].pid == 0)
			job = &jobs[i];
	if (job == NULL) {
		reply(id, STATUS_NO_SLOT, "", 0);
		return;
	}
	must(pipe2(pipe_fds, O_CLOEXEC) == 0, "pipe");
	must(fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK) == 0, "fcntl");
	job->id = id;
	job->output_fd = pipe_fds[0];
	job->deadline_ms = now_ms() + timeout_ms;
	job->output = malloc(OUTPUT_BYTES_MAX); /* untouched pages are not allocated */
	must(job->output != NULL, "malloc");
	job->pid = fork();
	must(job->pid >= 0, "fork");
	if (job->pid == 0)
		job_exec(command, pipe_fds[1]);
	close(pipe_fds[1]);
}

static void serve_request(void)
{
	static char command[COMMAND_BYTES_MAX + 1];
	struct frame frame;

	port_read(&frame, sizeof(frame));
	errno = EPROTO;
	must(frame.magic == FRAME_MAGIC, "frame magic");
	must(frame.bytes <= COMMAND_BYTES_MAX, "command length");
	port_read(command, frame.bytes);
	command[frame.bytes] = '\0';
	job_start(frame.job, frame.timeout_or_status, command);
}

static void reap(int signal_fd)
{
	struct signalfd_siginfo info;
	int wait_status;
	pid_t pid;

	(void)!read(signal_fd, &info, sizeof(info)); /* signals merge: waitpid() reports all children */
	while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0)
		for (int i = 0; i < JOBS_MAX; i++)
			if (jobs[i].pid == pid)
				job_end(&jobs[i],
					WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status));
}

/* Kill jobs over their time-out. Return how long poll() may wait for the next. */
static int expire(void)
{
	int64_t now = now_ms(), nearest = now + 60000;

	for (int i = 0; i < JOBS_MAX; i++) {
		if (jobs[i].pid == 0)
			continue;
		if (jobs[i].deadline_ms <= now) {
			kill(-jobs[i].pid, SIGKILL); /* reaped when the kernel ends it */
			job_end(&jobs[i], STATUS_TIMEOUT);
		} else if (jobs[i].deadline_ms < nearest) {
			nearest = jobs[i].deadline_ms;
		}
	}
	return (int)(nearest - now);
}

static void serve_once(int signal_fd)
{
	struct pollfd fds[2 + JOBS_MAX] = { { .fd = port_fd, .events = POLLIN }, { .fd = signal_fd, .events = POLLIN } };

	for (int i = 0; i < JOBS_MAX; i++)
		fds[2 + i] = (struct pollfd){ .fd = jobs[i].pid ? jobs[i].output_fd : -1, .events = POLLIN };
	if (poll(fds, 2 + JOBS_MAX, expire()) < 0) {
		must(errno == EINTR, "poll");
		return;
	}
	for (int i = 0; i < JOBS_MAX; i++) {
		if (fds[2 + i].revents && jobs[i].pid && !job_drain(&jobs[i])) {
			close(jobs[i].output_fd); /* it has closed its output but still runs */
			jobs[i].output_fd = -1;
		}
	}
	if (fds[1].revents)
		reap(signal_fd);
	if (fds[0].revents & POLLIN)
		serve_request();
	else if (fds[0].revents) /* no peer on the host (yet) */
		usleep(10000);
}

/* The one virtio port; its number depends on the other virtio devices. */
static int port_open(void)
{
	/* devtmpfs creates the node when the bus has reported the port, shortly after the module is loaded */
	for (int attempt = 0; attempt < 500; attempt++) {
		glob_t found = { 0 };
		int fd = -1;

		if (glob("/dev/vport*", 0, NULL, &found) == 0)
			fd = open(found.gl_pathv[0], O_RDWR | O_CLOEXEC);
		globfree(&found);
		if (fd >= 0)
			return fd;
		usleep(10000);
	}
	must(false, "open /dev/vport*");
	return -1;
}

int main(void)
{
	sigset_t child;
	int signal_fd;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signal_fd = signalfd(-1, &child, SFD_CLOEXEC);
	must(signal_fd >= 0, "signalfd");
	port_fd = port_open();
	reply(0, 0, "", 0);
	for (;;)
		serve_once(signal_fd);
}
