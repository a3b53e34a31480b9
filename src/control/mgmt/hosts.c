/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports of servers about their engines, and detection of silent servers.
 *
 *	ReportEngines -> batch with other reports -> members' states -> answered when they are stored
 *	no report for three intervals -> the host's ranks are unresponsive, until it reports again
 *
 * A server reports when it starts, when the state of an engine changes, and after the interval in the answer to its last
 * report. The interval grows with the number of servers. Ranks of a running operation are ignored here: the operation sets
 * their states.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"
#include "base/reactor/reactor.h"

enum {
	SERVERS_PER_BEAT = 1000, /* more servers report less often: about 100 reports per second at most */
	EVENTS_AT_ONCE = 16,	 /* events for servers that become silent together; for more of them, one event */
	RANKS_SHOWN = 64,
};

#define STOPPED_INFO "it was stopped on its host"
#define UNKNOWN_INFO "no engine that its server has is this rank"

struct mgmt_report {
	TAILQ_ENTRY(mgmt_report) link;
	struct grpc_call *call;
	const Fathom__ReportEnginesReq *request; /* lives as long as the call */
	char address[HOST_BYTES_MAX];
};

uint64_t mgmt_beat_ns(const struct mgmt *mgmt)
{
	must(mgmt->heartbeat_ns > 0);
	return mgmt->heartbeat_ns * (1 + mgmt->target_count / SERVERS_PER_BEAT);
}

/* ---- reports ---- */

/* The state of an engine in the report; UNKNOWN: the server does not know it yet. */
static enum member_state state_of(const Fathom__ReportEnginesReq__Engine *engine)
{
	enum member_state state;

	return member_state_parse(engine->state, &state) < 0 ? MEMBER_UNKNOWN : state;
}

static bool is_same_engine(const struct member *member, const Fathom__ReportEnginesReq__Engine *engine)
{
	uint8_t uuid[MEMBER_UUID_BYTES];

	return member_uuid_parse(engine->uuid, uuid) == 0 && memcmp(uuid, member->uuid, sizeof(uuid)) == 0;
}

/* A state of a member, in or missing from a report. */
struct member_sight {
	uint64_t incarnation; /* 0: any */
	enum member_state state;
	const char *info;
};

/* Add the change of a member to `batch`, if its state changes. Errors: those of the store, -ENOMEM. */
static int report_member(struct mgmt *mgmt, struct mgmt_batch *batch, const struct member *member,
			 const struct member_sight *sight, struct fathom_fault *why)
{
	const struct member_report report = {
		.rank = member->rank,
		.incarnation = sight->incarnation,
		.to = sight->state,
		.info = sight->state == MEMBER_STOPPED && !*sight->info ? STOPPED_INFO : sight->info,
		.now_ns = clock_realtime_ns(),
	};
	struct system_change change;
	struct fathom_fault not_legal;
	int error;

	if (report.to == MEMBER_UNKNOWN || mgmt_is_busy(mgmt, report.rank))
		return 0;
	must(report.to < MEMBER_STATES);
	error = system_see(mgmt->system, &report, &change, &not_legal);
	if (error) {
		mgmt_count_refused_state(mgmt, &report, error);
		return 0;
	}
	error = mgmt_batch_add(mgmt, batch, &change, why);
	probe_mgmt_seen(reactor_tick(), report.rank, report.incarnation, (uint32_t)report.to, error);
	mgmt->stats.ranks_seen += !error;
	return error;
}

/* Whether the stored state means that the engine runs or is about to. */
static bool may_be_running(const struct member *member)
{
	const uint32_t bits = member_state_bit(MEMBER_JOINED) | member_state_bit(MEMBER_READY) |
			      member_state_bit(MEMBER_STARTING) | member_state_bit(MEMBER_STOPPING) |
			      member_state_bit(MEMBER_CHECKER_STARTED) | member_state_bit(MEMBER_UNRESPONSIVE);

	return member_state_bit(member->state) & bits;
}

static bool is_named(const Fathom__ReportEnginesReq *request, const struct member *member)
{
	for (size_t i = 0; i < request->n_engines; i++) {
		if (request->engines[i]->rank == member->rank && is_same_engine(member, request->engines[i]))
			return true;
	}
	return false;
}

/* Whether the engine is about to join. Its server does not know the rank before the answer to the join. */
static bool is_joining(const Fathom__ReportEnginesReq__Engine *engine)
{
	enum member_state state = state_of(engine);

	return engine->rank == RANK_NONE && (state == MEMBER_STARTING || state == MEMBER_READY || state == MEMBER_JOINED);
}

