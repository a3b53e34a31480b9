/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conn - a connection's life cycle.
 *
 * It ends in two steps. The socket is closed and the target notified at once. The memory is freed when the target holds
 * none of its requests any more. The free is deferred by a message, because callers on the stack may still use the
 * connection.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/observe/trace/points.gen.h"
#include "base/reactor/reactor.h"
#include "data/wire/conn/conn.h"
#include "data/wire/conn/internal.h"
#include "data/wire/conn/probes.gen.h"

enum {
	CONNECT_TIMEOUT_MS = 30000,  /* from accept() to an accepted Connect; other PDUs do not extend it */
	HURRIED_TIMEOUT_MS = 3000,   /* the same, while new connections are rejected */
	DATA_TIMEOUT_MS = 10000,     /* for the host to send an R2T's data, or read ours, while others wait for buffers */
	TERMINATE_TIMEOUT_MS = 1000, /* for the host to read a TermReq and close */
};

static uint64_t deadline_in(uint64_t now, uint64_t ms)
{
	return now + clock_ticks_from_ns(ms * NS_PER_MS);
}

/* ---- requests ---- */

static void complete_request(struct nvmf_req *req, uint64_t now)
{
	struct tcp_req *treq = container_of(req, struct tcp_req, req);
	struct tcp_conn *conn = treq->conn;

	must(req->story.state == NVMF_REQ_COMPLETED);
	if (treq->waiting)
		tcp_req_stop_waiting(treq);
	if (conn->current == treq)
		conn->current = NULL;
	if (conn->state != TCP_CONN_READY) {
		tcp_req_release(treq, now);
		return;
	}
	if (unlikely(conn->left_count > 0)) {
		/* the send buffer is full, so the request waits for the socket */
		nvmf_req_sending(req, now | TICK_SHARED);
		tcp_kernel_info_begin(treq, now);
	}
	STAILQ_INSERT_TAIL(&conn->done, treq, link);
	conn->done_count++;
	tcp_conn_want_flush(conn);
	/*
	 * The device is done with the data of a write, so its buffer can be reused before the response is sent. This must
	 * come last: requests that get the buffer may complete at once, and responses must be queued in the order of their
	 * SQHD.
	 */
	if (treq->share && req->transfer == NVMF_TRANSFER_H2C && !req->lent)
		tcp_req_give_back(treq, now);
}

static int allow_requests(struct nvmf_qpair *qpair)
{
	struct tcp_conn *conn = container_of(qpair, struct tcp_conn, qpair);
	struct pdu_limits limits = {
		.in_capsule_bytes_max = qpair->qid == 0 ? TCP_ADMIN_IN_CAPSULE_BYTES : conn->group->in_capsule_bytes,
		.data_bytes_max = TCP_H2C_BYTES_MAX,
	};

	must(conn->tag_count == 1);
	must(qpair->queue_entries > 0 && qpair->queue_entries <= NVMF_QUEUE_ENTRIES_MAX);
	/* one more for the Connect, whose response may not be sent yet */
	tcp_conn_allow_tags(conn, qpair->queue_entries + 1u);
	/* in other states the deadline limits the termination */
	if (conn->state == TCP_CONN_READY)
		conn->deadline = 0;
	pdu_decoder_set_limits(&conn->decoder, &limits);
	return 0;
}

static void close_after_flush(struct nvmf_qpair *qpair, const char *reason)
{
	struct tcp_conn *conn = container_of(qpair, struct tcp_conn, qpair);

	if (conn->closed_by_target || conn->state == TCP_CONN_CLOSING)
		return;
	/* Close at the end of the turn: responses are still sent, and the caller may still use the connection. */
	conn->closed_by_target = true;
	conn->close_reason = trace_intern(reason);
	conn->deadline = deadline_in(reactor_tick(),
				     TERMINATE_TIMEOUT_MS); /* a host that does not read must not keep it open */
	tcp_conn_want_flush(conn);
}

const struct nvmf_qpair_ops tcp_qpair_ops = {
	.complete = complete_request,
	.connected = allow_requests,
	.disconnect = close_after_flush,
	.returned = tcp_req_returned,
};

/* ---- accept and negotiate ---- */

static void handle_ready(void *ctx, bool readable, bool writable)
{
	struct tcp_conn *conn = ctx;

	if (writable && conn->sock)
		tcp_conn_flush(conn);
	if (readable && conn->sock)
		(void)tcp_conn_receive(conn); /* the group's poller receives the rest, and flushes */
}

