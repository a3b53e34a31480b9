/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine and its server over dRPC: the states in which calls are allowed, the reports and events that are sent. */
#include <sys/stat.h>

#include "control/events/spool.h"
#include "control_rig.h"

static void up(void)
{
	assert_int_equal(on_control(rig_open, NULL), 0);
	on_control(rig_is_ready, NULL);
}

static int state_now(void *ctx)
{
	return (int)engine_control.state;
}

#define assert_state(STATE) assert_int_equal(on_control(state_now, NULL), ENGINE_RANK_##STATE)

static void test_calls_before_their_state_are_refused(void **state)
{
	assert_int_equal(on_control(rig_open, NULL), 0);
	assert_state(STARTING);
	assert_int_equal(rig_set_rank(1, 1), DER_UNINIT);
	assert_int_equal(rig_ask(DRPC_MGMT_SET_UP, NULL), DER_UNINIT);
	assert_int_equal(rig_ping(1), DER_UNINIT);
	assert_int_equal(rig_prep_shutdown(1), DER_UNINIT);
	on_control(rig_is_ready, NULL);
	assert_state(READY);
	assert_int_equal(rig_ask(DRPC_MGMT_SET_UP, NULL), DER_UNINIT);
	assert_int_equal(rig_ping(1), DER_UNINIT);
	assert_int_equal(rig_prep_shutdown(1), DER_UNINIT);
	assert_state(READY);
}

static void test_repeated_calls_have_no_further_effect(void **state)
{
	up();
	assert_int_equal(rig_set_rank(ENGINE_RANK_NONE, 1), DER_INVAL);
	assert_int_equal(rig_set_rank(0, 1), 0);
	assert_state(RANKED);
	assert_int_equal(rig_set_rank(0, 2), 0);
	assert_int_equal(rig_set_rank(1, 1), DER_ALREADY);
	assert_int_equal(rig_ask(DRPC_MGMT_SET_UP, NULL), 0);
	assert_state(SERVING);
	assert_int_equal(rig_ask(DRPC_MGMT_SET_UP, NULL), 0);
	assert_int_equal(rig_set_rank(0, 1), 0);
	assert_int_equal(rig_ping(0), 0);
	assert_int_equal(rig_ping(1), DER_BAD_TARGET);
	assert_int_equal(rig_prep_shutdown(1), DER_BAD_TARGET);
	assert_state(SERVING);
	assert_int_equal(rig_prep_shutdown(0), 0);
	assert_state(DRAINED);
	assert_int_equal(rig_prep_shutdown(0), 0);
	assert_int_equal(rig_ask(DRPC_MGMT_SET_UP, NULL), DER_SHUTDOWN);
	assert_int_equal(rig_set_rank(0, 1), 0);
	assert_int_equal(rig_ping(0), 0);
}

static void test_the_engine_reports_ready_to_each_server(void **state)
{
	up();
	assert_int_equal(on_control(rig_server_open, NULL), 0); /* opened after the engine */
	rig_wait(rig.ready_count > 0);
	assert_true(rig.incarnation > 0);
	for (unsigned int i = 0; i < 5; i++) { /* and later servers */
		on_control(rig_server_close, NULL);
		rig.ready_count = 0;
		assert_int_equal(on_control(rig_server_open, NULL), 0);
		rig_wait(rig.ready_count > 0);
	}
}

/* ---- events ---- */

static int raise_some(void *ctx)
{
	for (uintptr_t i = 0; i < (uintptr_t)ctx; i++)
		engine_raise_event(RAS_DEVICE_PLUGGED, NULL, "number %u", (unsigned int)i);
	return 0;
}

static int raise_one(void *ctx)
{
	engine_raise_event(RAS_DEVICE_PLUGGED, NULL, "number %u", (unsigned int)(uintptr_t)ctx);
	return 0;
}

static void assert_events(unsigned int count)
{
	rig_wait(rig.event_count >= count);
	assert_int_equal(rig.event_count, count);
	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(rig.sequences[i], i + 1);
}

