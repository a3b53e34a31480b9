/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qpair - queue pairs: open and close.
 *
 *   nvmf_qpair_close()   aborts waiting requests. Waits for those held by the control thread or another group, and for
 *                        those at a block device until the drain expires; then they are given up
 *   nvmf_qpair_drained() all requests have been sent
 *      admin queue:      the association ends (controller/controller.c)
 *      I/O queue:        it is removed from the controller, perhaps on another thread
 *   nvmf_qpair_finish()  closed(ctx); while devices hold commands that were given up, PARKED first
 */
#include <stdlib.h>
#include <string.h>

#include "data/target/controller/controller.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"
#include "data/target/request/probes.gen.h"

void nvmf_qpair_open(struct nvmf_qpair *qpair, struct nvmf_poll_group *group)
{
	uint64_t now = reactor_now();

	must_be_on(group->thread);
	must(qpair->state == NVMF_QPAIR_NONE);
	must(qpair->ops);
	must(qpair->ops->complete);
	must(qpair->ops->disconnect);
	qpair->group = group;
	qpair->ctrlr = NULL;
	qpair->subsystem = NULL;
	qpair->account = NULL;
	qpair->qid = 0;
	qpair->queue_entries = 0;
	qpair->sq_head = 0;
	qpair->flow_control_off = false;
	qpair->req_count = 0;
	qpair->command_count = 0;
	memset(qpair->data_bytes, 0, sizeof(qpair->data_bytes));
	memset(qpair->times, 0, sizeof(qpair->times));
	qpair->io_bytes_max = nvmf_transport_rules()->max_io_size;
	qpair->write_through = false;
	qpair->going = false;
	qpair->error_told = false;
	qpair->errors_untold = 0;
	qpair->end_reason = NULL;
	qpair->closed = NULL;
	qpair->drain = (struct nvmf_drain){ 0 };
	qpair->parked_count = 0;
	TAILQ_INIT(&qpair->reqs);
	TAILQ_INIT(&qpair->parked);
	TAILQ_INSERT_TAIL(&group->qpairs, qpair, group_link);
	group->current_qpairs++;
	nvmf_qpair_state_move(now, qpair, NVMF_QPAIR_CONNECTING);
	probe_nvmf_poll_group_add_qpair(now, qpair, thread_id(group->thread));
	if (group->emptied)
		nvmf_qpair_disconnect(qpair, "the target stops");
}

const char *nvmf_qpair_host_nqn(const struct nvmf_qpair *qpair)
{
	return qpair->ctrlr ? qpair->ctrlr->host_nqn : "";
}

void nvmf_qpair_disconnect(struct nvmf_qpair *qpair, const char *reason)
{
	must_be_on(qpair->group->thread);
	if (qpair->going || qpair->state == NVMF_QPAIR_CLOSING)
		return;
	qpair->going = true;
	probe_nvmf_qpair_disconnect(reactor_now(), qpair, thread_id(qpair->group->thread), trace_intern(reason));
	qpair->ops->disconnect(qpair, reason);
}

struct disconnection {
	struct nvmf_qpair *qpair;
	const char *reason;
};

static void disconnect_on_group(void *ctx)
{
	struct disconnection *disconnection = ctx;

	nvmf_qpair_disconnect(disconnection->qpair, disconnection->reason);
	free(disconnection);
}

void nvmf_qpair_disconnect_msg(struct nvmf_poll_group *group, struct nvmf_qpair *qpair, const char *reason)
{
	struct disconnection *disconnection = nvmf_alloc(sizeof(*disconnection));

	disconnection->qpair = qpair;
	disconnection->reason = reason;
	thread_send_msg(group->thread, disconnect_on_group, disconnection);
}

/* The first request that waits for data, a buffer or the subsystem. On a closing queue pair only this file ends those. */
static struct nvmf_req *first_waiting(struct nvmf_qpair *qpair)
{
	struct nvmf_req *req;

	TAILQ_FOREACH (req, &qpair->reqs, link) {
		switch ((enum nvmf_req_state)req->story.state) {
		case NVMF_REQ_RECEIVED:
		case NVMF_REQ_WAIT_BUFFER:
		case NVMF_REQ_TRANSFER_IN:
		case NVMF_REQ_WAIT_SUBSYSTEM:
			return req;
		default:
			break;
		}
	}
	return NULL;
}

static void give_up_commands(struct nvmf_drain *drain)
{
	struct nvmf_qpair *qpair = container_of(drain, struct nvmf_qpair, drain);

	must(qpair->state == NVMF_QPAIR_CLOSING);
	nvmf_qpair_give_up(qpair, NULL, NVME_SC_ABORTED_SQ_DELETION, reactor_now());
}

void nvmf_qpair_hurry(struct nvmf_qpair *qpair, uint64_t deadline_tick)
{
	must_be_on(qpair->group->thread);
	nvmf_drain_hurry(&qpair->drain, deadline_tick);
}

