/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evil - violations of the protocol by a host, and the responses that the specification requires: a TermReq that ends the
 * connection, a status, or a refused Connect. Other connections must not be affected.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "host.h"
#include "ledger.h"
#include "data/nvme/identify.h"
#include "data/nvme/register.h"
#include "sim.h"

/* ---- bad PDUs ---- */

struct lie {
	uint8_t bytes[PDU_PUT_BYTES_MAX];
	size_t count;
};

static void expect(struct queue *queue, uint8_t fes, uint8_t or_fes, int fei)
{
	queue->term_fes[0] = fes;
	queue->term_fes[1] = or_fes;
	/* if the changed field gives the header's length, the digest is at another place */
	queue->term_fes[2] = queue->terms.header_digest ? NVME_TCP_FES_HEADER_DIGEST_ERROR : 0;
	queue->term_fei = fei;
	queue->must_end = true;
}

static struct nvme_tcp_common *flush_command(struct queue *queue, struct lie *lie, const struct pdu_terms *terms)
{
	struct nvme_command command = { .opc = NVME_NVM_FLUSH, .flags = NVME_CMD_PSDT_SGL, .nsid = 1, .cid = 1 };

	lie->count = pdu_put_capsule_cmd(terms, lie->bytes, &command, 0);
	return (void *)lie->bytes;
}

/* Update the header digest after a change. */
static void sign(struct queue *queue, struct lie *lie, uint8_t header_bytes)
{
	uint32_t digest;

	if (!queue->terms.header_digest)
		return;
	digest = pdu_crc_final(pdu_crc_update(PDU_CRC_INIT, lie->bytes, header_bytes));
	memcpy(lie->bytes + header_bytes, &digest, sizeof(digest));
}

static void lie_type(struct queue *queue, struct lie *lie)
{
	static const uint8_t types[] = { 0x08, 0x0a, 0x55, 0xff };

	flush_command(queue, lie, &queue->terms)->type = types[sim_below(ARRAY_COUNT(types))];
	sign(queue, lie, sizeof(struct nvme_tcp_capsule_cmd));
	expect(queue, NVME_TCP_FES_INVALID_HEADER_FIELD, 0, 0);
}

/* PDUs that only a controller may send, or a second ICReq. */
static void lie_sequence(struct queue *queue, struct lie *lie)
{
	struct nvme_completion cpl = { .cid = 1 };

	switch (sim_below(4)) {
	case 0:
		lie->count = pdu_put_icreq(lie->bytes, 0, false, false, 0);
		break;
	case 1:
		lie->count = pdu_put_capsule_resp(&queue->terms, lie->bytes, &cpl);
		break;
	case 2:
		lie->count = pdu_put_r2t(&queue->terms, lie->bytes, 1, 1, 0, 512);
		break;
	default:
		lie->count = pdu_put_icresp(lie->bytes, 0, false, false, 8192);
		break;
	}
	expect(queue, NVME_TCP_FES_PDU_SEQUENCE_ERROR, NVME_TCP_FES_INVALID_HEADER_FIELD, 0);
}

static void lie_hlen(struct queue *queue, struct lie *lie)
{
	flush_command(queue, lie, &queue->terms)->hlen = (uint8_t)sim_between(73, 255);
	expect(queue, NVME_TCP_FES_INVALID_HEADER_FIELD, 0, 2);
}

static void lie_plen(struct queue *queue, struct lie *lie)
{
	flush_command(queue, lie, &queue->terms)->plen = (uint32_t)sim_below(72);
	sign(queue, lie, sizeof(struct nvme_tcp_capsule_cmd));
	expect(queue, NVME_TCP_FES_INVALID_HEADER_FIELD, 0, 4);
}

