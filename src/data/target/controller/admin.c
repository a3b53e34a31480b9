/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin - dispatches Fabrics commands and commands of the admin queue.
 *
 * Commands that read the subsystem (Identify, Get Log Page) are counted, and wait while it is paused. Others use only the
 * controller and run at any time.
 */
#include "data/nvme/identify.h"
#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"

/* ---- Fabrics ---- */

static uint8_t fabrics_type(const struct nvmf_req *req)
{
	return ((const struct nvme_fabrics_command *)&req->cmd)->fctype;
}

enum nvme_status nvmf_fabrics_received(struct nvmf_req *req, uint32_t capsule_bytes)
{
	const struct nvmf_qpair *qpair = req->qpair;

	if (fabrics_type(req) == NVME_FABRICS_CONNECT) {
		if (qpair->state != NVMF_QPAIR_CONNECTING)
			return NVME_SC_COMMAND_SEQUENCE_ERROR;
		return nvmf_connect_received(req, capsule_bytes);
	}
	if (qpair->state != NVMF_QPAIR_ENABLED)
		return NVME_SC_COMMAND_SEQUENCE_ERROR;
	switch (fabrics_type(req)) {
	case NVME_FABRICS_PROPERTY_GET:
	case NVME_FABRICS_PROPERTY_SET:
		return qpair->qid == 0 ? NVME_SC_SUCCESS : NVME_SC_INVALID_QUEUE_TYPE;
	default:
		return NVME_SC_INVALID_OPCODE;
	}
}

void nvmf_fabrics_execute(struct nvmf_req *req, uint64_t now)
{
	switch (fabrics_type(req)) {
	case NVME_FABRICS_CONNECT:
		nvmf_connect_execute(req, now);
		return;
	case NVME_FABRICS_PROPERTY_GET:
		nvmf_property_get(req, now);
		return;
	case NVME_FABRICS_PROPERTY_SET:
		nvmf_property_set(req, now);
		return;
	default:
		/* refused when it was received */
		must(false);
	}
}

/* ---- admin commands ---- */

/* A discovery controller has few commands. */
static bool is_known_opcode(const struct nvmf_ctrlr *ctrlr, uint8_t opcode)
{
	switch (opcode) {
	case NVME_ADMIN_GET_LOG_PAGE:
	case NVME_ADMIN_IDENTIFY:
	case NVME_ADMIN_SET_FEATURES:
	case NVME_ADMIN_GET_FEATURES:
	case NVME_ADMIN_ASYNC_EVENT_REQUEST:
	case NVME_ADMIN_KEEP_ALIVE:
		return true;
	case NVME_ADMIN_ABORT:
		return !ctrlr->discovery;
	default:
		return false;
	}
}

static enum nvme_status log_page_received(struct nvmf_req *req, uint32_t capsule_bytes)
{
	uint64_t bytes = nvme_log_bytes(req->cmd.cdw10, req->cmd.cdw11);

	if (bytes > req->qpair->io_bytes_max)
		return NVME_SC_INVALID_FIELD;
	return nvmf_req_check_data(req, NVMF_TRANSFER_C2H, (uint32_t)bytes, capsule_bytes, true);
}

enum nvme_status nvmf_admin_received(struct nvmf_req *req, uint32_t capsule_bytes)
{
	const struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;

	must(ctrlr);
	must(req->qpair->qid == 0);
	if (!is_known_opcode(ctrlr, req->cmd.opc))
		return NVME_SC_INVALID_OPCODE;
	/* Before CC.EN is set only Fabrics commands are legal. */
	if (ctrlr->state != NVMF_CTRLR_ENABLED && ctrlr->state != NVMF_CTRLR_SHUT && ctrlr->state != NVMF_CTRLR_SHUTTING)
		return NVME_SC_COMMAND_SEQUENCE_ERROR;
	switch (req->cmd.opc) {
	case NVME_ADMIN_IDENTIFY:
		return nvmf_req_check_data(req, NVMF_TRANSFER_C2H, NVME_IDENTIFY_BYTES, capsule_bytes, true);
	case NVME_ADMIN_GET_LOG_PAGE:
		return log_page_received(req, capsule_bytes);
	case NVME_ADMIN_GET_FEATURES:
		return nvmf_get_features_received(req);
	case NVME_ADMIN_SET_FEATURES:
		return nvmf_set_features_received(req, capsule_bytes);
	default:
		return NVME_SC_SUCCESS;
	}
}

/* Count a command that reads the subsystem. False: the subsystem is paused, and the command waits. */
static bool count_reader(struct nvmf_req *req, uint64_t now)
{
	if (!req->qpair->subsystem->active) {
		nvmf_req_wait(req, now);
		return false;
	}
	nvmf_req_count(req);
	return true;
}

static void keep_alive(struct nvmf_req *req, uint64_t now)
{
	nvmf_ctrlr_keep_alive(req->qpair->ctrlr);
	nvmf_req_complete(req, NVME_SC_SUCCESS, now);
}

void nvmf_admin_execute(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;

	must_be_on(ctrlr->group->thread);
	must(req->qpair == ctrlr->admin);
	if (ctrlr->discovery && ctrlr->features.kato == 0)
		nvmf_ctrlr_keep_alive(ctrlr);
	switch (req->cmd.opc) {
	case NVME_ADMIN_IDENTIFY:
		if (count_reader(req, now))
			nvmf_identify(req, now);
		return;
	case NVME_ADMIN_GET_LOG_PAGE:
		if (count_reader(req, now))
			nvmf_get_log_page(req, now);
		return;
	case NVME_ADMIN_GET_FEATURES:
		nvmf_get_features(req, now);
		return;
	case NVME_ADMIN_SET_FEATURES:
		nvmf_set_features(req, now);
		return;
	case NVME_ADMIN_ASYNC_EVENT_REQUEST:
		nvmf_event_request(req, now);
		return;
	case NVME_ADMIN_ABORT:
		nvmf_abort(req, now);
		return;
	case NVME_ADMIN_KEEP_ALIVE:
		keep_alive(req, now);
		return;
	default:
		/* refused when it was received */
		must(false);
	}
}
