/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * receive - receive PDUs, place their data and complete commands.
 *
 * One large recv() takes many PDUs into the window, where they are parsed; their data is copied to the callers' memory.
 * If much of a PDU's data is still to come, recvmsg() receives it in place, and what follows into the window. While PDUs
 * are large, the window takes no more than the head of the next PDU, so almost nothing is copied.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "data/initiator/internal.h"
#include "data/nvme/names.h"
#include "data/nvme/status.h"

/* The peer broke the protocol. Send a TermReq with the reason, and end the connection. */
static void terminate_connection(struct fathom_qpair *qpair, const struct pdu_step *step, enum nvme_tcp_fes fes,
				 uint32_t fei, const char *what)
{
	uint8_t term_req[PDU_TERM_REQ_BYTES_MAX];

	if (qpair->phase == QPAIR_LOST)
		return;
	if (qpair->phase == QPAIR_IC) {
		/* probably no controller, so a TermReq is of no use */
		qpair_lose(qpair, -EPROTO, "it answered with something other than ICResp (%s); is it an NVMe/TCP port?",
			   what);
		return;
	}
	send_raw(qpair, term_req, pdu_put_h2c_term_req(term_req, fes, fei, step->bytes, step->bytes_count));
	qpair->pending_head = qpair->pending_tail;
	send_flush(qpair);
	qpair_lose(qpair, -EPROTO, "the controller broke the protocol: %s (%s, %s)", what,
		   nvme_tcp_pdu_type_name(step->type), nvme_tcp_fes_name((uint16_t)fes));
}

static void refuse_field(struct fathom_qpair *qpair, const struct pdu_step *step, size_t fei, const char *what)
{
	terminate_connection(qpair, step, NVME_TCP_FES_INVALID_HEADER_FIELD, (uint32_t)fei, what);
}

/* ---- One PDU ---- */

static void on_icresp(struct fathom_qpair *qpair, const struct pdu_step *step)
{
	const struct qpair_params *params = &qpair->params;
	struct pdu_limits limits = { .data_bytes_max = INT32_MAX };
	struct pdu_terms terms;
	struct nvme_tcp_icresp resp;

	memcpy(&resp, step->bytes, sizeof(resp));
	terms.header_digest = resp.dgst & NVME_TCP_DGST_HEADER;
	terms.data_digest = resp.dgst & NVME_TCP_DGST_DATA;
	if (terms.header_digest != params->header_digest || terms.data_digest != params->data_digest) {
		qpair_lose(qpair, -EPROTO, "digests: asked for header %s, data %s; the controller answered %s, %s",
			   params->header_digest ? "on" : "off", params->data_digest ? "on" : "off",
			   terms.header_digest ? "on" : "off", terms.data_digest ? "on" : "off");
		return;
	}
	qpair->maxh2cdata = resp.maxh2cdata;
	qpair->send_terms = terms;
	qpair->send_terms.data_align = pdu_align(resp.cpda);
	terms.data_align = pdu_align(params->data_align);
	pdu_decoder_start(&qpair->decoder, &terms, &limits);
	qpair->phase = QPAIR_RUNNING;
}

/* Complete a command with the controller's status, and with errors of our own about its data. */
static void complete_command(struct fathom_qpair *qpair, struct slot *slot, uint16_t status_field, uint64_t result)
{
	struct fathom_completion completion = {
		.status = nvme_status_from_field(status_field),
		.do_not_retry = status_field & NVME_CQE_DNR,
		.result = result,
	};

	if (slot->transfer == NVME_TRANSFER_CONTROLLER_TO_HOST) {
		completion.data_bytes = slot->data_done;
		if (likely(completion.status == NVME_SC_SUCCESS)) {
			if (unlikely(slot->digest_failed)) {
				completion.status = NVME_SC_TRANSIENT_TRANSPORT_ERROR;
				completion.error = -EBADMSG;
			} else if (unlikely(slot->data_done < slot->data_bytes)) {
				completion.error = -ENODATA;
			}
		}
	}
	qpair_complete(qpair, slot, &completion);
}

static inline void on_capsule_resp(struct fathom_qpair *qpair, const struct pdu_step *step)
{
	const struct nvme_tcp_capsule_resp *resp = (const void *)step->bytes;
	struct slot *slot = qpair_find(qpair, resp->completion.cid);

	if (unlikely(!slot)) {
		refuse_field(qpair, step, offsetof(struct nvme_tcp_capsule_resp, completion.cid),
			     "response to a command that is not in flight");
		return;
	}
	complete_command(qpair, slot, resp->completion.status, resp->completion.result);
}

