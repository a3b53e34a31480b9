/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The attach information: one copy for all clients, refreshed by one call at a time.
 *
 *     no copy   -> a client waits for the refresh, for some seconds, then gets a fault
 *     a copy    -> a client gets it at once, with its age, however old; after cache_expiration it is refreshed as well
 *     a client says that it is stale (REFRESH, with its version) -> it waits for a refresh, then gets the copy, new or old;
 *                                                                  at most one refresh begins in a second
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "control/agent/internal.h"
#include "control/agent/probes.gen.h"

enum {
	REFRESH_SECONDS = 5, /* of a refresh, and so of a client's wait for one */
	WAITERS_MAX = AGENT_CONNECTIONS_MAX,
	SCAN_SECONDS = 2, /* without its result, clients are answered without an interface */
	STALE_AGAIN_MS = 1000,
	RETRY_MIN_MS = 1000,
	RETRY_MAX_MS = 30000,
	MINUTE_SECONDS = 60,
};

/* A call that waits for the refresh under way. */
struct attach_waiter {
	TAILQ_ENTRY(attach_waiter) link;
	struct drpc_call *call;
	const Mgmt__GetAttachInfoReq *request; /* NULL: of REFRESH */
};

/* ---- answers ---- */

/* The answer of one client: the copy with parts of its own. */
struct attach_answer {
	Mgmt__GetAttachInfoResp message;
	Mgmt__ClientNetHint hint;
	Mgmt__GetAttachInfoResp__RankUri **uris;
	Mgmt__FabricInterface interfaces[FABRIC_INTERFACES_MAX], *lists[FABRIC_INTERFACES_MAX][FABRIC_INTERFACES_MAX];
	Mgmt__FabricInterfaces nodes[FABRIC_INTERFACES_MAX], *node_list[FABRIC_INTERFACES_MAX];
};

static void reply_status(struct agent *agent, struct drpc_call *call, int status)
{
	Mgmt__GetAttachInfoResp response = MGMT__GET_ATTACH_INFO_RESP__INIT;

	must(status != 0);
	response.status = status;
	agent->stats.attach_info_failures++;
	drpc_reply(call, &response.base);
}

static bool has_rank(const uint32_t *ranks, size_t count, uint32_t rank)
{
	for (size_t i = 0; i < count; i++) {
		if (ranks[i] == rank)
			return true;
	}
	return false;
}

/* Without all_ranks, a client gets those of the management service. */
static void select_ranks(const Mgmt__GetAttachInfoReq *request, struct attach_answer *answer)
{
	Mgmt__GetAttachInfoResp *message = &answer->message;
	size_t count = 0;

	if (!request || request->all_ranks || message->n_ms_ranks == 0)
		return;
	answer->uris = calloc(message->n_rank_uris + 1, sizeof(*answer->uris));
	must(answer->uris);
	for (size_t i = 0; i < message->n_rank_uris; i++) {
		if (has_rank(message->ms_ranks, message->n_ms_ranks, message->rank_uris[i]->rank))
			answer->uris[count++] = message->rank_uris[i];
	}
	message->rank_uris = answer->uris;
	message->n_rank_uris = count;
}

/* The interfaces of this host, by NUMA node. */
static void add_nodes(const struct fabric *fabric, const char *provider, struct attach_answer *answer)
{
	Mgmt__GetAttachInfoResp *message = &answer->message;

	message->n_numa_fabric_interfaces = 0;
	message->numa_fabric_interfaces = answer->node_list;
	for (size_t i = 0; i < fabric->count; i++) {
		Mgmt__FabricInterface *interface = &answer->interfaces[i];
		size_t at = 0;

		mgmt__fabric_interface__init(interface);
		interface->numa_node = fabric->interfaces[i].numa_node < 0 ? 0 : (uint32_t)fabric->interfaces[i].numa_node;
		interface->interface = (char *)fabric->interfaces[i].name;
		interface->domain = (char *)fabric->interfaces[i].domain;
		interface->provider = (char *)provider;
		while (at < message->n_numa_fabric_interfaces && answer->nodes[at].numa_node != interface->numa_node)
			at++;
		if (at == message->n_numa_fabric_interfaces) {
			mgmt__fabric_interfaces__init(&answer->nodes[at]);
			answer->nodes[at].numa_node = interface->numa_node;
			answer->nodes[at].ifaces = answer->lists[at];
			answer->node_list[message->n_numa_fabric_interfaces++] = &answer->nodes[at];
		}
		answer->lists[at][answer->nodes[at].n_ifaces++] = interface;
	}
}

