/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * receive - bytes in: decodes a window of bytes into requests.
 *
 * All connections of a group receive into one buffer, so it stays in the cache. The part that cannot be decoded yet is
 * shorter than a header. The connection keeps it in `carry` and copies it in front of the next window. Outstanding data of
 * a large transfer are received directly into their buffer; only the bytes behind them go to the window, whose size
 * window_bytes() limits.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "data/target/request/probes.gen.h"
#include "data/wire/conn/internal.h"
#include "data/wire/conn/probes.gen.h"

enum { DIRECT_BYTES_MIN = 4096 }; /* for less, copying is cheaper than a second iovec in the receive */

static_assert((int)NVMF_IO_BYTES_MAX <= (int)BDEV_ZEROES_BYTES,
	      "reads of zeroes go to bdev_zeroes(), which the backend knows");

static void set_buffer(struct tcp_req *treq, const void *buffer)
{
	treq->req.iov[0] = (struct iovec){ .iov_base = (void *)(uintptr_t)buffer, .iov_len = treq->req.data_bytes };
	treq->req.iov_count = 1;
}

/*
 * Whether the R2T data of a write arrive in one PDU and can be used in the receive buffer, if the window holds them whole.
 */
static bool comes_whole(const struct tcp_req *treq)
{
	return treq->req.inline_done && treq->req.data_bytes <= TCP_H2C_BYTES_MAX && !treq->conn->send_terms.data_digest;
}

/* The connection's count that includes a large write from its R2T until its data have arrived. */
static uint32_t *asked_count(struct tcp_req *treq)
{
	return comes_whole(treq) ? &treq->conn->asked_whole : &treq->conn->asked_pieces;
}

/* The data have a place, or were granted one: request the data of a write, or run the command. */
static void continue_with_buffer(struct tcp_req *treq, uint64_t now)
{
	struct tcp_conn *conn = treq->conn;

	if (treq->req.transfer != NVMF_TRANSFER_H2C) {
		if (treq->share) {
			tcp_req_choose_buffer(treq);
			set_buffer(treq, treq->lent);
		}
		nvmf_req_execute(&treq->req, now);
		return;
	}
	nvmf_req_state_move(now, &treq->req, NVMF_REQ_TRANSFER_IN);
	if (unlikely(conn->state != TCP_CONN_READY))
		return; /* a TermReq is being sent; the data will not arrive */
	probe_tcp_r2t(now | TICK_SHARED, &treq->req, treq->ttag, treq->req.data_bytes);
	if (treq->share)
		(*asked_count(treq))++;
	tcp_kernel_info_begin(treq, now);
	STAILQ_INSERT_TAIL(&conn->r2t, treq, link);
	tcp_conn_want_flush(conn);
}

void tcp_req_got_buffer(struct tcp_req *treq, uint64_t now)
{
	must(!treq->waiting);
	must(treq->share);
	continue_with_buffer(treq, now);
}

/* Start a checked command without in-capsule data: find a place for its data. */
static void start_command(struct tcp_req *treq, uint64_t now)
{
	struct nvmf_req *req = &treq->req;

	must(req->data_bytes <= NVMF_IO_BYTES_MAX);
	if (req->transfer == NVMF_TRANSFER_NONE || req->data_bytes == 0) {
		req->iov_count = 0;
		nvmf_req_execute(req, now);
	} else if (req->transfer == NVMF_TRANSFER_C2H && req->reads_zeroes) {
		set_buffer(treq, bdev_zeroes());
		nvmf_req_execute(req, now);
	} else if (req->data_bytes <= treq->conn->group->slot_bytes) {
		set_buffer(treq, treq->slot);
		continue_with_buffer(treq, now);
	} else if (tcp_req_borrow(treq, now)) {
		continue_with_buffer(treq, now);
	}
}

/*
 * The tick at which work on a command starts: the last one read on this reactor, because earlier commands of the window
 * took time. So the wait for these commands counts as RECEIVED in the command's story, not as time of its device.
 */
static inline uint64_t start_tick(void)
{
	return reactor_tick() | TICK_SHARED;
}

