/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading the events of a killed or running program: all of them, in order, each complete. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include "inspect/trace/internal.h"
#include "rig.h"

static uint64_t value_of(const struct reader_event *event, uint32_t arg)
{
	return reader_arg_value(&event->point->args[arg], event->slots);
}

static bool is_point(const struct reader_event *event, const char *name)
{
	return event->point && strcmp(event->point->name, name) == 0;
}

/* ---- after SIGKILL ---- */

static void thousand_orders(void *ctx)
{
	for (uint32_t i = 0; i < 1000; i++)
		rig_one_order(i, clock_ticks());
}

static void all_events_are_read_after_sigkill(void **state)
{
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;
	uint32_t count = 0;

	rig_run(&rig, 8192, thousand_orders, NULL);
	reader = rig_open(&rig);
	assert_int_equal(reader_info(reader)->liveness, READER_DEAD);
	assert_string_equal(reader_info(reader)->name, "rig");
	assert_null(reader_info(reader)->problem);
	assert_int_equal(reader_events(reader, &events), 0);
	for (; reader_event_next(events, &event); count++) {
		assert_int_equal(event.seq, count);
		if (is_point(&event, "job_submit")) {
			assert_int_equal(value_of(&event, 1), count / 7);
			assert_true(event.shared);
			assert_string_equal(event.related->name, "order");
			assert_int_equal(event.related_id, count / 7 % ORDERS);
			assert_string_equal(reader_event_state(&event), "SUBMITTED");
		}
		if (is_point(&event, "order_state") && event.slots[0] == ORDER_FREE) {
			assert_int_equal(event.dwell_ticks, 0);
			assert_int_equal(event.total_ticks, 0);
			assert_false(event.total_partial);
		}
	}
	assert_int_equal(count, 7000);
	reader_events_free(events);
	reader_close(reader);
	rig_clean(&rig);
}

static void count_to(void *ctx)
{
	for (uint64_t i = 0; i < (uintptr_t)ctx; i++)
		probe_count_io(clock_ticks(), i, (uint32_t)i);
}

static void a_full_ring_keeps_the_latest_events(void **state)
{
	static const uint64_t amounts[] = { 1, 1019, 1020, 1021, 1023, 1024, 1025, 5000, 10240 };

	for (size_t i = 0; i < ARRAY_COUNT(amounts); i++) {
		uint64_t amount = amounts[i], kept = min_u64(amount, 1024 - TRACE_PARTS_MAX), next = amount - kept;
		struct rig rig = { 0 };
		struct reader *reader;
		struct reader_events *events;
		struct reader_event event;
		struct reader_counts counts;

		rig_run(&rig, 1024, count_to, (void *)(uintptr_t)amount);
		reader = rig_open(&rig);
		assert_int_equal(reader_events(reader, &events), 0);
		for (; reader_event_next(events, &event); next++)
			assert_int_equal(value_of(&event, 0), next);
		assert_int_equal(next, amount);
		reader_events_counts(events, &counts);
		assert_int_equal(counts.recorded, amount);
		assert_int_equal(counts.events, kept);
		assert_int_equal(counts.overwritten, amount - kept);
		assert_int_equal(counts.torn + counts.orphans + counts.unknown + counts.missing, 0);
		reader_events_free(events);
		reader_close(reader);
		rig_clean(&rig);
	}
}

/* ---- while it runs ---- */

static void count_for_ever(void *ctx)
{
	for (uint64_t i = 0;; i++) {
		if (i % 64 == 0)
			probe_count_rare(clock_ticks(), i, ~(uint32_t)i);
		else
			probe_count_io(clock_ticks(), i, ~(uint32_t)i);
	}
}

/* Assert that numbers rise, at the end without gaps, and both arguments agree. Return the number of events. */
static uint64_t check_counted(const char *path, struct reader_counts *sum)
{
	struct fathom_fault why = { 0 };
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;
	struct reader_counts counts;
	uint64_t last = 0, last_seq = 0;

	if (reader_open(path, &reader, &why) != 0)
		fail_msg("%s", why.text);
	assert_int_equal(reader_events(reader, &events), 0);
	reader_events_counts(events, &counts);
	while (reader_event_next(events, &event)) {
		uint64_t number = value_of(&event, 0);

		if ((uint32_t)number != ~(uint32_t)value_of(&event, 1) || (uint32_t)number != event.seq ||
		    (last && number <= last))
			fail_msg("number %lu (%x) sequence %u after number %lu sequence %lu", (unsigned long)number,
				 (unsigned)value_of(&event, 1), event.seq, (unsigned long)last, (unsigned long)last_seq);
		last = number;
		last_seq = event.seq;
	}
	reader_events_counts(events, &counts);
	assert_int_equal(counts.orphans + counts.unknown + counts.missing, 0);
	sum->events += counts.events;
	sum->overwritten += counts.overwritten;
	sum->torn += counts.torn;
	reader_events_free(events);
	reader_close(reader);
	return counts.events;
}

