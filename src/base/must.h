/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * must - assertions that stay on in release builds.
 *
 * must(x) detects our own bugs: it prints the condition and aborts, which leaves a core and the trace file. A condition
 * that the environment can cause is never a must(): return an error. maybe(x) documents that both cases are legal.
 */
#ifndef BASE_MUST_H
#define BASE_MUST_H

#include <assert.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define must(condition)                                                                                                    \
	do {                                                                                                               \
		if (unlikely(!(condition)))                                                                                \
			must_failed(#condition, __FILE__, __LINE__, __func__);                                             \
	} while (0)

#define maybe(condition) ((void)sizeof(!!(condition)))

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first) __attribute__((format(printf, format_index, first)))
#define COLD __attribute__((cold, noinline))

/* Print the failed condition on stderr and abort(). Any thread. */
void must_failed(const char *condition, const char *file, int line, const char *function) COLD __attribute__((noreturn));

/*
 * Set the hook that must_failed() calls once before the abort, on the failing thread: it records the failure in the trace.
 * `hook` must not leave by longjmp() and must not take a lock. NULL removes it.
 */
typedef void (*must_hook_fn)(const char *condition, const char *file, int line);
void must_set_hook(must_hook_fn hook);

#endif
