/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * send - batch submitted commands, so that a poll sends them with one sendmsg().
 *
 * A batch is a list of pieces: headers, which lie in the batch, and data in the callers' memory. Headers with no data
 * between them form one piece. Commands are encoded into the batch as they are submitted. What does not fit, and R2Ts,
 * wait in a ring, in order. A batch borrows the memory of its writes until all of it was sent; then the next one begins.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "data/initiator/internal.h"

int slot_slice(const struct slot *slot, uint32_t offset, uint32_t bytes_count, struct iovec *to)
{
	int count = 0;

	must((uint64_t)offset + bytes_count <= slot->data_bytes);
	for (int i = 0; i < slot->iov_count && bytes_count > 0; i++) {
		const struct iovec *from = &slot->iov[i];
		uint32_t piece;

		if (offset >= from->iov_len) {
			offset -= (uint32_t)from->iov_len;
			continue;
		}
		piece = (uint32_t)min_u64(from->iov_len - offset, bytes_count);
		to[count].iov_base = (uint8_t *)from->iov_base + offset;
		to[count++].iov_len = piece;
		bytes_count -= piece;
		offset = 0;
	}
	must(bytes_count == 0);
	return count;
}

/* Is there room for one PDU whose data is in at most `pieces` pieces? */
static bool has_room(const struct batch *batch, int pieces)
{
	return batch->bytes_used + PDU_PUT_BYTES_MAX + PDU_DIGEST_BYTES <= BATCH_BYTES &&
	       batch->iov_count + pieces + 2 <= BATCH_IOVS;
}

/* Append the `bytes_count` bytes that the caller wrote at batch->bytes + batch->bytes_used. */
static void add_own(struct batch *batch, size_t bytes_count)
{
	uint8_t *from = batch->bytes + batch->bytes_used;
	struct iovec *last = batch->iov_count > batch->iov_sent ? &batch->iov[batch->iov_count - 1] : NULL;

	must(batch->bytes_used + bytes_count <= BATCH_BYTES);
	if (last && (uint8_t *)last->iov_base + last->iov_len == from) {
		last->iov_len += bytes_count;
	} else {
		must(batch->iov_count < BATCH_IOVS);
		batch->iov[batch->iov_count++] = (struct iovec){ .iov_base = from, .iov_len = bytes_count };
	}
	batch->bytes_used += (uint32_t)bytes_count;
}

/* Append data of `slot`, and its digest. */
static void add_data(struct fathom_qpair *qpair, struct slot *slot, uint32_t offset, uint32_t bytes_count)
{
	struct batch *batch = &qpair->batch;
	struct iovec *to = &batch->iov[batch->iov_count];
	int count = slot_slice(slot, offset, bytes_count, to);

	batch->iov_count += count;
	must(batch->iov_count < BATCH_IOVS);
	slot->batch = batch->number;
	if (qpair->send_terms.data_digest) {
		uint32_t digest = pdu_data_digest(to, count);

		memcpy(batch->bytes + batch->bytes_used, &digest, sizeof(digest));
		add_own(batch, sizeof(digest));
	}
}

static inline void encode_command(struct fathom_qpair *qpair, struct slot *slot, const struct nvme_command *command)
{
	struct batch *batch = &qpair->batch;
	uint32_t bytes_count = slot->in_capsule ? slot->data_bytes : 0;

	must(slot->state == SLOT_QUEUED);
	slot->state = SLOT_SENT;
	add_own(batch, pdu_put_capsule_cmd(&qpair->send_terms, batch->bytes + batch->bytes_used, command, bytes_count));
	if (bytes_count > 0)
		add_data(qpair, slot, 0, bytes_count);
}

/* Encode one H2CData PDU of an R2T. */
static void encode_h2c_data(struct fathom_qpair *qpair, struct slot *slot, struct pending *r2t)
{
	struct batch *batch = &qpair->batch;
	uint32_t bytes_count = (uint32_t)min_u64(r2t->bytes, qpair->maxh2cdata);
	struct pdu_h2c_data data = {
		.cccid = r2t->cid,
		.ttag = r2t->ttag,
		.datao = r2t->offset,
		.datal = bytes_count,
		.last = bytes_count == r2t->bytes,
	};

	must(bytes_count > 0);
	add_own(batch, pdu_put_h2c_data(&qpair->send_terms, batch->bytes + batch->bytes_used, &data));
	add_data(qpair, slot, r2t->offset, bytes_count);
	r2t->offset += bytes_count;
	r2t->bytes -= bytes_count;
}

