/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"

enum { LOG_LINE_BYTES_MAX = 1024 };

static const char *const level_names[] = { "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG" };

/* Read by every thread, written by RPC: a word, and a line more or less while it changes harms nobody. */
static volatile enum log_level threshold = LOG_LEVEL_NOTICE;

void log_set_level(enum log_level level)
{
	must((size_t)level < ARRAY_COUNT(level_names));
	threshold = level;
}

enum log_level log_get_level(void)
{
	return threshold;
}

const char *log_level_name(enum log_level level)
{
	must((size_t)level < ARRAY_COUNT(level_names));
	return level_names[level];
}

int log_level_parse(const char *name, enum log_level *level_ret)
{
	for (size_t i = 0; i < ARRAY_COUNT(level_names); i++) {
		if (strcasecmp(name, level_names[i]) == 0) {
			*level_ret = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[LOG_LINE_BYTES_MAX];
	struct timespec ts;
	struct tm tm;
	va_list args;
	size_t used;
	int n;

	if (level > threshold)
		return;
	clock_gettime(CLOCK_REALTIME, &ts);
	localtime_r(&ts.tv_sec, &tm);
	used = strftime(line, sizeof(line), "[%F %T", &tm);
	used += (size_t)snprintf(line + used, sizeof(line) - used, ".%06ld] %s: ", ts.tv_nsec / 1000,
				 log_level_name(level));
	va_start(args, format);
	n = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
	va_end(args);
	used += n > 0 ? (size_t)n : 0;
	if (used > sizeof(line) - 2)
		used = sizeof(line) - 2;
	line[used++] = '\n';
	/* nowhere to say that the log cannot be written */
	(void)!write(STDERR_FILENO, line, used);
}
