/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/engine/volume_export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/reactor/reactor.h"
#include "base/text.h"
#include "data/engine/control.h"
#include "data/engine/move/move.h"
#include "data/engine/probes.gen.h"
#include "data/target/target.h"

enum { EXPORT_NSID = 1, EXPORT_BUCKETS = 4096 };

static struct {
	TAILQ_HEAD(, volume_export) list;
	LIST_HEAD(, volume_export) by_nqn[EXPORT_BUCKETS];
	uint32_t starting; /* exports that exports_start() waits for, and one for itself */
	void (*started)(void *ctx);
	void *started_ctx;
	bool is_stopped;
} exports = { .list = TAILQ_HEAD_INITIALIZER(exports.list) };

static const struct fathom_fault stopping = { .error = -ESHUTDOWN, .text = "the engine is stopping" };

bool exports_are_stopped(void)
{
	return exports.is_stopped;
}

/* ---- volumes ---- */

static const struct volume *find_volume(const uint8_t uuid[POOL_UUID_BYTES])
{
	return engine_storage() ? volumes_find_uuid(engine_storage(), uuid) : NULL;
}

/* How many hosts of its record are served: none if it is moving in, or away. */
static uint32_t host_count(const struct volume *volume)
{
	return volume->record.move == VOLUME_MOVE_NONE ? volume->record.host_count : 0;
}

/* Whether the volume is to be served. */
static bool is_wanted(const struct volume *volume)
{
	return volume && volume_is_served(volume) && !export_is_held(volume) &&
	       (host_count(volume) > 0 || move_out_host(volume->record.uuid));
}

/* Whether the host may connect now: a host of the record, or the engine that copies the volume. */
static bool may_connect(const struct volume *volume, const char *nqn)
{
	const char *copier = move_out_host(volume->record.uuid);

	return (host_count(volume) > 0 && volume_has_host(volume, nqn)) || (copier && strcmp(copier, nqn) == 0);
}

static const char *name_of(const struct volume *volume)
{
	return volume ? volume->device : "that was destroyed";
}

/* ---- exports ---- */

static void format_nqn(const uint8_t uuid[POOL_UUID_BYTES], char nqn_ret[NVME_NQN_FIELD_BYTES])
{
	char text[UUID_STR_LEN];

	uuid_unparse_lower(uuid, text);
	must(snprintf(nqn_ret, NVME_NQN_FIELD_BYTES, NVME_UUID_NQN_PREFIX "%s", text) < NVME_NQN_FIELD_BYTES);
}

static struct volume_export *find_by_nqn(const char *nqn)
{
	struct volume_export *export;

	LIST_FOREACH (export, &exports.by_nqn[text_hash(nqn) % EXPORT_BUCKETS], by_nqn) {
		if (strcmp(export->nqn, nqn) == 0)
			return export;
	}
	return NULL;
}

static struct volume_export *find_export(const uint8_t uuid[POOL_UUID_BYTES])
{
	char nqn[NVME_NQN_FIELD_BYTES];

	format_nqn(uuid, nqn);
	return find_by_nqn(nqn);
}

static struct volume_export *create_export(const uint8_t uuid[POOL_UUID_BYTES])
{
	struct volume_export *export = calloc(1, sizeof(*export));

	must(export); /* a few hundred bytes */
	must(!find_export(uuid));
	trace_object_init(&export->trace, TRACE_OBJECT_VOLUME_EXPORT);
	uuid_copy(export->uuid, uuid);
	format_nqn(uuid, export->nqn);
	STAILQ_INIT(&export->waiters);
	TAILQ_INSERT_TAIL(&exports.list, export, link);
	LIST_INSERT_HEAD(&exports.by_nqn[text_hash(export->nqn) % EXPORT_BUCKETS], export, by_nqn);
	return export;
}

static void free_export(struct volume_export *export)
{
	must(!export->is_busy && STAILQ_EMPTY(&export->waiters));
	TAILQ_REMOVE(&exports.list, export, link);
	LIST_REMOVE(export, by_nqn);
	free(export);
}

