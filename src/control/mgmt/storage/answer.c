/* SPDX-License-Identifier: BSD-2-Clause */
/* A volume as a message: names and intents from the catalog, the rest from its engine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/mgmt/storage/storage.h"

void storage_copy_text(char *to, size_t to_bytes, const char *from)
{
	to[text_utf8_copy(to, to_bytes - 1, from, strlen(from))] = '\0';
}

/* The listener of the member's engine, from its fabric URI. */
static void write_address(const struct member *member, char *address)
{
	const char *uri = member->fabrics[0].uri, *authority = strstr(uri, "://");

	(void)text_copy(address, MEMBER_URI_BYTES, authority ? authority + strlen("://") : uri);
}

/* The pool does not count on the volume's rank. */
static bool is_excluded(const struct catalog_volume *volume)
{
	int index = catalog_share_index(volume->pool, volume->record.place.rank);

	return index >= 0 && catalog_use(&volume->pool->record, (uint32_t)index).state == MGMT_SHARE_EXCLUDED;
}

static const char *state_of(const struct catalog_volume *volume, bool is_lost, const struct storage_known *known)
{
	switch (volume->state) {
	case MGMT_VOLUME_CREATING:
		return "creating";
	case MGMT_VOLUME_DESTROYING:
		return "destroying";
	case MGMT_VOLUME_READY:
		break;
	}
	if (is_lost)
		return "lost";
	if (known->pool_reason)
		return "errored";
	if (known->is_absent)
		return "missing";
	if (known->reason && is_excluded(volume))
		return "excluded";
	if (known->volume && strcmp(known->volume->state, "READ_ONLY") == 0)
		return "read-only";
	return known->volume && strcmp(known->volume->state, "ERRORED") == 0 ? "errored" : "ready";
}

/* A state that only the engine knows begins later than that of the record. */
static uint64_t since_of(const struct catalog_volume *volume, const char *state, const struct storage_known *known)
{
	uint64_t since_ns = volume->record.since_ns;

	if (strcmp(state, "missing") == 0)
		return max_u64(since_ns, known->missing_ns);
	if (known->pool_reason)
		return 0; /* the engine does not say since when it cannot use the pool */
	if (strcmp(state, "errored") == 0 || strcmp(state, "read-only") == 0)
		return max_u64(since_ns, known->volume ? known->volume->since_ns : 0);
	return since_ns;
}

static void write_reason(const struct catalog_volume *volume, bool is_lost, const struct storage_known *known,
			 struct storage_shown *shown)
{
	const struct catalog_volume_record *record = &volume->record;
	char progress[STORAGE_CHANGE_BYTES];
	const char *reason = "";

	if (is_lost) {
		snprintf(shown->reason, sizeof(shown->reason), "rank %u was erased or replaced, and its data with it",
			 record->place.rank);
		return;
	}
	if (volume->task && volume->task->why.error)
		reason = volume->task->why.text;
	else if (volume->task && storage_move_progress(volume->task, progress)[0])
		reason = progress;
	else if (record->undo[0])
		reason = record->undo;
	else if (volume->stay)
		reason = volume->stay->why;
	else if (known->volume && known->volume->reason[0])
		reason = known->volume->reason;
	else if (known->pool_reason)
		reason = known->pool_reason;
	else if (known->is_absent)
		reason = "its engine does not have it";
	else if (shown->late[0])
		reason = shown->late;
	else if (known->reason)
		reason = known->reason;
	storage_copy_text(shown->reason, sizeof(shown->reason), reason);
}

static void fill_host(Fathom__Volume__Host *host, const char *nqn, const char *machine, const Store__Host *connected)
{
	fathom__volume__host__init(host);
	host->nqn = (char *)nqn;
	host->machine = (char *)machine;
	if (!connected)
		return;
	host->connections = connected->connections;
	host->since_ns = connected->since_ns;
	host->address = connected->address;
}

static const Store__Host *find_host(const Store__Volume *volume, const char *nqn)
{
	for (size_t i = 0; volume && i < volume->n_hosts; i++) {
		if (strcmp(volume->hosts[i]->nqn, nqn) == 0)
			return volume->hosts[i];
	}
	return NULL;
}

