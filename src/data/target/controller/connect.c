/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connect - the Connect command, which runs on several threads.
 *
 *   group     check format and names; one at a time per connection
 *   control   check subsystem, host, address, queue size; admin: create a controller; I/O: find it
 *   home      I/O only: check that it is enabled and the queue id is free
 *   group     attach, allow requests, answer
 *
 * A failure at any step is answered on the group that received the command. If the queue pair has a controller by then, or
 * a place in its list, the queue pair releases it by closing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/observe/trace/points.gen.h"
#include "data/target/controller/controller.h"
#include "data/target/controller/host_log.h"
#include "data/target/probes.gen.h"
#include "data/target/request/internal.h"
#include "data/target/request/probes.gen.h"

struct connect {
	struct nvmf_req *req;
	struct nvmf_qpair *qpair;
	struct nvmf_poll_group *group;
	struct nvme_connect cmd;
	struct nvme_connect_data data;
	char local_address[NVMF_ADDRESS_BYTES_MAX], local_service[8];
	char peer_address[NVMF_ADDRESS_BYTES_MAX];
	struct nvmf_ctrlr *ctrlr;
	enum nvme_status status;
	uint16_t ipo;
	uint8_t iattr;
	bool write_through;
};

/* Offset and location of a parameter, for Connect Invalid Parameters. */
#define IN_COMMAND(field) offsetof(struct nvme_connect, field), NVME_CONNECT_IATTR_COMMAND
#define IN_DATA(field) offsetof(struct nvme_connect_data, field), NVME_CONNECT_IATTR_DATA

static void reject_parameter(struct connect *connect, size_t offset, uint8_t iattr)
{
	connect->status = NVME_SC_CONNECT_INVALID_PARAMETERS;
	connect->ipo = (uint16_t)offset;
	connect->iattr = iattr;
}

static void reject_connect(struct connect *connect, enum nvme_status status)
{
	connect->status = status;
}

enum nvme_status nvmf_connect_received(struct nvmf_req *req, uint32_t capsule_bytes)
{
	return nvmf_req_check_data(req, NVMF_TRANSFER_H2C, sizeof(struct nvme_connect_data), capsule_bytes, true);
}

/* ---- back on the group ---- */

static void log_refused(const struct connect *connect)
{
	struct nvmf_refusal *refusal = nvmf_alloc(sizeof(*refusal));

	static_assert(sizeof(refusal->host_nqn) == sizeof(connect->data.hostnqn), "it fits, with its NUL");
	refusal->qid = connect->cmd.qid;
	refusal->status = connect->status;
	refusal->ipo = connect->ipo;
	refusal->iattr = connect->iattr;
	memcpy(refusal->peer_address, connect->peer_address, sizeof(refusal->peer_address));
	memcpy(refusal->local_address, connect->local_address, sizeof(refusal->local_address));
	memcpy(refusal->local_service, connect->local_service, sizeof(refusal->local_service));
	memcpy(refusal->host_nqn, connect->data.hostnqn, sizeof(refusal->host_nqn));
	memcpy(refusal->subsystem_nqn, connect->data.subnqn, sizeof(refusal->subsystem_nqn));
	nvmf_host_log_refused(refusal);
}

static void answer_connect(struct connect *connect)
{
	struct nvmf_req *req = connect->req;
	struct nvme_connect_response *response = (struct nvme_connect_response *)&req->cpl;
	struct nvmf_qpair *qpair = connect->qpair;
	uint64_t now = reactor_now();

	must_be_on(connect->group->thread);
	must(req->qpair == qpair);
	must(req->story.state == NVMF_REQ_EXECUTING);
	must(connect->status != NVME_SC_SUCCESS || qpair->state == NVMF_QPAIR_ENABLED);
	response->raw = 0;
	response->reserved4 = 0;
	if (connect->status == NVME_SC_SUCCESS) {
		response->success.cntlid = connect->ctrlr->cntlid;
	} else {
		response->invalid.ipo = connect->ipo;
		response->invalid.iattr = connect->iattr;
		probe_nvmf_connect_refused(now, qpair, (uint16_t)connect->status,
					   trace_intern_foreign(connect->data.subnqn),
					   trace_intern_foreign(connect->data.hostnqn));
		log_refused(connect);
	}
	nvmf_req_complete(req, connect->status, now);
	free(connect);
}

/* Skip the prefix that most host names share, so that the distinguishing part is not cut off. */
static const char *short_host(const char *nqn)
{
	static const char prefix[] = "nqn.2014-08.org.nvmexpress:";

	return strncmp(nqn, prefix, sizeof(prefix) - 1) == 0 ? nqn + sizeof(prefix) - 1 : nqn;
}

