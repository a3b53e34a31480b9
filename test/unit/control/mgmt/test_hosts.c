/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports of servers set the states of their ranks. A server without reports makes its ranks unresponsive. */
#include "control/db/system_store.h"

#include "fixture.h"

enum { ENGINES = 4 };

/* A server's report about its engines. */
struct report {
	Fathom__ReportEnginesReq request;
	Fathom__ReportEnginesReq__Engine engines[ENGINES], *places[ENGINES];
	char uuids[ENGINES][MEMBER_UUID_TEXT_BYTES];
};

static void report_init(struct report *report, uint32_t fake)
{
	memset(report, 0, sizeof(*report));
	fathom__report_engines_req__init(&report->request);
	report->request.sys = (char *)"fathom-0.4.0";
	report->request.addr = fixture.fakes[fake].address;
	report->request.engines = report->places;
	report->request.made_ns = 1000;
}

/* Engine `number` of the fixture. If the engines joined in order, it has rank `number`. */
static Fathom__ReportEnginesReq__Engine *report_add(struct report *report, uint32_t number, uint64_t incarnation,
						    const char *state, const char *info)
{
	size_t at = report->request.n_engines++;
	Fathom__ReportEnginesReq__Engine *engine = &report->engines[at];

	must(at < ENGINES);
	fathom__report_engines_req__engine__init(engine);
	write_uuid(number, report->uuids[at]);
	engine->index = (uint32_t)at;
	engine->rank = number;
	engine->uuid = report->uuids[at];
	engine->incarnation = incarnation;
	engine->state = (char *)state;
	engine->info = (char *)info;
	report->places[at] = engine;
	return engine;
}

static struct question *send_report(const struct report *report)
{
	return ask(fixture.member, "/fathom.ControlSvc/ReportEngines", &report->request.base,
		   &fathom__report_engines_resp__descriptor);
}

static void report_state(uint32_t number, uint64_t incarnation, const char *state, const char *info)
{
	struct report report;

	report_init(&report, number % FAKES);
	(void)report_add(&report, number, incarnation, state, info);
	(void)answer_of(send_report(&report));
}

static const char *info_of_rank(uint32_t rank)
{
	const Mgmt__SystemQueryResp *response = query();

	for (size_t i = 0; i < response->n_members; i++) {
		if (response->members[i]->rank == rank)
			return response->members[i]->info;
	}
	return "gone";
}

static void a_report_sets_the_state_of_a_rank_and_is_stored(void **state)
{
	join_many(3);
	report_state(0, 100, "stopped", "");
	assert_string_equal(state_of_rank(0), "stopped");
	assert_string_equal(info_of_rank(0), "it was stopped on its host");
	report_state(1, 100, "errored", "its folder is gone");
	assert_string_equal(state_of_rank(1), "errored");
	assert_string_equal(info_of_rank(1), "its folder is gone");
	report_state(2, 100, "starting", "");
	assert_string_equal(state_of_rank(2), "starting");
	reopen_mgmt(); /* the states come from the database */
	assert_string_equal(state_of_rank(0), "stopped");
	assert_string_equal(state_of_rank(1), "errored");
	assert_int_equal(mgmt_stats(fixture.mgmt).reports, 0);
}

/* Volumes that a rank cannot serve are shown with it, until the next process; a failed storage is a state of the rank. */
static void what_a_rank_cannot_serve_is_shown_with_it(void **state)
{
	Shared__StorageHealth health = SHARED__STORAGE_HEALTH__INIT;
	const Mgmt__SystemMember *member;
	struct report report;

	join_many(2);
	report_init(&report, 1);
	health.errored_volumes = 2;
	health.read_only_volumes = 1;
	health.reason = (char *)"p/a: it has no data file";
	health.since_ns = 1795880000 * NS_PER_SEC;
	report_add(&report, 1, 100, "joined", "")->storage = &health;
	(void)answer_of(send_report(&report));
	assert_null(query()->members[0]->storage);
	member = query()->members[1];
	assert_string_equal(member->state, "joined");
	assert_int_equal(member->storage->errored_volumes, 2);
	assert_int_equal(member->storage->since_ns, health.since_ns);
	assert_string_equal(member->info,
			    "2 volumes ERRORED, 1 volume READ_ONLY since 2026-11-28T15:33:20Z: p/a: it has no data file");
	report_state(1, 100, "joined", ""); /* repaired */
	assert_null(query()->members[1]->storage);
	assert_string_equal(query()->members[1]->info, "");
	(void)answer_of(send_report(&report));
	assert_non_null(query()->members[1]->storage);
	(void)join(1, 200);
	assert_null(query()->members[1]->storage); /* the report was about the process before */
	health.failed = true;
	report.engines[0].incarnation = 200;
	report.engines[0].state = (char *)"errored";
	report.engines[0].info = (char *)"the storage rejects changes";
	(void)answer_of(send_report(&report));
	assert_string_equal(state_of_rank(1), "errored");
	assert_string_equal(query()->members[1]->info, "the storage rejects changes");
	report_state(1, 200, "joined", "");
	assert_string_equal(state_of_rank(1), "errored"); /* until it joins again */
	(void)join(1, 300);
	assert_string_equal(state_of_rank(1), "joined");
}

