/* SPDX-License-Identifier: BSD-2-Clause */
/* The process of fathom-server: log, signals, trace, reactor. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/supervisor.h"
#include "control/fault/fault.h"
#include "control/server/internal.h"
#include "base/observe/probes.gen.h"
#include "base/observe/trace/daemon.h"
#include "base/observe/trace/points.gen.h"

enum { CLOCK_NOTE_SEC = 10, TRACE_IO_ENTRIES = TRACE_IO_ENTRIES_MIN, TRACE_RARE_ENTRIES = 1 << 15 };

static struct {
	const struct server_options *options;
	int signal_fd;
	struct fd_watch *signal_watch;
	struct poller *clock_poller;
	struct server_frame *frame;
	bool stopping;
	int exit_status;
} process = { .signal_fd = -1 };

/* Redirect standard error to the log file, if one is configured. */
static int open_log(const struct server_config *config, struct fathom_fault *why)
{
	int fd;

	if (!config->log_file)
		return 0;
	fd = open(config->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	if (fd < 0)
		return fault_log_file(why, config->log_file, strerror(errno));
	dup2(fd, STDERR_FILENO);
	close(fd);
	return 0;
}

/* ---- down ---- */

static void stop_reactors(void)
{
	fd_watch_remove(&process.signal_watch);
	poller_unregister(&process.clock_poller);
	reactors_request_stop();
}

static void on_server_left(void *ctx, bool is_clean)
{
	if (!is_clean) {
		log_warning("a scan still waits for a device; the server ends without it");
		probe_process_end(clock_ticks(), process.exit_status);
		trace_close();
		_exit(process.exit_status);
	}
	log_notice("the server has left; its engines go on");
	stop_reactors();
}

static void stop_daemon(int exit_status)
{
	if (process.stopping)
		return;
	process.stopping = true;
	process.exit_status = exit_status;
	supervisor_notify("STOPPING=1");
	if (process.frame)
		server_leave(process.frame, on_server_left, NULL);
	else
		stop_reactors();
}

static void reload_logs_and_certificates(void)
{
	struct fathom_fault why;

	if (open_log(process.options->config, &why) != 0)
		server_log_fault(LOG_LEVEL_ERROR, "", &why);
	else if (process.options->config->log_file)
		log_notice("the log file has been opened again");
	if (process.frame && !process.stopping)
		certificates_reload(process.frame);
}

static void on_signal(void *ctx, uint32_t events)
{
	struct signalfd_siginfo info;
	char why[64];

	if (read(process.signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR1) {
		log_notice("signal SIGUSR1 from process %u: nothing to do", info.ssi_pid);
	} else if (info.ssi_signo == SIGHUP) {
		log_notice("signal SIGHUP from process %u", info.ssi_pid);
		reload_logs_and_certificates();
	} else {
		log_notice("signal %u from process %u: leaving", info.ssi_signo, info.ssi_pid);
		snprintf(why, sizeof(why), "signal %u of process %u, uid %u", info.ssi_signo, info.ssi_pid, info.ssi_uid);
		if (process.frame && !process.stopping)
			server_tell_end(process.frame, why);
		stop_daemon(EXIT_SUCCESS);
	}
}

/* ---- up ---- */

static int note_clocks(void *ctx)
{
	trace_clock_note();
	return 0;
}

/* The first function on the control thread. */
static void start_server(void *ctx)
{
	const struct server_options *options = process.options;
	struct fathom_fault why = { 0 };

	process.signal_watch = fd_watch_add(process.signal_fd, EPOLLIN, on_signal, NULL);
	process.clock_poller = poller_register("trace_clock_note", note_clocks, NULL, CLOCK_NOTE_SEC * NS_PER_SEC);
	must(process.signal_watch);
	must(process.clock_poller);
	probe_process_start(clock_ticks(), trace_intern(options->name), getpid());
	if (server_open(options, &process.frame, &why) != 0) {
		server_log_fault(LOG_LEVEL_ERROR, "", &why);
		stop_daemon(EXIT_FAILURE);
		return;
	}
	log_notice("ready after %llu ms: system %s at %s%s, management service %s, %zu engine%s",
		   (unsigned long long)((clock_monotonic_ns() - options->began_ns) / NS_PER_MS), options->config->name,
		   options->places->control, options->config->transport.allow_insecure ? " (without certificates)" : "",
		   options->places->is_replica ? "here" : options->places->replica, options->config->engines.count,
		   options->config->engines.count == 1 ? "" : "s");
	supervisor_notify("READY=1");
}

static int open_trace(const struct server_options *options, struct fathom_fault *why)
{
	const struct trace_options trace = {
		.schema = &fathom_server_schema,
		.name = options->name,
		.version = options->version,
		.thread_count = 1,
		.small_thread_count = 1,
		.io_entries = TRACE_IO_ENTRIES,
		.rare_entries = TRACE_RARE_ENTRIES,
		.pool_bytes = 4096,
	};

	return trace_daemon_open(&trace, options->trace_spec, why);
}

static int make_folder(const char *path, struct fathom_fault *why)
{
	if (mkdir(path, 0750) == 0 || errno == EEXIST)
		return 0;
	return fault_folder(why, path, strerror(errno));
}

/* /run is empty after a boot. The parent folder is shared with other programs, so all users may read it. */
static void make_parent(const char *path)
{
	char parent[SERVER_PATH_BYTES];
	int bytes = (int)(strrchr(path, '/') - path);

	if (bytes >= (int)sizeof(parent))
		return;
	snprintf(parent, sizeof(parent), "%.*s", bytes, path);
	if (mkdir(parent, 0755) == 0)
		(void)!chmod(parent, 0755); /* the umask restricts mkdir(); on failure our own folder still opens */
}

static int make_socket_folder(const char *path, struct fathom_fault *why)
{
	if (mkdir(path, 0750) != 0 && errno == ENOENT)
		make_parent(path);
	return make_folder(path, why);
}

static int prepare_process(const struct server_options *options, struct fathom_fault *why)
{
	const struct server_config *config = options->config;
	int error = open_log(config, why);

	if (!error)
		error = make_socket_folder(config->socket_dir, why);
	if (!error)
		error = make_folder(config->state_dir, why);
	if (!error && config->metadata.path)
		error = make_folder(config->metadata.path, why);
	return error ? error : open_trace(options, why);
}

int server_run(const struct server_options *options)
{
	const struct reactor_options reactors = { .spin_ns = 0 };
	struct fathom_fault why = { 0 };
	int error;

	must(!process.options);
	process.options = options;
	umask(027);
	supervisor_raise_descriptor_limit();
	error = trace_daemon_signals(&process.signal_fd);
	if (error) {
		log_error("signals: %s", strerror(-error));
		return EXIT_FAILURE;
	}
	if (prepare_process(options, &why)) {
		server_log_fault(LOG_LEVEL_ERROR, "", &why);
		return EXIT_FAILURE;
	}
	error = reactors_start(&reactors);
	if (error) {
		log_error("the reactor cannot start: %s", strerror(-error));
		trace_close();
		return EXIT_FAILURE;
	}
	thread_send_msg(thread_control(), start_server, NULL);
	reactors_run();
	probe_process_end(clock_ticks(), process.exit_status);
	reactors_stop();
	close(process.signal_fd);
	trace_close();
	return process.exit_status;
}