static void describe_owner(const struct nvmf_qpair *qpair, const struct connect *connect)
{
	trace_owner_describe(qpair->trace.owner, "%.47s:%s %s qid:%u %s", qpair->peer_address, qpair->peer_service,
			     connect->data.subnqn, qpair->qid, short_host(connect->data.hostnqn));
}

/* Make the queue pair the queue that the Connect names. */
static void attach_queue(struct connect *connect, struct nvmf_group_subsystem *part)
{
	struct nvmf_qpair *qpair = connect->qpair;

	must(!qpair->ctrlr);
	must(!qpair->subsystem);
	must(qpair->qid == 0);
	must(connect->ctrlr);
	must(part || connect->cmd.qid != 0);
	qpair->ctrlr = connect->ctrlr;
	qpair->subsystem = part;
	qpair->qid = connect->cmd.qid;
	qpair->write_through = connect->write_through;
	if (qpair->qid == 0) {
		connect->group->admin_qpairs++;
		connect->group->current_admin_qpairs++;
	} else {
		connect->group->io_qpairs++;
		connect->group->current_io_qpairs++;
		nvmf_group_load(connect->group, 1, 0);
	}
}

static void enable_queue(struct connect *connect)
{
	struct nvmf_qpair *qpair = connect->qpair;
	uint64_t now = reactor_now();

	must(connect->cmd.sqsize >= 1);
	must(connect->cmd.sqsize < NVMF_QUEUE_ENTRIES_MAX);
	must(qpair->queue_entries == 0);
	qpair->queue_entries = (uint16_t)(connect->cmd.sqsize + 1);
	qpair->flow_control_off = (connect->cmd.cattr & NVME_CATTR_DISABLE_SQFLOW) != 0;
	describe_owner(qpair, connect);
	nvmf_account_open(qpair, connect->ctrlr->subsystem->nqn_istr, connect->ctrlr->host_istr);
	if (qpair->ops->connected && qpair->ops->connected(qpair) != 0) {
		reject_connect(connect, NVME_SC_CONNECT_CONTROLLER_BUSY);
		return;
	}
	nvmf_qpair_state_move(now, qpair, NVMF_QPAIR_ENABLED);
	probe_nvmf_ctrlr_add_qpair(now, qpair, qpair->qid, connect->ctrlr->subsystem->nqn_istr, connect->ctrlr->host_istr);
}

/* The subsystem's part on this group. NULL: the part is leaving or freed, or the connection is closing. */
static struct nvmf_group_subsystem *find_live_part(struct connect *connect)
{
	struct nvmf_group_subsystem *part = connect->group->subsystems[connect->ctrlr->subsystem->id];

	if (connect->qpair->state != NVMF_QPAIR_CONNECTING || connect->qpair->going || !part || part->leaving ||
	    part->subsystem != connect->ctrlr->subsystem)
		return NULL;
	return part;
}

/* The control thread has created the controller; this thread is its home. */
static void connect_admin_on_ctrlr_thread(void *ctx)
{
	struct connect *connect = ctx;
	struct nvmf_ctrlr *ctrlr = connect->ctrlr;
	struct nvmf_group_subsystem *part = find_live_part(connect);

	must_be_on(ctrlr->group->thread);
	must(connect->status == NVME_SC_SUCCESS);
	must(connect->group == ctrlr->group);
	probe_nvmf_ctrlr_create(reactor_now(), ctrlr, ctrlr->subsystem->nqn_istr, thread_id(ctrlr->group->thread));
	if (!part) {
		nvmf_ctrlr_admin_gone(ctrlr);
		reject_connect(connect, NVME_SC_CONNECT_CONTROLLER_BUSY);
		answer_connect(connect);
		return;
	}
	nvmf_ctrlr_state_move(reactor_now(), ctrlr, NVMF_CTRLR_DISABLED);
	must(!ctrlr->admin);
	ctrlr->admin = connect->qpair;
	attach_queue(connect, part);
	enable_queue(connect);
	if (connect->status != NVME_SC_SUCCESS) {
		nvmf_qpair_disconnect(connect->qpair, "out of memory for its queue");
	} else {
		ctrlr->features.kato = nvmf_ctrlr_round_kato(ctrlr, connect->cmd.kato);
		nvmf_ctrlr_keep_alive(ctrlr);
		nvmf_ctrlr_await_enable(ctrlr);
		nvmf_host_log_connected(ctrlr);
	}
	answer_connect(connect);
}

