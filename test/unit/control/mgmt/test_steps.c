/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 1,000 random steps of operators, engines and servers over gRPC, compared with a model written from the documents. After
 * each step: each rank exists once, its state equals the model's, versions only grow, no server received an older map after
 * a newer one, and each event is stored once.
 *
 *     FATHOM_SEED=7 control_mgmt_steps
 */
#include "base/random.h"
#include "base/text.h"
#include "fixture.h"

enum { STEPS = 1000, ENGINES = 24 };
#define SOURCE "11111111-1111-4111-8111-111111111111"

/* An engine in the model; rank NONE: it never joined. */
static struct {
	uint32_t rank;
	uint64_t incarnation;
	enum member_state state;
} engines[ENGINES];

static struct random chance;
static uint64_t events_told, failures_expected, data_version, map_version;
static uint32_t joined;

static uint64_t below(uint64_t n)
{
	return random_below(&chance, n);
}

static int engine_of_rank(uint32_t rank)
{
	for (int i = 0; i < ENGINES; i++) {
		if (engines[i].rank == rank)
			return i;
	}
	return -1;
}

/* Apply a report to the model, by the table in the documents. */
static void report(int engine, enum member_state to)
{
	enum member_state from = engines[engine].state;
	bool is_bad = from == MEMBER_ERRORED || from == MEMBER_UNRESPONSIVE;

	if (from == MEMBER_ADMIN_EXCLUDED || from == MEMBER_EXCLUDED)
		return;
	if (to == MEMBER_READY && (is_bad || from == MEMBER_JOINED))
		return;
	if (to == MEMBER_EXCLUDED && from == MEMBER_READY)
		return;
	engines[engine].state = to;
}

/* ---- steps ---- */

static void step_join(void)
{
	int engine = (int)below(ENGINES);
	bool is_old = engines[engine].rank != RANK_NONE && below(8) == 0;
	uint64_t incarnation = is_old ? engines[engine].incarnation - 1 : engines[engine].incarnation + below(3);
	struct joining joining;
	struct question *question;
	const Mgmt__JoinResp *response;

	fill_join(&joining, (uint32_t)engine, incarnation);
	if (below(2))
		joining.request.rank = engines[engine].rank;
	question = ask_join(&joining);
	if (engines[engine].state == MEMBER_ADMIN_EXCLUDED || is_old) {
		assert_int_equal(question->why.code, engines[engine].state == MEMBER_ADMIN_EXCLUDED ? 623 : 457);
		return;
	}
	response = answer_of(question);
	if (engines[engine].rank == RANK_NONE) {
		assert_int_equal(engine_of_rank(response->rank), -1);
		joined++;
	} else {
		assert_int_equal(response->rank, engines[engine].rank);
	}
	engines[engine].rank = response->rank;
	engines[engine].incarnation = incarnation;
	engines[engine].state = MEMBER_JOINED;
}

/* Choose some ranks, also absent ones, or all (""). */
static uint32_t choose_ranks(char *text, size_t bytes, bool *is_chosen)
{
	uint32_t first = (uint32_t)below(ENGINES + 4), last = first + (uint32_t)below(6), count = 0;
	bool is_all = below(4) == 0;

	snprintf(text, bytes, "%u-%u", first, last);
	if (is_all)
		text[0] = '\0';
	for (int i = 0; i < ENGINES; i++) {
		is_chosen[i] = engines[i].rank != RANK_NONE &&
			       (is_all || (engines[i].rank >= first && engines[i].rank <= last));
		count += is_chosen[i];
	}
	return count;
}

static void assert_state(const Shared__RankResult *result, bool is_stop, enum fake_way way)
{
	const char *state = way == FAKE_ANSWERS	  ? (is_stop ? "stopped" : "ready")
			    : way == FAKE_REFUSES ? "unresponsive"
						  : "errored";

	assert_string_equal(result->state, state);
	assert_int_equal(result->errored, way != FAKE_ANSWERS);
}

