/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fabrics - Fabrics commands and their data: Connect, Property Get and Set, Authentication; names; transports.
 * Base spec 2.0, sections 6 and 8.13. The same 64 bytes as struct nvme_command; opcode is NVME_OPCODE_FABRICS.
 */
#ifndef NVME_FABRICS_H
#define NVME_FABRICS_H

#include "data/nvme/command.h"
#include "data/nvme/opcode.h"

#define NVME_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"
#define NVME_UUID_NQN_PREFIX "nqn.2014-08.org.nvmexpress:uuid:"

enum {
	NVME_NQN_BYTES_MAX = 223, /* without the NUL */
	NVME_NQN_BYTES_MIN = 11,
	NVME_NQN_FIELD_BYTES = 256,
	NVME_HOSTID_BYTES = 16,
	NVME_TRADDR_FIELD_BYTES = 256,
	NVME_TRSVCID_FIELD_BYTES = 32,
	NVME_CNTLID_DYNAMIC = 0xffff,
	NVME_CNTLID_STATIC_ANY = 0xfffe,
	NVME_CNTLID_MAX = 0xffef,
	NVME_FABRICS_ADMIN_QUEUE_ENTRIES_MIN = 32,
};
static_assert(NVME_NQN_BYTES_MAX < NVME_NQN_FIELD_BYTES, "a name and its NUL fit the field");

enum nvme_trtype {
	NVME_TRTYPE_RDMA = 0x01,
	NVME_TRTYPE_FC = 0x02,
	NVME_TRTYPE_TCP = 0x03,
	NVME_TRTYPE_INTRA_HOST = 0xfe,
};

enum nvme_adrfam {
	NVME_ADRFAM_NONE = 0x00,
	NVME_ADRFAM_IPV4 = 0x01,
	NVME_ADRFAM_IPV6 = 0x02,
	NVME_ADRFAM_IB = 0x03,
	NVME_ADRFAM_FC = 0x04,
	NVME_ADRFAM_INTRA_HOST = 0xfe,
};

enum nvme_subtype {
	NVME_SUBTYPE_DISCOVERY_REFERRAL = 0x01,
	NVME_SUBTYPE_NVM = 0x02,
	NVME_SUBTYPE_DISCOVERY_CURRENT = 0x03,
};

/* Transport requirements of a discovery entry: secure channel in bits 1:0, SQ flow control can be disabled in bit 2. */
enum {
	NVME_TREQ_SECURE_NOT_SPECIFIED = 0,
	NVME_TREQ_SECURE_REQUIRED = 1,
	NVME_TREQ_SECURE_NOT_REQUIRED = 2,
	NVME_TREQ_SECURE_MASK = 3,
	NVME_TREQ_DISABLE_SQFLOW = 1 << 2,
};

enum nvme_tcp_sectype { NVME_TCP_SECTYPE_NONE = 0, NVME_TCP_SECTYPE_TLS12 = 1, NVME_TCP_SECTYPE_TLS13 = 2 };

/* What every Fabrics command begins with. */
struct NVME_PACKED nvme_fabrics_command {
	uint8_t opc; /* NVME_OPCODE_FABRICS */
	uint8_t flags;
	uint16_t cid;
	uint8_t fctype; /* enum nvme_fabrics_type */
	uint8_t reserved5[19];
	struct nvme_sgl sgl;
	uint8_t specific[24];
};
NVME_ASSERT_SIZE(struct nvme_fabrics_command, NVME_COMMAND_BYTES);
NVME_ASSERT_OFFSET(struct nvme_fabrics_command, specific, 40);

/* CATTR of Connect. */
enum {
	NVME_CATTR_PRIORITY_MASK = 0x3,
	NVME_CATTR_DISABLE_SQFLOW = 1 << 2,
	NVME_CATTR_INDIVIDUAL_DELETE = 1 << 3,
};

struct NVME_PACKED nvme_connect {
	uint8_t opc;
	uint8_t flags;
	uint16_t cid;
	uint8_t fctype;
	uint8_t reserved5[19];
	struct nvme_sgl sgl;
	uint16_t recfmt;
	uint16_t qid;
	uint16_t sqsize; /* 0's based */
	uint8_t cattr;
	uint8_t reserved47;
	uint32_t kato; /* milliseconds */
	uint8_t reserved52[12];
};
NVME_ASSERT_SIZE(struct nvme_connect, NVME_COMMAND_BYTES);
NVME_ASSERT_OFFSET(struct nvme_connect, sgl, 24);
NVME_ASSERT_OFFSET(struct nvme_connect, recfmt, 40);
NVME_ASSERT_OFFSET(struct nvme_connect, cattr, 46);
NVME_ASSERT_OFFSET(struct nvme_connect, kato, 48);

