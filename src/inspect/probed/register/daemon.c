/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * daemon - one thread: the control reactor, with the socket, the device, the processes and the jail's children all watched
 * from it.
 *
 *   signals, trace, reactor -> tree, jail -> socket, device -> ready, when what was in the tree has been looked through
 */
#include "inspect/probed/register/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/supervisor.h"
#include "base/observe/probes.gen.h"
#include "base/observe/trace/daemon.h"
#include "base/observe/trace/points.gen.h"
#include "inspect/probed/register/cuse.h"
#include "inspect/probed/register/server.h"
#include "base/reactor/reactor.h"

enum { CLOCK_NOTE_SEC = 10, TRACE_IO_ENTRIES = TRACE_IO_ENTRIES_MIN, TRACE_RARE_ENTRIES = 1 << 14 };

static struct {
	const struct probed_options *options;
	int signal_fd, socket_fd;
	struct fd_watch *signal_watch;
	struct poller *clock_poller;
	struct registry *registry;
	struct server *server;
	struct cuse *cuse;
	bool looked_through, device_there, ready, stopping;
	int exit_status;
} probed = { .signal_fd = -1, .socket_fd = -1 };

/* ---- down ---- */

static void stop(int exit_status)
{
	if (probed.stopping)
		return;
	probed.stopping = true;
	probed.exit_status = exit_status;
	supervisor_notify("STOPPING=1");
	cuse_close(probed.cuse);
	server_close(probed.server);
	registry_destroy(probed.registry);
	poller_unregister(&probed.clock_poller);
	fd_watch_remove(&probed.signal_watch);
	reactors_request_stop();
}

static void signal_came(void *ctx, uint32_t events)
{
	struct signalfd_siginfo info;

	if (read(probed.signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR1) {
		log_notice("signal SIGUSR1 from process %u: nothing to do", info.ssi_pid);
		return;
	}
	log_notice("signal %u from process %u: stopping; what is registered stays in %s", info.ssi_signo, info.ssi_pid,
		   probed.options->registry.stash.directory);
	stop(EXIT_SUCCESS);
}

/* ---- up ---- */

static void say_ready(void)
{
	struct registry_stats registry;
	struct stash_stats stash;
	struct jail_stats jail;

	if (probed.ready || probed.stopping || !probed.looked_through || !probed.device_there)
		return;
	probed.ready = true;
	registry_get_stats(probed.registry, &registry, &stash, &jail);
	log_notice("ready: %s%s%s, tree %s, %u processes with probes", probed.options->socket_path,
		   probed.cuse ? ", /dev/" : "", probed.cuse ? probed.options->device_name : "",
		   probed.options->registry.stash.directory, registry.processes);
	if (geteuid() != 0)
		log_notice("not root: only processes of user %u can be seen, and register", geteuid());
	supervisor_notify("READY=1");
}

static void looked_through(void *ctx)
{
	probed.looked_through = true;
	say_ready();
}

static void device_there(void *ctx, int error)
{
	probed.device_there = true;
	if (error == 0)
		say_ready();
	else
		stop(EXIT_FAILURE);
}

static void say(void *ctx, const char *text)
{
	log_warning("%s", text);
}

static int open_registry(struct fathom_fault *why)
{
	struct registry_options options = probed.options->registry;

	options.stash.say = say;
	options.ready = looked_through;
	return registry_create(&options, &probed.registry, why);
}

static int open_socket(struct fathom_fault *why)
{
	const struct server_options options = {
		.path = probed.options->socket_path,
		.fd = probed.socket_fd,
		.version = probed.options->version,
		.directory = probed.options->registry.stash.directory,
		.connections_max = probed.options->connections_max,
		.connections_a_user = probed.options->connections_a_user,
		.silent_ns = probed.options->silent_ns,
	};

	return server_open(probed.registry, &options, &probed.server, why);
}

/* Where there is no CUSE, the socket is the only way in, and whoever did not ask for the device need not know. */
static int open_device(struct fathom_fault *why)
{
	int error;

	probed.device_there = true;
	if (probed.options->cuse == PROBED_CUSE_OFF)
		return 0;
	if (probed.options->cuse == PROBED_CUSE_AUTO && access("/dev/cuse", R_OK | W_OK) != 0) {
		log_info("/dev/cuse: %s: there will be no /dev/%s", strerror(errno), probed.options->device_name);
		return 0;
	}
	probed.device_there = false;
	error = cuse_open(probed.registry, probed.options->device_name, device_there, NULL, &probed.cuse, why);
	if (error == 0 || probed.options->cuse == PROBED_CUSE_ON)
		return error;
	log_warning("%s; there will be no /dev/%s", why->text, probed.options->device_name);
	probed.device_there = true;
	return 0;
}

static int note_clocks(void *ctx)
{
	trace_clock_note();
	return 0;
}

/* First of all on the control thread. */
static void begin(void *ctx)
{
	struct fathom_fault why = { 0 };

	probed.signal_watch = fd_watch_add(probed.signal_fd, EPOLLIN, signal_came, NULL);
	probed.clock_poller = poller_register("trace_clock_note", note_clocks, NULL, CLOCK_NOTE_SEC * NS_PER_SEC);
	must(probed.signal_watch);
	must(probed.clock_poller);
	probe_process_start(clock_ticks(), trace_intern(probed.options->name), getpid());
	if (open_registry(&why) != 0 || open_socket(&why) != 0 || open_device(&why) != 0) {
		log_error("%s", why.text);
		stop(EXIT_FAILURE);
		return;
	}
	say_ready();
}

static int open_trace(const struct probed_options *options, struct fathom_fault *why)
{
	const struct trace_options trace = {
		.schema = &fathom_probed_schema,
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

/* That of systemd, if it gave us one. More than one is one too many. */
static int take_sockets(void)
{
	unsigned int count = supervisor_sockets();

	if (count > 1)
		return -EINVAL;
	if (count == 1)
		probed.socket_fd = SUPERVISOR_SOCKET_FIRST;
	return 0;
}

int probed_run(const struct probed_options *options)
{
	const struct reactor_options reactors = { .spin_ns = 0 };
	struct fathom_fault why;
	int error;

	must(!probed.options);
	probed.options = options;
	supervisor_raise_descriptor_limit(); /* a descriptor for each process that has registered something */
	if (take_sockets() != 0) {
		log_error("systemd gave more than one socket; fathom-probed.socket has one");
		return EXIT_FAILURE;
	}
	error = trace_daemon_signals(&probed.signal_fd);
	if (error) {
		log_error("signals: %s", strerror(-error));
		return EXIT_FAILURE;
	}
	if (open_trace(options, &why)) {
		log_error("%s", why.text);
		return EXIT_FAILURE;
	}
	error = reactors_start(&reactors);
	if (error) {
		log_error("the reactor cannot start: %s", strerror(-error));
		trace_close();
		return EXIT_FAILURE;
	}
	thread_send_msg(thread_control(), begin, NULL);
	reactors_run();
	probe_process_end(clock_ticks(), probed.exit_status);
	reactors_stop();
	close(probed.signal_fd);
	trace_close();
	return probed.exit_status;
}
