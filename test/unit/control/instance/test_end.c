/* SPDX-License-Identifier: BSD-2-Clause */
/* The ends of an engine, its restarts, its pings, and the calls that it gets while it runs. */
#include "instance_rig.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"

static struct rig_asked asked;
static const struct instance_restart quick = { .restart = true,
					       .delay_min_ns = 20 * NS_PER_MS,
					       .delay_max_ns = NS_PER_SEC };
static const struct instance_restart never = { .restart = false };

/* ---- deaths ---- */

struct death {
	const char *manner;
	int signal; /* 0: it ends without a signal */
	enum instance_cause cause;
	const char *how;
	int code;
};

/* Only the policy of the expected cause restarts: the restart proves that the instance used that policy. */
static void each_cause_is_reported_once_and_has_its_own_policy(void **state)
{
	static const struct death deaths[] = {
		{ "exit0", 0, INSTANCE_EXITED, "exit status 0", 660 },
		{ "exit3", 0, INSTANCE_FAILED, "exit status 3", 660 },
		{ "exit4", 0, INSTANCE_FAILED,
		  "exit status 4: cannot listen on 127.0.0.1 port 4420: Address already in use", 660 },
		{ "exit5", 0, INSTANCE_FAILED, "exit status 5", 660 },
		{ "abort", 0, INSTANCE_CRASHED, "killed by signal 6", 660 },
		{ "", SIGKILL, INSTANCE_KILLED, "killed by signal 9", 660 },
		{ "", SIGTERM, INSTANCE_EXITED, "exit status 0", 660 },
		{ "", SIGSEGV, INSTANCE_CRASHED, "killed by signal 11", 660 },
		{ "", SIGHUP, INSTANCE_KILLED, "killed by signal 1", 660 },
		{ "die-setup", 0, INSTANCE_CRASHED, "killed by signal 6", 660 },
		{ "refuse-rank", 0, INSTANCE_NEVER_READY,
		  "fathom-engine 0 refused the setting of its rank: it says error -1003", 665 },
		{ "refuse-setup", 0, INSTANCE_NEVER_READY, "fathom-engine 0 refused the setting up: it says error -1004",
		  665 },
		{ "self-terminate", 0, INSTANCE_SELF_TERMINATED, "it left because its rank was excluded", 660 },
	};

	for (size_t i = 0; i < ARRAY_COUNT(deaths); i++) {
		const struct death *death = &deaths[i];
		char text[256], message[RAS_MESSAGE_BYTES];

		rig_begin();
		rig.options.restart[death->cause] = quick;
		rig_bring_up();
		rig_stop();
		rig_manner(death->manner);
		if (death->signal) {
			rig_start_it(&asked);
			rig_done(&asked);
			rig_kill(death->signal);
		} else {
			rig_start_it(&asked);
		}
		rig_until_died(1);
		rig_manner("");
		/* an exclusion is a decision of an operator: the event has no error */
		snprintf(text, sizeof(text), "%.127s", death->cause == INSTANCE_SELF_TERMINATED ? "" : death->how);
		assert_string_equal(rig.died_error, text);
		if (death->cause == INSTANCE_SELF_TERMINATED)
			snprintf(text, sizeof(text), "%s", "fathom-engine 0 has ended because its rank was excluded");
		else
			snprintf(text, sizeof(text), "fathom-engine 0 exited unexpectedly: %s", death->how);
		text_copy_words(message, sizeof(message), text); /* cut to the size of a message */
		assert_string_equal(rig.died_text, message);
		assert_int_equal(rig.died_rank, 3);
		if (!death->signal && strcmp(death->manner, "self-terminate") != 0)
			rig_fails(&asked, death->code);
		rig_until(INSTANCE_JOINED); /* restarted without a request */
		assert_int_equal(rig.died, 1);
		assert_int_equal(rig.own_events[RAS_ENGINE_RESTARTED - RAS_OWN_FIRST], 1);
		rig_stop();
		rig_end();
	}
}

static void without_a_restart_policy_an_engine_stays_errored_with_the_reason(void **state)
{
	rig_begin();
	for (size_t i = 0; i < INSTANCE_CAUSES; i++)
		rig.options.restart[i] = never;
	rig_bring_up();
	rig_kill(SIGKILL);
	rig_until(INSTANCE_ERRORED);
	assert_int_equal(rig_look()->restart_in_ns, 0);
	assert_string_equal(rig.info.why.text, "fathom-engine 0 exited: killed by signal 9");
	assert_non_null(strstr(rig.info.why.resolution, rig.options.log_file));
	assert_string_equal(rig.info.last_end, "killed by signal 9");
	assert_int_equal(rig.info.pid, 0);
	rig_start_it(&asked);
	rig_done(&asked);
	assert_int_equal(rig_look()->why.error, 0);
	rig_stop();
	rig_end();
}

