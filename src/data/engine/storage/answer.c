/* SPDX-License-Identifier: BSD-2-Clause */
/* The response of a storage call. All memory of it is on the heap, so that one call frees it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "data/engine/internal.h"
#include "data/engine/load.h"
#include "data/engine/storage/calls.h"
#include "data/engine/volume_export.h"
#include "data/store/volume/snapshots.h"

static void *made(void *memory)
{
	must(memory); /* a few bytes for each volume */
	return memory;
}

static void set_text(char **field, const char *text)
{
	if (text[0])
		*field = made(strdup(text));
}

static void set_uuid(char **field, const uint8_t *uuid)
{
	char text[UUID_STR_LEN];

	uuid_unparse_lower(uuid, text);
	set_text(field, text);
}

static Store__StorageResp *create_answer(void)
{
	Store__StorageResp *answer = made(malloc(sizeof(*answer)));

	store__storage_resp__init(answer);
	return answer;
}

void storage_answer_free(Store__StorageResp *answer)
{
	store__storage_resp__free_unpacked(answer, NULL);
}

Store__StorageResp *storage_answer_error(int error, const char *text)
{
	Store__StorageResp *answer = create_answer();

	must(error < 0);
	answer->error = error;
	set_text(&answer->text, text);
	return answer;
}

void storage_answer_move(Store__StorageResp *answer, struct storage_call *call)
{
	answer->move_region_bytes = call->move.region_bytes;
	answer->move_region_count = call->move.region_count;
	answer->move_copied_bytes = call->move.copied_bytes;
	answer->move_total_bytes = call->move.total_bytes;
	answer->move_done = call->move.is_done;
	answer->move_regions = (ProtobufCBinaryData){ .len = call->move.regions_bytes, .data = call->move.regions };
	call->move.regions = NULL;
}

/* ---- hosts, volumes, pools ---- */

static void add_hosts(Store__Volume *to, const struct volume *volume)
{
	const struct volume_record *record = &volume->record;
	char nqn[NVME_NQN_FIELD_BYTES];

	if (record->host_count == 0)
		return;
	to->hosts = made(calloc(record->host_count, sizeof(Store__Host *)));
	for (to->n_hosts = 0; to->n_hosts < record->host_count; to->n_hosts++) {
		Store__Host *host = made(malloc(sizeof(*host)));
		struct export_host info;

		store__host__init(host);
		set_text(&host->nqn, record->hosts[to->n_hosts].nqn);
		export_get_host(volume, record->hosts[to->n_hosts].nqn, &info);
		host->connections = info.connections;
		host->since_ns = info.since_ns;
		set_text(&host->address, info.address);
		to->hosts[to->n_hosts] = host;
	}
	export_get_nqn(volume, nqn);
	set_text(&to->nqn, nqn);
}

/* A published volume that hosts cannot reach is as bad as one whose file cannot be opened. */
static void set_state(Store__Volume *to, const struct volume *volume)
{
	const char *failure = volume->state == VOLUME_ERRORED ? volume->why.text : export_failure(volume);

	set_text(&to->state, volume_state_name(failure ? VOLUME_ERRORED : volume->state));
	if (!failure && volume->state == VOLUME_READ_ONLY)
		failure = volume->why.text;
	if (failure)
		set_text(&to->reason, failure);
}

static Store__Snapshot *create_snapshot(const struct snapshot *snapshot)
{
	Store__Snapshot *to = made(malloc(sizeof(*to)));

	store__snapshot__init(to);
	set_text(&to->name, snapshot->record.name);
	set_uuid(&to->uuid, snapshot->record.uuid);
	set_uuid(&to->group_uuid, snapshot->record.group);
	to->size_bytes = snapshot->record.size_bytes;
	to->created_ns = snapshot->record.created_ns;
	to->allocated_bytes = snapshot->allocated_bytes;
	return to;
}

static void add_snapshots(Store__Volume *to, const struct volume *volume)
{
	const struct snapshot *snapshot;

	if (volume->snapshot_count == 0)
		return;
	to->snapshots = made(calloc(volume->snapshot_count, sizeof(Store__Snapshot *)));
	TAILQ_FOREACH (snapshot, &volume->snapshots, link)
		to->snapshots[to->n_snapshots++] = create_snapshot(snapshot);
}

/* "VOLUME@SNAPSHOT", by UUIDs. */
static void set_origin(Store__Volume *to, const struct volume_record *record)
{
	char text[2 * UUID_STR_LEN];

	if (!record->has_origin)
		return;
	uuid_unparse_lower(record->origin_volume, text);
	text[UUID_STR_LEN - 1] = '@';
	uuid_unparse_lower(record->origin_snapshot, text + UUID_STR_LEN);
	set_text(&to->origin, text);
}

static Store__Volume *create_volume(const struct volume *volume)
{
	const struct volume_record *record = &volume->record;
	Store__Volume *to = made(malloc(sizeof(*to)));

	store__volume__init(to);
	set_text(&to->name, record->name);
	set_uuid(&to->uuid, record->uuid);
	to->size_bytes = record->size_bytes;
	to->block_bytes = record->block_bytes;
	to->thick = record->thick;
	to->checksums = record->checksums;
	to->created_ns = record->created_ns;
	set_state(to, volume);
	to->since_ns = volume->since_ns;
	to->allocated_bytes = volume->allocated_bytes;
	add_hosts(to, volume);
	add_snapshots(to, volume);
	set_origin(to, record);
	set_text(&to->move, volume_move_text(record->move));
	to->read_only = record->read_only;
	to->allocating = record->allocating;
	to->allocation_bytes = record->allocating ? volume->upkeep.next : 0;
	if (record->allocating && volume->upkeep.why.error)
		set_text(&to->allocation_reason, volume->upkeep.why.text);
	return to;
}

