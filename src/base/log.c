/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/log_limit.h"
#include "base/text.h"

/* Each character of a message may need an escape in JSON; 256 bytes hold the other members. */
enum { LOG_LINE_BYTES_MAX = 1024, LOG_JSON_BYTES_MAX = 2 * LOG_LINE_BYTES_MAX + 256, CRASH_WAIT_MS = 1000 };

static const char *const level_names[] = { "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG" };

/* Read by every thread, written by an RPC, without a lock: one line more or less during the change is harmless. */
static volatile enum log_level threshold = LOG_LEVEL_NOTICE;

static enum log_output output = LOG_OUTPUT_TEXT;
static const char *program = "";
static int output_fd = STDERR_FILENO;

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
	static const struct {
		const char *name;
		enum log_level level;
	} others[] = {
		{ "EMERG", LOG_LEVEL_ERROR }, { "FATAL", LOG_LEVEL_ERROR }, { "ALERT", LOG_LEVEL_ERROR },
		{ "CRIT", LOG_LEVEL_ERROR },  { "ERR", LOG_LEVEL_ERROR },   { "WARN", LOG_LEVEL_WARNING },
		{ "NOTE", LOG_LEVEL_NOTICE }, { "DBUG", LOG_LEVEL_DEBUG },  { "TRACE", LOG_LEVEL_DEBUG },
	};

	for (size_t i = 0; i < ARRAY_COUNT(level_names); i++) {
		if (strcasecmp(name, level_names[i]) == 0) {
			*level_ret = (enum log_level)i;
			return 0;
		}
	}
	for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
		if (strcasecmp(name, others[i].name) == 0) {
			*level_ret = others[i].level;
			return 0;
		}
	}
	return -EINVAL;
}

int log_output_parse(const char *name, enum log_output *output_ret)
{
	static const char *const names[] = { "stderr", "json", "syslog" };

	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		if (strcmp(name, names[i]) == 0) {
			*output_ret = (enum log_output)i;
			return 0;
		}
	}
	return -EINVAL;
}

void log_set_output(enum log_output to, const char *name)
{
	output = to;
	program = name;
	if (to == LOG_OUTPUT_SYSLOG)
		openlog(name, LOG_PID | LOG_NDELAY, LOG_DAEMON);
}

void log_set_fd(int fd)
{
	output_fd = fd;
}

static void write_text(enum log_level level, const char *message)
{
	char line[LOG_LINE_BYTES_MAX];
	struct timespec ts;
	struct tm tm;
	size_t used;

	clock_gettime(CLOCK_REALTIME, &ts);
	localtime_r(&ts.tv_sec, &tm);
	used = strftime(line, sizeof(line), "[%F %T", &tm);
	used += (size_t)snprintf(line + used, sizeof(line) - used, ".%06ld] %s: %s", ts.tv_nsec / 1000,
				 log_level_name(level), message);
	used = min_u64(used, sizeof(line) - 2);
	line[used++] = '\n';
	/* a failed write to the log cannot be reported anywhere */
	(void)!write(output_fd, line, used);
}

/* Copy `text` with the escapes of a JSON string; truncated to fit `to`. Returns the bytes written. */
static size_t escape_json(char *to, size_t to_bytes, const char *text, size_t text_bytes)
{
	size_t used = 0;

	for (size_t at = 0, read; at < text_bytes; at += read) {
		char escaped[TEXT_JSON_BYTES_MAX];
		size_t bytes = text_json_escape(escaped, text + at, text_bytes - at, TEXT_JSON_SHORT, &read);

		if (used + bytes > to_bytes)
			break;
		memcpy(to + used, escaped, bytes);
		used += bytes;
	}
	return used;
}

static void write_json(enum log_level level, const char *message)
{
	char line[LOG_JSON_BYTES_MAX], clean[LOG_LINE_BYTES_MAX];
	struct timespec ts;
	struct tm tm;
	size_t used, bytes;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	used = strftime(line, sizeof(line), "{\"time\":\"%FT%T", &tm);
	used += (size_t)snprintf(line + used, sizeof(line) - used,
				 ".%06ldZ\",\"level\":\"%s\",\"program\":\"%.64s\",\"pid\":%d,\"message\":\"",
				 ts.tv_nsec / 1000, log_level_name(level), program, (int)getpid());
	/* leaves no control characters except "\n" and "\t", which escape_json() escapes */
	bytes = text_utf8_copy(clean, sizeof(clean), message, strlen(message));
	used += escape_json(line + used, sizeof(line) - used - 3, clean, bytes);
	memcpy(line + used, "\"}\n", 3);
	/* as in write_text() */
	(void)!write(output_fd, line, used + 3);
}

void log_line(enum log_level level, const char *format, ...)
{
	static const int priorities[] = { LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG };
	char message[LOG_LINE_BYTES_MAX];
	va_list args;

	if (level > threshold)
		return;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (output == LOG_OUTPUT_SYSLOG)
		syslog(priorities[level], "%s", message);
	else if (output == LOG_OUTPUT_JSON)
		write_json(level, message);
	else
		write_text(level, message);
}

void log_crash_line(const char *text)
{
	static const char json_begin[] = "{\"level\":\"ERROR\",\"program\":\"",
			  json_message[] = "\",\"message\":\"crash: ", json_end[] = "\"}\n",
			  text_begin[] = "ERROR: crash: ";
	bool json = output == LOG_OUTPUT_JSON;
	char line[LOG_JSON_BYTES_MAX];
	size_t used = 0, bytes = min_u64(strlen(text), LOG_LINE_BYTES_MAX / 2);
	struct pollfd out = { .fd = output_fd, .events = POLLOUT };
	static bool is_stuck;

	/* a crash does not wait for a reader of the log that does not read */
	is_stuck = is_stuck || poll(&out, 1, CRASH_WAIT_MS) <= 0;
	if (is_stuck)
		return;
	if (json) {
		memcpy(line, json_begin, sizeof(json_begin) - 1);
		used = sizeof(json_begin) - 1;
		used += escape_json(line + used, 64, program, strlen(program));
		memcpy(line + used, json_message, sizeof(json_message) - 1);
		used += sizeof(json_message) - 1;
		used += escape_json(line + used, sizeof(line) - used - sizeof(json_end), text, bytes);
		memcpy(line + used, json_end, sizeof(json_end) - 1);
		used += sizeof(json_end) - 1;
	} else {
		memcpy(line, text_begin, sizeof(text_begin) - 1);
		used = sizeof(text_begin) - 1;
		memcpy(line + used, text, bytes);
		used += bytes;
		line[used++] = '\n';
	}
	/* as in write_text() */
	(void)!write(output_fd, line, used);
}

void log_line_limited(struct log_limit *limit, uint64_t now_ns, enum log_level level, const char *format, ...)
{
	char message[LOG_LINE_BYTES_MAX], more[LOG_LIMIT_TEXT_BYTES];
	uint64_t suppressed;
	va_list args;

	if (level > threshold || !log_limit_admit(limit, now_ns, &suppressed))
		return;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	log_line(level, "%s%s", message, log_limit_text(more, suppressed));
}