static inline void on_c2h_data(struct fathom_qpair *qpair, const struct pdu_step *step)
{
	const struct nvme_tcp_data *data = (const void *)step->bytes;
	struct slot *slot = qpair_find(qpair, data->cccid);

	if (unlikely(!slot || slot->transfer != NVME_TRANSFER_CONTROLLER_TO_HOST)) {
		refuse_field(qpair, step, offsetof(struct nvme_tcp_data, cccid), "data for no command that reads");
		return;
	}
	if (unlikely(data->datao != slot->data_done)) {
		refuse_field(qpair, step, offsetof(struct nvme_tcp_data, datao), "data out of order");
		return;
	}
	if (unlikely(data->datal > slot->data_bytes - slot->data_done)) {
		terminate_connection(qpair, step, NVME_TCP_FES_DATA_OUT_OF_RANGE, 0, "more data than asked for");
		return;
	}
	must(data->datal == step->data_bytes);
	qpair->data_slot = slot;
	qpair->data_offset = data->datao;
	qpair->data_flags = data->common.flags;
	qpair->receive_limit = step->data_bytes >= RECEIVE_LARGE_BYTES ? RECEIVE_HEAD_BYTES : RECEIVE_BYTES;
}

static void on_r2t(struct fathom_qpair *qpair, const struct pdu_step *step)
{
	const struct nvme_tcp_r2t *r2t = (const void *)step->bytes;
	struct pending pending = { .cid = r2t->cccid, .ttag = r2t->ttag, .offset = r2t->r2to, .bytes = r2t->r2tl };
	struct slot *slot = qpair_find(qpair, r2t->cccid);

	if (!slot || slot->transfer != NVME_TRANSFER_HOST_TO_CONTROLLER || slot->in_capsule) {
		refuse_field(qpair, step, offsetof(struct nvme_tcp_r2t, cccid), "R2T for no command that writes");
		return;
	}
	if ((uint64_t)r2t->r2to + r2t->r2tl > slot->data_bytes || r2t->r2tl > slot->data_bytes - slot->data_done) {
		terminate_connection(qpair, step, NVME_TCP_FES_DATA_OUT_OF_RANGE, 0, "R2T for more data than there is");
		return;
	}
	if (slot->r2ts == qpair->params.r2ts_max) {
		terminate_connection(qpair, step, NVME_TCP_FES_LIMIT_EXCEEDED, 0, "more R2Ts at a time than agreed");
		return;
	}
	slot->r2ts++;
	slot->data_done += r2t->r2tl;
	send_r2t(qpair, &pending);
}

static void on_term_req(struct fathom_qpair *qpair, const struct pdu_step *step)
{
	struct nvme_tcp_term_req req;

	memcpy(&req, step->bytes, sizeof(req));
	if (req.fes == NVME_TCP_FES_INVALID_HEADER_FIELD || req.fes == NVME_TCP_FES_UNSUPPORTED_PARAMETER)
		qpair_lose(qpair, -EPROTO, "the controller ended the connection: %s at byte %u", nvme_tcp_fes_name(req.fes),
			   req.fei);
	else
		qpair_lose(qpair, -EPROTO, "the controller ended the connection: %s", nvme_tcp_fes_name(req.fes));
}

static inline void on_header(struct fathom_qpair *qpair, const struct pdu_step *step)
{
	switch (step->type) {
	case NVME_TCP_CAPSULE_RESP:
		on_capsule_resp(qpair, step);
		return;
	case NVME_TCP_C2H_DATA:
		on_c2h_data(qpair, step);
		return;
	case NVME_TCP_R2T:
		on_r2t(qpair, step);
		return;
	case NVME_TCP_ICRESP:
		on_icresp(qpair, step);
		return;
	case NVME_TCP_C2H_TERM_REQ:
		on_term_req(qpair, step);
		return;
	}
	must(!"a PDU that is not for a host came past the decoder");
}

/* Copy from the window into the caller's memory. */
static inline void on_data(struct fathom_qpair *qpair, const struct pdu_step *step)
{
	const struct slot *slot = qpair->data_slot;
	const uint8_t *from = step->bytes;
	struct iovec to[FATHOM_IOV_MAX];
	int count;

	must(slot);
	if (likely(slot->iov_count == 1)) {
		must(qpair->data_offset + step->data_offset + step->bytes_count <= slot->iov[0].iov_len);
		memcpy((uint8_t *)slot->iov[0].iov_base + qpair->data_offset + step->data_offset, from, step->bytes_count);
		return;
	}
	count = slot_slice(slot, qpair->data_offset + step->data_offset, step->bytes_count, to);
	for (int i = 0; i < count; i++) {
		memcpy(to[i].iov_base, from, to[i].iov_len);
		from += to[i].iov_len;
	}
}

