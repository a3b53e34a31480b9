/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each request with the first, second, third ... allocation failing, until a run meets no failure; and each request on a
 * full disk. The request must end, with success or an error. Memory must equal the database, and the next request must
 * succeed.
 */
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>

#include "control/db/system_store.h"
#include "storage_calls.h"

#include "../../failing_calls.h"

/* ---- calls that fail ---- */

static struct failing_calls failing;

static bool is_control(void)
{
	return pthread_equal(pthread_self(), control_pthread);
}

static bool fails(void)
{
	return is_control() && fixture_works <= 0 && failing_calls_next(&failing);
}

FAILING_CALL(malloc)
FAILING_CALL(calloc)
FAILING_CALL(realloc)
FAILING_CALL(strdup)

/* These end the program when out of memory, by contract. */
SPARED_CALL(thread_send_msg)
SPARED_CALL(fathom_trace_intern)
SPARED_CALL(fathom_trace_intern_foreign)

static int arm(void *fail_at)
{
	failing.armed = fail_at;
	failing.met = false;
	failing.count = 0;
	failing.fail_at = fail_at ? *(uint32_t *)fail_at : 0;
	return 0;
}

/* ---- requests ---- */

/* Make a call and return whether it succeeded. */
static bool try_to_ask(struct grpc_client *client, const char *path, const ProtobufCMessage *request,
		       const ProtobufCMessageDescriptor *descriptor)
{
	struct question question = { .client = client, .path = path, .request = request, .descriptor = descriptor };
	bool is_good;

	sem_init(&question.done, 0, 0);
	if (on_control(question_start, &question) < 0) {
		sem_destroy(&question.done);
		return false;
	}
	question_wait(&question);
	is_good = question.code == GRPC_OK;
	if (!is_good && !failing.armed)
		print_message("# %s: %s\n", path, question.message);
	question_end(&question);
	return is_good;
}

