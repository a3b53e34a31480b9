/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the commands: a reactor for the time of one command, and a call to the dRPC socket of the running server. */
#ifndef CONTROL_SERVER_COMMAND_INTERNAL_H
#define CONTROL_SERVER_COMMAND_INTERNAL_H

#include "base/reactor/reactor.h"
#include "control/server/command/command.h"
#include "rpc/drpc/drpc.h"

/* ---- run.c ---- */

/*
 * Run a reactor, and in it `start`, until command_end(); returns its error. Once in a process. Errors: those of
 * reactors_start() (explained).
 */
MUST_CHECK int command_run(thread_fn start, struct fathom_fault *why);
/* End command_run() with `error`. `close_clients` is called later, outside of the clients' callbacks. Once. */
void command_end(int error, void (*close_clients)(void));

/* ---- drpc_call.c ---- */

/*
 * Make one call to the running server of this host, in a reactor, and pass its response to `take`, whose result is the
 * result. `request->done` and `ctx` are not used. Errors (explained): of the call.
 */
MUST_CHECK int command_call(const struct server_config *config, const struct drpc_request *request,
			    int (*take)(void *ctx, const ProtobufCMessage *response, struct fathom_fault *why), void *ctx,
			    struct fathom_fault *why);

#endif
