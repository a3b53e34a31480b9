/* SPDX-License-Identifier: BSD-2-Clause */
/* Engines that outlive their server: each is found, recognised and adopted in its state; a foreign one is not. */
#include "instance_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "rpc/drpc/drpc.h"

static struct rig_asked asked, other;
static const struct instance_restart quick = { .restart = true,
					       .delay_min_ns = 20 * NS_PER_MS,
					       .delay_max_ns = NS_PER_SEC };

/* The server dies, and another begins. */
static pid_t begin_again(void)
{
	pid_t pid = rig_look()->pid;

	assert_true(pid > 0);
	rig_destroy();
	rig.trail[0] = '\0';
	rig_create();
	assert_int_equal(rig_look()->pid, 0);
	return pid;
}

/* ---- where it stands ---- */

static void one_that_serves_is_not_disturbed(void **state)
{
	uint64_t incarnation;
	pid_t pid;

	rig_begin();
	rig_manner("old"); /* its server was upgraded */
	rig_bring_up();
	incarnation = rig_look()->incarnation;
	for (uint64_t times = 1; times <= 3; times++) {
		pid = begin_again();
		rig_start_it(&asked);
		rig_done(&asked);
		assert_string_equal(rig.trail, "AD RE JO");
		assert_int_equal(rig_look()->pid, pid);
		assert_true(rig.info.is_adopted);
		assert_int_equal(rig.info.incarnation, incarnation);
		assert_string_equal(rig.info.version, "0.0.9");
		assert_int_equal(rig.info.rank, 3);
		assert_int_equal(rig.info.starts, 0);
		assert_int_equal(rig.joins, 1 + times);
		assert_int_equal(rig.joined_incarnation, incarnation);
		assert_int_equal(rig.joined_rank, 3);
	}
	assert_int_equal(rig_told("SET_RANK 3"), 1);
	assert_int_equal(rig_told("SET_UP 0"), 1);
	assert_int_equal(rig_told("BEGINS 0"), 1);
	rig_group(8);
	rig_until_told("GROUP 8", 1);
	rig_stop();
	assert_int_equal(rig_told("PREP_SHUTDOWN 3"), 1);
	assert_int_equal(rig.died, 0);
	rig_end();
}

static void one_that_begins_is_waited_for(void **state)
{
	pid_t pid;

	rig_begin();
	rig_manner("silent");
	rig_create();
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_STARTING);
	rig_until_told("BEGINS 0", 1);
	pid = begin_again();
	rig_start_it(&asked);
	rig_until(INSTANCE_STARTING); /* found, if its socket was there by now */
	rig_manner("");
	rig_done(&asked);
	assert_int_equal(rig_look()->pid, pid);
	assert_int_equal(rig_told("SET_UP 0"), 1);
	rig_stop();
	rig_end();
}

static void one_that_was_joining_joins(void **state)
{
	pid_t pid;

	rig_begin();
	rig.join = RIG_HOLD;
	rig_create();
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_READY);
	pid = begin_again();
	rig_release_join(RIG_WELCOME); /* too late */
	rig.join = RIG_WELCOME;
	rig_start_it(&asked);
	rig_done(&asked);
	assert_string_equal(rig.trail, "AD RE JO");
	assert_int_equal(rig_look()->pid, pid);
	assert_int_equal(rig_told("SET_UP 0"), 1);
	rig_stop();
	rig_end();
}

static void one_that_was_stopping_stops_and_begins_again(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_prepare_it(&asked);
	rig_done(&asked);
	begin_again();
	rig_start_it(&asked);
	rig_done(&asked);
	assert_string_equal(rig.trail, "AD ST ST AD CH ST RE JO");
	assert_int_equal(rig_told("BEGINS 0"), 2);
	assert_int_equal(rig.died, 0);
	rig_prepare_it(&asked);
	rig_done(&asked);
	begin_again();
	rig_stop(); /* it need not run */
	assert_string_equal(rig.trail, "AD ST ST");
	rig_end();
}

