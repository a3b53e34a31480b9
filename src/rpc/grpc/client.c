/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client: one link for each address, opened for the first call and kept while it is used. A call is submitted when its
 * link is open. If a draining server refuses a call, the call is submitted once more, on a new link.
 *
 * Finished calls wait in a list. The reactor's loop reports them, never a callback of nghttp2. So `done` may do everything,
 * even destroy the client. The reporting function checks `*ended` before it continues.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/text.h"
#include "rpc/grpc/address.h"
#include "rpc/grpc/probes.gen.h"
#include "rpc/grpc/text.h"

enum { VERSION_BYTES_MAX = 64 };

struct grpc_client {
	struct grpc_client_options options;
	char version[VERSION_BYTES_MAX];
	struct deadlines deadlines;
	struct deadline tell; /* reports the calls in `finished` */
	TAILQ_HEAD(, grpc_link) links;
	TAILQ_HEAD(, grpc_client_call) finished;
	struct grpc_client_stats stats;
	struct fathom_thread *thread;
	bool *ended;
	bool destroying;
};

static int submit_call(struct grpc_link *link, struct grpc_client_call *call);

/* ---- the end of a call ---- */

static void call_free(struct grpc_client_call *call)
{
	grpc_message_clear(&call->in);
	free(call->details);
	free(call->path);
	free(call->out);
	free(call);
}

/* Report the result of `call` and free it. False: the client was destroyed. */
static bool report_call_end(struct grpc_client_call *call)
{
	struct grpc_client *client = call->client;
	struct grpc_result *result = &call->result;
	bool ended = false, *ended_before = client->ended;
	ProtobufCMessage *response = NULL;
	Google__Rpc__ErrorInfo *info = call->details ? details_decode(call->details) : NULL;
	uint64_t now = clock_ticks();

	if (result->code == GRPC_OK) {
		response = protobuf_c_message_unpack(call->response, NULL, call->in.bytes, call->in.data);
		if (!response) {
			result->code = GRPC_INTERNAL;
			result->error = -EPROTO;
			snprintf(result->message, sizeof(result->message), "%s: %s: the response is not a valid %s",
				 call->address, call->path, call->response->name);
		}
	}
	result->response = response;
	result->info = info;
	client->stats.calls_open--;
	client->stats.failed_total += result->code != GRPC_OK;
	probe_grpc_client_call_done(now, call, call->path_name, result->code, now - call->begin_tick);
	client->ended = &ended;
	call->done(call->ctx, result);
	if (response)
		protobuf_c_message_free_unpacked(response, NULL);
	if (info)
		google__rpc__error_info__free_unpacked(info, NULL);
	call_free(call);
	if (ended) {
		if (ended_before)
			*ended_before = true;
		return false;
	}
	client->ended = ended_before;
	return true;
}

static void report_finished(struct deadline *deadline)
{
	struct grpc_client *client = container_of(deadline, struct grpc_client, tell);
	struct grpc_client_call *call;

	while ((call = TAILQ_FIRST(&client->finished))) {
		TAILQ_REMOVE(&client->finished, call, link);
		if (!report_call_end(call))
			return;
	}
}

static void detach_call(struct grpc_client_call *call)
{
	struct grpc_link *on = call->on;

	must(on);
	TAILQ_REMOVE(&on->client_calls, call, link);
	call->on = NULL;
	if (call->stream > 0 && on->session)
		(void)nghttp2_session_set_stream_user_data(on->session, call->stream,
							   NULL); /* fails if the stream is already closed */
	link_count_call(on, -1);
}

/* The call has ended with call->result. */
static void finish_call(struct grpc_client_call *call)
{
	struct grpc_client *client = call->client;

	detach_call(call);
	deadline_clear(&client->deadlines, &call->deadline);
	TAILQ_INSERT_TAIL(&client->finished, call, link);
	if (!client->destroying)
		deadline_set(&client->deadlines, &client->tell, 0, report_finished);
}

static void fail_call(struct grpc_client_call *call, enum grpc_code code, int error, const char *what)
{
	call->result.code = code;
	call->result.error = error;
	call->result.is_unsent = call->stream == 0;
	snprintf(call->result.message, sizeof(call->result.message), "%s: %s: %s", call->address, call->path, what);
	finish_call(call);
}

