/* SPDX-License-Identifier: BSD-2-Clause */
/* Change volumes: resize, rename, publish, unpublish, destroy. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/storage/storage.h"

int storage_find_changeable(struct mgmt *mgmt, const char *name, struct catalog_volume **volume_ret,
			    struct fathom_fault *why)
{
	char what[STORAGE_WHAT_BYTES];
	struct catalog_volume *volume;
	int error = storage_find_volume(mgmt, name, &volume, why);

	if (error)
		return error;
	storage_what(volume->pool, volume, what);
	if (volume->state != MGMT_VOLUME_READY)
		return storage_refuse_changing(volume->pool, volume, why);
	if (volume->pool->state != MGMT_POOL_READY)
		return storage_refuse_changing(volume->pool, NULL, why);
	if (!storage_member(mgmt, &volume->record.place))
		return fault_rank_data_lost(why, what, volume->record.place.rank);
	*volume_ret = volume;
	return 0;
}

static bool is_same_change(const struct catalog_change *one, const struct catalog_change *other)
{
	if (one->kind == CATALOG_MOVE && other->kind == CATALOG_MOVE) /* to the same rank, and not undone */
		return one->phase != MGMT_MOVE_SETTLING && one->phase != MGMT_MOVE_UNDOING &&
		       one->place.rank == other->place.rank;
	return one->kind == other->kind && one->size_bytes == other->size_bytes && strcmp(one->text, other->text) == 0;
}

static void replace_task(struct catalog_volume *volume)
{
	struct fathom_fault replaced = { 0 };
	char what[STORAGE_WHAT_BYTES];

	fill_fault(&replaced, -ECANCELED, "a forced request for %s has replaced this one",
		   storage_what(volume->pool, volume, what));
	storage_abandon(volume->task, &replaced);
}

int storage_store_change(struct mgmt *mgmt, struct catalog_volume *volume, const struct catalog_change *change,
			 struct fathom_fault *why)
{
	struct catalog_volume_record next = volume->record;
	bool is_same = is_same_change(&next.change, change);
	int error = 0;

	must(change->kind != CATALOG_NO_CHANGE);
	if (!is_same && next.change.kind != CATALOG_NO_CHANGE)
		error = storage_refuse_changing(volume->pool, volume, why);
	next.change = *change;
	next.change.since_ns = is_same ? volume->record.change.since_ns : clock_realtime_ns();
	if (!error)
		error = catalog_store_volume(mgmt->catalog, volume, &next, why);
	if (!error && volume->task)
		replace_task(volume);
	return error;
}

/*
 * Store the change and start its task; or wait for the same change that is under way. A forced request replaces one that is
 * not: an engine may refuse what it would do by force.
 */
void storage_begin_change(struct mgmt *mgmt, struct grpc_call *call, struct catalog_volume *volume,
			  const struct catalog_change *change)
{
	const struct catalog_change *now = &volume->record.change;
	bool is_same = is_same_change(now, change), is_forcing = change->is_forced && !now->is_forced;
	struct fathom_fault why = { 0 };
	int error = 0;

	if (is_same && !is_forcing && volume->task) {
		storage_wait(volume->task, call);
		return;
	}
	if (!volume->task && (is_same || now->kind == CATALOG_NO_CHANGE))
		error = storage_check_room(mgmt, &volume->record.place, 1, &why);
	if (!error)
		error = storage_store_change(mgmt, volume, change, &why);
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	storage_start(mgmt, volume->pool, volume, call);
}

static bool is_changing(const struct catalog_volume *volume)
{
	return volume->record.change.kind != CATALOG_NO_CHANGE;
}

/* ---- resize ---- */

static int check_size(const struct catalog_volume *volume, const Fathom__VolumeResizeReq *asked, struct fathom_fault *why)
{
	char what[STORAGE_WHAT_BYTES];

	if (asked->size_bytes == 0 || asked->size_bytes > CATALOG_BYTES_MAX)
		return fault_volume_size_bad(why, asked->size_bytes, "a volume has at least one block, and at most 4 EiB");
	if (asked->size_bytes % volume->record.block_bytes != 0)
		return fault_volume_size_bad(why, asked->size_bytes, "it is no multiple of the block size");
	if (asked->size_bytes < volume->record.size_bytes && !asked->force)
		return fault_volume_shrinks(why, storage_what(volume->pool, volume, what), volume->record.size_bytes,
					    asked->size_bytes);
	return 0;
}

