/* SPDX-License-Identifier: BSD-2-Clause */
/* The events read equal those recorded: arguments, objects, owners. */
#include "rig.h"

static char path[256];

/* Assert that the records of events and the records left out add up to all records. */
static void assert_all_accounted(const struct reader_counts *counts, uint64_t of_events)
{
	assert_int_equal(counts->recorded, counts->overwritten + counts->torn + counts->missing + counts->cleared +
						   counts->orphans + counts->unknown + of_events);
}

static void events_with_equal_ticks_keep_their_order(void **state)
{
	struct spdk_file file;
	struct reader *reader;
	struct reader_event *events;
	struct reader_counts counts;
	uint32_t count;

	rig_file(&file, 2, 64);
	for (uint64_t i = 0; i < 20; i++)
		rig_record(&file, 0, 1000, PLAIN, 0, i);
	for (uint64_t i = 0; i < 20; i++)
		rig_record(&file, 1, 1000, PLAIN, 0, 100 + i);
	reader = rig_open(&file, path);
	events = rig_events(reader, &count, &counts);
	assert_int_equal(count, 40);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(events[i].tick, 1000);
		assert_int_equal(events[i].cpu, i / 20);
		assert_int_equal(rig_arg(&events[i], "n"), i < 20 ? i : 80 + i);
	}
	assert_all_accounted(&counts, 40);
	free(events);
	reader_close(reader);
	spdk_file_free(&file);
}

static void odd_ticks_are_exact_and_not_shared(void **state)
{
	struct spdk_file file;
	struct reader *reader;
	struct reader_event *events;
	uint32_t count;

	rig_file(&file, 1, 64);
	for (uint64_t i = 0; i < 10; i++)
		rig_record(&file, 0, 1001 + i, PLAIN, 0, i);
	reader = rig_open(&file, path);
	events = rig_events(reader, &count, NULL);
	assert_int_equal(count, 10);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(events[i].tick, 1001 + i);
		assert_false(events[i].shared);
	}
	assert_int_equal(reader_info(reader)->start_tick, 1001);
	assert_int_equal(reader_now(reader), 1010);
	free(events);
	reader_close(reader);
	spdk_file_free(&file);
}

/* A tick may be read before another event is recorded. */
static void events_are_sorted_by_tick(void **state)
{
	static const uint64_t ticks[] = { 100, 300, 200, 400, 350 };
	struct spdk_file file;
	struct reader *reader;
	struct reader_event *events;
	uint32_t count;

	rig_file(&file, 1, 64);
	for (size_t i = 0; i < ARRAY_COUNT(ticks); i++)
		rig_record(&file, 0, ticks[i], PLAIN, 0, i);
	reader = rig_open(&file, path);
	events = rig_events(reader, &count, NULL);
	assert_int_equal(count, ARRAY_COUNT(ticks));
	for (uint32_t i = 1; i < count; i++)
		assert_true(events[i].tick > events[i - 1].tick);
	free(events);
	reader_close(reader);
	spdk_file_free(&file);
}

static void overwritten_entries_of_a_wrapped_ring_are_counted(void **state)
{
	for (uint64_t amount = 60; amount < 200; amount++) {
		struct spdk_file file;
		struct reader *reader;
		struct reader_event *events;
		struct reader_counts counts;
		struct reader_thread thread;
		uint64_t kept = min_u64(amount, 64);
		uint32_t count;

		rig_file(&file, 1, 64);
		for (uint64_t i = 0; i < amount; i++)
			rig_record(&file, 0, 1000 + i, PLAIN, 0, i);
		reader = rig_open(&file, path);
		events = rig_events(reader, &count, &counts);
		assert_int_equal(count, kept);
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(rig_arg(&events[i], "n"), amount - kept + i);
		assert_int_equal(counts.overwritten, amount - kept);
		assert_all_accounted(&counts, kept);
		assert_true(reader_thread(reader, 0, &thread));
		assert_int_equal(thread.recorded[0], amount);
		assert_int_equal(reader_point_by_name(reader, "plain")->total, amount);
		free(events);
		reader_close(reader);
		spdk_file_free(&file);
	}
}

