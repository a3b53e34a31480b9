/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/register/server.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/reactor/reactor.h"
#include "inspect/probed/register/client.h"

enum { FULL_CHECK_MS = 50, FULL_SILENT_MS = 100 }; /* when new connections wait */
enum { BACKLOG = 4096 };			   /* many programs start when a machine boots */
enum { SOCKET_MODE = 0666, SILENT_CHECKS = 4 };	   /* checks per silent_ns */

static void watch_server_listener(struct server *server, bool on)
{
	if (server->watch && server->is_paused == on)
		fd_watch_modify(server->watch, on ? EPOLLIN : 0);
	server->is_paused = !on;
	if (on)
		poller_pause(server->full_poller);
	else
		poller_resume(server->full_poller);
}

void server_has_room(struct server *server)
{
	watch_server_listener(server, true);
	must(server->client_count < server->options.connections_max);
	if (server->client_count == 0)
		poller_pause(server->silent_poller);
}

static uint32_t count_user_clients(const struct server *server, uid_t uid)
{
	const struct client *client;
	uint32_t count = 0;

	TAILQ_FOREACH (client, &server->clients, link)
		count += client->owner == uid;
	must(count <= server->client_count);
	return count;
}

/* The peer's pid is only traced: each message has the credentials of its sender. */
static void add_client(struct server *server, int fd)
{
	struct ucred peer = { .pid = 0, .uid = (uid_t)-1 };
	socklen_t bytes = sizeof(peer);
	struct client *client;

	must(server->client_count < server->options.connections_max);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0) {
		close(fd);
		return;
	}
	client = client_create(server, fd, peer.pid, peer.uid);
	poller_resume(server->silent_poller);
	if (!client) {
		log_line_limited(&server->failed_limit, clock_monotonic_ns(), LOG_LEVEL_ERROR,
				 "%s: out of memory for a client", server->options.path);
		return;
	}
	if (peer.uid != 0 && peer.uid != geteuid() &&
	    count_user_clients(server, peer.uid) > server->options.connections_a_user)
		client_leave(client, PROBED_LEAVE_TOO_MANY);
}

static void accept_clients(void *ctx, uint32_t events)
{
	struct server *server = ctx;

	while (server->client_count < server->options.connections_max) {
		int fd = accept4(server->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			add_client(server, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno == EAGAIN)
			return;
		/* probably out of descriptors. The listener stays readable: pause it for FULL_CHECK_MS */
		log_line_limited(&server->failed_limit, clock_monotonic_ns(), LOG_LEVEL_ERROR,
				 "%s: cannot accept a client: %s; the next attempt is in %d ms", server->options.path,
				 strerror(errno), FULL_CHECK_MS);
		watch_server_listener(server, false);
		return;
	}
	watch_server_listener(server, false);
	log_line_limited(&server->full_limit, clock_monotonic_ns(), LOG_LEVEL_WARNING,
			 "%s: %u clients are connected, the limit; new ones wait", server->options.path,
			 server->client_count);
}

/*
 * A client that was silent for `silent_ns` and waits for nothing. The list begins with the longest silent one. Closing one
 * may close others, so the caller must search again each time.
 */
static struct client *find_silent_client(struct server *server, uint64_t silent_ns, bool or_slow)
{
	uint64_t now = clock_monotonic_ns();
	struct client *client;

	TAILQ_FOREACH (client, &server->clients, link) {
		if (now - client->last_active_ns < silent_ns)
			return NULL;
		if (!client->busy && !client->queued && (or_slow || !client->listing))
			return client;
	}
	return NULL;
}

static int close_silent_clients(void *ctx)
{
	struct server *server = ctx;
	struct client *client;

	while ((client = find_silent_client(server, server->options.silent_ns, true)))
		client_leave(client, client->listing ? PROBED_LEAVE_READER_TOO_SLOW : PROBED_LEAVE_SILENT);
	return 0;
}

/* All connections are in use and others wait: close silent ones soon. A registering client sends its request at once. */
static int close_silent_when_full(void *ctx)
{
	struct server *server = ctx;
	struct client *client;

	while ((client = find_silent_client(server, FULL_SILENT_MS * NS_PER_MS, false)))
		client_leave(client, PROBED_LEAVE_SILENT);
	/* after a failed accept(): retry */
	if (server->is_paused && server->client_count < server->options.connections_max)
		watch_server_listener(server, true);
	return 0;
}

/* ---- create and destroy ---- */

static int make_folder_of_socket(const char *path, struct fathom_fault *why)
{
	char copy[sizeof(((struct sockaddr_un *)0)->sun_path)], *folder;

	if (text_copy(copy, sizeof(copy), path) < 0)
		return 0; /* listener_open() reports it */
	folder = dirname(copy);
	if (mkdir(folder, 0755) == 0 || errno == EEXIST)
		return 0;
	return fault(why, -errno, "%s: %s; make it, or choose another socket with --socket", folder, strerror(errno));
}

static int open_listener(struct server *server, struct fathom_fault *why)
{
	const struct listener_options options = {
		.path = server->options.path,
		.type = SOCK_SEQPACKET,
		.mode = SOCKET_MODE,
		.backlog = BACKLOG,
		.option = "--socket",
	};
	int error = make_folder_of_socket(server->options.path, why);

	if (error == 0)
		error = listener_open(&options, &server->listener, why);
	server->own_path = error == 0;
	return error;
}

/* Use the socket that systemd made. */
static int adopt_listener(struct server *server, int fd, struct fathom_fault *why)
{
	socklen_t bytes = sizeof(int);
	int type = 0;

	server->listener.fd = fd;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) < 0 || type != SOCK_SEQPACKET)
		return fault(why, -EINVAL, "the socket from systemd is not SOCK_SEQPACKET: use ListenSequentialPacket=");
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return fault(why, -errno, "the socket from systemd: %s", strerror(errno));
	return 0;
}