/* Whether the report is complete: no engine is unknown or joining. `info_ret`: the error of an engine without a rank. */
static bool is_complete_report(const Fathom__ReportEnginesReq *request, const char **info_ret)
{
	for (size_t i = 0; i < request->n_engines; i++) {
		const Fathom__ReportEnginesReq__Engine *engine = request->engines[i];
		enum member_state state = state_of(engine);

		if (state == MEMBER_UNKNOWN || is_joining(engine))
			return false;
		if (engine->rank == RANK_NONE && state == MEMBER_ERRORED && *engine->info)
			*info_ret = engine->info;
	}
	return true;
}

/* Mark members that are missing in a complete report as errored: their storage is unreadable or was removed. */
static int report_absent(struct mgmt *mgmt, struct mgmt_batch *batch, const Fathom__ReportEnginesReq *request,
			 const char *address, struct fathom_fault *why)
{
	const struct member *members[MGMT_HOST_RANKS_MAX];
	struct member_sight absent = { .state = MEMBER_ERRORED, .info = UNKNOWN_INFO };
	uint32_t ranks[MGMT_HOST_RANKS_MAX];
	size_t count;
	int error = 0;

	if (!is_complete_report(request, &absent.info))
		return 0;
	count = min_u64(system_members_at(mgmt->system, address, members, ARRAY_COUNT(members)), ARRAY_COUNT(members));
	must(count <= ARRAY_COUNT(ranks));
	for (size_t i = 0; i < count; i++) /* copy the ranks: a change reorders the index by address */
		ranks[i] = members[i]->rank;
	for (size_t i = 0; !error && i < count; i++) {
		const struct member *member = system_member_by_rank(mgmt->system, ranks[i]);

		must(member);
		/* an engine that started after the report was made cannot be in it */
		if (may_be_running(member) && member->incarnation < request->made_ns && !is_named(request, member))
			error = report_member(mgmt, batch, member, &absent, why);
	}
	return error;
}

static int take_report(struct mgmt *mgmt, struct mgmt_batch *batch, const struct mgmt_report *report,
		       struct fathom_fault *why)
{
	const Fathom__ReportEnginesReq *request = report->request;
	int error = 0;

	for (size_t i = 0; !error && i < request->n_engines; i++) {
		const Fathom__ReportEnginesReq__Engine *engine = request->engines[i];
		const struct member *member = system_member_by_rank(mgmt->system, engine->rank);

		if (!member || strcmp(member->address, report->address) != 0 || !is_same_engine(member, engine))
			continue;
		mgmt_note_health(mgmt, member, engine);
		error = report_member(mgmt, batch, member,
				      &(struct member_sight){ .incarnation = engine->incarnation,
							      .state = state_of(engine),
							      .info = engine->info },
				      why);
	}
	return error ? error : report_absent(mgmt, batch, request, report->address, why);
}

/* Raise our map version above the engines' version, if theirs is later. */
static int raise_map(struct mgmt *mgmt, uint32_t map_version, struct fathom_fault *why)
{
	struct system_change change;

	if (system_raise_map(mgmt->system, map_version, &change) < 0)
		return 0;
	must(change.map_version > map_version);
	return mgmt_change_pairs(mgmt, &change, why);
}

static void answer_report(struct mgmt *mgmt, struct mgmt_report *report, int error, const struct fathom_fault *why)
{
	Fathom__ReportEnginesResp response = FATHOM__REPORT_ENGINES_RESP__INIT;
	struct fathom_fault own = *why;

	must(mgmt->report_count > 0);
	must(error <= 0);
	TAILQ_REMOVE(&mgmt->reports, report, link);
	mgmt->report_count--;
	if (error) {
		mgmt_fail(report->call, error, &own);
	} else {
		response.again_ms = (uint32_t)min_u64(mgmt_beat_ns(mgmt) / NS_PER_MS, UINT32_MAX);
		grpc_reply(report->call, &response.base);
	}
	free(report);
}