static void eight_arguments_of_eight_bytes_and_a_size_are_read(void **state)
{
	struct spdk_file_event event = {
		.tick = 5000,
		.tpoint = WIDE,
		.object = 0x7fff12345678,
		.size = 4096,
		.owner = 300,
		.values = { { 0x1111111122222222, 0 },
			    { 0x3333333344444444, 0 },
			    { 0x55555555, 0 },
			    { 0x66666666, 0 },
			    { 0x7777777788888888, 0 },
			    { UINT64_MAX, 0 },
			    { 0, 0 },
			    { 0x99999999aaaaaaaa, 0 } },
	};
	struct spdk_file file;
	struct reader *reader;
	char *text;

	rig_file(&file, 1, 8);
	/* across the end of the ring */
	for (uint64_t i = 0; i < 6; i++)
		rig_record(&file, 0, 1000 + i, PLAIN, 0, i);
	assert_int_equal(spdk_file_record(&file, 0, &event), 4);
	reader = rig_open(&file, path);
	text = rig_text(reader, READER_PRINT_TEXT);
	assert_non_null(strstr(text, "id: r0 "));
	assert_non_null(strstr(text,
			       "size: 4096 thirteen_char: 1229782938533634594 b: 0x3333333344444444 c: 1431655765 d: "
			       "0x66666666 e: 8608480568017455240 f: 18446744073709551615 g: 0 h: 11068046444512062122 "
			       "address: 0x00007fff12345678\n"));
	free(text);
	text = rig_text(reader, READER_PRINT_JSON);
	assert_non_null(strstr(text, "\"thirteen_char\":1229782938533634594"));
	free(text);
	reader_close(reader);
	spdk_file_free(&file);
}

static void texts_are_read_whole(void **state)
{
	char longest[300];
	struct spdk_file_event event = { .tick = 5000, .tpoint = TEXTS };
	struct spdk_file file;
	struct reader *reader;
	struct reader_event *events;
	struct reader_counts counts;
	uint32_t count, parts = 0;
	size_t bytes;

	memset(longest, 'x', sizeof(longest));
	longest[254] = '\0';
	longest[253] = 'z';
	event.values[0].text = "as long as it can be and longer";
	event.values[1].number = 7;
	event.values[2].text = longest;
	event.values[3].text = "";
	event.values[4].number = 8;
	rig_file(&file, 1, 64);
	for (int i = 0; i < 9; i++) {
		event.tick++;
		parts += spdk_file_record(&file, 0, &event);
	}
	assert_true(parts > 64);
	reader = rig_open(&file, path);
	events = rig_events(reader, &count, &counts);
	assert_int_equal(count, 4);
	for (uint32_t i = 0; i < count; i++) {
		const char *text = reader_string(reader, (uint32_t)rig_arg(&events[i], "first"), &bytes);

		assert_int_equal(bytes, 19);
		assert_memory_equal(text, event.values[0].text, 19);
		text = reader_string(reader, (uint32_t)rig_arg(&events[i], "second_of_all"), &bytes);
		assert_int_equal(bytes, 254);
		assert_memory_equal(text, longest, 254);
		assert_int_equal(rig_arg(&events[i], "arg"), 0);
		/* two arguments with the same name get different names */
		assert_int_equal(rig_arg(&events[i], "n"), 7);
		assert_int_equal(rig_arg(&events[i], "n_2"), 8);
	}
	/* only continuations of the oldest event are left */
	assert_true(counts.orphans > 0);
	assert_all_accounted(&counts, 4 * (uint64_t)(parts / 9));
	free(events);
	reader_close(reader);
	spdk_file_free(&file);
}

static void each_life_of_an_object_gets_a_number_and_a_parent(void **state)
{
	static const struct {
		uint16_t tpoint;
		uint64_t object, ctx;
		const char *line;
	} steps[] = {
		{ REQ_RUN, 0xa0, 0, "id: r4 " }, /* its begin is not in the file */
		{ REQ_NEW, 0xa8, 0, "id: r0 " },	 { IO_START, 0xb0, 0xa8, "id: i0 (r0)" },
		{ REQ_NEW, 0xa0, 0, "id: r1 " },	 { IO_DONE, 0xb0, 0xa8, "id: i0 (r0)" },
		{ REQ_DONE, 0xa8, 0, "id: r0 " },	 { REQ_NEW, 0xa8, 0, "id: r2 " },
		{ IO_START, 0xb0, 0xa8, "id: i1 (r2)" }, /* the same addresses, new lives */
		{ IO_DONE, 0xb0, 0xa8, "id: i1 (r2)" },	 { IO_START, 0xb8, 0xdead, "id: i2 " },
		{ REQ_NEW, 0xa8, 0, "id: r3 " },
	};
	struct spdk_file file;
	struct reader *reader;
	char *text, *line, *save;

	rig_file(&file, 1, 64);
	for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
		struct spdk_file_event event = rig_event(1000 + i * 10, steps[i].tpoint, steps[i].object, 1);

		event.values[steps[i].tpoint == IO_START].number = steps[i].ctx;
		spdk_file_record(&file, 0, &event);
	}
	reader = rig_open(&file, path);
	text = rig_text(reader, READER_PRINT_TEXT);
	line = strtok_r(text, "\n", &save);
	for (size_t i = 0; i < ARRAY_COUNT(steps); i++, line = strtok_r(NULL, "\n", &save)) {
		assert_non_null(line);
		if (!strstr(line, steps[i].line))
			fail_msg("%s is not in %s", steps[i].line, line);
	}
	assert_null(line);
	free(text);
	reader_close(reader);
	spdk_file_free(&file);
}