static void test_events_are_sent_in_order_and_once(void **state)
{
	up();
	on_control(raise_some, (void *)10); /* before the server exists */
	assert_int_equal(on_control(rig_server_open, NULL), 0);
	assert_events(10);
	assert_string_equal(rig.texts[9], "number 9");
	on_control(rig_server_close, NULL);
	on_control(raise_some, (void *)5);
	rig.refusals = 3;
	rig.refusal = DER_BUSY;
	assert_int_equal(on_control(rig_server_open, NULL), 0);
	assert_events(15);
	assert_int_equal(rig.refusals, 0);
}

static void test_a_rejected_event_is_not_sent_again(void **state)
{
	rig.refusals = 1;
	rig.refusal = DER_INVAL;
	up();
	assert_int_equal(on_control(rig_server_open, NULL), 0);
	on_control(raise_some, (void *)3);
	rig_wait(rig.event_count == 2);
	assert_int_equal(rig.sequences[0], 2);
	assert_int_equal(rig.sequences[1], 3);
}

static int stat_of(const char *name)
{
	json_t *object = json_object();
	int number;

	events_stats(object);
	number = (int)json_integer_value(json_object_get(object, name));
	json_decref(object);
	return number;
}

static int lost_now(void *ctx)
{
	return stat_of("lost");
}

static int waiting_now(void *ctx)
{
	return stat_of("waiting");
}

static void test_event_numbers_start_again_with_each_incarnation(void **state)
{
	up();
	on_control(raise_some, (void *)(ENGINE_EVENTS_MAX + 7));
	assert_int_equal(on_control(lost_now, NULL), 7);
	on_control(rig_close, NULL);
	up();
	assert_int_equal(on_control(lost_now, NULL), 0);
	on_control(raise_some, (void *)1);
	assert_int_equal(on_control(rig_server_open, NULL), 0);
	assert_events(1);
	assert_string_equal(rig.texts[0], "number 0");
}

/* ---- events that survive the engine ---- */

static struct {
	uint64_t incarnation;
	unsigned int count, last;
} left;

static int check_left_event(void *ctx, const struct spool_origin *origin, const Shared__RASEvent *event)
{
	char text[RAS_MESSAGE_BYTES];

	assert_int_equal(origin->instance, rig_options.server.instance);
	assert_int_equal(origin->incarnation, left.incarnation);
	assert_int_equal(event->incarnation, left.incarnation);
	snprintf(text, sizeof(text), "number %u", (unsigned int)origin->sequence - 1);
	assert_string_equal(event->msg, text);
	left.count++;
	left.last = (unsigned int)origin->sequence;
	return 0;
}

static const char *spool_of_engine(void)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/" SPOOL_OF_ENGINE, rig_folder, rig_options.server.instance, left.incarnation);
	return path;
}

static unsigned int count_left(void)
{
	struct spool_loss loss;

	left.count = 0;
	assert_int_equal(spool_recover(spool_of_engine(), check_left_event, NULL, &loss, &why), 0);
	assert_int_equal(loss.cut_bytes + loss.damaged_bytes, 0);
	return left.count;
}

static void test_unacknowledged_events_stay_on_disk(void **state)
{
	up();
	left.incarnation = engine_control.incarnation;
	assert_int_equal(on_control(rig_server_open, NULL), 0);
	on_control(raise_some, (void *)1);
	rig_wait(rig.event_count == 1);
	rig.refusals = INT32_MAX;
	rig.refusal = DER_BUSY;
	on_control(raise_one, (void *)1);
	on_control(raise_one, (void *)2);
	on_control(rig_close, NULL);
	assert_int_equal(count_left(), 2);
	assert_int_equal(left.last, 3);
}

static void test_the_spool_is_removed_when_all_events_are_acknowledged(void **state)
{
	up();
	left.incarnation = engine_control.incarnation;
	on_control(raise_some, (void *)3);
	assert_int_equal(access(spool_of_engine(), F_OK), 0);
	rig.refusals = 1; /* a permanent rejection also ends an event */
	rig.refusal = DER_INVAL;
	assert_int_equal(on_control(rig_server_open, NULL), 0);
	rig_wait(rig.event_count == 2);
	rig_wait(on_control(waiting_now, NULL) == 0);
	on_control(rig_close, NULL);
	assert_int_equal(access(spool_of_engine(), F_OK), -1);
}

