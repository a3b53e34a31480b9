/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * thread - a pthread's rings, and the record functions that are too rare to inline.
 *
 * A thread keeps its slot until it detaches or ends; a file that is closed meanwhile stays mapped for it. A child of fork()
 * has no slot, because the parent's thread still writes to it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/observe/trace/crash.h"
#include "base/observe/trace/internal.h"

__thread struct trace_writer trace_self;

static pthread_key_t end_key; /* its destructor runs when an attached thread ends */
static uint64_t generation;   /* number of files opened so far */
static _Thread_local uint64_t attached_to;

static void thread_ended(void *unused)
{
	trace_thread_detach();
}

static void before_fork(void)
{
	pthread_mutex_lock(&trace_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&trace_lock);
}

static void reset_in_child(void)
{
	/* before_fork() locked the mutex as the parent's thread, so this thread cannot unlock it */
	trace_lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	trace_self = (struct trace_writer){ 0 };
	trace_lives_detach();
	trace_heartbeat_leave_to_parent();
	trace_leave_to_parent();
}

static void install_handlers(void)
{
	must(pthread_key_create(&end_key, thread_ended) == 0);
	must(pthread_atfork(before_fork, after_fork, reset_in_child) == 0);
}

void trace_threads_prepare(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install_handlers);
	generation++;
}

bool trace_threads_live(void)
{
	for (uint32_t i = 0; i < trace_file.thread_count; i++) {
		if (trace_file.threads[i].state == TRACE_THREAD_LIVE)
			return true;
	}
	return false;
}

/* The best slot of one size: one never used, else of the ended threads the one that attached first. */
static struct trace_thread *choose_slot_of_size(bool full_size)
{
	struct trace_file *file = &trace_file;
	uint64_t full = ((struct trace_ring *)(file->memory + file->threads[0].ring_offset[TRACE_RING_IO]))->entry_count;
	struct trace_thread *ended = NULL;

	for (uint32_t i = 0; i < file->thread_count; i++) {
		struct trace_thread *slot = &file->threads[i];
		const struct trace_ring *io = (struct trace_ring *)(file->memory + slot->ring_offset[TRACE_RING_IO]);
		bool large = io->entry_count == full && full > TRACE_IO_ENTRIES_MIN;

		if (full > TRACE_IO_ENTRIES_MIN && large != full_size)
			continue;
		if (slot->state == TRACE_THREAD_FREE)
			return slot;
		if (slot->state == TRACE_THREAD_ENDED && (!ended || slot->attached_tick < ended->attached_tick))
			ended = slot;
	}
	return ended;
}

static struct trace_thread *choose_slot(bool full)
{
	struct trace_thread *slot = choose_slot_of_size(full);

	return slot || !full ? slot : choose_slot_of_size(false);
}

/* Sequence numbers continue after those of the slot's previous thread, so that they order all records in its rings. */
static uint32_t seq_after(const struct trace_ring *ring, uint32_t seq)
{
	uint64_t head = ring->head;
	uint32_t next;

	if (head == 0)
		return seq;
	next = ring->records[(head - 1) & (ring->entry_count - 1)].seq + 1;
	return (int32_t)(next - seq) > 0 ? next : seq;
}

