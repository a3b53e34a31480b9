/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines printed by several CPUs are put into the order of their times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "inspect/script/order.h"

#define MS 1000000ull

static char out[4096];
static size_t out_bytes;

static void emit(void *ctx, const struct order_text *text)
{
	assert_true(out_bytes + text->bytes < sizeof(out));
	memcpy(out + out_bytes, text->text, text->bytes);
	out_bytes += text->bytes;
	out[out_bytes] = '\0';
}

static struct order *create(uint32_t sources, uint32_t cpus)
{
	out_bytes = 0;
	out[0] = '\0';
	return order_create(sources, cpus, emit, NULL);
}

/* Feed a printf() of `cpu` at `ms`. */
static void print(struct order *order, uint32_t source, unsigned ms, unsigned cpu, const char *text, uint64_t now_ms)
{
	char piece[256];
	int bytes = snprintf(piece, sizeof(piece), "\036%llx,%x\037%s\035", ms * MS, cpu, text);

	/* in two parts: a read may end anywhere */
	order_feed(order, source, piece, (size_t)bytes / 2, now_ms * MS);
	order_feed(order, source, piece + bytes / 2, (size_t)(bytes - bytes / 2), now_ms * MS);
}

static void feed(struct order *order, uint32_t source, const char *text, uint64_t now_ms)
{
	order_feed(order, source, text, strlen(text), now_ms * MS);
}

static void a_line_waits_until_each_cpu_has_a_later_time(void **state)
{
	struct order *order = create(1, 2);

	order_expect(order, 0, true);
	print(order, 0, 100, 0, "", 100);
	print(order, 0, 100, 1, "", 100);
	print(order, 0, 150, 1, "third\n", 151);
	print(order, 0, 130, 1, "second\n", 151);
	order_release(order, 152 * MS);
	assert_string_equal(out, "");
	print(order, 0, 120, 0, "first\n", 153);
	print(order, 0, 140, 0, "", 153);
	order_release(order, 154 * MS);
	assert_string_equal(out, "first\nsecond\n");
	print(order, 0, 200, 0, "", 201);
	print(order, 0, 200, 1, "", 201);
	order_release(order, 202 * MS);
	assert_string_equal(out, "first\nsecond\nthird\n");
	order_destroy(order);
}

static void a_silent_cpu_delays_lines_for_at_most_a_second(void **state)
{
	struct order *order = create(1, 2);

	order_expect(order, 0, true);
	print(order, 0, 100, 0, "late\n", 100);
	order_release(order, 1000 * MS);
	assert_string_equal(out, "");
	order_release(order, 1101 * MS);
	assert_string_equal(out, "late\n");
	order_destroy(order);
}

static void lines_of_two_sources_are_merged_by_time(void **state)
{
	struct order *order = create(2, 1);

	order_expect(order, 0, true);
	order_expect(order, 1, true);
	print(order, 0, 110, 0, "b\n", 120);
	print(order, 1, 105, 0, "a\n", 121);
	print(order, 0, 130, 0, "d\n", 131);
	print(order, 1, 120, 0, "c\n", 131);
	order_release(order, 132 * MS);
	assert_string_equal(out, "a\nb\n");
	order_end(order, 0);
	order_end(order, 1);
	order_release(order, 133 * MS);
	assert_string_equal(out, "a\nb\nc\nd\n");
	order_destroy(order);
}

static void maps_stay_in_order_and_messages_of_bpftrace_are_dropped(void **state)
{
	struct order *order = create(1, 1);

	order_expect(order, 0, false);
	feed(order, 0, "Attaching 3 probes...\n", 1);
	print(order, 0, 100, 0, "title\n", 100);
	feed(order, 0, "\03612a05f200,0\034@a: 1\n\n\n@b: 2\n", 100);
	feed(order, 0, "Lost 17 events\n@un", 100);
	feed(order, 0, "finished", 100);
	order_release(order, 101 * MS);
	assert_string_equal(out, "title\n@a: 1\n\n@b: 2\n");
	assert_int_equal(order_lost(order, 0), 17);
	order_end(order, 0);
	order_release(order, 102 * MS);
	assert_string_equal(out, "title\n@a: 1\n\n@b: 2\n@unfinished");
	order_destroy(order);
}

static void invalid_marks_are_ignored(void **state)
{
	static const char *const pieces[] = { "\036zz\037x\035",
					      "\036\036\036",
					      "\0361,ffffffff\037x\035",
					      "\035\035\037\034",
					      "\0361,0\037\0361,0\037a\n\035",
					      "\036111111111111111111111111111111111111111111111111" };
	struct order *order = create(1, 1);

	order_expect(order, 0, true);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
		feed(order, 0, pieces[i], 1);
		order_put(order, 0, pieces[i], strlen(pieces[i]), 1 * MS);
	}
	order_end(order, 0);
	order_release(order, 5 * MS);
	assert_non_null(strstr(out, "a\n"));
	order_destroy(order);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_waits_until_each_cpu_has_a_later_time),
		cmocka_unit_test(a_silent_cpu_delays_lines_for_at_most_a_second),
		cmocka_unit_test(lines_of_two_sources_are_merged_by_time),
		cmocka_unit_test(maps_stay_in_order_and_messages_of_bpftrace_are_dropped),
		cmocka_unit_test(invalid_marks_are_ignored),
	};

	return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
