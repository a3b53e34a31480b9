/* SPDX-License-Identifier: BSD-2-Clause */
/* details - what goes with an error: an ErrorInfo in a Status in base64, the value of grpc-status-details-bin. */
#ifndef GRPC_DETAILS_H
#define GRPC_DETAILS_H

#include <stdint.h>

#include "rpc/proto/rpc.pb-c.h"

/* NULL: out of memory. To be freed. */
char *details_encode(int32_t code, const char *message, const Google__Rpc__ErrorInfo *info);
/* NULL: there is none. To be freed by google__rpc__error_info__free_unpacked(). */
Google__Rpc__ErrorInfo *details_decode(const char *text);

#endif
