/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of an engine: it is formatted, started, joined and stopped; and the faults of each of these. */
#include "instance_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "rpc/ras/event.h"

static struct rig_asked asked, other;
static const struct instance_restart never = { .restart = false };

static bool file_exists(const char *name)
{
	char path[128];

	rig_path(path, name);
	return access(path, F_OK) == 0;
}

/* ---- formatting and erasing ---- */

static void an_engine_is_formatted_started_joined_and_stopped(void **state)
{
	struct superblock superblock;
	struct stat data;
	char path[128];

	rig_begin();
	rig_create();
	rig_start_it(&asked);
	rig_fails(&asked, 152);
	assert_int_equal(rig_look()->state, INSTANCE_AWAIT_FORMAT);
	assert_int_equal(rig.format_required, 1);
	rig_start_it(&asked); /* checks again, without a second event */
	rig_fails(&asked, 152);
	assert_int_equal(rig.format_required, 1);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	assert_string_equal(rig.trail, "adopting checking await_format adopting checking await_format "
				       "adopting formatting checking starting ready joined");
	rig_path(path, "data.img");
	assert_int_equal(stat(path, &data), 0);
	assert_int_equal(data.st_size, 1 << 20);
	assert_true(data.st_blocks * 512 >= 1 << 20);
	assert_false(file_exists("data.img.new"));
	superblock = rig_superblock();
	assert_true(superblock.has_rank);
	assert_int_equal(superblock.rank, 3);
	assert_string_equal(superblock.uri, "nvme+tcp://127.0.0.1:4420");
	assert_string_equal(superblock.domain, "/rack9/node0");
	assert_int_equal(superblock.incarnation, rig.joined_incarnation);
	assert_int_equal(rig_look()->rank, 3);
	assert_int_equal(rig.info.incarnation, superblock.incarnation);
	assert_memory_equal(rig.info.uuid, superblock.uuid, sizeof(superblock.uuid));
	assert_int_equal(rig.joined_rank, RANK_NONE);
	assert_int_equal(rig_received("SET_RANK 3"), 1);
	assert_int_equal(rig_received("SET_UP 0"), 1);
	rig_start_it(&asked); /* it runs: no fault */
	rig_done(&asked);
	rig_format_it(&asked, true, false);
	rig_fails(&asked, 666);
	rig_erase_it(&asked);
	rig_fails(&asked, 666);
	rig_stop();
	assert_int_equal(rig_received("PREP_SHUTDOWN 3"), 1);
	assert_string_equal(rig.info.last_end, "exit status 0");
	assert_int_equal(rig.died, 0);
	rig_stop(); /* it does not run: no fault */
	rig_start_it(&asked);
	rig_done(&asked);
	assert_int_equal(rig.joined_rank, 3); /* from the superblock */
	assert_int_equal(rig.info.starts, 1);
	rig_stop();
	rig_end();
}

static void reformatting_needs_force_and_assigns_a_new_uuid(void **state)
{
	struct superblock before, after;
	char path[128];

	rig_begin();
	rig_bring_up();
	before = rig_superblock();
	rig_stop();
	rig_path(path, "engine.json");
	must(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
	rig_format_it(&asked, false, false);
	rig_fails(&asked, 153);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPED);
	assert_true(file_exists("engine.json"));
	rig_format_it(&asked, true, true);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	assert_false(file_exists("engine.json"));
	after = rig_superblock();
	assert_memory_not_equal(before.uuid, after.uuid, sizeof(before.uuid));
	assert_true(rig.joined_as_replacement);
	assert_int_equal(rig.joined_rank, RANK_NONE);
	rig_stop();
	rig_start_it(&asked);
	rig_done(&asked);
	assert_false(rig.joined_as_replacement); /* only until it has joined */
	rig_stop();
	rig_end();
}

static void interrupted_formatting_counts_as_not_formatted(void **state)
{
	char path[128], new_path[128];

	rig_begin();
	rig_bring_up();
	rig_stop();
	rig_path(path, "data.img");
	rig_path(new_path, "data.img.new");
	must(rename(path, new_path) == 0);
	rig_start_it(&asked);
	rig_fails(&asked, 152);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	assert_false(file_exists("data.img.new"));
	rig_stop();
	rig_end();
}