/* The hosts of the catalog, then those that only the engine knows. Errors: -ENOMEM. */
static int show_hosts(const struct catalog_volume_record *record, const Store__Volume *known, Fathom__Volume *message)
{
	size_t room = record->host_count + (known ? known->n_hosts : 0), count = 0;
	Fathom__Volume__Host *hosts;

	if (room == 0)
		return 0;
	message->hosts = calloc(room, sizeof(*message->hosts) + sizeof(**message->hosts));
	if (!message->hosts)
		return -ENOMEM;
	hosts = (Fathom__Volume__Host *)(message->hosts + room);
	for (uint32_t i = 0; i < record->host_count; i++)
		fill_host(&hosts[count++], record->hosts[i].nqn, record->hosts[i].machine,
			  find_host(known, record->hosts[i].nqn));
	for (size_t i = 0; known && i < known->n_hosts; i++) {
		if (!catalog_has_host(record, known->hosts[i]->nqn))
			fill_host(&hosts[count++], known->hosts[i]->nqn, "", known->hosts[i]);
	}
	must(count <= room);
	for (size_t i = 0; i < count; i++)
		message->hosts[i] = &hosts[i];
	message->n_hosts = count;
	return 0;
}

static void show_allocation(const Store__Volume *known, Fathom__Volume *message)
{
	message->allocated_bytes = known->allocated_bytes;
	message->allocating = known->allocating;
	message->allocation_bytes = known->allocation_bytes;
	message->allocation_reason = known->allocation_reason;
}

static int show_snapshots(const Store__Volume *known, Fathom__Volume *message)
{
	Fathom__Volume__Snapshot *snapshots;
	size_t count = known ? known->n_snapshots : 0;

	if (count == 0)
		return 0;
	message->snapshots = calloc(count, sizeof(*message->snapshots) + sizeof(**message->snapshots));
	if (!message->snapshots)
		return -ENOMEM;
	snapshots = (Fathom__Volume__Snapshot *)(message->snapshots + count);
	for (size_t i = 0; i < count; i++) {
		const Store__Snapshot *from = known->snapshots[i];

		fathom__volume__snapshot__init(&snapshots[i]);
		snapshots[i].name = from->name;
		snapshots[i].uuid = from->uuid;
		snapshots[i].size_bytes = from->size_bytes;
		snapshots[i].created_ns = from->created_ns;
		snapshots[i].group_uuid = from->group_uuid;
		snapshots[i].allocated_bytes = from->allocated_bytes;
		message->snapshots[i] = &snapshots[i];
	}
	message->n_snapshots = count;
	return 0;
}

/* The engine's answer may be older than the publication. store.proto says how an engine makes the NQN. */
static const char *nqn_of(const struct catalog_volume_record *record, const Store__Volume *known, char *nqn, size_t bytes)
{
	if (known && known->nqn[0])
		return known->nqn;
	if (record->host_count == 0)
		return "";
	snprintf(nqn, bytes, "nqn.2014-08.org.nvmexpress:uuid:%s", record->uuid);
	return nqn;
}

/* After a move the reason is that of another rank. */
static void show_placement(const struct catalog_volume_record *record, Fathom__Volume *message)
{
	const struct catalog_placement *placement = &record->placement;

	if (placement->reason == PLACEMENT_UNKNOWN || placement->rank != record->place.rank)
		return;
	message->placed_by = (char *)placement_reason_text(placement->reason);
	message->placed_of = placement->possible;
	message->placed_free_bytes = placement->free_bytes;
	message->placed_volumes = placement->volumes;
	message->placed_published = placement->published;
	message->placed_operations = placement->operations;
	message->placed_bytes = placement->bytes;
}

/* What is pending of the volume: a change, the drain of its rank, or properties of its pool. Returns since when; or 0. */
static uint64_t show_pending(const struct mgmt *mgmt, const struct catalog_volume *volume, struct storage_shown *shown)
{
	const struct catalog_volume_record *record = &volume->record;
	uint64_t since_ns;

	storage_pending(volume->pool, volume, shown->pending);
	if (shown->pending[0])
		return volume->state == MGMT_VOLUME_READY ? record->change.since_ns : record->since_ns;
	since_ns = storage_drain_pending(volume, shown->pending);
	if (shown->pending[0])
		return since_ns;
	since_ns = storage_late_pending(volume, shown->pending);
	if (shown->pending[0])
		storage_late_explain(mgmt, volume->pool, (uint32_t)catalog_share_index(volume->pool, record->place.rank),
				     UINT32_MAX, shown->late);
	return since_ns;
}

