/* SPDX-License-Identifier: BSD-2-Clause */
/* What servers say of their engines becomes the ranks' states; of a server that is silent they are unresponsive. */
#include "control/db/system_store.h"

#include "fixture.h"

enum { ENGINES = 4 };

/* A server's report, with an engine for each of the members that are named. */
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

/* Engine `number` of the fixture, which is rank `number` where they joined in order. */
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

static void tell(uint32_t number, uint64_t incarnation, const char *state, const char *info)
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

/* A stop that was not reported to the system, and an engine that cannot be started again. */
static void an_unseen_end_is_reported_by_the_server(void **state)
{
	join_many(3);
	tell(0, 100, "stopped", "");
	assert_string_equal(state_of_rank(0), "stopped");
	assert_string_equal(info_of_rank(0), "it was stopped on its host");
	tell(1, 100, "errored", "its folder is gone");
	assert_string_equal(state_of_rank(1), "errored");
	assert_string_equal(info_of_rank(1), "its folder is gone");
	tell(2, 100, "starting", "");
	assert_string_equal(state_of_rank(2), "starting");
	reopen_mgmt(); /* it is stored */
	assert_string_equal(state_of_rank(0), "stopped");
	assert_string_equal(state_of_rank(1), "errored");
	assert_int_equal(mgmt_stats(fixture.mgmt).reports, 0);
}

static void what_is_older_than_the_join_changes_nothing(void **state)
{
	join_many(2);
	(void)join(0, 200);
	tell(0, 100, "errored", "the one before");
	tell(0, 100, "stopped", "");
	assert_string_equal(state_of_rank(0), "joined");
	tell(1, 100, "joined", "");
	tell(1, 100, "ready", "");
	tell(1, 100, "unknown", "");
	tell(1, 100, "no state at all", "");
	assert_string_equal(state_of_rank(1), "joined");
	assert_int_equal(mgmt_stats(fixture.mgmt).ranks_seen, 0);
	/* what has ended comes back by a join, not because a report was late */
	tell(1, 100, "stopped", "");
	tell(1, 100, "stopping", "");
	tell(1, 100, "joined", "");
	assert_string_equal(state_of_rank(1), "stopped");
}

static void who_is_out_stays_out(void **state)
{
	Mgmt__SystemExcludeReq request = MGMT__SYSTEM_EXCLUDE_REQ__INIT;

	join_many(2);
	request.ranks = (char *)"1";
	(void)answer_of(ADMIN_ASK("SystemExclude", request, system_exclude));
	tell(1, 100, "joined", "");
	tell(1, 100, "errored", "it ended");
	assert_string_equal(state_of_rank(1), "adminexcluded");
}

/* Rank 1 is at another server: who is named wrongly is not taken, and who is not named is not there. */
static void a_rank_is_told_of_by_its_own_server_alone(void **state)
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

/* Its storage cannot be read, so its server does not know that it is rank 0. */
static void a_rank_that_its_server_does_not_have_is_errored(void **state)
{
	Fathom__ReportEnginesReq__Engine *engine;
	struct report report;

	join_many(1);
	(void)join(FAKES, 100); /* rank 1, beside it */
	report_init(&report, 0);
	(void)report_add(&report, FAKES, 100, "joined", "");
	report.engines[0].rank = 1;
	engine = report_add(&report, 0, 0, "unknown", "");
	engine->rank = RANK_NONE;
	engine->uuid = (char *)"";
	(void)answer_of(send_report(&report)); /* it is still being looked for */
	assert_string_equal(state_of_rank(0), "joined");
	engine->state = (char *)"ready"; /* it may be just that one, whose join came before the report did */
	(void)answer_of(send_report(&report));
	assert_string_equal(state_of_rank(0), "joined");
	engine->state = (char *)"errored";
	engine->info = (char *)"the superblock is damaged";
	report.request.made_ns = 100; /* before it was there */
	(void)answer_of(send_report(&report));
	assert_string_equal(state_of_rank(0), "joined");
	report.request.made_ns = 101;
	(void)answer_of(send_report(&report));
	assert_string_equal(state_of_rank(0), "errored");
	assert_string_equal(info_of_rank(0), "the superblock is damaged");
	assert_string_equal(state_of_rank(1), "joined");
}

/* A stop whose service ended in its middle leaves ranks Stopping: what they are, their servers say. */
static void a_stop_that_was_cut_short_is_seen_to_its_end(void **state)
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
	tell(0, 100, "joined", ""); /* the operation settles it */
	assert_string_equal(state_of_rank(0), "stopping");
	reopen_mgmt();
	question_wait(&waiting);
	question_end(&waiting);
	tell(0, 100, "joined", "");
	tell(1, 100, "stopped", "");
	tell(2, 100, "stopping", "");
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

