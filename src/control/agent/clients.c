/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes with pool handles. A pidfd tells when one ends, by whatever cause, and its handles are evicted.
 *
 *     NOTIFY_POOL_CONNECT    -> a handle of the caller's process, which is monitored from then on
 *     NOTIFY_POOL_DISCONNECT -> without it
 *     NOTIFY_EXIT, or the end of the process -> its handles wait for their eviction, one call at a time, one pool a call
 *
 * The caller cannot speak for another process: the kernel names it. Handles of a process, a user and the host are limited;
 * those that wait for their eviction count, too.
 * What is not evicted after some tries is lost, and counted: the servers evict it when an operator asks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "control/agent/internal.h"
#include "control/agent/probes.gen.h"

enum {
	HANDLES_A_PROCESS = 256,
	HANDLES_A_USER = 16384,
	HANDLES_MAX = 65536,
	CLIENTS_A_USER = 1024,
	EVICTED_AT_ONCE = 1024,
	EVICT_SECONDS = 30,
	EVICT_LEAVING_SECONDS = 3,
};

struct client_handle {
	TAILQ_ENTRY(client_handle) link;
	uid_t uid;		   /* of its process */
	char pool[37], handle[37]; /* UUIDs as text */
};

/* ---- eviction ---- */

static void evict_next(struct agent *agent);

static void free_handles(struct agent *agent, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct client_handle *handle = TAILQ_FIRST(&agent->clients.evictions);

		TAILQ_REMOVE(&agent->clients.evictions, handle, link);
		must(agent->clients.handle_count > 0);
		agent->clients.handle_count--;
		free(handle);
	}
}

static void evicted(void *ctx, const ProtobufCMessage *response, const struct fathom_fault *why)
{
	static struct log_limit limit = LOG_LIMIT(5, NS_PER_SEC);
	struct agent *agent = ctx;
	struct clients *clients = &agent->clients;
	const Agent__EvictResp *answer = (const Agent__EvictResp *)response;
	bool is_evicted = answer && answer->status == 0;

	must(clients->is_evicting);
	clients->is_evicting = false;
	if (is_evicted)
		agent->stats.handles_evicted += clients->eviction_count;
	else
		agent->stats.handles_lost += clients->eviction_count;
	if (!is_evicted)
		log_line_limited(&limit, clock_monotonic_ns(), LOG_LEVEL_INFO, "%u pool handles were not evicted: %s",
				 clients->eviction_count, answer ? "the servers refuse it" : why->text);
	probe_agent_evicted(reactor_now(), agent, clients->eviction_count, answer ? answer->status : why->error);
	free_handles(agent, clients->eviction_count);
	free(clients->request_handles);
	clients->request_handles = NULL;
	clients->eviction_count = 0;
	evict_next(agent);
}

/* Evict the first handle that waits, together with those of the same pool behind it. */
static void evict_next(struct agent *agent)
{
	struct clients *clients = &agent->clients;
	struct client_handle *first = TAILQ_FIRST(&clients->evictions), *handle = first;

	if (!first || clients->is_evicting || clients->is_over)
		return;
	clients->request_handles = calloc(EVICTED_AT_ONCE, sizeof(*clients->request_handles));
	must(clients->request_handles);
	for (; handle && clients->eviction_count < EVICTED_AT_ONCE && strcmp(handle->pool, first->pool) == 0;
	     handle = TAILQ_NEXT(handle, link))
		clients->request_handles[clients->eviction_count++] = handle->handle;
	agent__evict_req__init(&clients->request);
	clients->request.sys = agent->system;
	clients->request.id = first->pool;
	clients->request.handles = clients->request_handles;
	clients->request.n_handles = clients->eviction_count;
	clients->is_evicting = true;
	service_start(agent, &(struct service_request){
				     .path = "/mgmt.MgmtSvc/PoolEvict",
				     .name = "eviction of pool handles",
				     .message = &clients->request.base,
				     .response = &agent__evict_resp__descriptor,
				     .timeout_ns = (agent->state == AGENT_LEAVING ? EVICT_LEAVING_SECONDS : EVICT_SECONDS) *
						   NS_PER_SEC,
				     .done = evicted,
				     .ctx = agent,
			     });
}

/* ---- processes ---- */