static void one_that_ended_meanwhile_is_told_of_and_not_found(void **state)
{
	static const char *const manners[] = { "", "silent" };

	for (size_t i = 0; i < ARRAY_COUNT(manners); i++) {
		uint64_t incarnation;
		pid_t pid;

		rig_begin();
		rig_manner(manners[i]);
		rig_create();
		rig_format_it(&asked, false, false);
		rig_done(&asked);
		rig_until(i == 0 ? INSTANCE_JOINED : INSTANCE_STARTING);
		incarnation = i == 0 ? rig_look()->incarnation : 0;
		pid = begin_again();
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		rig_manner("");
		rig_start_it(&asked);
		rig_done(&asked);
		assert_int_equal(rig.died, 1);
		assert_int_equal(rig.died_pid, pid);
		assert_int_equal(rig.died_incarnation, incarnation);
		assert_int_equal(rig.died_rank, i == 0 ? 3 : RANK_NONE);
		assert_true(rig_look()->pid != pid);
		assert_false(rig.info.is_adopted);
		begin_again(); /* the end of the next one is not reported */
		rig_stop();
		assert_int_equal(rig.died, 1);
		rig_end();
	}
}

/* ---- what is asked before it was looked for ---- */

static void a_stop_finds_it(void **state)
{
	rig_begin();
	rig_bring_up();
	begin_again();
	rig_stop();
	assert_int_equal(rig_told("PREP_SHUTDOWN 3"), 1);
	rig_end();
}

static void its_storage_is_neither_formatted_nor_erased(void **state)
{
	struct superblock before, after;
	pid_t pid;

	rig_begin();
	rig_bring_up();
	before = rig_superblock();
	pid = begin_again();
	rig_format_it(&asked, true, false);
	rig_fails(&asked, 666);
	rig_until(INSTANCE_JOINED); /* now that it is known */
	assert_int_equal(rig_look()->pid, pid);
	begin_again();
	rig_erase_it(&asked);
	rig_fails(&asked, 666);
	rig_until(INSTANCE_JOINED);
	after = rig_superblock();
	assert_memory_equal(&before, &after, sizeof(before));
	rig_stop();
	rig_end();
}

/* ---- others ---- */

static void somebody_else_is_a_fault(void **state)
{
	char path[128], aside[128];
	pid_t pid;

	rig_begin();
	rig_bring_up();
	pid = begin_again();
	rig_manner("foreign");
	rig_start_it(&asked);
	rig_fails(&asked, 663);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_int_equal(rig.info.pid, 0);
	assert_int_equal(kill(pid, 0), 0);
	rig_manner("");
	snprintf(path, sizeof(path), "%s/superblock", rig.storage);
	snprintf(aside, sizeof(aside), "%s/aside", rig.storage);
	must(rename(path, aside) == 0);
	rig_start_it(&asked);
	rig_fails(&asked, 663); /* its owner is unknown */
	must(rename(aside, path) == 0);
	rig_format_it(&asked, true, false);
	rig_fails(&asked, 666);
	rig_until(INSTANCE_JOINED);
	assert_int_equal(rig_look()->pid, pid);
	rig_stop();
	rig_end();
}

static void open_stranger(void *server)
{
	static const struct drpc_method methods[] = { { 0 } };
	char path[128];
	struct drpc_server_options options = { .path = path, .methods = methods };
	struct fathom_fault why;

	snprintf(path, sizeof(path), "%s/fathom_engine0.sock", rig.folder);
	must(drpc_server_open(&options, server, &why) == 0);
}

static void close_stranger(void *server)
{
	drpc_server_close(*(struct drpc_server **)server);
}

static void a_program_that_is_no_engine_is_a_fault(void **state)
{
	struct drpc_server *server;

	rig_begin();
	rig_create();
	rig_run(open_stranger, &server);
	rig_start_it(&asked);
	rig_fails(&asked, 663);
	rig_format_it(&asked, false, false);
	rig_fails(&asked, 663);
	rig_run(close_stranger, &server);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_stop();
	rig_end();
}

static void one_that_says_nothing_is_not_joined_by_a_second(void **state)
{
	pid_t pid;

	rig_begin();
	rig.options.restart[INSTANCE_FAILED] = quick;
	rig_bring_up();
	pid = begin_again();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	rig_start_it(&asked);
	rig_fails(&asked, 664);
	assert_int_equal(kill(pid, SIGCONT), 0);
	rig_until(INSTANCE_JOINED); /* it is looked at again by itself */
	assert_int_equal(rig_look()->pid, pid);
	assert_int_equal(rig_told("BEGINS 0"), 1);
	rig_stop();
	rig_end();
}