static void move(struct volume_export *export, enum volume_export_state to)
{
	volume_export_state_move(clock_ticks(), export, to);
}

/* ---- steps ---- */

static void go_on(struct volume_export *export);

static void call_waiters(struct volume_export *export, const struct fathom_fault *why)
{
	struct export_waiter_list ended = STAILQ_HEAD_INITIALIZER(ended);
	struct export_waiter *waiter;

	must(!export->is_busy);
	export->is_busy = true; /* a callback may let the export follow its volume again */
	STAILQ_CONCAT(&ended, &export->waiters);
	while ((waiter = STAILQ_FIRST(&ended))) {
		STAILQ_REMOVE_HEAD(&ended, link);
		waiter->done(waiter->ctx, why);
		free(waiter);
	}
	export->is_busy = false;
}

/* The export is as its volume. */
static void rest(struct volume_export *export)
{
	struct fathom_fault why = export->why;

	if (exports.is_stopped) {
		call_waiters(export, &stopping);
		free_export(export);
		return;
	}
	call_waiters(export, export->state == VOLUME_EXPORT_FAILED ? &why : NULL);
	if (exports.is_stopped)
		free_export(export);
	else if (export->is_changed)
		go_on(export);
	else if (export->state == VOLUME_EXPORT_ABSENT)
		free_export(export);
}

static void finish_remove(struct volume_export *export)
{
	move(export, export->why.error ? VOLUME_EXPORT_FAILED : VOLUME_EXPORT_ABSENT);
	if (export->is_changed)
		go_on(export);
	else
		rest(export);
}

static void note_removed(void *ctx, int rc, const struct fathom_fault *why)
{
	struct volume_export *export = ctx;

	must(export->is_busy);
	export->is_busy = export->is_made = false;
	if (exports.is_stopped)
		rest(export);
	else
		finish_remove(export);
}

/* `why`: NULL, or the reason for which it is FAILED afterwards. */
static void start_remove(struct volume_export *export, const struct fathom_fault *why)
{
	const struct volume *volume = find_volume(export->uuid);

	export->why = (struct fathom_fault){ 0 };
	if (why) {
		export->why = *why;
		log_error("volume %s: it is published, but cannot be served: %s", name_of(volume), why->text);
	} else {
		log_notice("volume %s is no longer served", name_of(volume));
	}
	move(export, VOLUME_EXPORT_REMOVING);
	if (!export->is_made) {
		finish_remove(export);
		return;
	}
	export->is_busy = true;
	nvmf_subsystem_destroy(export->nqn, note_removed, export);
}

static void end_step(struct volume_export *export, int rc, const struct fathom_fault *why)
{
	must(export->is_busy);
	export->is_busy = false;
	if (exports.is_stopped)
		rest(export);
	else if (rc)
		start_remove(export, why);
	else
		go_on(export);
}

static void note_step(void *ctx, int rc, const struct fathom_fault *why)
{
	end_step(ctx, rc, why);
}

static void note_made(void *ctx, int rc, const struct fathom_fault *why)
{
	struct volume_export *export = ctx;

	/* if it could not be started, it exists all the same; -EEXIST: another has the NQN */
	export->is_made = rc == 0 || (rc != -EEXIST && nvmf_subsystem_find(export->nqn));
	end_step(export, rc, why);
}

static void note_ns_added(void *ctx, int rc, const struct fathom_fault *why, uint32_t nsid)
{
	must(rc || nsid == EXPORT_NSID);
	end_step(ctx, rc, why);
}

