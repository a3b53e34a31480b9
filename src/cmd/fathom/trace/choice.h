/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * choice - chooses files: -s NAME, -p PID and -f FILE, for all sub-commands of `fathom trace`.
 *
 * -s and -p together select one program; each -f, and each repeated -s or -p, selects another file.
 */
#ifndef CMD_FATHOM_TRACE_CHOICE_H
#define CMD_FATHOM_TRACE_CHOICE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "cmd/options/options.h"

enum { TRACE_CHOICES_MAX = 64 };

struct trace_choices {
	struct trace_choice {
		const char *name, *file;
		int32_t pid; /* 0: any */
	} rows[TRACE_CHOICES_MAX];
	uint32_t count; /* 0: the newest file */
};

/* The readers of the three rows below; `to` is the struct trace_choices. Texts are borrowed. */
int trace_choice_read_name(void *to, const char *text, struct fathom_fault *why);
int trace_choice_read_pid(void *to, const char *text, struct fathom_fault *why);
int trace_choice_read_file(void *to, const char *text, struct fathom_fault *why);

/* The rows of a table whose structure `type` has a `struct trace_choices choices`. */
#define TRACE_CHOICE_ROWS(type)                                                                                            \
	{ NULL,                                                                                                            \
	  's',                                                                                                             \
	  OPTION_CALL,                                                                                                     \
	  "NAME",                                                                                                          \
	  "the program that was started with --name NAME",                                                                 \
	  .offset = offsetof(type, choices),                                                                               \
	  .read = trace_choice_read_name,                                                                                  \
	  .values = OPTION_TRACE_NAMES },                                                                                  \
		{ NULL,                                                                                                    \
		  'p',                                                                                                     \
		  OPTION_CALL,                                                                                             \
		  "PID",                                                                                                   \
		  "process PID",                                                                                           \
		  .offset = offsetof(type, choices),                                                                       \
		  .read = trace_choice_read_pid,                                                                           \
		  .values = OPTION_TRACE_PIDS },                                                                           \
	{                                                                                                                  \
		NULL, 'f', OPTION_CALL, "FILE", "this trace file", .offset = offsetof(type, choices),                      \
								   .read = trace_choice_read_file, .values = OPTION_FILES  \
	}

/* The path of choice `index`, or, without choices, of the newest file. Errors: those of reader_find_newest(). */
MUST_CHECK int trace_choice_path(const struct trace_choices *choices, uint32_t index, char path[PATH_MAX],
				 struct fathom_fault *why);

/* The same for sub-commands that accept one file: 0, or the exit status after an error message that names `word`. */
MUST_CHECK int trace_choice_only_path(const struct trace_choices *choices, const char *word, char path[PATH_MAX]);

#endif
