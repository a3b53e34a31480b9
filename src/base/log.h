/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log - lines for the operator, on stderr as text or as JSON, or to syslog. Libraries do not log: the function that handles
 * an error does, once. Levels and their names are those that log_set_level takes.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdint.h>

#include "base/must.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_NOTICE, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Threshold of what is printed; NOTICE at first. Any thread. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* "ERROR" ... "DEBUG"; parsing ignores case and takes DAOS's names for priorities, too: "CRIT". Errors: -EINVAL. */
const char *log_level_name(enum log_level level);
MUST_CHECK int log_level_parse(const char *name, enum log_level *level_ret);

/*
 * Where lines go. TEXT: stderr, "[2026-11-20 19:00:54.286293] NOTICE: ..."; JSON: stderr, an object a line with time (UTC),
 * level, program, pid and message; SYSLOG: facility daemon, without the time, which syslog has.
 */
enum log_output { LOG_OUTPUT_TEXT, LOG_OUTPUT_JSON, LOG_OUTPUT_SYSLOG };

/* "stderr", "json", "syslog", as the option --log-to of the daemons has it. Errors: -EINVAL. */
MUST_CHECK int log_output_parse(const char *name, enum log_output *output_ret);
#define LOG_OUTPUT_NAMES "stderr, json or syslog"

/* `program` is in JSON and syslog lines, and lives as long as the process. Before there are threads; TEXT at first. */
void log_set_output(enum log_output output, const char *program);

/* Of TEXT and JSON, instead of stderr: a descriptor that stays open. Before there are threads. */
void log_set_fd(int fd);

/* One line, one write(2). Any thread. */
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * The same, if `limit` admits a line at `now_ns`; the line ends with the number of those that were suppressed before it.
 * For whatever a stranger or a broken device can cause at will. Thread: the owner of `limit`.
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