static void step_ranks(bool is_stop)
{
	Mgmt__SystemStopReq stop = MGMT__SYSTEM_STOP_REQ__INIT;
	Mgmt__SystemStartReq start = MGMT__SYSTEM_START_REQ__INIT;
	Shared__RankResult **results;
	bool is_chosen[ENGINES], has_failed = false;
	uint32_t acted = 0;
	size_t count;
	char ranks[32];

	if (choose_ranks(ranks, sizeof(ranks), is_chosen) == 0)
		return;
	stop.ranks = start.ranks = ranks;
	stop.force = below(2);
	stop.ignore_admin_excluded = start.ignore_admin_excluded = true;
	if (is_stop) {
		const Mgmt__SystemStopResp *response = answer_of(ADMIN_ASK("SystemStop", stop, system_stop));

		results = response->results;
		count = response->n_results;
	} else {
		const Mgmt__SystemStartResp *response = answer_of(ADMIN_ASK("SystemStart", start, system_start));

		results = response->results;
		count = response->n_results;
	}
	for (int i = 0; i < ENGINES; i++) {
		enum fake_way way = fixture.fakes[(size_t)i % FAKES].way;

		if (!is_chosen[i] || engines[i].state == MEMBER_ADMIN_EXCLUDED)
			continue;
		acted++;
		has_failed |= way != FAKE_ANSWERS;
		if (way == FAKE_ANSWERS)
			report(i, is_stop ? MEMBER_STOPPED : MEMBER_READY);
		else
			report(i, way == FAKE_REFUSES ? MEMBER_UNRESPONSIVE : MEMBER_ERRORED);
	}
	assert_int_equal(count, acted);
	for (size_t i = 0; i < count; i++) {
		int engine = engine_of_rank(results[i]->rank);

		assert_true(engine >= 0 && is_chosen[engine]);
		assert_true(i == 0 || results[i]->rank > results[i - 1]->rank);
		assert_state(results[i], is_stop, fixture.fakes[(size_t)engine % FAKES].way);
	}
	failures_expected += has_failed;
}

static void step_exclude(bool is_clear)
{
	Mgmt__SystemExcludeReq request = MGMT__SYSTEM_EXCLUDE_REQ__INIT;
	int engine = (int)below(ENGINES);
	struct question *question;
	char rank[16];

	if (engines[engine].rank == RANK_NONE)
		return;
	snprintf(rank, sizeof(rank), "%u", engines[engine].rank);
	request.ranks = rank;
	request.clear = is_clear;
	question = ADMIN_ASK("SystemExclude", request, system_exclude);
	if (is_clear && engines[engine].state != MEMBER_ADMIN_EXCLUDED) {
		assert_int_equal(question->why.code, 462);
		return;
	}
	(void)answer_of(question);
	engines[engine].state = is_clear ? MEMBER_EXCLUDED : MEMBER_ADMIN_EXCLUDED;
}

static void step_event(void)
{
	static const enum ras_id ids[] = { RAS_ENGINE_DIED, RAS_SWIM_RANK_DEAD, RAS_DEVICE_PLUGGED };
	Fathom__TakeEventsReq request = FATHOM__TAKE_EVENTS_REQ__INIT;
	Fathom__NumberedEvent numbered = FATHOM__NUMBERED_EVENT__INIT, *places[] = { &numbered };
	enum ras_id id = ids[below(ARRAY_COUNT(ids))];
	int engine = (int)below(ENGINES);
	bool is_old = below(4) == 0;
	struct ras_event event;

	ras_event_init(&event, id, "%llu", (unsigned long long)++events_told);
	ras_event_set_engine(&event, engines[engine].rank, engines[engine].incarnation - is_old, 0, 1, "");
	numbered.number = events_told;
	numbered.event = &event.message;
	request.source = (char *)SOURCE;
	request.n_events = 1;
	request.events = places;
	for (uint64_t times = 1 + below(2); times > 0; times--)
		(void)answer_of(ask(fixture.member, "/fathom.ControlSvc/TakeEvents", &request.base,
				    &fathom__take_events_resp__descriptor));
	if (engines[engine].rank == RANK_NONE || is_old)
		return;
	if (id == RAS_ENGINE_DIED && engines[engine].state != MEMBER_STOPPED)
		report(engine, MEMBER_ERRORED);
	if (id == RAS_SWIM_RANK_DEAD)
		report(engine, MEMBER_EXCLUDED);
}

static void step_server(void)
{
	static const enum fake_way ways[] = { FAKE_ANSWERS, FAKE_ANSWERS, FAKE_REFUSES, FAKE_ERRS };

	fixture.fakes[below(FAKES)].way = ways[below(ARRAY_COUNT(ways))];
	fixture.fakes[below(FAKES)].map_way = ways[below(ARRAY_COUNT(ways))];
}

