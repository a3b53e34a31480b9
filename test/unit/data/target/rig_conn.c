/* SPDX-License-Identifier: BSD-2-Clause */
/* The rig's connections: queue pairs and requests without a transport, and the commands that tests send on them. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/observe/trace/points.gen.h"
#include "data/target/request/probes.gen.h"

/* ---- connections ---- */

static struct rig_cmd **slot_of(struct nvmf_req *req)
{
	struct rig_conn *conn = (struct rig_conn *)req->qpair;

	return &conn->cmd_of[req - conn->reqs];
}

static uint8_t *buffer_of(const struct nvmf_req *req)
{
	struct rig_conn *conn = (struct rig_conn *)req->qpair;

	return conn->buffers + (size_t)(req - conn->reqs) * NVMF_IO_BYTES_DEFAULT;
}

static void conn_complete(struct nvmf_req *req, uint64_t now)
{
	struct rig_cmd *cmd = *slot_of(req);

	must(req->story.state == NVMF_REQ_COMPLETED);
	must(cmd);
	must(!cmd->done);
	cmd->done = true;
	cmd->cpl = req->cpl;
	cmd->status = nvme_status_from_field(req->cpl.status);
	cmd->dnr = (req->cpl.status & NVME_CQE_DNR) != 0;
	must(req->cpl.cid == req->cmd.cid);
	if (req->transfer == NVMF_TRANSFER_C2H) {
		uint8_t *at = cmd->data;

		cmd->received_bytes = req->data_bytes;
		for (int i = 0; cmd->status == 0 && i < req->iov_count; i++) {
			memcpy(at, req->iov[i].iov_base, req->iov[i].iov_len);
			at += req->iov[i].iov_len;
		}
	}
	if (!cmd->hold_response) {
		cmd->req = NULL;
		/* a parked request keeps its slot, which must not be used before the request has returned */
		if (nvmf_req_sent(req, now))
			*slot_of(req) = NULL;
	}
}

static void conn_returned(struct nvmf_req *req, uint64_t now)
{
	must(req->story.state == NVMF_REQ_FREE);
	must(*slot_of(req));
	*slot_of(req) = NULL;
}

static int conn_connected(struct nvmf_qpair *qpair)
{
	struct rig_conn *conn = (struct rig_conn *)qpair;

	must(qpair->queue_entries > 0);
	conn->connected_count++;
	return conn->no_memory ? -ENOMEM : 0;
}

static void conn_closed(void *ctx)
{
	((struct rig_conn *)ctx)->closed = true;
}

static void close_on_group(void *ctx)
{
	struct rig_conn *conn = ctx;

	if (!conn->disconnecting) {
		conn->disconnecting = true;
		nvmf_qpair_close(&conn->qpair, conn_closed, conn);
	}
}

static void conn_disconnect(struct nvmf_qpair *qpair, const char *reason)
{
	struct rig_conn *conn = (struct rig_conn *)qpair;

	must_be_on(nvmf_poll_group_thread(conn->group));
	conn->reason = reason;
	if (!conn->stays)
		thread_send_msg(thread_self(), close_on_group, conn);
}

static const struct nvmf_qpair_ops conn_ops = {
	.complete = conn_complete,
	.connected = conn_connected,
	.disconnect = conn_disconnect,
	.returned = conn_returned,
};

static void open_on_group(void *ctx)
{
	struct rig_conn *conn = ctx;

	nvmf_qpair_open(&conn->qpair, conn->group);
	conn->opened = true;
}

static void choose_on_control(void *ctx)
{
	*(struct nvmf_poll_group **)ctx = nvmf_target_choose_group();
}

struct rig_conn *rig_open(int index)
{
	struct trace_pool_spec spec = {
		.type = TRACE_OBJECT_NVMF_REQ,
		.story_offset = offsetof(struct nvmf_req, story),
		.also_type = TRACE_OBJECT_BDEV_IO,
		.also_offset = offsetof(struct nvmf_req, io.story),
		.stride = sizeof(struct nvmf_req),
		.count = RIG_REQS_MAX,
	};
	struct rig_conn *conn = calloc(1, sizeof(*conn));

