/* SPDX-License-Identifier: BSD-2-Clause */
/* controller - a controller's life cycle: keep-alive, removal of queues, end of the association. */
#include <stdlib.h>
#include <string.h>

#include "data/target/controller/controller.h"
#include "data/target/controller/host_log.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"

/* ---- messages ---- */

struct ctrlr_msg {
	struct nvmf_ctrlr *ctrlr;
	struct nvmf_qpair *qpair;
	struct nvmf_poll_group *group;
	const char *reason;
	enum nvmf_event event;
	uint32_t nsid;
	struct nvme_log_error error;
	uint32_t errors_untold;
};

static struct ctrlr_msg *create_message(struct nvmf_ctrlr *ctrlr)
{
	struct ctrlr_msg *msg = nvmf_alloc(sizeof(*msg));

	msg->ctrlr = ctrlr;
	return msg;
}

static void drop_on_ctrlr_thread(void *ctx)
{
	struct ctrlr_msg *msg = ctx;

	nvmf_ctrlr_disconnect_all(msg->ctrlr, msg->reason);
	free(msg);
}

void nvmf_ctrlr_drop(struct nvmf_ctrlr *ctrlr, const char *reason)
{
	struct ctrlr_msg *msg = create_message(ctrlr);

	must_be_on(thread_control());
	msg->reason = reason;
	thread_send_msg(ctrlr->group->thread, drop_on_ctrlr_thread, msg);
}

static void send_event_on_ctrlr_thread(void *ctx)
{
	struct ctrlr_msg *msg = ctx;

	nvmf_ctrlr_event(msg->ctrlr, msg->event, msg->nsid);
	free(msg);
}

void nvmf_ctrlr_send_event(struct nvmf_ctrlr *ctrlr, enum nvmf_event event, uint32_t nsid)
{
	struct ctrlr_msg *msg = create_message(ctrlr);

	must_be_on(thread_control());
	msg->event = event;
	msg->nsid = nsid;
	thread_send_msg(ctrlr->group->thread, send_event_on_ctrlr_thread, msg);
}

struct nvmf_ctrlr *nvmf_ctrlr_find(const struct nvmf_subsystem *subsystem, uint16_t cntlid)
{
	struct nvmf_ctrlr *ctrlr;

	TAILQ_FOREACH (ctrlr, &subsystem->ctrlrs, link) {
		if (ctrlr->cntlid == cntlid)
			return ctrlr;
	}
	return NULL;
}

/* ---- queues ---- */

void nvmf_ctrlr_disconnect_io(struct nvmf_ctrlr *ctrlr, const char *reason)
{
	struct nvmf_ctrlr_io *io;

	must_be_on(ctrlr->group->thread);
	/* A message also to our own group: a transport may close from inside the call and change the list in this loop. */
	TAILQ_FOREACH (io, &ctrlr->io_qpairs, link)
		nvmf_qpair_disconnect_msg(io->group, io->qpair, reason);
}

void nvmf_ctrlr_disconnect_all(struct nvmf_ctrlr *ctrlr, const char *reason)
{
	nvmf_ctrlr_disconnect_io(ctrlr, reason);
	if (ctrlr->admin)
		nvmf_qpair_disconnect(ctrlr->admin, reason);
}

static void finish_on_group_thread(void *ctx)
{
	nvmf_qpair_finish(ctx);
}

static void leave_on_ctrlr_thread(void *ctx)
{
	struct ctrlr_msg *msg = ctx;
	struct nvmf_ctrlr *ctrlr = msg->ctrlr;
	struct nvmf_ctrlr_io *io;

	must_be_on(ctrlr->group->thread);
	TAILQ_FOREACH (io, &ctrlr->io_qpairs, link) {
		if (io->qpair == msg->qpair)
			break;
	}
	must(io);
	must(io->group == msg->group);
	must(ctrlr->io_count > 0);
	TAILQ_REMOVE(&ctrlr->io_qpairs, io, link);
	ctrlr->io_count--;
	free(io);
	thread_send_msg(msg->group->thread, finish_on_group_thread, msg->qpair);
	free(msg);
	nvmf_ctrlr_check(ctrlr);
}

void nvmf_ctrlr_io_qpair_leave(struct nvmf_ctrlr *ctrlr, struct nvmf_qpair *qpair)
{
	struct ctrlr_msg *msg = create_message(ctrlr);

	must_be_on(qpair->group->thread);
	must(qpair->state == NVMF_QPAIR_CLOSING);
	must(qpair->qid != 0);
	msg->qpair = qpair;
	msg->group = qpair->group;
	thread_send_msg(ctrlr->group->thread, leave_on_ctrlr_thread, msg);
}

/* ---- end of the association ---- */

