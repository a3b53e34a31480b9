/* SPDX-License-Identifier: BSD-2-Clause */
/* Real children: what they answer, what becomes of those that stall or die, and of those that wait beside them. */
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
	struct dof_set set; /* as parsed here */
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

static void check(struct jail_rig_result *result, const struct sample *sample)
{
	jail_rig_wait(result);
	if (result->error)
		fail_msg("%d: %s", result->error, result->why.text);
	assert_true(dof_set_equal(&result->set, &sample->set));
	dof_set_free(&result->set);
}

static pid_t only_child(void)
{
	pid_t pids[CHILDREN_MAX];

	assert_int_equal(children_of_this(pids), 1);
	return pids[0];
}

/* It stands still when this returns: a signal alone might come after the child has read what it is given next. */
static void stop(pid_t child)
{
	siginfo_t info;

	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WSTOPPED | WNOWAIT), 0);
	assert_int_equal(info.si_code, CLD_STOPPED);
}

static void start(uint32_t children_max)
{
	struct fathom_fault why = { 0 };

	if (!jail_rig_start(NULL, children_max, &why))
		fail_msg("%s", why.text);
}

static struct jail_stats stats_now(void)
{
	struct jail_stats stats;

	jail_rig_stats(&stats);
	return stats;
}

static void no_child_is_left(void)
{
	pid_t pids[CHILDREN_MAX];

	assert_int_equal(children_of_this(pids), 0);
}

/* ---- answers ---- */

static void what_a_child_reads_is_what_we_would_have_read(void **state)
{
	start(1);
	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		struct jail_rig_result result;
		struct sample sample;

		open_sample(&sample, names[i], strcmp(names[i], "simple32") == 0 ? 0x1000 : 0x7f0000001000);
		jail_rig_parse_now(&sample.input, &result);
		check(&result, &sample);
		close_sample(&sample);
	}
	assert_int_equal(stats_now().parsed, ARRAY_COUNT(names));
	assert_int_equal(stats_now().children_started, 1);
	jail_rig_stop();
	no_child_is_left();
}

static void a_refusal_says_the_same_and_costs_one_parse_and_no_child(void **state)
{
	struct sample sample;
	struct jail_rig_result result, next;
	struct fathom_fault why = { 0 };
	struct dof_set set;
	int rc;

	start(1);
	open_sample(&sample, "simple", 0);
	sample.data[64] = 99; /* the first section's type: no strings now */
	rc = dof_parse(&sample.input, NULL, &set, &why);
	assert_true(rc < 0);
	jail_rig_parse_now(&sample.input, &result);
	assert_int_equal(result.error, rc);
	assert_string_equal(result.why.text, why.text);
	assert_int_equal(stats_now().refused, 1);
	assert_int_equal(stats_now().parsed, 0);
	assert_int_equal(stats_now().children_started, 1);
	/* nothing of it is in the next one's answer */
	sample.data[64] = 8;
	jail_rig_parse_now(&sample.input, &next);
	check(&next, &sample);
	close_sample(&sample);
	jail_rig_stop();
}

static void each_gets_its_own_however_many_ask_at_once(void **state)
{
	struct sample samples[ARRAY_COUNT(names)];
	static struct jail_rig_result results[MANY];
	static const struct dof_input *inputs[MANY];

	start(3);
	for (size_t i = 0; i < ARRAY_COUNT(names); i++)
		open_sample(&samples[i], names[i], 0x10000 * i);
	for (size_t i = 0; i < MANY; i++)
		inputs[i] = &samples[i % ARRAY_COUNT(names)].input;
	jail_rig_parse(inputs, results, MANY);
	for (size_t i = 0; i < MANY; i++)
		check(&results[i], &samples[i % ARRAY_COUNT(names)]);
	assert_int_equal(stats_now().parsed, MANY);
	assert_true(stats_now().children <= 3);
	assert_int_equal(stats_now().busy, 0);
	assert_int_equal(stats_now().waiting, 0);
	for (size_t i = 0; i < ARRAY_COUNT(names); i++)
		close_sample(&samples[i]);
	jail_rig_stop();
	no_child_is_left();
}

