/* SPDX-License-Identifier: BSD-2-Clause */
/* Real children: their answers, children that stall or die, and requests that wait meanwhile. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail_rig.h"

#include "base/bits.h"
#include "children.h"
#include "samples.h"

#include "../../../descriptor_count.h"

enum { MANY = 200, WAIT_STEPS = 20000, WAIT_STEP_US = 500 };

static const char *const names[] = SAMPLE_NAMES;

struct sample {
	char *data;
	struct dof_input input;
	struct dof_set set; /* as parsed in this process */
};

static void open_sample(struct sample *sample, const char *name, uint64_t base)
{
	size_t bytes;

	sample->data = sample_read(name, ".dof", &bytes);
	sample->input = sample_input(sample->data, bytes, base);
	assert_int_equal(dof_parse(&sample->input, NULL, &sample->set, NULL), 0);
}

static void close_sample(struct sample *sample)
{
	dof_set_free(&sample->set);
	free(sample->data);
}

static void assert_parsed(struct jail_rig_result *result, const struct sample *sample)
{
	jail_rig_wait(result);
	if (result->error)
		fail_msg("error %d: %s", result->error, result->why.text);
	assert_true(dof_set_equal(&result->set, &sample->set));
	dof_set_free(&result->set);
}

static pid_t only_child(void)
{
	pid_t pids[CHILDREN_MAX];

	assert_int_equal(children_of_this(pids), 1);
	return pids[0];
}

/* Stop the child and wait until it has stopped: otherwise it could still read its next order. */
static void stop_child(pid_t child)
{
	siginfo_t info;

	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WSTOPPED | WNOWAIT), 0);
	assert_int_equal(info.si_code, CLD_STOPPED);
}

static void start_jail_with(uint32_t children_max, uint32_t timeout_ms)
{
	struct fathom_fault why = { 0 };

	if (!jail_rig_start(NULL, children_max, timeout_ms, &why))
		fail_msg("%s", why.text);
}

static void start_jail(uint32_t children_max)
{
	start_jail_with(children_max, JAIL_RIG_LONG_MS);
}

static struct jail_stats get_stats(void)
{
	struct jail_stats stats;

	jail_rig_stats(&stats);
	return stats;
}

static void assert_no_child_left(void)
{
	pid_t pids[CHILDREN_MAX];

	assert_int_equal(children_of_this(pids), 0);
}

/* ---- answers ---- */

static void a_set_from_a_child_equals_one_parsed_in_process(void **state)
{
	start_jail(1);
	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		struct jail_rig_result result;
		struct sample sample;

		open_sample(&sample, names[i], strcmp(names[i], "simple32") == 0 ? 0x1000 : 0x7f0000001000);
		jail_rig_parse_now(&sample.input, &result);
		assert_parsed(&result, &sample);
		close_sample(&sample);
	}
	assert_int_equal(get_stats().parsed, ARRAY_COUNT(names));
	assert_int_equal(get_stats().children_started, 1);
	jail_rig_stop();
	assert_no_child_left();
}

static void a_refused_object_has_the_same_error_and_does_not_end_the_child(void **state)
{
	struct sample sample;
	struct jail_rig_result result, next;
	struct fathom_fault why = { 0 };
	struct dof_set set;
	int rc;

	start_jail(1);
	open_sample(&sample, "simple", 0);
	sample.data[64] = 99; /* changes the type of the first section, the strings */
	rc = dof_parse(&sample.input, NULL, &set, &why);
	assert_true(rc < 0);
	jail_rig_parse_now(&sample.input, &result);
	assert_int_equal(result.error, rc);
	assert_string_equal(result.why.text, why.text);
	assert_int_equal(get_stats().refused, 1);
	assert_int_equal(get_stats().parsed, 0);
	assert_int_equal(get_stats().children_started, 1);
	/* the next answer is not affected */
	sample.data[64] = 8;
	jail_rig_parse_now(&sample.input, &next);
	assert_parsed(&next, &sample);
	close_sample(&sample);
	jail_rig_stop();
}