static enum network_class class_of(const Mgmt__ClientNetHint *hint)
{
	enum network_class class;

	if (!hint || hint->net_dev_class == 0)
		return NETWORK_CLASSES;
	class = network_class_of(hint->net_dev_class);
	return class == NETWORK_CLASS_OTHER ? NETWORK_CLASSES : class;
}

/* What the client asks for wins, even if this host has no such interface. */
static void choose_interface(struct agent *agent, struct drpc_call *call, const Mgmt__GetAttachInfoReq *request,
			     struct attach_answer *answer, int node)
{
	const Mgmt__ClientNetHint *given = agent->attach_info.info->client_net_hint;
	const struct fabric_interface *chosen = fabric_choose(&agent->attach_info.fabric, node, class_of(given));

	if (given)
		answer->hint = *given;
	else
		mgmt__client_net_hint__init(&answer->hint);
	answer->message.client_net_hint = &answer->hint;
	if (chosen) {
		answer->hint.interface = (char *)chosen->name;
		answer->hint.domain = (char *)chosen->domain;
	}
	if (request && request->interface[0]) {
		answer->hint.interface = request->interface;
		answer->hint.domain = request->domain[0] ? request->domain : request->interface;
	}
}

static void reply_copy(struct agent *agent, struct drpc_call *call, const Mgmt__GetAttachInfoReq *request)
{
	struct attach_info *info = &agent->attach_info;
	struct attach_answer *answer = calloc(1, sizeof(*answer));
	uint64_t age_ns = clock_monotonic_ns() - info->at_ns;
	int32_t pid = drpc_call_peer(call)->pid;
	int node = fabric_node_of(provider_system(), pid);

	must(answer);
	must(info->info);
	answer->message = *info->info;
	select_ranks(request, answer);
	choose_interface(agent, call, request, answer, node);
	add_nodes(&info->fabric, answer->hint.provider, answer);
	answer->message.age_ms = age_ns / NS_PER_MS;
	probe_agent_attach_info(reactor_now(), agent, pid, node, trace_intern_foreign(answer->hint.interface), age_ns);
	drpc_reply(call, &answer->message.base);
	free(answer->uris);
	free(answer);
}

/* ---- waiting ---- */

static void answer_waiters(struct agent *agent)
{
	struct attach_info *info = &agent->attach_info;
	struct attach_waiter *waiter;

	while ((waiter = TAILQ_FIRST(&info->waiters))) {
		TAILQ_REMOVE(&info->waiters, waiter, link);
		must(info->waiter_count > 0);
		info->waiter_count--;
		if (info->info && !(waiter->request && info->why.error && agent->config->disable_caching))
			reply_copy(agent, waiter->call, waiter->request);
		else
			reply_status(agent, waiter->call, agent_status_of(&info->why));
		free(waiter);
	}
}

static void wait_for_refresh(struct agent *agent, struct drpc_call *call, const Mgmt__GetAttachInfoReq *request)
{
	struct attach_info *info = &agent->attach_info;
	struct attach_waiter *waiter;

	if (info->waiter_count == WAITERS_MAX) {
		reply_status(agent, call, AGENT_STATUS_BUSY);
		return;
	}
	waiter = calloc(1, sizeof(*waiter));
	must(waiter);
	waiter->call = call;
	waiter->request = request;
	TAILQ_INSERT_TAIL(&info->waiters, waiter, link);
	info->waiter_count++;
	attach_info_refresh(agent);
}

/* ---- the refresh ---- */

struct fabric_scan_job {
	struct worker_job job;
	struct agent *agent;
	struct network_scan scan;
	uint64_t begin_ns;
	int error;
	struct fathom_fault why;
};

