/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events: stored once, sent to waiting clients, applied to members; a storm of events from several hosts while answers are
 * lost.
 */
#include "base/random.h"
#include "fixture.h"

#define SOURCE "11111111-1111-4111-8111-%012u"

enum { BATCH_MAX = 1024 };

/* A batch of events from one source. */
struct report_batch {
	Fathom__TakeEventsReq request;
	Fathom__NumberedEvent events[BATCH_MAX], *places[BATCH_MAX];
	struct ras_event bodies[BATCH_MAX];
	char source[48];
};

static struct report_batch *report_batch_start(uint32_t source)
{
	static struct report_batch batch;

	fathom__take_events_req__init(&batch.request);
	snprintf(batch.source, sizeof(batch.source), SOURCE, source);
	batch.request.sys = (char *)"fathom-0.4.0";
	batch.request.source = batch.source;
	batch.request.events = batch.places;
	return &batch;
}

static struct ras_event *add_event(struct report_batch *batch, uint64_t number, enum ras_id id)
{
	size_t at = batch->request.n_events++;

	must(at < BATCH_MAX);
	ras_event_init(&batch->bodies[at], id, "%s %llu", batch->source + 24, (unsigned long long)number);
	fathom__numbered_event__init(&batch->events[at]);
	batch->events[at].number = number;
	batch->events[at].event = &batch->bodies[at].message;
	batch->places[at] = &batch->events[at];
	return &batch->bodies[at];
}

static struct question *report_batch_send(struct report_batch *batch)
{
	return ask(fixture.member, "/fathom.ControlSvc/TakeEvents", &batch->request.base,
		   &fathom__take_events_resp__descriptor);
}

static uint64_t send_and_get_taken(struct report_batch *batch)
{
	return ((const Fathom__TakeEventsResp *)answer_of(report_batch_send(batch)))->taken;
}

/* Report one event about a rank. */
static void report_event(uint64_t number, enum ras_id id, uint32_t rank, uint64_t incarnation)
{
	struct report_batch *batch = report_batch_start(1);
	struct ras_event *event = add_event(batch, number, id);

	event->message.rank = rank;
	event->message.incarnation = incarnation;
	assert_int_equal(send_and_get_taken(batch), number);
}

static const Fathom__SystemEventsResp *read_events(uint64_t after, uint32_t max)
{
	Fathom__SystemEventsReq request = FATHOM__SYSTEM_EVENTS_REQ__INIT;

	request.after = after;
	request.max = max;
	return answer_of(ask(fixture.admin, "/fathom.ControlSvc/SystemEvents", &request.base,
			     &fathom__system_events_resp__descriptor));
}

/* Number of stored events, without those that the management service raised itself. */
static size_t count_reported_events(void)
{
	const Fathom__SystemEventsResp *all = read_events(0, 0);
	size_t count = 0;

	for (size_t i = 0; i < all->n_events; i++)
		count += all->events[i]->event->id != RAS_ENGINE_JOINED;
	return count;
}

static const Shared__RASEvent *last_event(void)
{
	const Fathom__SystemEventsResp *all = read_events(0, 0);

	assert_true(all->n_events > 0);
	return all->events[all->n_events - 1]->event;
}

static uint64_t event_number(void)
{
	return read_events(0, 0)->last;
}

static void assert_last_event(enum ras_id id, const char *what, const char *operation)
{
	const Shared__RASEvent *event = last_event();
	char text[RAS_MESSAGE_BYTES];

	/* without certificates the service names the caller by its uid */
	snprintf(text, sizeof(text), "%s by uid %u", what, (unsigned int)geteuid());
	assert_string_equal(ras_id_name(event->id), ras_id_name(id));
	assert_string_equal(event->msg, text);
	assert_string_equal(event->ctl_op, operation);
}