static void what_is_over_the_limit_never_reaches_a_child(void **state)
{
	struct sample sample;
	struct jail_rig_result result;

	start(1);
	open_sample(&sample, "simple", 0);
	sample.input.blocks[0].bytes = (size_t)DOF_BYTES_MAX + 1;
	jail_rig_parse_now(&sample.input, &result);
	assert_int_equal(result.error, -E2BIG);
	sample.input.blocks[0].bytes = SIZE_MAX;
	sample.input.blocks[1].bytes = SIZE_MAX;
	jail_rig_parse_now(&sample.input, &result);
	assert_int_equal(result.error, -E2BIG);
	assert_int_equal(stats_now().refused, 2);
	close_sample(&sample);
	jail_rig_stop();
}

static void wait_for_idle_children(uint32_t count)
{
	for (int i = 0; i < WAIT_STEPS && (stats_now().children < count || stats_now().busy > 0); i++)
		usleep(WAIT_STEP_US);
	assert_int_equal(stats_now().children, count);
}

/*
 * A large object reaches its child in as many slices as it has, a slice a turn: a small one that came after it is parsed in
 * between. How far the copy has come by then is chance, so one try of several suffices; copied in one go, none does.
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
	start(2);
	for (int i = 0; i < TRIES && !was_in_between; i++) {
		const struct dof_input *both[] = { &small.input, &small.input }, *mixed[] = { &large.input, &small.input };
		struct jail_rig_result results[2];
		uint64_t before;

		jail_rig_parse(both, results, 2);
		check(&results[0], &small);
		check(&results[1], &small);
		wait_for_idle_children(2);
		before = stats_now().slices;
		jail_rig_parse(mixed, results, 2);
		check(&results[0], &large);
		check(&results[1], &small);
		assert_int_equal(stats_now().slices - before, LARGE_SLICES + 1);
		was_in_between = results[1].slices - before < LARGE_SLICES;
	}
	assert_true(was_in_between);
	close_sample(&small);
	close_sample(&large);
	free(large_data);
	jail_rig_stop();
	no_child_is_left();
}

/* Large objects leave one child to small ones, however many there are. */
static void large_objects_leave_a_child_to_small_ones(void **state)
{
	enum { LARGE = 8 << 20, COUNT = 6 };
	char *large_data = calloc(1, LARGE);
	struct jail_rig_result results[COUNT + 1];
	const struct dof_input *inputs[COUNT + 1];
	struct sample small, large;

	assert_non_null(large_data);
	open_sample(&small, "simple", 0);
	open_sample(&large, "multi", 0);
	memcpy(large_data, large.data, large.input.blocks[0].bytes);
	large.input.blocks[0] = (struct dof_block){ .data = large_data, .bytes = LARGE };
	for (size_t i = 0; i < COUNT; i++)
		inputs[i] = &large.input;
	inputs[COUNT] = &small.input;
	start(2);
	jail_rig_parse(inputs, results, COUNT + 1);
	for (size_t i = 0; i < COUNT; i++)
		check(&results[i], &large);
	check(&results[COUNT], &small);
	/* had it waited for its turn, it would be the last */
	assert_true(results[COUNT].slices < results[COUNT - 1].slices);
	close_sample(&small);
	close_sample(&large);
	free(large_data);
	jail_rig_stop();
}

/* An object of 2 MiB, the most of it nothing: the child that had it goes, with its memory. */
static void a_child_that_had_a_large_object_is_replaced(void **state)
{
	struct sample sample;
	enum { LARGE = 2 << 20 };
	struct jail_rig_result result;
	pid_t pids[CHILDREN_MAX];
	char *large = calloc(1, LARGE);

	start(1);
	assert_non_null(large);
	open_sample(&sample, "multi", 0);
	memcpy(large, sample.data, sample.input.blocks[0].bytes);
	sample.input.blocks[0] = (struct dof_block){ .data = large, .bytes = LARGE };
	jail_rig_parse_now(&sample.input, &result);
	check(&result, &sample);
	jail_rig_parse_now(&sample.input, &result);
	check(&result, &sample);
	assert_int_equal(stats_now().children_started, 2);
	jail_rig_stop();
	assert_int_equal(children_of_this(pids), 0);
	free(large);
	close_sample(&sample);
}

/* ---- children in trouble ---- */

