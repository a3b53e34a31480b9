/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace_choice - which files: -s NAME, -p PID and -f FILE, as all words of `fathom trace` take them.
 *
 * -s and -p together are one program; each -f, and -s or -p once more, is one more file.
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
	uint32_t count; /* 0: the newest file there is */
};

/*
 * Take `value` if `option` is one of the three; it is borrowed for good. False: it is another. `*status_ret`: 0, or the
 * exit status + 1 after a complaint.
 */
MUST_CHECK bool trace_choice_take(struct trace_choices *choices, int option, const char *value, int *status_ret);

/* The path of choice `index`, or, without choices, of the newest file. Errors as reader_find_newest(). */
MUST_CHECK int trace_choice_path(const struct trace_choices *choices, uint32_t index, char path[PATH_MAX],
				 struct fault *why);

/* Likewise for words that take one file: 0, or the exit status after a complaint that names `word`. */
MUST_CHECK int trace_choice_only_path(const struct trace_choices *choices, const char *word, char path[PATH_MAX]);

#endif
