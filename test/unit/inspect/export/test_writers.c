/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of exports without I/O: varints, escapes, and lives made from moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "inspect/export/ctf.h"
#include "inspect/export/lives.h"
#include "inspect/export/out.h"
#include "inspect/export/proto.h"
#include "inspect/export/value.h"

/* ---- Protocol Buffers ---- */

static void varints_equal_the_published_examples(void **state)
{
	static const struct {
		uint64_t number;
		size_t count;
		uint8_t bytes[PROTO_VARINT_BYTES_MAX];
	} rows[] = {
		{ 0, 1, { 0 } },
		{ 127, 1, { 0x7f } },
		{ 128, 2, { 0x80, 0x01 } },
		{ 300, 2, { 0xac, 0x02 } },
		{ UINT64_MAX, 10, { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 } },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		uint8_t bytes[PROTO_VARINT_BYTES_MAX];

		assert_int_equal(proto_put_varint(bytes, rows[i].number), rows[i].count);
		assert_memory_equal(bytes, rows[i].bytes, rows[i].count);
	}
}

static void fields_encode_their_number_and_type(void **state)
{
	static const uint8_t expected[] = {
		0x08, 0x96, 0x01,					      /* 1: 150 */
		0x12, 0x02, 'h',  'i',					      /* 2: "hi" */
		0xf9, 0x02, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,   /* 47: fixed64 */
		0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 /* 3: -1 */
	};
	struct proto proto = { 0 };

	proto_u64(&proto, 1, 150);
	proto_text(&proto, 2, "hi");
	proto_fixed64(&proto, 47, 0x0102030405060708);
	proto_i64(&proto, 3, -1);
	assert_int_equal(proto.used, sizeof(expected));
	assert_memory_equal(proto.bytes, expected, sizeof(expected));
	proto_deinit(&proto);
}

/* A length takes one more byte at 128 and at 16384: the content must move without loss. */
static void nested_messages_have_their_length(void **state)
{
	static const size_t sizes[] = { 0, 1, 123, 124, 125, 126, 127, 128, 16377, 16378, 16379, 16380, 16384, 100000 };

	for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
		uint8_t *inside = calloc(1, sizes[i] + 1), head[2 * PROTO_VARINT_BYTES_MAX];
		struct proto proto = { 0 };
		size_t outer, inner, count, expected;

		memset(inside, 0x5a, sizes[i]);
		outer = proto_begin(&proto, 1);
		inner = proto_begin(&proto, 2);
		proto_bytes(&proto, 3, inside, sizes[i]);
		proto_end(&proto, inner);
		proto_u64(&proto, 4, 1);
		proto_end(&proto, outer);
		/* expected sizes, starting with the innermost message */
		count = 1 + proto_put_varint(head, sizes[i]) + sizes[i];
		expected = 1 + proto_put_varint(head, count) + count + 2;
		head[0] = 1 << 3 | 2;
		assert_memory_equal(proto.bytes, head, 1);
		outer = proto_put_varint(head, expected);
		assert_memory_equal(proto.bytes + 1, head, outer);
		assert_int_equal(proto.used, 1 + outer + expected);
		assert_int_equal(proto.bytes[1 + outer], 2 << 3 | 2);
		assert_memory_equal(proto.bytes + proto.used - 2 - sizes[i], inside, sizes[i]);
		assert_int_equal(proto.bytes[proto.used - 1], 1);
		proto_deinit(&proto);
		free(inside);
	}
}

/* ---- text ---- */

static void check_json(const char *text, size_t bytes, const char *expected)
{
	struct out *out = malloc(sizeof(*out));

	out_init(out, -1);
	out_json(out, text, bytes);
	assert_int_equal(out->used, strlen(expected));
	assert_memory_equal(out->buffer, expected, out->used);
	free(out);
}

#define CHECK_JSON(text, expected) check_json(text, sizeof(text) - 1, expected)

static void json_strings_are_safe_in_an_html_script(void **state)
{
	CHECK_JSON("", "\"\"");
	CHECK_JSON("say \"hello\"\\\n", "\"say \\\"hello\\\"\\\\\\u000a\"");
	CHECK_JSON("</script><!--", "\"\\u003c/script\\u003e\\u003c!--\"");
	CHECK_JSON("a&b", "\"a\\u0026b\"");
	CHECK_JSON("\xe2\x80\xa8|\xe2\x80\xa9", "\"\\u2028|\\u2029\"");
	CHECK_JSON("Gr\xc3\xbc\xc3\x9f"
		   "e \xf0\x9f\x98\x80",
		   "\"Gr\xc3\xbc\xc3\x9f"
		   "e \xf0\x9f\x98\x80\"");
	/* a NUL; an invalid byte; a truncated sequence; a surrogate; an overlong form; DEL */
	CHECK_JSON("\0|\xff|\xe2\x80|\xed\xa0\x80|\xc0\xaf|\x7f", "\"\\u0000|?|??|???|??|?\"");
}

