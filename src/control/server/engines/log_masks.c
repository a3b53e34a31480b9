/* SPDX-License-Identifier: BSD-2-Clause */
/* SetEngineLogMasks: sets the log masks of all engines of this host that run. The answer has an error text for each. */
#include <stdlib.h>

#include "control/fault/fault.h"
#include "control/server/engines/internal.h"
#include "rpc/proto/ctl.pb-c.h"

struct masks_call {
	struct grpc_call *call;
	struct arena arena;
	Ctl__SetLogMasksResp answer;
	size_t left;
	struct masks_part {
		struct masks_call *masks;
		size_t row;
	} parts[SERVER_ENGINES_MAX];
};

static void reply_masks(struct masks_call *masks)
{
	grpc_reply(masks->call, &masks->answer.base);
	arena_free(&masks->arena);
	free(masks);
}

static void on_mask_set(void *ctx, const struct fathom_fault *why)
{
	struct masks_part *part = ctx;
	struct masks_call *masks = part->masks;

	must(masks->left > 0);
	must(part->row < masks->answer.n_errors);
	must(masks->left <= masks->answer.n_errors + 1);
	if (why)
		masks->answer.errors[part->row] = (char *)server_fault_text(why, &masks->arena);
	if (--masks->left == 0)
		reply_masks(masks);
}

static bool has_process(const struct instance *instance)
{
	struct instance_info info;

	instance_get_info(instance, &info);
	return info.pid != 0;
}

void call_set_engine_log_masks(struct grpc_call *call, const ProtobufCMessage *message)
{
	const Ctl__SetLogMasksReq *request = (const Ctl__SetLogMasksReq *)message;
	struct server *server = server_of(call);
	struct masks_call *masks;
	size_t count = 0;

	if (!server_is_addressed(server, call, request->sys))
		return;
	masks = calloc(1, sizeof(*masks));
	must(masks);
	masks->call = call;
	ctl__set_log_masks_resp__init(&masks->answer);
	masks->answer.n_errors = server->instance_count;
	masks->answer.errors = arena_take(&masks->arena, (server->instance_count + 1) * sizeof(char *));
	masks->left = 1; /* this function's own, until all engines are asked */
	for (size_t i = 0; i < server->instance_count; i++) {
		const char *mask = request->masks;

		masks->answer.errors[i] = (char *)"";
		if (!has_process(server->instances[i]))
			continue;
		if (request->reset_masks) {
			const char *configured = server_config_engine(server->config, i)->log_mask;

			mask = configured ? configured : "NOTICE";
		}
		masks->parts[count] = (struct masks_part){ .masks = masks, .row = i };
		masks->left++;
		instance_set_log_masks(server->instances[i], mask, request->streams, request->subsystems, on_mask_set,
				       &masks->parts[count++]);
	}
	must(count <= server->instance_count);
	if (--masks->left == 0)
		reply_masks(masks);
}
