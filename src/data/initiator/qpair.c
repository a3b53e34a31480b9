/* SPDX-License-Identifier: BSD-2-Clause */
/* qpair - a queue pair from creation to its end: slots, submission, completion, polling, loss. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "data/initiator/internal.h"
#include "data/nvme/opcode.h"
#include "data/nvme/status.h"

static void destroy_qpair(struct fathom_qpair *qpair)
{
	if (qpair->fd >= 0)
		close(qpair->fd);
	free(qpair->slots);
	free(qpair->free);
	free(qpair->pending);
	free(qpair);
}

static int allocate_slots(struct fathom_qpair *qpair, uint32_t depth, uint32_t r2ts_max)
{
	uint32_t ring = (uint32_t)round_up_power_of_two((uint64_t)depth * (r2ts_max + 1));

	qpair->slots = calloc(depth, sizeof(*qpair->slots));
	qpair->free = calloc(depth, sizeof(*qpair->free));
	qpair->pending = calloc(ring, sizeof(*qpair->pending));
	if (!qpair->slots || !qpair->free || !qpair->pending)
		return -ENOMEM;
	qpair->pending_mask = ring - 1;
	for (uint32_t i = 0; i < depth; i++) {
		qpair->slots[i].cid = (uint16_t)i;
		qpair->free[i] = (uint16_t)(depth - 1 - i);
	}
	qpair->free_count = depth;
	while (BIT(qpair->cid_shift) < depth)
		qpair->cid_shift++;
	return 0;
}

int qpair_open(int fd, const struct qpair_params *params, struct fathom_qpair **qpair_ret)
{
	struct fathom_qpair *qpair = NULL;
	uint8_t icreq[PDU_PUT_BYTES_MAX];
	size_t icreq_bytes;

	must(fd >= 0);
	must(params->depth > 0 && params->depth <= FATHOM_DEPTH_MAX);
	must(params->r2ts_max > 0 && params->r2ts_max <= FATHOM_R2TS_MAX);
	if (posix_memalign((void **)&qpair, 4096, sizeof(*qpair)) != 0) {
		close(fd);
		return -ENOMEM;
	}
	memset(qpair, 0, sizeof(*qpair));
	qpair->fd = fd;
	qpair->params = *params;
	if (allocate_slots(qpair, params->depth, params->r2ts_max) != 0) {
		destroy_qpair(qpair);
		return -ENOMEM;
	}
	qpair->phase = QPAIR_IC;
	qpair->batch.number = 1;
	qpair->receive_limit = RECEIVE_BYTES;
	if (params->timeout_ms > 0)
		qpair->timeout_ticks = clock_ticks_from_ns(params->timeout_ms * NS_PER_MS);
	pdu_decoder_init(&qpair->decoder, PDU_SIDE_HOST);
	icreq_bytes = pdu_put_icreq(icreq, params->data_align, params->header_digest, params->data_digest,
				    params->r2ts_max - 1);
	send_raw(qpair, icreq, icreq_bytes);
	*qpair_ret = qpair;
	return 0;
}

/* ---- Slots ---- */

static uint16_t slot_index(const struct fathom_qpair *qpair, const struct slot *slot)
{
	return (uint16_t)(slot - qpair->slots);
}

struct slot *qpair_find(struct fathom_qpair *qpair, uint16_t cid)
{
	uint32_t index = cid & (uint32_t)(BIT(qpair->cid_shift) - 1);
	struct slot *slot = &qpair->slots[index];

	if (unlikely(index >= qpair->params.depth || slot->cid != cid || slot->state != SLOT_SENT))
		return NULL;
	return slot;
}

/* Free the slot before the callback, which may submit a command. */
static void call_back(struct fathom_qpair *qpair, struct slot *slot, const struct fathom_completion *completion)
{
	fathom_done_fn done = slot->done;
	void *ctx = slot->ctx;

	must(slot->state != SLOT_FREE);
	must(qpair->free_count < qpair->params.depth);
	slot->state = SLOT_FREE;
	slot->cid = (uint16_t)(slot->cid + BIT(qpair->cid_shift)); /* of the next use */
	qpair->free[qpair->free_count++] = slot_index(qpair, slot);
	qpair->ended++;
	done(ctx, completion);
}

