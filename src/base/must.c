/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>

static must_hook_fn failed_hook;

/* Read from core files (inspect/core). */
static volatile struct {
	const char *condition, *file;
	int line;
} failure;

void must_set_hook(must_hook_fn hook)
{
	failed_hook = hook;
}

void must_failed(const char *condition, const char *file, int line, const char *function)
{
	must_hook_fn hook = failed_hook;

	fprintf(stderr, "%s:%d: %s: must(%s) failed\n", file, line, function, condition);
	failure.condition = condition;
	failure.file = file;
	failure.line = line;
	failed_hook = NULL; /* a must() that fails in the hook must not call the hook again */
	if (hook)
		hook(condition, file, line);
	abort();
}
