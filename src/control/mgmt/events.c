/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of all hosts. The state change of an event is stored before the event itself. If this process dies in between, the
 * event is sent again, and its change has no effect the second time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/internal.h"
#include "control/mgmt/probes.gen.h"
#include "base/reactor/reactor.h"

enum { EVENTS_TEXT_MAX = 4096 };

/* A call that waits for the next event. */
struct mgmt_waiter {
	TAILQ_ENTRY(mgmt_waiter) link;
	struct mgmt *mgmt;
	struct grpc_call *call;
	uint64_t after;
	uint32_t max;
	struct deadline deadline;
};

/* ---- state changes by events ---- */

static int decide_event(const struct mgmt *mgmt, const Shared__RASEvent *event, struct system_change *change)
{
	const struct member *member = system_member_by_rank(mgmt->system, event->rank);
	uint64_t now_ns = clock_realtime_ns();
	struct fathom_fault why;

	if (!member)
		return -ENOENT;
	if (event->id == RAS_SWIM_RANK_DEAD)
		return system_rank_dead(mgmt->system, event->rank, event->incarnation, now_ns, change, &why);
	/* the exit of a rank that is being stopped is no failure */
	if (member->state == MEMBER_STOPPED || member->state == MEMBER_STOPPING || mgmt_is_stopping(mgmt, event->rank))
		return -ECANCELED;
	/* a process that died without an incarnation never joined; the joined one is another process, which may be alive */
	if (event->incarnation == 0 && member->state == MEMBER_JOINED)
		return -ECANCELED;
	/* already errored; the reason reported by its server may be newer than this event */
	if (member->state == MEMBER_ERRORED)
		return -EALREADY;
	return system_report(mgmt->system,
			     &(struct member_report){
				     .rank = event->rank,
				     .incarnation = event->incarnation,
				     .to = MEMBER_ERRORED,
				     .info = event->msg,
				     .now_ns = now_ns,
			     },
			     change, &why);
}

/* Whether the server reports the exit of an excluded engine (with the instance); the engine announces it without. */
static bool is_own_end(const Shared__RASEvent *event)
{
	return event->id == RAS_ENGINE_SELF_TERMINATED &&
	       event->extended_info_case == SHARED__RASEVENT__EXTENDED_INFO_ENGINE_STATE_INFO;
}

/* Apply the state change of `event`, if any. Errors: those of the store, -ENOMEM. An event without effect is no error. */
static int apply_event(struct mgmt *mgmt, const Shared__RASEvent *event, struct mgmt_batch *batch, struct fathom_fault *why)
{
	struct system_change change;
	int error, decided;

	if (event->id != RAS_ENGINE_DIED && event->id != RAS_SWIM_RANK_DEAD && !is_own_end(event))
		return 0;
	decided = decide_event(mgmt, event, &change);
	error = decided ? 0 : mgmt_batch_add(mgmt, batch, &change, why);
	must(decided <= 0);
	mgmt->stats.events_acted += !decided && !error;
	probe_mgmt_event_acted(reactor_tick(), event->id, event->rank, decided ? decided : error);
	return error;
}

/* Apply the state changes of the valid events that were not taken before: all or none. */
static int apply_events(struct mgmt *mgmt, const struct event_batch *batch, struct fathom_fault *why)
{
	uint64_t after = batch->source ? event_store_taken(mgmt->events, batch->source) : 0;
	struct mgmt_batch changes = { 0 };
	int error = 0;

	for (size_t i = 0; !error && i < batch->count; i++) {
		const Fathom__NumberedEvent *event = batch->events[i];

		if (event->number > after && event->event && ras_event_check(event->event, NULL) == 0)
			error = apply_event(mgmt, event->event, &changes, why);
	}
	if (!error)
		return mgmt_batch_commit(mgmt, &changes, why);
	mgmt_batch_drop(mgmt, &changes);
	return error;
}

/* ---- calls that wait for events ---- */

static void reply_events(struct grpc_call *call, struct mgmt *mgmt, uint64_t after, uint32_t max)
{
	Fathom__SystemEventsResp response = FATHOM__SYSTEM_EVENTS_RESP__INIT;
	Fathom__NumberedEvent **events;
	struct fathom_fault why = { 0 };
	size_t count;
	struct event_range range = { .after = after, .max = max, .bytes_max = MGMT_ANSWER_BYTES };
	int error = event_store_read(mgmt->events, &range, &events, &count, &why);

	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	must(count <= EVENT_STORE_TAKE_MAX);
	must(count == 0 || events[0]->number > after);
	response.n_events = count;
	response.events = events;
	response.first = event_store_first(mgmt->events);
	response.last = event_store_last(mgmt->events);
	grpc_reply(call, &response.base);
	event_store_free(events, count);
}