	must(conn);
	conn->reqs = trace_pool_create(&spec);
	conn->buffers = malloc((size_t)RIG_REQS_MAX * NVMF_IO_BYTES_DEFAULT);
	must(conn->buffers);
	conn->qpair.ops = &conn_ops;
	snprintf(conn->qpair.local_address, sizeof(conn->qpair.local_address), "127.0.0.1");
	snprintf(conn->qpair.local_service, sizeof(conn->qpair.local_service), "4420");
	snprintf(conn->qpair.peer_address, sizeof(conn->qpair.peer_address), "127.0.0.9");
	snprintf(conn->qpair.peer_service, sizeof(conn->qpair.peer_service), "50000");
	trace_object_init(&conn->qpair.trace, TRACE_OBJECT_QPAIR);
	rig_call(thread_control(), choose_on_control, &conn->group);
	must(conn->group);
	if (index >= 0)
		conn->group = nvmf_poll_group_at((unsigned int)index);
	rig_call(nvmf_poll_group_thread(conn->group), open_on_group, conn);
	return conn;
}

void rig_close(struct rig_conn *conn)
{
	rig_call(nvmf_poll_group_thread(conn->group), close_on_group, conn);
}

void rig_free(struct rig_conn *conn)
{
	assert_true(conn->closed);
	trace_pool_destroy(conn->reqs);
	free(conn->buffers);
	free(conn);
}

/* ---- commands ---- */

static void fill_iov(struct nvmf_req *req)
{
	uint8_t *buffer = buffer_of(req);
	size_t first = req->data_bytes > 512 ? 512 : req->data_bytes;

	/* Two pieces, so that each copy crosses a boundary. */
	req->iov[0] = (struct iovec){ .iov_base = buffer, .iov_len = first };
	req->iov[1] = (struct iovec){ .iov_base = buffer + first, .iov_len = req->data_bytes - first };
	req->iov_count = req->data_bytes > first ? 2 : 1;
}

static void execute(struct rig_cmd *cmd)
{
	struct nvmf_req *req = cmd->req;
	bool scribble = req->inline_done && req->transfer == NVMF_TRANSFER_H2C;
	struct nvmf_req *same = req;

	if (req->transfer == NVMF_TRANSFER_H2C)
		memcpy(buffer_of(req), cmd->data, req->data_bytes);
	else if (req->transfer == NVMF_TRANSFER_C2H)
		memset(buffer_of(req), 0x5a, req->data_bytes);
	nvmf_req_execute(req, reactor_now());
	/* A command that completes inside submit must have ended or have copied its data. */
	if (scribble)
		memset(buffer_of(same), 0xee, cmd->bytes);
}

static void submit_on_group(void *ctx)
{
	struct rig_cmd *cmd = ctx;
	struct rig_conn *conn = cmd->conn;
	enum nvme_status status;
	struct nvmf_req *req;
	unsigned int i = 0;

	must(!conn->disconnecting);
	while (conn->cmd_of[i])
		i++;
	must(i < RIG_REQS_MAX);
	req = &conn->reqs[i];
	conn->cmd_of[i] = cmd;
	cmd->req = req;
	req->qpair = &conn->qpair;
	req->cmd = cmd->cmd;
	status = nvmf_req_received(req, cmd->in_capsule ? cmd->bytes : 0, reactor_now());
	cmd->transfer = req->transfer;
	cmd->reads_zeroes = req->reads_zeroes;
	cmd->inline_done = req->inline_done;
	if (status != NVME_SC_SUCCESS) {
		nvmf_req_fail(req, status, reactor_now());
		return;
	}
	if (req->transfer != NVMF_TRANSFER_NONE)
		fill_iov(req);
	else
		req->iov_count = 0;
	if (cmd->hold_transfer) {
		nvmf_req_state_move(reactor_now(), req, NVMF_REQ_TRANSFER_IN);
		return;
	}
	execute(cmd);
}