static struct agent_client *find_client(struct agent *agent, pid_t pid)
{
	struct agent_client *client;

	TAILQ_FOREACH (client, &agent->clients.list, link) {
		if (client->pid == pid)
			return client;
	}
	return NULL;
}

/* Its handles wait for their eviction, unless the configuration leaves them. Frees it. */
static void end_client(struct agent_client *client, bool said)
{
	struct agent *agent = client->agent;
	struct client_handle *handle;

	probe_agent_client_ended(reactor_now(), client, client->pid, client->handle_count, said);
	agent->stats.clients_ended++;
	agent_client_state_move(reactor_now(), client, AGENT_CLIENT_ENDED);
	while ((handle = TAILQ_FIRST(&client->handles))) {
		TAILQ_REMOVE(&client->handles, handle, link);
		if (agent->config->disable_auto_evict) {
			agent->clients.handle_count--;
			free(handle);
		} else {
			TAILQ_INSERT_TAIL(&agent->clients.evictions, handle, link);
		}
	}
	TAILQ_REMOVE(&agent->clients.list, client, link);
	must(agent->clients.count > 0);
	agent->clients.count--;
	fd_watch_remove(&client->watch);
	close(client->pid_fd);
	agent_client_state_move(reactor_now(), client, AGENT_CLIENT_NONE);
	free(client);
	evict_next(agent);
}

static void process_ended(void *ctx, uint32_t events)
{
	end_client(ctx, false);
}

/* Its processes; `handles_ret`: its handles, with those that wait for their eviction. */
static uint32_t clients_of(const struct agent *agent, uid_t uid, uint32_t *handles_ret)
{
	const struct client_handle *handle;
	const struct agent_client *client;
	uint32_t count = 0;

	*handles_ret = 0;
	TAILQ_FOREACH (handle, &agent->clients.evictions, link)
		*handles_ret += handle->uid == uid;
	TAILQ_FOREACH (client, &agent->clients.list, link) {
		if (client->uid != uid)
			continue;
		count++;
		*handles_ret += client->handle_count;
	}
	return count;
}

/*
 * A pidfd of the process. It may have ended since it connected, and its number may be another's: then the owner is likely
 * another one, or the process of the same user is monitored instead, which evicts the handles later. -errno.
 */