static void an_erased_engine_awaits_format(void **state)
{
	struct superblock before, after;

	rig_begin();
	rig_bring_up();
	before = rig_superblock();
	rig_stop();
	rig_erase_it(&asked);
	rig_done(&asked);
	assert_int_equal(rig_look()->state, INSTANCE_AWAIT_FORMAT);
	assert_false(file_exists("superblock"));
	assert_false(file_exists("data.img"));
	assert_false(rig_look()->has_uuid);
	assert_int_equal(rig.info.rank, RANK_NONE);
	assert_int_equal(rig.format_required, 1);
	rig_destroy();
	rig_create(); /* the state survives the server */
	rig_start_it(&asked);
	rig_fails(&asked, 152);
	assert_int_equal(rig_look()->state, INSTANCE_AWAIT_FORMAT);
	rig_erase_it(&asked); /* again, with a stop queued behind it */
	rig_stop_it(&other, false);
	rig_done(&asked);
	rig_done(&other);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	after = rig_superblock();
	assert_memory_not_equal(before.uuid, after.uuid, sizeof(before.uuid));
	assert_int_equal(rig.joined_rank, RANK_NONE);
	assert_int_equal(rig_received("BEGINS 0"), 2);
	rig_stop();
	rig_end();
}

/* The superblock records the replacement until the engine has joined: deaths of engine and server do not lose it. */
static void an_engine_stays_a_replacement_until_it_has_joined(void **state)
{
	rig_begin();
	rig_create();
	rig.join = RIG_NO_ANSWER;
	rig_format_it(&asked, false, true);
	rig_done(&asked);
	rig_until(INSTANCE_READY);
	assert_true(rig_superblock().is_replacement);
	rig_kill(SIGKILL);
	rig_until_died(1);
	rig_destroy();
	rig.join = RIG_WELCOME;
	rig_create();
	rig_start_it(&asked);
	rig_done(&asked);
	assert_true(rig.joined_as_replacement);
	assert_false(rig_superblock().is_replacement);
	rig_stop();
	rig_start_it(&asked);
	rig_done(&asked);
	assert_false(rig.joined_as_replacement);
	rig_stop();
	rig_end();
}

/* ---- how it is started ---- */

static bool log_has(const char *line)
{
	char read[512];
	bool has = false;
	FILE *file = fopen(rig.log_path, "r");

	must(file);
	while (fgets(read, sizeof(read), file)) {
		read[strcspn(read, "\n")] = '\0';
		has |= strncmp(read, line, strlen(line)) == 0;
	}
	fclose(file);
	return has;
}

static void the_process_gets_the_configured_environment_and_arguments_only(void **state)
{
	static const char *const env[] = { "DOUBLE_A=1" }, *const pass[] = { "DOUBLE_B", "DOUBLE_A", "DOUBLE_C" };
	static const char *const more[] = { "--log-level", "info" };

	rig_begin();
	rig.options.env = env;
	rig.options.env_count = ARRAY_COUNT(env);
	rig.options.env_pass = pass;
	rig.options.env_pass_count = ARRAY_COUNT(pass);
	rig.options.arguments = more;
	rig.options.argument_count = ARRAY_COUNT(more);
	rig.options.log_mask = "ERR";
	rig.options.paranoid_blocks = 16384;
	setenv("DOUBLE_A", "2", 1);
	setenv("DOUBLE_B", "3", 1);
	setenv("DOUBLE_D", "4", 1);
	rig_manner("env");
	rig_bring_up();
	assert_true(log_has("DOUBLE_A=1"));
	assert_false(log_has("DOUBLE_A=2"));
	assert_true(log_has("DOUBLE_B=3"));
	assert_false(log_has("DOUBLE_D"));
	assert_false(log_has("PATH="));
	assert_false(log_has("fd "));
	assert_true(log_has("session 1"));
	assert_true(log_has("arg --listen"));
	assert_true(log_has("arg 127.0.0.1:4420"));
	assert_true(log_has("arg --log-level"));
	assert_true(log_has("arg ERROR"));
	assert_true(log_has("arg info"));
	assert_true(log_has("arg --uuid"));
	assert_false(log_has("arg --config")); /* it has no option */
	assert_false(log_has("arg --cpumask"));
	assert_true(log_has("arg --paranoid"));
	assert_true(log_has("arg 16384"));
	rig_stop();
	rig_end();
}

static void a_missing_program_is_a_fault(void **state)
{
	rig_begin();
	rig.options.program = "/no/such/engine";
	rig_create();
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_ERRORED);
	assert_int_equal(rig_look()->why.code, 662);
	assert_int_equal(rig.info.restart_in_ns, 0);
	assert_int_equal(rig.died, 0);
	rig_start_it(&asked);
	rig_fails(&asked, 662);
	rig_end();
}