static void lie_pdo(struct queue *queue, struct lie *lie)
{
	struct nvme_tcp_common *common = flush_command(queue, lie, &queue->terms);

	common->plen += 512;
	common->flags |= queue->terms.data_digest ? NVME_TCP_FLAG_DDGST : 0;
	common->pdo = (uint8_t)sim_below(72);
	sign(queue, lie, sizeof(struct nvme_tcp_capsule_cmd));
	expect(queue, NVME_TCP_FES_INVALID_HEADER_FIELD, 0, 3);
}

static void lie_flags(struct queue *queue, struct lie *lie)
{
	flush_command(queue, lie, &queue->terms)->flags ^= NVME_TCP_FLAG_HDGST;
	expect(queue, NVME_TCP_FES_INVALID_HEADER_FIELD, 0, 1);
}

static void lie_digest(struct queue *queue, struct lie *lie)
{
	flush_command(queue, lie, &queue->terms);
	if (!queue->terms.header_digest) {
		lie_hlen(queue, lie);
		return;
	}
	lie->bytes[sim_between(8, 75)] ^= (uint8_t)(1 << sim_below(8));
	expect(queue, NVME_TCP_FES_HEADER_DIGEST_ERROR, 0, -1);
}

static void lie_capsule_size(struct queue *queue, struct lie *lie)
{
	struct nvme_command command = { .opc = NVME_NVM_WRITE, .flags = NVME_CMD_PSDT_SGL, .nsid = 1, .cid = 1 };

	lie->count = pdu_put_capsule_cmd(&queue->terms, lie->bytes, &command, (uint32_t)sim_between(8193, 1 << 20));
	expect(queue, NVME_TCP_FES_LIMIT_EXCEEDED, NVME_TCP_FES_INVALID_HEADER_FIELD, 4);
}

/* H2CData without an R2T, or different from it. `cmd` waits for data; NULL: none does. */
static void lie_h2c(struct queue *queue, struct lie *lie, struct cmd *cmd)
{
	uint16_t cid = cmd ? cmd->nvme.cid : 77, ttag = cmd ? cmd->ttag : (uint16_t)sim_below(200);
	uint32_t given = cmd ? cmd->given : 0, left = cmd ? cmd->asked - cmd->given : 512;
	uint64_t kind = cmd ? sim_below(6) : 0;

	if (kind == 0) {
		ttag = cmd ? (uint16_t)(ttag + sim_between(300, 60000)) : ttag;
		expect(queue, NVME_TCP_FES_INVALID_HEADER_FIELD, 0, cmd ? 10 : -1); /* the tag may be another command's */
	} else if (kind == 1) {
		cid ^= 0x55;
		expect(queue, NVME_TCP_FES_INVALID_HEADER_FIELD, 0, 8);
	} else if (kind == 2) {
		given += 4 * (uint32_t)sim_between(1, 100);
		expect(queue, NVME_TCP_FES_DATA_OUT_OF_RANGE, NVME_TCP_FES_PDU_SEQUENCE_ERROR, 12);
	} else if (kind == 3) {
		left += 4;
		expect(queue, NVME_TCP_FES_DATA_OUT_OF_RANGE, NVME_TCP_FES_LIMIT_EXCEEDED, -1);
	} else if (kind == 4) {
		left = queue->data_pdu_max + 4;
		expect(queue, NVME_TCP_FES_LIMIT_EXCEEDED, NVME_TCP_FES_DATA_OUT_OF_RANGE, -1);
	} else {
		given = UINT32_MAX - 255;
		expect(queue, NVME_TCP_FES_DATA_OUT_OF_RANGE, NVME_TCP_FES_PDU_SEQUENCE_ERROR, -1);
	}
	lie->count = pdu_put_h2c_data(&queue->terms, lie->bytes,
				      &(struct pdu_h2c_data){
					      .cccid = cid, .ttag = ttag, .datao = given, .datal = left, .last = true });
}

/* A command that has received all its data and waits for its response. */
static struct cmd *waiting_for_answer(struct queue *queue)
{
	for (uint32_t i = 0; i < CMDS_MAX; i++) {
		if (queue->cmds[i].used && queue->cmds[i].given > 0 && queue->cmds[i].given == queue->cmds[i].data_bytes)
			return &queue->cmds[i];
	}
	return NULL;
}

