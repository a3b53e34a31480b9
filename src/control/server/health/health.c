/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/server/health/health.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/server/core/probes.gen.h"
#include "control/server/health/internal.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

enum { FRESH_SECONDS = 2 /* a round that ended so shortly ago answers a call */ };

static void begin_round(struct server_health *health);
static void send_due(struct server_health *health);

/* ---- waiting calls ---- */

static void reply_callers(struct server_health *health)
{
	struct health_caller *caller;

	while ((caller = TAILQ_FIRST(&health->callers))) {
		struct arena arena = { 0 };

		TAILQ_REMOVE(&health->callers, caller, link);
		grpc_reply(caller->call, health_answer(health->server, &arena));
		arena_free(&arena);
		free(caller);
	}
}

void call_host_health(struct grpc_call *call, const ProtobufCMessage *request)
{
	struct server *server = server_of(call);
	struct server_health *health = server->health;
	struct health_caller *caller;

	if (!server_is_addressed(server, call, ((const Fathom__HostHealthReq *)request)->sys))
		return;
	caller = malloc(sizeof(*caller));
	if (!caller) {
		struct fathom_fault why;

		why.error = fault(&why, -ENOMEM, "out of memory");
		call_fail(call, &why);
		return;
	}
	*caller = (struct health_caller){ .call = call };
	TAILQ_INSERT_TAIL(&health->callers, caller, link);
	if (!health->is_running && reactor_now() - health->ended > clock_ticks_from_ns(FRESH_SECONDS * NS_PER_SEC))
		begin_round(health);
	if (!health->is_running || health->is_leaving) /* also if it could not begin */
		reply_callers(health);
}

/* ---- rounds ---- */

static void on_due(struct deadline *deadline)
{
	struct server_health *health = container_of(deadline, struct server_health, due);

	if (!health->is_running)
		begin_round(health);
}

static void end_round(struct server_health *health)
{
	uint64_t now = reactor_now();
	uint32_t failed = 0;
	struct health_device *device;

	must(health->is_running);
	must(health->sent == 0);
	health->is_running = false;
	health->is_first = false;
	health->ended = now;
	TAILQ_FOREACH (device, &health->devices, link)
		failed += device->reading.why.error != 0;
	probe_server_health_round(now, health->server, (uint32_t)health->count, failed, now - health->began);
	reply_callers(health);
	if (!health->is_leaving)
		deadline_set(&health->server->deadlines, &health->due, health->interval_ns, on_due);
}

static void on_read(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	struct health_device *device = ctx;
	struct server_health *health = device->health;

	must(device->is_sent);
	must(health->sent > 0);
	device->is_sent = false;
	health->sent--;
	if (health->is_leaving)
		return;
	health->server->stats.health_readings++;
	if (reply->error == 0)
		health_take_pages(device, &reply->pages);
	else
		health_take_failure(device, why);
	health->server->stats.health_failures += device->reading.why.error != 0;
	send_due(health);
}

/* Submit requests for devices that are due, as far as the limit allows. After the last answer the round ends. */
static void send_due(struct server_health *health)
{
	struct health_device *device;

	TAILQ_FOREACH (device, &health->devices, link) {
		struct helper_request request = { .operation = HELPER_HEALTH, .timeout_ms = HEALTH_READ_MS };

		if (health->sent == HEALTH_SENT_MAX)
			return;
		if (!device->is_due)
			continue;
		must(!device->is_sent);
		device->is_due = false;
		device->is_sent = true;
		health->sent++;
		must(text_copy(request.device, sizeof(request.device), device->reading.facts.path) == 0);
		helper_client_submit(health->server->helper, &request, on_read, device);
	}
	if (health->sent == 0)
		end_round(health);
}

/* ---- devices ---- */

static bool is_same(const struct storage_device *one, const struct storage_device *other)
{
	return strcmp(one->name, other->name) == 0 && strcmp(one->serial, other->serial) == 0 &&
	       strcmp(one->model, other->model) == 0;
}

static struct health_device *find_device(struct server_health *health, const struct storage_device *facts)
{
	struct health_device *device;

	TAILQ_FOREACH (device, &health->devices, link) {
		if (is_same(&device->reading.facts, facts))
			return device;
	}
	return NULL;
}

static void remove_device(struct server_health *health, struct health_device *device)
{
	must(!device->is_sent);
	must(health->count > 0);
	TAILQ_REMOVE(&health->devices, device, link);
	health->count--;
	free(device);
}

/* Keep the order of names. NULL: out of memory; the next round tries again. */
static struct health_device *add_device(struct server_health *health, const struct storage_device *facts)
{
	struct health_device *device = calloc(1, sizeof(*device)), *at;

