/* SPDX-License-Identifier: BSD-2-Clause */
/* StorageScan, NetworkScan, HostDevices: on worker threads, one scan of a kind at a time; later calls share its result. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "control/fault/fault.h"
#include "control/server/core/probes.gen.h"
#include "control/server/core/worker.h"
#include "control/server/host/device_labels.h"
#include "control/server/host/facts.h"
#include "control/server/host/host.h"
#include "control/status/status.h"

/* A call that waits for the scan. */
struct scan_caller {
	TAILQ_ENTRY(scan_caller) link;
	struct grpc_call *call;
	const ProtobufCMessage *request;
};

/* One kind of scan: at most one runs, and its result answers all waiting calls. */
struct scan {
	struct worker_job job;
	struct server *server;
	const char *kind;
	bool is_running;
	uint64_t began;
	TAILQ_HEAD(scan_callers, scan_caller) callers;
	union {
		struct storage_facts storage;
		struct network_facts network;
		struct host_facts host;
	};
};

struct server_scans {
	struct scan storage, network, host;
};

static void init_scan(struct scan *scan, struct server *server, const char *kind)
{
	scan->server = server;
	scan->kind = kind;
	TAILQ_INIT(&scan->callers);
}

int scans_open(struct server *server, struct fathom_fault *why)
{
	struct server_scans *scans = calloc(1, sizeof(*scans));

	must(!server->scans);
	if (!scans)
		return fault(why, -ENOMEM, "out of memory");
	init_scan(&scans->storage, server, "storage");
	init_scan(&scans->network, server, "network");
	init_scan(&scans->host, server, "host");
	server->scans = scans;
	return 0;
}

void scans_close(struct server *server)
{
	struct server_scans *scans = server->scans;

	if (!scans)
		return;
	must(!scans->storage.is_running && TAILQ_EMPTY(&scans->storage.callers));
	must(!scans->network.is_running && TAILQ_EMPTY(&scans->network.callers));
	must(!scans->host.is_running && TAILQ_EMPTY(&scans->host.callers));
	server->scans = NULL;
	free(scans);
}

static void fail_scan_callers(struct scan *scan, const struct fathom_fault *why)
{
	struct scan_caller *caller;

	while ((caller = TAILQ_FIRST(&scan->callers))) {
		TAILQ_REMOVE(&scan->callers, caller, link);
		call_fail(caller->call, why);
		free(caller);
	}
}

/* On the control thread: the scan has ended. */
static void end_scan(struct scan *scan, int error)
{
	struct scan_caller *caller;
	uint64_t now = reactor_now();
	uint32_t count = 0;

	must(scan->is_running);
	TAILQ_FOREACH (caller, &scan->callers, link)
		count++;
	scan->is_running = false;
	server_job_end(scan->server);
	probe_server_scan_end(now, scan->server, trace_intern(scan->kind), error, count, now - scan->began);
}

/* Let the call wait for the running scan, or start one. */
static void wait_for_scan(struct scan *scan, struct grpc_call *call, const ProtobufCMessage *request)
{
	struct scan_caller *caller = malloc(sizeof(*caller));
	struct fathom_fault why;
	int error;

	if (!caller) {
		why.error = fault(&why, -ENOMEM, "out of memory");
		call_fail(call, &why);
		return;
	}
	*caller = (struct scan_caller){ .call = call, .request = request };
	TAILQ_INSERT_TAIL(&scan->callers, caller, link);
	if (scan->is_running)
		return;
	scan->began = reactor_now();
	probe_server_scan_begin(scan->began, scan->server, trace_intern(scan->kind));
	error = worker_start(&scan->job);
	if (error) {
		why.error = fault(&why, error, "a worker thread cannot be started: %s", strerror(-error));
		fail_scan_callers(scan, &why);
		return;
	}
	scan->is_running = true;
	server_job_begin(scan->server);
}

/* ---- storage ---- */

static void collect_storage(struct worker_job *job)
{
	struct scan *scan = container_of(job, struct scan, job);

	storage_facts_collect(scan->server->os, scan->server->config, &scan->storage);
}

static void fill_engines(const struct server *server, struct facts_engine *engines)
{
	for (size_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;

		instance_get_info(server->instances[i], &info);
		engines[i] = (struct facts_engine){
			.is_formatted = info.has_uuid,
			.has_rank = info.rank != RANK_NONE,
			.rank = info.rank,
		};
		if (info.has_uuid)
			(void)member_uuid_format(info.uuid, engines[i].uuid);
	}
}