static void an_outdated_report_changes_no_state(void **state)
{
	join_many(2);
	(void)join(0, 200);
	report_state(0, 100, "errored", "the one before");
	report_state(0, 100, "stopped", "");
	assert_string_equal(state_of_rank(0), "joined");
	report_state(1, 100, "joined", "");
	report_state(1, 100, "ready", "");
	report_state(1, 100, "unknown", "");
	report_state(1, 100, "no state at all", "");
	assert_string_equal(state_of_rank(1), "joined");
	assert_int_equal(mgmt_stats(fixture.mgmt).ranks_seen, 0);
	/* a stopped rank becomes joined by a join, not by a late report */
	report_state(1, 100, "stopped", "");
	report_state(1, 100, "stopping", "");
	report_state(1, 100, "joined", "");
	assert_string_equal(state_of_rank(1), "stopped");
}

static void a_report_does_not_end_an_exclusion(void **state)
{
	Mgmt__SystemExcludeReq request = MGMT__SYSTEM_EXCLUDE_REQ__INIT;

	join_many(2);
	request.ranks = (char *)"1";
	(void)answer_of(ADMIN_ASK("SystemExclude", request, system_exclude));
	report_state(1, 100, "joined", "");
	report_state(1, 100, "errored", "it ended");
	assert_string_equal(state_of_rank(1), "adminexcluded");
}

/* Rank 1 is on another server: this server's report must not change it. A report from an invalid address is refused. */
static void a_server_reports_only_its_own_ranks(void **state)
{
	struct report report;

	join_many(2);
	report_init(&report, 0);
	(void)report_add(&report, 0, 100, "joined", "");
	(void)report_add(&report, 1, 100, "stopped", "");
	(void)answer_of(send_report(&report));
	assert_string_equal(state_of_rank(1), "joined");
	report.request.addr = (char *)"nobody:1:2";
	assert_int_equal(send_report(&report)->why.code, 454);
}

/* The server cannot read the engine's storage, so it does not know that the engine is rank 0. */
static void a_rank_missing_from_its_servers_report_is_errored(void **state)
{
	Fathom__ReportEnginesReq__Engine *engine;
	struct report report;

	join_many(1);
	(void)join(FAKES, 100); /* rank 1, on the same server */
	report_init(&report, 0);
	(void)report_add(&report, FAKES, 100, "joined", "");
	report.engines[0].rank = 1;
	engine = report_add(&report, 0, 0, "unknown", "");
	engine->rank = RANK_NONE;
	engine->uuid = (char *)"";
	(void)answer_of(send_report(&report)); /* the server still looks for its engine */
	assert_string_equal(state_of_rank(0), "joined");
	engine->state = (char *)"ready"; /* may be rank 0: its join can arrive before the report */
	(void)answer_of(send_report(&report));
	assert_string_equal(state_of_rank(0), "joined");
	engine->state = (char *)"errored";
	engine->info = (char *)"the superblock is damaged";
	report.request.made_ns = 100; /* made before rank 0 joined */
	(void)answer_of(send_report(&report));
	assert_string_equal(state_of_rank(0), "joined");
	report.request.made_ns = 101;
	(void)answer_of(send_report(&report));
	assert_string_equal(state_of_rank(0), "errored");
	assert_string_equal(info_of_rank(0), "the superblock is damaged");
	assert_string_equal(state_of_rank(1), "joined");
}