static void no_torn_event_of_a_live_writer_is_shown(void **state)
{
	static const uint32_t sizes[] = { 1024, 8192, 65536 };

	for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
		uint64_t end = clock_monotonic_ns() + 700 * NS_PER_MS;
		struct reader_counts sum = { 0 };
		struct rig rig = { 0 };
		int rounds = 0;

		rig_start(&rig, sizes[i], count_for_ever, NULL);
		for (; clock_monotonic_ns() < end; rounds++)
			check_counted(rig.path, &sum);
		print_message("# ring of %u: %d readings, %lu events shown\n", sizes[i], rounds, (unsigned long)sum.events);
		assert_true(sum.events > 0);
		assert_int_equal(sum.torn, 0);
		rig_kill(&rig);
		assert_true(check_counted(rig.path, &sum) >= sizes[i] - 2 * TRACE_PARTS_MAX);
		rig_clean(&rig);
	}
}

/* ---- a writer that overwrites the ring before a part of it is copied ---- */

enum { FAST_ENTRIES = 256, FAST_HEAD = 10 * FAST_ENTRIES };

static void the_latest_records_of_a_very_fast_writer_are_read(void **state)
{
	size_t bytes = sizeof(struct trace_ring) + FAST_ENTRIES * sizeof(struct trace_record);
	int fd = memfd_create("ring", MFD_CLOEXEC);
	struct reader_counts counts = { 0 };
	const struct trace_record *record;
	struct ring_reader ring;
	struct trace_ring *there;
	uint64_t seen = 0;

	(void)state;
	assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	there = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(there != MAP_FAILED);
	there->entry_count = FAST_ENTRIES;
	ring_reader_init_external(&ring, there, fd, sizeof(*there), &counts);
	ring.window_capacity = FAST_ENTRIES;
	ring.window = malloc(FAST_ENTRIES * sizeof(*ring.window));
	assert_non_null(ring.window);
	/* the reader begins when the ring is full, and copies it when the writer has overwritten all of it nine times */
	for (uint32_t i = 0; i < FAST_HEAD; i++)
		there->records[i % FAST_ENTRIES].seq = i;
	there->head = FAST_HEAD;
	for (int catches_up = 0; catches_up < 2; catches_up++) {
		ring.head = FAST_ENTRIES;
		ring.next = 0;
		ring.catches_up = catches_up;
		while ((record = ring_reader_peek(&ring))) {
			assert_int_equal(record->seq, FAST_HEAD - FAST_ENTRIES / 8 + seen);
			ring_reader_take(&ring);
			seen++;
		}
		assert_int_equal(seen, catches_up ? FAST_ENTRIES / 8 : 0);
	}
	assert_int_equal(ring.next, FAST_HEAD);
	free(ring.window);
	munmap(there, bytes);
	close(fd);
}

static void copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	static char buffer[65536];
	ssize_t got;

	assert_true(in >= 0 && out >= 0);
	while ((got = read(in, buffer, sizeof(buffer))) > 0)
		assert_int_equal(write(out, buffer, (size_t)got), got);
	close(in);
	close(out);
}

static void no_torn_event_of_a_copy_of_a_live_file_is_shown(void **state)
{
	uint64_t end = clock_monotonic_ns() + 1500 * NS_PER_MS;
	struct reader_counts sum = { 0 };
	struct rig rig = { 0 };
	char copy[400];
	int rounds = 0;

	rig_start(&rig, 262144, count_for_ever, NULL);
	snprintf(copy, sizeof(copy), "%s/copy", rig.directory);
	usleep(100000);
	for (; clock_monotonic_ns() < end; rounds++) {
		copy_file(rig.path, copy);
		check_counted(copy, &sum);
	}
	print_message("# %d copies: %lu events shown, %lu records torn\n", rounds, (unsigned long)sum.events,
		      (unsigned long)sum.torn);
	assert_true(sum.events > 0);
	unlink(copy);
	rig_clean(&rig);
}

static void a_live_file_is_detected_as_live_but_not_its_copy(void **state)
{
	struct rig rig = { 0 }, copy;
	struct reader *reader;

	rig_start(&rig, 1024, count_for_ever, NULL);
	reader = rig_open(&rig);
	assert_int_equal(reader_info(reader)->liveness, READER_ALIVE);
	assert_true(reader_now(reader) >= clock_ticks() - clock_tick_rate());
	reader_close(reader);
	copy = rig;
	snprintf(copy.path, sizeof(copy.path), "%s/rig_trace.pid1", rig.directory);
	copy_file(rig.path, copy.path);
	reader = rig_open(&copy);
	assert_int_equal(reader_info(reader)->liveness, READER_DEAD);
	reader_close(reader);
	unlink(copy.path);
	rig_clean(&rig);
}

