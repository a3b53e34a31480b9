/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens and closes the server's parts, from the lowest to the highest and back. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "control/fault/fault.h"
#include "control/network/port_holder.h"
#include "control/server/collection/collection.h"
#include "control/server/core/probes.gen.h"
#include "control/server/database/database.h"
#include "control/server/doctor/doctor.h"
#include "control/server/engines/engines.h"
#include "control/server/events/events.h"
#include "control/server/health/health.h"
#include "control/server/host/host.h"
#include "control/server/internal.h"
#include "rpc/grpc/address.h"

enum { LEAVE_SECONDS = 5, LEAVE_LOOK_MS = 10, REJECTIONS_LOGGED_AT_ONCE = 5 };
enum { PORT_TRIES = 30, PORT_PAUSE_MS = 100, LOCAL_PAUSE_S = 10 };

static void log_rejected_connection(void *ctx, const char *peer, const char *why)
{
	static struct log_limit limit = LOG_LIMIT(REJECTIONS_LOGGED_AT_ONCE, NS_PER_SEC);

	log_line_limited(&limit, clock_monotonic_ns(), LOG_LEVEL_WARNING, "%s was refused: %s", peer, why);
}

static int open_tls(struct server_frame *frame, struct fathom_fault *why)
{
	const struct server_transport *transport = &frame->server.config->transport;

	must(!frame->tls);
	return transport->allow_insecure ? 0 : server_certificates_open(transport, &frame->tls, why);
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
	log_notice("cannot listen on %s: %s; trying again for %d s", server->places->control, holder,
		   PORT_TRIES * PORT_PAUSE_MS / 1000);
}

static struct grpc_server_options grpc_options(struct server_frame *frame)
{
	struct grpc_server_options options = {
		.address = frame->server.places->control,
		.ctx = &frame->server,
		.tls = frame->tls,
		.refused = log_rejected_connection,
		.message_bytes_max = MGMT_MAP_BYTES_MAX, /* the largest message */
	};

	options.methods = server_grpc_methods(&options.method_count);
	return options;
}

static int open_grpc(struct server_frame *frame, struct fathom_fault *why)
{
	struct server *server = &frame->server;
	char holder[PORT_HOLDER_TEXT_BYTES];
	struct grpc_server_options options = grpc_options(frame);
	int error;

	must(!frame->grpc);
	error = grpc_server_open(&options, &frame->grpc, why);
	/* an earlier server may be ending, or a connection on this port may close soon */
	for (unsigned int i = 0; error == -EADDRINUSE && i < PORT_TRIES; i++) {
		if (i == 0)
			log_port_taken(server);
		(void)usleep(PORT_PAUSE_MS * 1000);
		error = grpc_server_open(&options, &frame->grpc, why);
	}
	if (error != -EADDRINUSE)
		return error;
	describe_port_holder(server, holder);
	return fault_port_in_use(why, server->places->control, holder);
}

static bool is_loopback(const char *address)
{
	return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0;
}

static void open_local_grpc(struct server_frame *frame);

static void open_local_again(struct deadline *deadline)
{
	open_local_grpc(container_of(deadline, struct server_frame, local_due));
}

/*
 * `fathom` without a hostlist asks localhost. Other hosts do not need this listener, so the server also runs without it. It
 * tries again until the port is free: as often as for the other one at first, then every LOCAL_PAUSE_S.
 */
static void open_local_grpc(struct server_frame *frame)
{
	struct server *server = &frame->server;
	struct grpc_server_options options = grpc_options(frame);
	struct fathom_fault why = { 0 };
	char local[GRPC_ADDRESS_BYTES_MAX];

	must(frame->grpc && !frame->local_grpc);
	if (is_loopback(server->places->control))
		return;
	must((size_t)snprintf(local, sizeof(local), "127.0.0.1:%" PRIu64, server->config->port) < sizeof(local));
	options.address = local;
	if (grpc_server_open(&options, &frame->local_grpc, &why) == 0) {
		if (frame->local_failures > 0)
			log_notice("listening on %s now", local);
		return;
	}
	frame->local_failures++;
	if (frame->local_failures == 1)
		log_notice(
			"cannot listen on %s: %s; trying again, and until then `fathom` on this host needs hostlist or -l",
			local, why.text);
	deadline_set(&server->deadlines, &frame->local_due,
		     frame->local_failures < PORT_TRIES ? PORT_PAUSE_MS * NS_PER_MS : LOCAL_PAUSE_S * NS_PER_SEC,
		     open_local_again);
}