static Store__Pool *create_pool(const struct pool *pool)
{
	const struct pool_record *record = &pool->record;
	Store__Pool *to = made(malloc(sizeof(*to)));
	const struct volume *volume;

	store__pool__init(to);
	set_text(&to->name, record->name);
	set_uuid(&to->uuid, record->uuid);
	to->size_bytes = record->size_bytes;
	set_text(&to->state, volume_state_name(pool->why.error ? VOLUME_ERRORED : VOLUME_ONLINE));
	if (pool->why.error)
		set_text(&to->reason, pool->why.text);
	to->overcommit = record->overcommit;
	to->created_ns = record->created_ns;
	TAILQ_FOREACH (volume, &pool->volumes, link) {
		to->promised_bytes += volume->record.read_only ? 0 : volume->record.size_bytes;
		to->allocated_bytes += volume->allocated_bytes;
	}
	to->used_bytes = pool->usage.used_bytes;
	to->limit_bytes = pool->usage.limit_bytes;
	to->full_in_ns = pool->usage.full_in_ns == USAGE_NO_FORECAST ? 0 : pool->usage.full_in_ns;
	return to;
}

static void add_all_volumes(Store__Pool *to, const struct pool *pool)
{
	const struct volume *volume;

	if (pool->volume_count == 0)
		return;
	to->volumes = made(calloc(pool->volume_count, sizeof(Store__Volume *)));
	TAILQ_FOREACH (volume, &pool->volumes, link)
		to->volumes[to->n_volumes++] = create_volume(volume);
	must(to->n_volumes == pool->volume_count);
}

/* ---- answers ---- */

static Store__StorageResp *create_storage(struct volumes *volumes, size_t pools)
{
	Store__StorageResp *answer = create_answer();
	struct load load = load_read();
	struct volumes_info info;

	volumes_get_info(volumes, &info);
	answer->minute_operations = load.operations;
	answer->minute_bytes = load.bytes;
	set_text(&answer->state, storage_state_name(info.state));
	answer->total_bytes = info.total_bytes;
	answer->free_bytes = info.free_bytes;
	if (info.state == STORAGE_FAILED)
		set_text(&answer->text, STORAGE_FAILED_REASON);
	if (engine_control.traddr[0]) {
		bool ipv6 = strchr(engine_control.traddr, ':') != NULL;

		must(asprintf(&answer->address, "%s%s%s:%s", ipv6 ? "[" : "", engine_control.traddr, ipv6 ? "]" : "",
			      engine_control.trsvcid) > 0);
	}
	if (pools > 0)
		answer->pools = made(calloc(pools, sizeof(Store__Pool *)));
	return answer;
}

Store__StorageResp *storage_answer_list(struct volumes *volumes)
{
	struct volumes_info info;
	Store__StorageResp *answer;

	volumes_get_info(volumes, &info);
	answer = create_storage(volumes, info.pools);
	for (const struct pool *pool = volumes_first_pool(volumes); pool; pool = TAILQ_NEXT(pool, link)) {
		Store__Pool *to = create_pool(pool);

		must(answer->n_pools < info.pools);
		answer->pools[answer->n_pools++] = to;
		add_all_volumes(to, pool);
	}
	return answer;
}

Store__StorageResp *storage_answer_changed(struct volumes *volumes, const struct volume_changed *changed)
{
	Store__StorageResp *answer = create_storage(volumes, 0);
	Store__Changes *to = made(malloc(sizeof(*to)));

	store__changes__init(to);
	answer->changes = to;
	to->offsets = made(calloc(changed->ranges_max, sizeof(*to->offsets)));
	to->bytes = made(calloc(changed->ranges_max, sizeof(*to->bytes)));
	to->zeroes = made(calloc(changed->ranges_max, sizeof(*to->zeroes)));
	to->n_offsets = to->n_bytes = to->n_zeroes = changed->count;
	for (uint32_t i = 0; i < changed->count; i++) {
		to->offsets[i] = changed->ranges[i].offset;
		to->bytes[i] = changed->ranges[i].bytes;
		to->zeroes[i] = changed->ranges[i].is_zero;
	}
	to->next_offset = changed->next_offset;
	if (!uuid_is_null(changed->uuid))
		set_uuid(&to->uuid, changed->uuid);
	if (!uuid_is_null(changed->from_uuid))
		set_uuid(&to->from_uuid, changed->from_uuid);
	to->size_bytes = changed->size_bytes;
	to->from_bytes = changed->from_bytes;
	to->block_bytes = changed->block_bytes;
	return answer;
}

Store__StorageResp *storage_answer_object(struct volumes *volumes, const struct volume_key *key)
{
	const struct pool *pool = volumes_find_pool(volumes, key->pool);
	const struct volume *volume = volumes_find(volumes, key->pool, key->volume);
	Store__StorageResp *answer = create_storage(volumes, pool ? 1 : 0);

	if (!pool)
		return answer;
	answer->n_pools = 1;
	answer->pools[0] = create_pool(pool);
	if (!volume)
		return answer;
	answer->pools[0]->n_volumes = 1;
	answer->pools[0]->volumes = made(calloc(1, sizeof(Store__Volume *)));
	answer->pools[0]->volumes[0] = create_volume(volume);
	return answer;
}
