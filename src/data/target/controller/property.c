/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * property - the controller's registers, by Property Get and Set.
 *
 *   CC.EN 0 -> 1   enabled at once if CC is valid; else CSTS.CFS
 *   CC.EN 1 -> 0   RESETTING: the I/O queues are disconnected; CSTS.RDY is cleared when they are closed
 *   CC.SHN         SHUTTING: the I/O queues are disconnected; then CSTS.SHST reports complete. Only a change of CC.EN ends
 *                  this state. A write that sets CC.SHN and clears CC.EN disables the controller and shuts it down
 *
 * As NVMe 2.0 requires, it is ready with its media (CAP.CRMS) within the time in CRTO, which is that of CAP.TO.
 */
#include <string.h>

#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"

enum { CC_KNOWN_BITS = 0x00fffff1 };

static uint64_t cap_register(const struct nvmf_ctrlr *ctrlr)
{
	const struct nvmf_transport_options *rules = nvmf_transport_rules();
	uint64_t value = NVME_CAP_MQES(rules->max_queue_depth - 1u) | NVME_CAP_CQR | NVME_CAP_TO(NVMF_CAP_TO_HALF_SECONDS) |
			 NVME_CAP_CSS_NVM | NVME_CAP_CSS_IOCS | NVME_CAP_CRWMS;

	if (ctrlr->subsystem->options.enable_nssr)
		value |= NVME_CAP_NSSRS;
	return value;
}

void nvmf_property_get(struct nvmf_req *req, uint64_t now)
{
	const struct nvme_property_command *cmd = (const struct nvme_property_command *)&req->cmd;
	const struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;
	bool wide = (cmd->attrib & NVME_PROPERTY_SIZE_MASK) == NVME_PROPERTY_8_BYTES;
	enum nvme_status status = NVME_SC_SUCCESS;

	must(req->qpair == ctrlr->admin);
	if ((cmd->attrib & NVME_PROPERTY_SIZE_MASK) > NVME_PROPERTY_8_BYTES)
		status = NVME_SC_INVALID_FIELD;
	else if (cmd->ofst == NVME_PROPERTY_CAP)
		req->cpl.result = wide ? cap_register(ctrlr) : (uint32_t)cap_register(ctrlr);
	else if (cmd->ofst == NVME_PROPERTY_CAP + 4 && !wide)
		req->cpl.result = cap_register(ctrlr) >> 32;
	else if (wide)
		status = NVME_SC_INVALID_FIELD;
	else if (cmd->ofst == NVME_PROPERTY_VS)
		req->cpl.result = NVME_VERSION_2_0;
	else if (cmd->ofst == NVME_PROPERTY_CC)
		req->cpl.result = ctrlr->cc;
	else if (cmd->ofst == NVME_PROPERTY_CSTS)
		req->cpl.result = ctrlr->csts;
	else if (cmd->ofst == NVME_PROPERTY_CRTO)
		req->cpl.result = NVME_CRTO_CRWMT(NVMF_CAP_TO_HALF_SECONDS);
	else if (cmd->ofst == NVME_PROPERTY_NSSR && ctrlr->subsystem->options.enable_nssr)
		req->cpl.result = 0;
	else
		status = NVME_SC_INVALID_FIELD;
	nvmf_req_complete(req, status, now);
}

/* ---- CC ---- */

static bool is_valid_cc(uint32_t cc)
{
	uint32_t css = NVME_CC_GET(cc, CSS);

	return (css == NVME_CC_CSS_NVM || css == NVME_CC_CSS_IOCS) && NVME_CC_GET(cc, MPS) == 0 &&
	       NVME_CC_GET(cc, AMS) == 0;
}

void nvmf_ctrlr_enable(struct nvmf_ctrlr *ctrlr, uint64_t now)
{
	must_be_on(ctrlr->group->thread);
	must(ctrlr->state == NVMF_CTRLR_DISABLED);
	must(ctrlr->cc & NVME_CC_EN);
	must(ctrlr->io_count == 0);
	poller_unregister(&ctrlr->enable_timer);
	if (!is_valid_cc(ctrlr->cc)) {
		nvmf_ctrlr_state_move(now, ctrlr, NVMF_CTRLR_FAILED);
		ctrlr->csts |= NVME_CSTS_CFS;
		return;
	}
	nvmf_ctrlr_state_move(now, ctrlr, NVMF_CTRLR_ENABLED);
	ctrlr->csts = NVME_CSTS_RDY;
}

