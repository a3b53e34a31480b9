/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp - the PDUs of NVMe/TCP, transport specification 1.0 (section 3.6).
 *
 *   common header (8) | rest of the header, HLEN in all | HDGST (4, if on) | pad up to PDO | data | DDGST (4, if on)
 *
 * Encoding and decoding: data/wire/pdu.
 */
#ifndef NVME_TCP_H
#define NVME_TCP_H

#include "data/nvme/command.h"

#define NVME_TCP_PDU_TYPES(X)                                                                                              \
	X(ICREQ, 0x00, "ICReq")                                                                                            \
	X(ICRESP, 0x01, "ICResp")                                                                                          \
	X(H2C_TERM_REQ, 0x02, "H2CTermReq")                                                                                \
	X(C2H_TERM_REQ, 0x03, "C2HTermReq")                                                                                \
	X(CAPSULE_CMD, 0x04, "CapsuleCmd")                                                                                 \
	X(CAPSULE_RESP, 0x05, "CapsuleResp")                                                                               \
	X(H2C_DATA, 0x06, "H2CData")                                                                                       \
	X(C2H_DATA, 0x07, "C2HData")                                                                                       \
	X(R2T, 0x09, "R2T")

/* Fatal Error Status of a TermReq. */
#define NVME_TCP_FATAL_ERRORS(X)                                                                                           \
	X(INVALID_HEADER_FIELD, 1, "Invalid PDU Header Field")                                                             \
	X(PDU_SEQUENCE_ERROR, 2, "PDU Sequence Error")                                                                     \
	X(HEADER_DIGEST_ERROR, 3, "Header Digest Error")                                                                   \
	X(DATA_OUT_OF_RANGE, 4, "Data Transfer Out of Range")                                                              \
	X(LIMIT_EXCEEDED, 5, "Data Transfer or R2T Limit Exceeded")                                                        \
	X(UNSUPPORTED_PARAMETER, 6, "Unsupported Parameter")

#define NVME_ENUM_ROW_TCP(name, value, text) NVME_TCP_##name = (value),
#define NVME_ENUM_ROW_FES(name, value, text) NVME_TCP_FES_##name = (value),

enum nvme_tcp_pdu_type { NVME_TCP_PDU_TYPES(NVME_ENUM_ROW_TCP) }; /* NVME_TCP_CAPSULE_CMD ... */
enum nvme_tcp_fes { NVME_TCP_FATAL_ERRORS(NVME_ENUM_ROW_FES) };	  /* NVME_TCP_FES_PDU_SEQUENCE_ERROR ... */

enum {
	NVME_TCP_PORT = 4420,
	NVME_TCP_DISCOVERY_PORT = 8009,
	NVME_TCP_PFV = 0, /* the one PDU format version */
	NVME_TCP_DIGEST_BYTES = 4,
	NVME_TCP_PDA_MAX = 31, /* HPDA and CPDA: data starts at a multiple of (PDA + 1) * 4 bytes */
	NVME_TCP_DATA_ALIGN_MAX = (NVME_TCP_PDA_MAX + 1) * 4,
	NVME_TCP_MAXH2CDATA_MIN = 4096,
	NVME_TCP_TERM_DATA_BYTES_MAX = 128, /* as much of the offending header as a TermReq returns */
};

/* Flags of the common header; the last two on H2CData (LAST only) and C2HData. */
enum {
	NVME_TCP_FLAG_HDGST = 1 << 0,
	NVME_TCP_FLAG_DDGST = 1 << 1,
	NVME_TCP_FLAG_LAST = 1 << 2,
	NVME_TCP_FLAG_SUCCESS = 1 << 3,
};

/* The DGST byte of ICReq (wanted) and ICResp (granted). */
enum {
	NVME_TCP_DGST_HEADER = 1 << 0,
	NVME_TCP_DGST_DATA = 1 << 1,
};

struct NVME_PACKED nvme_tcp_common {
	uint8_t type;
	uint8_t flags;
	uint8_t hlen;
	uint8_t pdo;
	uint32_t plen;
};
NVME_ASSERT_SIZE(struct nvme_tcp_common, 8);
NVME_ASSERT_OFFSET(struct nvme_tcp_common, flags, 1);
NVME_ASSERT_OFFSET(struct nvme_tcp_common, hlen, 2);
NVME_ASSERT_OFFSET(struct nvme_tcp_common, pdo, 3);
NVME_ASSERT_OFFSET(struct nvme_tcp_common, plen, 4);

