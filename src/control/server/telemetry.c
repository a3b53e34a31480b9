/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * telemetry - the metrics of this host: those of its engines, with the label `rank`, and those of the server.
 *
 *   scrape -> FIGURES to each engine that runs, all at once -> answers, or ENGINE_TIMEOUT_MS -> the server's own -> text
 *
 * An engine that is dead or hangs costs the scrape at most that time, and its engine_up is 0. The dRPC clients are the
 * scrape's own, so that a slow engine delays no other call.
 */
#include "control/server/telemetry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/instance/instance.h"
#include "rpc/proto/fathom.pb-c.h"

enum { ENGINE_TIMEOUT_MS = 1000, ENGINE_CONNECTIONS_MAX = 2 };

/* ---- a scrape ---- */

static void end_if_answered(struct telemetry *telemetry)
{
	struct figures_scrape *scrape = telemetry->scrape;

	if (telemetry->unanswered > 0)
		return;
	if (!telemetry->is_closing)
		telemetry_add_own(telemetry, telemetry->figures);
	telemetry->scrape = NULL;
	figures_scrape_end(scrape, telemetry->is_closing ? NULL : telemetry->figures);
	figures_destroy(telemetry->figures);
	telemetry->figures = NULL;
}

static bool merge_answer(struct figures *figures, const Fathom__FiguresResp *response)
{
	for (size_t i = 0; i < response->n_families; i++) {
		const Fathom__FiguresResp__Family *family = response->families[i];

		/* a family that this server does not know is one of a newer engine, and left out */
		(void)figures_merge(figures, family->name, (const char *)family->lines.data, family->lines.len);
	}
	return response->n_families > 0;
}

static void engine_answered(void *ctx, const struct drpc_result *result)
{
	struct telemetry_engine *engine = ctx;
	struct telemetry *telemetry = engine->telemetry;

	must(engine->is_asked);
	must(telemetry->unanswered > 0);
	engine->is_asked = false;
	telemetry->unanswered--;
	if (result->error == 0 && result->status == DRPC_SUCCESS && result->response)
		engine->is_up = merge_answer(telemetry->figures, (const Fathom__FiguresResp *)result->response);
	end_if_answered(telemetry);
}

static void ask_engine(struct telemetry_engine *engine, const struct instance *instance)
{
	Fathom__FiguresReq request = FATHOM__FIGURES_REQ__INIT;
	struct telemetry *telemetry = engine->telemetry;
	struct instance_info info;

	instance_get_info(instance, &info);
	engine->is_up = false;
	engine->rank[0] = '\0';
	if (info.rank != RANK_NONE)
		snprintf(engine->rank, sizeof(engine->rank), "%" PRIu32, info.rank);
	if (info.pid == 0 || info.is_hung) /* connections that it does not accept would fill its backlog */
		return;
	request.open_metrics = figures_scrape_format(telemetry->scrape) == FIGURES_OPENMETRICS;
	request.rank = engine->rank;
	request.muted = telemetry->muted;
	engine->is_asked = drpc_client_call(engine->client, &(struct drpc_request){
								    .module = DRPC_MODULE_FATHOM,
								    .method = DRPC_FATHOM_FIGURES,
								    .message = &request.base,
								    .response = &fathom__figures_resp__descriptor,
								    .timeout_ns = ENGINE_TIMEOUT_MS * NS_PER_MS,
								    .done = engine_answered,
								    .ctx = engine,
							    }) == 0;
	telemetry->unanswered += engine->is_asked;
}

void telemetry_collect(struct telemetry *telemetry, struct figures_scrape *scrape)
{
	must(!telemetry->scrape);
	telemetry->scrape = scrape;
	telemetry->figures = figures_create(figures_scrape_format(scrape), NULL);
	for (uint32_t i = 0; i < telemetry->server->instance_count; i++)
		ask_engine(&telemetry->engines[i], telemetry->server->instances[i]);
	end_if_answered(telemetry);
}

/* ---- open to close ---- */

static int open_clients(struct telemetry *telemetry, struct fathom_fault *why)
{
	const struct server *server = telemetry->server;

	for (uint32_t i = 0; i < server->instance_count; i++) {
		char path[SERVER_PATH_BYTES];
		const struct drpc_client_options options = { .path = path, .connections_max = ENGINE_CONNECTIONS_MAX };
		struct telemetry_engine *engine = &telemetry->engines[i];
		struct instance_info info;
		int error;

		instance_get_info(server->instances[i], &info);
		must((size_t)snprintf(path, sizeof(path), "%s/fathom_engine%" PRIu32 ".sock", server->config->socket_dir,
				      info.index) < sizeof(path));
		engine->telemetry = telemetry;
		engine->index = info.index;
		error = drpc_client_create(&options, &engine->client, why);
		if (error)
			return error;
	}
	return 0;
}

static uint64_t muted_checks(const struct server_config *config)
{
	const struct config_strings *names = &config->telemetry.muted;
	uint64_t muted = 0;

	for (size_t i = 0; i < names->count; i++) {
		enum figure_check check;

		if (figure_check_find(names->items[i], &check)) /* checked when the configuration was read */
			muted |= UINT64_C(1) << check;
	}
	return muted;
}

int telemetry_open(struct server_frame *frame, struct fathom_fault *why)
{
	struct telemetry *telemetry;
	int error;

	if (frame->server.config->telemetry_port == 0)
		return 0;
	telemetry = calloc(1, sizeof(*telemetry));
	if (!telemetry)
		return fault(why, -ENOMEM, "out of memory");
	frame->telemetry = telemetry;
	telemetry->server = &frame->server;
	telemetry->frame = frame;
	telemetry->start_ns = clock_realtime_ns();
	telemetry->muted = muted_checks(frame->server.config);
	error = open_clients(telemetry, why);
	if (!error)
		telemetry_port_open(telemetry);
	return error; /* telemetry_close() frees it */
}

void telemetry_close(struct server_frame *frame)
{
	struct telemetry *telemetry = frame->telemetry;

	if (!telemetry)
		return;
	frame->telemetry = NULL;
	telemetry->is_closing = true;
	telemetry_port_close(telemetry);
	/* ends the calls under way, and so the scrape */
	for (uint32_t i = 0; i < SERVER_ENGINES_MAX; i++)
		drpc_client_destroy(telemetry->engines[i].client);
	must(!telemetry->scrape);
	free(telemetry);
}
