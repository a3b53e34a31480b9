/* SPDX-License-Identifier: BSD-2-Clause */
/* STATS: `fathom-server stats` asks the running server for its counters, through its dRPC socket. */
#include "control/server/internal.h"
#include "rpc/proto/fathom.pb-c.h"

void call_stats(struct drpc_call *call, const ProtobufCMessage *request)
{
	Fathom__StatsResp answer = FATHOM__STATS_RESP__INIT;
	Fathom__StatsResp__Counter rows[SERVER_COUNTERS_MAX], *places[SERVER_COUNTERS_MAX];
	struct server_counter counters[SERVER_COUNTERS_MAX];

	answer.n_counters = server_counters(drpc_call_ctx(call), counters);
	answer.counters = places;
	for (size_t i = 0; i < answer.n_counters; i++) {
		fathom__stats_resp__counter__init(&rows[i]);
		rows[i].group = (char *)counters[i].group;
		rows[i].name = (char *)counters[i].name;
		rows[i].meaning = (char *)counters[i].meaning;
		rows[i].value = counters[i].value;
		places[i] = &rows[i];
	}
	drpc_reply(call, &answer.base);
}
