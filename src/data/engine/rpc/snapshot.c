/* SPDX-License-Identifier: BSD-2-Clause */
/* Methods for snapshots of volumes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/text.h"
#include "data/engine/methods.gen.h"
#include "data/engine/rpc/volume.h"
#include "data/store/pool/tree.h"
#include "data/store/volume/snapshots.h"

/* ---- take ---- */

/* A member "POOL/VOLUME", split in a copy of the caller's. False: the request has its reply. */
static bool split_member(struct rpc_request *request, const char *member, char text[2 * POOL_NAME_BYTES_MAX],
			 struct snapshot_request *to)
{
	char *slash;

	if (text_copy(text, 2 * POOL_NAME_BYTES_MAX, member) == 0 && (slash = strchr(text, '/'))) {
		*slash = '\0';
		to->key.pool = text;
		to->key.volume = slash + 1;
		return true;
	}
	rpc_error(request, -EINVAL, "%s: the member \"%s\" is not of the form POOL/VOLUME", strerror(EINVAL), member);
	return false;
}

static bool has_snapshot(const struct volumes *volumes, const struct snapshot_request *member)
{
	const struct volume *volume = volumes_find(volumes, member->key.pool, member->key.volume);

	return volume && volumes_find_snapshot(volume, member->name);
}

void method_volume_snapshot(struct rpc_request *request, const struct volume_snapshot_params *p)
{
	struct volumes *volumes = rpc_volume_storage(request);
	char texts[SNAPSHOT_GROUP_MAX][2 * POOL_NAME_BYTES_MAX];
	struct snapshot_request members[SNAPSHOT_GROUP_MAX] = { 0 };
	size_t more = json_array_size(p->members);

	if (!volumes)
		return;
	if (more >= SNAPSHOT_GROUP_MAX) {
		rpc_error(request, -EINVAL, "%s: at most %d snapshots can be of one instant", strerror(EINVAL),
			  SNAPSHOT_GROUP_MAX);
		return;
	}
	members[0] = (struct snapshot_request){ .key = { .pool = p->pool, .volume = p->volume }, .name = p->snapshot };
	uuid_copy(members[0].uuid, p->uuid);
	if (uuid_is_null(p->uuid) && has_snapshot(volumes, &members[0])) {
		/* the caller wants an image of now, and must not take the former one for it */
		rpc_error(request, -EEXIST, "%s: volume %s/%s has a snapshot \"%s\": a repeated call gives its UUID",
			  strerror(EEXIST), p->pool, p->volume, p->snapshot);
		return;
	}
	for (size_t i = 0; i < more; i++) {
		const char *member = json_string_value(json_array_get(p->members, i));

		if (!split_member(request, member, texts[i], &members[i + 1]))
			return;
		members[i + 1].name = p->snapshot;
	}
	volumes_snapshot(volumes, members, (uint32_t)more + 1, rpc_volume_done, request);
}

/* ---- destroy ---- */

void method_snapshot_destroy(struct rpc_request *request, const struct snapshot_destroy_params *p)
{
	struct volumes *volumes = rpc_volume_storage(request);
	const struct volume_key key = { .pool = p->pool, .volume = p->volume };

	if (volumes)
		volumes_destroy_snapshot(volumes, &key, p->snapshot, rpc_volume_done, request);
}

/* ---- restore, clone ---- */

void method_volume_restore(struct rpc_request *request, const struct volume_restore_params *p)
{
	struct volumes *volumes = rpc_volume_storage(request);
	const struct volume_key key = { .pool = p->pool, .volume = p->volume };

	if (volumes)
		volumes_restore(volumes, &key, p->snapshot, p->force, rpc_volume_done, request);
}

struct cloning {
	struct rpc_request *request;
	char device[2 * POOL_NAME_BYTES_MAX];
};

static void reply_cloned(void *ctx, const struct fathom_fault *why)
{
	struct cloning *cloning = ctx;

	if (why)
		rpc_error_errno(cloning->request, why->error, why->text);
	else
		rpc_reply(cloning->request, json_text(cloning->device));
	free(cloning);
}

void method_volume_clone(struct rpc_request *request, const struct volume_clone_params *p)
{
	struct volumes *volumes = rpc_volume_own_storage(request);
	const struct volume_key key = { .pool = p->pool, .volume = p->volume };
	struct volume_record clone = { .thick = p->thick };
	struct cloning *cloning;

	if (!volumes)
		return;
	if (text_copy(clone.name, sizeof(clone.name), p->new_name) != 0) {
		rpc_error(request, -EINVAL, "%s: the name \"%s\" is longer than %d characters", strerror(EINVAL),
			  p->new_name, POOL_NAME_BYTES_MAX - 1);
		return;
	}
	uuid_copy(clone.uuid, p->uuid);
	cloning = calloc(1, sizeof(*cloning));
	must(cloning);
	cloning->request = request;
	snprintf(cloning->device, sizeof(cloning->device), "%.63s/%s", p->pool, clone.name);
	volumes_clone(volumes, &key, p->snapshot, &clone, reply_cloned, cloning);
}

/* ---- show ---- */