static void on_capsule(struct tcp_conn *conn, const struct pdu_step *step, uint64_t now)
{
	const struct nvme_tcp_capsule_cmd *capsule = (const void *)step->bytes;
	struct tcp_req *treq = likely(conn->qpair.req_count <= conn->qpair.queue_entries) ? tcp_req_get(conn) : NULL;
	enum nvme_status status;

	if (unlikely(!treq)) {
		/* more commands than the queue has entries: the host violates flow control */
		conn->overrun = true;
		tcp_conn_terminate(conn, NVME_TCP_FES_PDU_SEQUENCE_ERROR, 0, step->bytes, step->bytes_count, now);
		return;
	}
	must(treq->req.story.state == NVMF_REQ_FREE);
	must(!treq->lent);
	treq->req.cmd = capsule->command;
	treq->digest_bad = false;
	treq->mark.tick = 0;
	treq->h2c_bytes = 0;
	conn->current = NULL;
	conn->current_at = NULL;
	status = nvmf_req_received(&treq->req, step->data_bytes, now);
	/* the command takes no data, or their length differs from the capsule's */
	if (unlikely(step->data_bytes > 0 && status == NVME_SC_SUCCESS &&
		     (treq->req.transfer != NVMF_TRANSFER_H2C || treq->req.data_bytes != step->data_bytes)))
		status = NVME_SC_DATA_SGL_LENGTH_INVALID;
	if (unlikely(status != NVME_SC_SUCCESS)) {
		nvmf_req_fail(&treq->req, status, now | TICK_SHARED); /* conn->current is NULL, so its data are dropped */
		return;
	}
	if (step->data_bytes == 0)
		start_command(treq, start_tick());
	else
		conn->current = treq;
}

/* The request of an H2CData. NULL: the PDU is invalid, and tcp_conn_terminate() was called. */
static struct tcp_req *find_h2c_req(struct tcp_conn *conn, const struct pdu_step *step, uint64_t now)
{
	const struct nvme_tcp_data *data = (const void *)step->bytes;
	struct tcp_req *treq;
	enum nvme_tcp_fes fes = NVME_TCP_FES_INVALID_HEADER_FIELD;
	uint32_t fei = 0;

	treq = tcp_req_find(conn, data->ttag);
	if (!treq || treq->req.story.state != NVMF_REQ_TRANSFER_IN)
		fei = offsetof(struct nvme_tcp_data, ttag);
	else if (data->cccid != treq->req.cmd.cid)
		fei = offsetof(struct nvme_tcp_data, cccid);
	else if (data->datao != treq->h2c_bytes || data->datal > treq->req.data_bytes - treq->h2c_bytes)
		fes = NVME_TCP_FES_DATA_OUT_OF_RANGE;
	else if ((data->common.flags & NVME_TCP_FLAG_LAST) && data->datao + data->datal != treq->req.data_bytes)
		fei = offsetof(struct nvme_tcp_common, flags);
	else
		return treq;
	tcp_conn_terminate(conn, fes, fei, step->bytes, step->bytes_count, now);
	return NULL;
}

static void on_h2c_data(struct tcp_conn *conn, const struct pdu_step *step, uint64_t now)
{
	struct tcp_req *treq = find_h2c_req(conn, step, now);

	if (!treq)
		return;
	probe_tcp_h2c_data(now, &treq->req, treq->h2c_bytes, step->data_bytes);
	conn->current = treq;
	conn->current_at = treq->h2c_bytes > 0 ? (uint8_t *)treq->req.iov[0].iov_base + treq->h2c_bytes : NULL;
}

static void on_header(struct tcp_conn *conn, const struct pdu_step *step, uint64_t now)
{
	const struct nvme_tcp_term_req *term = (const void *)step->bytes;

	switch (step->type) {
	case NVME_TCP_CAPSULE_CMD:
		on_capsule(conn, step, now);
		break;
	case NVME_TCP_H2C_DATA:
		on_h2c_data(conn, step, now);
		break;
	case NVME_TCP_ICREQ:
		if (tcp_conn_negotiate(conn, (const void *)step->bytes, now) != 0)
			tcp_conn_fail(conn, "out of memory");
		break;
	case NVME_TCP_H2C_TERM_REQ:
		probe_tcp_host_term_req(now, conn, term->fes, term->fei);
		tcp_conn_fail(conn, "the host sent a TermReq");
		break;
	default:
		must(!"a PDU that the decoder lets through");
	}
}

/* The data of the current request are not whole in the window: choose a buffer to collect them. */
static void place_current(struct tcp_conn *conn)
{
	struct tcp_req *treq = conn->current;

	if (treq->share)
		tcp_req_choose_buffer(treq);
	must(treq->lent || treq->req.data_bytes <= conn->group->slot_bytes);
	set_buffer(treq, treq->lent ? treq->lent : treq->slot);
	conn->current_at = treq->req.iov[0].iov_base;
}

static void on_data(struct tcp_conn *conn, const struct pdu_step *step)
{
	struct tcp_req *treq = conn->current;

	if (!treq)
		return;
	if (!conn->current_at) {
		/* comes_whole() excludes digests, so END follows in this window, before the receive buffer is reused */
		if (step->bytes_count == treq->req.data_bytes && comes_whole(treq)) {
			set_buffer(treq, step->bytes);
			return;
		}
		place_current(conn);
	}
	memcpy(conn->current_at + step->data_offset, step->bytes, step->bytes_count);
}

