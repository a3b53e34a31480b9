/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request - a command's life cycle: received, executed, completed, sent.
 *
 * Direction and length of the data are fixed when the command is received, before any data arrive. The namespace is looked
 * up again when the command executes, because it may have been removed or replaced in between.
 */
#include <stdlib.h>
#include <string.h>

#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"
#include "data/target/request/probes.gen.h"

/* ---- data ---- */

void nvmf_req_get_data(const struct nvmf_req *req, size_t offset, void *to, size_t bytes)
{
	uint8_t *at = to;

	must(req->transfer == NVMF_TRANSFER_H2C);
	must(offset + bytes <= req->data_bytes);
	for (int i = 0; i < req->iov_count && bytes > 0; i++) {
		const struct iovec *iov = &req->iov[i];
		size_t part;

		if (offset >= iov->iov_len) {
			offset -= iov->iov_len;
			continue;
		}
		part = min_u64(iov->iov_len - offset, bytes);
		memcpy(at, (const uint8_t *)iov->iov_base + offset, part);
		at += part;
		bytes -= part;
		offset = 0;
	}
	must(bytes == 0);
}

void nvmf_req_put_data(struct nvmf_req *req, const void *from, size_t bytes)
{
	const uint8_t *at = from;
	size_t left = req->data_bytes;

	must(req->transfer == NVMF_TRANSFER_C2H);
	bytes = min_u64(bytes, left);
	for (int i = 0; i < req->iov_count && left > 0; i++) {
		size_t room = min_u64(req->iov[i].iov_len, left);
		size_t part = min_u64(room, bytes);

		if (part > 0)
			memcpy(req->iov[i].iov_base, at, part);
		memset((uint8_t *)req->iov[i].iov_base + part, 0, room - part);
		at += part;
		bytes -= part;
		left -= room;
	}
	must(left == 0);
}

enum nvme_status nvmf_req_check_data(struct nvmf_req *req, enum nvmf_transfer transfer, uint32_t bytes,
				     uint32_t capsule_bytes, bool longer_ok)
{
	const struct nvme_sgl *sgl = &req->cmd.sgl;

	if (bytes == 0)
		return NVME_SC_SUCCESS;
	must(transfer != NVMF_TRANSFER_NONE);
	if (likely(sgl->id == NVME_SGL_ID_TRANSPORT_DATA_BLOCK)) {
		maybe(capsule_bytes > 0);
	} else if (sgl->id == NVME_SGL_ID_DATA_BLOCK_OFFSET && transfer == NVMF_TRANSFER_H2C) {
		/* ICDOFF is 0, so in-capsule data start at offset 0. */
		if (sgl->address != 0)
			return NVME_SC_SGL_OFFSET_INVALID;
		if (sgl->length > capsule_bytes)
			return NVME_SC_DATA_SGL_LENGTH_INVALID;
	} else {
		return NVME_SC_SGL_TYPE_INVALID;
	}
	if (unlikely(sgl->length != bytes)) {
		if (!longer_ok || sgl->length < bytes || sgl->length > req->qpair->io_bytes_max)
			return NVME_SC_DATA_SGL_LENGTH_INVALID;
	}
	req->transfer = transfer;
	req->data_bytes = sgl->length;
	return NVME_SC_SUCCESS;
}

/* ---- received ---- */

/* Whether the host has more commands than queue entries. Before the Connect completes, one command is allowed. */
static bool exceeds_queue(const struct nvmf_qpair *qpair)
{
	return qpair->req_count > (qpair->queue_entries > 0 ? qpair->queue_entries : 1u);
}

enum nvme_status nvmf_req_received(struct nvmf_req *req, uint32_t capsule_bytes, uint64_t now)
{
	struct nvmf_qpair *qpair = req->qpair;
	const struct nvme_command *cmd = &req->cmd;

	req->story.args[0] = cmd->opc;
	req->story.args[1] = cmd->cid;
	req->story.args[2] = cmd->nsid;
	req->story.args[3] = cmd->cdw10;
	req->story.args[4] = cmd->cdw11;
	req->story.args[5] = cmd->sgl.length;
	nvmf_req_state_move(now, req, NVMF_REQ_RECEIVED);
	TAILQ_INSERT_TAIL(&qpair->reqs, req, link);
	qpair->req_count++;
	qpair->command_count++;
	req->received_tick = now;
	req->cpl.result = 0;
	req->transfer = NVMF_TRANSFER_NONE;
	req->data_bytes = 0;
	req->reads_zeroes = false;
	req->inline_done = false;
	must(!req->lent);
	must(!req->ns);
	if (unlikely(exceeds_queue(qpair))) {
		nvmf_qpair_disconnect(qpair, "more commands than the queue has entries");
		return NVME_SC_COMMAND_SEQUENCE_ERROR;
	}
	if (unlikely(cmd->opc == NVME_OPCODE_FABRICS))
		return nvmf_fabrics_received(req, capsule_bytes);
	if (unlikely(qpair->state != NVMF_QPAIR_ENABLED))
		return NVME_SC_COMMAND_SEQUENCE_ERROR;
	/* NVMe over Fabrics has no PRPs, and this target does not support fused commands. */
	if (unlikely((cmd->flags & (NVME_CMD_PSDT_MASK | NVME_CMD_FUSE_MASK)) != NVME_CMD_PSDT_SGL) &&
	    (cmd->flags & (NVME_CMD_PSDT_MASK | NVME_CMD_FUSE_MASK)) != NVME_CMD_PSDT_SGL_METADATA)
		return NVME_SC_INVALID_FIELD;
	if (likely(qpair->qid != 0))
		return nvmf_io_received(req, capsule_bytes);
	return nvmf_admin_received(req, capsule_bytes);
}