static void a_server_that_is_silent_makes_its_ranks_unresponsive(void **state)
{
	char message[RAS_MESSAGE_BYTES] = "";
	uint64_t again_ms;

	fixture.heartbeat_ns = 100 * NS_PER_MS;
	reopen_mgmt();
	join_many(2);
	(void)join(FAKES, 100); /* rank 2, beside rank 0 */
	tell(0, 100, "unknown", "");
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
	/* it is there again: one goes on, one was stopped meanwhile */
	tell(0, 100, "joined", "");
	assert_string_equal(state_of_rank(0), "joined");
	assert_int_equal(count_events(RAS_SERVER_HEARD, message, sizeof(message)), 1);
	wait_for_state(1, "unresponsive"); /* its turn */
	assert_int_equal(count_events(RAS_SERVER_SILENT, message, sizeof(message)) >= 2, 1);
}

/* Of the next transaction of members: it takes so long, as on a disk that is busy. */
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

/* The second is heard two beats after the first, and its time is over while the first one's ranks are being stored. */
static void a_server_that_becomes_silent_while_others_are_stored_is_missed_too(void **state)
{
	char message[RAS_MESSAGE_BYTES];

	fixture.heartbeat_ns = 100 * NS_PER_MS;
	reopen_mgmt();
	join_many(2);
	usleep(200000);
	tell(1, 100, "joined", "");
	commit_us = 250000;
	wait_for_state(0, "unresponsive");
	wait_for_state(1, "unresponsive");
	assert_int_equal(count_events(RAS_SERVER_SILENT, message, sizeof(message)), 2);
}

static void wait_beats(unsigned int beats)
{
	usleep((unsigned int)(beats * fixture.heartbeat_ns / 1000));
}

/* One server hangs in a start; of the other the rank has started, and then nothing more is heard. */
static void a_rank_that_was_busy_when_its_server_fell_silent_is_missed_afterwards(void **state)
{
	static struct question waiting;
	Mgmt__SystemStartReq request = MGMT__SYSTEM_START_REQ__INIT;
	char message[RAS_MESSAGE_BYTES];

	memset(&waiting, 0, sizeof(waiting));
	fixture.heartbeat_ns = 50 * NS_PER_MS;
	reopen_mgmt();
	join_many(2);
	tell(0, 100, "stopped", "");
	tell(1, 100, "stopped", "");
	fixture.fakes[1].way = FAKE_HANGS;
	ask_begin(&waiting, fixture.admin, "/mgmt.MgmtSvc/SystemStart", &request.base,
		  &mgmt__system_start_resp__descriptor);
	(void)join(0, 200);
	wait_beats(8);
	assert_string_equal(state_of_rank(0), "joined"); /* it is part of the start */
	assert_int_equal(on_control(fake_kill, &fixture.fakes[1]), 0);
	question_wait(&waiting);
	question_end(&waiting);
	wait_for_state(0, "unresponsive");
	assert_int_equal(count_events(RAS_SERVER_SILENT, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "ranks: 0"));
	wait_beats(6);
	assert_int_equal(count_events(RAS_SERVER_SILENT, message, sizeof(message)), 1); /* once */
	tell(0, 200, "joined", "");
	assert_string_equal(state_of_rank(0), "joined");
	assert_int_equal(count_events(RAS_SERVER_HEARD, message, sizeof(message)), 1);
}

static void another_process_than_the_one_that_joined_has_to_join(void **state)
{
	fixture.heartbeat_ns = 100 * NS_PER_MS;
	reopen_mgmt();
	join_many(1);
	wait_for_state(0, "unresponsive");
	tell(0, 200, "joined", "");
	assert_string_equal(state_of_rank(0), "unresponsive");
	(void)join(0, 200);
	assert_string_equal(state_of_rank(0), "joined");
}

/* What is stopped is not missed. */
static void a_server_without_ranks_that_run_is_not_missed(void **state)
{
	char message[RAS_MESSAGE_BYTES];

	fixture.heartbeat_ns = 50 * NS_PER_MS;
	reopen_mgmt();
	join_many(2);
	tell(1, 100, "stopped", "");
	wait_for_state(0, "unresponsive");
	assert_string_equal(state_of_rank(1), "stopped");
	assert_int_equal(count_events(RAS_SERVER_SILENT, message, sizeof(message)), 1);
	assert_non_null(strstr(message, fixture.fakes[0].address));
}

