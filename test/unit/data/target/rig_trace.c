/* SPDX-License-Identifier: BSD-2-Clause */
/* The rig's trace: in memory, written by the one pthread that steps all reactors, read by the test. */
#include "rig.h"

#include <string.h>

#include "base/observe/trace/points.gen.h"

void rig_trace_open(void)
{
	struct trace_options options = { .schema = &fathom_schema,
					 .name = "rig",
					 .version = "0",
					 .thread_count = 1,
					 .io_entries = TRACE_IO_ENTRIES_MIN,
					 .in_memory = true,
					 .in_memory_tick = 1000 };
	struct fathom_fault why;

	clock_fix_tick_rate(NS_PER_SEC);
	assert_int_equal(trace_open(&options, &why), 0);
	assert_int_equal(trace_mask_set("nvmf", &why), 0);
	assert_int_equal(trace_thread_attach("rig", -1, true), 0);
}

void rig_trace_close(void)
{
	trace_thread_detach();
	trace_close();
}

/* Collect the slots of an event: of its record, then of its continuations. */
static void gather(const struct trace_ring *ring, uint64_t at, uint32_t *slots, size_t slot_count)
{
	const struct trace_record *record = &ring->records[at % ring->entry_count];

	memcpy(slots, record->args, min_u64(slot_count, TRACE_ARG_SLOTS_HEAD) * sizeof(*slots));
	for (size_t done = TRACE_ARG_SLOTS_HEAD; done < slot_count; done += TRACE_ARG_SLOTS_PART) {
		uint32_t words[TRACE_ARG_SLOTS_PART];

		record = &ring->records[++at % ring->entry_count];
		assert_int_equal(record->point, TRACE_POINT_PART);
		words[0] = record->object;
		memcpy(words + 1, record->args, sizeof(record->args));
		memcpy(slots + done, words, min_u64(slot_count - done, TRACE_ARG_SLOTS_PART) * sizeof(*slots));
	}
}

bool rig_trace_last(uint16_t point, uint32_t *slots_ret, size_t slot_count)
{
	const struct trace_ring *ring;
	size_t bytes;
	const char *memory = trace_memory(&bytes);

	must(memory);
	ring = (const struct trace_ring *)(memory + trace_self.slot->ring_offset[TRACE_RING_RARE]);
	must(ring->head <= ring->entry_count); /* no test fills the ring */
	for (uint64_t at = ring->head; at-- > 0;) {
		if (ring->records[at].point == point) {
			gather(ring, at, slots_ret, slot_count);
			return true;
		}
	}
	return false;
}
