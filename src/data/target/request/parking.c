/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * parking - commands whose block device does not answer.
 *
 *   EXECUTING --give up--> COMPLETED --sent--> PARKED --the device returns it--> FREE
 *                              \---- the device returns it ----> sent ----> FREE
 *
 * Giving up answers the command and lends the device what it holds: the I/O, the vector and its memory. They must not be
 * touched before the device's completion, which only returns them and sends no response. So a host, a controller, a
 * namespace and a subsystem can be removed before their device answers. The connection's memory, the group's hold on the
 * namespace and the namespace's descriptor stay until the completion.
 */
#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"
#include "data/target/request/probes.gen.h"

bool nvmf_req_is_at_device(const struct nvmf_req *req)
{
	return req->ns && !req->lent && req->story.state == NVMF_REQ_EXECUTING;
}

void nvmf_req_give_up(struct nvmf_req *req, enum nvme_status status, uint64_t now)
{
	must(nvmf_req_is_at_device(req));
	must(req->counted);
	must(status != NVME_SC_SUCCESS);
	probe_nvmf_command_given_up(now, req->qpair, req->cmd.cid, req->cmd.nsid, now - req->received_tick);
	req->lent = true;
	req->ns->parked++;
	nvmf_req_complete(req, status, now);
}

void nvmf_qpair_give_up(struct nvmf_qpair *qpair, const struct nvmf_group_ns *ns, enum nvme_status status, uint64_t now)
{
	struct nvmf_req *req;

	must_be_on(qpair->group->thread);
	/* Restart from the first each time: complete() may free other requests, so a saved `next` could dangle. */
	do {
		TAILQ_FOREACH (req, &qpair->reqs, link) {
			if (nvmf_req_is_at_device(req) && (!ns || req->ns == ns))
				break;
		}
		if (req)
			nvmf_req_give_up(req, status, now);
	} while (req);
}

void nvmf_req_park(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_qpair *qpair = req->qpair;

	must(req->lent);
	nvmf_req_state_move(now, req, NVMF_REQ_PARKED);
	qpair->parked_count++;
	TAILQ_INSERT_TAIL(&qpair->parked, req, link);
}

void nvmf_req_returned(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_qpair *qpair = req->qpair;
	struct nvmf_group_ns *ns = req->ns;

	must_be_on(qpair->group->thread);
	must(req->lent);
	must(ns);
	must(ns->parked > 0);
	probe_nvmf_command_returned(now, qpair, req->cmd.cid, now - req->received_tick);
	req->lent = false;
	req->ns = NULL;
	ns->parked--;
	nvmf_req_release_kept(req);
	if (req->story.state == NVMF_REQ_PARKED) {
		must(qpair->parked_count > 0);
		qpair->parked_count--;
		TAILQ_REMOVE(&qpair->parked, req, link);
		nvmf_req_state_move(now, req, NVMF_REQ_FREE);
		qpair->ops->returned(req, now);
		if (qpair->state == NVMF_QPAIR_PARKED && qpair->parked_count == 0)
			nvmf_qpair_returned(qpair);
	} else {
		must(nvmf_req_is_answered(req));
	}
	nvmf_group_ns_check(ns);
}
