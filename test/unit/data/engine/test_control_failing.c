/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first, second, third ... external call fails, until a run meets no failure: allocations, sockets, epoll, inotify. In
 * each run the engine's side is opened, a server starts and gets the ready report and three events, a map is sent, and all
 * is closed. Either the open fails with a reason, or everything is reported. When out of memory an event may be lost, and
 * must then be counted.
 *
 * The linker redirects the calls to this file (meson.build). Not redirected are calls that end the program when out of
 * memory, by contract: messages and interned names.
 */
#include "control_rig.h"

#include <sys/inotify.h>
#include <sys/socket.h>

#include "../../failing_calls.h"

enum { EVENTS = 3, RUNS_MAX = 2000 };

static struct failing_calls failing;

static bool is_control_pthread(void)
{
	return pthread_equal(pthread_self(), control_pthread) != 0;
}

static bool fails(void)
{
	return is_control_pthread() && failing_calls_next(&failing);
}

FAILING_CALL(malloc)
FAILING_CALL(calloc)
FAILING_CALL(realloc)
FAILING_CALL(strdup)
FAILING_CALL(socket)
FAILING_CALL(bind)
FAILING_CALL(listen)
FAILING_CALL(connect)
FAILING_CALL(accept4)
FAILING_CALL(recv)
FAILING_CALL(send)
FAILING_CALL(sendmsg)
FAILING_CALL(inotify_add_watch)
FAILING_CALL(fd_watch_add)

static bool has_no_inotify;

int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __wrap_inotify_init1(int flags)
{
	if (fails() || has_no_inotify) {
		errno = EMFILE;
		return -1;
	}
	return __real_inotify_init1(flags);
}

/* Calls that cannot fail or that end the program. */
SPARED_CALL(thread_send_msg)
SPARED_CALL(fathom_trace_intern)

/* ---- one run ---- */

struct outcome {
	uint64_t lost;
	int32_t map_status;
	uint32_t version;
};

static int arm(void *ctx)
{
	failing.fail_at = *(uint32_t *)ctx;
	failing.count = 0;
	failing.met = false;
	failing.armed = true;
	return rig_open(NULL);
}

static int disarm(void *ctx)
{
	failing.armed = false;
	return failing.met;
}

static int raise_events_and_update_map(void *ctx)
{
	Mgmt__GroupUpdateReq__Engine engine = MGMT__GROUP_UPDATE_REQ__ENGINE__INIT, *engines[] = { &engine };
	Mgmt__GroupUpdateReq request = MGMT__GROUP_UPDATE_REQ__INIT;
	struct outcome *outcome = ctx;
	json_t *stats;
	bool kept;

	engine_control_ready();
	for (int i = 0; i < EVENTS; i++)
		engine_raise_event(RAS_DEVICE_PLUGGED, NULL, "number %d", i);
	request.map_version = 1;
	request.engines = engines;
	request.n_engines = 1;
	engine.uri = "x";
	outcome->map_status = group_update(&request, &kept);
	outcome->version = group_version();
	failing_spared++;
	stats = json_object();
	events_stats(stats);
	outcome->lost = (uint64_t)json_integer_value(json_object_get(stats, "lost"));
	json_decref(stats);
	failing_spared--;
	assert_int_equal(kept, outcome->map_status == 0);
	return 0;
}

/* Return true if a call has failed. */
static bool run(uint32_t fail_at)
{
	struct outcome outcome;
	int error = on_control(arm, &fail_at);

	if (error) {
		assert_true(on_control(disarm, NULL));
		assert_int_equal(why.error, error);
		assert_string_not_equal(why.text, "");
		return true;
	}
	on_control(raise_events_and_update_map, &outcome);
	rig_wait(rig.ready_count > 0);
	rig_wait(rig.event_count + outcome.lost >= EVENTS);
	assert_int_equal(rig.event_count + outcome.lost, EVENTS);
	for (unsigned int i = 0; i < rig.event_count; i++)
		assert_int_equal(rig.sequences[i], i + 1);
	assert_int_equal(outcome.map_status, outcome.version == 1 ? 0 : DER_NOMEM);
	on_control(rig_close, NULL);
	return on_control(disarm, NULL) != 0;
}

static void test_a_failed_call_is_reported_or_loses_only_counted_events(void **state)
{
	uint32_t n = 1;

	for (; n < RUNS_MAX; n++) {
		/* the server opens without failures: other tests fail its calls */
		assert_int_equal(on_control(rig_server_open, NULL), 0);
		rig.ready_count = rig.event_count = 0;
		if (!run(n))
			break;
		on_control(rig_server_close, NULL);
	}
	assert_in_range(n, 40, RUNS_MAX - 1); /* at least 40 calls, and not endless */
	print_message("# %u calls\n", n - 1);
}

/* inotify_init1() fails because the user has too many watches: the engine polls for servers. */
static void test_a_new_server_is_found_without_inotify(void **state)
{
	has_no_inotify = true;
	assert_int_equal(on_control(rig_open, NULL), 0);
	has_no_inotify = false;
	on_control(rig_is_ready, NULL);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(on_control(rig_server_open, NULL), 0);
		rig_wait(rig.ready_count > 0);
		on_control(rig_server_close, NULL);
		rig.ready_count = 0;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_failed_call_is_reported_or_loses_only_counted_events, rig_setup,
						rig_teardown),
		cmocka_unit_test_setup_teardown(test_a_new_server_is_found_without_inotify, rig_setup, rig_teardown),
	};

	log_set_level(LOG_LEVEL_ERROR);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("engine control failing", tests, NULL, NULL);
}
