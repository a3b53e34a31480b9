/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/engine/storage/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "data/engine/move/move.h"
#include "data/engine/probes.gen.h"
#include "data/engine/volume_export.h"
#include "data/store/volume/snapshots.h"

static_assert((int)STORAGE_ACTION_SNAPSHOT_CLONE == (int)STORE__ACTION__SNAPSHOT_CLONE, "the probe's enum has its values");
static_assert((int)STORAGE_ACTION_MOVE_SNAPSHOT == (int)STORE__ACTION__MOVE_SNAPSHOT, "the probe's enum has its values");
static_assert((int)STORAGE_ACTION_MOVE_ERASE == (int)STORE__ACTION__MOVE_ERASE, "the probe's enum has its values");

static_assert((int)STORAGE_ACTION_POOL_SET == (int)STORE__ACTION__POOL_SET, "here, too");
static_assert((int)STORAGE_ACTION_VOLUME_SET_THICK == (int)STORE__ACTION__VOLUME_SET_THICK, "here, too");
static_assert((int)STORAGE_ACTION_SNAPSHOT_CHANGES == (int)STORE__ACTION__SNAPSHOT_CHANGES, "here, too");

static struct {
	uint32_t under_way;
	uint64_t done, failed;
} calls;

/* ---- the end of a call ---- */

/* Also of a call that was rejected before it began: then `begin_ns` is 0, and it was never counted. */
static void reply_answer(struct drpc_call *drpc, const Store__StorageReq *request, uint64_t begin_ns,
			 Store__StorageResp *answer)
{
	must(answer->error <= 0);
	if (answer->error)
		calls.failed++;
	else
		calls.done++;
	probe_engine_storage_call(clock_ticks(), &engine_control, (enum storage_action)request->action,
				  trace_intern(request->volume[0] ? request->volume : request->pool), answer->error,
				  begin_ns ? clock_monotonic_ns() - begin_ns : 0);
	drpc_reply(drpc, &answer->base);
	storage_answer_free(answer);
}

static void reply_fault(struct drpc_call *drpc, const Store__StorageReq *request, const struct fathom_fault *why)
{
	reply_answer(drpc, request, 0, storage_answer_error(why->error, why->text));
}

static void reply_call(struct storage_call *call, const struct fathom_fault *why)
{
	Store__StorageResp *answer;

	must(calls.under_way > 0);
	calls.under_way--;
	if (why)
		answer = storage_answer_error(why->error, why->text);
	else if (call->request->action == STORE__ACTION__LIST)
		answer = storage_answer_list(call->volumes);
	else if (call->changed)
		answer = storage_answer_changed(call->volumes, call->changed);
	else
		answer = storage_answer_object(call->volumes, &call->key);
	if (!why)
		storage_answer_move(answer, call);
	free(call->move.regions);
	reply_answer(call->drpc, call->request, call->begin_ns, answer);
	volume_changed_free(call->changed);
	free(call);
}

/* The change of the storage is durable; a failed write of the state file is logged. The storage may be closed by now. */
static void reply_saved(void *ctx, const struct fathom_fault *why)
{
	static const struct fathom_fault closed = {
		.error = -ESHUTDOWN, .text = "the engine is stopping: the change is made, and the next list shows it"
	};

	reply_call(ctx, engine_storage() ? NULL : &closed);
}

/* Namespaces in the file of --state have the name of the volume. */
static bool changes_state_file(Store__Action action)
{
	return action == STORE__ACTION__VOLUME_RENAME || action == STORE__ACTION__VOLUME_DESTROY ||
	       action == STORE__ACTION__POOL_DESTROY || action == STORE__ACTION__MOVE_ERASE;
}

void storage_call_end(struct storage_call *call, const struct fathom_fault *why)
{
	if (!why && changes_state_file(call->request->action))
		state_file_save(reply_saved, call);
	else
		reply_call(call, why);
}

static void end_call(void *ctx, const struct fathom_fault *why)
{
	storage_call_end(ctx, why);
}

const struct volume *storage_call_volume(const struct storage_call *call)
{
	if (!engine_storage())
		return NULL;
	if (!uuid_is_null(call->key.uuid))
		return volumes_find_uuid(call->volumes, call->key.uuid);
	return volumes_find(call->volumes, call->key.pool, call->key.volume);
}

/*
 * -ENOENT: the object does not exist, or another one has its name: it was destroyed before, and has no hosts. But it does
 * exist if it was renamed, or if the storage itself has lost a folder.
 */
void storage_end_destroy(void *ctx, const struct fathom_fault *why)
{
	struct storage_call *call = ctx;
	const struct volume *volume = why && why->error == -ENOENT ? storage_call_volume(call) : NULL;
	struct fathom_fault named;

	if (volume)
		fill_fault(&named, -ENOENT, "%s; the volume is %s", why->text, volume->device);
	else if (!why || why->error == -ENOENT)
		why = NULL;
	storage_call_end(call, volume ? &named : why);
}

