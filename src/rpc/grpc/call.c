/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A call in the server. A call begins with the first header of an HTTP/2 stream. When the request is complete, the method
 * is called. From then on the call lives until the method has answered, even if the stream closes earlier.
 *
 *   RECEIVING -> WORKING -> ANSWERED -> gone with the stream
 *                      \-> OVER (stream gone, or deadline over) -> gone with the answer
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "rpc/grpc/probes.gen.h"
#include "rpc/grpc/server.h"
#include "rpc/grpc/text.h"

enum { IGNORED_MS = 10000, IGNORED_BYTES_MAX = 256 << 10 }; /* of the rest of a refused request */

static void move_call(struct grpc_call *call, enum grpc_call_state to)
{
	grpc_call_state_move(clock_ticks(), call, to);
}

/* ---- the end ---- */

static void detach_call(struct grpc_call *call)
{
	struct grpc_link *on = call->on;

	if (!on)
		return;
	deadline_clear(on->deadlines, &call->deadline);
	(void)nghttp2_session_set_stream_user_data(on->session, call->stream,
						   NULL); /* fails if the stream is already closed */
	TAILQ_REMOVE(&on->calls, call, link);
	call->on = NULL;
	link_count_call(on, -1);
}

static void call_free(struct grpc_call *call)
{
	must(!call->on);
	move_call(call, GRPC_CALL_FREE);
	if (call->server) {
		TAILQ_REMOVE(&call->server->calls, call, in_server);
		call->server->stats.calls_open--;
	}
	for (size_t i = 0; i < call->header_count; i++) {
		free(call->headers[i].name);
		free(call->headers[i].value);
	}
	if (call->request)
		protobuf_c_message_free_unpacked(call->request, NULL);
	grpc_message_clear(&call->in);
	free(call->refused_text);
	free(call->out);
	free(call);
}

void call_left(struct grpc_call *call)
{
	detach_call(call);
	if (call->state == GRPC_CALL_WORKING) {
		move_call(call, GRPC_CALL_OVER);
		return;
	}
	if (call->state == GRPC_CALL_RECEIVING)
		move_call(call, GRPC_CALL_OVER);
	call_free(call);
}

/* ---- out ---- */

static ssize_t read_out(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
			nghttp2_data_source *source, void *ctx)
{
	struct grpc_call *call = source->ptr;
	size_t count = min_u64(room, call->out_bytes - call->out_sent);
	nghttp2_nv trailer = header("grpc-status", "0");

	memcpy(to, call->out + call->out_sent, count);
	call->out_sent += count;
	if (call->out_sent < call->out_bytes)
		return (ssize_t)count;
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	if (nghttp2_submit_trailer(session, stream, &trailer, 1))
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* reset: on_stream_close() ends the call */
	return (ssize_t)count;
}

static void note_end(struct grpc_call *call, enum grpc_code code)
{
	uint64_t now = clock_ticks();

	probe_grpc_call_replied(now, call, call->path, code, now - call->received_tick);
	if (call->server)
		call->server->stats.failed_total += code != GRPC_OK;
}

/* Submit the headers and the message, if any. on_stream_close() ends the call. */
static void submit_response(struct grpc_call *call, const nghttp2_nv *headers, size_t count, bool with_message)
{
	nghttp2_data_provider provider = { .source.ptr = call, .read_callback = read_out };
	struct grpc_link *on = call->on;

	move_call(call, GRPC_CALL_ANSWERED);
	deadline_clear(on->deadlines, &call->deadline);
	if (nghttp2_submit_response(on->session, call->stream, headers, count, with_message ? &provider : NULL))
		(void)nghttp2_submit_rst_stream(
			on->session, NGHTTP2_FLAG_NONE, call->stream,
			NGHTTP2_INTERNAL_ERROR); /* if this fails too, the deadline of the link closes it */
	link_kick(on);
}

