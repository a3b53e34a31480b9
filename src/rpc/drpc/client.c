/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client - calls wait in a queue; connections take them from its head.
 *
 *   waiting ... [call] -> connection (IDLE -> SENDING -> WORKING -> IDLE) -> done
 *
 * After a call its connection is kept for the next. If a kept connection turns out to be dead before it took a byte of a
 * call, the call returns to the head of the queue, once. Later failures are reported: the server may have carried out the
 * call. If a call times out, its connection is closed: a late response would be taken for that of the next call.
 *
 * `done` may destroy the client, so its callers check *ended before they go on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "rpc/drpc/probes.gen.h"

enum { CONNECT_AGAIN_MS = 5 };

struct drpc_client {
	struct drpc_client_options options;
	struct sockaddr_un address;
	struct deadlines deadlines;
	struct deadline pump; /* serves the queue, from the reactor's loop */
	TAILQ_HEAD(, drpc_client_call) waiting;
	TAILQ_HEAD(, drpc_connection) connections;
	int64_t sequence_last;
	struct drpc_client_stats stats;
	struct fathom_thread *thread;
	bool *ended; /* set when the client is destroyed; of the innermost caller of a `done` */
	bool destroying;
};

static void step_connection(struct drpc_connection *c);
static void start_waiting_calls(struct deadline *deadline);

static void pump_soon(struct drpc_client *client)
{
	if (!client->destroying)
		deadline_set(&client->deadlines, &client->pump, 0, start_waiting_calls);
}

/* ---- the end of a call ---- */

/* Call the `done` of `call` and free it. False: the client was destroyed. */
static bool finish_call(struct drpc_client_call *call, const struct drpc_result *result)
{
	struct drpc_client *client = call->client;
	bool ended = false, *ended_before = client->ended;
	struct drpc_result told = *result;

	deadline_clear(&client->deadlines, &call->deadline);
	if (call->connection)
		call->connection->client_call = NULL;
	else
		TAILQ_REMOVE(&client->waiting, call, link);
	if (call->connection)
		client->stats.calls_open--;
	else
		client->stats.calls_waiting--;
	client->stats.failed_total += result->error || result->status != DRPC_SUCCESS;
	probe_drpc_client_call_done(clock_ticks(), call, call->method, result->error, result->status,
				    clock_ticks() - call->begin_tick);
	client->ended = &ended;
	told.peer = call->peer;
	call->done(call->ctx, &told);
	free(call->bytes);
	free(call);
	if (ended) {
		if (ended_before)
			*ended_before = true;
		return false;
	}
	client->ended = ended_before;
	return true;
}

static bool fail_call(struct drpc_client_call *call, int error, const char *what)
{
	struct drpc_result result = { .error = error };

	fill_fault(&result.why, error, "%s: module %d, method %d: %s", call->client->options.path, call->module,
		   call->method, what); /* passed to `done`, not returned */
	return finish_call(call, &result);
}

/* ---- connections ---- */

/* The caller ends its call, if it has one. */
static void connection_close(struct drpc_connection *c, enum drpc_close_reason reason)
{
	struct drpc_client *client = c->client;

	must(!c->client_call);
	probe_drpc_connection_close(clock_ticks(), c, reason, (uint32_t)c->bad_chunk);
	drpc_connection_move(c, DRPC_CONNECTION_CLOSED);
	deadline_clear(&client->deadlines, &c->deadline);
	fd_watch_remove(&c->watch);
	close(c->fd);
	drpc_message_clear(&c->in);
	TAILQ_REMOVE(&client->connections, c, link);
	client->stats.connections--;
	free(c);
}

/* Close the connection and end its call with `error`. False: the client was destroyed. */
static bool connection_fail(struct drpc_connection *c, enum drpc_close_reason reason, int error, const char *what)
{
	struct drpc_client_call *call = c->client_call;
	struct drpc_client *client = c->client;

	if (call) {
		/* it counts as under way until its `done` is called */
		c->client_call = NULL;
		call->connection = NULL;
		TAILQ_INSERT_HEAD(&client->waiting, call, link);
		client->stats.calls_open--;
		client->stats.calls_waiting++;
	}
	connection_close(c, reason);
	if (!client->destroying && client->stats.calls_waiting > 0)
		pump_soon(client);
	return call ? fail_call(call, error, what) : true;
}

static void connection_is_ready(void *ctx, uint32_t events)
{
	step_connection(ctx);
}

static void connect_again(struct deadline *deadline);

