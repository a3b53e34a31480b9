/* SPDX-License-Identifier: BSD-2-Clause */
/* The process of fathom-server: its log file, its folders, its signals. base/reactor/daemon.h has the frame. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/log.h"
#include "base/observe/trace/points.gen.h"
#include "base/reactor/daemon.h"
#include "control/fault/fault.h"
#include "control/server/internal.h"

enum { TRACE_ENTRIES = 1 << 15 };

static struct {
	const struct server_options *options;
	struct server_frame *frame;
	int exit_status;
} process;

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

/* ---- ending ---- */

static void on_server_left(void *ctx, bool is_clean)
{
	must(process.frame);
	must(daemon_is_stopping());
	if (!is_clean) {
		log_warning("a scan still waits for a device: the server ends without its result");
		daemon_abandon(process.exit_status);
	}
	process.frame = NULL;
	log_notice("the server has ended; its engines keep running");
	daemon_end(process.exit_status);
}

static void stop_server(int exit_status)
{
	if (daemon_is_stopping())
		return;
	daemon_stopping();
	process.exit_status = exit_status;
	if (process.frame)
		server_leave(process.frame, on_server_left, NULL);
	else
		daemon_end(exit_status);
}

static void reload_logs_and_certificates(void)
{
	struct fathom_fault why;

	if (open_log(process.options->config, &why) != 0)
		server_log_fault(LOG_LEVEL_ERROR, "", &why);
	else if (process.options->config->log_file)
		log_notice("the log file has been opened again");
	if (process.frame && !daemon_is_stopping())
		certificates_reload(process.frame);
}

static void on_signal(const struct daemon_signal *info)
{
	char why[64];

	if (info->number == SIGHUP) {
		log_notice("signal SIGHUP from process %u", info->pid);
		reload_logs_and_certificates();
		return;
	}
	must(info->number == SIGTERM || info->number == SIGINT);
	log_notice("signal %u from process %u: leaving", info->number, info->pid);
	snprintf(why, sizeof(why), "signal %u of process %u, uid %u", info->number, info->pid, info->uid);
	if (process.frame && !daemon_is_stopping())
		server_raise_end(process.frame, why);
	stop_server(EXIT_SUCCESS);
}

/* ---- starting ---- */

static void start_server(void)
{
	const struct server_options *options = process.options;
	struct fathom_fault why = { 0 };

	must(!process.frame);
	if (server_open(options, &process.frame, &why) != 0) {
		server_log_fault(LOG_LEVEL_ERROR, "", &why);
		stop_server(EXIT_FAILURE);
		return;
	}
	log_notice("ready after %llu ms: system %s at %s%s, management service %s, %zu engine%s",
		   (unsigned long long)((clock_monotonic_ns() - options->began_ns) / NS_PER_MS), options->config->name,
		   options->places->control, options->config->transport.allow_insecure ? " (without certificates)" : "",
		   options->places->is_replica ? "here" : options->places->replica, options->config->engines.count,
		   options->config->engines.count == 1 ? "" : "s");
	daemon_ready();
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

	must(path[0] == '/');
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

static int prepare_files(const struct server_config *config, struct fathom_fault *why)
{
	int error = open_log(config, why);

	if (!error)
		error = make_socket_folder(config->socket_dir, why);
	if (!error)
		error = make_folder(config->state_dir, why);
	if (!error && config->metadata.path)
		error = make_folder(config->metadata.path, why);
	return error;
}

static int arm_points(const struct server_config *config, struct fathom_fault *why)
{
	struct fathom_fault reason;

	if (config->inject.count > 0 && !inject_is_built())
		return fault_injection_absent(why);
	for (size_t i = 0; i < config->inject.count; i++) {
		if (inject_arm_text(config->inject.items[i], &reason) != 0)
			return fault_injection_rule(why, reason.text);
	}
	return 0;
}

int server_run(const struct server_options *options)
{
	const struct small_daemon_options daemon = {
		.name = options->name,
		.version = options->version,
		.schema = &fathom_server_schema,
		.trace_spec = options->trace_spec,
		.trace_entries = TRACE_ENTRIES,
		.start = start_server,
		.on_signal = on_signal,
	};
	struct fathom_fault why = { 0 };
	int status;

	must(!process.options);
	must(options->config && options->places);
	process.options = options;
	umask(027);
	if (prepare_files(options->config, &why) != 0 || arm_points(options->config, &why) != 0 ||
	    daemon_run_small(&daemon, &status, &why) != 0) {
		server_log_fault(LOG_LEVEL_ERROR, "", &why);
		return EXIT_FAILURE;
	}
	return status;
}
