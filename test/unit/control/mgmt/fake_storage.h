/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_storage - the storage of one engine, as /fathom.ControlSvc/Storage shows it: a small model that follows the rules of
 * store.proto. A test tells it to fail, to hang, or to lose answers.
 */
#ifndef TEST_UNIT_CONTROL_MGMT_FAKE_STORAGE_H
#define TEST_UNIT_CONTROL_MGMT_FAKE_STORAGE_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "rpc/proto/store.pb-c.h"

enum { FAKE_POOLS = 80, FAKE_VOLUMES = 160, FAKE_HOSTS = 4, FAKE_SNAPSHOTS = 4, FAKE_ACTIONS = 64 };

struct fake_pool {
	char name[64], uuid[40];
	uint64_t size_bytes;
	bool overcommit, scrub_off;
	uint32_t scrub_seconds;
	const char *state, *reason; /* NULL: ONLINE */
};

struct fake_volume {
	char pool[64], name[64], uuid[40], origin[130];
	uint64_t size_bytes;
	uint32_t block_bytes;
	bool thick, checksums, read_only;
	bool is_busy; /* it cannot be offered for a move */
	char hosts[FAKE_HOSTS][224];
	bool is_connected[FAKE_HOSTS];
	uint32_t host_count;
	char snapshots[FAKE_SNAPSHOTS][64], snapshot_uuids[FAKE_SNAPSHOTS][40];
	uint64_t snapshot_times[FAKE_SNAPSHOTS], snapshot_sizes[FAKE_SNAPSHOTS];
	uint32_t images; /* of the session: snapshots that have had their round */
	uint32_t snapshot_count;
	const char *state, *reason; /* NULL: ONLINE */
	enum { FAKE_STILL, FAKE_INCOMING, FAKE_OUTGOING } move;
	char session[40]; /* offered, or copied; "": none */
	uint64_t serial;
	uint32_t round;
};

struct fake_storage {
	struct fake_pool pools[FAKE_POOLS];
	struct fake_volume volumes[FAKE_VOLUMES];
	uint32_t pool_count, volume_count;
	uint64_t total_bytes, free_bytes;
	uint64_t minute_operations, minute_bytes;
	bool has_failed;
	bool hangs;		  /* changes are not answered */
	bool lists_hang;	  /* LIST is not answered */
	uint32_t lost;		  /* so many changes are made, and their answers are lost */
	int errors[FAKE_ACTIONS]; /* by action: refuse it with this errno */
	uint32_t refused;	  /* POOL_SET: properties that are refused for space */
	uint32_t calls[FAKE_ACTIONS];
	bool is_read; /* the answer has changes */
	uint64_t read_offset;
	char read_from[64];
	uint32_t changes; /* calls that have changed something */
	uint32_t regions; /* of the next MOVE_CHANGES; halved by each */
	uint32_t running; /* so many MOVE_STATUS find the copy in progress */
	uint64_t clock;	  /* of its snapshots */
};

static inline struct fake_pool *fake_find_pool(struct fake_storage *storage, const char *name)
{
	for (uint32_t i = 0; i < storage->pool_count; i++) {
		if (strcmp(storage->pools[i].name, name) == 0)
			return &storage->pools[i];
	}
	return NULL;
}

static inline struct fake_volume *fake_find_volume(struct fake_storage *storage, const char *pool, const char *name)
{
	for (uint32_t i = 0; i < storage->volume_count; i++) {
		if (strcmp(storage->volumes[i].pool, pool) == 0 && strcmp(storage->volumes[i].name, name) == 0)
			return &storage->volumes[i];
	}
	return NULL;
}

static inline struct fake_volume *fake_find_uuid(struct fake_storage *storage, const char *uuid)
{
	for (uint32_t i = 0; *uuid && i < storage->volume_count; i++) {
		if (strcmp(storage->volumes[i].uuid, uuid) == 0)
			return &storage->volumes[i];
	}
	return NULL;
}

static inline int fake_create_pool(struct fake_storage *storage, const Store__StorageReq *request)
{
	struct fake_pool *pool = fake_find_pool(storage, request->pool);

	if (pool)
		return strcmp(pool->uuid, request->pool_uuid) == 0 && pool->size_bytes == request->size_bytes ? 0 : -EEXIST;
	must(storage->pool_count < FAKE_POOLS);
	pool = &storage->pools[storage->pool_count++];
	*pool = (struct fake_pool){ .size_bytes = request->size_bytes,
				    .overcommit = request->overcommit,
				    .scrub_off = request->scrub_off,
				    .scrub_seconds = request->scrub_seconds };
	snprintf(pool->name, sizeof(pool->name), "%s", request->pool);
	snprintf(pool->uuid, sizeof(pool->uuid), "%s", request->pool_uuid);
	storage->changes++;
	return 0;
}