void rig_begin_submit(struct rig_conn *conn, struct rig_cmd *cmd)
{
	static uint16_t cid;

	cmd->conn = conn;
	cmd->done = false;
	if (cmd->cmd.cid == 0)
		cmd->cmd.cid = ++cid ? cid : ++cid;
	thread_send_msg(nvmf_poll_group_thread(conn->group), submit_on_group, cmd);
}

void rig_submit(struct rig_conn *conn, struct rig_cmd *cmd)
{
	rig_begin_submit(conn, cmd);
	rig_run();
}

uint16_t rig_exec(struct rig_conn *conn, struct rig_cmd *cmd)
{
	rig_submit(conn, cmd);
	assert_true(cmd->done);
	return cmd->status;
}

static void transfer_on_group(void *ctx)
{
	struct rig_cmd *cmd = ctx;

	must(cmd->req);
	must(cmd->req->story.state == NVMF_REQ_TRANSFER_IN);
	execute(cmd);
}

void rig_transfer(struct rig_cmd *cmd)
{
	rig_call(nvmf_poll_group_thread(cmd->conn->group), transfer_on_group, cmd);
}

static void sent_on_group(void *ctx)
{
	struct rig_cmd *cmd = ctx;
	struct nvmf_req *req = cmd->req;

	must(cmd->done);
	cmd->req = NULL;
	if (nvmf_req_sent(req, reactor_now()))
		*slot_of(req) = NULL;
}

void rig_sent(struct rig_cmd *cmd)
{
	rig_call(nvmf_poll_group_thread(cmd->conn->group), sent_on_group, cmd);
}

struct rig_cmd rig_plain(uint8_t opcode, uint32_t nsid)
{
	return (struct rig_cmd){ .cmd = { .opc = opcode, .flags = NVME_CMD_PSDT_SGL, .nsid = nsid } };
}

struct rig_cmd rig_c2h(uint8_t opcode, uint32_t nsid, void *data, uint32_t bytes)
{
	struct rig_cmd cmd = rig_plain(opcode, nsid);

	cmd.data = data;
	cmd.bytes = bytes;
	cmd.cmd.sgl.id = NVME_SGL_ID_TRANSPORT_DATA_BLOCK;
	cmd.cmd.sgl.length = bytes;
	return cmd;
}

struct rig_cmd rig_h2c(uint8_t opcode, uint32_t nsid, void *data, uint32_t bytes)
{
	struct rig_cmd cmd = rig_c2h(opcode, nsid, data, bytes);

	if (bytes <= 4096) {
		cmd.in_capsule = true;
		cmd.cmd.sgl.id = NVME_SGL_ID_DATA_BLOCK_OFFSET;
	}
	return cmd;
}

void rig_blocks(struct rig_cmd *cmd, uint64_t slba, uint32_t count)
{
	cmd->cmd.cdw10 = (uint32_t)slba;
	cmd->cmd.cdw11 = (uint32_t)(slba >> 32);
	cmd->cmd.cdw12 = (cmd->cmd.cdw12 & ~(uint32_t)NVME_CDW12_NLB_MASK) | (count - 1);
}

struct rig_cmd rig_identify(uint8_t cns, uint32_t nsid, void *page)
{
	struct rig_cmd cmd = rig_c2h(NVME_ADMIN_IDENTIFY, nsid, page, NVME_IDENTIFY_BYTES);

	cmd.cmd.cdw10 = cns;
	return cmd;
}

struct rig_cmd rig_log(uint8_t lid, void *data, uint32_t bytes, uint64_t offset)
{
	struct rig_cmd cmd = rig_c2h(NVME_ADMIN_GET_LOG_PAGE, 0, data, bytes);
	uint32_t numd = bytes / 4 - 1;

	cmd.cmd.cdw10 = lid | (numd & 0xffff) << NVME_LOG_CDW10_NUMDL_SHIFT;
	cmd.cmd.cdw11 = numd >> 16;
	cmd.cmd.cdw12 = (uint32_t)offset;
	cmd.cmd.cdw13 = (uint32_t)(offset >> 32);
	return cmd;
}