/* Engines that have a later map than the system has made take no other one before the system's comes after it. */
static void a_later_map_that_engines_have_is_overtaken(void **state)
{
	struct report report;
	struct joining joining;

	join_many(2);
	wait_until(all_have_the_map, NULL);
	report_init(&report, 0);
	(void)report_add(&report, 0, 100, "joined", "");
	report.request.map_version = 2; /* ours: no change */
	(void)answer_of(send_report(&report));
	assert_int_equal(system_map_version(mgmt_system(fixture.mgmt)), 2);
	report.request.map_version = 77;
	(void)answer_of(send_report(&report));
	assert_int_equal(system_map_version(mgmt_system(fixture.mgmt)), 78);
	wait_until(all_have_the_map, NULL);
	assert_int_equal(fixture.fakes[1].map_version, 78);
	report.request.map_version = UINT32_MAX; /* no server can have that one */
	(void)answer_of(send_report(&report));
	assert_int_equal(system_map_version(mgmt_system(fixture.mgmt)), 78);
	fill_join(&joining, 1, 100);
	joining.request.map_version = 99;
	(void)answer_of(ask_join(&joining));
	reopen_mgmt();
	assert_int_equal(system_map_version(mgmt_system(fixture.mgmt)), 100);
}

/* ---- engines without a rank ---- */

static void tell_unranked(uint32_t fake, uint32_t count, const char *state)
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

	/* with no member at all, too */
	assert_int_equal(start_on("", "")->code, GRPC_UNKNOWN);
	tell_unranked(5, 1, "errored");
	started = answer_of(start_on("", ""));
	assert_int_equal(started->n_results, 1);
	assert_int_equal(started->results[0]->rank, RANK_NONE);
	assert_string_equal(started->results[0]->addr, fixture.fakes[5].address);
	assert_false(started->results[0]->errored);
	join_many(2);
	tell_unranked(1, 2, "stopped");
	fixture.fakes[1].new_rank = 7;
	fixture.fakes[5].way = FAKE_ERRS;
	started = answer_of(start_on("", ""));
	assert_int_equal(started->n_results, 5); /* ranks 0, 1, the new 7, and two without */
	assert_int_equal(started->results[2]->rank, 7);
	assert_int_equal(started->results[3]->rank, RANK_NONE);
	assert_string_equal(fixture.fakes[1].ranks, "1");
	assert_true(fixture.fakes[1].was_unranked);
	assert_false(fixture.fakes[0].was_unranked);
	assert_int_equal(count_events(RAS_SYSTEM_START_FAILED, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "1 of 5 ranks could not be started; an engine of 127.0.0.1:"));
	/* one that is named by its rank is meant alone */
	(void)answer_of(start_on("1", ""));
	assert_false(fixture.fakes[1].was_unranked);
	/* by their host, which is not absent then */
	started = answer_of(start_on("", fixture.fakes[5].address));
	assert_int_equal(started->n_results, 1);
	assert_string_equal(started->absenthosts, "");
	started = answer_of(start_on("", "127.0.0.1:1"));
	assert_int_equal(started->n_results, 0);
	assert_string_equal(started->absenthosts, "127.0.0.1:1");
}

static void what_is_on_its_way_or_not_formatted_is_not_started(void **state)
{
	join_many(1);
	tell_unranked(2, 1, "ready");
	tell_unranked(3, 1, "awaitformat");
	assert_int_equal(((const Mgmt__SystemStartResp *)answer_of(start_on("", "")))->n_results, 1);
	tell_unranked(2, 1, "errored");
	assert_int_equal(((const Mgmt__SystemStartResp *)answer_of(start_on("", "")))->n_results, 2);
	/* it has joined: its server reports none any more */
	tell_unranked(2, 0, "");
	assert_int_equal(((const Mgmt__SystemStartResp *)answer_of(start_on("", "")))->n_results, 1);
}

static void engines_that_never_joined_are_erased_with_the_others(void **state)
{
	Mgmt__SystemEraseReq request = MGMT__SYSTEM_ERASE_REQ__INIT;
	const Mgmt__SystemEraseResp *erased;

	assert_int_equal(ADMIN_ASK("SystemErase", request, system_erase)->code, GRPC_UNKNOWN);
	tell_unranked(4, 2, "ready"); /* it may run: its join is refused, so it serves nothing */
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
		TEST(an_unseen_end_is_reported_by_the_server),
		TEST(what_is_older_than_the_join_changes_nothing),
		TEST(who_is_out_stays_out),
		TEST(engines_that_never_joined_are_started_with_the_others),
		TEST(what_is_on_its_way_or_not_formatted_is_not_started),
		TEST(engines_that_never_joined_are_erased_with_the_others),
		TEST(a_rank_is_told_of_by_its_own_server_alone),
		TEST(a_rank_that_its_server_does_not_have_is_errored),
		TEST(a_stop_that_was_cut_short_is_seen_to_its_end),
		TEST(a_server_that_is_silent_makes_its_ranks_unresponsive),
		TEST(a_server_that_becomes_silent_while_others_are_stored_is_missed_too),
		TEST(a_rank_that_was_busy_when_its_server_fell_silent_is_missed_afterwards),
		TEST(another_process_than_the_one_that_joined_has_to_join),
		TEST(a_server_without_ranks_that_run_is_not_missed),
		TEST(a_later_map_that_engines_have_is_overtaken),
	};

	return cmocka_run_group_tests_name("control mgmt hosts", tests, NULL, NULL);
}
