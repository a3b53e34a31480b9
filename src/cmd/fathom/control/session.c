/* SPDX-License-Identifier: BSD-2-Clause */
/* session - the session of a command: cancels its calls on a signal, and shows progress on a terminal. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/fathom/control/control.h"

#define SHOWN_AFTER_NS NS_PER_SEC /* shorter calls show no progress */
#define STEP_NS (100 * NS_PER_MS)

static struct fathom_control *volatile current;
static volatile sig_atomic_t interrupted;

static struct {
	uint64_t begin_ns, printed_ns;
	bool is_shown;
} progress;

static void cancel_session(int number)
{
	interrupted = 1;
	if (current)
		fathom_control_cancel(current);
}

bool control_was_interrupted(void)
{
	return interrupted;
}

static void show_call_progress(void *ctx, enum fathom_control_unit unit, uint32_t done, uint32_t total)
{
	const char *name = unit == FATHOM_CONTROL_UNIT_RANKS ? "rank" : "host";
	uint64_t now = clock_monotonic_ns();
	unsigned int seconds = (unsigned int)((now - progress.begin_ns) / NS_PER_SEC);

	if (total > 0 && done == total) {
		if (progress.is_shown)
			fputs("\r\033[K", stderr);
		progress.is_shown = false;
		return;
	}
	if (now - progress.begin_ns < SHOWN_AFTER_NS || now - progress.printed_ns < STEP_NS)
		return;
	progress.printed_ns = now;
	progress.is_shown = true;
	if (total == 0)
		fprintf(stderr, "\rwaiting for the management service, %u s \033[K", seconds);
	else
		fprintf(stderr, "\r%u of %u %s%s, %u s \033[K", done, total, name, total == 1 ? "" : "s", seconds);
}

/* ---- the log ---- */

static void write_log_line(void *ctx, const char *line)
{
	log_debug("%s", line);
}

/* Naming a log file enables debug logging. */
static int open_session_log(const struct control_values *values, struct fathom_control_options *options,
			    struct fathom_fault *why)
{
	const char *path = values->log_file;
	int fd;

	if (!path && !values->debug)
		return 0;
	if (path) {
		fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
		if (fd < 0)
			return fault(why, -errno, "cannot write the log to %s: %s", path, strerror(errno));
		log_set_fd(fd); /* open until the process ends */
	}
	log_set_level(LOG_LEVEL_DEBUG);
	log_set_output(values->json_logging ? LOG_OUTPUT_JSON : LOG_OUTPUT_TEXT, "fathom");
	options->log = write_log_line;
	return 0;
}

int control_open(const struct control_values *values, struct fathom_control **control_ret, struct fathom_fault *why)
{
	struct sigaction action = { .sa_handler = cancel_session };
	struct fathom_control_options options = {
		.config = values->config_path,
		.hosts = values->host_list,
		.insecure = values->insecure,
		.timeout_ms = (uint32_t)values->timeout * 1000,
	};
	int error = open_session_log(values, &options, why);

	if (error)
		return error;
	/* log lines would break the progress line */
	if (isatty(STDERR_FILENO) && (!options.log || values->log_file))
		options.progress = show_call_progress;
	progress.begin_ns = clock_monotonic_ns();
	error = fathom_control_open(&options, control_ret, why);
	if (error)
		return error;
	current = *control_ret;
	sigemptyset(&action.sa_mask);
	must(sigaction(SIGINT, &action, NULL) == 0);
	must(sigaction(SIGTERM, &action, NULL) == 0);
	return 0;
}

void control_close(struct fathom_control *control)
{
	current = NULL;
	fathom_control_close(control);
}
