/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connection - one client: receive bytes, split them into JSON values, send responses as lines.
 *
 * Nothing is read while too many of the client's requests are open or too much is unsent, so a client that does not read
 * its responses stops only itself. A client that has shut down its side still gets its responses.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/json/json_memory.h"
#include "rpc/jsonrpc/probes.gen.h"

static bool may_read(const struct rpc_connection *c)
{
	return !c->eof && !c->malformed && c->requests_open < RPC_REQUESTS_OPEN_MAX &&
	       c->out_end - c->out_begin < RPC_SEND_BYTES_PAUSE;
}

/* ---- out ---- */

static void append_output(struct rpc_connection *c, const char *bytes, size_t count)
{
	if (c->out_begin > 0 && c->out_end + count > c->out_room) {
		memmove(c->out, c->out + c->out_begin, c->out_end - c->out_begin);
		c->out_end -= c->out_begin;
		c->out_begin = 0;
	}
	if (c->out_end + count > c->out_room) {
		c->out_room = round_up_power_of_two(c->out_end + count);
		c->out = realloc(c->out, c->out_room);
		must(c->out);
	}
	memcpy(c->out + c->out_end, bytes, count);
	c->out_end += count;
}

/* False: the client is gone. */
static bool send_some(struct rpc_connection *c)
{
	while (c->out_begin < c->out_end) {
		ssize_t sent = send(c->fd, c->out + c->out_begin, c->out_end - c->out_begin, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0)
			return errno == EAGAIN || errno == EINTR;
		c->out_begin += (size_t)sent;
	}
	free(c->out);
	c->out = NULL;
	c->out_begin = c->out_end = c->out_room = 0;
	return true;
}

/* A response that is formatted without an allocation. A client finds its request by the id, if that is an integer. */
static void append_out_of_memory(struct rpc_connection *c, const json_t *response)
{
	const json_t *id = json_object_get(response, "id");
	char id_text[24] = "null", line[128];
	int bytes;

	if (json_is_integer(id))
		snprintf(id_text, sizeof(id_text), "%" JSON_INTEGER_FORMAT, json_integer_value(id));
	bytes = snprintf(
		line, sizeof(line),
		"{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d,\"message\":\"Internal error: out of memory\"}}\n",
		id_text, RPC_CODE_INTERNAL);
	must(bytes < (int)sizeof(line));
	append_output(c, line, (size_t)bytes);
}

void connection_respond(struct rpc_connection *c, const json_t *response)
{
	char *line;
	int error;

	json_memory_begin();
	line = json_dumps(response, JSON_COMPACT);
	error = json_memory_end(line);
	must(error == 0 || error == -ENOMEM); /* all strings are valid UTF-8 here */
	if (!error) {
		append_output(c, line, strlen(line));
		append_output(c, "\n", 1);
	} else {
		append_out_of_memory(c, response);
	}
	free(line);
	if (!c->stepping)
		connection_step(c);
}

/* ---- in ---- */

/* The bytes are not JSON: send an error, and read no more. */
static void reject_bytes(struct rpc_connection *c, enum json_split result)
{
	char message[RPC_MESSAGE_BYTES_MAX];
	json_t *response;

	snprintf(message, sizeof(message), "Parse error: at byte %zu: %s", c->splitter.at - c->splitter.begin,
		 json_split_text(result));
	response = response_error(NULL, RPC_CODE_PARSE_ERROR, message);
	c->malformed = true;
	connection_respond(c, response);
	json_decref(response);
}

/* Begin the requests that have arrived completely. True: it stopped at a limit, and more may be there. */
static bool begin_complete_requests(struct rpc_connection *c)
{
	enum json_split result = JSON_SPLIT_VALUE;

	while (may_read(c)) {
		result = json_split(&c->splitter, c->in, c->in_bytes);
		if (result != JSON_SPLIT_VALUE)
			break;
		if (!requests_begin(c, c->in + c->splitter.begin, c->splitter.at - c->splitter.begin))
			c->malformed = true;
		c->splitter.begin = c->splitter.at;
	}
	if (result != JSON_SPLIT_VALUE && result != JSON_SPLIT_MORE)
		reject_bytes(c, result);
	if (c->splitter.begin > 0) {
		size_t used = c->splitter.begin;

		must(used <= c->in_bytes);
		memmove(c->in, c->in + used, c->in_bytes - used);
		c->in_bytes -= used;
		json_splitter_dropped(&c->splitter, used);
	}
	c->has_more = result == JSON_SPLIT_VALUE && c->in_bytes > 0;
	return c->has_more;
}

