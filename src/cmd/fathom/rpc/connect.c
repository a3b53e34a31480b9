/* SPDX-License-Identifier: BSD-2-Clause */
/* connect - one connection to a control socket: requests and responses, with a time limit for each. */
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/fathom/rpc/client.h"

enum { RETRY_MS = 200, RECEIVE_BYTES = 65536 };

struct rpc_client {
	struct rpc_client_options options;
	int fd; /* -1: closed, or a dry run */
	json_int_t last_id;
	char *in;
	size_t in_bytes, in_room;
	char *error;   /* text of the last -EREMOTEIO */
	char *message; /* the server's message in it */
};

/* ---- JSON in Python's format ---- */

/* Remove quotes and mark of marked numbers; convert the digits of escaped characters to lower case. */
static void convert_to_python_format(char *text)
{
	static const char mark[] = "\"\\u0001u64:";
	char *from = text, *to = text;

	while (*from) {
		if (strncmp(from, mark, sizeof(mark) - 1) == 0) {
			from += sizeof(mark) - 1;
			while (*from != '"')
				*to++ = *from++;
			from++;
		} else if (from[0] == '\\') {
			size_t bytes = from[1] == 'u' ? 6 : 2;

			while (bytes-- > 0)
				*to++ = (char)tolower(*from++);
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
}

char *rpc_json_text(const json_t *value, int indent)
{
	size_t flags = JSON_ENCODE_ANY | JSON_ENSURE_ASCII | (indent > 0 ? JSON_INDENT((size_t)indent) : 0);
	char *text = json_dumps(value, flags);

	must(text);
	convert_to_python_format(text);
	return text;
}

/* ---- connecting ---- */

static int connect_unix(const char *path, struct fathom_fault *why)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, error;

	if (text_copy(address.sun_path, sizeof(address.sun_path), path) < 0)
		return fault(why, -ENAMETOOLONG, "Error while connecting to %s\nError details: the path is too long", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	return fault(why, -error, "Error while connecting to %s\nIs fathom-engine running?\nError details: %s", path,
		     strerror(error));
}

/* -ENOENT: `address` is not an IP address. */
static int connect_ip(const char *address, const char *port, struct fathom_fault *why)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int fd, error;

	if (getaddrinfo(address, port, &hints, &found) != 0)
		return -ENOENT;
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	error = fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0 ? errno : 0;
	freeaddrinfo(found);
	if (error == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return fault(why, -error, "Error while connecting to %s port %s\nError details: %s", address, port,
		     strerror(error));
}

static int connect_once(const struct rpc_client_options *options, struct fathom_fault *why)
{
	int fd = strchr(options->address, '/') ? -ENOENT : connect_ip(options->address, options->port, why);

	return fd == -ENOENT ? connect_unix(options->address, why) : fd;
}

int rpc_client_open(const struct rpc_client_options *options, struct rpc_client **client_ret, struct fathom_fault *why)
{
	struct rpc_client *client = calloc(1, sizeof(*client));

	must(client);
	client->options = *options;
	client->fd = options->dry_run ? -1 : connect_once(options, why);
	for (uint32_t i = 0; i < options->retries && client->fd < 0 && !options->dry_run; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = RETRY_MS * (long)NS_PER_MS }, NULL);
		client->fd = connect_once(options, why);
	}
	if (client->fd < 0 && !options->dry_run) {
		int error = client->fd;

		free(client);
		return error;
	}
	*client_ret = client;
	return 0;
}

static void close_connection(struct rpc_client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
}

void rpc_client_close(struct rpc_client *client)
{
	if (!client)
		return;
	close_connection(client);
	free(client->in);
	free(client->error);
	free(client->message);
	free(client);
}

const char *rpc_client_error(const struct rpc_client *client)
{
	must(client->error);
	return client->error;
}

const char *rpc_client_error_message(const struct rpc_client *client)
{
	must(client->message);
	return client->message;
}

bool rpc_client_is_dry(const struct rpc_client *client)
{
	return client->options.dry_run;
}

/* ---- bytes ---- */

static uint64_t deadline_ns(const struct rpc_client *client)
{
	return clock_monotonic_ns() + (uint64_t)(client->options.timeout_sec * (double)NS_PER_SEC);
}

/* Wait until the socket is ready for `events`. 0: ready. */
static int wait_until_ready(const struct rpc_client *client, short events, uint64_t until_ns, struct fathom_fault *why)
{
	for (;;) {
		uint64_t now = clock_monotonic_ns();
		struct pollfd ready = { .fd = client->fd, .events = events };
		int n = now < until_ns ? poll(&ready, 1, (int)((until_ns - now) / NS_PER_MS + 1)) : 0;

		if (n > 0)
			return 0;
		if (n == 0)
			return fault(why, -ETIMEDOUT, "Timeout while waiting for response:\n%.*s\n", (int)client->in_bytes,
				     client->in ? client->in : "");
		if (errno != EINTR)
			return fault(why, -errno, "poll: %s", strerror(errno));
	}
}