static const struct instance_restart never = { .restart = false };

/* It hangs when it is looked for, and so it does not get the request to end: our note of its process is enough. */
static void one_that_says_nothing_is_stopped(void **state)
{
	pid_t pid;

	rig_begin();
	rig.options.stop_timeout_ns = 100 * NS_PER_MS;
	rig.options.restart[INSTANCE_FAILED] = never;
	rig.options.answer_timeout_ns = NS_PER_SEC;
	rig_bring_up();
	pid = begin_again();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	rig_start_it(&other);
	rig_until(INSTANCE_ADOPTING);
	rig_stop_it(&asked, false); /* while it is looked for */
	rig_fails(&other, 668);
	rig_done(&asked);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPED);
	assert_true(kill(pid, 0) != 0);
	rig_start_it(&asked);
	rig_done(&asked);
	pid = begin_again();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	rig_start_it(&other);
	rig_fails(&other, 664);
	rig_stop(); /* when it was found silent before */
	assert_true(kill(pid, 0) != 0);
	assert_int_equal(rig.died, 0);
	rig_end();
}

static void one_that_nobody_noted_is_not_said_to_be_stopped(void **state)
{
	char path[128];
	pid_t pid;

	rig_begin();
	rig.options.restart[INSTANCE_FAILED] = never;
	rig.options.answer_timeout_ns = NS_PER_SEC;
	rig_bring_up();
	pid = begin_again();
	snprintf(path, sizeof(path), "%s/fathom_engine0.pid", rig.folder);
	must(unlink(path) == 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	rig_start_it(&asked);
	rig_fails(&asked, 664);
	rig_stop_it(&asked, false);
	rig_fails(&asked, 664);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_int_equal(kill(pid, SIGCONT), 0);
	rig_stop();
	assert_true(kill(pid, 0) != 0);
	rig_end();
}

struct ready {
	pid_t pid;
	Srv__NotifyReadyReq message;
};

static void say_ready(void *ctx)
{
	struct ready *ready = ctx;

	instance_notify_ready(rig.instance, &ready->message, ready->pid);
}

static void only_its_own_process_can_say_that_it_is_ready(void **state)
{
	struct ready ready = { .pid = getpid(), .message = SRV__NOTIFY_READY_REQ__INIT };

	ready.message.uri = "nvme+tcp://192.0.2.1:1";
	ready.message.incarnation = 1;
	rig_begin();
	rig_manner("silent");
	rig_create();
	rig_run(say_ready, &ready);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_STARTING);
	rig_run(say_ready, &ready);
	assert_int_equal(rig_look()->state, INSTANCE_STARTING);
	rig_manner("");
	rig_until(INSTANCE_JOINED);
	rig_run(say_ready, &ready);
	ready.pid = rig_look()->pid;
	rig_run(say_ready, &ready); /* as if it had not heard the answer */
	assert_int_equal(rig_look()->state, INSTANCE_JOINED);
	assert_int_equal(rig.joins, 1);
	assert_string_equal(rig_look()->uri, "nvme+tcp://127.0.0.1:4420");
	rig_stop();
	rig_end();
}

static void one_that_was_thought_gone_is_taken_up_when_it_speaks(void **state)
{
	struct ready ready = { .message = SRV__NOTIFY_READY_REQ__INIT };

	rig_begin();
	rig.options.restart[INSTANCE_FAILED] = never;
	rig.options.answer_timeout_ns = NS_PER_SEC;
	rig_bring_up();
	ready.pid = begin_again();
	ready.message.uri = "nvme+tcp://127.0.0.1:4420";
	assert_int_equal(kill(ready.pid, SIGSTOP), 0);
	rig_start_it(&asked);
	rig_fails(&asked, 664);
	assert_int_equal(kill(ready.pid, SIGCONT), 0);
	rig.trail[0] = '\0';
	rig_run(say_ready, &ready);
	rig_until(INSTANCE_JOINED);
	assert_string_equal(rig.trail, "AD RE JO");
	assert_int_equal(rig_look()->pid, ready.pid);
	assert_int_equal(rig_told("BEGINS 0"), 1);
	rig_stop();
	rig_end();
}