static void set_attribute(const char *name, const char *value)
{
	Mgmt__SystemSetAttrReq__AttributesEntry entry = MGMT__SYSTEM_SET_ATTR_REQ__ATTRIBUTES_ENTRY__INIT,
						*entries[] = { &entry };
	Mgmt__SystemSetAttrReq request = MGMT__SYSTEM_SET_ATTR_REQ__INIT;

	entry.key = (char *)name;
	entry.value = (char *)value;
	request.n_attributes = 1;
	request.attributes = entries;
	(void)answer_of(ask(fixture.admin, "/mgmt.MgmtSvc/SystemSetAttr", &request.base, &mgmt__daos_resp__descriptor));
}

static void exclude(const char *ranks, bool is_clear)
{
	Mgmt__SystemExcludeReq request = MGMT__SYSTEM_EXCLUDE_REQ__INIT;

	request.ranks = (char *)ranks;
	request.clear = is_clear;
	(void)answer_of(
		ask(fixture.admin, "/mgmt.MgmtSvc/SystemExclude", &request.base, &mgmt__system_exclude_resp__descriptor));
}

static void an_operation_raises_an_event_with_the_operators_uid(void **state)
{
	Mgmt__SystemStopReq stop = MGMT__SYSTEM_STOP_REQ__INIT;
	Mgmt__SystemStartReq start = MGMT__SYSTEM_START_REQ__INIT;
	Mgmt__SystemEraseReq erase = MGMT__SYSTEM_ERASE_REQ__INIT;
	char value[200];
	uint64_t last;

	join_many(3);
	assert_int_equal(last_event()->id, RAS_ENGINE_JOINED);
	assert_non_null(strstr(last_event()->msg, " joined"));
	set_attribute("rack", "3");
	assert_last_event(RAS_ATTRIBUTES_CHANGED, "set rack=3", "system set-attr");
	exclude("1-2", false);
	assert_last_event(RAS_RANK_EXCLUDED, "ranks 1-2 were excluded", "system exclude");
	exclude("2", true);
	assert_last_event(RAS_RANK_EXCLUDE_CLEARED, "the exclusion of rank 2 was cleared", "system clear-exclude");
	/* a call that changes nothing raises no event */
	last = event_number();
	exclude("1", false);
	assert_int_equal(event_number(), last);
	exclude("1", true);
	(void)join(1, 200);
	(void)join(2, 200);
	stop.force = true;
	(void)answer_of(ask(fixture.admin, "/mgmt.MgmtSvc/SystemStop", &stop.base, &mgmt__system_stop_resp__descriptor));
	assert_last_event(RAS_SYSTEM_STOPPED, "ranks 0-2 were stopped", "system stop");
	start.ranks = (char *)"1";
	(void)answer_of(ask(fixture.admin, "/mgmt.MgmtSvc/SystemStart", &start.base, &mgmt__system_start_resp__descriptor));
	assert_last_event(RAS_SYSTEM_STARTED, "rank 1 was started", "system start");
	(void)answer_of(ask(fixture.admin, "/mgmt.MgmtSvc/SystemStop", &stop.base, &mgmt__system_stop_resp__descriptor));
	/* a long value is cut, the uid is not */
	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	set_attribute("long", value);
	assert_non_null(strstr(last_event()->msg, "vvv ... by uid "));
	(void)answer_of(ask(fixture.admin, "/mgmt.MgmtSvc/SystemErase", &erase.base, &mgmt__system_erase_resp__descriptor));
	assert_last_event(RAS_SYSTEM_ERASED, "ranks 0-2 were erased", "system erase");
}

/*
 * An engine exits because its rank is excluded: the rank stays excluded. If any other rank's engine exits, the rank is
 * errored.
 */
static void an_engine_that_exits_because_of_its_exclusion_is_not_errored(void **state)
{
	struct report_batch *batch;
	struct ras_event *event;

	join_many(2);
	exclude("0", false);
	for (uint64_t number = 1; number <= 2; number++) {
		batch = report_batch_start(1);
		event = add_event(batch, number, RAS_ENGINE_SELF_TERMINATED);
		ras_event_set_engine(event, (uint32_t)number - 1, 100, 0, 5, "");
		assert_int_equal(send_and_get_taken(batch), number);
	}
	assert_string_equal(state_of_rank(0), "adminexcluded");
	assert_string_equal(state_of_rank(1), "errored");
}