/* Reset: restores the default features, except the keep-alive time-out, which Connect set. */
static void reset_controller(struct nvmf_ctrlr *ctrlr, uint64_t now)
{
	uint32_t kato = ctrlr->features.kato;

	must_be_on(ctrlr->group->thread);
	must(ctrlr->admin);
	nvmf_ctrlr_state_move(now, ctrlr, NVMF_CTRLR_RESETTING);
	nvmf_ctrlr_abort_events(ctrlr, NVME_SC_ABORTED_BY_REQUEST, now);
	nvmf_features_init(ctrlr);
	ctrlr->features.kato = kato;
	ctrlr->events_pending = 0;
	ctrlr->events_masked = 0;
	ctrlr->changed_ns_count = 0;
	nvmf_ctrlr_disconnect_io(ctrlr, "controller reset");
	nvmf_ctrlr_check(ctrlr);
}

void nvmf_ctrlr_shut(struct nvmf_ctrlr *ctrlr, uint64_t now)
{
	must_be_on(ctrlr->group->thread);
	must(ctrlr->admin);
	nvmf_ctrlr_state_move(now, ctrlr, NVMF_CTRLR_SHUTTING);
	ctrlr->csts |= NVME_CSTS_SHST_OCCURRING << NVME_CSTS_SHST_SHIFT;
	nvmf_ctrlr_disconnect_io(ctrlr, "controller shutdown");
	nvmf_ctrlr_check(ctrlr);
}

static void set_cc(struct nvmf_ctrlr *ctrlr, uint32_t cc, uint64_t now)
{
	bool was_enabled = (ctrlr->cc & NVME_CC_EN) != 0;
	bool enabled = (cc & NVME_CC_EN) != 0;
	bool was_shut = NVME_CC_GET(ctrlr->cc, SHN) != NVME_CC_SHN_NONE;
	bool shutting = NVME_CC_GET(cc, SHN) != NVME_CC_SHN_NONE;

	ctrlr->cc = cc;
	if (was_enabled != enabled) {
		/*
		 * Any other change of EN resets. If EN is set again before the reset has ended, the controller is enabled
		 * then.
		 */
		if (ctrlr->state == NVMF_CTRLR_DISABLED && enabled)
			nvmf_ctrlr_enable(ctrlr, now);
		else if (ctrlr->state != NVMF_CTRLR_DISABLED && ctrlr->state != NVMF_CTRLR_RESETTING)
			reset_controller(ctrlr, now);
	}
	if (!shutting || was_shut)
		return;
	if (ctrlr->state == NVMF_CTRLR_ENABLED || ctrlr->state == NVMF_CTRLR_DISABLED)
		nvmf_ctrlr_shut(ctrlr, now);
	else if (ctrlr->state == NVMF_CTRLR_RESETTING) /* the shutdown starts when the I/O queues are closed */
		ctrlr->csts |= NVME_CSTS_SHST_OCCURRING << NVME_CSTS_SHST_SHIFT;
}

/* NSSR: every controller of the subsystem is disconnected. */
static bool is_any_ctrlr(const struct nvmf_ctrlr *ctrlr, const void *what)
{
	return true;
}

static void ignore_done(void *ctx)
{
}

static void reset_subsystem_on_control(void *ctx)
{
	/* Looked up by id: it may have been destroyed meanwhile. */
	struct nvmf_subsystem *subsystem = nvmf_tgt.by_id[(uintptr_t)ctx];

	if (subsystem)
		nvmf_subsystem_drop_ctrlrs(subsystem, is_any_ctrlr, NULL, "NVM subsystem reset", ignore_done, NULL);
}

void nvmf_property_set(struct nvmf_req *req, uint64_t now)
{
	const struct nvme_property_command *cmd = (const struct nvme_property_command *)&req->cmd;
	struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;
	uint32_t value = (uint32_t)cmd->value;
	enum nvme_status status = NVME_SC_SUCCESS;

	must(req->qpair == ctrlr->admin);
	if ((cmd->attrib & NVME_PROPERTY_SIZE_MASK) != NVME_PROPERTY_4_BYTES) {
		status = NVME_SC_INVALID_FIELD;
	} else if (cmd->ofst == NVME_PROPERTY_CC) {
		if (value & ~(uint32_t)CC_KNOWN_BITS)
			status = NVME_SC_INVALID_FIELD;
		else
			set_cc(ctrlr, value, now);
	} else if (cmd->ofst == NVME_PROPERTY_NSSR && ctrlr->subsystem->options.enable_nssr) {
		if (value == NVME_NSSR_VALUE)
			thread_send_msg(thread_control(), reset_subsystem_on_control,
					(void *)(uintptr_t)ctrlr->subsystem->id);
	} else {
		status = NVME_SC_INVALID_FIELD;
	}
	nvmf_req_complete(req, status, now);
}