void qpair_complete(struct fathom_qpair *qpair, struct slot *slot, const struct fathom_completion *completion)
{
	must(slot->state == SLOT_SENT);
	must(slot != qpair->data_slot);
	if (unlikely(slot->batch == qpair->batch.number)) {
		slot->completion = *completion;
		slot->state = SLOT_HELD;
		qpair->held_count++;
		return;
	}
	call_back(qpair, slot, completion);
}

void qpair_release_held(struct fathom_qpair *qpair)
{
	for (uint32_t i = 0; i < qpair->params.depth && qpair->held_count > 0; i++) {
		struct slot *slot = &qpair->slots[i];

		if (slot->state == SLOT_HELD && slot->batch < qpair->batch.number) {
			struct fathom_completion completion = slot->completion;

			qpair->held_count--;
			call_back(qpair, slot, &completion);
		}
	}
}

/* ---- Submitting ---- */

static uint8_t transfer_of(const struct nvme_command *command)
{
	uint8_t fctype = (uint8_t)command->nsid; /* byte 4 of a Fabrics command */

	return nvme_opcode_transfer(command->opc == NVME_OPCODE_FABRICS ? fctype : command->opc);
}

/* Set the SGL of NVMe/TCP: data in the capsule, or in PDUs of their own. */
static inline void set_sgl(const struct fathom_qpair *qpair, struct slot *slot, struct nvme_command *command)
{
	slot->in_capsule = slot->data_bytes > 0 && slot->transfer == NVME_TRANSFER_HOST_TO_CONTROLLER &&
			   slot->data_bytes <= qpair->params.in_capsule_bytes;
	command->flags = (uint8_t)((command->flags & ~NVME_CMD_PSDT_MASK) | NVME_CMD_PSDT_SGL);
	command->sgl = (struct nvme_sgl){
		.length = slot->data_bytes,
		.id = slot->in_capsule ? NVME_SGL_ID_DATA_BLOCK_OFFSET : NVME_SGL_ID_TRANSPORT_DATA_BLOCK,
	};
}

int qpair_submit(struct fathom_qpair *qpair, struct nvme_command *command, const struct iovec *iov, int iov_count,
		 fathom_done_fn done, void *ctx)
{
	uint64_t data_bytes = 0;
	struct slot *slot;

	must(done);
	if (unlikely(qpair->phase == QPAIR_LOST))
		return -ENOTCONN;
	if (unlikely(qpair->free_count == 0))
		return -EAGAIN;
	if (unlikely(iov_count < 0 || iov_count > FATHOM_IOV_MAX))
		return -EINVAL;
	for (int i = 0; i < iov_count; i++)
		data_bytes += iov[i].iov_len;
	if (unlikely(data_bytes > INT32_MAX))
		return -EINVAL;
	slot = &qpair->slots[qpair->free[--qpair->free_count]];
	must(slot->state == SLOT_FREE);
	slot->done = done;
	slot->ctx = ctx;
	slot->iov = iov;
	slot->iov_count = iov_count;
	slot->data_bytes = (uint32_t)data_bytes;
	slot->data_done = 0;
	slot->state = SLOT_QUEUED;
	slot->transfer = transfer_of(command);
	slot->digest_failed = false;
	slot->r2ts = 0;
	slot->batch = 0;
	slot->seen_tick = 0;
	command->cid = slot->cid;
	set_sgl(qpair, slot, command);
	send_command(qpair, slot, command);
	return 0;
}

int fathom_submit(struct fathom_qpair *qpair, const void *command, const struct iovec *iov, int iov_count,
		  fathom_done_fn done, void *ctx)
{
	struct nvme_command copy;

	memcpy(&copy, command, sizeof(copy));
	return qpair_submit(qpair, &copy, iov, iov_count, done, ctx);
}

/* ---- The end ---- */

void qpair_lose(struct fathom_qpair *qpair, int error, const char *format, ...)
{
	va_list args;

	must(error < 0);
	if (qpair->phase == QPAIR_LOST)
		return;
	qpair->phase = QPAIR_LOST;
	qpair->data_slot = NULL;
	qpair->fault.error = error;
	va_start(args, format);
	vsnprintf(qpair->fault.text, sizeof(qpair->fault.text), format, args);
	va_end(args);
	/* What the socket still holds (a TermReq perhaps) is sent. destroy_qpair() closes it. */
	(void)shutdown(qpair->fd, SHUT_WR);
}