/* ---- joins ---- */

static void a_rejected_join_ends_the_engine(void **state)
{
	rig_begin();
	rig_create();
	rig.join = RIG_REFUSE;
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_ERRORED);
	assert_int_equal(rig_look()->why.code, 457);
	assert_int_equal(rig.info.pid, 0);
	assert_int_equal(rig.died, 0);	      /* the server ended it */
	assert_int_equal(rig.join_failed, 0); /* the management service has reported it */
	assert_int_equal(rig.info.restart_in_ns, 0);
	rig_start_it(&asked);
	rig_fails(&asked, 457);
	rig.join = RIG_WELCOME;
	rig_until(INSTANCE_ERRORED);
	rig_start_it(&asked);
	rig_done(&asked);
	rig_stop();
	rig_end();
}

/* The start fails at once, with a fault that an operator must remove. The engine joins after that. */
static void a_start_fails_if_the_database_is_full(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_stop();
	rig.join = RIG_FULL;
	rig_start_it(&asked);
	rig_fails(&asked, 1052);
	assert_int_equal(rig_look()->state, INSTANCE_READY);
	assert_int_equal(rig.info.why.code, 1052);
	rig.join = RIG_WELCOME;
	rig_until(INSTANCE_JOINED);
	assert_int_equal(rig_look()->why.error, 0);
	assert_int_equal(rig.info.starts, 2);
	rig_stop();
	rig_end();
}

static void a_join_without_an_answer_is_retried(void **state)
{
	rig_begin();
	rig_create();
	rig.join = RIG_NO_ANSWER;
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	while (rig.joins < 3)
		rig_look();
	assert_int_equal(rig.info.state, INSTANCE_READY);
	assert_int_equal(rig.info.why.code, 506);
	rig.join = RIG_WELCOME;
	rig_until(INSTANCE_JOINED);
	assert_int_equal(rig.info.why.error, 0);
	assert_int_equal(rig_received("BEGINS 0"), 1);
	rig_stop();
	rig_end();
}

static void a_late_answer_to_a_join_changes_nothing(void **state)
{
	rig_begin();
	rig_create();
	rig.options.restart[INSTANCE_KILLED] = never;
	rig.join = RIG_HOLD;
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_READY);
	rig_kill(SIGKILL);
	rig_until(INSTANCE_ERRORED);
	rig_release_join(RIG_WELCOME);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_false(rig_superblock().has_rank);
	rig_start_it(&other);
	rig_until(INSTANCE_READY);
	rig_stop();
	rig_fails(&other, 668);
	rig_release_join(RIG_REFUSE);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPED);
	rig_start_it(&asked);
	rig_until(INSTANCE_READY);
	rig_destroy(); /* the answer comes after it was destroyed */
	assert_int_equal(asked.why.error, -ECANCELED);
	rig_release_join(RIG_WELCOME);
	rig.join = RIG_WELCOME;
	rig_create();
	rig_stop_it(&asked, true);
	rig_done(&asked);
	rig_end();
}

/* An excluded engine may still serve if its server died before it reported the exclusion. */
static void a_serving_engine_is_ended_if_its_rank_is_excluded(void **state)
{
	rig_begin();
	rig_bring_up();
	rig.join = RIG_EXCLUDE;
	rig_start_it(&asked);
	rig_fails(&asked, 623);
	rig_until(INSTANCE_ERRORED);
	assert_int_equal(rig_look()->pid, 0);
	assert_int_equal(rig.info.why.code, 623);
	assert_int_equal(rig.join_failed, 1);
	assert_int_equal(rig.died, 0);
	assert_int_equal(rig.info.restart_in_ns, 0);
	assert_int_equal(rig_received("PREP_SHUTDOWN 3"), 1); /* it disconnected its hosts */
	rig_end();
}

/* ---- stops ---- */

static void an_engine_that_ignores_sigterm_is_killed(void **state)
{
	rig_begin();
	rig.options.stop_timeout_ns = 200 * NS_PER_MS;
	rig_manner("no-term");
	rig_bring_up();
	rig_stop();
	assert_string_equal(rig.info.last_end, "killed by signal 9");
	assert_int_equal(rig.died, 0);
	rig_end();
}

