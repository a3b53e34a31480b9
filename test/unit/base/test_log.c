/* SPDX-License-Identifier: BSD-2-Clause */
/* Outputs and formats of log lines. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include <jansson.h>

#include <cmocka.h>

#include "base/log.h"

static char said[4096]; /* written to syslog */
static int said_priority;

void __wrap_openlog(const char *ident, int option, int facility);
void __wrap_openlog(const char *ident, int option, int facility)
{
	assert_string_equal(ident, "log_test");
	assert_int_equal(facility, LOG_DAEMON);
	assert_true(option & LOG_PID);
}

void __wrap_syslog(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
void __wrap_syslog(int priority, const char *format, ...)
{
	va_list args;

	said_priority = priority;
	va_start(args, format);
	vsnprintf(said, sizeof(said), format, args);
	va_end(args);
}

/* Capture the output of log_line() on stderr. */
static void capture(char *text, size_t bytes, enum log_level level, const char *message)
{
	int fds[2], before = dup(STDERR_FILENO);
	ssize_t got;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	close(fds[1]);
	log_line(level, "%s", message);
	assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
	close(before);
	got = read(fds[0], text, bytes - 1);
	assert_true(got >= 0);
	text[got] = '\0';
	close(fds[0]);
}

static void a_text_line_has_time_and_level(void **state)
{
	char line[4096], level[16], rest[64];
	int year, used = 0;

	capture(line, sizeof(line), LOG_LEVEL_WARNING, "a disk is slow");
	assert_int_equal(sscanf(line, "[%4d-%*2d-%*2d %*2d:%*2d:%*2d.%*6d] %15[A-Z]: %63[^\n]\n%n", &year, level, rest,
				&used),
			 3);
	assert_int_equal(used, strlen(line));
	assert_true(year > 2000);
	assert_string_equal(level, "WARNING");
	assert_string_equal(rest, "a disk is slow");
	capture(line, sizeof(line), LOG_LEVEL_INFO, "not asked for");
	assert_string_equal(line, "");
}

static void assert_json_message(const char *message, const char *expected)
{
	char line[8192];
	const char *time, *level, *program, *text;
	json_t *json;
	int pid;

	log_set_output(LOG_OUTPUT_JSON, "log_test");
	capture(line, sizeof(line), LOG_LEVEL_ERROR, message);
	log_set_output(LOG_OUTPUT_TEXT, "");
	assert_int_equal(strchr(line, '\n') - line, strlen(line) - 1);
	json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(json);
	assert_int_equal(json_unpack(json, "{s:s, s:s, s:s, s:i, s:s !}", "time", &time, "level", &level, "program",
				     &program, "pid", &pid, "message", &text),
			 0);
	assert_int_equal(strlen(time), strlen("2026-11-22T10:31:10.123456Z"));
	assert_int_equal(time[26], 'Z');
	assert_string_equal(level, "ERROR");
	assert_string_equal(program, "log_test");
	assert_int_equal(pid, getpid());
	if (expected)
		assert_string_equal(text, expected);
	json_decref(json);
}

static void a_json_line_is_one_object_for_any_message(void **state)
{
	char longest[3000];

	assert_json_message("plain", "plain");
	assert_json_message("\"quoted\"\\ and\na\tline", "\"quoted\"\\ and\na\tline");
	assert_json_message("\x1b[1m \xff gr\xc3\xbc\xc3\x9f", "?[1m ? gr\xc3\xbc\xc3\x9f");
	memset(longest, '"', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_json_message(longest, NULL);
	for (size_t i = 0; i + 1 < sizeof(longest); i++)
		longest[i] = (char)(i % 2 ? 0xbc : 0xc3);
	assert_json_message(longest, NULL);
}

static void syslog_gets_priority_and_message(void **state)
{
	static const int priorities[] = { LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG };

	log_set_output(LOG_OUTPUT_SYSLOG, "log_test");
	log_set_level(LOG_LEVEL_DEBUG);
	for (enum log_level level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++) {
		log_line(level, "100 %% of %s %%n", "it");
		assert_int_equal(said_priority, priorities[level]);
		assert_string_equal(said, "100 % of it %n");
	}
	log_set_level(LOG_LEVEL_NOTICE);
	log_set_output(LOG_OUTPUT_TEXT, "");
}

static void outputs_have_names(void **state)
{
	enum log_output output;

	assert_int_equal(log_output_parse("stderr", &output), 0);
	assert_int_equal(output, LOG_OUTPUT_TEXT);
	assert_int_equal(log_output_parse("json", &output), 0);
	assert_int_equal(output, LOG_OUTPUT_JSON);
	assert_int_equal(log_output_parse("syslog", &output), 0);
	assert_int_equal(output, LOG_OUTPUT_SYSLOG);
	assert_int_equal(log_output_parse("journal", &output), -EINVAL);
}

/* A reader that does not read costs one wait. */
static void a_line_of_a_crash_does_not_wait_for_a_reader(void **state)
{
	char text[4096] = { 0 };
	int ends[2];

	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	while (write(ends[1], text, sizeof(text)) > 0)
		;
	assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
	log_set_fd(ends[1]);
	log_crash_line("one");
	log_crash_line("two");
	log_set_fd(STDERR_FILENO);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_line_has_time_and_level),
		cmocka_unit_test(a_json_line_is_one_object_for_any_message),
		cmocka_unit_test(syslog_gets_priority_and_message),
		cmocka_unit_test(outputs_have_names),
		cmocka_unit_test(a_line_of_a_crash_does_not_wait_for_a_reader), /* the last one: later lines are left out */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