/* The drain deadline of a queue pair that closes now; not later than that of its subsystem, if it stops. */
static uint64_t drain_deadline(const struct nvmf_qpair *qpair)
{
	uint64_t deadline = nvmf_drain_deadline(nvmf_tgt.drain_ms);

	if (qpair->subsystem && qpair->subsystem->deadline_cap != 0)
		deadline = min_u64(deadline, qpair->subsystem->deadline_cap);
	return deadline;
}

void nvmf_qpair_close(struct nvmf_qpair *qpair, void (*closed)(void *ctx), void *ctx)
{
	struct nvmf_poll_group *group = qpair->group;
	uint64_t now = reactor_now();
	struct nvmf_req *req;

	must_be_on(group->thread);
	must(closed);
	must(!qpair->closed);
	must((qpair->req_count == 0) == TAILQ_EMPTY(&qpair->reqs));
	nvmf_qpair_state_move(now, qpair, NVMF_QPAIR_CLOSING);
	if (!TAILQ_EMPTY(&qpair->reqs))
		probe_nvmf_poll_group_drain_qpair(now, qpair, thread_id(group->thread));
	if (qpair->ctrlr && qpair->qid == 0)
		nvmf_ctrlr_abort_events(qpair->ctrlr, NVME_SC_ABORTED_SQ_DELETION, now);
	while ((req = first_waiting(qpair)) != NULL)
		nvmf_req_fail(req, NVME_SC_ABORTED_SQ_DELETION, now);
	/* From here on nvmf_req_sent() of the last request continues the close. */
	qpair->closed_ctx = ctx;
	qpair->closed = closed;
	if (TAILQ_EMPTY(&qpair->reqs))
		nvmf_qpair_drained(qpair);
	else
		nvmf_drain_arm(group, &qpair->drain, drain_deadline(qpair), give_up_commands);
}

static void finish_on_group(void *ctx)
{
	nvmf_qpair_finish(ctx);
}

void nvmf_qpair_drained(struct nvmf_qpair *qpair)
{
	must(qpair->state == NVMF_QPAIR_CLOSING);
	must(TAILQ_EMPTY(&qpair->reqs));
	must(qpair->closed);
	must(qpair->req_count == 0);
	nvmf_drain_disarm(qpair->group, &qpair->drain);
	if (qpair->ctrlr && qpair->qid != 0) {
		nvmf_ctrlr_io_qpair_leave(qpair->ctrlr, qpair);
		return;
	}
	if (qpair->ctrlr)
		nvmf_ctrlr_admin_gone(qpair->ctrlr);
	thread_send_msg(qpair->group->thread, finish_on_group, qpair);
}

void nvmf_qpair_finish(struct nvmf_qpair *qpair)
{
	struct nvmf_group_subsystem *part = qpair->subsystem;
	struct nvmf_poll_group *group = qpair->group;
	bool io = qpair->ctrlr && qpair->qid != 0;
	uint64_t now = reactor_now();

	must_be_on(group->thread);
	must(qpair->state == NVMF_QPAIR_CLOSING);
	must(qpair->req_count == 0);
	must(TAILQ_EMPTY(&qpair->reqs));
	must(qpair->closed);
	must(group->current_qpairs > 0);
	must(!io || group->current_io_qpairs > 0);
	must(io || !part || group->current_admin_qpairs > 0);
	if (io) {
		group->current_io_qpairs--;
		for (size_t i = 0; i < NVMF_TRANSFERS_MAX; i++)
			group->ended_bytes[i] += qpair->data_bytes[i];
	} else if (part) {
		group->current_admin_qpairs--;
	}
	group->current_qpairs--;
	TAILQ_REMOVE(&group->qpairs, qpair, group_link);
	nvmf_account_close(qpair);
	qpair->ctrlr = NULL;
	qpair->subsystem = NULL;
	nvmf_group_load(group, io ? -1 : 0, -1);
	probe_nvmf_poll_group_remove_qpair(now, qpair, thread_id(group->thread));
	if (qpair->parked_count > 0) {
		nvmf_qpair_state_move(now, qpair, NVMF_QPAIR_PARKED);
		TAILQ_INSERT_TAIL(&group->parked_qpairs, qpair, group_link);
	} else {
		nvmf_qpair_state_move(now, qpair, NVMF_QPAIR_NONE);
		qpair->closed(qpair->closed_ctx);
	}
	if (part)
		nvmf_group_subsystem_check(part);
	nvmf_group_qpair_gone(group);
}

void nvmf_qpair_returned(struct nvmf_qpair *qpair)
{
	struct nvmf_poll_group *group = qpair->group;

	must_be_on(group->thread);
	must(qpair->parked_count == 0);
	must(TAILQ_EMPTY(&qpair->parked));
	TAILQ_REMOVE(&group->parked_qpairs, qpair, group_link);
	nvmf_qpair_state_move(reactor_now(), qpair, NVMF_QPAIR_NONE);
	qpair->closed(qpair->closed_ctx);
	nvmf_group_check_returned(group);
}