static void scan_interfaces(struct worker_job *job)
{
	struct fabric_scan_job *scan = container_of(job, struct fabric_scan_job, job);

	scan->error = network_scan(provider_system(), &scan->scan, &scan->why);
}

static void interfaces_scanned(struct worker_job *job)
{
	struct fabric_scan_job *scan = container_of(job, struct fabric_scan_job, job);
	struct agent *agent = scan->agent;
	struct attach_info *info = &agent->attach_info;

	must(info->scan == scan);
	info->scan = NULL;
	if (scan->error)
		agent_log_fault(LOG_LEVEL_WARNING, "the network interfaces: ", &scan->why);
	else
		fabric_fill(&info->fabric, agent->config, &scan->scan);
	network_scan_free(&scan->scan);
	free(scan);
	if (!info->is_refreshing)
		answer_waiters(agent); /* those of the first refresh have waited for the interfaces, too */
	agent_job_done(agent);
}

static void start_scan(struct agent *agent)
{
	struct attach_info *info = &agent->attach_info;
	struct fabric_scan_job *scan;

	if (info->scan || agent->config->fabric_ifaces.count > 0)
		return;
	scan = calloc(1, sizeof(*scan));
	must(scan);
	scan->agent = agent;
	scan->begin_ns = clock_monotonic_ns();
	scan->job.work = scan_interfaces;
	scan->job.done = interfaces_scanned;
	info->scan = scan;
	if (agent_job_start(agent, &scan->job) != 0) {
		info->scan = NULL;
		free(scan);
	}
}

static void refresh_when_due(struct deadline *deadline)
{
	attach_info_refresh(container_of(deadline, struct agent, attach_info.due));
}

static void plan_refresh(struct agent *agent)
{
	struct attach_info *info = &agent->attach_info;
	uint64_t after_ns = agent->config->cache_expiration * MINUTE_SECONDS * NS_PER_SEC;

	if (info->why.error)
		after_ns = min_u64((RETRY_MIN_MS * NS_PER_MS) << min_u64(info->failures, 10), RETRY_MAX_MS * NS_PER_MS);
	if (agent->state != AGENT_LEAVING && after_ns > 0)
		deadline_set(&agent->deadlines, &info->due, after_ns, refresh_when_due);
}

static void take_info(struct attach_info *info, const ProtobufCMessage *response)
{
	size_t bytes = protobuf_c_message_get_packed_size(response);
	uint8_t *packed = malloc(bytes + 1);

	must(packed);
	(void)protobuf_c_message_pack(response, packed); /* returns the size again */
	if (info->info)
		mgmt__get_attach_info_resp__free_unpacked(info->info, NULL);
	info->info = mgmt__get_attach_info_resp__unpack(NULL, bytes, packed);
	must(info->info);
	free(packed);
	info->at_ns = clock_monotonic_ns();
}

static void log_refresh(struct agent *agent, const struct fathom_fault *before)
{
	const struct attach_info *info = &agent->attach_info;

	if (info->why.error && !before->error)
		agent_log_fault(LOG_LEVEL_WARNING, "the attach information was not refreshed: ", &info->why);
	else if (!info->why.error && before->error)
		log_notice("the attach information was refreshed, version %llu",
			   (unsigned long long)info->info->data_version);
}

static void refreshed(void *ctx, const ProtobufCMessage *response, const struct fathom_fault *why)
{
	struct agent *agent = ctx;
	struct attach_info *info = &agent->attach_info;
	const struct fathom_fault before = info->why;
	const Mgmt__GetAttachInfoResp *answer = (const Mgmt__GetAttachInfoResp *)response;

	must(info->is_refreshing);
	info->is_refreshing = false;
	info->why = (struct fathom_fault){ 0 };
	if (answer && answer->status == 0)
		take_info(info, response);
	else if (answer)
		info->why.error = fault(&info->why, -EREMOTEIO, "the servers answer with DAOS's status %d", answer->status);
	else
		info->why = *why;
	info->failures = info->why.error ? info->failures + 1 : 0;
	agent->stats.refresh_failures += info->why.error != 0;
	probe_agent_refreshed(reactor_now(), agent, info->why.error, info->info ? info->info->data_version : 0,
			      info->waiter_count, clock_ticks_from_ns(clock_monotonic_ns() - info->asked_ns));
	if (agent->state != AGENT_LEAVING)
		log_refresh(agent, &before);
	plan_refresh(agent);
	if (!info->scan || info->why.error || clock_monotonic_ns() - info->scan->begin_ns > SCAN_SECONDS * NS_PER_SEC)
		answer_waiters(agent);
	else if (agent->state != AGENT_LEAVING)
		deadline_set(&agent->deadlines, &info->due, SCAN_SECONDS * NS_PER_SEC, refresh_when_due);
}

