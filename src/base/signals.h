/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals - what each thread of a daemon needs for the signals of its own faults, which the handler of base/observe/trace
 * reports: they are not blocked, and the thread has a stack for the handler, because its own may be full.
 */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

enum { SIGNALS_STACK_BYTES = 64 * 1024 };

/* Sanitizers have handlers and stacks of their own. */
#if defined(__has_feature)
#define SIGNALS_HAS(feature) __has_feature(feature)
#else
#define SIGNALS_HAS(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || SIGNALS_HAS(address_sanitizer) ||                     \
	SIGNALS_HAS(thread_sanitizer)
#define SIGNALS_SANITIZED true
#else
#define SIGNALS_SANITIZED false
#endif

/* The signals that all pthreads but the first block: all except those that a fault of the pthread itself raises. */
void signals_of_others(sigset_t *signals_ret);

/*
 * Give the calling pthread an alternate signal stack, unless it has one. It is freed at the end of the pthread. Out of
 * memory: the handler uses the pthread's own stack. No effect in builds with sanitizers.
 */
void signals_give_stack(void);

#endif
