/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's life: opens its parts, answers by its table of methods, closes them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/agent/internal.h"
#include "control/agent/probes.gen.h"
#include "control/fault/fault.h"
#include "control/status/certificate.h"

enum { PATH_BYTES = 4352, LEAVE_SECONDS = 5, LEAVE_LOOK_MS = 10, CONNECTIONS_A_PROCESS = 64 };

#define DAOS_SOCKET "daos_agent.sock" /* the name that DAOS's clients open; a link to ours */

static const struct drpc_method methods[] = {
	{ DRPC_MODULE_SEC_AGENT, DRPC_SEC_AGENT_REQUEST_CREDS, "REQUEST_CREDS", NULL, call_request_credentials },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_GET_ATTACH_INFO, "GET_ATTACH_INFO", &mgmt__get_attach_info_req__descriptor,
	  call_get_attach_info },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_NOTIFY_EXIT, "NOTIFY_EXIT", NULL, call_notify_exit },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_NOTIFY_POOL_CONNECT, "NOTIFY_POOL_CONNECT", &agent__pool_monitor_req__descriptor,
	  call_notify_connect },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_NOTIFY_POOL_DISCONNECT, "NOTIFY_POOL_DISCONNECT",
	  &agent__pool_monitor_req__descriptor, call_notify_disconnect },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_SETUP_CLIENT_TELEM, "SETUP_CLIENT_TELEM", &agent__client_telemetry_req__descriptor,
	  call_setup_telemetry },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_STATS, "STATS", &fathom__stats_req__descriptor, call_agent_stats },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_ATTACH, "ATTACH", &agent__attach_req__descriptor, call_attach },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_DETACH, "DETACH", &agent__detach_req__descriptor, call_detach },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_LIST, "LIST", &agent__list_req__descriptor, call_list },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_REFRESH, "REFRESH", &agent__refresh_req__descriptor, call_refresh },
};

/* ---- for the parts ---- */

void agent_log_fault(int level, const char *prefix, const struct fathom_fault *why)
{
	char text[FAULT_LINES_BYTES_MAX], *rest = text, *line;
	struct fault_shown shown;

	must(why->error < 0);
	fault_show(why, &shown);
	fault_print(&shown, prefix, text, sizeof(text));
	while ((line = strsep(&rest, "\n")) && line[0])
		log_line((enum log_level)level, "%s", line);
}

enum agent_status agent_status_of(const struct fathom_fault *why)
{
	switch (why->error) {
	case -EACCES:
	case -EPERM:
		return AGENT_STATUS_NO_PERMISSION;
	case -ENOMEM:
		return AGENT_STATUS_NO_MEMORY;
	case -ETIMEDOUT:
		return AGENT_STATUS_TIMED_OUT;
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -ENOENT: /* a host's name */
		return AGENT_STATUS_UNREACHABLE;
	default:
		return AGENT_STATUS_MISC;
	}
}

int agent_job_start(struct agent *agent, struct worker_job *job)
{
	int error = worker_start(job);

	agent->jobs += error == 0;
	return error;
}

void agent_job_done(struct agent *agent)
{
	must(agent->jobs > 0);
	agent->jobs--;
}

void call_setup_telemetry(struct drpc_call *call, const ProtobufCMessage *request)
{
	Agent__ClientTelemetryResp response = AGENT__CLIENT_TELEMETRY_RESP__INIT;

	response.status = AGENT_STATUS_NOT_SUPPORTED; /* clients go on without telemetry */
	drpc_reply(call, &response.base);
}

/* ---- statistics ---- */

enum { GAUGES = 5 };
#define AGENT_STATS_ONE(name, meaning) +1
enum { COUNTERS = GAUGES AGENT_STATS(AGENT_STATS_ONE) };
#undef AGENT_STATS_ONE

struct counter {
	const char *name, *meaning;
	uint64_t value;
};

