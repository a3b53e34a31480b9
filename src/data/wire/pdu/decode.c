/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * decode - pdu_step() without the fast path.
 *
 * A header is checked in three rounds, each as soon as its bytes have arrived. A peer that sends a bad header and then
 * waits gets its TermReq without sending more:
 *
 *      8 bytes          type, phase, HLEN, HDGSTF; without header digest also the lengths of round three
 *      HLEN (+ digest)  the header digest
 *      the same         lengths (DDGSTF, PDO, PLEN), then the fields of the type
 *
 * A rejection depends only on the header's bytes, not on where the window ended. So it reports the 8 or HLEN bytes that its
 * round reads, even if more have arrived.
 */
#include "base/bits.h"
#include "data/wire/pdu/pdu.h"

#define COMMON_BYTES sizeof(struct nvme_tcp_common)
#define AT_FLAGS offsetof(struct nvme_tcp_common, flags)
#define AT_HLEN offsetof(struct nvme_tcp_common, hlen)
#define AT_PDO offsetof(struct nvme_tcp_common, pdo)
#define AT_PLEN offsetof(struct nvme_tcp_common, plen)

/* Properties of a PDU type. */
enum {
	FROM_HOST = BIT(PDU_SIDE_TARGET),
	FROM_CONTROLLER = BIT(PDU_SIDE_HOST),
	DIGESTS = 1 << 2, /* HDGSTF is valid */
	DATA = 1 << 3,	  /* data may follow at PDO */
	IC = 1 << 4,	  /* opens the connection */
	TERM = 1 << 5,	  /* ends it */
};

/* By type; an undefined type has hlen 0. */
static const struct pdu_rule {
	uint8_t hlen;
	uint8_t is;
} rules[] = {
	[NVME_TCP_ICREQ] = { sizeof(struct nvme_tcp_icreq), FROM_HOST | IC },
	[NVME_TCP_ICRESP] = { sizeof(struct nvme_tcp_icresp), FROM_CONTROLLER | IC },
	[NVME_TCP_H2C_TERM_REQ] = { sizeof(struct nvme_tcp_term_req), FROM_HOST | TERM },
	[NVME_TCP_C2H_TERM_REQ] = { sizeof(struct nvme_tcp_term_req), FROM_CONTROLLER | TERM },
	[NVME_TCP_CAPSULE_CMD] = { sizeof(struct nvme_tcp_capsule_cmd), FROM_HOST | DIGESTS | DATA },
	[NVME_TCP_CAPSULE_RESP] = { sizeof(struct nvme_tcp_capsule_resp), FROM_CONTROLLER | DIGESTS },
	[NVME_TCP_H2C_DATA] = { sizeof(struct nvme_tcp_data), FROM_HOST | DIGESTS | DATA },
	[NVME_TCP_C2H_DATA] = { sizeof(struct nvme_tcp_data), FROM_CONTROLLER | DIGESTS | DATA },
	[NVME_TCP_R2T] = { sizeof(struct nvme_tcp_r2t), FROM_CONTROLLER | DIGESTS },
};

/* Why a header is rejected; fes 0: it is accepted. */
struct refusal {
	uint16_t fes;
	uint32_t fei;
};

static const struct refusal accepted;

/* Layout of a PDU whose lengths check_lengths() accepted. */
struct frame {
	uint32_t header_bytes; /* up to the data, or all */
	uint32_t data_bytes;
	bool data_digest;
};

static struct refusal reject_header(enum nvme_tcp_fes fes, size_t fei)
{
	/* Only these two errors carry a field offset (FEI), and it lies within the header. */
	must(fei == 0 || fes == NVME_TCP_FES_INVALID_HEADER_FIELD || fes == NVME_TCP_FES_UNSUPPORTED_PARAMETER);
	must(fei < PDU_HLEN_MAX);
	return (struct refusal){ .fes = (uint16_t)fes, .fei = (uint32_t)fei };
}

static struct refusal reject_field(size_t fei)
{
	return reject_header(NVME_TCP_FES_INVALID_HEADER_FIELD, fei);
}

void pdu_decoder_init(struct pdu_decoder *decoder, enum pdu_side side)
{
	must(side == PDU_SIDE_TARGET || side == PDU_SIDE_HOST);
	memset(decoder, 0, sizeof(*decoder));
	decoder->side = (uint8_t)side;
	decoder->phase = PDU_PHASE_INITIAL;
	decoder->position = PDU_AT_HEADER;
	decoder->plain_word = PDU_PLAIN_NONE;
	decoder->plain_bytes = COMMON_BYTES;
}

