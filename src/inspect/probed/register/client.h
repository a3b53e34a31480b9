/* SPDX-License-Identifier: BSD-2-Clause */
/* client - a connection to the socket, and the answer that is being sent to it. */
#ifndef PROBED_REGISTER_CLIENT_H
#define PROBED_REGISTER_CLIENT_H

#include "base/listener.h"
#include "base/log_limit.h"
#include "inspect/probed/client/protocol.h"
#include "inspect/probed/register/internal.h"
#include "inspect/probed/register/server.h"

struct listing;

struct client {
	TAILQ_ENTRY(client) link; /* the longest silent first */
	struct server *server;
	int fd;
	struct fd_watch *watch;
	pid_t pid; /* the sender of the last message, by the kernel's credentials */
	uid_t uid;
	uid_t owner;		 /* the user that connected */
	uint64_t last_active_ns; /* of clock_monotonic_ns(): when the silence of the client began */
	uint32_t requests;
	bool queued; /* its listing waits for another to end */
	bool busy;   /* its registration is in progress */
	bool gone;   /* the connection is closed; freed when the registration has ended */
	struct probed_request request;
	struct listing *listing;
	struct trace_object trace;
};

/* A client has left: accept connections again. */
void server_has_room(struct server *server);

struct server {
	struct registry *registry;
	struct server_options options;
	struct listener listener; /* only its descriptor, if systemd made the socket */
	struct fd_watch *watch;
	struct poller *silent_poller, *full_poller;
	TAILQ_HEAD(, client) clients;
	uint32_t client_count;
	uint32_t listing_count;
	struct log_limit full_limit, failed_limit;
	bool own_path;	/* the daemon made the socket, and removes it */
	bool is_paused; /* no connections are accepted */
};

enum { LISTINGS_MAX = 8 }; /* at the same time; each holds the lines of one process */

/* NULL: out of memory. `fd` is taken. */
struct client *client_create(struct server *server, int fd, pid_t pid, uid_t uid);
void client_leave(struct client *client, enum probed_leave_reason reason);

/* Wait until the client sends a request, or takes more of its answer. */
void client_watch(struct client *client);

/* Send a reply with `text` of at most PROBED_REPLY_TEXT_BYTES_MAX. False: the socket is full; retry when it is writable. */
MUST_CHECK bool client_reply(struct client *client, int error, bool more, uint64_t value, const char *text, size_t bytes);
/* Send the last reply. If the socket is full, the client is too slow: closes the connection. */
void client_answer(struct client *client, int error, uint64_t value, const char *text);

/* ---- listing.c ---- */

/* Begin the answer to LIST or NOTES; with LISTINGS_MAX in progress it is queued. Lines follow as the client takes them. */
void listing_begin(struct client *client);
/* A listing has ended: begin a queued one. */
void listing_ended(struct server *server);
/* Send as much of the listing as the socket takes. May close the connection. */
void listing_continue(struct client *client);
/* True: it waits until a file is parsed. */
bool listing_waits(const struct listing *listing);
void listing_free(struct listing *listing);

#endif