static void a_died_event_makes_the_current_process_errored(void **state)
{
	join_many(3);
	report_event(1, RAS_ENGINE_DIED, 1, 100);
	assert_string_equal(state_of_rank(1), "errored");
	assert_string_equal(query()->members[1]->info, "000000000001 1");
	/* an event of an earlier process is ignored */
	(void)join(1, 200);
	report_event(2, RAS_ENGINE_DIED, 1, 100);
	assert_string_equal(state_of_rank(1), "joined");
	/* events of an unknown rank and of no rank are stored only */
	report_event(3, RAS_ENGINE_DIED, 77, 100);
	report_event(4, RAS_ENGINE_DIED, RAS_RANK_NONE, 100);
	report_event(5, RAS_POOL_REPLICAS_UPDATED, 1, 200);
	report_event(6, RAS_ENGINE_SELF_TERMINATED, 1, 200);
	/* reported before the engine had an incarnation; the rank has joined since */
	report_event(7, RAS_ENGINE_DIED, 1, 0);
	assert_string_equal(state_of_rank(1), "joined");
	assert_int_equal(count_reported_events(), 7);
	assert_int_equal(mgmt_stats(fixture.mgmt).events_acted, 1);
}

static void a_swim_dead_event_excludes_the_rank_if_self_heal_allows(void **state)
{
	Mgmt__SystemSetPropReq__PropertiesEntry entry = MGMT__SYSTEM_SET_PROP_REQ__PROPERTIES_ENTRY__INIT,
						*entries[] = { &entry };
	Mgmt__SystemSetPropReq request = MGMT__SYSTEM_SET_PROP_REQ__INIT;

	join_many(3);
	report_event(1, RAS_SWIM_RANK_DEAD, 1, 100);
	assert_string_equal(state_of_rank(1), "excluded");
	report_event(2, RAS_SWIM_RANK_DEAD, 1, 100);
	(void)join(1, 200);
	assert_string_equal(state_of_rank(1), "joined");
	report_event(3, RAS_SWIM_RANK_DEAD, 1, 100); /* incarnation 100 was the previous process */
	assert_string_equal(state_of_rank(1), "joined");
	entry.key = (char *)"self_heal";
	entry.value = (char *)"none";
	request.n_properties = 1;
	request.properties = entries;
	(void)answer_of(ask(fixture.admin, "/mgmt.MgmtSvc/SystemSetProp", &request.base, &mgmt__daos_resp__descriptor));
	report_event(4, RAS_SWIM_RANK_DEAD, 1, 200);
	assert_string_equal(state_of_rank(1), "joined");
}

static void a_died_event_of_a_stopped_or_stopping_rank_is_ignored(void **state)
{
	static struct question waiting;
	Mgmt__SystemStopReq request = MGMT__SYSTEM_STOP_REQ__INIT;

	fixture.rank_timeout_ns = 300 * NS_PER_MS;
	reopen_mgmt();
	memset(&waiting, 0, sizeof(waiting));
	join_many(2);
	fixture.fakes[1].way = FAKE_HANGS;
	request.force = true;
	ask_begin(&waiting, fixture.admin, "/mgmt.MgmtSvc/SystemStop", &request.base, &mgmt__system_stop_resp__descriptor);
	while (strcmp(state_of_rank(0), "stopped") != 0)
		usleep(1000);
	report_event(1, RAS_ENGINE_DIED, 0, 100);
	report_event(2, RAS_ENGINE_DIED, 1, 100);
	assert_string_equal(state_of_rank(0), "stopped");
	assert_string_equal(state_of_rank(1), "stopping");
	question_wait(&waiting);
	question_end(&waiting);
	(void)join(1, 200);
	report_event(3, RAS_ENGINE_DIED, 1, 200);
	assert_string_equal(state_of_rank(1), "errored");
}

