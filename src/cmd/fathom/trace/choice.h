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

enum { TRACE_CHOICES_MAX = 64 };

#define TRACE_CHOICE_OPTIONS "s:p:f:"

struct trace_choices {
	struct trace_choice {
		const char *name, *file;
		int32_t pid; /* 0: any */
	} rows[TRACE_CHOICES_MAX];
	uint32_t count; /* 0: the newest file */
};

/*
 * Accept `value` if `option` is one of the three; it must stay valid. False: another option. `*status_ret`: 0, or the
 * exit status + 1 after an error message.
 */
MUST_CHECK bool trace_choice_take(struct trace_choices *choices, int option, const char *value, int *status_ret);

/* The path of choice `index`, or, without choices, of the newest file. Errors: those of reader_find_newest(). */
MUST_CHECK int trace_choice_path(const struct trace_choices *choices, uint32_t index, char path[PATH_MAX],
				 struct fathom_fault *why);

/* The same for sub-commands that accept one file: 0, or the exit status after an error message that names `word`. */
MUST_CHECK int trace_choice_only_path(const struct trace_choices *choices, const char *word, char path[PATH_MAX]);

#endif