static void process_reports(struct deadline *deadline)
{
	struct mgmt *mgmt = container_of(deadline, struct mgmt, report_deadline);
	struct mgmt_batch batch = { 0 };
	struct fathom_fault why = { 0 };
	struct mgmt_report *report;
	uint32_t map_version = 0;
	int error = 0;

	must(mgmt->report_count > 0);
	error = mgmt_load_again(mgmt, &why);
	TAILQ_FOREACH (report, &mgmt->reports, link) {
		map_version = (uint32_t)max_u64(map_version, report->request->map_version);
		if (!error)
			error = take_report(mgmt, &batch, report, &why);
	}
	if (error)
		mgmt_batch_drop(mgmt, &batch);
	else
		error = mgmt_batch_commit(mgmt, &batch, &why);
	if (!error) {
		error = raise_map(mgmt, map_version, &why);
		mgmt_map_changed(mgmt);
	}
	while ((report = TAILQ_FIRST(&mgmt->reports)))
		answer_report(mgmt, report, error, &why);
	must(mgmt->report_count == 0);
}

void mgmt_report_engines(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__ReportEnginesReq *asked = (const Fathom__ReportEnginesReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, false);
	struct mgmt_report *report;
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	mgmt->stats.reports++;
	if (mgmt->report_count >= mgmt->joins_max) {
		mgmt_fail(call, mgmt_refuse_full(mgmt, "reports", mgmt->report_count, &why), &why);
		return;
	}
	report = calloc(1, sizeof(*report));
	error = report ? system_read_address(asked->addr, report->address, &why) : -ENOMEM;
	if (error) {
		free(report);
		mgmt_fail(call, error, &why);
		return;
	}
	report->call = call;
	report->request = asked;
	TAILQ_INSERT_TAIL(&mgmt->reports, report, link);
	mgmt->report_count++;
	must(mgmt->report_count <= mgmt->joins_max);
	mgmt_heard(mgmt, report->address);
	mgmt_note_unranked(mgmt, report->address, asked);
	if (!mgmt->report_deadline.set)
		deadline_set(&mgmt->deadlines, &mgmt->report_deadline, mgmt->join_wait_ns, process_reports);
}

/* ---- silent servers ---- */

void mgmt_heard(struct mgmt *mgmt, const char *address)
{
	struct mgmt_target *target = mgmt_find_target(mgmt, address);
	struct ras_event event;

	if (!target)
		return;
	must(strcmp(target->address, address) == 0);
	target->heard = reactor_now();
	if (!target->is_silent)
		return;
	target->is_silent = false;
	mgmt_target_back(target);
	if (!target->is_told)
		return;
	target->is_told = false;
	ras_event_init(&event, RAS_SERVER_HEARD, "server %s reports again", address);
	mgmt_raise(mgmt, &event);
}

/* Mark the ranks of a silent server as unresponsive. `ranks` gets the ranks whose state changed. */
static int mark_silent(struct mgmt *mgmt, struct mgmt_batch *batch, const struct mgmt_target *target, uint64_t silence_s,
		       struct rank_set *ranks, struct fathom_fault *why)
{
	const struct member *members[MGMT_HOST_RANKS_MAX];
	size_t count = min_u64(system_members_at(mgmt->system, target->address, members, ARRAY_COUNT(members)),
			       ARRAY_COUNT(members));
	char info[MEMBER_INFO_BYTES];
	const struct member_sight silent = { .state = MEMBER_UNRESPONSIVE, .info = info };
	int error = 0;

	snprintf(info, sizeof(info), "its server has not reported for %" PRIu64 " s", silence_s);
	for (size_t i = 0; !error && i < count; i++) {
		if (may_be_running(members[i]) && members[i]->state != MEMBER_UNRESPONSIVE &&
		    !mgmt_is_busy(mgmt, members[i]->rank))
			error = rank_set_add(ranks, members[i]->rank);
	}
	for (size_t i = ranks->count; !error && i-- > 0;) {
		uint32_t rank = ranks->ranks[i];

		must(system_member_by_rank(mgmt->system, rank));
		error = report_member(mgmt, batch, system_member_by_rank(mgmt->system, rank), &silent, why);
		if (!error && system_member_by_rank(mgmt->system, rank)->state != MEMBER_UNRESPONSIVE)
			rank_set_remove(ranks, rank); /* the change was illegal: do not report it at each check */
	}
	return error;
}

struct missing {
	struct ras_event events[EVENTS_AT_ONCE];
	uint32_t servers;
	size_t ranks;
	char first[HOST_BYTES_MAX];
};

static int note_silent(struct missing *missing, struct mgmt_target *target, const struct rank_set *ranks,
		       uint64_t silence_s)
{
	char *text = NULL;
	int error;

	if (ranks->count == 0)
		return 0;
	target->is_told = true;
	if (missing->servers == 0)
		snprintf(missing->first, sizeof(missing->first), "%s", target->address);
	missing->ranks += ranks->count;
	if (missing->servers++ >= EVENTS_AT_ONCE)
		return 0;
	must(missing->servers <= EVENTS_AT_ONCE);
	error = rank_set_fold(ranks, false, &text);
	if (error)
		return error;
	ras_event_init(&missing->events[missing->servers - 1], RAS_SERVER_SILENT,
		       "server %.60s has not reported for %" PRIu64 " s; ranks: %.*s", target->address, silence_s,
		       RANKS_SHOWN, text);
	free(text);
	return 0;
}

