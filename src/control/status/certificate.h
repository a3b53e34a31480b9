/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * certificate - faults about certificate files and their validity. Any thread.
 *
 *     NOT_NEAR -> 30 -> 7 -> 1 -> OVER     days left. Each stage is reported once; a replaced certificate starts again.
 */
#ifndef CONTROL_STATUS_CERTIFICATE_H
#define CONTROL_STATUS_CERTIFICATE_H

#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "rpc/grpc/tls.h"

/*
 * Convert the failure `said` of grpc_tls_create(`options`): a fault with a code if the text names one of the files, else a
 * copy of `said`. `error` is the call's error, below 0. Returns the error of the fault.
 */
MUST_CHECK int fault_from_tls(const struct grpc_tls_options *options, int error, const struct fathom_fault *said,
			      struct fathom_fault *why);

/*
 * Check that both the certificate and its authority's are valid at `now_s`. Errors, with `why`: certificate_expired,
 * certificate_early.
 */
MUST_CHECK int certificate_check(const struct grpc_tls *tls, int64_t now_s, struct fathom_fault *why);

enum { CERTIFICATE_OVER = 0, CERTIFICATE_NOT_NEAR = -1, CERTIFICATE_DATE_BYTES = 16 };

/* The stage at `now_s`: 30, 7 or 1 if at most that many days are left, or one of the two values above. Times in seconds. */
int certificate_stage(int64_t now_s, int64_t ends_s);
/*
 * The stage to report now, or CERTIFICATE_NOT_NEAR if there is none. `told` is the stage at the last call: initially
 * CERTIFICATE_NOT_NEAR, and updated here. A replaced certificate returns it to NOT_NEAR without action of the caller.
 */
int certificate_step(int *told, int64_t now_s, int64_t ends_s);
/* Format "2026-12-01", in UTC. Returns `date`, of CERTIFICATE_DATE_BYTES. */
const char *certificate_date(int64_t at_s, char *date);

#endif
