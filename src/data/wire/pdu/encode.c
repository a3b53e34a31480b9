/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * encode - headers with their digest and padding. Only write_common() computes PDO and PLEN (except in IC PDUs and
 * TermReqs).
 */
#include "base/bits.h"
#include "data/wire/pdu/pdu.h"

/* Terms are checked by must(): values received from a peer were validated by the decoder. */
static void must_be_terms(const struct pdu_terms *terms)
{
	must(terms->data_align >= 4);
	must(terms->data_align <= NVME_TCP_DATA_ALIGN_MAX);
	must(terms->data_align % 4 == 0);
}

/*
 * Complete the header of type `type` and `hlen` bytes at `to`, whose bytes from 8 on are written. Writes the first 8 bytes,
 * the digest and, if `data_bytes` is not 0, zeroes up to the data. Returns the number of bytes at `to`.
 */
static inline size_t write_common(const struct pdu_terms *terms, uint8_t *to, enum nvme_tcp_pdu_type type, uint8_t flags,
				  size_t hlen, uint32_t data_bytes)
{
	struct nvme_tcp_common common = { .type = (uint8_t)type, .flags = flags, .hlen = (uint8_t)hlen };
	size_t header_bytes = hlen;
	size_t total_bytes = hlen;

	must_be_terms(terms);
	if (terms->header_digest) {
		common.flags |= NVME_TCP_FLAG_HDGST;
		header_bytes += PDU_DIGEST_BYTES;
		total_bytes = header_bytes;
	}
	if (data_bytes > 0) {
		/* data_align is a multiple of 4 up to 128, not always a power of two. */
		total_bytes = (header_bytes + terms->data_align - 1) / terms->data_align * terms->data_align;
		memset(to + header_bytes, 0, total_bytes - header_bytes);
		common.pdo = (uint8_t)total_bytes;
		common.plen = data_bytes;
		if (terms->data_digest) {
			common.flags |= NVME_TCP_FLAG_DDGST;
			common.plen += PDU_DIGEST_BYTES;
		}
	}
	must(total_bytes <= PDU_PUT_BYTES_MAX);
	must(common.plen <= UINT32_MAX - total_bytes);
	common.plen += (uint32_t)total_bytes;
	memcpy(to, &common, sizeof(common));
	if (terms->header_digest) {
		uint32_t digest = pdu_crc_final(pdu_crc_update(PDU_CRC_INIT, to, hlen));

		memcpy(to + hlen, &digest, sizeof(digest));
	}
	return total_bytes;
}

static uint8_t dgst_byte(bool header_digest, bool data_digest)
{
	return (uint8_t)((header_digest ? NVME_TCP_DGST_HEADER : 0) | (data_digest ? NVME_TCP_DGST_DATA : 0));
}

size_t pdu_put_icreq(uint8_t *to, uint8_t hpda, bool header_digest, bool data_digest, uint32_t maxr2t_less_1)
{
	struct nvme_tcp_icreq req = { .pfv = NVME_TCP_PFV, .hpda = hpda, .maxr2t = maxr2t_less_1 };

	must(hpda <= NVME_TCP_PDA_MAX);
	req.dgst = dgst_byte(header_digest, data_digest);
	req.common.type = NVME_TCP_ICREQ;
	req.common.hlen = sizeof(req);
	req.common.plen = sizeof(req);
	memcpy(to, &req, sizeof(req));
	return sizeof(req);
}

size_t pdu_put_icresp(uint8_t *to, uint8_t cpda, bool header_digest, bool data_digest, uint32_t maxh2cdata)
{
	struct nvme_tcp_icresp resp = { .pfv = NVME_TCP_PFV, .cpda = cpda, .maxh2cdata = maxh2cdata };

	must(cpda <= NVME_TCP_PDA_MAX);
	must(maxh2cdata >= NVME_TCP_MAXH2CDATA_MIN);
	must(maxh2cdata % 4 == 0);
	resp.dgst = dgst_byte(header_digest, data_digest);
	resp.common.type = NVME_TCP_ICRESP;
	resp.common.hlen = sizeof(resp);
	resp.common.plen = sizeof(resp);
	memcpy(to, &resp, sizeof(resp));
	return sizeof(resp);
}

