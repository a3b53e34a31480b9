/* SPDX-License-Identifier: BSD-2-Clause */
/* address - numeric addresses with a port, as text and for sockets. Any thread. */
#ifndef GRPC_ADDRESS_H
#define GRPC_ADDRESS_H

#include <sys/socket.h>

#include "base/fault.h"
#include "base/must.h"

/* Read "1.2.3.4:5" or "[::1]:5" into an address for sockets. Errors (explained): -EINVAL. `why` may be NULL. */
MUST_CHECK int grpc_address_parse(const char *text, struct sockaddr_storage *address_ret, socklen_t *bytes_ret,
				  struct fathom_fault *why);

#endif
