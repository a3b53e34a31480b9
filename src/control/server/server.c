/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens and closes the server's parts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "control/fault/fault.h"
#include "control/mgmt/absent.h"
#include "control/network/port_holder.h"
#include "control/server/core/core.h"
#include "control/server/core/probes.gen.h"
#include "rpc/grpc/address.h"
#include "rpc/proto/ctl.pb-c.h"

enum { LEAVE_SECONDS = 5, LEAVE_LOOK_MS = 10, REFUSALS_LOGGED_AT_ONCE = 5 };
enum { PORT_TRIES = 30, PORT_PAUSE_MS = 100 };

/* host_methods, mgmt_methods, and absent methods. The gRPC server borrows the table. */
static struct grpc_method methods[128];

static size_t all_methods(void)
{
	size_t count = 0;

	must(host_method_count + mgmt_method_count + ABSENT_METHODS_MAX <= ARRAY_COUNT(methods));
	for (size_t i = 0; i < host_method_count; i++)
		methods[count++] = host_methods[i];
	for (size_t i = 0; i < mgmt_method_count; i++)
		methods[count++] = mgmt_methods[i];
	return count + mgmt_absent_methods(methods + count);
}

static void log_refused_connection(void *ctx, const char *peer, const char *why)
{
	static struct log_limit limit = LOG_LIMIT(REFUSALS_LOGGED_AT_ONCE, NS_PER_SEC);

	log_line_limited(&limit, clock_monotonic_ns(), LOG_LEVEL_WARNING, "%s was refused: %s", peer, why);
}

static int open_tls(struct server *server, struct fathom_fault *why)
{
	const struct server_transport *transport = &server->config->transport;

	return transport->allow_insecure ? 0 : server_certificates_open(transport, &server->tls, why);
}

static void describe_port_holder(struct server *server, char holder[static PORT_HOLDER_TEXT_BYTES])
{
	struct sockaddr_storage address;
	socklen_t bytes;

	/* grpc_server_open() has parsed it before */
	must(grpc_address_parse(server->places->control, &address, &bytes, NULL) == 0);
	port_holder_describe(server->os, &address, holder);
}

static void log_port_taken(struct server *server)
{
	char holder[PORT_HOLDER_TEXT_BYTES];

	describe_port_holder(server, holder);
	probe_server_port_taken(reactor_now(), server, trace_intern_foreign(holder));
	log_notice("%s cannot be listened on: %s; trying again for %d s", server->places->control, holder,
		   PORT_TRIES * PORT_PAUSE_MS / 1000);
}

static int open_grpc(struct server *server, struct fathom_fault *why)
{
	char holder[PORT_HOLDER_TEXT_BYTES];
	const struct grpc_server_options options = {
		.address = server->places->control,
		.methods = methods,
		.method_count = all_methods(),
		.ctx = server,
		.tls = server->tls,
		.refused = log_refused_connection,
		.message_bytes_max = MGMT_MAP_BYTES_MAX, /* the largest message */
	};
	int error = grpc_server_open(&options, &server->grpc, why);

	/* an earlier server may be ending, or a connection on this port may close soon */
	for (unsigned int i = 0; error == -EADDRINUSE && i < PORT_TRIES; i++) {
		if (i == 0)
			log_port_taken(server);
		(void)usleep(PORT_PAUSE_MS * 1000);
		error = grpc_server_open(&options, &server->grpc, why);
	}
	if (error != -EADDRINUSE)
		return error;
	describe_port_holder(server, holder);
	return fault_port_in_use(why, server->places->control, holder);
}

static int open_client(struct server *server, struct fathom_fault *why)
{
	const struct grpc_client_options options = {
		.role = GRPC_ROLE_SERVER,
		.version = server->options->version,
		.tls = server->tls,
	};

	return grpc_client_create(&options, &server->client, why);
}

/*
 * Close the parts that are open. No job may be under way. The owners of pending calls end them: the management service, the
 * gRPC client, the instances. The engines keep running.
 */