static inline int fake_set_pool(struct fake_storage *storage, const Store__StorageReq *request)
{
	struct fake_pool *pool = fake_find_pool(storage, request->pool);
	uint32_t set = request->pool_properties ? request->pool_properties : UINT32_MAX;

	if (!pool || strcmp(pool->uuid, request->pool_uuid) != 0)
		return -ENOENT;
	if (set & storage->refused)
		return -ENOSPC;
	if (set & 1)
		pool->size_bytes = request->size_bytes;
	if (set & 2)
		pool->overcommit = request->overcommit;
	if (set & 4)
		pool->scrub_off = request->scrub_off;
	if (set & 8)
		pool->scrub_seconds = request->scrub_seconds;
	storage->changes++;
	return 0;
}

static inline void fake_drop_volume(struct fake_storage *storage, struct fake_volume *volume)
{
	storage->free_bytes += volume->size_bytes;
	*volume = storage->volumes[--storage->volume_count];
	storage->changes++;
}

static inline bool fake_is_connected(const struct fake_volume *volume)
{
	for (uint32_t i = 0; i < volume->host_count; i++) {
		if (volume->is_connected[i])
			return true;
	}
	return false;
}

static inline int fake_destroy_pool(struct fake_storage *storage, const Store__StorageReq *request)
{
	struct fake_pool *pool = fake_find_pool(storage, request->pool);

	if (!pool || (*request->pool_uuid && strcmp(pool->uuid, request->pool_uuid) != 0))
		return 0;
	for (uint32_t i = 0; i < storage->volume_count; i++) {
		if (strcmp(storage->volumes[i].pool, request->pool) == 0 && !request->force)
			return -ENOTEMPTY;
	}
	for (uint32_t i = storage->volume_count; i-- > 0;) {
		if (strcmp(storage->volumes[i].pool, request->pool) == 0)
			fake_drop_volume(storage, &storage->volumes[i]);
	}
	*pool = storage->pools[--storage->pool_count];
	storage->changes++;
	return 0;
}

static inline int fake_create_volume(struct fake_storage *storage, const Store__StorageReq *request, const char *name,
				     const char *uuid, uint64_t size_bytes)
{
	struct fake_volume *volume = fake_find_volume(storage, request->pool, name);

	if (!fake_find_pool(storage, request->pool))
		return -ENOENT;
	if (volume)
		return strcmp(volume->uuid, uuid) == 0 && volume->size_bytes == size_bytes ? 0 : -EEXIST;
	if (size_bytes > storage->free_bytes)
		return -ENOSPC;
	must(storage->volume_count < FAKE_VOLUMES);
	volume = &storage->volumes[storage->volume_count++];
	*volume = (struct fake_volume){
		.size_bytes = size_bytes,
		.block_bytes = request->block_bytes ? request->block_bytes : 4096,
		.thick = request->thick,
		.checksums = request->checksums,
		.read_only = request->read_only,
	};
	snprintf(volume->pool, sizeof(volume->pool), "%s", request->pool);
	snprintf(volume->name, sizeof(volume->name), "%s", name);
	snprintf(volume->uuid, sizeof(volume->uuid), "%s", uuid);
	storage->free_bytes -= size_bytes;
	storage->changes++;
	return 0;
}

static inline int fake_find_snapshot(const struct fake_volume *volume, const char *name)
{
	for (uint32_t i = 0; i < volume->snapshot_count; i++) {
		if (strcmp(volume->snapshots[i], name) == 0)
			return (int)i;
	}
	return -1;
}

static inline void fake_add_snapshot(struct fake_volume *volume, const char *name, const char *uuid)
{
	must(volume->snapshot_count < FAKE_SNAPSHOTS);
	snprintf(volume->snapshot_uuids[volume->snapshot_count], sizeof(volume->snapshot_uuids[0]), "%s", uuid);
	snprintf(volume->snapshots[volume->snapshot_count++], sizeof(volume->snapshots[0]), "%s", name);
}

