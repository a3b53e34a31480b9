/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts and stops over several servers, which answer, refuse, report errors, omit results, hang or are dead. */
#include "fixture.h"

static struct question *stop(const char *ranks, bool is_forced, bool is_ignored)
{
	Mgmt__SystemStopReq request = MGMT__SYSTEM_STOP_REQ__INIT;

	request.ranks = (char *)ranks;
	request.force = is_forced;
	request.ignore_admin_excluded = is_ignored;
	return ADMIN_ASK("SystemStop", request, system_stop);
}

static struct question *start(const char *ranks)
{
	Mgmt__SystemStartReq request = MGMT__SYSTEM_START_REQ__INIT;

	request.ranks = (char *)ranks;
	return ADMIN_ASK("SystemStart", request, system_start);
}

static void assert_result(const Shared__RankResult *result, uint32_t rank, const char *action, const char *state,
			  const char *message)
{
	assert_int_equal(result->rank, rank);
	assert_string_equal(result->action, action);
	assert_string_equal(result->state, state);
	assert_string_equal(result->msg, message);
	assert_string_equal(result->addr, fixture.fakes[rank % FAKES].address);
}

static void all_ranks_are_stopped_and_started(void **state)
{
	const Mgmt__SystemStopResp *stopped;
	const Mgmt__SystemStartResp *started;
	const Mgmt__SystemQueryResp *members;

	join_many(2 * FAKES);
	stopped = answer_of(stop("", true, false));
	assert_int_equal(stopped->n_results, 2 * FAKES);
	for (uint32_t i = 0; i < stopped->n_results; i++) {
		assert_result(stopped->results[i], i, "stop", "stopped", "system stop");
		assert_false(stopped->results[i]->errored);
	}
	for (size_t i = 0; i < FAKES; i++) {
		char ranks[32];

		snprintf(ranks, sizeof(ranks), "%zu,%zu", i, i + FAKES);
		assert_string_equal(fixture.fakes[i].ranks, ranks);
		assert_true(fixture.fakes[i].was_forced);
		assert_int_equal(fixture.fakes[i].stopped, 1);
		assert_int_equal(fixture.fakes[i].prepared, 0);
	}
	reopen_mgmt();
	members = query();
	for (size_t i = 0; i < members->n_members; i++) {
		assert_string_equal(members->members[i]->state, "stopped");
		assert_string_equal(members->members[i]->info, "system stop");
	}
	started = answer_of(start(""));
	for (uint32_t i = 0; i < started->n_results; i++)
		assert_result(started->results[i], i, "start", "ready", "system start");
	assert_string_equal(state_of_rank(3), "ready");
	(void)join(3, 200);
	assert_string_equal(state_of_rank(3), "joined");
	/* a rank that joins before its server answers the start stays joined */
	(void)answer_of(start("3"));
	assert_string_equal(state_of_rank(3), "joined");
	assert_int_equal(mgmt_stats(fixture.mgmt).states_refused, 1);
	assert_int_equal(mgmt_stats(fixture.mgmt).stops, 0); /* counted since the service was opened */
	assert_int_equal(mgmt_stats(fixture.mgmt).starts, 2);
	assert_int_equal(mgmt_stats(fixture.mgmt).rank_calls, FAKES + 1);
}

static void a_clean_stop_prepares_first(void **state)
{
	const Mgmt__SystemStopResp *response;
	char message[RAS_MESSAGE_BYTES];

	join_many(3);
	fixture.fakes[1].way = FAKE_ERRS;
	response = answer_of(stop("", false, false));
	assert_int_equal(response->n_results, 3);
	assert_result(response->results[0], 0, "stop", "stopped", "system stop");
	assert_result(response->results[1], 1, "prep shutdown", "errored", "it would not");
	assert_true(response->results[1]->errored);
	assert_result(response->results[2], 2, "stop", "stopped", "system stop");
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(fixture.fakes[i].prepared, 1);
		assert_int_equal(fixture.fakes[i].stopped, i == 1 ? 0 : 1);
		assert_false(fixture.fakes[i].was_forced);
	}
	assert_string_equal(state_of_rank(0), "stopped");
	assert_string_equal(state_of_rank(1), "errored");
	assert_int_equal(count_events(RAS_SYSTEM_STOP_FAILED, message, sizeof(message)), 1);
	assert_string_equal(message, "1 of 3 ranks could not be stopped; rank 1: it would not");
}