void pdu_decoder_start(struct pdu_decoder *decoder, const struct pdu_terms *terms, const struct pdu_limits *limits)
{
	struct nvme_tcp_common plain = { .type = NVME_TCP_CAPSULE_CMD };

	must(decoder->phase == PDU_PHASE_NEGOTIATED);
	must(decoder->position == PDU_AT_HEADER);
	must(terms->data_align >= 4);
	must(terms->data_align <= NVME_TCP_DATA_ALIGN_MAX);
	must(terms->data_align % 4 == 0);
	decoder->terms = *terms;
	decoder->limits = *limits;
	decoder->phase = PDU_PHASE_RUNNING;
	if (terms->header_digest)
		return; /* with header digests there is no fast path */
	if (decoder->side == PDU_SIDE_HOST)
		plain.type = NVME_TCP_CAPSULE_RESP;
	plain.hlen = rules[plain.type].hlen;
	plain.plen = plain.hlen;
	memcpy(&decoder->plain_word, &plain, sizeof(decoder->plain_word));
	decoder->plain_bytes = plain.hlen;
	must((decoder->plain_word & PDU_PLAIN_MASK) == decoder->plain_word);
	must(decoder->plain_bytes >= COMMON_BYTES);
}

void pdu_decoder_set_limits(struct pdu_decoder *decoder, const struct pdu_limits *limits)
{
	must(decoder->phase == PDU_PHASE_RUNNING || decoder->phase == PDU_PHASE_CLOSED);
	decoder->limits = *limits;
}

static enum pdu_step_kind need_more(size_t in_bytes, size_t need_bytes, struct pdu_step *step)
{
	must(need_bytes > in_bytes);
	must(need_bytes <= PDU_WINDOW_BYTES_MIN);
	step->kind = PDU_NEED_MORE;
	step->consumed = 0;
	step->need_bytes = (uint32_t)need_bytes;
	return PDU_NEED_MORE;
}

/* The stream cannot be parsed beyond this point: later bytes are discarded. */
static void close_decoder(struct pdu_decoder *decoder)
{
	decoder->phase = PDU_PHASE_CLOSED;
	decoder->position = PDU_AT_HEADER;
	decoder->plain_word = PDU_PLAIN_NONE;
}

static enum pdu_step_kind report_refusal(struct pdu_decoder *decoder, struct refusal refusal, const uint8_t *in,
					 size_t header_bytes, struct pdu_step *step)
{
	must(refusal.fes != accepted.fes);
	must(header_bytes >= COMMON_BYTES);
	must(header_bytes <= NVME_TCP_TERM_DATA_BYTES_MAX);
	close_decoder(decoder);
	step->kind = PDU_ERROR;
	step->consumed = 0;
	step->bytes = in;
	step->bytes_count = (uint32_t)header_bytes;
	step->type = in[0];
	step->fes = refusal.fes;
	step->fei = refusal.fei;
	return PDU_ERROR;
}

static bool phase_allows(const struct pdu_decoder *decoder, const struct pdu_rule *rule)
{
	switch (decoder->phase) {
	case PDU_PHASE_INITIAL:
		/* A controller may answer our ICReq with a TermReq. A host has received nothing to reject yet. */
		return rule->is & IC || (rule->is & TERM && decoder->side == PDU_SIDE_HOST);
	case PDU_PHASE_NEGOTIATED:
		return rule->is & TERM;
	case PDU_PHASE_RUNNING:
		return !(rule->is & IC);
	default:
		return false;
	}
}

/* Round one. `*rule_ret` is set if the header is accepted. */
static struct refusal check_kind(const struct pdu_decoder *decoder, const struct nvme_tcp_common *common,
				 const struct pdu_rule **rule_ret)
{
	const struct pdu_rule *rule;

	if (common->type >= ARRAY_COUNT(rules) || rules[common->type].hlen == 0)
		return reject_field(0);
	rule = &rules[common->type];
	if (!(rule->is & BIT(decoder->side)))
		return reject_field(0);
	if (!phase_allows(decoder, rule))
		return reject_header(NVME_TCP_FES_PDU_SEQUENCE_ERROR, 0);
	if (common->hlen != rule->hlen)
		return reject_field(AT_HLEN);
	if (rule->is & DIGESTS && !!(common->flags & NVME_TCP_FLAG_HDGST) != decoder->terms.header_digest)
		return reject_field(AT_FLAGS);
	*rule_ret = rule;
	return accepted;
}