struct NVME_PACKED nvme_connect_data {
	uint8_t hostid[NVME_HOSTID_BYTES];
	uint16_t cntlid;
	uint8_t reserved18[238];
	char subnqn[NVME_NQN_FIELD_BYTES];
	char hostnqn[NVME_NQN_FIELD_BYTES];
	uint8_t reserved768[256];
};
NVME_ASSERT_SIZE(struct nvme_connect_data, 1024);
NVME_ASSERT_OFFSET(struct nvme_connect_data, cntlid, 16);
NVME_ASSERT_OFFSET(struct nvme_connect_data, subnqn, 256);
NVME_ASSERT_OFFSET(struct nvme_connect_data, hostnqn, 512);

/* AUTHREQ of Connect's response. */
enum {
	NVME_AUTHREQ_ATR = 1 << 1,  /* authentication and TLS wanted */
	NVME_AUTHREQ_ASCR = 1 << 2, /* authentication wanted */
};

/* Where an invalid parameter of Connect was: in the command (SQE) or in its data. */
enum { NVME_CONNECT_IATTR_COMMAND = 0, NVME_CONNECT_IATTR_DATA = 1 };

struct NVME_PACKED nvme_connect_response {
	union NVME_PACKED {
		struct NVME_PACKED {
			uint16_t cntlid;
			uint16_t authreq;
		} success;
		struct NVME_PACKED {
			uint16_t ipo; /* byte offset of the parameter */
			uint8_t iattr;
			uint8_t reserved3;
		} invalid;
		uint32_t raw;
	};
	uint32_t reserved4;
	uint16_t sqhd;
	uint16_t reserved10;
	uint16_t cid;
	uint16_t status;
};
NVME_ASSERT_SIZE(struct nvme_connect_response, NVME_COMPLETION_BYTES);
NVME_ASSERT_OFFSET(struct nvme_connect_response, status, 14);

/* ATTRIB of Property Get and Set, bits 2:0. */
enum { NVME_PROPERTY_4_BYTES = 0, NVME_PROPERTY_8_BYTES = 1, NVME_PROPERTY_SIZE_MASK = 7 };

/* Property Get (value is reserved; it comes back in nvme_completion.result) and Property Set. */
struct NVME_PACKED nvme_property_command {
	uint8_t opc;
	uint8_t flags;
	uint16_t cid;
	uint8_t fctype;
	uint8_t reserved5[35];
	uint8_t attrib;
	uint8_t reserved41[3];
	uint32_t ofst; /* enum nvme_property */
	uint64_t value;
	uint8_t reserved56[8];
};
NVME_ASSERT_SIZE(struct nvme_property_command, NVME_COMMAND_BYTES);
NVME_ASSERT_OFFSET(struct nvme_property_command, attrib, 40);
NVME_ASSERT_OFFSET(struct nvme_property_command, ofst, 44);
NVME_ASSERT_OFFSET(struct nvme_property_command, value, 48);

/* ---- Authentication ---- */

enum {
	NVME_AUTH_SECP = 0xe9,
	NVME_AUTH_SPSP = 0x01, /* both SPSP0 and SPSP1 */
};

struct NVME_PACKED nvme_auth_command {
	uint8_t opc;
	uint8_t flags;
	uint16_t cid;
	uint8_t fctype;
	uint8_t reserved5[19];
	struct nvme_sgl sgl;
	uint8_t reserved40;
	uint8_t spsp0;
	uint8_t spsp1;
	uint8_t secp;
	uint32_t length; /* TL of Send, AL of Receive */
	uint8_t reserved48[16];
};
NVME_ASSERT_SIZE(struct nvme_auth_command, NVME_COMMAND_BYTES);
NVME_ASSERT_OFFSET(struct nvme_auth_command, length, 44);

enum nvme_auth_type { NVME_AUTH_TYPE_COMMON = 0, NVME_AUTH_TYPE_DHCHAP = 1 };