static void an_engine_that_is_not_ready_in_time_is_killed(void **state)
{
	rig_begin();
	rig.options.ready_timeout_ns = 300 * NS_PER_MS;
	rig_bring_up();
	rig_stop();
	rig_manner("silent no-term");
	rig_start_it(&asked);
	rig_fails(&asked, 661);
	assert_int_equal(rig.died, 1);
	rig_manner("hang-setup");
	rig_start_it(&asked);
	rig_fails(&asked, 697);
	assert_int_equal(rig.died, 2);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_int_equal(rig.info.pid, 0);
	rig_end();
}

/* ---- engines that hang ---- */

static void begin_with_fast_pings(void)
{
	rig_begin();
	rig.options.ping_interval_ns = 20 * NS_PER_MS;
	rig.options.answer_timeout_ns = 300 * NS_PER_MS;
	rig.options.stop_timeout_ns = 200 * NS_PER_MS;
	rig_bring_up();
}

static void until_event(uint32_t id, uint64_t count)
{
	uint64_t until = clock_monotonic_ns() + 60 * NS_PER_SEC;

	while (rig.own_events[id - RAS_OWN_FIRST] < count) {
		assert_true(clock_monotonic_ns() < until);
		rig_look(); /* a turn of the control thread, which counts them */
	}
	assert_int_equal(rig.own_events[id - RAS_OWN_FIRST], count);
}

static void a_hung_engine_is_reported_and_not_ended(void **state)
{
	pid_t pid;

	begin_with_fast_pings();
	pid = rig_look()->pid;
	usleep(200000);
	assert_int_equal(rig.own_events[RAS_ENGINE_HUNG - RAS_OWN_FIRST], 0);
	for (uint64_t round = 1; round <= 2; round++) {
		rig_kill(SIGSTOP);
		until_event(RAS_ENGINE_HUNG, round);
		assert_int_equal(rig_look()->state, INSTANCE_JOINED);
		assert_int_equal(rig.info.why.code, 674);
		assert_int_equal(rig.info.pid, pid);
		rig_kill(SIGCONT);
		until_event(RAS_ENGINE_ANSWERS, round);
		assert_int_equal(rig_look()->why.error, 0);
	}
	assert_int_equal(rig.died, 0);
	rig_kill(SIGSTOP);
	until_event(RAS_ENGINE_HUNG, 3);
	assert_int_equal(rig.died, 0);
	assert_true(rig_look()->is_hung);
	assert_non_null(strstr(rig.info.why.text, "has not answered since 20"));
	rig_start_it(&asked); /* fails, but does not end an engine that may still serve */
	rig_fails(&asked, 674);
	assert_int_equal(rig_look()->state, INSTANCE_JOINED);
	assert_int_equal(rig.info.pid, pid);
	rig_prepare_it(&asked);
	rig_done(&asked); /* at once: it cannot answer */
	assert_int_equal(rig.own_events[RAS_ENGINE_KILLED - RAS_OWN_FIRST], 0);
	rig_stop();
	until_event(RAS_ENGINE_KILLED, 1);
	assert_false(rig_look()->is_hung);
	assert_int_equal(rig_received("PREP_SHUTDOWN 3"), 0);
	assert_true(kill(pid, 0) != 0);
	assert_int_equal(rig.died, 0);
	rig_end();
}

/* The server has not noticed a hang yet. An engine that does not answer the ping after the time-out hangs. */
static void after_a_preparation_timeout_a_ping_distinguishes_hung_from_slow(void **state)
{
	rig_begin();
	rig.options.ping_interval_ns = 3600 * NS_PER_SEC;
	rig.options.prepare_timeout_ns = 100 * NS_PER_MS;
	rig.options.answer_timeout_ns = 500 * NS_PER_MS;
	rig.options.stop_timeout_ns = 200 * NS_PER_MS;
	rig_manner("slow-prepare");
	rig_bring_up();
	rig_prepare_it(&asked);
	rig_fails(&asked, 697);
	assert_false(rig_look()->is_hung);
	rig_stop();
	rig_start_it(&asked);
	rig_done(&asked);
	rig_kill(SIGSTOP);
	rig_prepare_it(&asked);
	rig_done(&asked);
	assert_true(rig_look()->is_hung);
	assert_int_equal(rig.info.why.code, 674);
	assert_int_equal(rig.own_events[RAS_ENGINE_HUNG - RAS_OWN_FIRST], 1);
	rig_stop();
	until_event(RAS_ENGINE_KILLED, 1);
	rig_start_it(&asked);
	rig_done(&asked);
	assert_int_equal(rig.died, 0);
	rig_stop();
	rig_end();
}