static void a_forced_stop_does_not_wait(void **state)
{
	rig_begin();
	rig_manner("no-term");
	rig_bring_up();
	rig_stop_it(&asked, false);
	rig_until_received("PREP_SHUTDOWN 3", 1);
	rig_stop_it(&other, true);
	rig_done(&asked);
	rig_done(&other);
	rig_start_it(&asked);
	rig_done(&asked);
	rig_stop_it(&asked, true);
	rig_done(&asked);
	assert_int_equal(rig_received("PREP_SHUTDOWN 3"), 1); /* no second one by the forced stop */
	rig_end();
}

static pid_t stopped_pid;

/* The server pauses until its engine has ended and the time-out of the stop has passed. */
static void pause_server(void *unused)
{
	siginfo_t info;

	must(waitid(P_PID, (id_t)stopped_pid, &info, WEXITED | WNOWAIT) == 0);
	usleep(60000);
}

static void pause_when_stopping(struct instance *instance, enum instance_state to)
{
	if (to == INSTANCE_STOPPING) /* it runs after the signal was sent */
		thread_send_msg(thread_control(), pause_server, NULL);
}

static void an_engine_that_ended_while_the_server_paused_is_not_killed_or_called_unkillable(void **state)
{
	static const bool forced[] = { false, true };

	for (size_t i = 0; i < ARRAY_COUNT(forced); i++) {
		rig_begin();
		rig.options.stop_timeout_ns = 30 * NS_PER_MS;
		rig_bring_up();
		stopped_pid = rig_look()->pid;
		rig_prepare_it(&asked); /* the stop then sends SIGTERM at once */
		rig_done(&asked);
		rig.changed = pause_when_stopping;
		rig_stop_it(&asked, forced[i]);
		rig_done(&asked);
		assert_int_equal(rig_look()->state, INSTANCE_STOPPED);
		assert_string_equal(rig.info.last_end, forced[i] ? "killed by signal 9" : "exit status 0");
		assert_int_equal(rig.own_events[RAS_ENGINE_KILLED - RAS_OWN_FIRST], 0);
		rig_end();
	}
}

static void a_stop_cancels_a_scheduled_restart_but_no_later_start(void **state)
{
	static const struct instance_restart later = { true, 3600 * NS_PER_SEC, 3600 * NS_PER_SEC, 0 };

	rig_begin();
	rig.options.restart[INSTANCE_KILLED] = later;
	rig_bring_up();
	rig_kill(SIGKILL);
	rig_until(INSTANCE_ERRORED);
	assert_true(rig_look()->restart_in_ns > 3500 * NS_PER_SEC);
	rig_stop();
	assert_int_equal(rig_look()->restart_in_ns, 0);
	rig_start_it(&asked);
	rig_done(&asked);
	rig_stop_it(&asked, false);
	rig_start_it(&other); /* during the stop: it starts when the process has ended */
	rig_done(&asked);
	rig_done(&other);
	assert_int_equal(rig_look()->state, INSTANCE_JOINED);
	rig_stop_it(&asked, false);
	rig_done(&asked);
	rig_manner("silent");
	rig_start_it(&other);
	rig_until(INSTANCE_STARTING);
	rig_stop();
	rig_fails(&other, 668);
	rig_end();
}

/* The engine has disconnected its hosts, and accepts none until it is restarted. */
static void a_start_restarts_an_engine_prepared_to_stop(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_prepare_it(&asked);
	rig_done(&asked);
	rig.trail[0] = '\0';
	rig_start_it(&asked);
	rig_done(&asked);
	assert_string_equal(rig.trail, "stopping stopped adopting checking starting ready joined");
	assert_int_equal(rig_received("BEGINS 0"), 2);
	assert_int_equal(rig_received("PREP_SHUTDOWN 3"), 1);
	assert_int_equal(rig.died, 0);
	rig_stop();
	assert_int_equal(rig_received("PREP_SHUTDOWN 3"), 2);
	rig_end();
}

/* An engine without a rank rejects PREP_SHUTDOWN and continues. It must not count as prepared. */
static void a_start_does_not_restart_an_engine_that_rejected_its_preparation(void **state)
{
	rig_begin();
	rig.join = RIG_HOLD;
	rig_create();
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_READY);
	rig_prepare_it(&asked);
	rig_fails(&asked, 665);
	assert_false(rig_look()->is_prepared);
	rig_release_join(RIG_WELCOME);
	rig_until(INSTANCE_JOINED);
	rig.join = RIG_WELCOME;
	rig.trail[0] = '\0';
	rig_start_it(&asked);
	rig_done(&asked);
	assert_string_equal(rig.trail, "ready joined"); /* it only joins again: no restart */
	rig_stop();
	assert_int_equal(rig_received("PREP_SHUTDOWN 3"), 1); /* by this stop */
	rig_end();
}