static inline int fake_snapshots(struct fake_storage *storage, const Store__StorageReq *request)
{
	for (size_t i = 0; i < request->n_members; i++) {
		const Store__SnapshotMember *member = request->members[i];
		struct fake_volume *volume = fake_find_volume(storage, member->pool, member->volume);
		int at = volume ? fake_find_snapshot(volume, member->snapshot) : -1;

		if (!volume || strcmp(volume->uuid, member->volume_uuid) != 0)
			return -ENOENT;
		if (at >= 0 && strcmp(volume->snapshot_uuids[at], member->uuid) != 0)
			return -EEXIST;
		if (at >= 0)
			continue;
		fake_add_snapshot(volume, member->snapshot, member->uuid);
		volume->snapshot_times[volume->snapshot_count - 1] = ++storage->clock;
		volume->snapshot_sizes[volume->snapshot_count - 1] = volume->size_bytes;
		storage->changes++;
	}
	return 0;
}

static inline int fake_host_of(const struct fake_volume *volume, const char *nqn)
{
	for (uint32_t i = 0; i < volume->host_count; i++) {
		if (strcmp(volume->hosts[i], nqn) == 0)
			return (int)i;
	}
	return -1;
}

static inline int fake_publish(struct fake_storage *storage, struct fake_volume *volume, const Store__StorageReq *request)
{
	int at = fake_host_of(volume, request->host_nqn);

	if (request->action == STORE__ACTION__VOLUME_PUBLISH && at < 0) {
		must(volume->host_count < FAKE_HOSTS);
		volume->is_connected[volume->host_count] = false;
		snprintf(volume->hosts[volume->host_count++], sizeof(volume->hosts[0]), "%s", request->host_nqn);
		storage->changes++;
	} else if (request->action == STORE__ACTION__VOLUME_UNPUBLISH && at >= 0) {
		if (volume->is_connected[at] && !request->force)
			return -EBUSY;
		volume->host_count--;
		memmove(volume->hosts[at], volume->hosts[volume->host_count], sizeof(volume->hosts[0]));
		volume->is_connected[at] = volume->is_connected[volume->host_count];
		storage->changes++;
	}
	return 0;
}

/* As an engine: the snapshots come first, each with the one before it; then the volume, with the last one. */
static inline bool fake_round_is_next(const struct fake_volume *volume, const Store__StorageReq *request)
{
	const char *former = volume->images > 0 ? volume->snapshots[volume->images - 1] : "";

	if (volume->round > volume->images)
		return !request->snapshot[0] && !request->from_snapshot[0];
	if (volume->images < volume->snapshot_count)
		return strcmp(request->snapshot, volume->snapshots[volume->images]) == 0 &&
		       strcmp(request->from_snapshot, former) == 0;
	return !request->snapshot[0] && strcmp(request->from_snapshot, former) == 0;
}

static inline int fake_copied_snapshot(struct fake_storage *storage, struct fake_volume *volume,
				       const Store__StorageReq *request)
{
	int at = fake_find_snapshot(volume, request->snapshot);

	if (volume->move != FAKE_INCOMING || strcmp(volume->session, request->move_session) != 0 ||
	    volume->round != request->move_round)
		return -ESTALE;
	if (at >= 0)
		return strcmp(volume->snapshot_uuids[at], request->new_uuid) == 0 ? 0 : -EEXIST;
	fake_add_snapshot(volume, request->snapshot, request->new_uuid);
	volume->snapshot_times[volume->snapshot_count - 1] = request->snapshot_created_ns;
	volume->snapshot_sizes[volume->snapshot_count - 1] = request->size_bytes;
	return 0;
}

