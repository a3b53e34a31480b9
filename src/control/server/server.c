/* SPDX-License-Identifier: BSD-2-Clause */
/* The server's parts: taken up in one order, let go of in the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/server/internal.h"
#include "control/server/probes.gen.h"
#include "proto/ctl.pb-c.h"

enum { LEAVE_SECONDS = 5, LEAVE_LOOK_MS = 10 };

#define ROW(service, name, stem, answer, roles, fn)                                                                        \
	{                                                                                                                  \
		"/" service "/" name, &stem##_req__descriptor, &answer##__descriptor, (roles), (fn)                        \
	}

/* docs/control-plane.md has the roles as a table. */
static const struct grpc_method methods[] = {
	ROW("ctl.CtlSvc", "NetworkScan", ctl__network_scan, ctl__network_scan_resp, GRPC_ROLE_ADMIN, call_network_scan),
	ROW("ctl.CtlSvc", "StorageScan", ctl__storage_scan, ctl__storage_scan_resp, GRPC_ROLE_ADMIN, call_storage_scan),
};

static void connection_refused(void *ctx, const char *peer, const char *why)
{
	log_warning("%s was refused: %s", peer, why);
}

static int open_tls(struct server *server, struct fault *why)
{
	const struct server_transport *transport = &server->config->transport;
	const struct grpc_tls_options options = {
		.ca = transport->ca_cert,
		.certificate = transport->cert,
		.key = transport->key,
		.with_tls12 = transport->allow_tls12,
	};

	return transport->allow_insecure ? 0 : grpc_tls_create(&options, &server->tls, why);
}

static int open_grpc(struct server *server, struct fault *why)
{
	const struct grpc_server_options options = {
		.address = server->places->control,
		.methods = methods,
		.method_count = ARRAY_COUNT(methods),
		.ctx = server,
		.tls = server->tls,
		.refused = connection_refused,
	};

	return grpc_server_open(&options, &server->grpc, why);
}

/* What there is of it. No job is under way. */
static void close_all(struct server *server)
{
	must(server->jobs == 0);
	grpc_server_close(server->grpc);
	grpc_tls_destroy(server->tls);
	server_state_move(reactor_now(), server, SERVER_CLOSED);
	free(server);
}

int server_open(const struct server_options *options, struct server **server_ret, struct fault *why)
{
	struct server *server = calloc(1, sizeof(*server));
	int error;

	if (!server)
		return fault(why, -ENOMEM, "out of memory");
	server->options = options;
	server->config = options->config;
	server->places = options->places;
	server->os = provider_system();
	trace_object_init(&server->trace, TRACE_OBJECT_SERVER);
	server_state_move(reactor_now(), server, SERVER_OPENING);
	scan_init(&server->storage_scan, server, "storage");
	scan_init(&server->network_scan, server, "network");
	error = open_tls(server, why);
	if (!error)
		error = open_grpc(server, why);
	if (error) {
		close_all(server);
		return error;
	}
	server_state_move(reactor_now(), server, SERVER_READY);
	probe_server_ready(reactor_now(), server, (uint32_t)server->config->engines.count,
			   clock_ticks_from_ns(clock_monotonic_ns() - options->began_ns));
	*server_ret = server;
	return 0;
}

static int look_whether_left(void *ctx)
{
	struct server *server = ctx;
	bool is_late = (int64_t)(reactor_now() - server->leave_by) >= 0;
	void (*left)(void *ctx, bool is_clean) = server->left;
	void *left_ctx = server->left_ctx;

	if (server->jobs > 0 && !is_late)
		return 0;
	poller_unregister(&server->leave_poller);
	if (server->jobs > 0) {
		left(left_ctx, false);
		return 1;
	}
	close_all(server);
	left(left_ctx, true);
	return 1;
}

static void drained(void *ctx)
{
	struct server *server = ctx;

	server->leave_poller = poller_register("server_leave", look_whether_left, server, LEAVE_LOOK_MS * NS_PER_MS);
	must(server->leave_poller);
}

void server_leave(struct server *server, void (*left)(void *ctx, bool is_clean), void *ctx)
{
	server->left = left;
	server->left_ctx = ctx;
	server->leave_by = reactor_now() + clock_ticks_from_ns(LEAVE_SECONDS * NS_PER_SEC);
	server_state_move(reactor_now(), server, SERVER_LEAVING);
	grpc_server_drain(server->grpc, LEAVE_SECONDS * NS_PER_SEC, drained, server);
}

void server_reload(struct server *server)
{
	struct fault why;

	if (!server->tls)
		return;
	if (grpc_tls_reload(server->tls, &why) != 0)
		log_error("the certificates stay as they were: %s; %s", why.text, why.resolution);
	else
		log_notice("the certificates have been read again");
}