void tcp_conn_accept(struct nvmf_poll_group *poll_group, struct sock *sock, struct tcp_peer *peer)
{
	struct tcp_group *group = tcp_group_of(poll_group);
	struct tcp_conn *conn = aligned_alloc(CACHE_LINE_BYTES, round_up(sizeof(*conn), CACHE_LINE_BYTES));
	uint64_t now = reactor_now();
	struct nvmf_qpair *qpair;

	must(conn);
	memset(conn, 0, sizeof(*conn));
	qpair = &conn->qpair;
	conn->group = group;
	conn->sock = sock;
	conn->peer = peer;
	conn->c2h_success = group->c2h_success;
	STAILQ_INIT(&conn->done);
	STAILQ_INIT(&conn->sending);
	STAILQ_INIT(&conn->r2t);
	TAILQ_INIT(&conn->shares);
	pdu_decoder_init(&conn->decoder, PDU_SIDE_TARGET);
	trace_object_init(&qpair->trace, TRACE_OBJECT_QPAIR);
	qpair->trace.owner = trace_owner_create(TRACE_OWNER_QPAIR, now, "%s:%s", sock->peer_address, sock->peer_service);
	qpair->ops = &tcp_qpair_ops;
	text_copy(qpair->peer_address, sizeof(qpair->peer_address), sock->peer_address);
	text_copy(qpair->peer_service, sizeof(qpair->peer_service), sock->peer_service);
	text_copy(qpair->local_address, sizeof(qpair->local_address), sock->local_address);
	text_copy(qpair->local_service, sizeof(qpair->local_service), sock->local_service);
	must(tcp_conn_create_tags(conn) == 0);
	conn->deadline = deadline_in(now, CONNECT_TIMEOUT_MS);
	tcp_send_sample_init(conn);
	tcp_conn_state_move(now, conn, TCP_CONN_ACCEPTED);
	probe_tcp_accept(now | TICK_SHARED, conn, trace_intern_foreign(sock->peer_address),
			 (uint32_t)strtoul(sock->peer_service, NULL, 10), group->index);
	nvmf_qpair_open(qpair, poll_group);
	tcp_group_add(group, conn);
	probe_nvmf_transport_poll_group_add(now | TICK_SHARED, qpair, qpair->qid, thread_id(thread_self()));
	if (sock_start(sock, handle_ready, conn) != 0)
		tcp_conn_fail(conn, "cannot watch the socket");
}

int tcp_conn_negotiate(struct tcp_conn *conn, const struct nvme_tcp_icreq *icreq, uint64_t now)
{
	bool header_digest = (icreq->dgst & NVME_TCP_DGST_HEADER) != 0,
	     data_digest = (icreq->dgst & NVME_TCP_DGST_DATA) != 0;
	struct pdu_terms terms = { .header_digest = header_digest, .data_digest = data_digest, .data_align = pdu_align(0) };
	/* limits of an admin queue until the Connect, which has the queue id */
	struct pdu_limits limits = { .in_capsule_bytes_max = TCP_ADMIN_IN_CAPSULE_BYTES,
				     .data_bytes_max = TCP_H2C_BYTES_MAX };

	must(conn->state == TCP_CONN_ACCEPTED);
	must(conn->control_bytes == 0);
	pdu_decoder_start(&conn->decoder, &terms, &limits);
	conn->send_terms = terms;
	conn->send_terms.data_align = pdu_align(icreq->hpda);
	conn->control_bytes = (uint32_t)pdu_put_icresp(conn->control, 0, header_digest, data_digest, TCP_H2C_BYTES_MAX);
	tcp_conn_state_move(now, conn, TCP_CONN_READY);
	tcp_conn_want_flush(conn);
	return 0;
}

/* ---- terminate and close ---- */

/* Release the requests in `queue` without sending them. */
static void release_queue(struct tcp_req_queue *queue, uint64_t now)
{
	struct tcp_req *treq;

	while ((treq = STAILQ_FIRST(queue))) {
		STAILQ_REMOVE_HEAD(queue, link);
		tcp_req_release(treq, now);
	}
}

void tcp_conn_terminate(struct tcp_conn *conn, enum nvme_tcp_fes fes, uint32_t fei, const uint8_t *header,
			size_t header_bytes, uint64_t now)
{
	must(conn->state == TCP_CONN_ACCEPTED || conn->state == TCP_CONN_READY);
	probe_tcp_protocol_error(now, conn, (enum tcp_fes)fes, fei, header_bytes ? header[0] : 0);
	tcp_transport_log_breach(conn, fes);
	conn->control_bytes += (uint32_t)pdu_put_c2h_term_req(conn->control + conn->control_at + conn->control_bytes, fes,
							      fei, header, header_bytes);
	must(conn->control_at + conn->control_bytes <= TCP_CONTROL_BYTES);
	conn->current = NULL;
	conn->deadline = deadline_in(now, TERMINATE_TIMEOUT_MS);
	tcp_conn_state_move(now | TICK_SHARED, conn, TCP_CONN_TERMINATING);
	/* Nothing may be sent after a TermReq. Requests that wait for data are aborted when the connection closes. */
	STAILQ_INIT(&conn->r2t);
	conn->done_count = 0;
	release_queue(&conn->done, now | TICK_SHARED);
	tcp_conn_want_flush(conn);
}