static void call_timed_out(struct deadline *deadline)
{
	struct grpc_client_call *call = container_of(deadline, struct grpc_client_call, deadline);
	struct grpc_link *on = call->on;

	if (call->stream > 0)
		(void)nghttp2_submit_rst_stream(
			on->session, NGHTTP2_FLAG_NONE, call->stream,
			NGHTTP2_CANCEL); /* if this fails, the server finds out by its own deadline */
	fail_call(call, GRPC_DEADLINE_EXCEEDED, -ETIMEDOUT,
		  call->stream > 0 ? "no answer in time" : "the connection was not there in time");
	/* send the reset now: nghttp2 must not read the body of a freed call */
	link_kick(on);
}

/* ---- callbacks of nghttp2 ---- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name_bytes, size_t name_length,
		     const uint8_t *value_bytes, size_t value_length, uint8_t flags, void *ctx)
{
	struct grpc_client_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	/* nghttp2 guarantees a NUL at the end of both */
	const char *name = (const char *)name_bytes, *value = (const char *)value_bytes;
	uint64_t number;

	if (!call)
		return 0;
	if (strcmp(name, ":status") == 0) {
		call->http_status = text_parse_u64(value, 10, 999, &number) == 0 ? (unsigned int)number : 0;
	} else if (strcmp(name, "grpc-status") == 0) {
		call->grpc_status = text_parse_u64(value, 10, INT32_MAX, &number) == 0 ? (int)number : (int)GRPC_UNKNOWN;
	} else if (strcmp(name, "grpc-message") == 0) {
		grpc_percent_decode(call->result.message, sizeof(call->result.message), value);
	} else if (strcmp(name, "grpc-status-details-bin") == 0 && !call->details) {
		call->details = strdup(value);
	}
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t bytes, void *ctx)
{
	struct grpc_client_call *call = nghttp2_session_get_stream_user_data(session, stream);

	if (call && call->http_status == 200 && call->in_result <= GRPC_FRAME_WHOLE)
		call->in_result = grpc_message_take(&call->in, data, bytes, call->client->options.message_bytes_max);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	struct grpc_link *on = ctx;

	if (frame->hd.type == NGHTTP2_SETTINGS)
		link_greet(on);
	if (frame->hd.type == NGHTTP2_GOAWAY && on->state == GRPC_CONNECTION_OPEN)
		grpc_connection_state_move(clock_ticks(), on, GRPC_CONNECTION_DRAINING);
	return 0;
}

/* The gRPC code for an HTTP status, if the response is not gRPC. */
static enum grpc_code code_of_http(unsigned int status)
{
	switch (status) {
	case 400:
		return GRPC_INTERNAL;
	case 401:
		return GRPC_UNAUTHENTICATED;
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_UNKNOWN;
	}
}

static void fail_frame(struct grpc_client_call *call)
{
	switch (call->in_result) {
	case GRPC_FRAME_COMPRESSED:
		fail_call(call, GRPC_INTERNAL, -EPROTO,
			  "the response is compressed, but this client accepts no compression");
		break;
	case GRPC_FRAME_TOO_LARGE:
		fail_call(call, GRPC_RESOURCE_EXHAUSTED, -EMSGSIZE, "the response is larger than allowed");
		break;
	case GRPC_FRAME_NO_MEMORY:
		fail_call(call, GRPC_RESOURCE_EXHAUSTED, -ENOMEM, "out of memory for the response");
		break;
	default:
		fail_call(call, GRPC_INTERNAL, -EPROTO, "the response is not exactly one gRPC message");
	}
}

/* The stream ended without a gRPC status. */
static void fail_stream(struct grpc_client_call *call, uint32_t error)
{
	if (error == NGHTTP2_NO_ERROR)
		fail_call(call, GRPC_INTERNAL, -EPROTO, "the response ends without a status");
	else if (error == NGHTTP2_REFUSED_STREAM)
		fail_call(call, GRPC_UNAVAILABLE, -EAGAIN, "the server rejected the call");
	else if (error == NGHTTP2_CANCEL)
		fail_call(call, GRPC_CANCELLED, -ECANCELED, "the server cancelled the call");
	else if (error == NGHTTP2_ENHANCE_YOUR_CALM)
		fail_call(call, GRPC_RESOURCE_EXHAUSTED, -EBUSY, "the server limits its load; retry later");
	else
		fail_call(call, GRPC_INTERNAL, -EPROTO, nghttp2_http2_strerror(error));
}

static struct grpc_link *link_to(struct grpc_client *client, const char *address, struct fathom_fault *why);