static void the_largest_numbers_are_written(void **state)
{
	struct out *out = malloc(sizeof(*out));
	static const char expected[] = "0 18446744073709551615";

	out_init(out, -1);
	out_u64(out, 0);
	out_char(out, ' ');
	out_u64(out, UINT64_MAX);
	assert_int_equal(out->used, strlen(expected));
	assert_memory_equal(out->buffer, expected, out->used);
	free(out);
}

static void a_write_error_is_kept(void **state)
{
	struct out *out = malloc(sizeof(*out));
	int pipes[2];

	assert_int_equal(pipe(pipes), 0);
	out_init(out, pipes[0]); /* the read end: writes fail */
	out_text(out, "text");
	assert_true(out_flush(out) < 0);
	out_init(out, pipes[1]);
	out_text(out, "text");
	assert_int_equal(out_flush(out), 0);
	close(pipes[0]);
	close(pipes[1]);
	free(out);
}

static void check_tsdl(const char *name, bool is_taken, const char *expected)
{
	struct out *out = malloc(sizeof(*out));

	out_init(out, -1);
	ctf_field_name(out, name, is_taken, 3);
	assert_int_equal(out->used, strlen(expected));
	assert_memory_equal(out->buffer, expected, out->used);
	free(out);
}

/* No name of the schema may break the syntax of the metadata. */
static void names_become_identifiers_of_tsdl(void **state)
{
	check_tsdl("queue_depth", false, "_queue_depth");
	check_tsdl("string", false, "_string");
	check_tsdl("0x; } := y", false, "_0x_______y");
	check_tsdl("Gr\xc3\xbc\xc3\x9f"
		   "e",
		   false, "_Gr____e");
	check_tsdl("", false, "_");
	check_tsdl("a b", true, "_a_b__3");
}

static void texts_become_strings_of_tsdl(void **state)
{
	struct out *out = malloc(sizeof(*out));
	static const char expected[] = "\"a\\\"b\\\\c??\"";

	out_init(out, -1);
	ctf_string(out, "a\"b\\c\n\xff");
	assert_int_equal(out->used, strlen(expected));
	assert_memory_equal(out->buffer, expected, out->used);
	free(out);
}

/* ---- lives ---- */

static const struct reader_state job_states[] = { { .name = "FREE", .text = "" },
						  { .name = "WAITING", .text = "" },
						  { .name = "RUNNING", .text = "" } };
static const struct reader_machine job_machine = { .name = "job_state", .states = job_states, .state_count = 3 };
static const struct reader_object job = { .id = 1, .name = "job", .prefix = "j", .machine = &job_machine };
static const struct reader_object task = { .id = 2, .name = "task", .prefix = "k", .machine = &job_machine };
static const struct reader_arg move_args[] = { { .name = "from", .type = READER_U8, .slot = 0 },
					       { .name = "to", .type = READER_U8, .slot = 1 },
					       { .name = "length", .type = READER_U32, .slot = 2, .unit = "bytes" } };
static const struct reader_point job_move = {
	.name = "job_state", .object = &job, .machine = &job_machine, .moves_to = -1, .args = move_args, .arg_count = 3
};
static const struct reader_point task_begin = {
	.name = "task_begin", .object = &task, .machine = &job_machine, .moves_to = 1, .begins = true
};
static const struct reader_point task_end = { .name = "task_end", .object = &task, .machine = &job_machine };
static const struct reader_point job_note = { .name = "job_note", .object = &job, .moves_to = -1 };

static struct lives *lives;

static int lives_setup(void **state)
{
	return lives_create(&lives);
}

static int lives_teardown(void **state)
{
	lives_destroy(lives);
	return 0;
}

static struct lives_step happen(const struct reader_point *point, uint32_t id, uint64_t tick, uint32_t from, uint32_t to)
{
	struct reader_event event = { .point = point, .object_id = id, .tick = tick, .slots = { from, to, 4096 } };
	struct lives_step step;

	lives_event(lives, &event, &step);
	return step;
}

static void a_life_goes_through_its_stages(void **state)
{
	struct lives_step step = happen(&job_move, 7, 100, 0, 1);

	assert_true(step.began && step.entered_stage && !step.left_stage && !step.ended);
	assert_true(step.life->whole);
	assert_int_equal(step.life->bytes, 4096);
	step = happen(&job_note, 7, 120, 0, 0);
	assert_true(step.life && !step.began && !step.entered_stage && !step.left_stage);
	step = happen(&job_move, 7, 150, 1, 2);
	assert_true(step.left_stage && step.entered_stage && !step.ended && !step.began);
	assert_int_equal(step.before.state, 1);
	assert_int_equal(step.before.entered, 100);
	assert_int_equal(step.life->state, 2);
	step = happen(&job_move, 7, 200, 2, 0);
	assert_true(step.left_stage && step.ended && !step.cut && !step.entered_stage);
	assert_int_equal(step.before.began, 100);
	assert_null(step.life);
	step = happen(&job_note, 7, 210, 0, 0);
	assert_null(step.life);
	/* a new life */
	assert_int_equal(happen(&job_move, 7, 300, 0, 1).life->serial, 2);
}

