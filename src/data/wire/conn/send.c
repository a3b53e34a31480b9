/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * send - bytes out. The output of a turn is sent in one call: R2Ts first (they bring new data), then data, then responses.
 * Large data are sent in several calls, so that R2Ts and responses of other commands do not wait behind all of them. While
 * the rest of a short send is pending, no new batch is built: the rest points into the memory a new batch would reuse.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "data/wire/conn/internal.h"
#include "data/wire/conn/probes.gen.h"

void tcp_conn_want_flush(struct tcp_conn *conn)
{
	if (conn->in_flush)
		return;
	conn->in_flush = true;
	TAILQ_INSERT_TAIL(&conn->group->flush, conn, flush_link);
}

void tcp_req_release(struct tcp_req *treq, uint64_t now)
{
	if (likely(nvmf_req_sent(&treq->req, now)))
		tcp_req_free(treq, now);
	else
		tcp_req_parked(treq, now);
}

void tcp_req_free(struct tcp_req *treq, uint64_t now)
{
	must(!treq->waiting);
	tcp_req_give_back(treq, now);
	tcp_req_put(treq);
}

/* Whether the command returns data. */
static bool sends_data(const struct tcp_req *treq)
{
	return treq->req.transfer == NVMF_TRANSFER_C2H && treq->req.data_bytes > 0 &&
	       (treq->req.cpl.status >> 1 & NVME_STATUS_MASK) == NVME_SC_SUCCESS;
}

/* Whether the last data PDU replaces the response (SUCCESS flag, C2HData). */
static bool sends_success(const struct tcp_req *treq)
{
	return sends_data(treq) && treq->conn->c2h_success && treq->conn->qpair.flow_control_off &&
	       treq->req.cpl.result == 0;
}

struct batch {
	struct iovec *iov;
	uint32_t iov_count;
	uint64_t bytes;
	uint32_t responses;
};

static void add_piece(struct batch *batch, void *bytes, size_t count)
{
	must(batch->iov_count < TCP_SEND_IOV_MAX);
	batch->iov[batch->iov_count++] = (struct iovec){ bytes, count };
	batch->bytes += count;
}

static void add_r2ts(struct tcp_conn *conn, struct batch *batch)
{
	struct tcp_req *treq;
	size_t used = 0;

	STAILQ_FOREACH (treq, &conn->r2t, link)
		used += pdu_put_r2t(&conn->send_terms, conn->r2ts + used, treq->req.cmd.cid, treq->ttag, 0,
				    treq->req.data_bytes);
	STAILQ_INIT(&conn->r2t);
	if (used)
		add_piece(batch, conn->r2ts, used);
}

static void add_data(struct tcp_conn *conn, struct tcp_req *treq, struct batch *batch)
{
	uint32_t left = treq->req.data_bytes;
	uint8_t flags = NVME_TCP_FLAG_LAST | (sends_success(treq) ? NVME_TCP_FLAG_SUCCESS : 0);
	int count = 0;

	add_piece(batch, treq->header,
		  pdu_put_c2h_data(&conn->send_terms, treq->header, treq->req.cmd.cid, 0, left, flags));
	for (; left > 0; count++) {
		struct iovec *piece = &treq->req.iov[count];

		must(count < treq->req.iov_count);
		piece->iov_len = min_u64(piece->iov_len, left);
		add_piece(batch, piece->iov_base, piece->iov_len);
		left -= (uint32_t)piece->iov_len;
	}
	if (conn->send_terms.data_digest) {
		treq->data_digest = pdu_data_digest(treq->req.iov, count);
		add_piece(batch, &treq->data_digest, sizeof(treq->data_digest));
	}
	treq->send_end = conn->send_position + batch->bytes;
}

/*
 * Add the responses of the first `count` completed requests, and set send_end: the request is released when the stream has
 * been sent up to there. A request answered by its last data PDU must be released at that PDU's end. The host may reuse its
 * queue entry at once, while the rest of this batch still waits.
 */
static void add_responses(struct tcp_conn *conn, struct batch *batch, uint32_t count, uint64_t now)
{
	uint64_t begin = conn->send_position + batch->bytes;
	struct tcp_req_queue answered = STAILQ_HEAD_INITIALIZER(answered);
	struct tcp_req *treq;
	size_t used = 0;

	must(count <= conn->done_count);
	conn->done_count -= count;
	for (; batch->responses < count; batch->responses++) {
		treq = STAILQ_FIRST(&conn->done);
		STAILQ_REMOVE_HEAD(&conn->done, link);
		if (likely(treq->req.story.state == NVMF_REQ_COMPLETED))
			nvmf_req_sending(&treq->req, now);
		now |= TICK_SHARED;
		if (sends_success(treq)) {
			STAILQ_INSERT_TAIL(&conn->sending, treq, link);
			continue;
		}
		used += pdu_put_capsule_resp(&conn->send_terms, conn->responses + used, &treq->req.cpl);
		treq->send_end = begin + used;
		STAILQ_INSERT_TAIL(&answered, treq, link);
	}
	STAILQ_CONCAT(&conn->sending, &answered);
	if (used)
		add_piece(batch, conn->responses, used);
}

