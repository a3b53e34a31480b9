/* SPDX-License-Identifier: BSD-2-Clause */
/* Methods for pools and volumes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/text.h"
#include "data/engine/control.h"
#include "data/engine/methods.gen.h"
#include "data/engine/rpc/volume.h"
#include "data/engine/volume_export.h"
#include "data/store/backend/backend.h"

struct volumes *rpc_volume_storage(struct rpc_request *request)
{
	struct volumes *volumes = engine_storage();

	if (!volumes)
		rpc_error(request, -ENODEV, "%s: this engine has no storage: start it with --storage DIR",
			  strerror(ENODEV));
	return volumes;
}

struct volumes *rpc_volume_own_storage(struct rpc_request *request)
{
	struct volumes *volumes = rpc_volume_storage(request);

	if (!volumes || !engine_control_is_on())
		return volumes;
	rpc_error(request, -EPERM,
		  "%s: the management service keeps the pools and volumes of this engine: "
		  "use `fathom pool` and `fathom volume`",
		  strerror(EPERM));
	return NULL;
}

void rpc_volume_done(void *ctx, const struct fathom_fault *why)
{
	struct rpc_request *request = ctx;

	if (why)
		rpc_error_errno(request, why->error, why->text);
	else
		rpc_reply(request, NULL);
}

/* Copy a name; false: it is too long, and the request has its reply. */
static bool copy_name(struct rpc_request *request, char to[POOL_NAME_BYTES_MAX], const char *name)
{
	if (text_copy(to, POOL_NAME_BYTES_MAX, name) == 0)
		return true;
	rpc_error(request, -EINVAL, "%s: the name \"%s\" is longer than %d characters", strerror(EINVAL), name,
		  POOL_NAME_BYTES_MAX - 1);
	return false;
}

/* ---- pools ---- */

void method_pool_create(struct rpc_request *request, const struct pool_create_params *p)
{
	struct volumes *volumes = rpc_volume_own_storage(request);
	struct pool_record record = { .size_bytes = p->size, .overcommit = p->overcommit };

	if (!volumes || !copy_name(request, record.name, p->pool))
		return;
	uuid_copy(record.uuid, p->uuid);
	volumes_create_pool(volumes, &record, rpc_volume_done, request);
}

void method_pool_destroy(struct rpc_request *request, const struct pool_destroy_params *p)
{
	struct volumes *volumes = rpc_volume_own_storage(request);

	if (volumes)
		export_destroy_pool(volumes, &(struct volume_key){ .pool = p->pool }, p->force, rpc_volume_done, request);
}

static json_t *uuid_json(const uint8_t *uuid)
{
	char text[UUID_STR_LEN];

	uuid_unparse(uuid, text);
	return json_string(text);
}

static void put_usage(json_t *object, const struct usage *usage)
{
	json_put(object, "used_bytes", json_integer((json_int_t)usage->used_bytes));
	json_put(object, "limit_bytes", json_integer((json_int_t)usage->limit_bytes));
	json_put(object, "used_percent", json_integer(usage_percent(usage)));
	json_put(object, "level", json_string(space_level_name(usage->state)));
	if (usage->full_in_ns != USAGE_NO_FORECAST)
		json_put(object, "full_in_ns", json_integer((json_int_t)usage->full_in_ns));
}