static void each_kind_of_failure_is_reported_by_rank(void **state)
{
	const Mgmt__SystemStartResp *response;
	char message[RAS_MESSAGE_BYTES];

	fixture.rank_timeout_ns = 200 * NS_PER_MS;
	reopen_mgmt();
	join_many(6);
	fixture.fakes[1].way = FAKE_REFUSES;
	fixture.fakes[2].way = FAKE_HANGS;
	fixture.fakes[3].way = FAKE_IS_SILENT;
	fixture.fakes[4].way = FAKE_ERRS;
	on_control(fake_kill, &fixture.fakes[5]);
	response = answer_of(start(""));
	assert_int_equal(response->n_results, 6);
	assert_result(response->results[0], 0, "start", "ready", "system start");
	assert_result(response->results[1], 1, "start", "unresponsive", "not now");
	assert_string_equal(response->results[2]->state, "unresponsive");
	assert_non_null(strstr(response->results[2]->msg, "did not answer in time"));
	assert_result(response->results[3], 3, "start", "errored", "its server does not know it");
	assert_result(response->results[4], 4, "start", "errored", "it would not");
	assert_string_equal(response->results[5]->state, "unresponsive");
	assert_non_null(strstr(response->results[5]->msg, "refused the connection"));
	for (uint32_t i = 1; i < 6; i++)
		assert_true(response->results[i]->errored);
	for (uint32_t i = 1; i < 6; i++)
		assert_string_equal(state_of_rank(i), i == 3 || i == 4 ? "errored" : "unresponsive");
	assert_int_equal(count_events(RAS_SYSTEM_START_FAILED, message, sizeof(message)), 1);
	assert_non_null(strstr(message, "5 of 6 ranks could not be started; rank 1: not now"));
	assert_int_equal(mgmt_stats(fixture.mgmt).rank_failures, 5);
}

static void a_result_for_another_rank_is_dropped_and_counted(void **state)
{
	const Mgmt__SystemStartResp *response;

	join_many(2);
	fixture.fakes[1].way = FAKE_ANSWERS_FOR_OTHERS;
	response = answer_of(start(""));
	assert_int_equal(response->n_results, 2);
	assert_result(response->results[0], 0, "start", "ready", "system start");
	assert_result(response->results[1], 1, "start", "errored", "its server does not know it");
	assert_int_equal(mgmt_stats(fixture.mgmt).results_refused, 1);
	assert_int_equal(mgmt_stats(fixture.mgmt).calls_refused, 0);
}

static void a_second_operation_on_a_busy_rank_is_refused(void **state)
{
	static struct question waiting;
	Mgmt__SystemStopReq request = MGMT__SYSTEM_STOP_REQ__INIT;
	struct question *question;

	fixture.rank_timeout_ns = NS_PER_SEC;
	reopen_mgmt();
	memset(&waiting, 0, sizeof(waiting));
	join_many(3);
	fixture.fakes[1].way = FAKE_HANGS;
	request.force = true;
	request.ranks = (char *)"0-1";
	ask_begin(&waiting, fixture.admin, "/mgmt.MgmtSvc/SystemStop", &request.base, &mgmt__system_stop_resp__descriptor);
	while (strcmp(state_of_rank(0), "stopped") != 0)
		usleep(1000);
	assert_string_equal(state_of_rank(1), "stopping");
	question = start("1-2");
	assert_int_equal(question->why.code, 689);
	assert_int_equal(question->why.error, -EBUSY);
	assert_int_equal(mgmt_stats(fixture.mgmt).calls_refused, 1);
	(void)answer_of(start("2")); /* rank 2 is in no operation */
	question_wait(&waiting);
	(void)answer_of(&waiting);
	question_end(&waiting);
	assert_string_equal(state_of_rank(1), "unresponsive");
	fixture.fakes[1].way = FAKE_ANSWERS;
	(void)answer_of(stop("1", true, false));
	assert_string_equal(state_of_rank(1), "stopped");
}

