/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls to the management service, of which only some hosts may be known, and of these some may not run it.
 *
 *     places: the addresses of access_points, in turn -> success: done
 *                                                     -> redirect: its addresses become the places
 *                                                     -> unreachable, starting: the next place
 *                                                     -> another error: done
 *     all tried -> after a pause again, until the time is over
 *
 * Names are resolved on a worker thread, one at a time, so that a name server that hangs costs one thread. Until they are
 * resolved, calls wait; addresses that were found before are used meanwhile.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "control/agent/internal.h"
#include "control/agent/probes.gen.h"
#include "control/fault/fault.h"
#include "control/hostlist/hostlist.h"
#include "control/status/status.h"

enum { REDIRECTS_MAX = 8, PLACES_MAX = AGENT_ADDRESSES_MAX + 1 + STATUS_REPLICAS_MAX };
enum { PAUSE_MIN_MS = 100, PAUSE_MAX_MS = 4000, PLACE_SECONDS_MIN = 2, RESOLVE_AGAIN_SECONDS = 10 };

struct service_call {
	TAILQ_ENTRY(service_call) link;
	struct agent *agent;
	struct service_request request;
	char places[PLACES_MAX][GRPC_ADDRESS_BYTES_MAX];
	size_t place_count, place;
	uint32_t redirects, tries;
	uint64_t begin_tick, end_ns, pause_ns;
	bool is_asking;	      /* a gRPC call is under way */
	struct deadline wait; /* until the next round, or the first: done is never called within service_start() */
	struct fathom_fault last;
	struct fathom_fault
		uncertain; /* the first failure after which a server may have carried the call out; error 0: none */
};

/* ---- addresses ---- */

struct resolve_job {
	struct worker_job job;
	struct agent *agent;
	struct host_address hosts[AGENT_HOSTS_MAX];
	size_t host_count;
	char addresses[AGENT_ADDRESSES_MAX][GRPC_ADDRESS_BYTES_MAX];
	size_t address_count;
	struct fathom_fault why;
};

static void add_address(struct resolve_job *resolve, const struct sockaddr *from, uint16_t port)
{
	bool is_v6 = from->sa_family == AF_INET6;
	char number[INET6_ADDRSTRLEN];

	if (resolve->address_count == AGENT_ADDRESSES_MAX)
		return;
	if (!inet_ntop(from->sa_family,
		       is_v6 ? (const void *)&((const struct sockaddr_in6 *)(const void *)from)->sin6_addr
			     : (const void *)&((const struct sockaddr_in *)(const void *)from)->sin_addr,
		       number, sizeof(number)))
		return;
	if (snprintf(resolve->addresses[resolve->address_count], GRPC_ADDRESS_BYTES_MAX, is_v6 ? "[%s]:%u" : "%s:%u",
		     number, port) < GRPC_ADDRESS_BYTES_MAX)
		resolve->address_count++;
}

/* The first address of each family: IPv4, then IPv6. `flags`: AI_NUMERICHOST, or 0, which may block. */
static void resolve_host(struct resolve_job *resolve, const struct host_address *host, int flags)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	static const int families[] = { AF_INET, AF_INET6 };
	struct addrinfo *list = NULL;
	int error = getaddrinfo(host->host, NULL, &hints, &list);

	if (error) {
		resolve->why.error = fault_host_unknown(&resolve->why, host->host, gai_strerror(error));
		return;
	}
	for (size_t i = 0; i < ARRAY_COUNT(families); i++) {
		for (const struct addrinfo *at = list; at; at = at->ai_next) {
			if (at->ai_family != families[i])
				continue;
			add_address(resolve, at->ai_addr, host->port);
			break;
		}
	}
	freeaddrinfo(list);
}

static void resolve_all(struct worker_job *job)
{
	struct resolve_job *resolve = container_of(job, struct resolve_job, job);

	for (size_t i = 0; i < resolve->host_count; i++)
		resolve_host(resolve, &resolve->hosts[i], 0);
}

static void take_addresses(struct resolve_job *resolve)
{
	struct service *service = &resolve->agent->service;

	service->resolved_ns = clock_monotonic_ns();
	service->why = resolve->why;
	if (resolve->address_count == 0)
		return; /* those found before stay */
	memcpy(service->addresses, resolve->addresses, sizeof(service->addresses));
	service->address_count = resolve->address_count;
}

static void resolved(struct worker_job *job)
{
	struct resolve_job *resolve = container_of(job, struct resolve_job, job);
	struct agent *agent = resolve->agent;

	must(agent->service.is_resolving);
	agent->service.is_resolving = false;
	take_addresses(resolve);
	free(resolve);
	agent_job_done(agent);
}

