/* SPDX-License-Identifier: BSD-2-Clause */
/* The spool of a dead engine: its new events are added to the host's spool, and the others are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>
#include <errno.h>

#include "control/events/spool.h"
#include "control/server/events/events.h"

#include "../../control_thread.h"

static char folder[] = "/tmp/fathom-events-XXXXXX", path[128];
static struct server_config config;
static struct server server;

/* The instance of engine 0, of which only these calls are made. */
void __wrap_instance_get_info(const struct instance *instance, struct instance_info *info_ret);
void __wrap_instance_get_info(const struct instance *instance, struct instance_info *info_ret)
{
	*info_ret = (struct instance_info){ .index = 0 };
}

static unsigned int noted;
void __wrap_instance_note_event(struct instance *instance, const Shared__RASEvent *event);
void __wrap_instance_note_event(struct instance *instance, const Shared__RASEvent *event)
{
	noted++;
}

/* There is no management service. */
int __wrap_grpc_client_call(struct grpc_client *client, const struct grpc_request *request);
int __wrap_grpc_client_call(struct grpc_client *client, const struct grpc_request *request)
{
	return -ENOMEM;
}

static void spool_events(const uint32_t *instances, size_t count)
{
	struct ras_event event;
	struct spool *spool;
	struct fathom_fault why;

	snprintf(path, sizeof(path), "%s/" SPOOL_OF_ENGINE, folder, 0u, (uint64_t)7);
	assert_int_equal(spool_open(path, 0, &spool, NULL, &why), 0);
	ras_event_init(&event, RAS_ENGINE_DIED, "it died");
	for (size_t i = 0; i < count; i++) {
		const struct spool_origin origin = { instances[i], 7, i + 1 };

		assert_int_equal(spool_add(spool, &origin, &event.message, &why), 0);
	}
	assert_int_equal(spool_flush(spool, &why), 0);
	spool_close(spool);
}

static int open_events(void *ctx)
{
	struct fathom_fault why = { 0 };

	must(deadlines_init(&server.deadlines, "server") == 0);
	return events_open(&server, &why);
}

static int collect(void *ctx)
{
	events_collect_engine_spool(&server, (struct instance *)&server);
	return 0;
}

static int close_events(void *ctx)
{
	must(server.jobs == 0); /* the flush has run: it was sent before this call */
	events_close(&server);
	deadlines_deinit(&server.deadlines);
	return 0;
}

static uint64_t counter(const char *name)
{
	struct server_counter counters[SERVER_COUNTERS_MAX];
	size_t count = server_counters(&server, counters);

	for (size_t i = 0; i < count; i++) {
		assert_string_equal(counters[i].group, "server");
		if (strcmp(counters[i].name, name) == 0)
			return counters[i].value;
	}
	fail_msg("there is no counter %s", name);
	return 0;
}

static void events_of_another_instance_are_counted(void **state)
{
	static const uint32_t first[] = { 0, 1, 0, 1, 1 }, again[] = { 0, 0 };

	spool_events(first, ARRAY_COUNT(first));
	assert_int_equal(on_control(open_events, NULL), 0);
	on_control(collect, NULL);
	assert_int_equal(counter("events_left"), 2);
	assert_int_equal(counter("events_foreign"), 3);
	assert_int_equal(counter("events_added"), 2);
	assert_int_equal(counter("events_waiting"), 2);
	assert_int_equal(noted, 2);
	assert_int_equal(access(path, F_OK), -1);
	/* sequence 1 was added before; 2 is below the last sequence */
	spool_events(again, ARRAY_COUNT(again));
	on_control(collect, NULL);
	assert_int_equal(counter("events_left"), 2);
	assert_int_equal(counter("events_repeated"), 2);
	assert_int_equal(counter("events_foreign"), 3);
	on_control(close_events, NULL);
	assert_true(counter("send_failures") > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(events_of_another_instance_are_counted) };
	const struct reactor_options none = { .simulated = false };
	char spool[128];
	int failed;

	must(mkdtemp(folder));
	config.socket_dir = config.state_dir = folder;
	server.config = &config;
	server.os = provider_system();
	server.client = (struct grpc_client *)&server; /* calls end in __wrap_grpc_client_call() */
	server.state = SERVER_READY;
	server.places = &(struct server_places){ .replica = "127.0.0.1:1" };
	control_start(&none);
	failed = cmocka_run_group_tests_name("server engine spool", tests, NULL, NULL);
	control_stop();
	snprintf(spool, sizeof(spool), "%s/events.spool", folder);
	unlink(spool);
	rmdir(folder);
	return failed;
}
