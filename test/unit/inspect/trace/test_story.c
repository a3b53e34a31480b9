/* SPDX-License-Identifier: BSD-2-Clause */
/* Live requests, lives of objects, clearing, and the time of day. */
#include <unistd.h>

#include "rig.h"

static bool is_point(const struct reader_event *event, const char *name)
{
	return event->point && strcmp(event->point->name, name) == 0;
}

static void count_to(void *ctx)
{
	for (uint64_t i = 0; i < (uintptr_t)ctx; i++)
		probe_count_io(clock_ticks(), i, (uint32_t)i);
}

/* ---- live requests ---- */

static void hang(void *ctx)
{
	uint64_t tick = clock_ticks();

	for (uint32_t i = 0; i < 10000; i++)
		rig_one_order(i, tick + i * 2);
	rig_orders[3].story.args[0] = 0x42;
	order_state_move(tick + 30000, &rig_orders[3], ORDER_RECEIVED);
	order_state_move(tick + 40000, &rig_orders[3], ORDER_WAITING);
	for (uint32_t i = 4; i < 10004; i++) {
		if (i % ORDERS != 3)
			rig_one_order(i, tick + 50000 + i * 2);
	}
}

static void a_hung_request_is_shown_after_its_events_were_overwritten(void **state)
{
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_walk walk = { 0 };
	struct reader_story story;

	rig_run(&rig, 1024, hang, NULL);
	reader = rig_open(&rig);
	assert_true(reader_story_next(reader, &walk, &story));
	assert_string_equal(story.object->name, "order");
	assert_int_equal(story.id, 3);
	assert_string_equal(story.object->machine->states[story.state].name, "WAITING");
	assert_int_equal(story.entered_tick - story.begin_tick, 10000);
	assert_int_equal(story.args[0], 0x42);
	assert_int_equal(story.ticks[ORDER_EXECUTING], 0); /* the tick of an earlier life is not shown */
	assert_true(reader_now(reader) >= story.begin_tick + 40000);
	assert_false(reader_story_next(reader, &walk, &story));
	assert_int_equal(walk.seen, 2 * ORDERS);
	reader_close(reader);
	rig_clean(&rig);
}

static void begin_and_flood(void *ctx)
{
	uint64_t tick = clock_ticks();

	order_state_move(tick, &rig_orders[3], ORDER_RECEIVED);
	thing_state_move(tick, ctx, THING_UP);
	count_to((void *)2000);
	order_state_move(tick + 1000000, &rig_orders[3], ORDER_EXECUTING);
}

static void the_begin_of_a_life_is_known_after_its_events_were_overwritten(void **state)
{
	struct demo_thing thing = { .trace.type = TRACE_OBJECT_THING };
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;
	bool seen = false;

	rig_run(&rig, 1024, begin_and_flood, &thing);
	reader = rig_open(&rig);
	assert_int_equal(reader_events(reader, &events), 0);
	while (reader_event_next(events, &event)) {
		if (!is_point(&event, "order_state"))
			continue;
		seen = true;
		assert_false(event.total_partial);
		assert_int_equal(event.total_ticks, 1000000);
	}
	assert_true(seen);
	reader_events_free(events);
	reader_close(reader);
	rig_clean(&rig);
}

static void create_too_large_pool(void *ctx)
{
	struct trace_pool_spec spec = { .type = TRACE_OBJECT_ORDER,
					.story_offset = offsetof(struct demo_order, story),
					.stride = sizeof(struct demo_order),
					.count = 4096 };

	order_state_move(clock_ticks(), &rig_orders[3], ORDER_RECEIVED);
	must(trace_pool_create(&spec));
}

static void requests_without_room_in_the_file_are_counted(void **state)
{
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_walk walk = { 0 };
	struct reader_story story;

	rig_run(&rig, 1024, create_too_large_pool, NULL);
	reader = rig_open(&rig);
	assert_true(reader_story_next(reader, &walk, &story));
	assert_int_equal(reader_stories_outside_file(reader, story.object), 4096);
	assert_int_equal(reader_stories_outside_file(reader, NULL), 0);
	assert_false(reader_story_next(reader, &walk, &story));
	reader_close(reader);
	rig_clean(&rig);
}

static void belong_and_flood(void *ctx)
{
	uint64_t tick = clock_ticks();

	for (uint32_t i = 3; i < 5; i++) {
		rig_jobs[i].story.args[1] = trace_ref(&rig_orders[i + 4].story.trace);
		probe_job_submit(tick, &rig_jobs[i], &rig_orders[i + 4], 8, DEMO_READ);
	}
	count_to((void *)2000);
	probe_job_run(tick + 1000, &rig_jobs[3], NULL);
}

static void the_parent_of_a_request_is_known_after_its_events_were_overwritten(void **state)
{
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;
	struct reader_walk walk = { 0 };
	struct reader_story story;
	uint32_t seen = 0;

	rig_run(&rig, 1024, belong_and_flood, NULL);
	reader = rig_open(&rig);
	for (uint32_t i = 3; i < 5; i++) {
		assert_true(reader_story_next(reader, &walk, &story));
		assert_int_equal(story.id, i);
		assert_non_null(story.parent);
		assert_string_equal(story.parent->name, "order");
		assert_int_equal(story.parent_id, i + 4);
	}
	assert_false(reader_story_next(reader, &walk, &story));
	assert_int_equal(reader_events(reader, &events), 0);
	while (reader_event_next(events, &event)) {
		assert_false(is_point(&event, "job_submit"));
		if (!is_point(&event, "job_run"))
			continue;
		seen++;
		assert_non_null(event.related);
		assert_string_equal(event.related->name, "order");
		assert_int_equal(event.related_id, 7);
		assert_int_equal(event.total_ticks, 1000);
	}
	assert_int_equal(seen, 1);
	reader_events_free(events);
	reader_close(reader);
	rig_clean(&rig);
}