static struct resolve_job *resolve_create(struct agent *agent)
{
	const struct agent_config *config = agent->config;
	struct resolve_job *resolve = calloc(1, sizeof(*resolve));

	must(resolve);
	must(config->access_points.count <= AGENT_HOSTS_MAX);
	resolve->agent = agent;
	resolve->job.work = resolve_all;
	resolve->job.done = resolved;
	for (size_t i = 0; i < config->access_points.count; i++)
		host_address(config->access_points.items[i], (uint16_t)config->port,
			     &resolve->hosts[resolve->host_count++]);
	return resolve;
}

/* Look the names up again, if there are any and the last time was a while ago. */
static void resolve_again(struct agent *agent)
{
	struct service *service = &agent->service;
	struct resolve_job *resolve;

	if (!service->has_names || service->is_resolving || agent->state == AGENT_LEAVING)
		return;
	if (service->resolved_ns && clock_monotonic_ns() - service->resolved_ns < RESOLVE_AGAIN_SECONDS * NS_PER_SEC)
		return;
	resolve = resolve_create(agent);
	service->is_resolving = true;
	if (agent_job_start(agent, &resolve->job) != 0) {
		service->is_resolving = false;
		free(resolve);
	}
}

void service_open(struct agent *agent)
{
	struct service *service = &agent->service;
	struct resolve_job *resolve = resolve_create(agent);

	TAILQ_INIT(&service->calls);
	for (size_t i = 0; i < resolve->host_count; i++)
		resolve_host(resolve, &resolve->hosts[i], AI_NUMERICHOST);
	service->has_names = resolve->why.error != 0;
	if (!service->has_names)
		take_addresses(resolve);
	free(resolve);
	resolve_again(agent);
}

/* ---- a call ---- */

static void try_places(struct service_call *call);

static void end_call(struct service_call *call, const ProtobufCMessage *response, const struct fathom_fault *why)
{
	struct agent *agent = call->agent;
	const struct service_request request = call->request;

	must(!call->is_asking);
	must(response || (why && why->error < 0));
	deadline_clear(&agent->deadlines, &call->wait);
	TAILQ_REMOVE(&agent->service.calls, call, link);
	agent->stats.service_failures += !response;
	probe_agent_service_answered(reactor_now(), agent, trace_intern(request.name), response ? 0 : why->error,
				     call->tries, clock_ticks() - call->begin_tick);
	request.done(request.ctx, response, why);
	free(call);
}

static void fail_call(struct service_call *call, int error, const char *text)
{
	struct fathom_fault why = { 0 };

	why.error = fault(&why, error, "%s: %s", call->request.name, text);
	end_call(call, NULL, &why);
}

static void add_place(struct service_call *call, const char *address)
{
	if (!address[0] || call->place_count == PLACES_MAX)
		return;
	for (size_t i = 0; i < call->place_count; i++) {
		if (strcmp(call->places[i], address) == 0)
			return;
	}
	(void)text_copy(call->places[call->place_count++], GRPC_ADDRESS_BYTES_MAX, address); /* the same size */
}

static void start_round(struct deadline *deadline)
{
	struct service_call *call = container_of(deadline, struct service_call, wait);
	const struct service *service = &call->agent->service;

	call->place_count = call->place = 0;
	call->redirects = 0;
	for (size_t i = 0; i < service->address_count; i++)
		add_place(call, service->addresses[i]);
	if (call->place_count == 0 && service->why.error)
		call->last = service->why;
	try_places(call);
}

static void end_round(struct service_call *call)
{
	uint64_t now = clock_monotonic_ns();

	resolve_again(call->agent);
	if (now + call->pause_ns >= call->end_ns) {
		if (!call->last.error)
			call->last.error = fault(&call->last, -ETIMEDOUT,
						 "%s: the names of access_points were not resolved "
						 "in time",
						 call->request.name);
		end_call(call, NULL, call->uncertain.error ? &call->uncertain : &call->last);
		return;
	}
	deadline_set(&call->agent->deadlines, &call->wait, call->pause_ns, start_round);
	call->pause_ns = min_u64(2 * call->pause_ns, PAUSE_MAX_MS * NS_PER_MS);
}

