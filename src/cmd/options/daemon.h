/* SPDX-License-Identifier: BSD-2-Clause */
/* daemon - the options that every daemon has: what it traces, the name of its trace file, and its log. */
#ifndef CMD_OPTIONS_DAEMON_H
#define CMD_OPTIONS_DAEMON_H

#include "cmd/options/options.h"

struct daemon_options {
	const char *trace_spec; /* what trace_mask_set() accepts, or "help" */
	const char *name;	/* of the trace file */
	const char *log_level;	/* what log_level_parse() accepts; NULL: not given */
	const char *log_output; /* what log_output_parse() accepts; NULL: not given */
};

/* They store the checked text at `to`. Reading the groups also sets the mask, so that the schema must be set before. */
int daemon_read_trace_groups(void *to, const char *text, struct fathom_fault *why);
int daemon_read_trace_name(void *to, const char *text, struct fathom_fault *why);
int daemon_read_log_level(void *to, const char *text, struct fathom_fault *why);
int daemon_read_log_output(void *to, const char *text, struct fathom_fault *why);
/* A path that is not empty. */
int daemon_read_path(void *to, const char *text, struct fathom_fault *why);

/* The rows, for a `struct daemon_options` that is `member` of `type`. `name`: the default of --name. */
#define DAEMON_OPTION_ROWS(type, member, default_name)                                                                     \
	{ "tpoint-group",                                                                                                  \
	  'e',                                                                                                             \
	  OPTION_CALL,                                                                                                     \
	  "GROUPS",                                                                                                        \
	  "what to trace: names, NAME:POINT+POINT, a mask, all (default) or none; `-e help` lists them",                   \
	  .offset = offsetof(type, member.trace_spec),                                                                     \
	  .values = "all none help",                                                                                       \
	  .read = daemon_read_trace_groups },                                                                              \
		{ "name",                                                                                                  \
		  0,                                                                                                       \
		  OPTION_CALL,                                                                                             \
		  "NAME",                                                                                                  \
		  "name of the trace file, /dev/shm/NAME_trace.pid... (default " default_name ")",                         \
		  .offset = offsetof(type, member.name),                                                                   \
		  .read = daemon_read_trace_name },                                                                        \
		{ "log-level",                                                                                             \
		  'L',                                                                                                     \
		  OPTION_CALL,                                                                                             \
		  "LEVEL",                                                                                                 \
		  "ERROR, WARNING, NOTICE (default), INFO or DEBUG",                                                       \
		  .offset = offsetof(type, member.log_level),                                                              \
		  .values = "ERROR WARNING NOTICE INFO DEBUG",                                                             \
		  .read = daemon_read_log_level },                                                                         \
	{                                                                                                                  \
		"log-to", 0, OPTION_CALL, "WHERE", "stderr (default), json (a line each, on stderr) or syslog",            \
			.offset = offsetof(type, member.log_output), .values = "stderr json syslog",                       \
			.read = daemon_read_log_output                                                                     \
	}

/* If the groups are "help", print the list of groups and return true. */
bool daemon_print_trace_groups(const struct daemon_options *options);
/* Set level and destination of the log, where they were given. `program` appears in log lines and is borrowed. */
void daemon_set_log(const struct daemon_options *options, const char *program);

#endif