/* ---- owners ---- */

/* Describe the owner by texts of one letter, up to the maximum length, as fast as possible. */
static void describe_for_ever(void *ctx)
{
	uint16_t owner = trace_owner_create(TRACE_OWNER_SESSION, 0, "%s", "aaaa");
	char text[104] = "";

	must(owner == 1);
	for (uint32_t i = 0;; i++) {
		memset(text, (int)('a' + i % 26), sizeof(text) - 1 - i % 50);
		text[sizeof(text) - 1 - i % 50] = '\0';
		trace_owner_describe(owner, "%s", text);
	}
}

static void no_partly_written_text_of_an_owner_is_shown(void **state)
{
	uint32_t whole = 0;

	for (int round = 0; round < 20; round++) {
		struct rig rig = { 0 };
		struct reader *reader;
		struct reader_owner owner;

		rig_start(&rig, 1024, describe_for_ever, NULL);
		reader = rig_open(&rig);
		for (int i = 0; i < 20000; i++) {
			if (i == 19990)
				rig_kill(&rig);
			assert_true(reader_owner(reader, 1, clock_ticks(), &owner));
			assert_int_equal(strspn(owner.text, (char[]){ owner.text[0], '\0' }), strlen(owner.text));
			whole += owner.text[0] != '\0';
		}
		reader_close(reader);
		rig_clean(&rig);
	}
	assert_true(whole > 20 * 1000);
}

/* ---- clearing, time ---- */

static void clear_in_between(void *ctx)
{
	count_to((void *)10);
	trace_clear();
	count_to((void *)5);
}

static void cleared_events_are_not_shown_and_counted(void **state)
{
	struct rig rig = { 0 };
	struct reader_counts counts;

	rig_run(&rig, 1024, clear_in_between, NULL);
	assert_int_equal(rig_read_all(rig.path, &counts), 0);
	assert_int_equal(counts.events, 5);
	assert_int_equal(counts.cleared, 10);
	rig_clean(&rig);
}

static void note_times(void *ctx)
{
	/* more than the file has room for */
	for (int i = 0; i < 100; i++) {
		usleep(1000);
		trace_clock_note();
	}
	probe_nothing(clock_ticks());
}

static void ticks_are_converted_to_the_time_of_day(void **state)
{
	uint64_t before = clock_realtime_ns(), after, at_event = 0, at_start, at_end;
	struct rig rig = { 0 };
	struct reader *reader;
	struct reader_events *events;
	struct reader_event event;

	rig_run(&rig, 1024, note_times, NULL);
	after = clock_realtime_ns();
	reader = rig_open(&rig);
	assert_int_equal(reader_events(reader, &events), 0);
	while (reader_event_next(events, &event))
		assert_int_equal(reader_wall_ns(reader, event.tick, &at_event), 0);
	assert_int_equal(reader_wall_ns(reader, reader_info(reader)->start_tick, &at_start), 0);
	assert_int_equal(reader_wall_ns(reader, reader_info(reader)->start_tick + clock_tick_rate(), &at_end), 0);
	assert_true(at_start >= before - NS_PER_MS && at_event > at_start && at_event <= after + NS_PER_MS);
	assert_true(at_end - at_start > 990 * NS_PER_MS && at_end - at_start < 1010 * NS_PER_MS);
	reader_events_free(events);
	reader_close(reader);
	rig_clean(&rig);
}

static void ticks_are_converted_to_exact_nanoseconds(void **state)
{
	static const uint64_t ticks[] = { 0, 1, 2, 3, 2599999999, 2600000000, 123456789012345678, UINT64_MAX / 3 };
	struct rig rig = { 0 };
	struct reader *reader;
	uint64_t rate;

	rig_run(&rig, 1024, count_to, NULL);
	reader = rig_open(&rig);
	rate = reader_info(reader)->tick_rate;
	for (size_t i = 0; i < ARRAY_COUNT(ticks); i++)
		assert_int_equal(reader_ns_from_ticks(reader, ticks[i]),
				 (uint64_t)((unsigned __int128)ticks[i] * NS_PER_SEC / rate));
	for (uint64_t i = 0; i < 1000000; i++)
		assert_true(reader_ns_from_ticks(reader, i * 977) ==
			    (uint64_t)((unsigned __int128)(i * 977) * NS_PER_SEC / rate));
	for (uint64_t tick = 1; tick < BIT(60); tick += tick / 1000 + 1)
		assert_true(reader_ns_from_ticks(reader, tick) == (uint64_t)((unsigned __int128)tick * NS_PER_SEC / rate));
	reader_close(reader);
	rig_clean(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hung_request_is_shown_after_its_events_were_overwritten),
		cmocka_unit_test(the_begin_of_a_life_is_known_after_its_events_were_overwritten),
		cmocka_unit_test(requests_without_room_in_the_file_are_counted),
		cmocka_unit_test(the_parent_of_a_request_is_known_after_its_events_were_overwritten),
		cmocka_unit_test(no_partly_written_text_of_an_owner_is_shown),
		cmocka_unit_test(cleared_events_are_not_shown_and_counted),
		cmocka_unit_test(ticks_are_converted_to_the_time_of_day),
		cmocka_unit_test(ticks_are_converted_to_exact_nanoseconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
