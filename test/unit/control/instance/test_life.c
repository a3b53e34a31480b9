/* SPDX-License-Identifier: BSD-2-Clause */
/* An engine's life as its server has it: formatted, started, joined, stopped; and what stands in its way. */
#include "instance_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"

static struct rig_asked asked, other;
static const struct instance_restart never = { .restart = false };

static bool is_there(const char *name)
{
	char path[128];

	rig_path(path, name);
	return access(path, F_OK) == 0;
}

/* ---- the way up ---- */

static void formatted_started_joined_and_stopped(void **state)
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
	rig_start_it(&asked); /* it is examined again, and not reported again */
	rig_fails(&asked, 152);
	assert_int_equal(rig.format_required, 1);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	assert_string_equal(rig.trail, "AD CH AW AD CH AW AD FO CH ST RE JO");
	rig_path(path, "data.img");
	assert_int_equal(stat(path, &data), 0);
	assert_int_equal(data.st_size, 1 << 20);
	assert_true(data.st_blocks * 512 >= 1 << 20);
	assert_false(is_there("data.img.new"));
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
	assert_int_equal(rig_told("SET_RANK 3"), 1);
	assert_int_equal(rig_told("SET_UP 0"), 1);
	rig_start_it(&asked); /* of one that runs: done */
	rig_done(&asked);
	rig_format_it(&asked, true, false);
	rig_fails(&asked, 666);
	rig_erase_it(&asked);
	rig_fails(&asked, 666);
	rig_stop();
	assert_int_equal(rig_told("PREP_SHUTDOWN 3"), 1);
	assert_string_equal(rig.info.last_end, "exit status 0");
	assert_int_equal(rig.died, 0);
	rig_stop(); /* of one that does not run: done */
	rig_start_it(&asked);
	rig_done(&asked);
	assert_int_equal(rig.joined_rank, 3); /* as it remembers */
	assert_int_equal(rig.info.starts, 1);
	rig_stop();
	rig_end();
}

static void formatting_again_takes_force_and_gives_another_uuid(void **state)
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
	assert_true(is_there("engine.json"));
	rig_format_it(&asked, true, true);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	assert_false(is_there("engine.json"));
	after = rig_superblock();
	assert_memory_not_equal(before.uuid, after.uuid, sizeof(before.uuid));
	assert_true(rig.joined_as_replacement);
	assert_int_equal(rig.joined_rank, RANK_NONE);
	rig_stop();
	rig_start_it(&asked);
	rig_done(&asked);
	assert_false(rig.joined_as_replacement); /* once */
	rig_stop();
	rig_end();
}

static void what_is_half_formatted_is_not_formatted(void **state)
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
	assert_false(is_there("data.img.new"));
	rig_stop();
	rig_end();
}

static void an_erased_one_waits_for_its_formatting(void **state)
{
	struct superblock before, after;

	rig_begin();
	rig_bring_up();
	before = rig_superblock();
	rig_stop();
	rig_erase_it(&asked);
	rig_done(&asked);
	assert_int_equal(rig_look()->state, INSTANCE_AWAIT_FORMAT);
	assert_false(is_there("superblock"));
	assert_false(is_there("data.img"));
	assert_false(rig_look()->has_uuid);
	assert_int_equal(rig.info.rank, RANK_NONE);
	assert_int_equal(rig.format_required, 1);
	rig_destroy();
	rig_create(); /* another server: it stays so */
	rig_start_it(&asked);
	rig_fails(&asked, 152);
	assert_int_equal(rig_look()->state, INSTANCE_AWAIT_FORMAT);
	rig_erase_it(&asked); /* once more, and it is stopped meanwhile */
	rig_stop_it(&other, false);
	rig_done(&asked);
	rig_done(&other);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	after = rig_superblock();
	assert_memory_not_equal(before.uuid, after.uuid, sizeof(before.uuid));
	assert_int_equal(rig.joined_rank, RANK_NONE);
	assert_int_equal(rig_told("BEGINS 0"), 2);
	rig_stop();
	rig_end();
}

/* It is remembered until it has joined, whatever ends meanwhile. */
static void a_replacement_is_one_until_it_has_joined(void **state)
{
	rig_begin();
	rig_create();
	rig.join = RIG_NOBODY;
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

static void it_gets_what_the_table_says_and_nothing_else(void **state)
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
	assert_false(log_has("arg --config")); /* there is none */
	assert_false(log_has("arg --cpumask"));
	rig_stop();
	rig_end();
}

static void a_program_that_is_not_there_is_a_fault(void **state)
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

static void a_refused_join_ends_the_engine(void **state)
{
	rig_begin();
	rig_create();
	rig.join = RIG_REFUSE;
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_ERRORED);
	assert_int_equal(rig_look()->why.code, 457);
	assert_int_equal(rig.info.pid, 0);
	assert_int_equal(rig.died, 0);	      /* we ended it */
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

/* The start is answered at once, with what an operator has to do; the engine joins when that is done. */
static void where_the_database_takes_nothing_the_start_says_so(void **state)
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

static void where_nobody_answers_it_asks_again(void **state)
{
	rig_begin();
	rig_create();
	rig.join = RIG_NOBODY;
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	while (rig.joins < 3)
		rig_look();
	assert_int_equal(rig.info.state, INSTANCE_READY);
	assert_int_equal(rig.info.why.code, 506);
	rig.join = RIG_WELCOME;
	rig_until(INSTANCE_JOINED);
	assert_int_equal(rig.info.why.error, 0);
	assert_int_equal(rig_told("BEGINS 0"), 1);
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
	rig_destroy(); /* and of one that is there no more */
	assert_int_equal(asked.why.error, -ECANCELED);
	rig_release_join(RIG_WELCOME);
	rig.join = RIG_WELCOME;
	rig_create();
	rig_stop_it(&asked, true);
	rig_done(&asked);
	rig_end();
}