/* If the service ends during a stop, ranks stay Stopping. The reports of their servers then set their states. */
static void reports_settle_the_ranks_of_an_interrupted_stop(void **state)
{
	static struct question waiting;
	Mgmt__SystemStopReq request = MGMT__SYSTEM_STOP_REQ__INIT;

	memset(&waiting, 0, sizeof(waiting));
	join_many(3);
	for (size_t i = 0; i < 3; i++)
		fixture.fakes[i].way = FAKE_HANGS;
	request.force = true;
	ask_begin(&waiting, fixture.admin, "/mgmt.MgmtSvc/SystemStop", &request.base, &mgmt__system_stop_resp__descriptor);
	while (strcmp(state_of_rank(0), "stopping") != 0)
		usleep(1000);
	report_state(0, 100, "joined", ""); /* ignored: the running stop sets the state */
	assert_string_equal(state_of_rank(0), "stopping");
	reopen_mgmt();
	question_wait(&waiting);
	question_end(&waiting);
	report_state(0, 100, "joined", "");
	report_state(1, 100, "stopped", "");
	report_state(2, 100, "stopping", "");
	assert_string_equal(state_of_rank(0), "joined");
	assert_string_equal(state_of_rank(1), "stopped");
	assert_string_equal(state_of_rank(2), "stopping");
}

static void wait_for_state(uint32_t rank, const char *wanted)
{
	for (int i = 0; i < 5000 && strcmp(state_of_rank(rank), wanted) != 0; i++)
		usleep(2000);
	assert_string_equal(state_of_rank(rank), wanted);
}

static void ranks_of_a_silent_server_become_unresponsive(void **state)
{
	char message[RAS_MESSAGE_BYTES] = "";
	uint64_t again_ms;

	fixture.heartbeat_ns = 100 * NS_PER_MS;
	reopen_mgmt();
	join_many(2);
	(void)join(FAKES, 100); /* rank 2, on the server of rank 0 */
	report_state(0, 100, "unknown", "");
	for (int i = 0; i < 400 && strcmp(state_of_rank(0), "unresponsive") != 0; i++) {
		struct report report;

		report_init(&report, 1);
		(void)report_add(&report, 1, 100, "joined", "");
		again_ms = ((const Fathom__ReportEnginesResp *)answer_of(send_report(&report)))->again_ms;
		assert_int_equal(again_ms, 100);
		usleep(10000);
	}
	assert_string_equal(state_of_rank(0), "unresponsive");
	assert_string_equal(state_of_rank(2), "unresponsive");
	assert_string_equal(state_of_rank(1), "joined");
	assert_non_null(strstr(info_of_rank(0), "its server has not reported for"));
	assert_int_equal(count_events(RAS_SERVER_SILENT, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "ranks: 0,2"));
	/* the server reports again */
	report_state(0, 100, "joined", "");
	assert_string_equal(state_of_rank(0), "joined");
	assert_int_equal(count_events(RAS_SERVER_HEARD, message, sizeof(message)), 1);
	wait_for_state(1, "unresponsive"); /* server 1 is silent now */
	assert_int_equal(count_events(RAS_SERVER_SILENT, message, sizeof(message)) >= 2, 1);
}

/* How long the next transaction of members takes, as on a busy disk. */
static unsigned int commit_us;

int __real_system_store_members(struct system_store *store, const struct system_change *changes, size_t count,
				struct fathom_fault *why);
int __wrap_system_store_members(struct system_store *store, const struct system_change *changes, size_t count,
				struct fathom_fault *why);

int __wrap_system_store_members(struct system_store *store, const struct system_change *changes, size_t count,
				struct fathom_fault *why)
{
	unsigned int us = commit_us;

	commit_us = 0;
	usleep(us);
	return __real_system_store_members(store, changes, count, why);
}

/*
 * The second server reports two heartbeats after the first. Its time runs out while the ranks of the first are being
 * stored.
 */
static void a_server_whose_timeout_ends_during_a_commit_is_detected(void **state)
{
	char message[RAS_MESSAGE_BYTES];

	fixture.heartbeat_ns = 100 * NS_PER_MS;
	reopen_mgmt();
	join_many(2);
	usleep(200000);
	report_state(1, 100, "joined", "");
	commit_us = 250000;
	wait_for_state(0, "unresponsive");
	wait_for_state(1, "unresponsive");
	assert_int_equal(count_events(RAS_SERVER_SILENT, message, sizeof(message)), 2);
}

static void wait_heartbeats(unsigned int beats)
{
	usleep((unsigned int)(beats * fixture.heartbeat_ns / 1000));
}