static void a_repeated_event_is_neither_applied_nor_stored_again(void **state)
{
	join_many(2);
	report_event(1, RAS_ENGINE_DIED, 1, 100);
	(void)join(1, 100); /* as after the server has adopted the engine */
	report_event(1, RAS_ENGINE_DIED, 1, 100);
	assert_string_equal(state_of_rank(1), "joined");
	reopen_mgmt();
	report_event(1, RAS_ENGINE_DIED, 1, 100);
	assert_string_equal(state_of_rank(1), "joined");
	assert_int_equal(count_reported_events(), 1);
}

static void a_batch_with_an_invalid_source_is_refused(void **state)
{
	struct report_batch *batch = report_batch_start(1);

	add_event(batch, 1, RAS_DEVICE_PLUGGED);
	batch->request.source = (char *)"me";
	assert_int_equal(report_batch_send(batch)->why.code, 686);
	batch->request.source = batch->source;
	assert_int_equal(send_and_get_taken(batch), 1);
}

/* An invalid event delays neither the events of its batch nor later ones. */
static void an_invalid_event_is_refused_and_the_others_are_stored(void **state)
{
	struct report_batch *batch;
	const Fathom__TakeEventsResp *response;
	struct ras_event *event;

	join_many(2);
	batch = report_batch_start(1);
	(void)add_event(batch, 1, RAS_DEVICE_PLUGGED);
	add_event(batch, 2, RAS_DEVICE_PLUGGED)->message.severity = 9;
	event = add_event(batch, 3, RAS_ENGINE_DIED);
	ras_event_set_engine(event, 1, 100, 0, 5, "signal 9");
	event = add_event(batch, 4, RAS_ENGINE_DIED); /* refused: the rank does not become errored */
	ras_event_set_engine(event, 0, 100, 0, 5, "signal 9");
	event->message.timestamp = (char *)"yesterday";
	response = answer_of(report_batch_send(batch));
	assert_int_equal(response->taken, 4);
	assert_int_equal(response->n_refused, 2);
	assert_int_equal(response->refused[0]->number, 2);
	assert_non_null(strstr(response->refused[0]->reason, "severity"));
	assert_int_equal(response->refused[1]->number, 4);
	assert_non_null(strstr(response->refused[1]->reason, "time"));
	assert_int_equal(count_reported_events(), 2);
	assert_string_equal(state_of_rank(1), "errored");
	assert_string_equal(state_of_rank(0), "joined");
	assert_int_equal(mgmt_stats(fixture.mgmt).events_refused, 2);
	/* a batch with only an invalid event is acknowledged, so the server does not repeat it for ever */
	batch = report_batch_start(1);
	add_event(batch, 5, RAS_DEVICE_PLUGGED)->message.type = 9;
	assert_int_equal(send_and_get_taken(batch), 5);
	reopen_mgmt();
	batch = report_batch_start(1);
	(void)add_event(batch, 5, RAS_DEVICE_PLUGGED);
	assert_int_equal(send_and_get_taken(batch), 5);
	assert_int_equal(count_reported_events(), 2);
}

static int leave_service(void *unused)
{
	mgmt_leave(fixture.mgmt);
	return 0;
}

/* A server that stops must not wait for clients that wait for events. */
static void a_stopping_server_answers_clients_waiting_for_events(void **state)
{
	static struct question waiting;
	static Fathom__SystemEventsReq request;

	fathom__system_events_req__init(&request);
	request.wait_ms = 60000;
	memset(&waiting, 0, sizeof(waiting));
	ask_begin(&waiting, fixture.admin, "/fathom.ControlSvc/SystemEvents", &request.base,
		  &fathom__system_events_resp__descriptor);
	on_control(leave_service, NULL);
	question_wait(&waiting);
	assert_int_equal(waiting.code, GRPC_OK);
	question_end(&waiting);
	(void)answer_of(ask(fixture.admin, "/fathom.ControlSvc/SystemEvents", &request.base,
			    &fathom__system_events_resp__descriptor)); /* a call after that is answered, too */
}

