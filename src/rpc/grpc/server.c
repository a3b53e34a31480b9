/* SPDX-License-Identifier: BSD-2-Clause */
/* The connections of a server: accepting them, making room for new ones, draining. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "rpc/grpc/address.h"
#include "rpc/grpc/server.h"

enum {
	LISTEN_BACKLOG = 4096,
	ACCEPT_AGAIN_MS = 100,
	CONNECTIONS_LEAST = 16,
	SILENT_MS = 1000, /* time for the first HTTP/2 frame while other peers wait */
	ASKED_MAX = 4,	  /* connections asked to leave at a time; some of them may be dead */
};

static void watch_listener(struct grpc_server *server, bool on)
{
	if (server->watch)
		fd_watch_modify(server->watch, on ? EPOLLIN : 0);
}

static void accept_now(struct deadline *deadline)
{
	watch_listener(container_of(deadline, struct grpc_server, accept_again), true);
}

/* A connection has closed, or can be asked to leave. */
static void resume_accepting_links(struct grpc_server *server)
{
	if (!server->accept_again.set || server->drained)
		return;
	deadline_clear(&server->deadlines, &server->accept_again);
	watch_listener(server, true);
}

void server_link_idle(struct grpc_link *link)
{
	resume_accepting_links(link->server);
}

static bool is_full(const struct grpc_server *server)
{
	return server->stats.connections >= server->options.connections_max;
}

/*
 * The connection that has been without calls for longest; NULL: none. A new one without its first frame is about to call.
 */
static struct grpc_link *idle_one(struct grpc_server *server)
{
	struct grpc_link *link, *oldest = NULL;

	TAILQ_FOREACH (link, &server->links, link) {
		if (link->greeted && !link->asked && link->state == GRPC_CONNECTION_OPEN && link->calls_open == 0 &&
		    !link->stepping && (!oldest || link->idle_since < oldest->idle_since))
			oldest = link;
	}
	return oldest;
}

static uint32_t count_asked(const struct grpc_server *server)
{
	const struct grpc_link *link;
	uint32_t count = 0;

	TAILQ_FOREACH (link, &server->links, link)
		count += link->asked && link->calls_open == 0;
	return count;
}

/* Peers without a first frame may be without a certificate: they must not block peers with one. */
static void close_silent(struct grpc_server *server)
{
	uint64_t now = clock_ticks(), silent_ticks = clock_ticks_from_ns(SILENT_MS * NS_PER_MS);
	struct grpc_link *link, *next;

	TAILQ_FOREACH_SAFE (link, &server->links, link, next) {
		if (!link->greeted && !link->stepping && now - link->idle_since > silent_ticks)
			link_doom(link, GRPC_CLOSE_TOO_SLOW, -ETIMEDOUT,
				  "it sent no HTTP/2 in %d ms while other peers wait", SILENT_MS);
	}
}

/* The limit is reached and a peer waits: it is accepted when another connection has closed. */
static void make_room(struct grpc_server *server)
{
	struct grpc_link *idle;

	watch_listener(server, false);
	deadline_set(&server->deadlines, &server->accept_again, ACCEPT_AGAIN_MS * NS_PER_MS, accept_now);
	close_silent(server);
	for (uint32_t asked = count_asked(server); asked < ASKED_MAX && (idle = idle_one(server)); asked++) {
		idle->makes_room = true;
		link_ask_to_leave(idle);
	}
}

