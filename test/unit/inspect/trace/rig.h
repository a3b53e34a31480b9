/* SPDX-License-Identifier: BSD-2-Clause */
/* rig - child processes that write a trace file and die, for tests that read the file. */
#ifndef TEST_INSPECT_TRACE_RIG_H
#define TEST_INSPECT_TRACE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include "base/clock.h"
#include "demo/demo.h"
#include "demo/probes.gen.h"
#include "inspect/trace/trace_file.h"
#include "fathom/trace/trace.h"

enum { ORDERS = 64 };

struct rig {
	char directory[256], path[320];
	pid_t pid; /* 0: ended */
};

/* In the child: its objects, made by rig_start(). */
extern struct demo_order *rig_orders;
extern struct demo_job *rig_jobs;

/*
 * Run `fn(ctx)` in a child with a trace file and a reactor's rings. The child kills itself when `fn` returns. Wait for its
 * end.
 */
void rig_run(struct rig *rig, uint32_t io_entries, void (*fn)(void *ctx), void *ctx);
/* The same, but return when `fn` starts. rig_kill() ends the child. */
void rig_start(struct rig *rig, uint32_t io_entries, void (*fn)(void *ctx), void *ctx);
void rig_kill(struct rig *rig);
/* Remove the file and its directory. */
void rig_clean(struct rig *rig);

/* Seven records of an order and its job from FREE to FREE, all at `tick`. */
void rig_one_order(uint32_t index, uint64_t tick);

struct reader *rig_open(const struct rig *rig);

/* Open the file, read all of it, print it to /dev/null. Return the result of reader_open(). */
int rig_read_all(const char *path, struct reader_counts *counts_ret);

#endif
