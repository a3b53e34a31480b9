/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spare - requests in place of those that are parked.
 *
 * A block device that does not answer keeps requests that have been answered long since (target/request/parking.c). The
 * host knows nothing of that: its queue has as many entries as ever, and it may use the command identifiers again. So for
 * requests that are parked others are made, a few at a time, when the connection has fewer left than its queue has entries.
 * They stay as long as the connection: parked ones that come back join them. There is a limit, behind which the connection
 * is closed; its host connects again.
 */
#include <stdlib.h>

#include "base/bits.h"
#include "reactor/reactor.h"
#include "wire/conn/internal.h"
#include "wire/conn/probes.gen.h"

enum { SPARE_REQS = 16, SPARE_REQS_MAX = 256 };

static_assert(SPARE_REQS_MAX % SPARE_REQS == 0, "made in whole pieces");
static_assert(TCP_REQS_MAX + (int)SPARE_REQS_MAX <= UINT16_MAX, "a transfer tag for each");

struct tcp_spare {
	struct tcp_req *reqs;
	uint8_t *slots;
	uint16_t first_ttag;
	STAILQ_ENTRY(tcp_spare) link;
};

static void create(struct tcp_conn *conn)
{
	struct tcp_spare *spare = calloc(1, sizeof(*spare));

	if (spare)
		spare->slots = aligned_alloc(4096, round_up((size_t)SPARE_REQS * TCP_SLOT_BYTES, 4096));
	if (!spare || !spare->slots) {
		free(spare);
		tcp_qpair_ops.disconnect(&conn->qpair, "no memory for requests in place of those that devices hold");
		return;
	}
	spare->first_ttag = (uint16_t)(conn->req_count + 1 + conn->spare_count);
	spare->reqs = tcp_reqs_create(conn, SPARE_REQS, spare->first_ttag, spare->slots);
	conn->spare_count += SPARE_REQS;
	STAILQ_INSERT_TAIL(&conn->spares, spare, link);
}

void tcp_req_parked(struct tcp_req *treq, uint64_t now)
{
	struct tcp_conn *conn = treq->conn;

	conn->parked_count++;
	probe_tcp_req_parked(now, &treq->req, conn->parked_count);
	if (conn->state != TCP_CONN_READY || conn->parked_count <= conn->spare_count)
		return;
	if (conn->spare_count < SPARE_REQS_MAX)
		create(conn);
	else
		tcp_qpair_ops.disconnect(&conn->qpair, "devices that do not answer hold too many of its commands");
}

void tcp_req_returned(struct nvmf_req *req, uint64_t now)
{
	struct tcp_req *treq = container_of(req, struct tcp_req, req);
	struct tcp_conn *conn = treq->conn;

	must(req->story.state == NVMF_REQ_FREE);
	must(conn->parked_count > 0);
	conn->parked_count--;
	tcp_req_free(treq, now);
}

struct tcp_req *tcp_conn_spare_at(const struct tcp_conn *conn, uint16_t ttag)
{
	const struct tcp_spare *spare;

	STAILQ_FOREACH (spare, &conn->spares, link) {
		if (ttag >= spare->first_ttag && ttag < spare->first_ttag + SPARE_REQS)
			return &spare->reqs[ttag - spare->first_ttag];
	}
	return NULL;
}

void tcp_conn_free_spares(struct tcp_conn *conn)
{
	struct tcp_spare *spare;

	must(conn->parked_count == 0);
	while ((spare = STAILQ_FIRST(&conn->spares))) {
		STAILQ_REMOVE_HEAD(&conn->spares, link);
		trace_pool_destroy(spare->reqs);
		free(spare->slots);
		free(spare);
	}
}