static void on_end(struct tcp_conn *conn, const struct pdu_step *step, uint64_t now)
{
	struct tcp_req *treq = conn->current;

	conn->current = NULL;
	conn->current_at = NULL;
	if (!treq)
		return;
	if (!step->digest_ok) {
		treq->digest_bad = true;
		probe_tcp_data_digest_error(now, &treq->req, step->data_bytes);
	}
	if (step->type == NVME_TCP_H2C_DATA) {
		treq->h2c_bytes += step->data_bytes;
		if (treq->h2c_bytes < treq->req.data_bytes)
			return;
		if (treq->share) {
			must(*asked_count(treq) > 0);
			(*asked_count(treq))--;
		}
	}
	if (unlikely(treq->mark.tick != 0))
		tcp_kernel_info_waited(treq, now);
	if (treq->digest_bad)
		nvmf_req_fail(&treq->req, NVME_SC_TRANSIENT_TRANSPORT_ERROR, start_tick());
	else
		nvmf_req_execute(&treq->req, start_tick());
}

/* Process all PDUs in the window; the rest of it goes to `carry`. */
static void decode_window(struct tcp_conn *conn, const uint8_t *at, size_t bytes, uint64_t now)
{
	struct pdu_step step;

	for (;;) {
		enum pdu_step_kind kind = pdu_step(&conn->decoder, at, bytes, &step);

		must(step.consumed <= bytes || kind == PDU_NEED_MORE);
		if (likely(kind == PDU_HEADER)) {
			on_header(conn, &step, now);
		} else if (kind == PDU_DATA) {
			on_data(conn, &step);
		} else if (kind == PDU_END) {
			on_end(conn, &step, now);
		} else if (kind == PDU_ERROR) {
			tcp_conn_terminate(conn, (enum nvme_tcp_fes)step.fes, step.fei, step.bytes, step.bytes_count, now);
			return;
		}
		at += step.consumed;
		bytes -= step.consumed;
		now |= TICK_SHARED;
		if (kind == PDU_NEED_MORE || conn->state == TCP_CONN_TERMINATING || conn->state == TCP_CONN_CLOSING)
			break;
	}
	if (conn->state == TCP_CONN_TERMINATING || conn->state == TCP_CONN_CLOSING)
		return;
	if (conn->current && !conn->current_at && pdu_data_left(&conn->decoder) > 0)
		place_current(conn); /* the next receive writes the data there directly */
	if (conn->current && pdu_data_left(&conn->decoder) > 0)
		tcp_kernel_info_begin(conn->current, now);
	must(bytes < TCP_CARRY_BYTES);
	conn->carry_bytes = (uint32_t)bytes;
	memcpy(conn->carry, at, bytes);
}

/*
 * The number of bytes to receive into the window. The data of a single large write arrive in pieces, never whole. Those
 * received into the window would have to be copied.
 */
static size_t window_bytes(const struct tcp_conn *conn)
{
	if (conn->asked_pieces > 0 || conn->asked_whole == 1)
		return TCP_RECEIVE_SHORT_BYTES;
	return conn->asked_whole > 0 ? TCP_RECEIVE_PDU_BYTES : TCP_RECEIVE_BYTES;
}

bool tcp_conn_receive(struct tcp_conn *conn)
{
	uint8_t *window = conn->group->receive + TCP_CARRY_BYTES;
	size_t direct = conn->current && conn->current_at ? pdu_data_left(&conn->decoder) : 0;
	struct iovec iov[2];
	int iov_count = 0;
	uint64_t now;
	ssize_t n;

	if (direct >= DIRECT_BYTES_MIN) {
		must(conn->carry_bytes == 0);
		iov[iov_count++] = (struct iovec){ conn->current_at + conn->decoder.data_offset, direct };
	} else {
		direct = 0;
	}
	iov[iov_count++] = (struct iovec){ window, window_bytes(conn) };
	n = conn->sock->ops->receive(conn->sock, iov, iov_count);
	if (n == -EAGAIN)
		return false;
	now = reactor_now();
	if (n <= 0) {
		tcp_conn_fail(conn, n == 0 ? "the host closed the connection" : strerror((int)-n));
		return true;
	}
	if (conn->state == TCP_CONN_TERMINATING)
		return true;
	probe_tcp_receive(now, conn, (uint32_t)n);
	tcp_group_activate(conn->group, conn, now);
	if (direct > 0) {
		direct = min_u64(direct, (uint64_t)n);
		pdu_data_taken(&conn->decoder, iov[0].iov_base, direct);
	}
	memcpy(window - conn->carry_bytes, conn->carry, conn->carry_bytes);
	decode_window(conn, window - conn->carry_bytes, (size_t)n - direct + conn->carry_bytes, now);
	return true;
}
