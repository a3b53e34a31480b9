/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log_window - selects the lines of a log by time. Reads the stamps of base/log, as text (local time) or as JSON (UTC). A
 * line without a stamp belongs to the line above it. Pure.
 */
#ifndef CONTROL_SERVER_LOG_WINDOW_H
#define CONTROL_SERVER_LOG_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOG_STAMP_BYTES = 20 }; /* "2026-11-22 19:00:54" */

struct log_window {
	bool is_all; /* no limits */
	bool is_inside;
	struct {
		char from[LOG_STAMP_BYTES], until[LOG_STAMP_BYTES];
	} text, json;
};

/* Seconds of CLOCK_REALTIME, inclusive; 0: no limit on that side. */
void log_window_init(struct log_window *window, uint64_t from_s, uint64_t until_s);
/* True: the next line of the log is inside the window. `line` needs no NUL. */
bool log_window_takes(struct log_window *window, const char *line, size_t bytes);

#endif
