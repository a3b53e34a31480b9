/* SPDX-License-Identifier: BSD-2-Clause */
/* Engines that outlive their server: the next one finds, checks and adopts each in its state. It adopts no foreign one. */
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

/* Replace the server by a new one, which knows no process yet. Returns the pid of the engine. */
static pid_t restart_server(void)
{
	pid_t pid = rig_look()->pid;

	assert_true(pid > 0);
	rig_destroy();
	rig.trail[0] = '\0';
	rig_create();
	assert_int_equal(rig_look()->pid, 0);
	return pid;
}

/* ---- adoption in each state ---- */

static void a_serving_engine_is_adopted_undisturbed(void **state)
{
	uint64_t incarnation;
	pid_t pid;

	rig_begin();
	rig_manner("old"); /* an older version than the server */
	rig_bring_up();
	incarnation = rig_look()->incarnation;
	for (uint64_t times = 1; times <= 3; times++) {
		pid = restart_server();
		rig_start_it(&asked);
		rig_done(&asked);
		assert_string_equal(rig.trail, "adopting ready joined");
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
	assert_int_equal(rig_received("SET_RANK 3"), 1);
	assert_int_equal(rig_received("SET_UP 0"), 1);
	assert_int_equal(rig_received("BEGINS 0"), 1);
	rig_group(8);
	rig_until_received("GROUP 8", 1);
	rig_stop();
	assert_int_equal(rig_received("PREP_SHUTDOWN 3"), 1);
	assert_int_equal(rig.died, 0);
	rig_end();
}

static void a_starting_engine_is_adopted_and_awaited(void **state)
{
	pid_t pid;

	rig_begin();
	rig_manner("silent");
	rig_create();
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_STARTING);
	rig_until_received("BEGINS 0", 1);
	pid = restart_server();
	rig_start_it(&asked);
	rig_until(INSTANCE_STARTING); /* adopted as soon as it listens on its socket */
	rig_manner("");
	rig_done(&asked);
	assert_int_equal(rig_look()->pid, pid);
	assert_int_equal(rig_received("SET_UP 0"), 1);
	rig_stop();
	rig_end();
}

static void a_joining_engine_is_adopted_and_joins(void **state)
{
	pid_t pid;

	rig_begin();
	rig.join = RIG_HOLD;
	rig_create();
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_READY);
	pid = restart_server();
	rig_release_join(RIG_WELCOME); /* too late: its instance was destroyed */
	rig.join = RIG_WELCOME;
	rig_start_it(&asked);
	rig_done(&asked);
	assert_string_equal(rig.trail, "adopting ready joined");
	assert_int_equal(rig_look()->pid, pid);
	assert_int_equal(rig_received("SET_UP 0"), 1);
	rig_stop();
	rig_end();
}

static void an_engine_prepared_to_stop_is_stopped_and_started(void **state)
{
	rig_begin();
	rig_bring_up();
	rig_prepare_it(&asked);
	rig_done(&asked);
	restart_server();
	rig_start_it(&asked);
	rig_done(&asked);
	assert_string_equal(rig.trail, "adopting stopping stopped adopting checking starting ready joined");
	assert_int_equal(rig_received("BEGINS 0"), 2);
	assert_int_equal(rig.died, 0);
	rig_prepare_it(&asked);
	rig_done(&asked);
	restart_server();
	rig_stop(); /* without a start before it */
	assert_string_equal(rig.trail, "adopting stopping stopped");
	rig_end();
}

static void an_end_without_a_server_is_reported_by_the_next(void **state)
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
		pid = restart_server();
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
		restart_server(); /* no second death event for the same end */
		rig_stop();
		assert_int_equal(rig.died, 1);
		rig_end();
	}
}

/* ---- requests before the engine was adopted ---- */

static void a_stop_adopts_the_engine_first(void **state)
{
	rig_begin();
	rig_bring_up();
	restart_server();
	rig_stop();
	assert_int_equal(rig_received("PREP_SHUTDOWN 3"), 1);
	rig_end();
}

static void learn_rank(void *ctx)
{
	instance_learn_rank(rig.instance);
}

/* A request by rank must find it: the management service takes a rank that its server does not know for Errored. */
static void the_rank_is_known_before_the_engine_is_adopted(void **state)
{
	rig_begin();
	rig_bring_up();
	restart_server();
	rig_run(learn_rank, NULL);
	assert_int_equal(rig_look()->rank, 3);
	assert_string_equal(rig.trail, ""); /* it is still IDLE */
	rig_stop();
	rig_end();
}

static void storage_of_a_running_engine_is_not_formatted_or_erased(void **state)
{
	struct superblock before, after;
	pid_t pid;

	rig_begin();
	rig_bring_up();
	before = rig_superblock();
	pid = restart_server();
	rig_format_it(&asked, true, false);
	rig_fails(&asked, 666);
	rig_until(INSTANCE_JOINED); /* the request has adopted it */
	assert_int_equal(rig_look()->pid, pid);
	restart_server();
	rig_erase_it(&asked);
	rig_fails(&asked, 666);
	rig_until(INSTANCE_JOINED);
	after = rig_superblock();
	assert_memory_equal(&before, &after, sizeof(before));
	rig_stop();
	rig_end();
}