/* The controller's home has added the I/O queue to its list, or rejected it. */
static void io_on_group(void *ctx)
{
	struct connect *connect = ctx;
	struct nvmf_group_subsystem *part;

	if (connect->status != NVME_SC_SUCCESS) {
		answer_connect(connect);
		return;
	}
	part = find_live_part(connect);
	/*
	 * The queue is in the controller's list now. So it must be attached even on failure: closing it removes it again.
	 */
	attach_queue(connect, part);
	if (part)
		enable_queue(connect);
	else
		reject_connect(connect, NVME_SC_CONNECT_CONTROLLER_BUSY);
	if (connect->status != NVME_SC_SUCCESS)
		nvmf_qpair_disconnect(connect->qpair, "no room for its queue");
	answer_connect(connect);
}

/* ---- I/O queues, at the controller's home ---- */

static bool queue_id_used(const struct nvmf_ctrlr *ctrlr, uint16_t qid)
{
	const struct nvmf_ctrlr_io *io;

	TAILQ_FOREACH (io, &ctrlr->io_qpairs, link) {
		if (io->qid == qid)
			return true;
	}
	return false;
}

static void io_check(struct connect *connect)
{
	const struct nvmf_ctrlr *ctrlr = connect->ctrlr;

	if (ctrlr->state == NVMF_CTRLR_LEAVING || ctrlr->state == NVMF_CTRLR_GONE)
		reject_parameter(connect, IN_DATA(cntlid));
	else if (ctrlr->state != NVMF_CTRLR_ENABLED)
		reject_parameter(connect, IN_COMMAND(qid));
	else if (NVME_CC_GET(ctrlr->cc, IOSQES) != NVMF_IOSQES || NVME_CC_GET(ctrlr->cc, IOCQES) != NVMF_IOCQES)
		reject_parameter(connect, IN_COMMAND(qid));
	else if (connect->cmd.qid > ctrlr->io_queues_max)
		reject_parameter(connect, IN_COMMAND(qid));
	else if (queue_id_used(ctrlr, connect->cmd.qid))
		reject_connect(connect, NVME_SC_INVALID_QUEUE_ID);
}

static void connect_io_on_ctrlr_thread(void *ctx)
{
	struct connect *connect = ctx;
	struct nvmf_ctrlr *ctrlr = connect->ctrlr;
	struct nvmf_ctrlr_io *io;

	must_be_on(ctrlr->group->thread);
	must(connect->status == NVME_SC_SUCCESS);
	must(connect->cmd.qid != 0);
	must(!ctrlr->discovery);
	must(ctrlr->cntlid == connect->data.cntlid);
	io_check(connect);
	if (connect->status == NVME_SC_SUCCESS) {
		io = nvmf_alloc(sizeof(*io));
		io->qpair = connect->qpair;
		io->group = connect->group;
		io->qid = connect->cmd.qid;
		TAILQ_INSERT_TAIL(&ctrlr->io_qpairs, io, link);
		ctrlr->io_count++;
		must(ctrlr->io_count <= ctrlr->io_queues_max); /* queue ids are unique and limited */
		connect->write_through = ctrlr->features.write_cache == 0;
		probe_nvmf_ctrlr_add_io_qpair(reactor_now(), ctrlr, connect->qpair, io->qid,
					      thread_id(connect->group->thread));
	}
	thread_send_msg(connect->group->thread, io_on_group, connect);
}

/* ---- on the control thread ---- */

static bool allocate_cntlid(struct nvmf_subsystem *subsystem, uint16_t *cntlid_ret)
{
	uint32_t range = (uint32_t)subsystem->options.max_cntlid - subsystem->options.min_cntlid + 1;

	for (uint32_t i = 0; i < range; i++) {
		uint16_t cntlid = subsystem->cntlid_next;

		subsystem->cntlid_next = cntlid == subsystem->options.max_cntlid ? subsystem->options.min_cntlid
										 : (uint16_t)(cntlid + 1);
		if (!nvmf_ctrlr_find(subsystem, cntlid)) {
			*cntlid_ret = cntlid;
			return true;
		}
	}
	return false;
}

static void insert_ordered(struct nvmf_subsystem *subsystem, struct nvmf_ctrlr *ctrlr)
{
	struct nvmf_ctrlr *other;

	TAILQ_FOREACH (other, &subsystem->ctrlrs, link) {
		must(other->cntlid != ctrlr->cntlid);
		if (other->cntlid > ctrlr->cntlid) {
			TAILQ_INSERT_BEFORE(other, ctrlr, link);
			return;
		}
	}
	TAILQ_INSERT_TAIL(&subsystem->ctrlrs, ctrlr, link);
}

