/* SPDX-License-Identifier: BSD-2-Clause */
/* Events: taken once, told to who waits, acting on members; a storm from several hosts whose answers get lost. */
#include "base/random.h"
#include "fixture.h"

#define SOURCE "11111111-1111-4111-8111-%012u"

enum { BATCH_MAX = 1024 };

/* Events of one source, with the numbers `first` and on; `rank` NONE: of no member. */
struct handed {
	Fathom__TakeEventsReq request;
	Fathom__NumberedEvent events[BATCH_MAX], *places[BATCH_MAX];
	struct ras_event bodies[BATCH_MAX];
	char source[48];
};

static struct handed *begin_handing(uint32_t source)
{
	static struct handed handed;

	fathom__take_events_req__init(&handed.request);
	snprintf(handed.source, sizeof(handed.source), SOURCE, source);
	handed.request.sys = (char *)"fathom-0.4.0";
	handed.request.source = handed.source;
	handed.request.events = handed.places;
	return &handed;
}

static struct ras_event *add_event(struct handed *handed, uint64_t number, enum ras_id id)
{
	size_t at = handed->request.n_events++;

	must(at < BATCH_MAX);
	ras_event_init(&handed->bodies[at], id, "%s %llu", handed->source + 24, (unsigned long long)number);
	fathom__numbered_event__init(&handed->events[at]);
	handed->events[at].number = number;
	handed->events[at].event = &handed->bodies[at].message;
	handed->places[at] = &handed->events[at];
	return &handed->bodies[at];
}

static struct question *hand_over(struct handed *handed)
{
	return ask(fixture.member, "/fathom.ControlSvc/TakeEvents", &handed->request.base,
		   &fathom__take_events_resp__descriptor);
}

static uint64_t taken(struct handed *handed)
{
	return ((const Fathom__TakeEventsResp *)answer_of(hand_over(handed)))->taken;
}

/* One event that says something of a rank. */
static void tell(uint64_t number, enum ras_id id, uint32_t rank, uint64_t incarnation)
{
	struct handed *handed = begin_handing(1);
	struct ras_event *event = add_event(handed, number, id);

	event->message.rank = rank;
	event->message.incarnation = incarnation;
	assert_int_equal(taken(handed), number);
}

static const Fathom__SystemEventsResp *read_events(uint64_t after, uint32_t max)
{
	Fathom__SystemEventsReq request = FATHOM__SYSTEM_EVENTS_REQ__INIT;

	request.after = after;
	request.max = max;
	return answer_of(ask(fixture.admin, "/fathom.ControlSvc/SystemEvents", &request.base,
			     &fathom__system_events_resp__descriptor));
}

/* Without those that the management service raised itself. */
static size_t count_handed(void)
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

	/* without certificates, from this host */
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

/* Each change of the system is an event, and says who asked for it. */
static void what_operators_do_is_told_with_who_asked(void **state)
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
	/* nothing is changed by that */
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
	/* what does not fit is cut, and who asked is not */
	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	set_attribute("long", value);
	assert_non_null(strstr(last_event()->msg, "vvv ... by uid "));
	(void)answer_of(ask(fixture.admin, "/mgmt.MgmtSvc/SystemErase", &erase.base, &mgmt__system_erase_resp__descriptor));
	assert_last_event(RAS_SYSTEM_ERASED, "ranks 0-2 were erased", "system erase");
}

/* Its server says that it has ended, as its exclusion wants it; a rank that was let back meanwhile has no engine then. */
static void an_engine_that_ends_by_its_exclusion_is_no_failure(void **state)
{
	struct handed *handed;
	struct ras_event *event;

	join_many(2);
	exclude("0", false);
	for (uint64_t number = 1; number <= 2; number++) {
		handed = begin_handing(1);
		event = add_event(handed, number, RAS_ENGINE_SELF_TERMINATED);
		ras_event_set_engine(event, (uint32_t)number - 1, 100, 0, 5, "");
		assert_int_equal(taken(handed), number);
	}
	assert_string_equal(state_of_rank(0), "adminexcluded");
	assert_string_equal(state_of_rank(1), "errored");
}

static void an_engine_that_died_is_errored(void **state)
{
	join_many(3);
	tell(1, RAS_ENGINE_DIED, 1, 100);
	assert_string_equal(state_of_rank(1), "errored");
	assert_string_equal(query()->members[1]->info, "000000000001 1");
	/* of a process that is no more */
	(void)join(1, 200);
	tell(2, RAS_ENGINE_DIED, 1, 100);
	assert_string_equal(state_of_rank(1), "joined");
	/* of a rank that no engine has, and of none */
	tell(3, RAS_ENGINE_DIED, 77, 100);
	tell(4, RAS_ENGINE_DIED, RAS_RANK_NONE, 100);
	tell(5, RAS_POOL_REPLICAS_UPDATED, 1, 200);
	tell(6, RAS_ENGINE_SELF_TERMINATED, 1, 200);
	tell(7, RAS_ENGINE_DIED, 1, 0); /* before it had a number; this one has joined since */
	assert_string_equal(state_of_rank(1), "joined");
	assert_int_equal(count_handed(), 7);
	assert_int_equal(mgmt_stats(fixture.mgmt).events_acted, 1);
}