#define TRY(method, request, stem)                                                                                         \
	try_to_ask(fixture.admin, "/mgmt.MgmtSvc/" method, &(request).base, &mgmt__##stem##_resp__descriptor)

static uint64_t incarnation = 1000, events_reported;

static bool ask_to_join(void)
{
	struct joining joining;

	fill_join(&joining, 1, ++incarnation);
	return try_to_ask(fixture.member, "/mgmt.MgmtSvc/Join", &joining.request.base, &mgmt__join_resp__descriptor);
}

static bool ask_for_members(void)
{
	Mgmt__SystemQueryReq request = MGMT__SYSTEM_QUERY_REQ__INIT;

	request.hosts = (char *)"127.0.0.1,10.0.0.1";
	return TRY("SystemQuery", request, system_query);
}

static bool ask_to_attach(void)
{
	Mgmt__GetAttachInfoReq request = MGMT__GET_ATTACH_INFO_REQ__INIT;

	return TRY("GetAttachInfo", request, get_attach_info);
}

static bool ask_to_exclude(void)
{
	Mgmt__SystemExcludeReq request = MGMT__SYSTEM_EXCLUDE_REQ__INIT;
	bool is_good;

	request.ranks = (char *)"2";
	is_good = TRY("SystemExclude", request, system_exclude);
	request.clear = true;
	return TRY("SystemExclude", request, system_exclude) && is_good;
}

static bool ask_to_stop(void)
{
	Mgmt__SystemStopReq request = MGMT__SYSTEM_STOP_REQ__INIT;

	return TRY("SystemStop", request, system_stop);
}

static bool ask_to_set(void)
{
	Mgmt__SystemSetAttrReq__AttributesEntry entry = MGMT__SYSTEM_SET_ATTR_REQ__ATTRIBUTES_ENTRY__INIT,
						*entries[] = { &entry };
	Mgmt__SystemSetAttrReq request = MGMT__SYSTEM_SET_ATTR_REQ__INIT;
	char value[24];

	snprintf(value, sizeof(value), "%llu", (unsigned long long)++incarnation);
	entry.key = (char *)"a";
	entry.value = value;
	request.n_attributes = 1;
	request.attributes = entries;
	return try_to_ask(fixture.admin, "/mgmt.MgmtSvc/SystemSetAttr", &request.base, &mgmt__daos_resp__descriptor);
}

static bool report_died_event(void)
{
	Fathom__TakeEventsReq request = FATHOM__TAKE_EVENTS_REQ__INIT;
	Fathom__NumberedEvent numbered = FATHOM__NUMBERED_EVENT__INIT, *places[] = { &numbered };
	static struct ras_event event;

	ras_event_init(&event, RAS_ENGINE_DIED, "it died");
	ras_event_set_engine(&event, 1, incarnation, 0, 1, "");
	numbered.number = ++events_reported;
	numbered.event = &event.message;
	request.source = (char *)"11111111-1111-4111-8111-111111111111";
	request.n_events = 1;
	request.events = places;
	return try_to_ask(fixture.member, "/fathom.ControlSvc/TakeEvents", &request.base,
			  &fathom__take_events_resp__descriptor);
}

static bool read_events(void)
{
	Fathom__SystemEventsReq request = FATHOM__SYSTEM_EVENTS_REQ__INIT;

	return try_to_ask(fixture.admin, "/fathom.ControlSvc/SystemEvents", &request.base,
			  &fathom__system_events_resp__descriptor);
}

/* Several changes of pools and volumes; the first removes what an earlier run has left. */
static bool ask_to_store(void)
{
	bool is_good;

	(void)destroy_pool("p", true, true);
	is_good = create_pool("p")->code == GRPC_OK;
	is_good &= create_volume("p/a", GIB)->code == GRPC_OK;
	is_good &= publish_volume("p/a", HOST)->code == GRPC_OK;
	is_good &= ask_volume("p/a")->code == GRPC_OK;
	is_good &= rename_volume("p/a", "b")->code == GRPC_OK;
	is_good &= create_snapshot("p/b@s")->code == GRPC_OK;
	is_good &= destroy_pool("p", true, true)->code == GRPC_OK;
	return is_good;
}

/* The first is for joined ranks. */
static bool (*const requests[])(void) = { ask_to_store, ask_to_join, ask_for_members,	ask_to_attach, ask_to_exclude,
					  ask_to_stop,	ask_to_set,  report_died_event, read_events };

/* ---- the tests ---- */

/* The answers to system query and get-attr, packed, to be compared. */
static size_t pack_members_and_attributes(uint8_t *bytes, size_t room)
{
	Mgmt__SystemGetAttrReq request = MGMT__SYSTEM_GET_ATTR_REQ__INIT;
	const ProtobufCMessage *members = &query()->base, *attributes;
	size_t count = protobuf_c_message_pack(members, bytes);

	attributes = answer_of(ADMIN_ASK("SystemGetAttr", request, system_get_attr));
	assert_true(protobuf_c_message_get_packed_size(attributes) < room - count);
	return count + protobuf_c_message_pack(attributes, bytes + count);
}

static void assert_memory_equals_database(void)
{
	static uint8_t before[1 << 18], after[1 << 18];
	size_t bytes = pack_members_and_attributes(before, sizeof(before));

	reopen_mgmt();
	assert_int_equal(pack_members_and_attributes(after, sizeof(after)), bytes);
	assert_memory_equal(before, after, bytes);
}

static void a_failed_allocation_leaves_memory_equal_to_the_database(void **state)
{
	fixture.storage_patience_ns = NS_PER_MS;
	reopen_mgmt();
	join_many(4);
	for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
		uint32_t n = 1, met = 1, failed = 0;

		for (; met; n++) {
			on_control(arm, &n);
			failed += !requests[i]();
			met = failing.met;
			on_control(arm, NULL);
			if (n % 8 == 0)
				assert_memory_equals_database();
		}
		assert_memory_equals_database();
		if (!requests[i]())
			fail_msg("request %zu fails although no call is made to fail", i);
		print_message("# request %zu: %u allocations, %u runs failed\n", i, n - 2, failed);
		assert_true(n > 10);
		assert_true(failed > 0);
	}
}

/* ---- a full disk ---- */

static void fill_disk(bool is_full)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = is_full ? 0 : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void on_a_full_disk_changes_fail_and_queries_succeed(void **state)
{
	join_many(4);
	for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
		bool is_change = requests[i] != ask_for_members && requests[i] != ask_to_attach &&
				 requests[i] != read_events;
		bool is_good;

		(void)join(1, ++incarnation);
		fill_disk(true);
		is_good = requests[i]();
		fill_disk(false);
		if (is_good == is_change)
			fail_msg("request %zu has the wrong result on a full disk", i);
		assert_memory_equals_database();
		if (!requests[i]())
			fail_msg("request %zu fails although no call is made to fail", i);
	}
}

static int release_fake(void *fake)
{
	fake_release(fake);
	return 0;
}

/* The ranks are stopped, but their states cannot be stored: the answer must report an error. */
static void a_stop_that_cannot_be_stored_is_reported_as_failed(void **state)
{
	static struct question waiting;
	Mgmt__SystemStopReq request = MGMT__SYSTEM_STOP_REQ__INIT;
	const Mgmt__SystemStopResp *response;

	memset(&waiting, 0, sizeof(waiting));
	join_many(2);
	fixture.fakes[0].way = FAKE_HANGS;
	request.force = true;
	ask_begin(&waiting, fixture.admin, "/mgmt.MgmtSvc/SystemStop", &request.base, &mgmt__system_stop_resp__descriptor);
	while (strcmp(state_of_rank(1), "stopped") != 0)
		usleep(1000);
	fill_disk(true);
	on_control(release_fake, &fixture.fakes[0]);
	question_wait(&waiting);
	fill_disk(false);
	response = answer_of(&waiting);
	assert_int_equal(response->n_results, 2);
	assert_true(response->results[0]->errored);
	assert_string_equal(response->results[0]->state, "unresponsive");
	assert_false(response->results[1]->errored);
	assert_non_null(strstr(response->results[0]->msg, "database"));
	question_end(&waiting);
	assert_string_equal(state_of_rank(0), "stopping"); /* the state in the database */
	/* RAS events of the stop of rank 1 and of the failure of rank 0 */
	assert_int_equal(mgmt_stats(fixture.mgmt).events_lost, 2);
	assert_memory_equals_database();
}