/* Ranks join during a stop; then their servers do not answer. The ranks must stay joined. */
static void a_rank_that_joins_during_a_stop_stays_joined(void **state)
{
	static struct question waiting;
	Mgmt__SystemStopReq request = MGMT__SYSTEM_STOP_REQ__INIT;

	fixture.rank_timeout_ns = 500 * NS_PER_MS;
	reopen_mgmt();
	join_many(4);
	fixture.fakes[1].way = fixture.fakes[2].way = fixture.fakes[3].way = FAKE_HANGS;
	request.force = true;
	request.ranks = (char *)"1-3";
	memset(&waiting, 0, sizeof(waiting));
	ask_begin(&waiting, fixture.admin, "/mgmt.MgmtSvc/SystemStop", &request.base, &mgmt__system_stop_resp__descriptor);
	while (strcmp(state_of_rank(3), "stopping") != 0)
		usleep(1000);
	(void)join(1, 200); /* a new process */
	(void)join(2, 100); /* the same process, after a restart of its server */
	question_wait(&waiting);
	(void)answer_of(&waiting);
	question_end(&waiting);
	assert_string_equal(state_of_rank(1), "joined");
	assert_string_equal(state_of_rank(2), "joined");
	assert_string_equal(state_of_rank(3), "unresponsive");
}

static void a_stop_skips_excluded_ranks(void **state)
{
	Mgmt__SystemExcludeReq request = MGMT__SYSTEM_EXCLUDE_REQ__INIT;
	const Mgmt__SystemStopResp *response;

	join_many(3);
	request.ranks = (char *)"1";
	(void)answer_of(ADMIN_ASK("SystemExclude", request, system_exclude));
	assert_int_equal(stop("0-1", true, false)->why.code, 623);
	assert_string_equal(state_of_rank(0), "joined");
	response = answer_of(stop("0-1", true, true));
	assert_int_equal(response->n_results, 1);
	response = answer_of(stop("", true, false));
	assert_int_equal(response->n_results, 2);
	assert_string_equal(state_of_rank(1), "adminexcluded");
	assert_int_equal(fixture.fakes[1].stopped, 0);
}

/* A host is the last part of a fault domain: node0 of /rack0/node0. */
static void hosts_are_selected_by_the_names_in_fault_domains(void **state)
{
	Mgmt__SystemQueryReq request = MGMT__SYSTEM_QUERY_REQ__INIT;
	const Mgmt__SystemQueryResp *response;

	join_many(2);
	request.hosts = (char *)"127.0.0.1,node0";
	response = answer_of(ADMIN_ASK("SystemQuery", request, system_query));
	assert_int_equal(response->n_members, 2);
	assert_string_equal(response->absenthosts, "");
	request.hosts = (char *)"node0:1,node1";
	response = answer_of(ADMIN_ASK("SystemQuery", request, system_query));
	assert_int_equal(response->n_members, 0);
	assert_string_equal(response->absenthosts, "node0:1,node1");
}

static void absent_ranks_and_hosts_are_reported(void **state)
{
	Mgmt__SystemStopReq request = MGMT__SYSTEM_STOP_REQ__INIT;
	Mgmt__SystemStartReq check = MGMT__SYSTEM_START_REQ__INIT;
	const Mgmt__SystemStopResp *response;

	join_many(2);
	response = answer_of(stop("1,7-8", true, false));
	assert_int_equal(response->n_results, 1);
	assert_string_equal(response->absentranks, "7-8");
	request.hosts = (char *)"10.1.1.1";
	response = answer_of(ADMIN_ASK("SystemStop", request, system_stop));
	assert_int_equal(response->n_results, 0);
	assert_string_equal(response->absenthosts, "10.1.1.1");
	request.ranks = (char *)"1";
	assert_int_equal(ADMIN_ASK("SystemStop", request, system_stop)->why.code, 687);
	check.check_mode = true;
	(void)answer_of(ADMIN_ASK("SystemStart", check, system_start));
	assert_true(fixture.fakes[0].was_checker);
}