static void free_on_ctrlr_thread(void *ctx)
{
	struct nvmf_ctrlr *ctrlr = ctx;

	must_be_on(ctrlr->group->thread);
	must(ctrlr->state == NVMF_CTRLR_GONE);
	must(ctrlr->io_count == 0);
	must(ctrlr->event_req_count == 0);
	must(!ctrlr->keep_alive);
	must(!ctrlr->enable_timer);
	must(!ctrlr->admin);
	free(ctrlr);
}

static void remove_on_control(void *ctx)
{
	struct nvmf_ctrlr *ctrlr = ctx;
	struct nvmf_subsystem *subsystem = ctrlr->subsystem;

	must_be_on(thread_control());
	must(ctrlr->state == NVMF_CTRLR_GONE);
	must(subsystem->ctrlr_count > 0);
	must(nvmf_tgt.ctrlr_count > 0);
	must(nvmf_ctrlr_find(subsystem, ctrlr->cntlid) == ctrlr);
	nvmf_host_log_left(ctrlr);
	probe_nvmf_subsystem_remove_ctrlr(reactor_now(), subsystem->nqn_istr, ctrlr, ctrlr->host_istr);
	TAILQ_REMOVE(&subsystem->ctrlrs, ctrlr, link);
	subsystem->ctrlr_count--;
	nvmf_tgt.ctrlr_count--;
	thread_send_msg(ctrlr->group->thread, free_on_ctrlr_thread, ctrlr);
	nvmf_subsystem_ctrlr_gone(subsystem);
	nvmf_target_check_down();
}

void nvmf_ctrlr_check(struct nvmf_ctrlr *ctrlr)
{
	uint64_t now = reactor_now();

	must_be_on(ctrlr->group->thread);
	must((ctrlr->io_count == 0) == TAILQ_EMPTY(&ctrlr->io_qpairs));
	if (ctrlr->io_count > 0)
		return;
	switch (ctrlr->state) {
	case NVMF_CTRLR_RESETTING:
		nvmf_ctrlr_state_move(now, ctrlr, NVMF_CTRLR_DISABLED);
		ctrlr->csts = 0;
		if (ctrlr->cc & NVME_CC_EN)
			nvmf_ctrlr_enable(ctrlr, now);
		else if (NVME_CC_GET(ctrlr->cc, SHN) != NVME_CC_SHN_NONE)
			nvmf_ctrlr_shut(ctrlr, now);
		return;
	case NVMF_CTRLR_SHUTTING:
		nvmf_ctrlr_state_move(now, ctrlr, NVMF_CTRLR_SHUT);
		ctrlr->csts &= ~((uint32_t)NVME_CSTS_SHST_MASK << NVME_CSTS_SHST_SHIFT);
		ctrlr->csts |= NVME_CSTS_SHST_COMPLETE << NVME_CSTS_SHST_SHIFT;
		return;
	case NVMF_CTRLR_LEAVING:
		must(!ctrlr->admin);
		must(ctrlr->event_req_count == 0);
		nvmf_ctrlr_state_move(now, ctrlr, NVMF_CTRLR_GONE);
		probe_nvmf_ctrlr_destruct(now, ctrlr, thread_id(ctrlr->group->thread));
		thread_send_msg(thread_control(), remove_on_control, ctrlr);
		return;
	default:
		return;
	}
}

void nvmf_ctrlr_admin_gone(struct nvmf_ctrlr *ctrlr)
{
	must_be_on(ctrlr->group->thread);
	must(!ctrlr->admin || ctrlr->admin->state == NVMF_QPAIR_CLOSING);
	must(ctrlr->event_req_count == 0);
	must(ctrlr->abort_count == 0);
	poller_unregister(&ctrlr->keep_alive);
	poller_unregister(&ctrlr->enable_timer);
	if (ctrlr->admin)
		ctrlr->end_reason = ctrlr->admin->end_reason;
	ctrlr->admin = NULL;
	nvmf_ctrlr_state_move(reactor_now(), ctrlr, NVMF_CTRLR_LEAVING);
	nvmf_ctrlr_disconnect_io(ctrlr, "the admin queue has gone");
	nvmf_ctrlr_check(ctrlr);
}

/* ---- keep-alive ---- */

static int keep_alive_expired(void *ctx)
{
	struct nvmf_ctrlr *ctrlr = ctx;

	must_be_on(ctrlr->group->thread);
	must(ctrlr->admin);
	poller_unregister(&ctrlr->keep_alive);
	probe_nvmf_ctrlr_keep_alive_expired(reactor_now(), ctrlr, ctrlr->features.kato, ctrlr->host_istr,
					    trace_intern(ctrlr->local_address));
	ctrlr->csts |= NVME_CSTS_CFS;
	nvmf_ctrlr_disconnect_all(ctrlr, ctrlr->features.kato ? "keep-alive timeout" : "discovery controller idle");
	return 1;
}