/* Submit only trailers. */
static void submit_error(struct grpc_call *call, enum grpc_code code, const char *message, const char *details)
{
	char number[4], encoded[3 * GRPC_TEXT_BYTES_MAX];
	nghttp2_nv headers[6];
	size_t count = 0;

	snprintf(number, sizeof(number), "%d", (int)code);
	grpc_percent_encode(encoded, sizeof(encoded), message);
	headers[count++] = header(":status", "200");
	headers[count++] = header("content-type", "application/grpc");
	headers[count++] = header("grpc-status", number);
	if (encoded[0])
		headers[count++] = header("grpc-message", encoded);
	if (details)
		headers[count++] = header("grpc-status-details-bin", details);
	if (call->is_encoded)
		headers[count++] = header("grpc-accept-encoding", "identity");
	submit_response(call, headers, count, false);
}

/*
 * Answer a call that was refused before its method. The answer waits for the end of the request, up to a limit: some
 * clients treat an early answer as a failed connection.
 */
static void answer_refused(struct grpc_call *call)
{
	nghttp2_nv http = header(":status", call->refused_http ? call->refused_http : "");

	note_end(call, call->refused_code);
	if (call->refused_http)
		submit_response(call, &http, 1, false);
	else
		submit_error(call, call->refused_code, call->refused_text ? call->refused_text : "", NULL);
}

static void refusal_expired(struct deadline *deadline)
{
	answer_refused(container_of(deadline, struct grpc_call, deadline));
}

static void refuse_call_by_http(struct grpc_call *call, const char *http, enum grpc_code code, const char *message)
{
	if (call->is_refused)
		return;
	call->is_refused = true;
	call->refused_http = http;
	call->refused_code = code;
	call->refused_text = strdup(message); /* out of memory: the code is sent without a text */
	if (call->has_ended)
		answer_refused(call);
	else
		deadline_set(call->on->deadlines, &call->deadline, IGNORED_MS * NS_PER_MS, refusal_expired);
}

static void refuse_call(struct grpc_call *call, enum grpc_code code, const char *format, ...) PRINTF_LIKE(3, 4);
static void refuse_call(struct grpc_call *call, enum grpc_code code, const char *format, ...)
{
	char message[GRPC_TEXT_BYTES_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	refuse_call_by_http(call, NULL, code, message);
}

void grpc_fail(struct grpc_call *call, enum grpc_code code, const Google__Rpc__ErrorInfo *info, const char *format, ...)
{
	char message[GRPC_TEXT_BYTES_MAX], *details;
	va_list args;

	must(code != GRPC_OK);
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	note_end(call, code);
	if (call->state == GRPC_CALL_OVER) {
		call_free(call);
		return;
	}
	details = info ? details_encode(code, message, info) : NULL;
	submit_error(call, code, message, details);
	free(details);
}

void grpc_reply(struct grpc_call *call, const ProtobufCMessage *response)
{
	nghttp2_nv headers[] = { header(":status", "200"), header("content-type", "application/grpc") };
	size_t bytes;

	must(response->descriptor == call->method->response);
	if (call->state == GRPC_CALL_OVER) {
		note_end(call, GRPC_OK);
		call_free(call);
		return;
	}
	bytes = protobuf_c_message_get_packed_size(response);
	if (bytes > UINT32_MAX) {
		grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, NULL, "the response has %zu bytes, too many for gRPC", bytes);
		return;
	}
	call->out = malloc(GRPC_PREFIX_BYTES + bytes);
	if (!call->out) {
		grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, NULL, "out of memory for a response of %zu bytes", bytes);
		return;
	}
	grpc_prefix_write(call->out, (uint32_t)bytes);
	must(protobuf_c_message_pack(response, call->out + GRPC_PREFIX_BYTES) == bytes);
	call->out_bytes = GRPC_PREFIX_BYTES + bytes;
	note_end(call, GRPC_OK);
	submit_response(call, headers, ARRAY_COUNT(headers), true);
}