static json_t *uuid_json(const uint8_t *uuid)
{
	char text[UUID_STR_LEN];

	uuid_unparse(uuid, text);
	return json_string(text);
}

static json_t *snapshot_json(const struct snapshot *snapshot)
{
	const struct snapshot_record *record = &snapshot->record;
	json_t *object = json_made(json_object());

	json_put(object, "name", json_string(record->name));
	json_put(object, "uuid", uuid_json(record->uuid));
	json_put(object, "group", uuid_json(record->group));
	json_put(object, "created_ns", json_integer((json_int_t)record->created_ns));
	json_put(object, "size", json_integer((json_int_t)record->size_bytes));
	json_put(object, "allocated", json_integer((json_int_t)snapshot->allocated_bytes));
	return object;
}

void method_volume_get_snapshots(struct rpc_request *request, const struct volume_get_snapshots_params *p)
{
	struct volumes *volumes = rpc_volume_storage(request);
	const struct volume *volume = volumes ? volumes_find(volumes, p->pool, p->volume) : NULL;
	const struct snapshot *snapshot;
	json_t *list;

	if (!volumes)
		return;
	if (!volume) {
		rpc_error(request, -ENOENT, "%s: there is no volume \"%s\" in pool \"%s\"", strerror(ENOENT), p->volume,
			  p->pool);
		return;
	}
	list = json_made(json_array());
	TAILQ_FOREACH (snapshot, &volume->snapshots, link)
		json_add(list, snapshot_json(snapshot));
	rpc_reply(request, list);
}

/* ---- changes ---- */

struct reading {
	struct rpc_request *request;
	char snapshot[POOL_NAME_BYTES_MAX], from[POOL_NAME_BYTES_MAX];
	struct volume_changed *changed;
};

static void free_reading(struct reading *reading)
{
	volume_changed_free(reading->changed);
	free(reading);
}

static json_t *changed_json(const struct volume_changed *changed)
{
	json_t *object = json_made(json_object()), *list = json_made(json_array());

	for (uint32_t i = 0; i < changed->count; i++) {
		const struct changed_range *range = &changed->ranges[i];
		json_t *part = json_made(json_object());

		json_put(part, "offset", json_integer((json_int_t)range->offset));
		json_put(part, "bytes", json_integer((json_int_t)range->bytes));
		json_put(part, "zero", json_boolean(range->is_zero));
		json_add(list, part);
	}
	if (!uuid_is_null(changed->uuid))
		json_put(object, "uuid", uuid_json(changed->uuid));
	if (!uuid_is_null(changed->from_uuid))
		json_put(object, "from_uuid", uuid_json(changed->from_uuid));
	json_put(object, "size", json_integer((json_int_t)changed->size_bytes));
	json_put(object, "block_size", json_integer(changed->block_bytes));
	json_put(object, "ranges", list);
	json_put(object, "next_offset", json_integer((json_int_t)changed->next_offset));
	return object;
}

static void reply_changed(void *ctx, const struct fathom_fault *why)
{
	struct reading *reading = ctx;

	if (why)
		rpc_error_errno(reading->request, why->error, why->text);
	else
		rpc_reply(reading->request, changed_json(reading->changed));
	free_reading(reading);
}

void method_snapshot_get_changes(struct rpc_request *request, const struct snapshot_get_changes_params *p)
{
	struct volumes *volumes = rpc_volume_storage(request);
	const struct volume_key key = { .pool = p->pool, .volume = p->volume };
	struct reading *reading;

	if (!volumes)
		return;
	reading = calloc(1, sizeof(*reading));
	must(reading);
	reading->request = request;
	reading->changed = volume_changed_create(p->max);
	reading->changed->snapshot = reading->snapshot;
	reading->changed->from = reading->from;
	reading->changed->offset = p->offset;
	if (text_copy(reading->snapshot, sizeof(reading->snapshot), p->snapshot ? p->snapshot : "") != 0 ||
	    text_copy(reading->from, sizeof(reading->from), p->from ? p->from : "") != 0) {
		rpc_error(request, -EINVAL, "%s: the name of a snapshot has at most %d characters", strerror(EINVAL),
			  POOL_NAME_BYTES_MAX - 1);
		free_reading(reading);
		return;
	}
	volumes_read_changed(volumes, &key, reading->changed, reply_changed, reading);
}

void put_snapshots(json_t *object, const struct volume *volume)
{
	struct copy_info copy;
	json_t *part;

	json_put(object, "snapshots", json_integer(volume->snapshot_count));
	if (volume->record.has_origin) {
		part = json_made(json_object());
		json_put(part, "volume", uuid_json(volume->record.origin_volume));
		json_put(part, "snapshot", uuid_json(volume->record.origin_snapshot));
		json_put(object, "origin", part);
	}
	if (!volumes_get_copy(engine_storage(), volume, &copy))
		return;
	part = json_made(json_object());
	json_put(part, "change", json_string(volume_change_name(copy.change)));
	json_put(part, "since_ns", json_integer((json_int_t)copy.since_ns));
	json_put(part, "bytes", json_integer((json_int_t)copy.bytes));
	json_put(part, "bytes_copied", json_integer((json_int_t)copy.bytes_copied));
	json_put(object, "copy", part);
}