/* Check DDGSTF, PDO, PLEN and size of a PDU with data. PLEN is larger than `frame->header_bytes`. */
static struct refusal check_data_lengths(const struct pdu_decoder *decoder, const struct nvme_tcp_common *common,
					 struct frame *frame)
{
	uint32_t digest_bytes = decoder->terms.data_digest ? PDU_DIGEST_BYTES : 0;
	uint32_t limit = decoder->limits.data_bytes_max;

	must(common->plen > frame->header_bytes);
	if (!!(common->flags & NVME_TCP_FLAG_DDGST) != decoder->terms.data_digest)
		return reject_field(AT_FLAGS);
	if (common->pdo < frame->header_bytes || common->pdo % decoder->terms.data_align != 0)
		return reject_field(AT_PDO);
	must(common->pdo <= PDU_PDO_MAX);
	if (common->plen <= common->pdo + digest_bytes)
		return reject_field(AT_PLEN);
	frame->header_bytes = common->pdo;
	frame->data_bytes = common->plen - common->pdo - digest_bytes;
	frame->data_digest = decoder->terms.data_digest;
	if (common->type == NVME_TCP_CAPSULE_CMD)
		limit = decoder->limits.in_capsule_bytes_max;
	if (frame->data_bytes > limit)
		return reject_header(NVME_TCP_FES_LIMIT_EXCEEDED, 0);
	return accepted;
}

/* Check DDGSTF, PDO and PLEN. `*frame_ret` is set if they are accepted. */
static struct refusal check_lengths(const struct pdu_decoder *decoder, const struct pdu_rule *rule,
				    const struct nvme_tcp_common *common, struct frame *frame_ret)
{
	bool header_digest = rule->is & DIGESTS && decoder->terms.header_digest;
	struct frame frame = { .header_bytes = rule->hlen + (header_digest ? PDU_DIGEST_BYTES : 0) };
	struct refusal refusal = accepted;

	if (rule->is & DATA) {
		if (common->flags & NVME_TCP_FLAG_DDGST && !decoder->terms.data_digest)
			return reject_field(AT_FLAGS);
		if (common->plen > frame.header_bytes)
			refusal = check_data_lengths(decoder, common, &frame);
		else if (common->plen < frame.header_bytes || common->type != NVME_TCP_CAPSULE_CMD)
			refusal = reject_field(AT_PLEN);
	} else if (rule->is & TERM) {
		if (common->plen < frame.header_bytes || common->plen > PDU_TERM_REQ_BYTES_MAX)
			return reject_field(AT_PLEN);
		frame.data_bytes = common->plen - frame.header_bytes;
	} else if (common->plen != frame.header_bytes) {
		return reject_field(AT_PLEN);
	}
	if (refusal.fes)
		return refusal;
	must(frame.header_bytes >= rule->hlen);
	must(frame.data_bytes <= common->plen);
	*frame_ret = frame;
	return accepted;
}

static struct refusal check_icreq(const uint8_t *in)
{
	struct nvme_tcp_icreq req;

	memcpy(&req, in, sizeof(req));
	must(req.common.type == NVME_TCP_ICREQ);
	if (req.pfv != NVME_TCP_PFV)
		return reject_header(NVME_TCP_FES_UNSUPPORTED_PARAMETER, offsetof(struct nvme_tcp_icreq, pfv));
	if (req.hpda > NVME_TCP_PDA_MAX)
		return reject_field(offsetof(struct nvme_tcp_icreq, hpda));
	return accepted;
}

static struct refusal check_icresp(const uint8_t *in)
{
	struct nvme_tcp_icresp resp;

	memcpy(&resp, in, sizeof(resp));
	must(resp.common.type == NVME_TCP_ICRESP);
	if (resp.pfv != NVME_TCP_PFV)
		return reject_header(NVME_TCP_FES_UNSUPPORTED_PARAMETER, offsetof(struct nvme_tcp_icresp, pfv));
	if (resp.cpda > NVME_TCP_PDA_MAX)
		return reject_field(offsetof(struct nvme_tcp_icresp, cpda));
	if (resp.maxh2cdata < NVME_TCP_MAXH2CDATA_MIN || resp.maxh2cdata % 4 != 0)
		return reject_field(offsetof(struct nvme_tcp_icresp, maxh2cdata));
	return accepted;
}