/* ---- in ---- */

static void deadline_over(struct deadline *deadline)
{
	struct grpc_call *call = container_of(deadline, struct grpc_call, deadline);
	struct grpc_link *on = call->on;

	if (call->state == GRPC_CALL_RECEIVING) {
		call->has_ended = true; /* ignore the rest of the request */
		refuse_call(call, GRPC_DEADLINE_EXCEEDED, "the request did not come in time");
		return;
	}
	must(call->state == GRPC_CALL_WORKING);
	/* answer the stream now; the call stays until its method answers */
	nghttp2_nv headers[] = { header(":status", "200"), header("content-type", "application/grpc"),
				 header("grpc-status", "4"), header("grpc-message", "the deadline has passed") };

	if (nghttp2_submit_response(on->session, call->stream, headers, ARRAY_COUNT(headers), NULL))
		(void)nghttp2_submit_rst_stream(on->session, NGHTTP2_FLAG_NONE, call->stream,
						NGHTTP2_CANCEL); /* if this fails too, the deadline of the link closes it */
	call->timeout_ns = 0;
	detach_call(call);
	move_call(call, GRPC_CALL_OVER);
	link_kick(on);
}

static const struct grpc_method *find_method(const struct grpc_server *server, const char *path, size_t *index_ret)
{
	for (size_t i = 0; i < server->options.method_count; i++) {
		if (strcmp(server->options.methods[i].path, path) == 0) {
			*index_ret = i;
			return &server->options.methods[i];
		}
	}
	return NULL;
}

/* Check the caller's role. False: the call was refused. */
static bool check_role(struct grpc_call *call)
{
	enum grpc_role certified = call->on->role;
	const char *component = grpc_call_header(call, GRPC_HEADER_COMPONENT);

	if (call->has_component && call->role == 0) {
		refuse_call(call, GRPC_PERMISSION_DENIED, "%s is \"%s\"; it must be admin, agent or server",
			    GRPC_HEADER_COMPONENT, component ? component : "?");
		return false;
	}
	if (certified && call->has_component && call->role != certified) {
		refuse_call(call, GRPC_PERMISSION_DENIED, "%s is \"%s\", but the certificate is for \"%s\"",
			    GRPC_HEADER_COMPONENT, component ? component : "?", grpc_role_name(certified));
		return false;
	}
	if (certified)
		call->role = certified;
	if (call->method->roles != GRPC_ROLE_ANYBODY && !(call->method->roles & call->role)) {
		refuse_call(call, GRPC_PERMISSION_DENIED, "%s may not call %s", grpc_role_name(call->role),
			    call->method->path);
		return false;
	}
	return true;
}

/* All headers were received. */
static void headers_are_in(struct grpc_call *call)
{
	if (!call->is_post) {
		refuse_call_by_http(call, "405", GRPC_UNKNOWN, "");
	} else if (!call->is_grpc) {
		refuse_call_by_http(call, "415", GRPC_UNKNOWN, "");
	} else if (!call->method) {
		refuse_call(call, GRPC_UNIMPLEMENTED, "there is no such method or service");
	} else if (call->is_encoded) {
		refuse_call(call, GRPC_UNIMPLEMENTED, "compressed messages are not supported");
	} else if (call->has_bad_timeout) {
		refuse_call(call, GRPC_INVALID_ARGUMENT, "the header grpc-timeout is invalid");
	} else if (check_role(call) && call->timeout_ns != GRPC_NO_DEADLINE) {
		deadline_set(call->on->deadlines, &call->deadline, call->timeout_ns, deadline_over);
	}
}

