/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * command - commands of fathom-server that the running server of this host carries out.
 *
 * Each runs a reactor; call one of them once in a process.
 */
#ifndef CONTROL_SERVER_COMMAND_COMMAND_H
#define CONTROL_SERVER_COMMAND_COMMAND_H

#include <stdio.h>

#include "control/server/config/address.h"
#include "control/server/config/configuration.h"

/*
 * Ask the server of this host to stop its engines (`is_forced`: to kill them), and write the result of each to `out`.
 * Errors (explained): of the call; -EIO: at least one engine could not be stopped.
 */
MUST_CHECK int server_request_engines_stop(const struct server_config *config, const struct server_places *places,
					   const char *version, bool is_forced, FILE *out, struct fathom_fault *why);

/*
 * Ask the server of this host, which has the database open, to copy it to the absolute path `path`. Errors (explained): no
 * server listens, no database is here, those of db_backup().
 */
MUST_CHECK int server_backup(const struct server_config *config, const char *path, uint64_t *revision_ret,
			     struct fathom_fault *why);

/* A counter; the texts are borrowed for the call. A result other than 0 ends the command and becomes its result. */
typedef int (*server_counter_fn)(void *ctx, const char *group, const char *name, uint64_t value, const char *meaning);
/* Ask the server of this host for its counters, and call `each` for each of them. Errors (explained): of the call. */
MUST_CHECK int server_statistics(const struct server_config *config, server_counter_fn each, void *ctx,
				 struct fathom_fault *why);

/*
 * Ask the server of this host for its condition, a JSON document (docs/control-plane.md), within `timeout_ms`; the caller
 * frees it. Errors (explained): of the call.
 */
MUST_CHECK int server_condition(const struct server_config *config, uint32_t timeout_ms, char **text_ret,
				struct fathom_fault *why);

#endif
