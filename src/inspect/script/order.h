/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order - sorts the output of filled-in scripts by time.
 *
 * bpftrace reads the buffers of the CPUs in turn and prints what it finds; each CPU's own buffer is in order. So output
 * is held back until every CPU has reported a later time, if only by an empty text. A CPU that has been silent for a
 * second is not waited for. Several sources (a bpftrace for each process) share one time line: they have the same clock.
 *
 * Thread: one. Nothing is printed here: texts are passed to `emit`, which borrows them for the call.
 */
#ifndef INSPECT_SCRIPT_ORDER_H
#define INSPECT_SCRIPT_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum { ORDER_CPUS_MAX = 4096, ORDER_PATIENCE_MS = 1000 };

struct order;

struct order_text {
	uint32_t source;
	bool marked; /* has the time `ns` of bpftrace's clock; else `ns` is the time at its place in the output */
	uint64_t ns;
	const char *text;
	size_t bytes;
};

typedef void (*order_emit_fn)(void *ctx, const struct order_text *text);

/* `cpu_count`: number of CPUs that may print. */
struct order *order_create(uint32_t source_count, uint32_t cpu_count, order_emit_fn emit, void *ctx);
/* Accepts NULL. */
void order_destroy(struct order *order);

/* `beats`: wait for its CPUs; each is expected to report ten times a second. */
void order_expect(struct order *order, uint32_t source, bool beats);
/* The source has ended. */
void order_end(struct order *order, uint32_t source);

/* Pass a part of the output of a source's bpftrace, in the format of script_fill(). `now_ns`: our clock, for timeouts. */
void order_feed(struct order *order, uint32_t source, const char *text, size_t bytes, uint64_t now_ns);
/* Pass a separate text, with marks as in the stream, or without. Its bytes are copied. */
void order_put(struct order *order, uint32_t source, const char *text, size_t bytes, uint64_t now_ns);

/* Emit all texts that are in final order. Once all sources have ended, that is everything. */
void order_release(struct order *order, uint64_t now_ns);

/*
 * Count events that bpftrace reports as lost, outside of the stream; order_lost() returns the sum with those in the
 * stream.
 */
void order_count_lost(struct order *order, uint32_t source, uint64_t count);
uint64_t order_lost(const struct order *order, uint32_t source);

#endif
