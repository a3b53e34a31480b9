/* SPDX-License-Identifier: BSD-2-Clause */
/* rig - starts and stops reactors for a test, driven from the test's pthread, which is a foreign one. */
#ifndef TEST_UNIT_REACTOR_RIG_H
#define TEST_UNIT_REACTOR_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>

#include "base/reactor/reactor.h"

/* Start on the first `count` processors that this process may use, or fewer if there are fewer. */
void rig_start(unsigned int count);
void rig_start_spinning(unsigned int count, uint64_t spin_ns);
void rig_start_simulated(unsigned int count);
void rig_stop(void);

/* The data reactor with this index, modulo their number. */
struct reactor *rig_reactor(unsigned int index);

/* Run `fn(ctx)` on `thread` and return when it has returned. Not when simulated. */
void rig_run_on(struct fathom_thread *thread, thread_fn fn, void *ctx);
/* Ask `thread` to exit. */
void rig_exit(struct fathom_thread *thread);

/* Wait until *value, changed by another pthread, is at least `at_least`; fails the test after ten seconds. */
void rig_wait_u64(_Atomic(uint64_t) *value, uint64_t at_least);

/* Simulated: step all reactors, the control reactor last, at `now`, until none of them does anything. */
void rig_settle(uint64_t now);

#endif
