/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn - NVMe/TCP connections: PDUs <-> the target's requests. The transport "TCP".
 *
 *   accept -> [poll group] -> ICReq/ICResp -> capsules, H2CData -> nvmf_req_execute() ... complete() -> C2HData, responses
 *
 * A connection stays on one poll group's thread from accept to close. In each turn with input it receives once, decodes all
 * PDUs, runs the commands, and sends once: R2Ts, then all data, then all responses (hosts complete a batch at once only if
 * the responses arrive together). The rest of a short send goes first in the next send.
 *
 * A malformed PDU ends only its own connection, with the TermReq that the specification requires.
 */
#ifndef WIRE_CONN_CONN_H
#define WIRE_CONN_CONN_H

#include <stdint.h>

#include "base/must.h"
#include "data/wire/conn/states.gen.h" /* enum tcp_refusal */

struct nvmf_poll_group;
struct sock;
struct tcp_peer;

/* Register the transport with the target. Control thread, before nvmf_target_start(). */
void tcp_transport_register(void);

/*
 * Add an accepted connection to `group`, on the group's thread. Takes `sock`. `peer` is lent until the connection is freed;
 * then tcp_transport_peer_left() is sent to the control thread.
 */
void tcp_conn_accept(struct nvmf_poll_group *group, struct sock *sock, struct tcp_peer *peer);

/* Connections that were refused for this reason since the process began. Control thread. */
uint64_t tcp_transport_refused(enum tcp_refusal reason);

/*
 * Set the bytes of data buffers that the hosts of a group share, for groups created afterwards; at least
 * NVMF_IO_BYTES_DEFAULT. The simulator and tests use it to make buffers scarce.
 */
void tcp_transport_limit_buffers(uint64_t fair_bytes);

#endif