static void a_cluster_event_call_of_daos_reports_one_event(void **state)
{
	Shared__ClusterEventReq request = SHARED__CLUSTER_EVENT_REQ__INIT;
	const Shared__ClusterEventResp *response;
	struct ras_event event;

	join_many(2);
	ras_event_init(&event, RAS_ENGINE_DIED, "it died");
	ras_event_set_engine(&event, 1, 100, 0, 5, "signal 9");
	request.sequence = 77;
	request.event = &event.message;
	response = answer_of(
		ask(fixture.member, "/mgmt.MgmtSvc/ClusterEvent", &request.base, &shared__cluster_event_resp__descriptor));
	assert_int_equal(response->sequence, 77);
	assert_int_equal(response->status, 0);
	assert_string_equal(state_of_rank(1), "errored");
	assert_string_equal(last_event()->engine_state_info->error, "signal 9");
	request.event = NULL;
	assert_int_equal(ask(fixture.member, "/mgmt.MgmtSvc/ClusterEvent", &request.base,
			     &shared__cluster_event_resp__descriptor)
				 ->why.code,
			 686);
}

static void a_new_event_is_sent_to_waiting_clients_at_once(void **state)
{
	static struct question waiting[3];
	static Fathom__SystemEventsReq requests[3];
	const Fathom__SystemEventsResp *response;
	uint64_t began = clock_monotonic_ns();

	memset(waiting, 0, sizeof(waiting));
	for (size_t i = 0; i < ARRAY_COUNT(waiting); i++) {
		fathom__system_events_req__init(&requests[i]);
		requests[i].wait_ms = 30000;
		if (i == 2)
			requests[i].wait_ms = 20;
		if (i == 1)
			continue; /* this client waits for the second event, below */
		ask_begin(&waiting[i], fixture.admin, "/fathom.ControlSvc/SystemEvents", &requests[i].base,
			  &fathom__system_events_resp__descriptor);
	}
	question_wait(&waiting[2]); /* no event within its 20 ms */
	assert_int_equal(((const Fathom__SystemEventsResp *)answer_of(&waiting[2]))->n_events, 0);
	report_event(1, RAS_DEVICE_PLUGGED, RAS_RANK_NONE, 0);
	question_wait(&waiting[0]);
	response = answer_of(&waiting[0]);
	assert_int_equal(response->n_events, 1);
	assert_int_equal(response->events[0]->number, 1);
	requests[1].after = 1;
	ask_begin(&waiting[1], fixture.admin, "/fathom.ControlSvc/SystemEvents", &requests[1].base,
		  &fathom__system_events_resp__descriptor);
	report_event(2, RAS_DEVICE_PLUGGED, RAS_RANK_NONE, 0);
	question_wait(&waiting[1]);
	response = answer_of(&waiting[1]);
	assert_int_equal(response->events[0]->number, 2);
	assert_int_equal(response->first, 1);
	assert_int_equal(response->last, 2);
	assert_true(clock_monotonic_ns() - began < 20 * NS_PER_SEC);
	for (size_t i = 0; i < ARRAY_COUNT(waiting); i++)
		question_end(&waiting[i]);
}

/* A client has a higher event number than the database after an older copy was restored. */
static void a_client_ahead_of_the_database_is_answered_at_once(void **state)
{
	static struct question ahead;
	static Fathom__SystemEventsReq request;
	const Fathom__SystemEventsResp *response;
	uint64_t began = clock_monotonic_ns();

	memset(&ahead, 0, sizeof(ahead));
	fathom__system_events_req__init(&request);
	report_event(1, RAS_DEVICE_PLUGGED, RAS_RANK_NONE, 0);
	request.after = 500;
	request.wait_ms = 30000;
	ask_begin(&ahead, fixture.admin, "/fathom.ControlSvc/SystemEvents", &request.base,
		  &fathom__system_events_resp__descriptor);
	question_wait(&ahead);
	response = answer_of(&ahead);
	assert_int_equal(response->n_events, 0);
	assert_int_equal(response->last, 1);
	assert_true(clock_monotonic_ns() - began < 20 * NS_PER_SEC);
	question_end(&ahead);
}