static void raise_silent_events(struct mgmt *mgmt, const struct missing *missing)
{
	struct ras_event event;

	if (missing->servers > EVENTS_AT_ONCE) {
		ras_event_init(&event, RAS_SERVER_SILENT, "%u servers with %zu ranks have not reported, the first is %.60s",
			       missing->servers, missing->ranks, missing->first);
		mgmt_raise(mgmt, &event);
		return;
	}
	must(missing->servers <= ARRAY_COUNT(missing->events));
	for (uint32_t i = 0; i < missing->servers; i++)
		mgmt_raise(mgmt, &missing->events[i]);
}

/* Use one `now` for the whole check, because the database may take long in between. */
static bool is_missed(const struct mgmt *mgmt, const struct mgmt_target *target, uint64_t now)
{
	uint64_t limit = clock_ticks_from_ns(MGMT_BEATS_MISSED * mgmt_beat_ns(mgmt));

	return (int64_t)(now - target->heard - limit) > 0;
}

/*
 * Servers that were already silent are checked again: a rank that was part of an operation then may be free now, or may
 * have joined by it.
 */
static int mark_all_silent(struct mgmt *mgmt, struct mgmt_batch *batch, struct missing *missing, uint64_t now,
			   struct fathom_fault *why)
{
	int error = 0;

	for (size_t i = 0; !error && i < mgmt->target_count; i++) {
		struct mgmt_target *target = mgmt->targets[i];
		struct rank_set ranks = { 0 };
		uint64_t silence_s;

		if (!is_missed(mgmt, target, now))
			continue;
		silence_s = clock_ns_from_ticks(now - target->heard) / NS_PER_SEC;
		error = mark_silent(mgmt, batch, target, silence_s, &ranks, why);
		if (!error)
			error = note_silent(missing, target, &ranks, silence_s);
		rank_set_deinit(&ranks);
	}
	return error ? error : mgmt_batch_commit(mgmt, batch, why);
}

/* After its own pause the service marks no rank unresponsive: it has missed reports itself. */
static void skip_own_pause(struct mgmt *mgmt, uint64_t period_ns)
{
	uint64_t slept = reactor_now() - mgmt->watched, period = clock_ticks_from_ns(period_ns);

	if (slept <= 2 * period)
		return;
	for (size_t i = 0; i < mgmt->target_count; i++)
		mgmt->targets[i]->heard += slept - period;
}

static void check_silence(struct deadline *deadline)
{
	struct mgmt *mgmt = container_of(deadline, struct mgmt, watch_deadline);
	struct missing *missing = calloc(1, sizeof(*missing));
	struct mgmt_batch batch = { 0 };
	struct fathom_fault why = { 0 };
	uint64_t now = reactor_now();
	int error = missing ? 0 : -ENOMEM;

	skip_own_pause(mgmt, mgmt->heartbeat_ns);
	if (!error)
		error = mgmt_load_again(mgmt, &why);
	if (!error)
		error = mark_all_silent(mgmt, &batch, missing, now, &why);
	if (error && missing)
		mgmt_batch_drop(mgmt, &batch); /* the next check tries again */
	for (size_t i = 0; !error && i < mgmt->target_count; i++) {
		if (is_missed(mgmt, mgmt->targets[i], now))
			mgmt->targets[i]->is_silent = true;
	}
	if (!error)
		raise_silent_events(mgmt, missing);
	free(missing);
	mgmt_watch(mgmt);
}

void mgmt_watch(struct mgmt *mgmt)
{
	must(!mgmt->watch_deadline.set);
	mgmt->watched = reactor_now();
	deadline_set(&mgmt->deadlines, &mgmt->watch_deadline, mgmt->heartbeat_ns, check_silence);
}

void mgmt_reports_close(struct mgmt *mgmt)
{
	struct mgmt_report *report;

	while ((report = TAILQ_FIRST(&mgmt->reports))) {
		TAILQ_REMOVE(&mgmt->reports, report, link);
		mgmt->report_count--;
		grpc_fail(report->call, GRPC_UNAVAILABLE, NULL, "the management service ends");
		free(report);
	}
}
