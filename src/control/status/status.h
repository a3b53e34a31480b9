/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * status - how a fault goes over gRPC, and what the other side makes of the answer.
 *
 *     call_fail(call, &why)                          a server's method ends with a fault
 *     fault_from_result(result, address, &why)       a client's call ended otherwise than well
 *     status_redirect(result, &redirect)             the server says that others have the management service
 *
 * A fault with a code is the status INTERNAL with a google.rpc.ErrorInfo in which all of it stands; one without is UNKNOWN
 * with its text. What comes back equals what was sent. Pure but for the reply; on the light thread of the call.
 */
#ifndef CONTROL_STATUS_STATUS_H
#define CONTROL_STATUS_STATUS_H

#include "base/fault.h"
#include "rpc/grpc/grpc.h"

/* A system without members says so with these words and without a code, as DAOS's clients expect it. */
#define STATUS_UNINITIALIZED "system is uninitialized (storage format required?)"

/* Complete `call` with `why`, whose error is not 0. Borrows. */
void call_fail(struct grpc_call *call, const struct fault *why);

/*
 * What a call to the server at `address` ended with, as a fault; `result` is not GRPC_OK. Of a server's fault that this
 * program has no row for, and of a text without a code, the error is -EREMOTEIO.
 */
void fault_from_result(const struct grpc_result *result, const char *address, struct fault *why_ret);

enum { STATUS_REPLICAS_MAX = 16 };

/* Who has the management service, as a server said that does not have it. */
struct status_redirect {
	char leader[GRPC_ADDRESS_BYTES_MAX]; /* "": not known */
	char replicas[STATUS_REPLICAS_MAX][GRPC_ADDRESS_BYTES_MAX];
	size_t replica_count;
};

/* Complete `call`: this server has no management service, those of `replicas` have one. Borrows. */
void call_fail_not_replica(struct grpc_call *call, const char *const *replicas, size_t replica_count);

/* Errors: -ENOENT (it says nothing of the kind), -EBADMSG (it makes no sense): `redirect_ret` is as before. */
MUST_CHECK int status_redirect(const struct grpc_result *result, struct status_redirect *redirect_ret);

#endif