static int open_drpc(struct server_frame *frame, struct fathom_fault *why)
{
	char path[SERVER_PATH_BYTES];
	struct drpc_server_options options = {
		.path = path,
		.ctx = &frame->server,
		.option = "socket_dir",
	};
	int error;

	must(!frame->drpc);
	options.methods = server_drpc_methods(&options.method_count);
	must((size_t)snprintf(path, sizeof(path), "%s/" SERVER_SOCKET, frame->server.config->socket_dir) < sizeof(path));
	error = drpc_server_open(&options, &frame->drpc, why);
	return error == -EADDRINUSE ? fault_socket_in_use(why, path) : error;
}

static int open_client(struct server_frame *frame, struct fathom_fault *why)
{
	const struct grpc_client_options options = {
		.role = GRPC_ROLE_SERVER,
		.version = frame->server.options->version,
		.tls = frame->tls,
	};

	must(!frame->server.client);
	return grpc_client_create(&options, &frame->server.client, why);
}

/*
 * Close the parts that are open. No job may be under way. The owners of pending calls end them: the management service, the
 * gRPC client, the instances. The engines keep running.
 */
static void close_all(struct server_frame *frame)
{
	struct server *server = &frame->server;

	must(server->jobs == 0);
	must(!frame->leave_poller);
	telemetry_close(frame);
	/* the next server opens it last */
	grpc_server_close(frame->local_grpc);
	grpc_server_close(frame->grpc);
	doctor_close(server);
	engines_begin_formats(server);
	database_finish_copies(server);
	mgmt_close(server->of_call.mgmt);
	server->of_call.mgmt = NULL;
	grpc_client_destroy(server->client);
	engines_close(server);
	helper_client_destroy(server->helper);
	health_close(server);
	events_cancel_calls(server);
	drpc_server_close(frame->drpc);
	events_close(server);
	database_close(server);
	scans_close(server);
	grpc_tls_destroy(frame->tls);
	collection_free(server->collection);
	deadlines_deinit(&server->deadlines);
	must(server->jobs == 0);
	must(!server->events && !server->database && !server->engines && !server->scans && !server->health &&
	     !server->doctor);
	must(server->instance_count == 0);
	server_state_move(reactor_now(), server, SERVER_CLOSED);
	free(frame);
}

/* gRPC and dRPC are opened last: their calls use all other parts. */
static int open_all(struct server_frame *frame, struct fathom_fault *why)
{
	struct server *server = &frame->server;
	int error = deadlines_init(&server->deadlines, "server");

	if (error)
		return fault(why, error, "out of memory");
	error = open_tls(frame, why);
	if (!error)
		error = open_client(frame, why);
	if (!error)
		error = scans_open(server, why);
	if (!error)
		error = events_open(server, why);
	if (!error)
		error = database_open(server, why);
	if (!error)
		error = helper_open(frame, why);
	if (!error)
		error = health_open(server, why);
	if (!error)
		error = engines_open(server, why);
	if (!error)
		error = doctor_open(server, why);
	if (!error)
		error = open_drpc(frame, why);
	if (!error)
		error = telemetry_open(frame, why);
	return error ? error : open_grpc(frame, why);
}

static void init_server(struct server *server, const struct server_options *options)
{
	must(server->state == SERVER_CLOSED);
	must(options->config && options->places && options->version && options->programs);
	must(thread_self() == thread_control());
	server->options = options;
	server->config = options->config;
	server->places = options->places;
	server->os = provider_system();
	server->replicas[0] = options->places->replica;
	server->of_call.replicas = server->replicas;
	server->of_call.replica_count = 1;
	must((size_t)snprintf(server->system, sizeof(server->system), "%s-%s", options->config->name, options->version) <
	     sizeof(server->system));
	trace_object_init(&server->trace, TRACE_OBJECT_SERVER);
	server_state_move(reactor_now(), server, SERVER_OPENING);
}