static void put_on(struct grpc_link *link, struct grpc_client_call *call)
{
	call->on = link;
	TAILQ_INSERT_TAIL(&link->client_calls, call, link);
	link_count_call(link, 1);
}

/* A draining server refused the call: submit it on a new link. False: it was already submitted again, or no link. */
static bool start_again(struct grpc_client_call *call)
{
	struct grpc_client *client = call->client;
	struct grpc_link *link;

	if (call->again || client->destroying)
		return false;
	link = link_to(client, call->address, NULL);
	if (!link)
		return false;
	call->again = true;
	detach_call(call);
	call->stream = 0;
	call->out_sent = 0;
	put_on(link, call);
	if (link->session && submit_call(link, call))
		fail_call(call, GRPC_UNAVAILABLE, -ENOMEM, "out of memory: cannot send it again");
	link_kick(link);
	return true;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *ctx)
{
	struct grpc_client_call *call = nghttp2_session_get_stream_user_data(session, stream);
	struct grpc_link *on = ctx;
	char text[64];

	if (!call)
		return 0;
	if (error == NGHTTP2_REFUSED_STREAM && on->state == GRPC_CONNECTION_DRAINING && start_again(call))
		return 0;
	if (call->in_result > GRPC_FRAME_WHOLE) {
		fail_frame(call);
	} else if (call->http_status != 0 && call->http_status != 200 && call->grpc_status < 0) {
		snprintf(text, sizeof(text), "the server answered with HTTP status %u", call->http_status);
		fail_call(call, code_of_http(call->http_status), 0, text);
	} else if (call->grpc_status < 0) {
		fail_stream(call, error);
	} else if (call->grpc_status == (int)GRPC_OK && !grpc_message_is_whole(&call->in)) {
		fail_call(call, GRPC_INTERNAL, -EPROTO, "the server reports success without a message");
	} else {
		call->result.code = call->grpc_status <= (int)GRPC_UNAUTHENTICATED ? (enum grpc_code)call->grpc_status
										   : GRPC_UNKNOWN;
		finish_call(call);
	}
	return 0;
}

static ssize_t read_out(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
			nghttp2_data_source *source, void *ctx)
{
	struct grpc_client_call *call = nghttp2_session_get_stream_user_data(session, stream);
	size_t count;

	if (!call) /* the call has ended: end the stream */
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	count = min_u64(room, call->out_bytes - call->out_sent);
	memcpy(to, call->out + call->out_sent, count);
	call->out_sent += count;
	if (call->out_sent == call->out_bytes)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)count;
}

static int submit_call(struct grpc_link *link, struct grpc_client_call *call)
{
	const struct grpc_client_options *options = &call->client->options;
	nghttp2_data_provider provider = { .read_callback = read_out };
	char timeout[GRPC_TIMEOUT_BYTES_MAX];
	uint64_t spent = clock_ns_from_ticks(clock_ticks() - call->begin_tick);
	nghttp2_nv headers[10];
	size_t count = 0;

	grpc_timeout_format(timeout, call->timeout_ns > spent ? call->timeout_ns - spent : 1);
	headers[count++] = header(":method", "POST");
	headers[count++] = header(":scheme", options->tls ? "https" : "http");
	headers[count++] = header(":path", call->path);
	headers[count++] = header(":authority", call->address);
	headers[count++] = header("content-type", "application/grpc");
	headers[count++] = header("user-agent", "fathom");
	headers[count++] = header("te", "trailers");
	headers[count++] = header("grpc-timeout", timeout);
	if (options->role)
		headers[count++] = header(GRPC_HEADER_COMPONENT, grpc_role_name(options->role));
	if (options->version)
		headers[count++] = header(GRPC_HEADER_VERSION, options->version);
	call->stream = nghttp2_submit_request(link->session, NULL, headers, count, &provider, call);
	if (call->stream > 0)
		return 0;
	call->stream = 0;
	return -ENOMEM;
}

/* ---- links ---- */

int client_session_new(struct grpc_link *link)
{
	nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADERS_BYTES_MAX },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 18 },
	};
	struct grpc_client_call *call, *next;
	nghttp2_session_callbacks *callbacks;
	int error;

	if (nghttp2_session_callbacks_new(&callbacks))
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	error = nghttp2_session_client_new(&link->session, callbacks, link);
	nghttp2_session_callbacks_del(callbacks);
	if (error || nghttp2_submit_settings(link->session, NGHTTP2_FLAG_NONE, settings, ARRAY_COUNT(settings)) ||
	    nghttp2_session_set_local_window_size(link->session, NGHTTP2_FLAG_NONE, 0, 1 << 20))
		return -ENOMEM;
	TAILQ_FOREACH_SAFE (call, &link->client_calls, link, next) {
		if (submit_call(link, call))
			fail_call(call, GRPC_RESOURCE_EXHAUSTED, -ENOMEM, "out of memory: cannot send it");
	}
	return 0;
}

