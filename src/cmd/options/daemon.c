/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/options/daemon.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/observe/trace/daemon.h"

int daemon_read_trace_groups(void *to, const char *text, struct fathom_fault *why)
{
	struct fathom_fault mask_why;

	*(const char **)to = text;
	if (strcmp(text, "help") == 0 || trace_mask_set(text, &mask_why) == 0)
		return 0;
	return fault(why, -EINVAL, "is not valid: %s", mask_why.text);
}

int daemon_read_trace_name(void *to, const char *text, struct fathom_fault *why)
{
	*(const char **)to = text;
	if (text[0] && strlen(text) < TRACE_NAME_BYTES_MAX && !strchr(text, '/') && text[0] != '.')
		return 0;
	return fault(why, -EINVAL, "is not a file name of 1 to %d characters without a slash", TRACE_NAME_BYTES_MAX - 1);
}

int daemon_read_log_level(void *to, const char *text, struct fathom_fault *why)
{
	enum log_level level;

	*(const char **)to = text;
	if (log_level_parse(text, &level) == 0)
		return 0;
	return fault(why, -EINVAL, "is not ERROR, WARNING, NOTICE, INFO or DEBUG");
}

int daemon_read_log_output(void *to, const char *text, struct fathom_fault *why)
{
	enum log_output output;

	*(const char **)to = text;
	if (log_output_parse(text, &output) == 0)
		return 0;
	return fault(why, -EINVAL, "is not " LOG_OUTPUT_NAMES);
}

int daemon_read_path(void *to, const char *text, struct fathom_fault *why)
{
	*(const char **)to = text;
	return text[0] ? 0 : fault(why, -EINVAL, "is not a path: it has no characters");
}

bool daemon_print_trace_groups(const struct daemon_options *options)
{
	if (strcmp(options->trace_spec, "help") != 0)
		return false;
	trace_daemon_list_groups();
	return true;
}

void daemon_set_log(const struct daemon_options *options, const char *program)
{
	enum log_output output = LOG_OUTPUT_TEXT;
	enum log_level level = LOG_LEVEL_NOTICE;

	if (options->log_level) {
		must(log_level_parse(options->log_level, &level) == 0); /* it was checked when it was read */
		log_set_level(level);
	}
	if (options->log_output) {
		must(log_output_parse(options->log_output, &output) == 0);
		log_set_output(output, program);
	}
}