/* Save the part of `iov` after the first `sent` bytes for the next send. */
static void save_unsent(struct tcp_conn *conn, const struct iovec *iov, uint32_t count, uint64_t sent)
{
	uint32_t first = 0;

	if (!conn->left) {
		conn->left = malloc(TCP_SEND_IOV_MAX * sizeof(*conn->left));
		must(conn->left);
	}
	while (first < count && sent >= iov[first].iov_len)
		sent -= iov[first++].iov_len;
	must(first < count);
	/* `iov` may point into conn->left itself */
	memmove(conn->left, iov + first, (count - first) * sizeof(*iov));
	conn->left[0].iov_base = (uint8_t *)conn->left[0].iov_base + sent;
	conn->left[0].iov_len -= sent;
	conn->left_first = 0;
	conn->left_count = count - first;
}

static void release_sent(struct tcp_conn *conn, uint64_t now)
{
	struct tcp_req *treq;

	while ((treq = STAILQ_FIRST(&conn->sending)) && treq->send_end <= conn->send_position) {
		STAILQ_REMOVE_HEAD(&conn->sending, link);
		if (unlikely(treq->mark.tick != 0))
			tcp_kernel_info_waited(treq, now);
		tcp_req_release(treq, now);
		now |= TICK_SHARED;
	}
}

/* The send buffer is full: completed requests that are not in the batch move to SENDING, because they wait for it too. */
static void mark_waiting_for_socket(struct tcp_conn *conn, uint64_t now)
{
	struct tcp_req *treq;

	STAILQ_FOREACH (treq, &conn->done, link) {
		if (treq->req.story.state == NVMF_REQ_COMPLETED)
			nvmf_req_sending(&treq->req, now);
		tcp_kernel_info_begin(treq, now);
	}
	STAILQ_FOREACH (treq, &conn->sending, link)
		tcp_kernel_info_begin(treq, now);
}

/* Offer `count` pieces, `bytes` in all, to the socket. */
static void send_pieces(struct tcp_conn *conn, const struct iovec *iov, uint32_t count, uint64_t bytes, uint32_t responses)
{
	bool blocked = conn->left_count > 0;
	ssize_t n = conn->sock->ops->send(conn->sock, iov, (int)count);
	uint64_t now = reactor_now();

	if (n < 0 && n != -EAGAIN) {
		tcp_conn_fail(conn, strerror((int)-n));
		return;
	}
	n = n < 0 ? 0 : n;
	must((uint64_t)n <= bytes);
	conn->send_position += (uint64_t)n;
	probe_tcp_send(now, conn, (uint32_t)n, responses);
	if ((uint64_t)n == bytes) {
		conn->left_count = 0;
		if (blocked)
			conn->sock->ops->want_write(conn->sock, false);
	} else {
		save_unsent(conn, iov, count, (uint64_t)n);
		if (!blocked) {
			probe_tcp_send_blocked(now | TICK_SHARED, conn, bytes - (uint64_t)n);
			mark_waiting_for_socket(conn, now | TICK_SHARED);
			conn->sock->ops->want_write(conn->sock, true);
		}
	}
	release_sent(conn, now | TICK_SHARED);
	if (unlikely(now >= (conn->left_count ? conn->sample.due_blocked : conn->sample.due)))
		tcp_send_sample_begin(conn, now);
}

static void send_left(struct tcp_conn *conn)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < conn->left_count; i++)
		bytes += conn->left[i].iov_len;
	send_pieces(conn, conn->left, conn->left_count, bytes, 0);
}

/* Limit of data bytes in a batch. */
static uint64_t batch_bytes(const struct tcp_conn *conn)
{
	bool others = conn->tags_used > conn->parked_count + conn->done_count;

	return others ? TCP_BATCH_MIXED_BYTES : TCP_BATCH_BYTES;
}

static void send_new(struct tcp_conn *conn)
{
	struct batch batch = { .iov = conn->group->iov };
	uint64_t data_bytes = 0, data_bytes_max = batch_bytes(conn);
	struct tcp_req *treq;
	uint32_t count = 0;

	if (conn->control_bytes)
		add_piece(&batch, conn->control + conn->control_at, conn->control_bytes);
	conn->control_at += conn->control_bytes;
	conn->control_bytes = 0;
	add_r2ts(conn, &batch);
	STAILQ_FOREACH (treq, &conn->done, link) {
		if (count == TCP_BATCH_MAX || data_bytes >= data_bytes_max)
			break;
		count++;
		if (sends_data(treq)) {
			add_data(conn, treq, &batch);
			data_bytes += treq->req.data_bytes;
		}
	}
	if (count > 0)
		add_responses(conn, &batch, count, reactor_now());
	if (batch.bytes)
		send_pieces(conn, batch.iov, batch.iov_count, batch.bytes, batch.responses);
}

static bool has_output(const struct tcp_conn *conn)
{
	return conn->control_bytes > 0 || !STAILQ_EMPTY(&conn->r2t) || !STAILQ_EMPTY(&conn->done);
}

void tcp_conn_flush(struct tcp_conn *conn)
{
	if (conn->in_flush) {
		conn->in_flush = false;
		TAILQ_REMOVE(&conn->group->flush, conn, flush_link);
	}
	if (!conn->sock)
		return;
	if (conn->left_count)
		send_left(conn);
	/* one batch at a time: its responses stay in conn->responses until the socket has accepted them */
	while (conn->sock && conn->left_count == 0 && has_output(conn))
		send_new(conn);
	if (!conn->sock || conn->left_count)
		return;
	if (conn->closed_by_target)
		tcp_conn_fail(conn, conn->close_reason->text);
	else if (conn->state == TCP_CONN_TERMINATING && !conn->close_after_send) {
		conn->close_after_send = true;
		conn->sock->ops->shutdown(conn->sock);
	}
}