static void each_of_many_concurrent_requests_gets_its_own_set(void **state)
{
	struct sample samples[ARRAY_COUNT(names)];
	static struct jail_rig_result results[MANY];
	static const struct dof_input *inputs[MANY];

	start_jail(3);
	for (size_t i = 0; i < ARRAY_COUNT(names); i++)
		open_sample(&samples[i], names[i], 0x10000 * i);
	for (size_t i = 0; i < MANY; i++)
		inputs[i] = &samples[i % ARRAY_COUNT(names)].input;
	jail_rig_parse(inputs, results, MANY);
	for (size_t i = 0; i < MANY; i++)
		assert_parsed(&results[i], &samples[i % ARRAY_COUNT(names)]);
	assert_int_equal(get_stats().parsed, MANY);
	assert_true(get_stats().children <= 3);
	assert_int_equal(get_stats().busy, 0);
	assert_int_equal(get_stats().waiting, 0);
	for (size_t i = 0; i < ARRAY_COUNT(names); i++)
		close_sample(&samples[i]);
	jail_rig_stop();
	assert_no_child_left();
}

static void an_object_over_the_limit_is_refused_without_a_child(void **state)
{
	struct sample sample;
	struct jail_rig_result result;

	start_jail(1);
	open_sample(&sample, "simple", 0);
	sample.input.blocks[0].bytes = (size_t)DOF_BYTES_MAX + 1;
	jail_rig_parse_now(&sample.input, &result);
	assert_int_equal(result.error, -E2BIG);
	sample.input.blocks[0].bytes = SIZE_MAX;
	sample.input.blocks[1].bytes = SIZE_MAX;
	jail_rig_parse_now(&sample.input, &result);
	assert_int_equal(result.error, -E2BIG);
	assert_int_equal(get_stats().refused, 2);
	close_sample(&sample);
	jail_rig_stop();
}

static void wait_for_idle_children(uint32_t count)
{
	for (int i = 0; i < WAIT_STEPS && (get_stats().children < count || get_stats().busy > 0); i++)
		usleep(WAIT_STEP_US);
	assert_int_equal(get_stats().children, count);
}

/*
 * The jail copies a large object to its child one slice at a time, so that a small object is parsed in between. How many
 * slices are copied by then depends on timing, so one success in several tries is enough. If the copy was made at once, no
 * try would succeed.
 */
static void a_small_object_is_parsed_while_a_large_one_is_copied(void **state)
{
	enum { LARGE = 64 << 20, TRIES = 20, LARGE_SLICES = LARGE / JAIL_SLICE_BYTES };
	char *large_data = calloc(1, LARGE);
	struct sample small, large;
	bool was_in_between = false;

	assert_non_null(large_data);
	open_sample(&small, "simple", 0);
	open_sample(&large, "multi", 0);
	memcpy(large_data, large.data, large.input.blocks[0].bytes);
	large.input.blocks[0] = (struct dof_block){ .data = large_data, .bytes = LARGE };
	start_jail(2);
	for (int i = 0; i < TRIES && !was_in_between; i++) {
		const struct dof_input *both[] = { &small.input, &small.input }, *mixed[] = { &large.input, &small.input };
		struct jail_rig_result results[2];
		uint64_t before;

		jail_rig_parse(both, results, 2);
		assert_parsed(&results[0], &small);
		assert_parsed(&results[1], &small);
		wait_for_idle_children(2);
		before = get_stats().slices;
		jail_rig_parse(mixed, results, 2);
		assert_parsed(&results[0], &large);
		assert_parsed(&results[1], &small);
		assert_int_equal(get_stats().slices - before, LARGE_SLICES + 1);
		was_in_between = results[1].slices - before < LARGE_SLICES;
	}
	assert_true(was_in_between);
	close_sample(&small);
	close_sample(&large);
	free(large_data);
	jail_rig_stop();
	assert_no_child_left();
}