/* ---- order ---- */

static void same_tick(void *ctx)
{
	uint64_t tick = clock_ticks();

	for (uint64_t i = 0; i < 900; i++) {
		/* runs of equal ticks, some of them shared */
		tick += i % 10 == 0 ? 2 : 0;
		if (i % 3)
			probe_count_io(tick | (i % 10 ? TICK_SHARED : 0), i, 0);
		else
			probe_count_rare(tick | (i % 10 ? TICK_SHARED : 0), i, 0);
	}
}

static void equal_ticks_keep_their_order_across_both_rings(void **state)
{
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;
	uint64_t next = 0;

	rig_run(&rig, 1024, same_tick, NULL);
	reader = rig_open(&rig);
	assert_int_equal(reader_events(reader, &events), 0);
	for (; reader_event_next(events, &event); next++) {
		assert_int_equal(value_of(&event, 0), next);
		assert_int_equal(event.shared, next % 10 != 0);
		assert_int_equal(event.tick & TICK_SHARED, 0);
		assert_int_equal(event.ring, next % 3 ? TRACE_RING_IO : TRACE_RING_RARE);
	}
	assert_int_equal(next, 900);
	reader_events_free(events);
	reader_close(reader);
	rig_clean(&rig);
}

static void count_rare_then_many(void *ctx)
{
	uint64_t tick = clock_ticks();

	/* a rare event hours ago, before the sequence number wrapped */
	probe_count_rare(tick, 0, 0);
	trace_self.seq += 0x90000000u;
	probe_count_io(tick + 3600 * clock_tick_rate(), 1, 0);
	trace_self.seq = UINT32_MAX - 1;
	tick += 7200 * clock_tick_rate();
	for (uint64_t i = 2; i < 8; i++) {
		if (i % 2)
			probe_count_io(tick, i, 0);
		else
			probe_count_rare(tick, i, 0);
	}
}

static void order_is_kept_when_the_sequence_number_wraps(void **state)
{
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;
	uint64_t next = 0;

	rig_run(&rig, 1024, count_rare_then_many, NULL);
	reader = rig_open(&rig);
	assert_int_equal(reader_events(reader, &events), 0);
	for (; reader_event_next(events, &event); next++)
		assert_int_equal(value_of(&event, 0), next);
	assert_int_equal(next, 8);
	reader_events_free(events);
	reader_close(reader);
	rig_clean(&rig);
}

static void *second_thread(void *ctx)
{
	must(trace_thread_attach("second", -1, false) == 0);
	for (uint64_t i = 0; i < 100; i++)
		probe_count_rare(1000 + 10 * i, i, 2);
	trace_thread_detach();
	return NULL;
}

static void two_threads(void *ctx)
{
	pthread_t thread;

	for (uint64_t i = 0; i < 100; i++)
		probe_count_rare(1000 + 10 * i, i, 1);
	must(pthread_create(&thread, NULL, second_thread, NULL) == 0);
	pthread_join(thread, NULL);
}

static void threads_are_merged_by_tick_and_then_by_slot(void **state)
{
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;
	uint64_t count = 0, tick = 0;

	rig_run(&rig, 1024, two_threads, NULL);
	reader = rig_open(&rig);
	assert_int_equal(reader_events(reader, &events), 0);
	for (; reader_event_next(events, &event) && count < 200; count++) {
		assert_true(event.tick >= tick);
		tick = event.tick;
		assert_int_equal(value_of(&event, 0), count / 2);
		assert_int_equal(value_of(&event, 1), count % 2 + 1);
		assert_int_equal(event.cpu, count % 2 ? -1 : 0);
	}
	assert_int_equal(count, 200);
	reader_events_free(events);
	reader_close(reader);
	rig_clean(&rig);
}

static void *short_thread(void *ctx)
{
	uintptr_t number = (uintptr_t)ctx;

	must(trace_thread_attach("short", -1, false) == 0);
	for (uint32_t i = 0; i < 10; i++)
		probe_count_rare(1000 + 100 * number + i, number, i);
	probe_count_io(1000 + 100 * number + 9, number, 10);
	trace_thread_detach();
	return NULL;
}

static void many_threads(void *ctx)
{
	/* more threads than slots: each slot gets several threads, one after the other */
	for (uintptr_t i = 0; i < 30; i++) {
		pthread_t thread;

		must(pthread_create(&thread, NULL, short_thread, (void *)i) == 0);
		pthread_join(thread, NULL);
	}
}

