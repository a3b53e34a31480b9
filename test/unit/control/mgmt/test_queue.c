/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests beyond the limits of queues: each is refused with a fault that says what to do, and is counted. */
#include "control/mgmt/internal.h"

#include "fixture.h"

/* The joins that find the queue full are refused with a fault; their next join is accepted. */
static void a_full_queue_of_joins_refuses_with_a_fault(void **state)
{
	static struct question questions[6];
	static struct joining joinings[6];
	uint32_t accepted = 0, refused = 0;

	memset(questions, 0, sizeof(questions));
	fixture.joins_max = 4;
	fixture.join_wait_ns = 200 * NS_PER_MS;
	reopen_mgmt();
	for (uint32_t i = 0; i < ARRAY_COUNT(questions); i++) {
		fill_join(&joinings[i], i, 100);
		ask_begin(&questions[i], fixture.member, "/mgmt.MgmtSvc/Join", &joinings[i].request.base,
			  &mgmt__join_resp__descriptor);
	}
	for (uint32_t i = 0; i < ARRAY_COUNT(questions); i++) {
		question_wait(&questions[i]);
		if (questions[i].code == GRPC_OK) {
			accepted++;
		} else {
			assert_int_equal(questions[i].why.code, FAULT_MGMT_QUEUE_FULL);
			assert_non_null(strstr(questions[i].why.text, "4 joins"));
			assert_non_null(strstr(questions[i].why.resolution, "retry"));
			refused++;
		}
		question_end(&questions[i]);
	}
	assert_int_equal(accepted, 4);
	assert_int_equal(refused, 2);
	assert_int_equal(mgmt_stats(fixture.mgmt).queue_full, 2);
	assert_int_equal(mgmt_stats(fixture.mgmt).joins_refused, 0); /* counts only joins refused by the rules */
	for (uint32_t i = 0; i < ARRAY_COUNT(questions); i++)
		(void)join(i, 100);
	assert_int_equal(query()->n_members, ARRAY_COUNT(questions));
}

static void a_full_queue_of_reports_refuses_with_a_fault(void **state)
{
	static struct question questions[3];
	Fathom__ReportEnginesReq request = FATHOM__REPORT_ENGINES_REQ__INIT;
	uint32_t refused = 0;

	memset(questions, 0, sizeof(questions));
	fixture.joins_max = 2;
	fixture.join_wait_ns = 200 * NS_PER_MS;
	reopen_mgmt();
	request.sys = (char *)"fathom-0.4.0";
	request.addr = fixture.fakes[0].address;
	for (size_t i = 0; i < ARRAY_COUNT(questions); i++)
		ask_begin(&questions[i], fixture.member, "/fathom.ControlSvc/ReportEngines", &request.base,
			  &fathom__report_engines_resp__descriptor);
	for (size_t i = 0; i < ARRAY_COUNT(questions); i++) {
		question_wait(&questions[i]);
		refused += questions[i].why.code == FAULT_MGMT_QUEUE_FULL;
		question_end(&questions[i]);
	}
	assert_int_equal(refused, 1);
	assert_int_equal(mgmt_stats(fixture.mgmt).queue_full, 1);
	assert_int_equal(mgmt_stats(fixture.mgmt).reports, ARRAY_COUNT(questions));
	(void)answer_of(ask(fixture.member, "/fathom.ControlSvc/ReportEngines", &request.base,
			    &fathom__report_engines_resp__descriptor));
}

static int release_all(void *unused)
{
	for (size_t i = 0; i < FAKES; i++)
		fake_release(&fixture.fakes[i]);
	return 0;
}

static bool all_are_held(void *unused)
{
	size_t held = 0;

	for (size_t i = 0; i < FAKES; i++)
		held += fixture.fakes[i].held_count;
	return held == MGMT_OPERATIONS_MAX;
}

/* The limit of concurrent operations is reached. The next operation is refused, and accepted after they end. */
static void too_many_operations_are_refused_with_a_fault(void **state)
{
	static struct question questions[MGMT_OPERATIONS_MAX];
	static Mgmt__SystemStopReq requests[MGMT_OPERATIONS_MAX + 1];
	static char ranks[MGMT_OPERATIONS_MAX + 1][8];
	struct question *refused;

	memset(questions, 0, sizeof(questions));
	join_many(MGMT_OPERATIONS_MAX + 1);
	for (size_t i = 0; i < FAKES; i++)
		fixture.fakes[i].way = FAKE_HANGS;
	for (size_t i = 0; i <= MGMT_OPERATIONS_MAX; i++) {
		snprintf(ranks[i], sizeof(ranks[i]), "%zu", i);
		mgmt__system_stop_req__init(&requests[i]);
		requests[i].ranks = ranks[i];
		requests[i].force = true;
	}
	for (size_t i = 0; i < MGMT_OPERATIONS_MAX; i++)
		ask_begin(&questions[i], fixture.admin, "/mgmt.MgmtSvc/SystemStop", &requests[i].base,
			  &mgmt__system_stop_resp__descriptor);
	refused = ADMIN_ASK("SystemStop", requests[MGMT_OPERATIONS_MAX], system_stop);
	assert_int_equal(refused->why.code, FAULT_MGMT_QUEUE_FULL);
	assert_non_null(strstr(refused->why.text, "8 operations on ranks"));
	assert_int_equal(mgmt_stats(fixture.mgmt).queue_full, 1);
	wait_until(all_are_held, NULL);
	on_control(release_all, NULL);
	for (size_t i = 0; i < MGMT_OPERATIONS_MAX; i++) {
		question_wait(&questions[i]);
		question_end(&questions[i]);
	}
	for (size_t i = 0; i < FAKES; i++)
		fixture.fakes[i].way = FAKE_ANSWERS;
	(void)answer_of(ADMIN_ASK("SystemStop", requests[MGMT_OPERATIONS_MAX], system_stop));
	assert_string_equal(state_of_rank(MGMT_OPERATIONS_MAX), "stopped");
}

static void each_counter_is_named_once(void **state)
{
	struct mgmt_counter counters[MGMT_COUNTERS];
	uint64_t joins = 0;

	join_many(2);
	mgmt_counters(fixture.mgmt, counters);
	for (size_t i = 0; i < MGMT_COUNTERS; i++) {
		assert_true(strlen(counters[i].name) > 0 && strlen(counters[i].meaning) > 0);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(counters[i].name, counters[k].name);
		if (strcmp(counters[i].name, "joins") == 0)
			joins = counters[i].value;
	}
	assert_int_equal(joins, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(a_full_queue_of_joins_refuses_with_a_fault),
		TEST(a_full_queue_of_reports_refuses_with_a_fault),
		TEST(too_many_operations_are_refused_with_a_fault),
		TEST(each_counter_is_named_once),
	};

	return cmocka_run_group_tests_name("control mgmt queue", tests, NULL, NULL);
}