static void a_hung_engine_is_restarted_if_the_policy_says_so(void **state)
{
	pid_t pid;

	begin_with_fast_pings();
	pid = rig_look()->pid;
	rig_kill(SIGSTOP);
	until_event(RAS_ENGINE_HUNG, 1);
	rig_set_restart(INSTANCE_HUNG, &quick); /* applies although it hangs already */
	rig_until_died(1);
	assert_non_null(strstr(rig.died_error, "fathom-engine 0 hangs"));
	rig_until(INSTANCE_JOINED);
	assert_true(rig_look()->pid != pid);
	assert_int_equal(rig_received("BEGINS 0"), 2);
	rig_stop();
	rig_end();
}

/* ---- restarts in a row ---- */

static void restarts_in_a_row_back_off_up_to_the_limit(void **state)
{
	static const struct instance_restart few = { true, 20 * NS_PER_MS, 80 * NS_PER_MS, 3 };
	uint64_t began, took;

	rig_begin();
	rig_bring_up();
	rig_set_restart(INSTANCE_FAILED, &few);
	rig_stop();
	rig_manner("exit3");
	began = clock_monotonic_ns();
	rig_start_it(&asked);
	rig_fails(&asked, 660);
	rig_until_died(4);
	took = clock_monotonic_ns() - began;
	assert_true(took >= (20 + 40 + 80) * NS_PER_MS);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_int_equal(rig.info.restart_in_ns, 0);
	assert_int_equal(rig.info.why.code, 672);
	rig_start_it(&asked); /* the count of restarts begins again */
	rig_until_died(8);
	rig_manner("");
	rig_start_it(&asked);
	rig_done(&asked);
	rig_stop();
	rig_end();
}

static void a_steady_uptime_resets_the_count_of_restarts(void **state)
{
	static const struct instance_restart once = { true, NS_PER_MS, NS_PER_MS, 1 };

	rig_begin();
	rig.options.restart[INSTANCE_KILLED] = once;
	rig.options.steady_ns = 50 * NS_PER_MS;
	rig_bring_up();
	for (int i = 1; i <= 3; i++) {
		usleep(150000); /* steady */
		rig_kill(SIGKILL);
		rig_until_died((uint64_t)i);
		rig_until(INSTANCE_JOINED);
	}
	rig.options.steady_ns = 0;
	rig_stop();
	rig_destroy();
	rig_create();
	rig_start_it(&asked);
	rig_done(&asked);
	rig_kill(SIGKILL);
	rig_until_died(4);
	rig_until(INSTANCE_JOINED);
	rig_kill(SIGKILL);
	rig_until_died(5);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED); /* not steady: the limit holds */
	assert_int_equal(rig.info.why.code, 672);
	rig_end();
}

/* A request for all engines of a host also reaches those that it does not fit. */
static void a_rejected_format_keeps_a_scheduled_restart(void **state)
{
	static const struct instance_restart later = { true, 3600 * NS_PER_SEC, 3600 * NS_PER_SEC, 0 },
					     soon = { true, 800 * NS_PER_MS, 800 * NS_PER_MS, 0 };

	rig_begin();
	rig.options.restart[INSTANCE_KILLED] = later;
	rig_bring_up();
	rig_kill(SIGKILL);
	rig_until(INSTANCE_ERRORED);
	rig_format_it(&asked, false, false);
	rig_fails(&asked, 153);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_true(rig.info.restart_in_ns > 3500 * NS_PER_SEC);
	assert_int_equal(rig.info.why.code, 660); /* the fault is kept */
	rig_start_it(&asked);
	rig_done(&asked);
	rig_set_restart(INSTANCE_KILLED, &soon);
	rig_kill(SIGKILL);
	rig_until(INSTANCE_ERRORED);
	rig_format_it(&asked, false, false);
	rig_fails(&asked, 153);
	rig_until(INSTANCE_JOINED); /* by the scheduled restart */
	rig_set_restart(INSTANCE_KILLED, &later);
	rig_kill(SIGKILL);
	rig_until(INSTANCE_ERRORED);
	rig_manner("exit3");
	rig_format_it(&asked, true, false); /* accepted: it cancels the scheduled restart */
	rig_done(&asked);
	rig_until_died(4);
	rig_stop();
	assert_int_equal(rig.info.restart_in_ns, 0);
	rig_end();
}