static void a_stalled_child_costs_its_registrant_the_time_out_and_others_nothing(void **state)
{
	struct sample sample;
	struct jail_rig_result stalled, beside, after;
	pid_t first;
	const struct dof_input *input = &sample.input;

	start(2);
	first = only_child();
	open_sample(&sample, "isen", 0);
	stop(first);
	jail_rig_parse(&input, &stalled, 1);
	/* the first is still under way when the second is done */
	jail_rig_parse_now(input, &beside);
	assert_false(stalled.told);
	check(&beside, &sample);
	jail_rig_wait(&stalled);
	assert_int_equal(stalled.error, -ETIMEDOUT);
	assert_non_null(strstr(stalled.why.text, "stalled"));
	assert_int_equal(stats_now().timed_out, 1);
	/* it is gone, and not in the way */
	assert_true(kill(first, 0) != 0 || stats_now().children == 1);
	jail_rig_parse_now(&sample.input, &after);
	check(&after, &sample);
	close_sample(&sample);
	jail_rig_stop();
	no_child_is_left();
}

static void when_all_children_stall_those_that_wait_are_told_in_time_too(void **state)
{
	struct sample sample;
	struct jail_rig_result results[3], after;
	const struct dof_input *const inputs[] = { &sample.input, &sample.input, &sample.input };

	start(1);
	open_sample(&sample, "simple", 0);
	stop(only_child());
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
	check(&after, &sample);
	assert_int_equal(stats_now().waiting, 0);
	close_sample(&sample);
	jail_rig_stop();
	no_child_is_left();
}

/* Which a stop makes sure of. */
static void a_child_that_dies_before_it_has_read_its_order_is_no_error(void **state)
{
	struct jail_rig_result result, after;
	pid_t first;
	struct sample sample;
	const struct dof_input *input = &sample.input;

	start(1);
	first = only_child();
	open_sample(&sample, "multiloc", 0);
	stop(first);
	jail_rig_parse(&input, &result, 1);
	assert_int_equal(kill(first, SIGKILL), 0);
	/* it had not read its order: another one did */
	check(&result, &sample);
	assert_int_equal(stats_now().died, 0);
	assert_int_equal(stats_now().children_started, 2);
	jail_rig_parse_now(&sample.input, &after);
	check(&after, &sample);
	close_sample(&sample);
	jail_rig_stop();
	no_child_is_left();
}

static void a_child_that_is_killed_while_idle_is_replaced_unseen(void **state)
{
	pid_t pids[CHILDREN_MAX];
	struct sample sample;
	size_t descriptors;

	start(1);
	open_sample(&sample, "clau", 0);
	assert_int_equal(children_of_this(pids), 1);
	descriptors = descriptor_count();
	for (int i = 0; i < 5; i++) {
		struct jail_rig_result result;

		assert_int_equal(kill(only_child(), SIGKILL), 0);
		while (children_of_this(pids) > 0)
			usleep(1000);
		jail_rig_parse_now(&sample.input, &result);
		check(&result, &sample);
	}
	assert_int_equal(stats_now().died, 0);
	assert_int_equal(stats_now().parsed, 5);
	assert_int_equal(descriptor_count(), descriptors);
	close_sample(&sample);
	jail_rig_stop();
	no_child_is_left();
}

static void the_end_of_the_jail_is_told_to_all(void **state)
{
	struct sample sample;
	struct jail_rig_result cancelled[3];
	const struct dof_input *const inputs[] = { &sample.input, &sample.input, &sample.input };

	start(1);
	open_sample(&sample, "simple", 0);
	stop(only_child());
	jail_rig_parse(inputs, cancelled, ARRAY_COUNT(cancelled));
	jail_rig_stop();
	for (size_t i = 0; i < ARRAY_COUNT(cancelled); i++) {
		assert_true(cancelled[i].told);
		assert_int_equal(cancelled[i].error, -ECANCELED);
	}
	close_sample(&sample);
	no_child_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_child_reads_is_what_we_would_have_read),
		cmocka_unit_test(a_refusal_says_the_same_and_costs_one_parse_and_no_child),
		cmocka_unit_test(each_gets_its_own_however_many_ask_at_once),
		cmocka_unit_test(what_is_over_the_limit_never_reaches_a_child),
		cmocka_unit_test(a_small_object_is_parsed_while_a_large_one_is_copied),
		cmocka_unit_test(large_objects_leave_a_child_to_small_ones),
		cmocka_unit_test(a_child_that_had_a_large_object_is_replaced),
		cmocka_unit_test(a_stalled_child_costs_its_registrant_the_time_out_and_others_nothing),
		cmocka_unit_test(when_all_children_stall_those_that_wait_are_told_in_time_too),
		cmocka_unit_test(a_child_that_dies_before_it_has_read_its_order_is_no_error),
		cmocka_unit_test(a_child_that_is_killed_while_idle_is_replaced_unseen),
		cmocka_unit_test(the_end_of_the_jail_is_told_to_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