	if (!device)
		return NULL;
	device->health = health;
	device->reading.facts = *facts;
	device->reading.is_nvme = facts->class == STORAGE_CLASS_NVME;
	TAILQ_FOREACH (at, &health->devices, link) {
		if (strverscmp(at->reading.facts.name, facts->name) > 0)
			break;
	}
	if (at)
		TAILQ_INSERT_BEFORE(at, device, link);
	else
		TAILQ_INSERT_TAIL(&health->devices, device, link);
	health->count++;
	return device;
}

static void take_found(struct server_health *health, const struct found_device *found)
{
	struct health_device *device = find_device(health, &found->facts);
	bool is_new = !device || !device->reading.is_present;

	if (!device)
		device = add_device(health, &found->facts);
	if (!device)
		return;
	device->reading.facts = found->facts;
	device->reading.is_present = true;
	device->reading.gone_ns = 0;
	if (is_new && !health->is_first)
		health_report_plugged(device);
	health_take_kernel(device, found);
	device->is_due = device->reading.is_nvme && (int64_t)(reactor_now() - device->retry_at) >= 0;
}

static bool is_found(const struct found_devices *found, const struct health_device *device)
{
	for (size_t i = 0; i < found->count; i++) {
		if (is_same(&found->devices[i].facts, &device->reading.facts))
			return true;
	}
	return false;
}

/* Devices that an engine used stay on the list; others are forgotten. */
static void take_gone(struct server_health *health)
{
	struct health_device *device, *next;

	TAILQ_FOREACH_SAFE (device, &health->devices, link, next) {
		device->is_due = false;
		if (is_found(&health->found, device) || !device->reading.is_present)
			continue;
		device->reading.is_present = false;
		device->reading.gone_ns = clock_realtime_ns();
		device->retry_at = device->retry_ticks = 0;
		health_report_gone(device);
		if (device->reading.instances == 0)
			remove_device(health, device);
	}
}

static void collect_devices(struct worker_job *job)
{
	struct server_health *health = container_of(job, struct server_health, job);

	found_devices_collect(health->server->os, health->server->config, &health->found);
}

static void on_collected(struct worker_job *job)
{
	struct server_health *health = container_of(job, struct server_health, job);

	must(health->is_running);
	server_job_end(health->server);
	if (health->is_leaving) {
		found_devices_free(&health->found);
		return;
	}
	if (health->found.why.error == 0) {
		take_gone(health);
		for (size_t i = 0; i < health->found.count; i++)
			take_found(health, &health->found.devices[i]);
	}
	found_devices_free(&health->found);
	send_due(health);
}

static void begin_round(struct server_health *health)
{
	int error;

	must(!health->is_running);
	must(health->sent == 0);
	if (health->is_leaving)
		return;
	deadline_clear(&health->server->deadlines, &health->due);
	health->job.work = collect_devices;
	health->job.done = on_collected;
	health->began = reactor_now();
	error = worker_start(&health->job);
	if (error) { /* no thread: the next round tries again */
		deadline_set(&health->server->deadlines, &health->due, health->interval_ns, on_due);
		return;
	}
	health->is_running = true;
	server_job_begin(health->server);
}

/* ---- the part ---- */

int health_open(struct server *server, struct fathom_fault *why)
{
	struct server_health *health = calloc(1, sizeof(*health));

	must(!server->health);
	if (!health)
		return fault(why, -ENOMEM, "out of memory");
	health->server = server;
	health->is_first = true;
	TAILQ_INIT(&health->devices);
	TAILQ_INIT(&health->callers);
	TAILQ_INIT(&health->lamps);
	must(text_parse_duration(server->config->health_interval, &health->interval_ns) == 0); /* checked before */
	server->health = health;
	return 0;
}

void health_start(struct server *server)
{
	begin_round(server->health);
}

void health_leave(struct server *server)
{
	struct server_health *health = server->health;

	health->is_leaving = true;
	deadline_clear(&server->deadlines, &health->due);
	lamps_free(health);
	reply_callers(health);
}

void health_close(struct server *server)
{
	struct server_health *health = server->health;
	struct health_device *device, *next;

	if (!health)
		return;
	must(health->sent == 0);
	must(TAILQ_EMPTY(&health->callers));
	TAILQ_FOREACH_SAFE (device, &health->devices, link, next)
		remove_device(health, device);
	must(health->count == 0);
	must(TAILQ_EMPTY(&health->lamps));
	server->health = NULL;
	free(health);
}

const struct device_health *health_next(const struct server *server, const struct device_health *device)
{
	const struct health_device *next;

	if (!device)
		next = TAILQ_FIRST(&server->health->devices);
	else
		next = TAILQ_NEXT((const struct health_device *)device, link);
	return next ? &next->reading : NULL;
}

const struct device_health *health_find(const struct server *server, const char *path)
{
	const struct health_device *device;

	TAILQ_FOREACH (device, &server->health->devices, link) {
		if (strcmp(device->reading.facts.path, path) == 0)
			return &device->reading;
	}
	return NULL;
}