static void refuse_frame(struct grpc_call *call, enum grpc_frame result)
{
	uint32_t max = call->server->options.message_bytes_max;

	switch (result) {
	case GRPC_FRAME_COMPRESSED:
		refuse_call(call, GRPC_INTERNAL, "the message is compressed, but the request has no grpc-encoding");
		break;
	case GRPC_FRAME_TOO_LARGE:
		refuse_call(call, GRPC_RESOURCE_EXHAUSTED, "the message has %u bytes, more than %u", call->in.total_bytes,
			    max);
		break;
	case GRPC_FRAME_SECOND:
		refuse_call(call, GRPC_INTERNAL, "the request has more than one message");
		break;
	case GRPC_FRAME_NO_MEMORY:
		refuse_call(call, GRPC_RESOURCE_EXHAUSTED, "out of memory for a message of %u bytes", call->in.total_bytes);
		break;
	default:
		refuse_call(call, GRPC_INTERNAL, "the prefix of the message is invalid");
	}
}

/* The request is complete. */
static void run_method(struct grpc_call *call)
{
	if (!grpc_message_is_whole(&call->in)) {
		refuse_call(call, GRPC_INTERNAL, "the request ends before its message is complete");
		return;
	}
	call->request = protobuf_c_message_unpack(call->method->request, NULL, call->in.bytes, call->in.data);
	grpc_message_clear(&call->in);
	if (!call->request) {
		refuse_call(call, GRPC_INVALID_ARGUMENT, "the request is not a valid %s", call->method->request->name);
		return;
	}
	move_call(call, GRPC_CALL_WORKING);
	call->method->fn(call, call->request);
}

/* ---- callbacks of nghttp2 ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	struct grpc_link *on = ctx;
	struct grpc_call *call;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	call = calloc(1, sizeof(*call));
	if (!call)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	trace_object_init(&call->trace, TRACE_OBJECT_GRPC_CALL);
	call->on = on;
	call->server = on->server;
	call->ctx = on->server->options.ctx;
	call->stream = frame->hd.stream_id;
	call->path = on->server->unknown;
	call->timeout_ns = GRPC_NO_DEADLINE;
	call->received_tick = clock_ticks();
	(void)text_copy(call->peer, sizeof(call->peer), on->peer); /* both have the same size */
	TAILQ_INSERT_TAIL(&on->calls, call, link);
	TAILQ_INSERT_TAIL(&on->server->calls, call, in_server);
	on->server->stats.calls_open++;
	on->server->stats.calls_total++;
	link_count_call(on, 1);
	move_call(call, GRPC_CALL_RECEIVING);
	(void)nghttp2_session_set_stream_user_data(session, call->stream, call); /* cannot fail: the stream is open */
	return 0;
}

