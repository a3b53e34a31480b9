/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/log.h"
#include "data/engine/figures/figures.h"
#include "rpc/drpc/drpc.h"
#include "rpc/figures/http.h"
#include "rpc/proto/fathom.pb-c.h"

static struct {
	bool is_open;
	struct figures_http *http; /* NULL: without --metrics */
} serve;

static void end_scrape(void *ctx, const struct figures *figures)
{
	figures_scrape_end(ctx, figures);
}

static void collect_for_http(void *ctx, struct figures_scrape *scrape)
{
	const struct engine_figures_options options = { .format = figures_scrape_format(scrape), .rank = "" };

	engine_figures_collect(&options, end_scrape, scrape);
}

static void reply_figures(void *ctx, const struct figures *figures)
{
	Fathom__FiguresResp response = FATHOM__FIGURES_RESP__INIT;
	Fathom__FiguresResp__Family families[FIGURE_COUNT], *places[FIGURE_COUNT];

	response.families = places;
	for (enum figure figure = 0; figures && figure < FIGURE_COUNT; figure++) {
		Fathom__FiguresResp__Family *family = &families[response.n_families];
		size_t bytes;
		const char *lines = figures_lines(figures, figure, &bytes);

		if (!lines)
			continue;
		fathom__figures_resp__family__init(family);
		family->name = (char *)(uintptr_t)figures_name(figure);
		family->lines = (ProtobufCBinaryData){ .len = bytes, .data = (uint8_t *)(uintptr_t)lines };
		places[response.n_families++] = family;
	}
	drpc_reply(ctx, &response.base);
}

void engine_figures_call(struct drpc_call *call, const ProtobufCMessage *request)
{
	const Fathom__FiguresReq *figures = (const Fathom__FiguresReq *)request;
	const struct engine_figures_options options = {
		.format = figures->open_metrics ? FIGURES_OPENMETRICS : FIGURES_PROMETHEUS,
		.rank = figures->rank,
		.muted = figures->muted,
	};

	if (serve.is_open)
		engine_figures_collect(&options, reply_figures, call);
	else
		reply_figures(call, NULL);
}

int engine_figures_open(const struct engine_options *options, struct fathom_fault *why)
{
	const struct figures_http_options http = {
		.address = options->metrics.address,
		.port = options->metrics.port,
		.option = "--metrics",
		.collect = collect_for_http,
	};
	int error = engine_collect_open();

	if (error)
		return fault(why, error, "out of memory");
	serve.is_open = true;
	if (!options->metrics.address)
		return 0;
	error = figures_http_open(&http, &serve.http, why);
	if (error)
		engine_figures_close();
	else
		log_notice("metrics: http://%s%s%s:%u/metrics", strchr(http.address, ':') ? "[" : "", http.address,
			   strchr(http.address, ':') ? "]" : "", figures_http_port(serve.http));
	return error;
}

void engine_figures_close(void)
{
	if (!serve.is_open)
		return;
	figures_http_close(serve.http);
	serve.http = NULL;
	engine_collect_close();
	serve.is_open = false;
}