static void the_fault_of_a_busy_rank_names_its_operation(void **state)
{
	static struct question waiting;
	Mgmt__SystemEraseReq erase = MGMT__SYSTEM_ERASE_REQ__INIT;
	Mgmt__SystemStartReq start = MGMT__SYSTEM_START_REQ__INIT;
	const struct question *refused;

	memset(&waiting, 0, sizeof(waiting));
	join_many(2);
	(void)answer_of(stop("", true, false));
	fixture.fakes[1].way = FAKE_HANGS;
	ask_begin(&waiting, fixture.admin, "/mgmt.MgmtSvc/SystemErase", &erase.base, &mgmt__system_erase_resp__descriptor);
	while (strcmp(state_of_rank(0), "gone") != 0)
		usleep(1000);
	refused = ADMIN_ASK("SystemStart", start, system_start);
	assert_int_equal(refused->why.code, 689);
	assert_non_null(strstr(refused->why.text, "rank 1 is already being erased"));
	assert_int_equal(on_control(fake_kill, &fixture.fakes[1]), 0);
	question_wait(&waiting);
	question_end(&waiting);
}

/* The service is closed while calls are in progress: each waiting caller must get an answer. */
static void a_closing_service_answers_waiting_callers(void **state)
{
	static struct question questions[3];
	Mgmt__SystemStopReq request = MGMT__SYSTEM_STOP_REQ__INIT;
	Fathom__SystemEventsReq events = FATHOM__SYSTEM_EVENTS_REQ__INIT;
	static struct joining joining;

	memset(questions, 0, sizeof(questions));
	join_many(2);
	fixture.join_wait_ns = 10 * NS_PER_SEC;
	reopen_mgmt();
	fixture.fakes[1].way = FAKE_HANGS;
	request.force = true;
	ask_begin(&questions[0], fixture.admin, "/mgmt.MgmtSvc/SystemStop", &request.base,
		  &mgmt__system_stop_resp__descriptor);
	events.after = 1 << 20;
	events.wait_ms = 60000;
	ask_begin(&questions[1], fixture.admin, "/fathom.ControlSvc/SystemEvents", &events.base,
		  &fathom__system_events_resp__descriptor);
	fill_join(&joining, 2, 100);
	ask_begin(&questions[2], fixture.member, "/mgmt.MgmtSvc/Join", &joining.request.base, &mgmt__join_resp__descriptor);
	while (strcmp(state_of_rank(0), "stopped") != 0)
		usleep(1000);
	assert_int_equal(on_control(close_mgmt, NULL), 0);
	for (size_t i = 0; i < ARRAY_COUNT(questions); i++) {
		question_wait(&questions[i]);
		assert_int_equal(questions[i].code, i == 1 ? GRPC_OK : GRPC_UNAVAILABLE);
		question_end(&questions[i]);
	}
	assert_int_equal(on_control(open_mgmt, NULL), 0);
	/* the interrupted stop left the stored state; the operator repeats the stop */
	assert_string_equal(state_of_rank(1), "stopping");
	fixture.fakes[1].way = FAKE_ANSWERS;
	(void)answer_of(stop("", true, false));
	assert_string_equal(state_of_rank(1), "stopped");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(all_ranks_are_stopped_and_started),
		TEST(a_clean_stop_prepares_first),
		TEST(each_kind_of_failure_is_reported_by_rank),
		TEST(a_result_for_another_rank_is_dropped_and_counted),
		TEST(a_second_operation_on_a_busy_rank_is_refused),
		TEST(a_rank_that_joins_during_a_stop_stays_joined),
		TEST(a_stop_skips_excluded_ranks),
		TEST(hosts_are_selected_by_the_names_in_fault_domains),
		TEST(absent_ranks_and_hosts_are_reported),
		TEST(a_closing_service_answers_waiting_callers),
		TEST(the_fault_of_a_busy_rank_names_its_operation),
	};

	return cmocka_run_group_tests_name("control mgmt ranks", tests, NULL, NULL);
}