static void large_objects_leave_one_child_for_small_ones(void **state)
{
	enum { LARGE = 8 << 20, COUNT = 6 };
	char *large_data = calloc(1, LARGE);
	struct jail_rig_result results[COUNT + 1];
	const struct dof_input *inputs[COUNT + 1];
	struct sample small, large;
	pid_t first;

	assert_non_null(large_data);
	open_sample(&small, "simple", 0);
	open_sample(&large, "multi", 0);
	memcpy(large_data, large.data, large.input.blocks[0].bytes);
	large.input.blocks[0] = (struct dof_block){ .data = large_data, .bytes = LARGE };
	for (size_t i = 0; i < COUNT; i++)
		inputs[i] = &large.input;
	inputs[COUNT] = &small.input;
	start_jail(2);
	first = only_child();
	stop_child(first); /* it gets the first of the large objects, and keeps it */
	jail_rig_parse(inputs, results, COUNT + 1);
	/* in order of arrival it would have been the last */
	assert_parsed(&results[COUNT], &small);
	for (size_t i = 0; i < COUNT; i++)
		assert_false(results[i].told);
	assert_int_equal(kill(first, SIGCONT), 0);
	for (size_t i = 0; i < COUNT; i++)
		assert_parsed(&results[i], &large);
	close_sample(&small);
	close_sample(&large);
	free(large_data);
	jail_rig_stop();
}

/* An object of 2 MiB, mostly zeroes: the jail replaces the child, which frees its memory. */
static void a_child_that_had_a_large_object_is_replaced(void **state)
{
	struct sample sample;
	enum { LARGE = 2 << 20 };
	struct jail_rig_result result;
	pid_t pids[CHILDREN_MAX];
	char *large = calloc(1, LARGE);

	start_jail(1);
	assert_non_null(large);
	open_sample(&sample, "multi", 0);
	memcpy(large, sample.data, sample.input.blocks[0].bytes);
	sample.input.blocks[0] = (struct dof_block){ .data = large, .bytes = LARGE };
	jail_rig_parse_now(&sample.input, &result);
	assert_parsed(&result, &sample);
	jail_rig_parse_now(&sample.input, &result);
	assert_parsed(&result, &sample);
	assert_int_equal(get_stats().children_started, 2);
	jail_rig_stop();
	assert_int_equal(children_of_this(pids), 0);
	free(large);
	close_sample(&sample);
}

/* ---- children that stall or die ---- */

static void a_stalled_child_delays_only_its_own_request(void **state)
{
	struct sample sample;
	struct jail_rig_result stalled, beside, after;
	pid_t first;
	const struct dof_input *input = &sample.input;

	start_jail_with(2, JAIL_RIG_STALL_MS);
	first = only_child();
	open_sample(&sample, "isen", 0);
	stop_child(first);
	jail_rig_parse(&input, &stalled, 1);
	/* the second request ends while the first is in progress */
	jail_rig_parse_now(input, &beside);
	assert_false(stalled.told);
	assert_parsed(&beside, &sample);
	jail_rig_wait(&stalled);
	assert_int_equal(stalled.error, -ETIMEDOUT);
	assert_non_null(strstr(stalled.why.text, "stalled"));
	assert_int_equal(get_stats().timed_out, 1);
	/* the stalled child was killed or is no longer counted */
	assert_true(kill(first, 0) != 0 || get_stats().children == 1);
	jail_rig_parse_now(&sample.input, &after);
	assert_parsed(&after, &sample);
	close_sample(&sample);
	jail_rig_stop();
	assert_no_child_left();
}

static void waiting_requests_are_answered_in_time_if_all_children_stall(void **state)
{
	struct sample sample;
	struct jail_rig_result results[3], after;
	const struct dof_input *const inputs[] = { &sample.input, &sample.input, &sample.input };

	start_jail_with(1, JAIL_RIG_STALL_MS);
	open_sample(&sample, "simple", 0);
	stop_child(only_child());
	jail_rig_parse(inputs, results, 3);
	for (int i = 0; i < 3; i++)
		jail_rig_wait(&results[i]);
	assert_int_equal(results[0].error, -ETIMEDOUT);
	for (int i = 1; i < 3; i++)
		assert_true(results[i].error == -ETIMEDOUT || results[i].error == 0);
	for (int i = 1; i < 3; i++) {
		if (results[i].error == 0)
			dof_set_free(&results[i].set);
	}
	jail_rig_parse_now(&sample.input, &after);
	assert_parsed(&after, &sample);
	assert_int_equal(get_stats().waiting, 0);
	close_sample(&sample);
	jail_rig_stop();
	assert_no_child_left();
}

