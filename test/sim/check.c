/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * check - checks the trace at the end: no pool is left, no record was lost without a ring, and the records of each request,
 * block I/O, queue pair, controller and connection are a path in which each state follows from the previous one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/observe/trace/points.gen.h"
#include "fathom/trace/trace.h"
#include "sim.h"
#include "data/store/bdev/states.gen.h"
#include "data/target/request/states.gen.h"
#include "data/target/states.gen.h"
#include "data/wire/conn/states.gen.h"

enum { OBJECTS_MAX = 1 << 16, NOT_SEEN = 0xff };

/* The current state of each object of a kind. */
struct way {
	const char *name;
	uint16_t point; /* the point of its machine; 0: it has its own points */
	uint8_t last;	/* the state in which it must end */
	uint8_t state[OBJECTS_MAX];
	uint64_t tick[OBJECTS_MAX];
};

static struct way requests = { .name = "request", .point = TRACE_POINT_NVMF_REQ_STATE, .last = NVMF_REQ_FREE };
static struct way ios = { .name = "block I/O", .last = BDEV_IO_FREE };
static struct way qpairs = { .name = "queue pair", .point = TRACE_POINT_NVMF_QPAIR_STATE, .last = NVMF_QPAIR_NONE };
static struct way ctrlrs = { .name = "controller", .point = TRACE_POINT_NVMF_CTRLR_STATE, .last = NVMF_CTRLR_GONE };
static struct way conns = { .name = "connection", .point = TRACE_POINT_TCP_CONN_STATE, .last = TCP_CONN_NONE };
static struct way *const ways[] = { &requests, &ios, &qpairs, &ctrlrs, &conns };

static const void *memory(void)
{
	size_t bytes;

	return trace_memory(&bytes);
}

static const struct trace_section *section(enum trace_section_kind kind)
{
	const struct trace_header *header = memory();

	for (uint32_t i = 0; i < header->section_count; i++) {
		if (header->sections[i].kind == kind)
			return &header->sections[i];
	}
	sim_fail("the trace has no section %d", (int)kind);
}

static const void *at(uint64_t offset)
{
	return (const char *)memory() + offset;
}

static void move(struct way *way, const struct trace_record *record, uint32_t from, uint32_t to)
{
	uint32_t id = record->object;

	if (id >= OBJECTS_MAX)
		return;
	sim_check(way->state[id] == NOT_SEEN || way->state[id] == from, "trace: %s %u goes from state %u, but was in %u",
		  way->name, id, from, way->state[id]);
	sim_check(way->tick[id] <= (record->tick | TICK_SHARED), "trace: %s %u goes back in time, at %lu", way->name, id,
		  (unsigned long)record->tick);
	way->state[id] = (uint8_t)to;
	way->tick[id] = record->tick & ~TICK_SHARED;
}

static void io_record(const struct trace_record *record)
{
	uint32_t id = record->object;
	uint8_t before = id < OBJECTS_MAX ? ios.state[id] : NOT_SEEN;

	if (record->point == TRACE_POINT_BDEV_IO_SUBMIT)
		move(&ios, record, BDEV_IO_FREE, BDEV_IO_SUBMITTED);
	else if (before == NOT_SEEN)
		return;
	else if (record->point == TRACE_POINT_BDEV_IO_DONE)
		move(&ios, record, before == BDEV_IO_FREE ? BDEV_IO_SUBMITTED : before, BDEV_IO_FREE);
	else if (record->point == TRACE_POINT_BDEV_IO_DISPATCH)
		move(&ios, record, before == BDEV_IO_FREE ? BDEV_IO_SUBMITTED : before, BDEV_IO_DISPATCHED);
}

static void walk(const struct trace_ring *ring)
{
	uint64_t first = ring->head > ring->entry_count ? ring->head - ring->entry_count : 0;

	for (uint64_t i = first; i < ring->head; i++) {
		const struct trace_record *record = &ring->records[i & (ring->entry_count - 1)];

		if (record->point == TRACE_POINT_PART)
			continue;
		for (size_t w = 0; w < ARRAY_COUNT(ways); w++) {
			if (ways[w]->point && ways[w]->point == record->point)
				move(ways[w], record, record->args[0], record->args[1]);
		}
		io_record(record);
	}
}

void check_trace(void)
{
	const struct trace_header *header = memory();
	const struct trace_section *threads = section(TRACE_SECTION_THREADS), *pools = section(TRACE_SECTION_POOLS);

	sim_check(header->unregistered_records == 0, "trace: %lu records without a ring",
		  (unsigned long)header->unregistered_records);
	for (uint64_t i = 0; i < pools->count; i++) {
		const struct trace_pool *pool = at(pools->offset + i * pools->stride);

		sim_check(pool->count == 0, "trace: a pool of %lu objects of type %u is left", (unsigned long)pool->count,
			  pool->object_type);
	}
	for (size_t w = 0; w < ARRAY_COUNT(ways); w++)
		memset(ways[w]->state, NOT_SEEN, sizeof(ways[w]->state));
	for (uint64_t i = 0; i < threads->count; i++) {
		const struct trace_thread *thread = at(threads->offset + i * threads->stride);

		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++)
			walk(at(thread->ring_offset[kind]));
	}
	for (size_t w = 0; w < ARRAY_COUNT(ways); w++) {
		for (uint32_t id = 0; id < OBJECTS_MAX; id++)
			sim_check(ways[w]->state[id] == NOT_SEEN || ways[w]->state[id] == ways[w]->last,
				  "trace: %s %u is left in state %u", ways[w]->name, id, ways[w]->state[id]);
	}
}
