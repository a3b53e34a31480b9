/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom-server stats`: the counters of the running server of this host. */
#include "base/clock.h"
#include "control/server/command/internal.h"
#include "rpc/proto/fathom.pb-c.h"

enum { STATS_SECONDS = 10 };

struct reader {
	server_counter_fn each;
	void *ctx;
};

static int take_counters(void *ctx, const ProtobufCMessage *response, struct fathom_fault *why)
{
	const Fathom__StatsResp *answer = (const Fathom__StatsResp *)response;
	const struct reader *reader = ctx;
	int error = 0;

	for (size_t i = 0; !error && i < answer->n_counters; i++) {
		const Fathom__StatsResp__Counter *row = answer->counters[i];

		error = reader->each(reader->ctx, row->group, row->name, row->value, row->meaning);
	}
	return error;
}

int server_statistics(const struct server_config *config, server_counter_fn each, void *ctx, struct fathom_fault *why)
{
	Fathom__StatsReq message = FATHOM__STATS_REQ__INIT;
	struct reader reader = { each, ctx };
	const struct drpc_request request = {
		.module = DRPC_MODULE_FATHOM,
		.method = DRPC_FATHOM_STATS,
		.message = &message.base,
		.response = &fathom__stats_resp__descriptor,
		.timeout_ns = STATS_SECONDS * NS_PER_SEC,
	};

	return command_call(config, &request, take_counters, &reader, why);
}