/* StorageScan and SmdQuery share the facts of one scan. */
static const ProtobufCMessage *storage_answer(const struct scan *scan, const struct facts_engine *engines,
					      const ProtobufCMessage *request, struct arena *arena)
{
	const struct server_config *config = scan->server->config;

	if (request->descriptor == &ctl__smd_query_req__descriptor)
		return &smd_query_answer(&scan->storage, config, engines, (const Ctl__SmdQueryReq *)request, arena)->base;
	return &storage_scan_answer(&scan->storage, config, engines, (const Ctl__StorageScanReq *)request, arena)->base;
}

static void on_storage_collected(struct worker_job *job)
{
	struct scan *scan = container_of(job, struct scan, job);
	struct facts_engine engines[SERVER_ENGINES_MAX] = { 0 };
	struct scan_caller *caller;

	end_scan(scan, scan->storage.why.error);
	fill_engines(scan->server, engines);
	while ((caller = TAILQ_FIRST(&scan->callers))) {
		struct arena arena = { 0 };

		TAILQ_REMOVE(&scan->callers, caller, link);
		grpc_reply(caller->call, storage_answer(scan, engines, caller->request, &arena));
		arena_free(&arena);
		free(caller);
	}
	storage_facts_free(&scan->storage);
}

void call_storage_scan(struct grpc_call *call, const ProtobufCMessage *request)
{
	struct scan *scan = &server_of(call)->scans->storage;

	scan->job.work = collect_storage;
	scan->job.done = on_storage_collected;
	wait_for_scan(scan, call, request);
}

void call_smd_query(struct grpc_call *call, const ProtobufCMessage *request)
{
	call_storage_scan(call, request);
}

/* ---- network ---- */

static void collect_network(struct worker_job *job)
{
	struct scan *scan = container_of(job, struct scan, job);

	network_facts_collect(scan->server->os, &scan->network);
}

static void on_network_collected(struct worker_job *job)
{
	struct scan *scan = container_of(job, struct scan, job);
	struct scan_caller *caller;

	end_scan(scan, scan->network.why.error);
	if (scan->network.why.error)
		fail_scan_callers(scan, &scan->network.why);
	while ((caller = TAILQ_FIRST(&scan->callers))) {
		struct arena arena = { 0 };

		TAILQ_REMOVE(&scan->callers, caller, link);
		grpc_reply(caller->call, &network_scan_answer(&scan->network, scan->server->config,
							      (const Ctl__NetworkScanReq *)caller->request, &arena)
						  ->base);
		arena_free(&arena);
		free(caller);
	}
	network_facts_free(&scan->network);
}

void call_network_scan(struct grpc_call *call, const ProtobufCMessage *request)
{
	struct scan *scan = &server_of(call)->scans->network;

	scan->job.work = collect_network;
	scan->job.done = on_network_collected;
	wait_for_scan(scan, call, request);
}

/* ---- HostDevices ---- */

static void collect_host(struct worker_job *job)
{
	struct scan *scan = container_of(job, struct scan, job);

	host_facts_collect(scan->server->os, &scan->host);
}

static void reply_host_devices(void *ctx)
{
	struct scan *scan = ctx;
	struct scan_caller *caller;
	struct arena arena = { 0 };
	const Fathom__HostDevicesResp *answer = host_devices_answer(&scan->host, &arena);

	end_scan(scan, 0);
	while ((caller = TAILQ_FIRST(&scan->callers))) {
		TAILQ_REMOVE(&scan->callers, caller, link);
		grpc_reply(caller->call, &answer->base);
		free(caller);
	}
	arena_free(&arena);
	host_facts_free(&scan->host);
}

static void on_host_collected(struct worker_job *job)
{
	struct scan *scan = container_of(job, struct scan, job);

	if (!scan->host.why.error) {
		device_labels_read(scan->server, &scan->host.devices, &scan->host.unread, reply_host_devices, scan);
		return;
	}
	end_scan(scan, scan->host.why.error);
	fail_scan_callers(scan, &scan->host.why);
	host_facts_free(&scan->host);
}

void call_host_devices(struct grpc_call *call, const ProtobufCMessage *request)
{
	struct scan *scan = &server_of(call)->scans->host;

	if (!server_is_addressed(server_of(call), call, ((const Fathom__HostDevicesReq *)request)->sys))
		return;
	scan->job.work = collect_host;
	scan->job.done = on_host_collected;
	wait_for_scan(scan, call, request);
}
