/* SPDX-License-Identifier: BSD-2-Clause */
/* rig - programs that trace and die, for tests that read what they left. */
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
	pid_t pid; /* 0: it has ended */
};

/* In a child: what it needs, made by rig_start(). */
extern struct demo_order *rig_orders;
extern struct demo_job *rig_jobs;

/* Run `fn(ctx)` in a child with a trace file and rings of a reactor; SIGKILL when it returns. Returns when it is dead. */
void rig_run(struct rig *rig, uint32_t io_entries, void (*fn)(void *ctx), void *ctx);
/* The same, and return when it has begun; rig_kill() ends it. */
void rig_start(struct rig *rig, uint32_t io_entries, void (*fn)(void *ctx), void *ctx);
void rig_kill(struct rig *rig);
/* Remove the file and its directory. */
void rig_clean(struct rig *rig);

/* Seven records of an order and its job from FREE to FREE, all at `tick`. */
void rig_one_order(uint32_t index, uint64_t tick);

struct reader *rig_open(const struct rig *rig);

/* Open, read everything there is, print it to nowhere. The result of reader_open(). */
int rig_read_all(const char *path, struct reader_counts *counts_ret);

#endif