/* 0: connected or connecting. Otherwise the error of connect(2). */
static int try_to_connect(struct drpc_connection *c)
{
	struct drpc_client *client = c->client;

	if (connect(c->fd, (const struct sockaddr *)&client->address, sizeof(client->address)) == 0) {
		/* not earlier: an unconnected socket is always ready in epoll */
		c->watch = fd_watch_add(c->fd, EPOLLIN, connection_is_ready, c);
		if (!c->watch)
			return -errno;
		c->watched_events = EPOLLIN;
		c->peer = drpc_socket_peer(c->fd);
		probe_drpc_connection_open(clock_ticks(), c, c->peer.pid, c->peer.uid);
		drpc_connection_move(c, DRPC_CONNECTION_IDLE);
		return 0;
	}
	if (errno != EAGAIN && errno != EINTR)
		return -errno;
	/* the server's queue is full */
	drpc_connection_move(c, DRPC_CONNECTION_CONNECTING);
	deadline_set(&client->deadlines, &c->deadline, CONNECT_AGAIN_MS * NS_PER_MS, connect_again);
	return 0;
}

static void connect_again(struct deadline *deadline)
{
	struct drpc_connection *c = container_of(deadline, struct drpc_connection, deadline);
	int error = try_to_connect(c);

	if (error)
		(void)connection_fail(c, DRPC_CLOSE_PEER_LEFT, error, strerror(-error)); /* nothing is done after it */
	else if (c->state == DRPC_CONNECTION_IDLE)
		step_connection(c);
}

static int connection_create(struct drpc_client *client, struct drpc_connection **c_ret)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;
	struct drpc_connection *c;

	if (fd < 0)
		return -errno;
	c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	trace_object_init(&c->trace, TRACE_OBJECT_DRPC_CONNECTION);
	c->fd = fd;
	c->client = client;
	drpc_socket_prepare(fd);
	error = try_to_connect(c);
	if (error) {
		close(fd);
		free(c);
		return error;
	}
	TAILQ_INSERT_TAIL(&client->connections, c, link);
	client->stats.connections++;
	client->stats.connections_total++;
	*c_ret = c;
	return 0;
}

/* ---- one call on its connection ---- */

static void begin_call(struct drpc_connection *c, struct drpc_client_call *call)
{
	struct drpc_client *client = c->client;

	must(!c->client_call);
	TAILQ_REMOVE(&client->waiting, call, link);
	client->stats.calls_waiting--;
	client->stats.calls_open++;
	c->client_call = call;
	call->connection = c;
	c->out = call->bytes;
	c->out_bytes = call->byte_count;
	c->out_offset = 0;
}

static const char *read_response(const struct drpc_client_call *call, const Drpc__Response *response,
				 struct drpc_result *result, ProtobufCMessage **unpacked_ret)
{
	if (response->sequence != call->sequence && response->sequence != -1)
		return "the response is another call's";
	if (response->status < DRPC__STATUS__SUCCESS || response->status > DRPC__STATUS__FAILED_MARSHAL)
		return "the response has a status that does not exist";
	result->status = (enum drpc_status)response->status;
	result->body = response->body.data;
	result->body_bytes = response->body.len;
	if (result->status != DRPC_SUCCESS || !call->response)
		return NULL;
	*unpacked_ret = protobuf_c_message_unpack(call->response, NULL, response->body.len, response->body.data);
	result->response = *unpacked_ret;
	return *unpacked_ret ? NULL : "the body of the response is not what the method answers with";
}

/* A whole message was received. Settle the connection's state before `done` is called. */
static void take_response(struct drpc_connection *c)
{
	struct drpc_client_call *call = c->client_call;
	struct drpc_message message = c->in;
	Drpc__Response *response = drpc__response__unpack(NULL, message.bytes, message.data);
	ProtobufCMessage *unpacked = NULL;
	struct drpc_result result = { .error = 0 };
	const char *wrong = "the response cannot be read";

	memset(&c->in, 0, sizeof(c->in));
	if (response)
		wrong = read_response(call, response, &result, &unpacked);
	if (wrong) {
		(void)connection_fail(c, DRPC_CLOSE_BAD_MESSAGE, -EPROTO, wrong); /* nothing is done after it */
	} else {
		drpc_connection_move(c, DRPC_CONNECTION_IDLE);
		drpc_connection_watch(c, EPOLLIN);
		if (c->client->stats.calls_waiting > 0)
			pump_soon(c->client);
		(void)finish_call(call, &result); /* likewise */
	}
	if (unpacked)
		protobuf_c_message_free_unpacked(unpacked, NULL);
	if (response)
		drpc__response__free_unpacked(response, NULL);
	drpc_message_clear(&message);
}