size_t pdu_put_capsule_cmd(const struct pdu_terms *terms, uint8_t *to, const struct nvme_command *command,
			   uint32_t data_bytes)
{
	memcpy(to + offsetof(struct nvme_tcp_capsule_cmd, command), command, sizeof(*command));
	return write_common(terms, to, NVME_TCP_CAPSULE_CMD, 0, sizeof(struct nvme_tcp_capsule_cmd), data_bytes);
}

size_t pdu_put_capsule_resp(const struct pdu_terms *terms, uint8_t *to, const struct nvme_completion *completion)
{
	memcpy(to + offsetof(struct nvme_tcp_capsule_resp, completion), completion, sizeof(*completion));
	return write_common(terms, to, NVME_TCP_CAPSULE_RESP, 0, sizeof(struct nvme_tcp_capsule_resp), 0);
}

size_t pdu_put_r2t(const struct pdu_terms *terms, uint8_t *to, uint16_t cccid, uint16_t ttag, uint32_t r2to, uint32_t r2tl)
{
	struct nvme_tcp_r2t r2t = { .cccid = cccid, .ttag = ttag, .r2to = r2to, .r2tl = r2tl };

	must(r2tl > 0);
	must(r2to <= UINT32_MAX - r2tl);
	memcpy(to, &r2t, sizeof(r2t));
	return write_common(terms, to, NVME_TCP_R2T, 0, sizeof(r2t), 0);
}

size_t pdu_put_h2c_data(const struct pdu_terms *terms, uint8_t *to, const struct pdu_h2c_data *data)
{
	struct nvme_tcp_data pdu = { .cccid = data->cccid, .ttag = data->ttag, .datao = data->datao, .datal = data->datal };

	must(data->datal > 0);
	must(data->datao <= UINT32_MAX - data->datal);
	memcpy(to, &pdu, sizeof(pdu));
	return write_common(terms, to, NVME_TCP_H2C_DATA, data->last ? NVME_TCP_FLAG_LAST : 0, sizeof(pdu), data->datal);
}

size_t pdu_put_c2h_data(const struct pdu_terms *terms, uint8_t *to, uint16_t cccid, uint32_t datao, uint32_t datal,
			uint8_t flags)
{
	struct nvme_tcp_data data = { .cccid = cccid, .datao = datao, .datal = datal };

	must(datal > 0);
	must(datao <= UINT32_MAX - datal);
	must((flags & ~(NVME_TCP_FLAG_LAST | NVME_TCP_FLAG_SUCCESS)) == 0);
	must((flags & NVME_TCP_FLAG_LAST) || !(flags & NVME_TCP_FLAG_SUCCESS));
	memcpy(to, &data, sizeof(data));
	return write_common(terms, to, NVME_TCP_C2H_DATA, flags, sizeof(data), datal);
}

/* A TermReq has no digests, and its PDO is reserved, so it does not use write_common(). */
static size_t put_term_req(uint8_t *to, enum nvme_tcp_pdu_type type, enum nvme_tcp_fes fes, uint32_t fei,
			   const uint8_t *header, size_t header_bytes)
{
	struct nvme_tcp_term_req req = { .fes = (uint16_t)fes, .fei = fei };
	size_t data_bytes = min_u64(header_bytes, NVME_TCP_TERM_DATA_BYTES_MAX);

	must(fes >= NVME_TCP_FES_INVALID_HEADER_FIELD);
	must(fes <= NVME_TCP_FES_UNSUPPORTED_PARAMETER);
	must(header || header_bytes == 0);
	req.common.type = (uint8_t)type;
	req.common.hlen = sizeof(req);
	req.common.plen = (uint32_t)(sizeof(req) + data_bytes);
	memcpy(to, &req, sizeof(req));
	if (data_bytes > 0)
		memcpy(to + sizeof(req), header, data_bytes);
	must(req.common.plen <= PDU_TERM_REQ_BYTES_MAX);
	return req.common.plen;
}

size_t pdu_put_h2c_term_req(uint8_t *to, enum nvme_tcp_fes fes, uint32_t fei, const uint8_t *header, size_t header_bytes)
{
	return put_term_req(to, NVME_TCP_H2C_TERM_REQ, fes, fei, header, header_bytes);
}

size_t pdu_put_c2h_term_req(uint8_t *to, enum nvme_tcp_fes fes, uint32_t fei, const uint8_t *header, size_t header_bytes)
{
	return put_term_req(to, NVME_TCP_C2H_TERM_REQ, fes, fei, header, header_bytes);
}
