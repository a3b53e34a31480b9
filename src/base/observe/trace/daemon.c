/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/observe/trace/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>

#include "base/clock.h"
#include "base/observe/probes.gen.h"
#include "base/observe/trace/crash.h"

static void note_failed_must(const char *condition, const char *file, int line)
{
	probe_must_failed(clock_ticks(), trace_intern(condition), trace_intern(file), (uint32_t)line);
	trace_crash_must(condition, file, line);
}

/* Called in a signal handler. */
static void note_signal(int number, uint64_t address, uint64_t instruction, int32_t tid)
{
	probe_process_signal(clock_ticks(), number, (const void *)address, (const void *)instruction, tid);
}

int trace_daemon_open(const struct trace_options *options, const char *spec, struct fathom_fault *why)
{
	int error = options ? trace_open(options, why) : 0;

	if (error)
		return error;
	must_set_hook(note_failed_must);
	trace_crash_catch(note_signal);
	error = trace_mask_set(spec, why);
	if (error)
		trace_close();
	return error;
}

void trace_daemon_list_groups(void)
{
	struct trace_point_info info;

	for (unsigned int group = 0; group < trace_group_count(); group++) {
		printf("%-12s %s\n", trace_group_name(group), trace_group_text(group));
		for (unsigned int i = 0; trace_group_point(group, i, &info); i++)
			printf("    %s\n", info.name);
	}
}

int trace_daemon_signals(int *fd_ret)
{
	sigset_t set;
	int fd;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	*fd_ret = fd;
	return 0;
}