/* ---- foreign and silent engines ---- */

static void a_foreign_engine_is_a_fault(void **state)
{
	char path[128], aside[128];
	pid_t pid;

	rig_begin();
	rig_bring_up();
	pid = restart_server();
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
	rig_fails(&asked, 663); /* the UUID to expect is unknown */
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

static void a_program_that_is_not_an_engine_is_a_fault(void **state)
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

static void no_second_engine_starts_beside_a_silent_one(void **state)
{
	pid_t pid;

	rig_begin();
	rig.options.restart[INSTANCE_FAILED] = quick;
	rig_bring_up();
	pid = restart_server();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	rig_start_it(&asked);
	rig_fails(&asked, 664);
	assert_int_equal(kill(pid, SIGCONT), 0);
	rig_until(INSTANCE_JOINED); /* the restart policy repeats the search */
	assert_int_equal(rig_look()->pid, pid);
	assert_int_equal(rig_received("BEGINS 0"), 1);
	rig_stop();
	rig_end();
}

static const struct instance_restart never = { .restart = false };

/* It answers neither DESCRIBE nor PREP_SHUTDOWN. The pid file identifies its process, so a stop can kill it. */
static void a_silent_engine_is_stopped_by_its_pid_file(void **state)
{
	pid_t pid;

	rig_begin();
	rig.options.stop_timeout_ns = 100 * NS_PER_MS;
	rig.options.restart[INSTANCE_FAILED] = never;
	rig.options.answer_timeout_ns = NS_PER_SEC;
	rig_bring_up();
	pid = restart_server();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	rig_start_it(&other);
	rig_until(INSTANCE_ADOPTING);
	rig_stop_it(&asked, false); /* during the search */
	rig_fails(&other, 668);
	rig_done(&asked);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPED);
	assert_true(kill(pid, 0) != 0);
	rig_start_it(&asked);
	rig_done(&asked);
	pid = restart_server();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	rig_start_it(&other);
	rig_fails(&other, 664);
	rig_stop(); /* after a search without an answer */
	assert_true(kill(pid, 0) != 0);
	assert_int_equal(rig.died, 0);
	rig_end();
}

static void without_a_pid_file_a_silent_engine_is_not_reported_stopped(void **state)
{
	char path[128];
	pid_t pid;

	rig_begin();
	rig.options.restart[INSTANCE_FAILED] = never;
	rig.options.answer_timeout_ns = NS_PER_SEC;
	rig_bring_up();
	pid = restart_server();
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

static void notify_ready(void *ctx)
{
	struct ready *ready = ctx;

	instance_notify_ready(rig.instance, &ready->message, ready->pid);
}

static void a_ready_report_counts_only_from_the_own_process(void **state)
{
	struct ready ready = { .pid = getpid(), .message = SRV__NOTIFY_READY_REQ__INIT };

	ready.message.uri = "nvme+tcp://192.0.2.1:1";
	ready.message.incarnation = 1;
	rig_begin();
	rig_manner("silent");
	rig_create();
	rig_run(notify_ready, &ready);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_STARTING);
	rig_run(notify_ready, &ready);
	assert_int_equal(rig_look()->state, INSTANCE_STARTING);
	rig_manner("");
	rig_until(INSTANCE_JOINED);
	rig_run(notify_ready, &ready);
	ready.pid = rig_look()->pid;
	rig_run(notify_ready, &ready); /* as if the answer to its report was lost */
	assert_int_equal(rig_look()->state, INSTANCE_JOINED);
	assert_int_equal(rig.joins, 1);
	assert_string_equal(rig_look()->uri, "nvme+tcp://127.0.0.1:4420");
	rig_stop();
	rig_end();
}

static void a_silent_engine_is_adopted_when_it_reports_ready(void **state)
{
	struct ready ready = { .message = SRV__NOTIFY_READY_REQ__INIT };

	rig_begin();
	rig.options.restart[INSTANCE_FAILED] = never;
	rig.options.answer_timeout_ns = NS_PER_SEC;
	rig_bring_up();
	ready.pid = restart_server();
	ready.message.uri = "nvme+tcp://127.0.0.1:4420";
	assert_int_equal(kill(ready.pid, SIGSTOP), 0);
	rig_start_it(&asked);
	rig_fails(&asked, 664);
	assert_int_equal(kill(ready.pid, SIGCONT), 0);
	rig.trail[0] = '\0';
	rig_run(notify_ready, &ready);
	rig_until(INSTANCE_JOINED);
	assert_string_equal(rig.trail, "adopting ready joined");
	assert_int_equal(rig_look()->pid, ready.pid);
	assert_int_equal(rig_received("BEGINS 0"), 1);
	rig_stop();
	rig_end();
}

