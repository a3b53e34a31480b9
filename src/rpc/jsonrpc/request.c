/* SPDX-License-Identifier: BSD-2-Clause */
/* request - from a JSON value to calls of methods, and from their results to one line. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/jsonrpc/probes.gen.h"

/* Requests come from malloc. An engine that cannot allocate 100 bytes aborts. */
static void *allocate_zeroed(size_t bytes)
{
	void *memory = calloc(1, bytes);

	must(memory);
	return memory;
}

static json_t *response_new(json_t *id)
{
	json_t *response = json_object();

	must(response);
	must(json_object_set_new(response, "jsonrpc", json_string("2.0")) == 0);
	must(json_object_set_new(response, "id", id ? json_incref(id) : json_null()) == 0);
	return response;
}

json_t *response_error(json_t *id, int code, const char *message)
{
	json_t *response = response_new(id);
	json_t *text = json_string(message);

	/* the message quotes bytes that are not UTF-8 */
	if (!text)
		text = json_string("an error whose message is not valid UTF-8");
	must(json_object_set_new(response, "error", json_pack("{s:i, s:o}", "code", code, "message", text)) == 0);
	return response;
}

/* ---- batches ---- */

static struct rpc_batch *batch_begin(struct rpc_connection *connection, bool in_brackets)
{
	struct rpc_batch *batch = allocate_zeroed(sizeof(*batch));

	batch->connection = connection;
	batch->in_brackets = in_brackets;
	batch->beginning = true;
	batch->responses = json_array();
	must(batch->responses);
	if (connection)
		TAILQ_INSERT_TAIL(&connection->batches, batch, link);
	return batch;
}

/* If all requests of the batch are completed: send the responses and free it. */
static void batch_settle(struct rpc_batch *batch)
{
	struct rpc_connection *connection = batch->connection;

	if (batch->requests_open > 0 || batch->beginning)
		return;
	if (connection) {
		TAILQ_REMOVE(&connection->batches, batch, link);
		if (json_array_size(batch->responses) > 0)
			connection_respond(connection,
					   batch->in_brackets ? batch->responses : json_array_get(batch->responses, 0));
		else if (!connection->stepping)
			connection_step(connection); /* it may have stopped reading because of this request */
	}
	json_decref(batch->responses);
	free(batch);
}

static void batch_end_beginning(struct rpc_batch *batch)
{
	batch->beginning = false;
	batch_settle(batch);
}

/* ---- requests ---- */

static struct rpc_request *request_begin(struct rpc_batch *batch, const struct trace_istr *method, json_t *id,
					 const json_t *params)
{
	struct rpc_request *request = allocate_zeroed(sizeof(*request));

	trace_object_init(&request->trace, TRACE_OBJECT_RPC_REQUEST);
	request->batch = batch;
	request->method = method;
	request->id = id ? json_incref(id) : NULL;
	request->params = params && !json_is_null(params) ? json_incref((json_t *)params) : json_object();
	must(request->params);
	request->received_tick = clock_ticks();
	batch->requests_open++;
	if (batch->connection)
		batch->connection->requests_open++;
	probe_rpc_request_received(request->received_tick, request, method, batch->connection);
	return request;
}

static void count_time(struct rpc_request *request, int code, uint64_t ticks)
{
	struct rpc_times *times;

	if (!request->times)
		return;
	latency_prepare();
	times = code == 0 ? &request->times->succeeded : &request->times->failed;
	times->ticks += ticks;
	times->buckets[latency_bucket(ticks)]++;
}

/* The request has its response. `code` is for the trace. */
static void request_end(struct rpc_request *request, int code)
{
	struct rpc_batch *batch = request->batch;
	uint64_t now = clock_ticks();

	must(batch->requests_open > 0);
	probe_rpc_request_replied(now, request, request->method, code, now - request->received_tick);
	count_time(request, code, now - request->received_tick);
	batch->requests_open--;
	if (batch->connection)
		batch->connection->requests_open--;
	json_decref(request->id);
	json_decref(request->params);
	free(request);
	batch_settle(batch);
}

static const struct rpc_keeper *keeper;

void rpc_set_keeper(const struct rpc_keeper *to)
{
	must_be_on(thread_control());
	keeper = to;
}

/* Takes `result`. */
static void finish_reply(struct rpc_request *request, json_t *result)
{
	struct rpc_batch *batch = request->batch;

	if (batch->done)
		batch->done(batch->done_ctx, 0, NULL, result);
	if (batch->connection && request->id) {
		json_t *response = response_new(request->id);

		must(json_object_set_new(response, "result", result) == 0);
		must(json_array_append_new(batch->responses, response) == 0);
	} else {
		json_decref(result);
	}
	request_end(request, 0);
}