static void a_start_queued_behind_a_rejected_format_is_done(void **state)
{
	struct rig_asked format;

	rig_begin();
	rig.options.restart[INSTANCE_KILLED] = never;
	rig_bring_up();
	rig_kill(SIGKILL);
	rig_until(INSTANCE_ERRORED);
	rig_format_it(&format, false, false);
	rig_start_it(&asked); /* the restored fault must not answer it */
	rig_fails(&format, 153);
	rig_done(&asked);
	assert_int_equal(rig_look()->state, INSTANCE_JOINED);
	rig_stop();
	rig_end();
}

static void default_policies_equal_those_in_instance_h(void **state)
{
	for (unsigned int cause = 0; cause < INSTANCE_CAUSES; cause++) {
		struct instance_restart restart = instance_restart_default((enum instance_cause)cause);

		assert_int_equal(restart.restart, cause != INSTANCE_EXITED && cause != INSTANCE_HUNG);
		assert_int_equal(restart.delay_max_ns, 300 * NS_PER_SEC);
		assert_true(restart.delay_min_ns >= NS_PER_SEC);
	}
	assert_string_equal(instance_cause_word(INSTANCE_SELF_TERMINATED), "self_terminated");
	assert_int_equal(instance_restart_default(INSTANCE_FAILED).limit, 10);
	assert_int_equal(instance_restart_default(INSTANCE_NEVER_READY).limit, 5);
}

/* ---- calls to the engine ---- */

static void only_the_newest_group_map_is_sent(void **state)
{
	rig_begin();
	rig_create();
	rig.join = RIG_HOLD;
	rig_group(1); /* no engine runs to receive it */
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_READY);
	for (uint32_t version = 2; version <= 10; version++)
		rig_group(version);
	rig_group(9);
	rig_release_join(RIG_WELCOME);
	rig_until_received("GROUP 10", 1);
	assert_int_equal(rig_received("GROUP 1"), 0);
	assert_int_equal(rig_received("GROUP 9"), 0);
	rig_manner("refuse-group");
	rig_group(11);
	rig_until_received("GROUP 11", 1); /* by a retry after the rejection */
	assert_int_equal(rig_received("GROUP_REFUSED 11"), 1);
	rig_manner("");
	rig.join = RIG_WELCOME;
	rig_stop();
	rig_end();
}

static void pings_and_log_masks_are_answered(void **state)
{
	rig_begin();
	rig_create();
	rig_ping_it(&asked);
	rig_fails(&asked, 671);
	rig_masks(&asked, "DEBUG");
	rig_fails(&asked, 671);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_ping_it(&asked);
	rig_done(&asked);
	rig_masks(&asked, "DEBUG");
	rig_done(&asked);
	assert_int_equal(rig_received("DEBUG 0"), 1);
	rig_masks(&asked, NULL);
	rig_done(&asked);
	assert_int_equal(rig_received(" 1"), 1);
	rig_masks(&asked, "NONSENSE");
	rig_fails(&asked, 699);
	rig_masks(&asked, "DEBUG,RPC=ERR");
	rig_fails(&asked, 699);
	rig_kill(SIGSTOP);
	rig_ping_it(&asked);
	rig_fails(&asked, 697); /* no answer is not a rejection */
	rig_ping_it(&asked);
	rig_kill(SIGKILL);
	rig_fails(&asked, 698);
	rig_stop();
	rig_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_cause_is_reported_once_and_has_its_own_policy),
		cmocka_unit_test(without_a_restart_policy_an_engine_stays_errored_with_the_reason),
		cmocka_unit_test(an_engine_that_is_not_ready_in_time_is_killed),
		cmocka_unit_test(a_hung_engine_is_reported_and_not_ended),
		cmocka_unit_test(after_a_preparation_timeout_a_ping_distinguishes_hung_from_slow),
		cmocka_unit_test(a_hung_engine_is_restarted_if_the_policy_says_so),
		cmocka_unit_test(restarts_in_a_row_back_off_up_to_the_limit),
		cmocka_unit_test(a_steady_uptime_resets_the_count_of_restarts),
		cmocka_unit_test(a_rejected_format_keeps_a_scheduled_restart),
		cmocka_unit_test(a_start_queued_behind_a_rejected_format_is_done),
		cmocka_unit_test(default_policies_equal_those_in_instance_h),
		cmocka_unit_test(only_the_newest_group_map_is_sent),
		cmocka_unit_test(pings_and_log_masks_are_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
