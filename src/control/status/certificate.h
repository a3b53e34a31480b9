/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * certificate - what is wrong with certificates, as faults: their files, and their time. Any thread.
 *
 *     NOT_NEAR -> 30 -> 7 -> 1 -> OVER     days that are left; each is told once, unless the certificate was replaced
 */
#ifndef CONTROL_STATUS_CERTIFICATE_H
#define CONTROL_STATUS_CERTIFICATE_H

#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"
#include "rpc/grpc/tls.h"

/* What grpc_tls_create() of `options` ended with, as a fault with a code where a file is named. Returns its error. */
MUST_CHECK int fault_from_tls(const struct grpc_tls_options *options, int error, const struct fault *said,
			      struct fault *why);

/* Neither the certificate nor its authority's is valid at `now_s`. Errors (explained): certificate_expired, _early. */
MUST_CHECK int certificate_check(const struct grpc_tls *tls, int64_t now_s, struct fault *why);

enum { CERTIFICATE_OVER = 0, CERTIFICATE_NOT_NEAR = -1, CERTIFICATE_DATE_BYTES = 16 };

/* How near its end is: at most 30, 7 or 1 days are left, or one of the two above. */
int certificate_stage(int64_t now_s, int64_t ends_s);
/*
 * The stage that is to be told now, or CERTIFICATE_NOT_NEAR. `told` is the stage that was seen last: CERTIFICATE_NOT_NEAR
 * at first, and after a replacement by itself.
 */
int certificate_step(int *told, int64_t now_s, int64_t ends_s);
/* "2026-12-01", in UTC. Returns `date`, of CERTIFICATE_DATE_BYTES. */
const char *certificate_date(int64_t at_s, char *date);

#endif