static json_t *storage_json(const struct volumes *volumes)
{
	json_t *object = json_made(json_object());
	struct export_counts exports;
	struct volumes_info info;

	volumes_get_info(volumes, &info);
	json_put(object, "path", json_text(engine_options()->storage));
	json_put(object, "state", json_string(storage_state_name(info.state)));
	json_put(object, "since_ns", json_integer((json_int_t)info.since_ns));
	json_put(object, "pools", json_integer(info.pools));
	json_put(object, "volumes", json_integer(info.volumes));
	json_put(object, "damaged", json_integer(info.damaged));
	json_put(object, "read_only", json_integer(info.read_only));
	json_put(object, "reflinks", json_boolean(info.has_reflinks));
	json_put(object, "copies", json_integer(info.copies));
	json_put(object, "changes_waiting", json_integer(info.changes_waiting));
	json_put(object, "changes_done", json_integer((json_int_t)info.changes_done));
	json_put(object, "changes_failed", json_integer((json_int_t)info.changes_failed));
	exports_count(&exports);
	json_put(object, "exports_served", json_integer(exports.served));
	json_put(object, "exports_failed", json_integer(exports.failed));
	json_put(object, "exports_changing", json_integer(exports.changing));
	json_put(object, "total_bytes", json_integer((json_int_t)info.total_bytes));
	json_put(object, "free_bytes", json_integer((json_int_t)info.free_bytes));
	put_usage(object, volumes_usage(volumes));
	json_put(object, "space_refusals", json_integer((json_int_t)info.space_refusals));
	json_put(object, "trash_objects", json_integer((json_int_t)info.trash_objects));
	json_put(object, "trash_bytes", json_integer((json_int_t)info.trash_bytes));
	json_put(object, "trash_undeletable", json_integer((json_int_t)info.trash_undeletable));
	if (info.trash_objects > 0)
		json_put(object, "trash_since_ns", json_integer((json_int_t)info.trash_since_ns));
	if (info.is_changing) {
		json_put(object, "change", json_string(volume_change_name(info.change)));
		json_put(object, "change_since_ns", json_integer((json_int_t)info.change_since_ns));
	}
	return object;
}

static json_t *pool_json(const struct pool *pool)
{
	json_t *object = json_made(json_object());

	json_put(object, "name", json_string(pool->record.name));
	json_put(object, "uuid", uuid_json(pool->record.uuid));
	json_put(object, "size", json_integer((json_int_t)pool->record.size_bytes));
	json_put(object, "overcommit", json_boolean(pool->record.overcommit));
	json_put(object, "created_ns", json_integer((json_int_t)pool->record.created_ns));
	json_put(object, "volumes", json_integer(pool->volume_count));
	put_usage(object, &pool->usage);
	json_put(object, "state", json_string(pool->why.error ? "ERRORED" : "ONLINE"));
	if (pool->why.error)
		json_put(object, "reason", json_text(pool->why.text));
	return object;
}

void method_pool_get_pools(struct rpc_request *request)
{
	struct volumes *volumes = rpc_volume_storage(request);
	json_t *result, *list;

	if (!volumes)
		return;
	result = json_made(json_object());
	list = json_made(json_array());
	for (const struct pool *pool = volumes_first_pool(volumes); pool; pool = TAILQ_NEXT(pool, link))
		json_add(list, pool_json(pool));
	json_put(result, "storage", storage_json(volumes));
	json_put(result, "pools", list);
	rpc_reply(request, result);
}

/* ---- volumes ---- */

struct creation {
	struct rpc_request *request;
	char result[NVME_NQN_FIELD_BYTES]; /* the block device, or the NQN */
};
static_assert((int)NVME_NQN_FIELD_BYTES >= 2 * (int)POOL_NAME_BYTES_MAX, "a device's name fits, too");

static void reply_created(void *ctx, const struct fathom_fault *why)
{
	struct creation *creation = ctx;

	if (why)
		rpc_error_errno(creation->request, why->error, why->text);
	else
		rpc_reply(creation->request, json_text(creation->result));
	free(creation);
}

void method_volume_create(struct rpc_request *request, const struct volume_create_params *p)
{
	struct volumes *volumes = rpc_volume_own_storage(request);
	struct volume_record record = {
		.size_bytes = p->size, .block_bytes = p->block_size, .thick = p->thick, .checksums = p->checksums
	};
	char pool[POOL_NAME_BYTES_MAX];
	struct creation *creation;

	if (!volumes || !copy_name(request, pool, p->pool) || !copy_name(request, record.name, p->volume))
		return;
	uuid_copy(record.uuid, p->uuid);
	creation = calloc(1, sizeof(*creation));
	must(creation);
	creation->request = request;
	must((size_t)snprintf(creation->result, sizeof(creation->result), "%s/%s", pool, record.name) <
	     sizeof(creation->result));
	volumes_create(volumes, &(struct volume_key){ .pool = pool }, &record, reply_created, creation);
}

