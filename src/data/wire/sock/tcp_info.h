/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp_info - what the kernel knows about a TCP connection. Its own file: <linux/tcp.h> excludes <netinet/tcp.h>. */
#ifndef WIRE_SOCK_TCP_INFO_H
#define WIRE_SOCK_TCP_INFO_H

#include "data/wire/sock/sock.h"

/* Read it for the socket `fd`. False: the connection is gone. */
bool tcp_info_read(int fd, struct sock_info *info_ret);

#endif
