/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * telemetry - the metrics of this host, internal.
 *
 *	telemetry.c		a scrape: the figures of the engines, then those of the server
 *	telemetry_own.c		the figures of the server: its engines' states, members, devices, certificates, counters
 *	telemetry_port.c	the port: HTTP, with TLS and roles as for gRPC
 */
#ifndef CONTROL_SERVER_TELEMETRY_H
#define CONTROL_SERVER_TELEMETRY_H

#include "control/server/internal.h"
#include "rpc/figures/checks.h"
#include "rpc/figures/http.h"
#include "rpc/grpc/front.h"

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
	struct tls_front *front;       /* NULL: `http` listens, without TLS */
	struct grpc_tls *tls;	       /* with `front` */
	uint64_t start_ns;	       /* since 1970 */
	uint64_t muted;		       /* bits of enum figure_check */
	struct figures_scrape *scrape; /* under way, with: */
	struct figures *figures;
	uint32_t unanswered;
	bool is_closing;
	struct telemetry_engine engines[SERVER_ENGINES_MAX];
};

/* ---- telemetry.c ---- */

void telemetry_collect(struct telemetry *telemetry, struct figures_scrape *scrape);

/* ---- telemetry_own.c ---- */

void telemetry_add_own(const struct telemetry *telemetry, struct figures *figures);

/* ---- telemetry_port.c ---- */

/* A port that cannot be served is logged: a server without metrics is better than none. */
void telemetry_port_open(struct telemetry *telemetry);
/* A scrape under way must still end. */
void telemetry_port_close(struct telemetry *telemetry);

#endif