/* Serial number: the first 20 of the 32 digits of the UUID. */
static void make_subsystem(struct volume_export *export)
{
	struct nvmf_subsystem_options options;

	nvmf_subsystem_options_init(&options);
	(void)text_copy(options.nqn, sizeof(options.nqn), export->nqn); /* as long */
	(void)text_copy(options.model_number, sizeof(options.model_number), "Fathom Volume");
	for (size_t i = 0; i < NVMF_SERIAL_BYTES / 2; i++)
		snprintf(&options.serial_number[2 * i], 3, "%02X", export->uuid[i]);
	options.max_namespaces = EXPORT_NSID;
	nvmf_subsystem_create(&options, note_made, export);
}

/* The NGUID is the UUID, which is also the block device's; the EUI64 its last eight bytes. */
static void add_namespace(struct volume_export *export, const struct volume *volume)
{
	struct nvmf_ns_options options;

	nvmf_ns_options_init(&options);
	options.nsid = EXPORT_NSID;
	options.bdev_name = volume->device;
	static_assert(sizeof(options.nguid) == POOL_UUID_BYTES, "one is the other");
	memcpy(options.uuid, export->uuid, sizeof(options.uuid));
	memcpy(options.nguid, export->uuid, sizeof(options.nguid));
	memcpy(options.eui64, &export->uuid[POOL_UUID_BYTES - sizeof(options.eui64)], sizeof(options.eui64));
	nvmf_subsystem_add_ns(export->nqn, &options, note_ns_added, export);
}

static void add_listener(struct volume_export *export)
{
	struct nvmf_address address = { .trtype = "TCP" };
	struct fathom_fault why;

	if (!engine_control.traddr[0]) {
		fill_fault(&why, -EDESTADDRREQ, "the engine has no address for hosts: it was started without --listen");
		end_step(export, why.error, &why);
		return;
	}
	(void)text_copy(address.traddr, sizeof(address.traddr), engine_control.traddr); /* numeric, so it fits */
	(void)text_copy(address.trsvcid, sizeof(address.trsvcid), engine_control.trsvcid);
	nvmf_subsystem_add_listener(export->nqn, &address, NULL, note_step, export);
}

static bool subsystem_has_host(const struct nvmf_subsystem *subsystem, const char *nqn)
{
	const char *host;

	for (unsigned int i = 0; (host = nvmf_subsystem_host_at(subsystem, i)); i++) {
		if (strcmp(host, nqn) == 0)
			return true;
	}
	return false;
}

/* A host that the subsystem has and the volume has not; NULL: there is none. */
static const char *host_to_remove(const struct nvmf_subsystem *subsystem, const struct volume *volume)
{
	const char *host;

	for (unsigned int i = 0; (host = nvmf_subsystem_host_at(subsystem, i)); i++) {
		if (!may_connect(volume, host))
			return host;
	}
	return NULL;
}

static const char *host_to_add(const struct nvmf_subsystem *subsystem, const struct volume *volume)
{
	const char *copier = move_out_host(volume->record.uuid);

	for (uint32_t i = 0; i < host_count(volume); i++) {
		if (!subsystem_has_host(subsystem, volume->record.hosts[i].nqn))
			return volume->record.hosts[i].nqn;
	}
	return copier && !subsystem_has_host(subsystem, copier) ? copier : NULL;
}

/*
 * Start what brings the subsystem closer to the volume. False: nothing differs. The listener comes last, so a host does not
 * find a subsystem that is not complete.
 */
static bool start_step(struct volume_export *export, const struct volume *volume)
{
	const struct nvmf_subsystem *subsystem = export->is_made ? nvmf_subsystem_find(export->nqn) : NULL;
	struct nvmf_ns_info info;
	char host[NVME_NQN_FIELD_BYTES];
	const char *remove, *add;

	must(!export->is_busy);
	export->is_busy = true;
	if (!subsystem) {
		make_subsystem(export);
		return true;
	}
	if (!nvmf_subsystem_next_ns(subsystem, 0, &info)) {
		add_namespace(export, volume);
		return true;
	}
	remove = host_to_remove(subsystem, volume);
	add = remove ? NULL : host_to_add(subsystem, volume);
	if (remove) {
		(void)text_copy(host, sizeof(host), remove); /* as long; the subsystem frees its own */
		nvmf_subsystem_remove_host(export->nqn, host, note_step, export);
		return true;
	}
	if (add) {
		nvmf_subsystem_add_host(export->nqn, add, note_step, export);
		return true;
	}
	if (!nvmf_subsystem_listener_at(subsystem, 0)) {
		add_listener(export);
		return true;
	}
	export->is_busy = false;
	return false;
}

