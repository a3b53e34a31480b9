/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/log.h"
#include "base/observe/probes.gen.h"
#include "base/observe/trace/daemon.h"
#include "base/supervisor.h"

enum {
	CLOCK_NOTE_SEC = 10,	 /* interval of clock pairs in the trace file */
	SMALL_POOL_BYTES = 4096, /* a small daemon has no request pools */
};

static struct {
	const struct daemon_options *options;
	int signal_fd;
	struct fd_watch *signal_watch;
	struct poller *clock_poller;
	bool is_ready, is_stopping, has_ended;
	int status;
} process = { .signal_fd = -1 };

/* ---- faults on purpose ---- */

struct fired {
	const struct trace_istr *point, *action;
	int error;
	uint64_t count;
};

static void record_fired(void *ctx)
{
	struct fired *fired = ctx;

	probe_inject_fired(clock_ticks(), fired->point, fired->action, fired->error, fired->count);
	free(fired);
}

/* On the thread of the point. Only light threads have a trace of their own. */
static void on_fault(const struct inject_status *point, const struct inject_rule *rule)
{
	struct fired *fired = malloc(sizeof(*fired));

	if (!fired)
		return;
	*fired = (struct fired){ trace_intern(point->name), trace_intern(inject_action_name(rule->action)), rule->error,
				 point->fired };
	if (thread_self())
		record_fired(fired);
	else if (thread_control())
		thread_send_msg(thread_control(), record_fired, fired);
	else
		free(fired); /* the trace is not open yet */
}

static int arm_points(struct fathom_fault *why)
{
	const char *rules = getenv("FATHOM_INJECT");

	if (!inject_is_built())
		return 0;
	inject_set_hook(on_fault);
	return rules ? inject_arm_texts(rules, why) : 0;
}

/* ---- signals, clocks ---- */

static void on_signal_readable(void *ctx, uint32_t events)
{
	struct signalfd_siginfo info;
	struct daemon_signal signal;

	must(!process.has_ended);
	if (read(process.signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR1) {
		log_notice("signal SIGUSR1 from process %u: nothing to do", info.ssi_pid);
		return;
	}
	must(info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT || info.ssi_signo == SIGHUP);
	signal = (struct daemon_signal){ .number = info.ssi_signo, .pid = info.ssi_pid, .uid = info.ssi_uid };
	process.options->on_signal(&signal);
}

static int record_clocks(void *ctx)
{
	trace_clock_note();
	if (process.options->on_clock)
		process.options->on_clock();
	return 0;
}

static void start_on_control(void *ctx)
{
	process.signal_watch = fd_watch_add(process.signal_fd, EPOLLIN, on_signal_readable, NULL);
	process.clock_poller = poller_register("trace_clock_note", record_clocks, NULL, CLOCK_NOTE_SEC * NS_PER_SEC);
	must(process.signal_watch);
	must(process.clock_poller);
	probe_process_start(clock_ticks(), trace_intern(process.options->name), getpid());
	process.options->start();
}

void daemon_ready(void)
{
	must(!process.is_ready);
	must(!process.is_stopping);
	process.is_ready = true;
	supervisor_notify("READY=1");
}

void daemon_stopping(void)
{
	must(!process.is_stopping);
	process.is_stopping = true;
	inject_clear_all(); /* a thread that hangs must end */
	supervisor_notify("STOPPING=1");
}

bool daemon_is_stopping(void)
{
	return process.is_stopping;
}

void daemon_end(int status)
{
	must(process.options);
	must(!process.has_ended);
	process.has_ended = true;
	process.status = status;
	poller_unregister(&process.clock_poller);
	fd_watch_remove(&process.signal_watch);
	reactors_request_stop();
}

void daemon_abandon(int status)
{
	probe_process_end(clock_ticks(), status);
	trace_close();
	_exit(status);
}

static int start_reactors(const struct daemon_options *options, struct fathom_fault *why)
{
	int error = reactors_start(&options->reactors);

	if (!error)
		return 0;
	return fault(why, error, "%s%sreactors cannot start: %s%s", options->cpus_option ? options->cpus_option : "",
		     options->cpus_option ? ": " : "", strerror(-error),
		     error == -EINVAL ? " (a CPU in the set is not for this process)" : "");
}

static int open_process(const struct daemon_options *options, struct fathom_fault *why)
{
	int error;

	error = arm_points(why);
	if (error)
		return error;
	supervisor_raise_descriptor_limit();
	error = trace_daemon_signals(&process.signal_fd); /* all threads inherit the mask and see no signal */
	if (error)
		return fault(why, error, "signals: %s", strerror(-error));
	error = trace_daemon_open(options->trace, options->trace_spec, why);
	if (!error) {
		error = start_reactors(options, why);
		if (!error)
			return 0;
		trace_close();
	}
	close(process.signal_fd);
	process.signal_fd = -1;
	return error;
}

int daemon_run(const struct daemon_options *options, int *status_ret, struct fathom_fault *why)
{
	int error;

	must(!process.options);
	must(options->start && options->on_signal);
	process.options = options;
	error = open_process(options, why);
	if (error)
		return error;
	thread_send_msg(thread_control(), start_on_control, NULL);
	reactors_run();
	must(process.has_ended);
	probe_process_end(clock_ticks(), process.status); /* before reactors_stop(): the thread's trace ends in it */
	reactors_stop();
	if (options->ended)
		options->ended();
	close(process.signal_fd);
	trace_close();
	*status_ret = process.status;
	return 0;
}

int daemon_run_small(const struct small_daemon_options *options, int *status_ret, struct fathom_fault *why)
{
	const struct trace_options trace = {
		.schema = options->schema,
		.name = options->name,
		.version = options->version,
		.thread_count = 1,
		.small_thread_count = 1,
		.io_entries = TRACE_IO_ENTRIES_MIN,
		.rare_entries = options->trace_entries,
		.pool_bytes = SMALL_POOL_BYTES,
	};
	const struct daemon_options daemon = {
		.name = options->name,
		.trace = &trace,
		.trace_spec = options->trace_spec,
		.start = options->start,
		.on_signal = options->on_signal,
	};

	return daemon_run(&daemon, status_ret, why);
}