static void close_all(struct server *server)
{
	must(server->jobs == 0);
	grpc_server_close(server->grpc);
	server_begin_formats(server);
	copying_cancel_all(server);
	server_copy_at_end(server);
	mgmt_close(server->of_call.mgmt);
	grpc_client_destroy(server->client);
	server_destroy_engines(server);
	helper_client_destroy(server->helper);
	server_cancel_events(server);
	drpc_server_close(server->drpc);
	spool_close(server->spool);
	db_close(server->db);
	grpc_tls_destroy(server->tls);
	collection_free(server->collection);
	deadlines_deinit(&server->deadlines);
	server_state_move(reactor_now(), server, SERVER_CLOSED);
	free(server);
}

/* gRPC and dRPC are opened last: their calls use all other parts. */
static int open_all(struct server *server, struct fathom_fault *why)
{
	static int (*const opens[])(struct server * server, struct fathom_fault * why) = {
		open_tls,	    open_client,	   server_open_spool, server_open_system,
		server_open_helper, server_create_engines, server_open_drpc,  open_grpc,
	};
	int error = deadlines_init(&server->deadlines, "server");

	if (error)
		return fault(why, error, "out of memory");
	for (size_t i = 0; !error && i < ARRAY_COUNT(opens); i++)
		error = opens[i](server, why);
	return error;
}

int server_open(const struct server_options *options, struct server **server_ret, struct fathom_fault *why)
{
	struct server *server = calloc(1, sizeof(*server));
	int error;

	if (!server)
		return fault(why, -ENOMEM, "out of memory");
	server->options = options;
	server->config = options->config;
	server->places = options->places;
	server->os = provider_system();
	server->replicas[0] = options->places->replica;
	server->of_call.replicas = server->replicas;
	server->of_call.replica_count = 1;
	snprintf(server->system, sizeof(server->system), "%s-%s", options->config->name, options->version);
	STAILQ_INIT(&server->events);
	STAILQ_INIT(&server->formats);
	trace_object_init(&server->trace, TRACE_OBJECT_SERVER);
	server_state_move(reactor_now(), server, SERVER_OPENING);
	scan_init(&server->storage_scan, server, "storage");
	scan_init(&server->network_scan, server, "network");
	scan_init(&server->host_scan, server, "host");
	error = open_all(server, why);
	if (error) {
		close_all(server);
		return error;
	}
	server_state_move(reactor_now(), server, SERVER_READY);
	probe_server_ready(reactor_now(), server, (uint32_t)server->config->engines.count,
			   clock_ticks_from_ns(clock_monotonic_ns() - options->began_ns));
	server_tell(server, RAS_SERVER_STARTED, NULL, NULL, "fathom-server %s at %s has started, with %zu engine%s",
		    options->version, server->places->control, server->config->engines.count,
		    server->config->engines.count == 1 ? "" : "s");
	server_watch_certificates(server);
	server_greet_helper(server);
	server_start_engines(server);
	uplink_kick(server);
	server_begin_reports(server);
	*server_ret = server;
	return 0;
}

static int finish_leaving(void *ctx)
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

static void on_grpc_drained(void *ctx)
{
	struct server *server = ctx;

	server->leave_poller = poller_register("server_leave", finish_leaving, server, LEAVE_LOOK_MS * NS_PER_MS);
	must(server->leave_poller);
}

void server_tell_end(struct server *server, const char *why)
{
	server_tell(server, RAS_SERVER_ENDED, NULL, NULL, "fathom-server at %s ends by %s", server->places->control, why);
}

void server_leave(struct server *server, void (*left)(void *ctx, bool is_clean), void *ctx)
{
	server->left = left;
	server->left_ctx = ctx;
	server->leave_by = reactor_now() + clock_ticks_from_ns(LEAVE_SECONDS * NS_PER_SEC);
	server_state_move(reactor_now(), server, SERVER_LEAVING);
	if (server->of_call.mgmt)
		mgmt_leave(server->of_call.mgmt);
	server_begin_formats(server); /* fails the waiting calls */
	grpc_server_drain(server->grpc, LEAVE_SECONDS * NS_PER_SEC, on_grpc_drained, server);
}