/* Encode from the ring until it is empty or the batch is full. */
static void fill_batch(struct fathom_qpair *qpair)
{
	while (qpair->pending_head != qpair->pending_tail) {
		struct pending *next = &qpair->pending[qpair->pending_head & qpair->pending_mask];
		struct slot *slot = &qpair->slots[next->cid & (BIT(qpair->cid_shift) - 1)];
		bool is_command = next->bytes == 0;

		if (slot->cid == next->cid && slot->state != SLOT_FREE && slot->state != SLOT_HELD) {
			if (!has_room(&qpair->batch, slot->iov_count))
				return;
			if (is_command) {
				encode_command(qpair, slot, &slot->command);
			} else {
				encode_h2c_data(qpair, slot, next);
				if (next->bytes > 0)
					continue;
				must(slot->r2ts > 0);
				slot->r2ts--;
			}
		} /* else: the controller ended the command before it had all the data that it requested */
		qpair->pending_head++;
	}
}

static struct pending *push_pending(struct fathom_qpair *qpair)
{
	must(qpair->pending_tail - qpair->pending_head <= qpair->pending_mask);
	return &qpair->pending[qpair->pending_tail++ & qpair->pending_mask];
}

void send_command(struct fathom_qpair *qpair, struct slot *slot, const struct nvme_command *command)
{
	if (likely(qpair->pending_head == qpair->pending_tail && qpair->phase == QPAIR_RUNNING &&
		   has_room(&qpair->batch, slot->iov_count))) {
		encode_command(qpair, slot, command);
		return;
	}
	slot->command = *command;
	*push_pending(qpair) = (struct pending){ .cid = slot->cid };
}

void send_r2t(struct fathom_qpair *qpair, const struct pending *r2t)
{
	must(r2t->bytes > 0);
	*push_pending(qpair) = *r2t;
}

void send_raw(struct fathom_qpair *qpair, const uint8_t *bytes, size_t bytes_count)
{
	struct batch *batch = &qpair->batch;

	if (batch->iov_count == BATCH_IOVS || batch->bytes_used + bytes_count > BATCH_BYTES)
		return; /* the peer does not read, so it would not read a TermReq */
	memcpy(batch->bytes + batch->bytes_used, bytes, bytes_count);
	add_own(batch, bytes_count);
}

/* `bytes_count` bytes were sent. */
static void advance_batch(struct batch *batch, size_t bytes_count)
{
	while (bytes_count > 0) {
		struct iovec *first = &batch->iov[batch->iov_sent];

		must(batch->iov_sent < batch->iov_count);
		if (bytes_count < first->iov_len) {
			first->iov_base = (uint8_t *)first->iov_base + bytes_count;
			first->iov_len -= bytes_count;
			return;
		}
		bytes_count -= first->iov_len;
		batch->iov_sent++;
	}
}

static void start_again(struct fathom_qpair *qpair)
{
	struct batch *batch = &qpair->batch;

	batch->number++;
	batch->iov_count = 0;
	batch->iov_sent = 0;
	batch->bytes_used = 0;
	if (unlikely(qpair->held_count > 0))
		qpair_release_held(qpair);
}

void send_flush(struct fathom_qpair *qpair)
{
	struct batch *batch = &qpair->batch;

	for (;;) {
		struct msghdr message = { 0 };
		ssize_t bytes;

		if (qpair->phase == QPAIR_RUNNING)
			fill_batch(qpair);
		if (batch->iov_sent == batch->iov_count)
			return;
		message.msg_iov = &batch->iov[batch->iov_sent];
		message.msg_iovlen = (size_t)(batch->iov_count - batch->iov_sent);
		bytes = sendmsg(qpair->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (bytes < 0) {
			if (errno == EAGAIN || errno == ENOBUFS)
				return;
			if (errno == EINTR)
				continue;
			qpair_lose(qpair, -errno, "sending: %s", strerror(errno));
			return;
		}
		advance_batch(batch, (size_t)bytes);
		if (batch->iov_sent < batch->iov_count)
			return; /* the socket is full */
		start_again(qpair);
	}
}