static void a_life_without_its_begin_is_partial(void **state)
{
	struct lives_step step = happen(&job_move, 7, 100, 1, 2);

	assert_true(step.began && !step.life->whole);
	step = happen(&job_move, 8, 100, 1, 0);
	assert_true(!step.began && !step.ended && !step.left_stage);
	/* moves are missing in between */
	step = happen(&job_move, 9, 100, 0, 1);
	step = happen(&job_move, 9, 110, 2, 1);
	assert_true(step.left_stage && !step.life->whole);
}

static void a_new_life_ends_the_previous_one(void **state)
{
	struct lives_step step;

	happen(&job_move, 7, 100, 0, 1);
	step = happen(&job_move, 7, 200, 0, 1);
	assert_true(step.ended && step.cut && step.began && step.entered_stage);
	assert_int_equal(step.before.serial, 1);
	assert_int_equal(step.life->serial, 2);
}

static void the_ticks_of_an_object_never_decrease(void **state)
{
	happen(&job_move, 7, 100, 0, 1);
	assert_int_equal(happen(&job_move, 7, 90, 1, 2).tick, 100);
	assert_int_equal(happen(&job_move, 7, 110, 2, 0).before.entered, 100);
	assert_int_equal(happen(&job_move, 7, 105, 0, 1).tick, 110);
}

static void a_child_has_its_parents_life(void **state)
{
	struct reader_event event = { .point = &task_begin, .object_id = 3, .tick = 150, .related = &job, .related_id = 7 };
	struct lives_step step;
	uint64_t serial = happen(&job_move, 7, 100, 0, 1).life->serial;

	lives_event(lives, &event, &step);
	assert_true(step.began && step.parent);
	assert_int_equal(step.life->parent_serial, serial);
	step = happen(&task_end, 3, 160, 0, 0);
	assert_true(step.ended);
	assert_int_equal(step.before.parent_serial, serial);
	/* an ended life is not a parent */
	happen(&job_move, 7, 200, 1, 0);
	event.tick = 210;
	lives_event(lives, &event, &step);
	assert_true(step.began && !step.parent && step.life->parent_serial == 0);
}

static void moves_to_invalid_states_are_ignored(void **state)
{
	assert_null(happen(&job_move, 7, 100, 0, 3).life);
	assert_null(happen(&job_move, 7, 100, 3, 1).life);
	assert_null(happen(&job_move, 7, 100, 0, UINT32_MAX).life);
}

static void count_lives(struct life *life, void *ctx)
{
	uint64_t *sum = ctx;

	*sum += life->id;
}

/* The table grows to its limit; objects beyond the limit are not followed. */
static void the_number_of_followed_objects_is_limited(void **state)
{
	uint64_t sum = 0;

	for (uint32_t id = 0; id < LIVES_OBJECTS_MAX; id++)
		assert_non_null(happen(&job_move, id, 100, 0, 1).life);
	for (uint32_t id = LIVES_OBJECTS_MAX; id < LIVES_OBJECTS_MAX + 10; id++)
		assert_null(happen(&job_move, id, 100, 0, 1).life);
	lives_each(lives, count_lives, &sum);
	assert_int_equal(sum, (uint64_t)LIVES_OBJECTS_MAX * (LIVES_OBJECTS_MAX - 1) / 2);
	assert_true(happen(&job_move, 77, 200, 1, 2).left_stage);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(varints_equal_the_published_examples),
		cmocka_unit_test(fields_encode_their_number_and_type),
		cmocka_unit_test(nested_messages_have_their_length),
		cmocka_unit_test(json_strings_are_safe_in_an_html_script),
		cmocka_unit_test(the_largest_numbers_are_written),
		cmocka_unit_test(a_write_error_is_kept),
		cmocka_unit_test(names_become_identifiers_of_tsdl),
		cmocka_unit_test(texts_become_strings_of_tsdl),
		cmocka_unit_test_setup_teardown(a_life_goes_through_its_stages, lives_setup, lives_teardown),
		cmocka_unit_test_setup_teardown(a_life_without_its_begin_is_partial, lives_setup, lives_teardown),
		cmocka_unit_test_setup_teardown(a_new_life_ends_the_previous_one, lives_setup, lives_teardown),
		cmocka_unit_test_setup_teardown(the_ticks_of_an_object_never_decrease, lives_setup, lives_teardown),
		cmocka_unit_test_setup_teardown(a_child_has_its_parents_life, lives_setup, lives_teardown),
		cmocka_unit_test_setup_teardown(moves_to_invalid_states_are_ignored, lives_setup, lives_teardown),
		cmocka_unit_test_setup_teardown(the_number_of_followed_objects_is_limited, lives_setup, lives_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
