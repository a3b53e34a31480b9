/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * event - asynchronous events.
 *
 * A host keeps event requests outstanding at its controller. An event completes the oldest one, and is then masked until
 * the host has read its log page. The page includes all changes up to the read, so none is lost. Without an outstanding
 * request the event is pending and completes the next request.
 */
#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"
#include "data/target/request/probes.gen.h"

static uint32_t event_dword(enum nvmf_event event)
{
	switch (event) {
	case NVMF_EVENT_NS_CHANGED:
		return nvme_event_dword(NVME_EVENT_NOTICE, NVME_NOTICE_NS_ATTRIBUTE, NVME_LOG_CHANGED_NS_LIST);
	case NVMF_EVENT_DISCOVERY_CHANGED:
		return nvme_event_dword(NVME_EVENT_NOTICE, NVME_NOTICE_DISCOVERY_LOG, NVME_LOG_DISCOVERY);
	}
	must(false);
}

static bool is_enabled(const struct nvmf_ctrlr *ctrlr, enum nvmf_event event)
{
	uint32_t bit = event == NVMF_EVENT_NS_CHANGED ? (uint32_t)NVME_AEC_NS_ATTRIBUTE : NVME_AEC_DISCOVERY_LOG;

	return (ctrlr->features.events & bit) != 0;
}

static struct nvmf_req *take_request(struct nvmf_ctrlr *ctrlr, uint32_t index)
{
	struct nvmf_req *req = ctrlr->event_reqs[index];

	must(index < ctrlr->event_req_count);
	ctrlr->event_req_count--;
	for (uint32_t i = index; i < ctrlr->event_req_count; i++)
		ctrlr->event_reqs[i] = ctrlr->event_reqs[i + 1];
	return req;
}

/* Complete the oldest event requests with pending events, as long as there are both. */
static void deliver_events(struct nvmf_ctrlr *ctrlr, uint64_t now)
{
	for (enum nvmf_event event = NVMF_EVENT_NS_CHANGED; event <= NVMF_EVENT_DISCOVERY_CHANGED; event++) {
		struct nvmf_req *req;

		if (ctrlr->event_req_count == 0)
			return;
		if (!(ctrlr->events_pending & BIT(event)))
			continue;
		ctrlr->events_pending &= ~(uint32_t)BIT(event);
		ctrlr->events_masked |= (uint32_t)BIT(event);
		req = take_request(ctrlr, 0);
		must(req->qpair == ctrlr->admin);
		must(req->story.state == NVMF_REQ_WAIT_EVENT);
		req->cpl.cdw0 = event_dword(event);
		nvmf_req_complete(req, NVME_SC_SUCCESS, now);
	}
}

/* Add `nsid` to the changed namespace list, once. A count of NVMF_CHANGED_NS_MAX + 1 means that the list overflowed. */
static void note_changed_ns(struct nvmf_ctrlr *ctrlr, uint32_t nsid)
{
	must(nsid != 0);
	must(nsid <= ctrlr->subsystem->options.max_namespaces);
	if (ctrlr->changed_ns_count > NVMF_CHANGED_NS_MAX)
		return;
	for (uint32_t i = 0; i < ctrlr->changed_ns_count; i++) {
		if (ctrlr->changed_ns[i] == nsid)
			return;
	}
	if (ctrlr->changed_ns_count < NVMF_CHANGED_NS_MAX)
		ctrlr->changed_ns[ctrlr->changed_ns_count] = nsid;
	ctrlr->changed_ns_count++;
}

void nvmf_ctrlr_event(struct nvmf_ctrlr *ctrlr, enum nvmf_event event, uint32_t nsid)
{
	bool tell = is_enabled(ctrlr, event) && !(ctrlr->events_masked & BIT(event));

	must_be_on(ctrlr->group->thread);
	must((event == NVMF_EVENT_DISCOVERY_CHANGED) == ctrlr->discovery);
	/* The association is ending: the host can no longer receive events. */
	if (!ctrlr->admin)
		return;
	probe_nvmf_ctrlr_event(reactor_now(), ctrlr, event, nsid, tell);
	if (event == NVMF_EVENT_NS_CHANGED)
		note_changed_ns(ctrlr, nsid);
	if (!tell)
		return;
	ctrlr->events_pending |= (uint32_t)BIT(event);
	deliver_events(ctrlr, reactor_now());
}

void nvmf_ctrlr_event_seen(struct nvmf_ctrlr *ctrlr, enum nvmf_event event)
{
	must_be_on(ctrlr->group->thread);
	ctrlr->events_pending &= ~(uint32_t)BIT(event);
	ctrlr->events_masked &= ~(uint32_t)BIT(event);
	if (event == NVMF_EVENT_NS_CHANGED)
		ctrlr->changed_ns_count = 0;
}

void nvmf_event_request(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_ctrlr *ctrlr = req->qpair->ctrlr;

	if (ctrlr->event_req_count == NVMF_EVENT_REQS_MAX) {
		nvmf_req_complete(req, NVME_SC_ASYNC_EVENT_LIMIT_EXCEEDED, now);
		return;
	}
	must(req->qpair == ctrlr->admin);
	must(ctrlr->event_req_count < NVMF_EVENT_REQS_MAX);
	nvmf_req_state_move(now, req, NVMF_REQ_WAIT_EVENT);
	ctrlr->event_reqs[ctrlr->event_req_count++] = req;
	deliver_events(ctrlr, now);
}

void nvmf_ctrlr_abort_events(struct nvmf_ctrlr *ctrlr, enum nvme_status status, uint64_t now)
{
	must_be_on(ctrlr->group->thread);
	while (ctrlr->event_req_count > 0)
		nvmf_req_complete(take_request(ctrlr, 0), status, now);
}

bool nvmf_ctrlr_abort_event(struct nvmf_ctrlr *ctrlr, struct nvmf_req *req, uint64_t now)
{
	must_be_on(ctrlr->group->thread);
	must(req->story.state == NVMF_REQ_WAIT_EVENT);
	for (uint32_t i = 0; i < ctrlr->event_req_count; i++) {
		if (ctrlr->event_reqs[i] == req) {
			nvmf_req_complete(take_request(ctrlr, i), NVME_SC_ABORTED_BY_REQUEST, now);
			return true;
		}
	}
	return false;
}
