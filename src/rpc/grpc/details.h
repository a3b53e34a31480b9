/* SPDX-License-Identifier: BSD-2-Clause */
/* details - the value of grpc-status-details-bin: a google.rpc.Status with an ErrorInfo, in base64. */
#ifndef GRPC_DETAILS_H
#define GRPC_DETAILS_H

#include <stdint.h>

#include "rpc/proto/rpc.pb-c.h"

/* NULL: out of memory. The caller frees it. */
char *details_encode(int32_t code, const char *message, const Google__Rpc__ErrorInfo *info);
/* NULL: no valid ErrorInfo, or out of memory. Free it with google__rpc__error_info__free_unpacked(). */
Google__Rpc__ErrorInfo *details_decode(const char *text);

#endif