/* A rename is stored, and its task cannot be created: the name is taken nevertheless. */
static void a_name_that_a_stored_rename_will_take_is_given_to_no_other(void **state)
{
	uint32_t refused = 0;

	fixture.storage_patience_ns = NS_PER_MS;
	reopen_mgmt();
	join_many(1);
	for (uint32_t n = 1, met = 1; met; n++) {
		(void)destroy_pool("p", true, true);
		answer_of(create_pool("p"));
		volume_of(create_volume("p/a", GIB));
		on_control(arm, &n);
		(void)rename_volume("p/a", "b");
		met = failing.met;
		on_control(arm, NULL);
		refused += create_volume("p/b", GIB)->why.code == FAULT_STORAGE_CHANGING;
		reopen_mgmt(); /* all changes go on */
		wait_until(nothing_is_pending, NULL);
		assert_int_equal(list_volumes()->n_volumes, fixture.fakes[0].storage.volume_count);
	}
	assert_true(refused > 0);
}

/* ---- more joins at once than fit a transaction ---- */

enum { CROWD_CLIENTS = 6, CROWD_PER_CLIENT = 900, CROWD = CROWD_CLIENTS * CROWD_PER_CLIENT };

static struct {
	struct grpc_client *clients[CROWD_CLIENTS];
	struct joining *joins;
	struct question *questions;
} crowd;

static int open_crowd(void *unused)
{
	for (size_t i = 0; i < CROWD_CLIENTS; i++)
		must(open_client(GRPC_ROLE_SERVER, &crowd.clients[i]) == 0);
	return 0;
}

static int close_crowd(void *unused)
{
	for (size_t i = 0; i < CROWD_CLIENTS; i++)
		grpc_client_destroy(crowd.clients[i]);
	return 0;
}

static int all_calls_are_open(void *unused)
{
	return grpc_server_stats(fixture.server).calls_open == CROWD;
}

/*
 * The disk has room for some joins, but not for a whole transaction. Each engine whose join is acknowledged must be a
 * member.
 */
static void joins_acknowledged_on_a_filling_disk_are_stored(void **state)
{
	struct rlimit limit;
	uint32_t accepted = 0;

	crowd.joins = calloc(CROWD, sizeof(*crowd.joins));
	crowd.questions = calloc(CROWD, sizeof(*crowd.questions));
	assert_non_null(crowd.joins);
	assert_non_null(crowd.questions);
	fixture.join_wait_ns = 5 * NS_PER_SEC;
	reopen_mgmt();
	on_control(open_crowd, NULL);
	for (uint32_t i = 0; i < CROWD; i++) {
		fill_join(&crowd.joins[i], i, 100);
		ask_begin(&crowd.questions[i], crowd.clients[i % CROWD_CLIENTS], "/mgmt.MgmtSvc/Join",
			  &crowd.joins[i].request.base, &mgmt__join_resp__descriptor);
	}
	for (int i = 0; i < 4000 && !on_control(all_calls_are_open, NULL); i++)
		usleep(1000);
	assert_true(on_control(all_calls_are_open, NULL)); /* all must be queued before the first is decided */
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = 1 << 20;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (uint32_t i = 0; i < CROWD; i++) {
		question_wait(&crowd.questions[i]);
		accepted += crowd.questions[i].code == GRPC_OK;
	}
	fill_disk(false);
	assert_int_equal(accepted, CROWD - SYSTEM_STORE_MEMBERS_MAX);
	assert_int_equal(query()->n_members, accepted);
	assert_memory_equals_database();
	for (uint32_t i = 0; i < CROWD; i++)
		question_end(&crowd.questions[i]);
	on_control(close_crowd, NULL);
	free(crowd.joins);
	free(crowd.questions);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(a_failed_allocation_leaves_memory_equal_to_the_database),
		TEST(on_a_full_disk_changes_fail_and_queries_succeed),
		TEST(a_stop_that_cannot_be_stored_is_reported_as_failed),
		TEST(a_name_that_a_stored_rename_will_take_is_given_to_no_other),
		TEST(joins_acknowledged_on_a_filling_disk_are_stored),
	};

	signal(SIGXFSZ, SIG_IGN);
	json_set_alloc_funcs(malloc, free); /* the wrappers of this file */
	return cmocka_run_group_tests_name("control mgmt failing", tests, NULL, NULL);
}
