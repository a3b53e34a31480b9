/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * status - encode faults as gRPC statuses in the server, and decode them in the client.
 *
 *     call_fail(call, &why)                          a server's method fails
 *     fault_from_result(result, address, &why)       a client's call failed
 *     status_redirect(result, &redirect)             the server names the hosts of the management service
 *
 * A fault with a code is sent as status INTERNAL with a google.rpc.ErrorInfo that holds all of its fields. A fault without
 * a code is sent as UNKNOWN with its text. The client gets the same fault. The functions do no I/O except the reply.
 * Thread: the light thread of the call.
 */
#ifndef CONTROL_STATUS_STATUS_H
#define CONTROL_STATUS_STATUS_H

#include "base/fault.h"
#include "rpc/grpc/grpc.h"

/* The message of a system without members. It has no code, because DAOS's clients compare the text. */
#define STATUS_UNINITIALIZED "system is uninitialized (storage format required?)"

/* Complete `call` with the fault `why`, whose error must not be 0. Borrows `why`. */
void call_fail(struct grpc_call *call, const struct fathom_fault *why);

/*
 * Convert the failed `result` of a call to the server at `address` into a fault. `result` must not be GRPC_OK. The error is
 * -EREMOTEIO for a fault code without a row in this program, and for most statuses without a code.
 */
void fault_from_result(const struct grpc_result *result, const char *address, struct fathom_fault *why_ret);

enum { STATUS_REPLICAS_MAX = 16 };

/* The hosts of the management service, as named by a server that does not run it. */
struct status_redirect {
	char leader[GRPC_ADDRESS_BYTES_MAX]; /* "": unknown */
	char replicas[STATUS_REPLICAS_MAX][GRPC_ADDRESS_BYTES_MAX];
	size_t replica_count;
};

/* Complete `call`: this server does not run the management service, the servers of `replicas` do. Borrows. */
void call_fail_not_replica(struct grpc_call *call, const char *const *replicas, size_t replica_count);

/* Errors: -ENOENT (`result` is no redirect), -EBADMSG (a malformed redirect). `redirect_ret` is untouched then. */
MUST_CHECK int status_redirect(const struct grpc_result *result, struct status_redirect *redirect_ret);

#endif