struct NVME_PACKED nvme_tcp_icreq {
	struct nvme_tcp_common common;
	uint16_t pfv;
	uint8_t hpda;
	uint8_t dgst;
	uint32_t maxr2t; /* 0's based */
	uint8_t reserved16[112];
};
NVME_ASSERT_SIZE(struct nvme_tcp_icreq, 128);
NVME_ASSERT_OFFSET(struct nvme_tcp_icreq, pfv, 8);
NVME_ASSERT_OFFSET(struct nvme_tcp_icreq, hpda, 10);
NVME_ASSERT_OFFSET(struct nvme_tcp_icreq, dgst, 11);
NVME_ASSERT_OFFSET(struct nvme_tcp_icreq, maxr2t, 12);

struct NVME_PACKED nvme_tcp_icresp {
	struct nvme_tcp_common common;
	uint16_t pfv;
	uint8_t cpda;
	uint8_t dgst;
	uint32_t maxh2cdata; /* bytes; a multiple of 4, 4096 at least */
	uint8_t reserved16[112];
};
NVME_ASSERT_SIZE(struct nvme_tcp_icresp, 128);
NVME_ASSERT_OFFSET(struct nvme_tcp_icresp, cpda, 10);
NVME_ASSERT_OFFSET(struct nvme_tcp_icresp, maxh2cdata, 12);

/* H2CTermReq and C2HTermReq; the head of the offending PDU follows as data. */
struct NVME_PACKED nvme_tcp_term_req {
	struct nvme_tcp_common common;
	uint16_t fes;
	uint32_t fei; /* INVALID_HEADER_FIELD and UNSUPPORTED_PARAMETER: byte offset of the field */
	uint8_t reserved14[10];
};
NVME_ASSERT_SIZE(struct nvme_tcp_term_req, 24);
NVME_ASSERT_OFFSET(struct nvme_tcp_term_req, fes, 8);
NVME_ASSERT_OFFSET(struct nvme_tcp_term_req, fei, 10);

struct NVME_PACKED nvme_tcp_capsule_cmd {
	struct nvme_tcp_common common;
	struct nvme_command command;
};
NVME_ASSERT_SIZE(struct nvme_tcp_capsule_cmd, 72);
NVME_ASSERT_OFFSET(struct nvme_tcp_capsule_cmd, command, 8);

struct NVME_PACKED nvme_tcp_capsule_resp {
	struct nvme_tcp_common common;
	struct nvme_completion completion;
};
NVME_ASSERT_SIZE(struct nvme_tcp_capsule_resp, 24);
NVME_ASSERT_OFFSET(struct nvme_tcp_capsule_resp, completion, 8);

/* H2CData, and C2HData, which has no ttag. */
struct NVME_PACKED nvme_tcp_data {
	struct nvme_tcp_common common;
	uint16_t cccid;
	uint16_t ttag;
	uint32_t datao;
	uint32_t datal;
	uint8_t reserved20[4];
};
NVME_ASSERT_SIZE(struct nvme_tcp_data, 24);
NVME_ASSERT_OFFSET(struct nvme_tcp_data, cccid, 8);
NVME_ASSERT_OFFSET(struct nvme_tcp_data, ttag, 10);
NVME_ASSERT_OFFSET(struct nvme_tcp_data, datao, 12);
NVME_ASSERT_OFFSET(struct nvme_tcp_data, datal, 16);

struct NVME_PACKED nvme_tcp_r2t {
	struct nvme_tcp_common common;
	uint16_t cccid;
	uint16_t ttag;
	uint32_t r2to;
	uint32_t r2tl;
	uint8_t reserved20[4];
};
NVME_ASSERT_SIZE(struct nvme_tcp_r2t, 24);
NVME_ASSERT_OFFSET(struct nvme_tcp_r2t, ttag, 10);
NVME_ASSERT_OFFSET(struct nvme_tcp_r2t, r2to, 12);
NVME_ASSERT_OFFSET(struct nvme_tcp_r2t, r2tl, 16);

#endif