static void end_destroy_pool(void *ctx, const struct fathom_fault *why)
{
	struct storage_call *call = ctx;
	const struct pool *pool = engine_storage() ? volumes_find_pool(call->volumes, call->key.pool) : NULL;
	bool exists = pool &&
		      (uuid_is_null(call->key.pool_uuid) || uuid_compare(call->key.pool_uuid, pool->record.uuid) == 0);

	storage_call_end(call, why && why->error == -ENOENT && !exists ? NULL : why);
}

/* ---- actions: each calls storage_call_end() once, now or later ---- */

/* False: the name is too long, and the call has ended. */
static bool copy_name(struct storage_call *call, char to[POOL_NAME_BYTES_MAX], const char *name)
{
	struct fathom_fault why;

	if (text_copy(to, POOL_NAME_BYTES_MAX, name) == 0)
		return true;
	fill_fault(&why, -EINVAL, "the name \"%.64s ...\" is longer than %d characters", name, POOL_NAME_BYTES_MAX - 1);
	storage_call_end(call, &why);
	return false;
}

static struct pool_record pool_values(const struct storage_call *call)
{
	return (struct pool_record){ .size_bytes = call->request->size_bytes,
				     .overcommit = call->request->overcommit,
				     .scrub_off = call->request->scrub_off,
				     .scrub_seconds = call->request->scrub_seconds };
}

static void set_pool(struct storage_call *call)
{
	const struct pool_setting setting = {
		.values = pool_values(call),
		.properties = call->request->pool_properties,
		.force = call->request->force,
	};

	volumes_set_pool(call->volumes, &call->key, &setting, end_call, call);
}

static void create_pool(struct storage_call *call)
{
	struct pool_record record = pool_values(call);

	if (!copy_name(call, record.name, call->request->pool))
		return;
	uuid_copy(record.uuid, call->key.pool_uuid);
	volumes_create_pool(call->volumes, &record, end_call, call);
}

static void destroy_pool(struct storage_call *call)
{
	export_destroy_pool(call->volumes, &call->key, call->request->force, end_destroy_pool, call);
}

void storage_create_volume(struct storage_call *call, enum volume_move move)
{
	const Store__StorageReq *request = call->request;
	bool is_read_only = move == VOLUME_MOVE_INCOMING && request->read_only; /* a clone that is only read, as before */
	struct volume_record record = {
		.size_bytes = request->size_bytes,
		.block_bytes = request->block_bytes,
		.thick = request->thick && !is_read_only,
		.read_only = is_read_only,
		.checksums = request->checksums,
		.move = move,
	};

	if (!copy_name(call, record.name, request->volume))
		return;
	uuid_copy(record.uuid, call->key.uuid);
	volumes_create(call->volumes, &call->key, &record, end_call, call);
}

static void create_volume(struct storage_call *call)
{
	storage_create_volume(call, VOLUME_MOVE_NONE);
}

static void resize_volume(struct storage_call *call)
{
	volumes_resize(call->volumes, &call->key, call->request->size_bytes, call->request->force, end_call, call);
}

static void set_thick(struct storage_call *call)
{
	volumes_set_thick(call->volumes, &call->key, call->request->thick, end_call, call);
}

static void end_rename(void *ctx, const struct fathom_fault *why)
{
	struct storage_call *call = ctx;

	if (!why)
		call->key.volume = call->request->new_name; /* for the response */
	storage_call_end(call, why);
}

static void rename_volume(struct storage_call *call)
{
	volumes_rename(call->volumes, &call->key, call->request->new_name, end_rename, call);
}

static void destroy_volume(struct storage_call *call)
{
	export_destroy_volume(call->volumes, &call->key, call->request->force, storage_end_destroy, call);
}

static void publish_volume(struct storage_call *call)
{
	export_publish(call->volumes, &call->key, call->request->host_nqn, end_call, call);
}

static void unpublish_volume(struct storage_call *call)
{
	export_unpublish(call->volumes, &call->key, call->request->host_nqn, call->request->force, storage_end_destroy,
			 call);
}

