/* SPDX-License-Identifier: BSD-2-Clause */
/* log_set_level and related methods. There is one log level, which all four methods read or set. */
#include "base/log.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"

static_assert((int)RPC_LOG_LEVEL_ERROR == (int)LOG_LEVEL_ERROR, "the table has the levels in the order of enum log_level");
static_assert((int)RPC_LOG_LEVEL_DEBUG == (int)LOG_LEVEL_DEBUG, "likewise");

void method_log_set_level(struct rpc_request *request, const struct log_set_level_params *p)
{
	log_set_level((enum log_level)p->level);
	rpc_reply(request, NULL);
}

void method_log_get_level(struct rpc_request *request)
{
	rpc_reply(request, json_string(log_level_name(log_get_level())));
}