static void end_waiter(struct mgmt_waiter *waiter)
{
	struct mgmt *mgmt = waiter->mgmt;

	must(mgmt->waiter_count > 0);
	must(thread_self() == mgmt->home);
	TAILQ_REMOVE(&mgmt->waiters, waiter, link);
	mgmt->waiter_count--;
	deadline_clear(&mgmt->deadlines, &waiter->deadline);
	must(TAILQ_EMPTY(&mgmt->waiters) == (mgmt->waiter_count == 0));
	reply_events(waiter->call, mgmt, waiter->after, waiter->max);
	free(waiter);
}

static void waiter_expired(struct deadline *deadline)
{
	end_waiter(container_of(deadline, struct mgmt_waiter, deadline));
}

static void wake_waiters(struct mgmt *mgmt)
{
	struct mgmt_waiter *waiter, *next;

	TAILQ_FOREACH_SAFE (waiter, &mgmt->waiters, link, next) {
		if (event_store_last(mgmt->events) > waiter->after)
			end_waiter(waiter);
	}
}

void mgmt_leave(struct mgmt *mgmt)
{
	mgmt->is_leaving = true;
	mgmt_waiters_close(mgmt);
}

void mgmt_waiters_close(struct mgmt *mgmt)
{
	while (!TAILQ_EMPTY(&mgmt->waiters))
		end_waiter(TAILQ_FIRST(&mgmt->waiters));
}

void mgmt_system_events(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__SystemEventsReq *asked = (const Fathom__SystemEventsReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, false);
	uint64_t wait_ns = min_u64(asked->wait_ms, MGMT_WAIT_MS_MAX) * NS_PER_MS;
	struct mgmt_waiter *waiter = NULL;

	if (!mgmt)
		return;
	mgmt->stats.queries++;
	/* answer before the call's deadline: wait at most 3/4 of the time left */
	if (grpc_call_time_left_ns(call) != GRPC_NO_DEADLINE)
		wait_ns = min_u64(wait_ns, grpc_call_time_left_ns(call) / 4 * 3);
	/* `after` may exceed our last number, if an older database was restored: answer immediately then */
	if (event_store_last(mgmt->events) == asked->after && wait_ns > 0 && !mgmt->is_leaving &&
	    mgmt->waiter_count < MGMT_WAITERS_MAX)
		waiter = calloc(1, sizeof(*waiter));
	if (!waiter) {
		reply_events(call, mgmt, asked->after, asked->max);
		return;
	}
	waiter->mgmt = mgmt;
	waiter->call = call;
	waiter->after = asked->after;
	waiter->max = asked->max;
	TAILQ_INSERT_TAIL(&mgmt->waiters, waiter, link);
	mgmt->waiter_count++;
	must(mgmt->waiter_count <= MGMT_WAITERS_MAX);
	deadline_set(&mgmt->deadlines, &waiter->deadline, wait_ns, waiter_expired);
}

/* ---- taking events ---- */

/* Take all events of `batch` or none. `taken_ret` as in event_store_take(). */
static int take_events(struct mgmt *mgmt, const struct event_batch *batch, uint64_t *taken_ret, struct fathom_fault *why)
{
	uint64_t last = event_store_last(mgmt->events);
	int error = apply_events(mgmt, batch, why);

	if (!error)
		error = event_store_take(mgmt->events, batch, taken_ret, why);
	if (error)
		return error;
	must(event_store_last(mgmt->events) >= last);
	mgmt->stats.events_taken += event_store_last(mgmt->events) - last;
	probe_mgmt_events_taken(reactor_tick(), (uint32_t)(event_store_last(mgmt->events) - last), *taken_ret,
				event_store_last(mgmt->events));
	wake_waiters(mgmt);
	return 0;
}

/* An invalid event, and the reason. */
struct refusal {
	Fathom__TakeEventsResp__Refusal row;
	char reason[RAS_MESSAGE_BYTES];
};

static void fill_refusal(const Fathom__NumberedEvent *event, struct refusal *refusal)
{
	struct fathom_fault why = { 0 };

	must(event_store_check(event, &why) < 0);
	refusal->reason[text_utf8_copy(refusal->reason, RAS_MESSAGE_BYTES - 1, why.text, strlen(why.text))] = '\0';
	fathom__take_events_resp__refusal__init(&refusal->row);
	refusal->row.number = event->number;
	refusal->row.reason = refusal->reason;
	probe_mgmt_event_refused(reactor_tick(), event->number);
}

/* If memory for the reasons runs out, the invalid events are only counted. */
static void reply_taken(struct grpc_call *call, struct mgmt *mgmt, const Fathom__TakeEventsReq *asked, const bool *is_bad,
			uint64_t taken)
{
	Fathom__TakeEventsResp response = FATHOM__TAKE_EVENTS_RESP__INIT;
	size_t bad = 0;
	struct refusal *refusals;
	Fathom__TakeEventsResp__Refusal **places;

	must(asked->n_events <= EVENT_STORE_TAKE_MAX); /* event_store_take() rejects more */
	for (size_t i = 0; i < asked->n_events; i++)
		bad += is_bad[i];
	refusals = bad ? calloc(bad, sizeof(*refusals)) : NULL;
	places = bad ? calloc(bad, sizeof(*places)) : NULL;
	for (size_t i = 0; refusals && places && i < asked->n_events; i++) {
		if (!is_bad[i])
			continue;
		fill_refusal(asked->events[i], &refusals[response.n_refused]);
		places[response.n_refused] = &refusals[response.n_refused].row;
		response.n_refused++;
	}
	must(response.n_refused <= bad);
	mgmt->stats.events_refused += bad;
	response.taken = taken;
	response.refused = places;
	grpc_reply(call, &response.base);
	free(refusals);
	free(places);
}

