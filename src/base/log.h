/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log - lines for the operator, on stderr as text or as JSON, or to syslog. Libraries do not log: the function that handles
 * an error logs it, once. Levels and their names are those of the RPC log_set_level.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdint.h>

#include "base/must.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_NOTICE, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Threshold: less severe lines are dropped. NOTICE initially. Any thread. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/*
 * "ERROR" ... "DEBUG". Parsing ignores case and also accepts DAOS's names for priorities, such as "CRIT". Errors: -EINVAL.
 */
const char *log_level_name(enum log_level level);
MUST_CHECK int log_level_parse(const char *name, enum log_level *level_ret);

/*
 * Destination and format. TEXT: stderr, "[2026-11-20 19:00:54.286293] NOTICE: ..."; JSON: stderr, one object per line with
 * time (UTC), level, program, pid and message; SYSLOG: facility daemon, without the time, because syslog adds it.
 */
enum log_output { LOG_OUTPUT_TEXT, LOG_OUTPUT_JSON, LOG_OUTPUT_SYSLOG };

/* Parse "stderr", "json" or "syslog", the values of the daemons' option --log-to. Errors: -EINVAL. */
MUST_CHECK int log_output_parse(const char *name, enum log_output *output_ret);
#define LOG_OUTPUT_NAMES "stderr, json or syslog"

/*
 * Set the destination; TEXT initially. `program` appears in JSON and syslog lines and is borrowed until the process ends.
 * Thread: call it before the process starts threads.
 */
void log_set_output(enum log_output output, const char *program);

/* Write TEXT and JSON lines to `fd` instead of stderr. `fd` stays open. Thread: as log_set_output(). */
void log_set_fd(int fd);

/* Log one line with one write(2). Any thread. */
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * Log a line of the report of a crash, in a signal handler: without the time, and on stderr if the log is in syslog. `text`
 * has no control characters. Async-signal-safe.
 */
void log_crash_line(const char *text);

/*
 * Log one line if `limit` admits it at `now_ns`; the line ends with the number of lines suppressed before it. For every
 * condition that an unauthenticated peer or a broken device can cause repeatedly. Thread: the owner of `limit`.
 */
struct log_limit;
void log_line_limited(struct log_limit *limit, uint64_t now_ns, enum log_level level, const char *format, ...)
	PRINTF_LIKE(4, 5);

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_line(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