static int send_request_text(const struct rpc_client *client, const char *text, uint64_t until_ns, struct fathom_fault *why)
{
	size_t bytes = strlen(text), sent = 0;

	while (sent < bytes) {
		int error = wait_until_ready(client, POLLOUT, until_ns, why);
		ssize_t n = error ? 0 : send(client->fd, text + sent, bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (error)
			return error;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return fault(why, -errno, "Connection closed while sending: %s", strerror(errno));
		sent += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Receive more of the response. -ECONNRESET: the connection has ended. */
static int receive_more(struct rpc_client *client, uint64_t until_ns, struct fathom_fault *why)
{
	int error = wait_until_ready(client, POLLIN, until_ns, why);
	ssize_t n;

	if (error)
		return error;
	if (client->in_room - client->in_bytes < RECEIVE_BYTES) {
		client->in_room = client->in_room ? client->in_room * 2 : RECEIVE_BYTES * 2;
		client->in = realloc(client->in, client->in_room);
		must(client->in);
	}
	n = recv(client->fd, client->in + client->in_bytes, RECEIVE_BYTES, 0);
	if (n < 0 && errno == EINTR)
		return 0;
	if (n <= 0) {
		close_connection(client);
		if (client->in_bytes == 0 || memchr(client->in, '\0', client->in_bytes))
			return fault(why, -ECONNRESET, "%s closed the connection %s; is it a control socket?",
				     client->options.address,
				     client->in_bytes ? "after data that is not JSON" : "without a response");
		return fault(why, -ECONNRESET, "Connection closed with partial response:\n%.*s", (int)client->in_bytes,
			     client->in);
	}
	client->in_bytes += (size_t)n;
	return 0;
}

/* Parse the response, if it is complete. */
static json_t *parse_response(struct rpc_client *client)
{
	json_error_t error;
	json_t *response;

	/* a complete response ends with a brace or a newline: parsing the data after each piece would be quadratic */
	if (client->in_bytes == 0 || !strchr("}\n", client->in[client->in_bytes - 1]))
		return NULL;
	response = json_loadb(client->in, client->in_bytes, JSON_DISABLE_EOF_CHECK, &error);
	if (response) {
		client->in_bytes -= (size_t)error.position;
		memmove(client->in, client->in + error.position, client->in_bytes);
	}
	return response;
}

/* ---- calls ---- */

static json_t *make_request(struct rpc_client *client, const char *method, const json_t *params)
{
	json_t *request = json_object();

	must(request);
	json_object_set_new(request, "jsonrpc", json_string("2.0"));
	json_object_set_new(request, "method", json_string(method));
	json_object_set_new(request, "id", json_integer(++client->last_id));
	if (json_object_size(params) > 0)
		json_object_set(request, "params", (json_t *)params);
	return request;
}

static void print_dry_run(const char *method, const json_t *params)
{
	json_t *request = json_object();
	char *text;

	json_object_set_new(request, "method", json_string(method));
	json_object_set_new(request, "params", params ? json_incref((json_t *)params) : json_object());
	text = rpc_json_text(request, 2);
	printf("Request:\n%s\n", text);
	free(text);
	json_decref(request);
}

static void print_verbose(const struct rpc_client *client, const char *what, const json_t *value)
{
	char *text;

	if (!client->options.verbose)
		return;
	text = rpc_json_text(value, 2);
	fprintf(stderr, "INFO: %s:\n%s\n\n", what, text);
	free(text);
}

/* Keep the server's error message. With -v also what rpc.py shows: the parameters with method and id, then the error. */
static void store_server_error(struct rpc_client *client, const char *method, const json_t *params, const json_t *error)
{
	json_t *shown = json_object();
	const char *message = json_string_value(json_object_get(error, "message"));
	char *request_text, *error_text;

	if (params)
		json_object_update(shown, (json_t *)params);
	json_object_set_new(shown, "method", json_string(method));
	json_object_set_new(shown, "req_id", json_integer(client->last_id));
	request_text = rpc_json_text(shown, 2);
	error_text = rpc_json_text(error, 2);
	free(client->error);
	must(asprintf(&client->error, "%s: %s (code %lld)%s%s%s%s", method,
		      message ? message : "an error without a message",
		      (long long)json_integer_value(json_object_get(error, "code")),
		      client->options.verbose ? "\nrequest:\n" : "", client->options.verbose ? request_text : "",
		      client->options.verbose ? "\nGot JSON-RPC error response\nresponse:\n" : "",
		      client->options.verbose ? error_text : "") > 0);
	free(client->message);
	client->message = strdup(message ? message : "");
	must(client->message);
	free(request_text);
	free(error_text);
	json_decref(shown);
}

static int send_and_receive(struct rpc_client *client, const json_t *request, json_t **response_ret,
			    struct fathom_fault *why)
{
	uint64_t until_ns = deadline_ns(client);
	char *text = rpc_json_text(request, -1);
	int error = send_request_text(client, text, until_ns, why);

	free(text);
	while (error == 0) {
		json_t *response = parse_response(client);

		if (response) {
			*response_ret = response;
			return 0;
		}
		error = receive_more(client, until_ns, why);
	}
	return error;
}

int rpc_client_call(struct rpc_client *client, const char *method, const json_t *params, json_t **result_ret,
		    struct fathom_fault *why)
{
	json_t *request, *response = NULL, *failure;
	int error;

	if (client->options.dry_run) {
		print_dry_run(method, params);
		*result_ret = json_null();
		return 0;
	}
	if (client->fd < 0)
		return fault(why, -ENOTCONN, "the connection to %s is closed", client->options.address);
	request = make_request(client, method, params);
	print_verbose(client, "Requests", request);
	error = send_and_receive(client, request, &response, why);
	json_decref(request);
	/* a killed server does not answer */
	if (error == -ECONNRESET && strcmp(method, "spdk_kill_instance") == 0) {
		*result_ret = json_object();
		return 0;
	}
	if (error)
		return error;
	print_verbose(client, "response", response);
	failure = json_object_get(response, "error");
	if (failure) {
		store_server_error(client, method, params, failure);
		error = fault(why, -EREMOTEIO, "%.400s", client->error);
	} else if (json_object_get(response, "result")) {
		*result_ret = json_incref(json_object_get(response, "result"));
	} else {
		error = fault(why, -EPROTO, "%s: a response without \"result\" and without \"error\"",
			      client->options.address);
	}
	json_decref(response);
	return error;
}