/* Data again, for a tag that is no longer valid (or is now another command's). */
static void lie_again(struct queue *queue, struct lie *lie)
{
	struct cmd *cmd = waiting_for_answer(queue);

	if (!cmd) {
		lie_h2c(queue, lie, NULL);
		return;
	}
	lie->count = pdu_put_h2c_data(&queue->terms, lie->bytes,
				      &(struct pdu_h2c_data){
					      .cccid = cmd->nvme.cid,
					      .ttag = cmd->ttag,
					      .datal = (uint32_t)min_u64(cmd->data_bytes, queue->data_pdu_max),
					      .last = true });
	expect(queue, NVME_TCP_FES_INVALID_HEADER_FIELD, 0, -1);
}

/* The flag LAST before the end of the data. */
static void lie_last(struct queue *queue, struct lie *lie, struct cmd *cmd)
{
	uint32_t left = cmd ? cmd->asked - cmd->given : 0;

	if (left < 8) {
		lie_h2c(queue, lie, cmd);
		return;
	}
	lie->count = pdu_put_h2c_data(
		&queue->terms, lie->bytes,
		&(struct pdu_h2c_data){
			.cccid = cmd->nvme.cid, .ttag = cmd->ttag, .datao = cmd->given, .datal = left - 4, .last = true });
	expect(queue, NVME_TCP_FES_INVALID_HEADER_FIELD, NVME_TCP_FES_PDU_SEQUENCE_ERROR, 1);
}

static void lie_term_req(struct queue *queue, struct lie *lie)
{
	lie->count = pdu_put_h2c_term_req(lie->bytes, NVME_TCP_FES_PDU_SEQUENCE_ERROR, 0, lie->bytes, 24);
	queue->must_end = true;
}

static struct cmd *waiting_for_data(struct queue *queue)
{
	for (uint32_t i = 0; i < CMDS_MAX; i++) {
		if (queue->cmds[i].used && queue->cmds[i].asked > queue->cmds[i].given)
			return &queue->cmds[i];
	}
	return NULL;
}

/* An invalid ICReq, on a separate connection. */
static void lie_at_once(struct host *host)
{
	struct queue *queue = &host->queues[QUEUES_MAX];
	struct lie lie = { .count = 0 };
	struct nvme_tcp_icreq *icreq = (void *)lie.bytes;
	static const struct pdu_terms plain = { .data_align = 4 };

	if (queue->wire)
		return;
	memset(queue, 0, sizeof(*queue));
	queue->host = host;
	queue->qid = 9;
	pdu_decoder_init(&queue->decoder, PDU_SIDE_HOST);
	queue->wire = wire_connect(host->index, "10.0.0.1", host->service);
	lie.count = pdu_put_icreq(lie.bytes, 0, false, false, 0);
	switch (sim_below(5)) {
	case 4: /* send nothing: the target waits for half a minute */
		queue->must_end = true;
		return;
	case 0:
		icreq->pfv = 7;
		expect(queue, NVME_TCP_FES_UNSUPPORTED_PARAMETER, 0, 8);
		break;
	case 1:
		icreq->hpda = (uint8_t)sim_between(32, 255);
		expect(queue, NVME_TCP_FES_INVALID_HEADER_FIELD, 0, 10);
		break;
	case 2:
		icreq->common.plen = 136;
		expect(queue, NVME_TCP_FES_INVALID_HEADER_FIELD, 0, 4);
		break;
	default:
		flush_command(queue, &lie, &plain);
		expect(queue, NVME_TCP_FES_PDU_SEQUENCE_ERROR, NVME_TCP_FES_INVALID_HEADER_FIELD, 0);
		break;
	}
	wire_write(queue->wire, lie.bytes, lie.count);
}