enum { HOSTS = 6, EVENTS_OF_EACH = 4000 };

/*
 * Six hosts report 4,000 events each in batches of random size. Some answers are lost, so the batch is repeated, longer or
 * shorter. The service is closed and opened now and then. Each event must be stored once, those of a host in order.
 */
static void a_storm_of_repeated_batches_stores_each_event_once(void **state)
{
	uint64_t next[HOSTS], seen[HOSTS] = { 0 }, last = 0;
	struct random random;
	uint32_t left = HOSTS;

	random_init(&random, 11);
	for (size_t i = 0; i < HOSTS; i++)
		next[i] = 1;
	for (uint64_t round = 0; left > 0; round++) {
		uint32_t host = (uint32_t)random_below(&random, HOSTS);
		uint64_t count = min_u64(1 + random_below(&random, 300), EVENTS_OF_EACH + 1 - next[host]), now;
		struct report_batch *batch = report_batch_start(host);

		if (count == 0)
			continue;
		for (uint64_t i = 0; i < count; i++)
			add_event(batch, next[host] + i, RAS_DEVICE_PLUGGED);
		now = send_and_get_taken(batch);
		assert_true(now >= next[host] + count - 1);
		if (random_below(&random, 3) > 0) /* else the answer is lost */
			next[host] = now + 1;
		left -= next[host] > EVENTS_OF_EACH;
		if (round % 64 == 63)
			reopen_mgmt();
	}
	for (;;) {
		const Fathom__SystemEventsResp *response = read_events(last, 0);

		if (response->n_events == 0)
			break;
		for (size_t i = 0; i < response->n_events; i++) {
			unsigned long long host, number;

			assert_int_equal(sscanf(response->events[i]->event->msg, "%llu %llu", &host, &number), 2);
			assert_int_equal(response->events[i]->number, last + 1);
			assert_int_equal(number, seen[host] + 1);
			seen[host] = number;
			last++;
		}
	}
	assert_int_equal(last, HOSTS * EVENTS_OF_EACH);
}

static void many_died_events_change_each_member_once(void **state)
{
	struct report_batch *batch;

	join_many(16);
	batch = report_batch_start(1);
	for (uint64_t i = 0; i < BATCH_MAX; i++) {
		struct ras_event *event = add_event(batch, i + 1, i % 2 ? RAS_ENGINE_DIED : RAS_SWIM_RANK_DEAD);

		event->message.rank = (uint32_t)(i % 16);
		event->message.incarnation = 100;
	}
	assert_int_equal(send_and_get_taken(batch), BATCH_MAX);
	for (uint32_t rank = 0; rank < 16; rank++)
		assert_string_equal(state_of_rank(rank), rank % 2 ? "errored" : "excluded");
	assert_int_equal(mgmt_stats(fixture.mgmt).events_acted, 16);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(a_died_event_makes_the_current_process_errored),
		TEST(an_operation_raises_an_event_with_the_operators_uid),
		TEST(an_engine_that_exits_because_of_its_exclusion_is_not_errored),
		TEST(a_swim_dead_event_excludes_the_rank_if_self_heal_allows),
		TEST(a_died_event_of_a_stopped_or_stopping_rank_is_ignored),
		TEST(a_repeated_event_is_neither_applied_nor_stored_again),
		TEST(a_batch_with_an_invalid_source_is_refused),
		TEST(an_invalid_event_is_refused_and_the_others_are_stored),
		TEST(a_stopping_server_answers_clients_waiting_for_events),
		TEST(a_cluster_event_call_of_daos_reports_one_event),
		TEST(a_new_event_is_sent_to_waiting_clients_at_once),
		TEST(a_client_ahead_of_the_database_is_answered_at_once),
		TEST(a_storm_of_repeated_batches_stores_each_event_once),
		TEST(many_died_events_change_each_member_once),
	};

	return cmocka_run_group_tests_name("control mgmt events", tests, NULL, NULL);
}