static void order_is_kept_when_slots_get_new_threads(void **state)
{
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;
	uint64_t count = 0;

	rig_run(&rig, 1024, many_threads, NULL);
	reader = rig_open(&rig);
	assert_int_equal(reader_events(reader, &events), 0);
	for (; reader_event_next(events, &event); count++) {
		assert_int_equal(value_of(&event, 0), count / 11);
		assert_int_equal(value_of(&event, 1), count % 11);
	}
	assert_int_equal(count, 30 * 11);
	reader_events_free(events);
	reader_close(reader);
	rig_clean(&rig);
}

/* ---- long records ---- */

static void many_long(void *ctx)
{
	struct demo_thing thing = { 0 };

	trace_object_init(&thing.trace, TRACE_OBJECT_THING);
	for (uint64_t i = 0; i < 20000; i++)
		probe_long_one(clock_ticks(), &thing, i, i << 1, i << 2, i << 3, i << 4, i << 5, ~i, (uint32_t)i);
}

static void long_records_are_joined(void **state)
{
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;
	struct reader_counts counts;
	uint64_t next = 0, count = 0;

	rig_run(&rig, 1024, many_long, NULL);
	reader = rig_open(&rig);
	assert_int_equal(reader_events(reader, &events), 0);
	for (; reader_event_next(events, &event); count++) {
		uint64_t number = value_of(&event, 0);

		assert_true(count == 0 || number == next);
		for (uint32_t i = 0; i < 6; i++)
			assert_int_equal(value_of(&event, i), number << i);
		assert_int_equal(value_of(&event, 6), ~number);
		assert_int_equal(value_of(&event, 7), number);
		next = number + 1;
	}
	assert_int_equal(next, 20000);
	reader_events_counts(events, &counts);
	assert_true(counts.orphans < TRACE_PARTS_MAX);
	assert_true(count >= TRACE_RARE_ENTRIES_DEFAULT / TRACE_PARTS_MAX - 2);
	reader_events_free(events);
	reader_close(reader);
	rig_clean(&rig);
}

/* ---- owners ---- */

static void recycle_owners(void *ctx)
{
	struct demo_thing thing = { 0 };
	uint64_t tick = clock_ticks(), second = clock_tick_rate() & ~TICK_SHARED;
	uint16_t first = trace_owner_create(TRACE_OWNER_SESSION, tick, "first");
	uint16_t stays = trace_owner_create(TRACE_OWNER_SESSION, tick, "stays"), owner;

	trace_object_init(&thing.trace, TRACE_OBJECT_THING);
	thing.trace.owner = first;
	thing_state_move(tick, &thing, THING_UP);
	trace_owner_destroy(first, tick + second);
	for (int i = 0; i < TRACE_OWNERS_MAX - 3; i++) {
		owner = trace_owner_create(TRACE_OWNER_SESSION, tick + 2 * second, "passing %d", i);
		must(owner != first && owner != stays);
		trace_owner_destroy(owner, tick + 2 * second);
	}
	thing.trace.owner = trace_owner_create(TRACE_OWNER_SESSION, tick + 3 * second, "last");
	must(thing.trace.owner == first);
	thing_state_move(tick + 4 * second, &thing, THING_DOWN);
	thing.trace.owner = stays;
	thing_state_move(tick + 5 * second, &thing, THING_NEW);
}

static void an_owner_is_not_confused_with_a_later_owner_of_its_id(void **state)
{
	static const char *const texts[] = { "", "last", "stays" };
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;
	size_t count = 0;

	rig_run(&rig, 1024, recycle_owners, NULL);
	reader = rig_open(&rig);
	assert_int_equal(reader_events(reader, &events), 0);
	for (; reader_event_next(events, &event); count++) {
		struct reader_owner owner;

		assert_true(count < ARRAY_COUNT(texts));
		assert_true(reader_owner(reader, event.owner, event.tick, &owner));
		assert_string_equal(owner.text, texts[count]);
		assert_string_equal(owner.prefix, count == 0 ? "o" : "q");
	}
	assert_int_equal(count, ARRAY_COUNT(texts));
	reader_events_free(events);
	reader_close(reader);
	rig_clean(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_events_are_read_after_sigkill),
		cmocka_unit_test(a_full_ring_keeps_the_latest_events),
		cmocka_unit_test(no_torn_event_of_a_live_writer_is_shown),
		cmocka_unit_test(the_latest_records_of_a_very_fast_writer_are_read),
		cmocka_unit_test(no_torn_event_of_a_copy_of_a_live_file_is_shown),
		cmocka_unit_test(a_live_file_is_detected_as_live_but_not_its_copy),
		cmocka_unit_test(equal_ticks_keep_their_order_across_both_rings),
		cmocka_unit_test(order_is_kept_when_the_sequence_number_wraps),
		cmocka_unit_test(threads_are_merged_by_tick_and_then_by_slot),
		cmocka_unit_test(order_is_kept_when_slots_get_new_threads),
		cmocka_unit_test(long_records_are_joined),
		cmocka_unit_test(an_owner_is_not_confused_with_a_later_owner_of_its_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