static void finish_steps(struct volume_export *export, const struct volume *volume)
{
	if (export->state == VOLUME_EXPORT_CREATING)
		log_notice("volume %s is served to %u host%s as %s", volume->device, volume->record.host_count,
			   volume->record.host_count == 1 ? "" : "s", export->nqn);
	move(export, VOLUME_EXPORT_SERVED);
	rest(export);
}

static void rest_absent(struct volume_export *export)
{
	if (export->state == VOLUME_EXPORT_FAILED)
		move(export, VOLUME_EXPORT_ABSENT);
	rest(export);
}

/* Nothing runs for the export: start its next step, or let it rest. */
static void go_on(struct volume_export *export)
{
	const struct volume *volume = find_volume(export->uuid);

	must(!export->is_busy && !exports.is_stopped);
	export->is_changed = false;
	switch (export->state) {
	case VOLUME_EXPORT_ABSENT:
	case VOLUME_EXPORT_FAILED:
		if (!is_wanted(volume)) {
			rest_absent(export);
			return;
		}
		move(export, VOLUME_EXPORT_CREATING);
		break;
	case VOLUME_EXPORT_SERVED:
		if (is_wanted(volume))
			move(export, VOLUME_EXPORT_CHANGING);
		break;
	default:
		break;
	}
	if (!is_wanted(volume))
		start_remove(export, NULL);
	else if (!start_step(export, volume))
		finish_steps(export, volume);
}

void export_follow(const uint8_t uuid[POOL_UUID_BYTES], volumes_done_fn done, void *ctx)
{
	struct volume_export *export = find_export(uuid);
	struct export_waiter *waiter;

	must_be_on(thread_control());
	if (exports.is_stopped) {
		if (done)
			done(ctx, &stopping);
		return;
	}
	if (!export)
		export = create_export(uuid);
	if (done) {
		waiter = calloc(1, sizeof(*waiter));
		must(waiter);
		*waiter = (struct export_waiter){ .done = done, .ctx = ctx };
		STAILQ_INSERT_TAIL(&export->waiters, waiter, link);
	}
	export->is_changed = true;
	if (!export->is_busy)
		go_on(export);
}

/* ---- start and stop ---- */

/* An event for operators: a published or unpublished volume that hosts cannot use. */
static void raise_errored(const struct volume *volume, const char *reason)
{
	char uuid[UUID_STR_LEN];

	uuid_unparse_lower(volume->record.uuid, uuid);
	engine_raise_event(RAS_VOLUME_ERRORED, uuid_is_null(volume->record.uuid) ? NULL : uuid, "volume %s: %s",
			   volume->device, reason);
}

static void note_started(void *ctx, const struct fathom_fault *why)
{
	const struct volume_export *export = ctx; /* NULL: exports_start() itself */
	const struct volume *volume = export ? find_volume(export->uuid) : NULL;

	must(exports.starting > 0);
	if (why && volume)
		raise_errored(volume, why->text);
	if (--exports.starting == 0)
		exports.started(exports.started_ctx);
}

static void start_volume(const struct volume *volume)
{
	struct volume_export *export;

	if (volume->state == VOLUME_ERRORED) {
		raise_errored(volume, volume->why.text);
	} else if (volume->record.host_count > 0) {
		if (find_export(volume->record.uuid))
			return; /* a copy of a folder by hand: two volumes with one UUID */
		export = create_export(volume->record.uuid);
		exports.starting++;
		export_follow(export->uuid, note_started, export);
	}
}