bool client_link_is_open(struct grpc_link *link)
{
	const char *name;

	if (!link->tls)
		return true;
	name = tls_peer_name(link->tls);
	link->role = grpc_role_of(name);
	if (link->role == GRPC_ROLE_SERVER)
		return true;
	link_doom(link, GRPC_CLOSE_TLS_FAILED, -EACCES, "the certificate of the other side is for \"%s\", not for a server",
		  name);
	return false;
}

void client_link_closed(struct grpc_link *link)
{
	struct grpc_client *client = link->client;
	struct grpc_client_call *call;

	while ((call = TAILQ_FIRST(&link->client_calls)))
		fail_call(call, client->destroying ? GRPC_CANCELLED : GRPC_UNAVAILABLE,
			  link->error ? link->error : -ECONNRESET, link->why);
	TAILQ_REMOVE(&client->links, link, link);
	client->stats.connections--;
}

/* Start to connect. The link is not in the client's list yet. */
static int link_start(struct grpc_link *link, const char *address_text, struct fathom_fault *why)
{
	struct grpc_client *client = link->client;
	struct sockaddr_storage address;
	socklen_t bytes;
	int error = grpc_address_parse(address_text, &address, &bytes, why), fd, one = 1;

	if (error)
		return error;
	(void)text_copy(link->peer, sizeof(link->peer), address_text);	     /* it was parsed, so it fits */
	link->peer_port = ntohs(((struct sockaddr_in *)&address)->sin_port); /* at the same offset for IPv6 */
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fault(why, -errno, "socket: %s", strerror(errno));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* only slower if it fails */
	/* an immediate failure is reported by the socket, like a later one */
	if (connect(fd, (struct sockaddr *)&address, bytes) < 0 && errno != EINPROGRESS && errno != ECONNREFUSED) {
		error = fault(why, -errno, "%s: %s", address_text, strerror(errno));
		close(fd);
		return error;
	}
	error = link_open(link, fd, client->options.tls, false);
	return error ? fault(why, error, "%s: %s", address_text, strerror(-error)) : 0;
}

/* Find or open a link to `address` for a new call. NULL: `why`. */
static struct grpc_link *link_to(struct grpc_client *client, const char *address, struct fathom_fault *why)
{
	struct grpc_link *link;

	TAILQ_FOREACH (link, &client->links, link) {
		if (link->state != GRPC_CONNECTION_DRAINING && !link->doomed && !link->asked &&
		    strcmp(link->peer, address) == 0)
			return link;
	}
	link = calloc(1, sizeof(*link));
	if (!link) {
		fill_fault(why, -ENOMEM, "%s: out of memory for a connection", address);
		return NULL;
	}
	link->client = client;
	link->deadlines = &client->deadlines;
	link->handshake_ns = client->options.connect_timeout_ns;
	link->keepalive_ns = client->options.keepalive_ns;
	link->idle_ns = client->options.idle_ns;
	if (link_start(link, address, why)) {
		free(link);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&client->links, link, link);
	client->stats.connections++;
	client->stats.connections_total++;
	return link;
}

void grpc_client_hang_up(struct grpc_client *client, const char *address)
{
	struct grpc_link *link, *next;

	must_be_on(client->thread);
	TAILQ_FOREACH_SAFE (link, &client->links, link, next) {
		if (link->calls_open == 0 && !link->doomed && link->state != GRPC_CONNECTION_DRAINING &&
		    strcmp(link->peer, address) == 0)
			link_drain(link);
	}
}

void grpc_client_renew(struct grpc_client *client)
{
	struct grpc_link *link, *next;

	must_be_on(client->thread);
	TAILQ_FOREACH_SAFE (link, &client->links, link, next)
		link_ask_to_leave(link);
}

/* ---- calls ---- */