void attach_info_refresh(struct agent *agent)
{
	struct attach_info *info = &agent->attach_info;

	if (info->is_refreshing || agent->state == AGENT_LEAVING)
		return;
	deadline_clear(&agent->deadlines, &info->due);
	info->is_refreshing = true;
	info->asked_ns = clock_monotonic_ns();
	agent->stats.refreshes++;
	mgmt__get_attach_info_req__init(&info->request);
	info->request.sys = agent->system;
	info->request.all_ranks = true;
	start_scan(agent);
	service_start(agent, &(struct service_request){
				     .path = "/mgmt.MgmtSvc/GetAttachInfo",
				     .name = "attach information",
				     .message = &info->request.base,
				     .response = &mgmt__get_attach_info_resp__descriptor,
				     .timeout_ns = REFRESH_SECONDS * NS_PER_SEC,
				     .done = refreshed,
				     .ctx = agent,
			     });
}

void attach_info_open(struct agent *agent)
{
	TAILQ_INIT(&agent->attach_info.waiters);
	fabric_fill(&agent->attach_info.fabric, agent->config, NULL);
	attach_info_refresh(agent);
}

void attach_info_close(struct agent *agent)
{
	struct attach_info *info = &agent->attach_info;

	must(!info->is_refreshing);
	must(!info->scan);
	deadline_clear(&agent->deadlines, &info->due);
	if (TAILQ_FIRST(&info->waiters))
		answer_waiters(agent);
	must(info->waiter_count == 0);
	if (info->info)
		mgmt__get_attach_info_resp__free_unpacked(info->info, NULL);
}

/* ---- methods ---- */

/* "fathom" or "fathom-0.1.0"; "" is the agent's system. */
static bool is_our_system(const struct agent *agent, const char *name)
{
	size_t bytes = strlen(agent->config->name);

	return !name[0] || (strncmp(name, agent->config->name, bytes) == 0 && (!name[bytes] || name[bytes] == '-'));
}

void call_get_attach_info(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Mgmt__GetAttachInfoReq *request = (const Mgmt__GetAttachInfoReq *)message;
	struct agent *agent = drpc_call_ctx(call);
	struct attach_info *info = &agent->attach_info;
	uint64_t expires_ns = agent->config->cache_expiration * MINUTE_SECONDS * NS_PER_SEC;

	agent->stats.attach_info_calls++;
	if (!is_our_system(agent, request->sys)) {
		reply_status(agent, call, AGENT_STATUS_INVALID);
		return;
	}
	if (!info->info || agent->config->disable_caching || (info->scan && info->fabric.count == 0)) {
		wait_for_refresh(agent, call, request);
		return;
	}
	if (expires_ns && clock_monotonic_ns() - info->at_ns > expires_ns && !info->why.error)
		attach_info_refresh(agent);
	reply_copy(agent, call, request);
}

void call_refresh(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Agent__RefreshReq *request = (const Agent__RefreshReq *)message;
	struct agent *agent = drpc_call_ctx(call);
	struct attach_info *info = &agent->attach_info;
	bool is_newer, is_recent;

	agent->stats.stale_reports++;
	if (!is_our_system(agent, request->sys)) {
		reply_status(agent, call, AGENT_STATUS_INVALID);
		return;
	}
	is_newer = info->info && info->info->data_version > request->data_version;
	is_recent = !info->is_refreshing && clock_monotonic_ns() - info->asked_ns < STALE_AGAIN_MS * NS_PER_MS;
	if (info->info && (is_newer || is_recent))
		reply_copy(agent, call, NULL);
	else
		wait_for_refresh(agent, call, NULL);
}
