/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log - lines for the operator, on stderr. Libraries do not log: the function that handles an error does, once.
 * Levels and their names are those that log_set_level takes.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/must.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_NOTICE, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Threshold of what is printed; NOTICE at first. Any thread. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* "ERROR" ... "DEBUG". Parsing ignores case. Errors: -EINVAL. */
const char *log_level_name(enum log_level level);
MUST_CHECK int log_level_parse(const char *name, enum log_level *level_ret);

/* One line, one write(2). Any thread. */
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_line(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