void mgmt_take_events(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__TakeEventsReq *asked = (const Fathom__TakeEventsReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, false);
	bool is_bad[EVENT_STORE_TAKE_MAX] = { false };
	struct event_batch batch = {
		.source = asked->source, .events = asked->events, .count = asked->n_events, .is_bad = is_bad
	};
	struct fathom_fault why = { 0 };
	uint64_t taken;
	int error;

	if (!mgmt)
		return;
	error = take_events(mgmt, &batch, &taken, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else
		reply_taken(call, mgmt, asked, is_bad, taken);
}

void mgmt_cluster_event(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Shared__ClusterEventReq *asked = (const Shared__ClusterEventReq *)request;
	Shared__ClusterEventResp response = SHARED__CLUSTER_EVENT_RESP__INIT;
	Fathom__NumberedEvent event = FATHOM__NUMBERED_EVENT__INIT, *events[] = { &event };
	struct event_batch batch = { .events = events, .count = 1 };
	struct mgmt *mgmt = mgmt_enter(call, "", false);
	struct fathom_fault why = { 0 };
	uint64_t taken;
	int error;

	if (!mgmt)
		return;
	event.number = 1;
	event.event = asked->event;
	error = take_events(mgmt, &batch, &taken, &why);
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	response.sequence = asked->sequence;
	grpc_reply(call, &response.base);
}

/* Log an event that could not be stored. */
static void log_lost_event(struct mgmt *mgmt, const struct ras_event *event, const struct fathom_fault *why)
{
	char line[RAS_LINE_BYTES];

	mgmt->stats.events_lost++;
	log_error("event %s is not kept: %s", ras_event_line(&event->message, line),
		  why->error ? why->text : "out of memory");
}

void mgmt_raise(struct mgmt *mgmt, const struct ras_event *event)
{
	Fathom__NumberedEvent numbered = FATHOM__NUMBERED_EVENT__INIT, *events[] = { &numbered };
	struct event_batch batch = { .events = events, .count = 1 };
	struct fathom_fault why = { 0 };
	uint64_t taken;

	must(event->message.id != RAS_UNKNOWN);
	numbered.number = 1;
	numbered.event = (Shared__RASEvent *)(uintptr_t)&event->message;
	if (event_store_take(mgmt->events, &batch, &taken, &why) < 0)
		log_lost_event(mgmt, event, &why);
	else
		wake_waiters(mgmt);
}

void mgmt_raise_operation(struct mgmt *mgmt, enum ras_id id, const char *operation, const char *who, const char *format,
			  ...)
{
	struct ras_event event;
	va_list args;

	va_start(args, format);
	ras_event_init_done(&event, id, operation, who, format, args);
	va_end(args);
	mgmt_raise(mgmt, &event);
}

void mgmt_events_last(struct mgmt *mgmt, uint32_t max, void (*each)(void *ctx, const Shared__RASEvent *event), void *ctx)
{
	uint64_t last = event_store_last(mgmt->events);
	struct event_range range = { .after = last > max ? last - max : 0, .max = max, .bytes_max = MGMT_ANSWER_BYTES };
	Fathom__NumberedEvent **events;
	size_t count = 0;

	if (event_store_read(mgmt->events, &range, &events, &count, NULL) < 0)
		return;
	for (size_t i = count; i > 0; i--)
		each(ctx, events[i - 1]->event);
	event_store_free(events, count);
}

char *mgmt_events_text(struct mgmt *mgmt)
{
	uint64_t last = event_store_last(mgmt->events);
	struct event_range range = {
		.after = last > EVENTS_TEXT_MAX ? last - EVENTS_TEXT_MAX : 0,
		.max = EVENTS_TEXT_MAX,
		.bytes_max = MGMT_ANSWER_BYTES,
	};
	Fathom__NumberedEvent **events;
	char line[RAS_LINE_BYTES], *text = NULL;
	size_t count = 0, bytes = 0;
	FILE *out;

	if (event_store_read(mgmt->events, &range, &events, &count, NULL) < 0)
		return NULL;
	out = open_memstream(&text, &bytes);
	for (size_t i = 0; out && i < count; i++)
		fprintf(out, "%" PRIu64 " %s\n", events[i]->number, ras_event_line(events[i]->event, line));
	event_store_free(events, count);
	if (out && fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
