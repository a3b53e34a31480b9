/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server - the UNIX socket of fathom-probed: docs/formats/probed.md.
 *
 * A connection has one request under way; nothing more is read from it until that is answered. One that says nothing for
 * SERVER_SILENT_SEC is closed, and so is one that does not take what it asked for. When all connections are taken, others
 * wait in the socket's queue, and those that say nothing are closed at once; a user has at most SERVER_PER_USER_MAX, root
 * all.
 */
#ifndef PROBED_REGISTER_SERVER_H
#define PROBED_REGISTER_SERVER_H

#include <stdint.h>

#include "base/fault.h"
#include "inspect/probed/register/registry.h"

enum { SERVER_CONNECTIONS_MAX = 512, SERVER_PER_USER_MAX = 128, SERVER_SILENT_SEC = 10 };

struct server_options {
	const char *path;	     /* of the socket; its folder is made if it is not there; lent */
	int fd;			     /* one that is listening already, taken; -1: none */
	uint32_t connections_max;    /* 0: SERVER_CONNECTIONS_MAX */
	uint32_t connections_a_user; /* 0: SERVER_PER_USER_MAX */
	uint64_t silent_ns;	     /* 0: SERVER_SILENT_SEC */
	const char *version;	     /* of the program */
	const char *directory;	     /* of the tree */
};

struct server;

/* Errors (explained): -EADDRINUSE: somebody serves it; -EACCES ... */
MUST_CHECK int server_open(struct registry *registry, const struct server_options *options, struct server **server_ret,
			   struct fathom_fault *why);
/* Before registry_destroy(). Accepts NULL. */
void server_close(struct server *server);

#endif