static void fill_counters(const struct agent *agent, struct counter counters_ret[static COUNTERS])
{
	const struct drpc_server_stats drpc = drpc_server_stats(agent->drpc);
	const struct attach_info *info = &agent->attach_info;
	size_t count = 0;

#define ADD_COUNTER(name, meaning) counters_ret[count++] = (struct counter){ #name, meaning, agent->stats.name };
	AGENT_STATS(ADD_COUNTER)
#undef ADD_COUNTER
	counters_ret[count++] = (struct counter){ "connections", "connections of clients now", drpc.connections };
	counters_ret[count++] = (struct counter){ "connections_refused",
						  "connections that were refused or closed: limits, invalid or late input",
						  drpc.refused_total };
	counters_ret[count++] = (struct counter){ "attach_info_age_ms", "age of the attach information; 0: there is none",
						  info->info ? (clock_monotonic_ns() - info->at_ns) / NS_PER_MS : 0 };
	counters_ret[count++] = (struct counter){ "clients", "processes that are monitored now", agent->clients.count };
	counters_ret[count++] = (struct counter){ "attachments", "attachments of this host now", agent->attachments.count };
	must(count == COUNTERS);
}

void call_agent_stats(struct drpc_call *call, const ProtobufCMessage *request)
{
	Fathom__StatsResp response = FATHOM__STATS_RESP__INIT;
	Fathom__StatsResp__Counter rows[COUNTERS], *places[COUNTERS];
	struct counter counters[COUNTERS];

	fill_counters(drpc_call_ctx(call), counters);
	for (size_t i = 0; i < COUNTERS; i++) {
		fathom__stats_resp__counter__init(&rows[i]);
		rows[i].group = (char *)"agent";
		rows[i].name = (char *)counters[i].name;
		rows[i].meaning = (char *)counters[i].meaning;
		rows[i].value = counters[i].value;
		places[i] = &rows[i];
	}
	response.counters = places;
	response.n_counters = COUNTERS;
	drpc_reply(call, &response.base);
}

/* ---- opening ---- */

static int open_certificates(struct agent *agent, struct fathom_fault *why)
{
	const struct agent_transport *transport = &agent->config->transport;
	const struct grpc_tls_options options = {
		.ca = transport->ca_cert,
		.certificate = transport->cert,
		.key = transport->key,
	};
	struct fathom_fault reason = { 0 };
	int error;

	if (transport->allow_insecure)
		return 0;
	error = grpc_tls_create(&options, &agent->tls, &reason);
	if (error)
		return fault_from_tls(&options, error, &reason, why);
	error = certificate_check(agent->tls, (int64_t)(clock_realtime_ns() / NS_PER_SEC), why);
	return error ? error : credential_key_read(transport->key, &agent->key, why);
}

static int open_client(struct agent *agent, struct fathom_fault *why)
{
	const struct grpc_client_options options = {
		.role = GRPC_ROLE_AGENT,
		.version = agent->options->version,
		.tls = agent->tls,
	};

	return grpc_client_create(&options, &agent->client, why);
}

/* DAOS's clients look for their own name of the socket. */
static void link_socket(const struct agent_config *config)
{
	char path[PATH_BYTES];

	must(snprintf(path, sizeof(path), "%s/" DAOS_SOCKET, config->runtime_dir) < (int)sizeof(path));
	if (unlink(path) != 0 && errno != ENOENT)
		log_warning("%s cannot be replaced: %s", path, strerror(errno));
	else if (symlink(AGENT_SOCKET, path) != 0)
		log_warning("%s cannot be made: %s", path, strerror(errno));
}

static int open_drpc(struct agent *agent, struct fathom_fault *why)
{
	const struct agent_config *config = agent->config;
	char path[PATH_BYTES];
	const struct drpc_server_options options = {
		.path = path,
		.methods = methods,
		.method_count = ARRAY_COUNT(methods),
		.ctx = agent,
		.mode = 0666,
		.option = "runtime_dir",
		.connections_max = (uint32_t)config->connections_max,
		.connections_a_user = (uint32_t)config->connections_a_user,
		.connections_a_process = CONNECTIONS_A_PROCESS,
		.message_bytes_max = 1 << 20,
	};
	int error;

	must(snprintf(path, sizeof(path), "%s/" AGENT_SOCKET, config->runtime_dir) < (int)sizeof(path));
	error = drpc_server_open(&options, &agent->drpc, why);
	if (error == -EADDRINUSE)
		return fault_socket_in_use(why, path);
	if (!error)
		link_socket(config);
	return error;
}