/* Send more commands than the queue has entries. The number needed depends on how fast they are answered. */
static void overrun(struct queue *queue)
{
	queue->overruns = true;
	queue->may_end = true;
	queue->term_fes[0] = NVME_TCP_FES_PDU_SEQUENCE_ERROR;
	for (uint64_t i = sim_below(queue->entries * 2u); i > 0; i--) {
		if (!io_send(queue))
			return;
	}
}

void evil_pdu(struct host *host)
{
	static void (*const lies[])(struct queue * queue,
				    struct lie * lie) = { lie_type,  lie_sequence, lie_hlen,	     lie_plen,	  lie_pdo,
							  lie_flags, lie_digest,   lie_capsule_size, lie_term_req };
	struct queue *queue = &host->queues[sim_below(host->queue_count)];
	struct lie lie = { .count = 0 };
	uint8_t junk[300];
	uint64_t kind = sim_below(ARRAY_COUNT(lies) + 5);

	if (queue->state == QUEUE_UP && queue->qid > 0 && sim_chance(1, 8)) {
		overrun(queue);
		return;
	}
	queue->lingers = sim_chance(1, 4);
	if (queue->state != QUEUE_UP || kind == ARRAY_COUNT(lies)) {
		lie_at_once(host);
		return;
	}
	if (kind < ARRAY_COUNT(lies))
		lies[kind](queue, &lie);
	else if (kind == ARRAY_COUNT(lies) + 1)
		lie_last(queue, &lie, waiting_for_data(queue));
	else if (kind == ARRAY_COUNT(lies) + 2 || waiting_for_answer(queue))
		lie_again(queue, &lie);
	else
		lie_h2c(queue, &lie, waiting_for_data(queue));
	sim_say("host %u queue %u lies: kind %lu, FES %u due", host->index, queue->qid, (unsigned long)kind,
		queue->term_fes[0]);
	wire_write(queue->wire, lie.bytes, lie.count);
	/* all bytes after it are dropped */
	memset(junk, 0xee, sizeof(junk));
	wire_write(queue->wire, junk, sizeof(junk));
}

/* ---- bad commands ---- */

static void refused(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	/* io_judge() fails the run if the status is wrong */
	(void)io_judge(queue, cmd, nvme_status_from_field(cpl->status));
}

static void refused_by(struct cmd *cmd, uint16_t status, uint16_t or_status)
{
	cmd_may_end_with(cmd, status);
	cmd_may_end_with(cmd, or_status);
}

/* A valid write or read of one block, of which the caller changes a field. The ledger does not record it. */
static struct cmd *small_io(struct queue *queue, bool write)
{
	struct cmd *cmd = cmd_new(queue, write ? NVME_NVM_WRITE : NVME_NVM_READ, refused);
	uint32_t block_bytes = queue->host->block_bytes[0];

	if (!cmd)
		return NULL;
	cmd->ns = 0;
	cmd->nvme.nsid = 1;
	cmd_data(cmd, write ? CMD_TO_TARGET : CMD_FROM_TARGET, block_bytes, write && sim_chance(1, 2));
	if (write)
		ledger_fill(0, 0, ledger_new_stamp(), cmd->data, block_bytes);
	return cmd;
}

static void spoil(struct queue *queue, struct cmd *cmd)
{
	struct nvme_command *nvme = &cmd->nvme;

	switch (sim_below(11)) {
	case 0:
		nvme->opc = (uint8_t)(0x80 | sim_below(128));
		refused_by(cmd, NVME_SC_INVALID_OPCODE, NVME_SC_INVALID_OPCODE);
		break;
	case 1:
		nvme->nsid = sim_chance(1, 3)	? 0
			     : sim_chance(1, 2) ? NVME_NSID_ALL
						: (uint32_t)sim_between(NAMESPACES + 1, 2000);
		refused_by(cmd, NVME_SC_INVALID_NAMESPACE, NVME_SC_INVALID_NAMESPACE);
		break;
	case 2:
		nvme->cdw10 = (uint32_t)queue->host->block_count[0] + (uint32_t)sim_below(3);
		refused_by(cmd, NVME_SC_LBA_OUT_OF_RANGE, NVME_SC_LBA_OUT_OF_RANGE);
		break;
	case 3:
		nvme->cdw11 = 0xffffffff;
		nvme->cdw10 = 0xffffffff;
		refused_by(cmd, NVME_SC_LBA_OUT_OF_RANGE, NVME_SC_LBA_OUT_OF_RANGE);
		break;
	case 4:
		nvme->cdw12 = 1; /* two blocks with data for one */
		refused_by(cmd, NVME_SC_DATA_SGL_LENGTH_INVALID, NVME_SC_INVALID_FIELD);
		break;
	case 5:
		nvme->cdw12 = 0xffff;
		refused_by(cmd, NVME_SC_INVALID_FIELD, NVME_SC_DATA_SGL_LENGTH_INVALID);
		break;
	case 6:
		nvme->sgl.id = 0x20;
		refused_by(cmd, NVME_SC_SGL_TYPE_INVALID, NVME_SC_INVALID_FIELD);
		break;
	case 7:
		nvme->flags |= NVME_CMD_FUSE_FIRST;
		refused_by(cmd, NVME_SC_INVALID_FIELD, NVME_SC_ABORTED_MISSING_FUSED);
		break;
	case 8:
		nvme->flags = NVME_CMD_PSDT_PRP;
		refused_by(cmd, NVME_SC_INVALID_FIELD, NVME_SC_INVALID_FIELD);
		break;
	case 9:
		nvme->opc = NVME_NVM_WRITE_ZEROES;
		nvme->cdw10 = (uint32_t)queue->host->block_count[0] - 1;
		nvme->cdw12 = 1;
		refused_by(cmd, NVME_SC_LBA_OUT_OF_RANGE, NVME_SC_INVALID_FIELD);
		break;
	default: /* claims data in the capsule beyond its end */
		nvme->sgl.id = NVME_SGL_ID_DATA_BLOCK_OFFSET;
		nvme->sgl.address = 4096;
		refused_by(cmd, NVME_SC_SGL_OFFSET_INVALID, NVME_SC_INVALID_FIELD);
		cmd_may_end_with(cmd, NVME_SC_DATA_SGL_LENGTH_INVALID);
		cmd_may_end_with(cmd, NVME_SC_SGL_TYPE_INVALID);
		break;
	}
}

static bool evil_admin(struct queue *queue)
{
	struct cmd *cmd;

	if (queue->state != QUEUE_UP || queue->must_end || queue->silent)
		return false;
	cmd = cmd_new(queue, NVME_ADMIN_IDENTIFY, refused);
	if (!cmd)
		return false;
	switch (sim_below(5)) {
	case 0:
		cmd_data(cmd, CMD_FROM_TARGET, NVME_IDENTIFY_BYTES, false);
		cmd->nvme.cdw10 = 0xee;
		refused_by(cmd, NVME_SC_INVALID_FIELD, NVME_SC_INVALID_FIELD);
		break;
	case 1:
		cmd->nvme.opc = NVME_ADMIN_CREATE_IO_SQ;
		refused_by(cmd, NVME_SC_INVALID_OPCODE, NVME_SC_INVALID_OPCODE);
		break;
	case 2:
		cmd->nvme.opc = NVME_ADMIN_GET_LOG_PAGE;
		cmd_data(cmd, CMD_FROM_TARGET, 512, false);
		cmd->nvme.cdw10 = 0xc9 | 127 << 16;
		refused_by(cmd, NVME_SC_INVALID_LOG_PAGE, NVME_SC_INVALID_FIELD);
		break;
	case 3:
		cmd->nvme.opc = NVME_ADMIN_GET_FEATURES;
		cmd->nvme.cdw10 = 0x7c;
		refused_by(cmd, NVME_SC_INVALID_FIELD, NVME_SC_INVALID_FIELD);
		break;
	default: { /* a second Connect */
		struct nvme_fabrics_command *connect = (void *)&cmd->nvme;

		connect->opc = NVME_OPCODE_FABRICS;
		connect->fctype = NVME_FABRICS_CONNECT;
		cmd_data(cmd, CMD_TO_TARGET, sizeof(struct nvme_connect_data), true);
		refused_by(cmd, NVME_SC_COMMAND_SEQUENCE_ERROR, NVME_SC_COMMAND_SEQUENCE_ERROR);
		break;
	}
	}
	cmd_send(queue, cmd);
	return true;
}