/* H2CData and C2HData. */
static struct refusal check_data(const uint8_t *in, uint32_t data_bytes)
{
	struct nvme_tcp_data data;

	memcpy(&data, in, sizeof(data));
	must(data.common.type == NVME_TCP_H2C_DATA || data.common.type == NVME_TCP_C2H_DATA);
	must(data_bytes > 0);
	if (data.datal != data_bytes)
		return reject_field(AT_PLEN);
	if (data.datao > UINT32_MAX - data.datal)
		return reject_header(NVME_TCP_FES_DATA_OUT_OF_RANGE, 0);
	if (data.common.type == NVME_TCP_C2H_DATA && data.common.flags & NVME_TCP_FLAG_SUCCESS &&
	    !(data.common.flags & NVME_TCP_FLAG_LAST))
		return reject_field(AT_FLAGS);
	return accepted;
}

static struct refusal check_r2t(const uint8_t *in)
{
	struct nvme_tcp_r2t r2t;

	memcpy(&r2t, in, sizeof(r2t));
	must(r2t.common.type == NVME_TCP_R2T);
	if (r2t.r2tl == 0)
		return reject_field(offsetof(struct nvme_tcp_r2t, r2tl));
	if (r2t.r2to > UINT32_MAX - r2t.r2tl)
		return reject_header(NVME_TCP_FES_DATA_OUT_OF_RANGE, 0);
	return accepted;
}

/* Check the fields specific to the type; `in` has HLEN bytes. */
static struct refusal check_fields(uint8_t type, const uint8_t *in, uint32_t data_bytes)
{
	switch ((enum nvme_tcp_pdu_type)type) {
	case NVME_TCP_ICREQ:
		return check_icreq(in);
	case NVME_TCP_ICRESP:
		return check_icresp(in);
	case NVME_TCP_H2C_DATA:
	case NVME_TCP_C2H_DATA:
		return check_data(in, data_bytes);
	case NVME_TCP_R2T:
		return check_r2t(in);
	case NVME_TCP_CAPSULE_CMD:
	case NVME_TCP_CAPSULE_RESP:
	case NVME_TCP_H2C_TERM_REQ:
	case NVME_TCP_C2H_TERM_REQ:
		return accepted;
	}
	must(!"a type without a rule came past round one");
	return accepted;
}

/* The header is accepted: advance the decoder past it. */
static enum pdu_step_kind report_header(struct pdu_decoder *decoder, const struct pdu_rule *rule, const struct frame *frame,
					const uint8_t *in, struct pdu_step *step)
{
	must(decoder->position == PDU_AT_HEADER);
	decoder->type = in[0];
	decoder->data_bytes = frame->data_bytes;
	decoder->data_offset = 0;
	decoder->data_digest = frame->data_digest;
	decoder->crc = PDU_CRC_INIT;
	if (frame->data_bytes > 0)
		decoder->position = PDU_AT_DATA;
	else
		must(!frame->data_digest);
	if (rule->is & IC)
		decoder->phase = PDU_PHASE_NEGOTIATED;
	else if (rule->is & TERM && frame->data_bytes == 0)
		close_decoder(decoder);
	step->kind = PDU_HEADER;
	step->consumed = frame->header_bytes;
	step->bytes = in;
	step->bytes_count = rule->hlen;
	step->type = in[0];
	step->data_bytes = frame->data_bytes;
	return PDU_HEADER;
}

static bool header_digest_is_right(const uint8_t *in, size_t hlen)
{
	uint32_t received;

	memcpy(&received, in + hlen, sizeof(received));
	return received == pdu_crc_final(pdu_crc_update(PDU_CRC_INIT, in, hlen));
}

static enum pdu_step_kind step_header(struct pdu_decoder *decoder, const uint8_t *in, size_t in_bytes,
				      struct pdu_step *step)
{
	const struct pdu_rule *rule = NULL;
	struct nvme_tcp_common common;
	struct refusal refusal;
	struct frame frame = { 0 };
	size_t base_bytes;
	bool digest;

