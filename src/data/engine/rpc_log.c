/* SPDX-License-Identifier: BSD-2-Clause */
/* log_set_level and related methods. There is one log level, and all four methods read or set it. */
#include "base/bits.h"
#include "base/log.h"
#include "data/engine/internal.h"

static const char *const level_names[] = { "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG", NULL };

struct level_params {
	int level;
};

static const struct rpc_param level_fields[] = {
	RPC_PARAM_ENUM("level", level_params, level, true, level_names),
	RPC_PARAM_END,
};

static void set_level(struct rpc_request *request, const json_t *params)
{
	struct level_params p = { 0 };
	enum log_level level;

	if (!rpc_params(request, params, level_fields, &p))
		return;
	must(log_level_parse(level_names[p.level], &level) == 0);
	log_set_level(level);
	rpc_reply(request, NULL);
}

static void get_level(struct rpc_request *request, const json_t *params)
{
	if (rpc_params(request, params, NULL, NULL))
		rpc_reply(request, json_string(log_level_name(log_get_level())));
}

static const struct rpc_method methods[] = {
	{ "log_set_level", RPC_ALWAYS, set_level },
	{ "log_get_level", RPC_ALWAYS, get_level },
	{ "log_set_print_level", RPC_ALWAYS, set_level },
	{ "log_get_print_level", RPC_ALWAYS, get_level },
};

void rpc_log_register(void)
{
	rpc_register(methods, ARRAY_COUNT(methods));
}