static void admin_create(struct connect *connect, struct nvmf_subsystem *subsystem, uint16_t cntlid)
{
	const struct nvmf_transport_options *rules = nvmf_transport_rules();
	struct nvmf_ctrlr *ctrlr = nvmf_alloc(sizeof(*ctrlr));

	must_be_on(thread_control());
	must(subsystem->ctrlr_count < NVMF_CONTROLLERS_MAX);
	must(!nvmf_ctrlr_find(subsystem, cntlid));
	must(cntlid >= subsystem->options.min_cntlid);
	must(cntlid <= subsystem->options.max_cntlid);
	trace_object_init(&ctrlr->trace, TRACE_OBJECT_NVMF_CTRLR);
	ctrlr->subsystem = subsystem;
	ctrlr->group = connect->group;
	ctrlr->cntlid = cntlid;
	ctrlr->discovery = subsystem->type == NVMF_SUBSYSTEM_DISCOVERY;
	memcpy(ctrlr->host_nqn, connect->data.hostnqn, sizeof(ctrlr->host_nqn));
	memcpy(ctrlr->host_id, connect->data.hostid, sizeof(ctrlr->host_id));
	ctrlr->host_istr = trace_intern_foreign(ctrlr->host_nqn);
	memcpy(ctrlr->local_address, connect->local_address, sizeof(ctrlr->local_address));
	memcpy(ctrlr->local_service, connect->local_service, sizeof(ctrlr->local_service));
	memcpy(ctrlr->peer_address, connect->peer_address, sizeof(ctrlr->peer_address));
	ctrlr->io_queues_max = rules->max_io_qpairs_per_ctrlr;
	ctrlr->kas_ms = (uint32_t)rules->kas * 100;
	ctrlr->kato_min_ms = rules->min_kato;
	ctrlr->created_tick = reactor_now();
	ctrlr->connected_ns = clock_realtime_ns();
	TAILQ_INIT(&ctrlr->io_qpairs);
	nvmf_features_init(ctrlr);
	insert_ordered(subsystem, ctrlr);
	subsystem->ctrlr_count++;
	nvmf_tgt.ctrlr_count++;
	probe_nvmf_subsystem_add_ctrlr(reactor_now(), subsystem->nqn_istr, ctrlr, ctrlr->host_istr);
	connect->ctrlr = ctrlr;
}

/*
 * Whether the host has as many controllers as it may. Controllers that are closing count: a host that reconnects faster
 * than they close must wait.
 */
static bool host_has_max_ctrlrs(const struct nvmf_subsystem *subsystem, const char *host_nqn)
{
	const struct nvmf_ctrlr *ctrlr;
	uint32_t count = 0;

	TAILQ_FOREACH (ctrlr, &subsystem->ctrlrs, link)
		count += strcmp(ctrlr->host_nqn, host_nqn) == 0;
	return count >= subsystem->options.max_host_controllers;
}

static void admin_on_control(struct connect *connect, struct nvmf_subsystem *subsystem)
{
	uint16_t cntlid = 0;

	if (connect->data.cntlid != NVME_CNTLID_DYNAMIC)
		reject_parameter(connect, IN_DATA(cntlid));
	else if (connect->cmd.sqsize >= nvmf_transport_rules()->max_aq_depth)
		reject_parameter(connect, IN_COMMAND(sqsize));
	else if (host_has_max_ctrlrs(subsystem, connect->data.hostnqn) || subsystem->ctrlr_count == NVMF_CONTROLLERS_MAX ||
		 !allocate_cntlid(subsystem, &cntlid))
		reject_connect(connect, NVME_SC_CONNECT_CONTROLLER_BUSY);
	else
		admin_create(connect, subsystem, cntlid);
}

static void io_on_control(struct connect *connect, struct nvmf_subsystem *subsystem)
{
	struct nvmf_ctrlr *ctrlr = nvmf_ctrlr_find(subsystem, connect->data.cntlid);

	if (!ctrlr)
		reject_parameter(connect, IN_DATA(cntlid));
	else if (ctrlr->discovery)
		reject_parameter(connect, IN_COMMAND(qid));
	else if (strcmp(ctrlr->host_nqn, connect->data.hostnqn) != 0)
		reject_parameter(connect, IN_DATA(hostnqn));
	else if (memcmp(ctrlr->host_id, connect->data.hostid, sizeof(ctrlr->host_id)) != 0)
		reject_parameter(connect, IN_DATA(hostid));
	else if (connect->cmd.sqsize >= nvmf_transport_rules()->max_queue_depth)
		reject_parameter(connect, IN_COMMAND(sqsize));
	else
		connect->ctrlr = ctrlr;
}