static void an_owner_is_shown_only_for_events_after_its_registration(void **state)
{
	char longest[119];
	struct spdk_file_event event = rig_event(1000, PLAIN, 0, 1);
	struct spdk_file file;
	struct reader *reader;
	char *text;

	memset(longest, 'q', sizeof(longest));
	longest[118] = '\0';
	rig_file(&file, 1, 64);
	spdk_file_owner(&file, 300, 2000, OWNER_QPAIR, "second holder qid:1");
	spdk_file_owner(&file, 301, 500, OWNER_QPAIR, longest);
	event.owner = 300;
	spdk_file_record(&file, 0, &event); /* of an earlier holder of the id */
	event.tick = 2001;
	spdk_file_record(&file, 0, &event);
	event.tick = 2002;
	event.owner = 301;
	spdk_file_record(&file, 0, &event);
	event.tick = 2003;
	event.owner = 9999;
	spdk_file_record(&file, 0, &event);
	reader = rig_open(&file, path);
	text = rig_text(reader, READER_PRINT_TEXT);
	assert_non_null(strstr(text, "[o300]"));
	assert_non_null(strstr(text, "[t300 second holder qid:1]"));
	assert_non_null(strstr(text, longest));
	assert_non_null(strstr(text, "[o9999]"));
	free(text);
	reader_close(reader);
	spdk_file_free(&file);
}

static void points_without_a_name_are_counted(void **state)
{
	struct spdk_file file;
	struct reader *reader;
	struct reader_event *events;
	struct reader_counts counts;
	uint32_t count;

	rig_file(&file, 1, 64);
	rig_record(&file, 0, 1000, 77, 0, 0);
	rig_record(&file, 0, 1001, PLAIN, 0, 0);
	rig_record(&file, 0, 1002, 60000, 0, 0);
	reader = rig_open(&file, path);
	events = rig_events(reader, &count, &counts);
	assert_int_equal(count, 1);
	assert_int_equal(counts.unknown, 2);
	assert_all_accounted(&counts, 1);
	free(events);
	reader_close(reader);
	spdk_file_free(&file);
}

static void cleared_events_are_not_shown_and_counted(void **state)
{
	struct spdk_file file;
	struct reader *reader;
	struct reader_event *events;
	struct reader_counts counts;
	uint32_t count;

	rig_file(&file, 1, 64);
	for (uint64_t i = 0; i < 10; i++)
		rig_record(&file, 0, 1000 + i, REQ_NEW, 0xa0, i);
	spdk_file_clear(&file, 1005);
	reader = rig_open(&file, path);
	events = rig_events(reader, &count, &counts);
	assert_int_equal(count, 5);
	assert_int_equal(counts.cleared, 5);
	assert_int_equal(events[0].tick, 1005);
	assert_int_equal(events[0].object_id, 0);
	free(events);
	reader_close(reader);
	spdk_file_free(&file);
}

static void groups_and_masks_equal_those_of_the_target(void **state)
{
	struct spdk_file file;
	struct reader *reader;
	const struct reader_point *point;

	rig_file(&file, 1, 64);
	memset(file.bytes + file.sections[2] + 128 + 3 * 8, 0, 8);
	reader = rig_open(&file, path);
	point = reader_point_by_name(reader, "bdev_io_start");
	assert_string_equal(point->group->name, "bdev");
	assert_false(reader_point_enabled(reader, point));
	point = reader_point_by_name(reader, "TCP_REQ_NEW");
	assert_string_equal(point->group->name, "nvmf_tcp");
	assert_true(reader_point_enabled(reader, point));
	assert_string_equal(reader_point_by_name(reader, "PLAIN")->group->name, "group_19");
	assert_true(reader_info(reader)->spdk);
	assert_int_equal(reader_info(reader)->tick_rate, SPDK_FILE_TICK_RATE);
	assert_int_equal(reader_info(reader)->liveness, READER_DEAD);
	assert_true(reader_info(reader)->died);
	assert_null(reader_info(reader)->problem);
	reader_close(reader);
	spdk_file_free(&file);
}

