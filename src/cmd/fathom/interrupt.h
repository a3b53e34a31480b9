/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * interrupt - SIGINT and SIGTERM end a command that repeats: they set a flag, and a blocked system call returns EINTR. Used
 * by `fathom top --batch` and by `fathom trace top`, `follow`, `record` and `trigger`.
 *
 * Other commands do more at a signal and have their own handlers: `fathom perf` counts signals (perf/perf.c), the screen of
 * `fathom top` also ends by SIGHUP (top/screen.c), a control command cancels its call (control/session.c), `fathom probe
 * run` ends bpftrace first (probe/run.c).
 *
 * Thread: the main one.
 */
#ifndef CMD_FATHOM_INTERRUPT_H
#define CMD_FATHOM_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/must.h"

/* Catch SIGINT and SIGTERM from now on. */
void interrupt_catch(void);

/* Has one of them arrived? */
bool interrupt_arrived(void);

/* Sleep until `until_ns` of clock_monotonic_ns(), or until a signal arrives or has arrived. */
void interrupt_sleep(uint64_t until_ns);

#endif