/* Pack the message with its prefix. */
static int pack_message(struct grpc_client_call *call, const ProtobufCMessage *request)
{
	size_t bytes = protobuf_c_message_get_packed_size(request);

	if (bytes > UINT32_MAX)
		return -EMSGSIZE;
	call->out = malloc(GRPC_PREFIX_BYTES + bytes);
	if (!call->out)
		return -ENOMEM;
	grpc_prefix_write(call->out, (uint32_t)bytes);
	must(protobuf_c_message_pack(request, call->out + GRPC_PREFIX_BYTES) == bytes);
	call->out_bytes = GRPC_PREFIX_BYTES + bytes;
	return 0;
}

int grpc_client_call(struct grpc_client *client, const struct grpc_request *request)
{
	struct grpc_client_call *call;
	struct grpc_link *link;
	struct fathom_fault why = { .error = 0 };
	int error;

	must_be_on(client->thread);
	must(!client->destroying);
	must(request->done);
	must(request->response);
	if (client->stats.calls_open >= GRPC_CLIENT_CALLS_MAX)
		return -EBUSY;
	error = inject(INJECT_GRPC_CALL);
	if (error)
		return error;
	call = calloc(1, sizeof(*call));
	if (!call)
		return -ENOMEM;
	error = text_copy(call->address, sizeof(call->address), request->address) < 0
			? -EINVAL
			: pack_message(call, request->message);
	if (!error) {
		call->path = strdup(request->path);
		error = call->path ? 0 : -ENOMEM;
	}
	link = error ? NULL : link_to(client, request->address, &why);
	if (!link) {
		call_free(call);
		return error ? error : why.error;
	}
	trace_object_init(&call->trace, TRACE_OBJECT_GRPC_CLIENT_CALL);
	call->client = client;
	call->path_name = trace_intern(request->path);
	call->response = request->response;
	call->done = request->done;
	call->ctx = request->ctx;
	call->timeout_ns = request->timeout_ns;
	call->begin_tick = clock_ticks();
	call->grpc_status = -1;
	client->stats.calls_open++;
	client->stats.calls_total++;
	put_on(link, call);
	probe_grpc_client_call_start(call->begin_tick | TICK_SHARED, call, call->path_name, (uint32_t)call->out_bytes,
				     link);
	deadline_set(&client->deadlines, &call->deadline, request->timeout_ns, call_timed_out);
	if (link->session && submit_call(link, call))
		fail_call(call, GRPC_RESOURCE_EXHAUSTED, -ENOMEM, "out of memory: cannot send it");
	link_kick(link);
	return 0;
}

/* ---- life ---- */

int grpc_client_create(const struct grpc_client_options *options, struct grpc_client **client_ret, struct fathom_fault *why)
{
	struct grpc_client *client = calloc(1, sizeof(*client));

	if (!client || deadlines_init(&client->deadlines, "grpc_client_deadlines")) {
		free(client);
		return fault(why, -ENOMEM, "out of memory for a client");
	}
	client->options = *options;
	if (options->version) {
		(void)text_copy(client->version, sizeof(client->version), options->version); /* a longer version is cut */
		client->options.version = client->version;
	}
	if (!client->options.message_bytes_max)
		client->options.message_bytes_max = GRPC_ANSWER_BYTES_MAX;
	if (!client->options.connect_timeout_ns)
		client->options.connect_timeout_ns = 10 * NS_PER_SEC;
	if (!client->options.keepalive_ns)
		client->options.keepalive_ns = 60 * NS_PER_SEC;
	if (!client->options.idle_ns)
		client->options.idle_ns = 60 * NS_PER_SEC;
	client->thread = thread_self();
	TAILQ_INIT(&client->links);
	TAILQ_INIT(&client->finished);
	*client_ret = client;
	return 0;
}

void grpc_client_destroy(struct grpc_client *client)
{
	struct grpc_client_call *call;
	struct grpc_link *link;

	if (!client)
		return;
	must_be_on(client->thread);
	must(!client->destroying);
	client->destroying = true;
	while ((link = TAILQ_FIRST(&client->links)))
		link_doom(link, GRPC_CLOSE_OWNER_ENDS, -ECANCELED, "the client was destroyed");
	while ((call = TAILQ_FIRST(&client->finished))) {
		TAILQ_REMOVE(&client->finished, call, link);
		(void)report_call_end(call); /* false is impossible: the client is being destroyed here */
	}
	deadlines_deinit(&client->deadlines);
	if (client->ended)
		*client->ended = true;
	free(client);
}

struct grpc_client_stats grpc_client_stats(const struct grpc_client *client)
{
	return client->stats;
}