void exports_start(void (*done)(void *ctx), void *ctx)
{
	struct volumes *volumes = engine_storage();
	const struct pool *pool = volumes ? volumes_first_pool(volumes) : NULL;
	const struct volume *volume;

	must(!exports.is_stopped && exports.starting == 0);
	exports.started = done;
	exports.started_ctx = ctx;
	exports.starting = 1;
	for (; pool; pool = TAILQ_NEXT(pool, link)) {
		if (pool->why.error)
			engine_raise_event(RAS_VOLUME_ERRORED, NULL, "pool %s with all its volumes: %s", pool->record.name,
					   pool->why.text);
		TAILQ_FOREACH (volume, &pool->volumes, link)
			start_volume(volume);
	}
	note_started(NULL, NULL);
}

void exports_stop(void)
{
	struct volume_export *export, *next;

	if (exports.is_stopped)
		return;
	exports.is_stopped = true;
	TAILQ_FOREACH_SAFE (export, &exports.list, link, next) {
		if (export->is_busy)
			continue; /* it ends with its step */
		call_waiters(export, &stopping);
		free_export(export);
	}
}

/* ---- queries ---- */

const struct volume_export *export_find(const struct volume *volume)
{
	return find_export(volume->record.uuid);
}

bool export_owns_subsystem(const char *nqn)
{
	const struct volume_export *export = find_by_nqn(nqn);

	/* FAILED: as below */
	return move_out_image_volume(nqn) || (export && export->state != VOLUME_EXPORT_FAILED);
}

const struct volume *export_volume_of(const char *nqn)
{
	const struct volume_export *export;
	const uint8_t *uuid = move_out_image_volume(nqn);

	if (uuid)
		return find_volume(uuid);
	export = find_by_nqn(nqn);
	/* FAILED: it has no subsystem, perhaps because another has its NQN */
	return export && export->state != VOLUME_EXPORT_FAILED ? find_volume(export->uuid) : NULL;
}

const char *export_failure(const struct volume *volume)
{
	const struct volume_export *export = volume->record.host_count > 0 ? find_export(volume->record.uuid) : NULL;

	return export && export->state == VOLUME_EXPORT_FAILED ? export->why.text : NULL;
}

void exports_count(struct export_counts *counts_ret)
{
	const struct volume_export *export;

	*counts_ret = (struct export_counts){ 0 };
	TAILQ_FOREACH (export, &exports.list, link) {
		if (export->state == VOLUME_EXPORT_SERVED)
			counts_ret->served++;
		else if (export->state == VOLUME_EXPORT_FAILED)
			counts_ret->failed++;
		else
			counts_ret->changing++;
	}
}

struct host_search {
	const char *nqn;
	struct export_host *host;
};

static void add_connection(void *ctx, const struct nvmf_connection *connection)
{
	const struct host_search *search = ctx;
	struct export_host *host = search->host;

	if (strcmp(connection->host_nqn, search->nqn) != 0)
		return;
	host->connections++;
	if (host->since_ns != 0 && host->since_ns <= connection->connected_ns)
		return;
	host->since_ns = connection->connected_ns;
	(void)text_copy(host->address, sizeof(host->address), connection->peer_address); /* as long */
}

void export_get_host(const struct volume *volume, const char *host_nqn, struct export_host *host_ret)
{
	const struct volume_export *export = find_export(volume->record.uuid);
	const struct nvmf_subsystem *subsystem = export && export->is_made ? nvmf_subsystem_find(export->nqn) : NULL;
	struct host_search search = { .nqn = host_nqn, .host = host_ret };

	*host_ret = (struct export_host){ 0 };
	if (subsystem)
		nvmf_subsystem_each_connection(subsystem, add_connection, &search);
}

void export_get_nqn(const struct volume *volume, char nqn_ret[NVME_NQN_FIELD_BYTES])
{
	format_nqn(volume->record.uuid, nqn_ret);
}