/* Receive once. True: bytes came, and there may be more. */
static bool receive_some(struct rpc_connection *c)
{
	ssize_t received;

	must(c->in_bytes <= JSON_BYTES_MAX + RPC_RECEIVE_BYTES);
	if (c->in_room - c->in_bytes < RPC_RECEIVE_BYTES) {
		c->in_room = round_up_power_of_two(c->in_bytes + RPC_RECEIVE_BYTES);
		c->in = realloc(c->in, c->in_room);
		must(c->in);
	}
	received = recv(c->fd, c->in + c->in_bytes, RPC_RECEIVE_BYTES, MSG_DONTWAIT);
	if (received < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (received <= 0) {
		c->eof = true;
		return false;
	}
	c->in_bytes += (size_t)received;
	server_note_bytes(c);
	return true;
}

/* ---- life ---- */

static bool is_finished(const struct rpc_connection *c)
{
	return (c->eof || c->malformed) && c->requests_open == 0 && c->out_begin == c->out_end;
}

static void update_watched_events(struct rpc_connection *c)
{
	/* requests that were received already cause no event: the next turn begins them, as the socket can be written */
	bool has_work = c->out_begin < c->out_end || (c->has_more && may_read(c));
	uint32_t events = (may_read(c) ? EPOLLIN : 0u) | (has_work ? EPOLLOUT : 0u);

	if (events != c->watched_events)
		fd_watch_modify(c->watch, events);
	c->watched_events = events;
}

void connection_step(struct rpc_connection *c)
{
	bool alive;

	must_be_on(thread_control());
	must(!c->stepping);
	c->stepping = true;
	/* first the requests that waited while too much was unsent; then receive once */
	alive = send_some(c);
	for (int i = 0; alive && i < 2; i++) {
		while (begin_complete_requests(c) && (alive = send_some(c)) && may_read(c))
			;
		if (i == 0 && (!alive || !may_read(c) || !receive_some(c)))
			break;
	}
	alive = alive && send_some(c);
	c->stepping = false;
	if (!alive)
		connection_destroy(c, RPC_CLOSE_SEND_FAILED);
	else if (c->out_end - c->out_begin > RPC_SEND_BYTES_MAX)
		connection_destroy(c, RPC_CLOSE_READER_TOO_SLOW);
	else if (is_finished(c))
		connection_destroy(c, c->malformed ? RPC_CLOSE_MALFORMED : RPC_CLOSE_CLIENT_LEFT);
	else
		update_watched_events(c);
}

static void connection_ready(void *ctx, uint32_t events)
{
	struct rpc_connection *c = ctx;

	/* both directions are closed and everything sent before was read: no response can arrive */
	if ((events & (EPOLLHUP | EPOLLERR)) && !may_read(c))
		connection_destroy(c, RPC_CLOSE_CLIENT_LEFT);
	else
		connection_step(c);
}

struct rpc_connection *connection_create(int fd)
{
	struct rpc_connection *c = calloc(1, sizeof(*c));
	struct ucred peer = { .pid = -1 };
	socklen_t peer_bytes = sizeof(peer);

	must(c);
	c->fd = fd;
	TAILQ_INIT(&c->batches);
	trace_object_init(&c->trace, TRACE_OBJECT_RPC_CONNECTION);
	c->watched_events = EPOLLIN;
	c->watch = fd_watch_add(fd, EPOLLIN, connection_ready, c);
	if (!c->watch) {
		int error = errno;

		close(fd);
		free(c);
		errno = error;
		return NULL;
	}
	/* only for the trace; -1 if the kernel does not know it */
	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes);
	probe_rpc_connection_open(clock_ticks(), c, peer.pid);
	server_add(c);
	return c;
}

void connection_destroy(struct rpc_connection *c, enum rpc_close_reason reason)
{
	struct rpc_batch *batch;

	must_be_on(thread_control());
	must(!c->stepping);
	probe_rpc_connection_close(clock_ticks(), c, reason, c->requests_open);
	while ((batch = TAILQ_FIRST(&c->batches))) {
		TAILQ_REMOVE(&c->batches, batch, link);
		batch->connection = NULL; /* its requests go on; their responses are dropped */
	}
	fd_watch_remove(&c->watch);
	close(c->fd);
	free(c->in);
	free(c->out);
	server_remove(c);
	free(c);
}