static void free_conn(void *ctx)
{
	struct tcp_conn *conn = ctx;
	uint64_t now = reactor_now();

	must(!conn->sock);
	must(!conn->in_flush);
	tcp_conn_state_move(now, conn, TCP_CONN_NONE);
	probe_nvmf_transport_poll_group_remove(now | TICK_SHARED, &conn->qpair, conn->qpair.qid, thread_id(thread_self()));
	tcp_conn_drop_shares(conn, now);
	tcp_group_remove(conn->group, conn);
	probe_nvmf_transport_qpair_fini(now | TICK_SHARED, &conn->qpair);
	trace_owner_destroy(conn->qpair.trace.owner, now);
	tcp_conn_free_tags(conn);
	free(conn->left);
	thread_send_msg(thread_control(), tcp_transport_peer_left, conn->peer);
	free(conn);
}

static void free_conn_later(void *ctx)
{
	thread_send_msg(thread_self(), free_conn, ctx);
}

void tcp_conn_fail(struct tcp_conn *conn, const char *reason)
{
	uint64_t now = reactor_now();

	if (conn->state == TCP_CONN_CLOSING)
		return;
	conn->qpair.end_reason = trace_intern(reason);
	probe_tcp_close(now, conn, conn->qpair.end_reason);
	now |= TICK_SHARED;
	tcp_conn_state_move(now, conn, TCP_CONN_CLOSING);
	if (conn->in_flush) {
		conn->in_flush = false;
		TAILQ_REMOVE(&conn->group->flush, conn, flush_link);
	}
	if (conn->active) {
		conn->active = false;
		conn->group->active_count--;
		TAILQ_REMOVE(&conn->group->active, conn, active_link);
	}
	conn->sock->ops->close(conn->sock);
	conn->sock = NULL;
	conn->current = NULL;
	conn->deadline = 0;
	conn->left_count = 0;
	tcp_send_sample_end(conn, now);
	conn->done_count = 0;
	release_queue(&conn->done, now);
	release_queue(&conn->sending, now);
	STAILQ_INIT(&conn->r2t); /* the target still holds these; nvmf_qpair_close() aborts them */
	nvmf_qpair_close(&conn->qpair, free_conn_later, conn);
}

void tcp_conn_hurry(struct tcp_conn *conn, uint64_t now)
{
	uint64_t spared = clock_ticks_from_ns((CONNECT_TIMEOUT_MS - HURRIED_TIMEOUT_MS) * NS_PER_MS);
	bool waits = conn->state == TCP_CONN_ACCEPTED || (conn->state == TCP_CONN_READY && conn->tag_count == 1);

	static_assert(HURRIED_TIMEOUT_MS < CONNECT_TIMEOUT_MS, "it is the shorter one");
	if (waits && conn->deadline != 0 && !conn->closed_by_target && now + spared >= conn->deadline)
		tcp_conn_fail(conn, "no Connect yet, and connections are scarce");
}

/* Whether `treq` holds a buffer of the group and has waited for its host for longer than DATA_TIMEOUT_MS. */
static bool holds_buffer_too_long(const struct tcp_req *treq, uint64_t now)
{
	const struct trace_story *story = &treq->req.story;
	uint64_t since = story->ticks[story->state] & ~TICK_SHARED;

	return treq->share && (story->state == NVMF_REQ_TRANSFER_IN || nvmf_req_is_answered(&treq->req)) && now > since &&
	       now - since > clock_ticks_from_ns(DATA_TIMEOUT_MS * NS_PER_MS);
}

bool tcp_conn_hoards(const struct tcp_conn *conn, uint64_t now)
{
	for (uint16_t tag = 0; tag < conn->tag_next; tag++) {
		const struct tcp_req *treq = tcp_req_find(conn, tag);

		if (treq && holds_buffer_too_long(treq, now))
			return true;
	}
	return false;
}

void tcp_conn_check_deadline(struct tcp_conn *conn, uint64_t now)
{
	if (conn->deadline == 0 || now < conn->deadline)
		return;
	if (conn->closed_by_target)
		tcp_conn_fail(conn, conn->close_reason->text);
	else
		tcp_conn_fail(conn, conn->state == TCP_CONN_TERMINATING ? "the host did not close" : "no Connect in time");
}
