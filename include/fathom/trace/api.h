/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * api - macros of the trace's headers.
 *
 * In C all names begin with trace_ or TRACE_. For the linker each is fathom_trace_..., so that a program may have a
 * trace_open() of its own.
 */
#ifndef FATHOM_TRACE_API_H
#define FATHOM_TRACE_API_H

#define TRACE_API(name) __asm__("fathom_" #name) __attribute__((visibility("default")))
#define TRACE_MUST_CHECK __attribute__((warn_unused_result))
#define TRACE_PRINTF_LIKE(format_index, first) __attribute__((format(printf, format_index, first)))
#define TRACE_COLD __attribute__((cold, noinline))
#define TRACE_LIKELY(x) __builtin_expect(!!(x), 1)
#define TRACE_UNLIKELY(x) __builtin_expect(!!(x), 0)

/*
 * An invariant that only a bug of the program breaks, such as a move that its table does not allow. Prints to stderr,
 * aborts.
 */
#define TRACE_MUST(condition)                                                                                              \
	do {                                                                                                               \
		if (TRACE_UNLIKELY(!(condition)))                                                                          \
			trace_must_failed(#condition, __FILE__, __LINE__, __func__);                                       \
	} while (0)

#ifdef __cplusplus
extern "C" {
#endif

/* Any thread. */
void trace_must_failed(const char *condition, const char *file, int line, const char *function)
	TRACE_API(trace_must_failed) TRACE_COLD __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif
