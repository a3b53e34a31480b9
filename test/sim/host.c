/* SPDX-License-Identifier: BSD-2-Clause */
/* host - queues: PDUs sent and received, and checks of the received ones. */
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "ledger.h"
#include "data/nvme/names.h"
#include "sim.h"

struct host hosts[HOSTS_MAX];
unsigned int host_count;

bool queue_is_well(const struct queue *queue)
{
	return !queue->may_end && !queue->must_end && !queue->host->forbidden &&
	       queue->host->character < CHARACTER_EVIL_COUNT;
}

#define queue_check(queue, condition, format, ...)                                                                         \
	sim_check(condition, "host %u queue %u: " format, (queue)->host->index, (queue)->qid, ##__VA_ARGS__)

/* ---- sending ---- */

void queue_open(struct queue *queue, struct host *host, uint16_t qid, uint16_t entries)
{
	uint8_t bytes[PDU_PUT_BYTES_MAX];
	size_t count;

	must(!queue->wire);
	memset(queue, 0, sizeof(*queue));
	queue->host = host;
	queue->qid = qid;
	queue->entries = entries;
	queue->flow_control_off = sim_chance(1, 2);
	queue->term_fei = -1;
	queue->cid_base = (uint16_t)sim_below(65536 - CMDS_MAX);
	queue->wire = wire_connect(host->index, "10.0.0.1", host->service);
	if (host->character == CHARACTER_SLOW_READER && qid > 0)
		wire_crawl(queue->wire);
	queue->terms.header_digest = sim.digests && sim_chance(1, 2);
	queue->terms.data_digest = sim.digests && sim_chance(1, 2);
	queue->hpda = sim_chance(1, 3) ? (uint8_t)sim_below(32) : 0;
	queue->maxr2t = (uint32_t)sim_below(4);
	pdu_decoder_init(&queue->decoder, PDU_SIDE_HOST);
	count = pdu_put_icreq(bytes, queue->hpda, queue->terms.header_digest, queue->terms.data_digest, queue->maxr2t);
	wire_write(queue->wire, bytes, count);
	queue->state = QUEUE_IC;
	sim.connects++;
}

struct cmd *cmd_new(struct queue *queue, uint8_t opcode, cmd_done_fn done)
{
	uint32_t first = (uint32_t)sim_below(CMDS_MAX), aborts;

	/* one entry of a queue stays free, for flow control */
	if ((queue->in_flight >= queue->entries - 1u && !queue->overruns) || !queue->wire)
		return NULL;
	for (uint32_t i = 0; i < CMDS_MAX; i++) {
		struct cmd *cmd = &queue->cmds[(first + i) % CMDS_MAX];

		if (cmd->used)
			continue;
		aborts = cmd->aborts;
		memset(cmd, 0, sizeof(*cmd));
		cmd->used = true;
		cmd->aborts = aborts;
		cmd->may_abort = aborts > 0;
		cmd->done = done;
		cmd->ns = NAMESPACES;
		cmd->nvme.opc = opcode;
		cmd->nvme.flags = NVME_CMD_PSDT_SGL;
		cmd->nvme.cid = (uint16_t)(queue->cid_base + (first + i) % CMDS_MAX);
		cmd->nvme.sgl.id = NVME_SGL_ID_TRANSPORT_DATA_BLOCK;
		return cmd;
	}
	return NULL;
}

void cmd_data(struct cmd *cmd, enum cmd_way way, uint32_t bytes, bool in_capsule)
{
	must(bytes > 0);
	cmd->way = way;
	cmd->data_bytes = bytes;
	cmd->data = calloc(1, bytes);
	must(cmd->data);
	cmd->nvme.sgl.length = bytes;
	if (!in_capsule)
		return;
	must(way == CMD_TO_TARGET);
	cmd->capsule_bytes = bytes;
	cmd->nvme.sgl.id = NVME_SGL_ID_DATA_BLOCK_OFFSET;
}

void cmd_free(struct queue *queue, struct cmd *cmd)
{
	must(cmd->used);
	if (cmd->sent) {
		must(queue->in_flight > 0);
		queue->in_flight--;
	}
	if (queue->receiving == cmd)
		queue->receiving = NULL;
	/* its queue may have been reopened */
	if (cmd->victim && cmd->victim->aborts > 0)
		cmd->victim->aborts--;
	free(cmd->data);
	cmd->used = false;
}

void cmd_may_end_with(struct cmd *cmd, uint16_t status)
{
	must(cmd->status_count < STATUSES_MAX);
	cmd->statuses[cmd->status_count++] = status;
}

static void send_data(struct queue *queue, const uint8_t *data, uint32_t bytes, bool spoil)
{
	struct iovec iov = { (void *)(uintptr_t)data, bytes };
	uint32_t digest;

	wire_write(queue->wire, data, bytes);
	if (!queue->terms.data_digest)
		return;
	digest = pdu_data_digest(&iov, 1) ^ (spoil ? 0x10000u : 0);
	wire_write(queue->wire, &digest, sizeof(digest));
}

void cmd_send(struct queue *queue, struct cmd *cmd)
{
	uint8_t bytes[PDU_PUT_BYTES_MAX];
	size_t count = pdu_put_capsule_cmd(&queue->terms, bytes, &cmd->nvme, cmd->capsule_bytes);

	must(!cmd->sent);
	wire_write(queue->wire, bytes, count);
	if (cmd->capsule_bytes)
		send_data(queue, cmd->data, cmd->capsule_bytes, cmd->bad_digest);
	cmd->sent = true;
	cmd->tick = sim.now;
	queue->last_sent = sim.now;
	queue->in_flight++;
	queue->commands_sent++;
	sim.commands++;
}

void cmd_give_data(struct queue *queue, struct cmd *cmd, uint32_t most)
{
	uint32_t left = cmd->asked - cmd->given;
	uint32_t bytes = (uint32_t)min_u64(min_u64(left, most), queue->data_pdu_max);
	uint8_t header[PDU_PUT_BYTES_MAX];
	bool spoil = cmd->bad_digest && sim_chance(1, 2);

	must(left > 0);
	if (bytes < left)
		/* the data of each PDU except the last is a multiple of 4 bytes */
		bytes = (uint32_t)max_u64(bytes & ~3u, 4);
	bytes = (uint32_t)min_u64(bytes, left);
	if (bytes == left && cmd->bad_digest && !cmd->spoiled)
		spoil = true; /* no later PDU follows */
	if (spoil)
		cmd->spoiled = true;
	wire_write(queue->wire, header,
		   pdu_put_h2c_data(&queue->terms, header,
				    &(struct pdu_h2c_data){ .cccid = cmd->nvme.cid,
							    .ttag = cmd->ttag,
							    .datao = cmd->given,
							    .datal = bytes,
							    .last = bytes == left }));
	send_data(queue, cmd->data + cmd->given, bytes, spoil);
	cmd->given += bytes;
}

/* ---- Connect ---- */

struct cmd *cmd_connect(struct queue *queue, cmd_done_fn done)
{
	struct cmd *cmd = cmd_new(queue, NVME_OPCODE_FABRICS, done);
	struct nvme_connect *connect;
	struct nvme_connect_data *data;

	must(cmd);
	cmd_data(cmd, CMD_TO_TARGET, sizeof(*data), true);
	connect = (void *)&cmd->nvme;
	data = (void *)cmd->data;
	connect->fctype = NVME_FABRICS_CONNECT;
	connect->qid = queue->qid;
	connect->sqsize = (uint16_t)(queue->entries - 1);
	connect->cattr = queue->flow_control_off ? NVME_CATTR_DISABLE_SQFLOW : 0;
	connect->kato = queue->qid == 0 ? queue->host->kato : 0;
	memcpy(data->hostid, queue->host->id, sizeof(data->hostid));
	data->cntlid = queue->qid == 0 ? NVME_CNTLID_DYNAMIC : queue->host->cntlid;
	snprintf(data->subnqn, sizeof(data->subnqn), "%s", queue->host->subnqn);
	snprintf(data->hostnqn, sizeof(data->hostnqn), "%s", queue->host->nqn);
	return cmd;
}

/* ---- receiving ---- */

static struct cmd *cmd_of(struct queue *queue, uint16_t cid, const char *what)
{
	struct cmd *cmd = NULL;

	if (cid >= queue->cid_base && cid < queue->cid_base + CMDS_MAX)
		cmd = &queue->cmds[cid - queue->cid_base];
	queue_check(queue, cmd && cmd->used && cmd->sent, "%s for command 0x%04x, which is not under way", what, cid);
	return cmd;
}

static void on_icresp(struct queue *queue, const struct nvme_tcp_icresp *resp)
{
	struct pdu_terms terms = queue->terms;
	struct pdu_limits limits = { .in_capsule_bytes_max = 0, .data_bytes_max = IO_BYTES_MAX };
	struct cmd *cmd;

	queue_check(queue, queue->state == QUEUE_IC, "a second ICResp");
	queue_check(queue, resp->dgst == (queue->terms.header_digest | queue->terms.data_digest << 1),
		    "ICResp with digests 0x%x", resp->dgst);
	queue_check(queue, resp->maxh2cdata >= NVME_TCP_MAXH2CDATA_MIN, "ICResp with MAXH2CDATA %u", resp->maxh2cdata);
	queue->terms.data_align = pdu_align(resp->cpda);
	terms.data_align = pdu_align(queue->hpda);
	queue->data_pdu_max = resp->maxh2cdata;
	pdu_decoder_start(&queue->decoder, &terms, &limits);
	queue->state = QUEUE_CONNECTING;
	cmd = cmd_connect(queue, queue->connected);
	if (queue->stranger)
		evil_connect(queue, cmd);
	cmd_send(queue, cmd);
}

/* The head of the submission queue must be between the numbers of answered and of sent commands. */
static void check_head(struct queue *queue, const struct nvme_completion *cpl)
{
	uint32_t n = queue->entries;

	queue->responses++;
	if (queue->flow_control_off || queue->state == QUEUE_CONNECTING || queue->overruns)
		return;
	queue_check(queue, cpl->sqhd < n, "SQHD %u of %u entries", cpl->sqhd, n);
	queue_check(queue, (cpl->sqhd + n - queue->responses % n) % n <= queue->commands_sent - queue->responses,
		    "SQHD %u after %u responses to %u commands, %u entries", cpl->sqhd, queue->responses,
		    queue->commands_sent, n);
}

static void complete(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	uint16_t status = nvme_status_from_field(cpl->status);

	if (status == NVME_SC_SUCCESS && cmd->way == CMD_FROM_TARGET && !cmd->short_ok)
		queue_check(queue, cmd->arrived == cmd->data_bytes,
			    "command 0x%04x (opcode 0x%02x) succeeds after %u of %u bytes", cmd->nvme.cid, cmd->nvme.opc,
			    cmd->arrived, cmd->data_bytes);
	if (status == NVME_SC_SUCCESS && cmd->way == CMD_TO_TARGET)
		queue_check(queue, cmd->capsule_bytes == cmd->data_bytes || cmd->given == cmd->data_bytes,
			    "command 0x%04x (opcode 0x%02x) succeeds after %u of %u bytes were sent", cmd->nvme.cid,
			    cmd->nvme.opc, cmd->given, cmd->data_bytes);
	if (cmd->ns < NAMESPACES && cmd->ns != HUNG_NS && queue->qid > 0) {
		queue->host->answered++;
		queue->host->bytes_done += cmd->data_bytes;
	}
	cmd->done(queue, cmd, cpl);
	cmd_free(queue, cmd);
}

static void on_response(struct queue *queue, const struct nvme_completion *cpl)
{
	struct cmd *cmd = cmd_of(queue, cpl->cid, "a response");

	queue_check(queue, cpl->sqid == queue->qid || queue->state == QUEUE_CONNECTING, "a response of queue %u",
		    cpl->sqid);
	queue_check(queue, (cpl->status & 1) == 0, "a phase bit");
	queue_check(queue, cmd != queue->receiving, "command 0x%04x is answered in the middle of its data", cpl->cid);
	check_head(queue, cpl);
	complete(queue, cmd, cpl);
}

static void on_r2t(struct queue *queue, const struct nvme_tcp_r2t *r2t)
{
	struct cmd *cmd = cmd_of(queue, r2t->cccid, "an R2T");

	queue_check(queue, cmd->way == CMD_TO_TARGET && cmd->capsule_bytes == 0,
		    "an R2T for command 0x%04x, which has no data to send", r2t->cccid);
	queue_check(queue, r2t->r2to == cmd->asked, "an R2T at %u, after %u bytes", r2t->r2to, cmd->asked);
	queue_check(queue, r2t->r2tl > 0 && r2t->r2tl <= cmd->data_bytes - cmd->asked, "an R2T of %u bytes at %u of %u",
		    r2t->r2tl, r2t->r2to, cmd->data_bytes);
	queue_check(queue, cmd->given == cmd->asked, "an R2T before the data of the last");
	cmd->ttag = r2t->ttag;
	cmd->asked += r2t->r2tl;
}

static void on_c2h_header(struct queue *queue, const struct nvme_tcp_data *data)
{
	struct cmd *cmd = cmd_of(queue, data->cccid, "data");

	queue_check(queue, cmd->way == CMD_FROM_TARGET, "data for command 0x%04x, which takes none", data->cccid);
	queue_check(queue, data->datao == cmd->arrived, "data at %u, after %u bytes", data->datao, cmd->arrived);
	queue_check(queue, data->datal <= cmd->data_bytes - cmd->arrived, "%u bytes at %u of %u", data->datal, data->datao,
		    cmd->data_bytes);
	queue->receiving = cmd;
	queue->success = (data->common.flags & NVME_TCP_FLAG_SUCCESS) != 0;
}

static void on_c2h_end(struct queue *queue, const struct pdu_step *step)
{
	struct cmd *cmd = queue->receiving;
	struct nvme_completion cpl = { 0 };

	queue_check(queue, step->digest_ok, "a wrong data digest");
	must(cmd);
	cmd->arrived += step->data_bytes;
	queue->receiving = NULL;
	if (!queue->success)
		return;
	queue_check(queue, queue->flow_control_off, "SUCCESS with flow control");
	cpl.cid = cmd->nvme.cid;
	queue->responses++;
	complete(queue, cmd, &cpl);
}

static void on_term(struct queue *queue, const struct nvme_tcp_term_req *term)
{
	bool right = false;

	sim.term_reqs++;
	for (unsigned int i = 0; i < ARRAY_COUNT(queue->term_fes); i++)
		right |= queue->term_fes[i] && queue->term_fes[i] == term->fes;
	queue_check(queue, right, "a TermReq with FES %u (FEI %u); right were %u %u %u", term->fes, term->fei,
		    queue->term_fes[0], queue->term_fes[1], queue->term_fes[2]);
	if (queue->term_fei >= 0 && term->fes == NVME_TCP_FES_INVALID_HEADER_FIELD)
		queue_check(queue, term->fei == (uint32_t)queue->term_fei, "a TermReq with FEI %u, not %d", term->fei,
			    queue->term_fei);
	queue->got_term = true;
}

static void on_header(struct queue *queue, const struct pdu_step *step)
{
	queue_check(queue, !queue->got_term, "PDU type %u after a TermReq", step->type);
	switch (step->type) {
	case NVME_TCP_ICRESP:
		on_icresp(queue, (const void *)step->bytes);
		break;
	case NVME_TCP_CAPSULE_RESP:
		on_response(queue, &((const struct nvme_tcp_capsule_resp *)(const void *)step->bytes)->completion);
		break;
	case NVME_TCP_R2T:
		on_r2t(queue, (const void *)step->bytes);
		break;
	case NVME_TCP_C2H_DATA:
		on_c2h_header(queue, (const void *)step->bytes);
		break;
	case NVME_TCP_C2H_TERM_REQ:
		on_term(queue, (const void *)step->bytes);
		break;
	default:
		sim_fail("host %u queue %u: PDU type %u", queue->host->index, queue->qid, step->type);
	}
}

static void receive(struct queue *queue)
{
	const uint8_t *at;
	size_t count = wire_peek(queue->wire, &at), used = 0;
	struct pdu_step step;

	queue_check(queue, !queue->term_over || count == 0, "%zu bytes after a TermReq", count);
	while (queue->wire) {
		enum pdu_step_kind kind = pdu_step(&queue->decoder, at + used, count - used, &step);

		if (kind == PDU_HEADER) {
			on_header(queue, &step);
		} else if (kind == PDU_DATA && step.type == NVME_TCP_C2H_DATA) {
			memcpy(queue->receiving->data + queue->receiving->arrived + step.data_offset, step.bytes,
			       step.bytes_count);
		} else if (kind == PDU_END && step.type == NVME_TCP_C2H_DATA) {
			on_c2h_end(queue, &step);
		} else if (kind == PDU_ERROR) {
			sim_fail("host %u queue %u: the target breaks the protocol: FES %u FEI %u", queue->host->index,
				 queue->qid, step.fes, step.fei);
		}
		used += step.consumed;
		if (kind == PDU_END && step.type == NVME_TCP_C2H_TERM_REQ) {
			queue->term_over = true;
			queue_check(queue, used == count, "%zu bytes after a TermReq", count - used);
		}
		if (kind == PDU_NEED_MORE)
			break;
	}
	if (queue->wire)
		wire_consume(queue->wire, used);
}

static void send_some_data(struct queue *queue)
{
	if (queue->host->character == CHARACTER_WITHHOLDER && queue->qid > 0 && !sim.woken)
		return;
	for (uint32_t i = 0; i < CMDS_MAX; i++) {
		struct cmd *cmd = &queue->cmds[i];

		if (cmd->used && cmd->asked > cmd->given && (sim.calm || sim_chance(1, 2)))
			cmd_give_data(queue, cmd, sim_chance(1, 2) ? UINT32_MAX : (uint32_t)sim_between(1, 20000));
	}
}

/* ---- the end ---- */

void queue_drop(struct queue *queue, bool reset)
{
	struct wire *wire = queue->wire;

	if (!wire)
		return;
	for (uint32_t i = 0; i < CMDS_MAX; i++) {
		if (queue->cmds[i].used) {
			io_lost(&queue->cmds[i]);
			cmd_free(queue, &queue->cmds[i]);
		}
	}
	must(queue->in_flight == 0);
	if (!reset)
		wire_fin(wire);
	queue->wire = NULL;
	queue->state = QUEUE_NONE;
	wire_free(wire);
}

static void ended(struct queue *queue)
{
	queue_check(queue, !queue_is_well(queue), "the target has ended the connection%s, unasked",
		    wire_was_reset(queue->wire) ? " (reset)" : "");
	/* the TermReq may be lost if the target resets because the host still sends; a slow network gets a second */
	if (queue->term_fes[0] && queue->must_end && !wire_was_reset(queue->wire) &&
	    sim.now - queue->host->doomed_since < NS_PER_SEC)
		queue_check(queue, queue->got_term, "the connection ended without the TermReq (FES %u) it deserved",
			    queue->term_fes[0]);
	sim.deaths++;
	queue_drop(queue, sim_chance(1, 2));
}

void queue_step(struct queue *queue)
{
	if (!queue->wire || queue->silent)
		return;
	receive(queue);
	if (!queue->wire)
		return;
	if (wire_ended(queue->wire) && !(queue->lingers && queue->got_term && !wire_target_gone(queue->wire))) {
		ended(queue);
		return;
	}
	if (!queue->must_end)
		send_some_data(queue);
}