/* A step of a move, of an existing volume. */
static inline int fake_move(struct fake_storage *storage, struct fake_volume *volume, const Store__StorageReq *request)
{
	bool is_known = *volume->session && strcmp(volume->session, request->move_session) == 0;

	storage->changes++;
	switch (request->action) {
	case STORE__ACTION__MOVE_OFFER:
		if (volume->move != FAKE_STILL || volume->is_busy)
			return -EBUSY;
		snprintf(volume->session, sizeof(volume->session), "%s", request->move_session);
		volume->serial = request->move_serial;
		volume->round = volume->images = 0;
		return 0;
	case STORE__ACTION__MOVE_CHANGES:
		if (!is_known || request->move_round < volume->round || request->move_round > volume->round + 1)
			return -ESTALE;
		if (request->move_round == volume->round)
			return 0;
		if (!fake_round_is_next(volume, request))
			return -ESTALE;
		volume->round = request->move_round;
		volume->images += request->snapshot[0] != '\0';
		return 0;
	case STORE__ACTION__MOVE_SNAPSHOT:
		return fake_copied_snapshot(storage, volume, request);
	case STORE__ACTION__MOVE_COPY:
		if (volume->move != FAKE_INCOMING)
			return -EINVAL;
		snprintf(volume->session, sizeof(volume->session), "%s", request->move_session);
		volume->round = request->move_round;
		return 0;
	case STORE__ACTION__MOVE_STATUS:
		return is_known && volume->round == request->move_round ? 0 : -ESTALE;
	case STORE__ACTION__MOVE_FENCE:
		if (!is_known || volume->images != volume->snapshot_count)
			return -ESTALE;
		volume->move = FAKE_OUTGOING;
		return 0;
	case STORE__ACTION__MOVE_UNFENCE:
		if (volume->move == FAKE_INCOMING)
			return -EINVAL;
		if (request->move_serial <= volume->serial)
			return -ESTALE;
		volume->move = FAKE_STILL;
		volume->session[0] = '\0';
		return 0;
	case STORE__ACTION__MOVE_ACCEPT:
		must(request->n_move_hosts <= FAKE_HOSTS);
		if (volume->move == FAKE_OUTGOING)
			return -EINVAL;
		for (size_t i = 0; volume->move == FAKE_INCOMING && i < request->n_move_hosts; i++)
			snprintf(volume->hosts[i], sizeof(volume->hosts[0]), "%s", request->move_hosts[i]);
		volume->host_count = (uint32_t)request->n_move_hosts;
		volume->move = FAKE_STILL;
		return 0;
	case STORE__ACTION__MOVE_DISCARD:
		if (volume->move != FAKE_INCOMING)
			return -EINVAL;
		fake_drop_volume(storage, volume);
		return 0;
	case STORE__ACTION__MOVE_ERASE:
		if (volume->move != FAKE_OUTGOING)
			return -EINVAL;
		if (volume->serial > request->move_serial)
			return -ESTALE;
		fake_drop_volume(storage, volume);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static inline int fake_prepare_move(struct fake_storage *storage, const Store__StorageReq *request)
{
	int error = fake_create_volume(storage, request, request->volume, request->volume_uuid, request->size_bytes);

	if (!error)
		fake_find_volume(storage, request->pool, request->volume)->move = FAKE_INCOMING;
	return error;
}

/* A change of an existing volume or of its snapshots. */
static inline int fake_change_volume(struct fake_storage *storage, const Store__StorageReq *request)
{
	struct fake_volume *volume = fake_find_volume(storage, request->pool, request->volume);
	bool is_it = volume && (!*request->volume_uuid || strcmp(volume->uuid, request->volume_uuid) == 0);
	int at, error;

	if (request->action == STORE__ACTION__VOLUME_DESTROY) {
		if (is_it && fake_is_connected(volume) && !request->force)
			return -EBUSY;
		if (is_it)
			fake_drop_volume(storage, volume);
		/* as an engine that has it under another name */
		return !is_it && fake_find_uuid(storage, request->volume_uuid) ? -ENOENT : 0;
	}
	if (request->action == STORE__ACTION__VOLUME_RENAME && !is_it) {
		volume = fake_find_volume(storage, request->pool, request->new_name);
		return volume && strcmp(volume->uuid, request->volume_uuid) == 0 ? 0 : -ENOENT;
	}
	if (!is_it)
		return request->action == STORE__ACTION__MOVE_UNFENCE || request->action == STORE__ACTION__MOVE_DISCARD ||
				       request->action == STORE__ACTION__MOVE_ERASE
			       ? 0
			       : -ENOENT;
	if (request->action == STORE__ACTION__VOLUME_SET_THICK) {
		storage->changes += volume->thick != request->thick;
		volume->thick = request->thick;
		return 0;
	}
	if (request->action >= STORE__ACTION__MOVE_PREPARE)
		return fake_move(storage, volume, request);
	switch (request->action) {
	case STORE__ACTION__VOLUME_RESIZE:
		storage->changes += volume->size_bytes != request->size_bytes;
		volume->size_bytes = request->size_bytes;
		return 0;
	case STORE__ACTION__VOLUME_RENAME:
		if (fake_find_volume(storage, request->pool, request->new_name))
			return -EEXIST;
		snprintf(volume->name, sizeof(volume->name), "%s", request->new_name);
		storage->changes++;
		return 0;
	case STORE__ACTION__VOLUME_PUBLISH:
	case STORE__ACTION__VOLUME_UNPUBLISH:
		return fake_publish(storage, volume, request);
	case STORE__ACTION__SNAPSHOT_DESTROY:
		at = fake_find_snapshot(volume, request->snapshot);
		if (at < 0)
			return 0;
		volume->snapshot_count--;
		memmove(volume->snapshots[at], volume->snapshots[volume->snapshot_count], sizeof(volume->snapshots[0]));
		memmove(volume->snapshot_uuids[at], volume->snapshot_uuids[volume->snapshot_count],
			sizeof(volume->snapshot_uuids[0]));
		volume->snapshot_times[at] = volume->snapshot_times[volume->snapshot_count];
		volume->snapshot_sizes[at] = volume->snapshot_sizes[volume->snapshot_count];
		return 0;
	case STORE__ACTION__SNAPSHOT_RESTORE:
		return fake_find_snapshot(volume, request->snapshot) >= 0 ? 0 : -ENOENT;
	case STORE__ACTION__SNAPSHOT_CHANGES:
		storage->is_read = !request->snapshot[0] || fake_find_snapshot(volume, request->snapshot) >= 0;
		storage->read_offset = request->offset;
		snprintf(storage->read_from, sizeof(storage->read_from), "%s", request->from_snapshot);
		return storage->is_read ? 0 : -ENOENT;
	case STORE__ACTION__SNAPSHOT_CLONE:
		if (fake_find_snapshot(volume, request->snapshot) < 0)
			return -ENOENT;
		error = fake_create_volume(storage, request, request->new_name, request->new_uuid, volume->size_bytes);
		if (!error)
			fake_find_volume(storage, request->pool, request->new_name)->checksums = volume->checksums;
		return error;
	default:
		return -EOPNOTSUPP;
	}
}

static inline int fake_storage_do(struct fake_storage *storage, const Store__StorageReq *request)
{
	must((unsigned int)request->action < FAKE_ACTIONS);
	storage->calls[request->action]++;
	if (storage->errors[request->action])
		return storage->errors[request->action];
	switch (request->action) {
	case STORE__ACTION__LIST:
		return 0;
	case STORE__ACTION__POOL_CREATE:
		return fake_create_pool(storage, request);
	case STORE__ACTION__POOL_DESTROY:
		return fake_destroy_pool(storage, request);
	case STORE__ACTION__VOLUME_CREATE:
		return fake_create_volume(storage, request, request->volume, request->volume_uuid, request->size_bytes);
	case STORE__ACTION__SNAPSHOT_CREATE:
		return fake_snapshots(storage, request);
	case STORE__ACTION__MOVE_PREPARE:
		return fake_prepare_move(storage, request);
	case STORE__ACTION__POOL_SET:
		return fake_set_pool(storage, request);
	default:
		return fake_change_volume(storage, request);
	}
}

/* A volume as a message, with its storage. */
struct fake_shown {
	Store__Volume message;
	Store__Host hosts[FAKE_HOSTS], *host_places[FAKE_HOSTS];
	Store__Snapshot snapshots[FAKE_SNAPSHOTS], *snapshot_places[FAKE_SNAPSHOTS];
	char nqn[256];
};

static inline void fake_show(struct fake_volume *volume, struct fake_shown *shown)
{
	Store__Volume *message = &shown->message;

	store__volume__init(message);
	message->name = volume->name;
	message->uuid = volume->uuid;
	message->size_bytes = volume->size_bytes;
	message->block_bytes = volume->block_bytes;
	message->thick = volume->thick;
	message->checksums = volume->checksums;
	message->state = (char *)(volume->state ? volume->state : "ONLINE");
	message->reason = (char *)(volume->reason ? volume->reason : "");
	message->allocated_bytes = volume->size_bytes / 2;
	snprintf(shown->nqn, sizeof(shown->nqn), "nqn.2026-01.test:%s", volume->uuid);
	message->nqn = shown->nqn;
	for (uint32_t i = 0; i < volume->host_count; i++) {
		store__host__init(&shown->hosts[i]);
		shown->hosts[i].nqn = volume->hosts[i];
		shown->hosts[i].connections = volume->is_connected[i];
		shown->host_places[message->n_hosts++] = &shown->hosts[i];
	}
	message->hosts = shown->host_places;
	for (uint32_t i = 0; i < volume->snapshot_count; i++) {
		store__snapshot__init(&shown->snapshots[i]);
		shown->snapshots[i].name = volume->snapshots[i];
		shown->snapshots[i].uuid = volume->snapshot_uuids[i];
		shown->snapshots[i].group_uuid = volume->snapshot_uuids[i];
		shown->snapshots[i].created_ns = volume->snapshot_times[i];
		shown->snapshots[i].size_bytes = volume->snapshot_sizes[i];
		shown->snapshot_places[message->n_snapshots++] = &shown->snapshots[i];
	}
	message->snapshots = shown->snapshot_places;
}

/* The answer to any request: what the storage holds now. */
struct fake_answer {
	Store__StorageResp message;
	Store__Pool pools[FAKE_POOLS], *pool_places[FAKE_POOLS];
	struct fake_shown volumes[FAKE_VOLUMES];
	Store__Volume *volume_places[FAKE_VOLUMES];
	Store__Changes changes;
	uint64_t change[2]; /* offset and length of the only range */
	protobuf_c_boolean is_zero;
};

static inline void fake_fill_changes(struct fake_storage *storage, struct fake_answer *answer)
{
	Store__Changes *changes = &answer->changes;

	storage->is_read = false;
	store__changes__init(changes);
	answer->change[0] = storage->read_offset;
	answer->change[1] = 4096;
	answer->is_zero = true;
	changes->offsets = &answer->change[0];
	changes->bytes = &answer->change[1];
	changes->zeroes = &answer->is_zero;
	changes->n_offsets = changes->n_bytes = changes->n_zeroes = 1;
	changes->next_offset = storage->read_offset + 8192;
	changes->uuid = (char *)"newer";
	changes->from_uuid = storage->read_from;
	changes->size_bytes = 1 << 20;
	changes->block_bytes = 512;
	answer->message.changes = changes;
}

static inline void fake_fill_answer(struct fake_storage *storage, int error, struct fake_answer *answer)
{
	size_t next = 0;

	store__storage_resp__init(&answer->message);
	answer->message.error = error;
	answer->message.text = (char *)(error ? "the fake storage refuses" : "");
	answer->message.state = (char *)(storage->has_failed ? "FAILED" : "OPEN");
	answer->message.minute_operations = storage->minute_operations;
	answer->message.minute_bytes = storage->minute_bytes;
	answer->message.total_bytes = storage->total_bytes;
	answer->message.free_bytes = storage->free_bytes;
	answer->message.address = (char *)"10.1.1.1:4420";
	for (uint32_t i = 0; !error && i < storage->pool_count; i++) {
		Store__Pool *pool = &answer->pools[i];

		store__pool__init(pool);
		pool->name = storage->pools[i].name;
		pool->uuid = storage->pools[i].uuid;
		pool->size_bytes = storage->pools[i].size_bytes;
		pool->state = (char *)(storage->pools[i].state ? storage->pools[i].state : "ONLINE");
		pool->reason = (char *)(storage->pools[i].reason ? storage->pools[i].reason : "");
		pool->volumes = &answer->volume_places[next];
		for (uint32_t j = 0; j < storage->volume_count; j++) {
			if (strcmp(storage->volumes[j].pool, pool->name) != 0)
				continue;
			fake_show(&storage->volumes[j], &answer->volumes[next]);
			pool->promised_bytes += storage->volumes[j].size_bytes;
			pool->volumes[pool->n_volumes++] = &answer->volumes[next++].message;
		}
		answer->pool_places[answer->message.n_pools++] = pool;
	}
	answer->message.pools = answer->pool_places;
	if (!error && storage->is_read)
		fake_fill_changes(storage, answer);
}

/* What only the answers to steps of a move have. */
static inline void fake_fill_move(struct fake_storage *storage, const Store__StorageReq *request,
				  Store__StorageResp *answer)
{
	static uint8_t regions[8] = { 0xff, 0xff };

	if (request->action == STORE__ACTION__MOVE_CHANGES) {
		answer->move_region_bytes = 64 << 20;
		answer->move_region_count = storage->regions;
		answer->move_regions = (ProtobufCBinaryData){ .len = sizeof(regions), .data = regions };
		storage->regions /= 2;
	}
	if (request->action != STORE__ACTION__MOVE_STATUS)
		return;
	answer->move_total_bytes = 1000;
	answer->move_copied_bytes = 500;
	answer->move_done = storage->running == 0;
	storage->running -= storage->running > 0;
}

#endif
