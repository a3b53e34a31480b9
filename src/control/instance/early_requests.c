/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests about its storage that an engine gets before it is set up, so before hosts can use its volumes. They come with
 * the answer to its join. A request that fails here is not repeated: the management service makes the same requests until
 * they are confirmed.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "control/instance/internal.h"

static Store__StorageReq *copy_request(const Store__StorageReq *request)
{
	size_t bytes = store__storage_req__get_packed_size(request);
	uint8_t *packed = malloc(bytes + 1);
	Store__StorageReq *copy;

	must(packed);
	must(store__storage_req__pack(request, packed) == bytes);
	copy = store__storage_req__unpack(NULL, bytes, packed);
	must(copy);
	free(packed);
	return copy;
}

void instance_forget_early(struct instance *instance)
{
	for (size_t i = 0; i < instance->early_count; i++)
		store__storage_req__free_unpacked(instance->early[i], NULL);
	free(instance->early);
	instance->early = NULL;
	instance->early_count = instance->early_next = 0;
}

void instance_keep_early(struct instance *instance, Store__StorageReq *const *requests, size_t count)
{
	instance_forget_early(instance);
	if (count == 0)
		return;
	instance->early = calloc(count, sizeof(*instance->early));
	must(instance->early);
	for (size_t i = 0; i < count; i++)
		instance->early[i] = copy_request(requests[i]);
	instance->early_count = count;
}

static void send_next(struct instance *instance);

/* A refusal is no reason not to serve: the management service shows it. */
static void on_answered(struct instance *instance, const struct drpc_result *result)
{
	if (result->error)
		instance->early_next = instance->early_count;
	send_next(instance);
}

static void send_next(struct instance *instance)
{
	must(instance->early_next <= instance->early_count);
	if (instance->early_next == instance->early_count) {
		instance_forget_early(instance);
		instance->early_then(instance);
		return;
	}
	instance_ask_engine(instance,
			    &(struct drpc_request){
				    .module = DRPC_MODULE_FATHOM,
				    .method = DRPC_FATHOM_STORAGE,
				    .message = &instance->early[instance->early_next++]->base,
				    .response = &store__storage_resp__descriptor,
				    .timeout_ns = INSTANCE_RANK_SECONDS * NS_PER_SEC,
			    },
			    on_answered);
}

void instance_send_early(struct instance *instance, void (*then)(struct instance *instance))
{
	must(instance->state == INSTANCE_READY);
	must(!instance->process.serving);
	instance->early_then = then;
	send_next(instance);
}