/* Rank 1's server hangs during a start. Rank 0 has started, then its server falls silent. */
static void a_rank_of_a_silent_server_becomes_unresponsive_after_its_operation(void **state)
{
	static struct question waiting;
	Mgmt__SystemStartReq request = MGMT__SYSTEM_START_REQ__INIT;
	char message[RAS_MESSAGE_BYTES];

	memset(&waiting, 0, sizeof(waiting));
	fixture.heartbeat_ns = 50 * NS_PER_MS;
	reopen_mgmt();
	join_many(2);
	report_state(0, 100, "stopped", "");
	report_state(1, 100, "stopped", "");
	fixture.fakes[1].way = FAKE_HANGS;
	ask_begin(&waiting, fixture.admin, "/mgmt.MgmtSvc/SystemStart", &request.base,
		  &mgmt__system_start_resp__descriptor);
	(void)join(0, 200);
	wait_heartbeats(8);
	assert_string_equal(state_of_rank(0), "joined"); /* the start, which includes rank 0, still runs */
	assert_int_equal(on_control(fake_kill, &fixture.fakes[1]), 0);
	question_wait(&waiting);
	question_end(&waiting);
	wait_for_state(0, "unresponsive");
	assert_int_equal(count_events(RAS_SERVER_SILENT, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "ranks: 0"));
	wait_heartbeats(6);
	assert_int_equal(count_events(RAS_SERVER_SILENT, message, sizeof(message)), 1); /* only one event */
	report_state(0, 200, "joined", "");
	assert_string_equal(state_of_rank(0), "joined");
	assert_int_equal(count_events(RAS_SERVER_HEARD, message, sizeof(message)), 1);
}

static void a_report_with_a_new_incarnation_does_not_replace_a_join(void **state)
{
	fixture.heartbeat_ns = 100 * NS_PER_MS;
	reopen_mgmt();
	join_many(1);
	wait_for_state(0, "unresponsive");
	report_state(0, 200, "joined", "");
	assert_string_equal(state_of_rank(0), "unresponsive");
	(void)join(0, 200);
	assert_string_equal(state_of_rank(0), "joined");
}

/* A stopped rank does not become unresponsive. */
static void a_silent_server_without_running_ranks_raises_no_event(void **state)
{
	char message[RAS_MESSAGE_BYTES];

	fixture.heartbeat_ns = 50 * NS_PER_MS;
	reopen_mgmt();
	join_many(2);
	report_state(1, 100, "stopped", "");
	wait_for_state(0, "unresponsive");
	assert_string_equal(state_of_rank(1), "stopped");
	assert_int_equal(count_events(RAS_SERVER_SILENT, message, sizeof(message)), 1);
	assert_non_null(strstr(message, fixture.fakes[0].address));
}

/*
 * An engine accepts only maps newer than its own. If an engine has a newer map than the system, the system must raise its
 * version above it.
 */
static void the_map_version_is_raised_above_those_of_engines(void **state)
{
	struct report report;
	struct joining joining;

	join_many(2);
	wait_until(all_have_the_map, NULL);
	report_init(&report, 0);
	(void)report_add(&report, 0, 100, "joined", "");
	report.request.map_version = 2; /* the system's own version: no change */
	(void)answer_of(send_report(&report));
	assert_int_equal(system_map_version(mgmt_system(fixture.mgmt)), 2);
	report.request.map_version = 77;
	(void)answer_of(send_report(&report));
	assert_int_equal(system_map_version(mgmt_system(fixture.mgmt)), 78);
	wait_until(all_have_the_map, NULL);
	assert_int_equal(fixture.fakes[1].map_version, 78);
	report.request.map_version = UINT32_MAX; /* invalid: no map has the highest version */
	(void)answer_of(send_report(&report));
	assert_int_equal(system_map_version(mgmt_system(fixture.mgmt)), 78);
	fill_join(&joining, 1, 100);
	joining.request.map_version = 99;
	(void)answer_of(ask_join(&joining));
	reopen_mgmt();
	assert_int_equal(system_map_version(mgmt_system(fixture.mgmt)), 100);
}

/* ---- engines without a rank ---- */

static void report_unranked(uint32_t fake, uint32_t count, const char *state)
{
	struct report report;

	report_init(&report, fake);
	for (uint32_t i = 0; i < count; i++)
		report_add(&report, 90 + i, 0, state, "")->rank = RANK_NONE;
	fixture.fakes[fake].unranked = count;
	(void)answer_of(send_report(&report));
}

static struct question *start_on(const char *ranks, const char *hosts)
{
	Mgmt__SystemStartReq request = MGMT__SYSTEM_START_REQ__INIT;

	request.ranks = (char *)ranks;
	request.hosts = (char *)hosts;
	return ADMIN_ASK("SystemStart", request, system_start);
}

