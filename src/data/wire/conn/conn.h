/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn - NVMe/TCP connections: PDUs <-> the target's requests. The transport "TCP".
 *
 *   accept -> [poll group] -> ICReq/ICResp -> capsules, H2CData -> nvmf_req_execute() ... complete() -> C2HData, responses
 *
 * A connection lives on one poll group's thread from acceptance to its end. In each turn that finds bytes it receives once,
 * takes all PDUs out of them, runs the commands, and sends once: R2Ts, then all data, then all responses (hosts complete a
 * whole batch at once only when the responses come together). What a short send leaves goes first in the next.
 *
 * A malformed PDU ends its own connection, with the TermReq that the specification asks for, and nothing else.
 */
#ifndef WIRE_CONN_CONN_H
#define WIRE_CONN_CONN_H

#include <stdint.h>

#include "base/must.h"

struct nvmf_poll_group;
struct sock;
struct tcp_peer;

/* Make the transport known to the target. Control thread, before nvmf_target_start(). */
void tcp_transport_register(void);

/*
 * A connection has come to `group`; on its thread. Takes `sock`. `peer` is lent until the connection is freed, which the
 * control thread learns by a message.
 */
void tcp_conn_accept(struct nvmf_poll_group *group, struct sock *sock, struct tcp_peer *peer);

/*
 * Bytes of data buffers that the hosts of a group share, for each group made from now on; at least one of the largest
 * requests. For the simulator and tests, to run short.
 */
void tcp_transport_limit_buffers(uint64_t fair_bytes);

#endif