int storage_show(const struct mgmt *mgmt, const struct catalog_volume *volume, const struct storage_known *known,
		 struct storage_shown *shown)
{
	const struct catalog_volume_record *record = &volume->record;
	const struct member *member = storage_member(mgmt, &record->place);
	Fathom__Volume *message = &shown->message;
	int error;

	memset(shown, 0, sizeof(*shown));
	fathom__volume__init(message);
	snprintf(shown->name, sizeof(shown->name), "%s/%s", volume->pool->record.name, record->name);
	message->pending_ns = show_pending(mgmt, volume, shown);
	write_reason(volume, !member, known, shown);
	message->name = shown->name;
	message->uuid = (char *)record->uuid;
	message->pool_uuid = (char *)volume->pool->record.uuid;
	message->state = (char *)state_of(volume, !member, known);
	message->since_ns = since_of(volume, message->state, known);
	message->pending = shown->pending;
	message->reason = shown->reason;
	message->rank = record->place.rank;
	message->rank_state = (char *)(member ? member_state_wire(member->state) : "gone");
	message->domain = (char *)(member ? member->domain : "");
	show_placement(record, message);
	message->size_bytes = record->size_bytes;
	message->block_bytes = record->block_bytes;
	message->thick = record->thick;
	message->checksums = record->checksums;
	message->read_only = record->read_only;
	message->description = (char *)record->description;
	message->created_ns = record->created_ns;
	message->origin = (char *)record->origin;
	message->asked_ns = known->asked_ns;
	if (known->volume)
		show_allocation(known->volume, message);
	message->nqn = (char *)nqn_of(record, known->volume, shown->nqn, sizeof(shown->nqn));
	if (member && known->address && known->address[0])
		(void)text_copy(shown->address, sizeof(shown->address), known->address);
	else if (member)
		write_address(member, shown->address);
	shown->addresses[0] = shown->address;
	message->addresses = shown->addresses;
	message->n_addresses = shown->address[0] != '\0';
	error = show_hosts(record, known->volume, message);
	if (!error)
		error = show_snapshots(known->volume, message);
	return error;
}

void storage_unshow(struct storage_shown *shown)
{
	free(shown->message.hosts);
	free(shown->message.snapshots);
	shown->message.hosts = NULL;
	shown->message.snapshots = NULL;
}

/* ---- after a change ---- */

static void reply_volume(const struct mgmt_task *task, struct grpc_call *call)
{
	Fathom__VolumeResp response = FATHOM__VOLUME_RESP__INIT;
	Fathom__Volume gone = FATHOM__VOLUME__INIT;
	const struct storage_known known = { .volume = task->answer,
					     .asked_ns = task->answer ? task->asked_ns : 0,
					     .address = task->address };
	struct storage_shown shown = { 0 };
	struct fathom_fault why = { 0 };

	if (!task->volume) {
		gone.name = (char *)task->name;
		gone.uuid = (char *)task->uuid;
		gone.state = (char *)"destroyed";
		response.volume = &gone;
		grpc_reply(call, &response.base);
		return;
	}
	if (storage_show(task->mgmt, task->volume, &known, &shown) < 0) {
		mgmt_fail(call, -ENOMEM, &why);
	} else {
		response.volume = &shown.message;
		grpc_reply(call, &response.base);
	}
	storage_unshow(&shown);
}

void storage_reply(const struct mgmt_task *task, struct grpc_call *call)
{
	Mgmt__PoolDestroyResp destroyed = MGMT__POOL_DESTROY_RESP__INIT;
	const ProtobufCMessageDescriptor *response = grpc_call_method(call)->response;

	if (response == &mgmt__pool_create_resp__descriptor)
		storage_reply_pool(task->pool, call);
	else if (response == &mgmt__pool_extend_resp__descriptor)
		storage_reply_extended(task->pool, call);
	else if (response == &mgmt__pool_destroy_resp__descriptor)
		grpc_reply(call, &destroyed.base);
	else if (response == &mgmt__pool_set_prop_resp__descriptor)
		storage_reply_set(task->pool, call);
	else
		reply_volume(task, call);
}