/* The server checks the report and restores the state: it starts no engine, and keeps the fault and a scheduled restart. */
static void a_ready_report_of_a_foreign_process_changes_nothing(void **state)
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
	rig_run(notify_ready, &ready);
	rig_until_trail("adopting await_format");
	assert_int_equal(rig_look()->why.code, 152);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_kill(SIGKILL);
	rig_until(INSTANCE_ERRORED);
	rig.trail[0] = '\0';
	rig_run(notify_ready, &ready);
	rig_until_trail("adopting errored");
	assert_true(rig_look()->restart_in_ns > 3500 * NS_PER_SEC);
	assert_int_equal(rig.info.why.code, 660);
	rig_run(notify_ready, &ready);
	rig_start_it(&asked); /* during the search */
	rig_done(&asked);
	rig_stop();
	rig.trail[0] = '\0';
	rig_run(notify_ready, &ready);
	rig_until_trail("adopting stopped");
	rig_run(notify_ready, &ready);
	rig_stop();
	assert_int_equal(rig_received("BEGINS 0"), 2);
	rig_end();
}

/* ---- joining again ---- */

static void a_rejected_join_does_not_end_a_serving_engine(void **state)
{
	pid_t pid;

	rig_begin();
	rig_bring_up();
	pid = restart_server();
	rig.join = RIG_REFUSE;
	rig_start_it(&asked);
	rig_fails(&asked, 457);
	assert_int_equal(rig_look()->state, INSTANCE_REFUSED);
	assert_int_equal(rig.info.why.code, 457);
	assert_int_equal(rig.info.pid, pid);
	assert_int_equal(rig.join_failed, 1);
	rig.join = RIG_WELCOME;
	rig_until(INSTANCE_JOINED); /* by the retry of the join */
	assert_string_equal(rig.trail, "adopting ready refused joined");
	assert_int_equal(rig_look()->pid, pid);
	assert_int_equal(rig.info.why.error, 0);
	assert_int_equal(rig.join_failed, 1);
	rig.trail[0] = '\0';
	rig.join = RIG_REFUSE;
	rig_start_it(&asked);
	rig_fails(&asked, 457);
	assert_string_equal(rig.trail, "ready refused");
	assert_int_equal(rig.join_failed, 2);
	rig_format_it(&asked, true, false);
	rig_fails(&asked, 666);
	rig.join = RIG_WELCOME;
	rig_start_it(&asked); /* joins without waiting for the next retry */
	rig_done(&asked);
	assert_int_equal(rig_look()->pid, pid);
	rig.join = RIG_REFUSE;
	rig_start_it(&asked);
	rig_fails(&asked, 457);
	assert_int_equal(rig_received("SET_UP 0"), 1);
	rig_stop();
	rig_end();
}

static void a_serving_engine_with_another_rank_is_ended(void **state)
{
	rig_begin();
	rig_bring_up();
	restart_server();
	rig.rank = 4;
	rig_start_it(&asked);
	rig_fails(&asked, 673);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_int_equal(rig.info.pid, 0);
	assert_int_equal(rig_superblock().rank, 3);
	assert_int_equal(rig.died, 0);
	rig_end();
}

/* ---- orphans: engines that are not children of this process ---- */

/* Start the double as a previous server would have left it: as a grandchild whose parent has ended. */
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

static void the_end_of_an_orphan_is_detected(void **state)
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

static void an_orphan_is_stopped(void **state)
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
		cmocka_unit_test(a_serving_engine_is_adopted_undisturbed),
		cmocka_unit_test(a_starting_engine_is_adopted_and_awaited),
		cmocka_unit_test(a_joining_engine_is_adopted_and_joins),
		cmocka_unit_test(an_engine_prepared_to_stop_is_stopped_and_started),
		cmocka_unit_test(an_end_without_a_server_is_reported_by_the_next),
		cmocka_unit_test(a_stop_adopts_the_engine_first),
		cmocka_unit_test(the_rank_is_known_before_the_engine_is_adopted),
		cmocka_unit_test(storage_of_a_running_engine_is_not_formatted_or_erased),
		cmocka_unit_test(a_foreign_engine_is_a_fault),
		cmocka_unit_test(a_program_that_is_not_an_engine_is_a_fault),
		cmocka_unit_test(no_second_engine_starts_beside_a_silent_one),
		cmocka_unit_test(a_silent_engine_is_stopped_by_its_pid_file),
		cmocka_unit_test(without_a_pid_file_a_silent_engine_is_not_reported_stopped),
		cmocka_unit_test(a_silent_engine_is_adopted_when_it_reports_ready),
		cmocka_unit_test(a_ready_report_of_a_foreign_process_changes_nothing),
		cmocka_unit_test(a_ready_report_counts_only_from_the_own_process),
		cmocka_unit_test(a_rejected_join_does_not_end_a_serving_engine),
		cmocka_unit_test(a_serving_engine_with_another_rank_is_ended),
		cmocka_unit_test(the_end_of_an_orphan_is_detected),
		cmocka_unit_test(an_orphan_is_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