void rpc_reply(struct rpc_request *request, json_t *result)
{
	must_be_on(thread_control());
	must(!request->result);
	if (!result)
		result = json_true();
	if (!keeper || !request->is_change) {
		finish_reply(request, result);
		return;
	}
	request->result = result;
	keeper->keep(request);
}

static void request_fail(struct rpc_request *request, int code, const char *message)
{
	struct rpc_batch *batch = request->batch;

	must_be_on(thread_control());
	must(code != 0);
	if (batch->done)
		batch->done(batch->done_ctx, code, message, NULL);
	if (batch->connection && request->id)
		must(json_array_append_new(batch->responses, response_error(request->id, code, message)) == 0);
	request_end(request, code);
}

void rpc_kept(struct rpc_request *request, const struct fathom_fault *why)
{
	json_t *result = request->result;

	must_be_on(thread_control());
	must(result);
	request->result = NULL;
	if (!why) {
		finish_reply(request, result);
		return;
	}
	json_decref(result);
	request_fail(request, RPC_CODE_INTERNAL, why->text);
}

const char *rpc_request_method(const struct rpc_request *request)
{
	return request->method->text;
}

void rpc_error(struct rpc_request *request, int code, const char *format, ...)
{
	char message[RPC_MESSAGE_BYTES_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	request_fail(request, code, message);
}

void rpc_error_fault(struct rpc_request *request, int code, const struct fathom_fault *why)
{
	must(why->error < 0);
	request_fail(request, code ? code : why->error, why->text);
}

/* ---- calling ---- */

static const struct trace_istr *unknown_method(void)
{
	static const struct trace_istr *name;

	if (!name)
		name = trace_intern("(unknown)");
	return name;
}

/* The requests that wait until the engine is ready. */
static STAILQ_HEAD(, rpc_request) held_requests = STAILQ_HEAD_INITIALIZER(held_requests);
static bool holding;

static bool may_wait(const struct rpc_batch *batch, const struct rpc_method *method)
{
	return holding && batch->connection && (method->states & RPC_RUNTIME) && !(method->states & rpc_get_state());
}

static void begin_method(struct rpc_request *request, const struct rpc_method *method)
{
	struct fathom_fault why;

	request->is_change = (method->states & RPC_CHANGES) && !request->batch->done;
	if (keeper && request->is_change && keeper->check(method, &why) != 0)
		rpc_error_fault(request, RPC_CODE_WRONG_STATE, &why);
	else
		method->fn(request, request->params);
}

static void hold_request(struct rpc_request *request, const struct rpc_method *method)
{
	request->method_held = method;
	STAILQ_INSERT_TAIL(&held_requests, request, held_link);
}

void rpc_hold_calls(bool on)
{
	struct rpc_request *request;

	must_be_on(thread_control());
	holding = on;
	while (!holding && (request = STAILQ_FIRST(&held_requests))) {
		const struct rpc_method *method = request->method_held;

		STAILQ_REMOVE_HEAD(&held_requests, held_link);
		request->method_held = NULL;
		begin_method(request, method);
	}
}

void requests_cancel_held(void)
{
	struct rpc_request *request;

	holding = false;
	while ((request = STAILQ_FIRST(&held_requests))) {
		STAILQ_REMOVE_HEAD(&held_requests, held_link);
		rpc_error(request, RPC_CODE_WRONG_STATE, "the engine stops before it is ready");
	}
}

static void call_method(struct rpc_batch *batch, const char *name, json_t *id, const json_t *params)
{
	const struct rpc_method_entry *entry = method_find(name);
	struct rpc_request *request = request_begin(batch, entry ? entry->name : unknown_method(), id, params);

	request->times = entry ? entry->times : NULL;
	if (!entry)
		rpc_error(request, RPC_CODE_METHOD_NOT_FOUND, "Method not found: there is no \"%.128s\"", name);
	else if (may_wait(batch, entry->method) && json_is_object(request->params))
		hold_request(request, entry->method);
	else if (!(entry->method->states & rpc_get_state()))
		rpc_error(request, RPC_CODE_WRONG_STATE,
			  rpc_get_state() == RPC_STARTUP ? "%s can be called only after framework_start_init; the engine "
							   "was started with --wait-for-rpc"
							 : "%s can be called only while an engine that was started "
							   "with --wait-for-rpc waits; this one has started",
			  name);
	else if (!json_is_object(request->params))
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: \"params\" must be an object");
	else
		begin_method(request, entry->method);
}

void rpc_call(const char *method, const json_t *params, rpc_done_fn done, void *ctx)
{
	struct rpc_batch *batch = batch_begin(NULL, false);

	must(done);
	batch->done = done;
	batch->done_ctx = ctx;
	call_method(batch, method, NULL, params);
	batch_end_beginning(batch);
}

/* ---- parsing ---- */