static void keep_header(struct grpc_call *call, const char *name, const char *value)
{
	struct grpc_header *kept = &call->headers[call->header_count];

	if (call->header_count == CALL_HEADERS_MAX)
		return;
	kept->name = strdup(name);
	kept->value = strdup(value);
	if (kept->name && kept->value) {
		call->header_count++;
		return;
	}
	free(kept->name);
	free(kept->value);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name_bytes, size_t name_length,
		     const uint8_t *value_bytes, size_t value_length, uint8_t flags, void *ctx)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	/* nghttp2 guarantees a NUL at the end of both */
	const char *name = (const char *)name_bytes, *value = (const char *)value_bytes;
	size_t index;

	if (!call || call->state != GRPC_CALL_RECEIVING)
		return 0;
	if (strcmp(name, ":method") == 0) {
		call->is_post = strcmp(value, "POST") == 0;
	} else if (strcmp(name, ":path") == 0) {
		call->method = find_method(call->server, value, &index);
		call->path = call->method ? call->server->names[index] : call->server->unknown;
	} else if (strcmp(name, "content-type") == 0) {
		call->is_grpc = strncmp(value, "application/grpc", 16) == 0 && (!value[16] || strchr("+;", value[16])) &&
				strncmp(value + 16, "+json", 5) != 0;
	} else if (strcmp(name, "grpc-encoding") == 0) {
		call->is_encoded = strcmp(value, "identity") != 0;
	} else if (strcmp(name, "grpc-timeout") == 0) {
		call->has_bad_timeout = grpc_timeout_parse(value, &call->timeout_ns) != 0;
	} else if (name[0] != ':' && strncmp(name, "grpc-", 5) != 0 && strcmp(name, "te") != 0) {
		keep_header(call, name, value);
		if (strcmp(name, GRPC_HEADER_COMPONENT) == 0) {
			call->has_component = true;
			call->role = grpc_role_of(value);
		}
	}
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t bytes, void *ctx)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);
	enum grpc_frame result;

	if (!call || call->state != GRPC_CALL_RECEIVING)
		return 0;
	if (call->is_refused) {
		call->ignored_bytes += bytes;
		if (call->ignored_bytes > IGNORED_BYTES_MAX)
			answer_refused(call);
		return 0;
	}
	result = grpc_message_take(&call->in, data, bytes, call->server->options.message_bytes_max);
	if (result > GRPC_FRAME_WHOLE)
		refuse_frame(call, result);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	struct grpc_link *on = ctx;
	struct grpc_call *call;

	if (frame->hd.type == NGHTTP2_SETTINGS)
		link_greet(on);
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (call && call->state == GRPC_CALL_RECEIVING && frame->hd.type == NGHTTP2_HEADERS &&
	    frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		headers_are_in(call);
	if (!call || call->state != GRPC_CALL_RECEIVING || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	probe_grpc_call_received(clock_ticks(), call, call->path, call->in.bytes, on);
	call->has_ended = true;
	if (call->is_refused)
		answer_refused(call);
	else
		run_method(call);
	return 0;
}

/* The answer was sent before the request was complete: reset the stream, so that the peer stops sending. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
	    nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
		(void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
						NGHTTP2_NO_ERROR); /* if this fails (out of memory), the rest is ignored */
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *ctx)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

	if (call)
		call_left(call);
	return 0;
}

int server_session_new(struct grpc_link *link)
{
	nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, link->server->options.streams_max },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADERS_BYTES_MAX },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 18 },
	};
	nghttp2_session_callbacks *callbacks;
	int error;

	if (nghttp2_session_callbacks_new(&callbacks))
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	error = nghttp2_session_server_new(&link->session, callbacks, link);
	nghttp2_session_callbacks_del(callbacks);
	if (error)
		return -ENOMEM;
	if (nghttp2_submit_settings(link->session, NGHTTP2_FLAG_NONE, settings, ARRAY_COUNT(settings)) ||
	    nghttp2_session_set_local_window_size(link->session, NGHTTP2_FLAG_NONE, 0, 1 << 20)) {
		nghttp2_session_del(link->session);
		link->session = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* ---- for methods ---- */

void *grpc_call_ctx(const struct grpc_call *call)
{
	return call->ctx;
}

const struct grpc_method *grpc_call_method(const struct grpc_call *call)
{
	return call->method;
}

enum grpc_role grpc_call_role(const struct grpc_call *call)
{
	return call->role;
}

const char *grpc_call_peer(const struct grpc_call *call)
{
	return call->peer;
}

const char *grpc_call_header(const struct grpc_call *call, const char *name)
{
	for (size_t i = 0; i < call->header_count; i++) {
		if (strcmp(call->headers[i].name, name) == 0)
			return call->headers[i].value;
	}
	return NULL;
}

uint64_t grpc_call_time_left_ns(const struct grpc_call *call)
{
	uint64_t spent = clock_ns_from_ticks(clock_ticks() - call->received_tick);

	if (call->timeout_ns == GRPC_NO_DEADLINE)
		return GRPC_NO_DEADLINE;
	return spent < call->timeout_ns ? call->timeout_ns - spent : 0;
}

bool grpc_call_is_over(const struct grpc_call *call)
{
	return call->state == GRPC_CALL_OVER;
}