/* The stop makes sure that the child has not read its order. */
static void an_order_unread_by_a_dead_child_is_read_by_another(void **state)
{
	struct jail_rig_result result, after;
	pid_t first;
	struct sample sample;
	const struct dof_input *input = &sample.input;

	start_jail(1);
	first = only_child();
	open_sample(&sample, "multiloc", 0);
	stop_child(first);
	jail_rig_parse(&input, &result, 1);
	assert_int_equal(kill(first, SIGKILL), 0);
	/* another child has read the order */
	assert_parsed(&result, &sample);
	assert_int_equal(get_stats().died, 0);
	assert_int_equal(get_stats().children_started, 2);
	jail_rig_parse_now(&sample.input, &after);
	assert_parsed(&after, &sample);
	close_sample(&sample);
	jail_rig_stop();
	assert_no_child_left();
}

static void an_idle_child_that_is_killed_is_replaced_without_an_error(void **state)
{
	pid_t pids[CHILDREN_MAX];
	struct sample sample;
	size_t descriptors;

	start_jail(1);
	open_sample(&sample, "clau", 0);
	assert_int_equal(children_of_this(pids), 1);
	descriptors = descriptor_count();
	for (int i = 0; i < 5; i++) {
		struct jail_rig_result result;

		assert_int_equal(kill(only_child(), SIGKILL), 0);
		while (children_of_this(pids) > 0)
			usleep(1000);
		jail_rig_parse_now(&sample.input, &result);
		assert_parsed(&result, &sample);
	}
	assert_int_equal(get_stats().died, 0);
	assert_int_equal(get_stats().parsed, 5);
	assert_int_equal(descriptor_count(), descriptors);
	close_sample(&sample);
	jail_rig_stop();
	assert_no_child_left();
}

static void the_end_of_the_jail_cancels_all_requests(void **state)
{
	struct sample sample;
	struct jail_rig_result cancelled[3];
	const struct dof_input *const inputs[] = { &sample.input, &sample.input, &sample.input };

	start_jail(1);
	open_sample(&sample, "simple", 0);
	stop_child(only_child());
	jail_rig_parse(inputs, cancelled, ARRAY_COUNT(cancelled));
	jail_rig_stop();
	for (size_t i = 0; i < ARRAY_COUNT(cancelled); i++) {
		assert_true(cancelled[i].told);
		assert_int_equal(cancelled[i].error, -ECANCELED);
	}
	close_sample(&sample);
	assert_no_child_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_from_a_child_equals_one_parsed_in_process),
		cmocka_unit_test(a_refused_object_has_the_same_error_and_does_not_end_the_child),
		cmocka_unit_test(each_of_many_concurrent_requests_gets_its_own_set),
		cmocka_unit_test(an_object_over_the_limit_is_refused_without_a_child),
		cmocka_unit_test(a_small_object_is_parsed_while_a_large_one_is_copied),
		cmocka_unit_test(large_objects_leave_one_child_for_small_ones),
		cmocka_unit_test(a_child_that_had_a_large_object_is_replaced),
		cmocka_unit_test(a_stalled_child_delays_only_its_own_request),
		cmocka_unit_test(waiting_requests_are_answered_in_time_if_all_children_stall),
		cmocka_unit_test(an_order_unread_by_a_dead_child_is_read_by_another),
		cmocka_unit_test(an_idle_child_that_is_killed_is_replaced_without_an_error),
		cmocka_unit_test(the_end_of_the_jail_cancels_all_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
