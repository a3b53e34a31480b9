/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * telemetry - the metrics of this host: those of its engines, with the label `rank`, and those of the server.
 *
 *   scrape -> FIGURES to each engine that runs, all at once -> answers, or ENGINE_TIMEOUT_MS -> the server's own -> text
 *
 * An engine that is dead or hangs costs the scrape at most that time, and its engine_up is 0. The dRPC clients are the
 * scrape's own, so that a slow engine delays no other call.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/observe/trace/figures.h"
#include "control/fault/fault.h"
#include "control/instance/instance.h"
#include "control/server/internal.h"
#include "control/system/system.h"
#include "rpc/figures/http.h"
#include "rpc/proto/fathom.pb-c.h"

enum { ENGINE_TIMEOUT_MS = 1000, ENGINE_CONNECTIONS_MAX = 2, STATE_BYTES = 32 };

struct telemetry_engine {
	struct telemetry *telemetry;
	struct drpc_client *client;
	uint32_t index;
	bool is_asked, is_up;
	char rank[FIGURES_RANK_BYTES]; /* of the scrape under way; "": none */
};

struct telemetry {
	struct server *server;
	struct server_frame *frame;
	struct figures_http *http;
	uint64_t start_ns;	       /* since 1970 */
	struct figures_scrape *scrape; /* under way, with: */
	struct figures *figures;
	uint32_t unanswered;
	bool is_closing;
	struct telemetry_engine engines[SERVER_ENGINES_MAX];
};

/* ---- the server's own ---- */

static bool is_level(const char *name)
{
	static const char *const names[] = { "events_waiting",	"map_behind",	   "pools",	"volumes",
					     "storage_pending", "shares_draining", "old_copies" };

	for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

static void add_counters(const struct server *server, struct figures *figures)
{
	struct server_counter counters[SERVER_COUNTERS_MAX];
	size_t count = server_counters(server, counters);

	for (size_t i = 0; i < count; i++) {
		if (is_level(counters[i].name))
			figure_server_levels(figures, counters[i].group, counters[i].name, (double)counters[i].value);
		else
			figure_server_counts(figures, counters[i].group, counters[i].name, (double)counters[i].value);
	}
}

/* Names of states as labels: in lower case. */
static const char *label_of(const char *name, char to[static STATE_BYTES])
{
	size_t i;

	for (i = 0; name[i] && i < STATE_BYTES - 1; i++)
		to[i] = (char)tolower((unsigned char)name[i]);
	to[i] = '\0';
	return to;
}

static void add_members(const struct server *server, struct figures *figures)
{
	const struct system *system;
	uint64_t counts[MEMBER_STATES] = { 0 };
	char label[STATE_BYTES];

	if (!server->of_call.mgmt)
		return;
	system = mgmt_system(server->of_call.mgmt);
	for (size_t i = 0; i < system_member_count(system); i++)
		counts[system_member_at(system, i)->state]++;
	for (unsigned int state = MEMBER_UNKNOWN + 1; state < MEMBER_STATES; state++)
		figure_members(figures, label_of(member_state_name((enum member_state)state), label),
			       (double)counts[state]);
}

static void add_certificates(const struct server_frame *frame, struct figures *figures)
{
	struct grpc_life lives[2];

	if (!frame->tls)
		return;
	grpc_tls_lives(frame->tls, lives);
	for (size_t i = 0; i < ARRAY_COUNT(lives); i++)
		figure_certificate_expiry_timestamp_seconds(figures, lives[i].path, (double)lives[i].ends_s);
}

static void add_engines(const struct telemetry *telemetry, struct figures *figures)
{
	const struct server *server = telemetry->server;

	for (uint32_t i = 0; i < server->instance_count; i++) {
		struct instance_info info;
		char index[16], state[STATE_BYTES];

		instance_get_info(server->instances[i], &info);
		snprintf(index, sizeof(index), "%" PRIu32, info.index);
		figure_engine_up(figures, index, telemetry->engines[i].rank, telemetry->engines[i].is_up);
		figure_engine_state(figures, index, label_of(instance_state_name(info.state), state), 1);
		figure_engine_starts(figures, index, (double)info.starts);
	}
}

static void add_server(const struct telemetry *telemetry, struct figures *figures)
{
	char build_id[TRACE_BUILD_ID_TEXT_BYTES];

	trace_figures_build_id(build_id);
	figure_server(figures, telemetry->server->options->version, build_id);
	figure_server_start_time_seconds(figures, (double)(telemetry->start_ns / NS_PER_MS) / 1000.0);
	add_engines(telemetry, figures);
	add_counters(telemetry->server, figures);
	add_members(telemetry->server, figures);
	add_certificates(telemetry->frame, figures);
}

/* ---- a scrape ---- */

static void end_if_answered(struct telemetry *telemetry)
{
	struct figures_scrape *scrape = telemetry->scrape;

	if (telemetry->unanswered > 0)
		return;
	if (!telemetry->is_closing)
		add_server(telemetry, telemetry->figures);
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

static void collect(void *ctx, struct figures_scrape *scrape)
{
	struct telemetry *telemetry = ctx;

	must(!telemetry->scrape);
	telemetry->scrape = scrape;
	telemetry->figures = figures_create(figures_scrape_format(scrape), NULL);
	for (uint32_t i = 0; i < telemetry->server->instance_count; i++)
		ask_engine(&telemetry->engines[i], telemetry->server->instances[i]);
	end_if_answered(telemetry);
}

static char *status(void *ctx)
{
	struct telemetry *telemetry = ctx;

	return server_status_text(telemetry->frame);
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

/* A server without metrics is better than none. */
static void listen_or_log(struct telemetry *telemetry)
{
	const struct server_config *config = telemetry->server->config;
	const struct figures_http_options options = {
		.address = config->telemetry_address,
		.port = (uint16_t)config->telemetry_port,
		.option = "telemetry_port",
		.collect = collect,
		.status = status,
		.ctx = telemetry,
	};
	bool is_ipv6 = strchr(options.address, ':') != NULL;
	struct fathom_fault why = { 0 };
	char address[SERVER_PATH_BYTES];
	int error = figures_http_open(&options, &telemetry->http, &why);

	snprintf(address, sizeof(address), is_ipv6 ? "[%s]:%u" : "%s:%u", options.address, options.port);
	if (error == 0) {
		log_notice("metrics: http://%s/metrics", address);
		return;
	}
	fill_fault_metrics_not_served(&why, address, strerror(-error));
	server_log_fault(LOG_LEVEL_ERROR, "", &why);
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
	error = open_clients(telemetry, why);
	if (!error)
		listen_or_log(telemetry);
	return error; /* telemetry_close() frees it */
}

void telemetry_close(struct server_frame *frame)
{
	struct telemetry *telemetry = frame->telemetry;

	if (!telemetry)
		return;
	frame->telemetry = NULL;
	telemetry->is_closing = true;
	figures_http_close(telemetry->http);
	/* ends the calls under way, and so the scrape */
	for (uint32_t i = 0; i < SERVER_ENGINES_MAX; i++)
		drpc_client_destroy(telemetry->engines[i].client);
	must(!telemetry->scrape);
	free(telemetry);
}
