/* SPDX-License-Identifier: BSD-2-Clause */
/* call - a call in the server: unpack it, run its method, send the reply. It may outlive its connection. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/drpc/probes.gen.h"
#include "rpc/drpc/server.h"

static_assert((int)DRPC_FAILED_MARSHAL == (int)DRPC__STATUS__FAILED_MARSHAL, "the same numbers");
static_assert((int)DRPC_UNKNOWN_METHOD == (int)DRPC__STATUS__UNKNOWN_METHOD, "the same numbers");

/* ---- out ---- */

static uint8_t *pack_message(const ProtobufCMessage *message, size_t bytes)
{
	uint8_t *data = malloc(bytes + 1); /* not NULL for an empty message either */
	size_t packed = data ? protobuf_c_message_pack(message, data) : bytes;

	must(packed == bytes);
	return data;
}

/* Send a Response and free its body. False: out of memory. */
static bool send_response(struct drpc_connection *c, int64_t sequence, enum drpc_status status, uint8_t *body,
			  size_t body_bytes)
{
	Drpc__Response response = DRPC__RESPONSE__INIT;
	size_t bytes;
	uint8_t *data;

	must((body_bytes == 0) | (status == DRPC_SUCCESS));
	response.sequence = sequence;
	response.status = (Drpc__Status)status;
	response.body = (ProtobufCBinaryData){ .len = body_bytes, .data = body };
	bytes = drpc__response__get_packed_size(&response);
	data = pack_message(&response.base, bytes);
	free(body);
	if (!data)
		return false;
	drpc_server_send(c, data, bytes);
	return true;
}

static void call_free(struct drpc_call *call)
{
	if (call->request)
		protobuf_c_message_free_unpacked(call->request, NULL);
	if (call->message)
		drpc__call__free_unpacked(call->message, NULL);
	free(call);
}

static void finish_call(struct drpc_call *call, enum drpc_status status, const ProtobufCMessage *response)
{
	struct drpc_connection *c = call->connection;
	size_t body_bytes = 0;
	uint8_t *body = NULL;
	bool sent;

	if (c && status == DRPC_SUCCESS && response) {
		body_bytes = protobuf_c_message_get_packed_size(response);
		/* the fields around the body: sequence, status, length */
		if (body_bytes <= c->server->options.message_bytes_max - 64)
			body = pack_message(response, body_bytes);
		if (!body) {
			status = DRPC_FAILED_MARSHAL;
			body_bytes = 0;
		}
	}
	probe_drpc_call_replied(clock_ticks(), call, call->module_number, call->method_number, status,
				clock_ticks() - call->received_tick);
	if (call->server) {
		call->server->stats.failed_total += status != DRPC_SUCCESS;
		call->server->stats.calls_open--;
		TAILQ_REMOVE(&call->server->calls, call, link);
	}
	if (c) {
		must(c->call == call);
		c->call = NULL;
		sent = send_response(c, call->sequence, status, body, body_bytes);
		if (!sent)
			drpc_server_connection_close(c, DRPC_CLOSE_NO_MEMORY);
	}
	call_free(call);
}

void drpc_reply(struct drpc_call *call, const ProtobufCMessage *response)
{
	finish_call(call, DRPC_SUCCESS, response);
}

void drpc_fail(struct drpc_call *call, enum drpc_status status)
{
	must(status != DRPC_SUCCESS);
	must(status <= DRPC_FAILED_MARSHAL);
	finish_call(call, status, NULL);
}

/* ---- in ---- */

static enum drpc_status find_method(const struct drpc_server_options *options, struct drpc_call *call)
{
	enum drpc_status status = DRPC_UNKNOWN_MODULE;

	for (size_t i = 0; i < options->method_count; i++) {
		const struct drpc_method *method = &options->methods[i];

		if (method->module != call->module_number)
			continue;
		status = DRPC_UNKNOWN_METHOD;
		if (method->method == call->method_number) {
			call->method = method;
			return DRPC_SUCCESS;
		}
	}
	return status;
}

/* Find the method, and unpack its request. */
static enum drpc_status unpack_request(struct drpc_server *server, struct drpc_call *call)
{
	const ProtobufCBinaryData *body = &call->message->body;
	enum drpc_status status = find_method(&server->options, call);

	if (status == DRPC_SUCCESS && call->method->request) {
		call->request = protobuf_c_message_unpack(call->method->request, NULL, body->len, body->data);
		if (!call->request)
			status = DRPC_FAILED_UNMARSHAL_PAYLOAD;
	}
	return status;
}

bool drpc_call_begin(struct drpc_connection *c)
{
	struct drpc_server *server = c->server;
	struct drpc_call *call = calloc(1, sizeof(*call));
	enum drpc_status status = DRPC_FAILED_UNMARSHAL_CALL;

	if (!call)
		return false;
	must(c->state == DRPC_CONNECTION_WORKING);
	must(!c->call);
	trace_object_init(&call->trace, TRACE_OBJECT_DRPC_CALL);
	call->connection = c;
	call->server = server;
	call->ctx = server->options.ctx;
	call->peer = c->peer;
	call->sequence = -1;
	call->received_tick = clock_ticks();
	call->message = drpc__call__unpack(NULL, c->in.bytes, c->in.data);
	drpc_message_clear(&c->in);
	c->call = call;
	TAILQ_INSERT_TAIL(&server->calls, call, link);
	server->stats.calls_total++;
	server->stats.calls_open++;
	if (call->message) {
		call->module_number = call->message->module;
		call->method_number = call->message->method;
		call->sequence = call->message->sequence;
		status = unpack_request(server, call);
	}
	probe_drpc_call_received(call->received_tick | TICK_SHARED, call, call->module_number, call->method_number,
				 call->message ? (uint32_t)call->message->body.len : 0, c);
	if (status == DRPC_SUCCESS)
		call->method->fn(call, call->request);
	else
		finish_call(call, status, NULL);
	return true;
}

void *drpc_call_ctx(const struct drpc_call *call)
{
	return call->ctx;
}

const struct drpc_peer *drpc_call_peer(const struct drpc_call *call)
{
	return &call->peer;
}

const uint8_t *drpc_call_body(const struct drpc_call *call, size_t *bytes_ret)
{
	*bytes_ret = call->message->body.len;
	return call->message->body.data;
}

const struct drpc_method *drpc_call_method(const struct drpc_call *call)
{
	return call->method;
}
