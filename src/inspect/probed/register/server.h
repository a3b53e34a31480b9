/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server - the UNIX socket of fathom-probed: docs/formats/probed.md.
 *
 * A connection has one request in progress; the next is read when that is answered. A connection that is silent for
 * SERVER_SILENT_SEC, or does not read its answer, is closed. When all connections are in use, new ones wait in the socket's
 * backlog, and silent ones are closed much earlier. A user has at most SERVER_PER_USER_MAX connections; root has no limit.
 */
#ifndef PROBED_REGISTER_SERVER_H
#define PROBED_REGISTER_SERVER_H

#include <stdint.h>

#include "base/fault.h"
#include "inspect/probed/register/registry.h"

enum { SERVER_CONNECTIONS_MAX = 512, SERVER_PER_USER_MAX = 128, SERVER_SILENT_SEC = 10 };

struct server_options {
	const char *path;	     /* of the socket; its folder is made if it does not exist; lent */
	int fd;			     /* a listening socket, taken; -1: none */
	uint32_t connections_max;    /* 0: SERVER_CONNECTIONS_MAX */
	uint32_t connections_a_user; /* 0: SERVER_PER_USER_MAX */
	uint64_t silent_ns;	     /* 0: SERVER_SILENT_SEC */
	const char *version;	     /* of the program */
	const char *directory;	     /* of the tree */
};

struct server;

/* Errors (explained): -EADDRINUSE: another process serves it; -EACCES ... */
MUST_CHECK int server_open(struct registry *registry, const struct server_options *options, struct server **server_ret,
			   struct fathom_fault *why);
/* Call it before registry_destroy(). Accepts NULL. */
void server_close(struct server *server);

#endif