enum nvme_auth_id {
	NVME_AUTH_ID_NEGOTIATE = 0x00,
	NVME_AUTH_ID_DHCHAP_CHALLENGE = 0x01,
	NVME_AUTH_ID_DHCHAP_REPLY = 0x02,
	NVME_AUTH_ID_DHCHAP_SUCCESS1 = 0x03,
	NVME_AUTH_ID_DHCHAP_SUCCESS2 = 0x04,
	NVME_AUTH_ID_FAILURE2 = 0xf0,
	NVME_AUTH_ID_FAILURE1 = 0xf1,
};

enum nvme_dhchap_hash { NVME_DHCHAP_SHA256 = 1, NVME_DHCHAP_SHA384 = 2, NVME_DHCHAP_SHA512 = 3 };

enum nvme_dhchap_group {
	NVME_DHCHAP_NULL = 0,
	NVME_DHCHAP_FFDHE2048 = 1,
	NVME_DHCHAP_FFDHE3072 = 2,
	NVME_DHCHAP_FFDHE4096 = 3,
	NVME_DHCHAP_FFDHE6144 = 4,
	NVME_DHCHAP_FFDHE8192 = 5,
};

struct NVME_PACKED nvme_auth_protocol {
	uint8_t authid;
	uint8_t reserved1;
	uint8_t halen;
	uint8_t dhlen;
	uint8_t hashes[30];
	uint8_t groups[30];
};
NVME_ASSERT_SIZE(struct nvme_auth_protocol, 64);

struct NVME_PACKED nvme_auth_negotiate {
	uint8_t auth_type;
	uint8_t auth_id;
	uint8_t reserved2[2];
	uint16_t t_id;
	uint8_t sc_c;
	uint8_t napd;
	struct nvme_auth_protocol protocols[];
};
NVME_ASSERT_SIZE(struct nvme_auth_negotiate, 8);

struct NVME_PACKED nvme_dhchap_challenge {
	uint8_t auth_type;
	uint8_t auth_id;
	uint8_t reserved2[2];
	uint16_t t_id;
	uint8_t hl;
	uint8_t reserved7;
	uint8_t hash;
	uint8_t group;
	uint16_t dhvlen;
	uint32_t seqnum;
	uint8_t values[]; /* challenge (hl), DH value (dhvlen) */
};
NVME_ASSERT_SIZE(struct nvme_dhchap_challenge, 16);

struct NVME_PACKED nvme_dhchap_reply {
	uint8_t auth_type;
	uint8_t auth_id;
	uint8_t reserved2[2];
	uint16_t t_id;
	uint8_t hl;
	uint8_t reserved7;
	uint8_t cvalid;
	uint8_t reserved9;
	uint16_t dhvlen;
	uint32_t seqnum;
	uint8_t values[]; /* response (hl), challenge (hl), DH value (dhvlen) */
};
NVME_ASSERT_SIZE(struct nvme_dhchap_reply, 16);

struct NVME_PACKED nvme_dhchap_success1 {
	uint8_t auth_type;
	uint8_t auth_id;
	uint8_t reserved2[2];
	uint16_t t_id;
	uint8_t hl;
	uint8_t reserved7;
	uint8_t rvalid;
	uint8_t reserved9[7];
	uint8_t response[]; /* hl, if rvalid */
};
NVME_ASSERT_SIZE(struct nvme_dhchap_success1, 16);

struct NVME_PACKED nvme_dhchap_success2 {
	uint8_t auth_type;
	uint8_t auth_id;
	uint8_t reserved2[2];
	uint16_t t_id;
	uint8_t reserved6[10];
};
NVME_ASSERT_SIZE(struct nvme_dhchap_success2, 16);

enum { NVME_AUTH_FAILURE_RC = 1 };

enum nvme_auth_failure_reason {
	NVME_AUTH_FAILED = 1,
	NVME_AUTH_PROTOCOL_UNUSABLE = 2,
	NVME_AUTH_CONCAT_MISMATCH = 3,
	NVME_AUTH_HASH_UNUSABLE = 4,
	NVME_AUTH_GROUP_UNUSABLE = 5,
	NVME_AUTH_INCORRECT_PAYLOAD = 6,
	NVME_AUTH_INCORRECT_MESSAGE = 7,
};

struct NVME_PACKED nvme_auth_failure {
	uint8_t auth_type;
	uint8_t auth_id;
	uint8_t reserved2[2];
	uint16_t t_id;
	uint8_t rc;
	uint8_t rce;
};
NVME_ASSERT_SIZE(struct nvme_auth_failure, 8);

#endif
