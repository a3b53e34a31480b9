/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * must - what has to be true, in release builds too.
 *
 * must(x) is for our own bugs: it names the condition, aborts, and so leaves a core and the trace file. What the world can
 * cause is never a must(): it is an error return. maybe(x) says to the reader that both cases are legal.
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
 * Called once by must_failed() before the abort, on the failing thread: the place to note the failure in the trace.
 * `hook` must not return by longjmp and must take no lock. NULL removes it.
 */
typedef void (*must_hook_fn)(const char *condition, const char *file, int line);
void must_set_hook(must_hook_fn hook);

#endif