/* ---- invariants after each step ---- */

static int read_versions(void *unused)
{
	const struct system *system = mgmt_system(fixture.mgmt);

	must(system_map_version(system) >= map_version);
	map_version = system_map_version(system);
	for (size_t i = 0; i < FAKES; i++) {
		must(!fixture.fakes[i].map_went_back);
		must(fixture.fakes[i].map_version <= map_version);
	}
	return 0;
}

static void assert_invariants(void)
{
	const Mgmt__SystemQueryResp *response;
	char uuid[MEMBER_UUID_TEXT_BYTES];

	on_control(read_versions, NULL);
	if (joined == 0)
		return;
	response = query();
	assert_true(response->data_version >= data_version);
	data_version = response->data_version;
	assert_int_equal(response->n_members, joined);
	for (size_t i = 0; i < response->n_members; i++) {
		const Mgmt__SystemMember *member = response->members[i];
		int engine = engine_of_rank(member->rank);

		assert_true(engine >= 0);
		assert_true(i == 0 || member->rank > response->members[i - 1]->rank);
		write_uuid((uint32_t)engine, uuid);
		assert_string_equal(member->uuid, uuid);
		assert_string_equal(member->state, member_state_wire(engines[engine].state));
		assert_int_equal(member->incarnation, engines[engine].incarnation);
	}
}

static void assert_events_stored(void)
{
	uint64_t last = 0, told = 0, failures = 0;

	for (;;) {
		Fathom__SystemEventsReq request = FATHOM__SYSTEM_EVENTS_REQ__INIT;
		const Fathom__SystemEventsResp *response;

		request.after = last;
		response = answer_of(ask(fixture.admin, "/fathom.ControlSvc/SystemEvents", &request.base,
					 &fathom__system_events_resp__descriptor));
		if (response->n_events == 0)
			break;
		for (size_t i = 0; i < response->n_events; i++) {
			const Shared__RASEvent *event = response->events[i]->event;
			uint64_t number;

			assert_int_equal(response->events[i]->number, ++last);
			failures += event->id == RAS_SYSTEM_STOP_FAILED || event->id == RAS_SYSTEM_START_FAILED;
			if (event->extended_info_case != SHARED__RASEVENT__EXTENDED_INFO_ENGINE_STATE_INFO)
				continue;
			assert_int_equal(text_parse_u64(event->msg, 10, UINT64_MAX, &number), 0);
			assert_int_equal(number, ++told);
		}
	}
	assert_int_equal(told, events_told);
	assert_int_equal(failures, failures_expected);
}

static void invariants_hold_after_each_of_1000_steps(void **state)
{
	const char *seed_text = getenv("FATHOM_SEED");
	uint64_t seed = 1;

	if (seed_text)
		assert_int_equal(text_parse_u64(seed_text, 10, UINT64_MAX, &seed), 0);
	random_init(&chance, seed);
	for (int i = 0; i < ENGINES; i++) {
		engines[i].rank = RANK_NONE;
		engines[i].incarnation = 100;
		engines[i].state = MEMBER_UNKNOWN;
	}
	for (int step = 0; step < STEPS; step++) {
		uint64_t kind = below(16);

		if (kind < 6)
			step_join();
		else if (kind < 9)
			step_ranks(below(2));
		else if (kind < 11)
			step_exclude(below(2));
		else if (kind < 14)
			step_event();
		else if (kind == 14)
			step_server();
		else if (below(4) == 0)
			reopen_mgmt();
		assert_invariants();
	}
	reopen_mgmt();
	assert_invariants();
	assert_events_stored();
	for (size_t i = 0; i < FAKES; i++)
		fixture.fakes[i].map_way = FAKE_ANSWERS;
	wait_until(all_have_the_map, NULL);
	print_message("# seed %llu: %u ranks, map version %llu, %llu events\n", (unsigned long long)seed, joined,
		      (unsigned long long)map_version, (unsigned long long)events_told);
	assert_int_equal(joined, ENGINES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(invariants_hold_after_each_of_1000_steps, fixture_begin, fixture_end),
	};

	return cmocka_run_group_tests_name("control mgmt steps", tests, NULL, NULL);
}