static bool follow_redirect(struct service_call *call, const struct grpc_result *result)
{
	struct status_redirect redirect;
	char asked[GRPC_ADDRESS_BYTES_MAX];

	if (status_redirect(result, &redirect) < 0)
		return false;
	(void)text_copy(asked, sizeof(asked), call->places[call->place]); /* the same size */
	call->place_count = call->place = 0;
	if (++call->redirects > REDIRECTS_MAX)
		return true; /* the round ends: an election, or servers that name each other */
	if (strcmp(redirect.leader, asked) != 0)
		add_place(call, redirect.leader);
	for (size_t i = 0; i < redirect.replica_count; i++) {
		if (strcmp(redirect.replicas[i], asked) != 0)
			add_place(call, redirect.replicas[i]);
	}
	return true;
}

/* Whether another server, or the same one later, may answer. */
static bool is_temporary(const struct grpc_result *result, const struct fathom_fault *why)
{
	return result->is_unsent || result->error == -ETIMEDOUT || result->error == -ECONNRESET ||
	       result->error == -EPIPE || result->error == -ECONNREFUSED || result->error == -EHOSTUNREACH ||
	       result->error == -ENETUNREACH || result->code == GRPC_UNAVAILABLE ||
	       result->code == GRPC_DEADLINE_EXCEEDED || why->code == FAULT_NOT_STARTED;
}

/* Keep a failure that the call's maker must know, whatever later tries find. */
static void note_uncertain(struct service_call *call, const struct grpc_result *result)
{
	bool is_lost = result->error == -ETIMEDOUT || result->error == -ECONNRESET || result->error == -EPIPE ||
		       result->code == GRPC_DEADLINE_EXCEEDED;

	if (is_lost && !result->is_unsent && !call->uncertain.error)
		call->uncertain = call->last;
}

static void answered(void *ctx, const struct grpc_result *result)
{
	struct service_call *call = ctx;

	must(call->is_asking);
	call->is_asking = false;
	if (result->code == GRPC_OK) {
		end_call(call, result->response, NULL);
		return;
	}
	if (call->agent->state == AGENT_LEAVING) {
		fail_call(call, -ECANCELED, "the agent ends");
		return;
	}
	fault_from_result(result, call->places[call->place], &call->last);
	if (follow_redirect(call, result)) {
		try_places(call);
	} else if (is_temporary(result, &call->last)) {
		note_uncertain(call, result);
		call->place++;
		try_places(call);
	} else {
		end_call(call, NULL, &call->last);
	}
}

/* Limit the time for a place, so that a server that hangs does not use up the time for the others. */
static uint64_t time_for_place(const struct service_call *call, uint64_t left)
{
	size_t others = call->place_count - call->place - 1;

	if (others == 0)
		return left;
	return min_u64(left, max_u64(PLACE_SECONDS_MIN * NS_PER_SEC, left / (others + 1)));
}

static void try_places(struct service_call *call)
{
	uint64_t now = clock_monotonic_ns();

	for (; call->place < call->place_count && now < call->end_ns; call->place++) {
		struct grpc_result unsent = { .code = GRPC_UNAVAILABLE, .is_unsent = true };
		const struct grpc_request request = {
			.address = call->places[call->place],
			.path = call->request.path,
			.message = call->request.message,
			.response = call->request.response,
			.timeout_ns = time_for_place(call, call->end_ns - now),
			.done = answered,
			.ctx = call,
		};

		unsent.error = grpc_client_call(call->agent->client, &request);
		if (unsent.error == 0) {
			call->tries++;
			call->is_asking = true;
			return;
		}
		fault_from_result(&unsent, call->places[call->place], &call->last);
	}
	end_round(call);
}

void service_start(struct agent *agent, const struct service_request *request)
{
	struct service_call *call = calloc(1, sizeof(*call));

	must(call);
	must(request->done && request->message && request->response && request->timeout_ns > 0);
	call->agent = agent;
	call->request = *request;
	call->begin_tick = clock_ticks();
	call->end_ns = clock_monotonic_ns() + request->timeout_ns;
	call->pause_ns = PAUSE_MIN_MS * NS_PER_MS;
	agent->stats.service_calls++;
	TAILQ_INSERT_TAIL(&agent->service.calls, call, link);
	deadline_set(&agent->deadlines, &call->wait, 0, start_round);
}

void service_close(struct agent *agent)
{
	struct service_call *call, *next;

	must(agent->state == AGENT_LEAVING || agent->state == AGENT_OPENING);
	TAILQ_FOREACH_SAFE (call, &agent->service.calls, link, next) {
		if (!call->is_asking)
			fail_call(call, -ECANCELED, "the agent ends");
	}
	/* the rest ends when the client is destroyed */
}
