/* SPDX-License-Identifier: BSD-2-Clause */
/* What the running server of this host knows of itself, for `fathom doctor`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/server/command/internal.h"
#include "rpc/proto/fathom.pb-c.h"

static int take_condition(void *ctx, const ProtobufCMessage *response, struct fathom_fault *why)
{
	const Fathom__ConditionResp *answer = (const Fathom__ConditionResp *)response;
	char **text_ret = ctx;

	if (answer->json.len == 0)
		return fault(why, -ENOMEM, "the server has not enough memory to answer");
	*text_ret = strndup((const char *)answer->json.data, answer->json.len);
	return *text_ret ? 0 : fault(why, -ENOMEM, "out of memory");
}

int server_condition(const struct server_config *config, uint32_t timeout_ms, char **text_ret, struct fathom_fault *why)
{
	Fathom__ConditionReq message = FATHOM__CONDITION_REQ__INIT;
	const struct drpc_request request = {
		.module = DRPC_MODULE_FATHOM,
		.method = DRPC_FATHOM_CONDITION,
		.message = &message.base,
		.response = &fathom__condition_resp__descriptor,
		.timeout_ns = timeout_ms * NS_PER_MS,
	};

	return command_call(config, &request, take_condition, text_ret, why);
}
