/* SPDX-License-Identifier: BSD-2-Clause */
/* client - one connection to the socket, and what is being said to it. */
#ifndef PROBED_REGISTER_CLIENT_H
#define PROBED_REGISTER_CLIENT_H

#include "base/listener.h"
#include "base/log_limit.h"
#include "inspect/probed/client/protocol.h"
#include "inspect/probed/register/internal.h"
#include "inspect/probed/register/server.h"

struct listing;

struct client {
	TAILQ_ENTRY(client) link; /* the one that has been silent for longest first */
	struct server *server;
	int fd;
	struct fd_watch *watch;
	pid_t pid; /* who sent the last message, as the kernel says */
	uid_t uid;
	uid_t owner; /* who connected */
	uint64_t heard_ns;
	uint32_t requests;
	bool queued; /* it waits for its listing to begin */
	bool busy;   /* a registration of it is under way */
	bool gone;   /* it has left meanwhile */
	struct probed_request request;
	struct listing *listing;
	struct trace_object trace;
};

/* Somebody has left: there is room for another. */
void server_has_room(struct server *server);

struct server {
	struct registry *registry;
	struct server_options options;
	struct listener listener; /* of a socket that was there already only the descriptor */
	struct fd_watch *watch;
	struct poller *silent_poller, *full_poller;
	TAILQ_HEAD(, client) clients;
	uint32_t client_count;
	uint32_t listing_count;
	struct log_limit full_limit, failed_limit;
	bool own_path; /* ours to remove */
	bool deaf;     /* nobody is accepted now */
};

enum { LISTINGS_MAX = 8 }; /* at once: each holds the lines of one process */

/* NULL: out of memory. `fd` is taken. */
struct client *client_create(struct server *server, int fd, pid_t pid, uid_t uid);
void client_leave(struct client *client, enum probed_leave_reason reason);

/* Wait for what it is to do next: ask, or take what it asked for. */
void client_watch(struct client *client);

/* One reply, with `text` of at most PROBED_REPLY_TEXT_BYTES_MAX. False: it did not fit; try again when it can be. */
MUST_CHECK bool client_reply(struct client *client, int error, bool more, uint64_t value, const char *text, size_t bytes);
/* Likewise, and if it does not fit, the client is not listening: it is left. */
void client_answer(struct client *client, int error, uint64_t value, const char *text);

/* ---- listing.c ---- */

/* Answer LIST or NOTES: lines follow as the client takes them; if there are LISTINGS_MAX, when another has ended. */
void listing_begin(struct client *client);
/* One has ended: the next may begin. */
void listing_ended(struct server *server);
/* Say more of it, as much as the client's socket takes. At its end the client may ask again. It may leave meanwhile. */
void listing_go_on(struct client *client);
/* A file is being parsed: nothing can be said. */
bool listing_waits(const struct listing *listing);
void listing_free(struct listing *listing);

#endif
