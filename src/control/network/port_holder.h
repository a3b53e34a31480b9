/* SPDX-License-Identifier: BSD-2-Clause */
/* port_holder - what keeps a TCP port from being listened on: a socket of /proc/net/tcp, and the process that has it. */
#ifndef CONTROL_NETWORK_PORT_HOLDER_H
#define CONTROL_NETWORK_PORT_HOLDER_H

#include <stdint.h>
#include <sys/socket.h>

#include "control/provider/provider.h"

enum { PORT_HOLDER_TEXT_BYTES = 192 };

/*
 * Describe in `text` what has the port of `address` (AF_INET or AF_INET6): the process that listens there, the process that
 * has a connection from there, or a closed connection. A process is named where this user may see its descriptors. Reads
 * /proc and blocks no longer than that takes. Any thread.
 */
void port_holder_describe(struct provider *os, const struct sockaddr_storage *address,
			  char text[static PORT_HOLDER_TEXT_BYTES]);

#endif
