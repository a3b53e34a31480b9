/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port of the metrics. With the certificates of the server it has TLS, and a client needs a certificate of a role that
 * may read. Without, or if telemetry_config allows it, it is plain HTTP.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "control/fault/fault.h"
#include "control/server/telemetry.h"

enum { REFUSALS_LOGGED_AT_ONCE = 5 };

/* The roles that may read metrics and the status page. monitor may do nothing else. */
static const char *const readers[] = { "monitor", "admin", "server" };

static void collect(void *ctx, struct figures_scrape *scrape)
{
	telemetry_collect(ctx, scrape);
}

static char *status(void *ctx)
{
	const struct telemetry *telemetry = ctx;

	return server_status_text(telemetry->frame);
}

/* ---- with TLS ---- */

static bool admit(void *ctx, const char *name, char *rejection)
{
	struct fathom_fault why = { 0 };
	struct fault_shown shown;
	char text[FRONT_REJECTION_BYTES / 2];

	for (size_t i = 0; i < ARRAY_COUNT(readers); i++) {
		if (strcmp(name, readers[i]) == 0)
			return true;
	}
	fill_fault_metrics_role(&why, name);
	fault_show(&why, &shown);
	fault_print(&shown, "", text, sizeof(text));
	snprintf(rejection, FRONT_REJECTION_BYTES,
		 "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
		 "Connection: close\r\n\r\n%s",
		 strlen(text), text);
	return false;
}

static void accepted(void *ctx, int fd)
{
	struct telemetry *telemetry = ctx;

	telemetry->server->stats.metrics_connections++;
	figures_http_add(telemetry->http, fd);
}

static void refused(void *ctx, const char *peer, const char *why)
{
	static struct log_limit limit = LOG_LIMIT(REFUSALS_LOGGED_AT_ONCE, NS_PER_SEC);
	struct telemetry *telemetry = ctx;

	telemetry->server->stats.metrics_refused++;
	log_line_limited(&limit, clock_monotonic_ns(), LOG_LEVEL_WARNING, "metrics: %s was refused: %s", peer, why);
}

static int open_front(struct telemetry *telemetry, const char *address, struct fathom_fault *why)
{
	const struct server_transport *transport = &telemetry->server->config->transport;
	const struct figures_http_options http = {
		.is_behind = true, .option = "telemetry_port", .collect = collect, .status = status, .ctx = telemetry
	};
	const struct grpc_tls_options tls = { .ca = transport->ca_cert,
					      .certificate = transport->cert,
					      .key = transport->key,
					      .with_tls12 = transport->allow_tls12,
					      .is_http1 = true };
	struct tls_front_options front = {
		.address = address,
		.connections_max = FIGURES_HTTP_CONNECTIONS_MAX,
		.admit = admit,
		.accepted = accepted,
		.refused = refused,
		.ctx = telemetry,
	};
	int error = grpc_tls_create(&tls, &telemetry->tls, why);

	if (!error)
		error = figures_http_open(&http, &telemetry->http, why);
	front.tls = telemetry->tls;
	return error ? error : tls_front_open(&front, &telemetry->front, why);
}

/* ---- without ---- */

static int open_plain(struct telemetry *telemetry, struct fathom_fault *why)
{
	const struct server_config *config = telemetry->server->config;
	const struct figures_http_options http = {
		.address = config->telemetry_address,
		.port = (uint16_t)config->telemetry_port,
		.option = "telemetry_port",
		.collect = collect,
		.status = status,
		.ctx = telemetry,
	};

	return figures_http_open(&http, &telemetry->http, why);
}

/* ---- open to close ---- */

void telemetry_port_open(struct telemetry *telemetry)
{
	const struct server_config *config = telemetry->server->config;
	bool is_ipv6 = strchr(config->telemetry_address, ':') != NULL;
	bool is_secure = telemetry->frame->tls && !config->telemetry.allow_insecure;
	struct fathom_fault why = { 0 };
	char address[SERVER_PATH_BYTES];
	int error;

	snprintf(address, sizeof(address), is_ipv6 ? "[%s]:%u" : "%s:%u", config->telemetry_address,
		 (unsigned int)config->telemetry_port);
	error = is_secure ? open_front(telemetry, address, &why) : open_plain(telemetry, &why);
	if (error == 0) {
		log_notice("metrics: %s://%s/metrics", is_secure ? "https" : "http", address);
		return;
	}
	telemetry_port_close(telemetry);
	fill_fault_metrics_not_served(&why, address, strerror(-error));
	server_log_fault(LOG_LEVEL_ERROR, "", &why);
}

void telemetry_port_close(struct telemetry *telemetry)
{
	tls_front_close(telemetry->front);
	telemetry->front = NULL;
	figures_http_close(telemetry->http);
	telemetry->http = NULL;
	grpc_tls_destroy(telemetry->tls);
	telemetry->tls = NULL;
}

void telemetry_renew(struct server_frame *frame)
{
	struct telemetry *telemetry = frame->telemetry;
	struct fathom_fault why = { 0 };

	if (!telemetry || !telemetry->front)
		return;
	if (grpc_tls_reload(telemetry->tls, &why) == 0)
		figures_http_renew(telemetry->http);
	else
		log_warning("metrics: the certificates stay as they were: %s", why.text);
}