/* Why `value` is not a request; NULL: it is one. */
static const char *request_check(const json_t *value, char *text, size_t text_bytes)
{
	const json_t *version = json_object_get(value, "jsonrpc"), *id = json_object_get(value, "id");
	const json_t *params = json_object_get(value, "params");
	const char *key;
	json_t *member;

	if (!json_is_object(value))
		return "a request is an object";
	json_object_foreach ((json_t *)value, key, member) {
		if (strcmp(key, "jsonrpc") != 0 && strcmp(key, "method") != 0 && strcmp(key, "params") != 0 &&
		    strcmp(key, "id") != 0) {
			snprintf(text, text_bytes,
				 "no member \"%.64s\" in a request; there are jsonrpc, method, params, id", key);
			return text;
		}
	}
	if (version && !(json_is_string(version) && strcmp(json_string_value(version), "2.0") == 0))
		return "\"jsonrpc\" is not \"2.0\"";
	if (!json_is_string(json_object_get(value, "method")))
		return "\"method\" is missing, or not a string";
	if (id && !json_is_string(id) && !json_is_number(id) && !json_is_null(id))
		return "\"id\" is not a string, a number or null";
	if (params && !json_is_object(params) && !json_is_array(params) && !json_is_null(params))
		return "\"params\" is not an object";
	return NULL;
}

static void add_error(struct rpc_batch *batch, json_t *id, int code, const char *what)
{
	char message[RPC_MESSAGE_BYTES_MAX];

	snprintf(message, sizeof(message), "%s: %s", code == RPC_CODE_PARSE_ERROR ? "Parse error" : "Invalid request",
		 what);
	must(json_array_append_new(batch->responses, response_error(id, code, message)) == 0);
}

static void begin_request_value(struct rpc_batch *batch, const json_t *value)
{
	char text[RPC_MESSAGE_BYTES_MAX];
	const char *wrong = request_check(value, text, sizeof(text));
	json_t *id = json_object_get(value, "id");

	if (wrong)
		add_error(batch, json_is_string(id) || json_is_number(id) ? id : NULL, RPC_CODE_INVALID_REQUEST, wrong);
	else
		call_method(batch, json_string_value(json_object_get(value, "method")), id,
			    json_object_get(value, "params"));
}

/*
 * Copy `text`, with each number of more than 18 digits as a string: jansson's integers end at 2^63 - 1, but masks have 64
 * bits. An RPC_U64 parameter accepts such a string.
 */
static char *quote_long_numbers(const char *text, size_t bytes, size_t *bytes_ret)
{
	char *copy = allocate_zeroed(bytes * 2 + 1);
	bool in_string = false;
	size_t used = 0;

	for (size_t i = 0; i < bytes;) {
		size_t digits = in_string ? 0 : strspn(text + i, "0123456789");
		bool whole = digits > 18 && i > 0 && strchr(":,[ \t\r\n", text[i - 1]) && !strchr(".eE", text[i + digits]);

		if (digits > 0) {
			if (whole)
				copy[used++] = '"';
			memcpy(copy + used, text + i, digits);
			used += digits;
			if (whole)
				copy[used++] = '"';
			i += digits;
			continue;
		}
		if (in_string && text[i] == '\\')
			copy[used++] = text[i++];
		else if (text[i] == '"')
			in_string = !in_string;
		copy[used++] = text[i++];
	}
	*bytes_ret = used;
	return copy;
}

/* NULL: not JSON; `error` has the reason. */
static json_t *parse_value(const char *text, size_t bytes, json_error_t *error)
{
	json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, error);
	char *copy;

	if (value || json_error_code(error) != json_error_numeric_overflow)
		return value;
	copy = quote_long_numbers(text, bytes, &bytes);
	value = json_loadb(copy, bytes, JSON_REJECT_DUPLICATES, error);
	free(copy);
	return value;
}

bool requests_begin(struct rpc_connection *connection, const char *text, size_t bytes)
{
	json_error_t error;
	json_t *value = parse_value(text, bytes, &error), *element;
	bool duplicate = !value && json_error_code(&error) == json_error_duplicate_key;
	struct rpc_batch *batch = batch_begin(connection, json_is_array(value) && json_array_size(value) > 0);
	size_t index;

	must(connection->stepping);
	if (duplicate)
		add_error(batch, NULL, RPC_CODE_INVALID_REQUEST, error.text);
	else if (!value)
		add_error(batch, NULL, RPC_CODE_PARSE_ERROR, error.text);
	else if (batch->in_brackets)
		json_array_foreach (value, index, element)
			begin_request_value(batch, element);
	else if (json_is_array(value))
		add_error(batch, NULL, RPC_CODE_INVALID_REQUEST, "an empty batch");
	else
		begin_request_value(batch, value);
	json_decref(value);
	batch_end_beginning(batch);
	return value || duplicate;
}
