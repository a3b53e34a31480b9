/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admission - how many connections there may be, of one address and in all.
 *
 * Control thread. Counts only, no sockets: the listener asks before it hands a connection to a poll group, and is told by a
 * message when that connection is freed. An address has a struct tcp_peer while it has connections.
 *
 * A limit that is reached by connections that never sent a Connect must not keep hosts out for CONNECT_TIMEOUT_MS. So each
 * refusal, at most once a second, makes the poll groups close those that have been silent for longer than
 * HURRIED_TIMEOUT_MS (transport.c, tcp_group_hurry()): of this address where its own limit was reached, else of all.
 */
#ifndef WIRE_CONN_ADMISSION_H
#define WIRE_CONN_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/must.h"
#include "data/wire/conn/states.gen.h"
#include "data/wire/sock/sock.h"

enum {
	TCP_CONNECTIONS_MAX_DEFAULT = 32768, /* and no more than descriptors allow */
	TCP_PEER_BUCKETS = 1024,
};

struct tcp_peer {
	char address[SOCK_ADDRESS_BYTES_MAX];
	uint32_t connection_count;
	uint64_t hurried_ns; /* the last time its silent connections were closed early; 0: never */
	LIST_ENTRY(tcp_peer) link;
};

struct tcp_admission {
	uint32_t connections_max, connections_per_address_max;
	uint32_t connection_count;
	uint64_t hurried_ns; /* likewise, of all */
	LIST_HEAD(, tcp_peer) buckets[TCP_PEER_BUCKETS];
};

/*
 * Begin without connections. 0 stands for the default: of `connections_max` TCP_CONNECTIONS_MAX_DEFAULT, or `admitted_max`
 * (descriptors) where that is less; of `per_address_max` half of connections_max, so that one address never takes them all.
 */
void tcp_admission_init(struct tcp_admission *admission, uint32_t connections_max, uint32_t per_address_max,
			uint32_t admitted_max);

/*
 * Count a connection from `address`. *peer_ret is lent until tcp_admission_leave(). Errors: -EUSERS: all connections are
 * taken; -EDQUOT: those of the address are; -ENOMEM.
 */
MUST_CHECK int tcp_admission_enter(struct tcp_admission *admission, const char *address, struct tcp_peer **peer_ret);
/* A connection that was counted has been freed; the last of an address frees `peer`. */
void tcp_admission_leave(struct tcp_admission *admission, struct tcp_peer *peer);

/*
 * A connection from `address` was refused at `now_ns`. True: close connections that have been silent for long, of `address`
 * if `of_address`, else of all. At most once per second for each.
 */
bool tcp_admission_hurries(struct tcp_admission *admission, const char *address, bool of_address, uint64_t now_ns);

#endif