static void until_went(const char *trail)
{
	uint64_t until = clock_monotonic_ns() + 60 * NS_PER_SEC;

	while (strcmp(rig.trail, trail) != 0) {
		if (clock_monotonic_ns() > until)
			fail_msg("%s", rig.trail);
		rig_look(); /* it is written on the control thread */
	}
}

/* A false claim to be this engine is checked and refused: nothing is started for it, nothing is forgotten. */
static void a_lie_changes_nothing(void **state)
{
	static const struct instance_restart later = { true, 3600 * NS_PER_SEC, 3600 * NS_PER_SEC, 0 };
	struct ready ready = { .pid = getpid(), .message = SRV__NOTIFY_READY_REQ__INIT };

	ready.message.uri = "nvme+tcp://192.0.2.1:1";
	rig_begin();
	rig.options.restart[INSTANCE_KILLED] = later;
	rig_create();
	rig_start_it(&asked);
	rig_fails(&asked, 152);
	rig.trail[0] = '\0';
	rig_run(say_ready, &ready);
	until_went("AD AW");
	assert_int_equal(rig_look()->why.code, 152);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_kill(SIGKILL);
	rig_until(INSTANCE_ERRORED);
	rig.trail[0] = '\0';
	rig_run(say_ready, &ready);
	until_went("AD ER");
	assert_true(rig_look()->restart_in_ns > 3500 * NS_PER_SEC);
	assert_int_equal(rig.info.why.code, 660);
	rig_run(say_ready, &ready);
	rig_start_it(&asked); /* while it is looked for */
	rig_done(&asked);
	rig_stop();
	rig.trail[0] = '\0';
	rig_run(say_ready, &ready);
	until_went("AD ST");
	rig_run(say_ready, &ready);
	rig_stop();
	assert_int_equal(rig_told("BEGINS 0"), 2);
	rig_end();
}

/* ---- joining again ---- */

static void one_that_serves_is_not_ended_by_a_refused_join(void **state)
{
	pid_t pid;

	rig_begin();
	rig_bring_up();
	pid = begin_again();
	rig.join = RIG_REFUSE;
	rig_start_it(&asked);
	rig_fails(&asked, 457);
	assert_int_equal(rig_look()->state, INSTANCE_REFUSED);
	assert_int_equal(rig.info.why.code, 457);
	assert_int_equal(rig.info.pid, pid);
	assert_int_equal(rig.join_failed, 1);
	rig.join = RIG_WELCOME;
	rig_until(INSTANCE_JOINED); /* it has asked again */
	assert_string_equal(rig.trail, "AD RE RE JO");
	assert_int_equal(rig_look()->pid, pid);
	assert_int_equal(rig.info.why.error, 0);
	assert_int_equal(rig.join_failed, 1);
	rig.trail[0] = '\0';
	rig.join = RIG_REFUSE;
	rig_start_it(&asked);
	rig_fails(&asked, 457);
	assert_string_equal(rig.trail, "RE RE");
	assert_int_equal(rig.join_failed, 2);
	rig_format_it(&asked, true, false);
	rig_fails(&asked, 666);
	rig.join = RIG_WELCOME;
	rig_start_it(&asked); /* it need not be waited for */
	rig_done(&asked);
	assert_int_equal(rig_look()->pid, pid);
	rig.join = RIG_REFUSE;
	rig_start_it(&asked);
	rig_fails(&asked, 457);
	assert_int_equal(rig_told("SET_UP 0"), 1);
	rig_stop();
	rig_end();
}

static void one_that_serves_as_another_rank_is_ended(void **state)
{
	rig_begin();
	rig_bring_up();
	begin_again();
	rig.rank = 4;
	rig_start_it(&asked);
	rig_fails(&asked, 673);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_int_equal(rig.info.pid, 0);
	assert_int_equal(rig_superblock().rank, 3);
	assert_int_equal(rig.died, 0);
	rig_end();
}

/* ---- engines that are no children of ours ---- */