int trace_thread_attach(const char *name, int cpu, bool full)
{
	struct trace_thread *slot;
	uint32_t seq = 0;
	int rc;

	must(!trace_self.slot || attached_to != generation);
	trace_thread_detach(); /* if attached to a file that was closed */
	pthread_mutex_lock(&trace_lock);
	if (!trace_file.memory) {
		pthread_mutex_unlock(&trace_lock);
		return -ENOENT;
	}
	slot = choose_slot(full);
	rc = slot ? trace_lives_attach((struct trace_lives *)(trace_file.memory + slot->lives_offset)) : -ENOSPC;
	if (rc) {
		trace_file.header->refused_threads += rc == -ENOSPC;
		pthread_mutex_unlock(&trace_lock);
		return rc;
	}
	text_copy(slot->name, sizeof(slot->name), name);
	slot->tid = trace_file.in_memory ? 0 : (int32_t)syscall(SYS_gettid);
	slot->cpu = cpu;
	slot->attached_tick = trace_file.in_memory ? 0 : clock_ticks();
	__atomic_store_n(&slot->state, TRACE_THREAD_LIVE, __ATOMIC_RELEASE);
	for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
		struct trace_ring *ring = (struct trace_ring *)(trace_file.memory + slot->ring_offset[kind]);

		seq = seq_after(ring, seq);
		trace_self.lane[kind] =
			(struct trace_lane){ .records = ring->records, .mask = ring->entry_count - 1, .ring = ring };
	}
	trace_self.seq = seq;
	trace_self.lives = (struct trace_lives *)(trace_file.memory + slot->lives_offset);
	if (slot->exemplars_offset)
		trace_self.exemplars = (struct trace_exemplars *)(trace_file.memory + slot->exemplars_offset);
	if (trace_self.exemplars == trace_file.named)
		trace_self.exemplars = NULL; /* not this thread's */
	trace_self.slot = slot;
	attached_to = generation;
	(void)pthread_setspecific(end_key, slot); /* if out of memory, the slot is lost when the thread ends */
	pthread_mutex_unlock(&trace_lock);
	if (trace_crash_is_caught())
		signals_give_stack();
	return 0;
}

void trace_thread_detach(void)
{
	if (!trace_self.slot)
		return;
	trace_running(NULL, NULL, 0);
	__atomic_store_n(&trace_self.slot->state, TRACE_THREAD_ENDED, __ATOMIC_RELEASE);
	trace_self = (struct trace_writer){ 0 };
	trace_lives_detach();
	(void)pthread_setspecific(end_key, NULL); /* cannot fail: the key has a value */
}

static_assert(TRACE_TICK_SHARED == TICK_SHARED, "one bit");

uint64_t trace_now_by_call(void)
{
	return clock_ticks();
}

void trace_must_failed(const char *condition, const char *file, int line, const char *function)
{
	must_failed(condition, file, line, function);
}

void trace_count_unregistered(void)
{
	struct trace_header *header = trace_file.header;

	if (header)
		__atomic_fetch_add(&header->unregistered_records, 1, __ATOMIC_RELAXED);
}

void trace_record_long(uint64_t tick, uint16_t point, enum trace_ring_kind kind, uint16_t owner, uint32_t object,
		       const uint32_t *slots, size_t slot_count)
{
	struct trace_lane *lane = &trace_self.lane[kind];
	struct trace_record *record;
	uint64_t head;
	uint32_t seq;

	must(slot_count > TRACE_ARG_SLOTS_HEAD);
	must(slot_count <= TRACE_ARG_SLOTS_HEAD + (TRACE_PARTS_MAX - 1) * TRACE_ARG_SLOTS_PART);
	if (!trace_enabled(point) && !trace_passes_filter(point, owner))
		return;
	if (!lane->records) {
		trace_count_unregistered();
		return;
	}
	seq = trace_self.seq++;
	head = lane->ring->head;
	record = trace_slot(lane, head++);
	*record = (struct trace_record){ .tick = tick, .seq = seq, .point = point, .owner = owner, .object = object };
	memcpy(record->args, slots, sizeof(record->args));
	for (size_t at = TRACE_ARG_SLOTS_HEAD, part = 1; at < slot_count; at += TRACE_ARG_SLOTS_PART, part++) {
		uint32_t words[TRACE_ARG_SLOTS_PART] = { 0 };

		memcpy(words, slots + at, min_u64(slot_count - at, TRACE_ARG_SLOTS_PART) * sizeof(words[0]));
		record = trace_slot(lane, head++);
		*record = (struct trace_record){
			.tick = tick,
			.seq = seq,
			.point = TRACE_POINT_PART,
			.owner = (uint16_t)part,
			.object = words[0],
		};
		memcpy(record->args, words + 1, sizeof(record->args));
	}
	trace_publish(lane, head);
}
