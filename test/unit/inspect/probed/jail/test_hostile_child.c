/* SPDX-License-Identifier: BSD-2-Clause */
/* Compromised children: the registrant gets an error, and the next registration works. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jail_rig.h"

#include "base/bits.h"
#include "samples.h"

static const char *hostile_child;

static void parse_with(const char *lie, struct jail_rig_result *result, struct jail_rig_result *next,
		       struct jail_stats *stats)
{
	size_t bytes;
	char *data = sample_read("simple", ".dof", &bytes);
	struct dof_input input = sample_input(data, bytes, 0);
	struct fathom_fault why = { 0 };

	assert_int_equal(setenv("HOSTILE_CHILD", lie, 1), 0);
	if (!jail_rig_start(hostile_child, 1, &why))
		fail_msg("%s: %s", lie, why.text);
	jail_rig_parse_now(&input, result);
	jail_rig_parse_now(&input, next);
	jail_rig_stats(stats);
	jail_rig_stop();
	free(data);
}

static void every_violation_is_an_error_and_ends_the_child(void **state)
{
	static const struct {
		const char *name;
		int error;
		const char *text;
	} lies[] = {
		{ "stall", -ETIMEDOUT, "stalled" },
		{ "abort", -ECHILD, "signal 6" },
		{ "exit", -ECHILD, "status 7" },
		{ "short", -EPROTO, "length" },
		{ "twice", -EPROTO, "length" },
		{ "sequence", -EPROTO, "unexpected answer" },
		{ "error", -EPROTO, "unexpected answer" },
		{ "positive", -EPROTO, "unexpected answer" },
		{ "too-much", -EPROTO, "bytes" },
		{ "everything", -EPROTO, "bytes" },
		{ "nothing", -EPROTO, "packed" },
		{ "garbage", -EPROTO, "packed" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(lies); i++) {
		struct jail_rig_result result, next;
		struct jail_stats stats;

		parse_with(lies[i].name, &result, &next, &stats);
		if (result.error != lies[i].error || !strstr(result.why.text, lies[i].text))
			fail_msg("%s: %d, %s", lies[i].name, result.error, result.why.text);
		/* each got a child of its own */
		assert_int_equal(next.error, result.error);
		assert_true(stats.children_started >= 2);
		assert_int_equal(stats.parsed, 0);
		assert_int_equal(stats.timed_out + stats.died + stats.nonsense, 2);
	}
}

static void what_a_child_says_is_cleaned_before_it_is_shown(void **state)
{
	struct jail_rig_result result, next;
	struct jail_stats stats;

	parse_with("control", &result, &next, &stats);
	assert_int_equal(result.error, -EINVAL);
	assert_string_equal(result.why.text, "?[2Jmischief");
	parse_with("unended", &result, &next, &stats);
	assert_int_equal(result.error, -EINVAL);
	assert_int_equal(strlen(result.why.text), sizeof(result.why.text) - 1);
}

/* An answer that was left behind belongs to no request: neither to the next, nor to one much later. */
static void an_answer_ahead_of_its_question_is_not_taken_for_it(void **state)
{
	struct jail_rig_result result, next;
	struct jail_stats stats;

	parse_with("ahead", &result, &next, &stats);
	assert_int_equal(result.error, -EPROTO);
	assert_int_equal(next.error, -EPROTO);
	assert_int_equal(stats.parsed, 0);
	assert_true(stats.children_started >= 2);
}

static void a_jail_whose_first_child_cannot_be_confined_is_none(void **state)
{
	static const struct {
		const char *name, *text;
	} kinds[] = { { "refuse", "no seccomp here" }, { "stillborn", "as soon as" }, { "mute", "does not start" } };

	for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
		struct fathom_fault why = { 0 };

		assert_int_equal(setenv("HOSTILE_CHILD", kinds[i].name, 1), 0);
		assert_null(jail_rig_start(hostile_child, 1, &why));
		if (!strstr(why.text, kinds[i].text))
			fail_msg("%s: %s", kinds[i].name, why.text);
		jail_rig_stop();
	}
}

static void a_jail_whose_later_children_cannot_start_says_so_and_goes_on(void **state)
{
	size_t bytes;
	char *data = sample_read("simple", ".dof", &bytes);
	struct dof_input input = sample_input(data, bytes, 0);
	struct jail_rig_result result;

	/* the first is well until it is asked; those after it never are */
	assert_int_equal(setenv("HOSTILE_CHILD", "abort", 1), 0);
	assert_non_null(jail_rig_start(hostile_child, 1, NULL));
	jail_rig_parse_now(&input, &result);
	assert_int_equal(result.error, -ECHILD);
	assert_int_equal(setenv("HOSTILE_CHILD", "refuse", 1), 0);
	jail_rig_parse_now(&input, &result);
	assert_int_equal(result.error, -ECHILD);
	assert_non_null(strstr(result.why.text, "no seccomp here"));
	assert_int_equal(setenv("HOSTILE_CHILD", "mute", 1), 0);
	jail_rig_parse_now(&input, &result);
	assert_int_equal(result.error, -ETIMEDOUT);
	assert_int_equal(setenv("HOSTILE_CHILD", "stillborn", 1), 0);
	jail_rig_parse_now(&input, &result);
	assert_int_equal(result.error, -ECHILD);
	assert_int_equal(setenv("HOSTILE_CHILD", "control", 1), 0);
	jail_rig_parse_now(&input, &result);
	assert_int_equal(result.error, -EINVAL);
	jail_rig_stop();
	free(data);
}

/* What kills each child before it reads must not start children for ever. */
static void an_order_that_nobody_lives_to_read_is_given_up_in_time(void **state)
{
	size_t bytes;
	char *data = sample_read("simple", ".dof", &bytes);
	struct dof_input input = sample_input(data, bytes, 0);
	struct jail_rig_result result;

	assert_int_equal(setenv("HOSTILE_CHILD", "deaf", 1), 0);
	if (jail_rig_start(hostile_child, 1, NULL)) {
		jail_rig_parse_now(&input, &result);
		assert_true(result.error == -ETIMEDOUT || result.error == -ECHILD);
	}
	jail_rig_stop();
	free(data);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_violation_is_an_error_and_ends_the_child),
		cmocka_unit_test(what_a_child_says_is_cleaned_before_it_is_shown),
		cmocka_unit_test(an_answer_ahead_of_its_question_is_not_taken_for_it),
		cmocka_unit_test(a_jail_whose_first_child_cannot_be_confined_is_none),
		cmocka_unit_test(a_jail_whose_later_children_cannot_start_says_so_and_goes_on),
		cmocka_unit_test(an_order_that_nobody_lives_to_read_is_given_up_in_time),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s HOSTILE_CHILD\n", argv[0]);
		return 2;
	}
	hostile_child = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
