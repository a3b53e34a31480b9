/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `fathom-server stop-engines`: asks the server of this host to stop its engines. They disconnect their hosts, then end.
 * For a host that shuts down; `fathom system stop` stops a whole system.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "control/fault/fault.h"
#include "control/server/command/internal.h"
#include "control/system/member.h"
#include "control/status/status.h"
#include "rpc/grpc/tls.h"
#include "rpc/proto/ctl.pb-c.h"

enum { PREPARE_SECONDS = 60, STOP_SECONDS = 120 };

static struct {
	const struct server_config *config;
	const struct server_places *places;
	const char *version;
	bool is_forced, is_stopping;
	struct grpc_tls *tls;
	struct grpc_client *client;
	struct fathom_fault *why;
	FILE *out;
} stopping;

static void on_ranks_answered(void *ctx, const struct grpc_result *result);

static void close_stop_client(void)
{
	grpc_client_destroy(stopping.client);
	grpc_tls_destroy(stopping.tls);
}

static void finish_stop(int error)
{
	command_end(error, close_stop_client);
}

static void send_ranks_call(bool stop)
{
	Ctl__RanksReq request = CTL__RANKS_REQ__INIT;
	int error;

	must(stopping.client);
	must(!stopping.is_stopping); /* the stop is the last call */
	stopping.is_stopping = stop;
	request.force = stopping.is_forced;
	error = grpc_client_call(stopping.client,
				 &(struct grpc_request){
					 .address = stopping.places->control,
					 .path = stop ? "/ctl.CtlSvc/StopRanks" : "/ctl.CtlSvc/PrepShutdownRanks",
					 .message = &request.base,
					 .response = &ctl__ranks_resp__descriptor,
					 .timeout_ns = (stop ? STOP_SECONDS : PREPARE_SECONDS) * NS_PER_SEC,
					 .done = on_ranks_answered,
				 });
	if (error)
		finish_stop(fault(stopping.why, error, "the request cannot be sent to the server: %s", strerror(-error)));
}

static void on_ranks_answered(void *ctx, const struct grpc_result *result)
{
	const Ctl__RanksResp *answer = (const Ctl__RanksResp *)result->response;
	size_t failed = 0;

	must(stopping.client);
	if (result->code != GRPC_OK) {
		fault_from_result(result, stopping.places->control, stopping.why);
		finish_stop(stopping.why->error);
		return;
	}
	/* an engine that could not be prepared is stopped nevertheless */
	if (!stopping.is_stopping) {
		send_ranks_call(true);
		return;
	}
	for (size_t i = 0; i < answer->n_results; i++) {
		const Shared__RankResult *row = answer->results[i];

		char rank[32] = "";

		if (row->rank != RANK_NONE)
			snprintf(rank, sizeof(rank), " (rank %" PRIu32 ")", row->rank);
		fprintf(stopping.out, "engine %" PRIu32 "%s: %s%s%s\n", row->place - 1, rank, row->state,
			row->errored ? ": " : "", row->msg);
		failed += row->errored;
	}
	finish_stop(failed ? fault(stopping.why, -EIO, "%zu of %zu engines could not be stopped", failed, answer->n_results)
			   : 0);
}

static void start_stop(void *ctx)
{
	const struct server_transport *transport = &stopping.config->transport;
	struct grpc_client_options options = { .role = GRPC_ROLE_SERVER, .version = stopping.version };
	const struct grpc_tls_options tls = {
		.ca = transport->ca_cert,
		.certificate = transport->cert,
		.key = transport->key,
	};
	int error = transport->allow_insecure ? 0 : grpc_tls_create(&tls, &stopping.tls, stopping.why);

	options.tls = stopping.tls;
	if (!error)
		error = grpc_client_create(&options, &stopping.client, stopping.why);
	if (error)
		finish_stop(error);
	else
		send_ranks_call(stopping.is_forced); /* a forced stop skips the preparation */
}

int server_request_engines_stop(const struct server_config *config, const struct server_places *places, const char *version,
				bool is_forced, FILE *out, struct fathom_fault *why)
{
	must(!stopping.config);
	must(out && why);
	stopping.config = config;
	stopping.places = places;
	stopping.version = version;
	stopping.is_forced = is_forced;
	stopping.out = out;
	stopping.why = why;
	return command_run(start_stop, why);
}
