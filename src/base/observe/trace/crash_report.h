/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crash_report - what the signal handler writes about a crash, into the log and into a file beside the trace file:
 *
 *   /dev/shm/<name>_trace.pid<pid>.crash
 *
 * What happened, the backtrace by frame pointers, what each thread ran, the last records. It is text for people, for the
 * time before anybody has the core; `fathom core` and `fathom trace` know more.
 *
 * Everything in the handler is async-signal-safe: system calls, plain loads and stores, no allocation, no lock, no stdio.
 * Memory that may be unreadable (the stack) is read by process_vm_readv(2). Names of functions come from the program's
 * symbol table, which is mapped before.
 */
#ifndef OBSERVE_TRACE_CRASH_REPORT_H
#define OBSERVE_TRACE_CRASH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

enum {
	TRACE_CRASH_RECORDS = 32,
	TRACE_CRASH_FRAMES = 32,
};

#define TRACE_CRASH_REPORT_SUFFIX ".crash"

/* An executable segment of the program or a library. */
struct trace_crash_module {
	uint64_t from, to, base;
	const char *path;
};

struct trace_crash_cause {
	int signal, code;
	const char *signal_name;
	int32_t tid, sender; /* 0: the kernel raised it */
	uint64_t address;    /* valid if has_address */
	bool has_address;
	uint64_t instruction, frame_pointer;
};

/* Map the program's symbols. `base`: its load address. Not in a handler. */
void trace_crash_symbols_open(uint64_t base);

/* The module with this code; false: none. Async-signal-safe. */
bool trace_crash_module_of(uint64_t address, struct trace_crash_module *module_ret);

enum { TRACE_CRASH_PARTS_MAX = 8 };

/*
 * Write a part of the report; parts count from 0, in order. False: it was the last one. Async-signal-safe. A part may
 * crash, if the trace or a file of a program was damaged or truncated: the caller's handler leaves it, and the next part
 * notes that.
 */
bool trace_crash_report_part(const struct trace_crash_cause *cause, uint32_t part);

#endif