void method_volume_destroy(struct rpc_request *request, const struct volume_destroy_params *p)
{
	struct volumes *volumes = rpc_volume_own_storage(request);

	if (volumes)
		export_destroy_volume(volumes, &(struct volume_key){ .pool = p->pool, .volume = p->volume }, p->force,
				      rpc_volume_done, request);
}

void method_volume_resize(struct rpc_request *request, const struct volume_resize_params *p)
{
	struct volumes *volumes = rpc_volume_own_storage(request);

	if (volumes)
		volumes_resize(volumes, &(struct volume_key){ .pool = p->pool, .volume = p->volume }, p->size, p->force,
			       rpc_volume_done, request);
}

void method_volume_rename(struct rpc_request *request, const struct volume_rename_params *p)
{
	struct volumes *volumes = rpc_volume_own_storage(request);

	if (volumes)
		volumes_rename(volumes, &(struct volume_key){ .pool = p->pool, .volume = p->volume }, p->new_name,
			       rpc_volume_done, request);
}

void method_volume_set_thick(struct rpc_request *request, const struct volume_set_thick_params *p)
{
	struct volumes *volumes = rpc_volume_own_storage(request);

	if (volumes)
		volumes_set_thick(volumes, &(struct volume_key){ .pool = p->pool, .volume = p->volume }, !p->off,
				  rpc_volume_done, request);
}

void method_volume_scrub(struct rpc_request *request, const struct volume_scrub_params *p)
{
	struct volumes *volumes = rpc_volume_storage(request);
	struct volume *volume = volumes ? volumes_find(volumes, p->pool, p->volume) : NULL;

	if (!volumes)
		return;
	if (!volume) {
		rpc_error(request, -ENOENT, "%s: there is no volume %s/%s", strerror(ENOENT), p->pool, p->volume);
		return;
	}
	if (p->rate > 0)
		volumes_set_scrub_rate(volumes, p->rate);
	if (p->stop)
		volumes_stop_scrub(volume);
	else if (!volumes_start_scrub(volume)) {
		rpc_error(request, -EINVAL, "%s: volume %s has no checksums, or is not ONLINE", strerror(EINVAL),
			  volume->device);
		return;
	}
	rpc_reply(request, NULL);
}

static void put_checksums(json_t *object, const struct volume *volume)
{
	const struct volume_scrub *scrub = &volume->scrub;
	struct bdev *bdev = scrub->is_listed ? bdev_find(volume->device) : NULL;
	json_t *row;
	struct file_sums_info info;

	json_put(object, "checksums", json_boolean(volume->record.checksums));
	if (!bdev)
		return;
	file_get_sums(bdev, &info);
	row = json_made(json_object());
	json_put(row, "state", json_string(scrub->is_wanted ? "RUNNING" : "IDLE"));
	json_put(row, "mismatches", json_integer((json_int_t)info.mismatches));
	json_put(row, "suspect_regions", json_integer((json_int_t)info.suspect));
	json_put(row, "marked_regions", json_integer((json_int_t)info.marked));
	json_put(row, "adopted", json_integer((json_int_t)info.adopted));
	if (scrub->begun_ns > 0) {
		json_put(row, "begun_ns", json_integer((json_int_t)scrub->begun_ns));
		json_put(row, "bytes_done", json_integer((json_int_t)(scrub->next_block * volume->record.block_bytes)));
		json_put(row, "failed_reads", json_integer((json_int_t)scrub->failed_reads));
	}
	if (scrub->ended_ns > 0)
		json_put(row, "ended_ns", json_integer((json_int_t)scrub->ended_ns));
	json_put(object, "scrub", row);
}

/* ---- hosts ---- */

void method_volume_publish(struct rpc_request *request, const struct volume_publish_params *p)
{
	struct volumes *volumes = rpc_volume_own_storage(request);
	const struct volume *volume = volumes ? volumes_find(volumes, p->pool, p->volume) : NULL;
	const struct volume_key key = { .pool = p->pool, .volume = p->volume };
	struct creation *creation;

	if (!volumes)
		return;
	creation = calloc(1, sizeof(*creation));
	must(creation);
	creation->request = request;
	if (volume)
		export_get_nqn(volume, creation->result);
	export_publish(volumes, &key, p->host, reply_created, creation);
}