/* Whether a subsystem accepts connections in its state; a paused one does. */
static bool accepts_connects(const struct nvmf_subsystem *subsystem, struct connect *connect)
{
	switch (subsystem->state) {
	case NVMF_SUBSYSTEM_ACTIVE:
	case NVMF_SUBSYSTEM_PAUSING:
	case NVMF_SUBSYSTEM_PAUSED:
	case NVMF_SUBSYSTEM_RESUMING:
		return true;
	case NVMF_SUBSYSTEM_ACTIVATING:
		reject_connect(connect, NVME_SC_CONNECT_CONTROLLER_BUSY);
		return false;
	case NVMF_SUBSYSTEM_INACTIVE:
	case NVMF_SUBSYSTEM_DEACTIVATING:
		reject_parameter(connect, IN_DATA(subnqn));
		return false;
	}
	return false;
}

static void connect_on_control(void *ctx)
{
	struct connect *connect = ctx;
	struct nvmf_subsystem *subsystem = nvmf_subsystem_find(connect->data.subnqn);

	must_be_on(thread_control());
	must(connect->status == NVME_SC_SUCCESS);
	if (!subsystem || subsystem->destroying) {
		reject_parameter(connect, IN_DATA(subnqn));
	} else if (!accepts_connects(subsystem, connect)) {
		must(connect->status != NVME_SC_SUCCESS);
	} else if (!nvmf_subsystem_host_allowed(subsystem, connect->data.hostnqn) ||
		   !nvmf_subsystem_serves(subsystem, connect->local_address, connect->local_service)) {
		reject_connect(connect, NVME_SC_CONNECT_INVALID_HOST);
	} else if (connect->cmd.qid == 0) {
		admin_on_control(connect, subsystem);
	} else {
		io_on_control(connect, subsystem);
	}
	must((connect->status == NVME_SC_SUCCESS) == (connect->ctrlr != NULL));
	if (connect->status != NVME_SC_SUCCESS)
		thread_send_msg(connect->group->thread, io_on_group, connect);
	else if (connect->cmd.qid == 0)
		thread_send_msg(connect->group->thread, connect_admin_on_ctrlr_thread, connect);
	else
		thread_send_msg(connect->ctrlr->group->thread, connect_io_on_ctrlr_thread, connect);
}

/* ---- first step, on the group ---- */

static bool is_terminated(const char field[NVME_NQN_FIELD_BYTES])
{
	return strnlen(field, NVME_NQN_FIELD_BYTES) <= NVME_NQN_BYTES_MAX;
}

void nvmf_connect_execute(struct nvmf_req *req, uint64_t now)
{
	struct nvmf_qpair *qpair = req->qpair;
	struct connect *connect;

	if (qpair->state != NVMF_QPAIR_CONNECTING || qpair->ctrlr) {
		nvmf_req_complete(req, NVME_SC_COMMAND_SEQUENCE_ERROR, now);
		return;
	}
	must(req->data_bytes >= sizeof(connect->data));
	connect = nvmf_alloc(sizeof(*connect));
	connect->req = req;
	connect->qpair = qpair;
	connect->group = qpair->group;
	memcpy(&connect->cmd, &req->cmd, sizeof(connect->cmd));
	nvmf_req_get_data(req, 0, &connect->data, sizeof(connect->data));
	memcpy(connect->local_address, qpair->local_address, sizeof(connect->local_address));
	memcpy(connect->local_service, qpair->local_service, sizeof(connect->local_service));
	memcpy(connect->peer_address, qpair->peer_address, sizeof(connect->peer_address));
	if (connect->cmd.recfmt != 0)
		reject_connect(connect, NVME_SC_CONNECT_INCOMPATIBLE_FORMAT);
	else if (connect->cmd.sqsize == 0)
		reject_parameter(connect, IN_COMMAND(sqsize));
	else if (!is_terminated(connect->data.subnqn))
		reject_parameter(connect, IN_DATA(subnqn));
	else if (!is_terminated(connect->data.hostnqn))
		reject_parameter(connect, IN_DATA(hostnqn));
	connect->data.subnqn[NVME_NQN_BYTES_MAX] = '\0';
	connect->data.hostnqn[NVME_NQN_BYTES_MAX] = '\0';
	if (connect->status != NVME_SC_SUCCESS)
		answer_connect(connect);
	else
		thread_send_msg(thread_control(), connect_on_control, connect);
}
