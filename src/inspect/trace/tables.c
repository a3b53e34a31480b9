/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tables - reads a file's tables of strings, owners and threads. A live writer changes their rows: a row is copied until
 * the copy is whole.
 */
#include <string.h>

#include "base/clock.h"
#include "inspect/trace/internal.h"

enum { OWNER_TRIES = 64 };

const char *reader_string(const struct reader *reader, uint32_t id, size_t *bytes_ret)
{
	const struct section *section = &reader->sections[TRACE_SECTION_STRINGS];
	uint64_t used;

	*bytes_ret = 0;
	if (id == 0)
		return "";
	if (section->bytes >= sizeof(struct trace_strings)) {
		used = __atomic_load_n(&((const struct trace_strings *)section->at)->used, __ATOMIC_ACQUIRE);
		used = min_u64(used, section->bytes);
		if (id >= sizeof(struct trace_strings) && id < used) {
			*bytes_ret = strnlen((const char *)section->at + id, used - id);
			return (const char *)section->at + id;
		}
	}
	*bytes_ret = 1;
	return "?";
}

/*
 * Copy an owner such that no update falls into the copy. False: it is being rewritten, or its writer was killed
 * meanwhile.
 */
static bool copy_owner(const struct trace_owner *from, struct trace_owner *to)
{
	for (int try = 0; try < OWNER_TRIES; try++) {
		*to = *(const volatile struct trace_owner *)from;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (to->version % 2 == 0 && memcmp(to, from, sizeof(*to)) == 0)
			return true;
	}
	return false;
}

bool reader_owner(const struct reader *reader, uint16_t owner, uint64_t tick, struct reader_owner *owner_ret)
{
	const struct trace_owner *there = reader_element(reader, TRACE_SECTION_OWNERS, owner);
	struct trace_owner row;
	/* a shared tick may be slightly older than the owner */
	uint64_t slack = reader->shared_bit ? tick_scale_ticks(&reader->scale, 100 * NS_PER_US) : 0;
	size_t text_bytes = sizeof(row.text);
	const char *text = row.text;
	uint64_t from, to;

	if (owner == 0)
		return false;
	*owner_ret =
		(struct reader_owner){ .id = owner, .type = "owner", .prefix = "o", .from_tick = tick, .to_tick = tick };
	if (!there || !copy_owner(there, &row))
		return true;
	from = row.tick_from & ~reader->shared_bit;
	to = row.tick_to & ~reader->shared_bit;
	if (from == 0 || tick + slack < from || (to != 0 && tick > to))
		return true;
	for (uint32_t i = 0; i < reader->schema.owner_count; i++) {
		if (reader->schema.owners[i].id == row.type) {
			owner_ret->type = reader->schema.owners[i].name;
			owner_ret->prefix = reader->schema.owners[i].prefix;
		}
	}
	owner_ret->from_tick = from > slack ? from - slack : 0;
	owner_ret->to_tick = to ? to : UINT64_MAX;
	if (reader->spdk) {
		/* an image does not change, and its text extends to the end of the row */
		text = there->text;
		text_bytes = reader->sections[TRACE_SECTION_OWNERS].stride - offsetof(struct trace_owner, text);
	}
	copy_printable(owner_ret->text, sizeof(owner_ret->text), text, text_bytes);
	return true;
}

static void copy_string(const struct reader *reader, uint32_t id, char *to, size_t to_bytes)
{
	size_t bytes;
	const char *text = reader_string(reader, id, &bytes);

	copy_printable(to, to_bytes, text, bytes);
}

bool reader_thread(const struct reader *reader, uint32_t index, struct reader_thread *thread_ret)
{
	const struct trace_thread *row = reader_element(reader, TRACE_SECTION_THREADS, index);
	struct reader_counts counts = { 0 };
	uint32_t running = 0;

	if (!row)
		return false;
	*thread_ret = (struct reader_thread){
		.index = index,
		.tid = row->tid,
		.cpu = row->cpu,
		.attached_tick = row->attached_tick,
		.turns = row->turns,
		.state = (enum trace_thread_state)__atomic_load_n(&row->state, __ATOMIC_ACQUIRE),
	};
	copy_printable(thread_ret->name, sizeof(thread_ret->name), row->name, sizeof(row->name));
	/* the writer changes these fields all the time: copy until name and tick belong together, at most 8 times */
	for (int try = 0; try < 8; try++) {
		running = __atomic_load_n(&row->running_name, __ATOMIC_ACQUIRE);
		thread_ret->running_since = row->running_since;
		copy_string(reader, row->running_thread, thread_ret->running_thread, sizeof(thread_ret->running_thread));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (row->running_name == running && row->running_since == thread_ret->running_since)
			break;
	}
	copy_string(reader, running, thread_ret->running, sizeof(thread_ret->running));
	for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
		struct ring_reader ring;

		if (!ring_reader_init(&ring, reader, row->ring_offset[kind], &counts))
			continue;
		thread_ret->recorded[kind] = ring.head;
		thread_ret->entry_count[kind] = ring.entry_count;
	}
	if (reader->spdk && index < reader->spdk->ring_count) {
		thread_ret->recorded[TRACE_RING_IO] = reader->spdk->rings[index].recorded;
		thread_ret->entry_count[TRACE_RING_IO] = reader->spdk->rings[index].entry_count;
	}
	return thread_ret->state != TRACE_THREAD_FREE || thread_ret->recorded[0] || thread_ret->recorded[1];
}