const struct bdev *nvmf_req_bdev(const struct nvmf_req *req)
{
	const struct nvmf_qpair *qpair = req->qpair;
	const struct nvmf_group_ns *ns = NULL;

	if (qpair->qid != 0 && qpair->subsystem && req->cmd.opc != NVME_OPCODE_FABRICS)
		ns = nvmf_group_ns(qpair->subsystem, req->cmd.nsid);
	return ns ? bdev_channel_bdev(ns->channel) : NULL;
}

/* ---- executed ---- */

/* Copy data that lie in the receive buffer, which is reused after the caller returns. False: out of memory. */
static bool keep_data(struct nvmf_req *req)
{
	if (!req->inline_done || req->transfer != NVMF_TRANSFER_H2C)
		return true;
	must(!req->kept_data);
	req->kept_data = malloc(req->data_bytes);
	if (!req->kept_data)
		return false;
	nvmf_req_get_data(req, 0, req->kept_data, req->data_bytes);
	req->iov[0] = (struct iovec){ .iov_base = req->kept_data, .iov_len = req->data_bytes };
	req->iov_count = 1;
	req->inline_done = false;
	return true;
}

void nvmf_req_wait(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_group_subsystem *part = req->qpair->subsystem;

	must(part);
	must(!part->active);
	must(!req->counted);
	if (!keep_data(req)) {
		nvmf_req_complete(req, NVME_SC_COMMAND_INTERRUPTED, now);
		return;
	}
	nvmf_req_state_move(now, req, NVMF_REQ_WAIT_SUBSYSTEM);
	TAILQ_INSERT_TAIL(&part->waiting, req, wait_link);
}

static inline void execute_command(struct nvmf_req *req, uint64_t now)
{
	if (likely(req->qpair->qid != 0) && likely(req->cmd.opc != NVME_OPCODE_FABRICS))
		nvmf_io_execute(req, now);
	else if (req->cmd.opc == NVME_OPCODE_FABRICS)
		nvmf_fabrics_execute(req, now);
	else
		nvmf_admin_execute(req, now);
}

void nvmf_req_execute(struct nvmf_req *req, uint64_t now)
{
	nvmf_req_state_move(now, req, NVMF_REQ_EXECUTING);
	execute_command(req, now);
}

void nvmf_req_go_on(struct nvmf_req *req, uint64_t now)
{
	must(req->story.state == NVMF_REQ_WAIT_SUBSYSTEM);
	nvmf_req_state_move(now, req, NVMF_REQ_EXECUTING);
	execute_command(req, now);
}

/* ---- completed ---- */

/* Whether a retry of the command may succeed. */
static bool is_retryable(enum nvme_status status)
{
	switch (status) {
	case NVME_SC_DATA_TRANSFER_ERROR:
	case NVME_SC_INTERNAL_ERROR:
	case NVME_SC_ABORTED_POWER_LOSS:
	case NVME_SC_ABORTED_BY_REQUEST:
	case NVME_SC_ABORTED_SQ_DELETION:
	case NVME_SC_COMMAND_INTERRUPTED:
	case NVME_SC_TRANSIENT_TRANSPORT_ERROR:
	case NVME_SC_NAMESPACE_NOT_READY:
	case NVME_SC_CONNECT_CONTROLLER_BUSY:
	case NVME_SC_WRITE_FAULT:
	case NVME_SC_UNRECOVERED_READ_ERROR:
		return true;
	default:
		return nvme_status_type((uint16_t)status) == NVME_SCT_PATH;
	}
}

/* The sub-command of an opcode that has several: CNS, LID, FID or fctype; else 0. */
static COLD uint8_t sub_command(const struct nvmf_req *req)
{
	const struct nvme_command *cmd = &req->cmd;

	if (cmd->opc == NVME_OPCODE_FABRICS)
		return ((const struct nvme_fabrics_command *)cmd)->fctype;
	if (req->qpair->qid != 0)
		return 0;
	switch (cmd->opc) {
	case NVME_ADMIN_IDENTIFY:
		return cmd->cdw10 & NVME_IDENTIFY_CDW10_CNS_MASK;
	case NVME_ADMIN_GET_LOG_PAGE:
		return cmd->cdw10 & NVME_LOG_CDW10_LID_MASK;
	case NVME_ADMIN_SET_FEATURES:
	case NVME_ADMIN_GET_FEATURES:
		return cmd->cdw10 & NVME_FEATURE_CDW10_FID_MASK;
	default:
		return 0;
	}
}

