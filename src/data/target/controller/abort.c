/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * abort - the Abort command.
 *
 * A command that waits (for a buffer, the subsystem, an event) is aborted. A command at a block device, or with data in
 * transfer, is not; the response reports which. The command may be on another group, where a message looks for it. Its
 * queue pair cannot be freed before the message arrives, because it must first leave the controller at this thread.
 */
#include <stdlib.h>

#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"

enum { NOT_ABORTED = 1 };

struct abortion {
	struct nvmf_req *req;
	struct nvmf_ctrlr *ctrlr;
	struct nvmf_qpair *qpair; /* of the command to be aborted */
	uint16_t cid;
	bool aborted;
};

static bool abort_on(struct nvmf_qpair *qpair, uint16_t cid, const struct nvmf_req *abort, uint64_t now)
{
	struct nvmf_req *req;

	must_be_on(qpair->group->thread);
	TAILQ_FOREACH (req, &qpair->reqs, link) {
		if (req->cmd.cid == cid && req != abort && !nvmf_req_is_answered(req))
			break;
	}
	if (!req)
		return false;
	must(req->qpair == qpair);
	/* An R2T was or will be sent. Its data will arrive in any case and need the request. */
	if (req->story.state == NVMF_REQ_TRANSFER_IN)
		return false;
	if (req->story.state == NVMF_REQ_EXECUTING)
		return false;
	if (req->story.state == NVMF_REQ_WAIT_EVENT)
		return nvmf_ctrlr_abort_event(qpair->ctrlr, req, now);
	nvmf_req_fail(req, NVME_SC_ABORTED_BY_REQUEST, now);
	return true;
}

static void complete_abort(struct nvmf_req *req, bool aborted, uint64_t now)
{
	req->cpl.cdw0 = aborted ? 0 : NOT_ABORTED;
	nvmf_req_complete(req, NVME_SC_SUCCESS, now);
}

static void answer_on_ctrlr_thread(void *ctx)
{
	struct abortion *abortion = ctx;

	must_be_on(abortion->ctrlr->group->thread);
	must(abortion->ctrlr->admin); /* the admin queue holds the Abort, so it is not freed */
	must(abortion->ctrlr->abort_count > 0);
	abortion->ctrlr->abort_count--;
	complete_abort(abortion->req, abortion->aborted, reactor_now());
	free(abortion);
}

static void abort_on_group(void *ctx)
{
	struct abortion *abortion = ctx;

	must(abortion->qpair->ctrlr == abortion->ctrlr);
	must(abortion->qpair->qid != 0);
	abortion->aborted = abort_on(abortion->qpair, abortion->cid, NULL, reactor_now());
	/* The controller still exists: its admin queue holds the Abort and cannot drain without it. */
	thread_send_msg(abortion->ctrlr->group->thread, answer_on_ctrlr_thread, abortion);
}

void nvmf_abort(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;
	uint16_t sqid = (uint16_t)req->cmd.cdw10, cid = (uint16_t)(req->cmd.cdw10 >> 16);
	struct abortion *abortion;
	struct nvmf_ctrlr_io *io;

	if (sqid == 0) {
		complete_abort(req, abort_on(req->qpair, cid, req, now), now);
		return;
	}
	TAILQ_FOREACH (io, &ctrlr->io_qpairs, link) {
		if (io->qid == sqid)
			break;
	}
	if (!io) {
		complete_abort(req, false, now);
		return;
	}
	if (ctrlr->abort_count == NVMF_ABORTS_MAX) {
		nvmf_req_complete(req, NVME_SC_ABORT_LIMIT_EXCEEDED, now);
		return;
	}
	must(ctrlr->abort_count < NVMF_ABORTS_MAX);
	ctrlr->abort_count++;
	abortion = nvmf_alloc(sizeof(*abortion));
	abortion->req = req;
	abortion->ctrlr = ctrlr;
	abortion->qpair = io->qpair;
	abortion->cid = cid;
	thread_send_msg(io->group->thread, abort_on_group, abortion);
}