/* A row without `start` is an action that this engine does not support. */
static const struct action {
	const char *name;
	void (*start)(struct storage_call *call);
} actions[] = {
	[STORE__ACTION__LIST] = { "LIST", storage_list },
	[STORE__ACTION__POOL_CREATE] = { "POOL_CREATE", create_pool },
	[STORE__ACTION__POOL_DESTROY] = { "POOL_DESTROY", destroy_pool },
	[STORE__ACTION__VOLUME_CREATE] = { "VOLUME_CREATE", create_volume },
	[STORE__ACTION__VOLUME_RESIZE] = { "VOLUME_RESIZE", resize_volume },
	[STORE__ACTION__VOLUME_RENAME] = { "VOLUME_RENAME", rename_volume },
	[STORE__ACTION__VOLUME_DESTROY] = { "VOLUME_DESTROY", destroy_volume },
	[STORE__ACTION__VOLUME_PUBLISH] = { "VOLUME_PUBLISH", publish_volume },
	[STORE__ACTION__VOLUME_UNPUBLISH] = { "VOLUME_UNPUBLISH", unpublish_volume },
	[STORE__ACTION__SNAPSHOT_CREATE] = { "SNAPSHOT_CREATE", storage_snapshot_create },
	[STORE__ACTION__SNAPSHOT_DESTROY] = { "SNAPSHOT_DESTROY", storage_snapshot_destroy },
	[STORE__ACTION__SNAPSHOT_RESTORE] = { "SNAPSHOT_RESTORE", storage_snapshot_restore },
	[STORE__ACTION__SNAPSHOT_CLONE] = { "SNAPSHOT_CLONE", storage_snapshot_clone },
	[STORE__ACTION__SNAPSHOT_CHANGES] = { "SNAPSHOT_CHANGES", storage_snapshot_changes },
	[STORE__ACTION__MOVE_PREPARE] = { "MOVE_PREPARE", move_prepare },
	[STORE__ACTION__MOVE_OFFER] = { "MOVE_OFFER", move_offer },
	[STORE__ACTION__MOVE_CHANGES] = { "MOVE_CHANGES", move_changes },
	[STORE__ACTION__MOVE_COPY] = { "MOVE_COPY", move_copy_begin },
	[STORE__ACTION__MOVE_STATUS] = { "MOVE_STATUS", move_status },
	[STORE__ACTION__MOVE_FENCE] = { "MOVE_FENCE", move_fence },
	[STORE__ACTION__MOVE_UNFENCE] = { "MOVE_UNFENCE", move_unfence },
	[STORE__ACTION__MOVE_ACCEPT] = { "MOVE_ACCEPT", move_accept },
	[STORE__ACTION__MOVE_DISCARD] = { "MOVE_DISCARD", move_discard },
	[STORE__ACTION__MOVE_SNAPSHOT] = { "MOVE_SNAPSHOT", move_snapshot },
	[STORE__ACTION__POOL_SET] = { "POOL_SET", set_pool },
	[STORE__ACTION__MOVE_ERASE] = { "MOVE_ERASE", move_erase },
	[STORE__ACTION__VOLUME_SET_THICK] = { "VOLUME_SET_THICK", set_thick },
};

/* ---- the method ---- */

/* Whether the engine takes a call for this rank now. */
static int check_engine(const Store__StorageReq *request, struct fathom_fault *why)
{
	switch (engine_control.state) {
	case ENGINE_RANK_ALONE:
	case ENGINE_RANK_STARTING:
		return fault(why, -EAGAIN, "the engine is starting: try again");
	case ENGINE_RANK_LEAVING:
		return fault(why, -ESHUTDOWN, "the engine is stopping");
	default:
		break;
	}
	if (engine_control.rank == ENGINE_RANK_NONE)
		return fault(why, -EAGAIN, "the engine has no rank yet: try again");
	if (request->rank != engine_control.rank)
		return fault(why, -ENXIO, "this engine has rank %u, not %u", engine_control.rank, request->rank);
	if (!engine_storage())
		return fault(why, -ENODEV, "the engine of rank %u has no storage: it was started without --storage",
			     engine_control.rank);
	return 0;
}

static int check_action(const Store__StorageReq *request, struct fathom_fault *why)
{
	if ((size_t)request->action >= ARRAY_COUNT(actions) || !actions[request->action].name)
		return fault(why, -EOPNOTSUPP, "this engine does not know action %d", (int)request->action);
	if (!actions[request->action].start)
		return fault(why, -EOPNOTSUPP, "this engine does not support %s", actions[request->action].name);
	if (calls.under_way >= STORAGE_CALLS_MAX)
		return fault(why, -EAGAIN, "%u calls about the storage are in progress: try again", calls.under_way);
	return 0;
}

static int parse_uuid(const char *name, const char *text, uint8_t uuid_ret[POOL_UUID_BYTES], struct fathom_fault *why)
{
	if (text[0] == '\0' || uuid_parse(text, uuid_ret) == 0)
		return 0;
	return fault(why, -EINVAL, "%s \"%.64s\" is not a UUID", name, text);
}

void engine_storage_call(struct drpc_call *drpc, const ProtobufCMessage *message)
{
	const Store__StorageReq *request = (const Store__StorageReq *)message;
	struct storage_call *call;
	struct fathom_fault why;

	if (check_engine(request, &why) || check_action(request, &why)) {
		reply_fault(drpc, request, &why);
		return;
	}
	call = calloc(1, sizeof(*call));
	must(call);
	call->key = (struct volume_key){ .pool = request->pool, .volume = request->volume };
	if (parse_uuid("pool_uuid", request->pool_uuid, call->key.pool_uuid, &why) ||
	    parse_uuid("volume_uuid", request->volume_uuid, call->key.uuid, &why) ||
	    parse_uuid("new_uuid", request->new_uuid, call->new_uuid, &why)) {
		free(call);
		reply_fault(drpc, request, &why);
		return;
	}
	call->drpc = drpc;
	call->request = request;
	call->volumes = engine_storage();
	call->begin_ns = clock_monotonic_ns();
	calls.under_way++;
	actions[request->action].start(call);
}

void storage_calls_stats(json_t *object)
{
	json_put(object, "under_way", json_integer(calls.under_way));
	json_put(object, "done", json_integer((json_int_t)calls.done));
	json_put(object, "failed", json_integer((json_int_t)calls.failed));
}
