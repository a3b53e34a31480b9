/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Joins of engines at the management service: by gRPC also if the management service is in this server, so that there is
 * only one path.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/server/core/probes.gen.h"
#include "control/server/engines/internal.h"
#include "control/status/status.h"
#include "rpc/proto/mgmt.pb-c.h"

enum { JOIN_SECONDS = 15 };

struct join_call {
	struct server *server;
	uint32_t index;
	instance_joined_fn done;
	void *done_ctx;
	struct fathom_fault why; /* of a join that could not be sent */
};

bool engines_is_join_rejected(const struct fathom_fault *why)
{
	switch (why->code) {
	case FAULT_WRONG_SYSTEM:
	case FAULT_INCOMPATIBLE:
	case FAULT_DOMAIN_LABELS:
	case FAULT_REPLACE_ENABLED_RANK:
	case FAULT_RANK_EXCLUDED:
		return true;
	default: /* the codes of the domain "system": the rules of joining */
		return why->code >= 400 && why->code < 500;
	}
}

/* Log that a join is being retried: one line until a join succeeds, for all engines. */
static void log_waiting_join(struct join_call *join, const struct instance_joined *joined)
{
	struct server *server = join->server;
	char about[64];

	must(join->index < server->instance_count);
	if (joined->again && !server->engines->is_join_waiting) {
		snprintf(about, sizeof(about), "engine %u waits for its rank", join->index);
		server_log_fault(LOG_LEVEL_WARNING, about, &joined->why);
	}
	server->engines->is_join_waiting = joined->again;
}

static void on_join_answered(void *ctx, const struct grpc_result *result)
{
	struct join_call *join = ctx;
	const Mgmt__JoinResp *answer = (const Mgmt__JoinResp *)result->response;
	struct instance_joined joined = { .rank = RANK_NONE };

	must(join->server->engines);
	must(join->done);
	if (result->code != GRPC_OK) {
		fault_from_result(result, join->server->places->replica, &joined.why);
		joined.again = !engines_is_join_rejected(&joined.why);
		/* the codes of the domain "database": a full disk, a damaged file */
		joined.is_lasting = joined.again && joined.why.code >= 1000 && joined.why.code < 1100;
	} else if (answer->state == MGMT__JOIN_RESP__STATE__OUT) {
		joined.why.error = fault_rank_excluded(&joined.why, answer->rank);
	} else {
		joined.rank = answer->rank;
		joined.map_version = answer->map_version;
		joined.domain = answer->faultdomain;
		joined.storage = answer->storage;
		joined.storage_count = answer->n_storage;
	}
	must(joined.why.error <= 0);
	must(!joined.is_lasting || joined.again);
	probe_server_join_answered(reactor_now(), join->server, join->index, joined.rank, joined.why.error);
	if (join->server->state != SERVER_LEAVING)
		log_waiting_join(join, &joined);
	join->done(join->done_ctx, &joined);
	free(join);
}

static void answer_unsent_join(void *ctx)
{
	struct join_call *join = ctx;
	struct instance_joined joined = { .rank = RANK_NONE, .why = join->why };

	must(join->why.error < 0);
	must(join->server->engines);
	joined.again = join->why.error == -EBUSY || join->why.error == -ENOMEM;
	server_job_end(join->server);
	probe_server_join_answered(reactor_now(), join->server, join->index, joined.rank, joined.why.error);
	join->done(join->done_ctx, &joined);
	free(join);
}

static void fail_unsent_join(struct join_call *join)
{
	server_job_begin(join->server);
	thread_send_msg(thread_self(), answer_unsent_join, join);
}

void server_join(void *ctx, struct instance *instance, const struct instance_join *join, instance_joined_fn done,
		 void *done_ctx)
{
	struct server *server = ctx;
	struct join_call *call = calloc(1, sizeof(*call));
	Mgmt__JoinReq request = MGMT__JOIN_REQ__INIT;
	char uuid[MEMBER_UUID_TEXT_BYTES];
	int error;

	must(call);
	must(join->ready);
	must(join->index < server->instance_count);
	must(done);
	*call = (struct join_call){ .server = server, .index = join->index, .done = done, .done_ctx = done_ctx };
	request.sys = server->system;
	request.uuid = (char *)member_uuid_format(join->uuid, uuid);
	request.rank = join->rank;
	request.uri = join->ready->uri;
	request.nctxs = join->ready->nctxs;
	request.addr = (char *)server->places->control;
	request.srvfaultdomain = (char *)join->domain;
	request.idx = join->index;
	request.incarnation = join->ready->incarnation;
	request.map_version = engines_map_version(server);
	request.n_secondary_uris = join->ready->n_secondaryuris;
	request.secondary_uris = join->ready->secondaryuris;
	request.n_secondary_nctxs = join->ready->n_secondarynctxs;
	request.secondary_nctxs = join->ready->secondarynctxs;
	request.check_mode = join->ready->check_mode;
	request.replace = join->is_replacement;
	request.serves = join->serves;
	error = server_call_mgmt(server, &(struct server_mgmt_call){
						 .path = "/mgmt.MgmtSvc/Join",
						 .request = &request.base,
						 .response = &mgmt__join_resp__descriptor,
						 .seconds = JOIN_SECONDS,
						 .done = on_join_answered,
						 .ctx = call,
					 });
	if (!error)
		return;
	call->why.error = fault(&call->why, error, "the join of engine %u cannot be sent: %s", join->index,
				strerror(-error));
	fail_unsent_join(call);
}