/* Takes `fd`. False: out of memory, or the descriptor cannot be watched. */
static bool let_in(struct grpc_server *server, int fd, const struct sockaddr_storage *peer)
{
	struct grpc_link *link = calloc(1, sizeof(*link));
	int one = 1;

	if (!link) {
		close(fd);
		return false;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* only slower if it fails */
	link->server = server;
	link->deadlines = &server->deadlines;
	link->handshake_ns = server->options.handshake_timeout_ns;
	link->keepalive_ns = server->options.keepalive_ns;
	link->idle_since = clock_ticks();
	address_format(link->peer, peer);
	link->peer_port = ntohs(((const struct sockaddr_in *)peer)->sin_port); /* at the same offset for IPv6 */
	if (link_open(link, fd, server->options.tls, true)) {
		free(link);
		return false;
	}
	TAILQ_INSERT_TAIL(&server->links, link, link);
	server->stats.connections++;
	server->stats.connections_total++;
	link_kick(link);
	return true;
}

static void accept_some(void *ctx, uint32_t events)
{
	struct grpc_server *server = ctx;

	if (is_full(server)) {
		make_room(server);
		return;
	}
	while (!is_full(server)) {
		struct sockaddr_storage peer;
		socklen_t bytes = sizeof(peer);
		int fd = accept4(server->fd, (struct sockaddr *)&peer, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && errno == EAGAIN)
			return;
		if (fd >= 0 && let_in(server, fd, &peer))
			continue;
		/* out of descriptors or memory: the listener stays readable, so stop watching it for a while */
		watch_listener(server, false);
		deadline_set(&server->deadlines, &server->accept_again, ACCEPT_AGAIN_MS * NS_PER_MS, accept_now);
		return;
	}
}

static void report_refused_link(struct grpc_link *link, const char *why)
{
	struct grpc_server *server = link->server;

	server->stats.refused_total++;
	if (server->options.refused)
		server->options.refused(server->options.ctx, link->peer, why);
}

bool server_link_is_open(struct grpc_link *link)
{
	const char *name = tls_peer_name(link->tls);

	link->role = grpc_role_of(name);
	if (link->role)
		return true;
	link_doom(link, GRPC_CLOSE_TLS_FAILED, -EACCES,
		  "its certificate is for \"%s\", which is no role; make one for admin, agent or server", name);
	return false;
}

static void drain_ends(struct deadline *deadline)
{
	struct grpc_server *server = container_of(deadline, struct grpc_server, drain);
	void (*drained)(void *) = server->drained;

	server->drained = NULL;
	drained(server->drained_ctx);
}

void server_link_closed(struct grpc_link *link)
{
	struct grpc_server *server = link->server;
	struct grpc_call *call;

	if (link->reason == GRPC_CLOSE_TLS_FAILED || link->reason == GRPC_CLOSE_BAD_HTTP2 ||
	    link->reason == GRPC_CLOSE_TOO_SLOW)
		report_refused_link(link, link->why);
	while ((call = TAILQ_FIRST(&link->calls)))
		call_left(call);
	TAILQ_REMOVE(&server->links, link, link);
	must(server->stats.connections > 0);
	server->stats.connections--;
	resume_accepting_links(server);
	if (server->drained && TAILQ_EMPTY(&server->links))
		deadline_set(&server->deadlines, &server->drain, 0, drain_ends);
}

/* ---- life ---- */

static int listen_there(struct grpc_server *server, struct fathom_fault *why)
{
	struct sockaddr_storage address;
	socklen_t bytes;
	int error = grpc_address_parse(server->options.address, &address, &bytes, why), one = 1;

	if (error)
		return error;
	server->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->fd < 0)
		return fault(why, -errno, "socket: %s", strerror(errno));
	(void)setsockopt(server->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)); /* if it fails, bind() reports it */
	if (bind(server->fd, (struct sockaddr *)&address, bytes) < 0 || listen(server->fd, LISTEN_BACKLOG) < 0)
		return fault(why, -errno, "%s: cannot listen: %s; choose another port", server->options.address,
			     strerror(errno));
	bytes = sizeof(address);
	must(getsockname(server->fd, (struct sockaddr *)&address, &bytes) == 0);
	server->port = ntohs(((struct sockaddr_in *)&address)->sin_port); /* at the same offset for IPv6 */
	server->watch = fd_watch_add(server->fd, EPOLLIN, accept_some, server);
	return server->watch ? 0
			     : fault(why, -errno, "%s: cannot be watched: %s", server->options.address, strerror(errno));
}

static uint32_t connections_that_fit(void)
{
	struct rlimit limit;
	uint64_t fit = GRPC_CONNECTIONS_MAX;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		fit = min_u64(fit, limit.rlim_cur / 2);
	return (uint32_t)max_u64(fit, CONNECTIONS_LEAST);
}