/* While the spool cannot be created, events are kept in memory. Once it can be created, they are written to it. */
static void test_without_a_spool_events_wait_in_memory(void **state)
{
	up();
	left.incarnation = engine_control.incarnation;
	assert_int_equal(mkdir(spool_of_engine(), 0700), 0);
	on_control(raise_some, (void *)2);
	assert_int_equal(rmdir(spool_of_engine()), 0);
	on_control(raise_one, (void *)2);
	assert_int_equal(unlink(spool_of_engine()), 0); /* the spool was created */
	on_control(raise_one, (void *)3);
	on_control(rig_close, NULL);
	assert_int_equal(count_left(), 4);
}

/* ---- the group map ---- */

static int32_t send_map(uint32_t version, const uint32_t *ranks, size_t count, uint64_t our_incarnation, const char *uri)
{
	Mgmt__GroupUpdateReq__Engine engines[8];
	Mgmt__GroupUpdateReq__Engine *pointers[8];
	Mgmt__GroupUpdateReq request = MGMT__GROUP_UPDATE_REQ__INIT;

	assert_true(count <= ARRAY_COUNT(engines));
	for (size_t i = 0; i < count; i++) {
		mgmt__group_update_req__engine__init(&engines[i]);
		engines[i].rank = ranks[i];
		engines[i].uri = (char *)uri;
		engines[i].incarnation = our_incarnation;
		pointers[i] = &engines[i];
	}
	request.map_version = version;
	request.n_engines = count;
	request.engines = pointers;
	return rig_ask(DRPC_MGMT_GROUP_UPDATE, &request.base);
}

static int version_now(void *ctx)
{
	return (int)group_version();
}

static void test_only_a_newer_map_replaces_the_map(void **state)
{
	char uri[ENGINE_URI_KEPT_MAX + 2];
	uint64_t us;

	assert_int_equal(on_control(rig_open, NULL), 0);
	assert_int_equal(send_map(3, (uint32_t[]){ 5 }, 1, 1, "x"), DER_UNINIT);
	on_control(rig_is_ready, NULL);
	assert_int_equal(rig_set_rank(5, 3), 0);
	us = engine_control.incarnation;
	memset(uri, 'x', sizeof(uri));
	uri[sizeof(uri) - 1] = '\0';
	assert_int_equal(send_map(0, (uint32_t[]){ 5 }, 1, us, "x"), DER_INVAL);
	assert_int_equal(send_map(4, (uint32_t[]){ 5, 2, 5 }, 3, us, "x"), DER_INVAL);
	assert_int_equal(send_map(4, (uint32_t[]){ 5 }, 1, us, uri), DER_OVERFLOW);
	assert_int_equal(on_control(version_now, NULL), 0);
	assert_int_equal(send_map(2, (uint32_t[]){ 1 }, 1, us, "x"), 0); /* older than the map version of our rank */
	assert_int_equal(send_map(4, (uint32_t[]){ 9, 5, 1 }, 3, us, "x"), 0);
	assert_int_equal(send_map(4, (uint32_t[]){ 1 }, 1, us, "x"), 0); /* already known */
	assert_int_equal(send_map(3, (uint32_t[]){ 1 }, 1, us, "x"), 0);
	assert_int_equal(on_control(version_now, NULL), 4);
	assert_state(RANKED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_calls_before_their_state_are_refused, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_repeated_calls_have_no_further_effect, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_the_engine_reports_ready_to_each_server, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_events_are_sent_in_order_and_once, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_a_rejected_event_is_not_sent_again, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_event_numbers_start_again_with_each_incarnation, rig_setup,
						rig_teardown),
		cmocka_unit_test_setup_teardown(test_unacknowledged_events_stay_on_disk, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_the_spool_is_removed_when_all_events_are_acknowledged, rig_setup,
						rig_teardown),
		cmocka_unit_test_setup_teardown(test_without_a_spool_events_wait_in_memory, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_only_a_newer_map_replaces_the_map, rig_setup, rig_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("engine control", tests, NULL, NULL);
}