/* Its server died before it could report the exclusion. */
static void one_that_serves_and_is_excluded_is_ended(void **state)
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
	assert_int_equal(rig_told("PREP_SHUTDOWN 3"), 1); /* its hosts were sent away */
	rig_end();
}

/* ---- stops ---- */

static void one_that_does_not_end_is_killed(void **state)
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

static void force_does_not_wait(void **state)
{
	rig_begin();
	rig_manner("no-term");
	rig_bring_up();
	rig_stop_it(&asked, false);
	rig_until_told("PREP_SHUTDOWN 3", 1);
	rig_stop_it(&other, true);
	rig_done(&asked);
	rig_done(&other);
	rig_start_it(&asked);
	rig_done(&asked);
	rig_stop_it(&asked, true);
	rig_done(&asked);
	assert_int_equal(rig_told("PREP_SHUTDOWN 3"), 1); /* not a second time */
	rig_end();
}

static void a_stop_cancels_what_is_due_and_a_start_after_it_begins(void **state)
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
	rig_start_it(&other); /* while it is stopped: when it has gone */
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

/* Its hosts were sent away: it is of no use until it is restarted. */
static void one_that_was_prepared_begins_anew(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_prepare_it(&asked);
	rig_done(&asked);
	rig.trail[0] = '\0';
	rig_start_it(&asked);
	rig_done(&asked);
	assert_string_equal(rig.trail, "ST ST AD CH ST RE JO");
	assert_int_equal(rig_told("BEGINS 0"), 2);
	assert_int_equal(rig_told("PREP_SHUTDOWN 3"), 1);
	assert_int_equal(rig.died, 0);
	rig_stop();
	assert_int_equal(rig_told("PREP_SHUTDOWN 3"), 2);
	rig_end();
}

/* It has no rank yet, so it refuses, and goes on: it is not taken for one that was prepared. */
static void one_that_could_not_be_prepared_is_not_begun_anew(void **state)
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
	assert_string_equal(rig.trail, "RE JO"); /* it joins again, as one that serves */
	rig_stop();
	assert_int_equal(rig_told("PREP_SHUTDOWN 3"), 1); /* its hosts were sent away then */
	rig_end();
}

/* Whatever the management service thought of it, an engine that serves is not disturbed by being started. */
static void one_that_serves_joins_again_when_it_is_started(void **state)
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
	assert_string_equal(rig.trail, "RE JO");
	assert_int_equal(rig.joins, 2);
	assert_int_equal(rig.joined_rank, 3);
	assert_int_equal(rig.joined_incarnation, incarnation);
	assert_int_equal(rig_look()->pid, pid);
	assert_int_equal(rig_told("SET_UP 0"), 1);
	assert_int_equal(rig_told("SET_RANK 3"), 1);
	rig.join = RIG_NOBODY;
	rig_start_it(&asked);
	while (rig.joins < 4)
		rig_look();
	rig_group(9); /* for when it is a member again */
	rig.join = RIG_WELCOME;
	rig_done(&asked);
	rig_until_told("GROUP 9", 1);
	assert_int_equal(rig_told("BEGINS 0"), 1);
	rig_stop();
	rig_end();
}

/* The answer to a map that was under way then is dropped: that map is sent again, and so are those behind it. */
static void a_map_under_way_when_it_is_started_again_is_sent(void **state)
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
	rig_until_told("GROUP 14", 1);
	assert_int_equal(rig_told("GROUP 11"), 1);
	assert_int_equal(rig_told("GROUP 12"), 2);
	assert_int_equal(rig_told("BEGINS 0"), 1);
	rig_stop();
	rig_end();
}

static void stopping_is_prepared_once(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_prepare_it(&asked);
	rig_done(&asked);
	assert_int_equal(rig_told("PREP_SHUTDOWN 3"), 1);
	rig_stop();
	assert_int_equal(rig_told("PREP_SHUTDOWN 3"), 1);
	rig_prepare_it(&asked); /* nothing runs */
	rig_done(&asked);
	rig_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formatted_started_joined_and_stopped),
		cmocka_unit_test(formatting_again_takes_force_and_gives_another_uuid),
		cmocka_unit_test(what_is_half_formatted_is_not_formatted),
		cmocka_unit_test(an_erased_one_waits_for_its_formatting),
		cmocka_unit_test(a_replacement_is_one_until_it_has_joined),
		cmocka_unit_test(it_gets_what_the_table_says_and_nothing_else),
		cmocka_unit_test(a_program_that_is_not_there_is_a_fault),
		cmocka_unit_test(a_refused_join_ends_the_engine),
		cmocka_unit_test(one_that_serves_and_is_excluded_is_ended),
		cmocka_unit_test(where_the_database_takes_nothing_the_start_says_so),
		cmocka_unit_test(where_nobody_answers_it_asks_again),
		cmocka_unit_test(a_late_answer_to_a_join_changes_nothing),
		cmocka_unit_test(one_that_does_not_end_is_killed),
		cmocka_unit_test(force_does_not_wait),
		cmocka_unit_test(a_stop_cancels_what_is_due_and_a_start_after_it_begins),
		cmocka_unit_test(a_map_under_way_when_it_is_started_again_is_sent),
		cmocka_unit_test(stopping_is_prepared_once),
		cmocka_unit_test(one_that_was_prepared_begins_anew),
		cmocka_unit_test(one_that_could_not_be_prepared_is_not_begun_anew),
		cmocka_unit_test(one_that_serves_joins_again_when_it_is_started),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
