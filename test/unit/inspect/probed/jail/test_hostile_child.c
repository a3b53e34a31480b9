/* SPDX-License-Identifier: BSD-2-Clause */
/* Compromised children: the registering process gets an error, and the next registration succeeds. */
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
	if (!jail_rig_start(hostile_child, 1, strcmp(lie, "stall") == 0 ? JAIL_RIG_STALL_MS : JAIL_RIG_LONG_MS, &why))
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
		/* each request got a new child */
		assert_int_equal(next.error, result.error);
		assert_true(stats.children_started >= 2);
		assert_int_equal(stats.parsed, 0);
		assert_int_equal(stats.timed_out + stats.died + stats.nonsense, 2);
	}
}

static void control_characters_in_a_childs_error_are_replaced(void **state)
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

/* An unrequested answer must not be taken for the answer to the next or a later request. */
static void an_answer_before_its_request_is_an_error(void **state)
{
	struct jail_rig_result result, next;
	struct jail_stats stats;

	parse_with("ahead", &result, &next, &stats);
	assert_int_equal(result.error, -EPROTO);
	assert_int_equal(next.error, -EPROTO);
	assert_int_equal(stats.parsed, 0);
	assert_true(stats.children_started >= 2);
}

static void a_jail_whose_first_child_cannot_start_is_not_created(void **state)
{
	static const struct {
		const char *name, *text;
	} kinds[] = { { "refuse", "no seccomp here" }, { "stillborn", "immediately after" }, { "mute", "does not start" } };

	for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
		struct fathom_fault why = { 0 };

		assert_int_equal(setenv("HOSTILE_CHILD", kinds[i].name, 1), 0);
		assert_null(jail_rig_start(hostile_child, 1, JAIL_RIG_STALL_MS, &why));
		if (!strstr(why.text, kinds[i].text))
			fail_msg("%s: %s", kinds[i].name, why.text);
		jail_rig_stop();
	}
}

static void a_jail_reports_children_that_cannot_start_and_recovers(void **state)
{
	size_t bytes;
	char *data = sample_read("simple", ".dof", &bytes);
	struct dof_input input = sample_input(data, bytes, 0);
	struct jail_rig_result result;

	/* the first child starts and fails at its request; later children fail to start */
	assert_int_equal(setenv("HOSTILE_CHILD", "abort", 1), 0);
	assert_non_null(jail_rig_start(hostile_child, 1, JAIL_RIG_STALL_MS, NULL));
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

/* If each child dies before it reads its order, the jail must not start children for ever. */
static void an_order_that_no_child_reads_fails_in_time(void **state)
{
	size_t bytes;
	char *data = sample_read("simple", ".dof", &bytes);
	struct dof_input input = sample_input(data, bytes, 0);
	struct jail_rig_result result;

	assert_int_equal(setenv("HOSTILE_CHILD", "deaf", 1), 0);
	if (jail_rig_start(hostile_child, 1, JAIL_RIG_STALL_MS, NULL)) {
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
		cmocka_unit_test(control_characters_in_a_childs_error_are_replaced),
		cmocka_unit_test(an_answer_before_its_request_is_an_error),
		cmocka_unit_test(a_jail_whose_first_child_cannot_start_is_not_created),
		cmocka_unit_test(a_jail_reports_children_that_cannot_start_and_recovers),
		cmocka_unit_test(an_order_that_no_child_reads_fails_in_time),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s HOSTILE_CHILD\n", argv[0]);
		return 2;
	}
	hostile_child = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