/* Call back for every command. A callback cannot submit another one, so this ends. */
static void end_all(struct fathom_qpair *qpair)
{
	struct fathom_completion completion = { .error = qpair->fault.error, .status = NVME_SC_HOST_PATH_ERROR };

	must(qpair->phase == QPAIR_LOST);
	qpair->held_count = 0;
	qpair->pending_head = qpair->pending_tail;
	for (uint32_t i = 0; i < qpair->params.depth && qpair->free_count < qpair->params.depth; i++) {
		if (qpair->slots[i].state != SLOT_FREE)
			call_back(qpair, &qpair->slots[i], &completion);
	}
	must(qpair->free_count == qpair->params.depth);
}

void fathom_qpair_abort(struct fathom_qpair *qpair)
{
	must(!qpair->polling);
	qpair_lose(qpair, -ECANCELED, "the queue pair was given up");
}

void fathom_qpair_destroy(struct fathom_qpair *qpair)
{
	if (!qpair)
		return;
	must(!qpair->polling);
	qpair_lose(qpair, -ECANCELED, "the queue pair was destroyed");
	qpair->polling = true;
	end_all(qpair);
	destroy_qpair(qpair);
}

/* ---- Polling ---- */

/* Lose the connection if a command takes too long. A command's age counts from the first scan that sees it. */
static void scan_for_timeouts(struct fathom_qpair *qpair)
{
	uint64_t now = clock_ticks();

	if (likely(now - qpair->scan_tick < clock_tick_rate() / 1000 * TIMEOUT_SCAN_MS))
		return;
	qpair->scan_tick = now;
	for (uint32_t i = 0; i < qpair->params.depth; i++) {
		struct slot *slot = &qpair->slots[i];

		if (slot->state == SLOT_FREE)
			continue;
		if (slot->seen_tick == 0)
			slot->seen_tick = now;
		else if (now - slot->seen_tick > qpair->timeout_ticks)
			qpair_lose(qpair, -ETIMEDOUT, "command %u had no answer for %u ms", slot->cid,
				   qpair->params.timeout_ms);
	}
}

int fathom_qpair_poll(struct fathom_qpair *qpair)
{
	must(!qpair->polling);
	qpair->polling = true;
	qpair->ended = 0;
	if (likely(qpair->phase != QPAIR_LOST))
		send_flush(qpair);
	if (likely(qpair->phase != QPAIR_LOST))
		receive(qpair);
	if (likely(qpair->phase != QPAIR_LOST))
		send_flush(qpair);
	if (qpair->timeout_ticks && likely(qpair->phase != QPAIR_LOST))
		scan_for_timeouts(qpair);
	if (unlikely(qpair->phase == QPAIR_LOST))
		end_all(qpair);
	qpair->polling = false;
	return qpair->phase == QPAIR_LOST ? qpair->fault.error : (int)qpair->ended;
}

void fathom_qpair_wait(const struct fathom_qpair *qpair, int timeout_ms)
{
	struct pollfd item = { .fd = qpair->fd, .events = POLLIN };

	if (qpair->phase == QPAIR_LOST)
		return;
	if (fathom_qpair_wants_to_send(qpair))
		item.events |= POLLOUT;
	/* After an interrupted or failed poll(2) the caller polls the queue pair and waits again. */
	(void)poll(&item, 1, timeout_ms);
}

/* ---- State ---- */

uint32_t fathom_qpair_depth(const struct fathom_qpair *qpair)
{
	return qpair->params.depth;
}

uint32_t fathom_qpair_in_flight(const struct fathom_qpair *qpair)
{
	return qpair->params.depth - qpair->free_count;
}

int fathom_qpair_fd(const struct fathom_qpair *qpair)
{
	return qpair->fd;
}

bool fathom_qpair_wants_to_send(const struct fathom_qpair *qpair)
{
	return qpair->phase != QPAIR_LOST && !send_is_idle(qpair);
}

const struct fathom_fault *fathom_qpair_fault(const struct fathom_qpair *qpair)
{
	return &qpair->fault;
}