static COLD void set_failed(struct nvmf_req *req, enum nvme_status status, uint64_t now)
{
	struct nvmf_qpair *qpair = req->qpair;

	/* The device may still execute a command that was given up. A retry would execute it twice, so DNR is set. */
	req->cpl.status = nvme_status_field((uint16_t)status, req->lent || !is_retryable(status));
	if (req->transfer == NVMF_TRANSFER_C2H)
		req->data_bytes = 0;
	probe_nvmf_command_failed(now, qpair, req->cmd.cid, req->cmd.opc, sub_command(req), (uint16_t)status);
	nvmf_ctrlr_note_error(qpair, req, status);
}

COLD void nvmf_req_release_kept(struct nvmf_req *req)
{
	free(req->kept_data);
	req->kept_data = NULL;
}

/* SQHD without flow control: FFFFh in the response to Connect, reserved in others. */
static COLD uint16_t reserved_head(const struct nvmf_req *req)
{
	const struct nvme_fabrics_command *cmd = (const struct nvme_fabrics_command *)&req->cmd;

	return cmd->opc == NVME_OPCODE_FABRICS && cmd->fctype == NVME_FABRICS_CONNECT ? UINT16_MAX : 0;
}

/* Advance the submission queue head by one completed command. Returns SQHD of the response. */
static inline uint16_t next_head(const struct nvmf_req *req)
{
	struct nvmf_qpair *qpair = req->qpair;
	uint16_t head = (uint16_t)(qpair->sq_head + 1);

	if (unlikely(head >= qpair->queue_entries))
		head = 0;
	qpair->sq_head = head;
	return unlikely(qpair->flow_control_off) ? reserved_head(req) : head;
}

static_assert((int)NVMF_TIMED_WRITE == (int)NVME_NVM_WRITE, "the opcode is the index");
static_assert((int)NVMF_TIMED_READ == (int)NVME_NVM_READ, "likewise");

static inline void count_success(const struct nvmf_req *req, uint64_t now)
{
	struct nvmf_qpair *qpair = req->qpair;
	uint64_t from = req->received_tick & ~TICK_SHARED, to = now & ~TICK_SHARED;
	struct nvmf_time *time = &qpair->times[req->cmd.opc < NVMF_TIMED_MAX ? req->cmd.opc : NVMF_TIMED_OTHER];

	qpair->data_bytes[req->transfer] += req->data_bytes;
	time->ops++;
	time->ticks += to > from ? to - from : 0;
}

void nvmf_req_complete(struct nvmf_req *req, enum nvme_status status, uint64_t now)
{
	struct nvmf_qpair *qpair = req->qpair;
	struct nvmf_group_subsystem *part = NULL;
	struct nvmf_group_ns *ns = req->ns;

	if (likely(req->counted)) {
		part = qpair->subsystem;
		must(part->outstanding > 0);
		part->outstanding--;
		req->counted = false;
	}
	if (likely(!req->lent))
		req->ns = NULL;
	req->cpl.cid = req->cmd.cid;
	req->cpl.sqid = qpair->qid;
	req->cpl.sqhd = next_head(req);
	req->cpl.status = 0;
	if (unlikely(status != NVME_SC_SUCCESS))
		set_failed(req, status, now);
	else
		count_success(req, now);
	if (unlikely(req->kept_data && !req->lent))
		nvmf_req_release_kept(req);
	nvmf_req_state_move(now, req, NVMF_REQ_COMPLETED);
	qpair->ops->complete(req, now);
	/* This must follow complete(), which may end other commands: the last one ending releases the namespace. */
	if (likely(ns)) {
		must(ns->outstanding > 0);
		ns->outstanding--;
		if (unlikely(ns->state != NVMF_GROUP_NS_ACTIVE))
			nvmf_group_ns_check(ns);
	}
	if (unlikely(part && !part->active))
		nvmf_group_subsystem_check(part);
}

void nvmf_req_fail(struct nvmf_req *req, enum nvme_status status, uint64_t now)
{
	must(status != NVME_SC_SUCCESS);
	must(!req->counted);
	if (req->story.state == NVMF_REQ_WAIT_SUBSYSTEM)
		TAILQ_REMOVE(&req->qpair->subsystem->waiting, req, wait_link);
	must(req->story.state != NVMF_REQ_EXECUTING);
	must(req->story.state != NVMF_REQ_WAIT_EVENT);
	nvmf_req_complete(req, status, now);
}

void nvmf_req_sending(struct nvmf_req *req, uint64_t now)
{
	nvmf_req_state_move(now, req, NVMF_REQ_SENDING);
}

bool nvmf_req_sent(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_qpair *qpair = req->qpair;
	bool parked = req->lent;

	TAILQ_REMOVE(&qpair->reqs, req, link);
	must(qpair->req_count > 0);
	qpair->req_count--;
	if (unlikely(parked))
		nvmf_req_park(req, now);
	else
		nvmf_req_state_move(now, req, NVMF_REQ_FREE);
	if (unlikely(qpair->closed && qpair->req_count == 0))
		nvmf_qpair_drained(qpair);
	return !parked;
}