static void set_server_defaults(struct server_options *options)
{
	if (!options->connections_max)
		options->connections_max = SERVER_CONNECTIONS_MAX;
	if (!options->connections_a_user)
		options->connections_a_user = SERVER_PER_USER_MAX;
	if (!options->silent_ns)
		options->silent_ns = SERVER_SILENT_SEC * NS_PER_SEC;
	must(options->connections_max > 0 && options->connections_a_user > 0);
	must(options->silent_ns / SILENT_CHECKS > 0);
}

static int start_listening(struct server *server, struct fathom_fault *why)
{
	const int on = 1;
	int error = server->options.fd >= 0 ? adopt_listener(server, server->options.fd, why) : open_listener(server, why);

	if (error)
		return error;
	/* connections inherit it, so messages sent before accept() have credentials, too */
	if (setsockopt(server->listener.fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return fault(why, -errno, "%s: %s", server->options.path, strerror(errno));
	server->watch = fd_watch_add(server->listener.fd, EPOLLIN, accept_clients, server);
	server->silent_poller = poller_register("probed_silent", close_silent_clients, server,
						server->options.silent_ns / SILENT_CHECKS);
	server->full_poller = poller_register("probed_full", close_silent_when_full, server, FULL_CHECK_MS * NS_PER_MS);
	if (!server->watch || !server->silent_poller || !server->full_poller)
		return fault(why, -ENOMEM, "cannot watch %s: %s", server->options.path, strerror(errno));
	poller_pause(server->silent_poller);
	poller_pause(server->full_poller);
	return 0;
}

int server_open(struct registry *registry, const struct server_options *options, struct server **server_ret,
		struct fathom_fault *why)
{
	struct server *server = calloc(1, sizeof(*server));
	int error;

	if (!server)
		return fault(why, -ENOMEM, "out of memory");
	server->registry = registry;
	server->options = *options;
	server->listener.fd = -1;
	server->full_limit = server->failed_limit = (struct log_limit)LOG_LIMIT(1, NS_PER_SEC);
	set_server_defaults(&server->options);
	TAILQ_INIT(&server->clients);
	error = start_listening(server, why);
	if (error)
		server_close(server);
	else
		*server_ret = server;
	return error;
}

void server_close(struct server *server)
{
	struct client *client;

	if (!server)
		return;
	fd_watch_remove(&server->watch);
	while ((client = TAILQ_FIRST(&server->clients)))
		client_leave(client, PROBED_LEAVE_SERVER_ENDS);
	must(server->client_count == 0);
	must(server->listing_count == 0);
	poller_unregister(&server->silent_poller);
	poller_unregister(&server->full_poller);
	if (server->own_path)
		listener_close(&server->listener);
	else if (server->listener.fd >= 0)
		close(server->listener.fd);
	free(server);
}
