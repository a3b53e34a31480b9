/* SPDX-License-Identifier: BSD-2-Clause */
/* text - encode and decode values of gRPC in HTTP/2 headers. Pure. */
#ifndef GRPC_TEXT_H
#define GRPC_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum { GRPC_TIMEOUT_BYTES_MAX = 10 }; /* eight digits, a unit, the NUL */

/* Parse "299998m": at most eight digits and one of H M S m u n. Above 100 years: GRPC_NO_DEADLINE. Errors: -EINVAL. */
MUST_CHECK int grpc_timeout_parse(const char *text, uint64_t *ns_ret);
/* Use the smallest unit with at most eight digits. Round up, so that the receiver does not time out too early. */
void grpc_timeout_format(char text[static GRPC_TIMEOUT_BYTES_MAX], uint64_t ns);

/* Copy, with %XX for "%" and for bytes that are not printable ASCII. The copy is cut to `to_bytes`, never inside a %XX. */
void grpc_percent_encode(char *to, size_t to_bytes, const char *from);
/* Bytes that are not part of a valid %XX are copied. `to` needs as many bytes as `from` with its NUL. */
void grpc_percent_decode(char *to, size_t to_bytes, const char *from);

/* Encode without padding, as for `-bin` headers. `to` has GRPC_BASE64_BYTES(bytes). */
#define GRPC_BASE64_BYTES(bytes) (((bytes) + 2) / 3 * 4 + 1)
void grpc_base64_encode(char *to, const uint8_t *from, size_t bytes);
/* Decode with or without padding. `to` has room for 3 bytes per 4 bytes of `from`. Errors: -EINVAL. */
MUST_CHECK int grpc_base64_decode(uint8_t *to, const char *from, size_t *bytes_ret);

#endif
