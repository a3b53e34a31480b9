/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run - runs `fathom doctor --json PID` with the process id of this server, and reads its report. A run ends with its
 * child, not with the child's pipe. A child that is killed and does not end waits in the kernel: it is forgotten.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/json/json_memory.h"
#include "base/program.h"
#include "control/fault/fault.h"
#include "control/server/doctor/internal.h"

enum { READ_BYTES = 65536, KILLED_SECONDS = 2, PID_BYTES = 16, HOW_BYTES = 128 };
enum { EXIT_BROKEN = 2 }; /* of `fathom doctor`; from there on it has no report */

#define PROGRAM "fathom"

static struct server_doctor *doctor_of(struct deadline *deadline)
{
	return container_of(deadline, struct server_doctor, run.due);
}

/* Close everything of the run except the child. */
static void close_run(struct server_doctor *doctor)
{
	struct doctor_run *run = &doctor->run;

	deadline_clear(&doctor->server->deadlines, &run->due);
	fd_watch_remove(&run->ends);
	fd_watch_remove(&run->says);
	if (run->pid_fd >= 0)
		close(run->pid_fd);
	if (run->fd >= 0)
		close(run->fd);
	free(run->text);
	*run = (struct doctor_run){ .pid_fd = -1, .fd = -1 };
}

static void kill_child(struct doctor_run *run)
{
	must(run->pid > 0);
	(void)kill(run->pid, SIGKILL); /* our child, and not waited for yet, so its pid is not reused */
	run->is_killed = true;
}

/* ---- the report ---- */

static json_t *parse_report(const struct doctor_run *run)
{
	json_t *report;

	json_memory_begin();
	report = json_loadb((const char *)run->text, run->bytes, 0, NULL);
	if (json_memory_end(json_is_array(json_object_get(report, "findings"))) == 0)
		return report;
	json_decref(report);
	return NULL;
}

static void describe_end(const struct doctor_run *run, int status, char how[static HOW_BYTES])
{
	if (run->is_killed)
		snprintf(how, HOW_BYTES, "it did not end within %d s", DOCTOR_RUN_SECONDS);
	else if (WIFSIGNALED(status))
		snprintf(how, HOW_BYTES, "it was ended by signal %d", WTERMSIG(status));
	else
		snprintf(how, HOW_BYTES, "it ended with status %d", WEXITSTATUS(status));
}

static void end_run(struct server_doctor *doctor, int status)
{
	struct doctor_run *run = &doctor->run;
	bool is_good = !run->is_killed && WIFEXITED(status) && WEXITSTATUS(status) <= EXIT_BROKEN && run->bytes > 0;
	json_t *report = is_good ? parse_report(run) : NULL;
	struct fathom_fault why = { 0 };
	char how[HOW_BYTES], path[SERVER_PATH_BYTES];

	if (report)
		(void)json_object_set_new(report, "taken_ns", json_integer((json_int_t)doctor->began_ns));
	describe_end(run, status, how);
	server_program_path(doctor->server, NULL, PROGRAM, path);
	if (!report)
		fill_fault_doctor_failed(&why, path, how);
	close_run(doctor);
	run_ended(doctor, report, &why);
}

/* ---- the child ---- */

/* False: no more for now. */
static bool read_more(struct doctor_run *run)
{
	ssize_t got;

	if (run->bytes >= DOCTOR_REPORT_MAX ||
	    buffer_reserve(&run->text, &run->room, run->bytes + READ_BYTES, DOCTOR_REPORT_MAX + READ_BYTES) != 0)
		return false;
	got = read(run->fd, run->text + run->bytes, READ_BYTES);
	if (got > 0)
		run->bytes += (size_t)got;
	return got > 0;
}

static void on_says(void *ctx, uint32_t events)
{
	struct server_doctor *doctor = ctx;

	(void)events;
	/* at its end the child's end follows; it must not fire for ever meanwhile */
	if (!read_more(&doctor->run))
		fd_watch_remove(&doctor->run.says);
}