static inline void on_end(struct fathom_qpair *qpair, const struct pdu_step *step)
{
	struct slot *slot = qpair->data_slot;

	must(slot);
	must(step->type == NVME_TCP_C2H_DATA);
	qpair->data_slot = NULL;
	slot->data_done += step->data_bytes;
	if (unlikely(!step->digest_ok))
		slot->digest_failed = true;
	if (qpair->data_flags & NVME_TCP_FLAG_SUCCESS)
		complete_command(qpair, slot, 0, 0);
}

/* ---- The window ---- */

/* Parse the window. The rest, the beginning of a header or a digest, moves to its front. */
static void parse_window(struct fathom_qpair *qpair)
{
	uint32_t begin = qpair->window_begin, end = qpair->window_end;
	struct pdu_step step;

	while (qpair->phase != QPAIR_LOST) {
		enum pdu_step_kind kind = pdu_step(&qpair->decoder, qpair->receive + begin, end - begin, &step);

		begin += step.consumed;
		if (kind == PDU_HEADER) {
			on_header(qpair, &step);
		} else if (kind == PDU_DATA) {
			on_data(qpair, &step);
		} else if (kind == PDU_END) {
			on_end(qpair, &step);
		} else if (kind == PDU_NEED_MORE) {
			break;
		} else {
			terminate_connection(qpair, &step, (enum nvme_tcp_fes)step.fes, step.fei, "a PDU that cannot be");
		}
	}
	must(begin <= end);
	if (begin < end && begin > 0)
		memmove(qpair->receive, qpair->receive + begin, end - begin);
	qpair->window_begin = 0;
	qpair->window_end = end - begin;
}

/* The next `bytes_count` bytes of the current PDU's data were received in place, at `iov`. */
static void account_direct(struct fathom_qpair *qpair, const struct iovec *iov, size_t bytes_count)
{
	for (; bytes_count > 0; iov++) {
		size_t piece = min_u64(bytes_count, iov->iov_len);

		pdu_data_taken(&qpair->decoder, iov->iov_base, piece);
		bytes_count -= piece;
	}
}

/* Receive once. Returns false if the socket has no more bytes, or the connection was lost. */
static bool receive_some(struct fathom_qpair *qpair)
{
	uint32_t left = pdu_data_left(&qpair->decoder), direct = 0, room;
	struct iovec iov[FATHOM_IOV_MAX + 1];
	struct msghdr message = { .msg_iov = iov };
	ssize_t bytes;

	must(qpair->window_end < PDU_WINDOW_BYTES_MIN);
	room = (uint32_t)min_u64(RECEIVE_BYTES - qpair->window_end, qpair->receive_limit);
	if (left >= RECEIVE_DIRECT_BYTES && qpair->data_slot) {
		const struct slot *slot = qpair->data_slot;

		must(qpair->window_end == 0);
		direct = left;
		message.msg_iovlen = (size_t)slot_slice(slot, qpair->data_offset + qpair->decoder.data_offset, left, iov);
	}
	iov[message.msg_iovlen++] = (struct iovec){ .iov_base = qpair->receive + qpair->window_end, .iov_len = room };
	if (direct == 0)
		bytes = recv(qpair->fd, qpair->receive + qpair->window_end, room, MSG_DONTWAIT);
	else
		bytes = recvmsg(qpair->fd, &message, MSG_DONTWAIT);
	if (bytes < 0 && errno == EINTR)
		return true;
	if (bytes < 0 && errno != EAGAIN)
		qpair_lose(qpair, -errno, "receiving: %s", strerror(errno));
	else if (bytes == 0)
		qpair_lose(qpair, -ECONNRESET, "the controller closed the connection");
	if (bytes <= 0)
		return false;
	if (direct > 0)
		account_direct(qpair, iov, min_u64((size_t)bytes, direct));
	if ((size_t)bytes > direct)
		qpair->window_end += (uint32_t)((size_t)bytes - direct);
	parse_window(qpair);
	return (size_t)bytes == (size_t)direct + room;
}

void receive(struct fathom_qpair *qpair)
{
	for (int i = 0; i < RECEIVE_ROUNDS_MAX && receive_some(qpair) && qpair->phase != QPAIR_LOST; i++)
		continue;
}