static void events_of_many_threads_are_read(void **state)
{
	struct spdk_file file;
	struct reader *reader;
	struct reader_event *events;
	struct reader_thread thread;
	uint32_t count;

	rig_file(&file, 200, 16);
	for (uint32_t core = 0; core < 200; core++)
		rig_record(&file, core, 2000 - core, PLAIN, 0, core);
	spdk_file_thread_name(&file, 199, "helper");
	reader = rig_open(&file, path);
	events = rig_events(reader, &count, NULL);
	assert_int_equal(count, 200);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(events[i].thread, 199 - i);
	assert_int_equal(events[0].cpu, -1);
	assert_int_equal(events[1].cpu, 198);
	assert_true(reader_thread(reader, 199, &thread));
	assert_string_equal(thread.name, "helper");
	free(events);
	reader_close(reader);
	spdk_file_free(&file);
}

/* ---- stages ---- */

/* Record `lives` of requests, each of 10 + 100 ticks, and one that does not end. */
static void record_lives(struct spdk_file *file, uint64_t lives)
{
	uint64_t tick = 1000;

	for (uint64_t i = 0; i < lives; i++, tick += 1000) {
		rig_record(file, 0, tick, REQ_NEW, 0xa0 + i % 4, i);
		rig_record(file, 0, tick + 10, REQ_RUN, 0xa0 + i % 4, 0);
		rig_record(file, 0, tick + 110, REQ_DONE, 0xa0 + i % 4, 0);
	}
	rig_record(file, 0, tick, REQ_NEW, 0xbb, 77);
	rig_record(file, 0, tick + 5, REQ_RUN, 0xbb, 0);
	rig_record(file, 0, tick + 3005, PLAIN, 0, 0);
}

static void points_are_stages_and_the_end_point_is_found(void **state)
{
	struct spdk_file file;
	struct reader *reader;
	struct reader_stages *stages;
	struct reader_printer *printer;
	struct reader_event *events;
	uint32_t count;
	char *text = NULL;
	size_t bytes;
	FILE *memory = open_memstream(&text, &bytes);

	rig_file(&file, 1, 256);
	record_lives(&file, 50);
	reader = rig_open(&file, path);
	assert_string_equal(reader_point_by_name(reader, "tcp_req_new")->machine->states[1].name, "NEW");
	assert_int_equal(reader_point_by_name(reader, "tcp_req_over")->moves_to, 0);
	assert_int_equal(reader_stages_create(reader, &stages), 0);
	events = rig_events(reader, &count, NULL);
	for (uint32_t i = 0; i < count; i++)
		reader_stages_event(stages, &events[i]);
	assert_int_equal(reader_printer_create(reader, memory, READER_PRINT_JSON, false, &printer), 0);
	reader_print_stages(printer, stages);
	assert_int_equal(reader_printer_destroy(printer), 0);
	fclose(memory);
	assert_non_null(strstr(text, "\"lives\":50"));
	assert_non_null(strstr(text, "\"stage\":\"NEW\",\"count\":50,\"avg_us\":0.010"));
	assert_non_null(strstr(text, "\"stage\":\"RUN\",\"count\":50,\"avg_us\":0.100"));
	free(text);
	free(events);
	reader_stages_free(stages);
	reader_close(reader);
	spdk_file_free(&file);
}

/* A life was abandoned and its address used again: its last point must not count as an end. */
static void a_point_that_other_lives_continue_after_is_not_an_end(void **state)
{
	struct spdk_file file;
	struct reader *reader;

	rig_file(&file, 1, 256);
	rig_record(&file, 0, 500, REQ_NEW, 0xa0, 0);
	rig_record(&file, 0, 510, REQ_RUN, 0xa0, 0);
	record_lives(&file, 20);
	reader = rig_open(&file, path);
	assert_int_equal(reader_point_by_name(reader, "tcp_req_over")->moves_to, 0);
	assert_int_equal(reader_point_by_name(reader, "tcp_req_run")->moves_to, 2);
	reader_close(reader);
	spdk_file_free(&file);
}

