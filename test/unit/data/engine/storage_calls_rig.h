/* SPDX-License-Identifier: BSD-2-Clause */
/* storage_calls_rig - an engine with a storage and a rank, and the server's calls about pools and volumes. */
#ifndef TEST_UNIT_ENGINE_STORAGE_CALLS_RIG_H
#define TEST_UNIT_ENGINE_STORAGE_CALLS_RIG_H

#include <fcntl.h>
#include <sys/stat.h>

#include "control_rig.h"
#include "data/engine/internal.h"
#include "data/engine/storage/calls.h"

enum { MIB = 1 << 20, RANK = 3 };

#define UUID_A "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
#define UUID_B "11111111-2222-4333-8444-555555555555"

static char storage_folder[96];

/* ---- the storage ---- */

static volatile bool opened, closed;

static inline void note_opened(void *ctx, const struct fathom_fault *error)
{
	must(!error);
	opened = true;
}

static inline int open_storage(void *ctx)
{
	engine_storage_open(storage_folder, note_opened, NULL);
	return 0;
}

static inline void note_closed(void *ctx)
{
	struct bdev *bdev;

	while ((bdev = bdev_first()))
		must(bdev_unregister(bdev, NULL, NULL) == 0);
	closed = true;
}

static inline int close_storage(void *ctx)
{
	engine_storage_close(note_closed, NULL);
	return 0;
}

static inline int setup(void **state)
{
	(void)rig_setup(state); /* returns 0 */
	snprintf(storage_folder, sizeof(storage_folder), "%s/storage", rig_folder);
	must(mkdir(storage_folder, 0700) == 0);
	opened = closed = false;
	on_control(open_storage, NULL);
	rig_wait(opened);
	assert_int_equal(on_control(rig_open, NULL), 0);
	return 0;
}

static inline int teardown(void **state)
{
	on_control(close_storage, NULL);
	rig_wait(closed);
	return rig_teardown(state);
}

static inline void serve(void)
{
	on_control(rig_is_ready, NULL);
	assert_int_equal(rig_set_rank(RANK, 1), 0);
}

/* ---- calls ---- */

struct storage_answer {
	Store__StorageReq request;
	struct drpc_client *client;
	Store__StorageResp *response; /* owned; NULL: not answered */
	volatile bool done;
};

static inline void note_answer(void *ctx, const struct drpc_result *result)
{
	struct storage_answer *answer = ctx;

	must(result->error == 0 && result->status == DRPC_SUCCESS);
	answer->response = store__storage_resp__unpack(NULL, result->body_bytes, result->body);
	must(answer->response);
	answer->done = true;
}

static inline int begin_call(void *ctx)
{
	struct storage_answer *answer = ctx;
	struct drpc_client_options options = { .path = engine_control.socket_path };

	must(drpc_client_create(&options, &answer->client, &why) == 0);
	return drpc_client_call(answer->client, &(struct drpc_request){
							.module = DRPC_MODULE_FATHOM,
							.method = DRPC_FATHOM_STORAGE,
							.message = &answer->request.base,
							.response = &store__storage_resp__descriptor,
							.timeout_ns = 60 * NS_PER_SEC,
							.done = note_answer,
							.ctx = answer,
						});
}

static inline int end_client(void *ctx)
{
	drpc_client_destroy(((struct storage_answer *)ctx)->client);
	return 0;
}

static struct storage_answer last;

static inline void start_call(struct storage_answer *answer, Store__StorageReq request)
{
	*answer = (struct storage_answer){ .request = request };
	assert_int_equal(on_control(begin_call, answer), 0);
}

static inline void end_call(struct storage_answer *answer)
{
	rig_wait(answer->done);
	on_control(end_client, answer);
}

static inline void forget_last(void)
{
	if (last.response)
		store__storage_resp__free_unpacked(last.response, NULL);
	last.response = NULL;
}

/* The error; `last` has the answer. */
static inline int32_t ask(Store__StorageReq request)
{
	forget_last();
	start_call(&last, request);
	end_call(&last);
	return last.response->error;
}

static inline Store__StorageReq request_of(Store__Action action)
{
	Store__StorageReq request = STORE__STORAGE_REQ__INIT;

	request.rank = RANK;
	request.action = action;
	request.pool = "p";
	if (action != STORE__ACTION__POOL_CREATE && action != STORE__ACTION__POOL_DESTROY)
		request.volume = "a";
	return request;
}

static inline int32_t create_pool(const char *uuid)
{
	Store__StorageReq request = request_of(STORE__ACTION__POOL_CREATE);

	request.pool_uuid = (char *)uuid;
	request.overcommit = true;
	return ask(request);
}

static inline int32_t create_volume(const char *uuid, uint64_t bytes)
{
	Store__StorageReq request = request_of(STORE__ACTION__VOLUME_CREATE);

	request.volume_uuid = (char *)uuid;
	request.size_bytes = bytes;
	return ask(request);
}

static inline int32_t change(Store__Action action, const char *pool_uuid, const char *uuid, uint64_t bytes)
{
	Store__StorageReq request = request_of(action);

	request.pool_uuid = (char *)pool_uuid;
	request.volume_uuid = (char *)uuid;
	request.size_bytes = bytes;
	return ask(request);
}

static inline size_t volume_count(void)
{
	assert_int_equal(ask(request_of(STORE__ACTION__LIST)), 0);
	return last.response->n_pools == 1 ? last.response->pools[0]->n_volumes : 0;
}

#define assert_text(PART) assert_non_null(strstr(last.response->text, PART))

static inline int end(void **state)
{
	forget_last();
	return teardown(state);
}

#endif