void method_volume_unpublish(struct rpc_request *request, const struct volume_unpublish_params *p)
{
	struct volumes *volumes = rpc_volume_own_storage(request);
	const struct volume_key key = { .pool = p->pool, .volume = p->volume };

	if (volumes)
		export_unpublish(volumes, &key, p->host, p->force, rpc_volume_done, request);
}

static json_t *hosts_json(const struct volume *volume)
{
	json_t *list = json_made(json_array());

	for (uint32_t i = 0; i < volume->record.host_count; i++) {
		json_t *object = json_made(json_object());
		struct export_host host;

		export_get_host(volume, volume->record.hosts[i].nqn, &host);
		json_put(object, "nqn", json_text(volume->record.hosts[i].nqn));
		json_put(object, "connections", json_integer(host.connections));
		if (host.connections > 0) {
			json_put(object, "since_ns", json_integer((json_int_t)host.since_ns));
			json_put(object, "address", json_text(host.address));
		}
		json_add(list, object);
	}
	return list;
}

static void put_export(json_t *object, const struct volume *volume)
{
	const struct volume_export *export = export_find(volume);
	char nqn[NVME_NQN_FIELD_BYTES];

	if (volume->record.host_count == 0)
		return;
	export_get_nqn(volume, nqn);
	json_put(object, "nqn", json_text(nqn));
	json_put(object, "export", json_string(volume_export_state_name(export ? export->state : VOLUME_EXPORT_ABSENT)));
	json_put(object, "hosts", hosts_json(volume));
	if (export_failure(volume))
		json_put(object, "export_reason", json_text(export_failure(volume)));
}

/* What is done to its files in the background, or is left to do. */
static void put_upkeep(json_t *object, const struct volume *volume)
{
	json_put(object, "shares", json_boolean(volume->record.shares));
	if (!volume->record.allocating)
		return;
	json_put(object, "allocating", json_integer((json_int_t)volume->upkeep.next));
	if (volume->upkeep.why.error)
		json_put(object, "allocating_reason", json_text(volume->upkeep.why.text));
}

static json_t *volume_json(const struct volume *volume)
{
	json_t *object = json_made(json_object());

	json_put(object, "name", json_string(volume->record.name));
	json_put(object, "pool", json_string(volume->pool->record.name));
	json_put(object, "uuid", uuid_json(volume->record.uuid));
	json_put(object, "state", json_string(volume_state_name(volume->state)));
	json_put(object, "since_ns", json_integer((json_int_t)volume->since_ns));
	json_put(object, "device", json_string(volume->device));
	json_put(object, "size", json_integer((json_int_t)volume->record.size_bytes));
	json_put(object, "block_size", json_integer(volume->record.block_bytes));
	json_put(object, "thick", json_boolean(volume->record.thick));
	put_upkeep(object, volume);
	put_checksums(object, volume);
	json_put(object, "created_ns", json_integer((json_int_t)volume->record.created_ns));
	if (volume->state == VOLUME_ERRORED || volume->state == VOLUME_READ_ONLY)
		json_put(object, "reason", json_text(volume->why.text));
	put_export(object, volume);
	put_snapshots(object, volume);
	return object;
}

static void add_volumes(json_t *list, const struct pool *pool)
{
	const struct volume *volume;

	TAILQ_FOREACH (volume, &pool->volumes, link)
		json_add(list, volume_json(volume));
}

void method_volume_get_volumes(struct rpc_request *request, const struct volume_get_volumes_params *p)
{
	struct volumes *volumes = rpc_volume_storage(request);
	const struct pool *only = volumes && p->pool ? volumes_find_pool(volumes, p->pool) : NULL;
	json_t *list;

	if (!volumes)
		return;
	if (p->pool && !only) {
		rpc_error(request, -ENOENT, "%s: there is no pool \"%s\"", strerror(ENOENT), p->pool);
		return;
	}
	list = json_made(json_array());
	for (const struct pool *pool = volumes_first_pool(volumes); pool; pool = TAILQ_NEXT(pool, link)) {
		if (!only || pool == only)
			add_volumes(list, pool);
	}
	rpc_reply(request, list);
}