	if (in_bytes < COMMON_BYTES)
		return need_more(in_bytes, COMMON_BYTES, step);
	memcpy(&common, in, sizeof(common));
	refusal = check_kind(decoder, &common, &rule);
	if (refusal.fes)
		return report_refusal(decoder, refusal, in, COMMON_BYTES, step);
	digest = rule->is & DIGESTS && decoder->terms.header_digest;
	if (!digest) {
		refusal = check_lengths(decoder, rule, &common, &frame);
		if (refusal.fes)
			return report_refusal(decoder, refusal, in, COMMON_BYTES, step);
	}
	base_bytes = rule->hlen + (digest ? (size_t)PDU_DIGEST_BYTES : 0);
	if (in_bytes < base_bytes)
		return need_more(in_bytes, base_bytes, step);
	if (digest) {
		if (!header_digest_is_right(in, rule->hlen))
			refusal = reject_header(NVME_TCP_FES_HEADER_DIGEST_ERROR, 0);
		else
			refusal = check_lengths(decoder, rule, &common, &frame);
	}
	if (!refusal.fes)
		refusal = check_fields(common.type, in, frame.data_bytes);
	if (refusal.fes)
		return report_refusal(decoder, refusal, in, rule->hlen, step);
	must(frame.header_bytes >= base_bytes);
	if (in_bytes < frame.header_bytes)
		return need_more(in_bytes, frame.header_bytes, step);
	return report_header(decoder, rule, &frame, in, step);
}

/* Account for consumed data. */
static void advance_data(struct pdu_decoder *decoder, const uint8_t *bytes, uint32_t bytes_count)
{
	must(decoder->position == PDU_AT_DATA);
	must(bytes_count <= decoder->data_bytes - decoder->data_offset);
	if (decoder->data_digest)
		decoder->crc = pdu_crc_update(decoder->crc, bytes, bytes_count);
	decoder->data_offset += bytes_count;
	if (decoder->data_offset == decoder->data_bytes)
		decoder->position = PDU_AT_END;
}

void pdu_data_taken(struct pdu_decoder *decoder, const uint8_t *bytes, size_t bytes_count)
{
	must(bytes_count <= pdu_data_left(decoder));
	if (bytes_count > 0)
		advance_data(decoder, bytes, (uint32_t)bytes_count);
}

static enum pdu_step_kind step_data(struct pdu_decoder *decoder, const uint8_t *in, size_t in_bytes, struct pdu_step *step)
{
	uint32_t bytes_count = (uint32_t)min_u64(in_bytes, pdu_data_left(decoder));

	if (bytes_count == 0)
		return need_more(in_bytes, 1, step);
	step->kind = PDU_DATA;
	step->consumed = bytes_count;
	step->bytes = in;
	step->bytes_count = bytes_count;
	step->type = decoder->type;
	step->data_bytes = decoder->data_bytes;
	step->data_offset = decoder->data_offset;
	advance_data(decoder, in, bytes_count);
	step->last = decoder->position == PDU_AT_END;
	return PDU_DATA;
}

static enum pdu_step_kind step_end(struct pdu_decoder *decoder, const uint8_t *in, size_t in_bytes, struct pdu_step *step)
{
	uint32_t received;

	must(decoder->data_offset == decoder->data_bytes);
	must(decoder->data_bytes > 0);
	step->consumed = 0;
	step->digest_ok = true;
	if (decoder->data_digest) {
		if (in_bytes < PDU_DIGEST_BYTES)
			return need_more(in_bytes, PDU_DIGEST_BYTES, step);
		memcpy(&received, in, sizeof(received));
		step->consumed = PDU_DIGEST_BYTES;
		step->digest_ok = received == pdu_crc_final(decoder->crc);
	}
	step->kind = PDU_END;
	step->type = decoder->type;
	step->data_bytes = decoder->data_bytes;
	decoder->position = PDU_AT_HEADER;
	if (rules[decoder->type].is & TERM)
		close_decoder(decoder);
	return PDU_END;
}

enum pdu_step_kind pdu_step_general(struct pdu_decoder *decoder, const uint8_t *in, size_t in_bytes,
				    struct pdu_step *step_ret)
{
	must(in || in_bytes == 0);
	must(in_bytes <= UINT32_MAX);
	if (unlikely(decoder->phase == PDU_PHASE_CLOSED)) {
		step_ret->kind = PDU_NEED_MORE;
		step_ret->consumed = (uint32_t)in_bytes;
		step_ret->need_bytes = 1;
		return PDU_NEED_MORE;
	}
	switch ((enum pdu_position)decoder->position) {
	case PDU_AT_HEADER:
		return step_header(decoder, in, in_bytes, step_ret);
	case PDU_AT_DATA:
		return step_data(decoder, in, in_bytes, step_ret);
	case PDU_AT_END:
		return step_end(decoder, in, in_bytes, step_ret);
	}
	must(!"a decoder is nowhere else");
	return PDU_NEED_MORE;
}