/* True: all was sent. */
static bool send_some(struct drpc_connection *c)
{
	struct drpc_client_call *call = c->client_call;
	bool was_idle = c->state == DRPC_CONNECTION_IDLE;
	int error;

	call->peer = c->peer;
	drpc_connection_move(c, DRPC_CONNECTION_SENDING);
	switch (drpc_packets_send(c->fd, c->out, c->out_bytes, &c->out_offset)) {
	case DRPC_PACKETS_DONE:
		drpc_connection_move(c, DRPC_CONNECTION_WORKING);
		drpc_connection_watch(c, EPOLLIN);
		return true;
	case DRPC_PACKETS_AGAIN:
		drpc_connection_watch(c, EPOLLOUT);
		return false;
	default:
		error = -errno;
		if (was_idle && error == -EPIPE && c->out_offset == 0 && !call->again) {
			/* the server got nothing of it: back to the head of the queue, for another connection */
			call->again = true;
			c->client_call = NULL;
			call->connection = NULL;
			TAILQ_INSERT_HEAD(&c->client->waiting, call, link);
			c->client->stats.calls_open--;
			c->client->stats.calls_waiting++;
			pump_soon(c->client);
			connection_close(c, DRPC_CLOSE_PEER_LEFT);
			return false;
		}
		(void)connection_fail(c, DRPC_CLOSE_SEND_FAILED, error, strerror(-error)); /* nothing is done after it */
		return false;
	}
}

static void receive_some(struct drpc_connection *c)
{
	enum drpc_chunk chunk;

	switch (drpc_packets_receive(c->fd, &c->in, c->client->options.message_bytes_max, &chunk)) {
	case DRPC_PACKETS_AGAIN:
		if (c->client_call || c->in.total_chunks == 0)
			return;
		break;
	case DRPC_PACKETS_DONE:
		if (c->state == DRPC_CONNECTION_WORKING) {
			take_response(c);
			return;
		}
		break;
	case DRPC_PACKETS_REFUSED:
		c->bad_chunk = chunk;
		(void)connection_fail(c, DRPC_CLOSE_BAD_CHUNK, chunk == DRPC_CHUNK_NO_MEMORY ? -ENOMEM : -EPROTO,
				      drpc_chunk_text(chunk)); /* nothing is done after it */
		return;
	default:
		(void)connection_fail(c, DRPC_CLOSE_PEER_LEFT, -ECONNRESET,
				      "the server closed the connection without an answer"); /* likewise */
		return;
	}
	(void)connection_fail(c, DRPC_CLOSE_BAD_MESSAGE, -EPROTO, "the server speaks without being asked"); /* likewise */
}

/* May close the connection and end its call, whose `done` may destroy the client. */
static void step_connection(struct drpc_connection *c)
{
	must_be_on(c->client->thread);
	if (c->client_call && (c->state == DRPC_CONNECTION_IDLE || c->state == DRPC_CONNECTION_SENDING)) {
		(void)send_some(c); /* a response that is there already is received at the next step */
		return;
	}
	receive_some(c);
}

/* ---- the queue ---- */

static struct drpc_connection *idle_connection(struct drpc_client *client)
{
	struct drpc_connection *c;

	TAILQ_FOREACH (c, &client->connections, link) {
		if (!c->client_call && (c->state == DRPC_CONNECTION_IDLE || c->state == DRPC_CONNECTION_CONNECTING))
			return c;
	}
	return NULL;
}

static void start_waiting_calls(struct deadline *deadline)
{
	struct drpc_client *client = container_of(deadline, struct drpc_client, pump);
	struct drpc_client_call *call;

	while ((call = TAILQ_FIRST(&client->waiting))) {
		struct drpc_connection *c = idle_connection(client);
		int error = 0;

		if (!c && client->stats.connections >= client->options.connections_max)
			return;
		if (!c)
			error = connection_create(client, &c);
		if (error) {
			if (!fail_call(call, error, strerror(-error)))
				return;
			continue;
		}
		begin_call(c, call);
		if (c->state == DRPC_CONNECTION_IDLE) {
			bool ended = false, *ended_before = client->ended;

			client->ended = &ended;
			step_connection(c);
			if (ended)
				return;
			client->ended = ended_before;
		}
	}
}

static void call_timed_out(struct deadline *deadline)
{
	struct drpc_client_call *call = container_of(deadline, struct drpc_client_call, deadline);

	if (call->connection)
		(void)connection_fail(call->connection, DRPC_CLOSE_CALL_TIMED_OUT, -ETIMEDOUT,
				      "no answer in time"); /* nothing is done after it */
	else
		(void)fail_call(call, -ETIMEDOUT, "no connection was free in time"); /* likewise */
}

