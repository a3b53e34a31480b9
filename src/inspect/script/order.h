/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order - what filled-in scripts print, put in the order in which it happened.
 *
 * bpftrace reads a buffer of each CPU in turn, and prints what it finds. A CPU's own buffer is in order. So what is printed
 * is kept until every CPU has said, if only by an empty text, that it is past that moment; a CPU that says nothing for
 * a second is not waited for. Several sources (a bpftrace for each process) are one line of time: they have one clock.
 *
 * One thread. Nothing is printed here: it goes to `emit`, which borrows the text for the call.
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
	bool marked; /* at `ns` of bpftrace's clock; else what came without a time, in the place where it came */
	uint64_t ns;
	const char *text;
	size_t bytes;
};

typedef void (*order_emit_fn)(void *ctx, const struct order_text *text);

/* `cpu_count`: that may print. */
struct order *order_create(uint32_t source_count, uint32_t cpu_count, order_emit_fn emit, void *ctx);
/* Accepts NULL. */
void order_destroy(struct order *order);

/* Must its CPUs be waited for? They are expected to say something every tenth of a second. */
void order_expect(struct order *order, uint32_t source, bool beats);
/* It says no more. */
void order_end(struct order *order, uint32_t source);

/* What a source's bpftrace wrote, as script_fill() has it, in pieces. `now_ns`: a clock of ours, for patience. */
void order_feed(struct order *order, uint32_t source, const char *text, size_t bytes, uint64_t now_ns);
/* A text of its own; with marks as in the stream, or without. Its bytes are copied. */
void order_put(struct order *order, uint32_t source, const char *text, size_t bytes, uint64_t now_ns);

/* Emit what can be. Once all sources have ended that is all. */
void order_release(struct order *order, uint64_t now_ns);

/* Events that bpftrace says it could not print; those that it says otherwise than in the stream. */
void order_lose(struct order *order, uint32_t source, uint64_t count);
uint64_t order_lost(const struct order *order, uint32_t source);

#endif
