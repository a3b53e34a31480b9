/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http - serves figures to monitoring systems: GET /metrics and GET /healthz; and to people: GET / is the status page,
 * which shows the figures of /metrics, and GET /status.json has what they do not contain.
 *
 *   a client's request -> [HTTP thread] suspended -> message -> [control thread] collect() -> figures_scrape_end()
 *   -> [HTTP thread] the text, or 503
 *
 * libmicrohttpd has one thread for all connections; it only reads and sends. Figures are collected on the control thread,
 * one collection at a time: clients that ask meanwhile share the next one. A client that hangs holds one of
 * FIGURES_HTTP_CONNECTIONS_MAX connections, for FIGURES_HTTP_IDLE_SEC; one that reads slowly, for FIGURES_HTTP_SEND_SEC.
 * Neither delays another client or the control thread.
 *
 * The functions are called on the control thread.
 */
#ifndef RPC_FIGURES_HTTP_H
#define RPC_FIGURES_HTTP_H

#include "base/fault.h"
#include "rpc/figures/figures.h"

enum {
	FIGURES_HTTP_CONNECTIONS_MAX = 32,
	FIGURES_HTTP_IDLE_SEC = 10, /* without a byte in either direction */
	FIGURES_HTTP_SEND_SEC = 30, /* for a whole response */
};

struct figures_http;
struct figures_scrape;

struct figures_http_options {
	bool is_behind;	     /* behind a server that accepts its connections: figures_http_add() */
	const char *address; /* otherwise: in numbers */
	uint16_t port;	     /* 0: any */
	const char *option;  /* that sets them, for messages */
	/* Collect, and call figures_scrape_end() once, now or later. */
	void (*collect)(void *ctx, struct figures_scrape *scrape);
	/*
	 * The text of /status.json, which is freed: an object with "system", the name, "findings", "members" and
	 * "events"; see page/status.js. NULL: the program has nothing more than its figures.
	 */
	char *(*status)(void *ctx);
	void *ctx;
};

/* Listen. Errors (explained): -EINVAL (address), -EADDRINUSE and others of bind(2), -ENOMEM. */
MUST_CHECK int figures_http_open(const struct figures_http_options *options, struct figures_http **http_ret,
				 struct fathom_fault *why);
/*
 * Clients that wait get 503, or their connection ends. A collection under way must still be ended; its figures are dropped.
 * Accepts NULL.
 */
void figures_http_close(struct figures_http *http);
/* Serve a connection that was accepted elsewhere. Takes `fd`, which is connected and non-blocking. */
void figures_http_add(struct figures_http *http, int fd);
/* The connections that exist now end with their next response. */
void figures_http_renew(struct figures_http *http);
uint16_t figures_http_port(const struct figures_http *http);
/* Scrapes that were answered since figures_http_open(). */
uint64_t figures_http_scrapes(const struct figures_http *http);

enum figures_format figures_scrape_format(const struct figures_scrape *scrape);
/* `figures` is borrowed. NULL: there are none, and the clients get 503. */
void figures_scrape_end(struct figures_scrape *scrape, const struct figures *figures);

#endif