static void complete_options(struct grpc_server_options *options)
{
	if (!options->connections_max)
		options->connections_max = connections_that_fit();
	if (!options->streams_max)
		options->streams_max = GRPC_STREAMS_MAX;
	if (!options->message_bytes_max)
		options->message_bytes_max = GRPC_MESSAGE_BYTES_MAX;
	if (!options->handshake_timeout_ns)
		options->handshake_timeout_ns = 10 * NS_PER_SEC;
	if (!options->keepalive_ns)
		options->keepalive_ns = 60 * NS_PER_SEC;
	for (size_t i = 0; i < options->method_count; i++) {
		must(options->methods[i].fn && options->methods[i].request && options->methods[i].response);
		for (size_t j = 0; j < i; j++)
			must(strcmp(options->methods[i].path, options->methods[j].path) != 0);
	}
}

int grpc_server_open(const struct grpc_server_options *options, struct grpc_server **server_ret, struct fathom_fault *why)
{
	struct grpc_server *server = calloc(1, sizeof(*server));
	int error = 0;

	if (server)
		server->names = calloc(options->method_count + 1, sizeof(*server->names));
	if (!server || !server->names) {
		free(server);
		return fault(why, -ENOMEM, "%s: out of memory for a server", options->address);
	}
	server->options = *options;
	complete_options(&server->options);
	for (size_t i = 0; i < options->method_count; i++)
		server->names[i] = trace_intern(options->methods[i].path);
	server->unknown = trace_intern("(unknown)");
	server->thread = thread_self();
	server->fd = -1;
	TAILQ_INIT(&server->links);
	TAILQ_INIT(&server->calls);
	if (deadlines_init(&server->deadlines, "grpc_deadlines"))
		error = fault(why, -ENOMEM, "%s: out of memory for a timer", options->address);
	if (!error)
		error = listen_there(server, why);
	if (error) {
		grpc_server_close(server);
		return error;
	}
	*server_ret = server;
	return 0;
}

uint16_t grpc_server_port(const struct grpc_server *server)
{
	return server->port;
}

static void stop_listening(struct grpc_server *server)
{
	fd_watch_remove(&server->watch);
	if (server->fd >= 0)
		close(server->fd);
	server->fd = -1;
	deadline_clear(&server->deadlines, &server->accept_again);
}

void grpc_server_drain(struct grpc_server *server, uint64_t timeout_ns, void (*done)(void *ctx), void *ctx)
{
	struct grpc_link *link, *next;

	must_be_on(server->thread);
	must(!server->drained);
	server->drained = done;
	server->drained_ctx = ctx;
	stop_listening(server);
	deadline_set(&server->deadlines, &server->drain, TAILQ_EMPTY(&server->links) ? 0 : timeout_ns, drain_ends);
	TAILQ_FOREACH_SAFE (link, &server->links, link, next)
		link_drain(link);
}

void grpc_server_renew(struct grpc_server *server)
{
	struct grpc_link *link, *next;

	must_be_on(server->thread);
	TAILQ_FOREACH_SAFE (link, &server->links, link, next)
		link_ask_to_leave(link);
}

void grpc_server_close(struct grpc_server *server)
{
	struct grpc_link *link;
	struct grpc_call *call;

	if (!server)
		return;
	must_be_on(server->thread);
	stop_listening(server);
	server->drained = NULL;
	while ((link = TAILQ_FIRST(&server->links)))
		link_doom(link, GRPC_CLOSE_OWNER_ENDS, 0, "the server ends");
	while ((call = TAILQ_FIRST(&server->calls))) {
		must(call->state == GRPC_CALL_OVER);
		TAILQ_REMOVE(&server->calls, call, in_server);
		call->server = NULL;
	}
	deadlines_deinit(&server->deadlines);
	free(server->names);
	free(server);
}

struct grpc_server_stats grpc_server_stats(const struct grpc_server *server)
{
	return server->stats;
}