static int pack_call(struct drpc_client_call *call, const ProtobufCMessage *request, uint64_t bytes_max,
		     size_t *body_bytes_ret)
{
	Drpc__Call message = DRPC__CALL__INIT;
	size_t body_bytes = request ? protobuf_c_message_get_packed_size(request) : 0;
	uint8_t *body;

	if (body_bytes > bytes_max - 64)
		return -EMSGSIZE;
	body = malloc(body_bytes + 1);
	if (!body)
		return -ENOMEM;
	if (request)
		must(protobuf_c_message_pack(request, body) == body_bytes);
	message.module = call->module;
	message.method = call->method;
	message.sequence = call->sequence;
	message.body = (ProtobufCBinaryData){ .len = body_bytes, .data = body };
	call->byte_count = drpc__call__get_packed_size(&message);
	call->bytes = malloc(call->byte_count + 1);
	if (call->bytes)
		must(drpc__call__pack(&message, call->bytes) == call->byte_count);
	free(body);
	*body_bytes_ret = body_bytes;
	return call->bytes ? 0 : -ENOMEM;
}

int drpc_client_call(struct drpc_client *client, const struct drpc_request *request)
{
	struct drpc_client_call *call;
	size_t body_bytes;
	int error;

	must_be_on(client->thread);
	must(!client->destroying);
	must(request->done);
	if (client->stats.calls_waiting + client->stats.calls_open >= DRPC_CLIENT_CALLS_MAX)
		return -EBUSY;
	call = calloc(1, sizeof(*call));
	if (!call)
		return -ENOMEM;
	trace_object_init(&call->trace, TRACE_OBJECT_DRPC_CLIENT_CALL);
	call->client = client;
	call->module = request->module;
	call->method = request->method;
	call->sequence = ++client->sequence_last;
	call->response = request->response;
	call->done = request->done;
	call->ctx = request->ctx;
	call->begin_tick = clock_ticks();
	error = pack_call(call, request->message, client->options.message_bytes_max, &body_bytes);
	if (error) {
		free(call);
		return error;
	}
	TAILQ_INSERT_TAIL(&client->waiting, call, link);
	client->stats.calls_waiting++;
	client->stats.calls_total++;
	probe_drpc_client_call_start(call->begin_tick | TICK_SHARED, call, request->module, request->method,
				     (uint32_t)body_bytes);
	deadline_set(&client->deadlines, &call->deadline, request->timeout_ns, call_timed_out);
	pump_soon(client);
	return 0;
}

/* ---- life ---- */

static int address_of(struct sockaddr_un *address, const char *path, struct fathom_fault *why)
{
	address->sun_family = AF_UNIX;
	if (path[0] == '\0')
		return fault(why, -EINVAL, "the path of the socket is empty");
	if (text_copy(address->sun_path, sizeof(address->sun_path), path) < 0)
		return fault(why, -ENAMETOOLONG, "%s: the path of a socket has at most %zu bytes", path,
			     sizeof(address->sun_path) - 1);
	return 0;
}

int drpc_client_create(const struct drpc_client_options *options, struct drpc_client **client_ret, struct fathom_fault *why)
{
	struct drpc_client *client = calloc(1, sizeof(*client));
	int error;

	if (!client)
		return fault(why, -ENOMEM, "%s: out of memory for a client", options->path);
	client->options = *options;
	if (!client->options.connections_max)
		client->options.connections_max = DRPC_CLIENT_CONNECTIONS_MAX;
	if (!client->options.message_bytes_max)
		client->options.message_bytes_max = DRPC_MESSAGE_BYTES_MAX;
	must(client->options.message_bytes_max <= DRPC_MESSAGE_BYTES_MAX);
	client->thread = thread_self();
	TAILQ_INIT(&client->waiting);
	TAILQ_INIT(&client->connections);
	error = address_of(&client->address, options->path, why);
	if (!error && deadlines_init(&client->deadlines, "drpc_client_deadlines"))
		error = fault(why, -ENOMEM, "%s: out of memory for a timer", options->path);
	if (error) {
		free(client);
		return error;
	}
	client->options.path = client->address.sun_path;
	*client_ret = client;
	return 0;
}

void drpc_client_destroy(struct drpc_client *client)
{
	struct drpc_client_call *call;
	struct drpc_connection *c;

	if (!client)
		return;
	must_be_on(client->thread);
	must(!client->destroying);
	client->destroying = true;
	while ((c = TAILQ_FIRST(&client->connections)))
		(void)connection_fail(c, DRPC_CLOSE_OWNER_ENDS, -ECANCELED,
				      "given up"); /* `done` must not destroy the client here */
	while ((call = TAILQ_FIRST(&client->waiting)))
		(void)fail_call(call, -ECANCELED, "given up"); /* likewise */
	deadlines_deinit(&client->deadlines);
	if (client->ended)
		*client->ended = true;
	free(client);
}

struct drpc_client_stats drpc_client_stats(const struct drpc_client *client)
{
	return client->stats;
}