bool evil_command(struct queue *queue)
{
	struct cmd *cmd;

	if (sim_chance(1, 4))
		return evil_admin(&queue->host->queues[0]);
	if (queue->state != QUEUE_UP || queue->must_end || queue->silent || !queue->host->ns_known[0])
		return false;
	cmd = small_io(queue, sim_chance(1, 2));
	if (!cmd)
		return false;
	spoil(queue, cmd);
	cmd_send(queue, cmd);
	return true;
}

/* ---- bad Connects ---- */

static void stranger_refused(struct queue *queue, struct cmd *cmd, const struct nvme_completion *cpl)
{
	/* io_judge() fails the run if the status is wrong */
	(void)io_judge(queue, cmd, nvme_status_from_field(cpl->status));
	queue->may_end = true;
	queue->state = QUEUE_REFUSED;
}

void evil_connect(struct queue *queue, struct cmd *cmd)
{
	struct nvme_connect *connect = (void *)&cmd->nvme;
	struct nvme_connect_data *data = (void *)cmd->data;

	cmd->done = stranger_refused;
	switch (sim_below(7)) {
	case 0:
		text_copy(data->subnqn, sizeof(data->subnqn), "nqn.2024-01.io.fathom:nowhere");
		refused_by(cmd, NVME_SC_CONNECT_INVALID_PARAMETERS, NVME_SC_CONNECT_INVALID_PARAMETERS);
		break;
	case 1:
		text_copy(data->hostnqn, sizeof(data->hostnqn), "nqn.2024-01.io.fathom:nobody");
		refused_by(cmd, NVME_SC_CONNECT_INVALID_HOST, NVME_SC_CONNECT_INVALID_PARAMETERS);
		break;
	case 2:
		connect->recfmt = 1;
		refused_by(cmd, NVME_SC_CONNECT_INCOMPATIBLE_FORMAT, NVME_SC_CONNECT_INCOMPATIBLE_FORMAT);
		break;
	case 3:
		connect->sqsize = sim_chance(1, 2) ? 0 : 0xffff;
		refused_by(cmd, NVME_SC_CONNECT_INVALID_PARAMETERS, NVME_SC_CONNECT_INVALID_PARAMETERS);
		break;
	case 4:
		connect->qid = 1;
		data->cntlid = 0x7777;
		refused_by(cmd, NVME_SC_CONNECT_INVALID_PARAMETERS, NVME_SC_CONNECT_INVALID_PARAMETERS);
		break;
	case 5: /* an existing controller id, or one above all that were allocated */
		connect->qid = sim_chance(1, 2) ? 1 : 200;
		data->cntlid = queue->host->cntlid;
		refused_by(cmd, NVME_SC_CONNECT_INVALID_PARAMETERS, NVME_SC_INVALID_QUEUE_ID);
		cmd_may_end_with(cmd, NVME_SC_COMMAND_SEQUENCE_ERROR);
		break;
	default: /* not a Connect */
		cmd->nvme.opc = NVME_NVM_FLUSH;
		refused_by(cmd, NVME_SC_COMMAND_SEQUENCE_ERROR, NVME_SC_COMMAND_SEQUENCE_ERROR);
		break;
	}
}

void evil_stranger(struct host *host)
{
	struct queue *queue = &host->queues[QUEUES_MAX];

	if (queue->wire)
		return;
	queue_open(queue, host, 0, 32);
	queue->stranger = true;
}