/* The start repeats the join only: the process, its rank and its hosts stay. */
static void a_start_makes_a_serving_engine_join_again(void **state)
{
	uint64_t incarnation;
	pid_t pid;

	rig_begin();
	rig_bring_up();
	pid = rig_look()->pid;
	incarnation = rig.info.incarnation;
	rig.trail[0] = '\0';
	rig_start_it(&asked);
	rig_done(&asked);
	assert_string_equal(rig.trail, "ready joined");
	assert_int_equal(rig.joins, 2);
	assert_int_equal(rig.joined_rank, 3);
	assert_int_equal(rig.joined_incarnation, incarnation);
	assert_int_equal(rig_look()->pid, pid);
	assert_int_equal(rig_received("SET_UP 0"), 1);
	assert_int_equal(rig_received("SET_RANK 3"), 1);
	rig.join = RIG_NO_ANSWER;
	rig_start_it(&asked);
	while (rig.joins < 4)
		rig_look();
	rig_group(9); /* to be sent after the join */
	rig.join = RIG_WELCOME;
	rig_done(&asked);
	rig_until_received("GROUP 9", 1);
	assert_int_equal(rig_received("BEGINS 0"), 1);
	rig_stop();
	rig_end();
}

/* A start drops the answer to the map being sent. That map is sent again, and then the maps that wait behind it. */
static void a_start_repeats_the_group_map_being_sent(void **state)
{
	rig_begin();
	rig_bring_up();
	for (uint32_t version = 8; version <= 12; version += 2) {
		rig_kill(SIGSTOP); /* it does not answer until it has joined again */
		rig_group(version);
		if (version == 10)
			rig_group(version + 1); /* one waits behind it */
		rig_start_it(&asked);
		rig_done(&asked);
		assert_int_equal(rig_look()->state, INSTANCE_JOINED);
		assert_in_range(rig.info.map_version, 0, version - 1);
		rig_kill(SIGCONT);
		while (rig_look()->map_version != version + (version == 10))
			;
	}
	rig_group(14);
	rig_until_received("GROUP 14", 1);
	assert_int_equal(rig_received("GROUP 11"), 1);
	assert_int_equal(rig_received("GROUP 12"), 2);
	assert_int_equal(rig_received("BEGINS 0"), 1);
	rig_stop();
	rig_end();
}

static void a_stop_is_prepared_once(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_prepare_it(&asked);
	rig_done(&asked);
	assert_int_equal(rig_received("PREP_SHUTDOWN 3"), 1);
	rig_stop();
	assert_int_equal(rig_received("PREP_SHUTDOWN 3"), 1);
	rig_prepare_it(&asked); /* it does not run: no fault */
	rig_done(&asked);
	rig_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_engine_is_formatted_started_joined_and_stopped),
		cmocka_unit_test(reformatting_needs_force_and_assigns_a_new_uuid),
		cmocka_unit_test(interrupted_formatting_counts_as_not_formatted),
		cmocka_unit_test(an_erased_engine_awaits_format),
		cmocka_unit_test(an_engine_stays_a_replacement_until_it_has_joined),
		cmocka_unit_test(the_process_gets_the_configured_environment_and_arguments_only),
		cmocka_unit_test(a_missing_program_is_a_fault),
		cmocka_unit_test(a_rejected_join_ends_the_engine),
		cmocka_unit_test(a_serving_engine_is_ended_if_its_rank_is_excluded),
		cmocka_unit_test(a_start_fails_if_the_database_is_full),
		cmocka_unit_test(a_join_without_an_answer_is_retried),
		cmocka_unit_test(a_late_answer_to_a_join_changes_nothing),
		cmocka_unit_test(an_engine_that_ignores_sigterm_is_killed),
		cmocka_unit_test(a_forced_stop_does_not_wait),
		cmocka_unit_test(an_engine_that_ended_while_the_server_paused_is_not_killed_or_called_unkillable),
		cmocka_unit_test(a_stop_cancels_a_scheduled_restart_but_no_later_start),
		cmocka_unit_test(a_start_repeats_the_group_map_being_sent),
		cmocka_unit_test(a_stop_is_prepared_once),
		cmocka_unit_test(a_start_restarts_an_engine_prepared_to_stop),
		cmocka_unit_test(a_start_does_not_restart_an_engine_that_rejected_its_preparation),
		cmocka_unit_test(a_start_makes_a_serving_engine_join_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