static void a_rank_that_others_find_dead_is_excluded(void **state)
{
	Mgmt__SystemSetPropReq__PropertiesEntry entry = MGMT__SYSTEM_SET_PROP_REQ__PROPERTIES_ENTRY__INIT,
						*entries[] = { &entry };
	Mgmt__SystemSetPropReq request = MGMT__SYSTEM_SET_PROP_REQ__INIT;

	join_many(3);
	tell(1, RAS_SWIM_RANK_DEAD, 1, 100);
	assert_string_equal(state_of_rank(1), "excluded");
	tell(2, RAS_SWIM_RANK_DEAD, 1, 100);
	(void)join(1, 200);
	assert_string_equal(state_of_rank(1), "joined");
	tell(3, RAS_SWIM_RANK_DEAD, 1, 100); /* it was the one before */
	assert_string_equal(state_of_rank(1), "joined");
	entry.key = (char *)"self_heal";
	entry.value = (char *)"none";
	request.n_properties = 1;
	request.properties = entries;
	(void)answer_of(ask(fixture.admin, "/mgmt.MgmtSvc/SystemSetProp", &request.base, &mgmt__daos_resp__descriptor));
	tell(4, RAS_SWIM_RANK_DEAD, 1, 200);
	assert_string_equal(state_of_rank(1), "joined");
}

static void the_end_of_a_rank_that_was_stopped_is_no_failure(void **state)
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
	tell(1, RAS_ENGINE_DIED, 0, 100);
	tell(2, RAS_ENGINE_DIED, 1, 100);
	assert_string_equal(state_of_rank(0), "stopped");
	assert_string_equal(state_of_rank(1), "stopping");
	question_wait(&waiting);
	question_end(&waiting);
	(void)join(1, 200);
	tell(3, RAS_ENGINE_DIED, 1, 200);
	assert_string_equal(state_of_rank(1), "errored");
}

static void what_comes_again_neither_acts_nor_is_kept_again(void **state)
{
	join_many(2);
	tell(1, RAS_ENGINE_DIED, 1, 100);
	(void)join(1, 100); /* as its server would after an engine was adopted */
	tell(1, RAS_ENGINE_DIED, 1, 100);
	assert_string_equal(state_of_rank(1), "joined");
	reopen_mgmt();
	tell(1, RAS_ENGINE_DIED, 1, 100);
	assert_string_equal(state_of_rank(1), "joined");
	assert_int_equal(count_handed(), 1);
}

static void what_is_no_event_is_refused(void **state)
{
	struct handed *handed = begin_handing(1);

	add_event(handed, 1, RAS_DEVICE_PLUGGED);
	handed->request.source = (char *)"me";
	assert_int_equal(hand_over(handed)->why.code, 686);
	handed->request.source = handed->source;
	assert_int_equal(taken(handed), 1);
}

/* One that is bad holds up neither those beside it nor those after it. */
static void one_that_is_bad_is_refused_alone(void **state)
{
	struct handed *handed;
	const Fathom__TakeEventsResp *response;
	struct ras_event *event;

	join_many(2);
	handed = begin_handing(1);
	(void)add_event(handed, 1, RAS_DEVICE_PLUGGED);
	add_event(handed, 2, RAS_DEVICE_PLUGGED)->message.severity = 9;
	event = add_event(handed, 3, RAS_ENGINE_DIED);
	ras_event_set_engine(event, 1, 100, 0, 5, "signal 9");
	event = add_event(handed, 4, RAS_ENGINE_DIED); /* it does not act either */
	ras_event_set_engine(event, 0, 100, 0, 5, "signal 9");
	event->message.timestamp = (char *)"yesterday";
	response = answer_of(hand_over(handed));
	assert_int_equal(response->taken, 4);
	assert_int_equal(response->n_refused, 2);
	assert_int_equal(response->refused[0]->number, 2);
	assert_non_null(strstr(response->refused[0]->reason, "severity"));
	assert_int_equal(response->refused[1]->number, 4);
	assert_non_null(strstr(response->refused[1]->reason, "time"));
	assert_int_equal(count_handed(), 2);
	assert_string_equal(state_of_rank(1), "errored");
	assert_string_equal(state_of_rank(0), "joined");
	assert_int_equal(mgmt_stats(fixture.mgmt).events_refused, 2);
	/* also where there is nothing else: it does not come again and again */
	handed = begin_handing(1);
	add_event(handed, 5, RAS_DEVICE_PLUGGED)->message.type = 9;
	assert_int_equal(taken(handed), 5);
	reopen_mgmt();
	handed = begin_handing(1);
	(void)add_event(handed, 5, RAS_DEVICE_PLUGGED);
	assert_int_equal(taken(handed), 5);
	assert_int_equal(count_handed(), 2);
}

static int leave(void *unused)
{
	mgmt_leave(fixture.mgmt);
	return 0;
}