int server_open(const struct server_options *options, struct server_frame **frame_ret, struct fathom_fault *why)
{
	struct server_frame *frame = calloc(1, sizeof(*frame));
	struct server *server;
	int error;

	if (!frame)
		return fault(why, -ENOMEM, "out of memory");
	server = &frame->server;
	init_server(server, options);
	error = open_all(frame, why);
	if (error) {
		close_all(frame);
		return error;
	}
	must(frame->grpc && frame->drpc && server->client);
	open_local_grpc(frame);
	server_state_move(reactor_now(), server, SERVER_READY);
	probe_server_ready(reactor_now(), server, (uint32_t)server->config->engines.count,
			   clock_ticks_from_ns(clock_monotonic_ns() - options->began_ns));
	server_raise_operation(server, RAS_SERVER_STARTED, NULL, NULL,
			       "fathom-server %s at %s has started, with %zu engine%s", options->version,
			       server->places->control, server->config->engines.count,
			       server->config->engines.count == 1 ? "" : "s");
	certificates_watch(frame);
	helper_check(frame);
	engines_start(server);
	health_start(server);
	events_send(server);
	*frame_ret = frame;
	return 0;
}

static int finish_leaving(void *ctx)
{
	struct server_frame *frame = ctx;
	bool is_late = (int64_t)(reactor_now() - frame->leave_by) >= 0;
	void (*left)(void *ctx, bool is_clean) = frame->left;
	void *left_ctx = frame->left_ctx;

	must(frame->server.state == SERVER_LEAVING);
	if (frame->server.jobs > 0 && !is_late)
		return 0;
	poller_unregister(&frame->leave_poller);
	if (frame->server.jobs > 0) {
		left(left_ctx, false);
		return 1;
	}
	close_all(frame);
	left(left_ctx, true);
	return 1;
}

static void on_grpc_drained(void *ctx)
{
	struct server_frame *frame = ctx;

	must(frame->server.state == SERVER_LEAVING);
	must(!frame->leave_poller);
	must(frame->grpc_drains > 0);
	if (--frame->grpc_drains > 0)
		return;
	frame->leave_poller = poller_register("server_leave", finish_leaving, frame, LEAVE_LOOK_MS * NS_PER_MS);
	must(frame->leave_poller);
}

void server_raise_end(struct server_frame *frame, const char *why)
{
	must(frame->server.state == SERVER_READY);
	server_raise_operation(&frame->server, RAS_SERVER_ENDED, NULL, NULL, "fathom-server at %s ends by %s",
			       frame->server.places->control, why);
}

void server_leave(struct server_frame *frame, void (*left)(void *ctx, bool is_clean), void *ctx)
{
	struct server *server = &frame->server;

	must(server->state == SERVER_READY);
	must(left && !frame->left);
	must(frame->grpc);
	frame->left = left;
	frame->left_ctx = ctx;
	frame->leave_by = reactor_now() + clock_ticks_from_ns(LEAVE_SECONDS * NS_PER_SEC);
	server_state_move(reactor_now(), server, SERVER_LEAVING);
	deadline_clear(&server->deadlines, &frame->local_due);
	if (server->of_call.mgmt)
		mgmt_leave(server->of_call.mgmt);
	engines_begin_formats(server); /* fails the waiting calls */
	engines_end_storage_calls(server);
	health_leave(server);
	doctor_leave(server);
	frame->grpc_drains = frame->local_grpc ? 2 : 1;
	if (frame->local_grpc)
		grpc_server_drain(frame->local_grpc, LEAVE_SECONDS * NS_PER_SEC, on_grpc_drained, frame);
	grpc_server_drain(frame->grpc, LEAVE_SECONDS * NS_PER_SEC, on_grpc_drained, frame);
}