/* No address was used again, so only the name shows the end point. */
static void an_end_point_without_a_successor_is_found_by_its_name(void **state)
{
	struct spdk_file file;
	struct reader *reader;

	rig_file(&file, 1, 256);
	rig_record(&file, 0, 500, IO_START, 0xa0, 0);
	rig_record(&file, 0, 510, IO_DONE, 0xa0, 0);
	rig_record(&file, 0, 520, REQ_NEW, 0xa0, 0);
	rig_record(&file, 0, 530, REQ_DONE, 0xa0, 0);
	reader = rig_open(&file, path);
	assert_int_equal(reader_point_by_name(reader, "bdev_io_done")->moves_to, 0);
	assert_null(reader_point_by_name(reader, "tcp_req_over")->machine);
	reader_close(reader);
	spdk_file_free(&file);
}

static void objects_without_an_end_are_live(void **state)
{
	struct spdk_file_event start = rig_event(60000, IO_START, 0xcc, 1);
	struct reader_walk walk = { 0 };
	struct reader_story story;
	struct spdk_file file;
	struct reader *reader;

	rig_file(&file, 1, 256);
	record_lives(&file, 50);
	start.values[1].number = 0xbb;
	start.values[2].number = 123456789012;
	spdk_file_record(&file, 0, &start);
	start.tick++;
	start.object = 0xdd;
	start.owner = 301;
	spdk_file_record(&file, 0, &start);
	rig_record(&file, 0, 60002, IO_DONE, 0xdd, 0xbb);
	reader = rig_open(&file, path);
	assert_true(reader_story_next(reader, &walk, &story));
	assert_string_equal(story.object->name, "bdev_io");
	assert_string_equal(story.object->machine->states[story.state].name, "START");
	assert_string_equal(story.parent->name, "nvmf_tcp_req");
	assert_int_equal(story.parent_id, 50);
	assert_int_equal(story.args[1], 1);
	assert_int_equal(story.args[3], 0xbb);
	assert_true(reader_story_next(reader, &walk, &story));
	assert_string_equal(story.object->name, "nvmf_tcp_req");
	assert_string_equal(story.object->machine->states[story.state].name, "RUN");
	assert_int_equal(story.id, 50);
	assert_int_equal(story.begin_tick, 51000);
	assert_int_equal(story.entered_tick, 51005);
	assert_false(story.partial);
	assert_int_equal(story.args[1], 77);
	assert_int_equal(reader_now(reader), 60002);
	assert_false(reader_story_next(reader, &walk, &story));
	reader_close(reader);
	spdk_file_free(&file);
}

static void the_age_of_an_object_begun_before_the_file_is_a_lower_bound(void **state)
{
	struct reader_walk walk = { 0 };
	struct reader_story story;
	struct spdk_file file;
	struct reader_event *events;
	struct reader *reader;
	uint32_t count;

	rig_file(&file, 1, 256);
	rig_record(&file, 0, 500, REQ_RUN, 0xee, 0);
	record_lives(&file, 20);
	reader = rig_open(&file, path);
	assert_true(reader_story_next(reader, &walk, &story));
	assert_int_equal(story.id, 21);
	assert_true(story.partial);
	assert_int_equal(story.begin_tick, 500);
	events = rig_events(reader, &count, NULL);
	assert_true(events[0].total_partial);
	free(events);
	reader_close(reader);
	spdk_file_free(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_with_equal_ticks_keep_their_order),
		cmocka_unit_test(odd_ticks_are_exact_and_not_shared),
		cmocka_unit_test(events_are_sorted_by_tick),
		cmocka_unit_test(overwritten_entries_of_a_wrapped_ring_are_counted),
		cmocka_unit_test(eight_arguments_of_eight_bytes_and_a_size_are_read),
		cmocka_unit_test(texts_are_read_whole),
		cmocka_unit_test(each_life_of_an_object_gets_a_number_and_a_parent),
		cmocka_unit_test(an_owner_is_shown_only_for_events_after_its_registration),
		cmocka_unit_test(points_without_a_name_are_counted),
		cmocka_unit_test(cleared_events_are_not_shown_and_counted),
		cmocka_unit_test(groups_and_masks_equal_those_of_the_target),
		cmocka_unit_test(events_of_many_threads_are_read),
		cmocka_unit_test(points_are_stages_and_the_end_point_is_found),
		cmocka_unit_test(a_point_that_other_lives_continue_after_is_not_an_end),
		cmocka_unit_test(an_end_point_without_a_successor_is_found_by_its_name),
		cmocka_unit_test(objects_without_an_end_are_live),
		cmocka_unit_test(the_age_of_an_object_begun_before_the_file_is_a_lower_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