/* ---- Connect and properties ---- */

struct rig_connect rig_connect_admin(void)
{
	return (struct rig_connect){
		.subnqn = RIG_NQN, .hostnqn = RIG_HOST, .cntlid = NVME_CNTLID_DYNAMIC, .sqsize = 31, .hostid = 7
	};
}

struct rig_connect rig_connect_io(uint16_t cntlid, uint16_t qid)
{
	return (struct rig_connect){
		.subnqn = RIG_NQN, .hostnqn = RIG_HOST, .cntlid = cntlid, .qid = qid, .sqsize = 127, .hostid = 7
	};
}

void rig_connect_cmd(struct rig_cmd *cmd, const struct rig_connect *connect, struct nvme_connect_data *data)
{
	struct nvme_connect *sqe = (struct nvme_connect *)&cmd->cmd;

	memset(data, 0, sizeof(*data));
	memset(data->hostid, connect->hostid, sizeof(data->hostid));
	data->cntlid = connect->cntlid;
	memcpy(data->subnqn, connect->subnqn, min_u64(strlen(connect->subnqn), sizeof(data->subnqn)));
	memcpy(data->hostnqn, connect->hostnqn, min_u64(strlen(connect->hostnqn), sizeof(data->hostnqn)));
	*cmd = rig_h2c(NVME_OPCODE_FABRICS, 0, data, sizeof(*data));
	sqe->fctype = NVME_FABRICS_CONNECT;
	sqe->recfmt = connect->recfmt;
	sqe->qid = connect->qid;
	sqe->sqsize = connect->sqsize;
	sqe->cattr = connect->cattr;
	sqe->kato = connect->kato;
}

uint16_t rig_connect(struct rig_conn *conn, const struct rig_connect *connect, struct rig_cmd *cmd_ret)
{
	struct nvme_connect_data data;
	struct rig_cmd cmd;

	rig_connect_cmd(&cmd, connect, &data);
	(void)rig_exec(conn, &cmd);
	if (cmd_ret)
		*cmd_ret = cmd;
	return cmd.status;
}

static struct rig_cmd property(uint8_t fctype, uint32_t offset, bool wide, uint64_t value)
{
	struct rig_cmd cmd = rig_plain(NVME_OPCODE_FABRICS, 0);
	struct nvme_property_command *sqe = (struct nvme_property_command *)&cmd.cmd;

	sqe->fctype = fctype;
	sqe->attrib = wide ? NVME_PROPERTY_8_BYTES : NVME_PROPERTY_4_BYTES;
	sqe->ofst = offset;
	sqe->value = value;
	return cmd;
}

uint16_t rig_property_set(struct rig_conn *conn, uint32_t offset, uint32_t value)
{
	struct rig_cmd cmd = property(NVME_FABRICS_PROPERTY_SET, offset, false, value);

	return rig_exec(conn, &cmd);
}

uint64_t rig_property_get(struct rig_conn *conn, uint32_t offset, bool wide)
{
	struct rig_cmd cmd = property(NVME_FABRICS_PROPERTY_GET, offset, wide, 0);

	return rig_exec(conn, &cmd) == 0 ? cmd.cpl.result : UINT64_MAX;
}

struct rig_conn *rig_admin(int index, uint16_t *cntlid_ret)
{
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *conn = rig_open(index);
	struct rig_cmd cmd;

	assert_int_equal(rig_connect(conn, &connect, &cmd), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(conn, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_get(conn, NVME_PROPERTY_CSTS, false), NVME_CSTS_RDY);
	if (cntlid_ret)
		*cntlid_ret = (uint16_t)cmd.cpl.cdw0;
	return conn;
}

struct rig_conn *rig_io(int index, uint16_t cntlid, uint16_t qid)
{
	struct rig_connect connect = rig_connect_io(cntlid, qid);
	struct rig_conn *conn = rig_open(index);

	assert_int_equal(rig_connect(conn, &connect, NULL), NVME_SC_SUCCESS);
	return conn;
}
