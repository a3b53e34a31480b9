/* SPDX-License-Identifier: BSD-2-Clause */
/* The process of fathom-agent: its log file, its folders, its signals. base/reactor/daemon.h has the frame. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/observe/trace/points.gen.h"
#include "base/reactor/daemon.h"
#include "control/agent/internal.h"
#include "control/fault/fault.h"

enum { TRACE_ENTRIES = 1 << 14 };

static struct {
	const struct agent_options *options;
	struct agent *agent;
	int exit_status;
} process;

static int open_log(const struct agent_config *config, struct fathom_fault *why)
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

static int make_folder(const char *path, struct fathom_fault *why)
{
	char parent[4096];
	const char *slash = strrchr(path, '/');

	must(path[0] == '/');
	if ((size_t)(slash - path) < sizeof(parent) && slash > path) {
		memcpy(parent, path, (size_t)(slash - path));
		parent[slash - path] = '\0';
		(void)mkdir(parent, 0755); /* if this fails, so does the next */
	}
	if (mkdir(path, 0755) == 0 || errno == EEXIST)
		return 0;
	return fault_folder(why, path, strerror(errno));
}

static void agent_left(bool is_clean)
{
	if (!is_clean) {
		log_warning("a thread still waits for the driver or a name: the agent ends without its result");
		daemon_abandon(process.exit_status);
	}
	process.agent = NULL;
	log_notice("the agent has ended; volumes stay attached");
	daemon_end(process.exit_status);
}

static void stop_agent(int exit_status)
{
	if (daemon_is_stopping())
		return;
	daemon_stopping();
	process.exit_status = exit_status;
	if (process.agent)
		agent_leave(process.agent, agent_left);
	else
		daemon_end(exit_status);
}

static void on_signal(const struct daemon_signal *info)
{
	struct fathom_fault why;

	log_notice("signal %u from process %u", info->number, info->pid);
	if (info->number != SIGHUP) {
		stop_agent(EXIT_SUCCESS);
		return;
	}
	if (open_log(process.options->config, &why) != 0)
		agent_log_fault(LOG_LEVEL_ERROR, "", &why);
	if (process.agent)
		agent_reload(process.agent);
}

static void start_agent(void)
{
	const struct agent_options *options = process.options;
	struct fathom_fault why = { 0 };

	if (agent_open(options, &process.agent, &why) != 0) {
		agent_log_fault(LOG_LEVEL_ERROR, "", &why);
		stop_agent(EXIT_FAILURE);
		return;
	}
	log_notice("ready after %llu ms: system %s, %s%s",
		   (unsigned long long)((clock_monotonic_ns() - options->began_ns) / NS_PER_MS), options->config->name,
		   options->config->runtime_dir,
		   options->config->transport.allow_insecure ? " (without certificates)" : "");
	daemon_ready();
}

int agent_run(const struct agent_options *options)
{
	const struct small_daemon_options daemon = {
		.name = options->name,
		.version = options->version,
		.schema = &fathom_agent_schema,
		.trace_spec = options->trace_spec,
		.trace_entries = TRACE_ENTRIES,
		.start = start_agent,
		.on_signal = on_signal,
	};
	struct fathom_fault why = { 0 };
	int status, error;

	must(!process.options);
	process.options = options;
	umask(022);
	error = open_log(options->config, &why);
	if (!error)
		error = make_folder(options->config->runtime_dir, &why);
	if (!error)
		error = make_folder(options->config->state_dir, &why);
	if (!error)
		error = daemon_run_small(&daemon, &status, &why);
	if (!error)
		return status;
	agent_log_fault(LOG_LEVEL_ERROR, "", &why);
	return EXIT_FAILURE;
}