void mgmt_volume_resize(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__VolumeResizeReq *asked = (const Fathom__VolumeResizeReq *)request;
	const struct catalog_change change = { .kind = CATALOG_RESIZE,
					       .size_bytes = asked->size_bytes,
					       .is_forced = asked->force };
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct catalog_volume *volume;
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	error = storage_find_changeable(mgmt, asked->name, &volume, &why);
	if (!error)
		error = check_size(volume, asked, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else if (!is_changing(volume) && volume->record.size_bytes == asked->size_bytes)
		storage_reply_volume(mgmt, call, volume);
	else
		storage_begin_change(mgmt, call, volume, &change);
}

/* ---- rename ---- */

/* The new name of the request: "VOLUME", or "POOL/VOLUME" of the same pool. */
static int read_new_name(const Fathom__VolumeRenameReq *asked, const char *pool, char *name, struct fathom_fault *why)
{
	const char *given = asked->new_name, *slash = strchr(given, '/');
	int error;

	if (slash && (strlen(pool) != (size_t)(slash - given) || memcmp(pool, given, strlen(pool)) != 0))
		return fault_storage_name_bad(why, "volume", given, "a volume cannot move to another pool");
	if (slash)
		given = slash + 1;
	error = catalog_check_name("volume", given, why);
	if (!error)
		must(text_copy(name, CATALOG_NAME_BYTES, given) == 0);
	return error;
}

/* The volume that this request has renamed before. NULL: none. */
static struct catalog_volume *find_renamed(struct mgmt *mgmt, const Fathom__VolumeRenameReq *asked)
{
	struct catalog_full_name full;
	struct catalog_volume *volume;
	struct catalog_pool *pool = NULL;
	char name[CATALOG_NAME_BYTES];

	if (catalog_split_name(asked->name, false, &full, NULL) == 0)
		pool = catalog_find_pool(mgmt->catalog, full.pool);
	if (!pool || catalog_find_volume(mgmt->catalog, pool, full.volume) ||
	    read_new_name(asked, pool->record.name, name, NULL) < 0)
		return NULL;
	volume = catalog_find_volume(mgmt->catalog, pool, name);
	return volume && strcmp(volume->record.former, full.volume) == 0 ? volume : NULL;
}

void mgmt_volume_rename(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__VolumeRenameReq *asked = (const Fathom__VolumeRenameReq *)request;
	struct catalog_change change = { .kind = CATALOG_RENAME };
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct catalog_volume *volume;
	char name[CATALOG_NAME_BYTES];
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	volume = find_renamed(mgmt, asked);
	if (volume) {
		storage_reply_volume(mgmt, call, volume);
		return;
	}
	error = storage_find_changeable(mgmt, asked->name, &volume, &why);
	if (!error)
		error = read_new_name(asked, volume->pool->record.name, name, &why);
	if (!error && strcmp(volume->record.name, name) == 0 && !is_changing(volume)) {
		storage_reply_volume(mgmt, call, volume);
		return;
	}
	if (!error)
		(void)text_copy(change.text, sizeof(change.text), name);
	if (!error && !is_same_change(&volume->record.change, &change))
		error = storage_check_free_name(mgmt, volume->pool, name, &why);
	if (error)
		mgmt_fail(call, error, &why);
	else
		storage_begin_change(mgmt, call, volume, &change);
}

/* ---- hosts ---- */

static bool is_publishing(const struct catalog_volume *volume, const char *host)
{
	return volume->record.change.kind == CATALOG_PUBLISH && strcmp(volume->record.change.text, host) == 0;
}

/* The NQN that `nvme gen-hostnqn` makes if the firmware reports no UUID. Hosts that have it would share a volume. */
static bool is_everybodys(const char *nqn)
{
	return strcmp(nqn, "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000000") == 0;
}

void mgmt_volume_publish(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__VolumePublishReq *asked = (const Fathom__VolumePublishReq *)request;
	struct catalog_change change = { .kind = CATALOG_PUBLISH };
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	char what[STORAGE_WHAT_BYTES];
	struct catalog_volume *volume;
	struct fathom_fault why = { 0 };
	int error;

	if (!mgmt)
		return;
	error = catalog_check_nqn(asked->host, &why);
	if (!error && is_everybodys(asked->host))
		error = fault_nqn_not_unique(&why, asked->host);
	if (!error)
		error = storage_find_changeable(mgmt, asked->name, &volume, &why);
	if (!error)
		error = storage_check_access(mgmt, call, volume->pool, asked->credential, change.machine, &why);
	if (!error && volume->record.host_count == CATALOG_HOSTS_MAX && !catalog_has_host(&volume->record, asked->host))
		error = fault_hosts_full(&why, storage_what(volume->pool, volume, what), CATALOG_HOSTS_MAX);
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	if (asked->renew && !catalog_has_host(&volume->record, asked->host) && !is_publishing(volume, asked->host)) {
		mgmt_fail(call, fault_host_evicted(&why, storage_what(volume->pool, volume, what), asked->host), &why);
		return;
	}
	if (storage_move_publish(mgmt, call, volume, asked->host))
		return;
	must(text_copy(change.text, sizeof(change.text), asked->host) == 0);
	storage_begin_change(mgmt, call, volume, &change);
}

void mgmt_volume_unpublish(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__VolumeUnpublishReq *asked = (const Fathom__VolumeUnpublishReq *)request;
	struct catalog_change change = { .kind = CATALOG_UNPUBLISH, .is_forced = asked->force };
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct catalog_volume *volume;
	struct fathom_fault why = { 0 };
	bool has_host, is_nameless = grpc_call_role(call) == GRPC_ROLE_AGENT && !asked->credential;
	int error;

	if (!mgmt)
		return;
	/* an agent may speak for one host only */
	error = *asked->host || grpc_call_role(call) == GRPC_ROLE_AGENT ? catalog_check_nqn(asked->host, &why) : 0;
	if (!error)
		error = storage_find_changeable(mgmt, asked->name, &volume, &why);
	if (error) {
		mgmt_fail(call, error, &why);
		return;
	}
	must(text_copy(change.text, sizeof(change.text), asked->host) == 0);
	has_host = *asked->host ? catalog_has_host(&volume->record, asked->host) : volume->record.host_count > 0;
	error = storage_check_unpublish(mgmt, call, volume, asked->host, asked->credential, &why);
	if (!has_host && !is_changing(volume) && (error == -EACCES || is_nameless))
		storage_reply_unpublished(mgmt, call, volume); /* a repetition, which changes nothing */
	else if (error)
		mgmt_fail(call, error, &why);
	else if (!has_host && !is_changing(volume))
		storage_reply_volume(mgmt, call, volume);
	else
		storage_begin_change(mgmt, call, volume, &change);
}

/* ---- destroy ---- */

/* Before the target of a committed move has accepted it, it knows no hosts, so it would not refuse for them. */
static int check_destroy(struct mgmt *mgmt, const struct catalog_volume *volume, const Fathom__VolumeDestroyReq *asked,
			 struct fathom_fault *why)
{
	const struct catalog_change *change = &volume->record.change;
	bool is_settling = change->kind == CATALOG_MOVE && change->phase == MGMT_MOVE_SETTLING;
	char what[STORAGE_WHAT_BYTES];

	if (volume->pool->state == MGMT_POOL_DESTROYING)
		return storage_refuse_changing(volume->pool, NULL, why);
	if (!asked->force && !storage_member(mgmt, &volume->record.place))
		return fault_rank_data_lost(why, storage_what(volume->pool, volume, what), volume->record.place.rank);
	if (!asked->force && is_settling && volume->record.host_count > 0)
		return storage_refuse_changing(volume->pool, volume, why);
	return volume->task ? 0 : storage_check_room(mgmt, &volume->record.place, 1, why);
}

void mgmt_volume_destroy(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__VolumeDestroyReq *asked = (const Fathom__VolumeDestroyReq *)request;
	struct mgmt *mgmt = mgmt_enter(call, asked->sys, true);
	struct catalog_volume_record next;
	struct catalog_volume *volume;
	struct fathom_fault why = { 0 }, gone = { 0 };
	char what[STORAGE_WHAT_BYTES];
	int error;

	if (!mgmt)
		return;
	error = storage_find_volume(mgmt, asked->name, &volume, &why);
	if (!error)
		error = check_destroy(mgmt, volume, asked, &why);
	if (!error && (volume->state != MGMT_VOLUME_DESTROYING || (asked->force && !volume->record.is_forced))) {
		next = volume->record;
		next.state = MGMT_VOLUME_DESTROYING;
		next.is_forced = asked->force;
		error = catalog_store_volume(mgmt->catalog, volume, &next, &why);
		fill_fault(&gone, -ECANCELED, "%s is being destroyed", storage_what(volume->pool, volume, what));
		if (!error && volume->task)
			storage_abandon(volume->task, &gone);
	}
	if (error)
		mgmt_fail(call, error, &why);
	else if (volume->task)
		storage_wait(volume->task, call);
	else
		storage_start(mgmt, volume->pool, volume, call);
}