static void engines_that_never_joined_are_started_with_the_others(void **state)
{
	const Mgmt__SystemStartResp *started;
	char message[RAS_MESSAGE_BYTES];

	/* also in a system without members */
	assert_int_equal(start_on("", "")->code, GRPC_UNKNOWN);
	report_unranked(5, 1, "errored");
	started = answer_of(start_on("", ""));
	assert_int_equal(started->n_results, 1);
	assert_int_equal(started->results[0]->rank, RANK_NONE);
	assert_string_equal(started->results[0]->addr, fixture.fakes[5].address);
	assert_false(started->results[0]->errored);
	join_many(2);
	report_unranked(1, 2, "stopped");
	fixture.fakes[1].new_rank = 7;
	fixture.fakes[5].way = FAKE_ERRS;
	started = answer_of(start_on("", ""));
	assert_int_equal(started->n_results, 5); /* ranks 0, 1, the new 7, and two engines without a rank */
	assert_int_equal(started->results[2]->rank, 7);
	assert_int_equal(started->results[3]->rank, RANK_NONE);
	assert_string_equal(fixture.fakes[1].ranks, "1");
	assert_true(fixture.fakes[1].was_unranked);
	assert_false(fixture.fakes[0].was_unranked);
	assert_int_equal(count_events(RAS_SYSTEM_START_FAILED, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "1 of 5 ranks could not be started; an engine of 127.0.0.1:"));
	/* a start of named ranks includes no engine without a rank */
	(void)answer_of(start_on("1", ""));
	assert_false(fixture.fakes[1].was_unranked);
	/* engines without a rank can be selected by host; the host is not absent then */
	started = answer_of(start_on("", fixture.fakes[5].address));
	assert_int_equal(started->n_results, 1);
	assert_string_equal(started->absenthosts, "");
	started = answer_of(start_on("", "127.0.0.1:1"));
	assert_int_equal(started->n_results, 0);
	assert_string_equal(started->absenthosts, "127.0.0.1:1");
}

static void ready_and_unformatted_engines_are_not_started(void **state)
{
	join_many(1);
	report_unranked(2, 1, "ready");
	report_unranked(3, 1, "awaitformat");
	assert_int_equal(((const Mgmt__SystemStartResp *)answer_of(start_on("", "")))->n_results, 1);
	report_unranked(2, 1, "errored");
	assert_int_equal(((const Mgmt__SystemStartResp *)answer_of(start_on("", "")))->n_results, 2);
	/* the engine has joined: its server reports no engine without a rank */
	report_unranked(2, 0, "");
	assert_int_equal(((const Mgmt__SystemStartResp *)answer_of(start_on("", "")))->n_results, 1);
}

static void engines_that_never_joined_are_erased_with_the_others(void **state)
{
	Mgmt__SystemEraseReq request = MGMT__SYSTEM_ERASE_REQ__INIT;
	const Mgmt__SystemEraseResp *erased;

	assert_int_equal(ADMIN_ASK("SystemErase", request, system_erase)->code, GRPC_UNKNOWN);
	report_unranked(4, 2, "ready"); /* the engine may run, but its join is refused, so it serves no host */
	erased = answer_of(ADMIN_ASK("SystemErase", request, system_erase));
	assert_int_equal(erased->n_results, 2);
	assert_int_equal(fixture.fakes[4].erased, 1);
	assert_string_equal(fixture.fakes[4].ranks, "");
	assert_true(fixture.fakes[4].was_unranked);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(a_report_sets_the_state_of_a_rank_and_is_stored),
		TEST(what_a_rank_cannot_serve_is_shown_with_it),
		TEST(an_outdated_report_changes_no_state),
		TEST(a_report_does_not_end_an_exclusion),
		TEST(engines_that_never_joined_are_started_with_the_others),
		TEST(ready_and_unformatted_engines_are_not_started),
		TEST(engines_that_never_joined_are_erased_with_the_others),
		TEST(a_server_reports_only_its_own_ranks),
		TEST(a_rank_missing_from_its_servers_report_is_errored),
		TEST(reports_settle_the_ranks_of_an_interrupted_stop),
		TEST(ranks_of_a_silent_server_become_unresponsive),
		TEST(a_server_whose_timeout_ends_during_a_commit_is_detected),
		TEST(a_rank_of_a_silent_server_becomes_unresponsive_after_its_operation),
		TEST(a_report_with_a_new_incarnation_does_not_replace_a_join),
		TEST(a_silent_server_without_running_ranks_raises_no_event),
		TEST(the_map_version_is_raised_above_those_of_engines),
	};

	return cmocka_run_group_tests_name("control mgmt hosts", tests, NULL, NULL);
}