static int open_process(const struct drpc_peer *peer)
{
	char path[32];
	struct stat status;
	int fd = (int)syscall(SYS_pidfd_open, peer->pid, 0);

	if (fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/%d", peer->pid);
	if (stat(path, &status) == 0 && (status.st_uid == peer->uid || status.st_uid == 0))
		return fd; /* of root, if it cannot be dumped */
	close(fd);
	return -ESRCH;
}

static struct agent_client *client_create(struct agent *agent, const struct drpc_peer *peer)
{
	struct agent_client *client;
	int fd = open_process(peer);

	if (fd < 0)
		return NULL;
	client = calloc(1, sizeof(*client));
	must(client);
	trace_object_init(&client->trace, TRACE_OBJECT_AGENT_CLIENT);
	client->agent = agent;
	client->pid = peer->pid;
	client->uid = peer->uid;
	client->pid_fd = fd;
	TAILQ_INIT(&client->handles);
	client->watch = fd_watch_add(fd, EPOLLIN, process_ended, client);
	if (!client->watch) {
		close(fd);
		free(client);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&agent->clients.list, client, link);
	agent->clients.count++;
	agent_client_state_move(reactor_now(), client, AGENT_CLIENT_MONITORED);
	return client;
}

/* ---- methods ---- */

static void reply(struct drpc_call *call, int status)
{
	Agent__StatusResp response = AGENT__STATUS_RESP__INIT;

	response.status = status;
	drpc_reply(call, &response.base);
}

static struct client_handle *find_handle(struct agent_client *client, const char *pool, const char *uuid)
{
	struct client_handle *handle;

	TAILQ_FOREACH (handle, &client->handles, link) {
		if (strcmp(handle->pool, pool) == 0 && strcmp(handle->handle, uuid) == 0)
			return handle;
	}
	return NULL;
}

static bool is_within_limits(struct agent *agent, const struct drpc_peer *peer, const struct agent_client *client)
{
	uint32_t handles, count;

	if (agent->clients.handle_count >= HANDLES_MAX || (!client && agent->clients.count >= AGENT_CLIENTS_MAX))
		return false;
	if (client && client->handle_count >= HANDLES_A_PROCESS)
		return false;
	if (peer->uid == 0)
		return true;
	count = clients_of(agent, peer->uid, &handles);
	return handles < HANDLES_A_USER && (client || count < CLIENTS_A_USER);
}

/* Write UUIDs in one form, so that they can be compared. */
static bool read_uuids(const Agent__PoolMonitorReq *request, struct client_handle *handle_ret)
{
	uuid_t pool, handle;

	if (uuid_parse(request->pool_uuid, pool) != 0 || uuid_parse(request->handle_uuid, handle) != 0)
		return false;
	uuid_unparse_lower(pool, handle_ret->pool);
	uuid_unparse_lower(handle, handle_ret->handle);
	return true;
}

static int add_handle(struct agent *agent, const struct drpc_peer *peer, const struct client_handle *wanted)
{
	struct agent_client *client = find_client(agent, peer->pid);
	struct client_handle *handle;

	if (agent->state == AGENT_LEAVING)
		return AGENT_STATUS_BUSY; /* it would not be monitored */
	if (client && find_handle(client, wanted->pool, wanted->handle))
		return 0;
	if (!is_within_limits(agent, peer, client)) {
		agent->stats.handles_refused++;
		return AGENT_STATUS_BUSY;
	}
	if (!client)
		client = client_create(agent, peer);
	if (!client)
		return AGENT_STATUS_MISC;
	handle = malloc(sizeof(*handle));
	must(handle);
	*handle = *wanted;
	handle->uid = client->uid;
	TAILQ_INSERT_TAIL(&client->handles, handle, link);
	client->handle_count++;
	agent->clients.handle_count++;
	probe_agent_client_handle(reactor_now(), client, client->pid, client->handle_count);
	return 0;
}

void call_notify_connect(struct drpc_call *call, const ProtobufCMessage *request)
{
	struct client_handle handle;

	if (read_uuids((const Agent__PoolMonitorReq *)request, &handle))
		reply(call, add_handle(drpc_call_ctx(call), drpc_call_peer(call), &handle));
	else
		reply(call, AGENT_STATUS_INVALID);
}

void call_notify_disconnect(struct drpc_call *call, const ProtobufCMessage *request)
{
	struct agent *agent = drpc_call_ctx(call);
	struct agent_client *client = find_client(agent, drpc_call_peer(call)->pid);
	struct client_handle wanted, *handle = NULL;

	if (!read_uuids((const Agent__PoolMonitorReq *)request, &wanted)) {
		reply(call, AGENT_STATUS_INVALID);
		return;
	}
	if (client)
		handle = find_handle(client, wanted.pool, wanted.handle);
	if (!handle) {
		reply(call, AGENT_STATUS_NOT_FOUND);
		return;
	}
	TAILQ_REMOVE(&client->handles, handle, link);
	client->handle_count--;
	agent->clients.handle_count--;
	free(handle);
	if (client->handle_count == 0)
		end_client(client, true);
	reply(call, 0);
}

void call_notify_exit(struct drpc_call *call, const ProtobufCMessage *request)
{
	struct agent_client *client = find_client(drpc_call_ctx(call), drpc_call_peer(call)->pid);

	if (client)
		end_client(client, true);
	drpc_reply(call, NULL);
}

/* ---- life ---- */

void clients_open(struct agent *agent)
{
	TAILQ_INIT(&agent->clients.list);
	TAILQ_INIT(&agent->clients.evictions);
}

void clients_leave(struct agent *agent)
{
	struct agent_client *client;

	while ((client = TAILQ_FIRST(&agent->clients.list)))
		end_client(client, false);
}

void clients_stop(struct agent *agent)
{
	must(agent->state == AGENT_LEAVING);
	agent->clients.is_over = true;
}

bool clients_is_idle(const struct agent *agent)
{
	return !agent->clients.is_evicting && !TAILQ_FIRST(&agent->clients.evictions);
}

void clients_close(struct agent *agent)
{
	must(!TAILQ_FIRST(&agent->clients.list));
	must(!agent->clients.is_evicting);
	free_handles(agent, (uint32_t)agent->clients.handle_count);
}