/* Close the parts that are open; no job is under way. */
static void close_all(struct agent *agent)
{
	must(agent->jobs == 0);
	must(agent->state == AGENT_LEAVING);
	service_close(agent);
	grpc_client_destroy(agent->client);
	attach_info_close(agent);
	identities_close(agent);
	clients_close(agent);
	attachments_close(agent);
	drpc_server_close(agent->drpc);
	credential_key_destroy(agent->key);
	grpc_tls_destroy(agent->tls);
	deadlines_deinit(&agent->deadlines);
	agent_state_move(reactor_now(), agent, AGENT_CLOSED);
	free(agent);
}

static int open_parts(struct agent *agent, struct fathom_fault *why)
{
	int error = open_certificates(agent, why);

	if (!error)
		error = open_client(agent, why);
	if (!error)
		error = open_drpc(agent, why);
	if (error)
		return error;
	service_open(agent);
	attach_info_open(agent);
	return attachments_open(agent, why);
}

int agent_open(const struct agent_options *options, struct agent **agent_ret, struct fathom_fault *why)
{
	struct agent *agent = calloc(1, sizeof(*agent));
	int error;

	must(agent);
	trace_object_init(&agent->trace, TRACE_OBJECT_AGENT);
	agent->options = options;
	agent->config = options->config;
	must(snprintf(agent->system, sizeof(agent->system), "%s-%s", options->config->name, options->version) <
	     (int)sizeof(agent->system));
	if (gethostname(agent->machine, sizeof(agent->machine) - 1) != 0)
		(void)snprintf(agent->machine, sizeof(agent->machine), "localhost");
	if (deadlines_init(&agent->deadlines, "agent") != 0) {
		free(agent);
		return fault(why, -ENOMEM, "out of memory");
	}
	agent_state_move(reactor_now(), agent, AGENT_OPENING);
	TAILQ_INIT(&agent->service.calls);
	TAILQ_INIT(&agent->attach_info.waiters);
	TAILQ_INIT(&agent->attachments.list);
	identities_open(agent);
	clients_open(agent);
	error = open_parts(agent, why);
	*agent_ret = agent;
	if (error)
		return error;
	agent_state_move(reactor_now(), agent, AGENT_READY);
	probe_agent_ready(reactor_now(), agent, agent->attachments.count,
			  clock_ticks_from_ns(clock_monotonic_ns() - options->began_ns));
	return 0;
}

/* ---- leaving ---- */

static struct {
	void (*left)(bool is_clean);
} leaving;

static int look_whether_idle(void *ctx)
{
	struct agent *agent = ctx;
	bool is_late = clock_monotonic_ns() >= agent->leave_by_ns;

	if (!clients_is_idle(agent) && !is_late)
		return 0;
	clients_stop(agent);
	service_close(agent);
	if (agent->jobs > 0 && !is_late)
		return 0;
	poller_unregister(&agent->leave_poller);
	if (agent->jobs > 0) {
		leaving.left(false);
		return 1;
	}
	close_all(agent);
	leaving.left(true);
	return 1;
}

void agent_leave(struct agent *agent, void (*left)(bool is_clean))
{
	must(agent->state == AGENT_READY || agent->state == AGENT_OPENING);
	must(!leaving.left);
	leaving.left = left;
	agent_state_move(reactor_now(), agent, AGENT_LEAVING);
	clients_leave(agent);
	agent->leave_by_ns = clock_monotonic_ns() + LEAVE_SECONDS * NS_PER_SEC;
	agent->leave_poller = poller_register("agent_leave", look_whether_idle, agent, LEAVE_LOOK_MS * NS_PER_MS);
	must(agent->leave_poller);
}

/* ---- again ---- */

static void reload_certificates(struct agent *agent)
{
	struct credential_key *key;
	struct fathom_fault why = { 0 };

	if (!agent->tls)
		return;
	if (grpc_tls_reload(agent->tls, &why) != 0) {
		agent_log_fault(LOG_LEVEL_ERROR, "the old certificates stay: ", &why);
		return;
	}
	grpc_client_renew(agent->client);
	if (credential_key_read(agent->config->transport.key, &key, &why) != 0) {
		agent_log_fault(LOG_LEVEL_ERROR, "the old key stays: ", &why);
		return;
	}
	credential_key_destroy(agent->key);
	agent->key = key;
}

void agent_reload(struct agent *agent)
{
	if (agent->state != AGENT_READY)
		return;
	reload_certificates(agent);
	attach_info_refresh(agent);
}
