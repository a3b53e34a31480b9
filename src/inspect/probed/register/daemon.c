/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * daemon - one thread, the control reactor: it watches the socket, the device, the processes and the jail's children.
 *
 *   signals, trace, reactor -> tree, jail -> socket, device -> ready, when the registrations of the tree are adopted
 */
#include "inspect/probed/register/daemon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/observe/trace/points.gen.h"
#include "base/reactor/daemon.h"
#include "base/supervisor.h"
#include "inspect/probed/register/cuse.h"
#include "inspect/probed/register/server.h"

enum { TRACE_ENTRIES = 1 << 14 };

static struct {
	const struct probed_options *options;
	int socket_fd;
	struct registry *registry;
	struct server *server;
	struct cuse *cuse;
	bool registry_ready; /* the registrations of an earlier daemon are adopted */
	bool device_ready;   /* the device can be opened, or none is provided */
	bool ready;	     /* reported to the supervisor */
} probed = { .socket_fd = -1 };

/* ---- stopping ---- */

static void stop_probed(int exit_status)
{
	if (daemon_is_stopping())
		return;
	daemon_stopping();
	cuse_close(probed.cuse);
	server_close(probed.server);
	registry_destroy(probed.registry);
	daemon_end(exit_status);
}

static void stop_by_signal(const struct daemon_signal *info)
{
	log_notice("signal %u from process %u: stopping; registrations stay in %s", info->number, info->pid,
		   probed.options->registry.stash.directory);
	stop_probed(EXIT_SUCCESS);
}

/* ---- starting ---- */

static void report_ready(void)
{
	struct registry_stats registry;
	struct stash_stats stash;
	struct jail_stats jail;

	if (probed.ready || daemon_is_stopping() || !probed.registry_ready || !probed.device_ready)
		return;
	probed.ready = true;
	registry_get_stats(probed.registry, &registry, &stash, &jail);
	log_notice("ready: %s%s%s, tree %s, %u processes with probes", probed.options->socket_path,
		   probed.cuse ? ", /dev/" : "", probed.cuse ? probed.options->device_name : "",
		   probed.options->registry.stash.directory, registry.processes);
	if (geteuid() != 0)
		log_notice("not root: serving only processes of user %u", geteuid());
	daemon_ready();
}

static void handle_registry_ready(void *ctx)
{
	probed.registry_ready = true;
	report_ready();
}

static void handle_device_made(void *ctx, int error)
{
	probed.device_ready = true;
	if (error == 0)
		report_ready();
	else
		stop_probed(EXIT_FAILURE);
}

static void log_stash(void *ctx, const char *text)
{
	log_warning("%s", text);
}

static int open_registry(struct fathom_fault *why)
{
	struct registry_options options = probed.options->registry;

	options.stash.log = log_stash;
	options.ready = handle_registry_ready;
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

/* Without CUSE, programs register by the socket only. That is not worth a warning unless --cuse asks for the device. */
static int open_helper_device(struct fathom_fault *why)
{
	int error;

	probed.device_ready = true;
	if (probed.options->cuse == PROBED_CUSE_OFF)
		return 0;
	if (probed.options->cuse == PROBED_CUSE_AUTO && access("/dev/cuse", R_OK | W_OK) != 0) {
		log_info("/dev/cuse: %s: running without /dev/%s", strerror(errno), probed.options->device_name);
		return 0;
	}
	probed.device_ready = false;
	error = cuse_open(probed.registry, probed.options->device_name, handle_device_made, NULL, &probed.cuse, why);
	if (error == 0 || probed.options->cuse == PROBED_CUSE_ON)
		return error;
	log_warning("%s; running without /dev/%s", why->text, probed.options->device_name);
	probed.device_ready = true;
	return 0;
}

/* Called first on the control thread. */
static void start_probed(void)
{
	struct fathom_fault why = { 0 };

	if (open_registry(&why) != 0 || open_socket(&why) != 0 || open_helper_device(&why) != 0) {
		log_error("%s", why.text);
		stop_probed(EXIT_FAILURE);
		return;
	}
	report_ready();
}

/* Use the socket from systemd, if any. -EINVAL: more than one. */
static int take_systemd_socket(void)
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
	const struct small_daemon_options daemon = {
		.name = options->name,
		.version = options->version,
		.schema = &fathom_probed_schema,
		.trace_spec = options->trace_spec,
		.trace_entries = TRACE_ENTRIES,
		.start = start_probed,
		.on_signal = stop_by_signal,
	};
	struct fathom_fault why;
	int status;

	must(!probed.options);
	probed.options = options;
	if (take_systemd_socket() != 0) {
		log_error("systemd passed more than one socket; fathom-probed.socket must have one");
		return EXIT_FAILURE;
	}
	if (daemon_run_small(&daemon, &status, &why) != 0) {
		log_error("%s", why.text);
		return EXIT_FAILURE;
	}
	return status;
}