/* A server that stops does not wait for clients that wait for events. */
static void who_waits_is_answered_when_the_server_leaves(void **state)
{
	static struct question waiting;
	static Fathom__SystemEventsReq request;

	fathom__system_events_req__init(&request);
	request.wait_ms = 60000;
	memset(&waiting, 0, sizeof(waiting));
	ask_begin(&waiting, fixture.admin, "/fathom.ControlSvc/SystemEvents", &request.base,
		  &fathom__system_events_resp__descriptor);
	on_control(leave, NULL);
	question_wait(&waiting);
	assert_int_equal(waiting.code, GRPC_OK);
	question_end(&waiting);
	(void)answer_of(ask(fixture.admin, "/fathom.ControlSvc/SystemEvents", &request.base,
			    &fathom__system_events_resp__descriptor)); /* or comes again */
}

static void daos_servers_tell_theirs_one_by_one(void **state)
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

static void who_waits_is_told_at_once(void **state)
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
			continue; /* it waits for the second event */
		ask_begin(&waiting[i], fixture.admin, "/fathom.ControlSvc/SystemEvents", &requests[i].base,
			  &fathom__system_events_resp__descriptor);
	}
	question_wait(&waiting[2]); /* nothing came in its time */
	assert_int_equal(((const Fathom__SystemEventsResp *)answer_of(&waiting[2]))->n_events, 0);
	tell(1, RAS_DEVICE_PLUGGED, RAS_RANK_NONE, 0);
	question_wait(&waiting[0]);
	response = answer_of(&waiting[0]);
	assert_int_equal(response->n_events, 1);
	assert_int_equal(response->events[0]->number, 1);
	requests[1].after = 1;
	ask_begin(&waiting[1], fixture.admin, "/fathom.ControlSvc/SystemEvents", &requests[1].base,
		  &fathom__system_events_resp__descriptor);
	tell(2, RAS_DEVICE_PLUGGED, RAS_RANK_NONE, 0);
	question_wait(&waiting[1]);
	response = answer_of(&waiting[1]);
	assert_int_equal(response->events[0]->number, 2);
	assert_int_equal(response->first, 1);
	assert_int_equal(response->last, 2);
	assert_true(clock_monotonic_ns() - began < 20 * NS_PER_SEC);
	for (size_t i = 0; i < ARRAY_COUNT(waiting); i++)
		question_end(&waiting[i]);
}

/* As one that followed a database of which an older copy was restored. */
static void who_is_ahead_of_the_database_is_told_at_once(void **state)
{
	static struct question ahead;
	static Fathom__SystemEventsReq request;
	const Fathom__SystemEventsResp *response;
	uint64_t began = clock_monotonic_ns();

	memset(&ahead, 0, sizeof(ahead));
	fathom__system_events_req__init(&request);
	tell(1, RAS_DEVICE_PLUGGED, RAS_RANK_NONE, 0);
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
 * Six hosts hand over 4,000 events each, in pieces of any size; many answers get lost, and the piece comes again, longer or
 * shorter; the service is closed and opened now and then. All are there, each once, those of a host in order.
 */
static void a_storm_loses_and_doubles_nothing(void **state)
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
		struct handed *handed = begin_handing(host);

		if (count == 0)
			continue;
		for (uint64_t i = 0; i < count; i++)
			add_event(handed, next[host] + i, RAS_DEVICE_PLUGGED);
		now = taken(handed);
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

static void a_storm_of_deaths_is_one_change_of_each_member(void **state)
{
	struct handed *handed;

	join_many(16);
	handed = begin_handing(1);
	for (uint64_t i = 0; i < BATCH_MAX; i++) {
		struct ras_event *event = add_event(handed, i + 1, i % 2 ? RAS_ENGINE_DIED : RAS_SWIM_RANK_DEAD);

		event->message.rank = (uint32_t)(i % 16);
		event->message.incarnation = 100;
	}
	assert_int_equal(taken(handed), BATCH_MAX);
	for (uint32_t rank = 0; rank < 16; rank++)
		assert_string_equal(state_of_rank(rank), rank % 2 ? "errored" : "excluded");
	assert_int_equal(mgmt_stats(fixture.mgmt).events_acted, 16);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(an_engine_that_died_is_errored),
		TEST(what_operators_do_is_told_with_who_asked),
		TEST(an_engine_that_ends_by_its_exclusion_is_no_failure),
		TEST(a_rank_that_others_find_dead_is_excluded),
		TEST(the_end_of_a_rank_that_was_stopped_is_no_failure),
		TEST(what_comes_again_neither_acts_nor_is_kept_again),
		TEST(what_is_no_event_is_refused),
		TEST(one_that_is_bad_is_refused_alone),
		TEST(who_waits_is_answered_when_the_server_leaves),
		TEST(daos_servers_tell_theirs_one_by_one),
		TEST(who_waits_is_told_at_once),
		TEST(who_is_ahead_of_the_database_is_told_at_once),
		TEST(a_storm_loses_and_doubles_nothing),
		TEST(a_storm_of_deaths_is_one_change_of_each_member),
	};

	return cmocka_run_group_tests_name("control mgmt events", tests, NULL, NULL);
}
