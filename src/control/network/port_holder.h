/* SPDX-License-Identifier: BSD-2-Clause */
/* port_holder - finds the socket that occupies a TCP port in /proc/net/tcp, and its process. */
#ifndef CONTROL_NETWORK_PORT_HOLDER_H
#define CONTROL_NETWORK_PORT_HOLDER_H

#include <stdint.h>
#include <sys/socket.h>

#include "control/provider/provider.h"

enum { PORT_HOLDER_TEXT_BYTES = 192 };

/*
 * Describe in `text` the holder of the port of `address` (AF_INET or AF_INET6): a process that listens there, a process
 * with a connection from there, or a closed connection. A process is named if this user may read its descriptors. Blocks
 * only for reading /proc. Any thread.
 */
void port_holder_describe(struct provider *os, const struct sockaddr_storage *address,
			  char text[static PORT_HOLDER_TEXT_BYTES]);

#endif