/* As a server that is dead by now has started it. */
static void run_orphan(void)
{
	struct superblock superblock = rig_superblock();
	char uuid[MEMBER_UUID_TEXT_BYTES];
	pid_t pid;
	int status;

	member_uuid_format(superblock.uuid, uuid);
	(void)unlink(rig.engine_socket);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		if (fork() != 0)
			_exit(0);
		must(freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr));
		execl(rig.options.program, rig.options.program, "--instance", "0", "--socket-dir", rig.folder, "--uuid",
		      uuid, "--listen", "127.0.0.1:4420", "--provider", "nvme+tcp", "--storage", rig.storage, NULL);
		_exit(99);
	}
	must(waitpid(pid, &status, 0) == pid && status == 0);
	while (!is_listened_at(rig.engine_socket))
		usleep(500);
}

static void the_end_of_one_that_is_no_child_is_seen(void **state)
{
	static const struct {
		const char *manner, *how;
		enum instance_cause cause;
	} ends[] = {
		{ "", "", INSTANCE_GONE },
		{ "self-terminate", "it left because its rank was excluded", INSTANCE_SELF_TERMINATED },
	};

	for (size_t i = 0; i < ARRAY_COUNT(ends); i++) {
		rig_begin();
		rig_bring_up();
		rig_stop();
		rig_destroy();
		rig.options.restart[ends[i].cause] = quick;
		rig_manner("silent");
		run_orphan();
		rig_create();
		rig_start_it(&asked);
		rig_until(INSTANCE_STARTING);
		assert_true(rig_look()->is_adopted);
		rig_manner(ends[i].manner);
		rig_done(&asked);
		if (ends[i].cause == INSTANCE_GONE)
			rig_kill(SIGKILL);
		rig_until_died(1);
		rig_manner("");
		assert_int_equal(rig.died_rank, 3);
		if (ends[i].cause != INSTANCE_GONE)
			assert_string_equal(rig.died_error, ends[i].cause == INSTANCE_SELF_TERMINATED ? "" : ends[i].how);
		else
			assert_non_null(strstr(rig.died_error, "has gone"));
		rig_until(INSTANCE_JOINED);
		assert_false(rig_look()->is_adopted);
		assert_int_equal(rig.info.starts, 1);
		rig_stop();
		rig_end();
	}
}

static void one_that_is_no_child_is_stopped(void **state)
{
	rig_begin();
	rig.options.stop_timeout_ns = 200 * NS_PER_MS;
	rig_bring_up();
	rig_stop();
	rig_destroy();
	rig_manner("no-term");
	run_orphan();
	rig_create();
	rig_start_it(&asked);
	rig_done(&asked);
	assert_true(rig_look()->is_adopted);
	rig_stop_it(&asked, false);
	rig_start_it(&other);
	rig_done(&asked);
	rig_done(&other);
	assert_int_equal(rig.died, 0);
	rig_stop();
	rig_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_serves_is_not_disturbed),
		cmocka_unit_test(one_that_begins_is_waited_for),
		cmocka_unit_test(one_that_was_joining_joins),
		cmocka_unit_test(one_that_was_stopping_stops_and_begins_again),
		cmocka_unit_test(one_that_ended_meanwhile_is_told_of_and_not_found),
		cmocka_unit_test(a_stop_finds_it),
		cmocka_unit_test(its_storage_is_neither_formatted_nor_erased),
		cmocka_unit_test(somebody_else_is_a_fault),
		cmocka_unit_test(a_program_that_is_no_engine_is_a_fault),
		cmocka_unit_test(one_that_says_nothing_is_not_joined_by_a_second),
		cmocka_unit_test(one_that_says_nothing_is_stopped),
		cmocka_unit_test(one_that_nobody_noted_is_not_said_to_be_stopped),
		cmocka_unit_test(one_that_was_thought_gone_is_taken_up_when_it_speaks),
		cmocka_unit_test(a_lie_changes_nothing),
		cmocka_unit_test(only_its_own_process_can_say_that_it_is_ready),
		cmocka_unit_test(one_that_serves_is_not_ended_by_a_refused_join),
		cmocka_unit_test(one_that_serves_as_another_rank_is_ended),
		cmocka_unit_test(the_end_of_one_that_is_no_child_is_seen),
		cmocka_unit_test(one_that_is_no_child_is_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