static void on_ends(void *ctx, uint32_t events)
{
	struct server_doctor *doctor = ctx;
	int status = 0;
	pid_t reaped = waitpid(doctor->run.pid, &status, WNOHANG);

	(void)events;
	if (reaped == 0 || (reaped < 0 && errno == EINTR))
		return;
	while (read_more(&doctor->run))
		;
	end_run(doctor, status);
}

static void on_not_killed(struct deadline *deadline)
{
	end_run(doctor_of(deadline), 0);
}

static void on_late(struct deadline *deadline)
{
	struct server_doctor *doctor = doctor_of(deadline);

	kill_child(&doctor->run);
	deadline_set(&doctor->server->deadlines, deadline, KILLED_SECONDS * NS_PER_SEC, on_not_killed);
}

static int start_child(struct server_doctor *doctor, int out, struct fathom_fault *why)
{
	char path[SERVER_PATH_BYTES], pid[PID_BYTES];
	char *argv[] = { path, "doctor", "--json", pid, NULL };
	char *env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL };
	const struct program_fd fds[] = {
		{ .fd = STDIN_FILENO, .path = "/dev/null", .flags = O_RDONLY },
		{ .fd = STDOUT_FILENO, .from = out },
		{ .fd = STDERR_FILENO, .path = "/dev/null", .flags = O_WRONLY },
	};
	const struct program program = { .path = path, .argv = argv, .env = env, .fds = fds, .fd_count = ARRAY_COUNT(fds) };
	int error;

	must(out > STDERR_FILENO);
	server_program_path(doctor->server, NULL, PROGRAM, path);
	snprintf(pid, sizeof(pid), "%d", getpid());
	error = program_start(&program, &doctor->run.pid);
	if (!error)
		return 0;
	doctor->run.pid = 0;
	return fault_doctor_missing(why, path, strerror(-error));
}

static int watch_child(struct server_doctor *doctor, struct fathom_fault *why)
{
	struct doctor_run *run = &doctor->run;

	run->pid_fd = (int)syscall(SYS_pidfd_open, run->pid, 0);
	if (run->pid_fd >= 0)
		run->ends = fd_watch_add(run->pid_fd, EPOLLIN, on_ends, doctor);
	if (run->ends)
		run->says = fd_watch_add(run->fd, EPOLLIN, on_says, doctor);
	if (!run->says)
		return fault(why, errno ? -errno : -ENOMEM, "the doctor cannot be watched: %s", strerror(errno));
	deadline_set(&doctor->server->deadlines, &run->due, DOCTOR_RUN_SECONDS * NS_PER_SEC, on_late);
	return 0;
}

int run_begin(struct server_doctor *doctor, struct fathom_fault *why)
{
	int fds[2], out, error;

	must(doctor->run.pid == 0);
	doctor->run = (struct doctor_run){ .pid_fd = -1, .fd = -1 };
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return fault(why, -errno, "no pipe: %s", strerror(errno));
	doctor->run.fd = fds[0];
	/* the child writes to a pipe that blocks, and is not one of its standard descriptors here */
	out = fcntl(fds[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fds[1]);
	error = out < 0 ? fault(why, -errno, "no descriptor: %s", strerror(errno)) : 0;
	if (!error)
		error = fcntl(out, F_SETFL, 0) == 0 ? start_child(doctor, out, why)
						    : fault(why, -errno, "%s", strerror(errno));
	if (out >= 0)
		close(out);
	if (!error)
		error = watch_child(doctor, why);
	if (error)
		run_cancel(doctor);
	return error;
}

void run_cancel(struct server_doctor *doctor)
{
	int status;

	if (doctor->run.pid > 0) {
		kill_child(&doctor->run);
		(void)waitpid(doctor->run.pid, &status,
			      WNOHANG); /* the kernel gives it to init when this server has ended */
	}
	close_run(doctor);
}