void nvmf_ctrlr_keep_alive(struct nvmf_ctrlr *ctrlr)
{
	uint64_t ms = ctrlr->features.kato;

	must_be_on(ctrlr->group->thread);
	poller_unregister(&ctrlr->keep_alive);
	if (ms == 0 && ctrlr->discovery)
		ms = NVMF_DISCOVERY_IDLE_MS;
	if (ms == 0)
		return;
	ctrlr->keep_alive = poller_register("nvmf_ctrlr_keep_alive", keep_alive_expired, ctrlr, ms * NS_PER_MS);
	must(ctrlr->keep_alive);
}

static int never_enabled(void *ctx)
{
	struct nvmf_ctrlr *ctrlr = ctx;

	must_be_on(ctrlr->group->thread);
	must(ctrlr->admin);
	poller_unregister(&ctrlr->enable_timer);
	probe_nvmf_ctrlr_never_enabled(reactor_now(), ctrlr, ctrlr->host_istr);
	nvmf_ctrlr_disconnect_all(ctrlr, "the controller was not enabled in time");
	return 1;
}

void nvmf_ctrlr_await_enable(struct nvmf_ctrlr *ctrlr)
{
	must_be_on(ctrlr->group->thread);
	must(!ctrlr->enable_timer);
	ctrlr->enable_timer = poller_register("nvmf_ctrlr_enable", never_enabled, ctrlr,
					      (uint64_t)NVMF_ENABLE_MS * NS_PER_MS);
	must(ctrlr->enable_timer);
}

uint32_t nvmf_ctrlr_round_kato(const struct nvmf_ctrlr *ctrlr, uint32_t kato_ms)
{
	uint64_t rounded = kato_ms;

	if (kato_ms == 0)
		return 0;
	rounded = max_u64(rounded, ctrlr->kato_min_ms);
	if (ctrlr->kas_ms > 0)
		rounded = (rounded + ctrlr->kas_ms - 1) / ctrlr->kas_ms * ctrlr->kas_ms;
	return (uint32_t)min_u64(rounded, UINT32_MAX);
}

/* ---- the error log ---- */

static void log_error(struct nvmf_ctrlr *ctrlr, struct nvme_log_error *error)
{
	must_be_on(ctrlr->group->thread);
	ctrlr->error_count++;
	error->error_count = ctrlr->error_count;
	ctrlr->errors[(ctrlr->error_count - 1) % NVMF_ERROR_ENTRIES] = *error;
}

static void noted_on_group(void *ctx)
{
	struct nvmf_qpair *qpair = ctx;

	must(qpair->error_told);
	qpair->error_told = false;
}

static void note_on_ctrlr_thread(void *ctx)
{
	struct ctrlr_msg *msg = ctx;

	must_be_on(msg->ctrlr->group->thread);
	msg->ctrlr->error_count += msg->errors_untold;
	log_error(msg->ctrlr, &msg->error);
	thread_send_msg(msg->group->thread, noted_on_group, msg->qpair);
	free(msg);
}

void nvmf_ctrlr_note_error(struct nvmf_qpair *qpair, const struct nvmf_req *req, enum nvme_status status)
{
	struct nvmf_ctrlr *ctrlr = qpair->ctrlr;
	struct nvme_log_error error = {
		.sqid = qpair->qid,
		.cid = req->cmd.cid,
		.status = req->cpl.status,
		.parameter_location = UINT16_MAX,
		.lba = qpair->qid != 0 ? nvme_command_slba(&req->cmd) : 0,
		.nsid = req->cmd.nsid,
		.trtype = NVME_TRTYPE_TCP,
	};
	struct ctrlr_msg *msg;

	must(status != NVME_SC_SUCCESS);
	must(req->qpair == qpair);
	maybe(status == NVME_SC_ABORTED_SQ_DELETION);
	if (!ctrlr || qpair->state == NVMF_QPAIR_CLOSING)
		return;
	if (qpair->qid == 0) {
		log_error(ctrlr, &error);
		return;
	}
	/* One message at a time, so that a host with many errors cannot flood its controller's home thread. */
	if (qpair->error_told) {
		qpair->errors_untold++;
		return;
	}
	qpair->error_told = true;
	msg = create_message(ctrlr);
	msg->qpair = qpair;
	msg->group = qpair->group;
	msg->error = error;
	msg->errors_untold = qpair->errors_untold;
	qpair->errors_untold = 0;
	thread_send_msg(ctrlr->group->thread, note_on_ctrlr_thread, msg);
}
