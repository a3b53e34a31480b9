/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * storage_calls - the server's calls about pools and volumes: the dRPC method STORAGE of store.proto.
 *
 *   request -> is it ours? -> actions[] -> a change of the storage, later -> storage_call_end() -> StorageResp
 *
 * An error of a call is a negative errno and a sentence in the response; the dRPC call itself succeeds. A server repeats a
 * call after a lost answer or a restart, so a repeated call succeeds. Control thread only.
 *
 *   storage/calls.c   the table of actions, and what each starts      storage/answer.c   the response
 *   storage/list.c    the action LIST
 *   storage/snapshots.c   the actions that are about snapshots
 */
#ifndef ENGINE_STORAGE_CALLS_H
#define ENGINE_STORAGE_CALLS_H

#include "data/engine/control.h"
#include "data/store/volume/volumes.h"
#include "rpc/proto/store.pb-c.h"

enum { STORAGE_CALLS_MAX = 32 };
/* A storage that hangs must not take all connections: the server still pings the engine and drains it. */
static_assert((int)STORAGE_CALLS_MAX <= (int)DRPC_CONNECTIONS_MAX / 2, "other methods have the rest");

struct storage_call {
	struct drpc_call *drpc;
	const Store__StorageReq *request; /* valid until the reply */
	struct volumes *volumes;
	struct volume_key key;		   /* of `pool` and `volume` of the request */
	uint8_t new_uuid[POOL_UUID_BYTES]; /* zero: none */
	struct volume_changed *changed;	   /* SNAPSHOT_CHANGES: owned */
	uint64_t begin_ns;		   /* clock_monotonic_ns() */
	struct {
		uint64_t region_bytes, region_count, copied_bytes, total_bytes;
		bool is_done;
		uint8_t *regions; /* owned; NULL: none */
		size_t regions_bytes;
	} move; /* for the answer to an action of a move */
};

/* The row of DRPC_FATHOM_STORAGE. */
void engine_storage_call(struct drpc_call *drpc, const ProtobufCMessage *request);
/* Reply and free the call. `why`: NULL if it succeeded. */
void storage_call_end(struct storage_call *call, const struct fathom_fault *why);
/* The volume that a call is about, wherever it is now. NULL: it does not exist. */
const struct volume *storage_call_volume(const struct storage_call *call);
void storage_calls_stats(json_t *object);
/* Create the volume of the request, with its part in a move. */
void storage_create_volume(struct storage_call *call, enum volume_move move);
/* For the end of a destruction: a volume that does not exist was destroyed before. `ctx`: the call. */
void storage_end_destroy(void *ctx, const struct fathom_fault *why);

/* ---- storage/list.c: the action LIST ---- */

void storage_list(struct storage_call *call);

/* ---- storage/snapshots.c ---- */

void storage_snapshot_create(struct storage_call *call);
void storage_snapshot_destroy(struct storage_call *call);
void storage_snapshot_restore(struct storage_call *call);
void storage_snapshot_clone(struct storage_call *call);
void storage_snapshot_changes(struct storage_call *call);

/* ---- storage/answer.c ---- */

/* What LIST answers. Pair: storage_answer_free(). */
Store__StorageResp *storage_answer_list(struct volumes *volumes);
/* What the others answer: the pool or volume of `key`, if it exists. */
Store__StorageResp *storage_answer_object(struct volumes *volumes, const struct volume_key *key);
/* What SNAPSHOT_CHANGES answers. */
Store__StorageResp *storage_answer_changed(struct volumes *volumes, const struct volume_changed *changed);
/* Add what the call has about a move. Takes its regions. */
void storage_answer_move(Store__StorageResp *answer, struct storage_call *call);
Store__StorageResp *storage_answer_error(int error, const char *text);
void storage_answer_free(Store__StorageResp *answer);

#endif
