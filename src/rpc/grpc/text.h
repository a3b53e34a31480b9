/* SPDX-License-Identifier: BSD-2-Clause */
/* text - how gRPC writes things into HTTP/2 headers. Pure. */
#ifndef GRPC_TEXT_H
#define GRPC_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

enum { GRPC_TIMEOUT_BYTES_MAX = 10 }; /* eight digits, a unit, the NUL */

/* "299998m" and the like: at most eight digits and one of H M S m u n. -EINVAL. */
MUST_CHECK int grpc_timeout_parse(const char *text, uint64_t *ns_ret);
/* The shortest unit in which it has at most eight digits; rounded up, so that nobody gives up too early. */
void grpc_timeout_format(char text[static GRPC_TIMEOUT_BYTES_MAX], uint64_t ns);

/* %XX for what is no printable ASCII, and for "%". A NUL-terminated copy cut to `to_bytes`, never inside of a %XX. */
void grpc_percent_encode(char *to, size_t to_bytes, const char *from);
/* What is no %XX stays as it is. `to` needs no more bytes than `from` has with its NUL. */
void grpc_percent_decode(char *to, size_t to_bytes, const char *from);

/* Without padding, as gRPC's `-bin` headers are written. `to` has GRPC_BASE64_BYTES(bytes). */
#define GRPC_BASE64_BYTES(bytes) (((bytes) + 2) / 3 * 4 + 1)
void grpc_base64_encode(char *to, const uint8_t *from, size_t bytes);
/* With padding or without. `to` has room for 3 bytes of each 4 that `from` has. -EINVAL. */
MUST_CHECK int grpc_base64_decode(uint8_t *to, const char *from, size_t *bytes_ret);

#endif
