/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admission - limits on the number of connections, per address and in all.
 *
 * Control thread. It counts connections and uses no sockets. The listener calls it before it hands a connection to a poll
 * group, and on the message that the connection was freed. An address has a struct tcp_peer while it has connections.
 *
 * Connections without a Connect must not block hosts from a full target for CONNECT_TIMEOUT_MS. So a rejected connection,
 * at most once a second, makes the poll groups close connections silent for HURRIED_TIMEOUT_MS (transport.c,
 * tcp_group_hurry()): those of the address if its own limit was reached, else all.
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
	uint64_t hurried_ns; /* the same for the connections of all addresses */
	LIST_HEAD(, tcp_peer) buckets[TCP_PEER_BUCKETS];
};

/*
 * Start without connections. 0 selects the default: for `connections_max` the lower of TCP_CONNECTIONS_MAX_DEFAULT and
 * `admitted_max` (descriptors); for `per_address_max` half of connections_max, so that one address cannot take all.
 */
void tcp_admission_init(struct tcp_admission *admission, uint32_t connections_max, uint32_t per_address_max,
			uint32_t admitted_max);

/*
 * Count a new connection from `address`. *peer_ret is lent until tcp_admission_leave(). Errors: -EUSERS (limit in all),
 * -EDQUOT (limit of the address), -ENOMEM.
 */
MUST_CHECK int tcp_admission_enter(struct tcp_admission *admission, const char *address, struct tcp_peer **peer_ret);
/* A counted connection was freed. The last one of an address frees `peer`. */
void tcp_admission_leave(struct tcp_admission *admission, struct tcp_peer *peer);

/*
 * A connection from `address` was rejected at `now_ns`. True: close silent connections, those of `address` if `of_address`,
 * else all. True at most once per second, for an address and for all.
 */
bool tcp_admission_hurries(struct tcp_admission *admission, const char *address, bool of_address, uint64_t now_ns);

#endif
