/* SPDX-License-Identifier: BSD-2-Clause */
/* StorageScan, NetworkScan, HostDevices: on worker threads, one scan of a kind at a time; later calls share its result. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "control/fault/fault.h"
#include "control/server/core/probes.gen.h"
#include "base/reactor/worker.h"
#include "control/server/health/health.h"
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
	must(!scan->is_running);
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

	must(why->error < 0);
	must(!scan->is_running);
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
	must(count > 0); /* a scan begins with a caller, and callers stay until it ends */
	must(error <= 0);
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
	must(scan->job.work && scan->job.done);
	*caller = (struct scan_caller){ .call = call, .request = request };
	TAILQ_INSERT_TAIL(&scan->callers, caller, link);
	if (scan->is_running)
		return;
	must(TAILQ_FIRST(&scan->callers) == caller); /* the only one: each scan answers all */
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

/* An answer from the facts of `scan`, in `arena`. */
typedef const ProtobufCMessage *(*scan_answer_fn)(const struct scan *scan, const ProtobufCMessage *request,
						  struct arena *arena);

static void reply_scan_callers(struct scan *scan, scan_answer_fn answer)
{
	struct scan_caller *caller;

	must(!scan->is_running);
	while ((caller = TAILQ_FIRST(&scan->callers))) {
		struct arena arena = { 0 };

		TAILQ_REMOVE(&scan->callers, caller, link);
		grpc_reply(caller->call, answer(scan, caller->request, &arena));
		arena_free(&arena);
		free(caller);
	}
}

/* ---- storage ---- */

static void collect_storage(struct worker_job *job)
{
	struct scan *scan = container_of(job, struct scan, job);

	storage_facts_collect(scan->server->os, scan->server->config, &scan->storage);
}

static void fill_engines(const struct server *server, struct facts_engine *engines)
{
	must(server->instance_count <= SERVER_ENGINES_MAX);
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

/* Add what is known of a device's health. Its address is that of PCI, or its path. */
static void add_health(const struct server *server, Ctl__NvmeController *controller, struct arena *arena)
{
	const struct device_health *device = NULL;

	while ((device = health_next(server, device))) {
		const char *pci = device->facts.pci_address;

		if (device->is_present && strcmp(pci[0] ? pci : device->facts.path, controller->pci_addr) == 0)
			controller->health_stats = health_stats(device, arena);
	}
}

static const ProtobufCMessage *smd_answer(const struct scan *scan, const struct facts_engine *engines,
					  const Ctl__SmdQueryReq *request, struct arena *arena)
{
	const Ctl__SmdQueryResp *answer = smd_query_answer(&scan->storage, scan->server->config, engines, request, arena);

	for (size_t i = 0; request->include_bio_health && i < answer->n_ranks; i++) {
		for (size_t k = 0; k < answer->ranks[i]->n_devices; k++)
			add_health(scan->server, answer->ranks[i]->devices[k]->ctrlr, arena);
	}
	return &answer->base;
}

/* StorageScan and SmdQuery share the facts of one scan. */
static const ProtobufCMessage *storage_answer(const struct scan *scan, const ProtobufCMessage *request, struct arena *arena)
{
	const struct server *server = scan->server;
	struct facts_engine engines[SERVER_ENGINES_MAX] = { 0 };
	const Ctl__StorageScanReq *asked = (const Ctl__StorageScanReq *)request;
	const Ctl__StorageScanResp *answer;

	fill_engines(server, engines);
	if (request->descriptor == &ctl__smd_query_req__descriptor)
		return smd_answer(scan, engines, (const Ctl__SmdQueryReq *)request, arena);
	must(request->descriptor == &ctl__storage_scan_req__descriptor);
	answer = storage_scan_answer(&scan->storage, server->config, engines, asked, arena);
	for (size_t i = 0; asked->nvme && asked->nvme->health && i < answer->nvme->n_ctrlrs; i++)
		add_health(server, answer->nvme->ctrlrs[i], arena);
	return &answer->base;
}

static void on_storage_collected(struct worker_job *job)
{
	struct scan *scan = container_of(job, struct scan, job);

	end_scan(scan, scan->storage.why.error);
	reply_scan_callers(scan, storage_answer);
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

static const ProtobufCMessage *network_answer(const struct scan *scan, const ProtobufCMessage *request, struct arena *arena)
{
	return &network_scan_answer(&scan->network, scan->server->config, (const Ctl__NetworkScanReq *)request, arena)
			->base;
}

static void on_network_collected(struct worker_job *job)
{
	struct scan *scan = container_of(job, struct scan, job);

	end_scan(scan, scan->network.why.error);
	if (scan->network.why.error)
		fail_scan_callers(scan, &scan->network.why);
	else
		reply_scan_callers(scan, network_answer);
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

static const ProtobufCMessage *host_answer(const struct scan *scan, const ProtobufCMessage *request, struct arena *arena)
{
	return &host_devices_answer(&scan->host, arena)->base;
}

static void reply_host_devices(void *ctx)
{
	struct scan *scan = ctx;

	end_scan(scan, 0);
	reply_scan_callers(scan, host_answer);
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
