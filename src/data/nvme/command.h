/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * command - the 64-byte submission queue entry, the 16-byte completion queue entry, and what they point with.
 * NVMe base specification 2.0, sections 3.3.3 and 4.1; the NVM command set's command dwords are named here too.
 */
#ifndef NVME_COMMAND_H
#define NVME_COMMAND_H

#include <stdbool.h>

#include "data/nvme/layout.h"

#define NVME_NSID_ALL 0xffffffffu /* the broadcast namespace */

enum {
	NVME_COMMAND_BYTES = 64,
	NVME_COMPLETION_BYTES = 16,
	NVME_ADMIN_QUEUE_ENTRIES_MIN = 2,
	NVME_ADMIN_QUEUE_ENTRIES_MAX = 4096,
	NVME_IO_QUEUE_ENTRIES_MIN = 2,
	NVME_IO_QUEUE_ENTRIES_MAX = 65536,
};

/* SGL descriptor type: bits 7:4 of the identifier byte; subtype: bits 3:0. */
enum nvme_sgl_type {
	NVME_SGL_DATA_BLOCK = 0x0,
	NVME_SGL_BIT_BUCKET = 0x1,
	NVME_SGL_SEGMENT = 0x2,
	NVME_SGL_LAST_SEGMENT = 0x3,
	NVME_SGL_KEYED_DATA_BLOCK = 0x4,
	NVME_SGL_TRANSPORT_DATA_BLOCK = 0x5,
	NVME_SGL_VENDOR = 0xf,
};

enum nvme_sgl_subtype {
	NVME_SGL_SUBTYPE_ADDRESS = 0x0,
	NVME_SGL_SUBTYPE_OFFSET = 0x1,
	NVME_SGL_SUBTYPE_TRANSPORT = 0xa,
};

/* The two that NVMe/TCP uses, whole: in-capsule data at an offset, and data that the transport moves (R2T, C2HData). */
enum {
	NVME_SGL_ID_DATA_BLOCK_OFFSET = NVME_SGL_DATA_BLOCK << 4 | NVME_SGL_SUBTYPE_OFFSET,
	NVME_SGL_ID_TRANSPORT_DATA_BLOCK = NVME_SGL_TRANSPORT_DATA_BLOCK << 4 | NVME_SGL_SUBTYPE_TRANSPORT,
};

struct NVME_PACKED nvme_sgl {
	uint64_t address; /* or the offset in the capsule's data */
	uint32_t length;
	uint8_t reserved12[3];
	uint8_t id; /* type << 4 | subtype */
};
NVME_ASSERT_SIZE(struct nvme_sgl, 16);
NVME_ASSERT_OFFSET(struct nvme_sgl, id, 15);

static inline enum nvme_sgl_type nvme_sgl_type(const struct nvme_sgl *sgl)
{
	return (enum nvme_sgl_type)(sgl->id >> 4);
}

static inline enum nvme_sgl_subtype nvme_sgl_subtype(const struct nvme_sgl *sgl)
{
	return (enum nvme_sgl_subtype)(sgl->id & 0xf);
}

/* Byte 1 of a command: fused operation in bits 1:0, PRP or SGL in bits 7:6. */
enum {
	NVME_CMD_FUSE_MASK = 0x03,
	NVME_CMD_FUSE_NONE = 0x00,
	NVME_CMD_FUSE_FIRST = 0x01,
	NVME_CMD_FUSE_SECOND = 0x02,
	NVME_CMD_PSDT_MASK = 0xc0,
	NVME_CMD_PSDT_PRP = 0x00,
	NVME_CMD_PSDT_SGL = 0x40,	   /* metadata pointer: one contiguous buffer */
	NVME_CMD_PSDT_SGL_METADATA = 0x80, /* metadata pointer: an SGL */
};

struct NVME_PACKED nvme_command {
	uint8_t opc;
	uint8_t flags; /* NVME_CMD_* */
	uint16_t cid;
	uint32_t nsid;
	uint32_t cdw2;
	uint32_t cdw3;
	uint64_t mptr;
	union NVME_PACKED {
		struct nvme_sgl sgl;
		struct NVME_PACKED {
			uint64_t prp1;
			uint64_t prp2;
		};
	};
	uint32_t cdw10;
	uint32_t cdw11;
	uint32_t cdw12;
	uint32_t cdw13;
	uint32_t cdw14;
	uint32_t cdw15;
};
NVME_ASSERT_SIZE(struct nvme_command, NVME_COMMAND_BYTES);
NVME_ASSERT_OFFSET(struct nvme_command, cid, 2);
NVME_ASSERT_OFFSET(struct nvme_command, nsid, 4);
NVME_ASSERT_OFFSET(struct nvme_command, mptr, 16);
NVME_ASSERT_OFFSET(struct nvme_command, sgl, 24);
NVME_ASSERT_OFFSET(struct nvme_command, prp2, 32);
NVME_ASSERT_OFFSET(struct nvme_command, cdw10, 40);
NVME_ASSERT_OFFSET(struct nvme_command, cdw15, 60);

struct NVME_PACKED nvme_completion {
	union NVME_PACKED {
		struct NVME_PACKED {
			uint32_t cdw0;
			uint32_t cdw1;
		};
		uint64_t result; /* Property Get's value */
	};
	uint16_t sqhd;
	uint16_t sqid;
	uint16_t cid;
	uint16_t status; /* nvme_status_field() */
};
NVME_ASSERT_SIZE(struct nvme_completion, NVME_COMPLETION_BYTES);
NVME_ASSERT_OFFSET(struct nvme_completion, sqhd, 8);
NVME_ASSERT_OFFSET(struct nvme_completion, cid, 12);
NVME_ASSERT_OFFSET(struct nvme_completion, status, 14);

/* Which way the data of a command goes: bits 1:0 of most opcodes (for Fabrics commands, of the FCTYPE). */
enum nvme_transfer {
	NVME_TRANSFER_NONE = 0,
	NVME_TRANSFER_HOST_TO_CONTROLLER = 1,
	NVME_TRANSFER_CONTROLLER_TO_HOST = 2,
	NVME_TRANSFER_BIDIRECTIONAL = 3,
};

static inline enum nvme_transfer nvme_opcode_transfer(uint8_t opcode)
{
	return (enum nvme_transfer)(opcode & 3);
}

/* ---- Dwords of the NVM command set: Read, Write, Compare, Write Zeroes, Verify. ---- */

enum {
	NVME_CDW12_NLB_MASK = 0xffff, /* number of logical blocks, 0's based */
	NVME_CDW12_DTYPE_SHIFT = 20,
	NVME_CDW12_STC = 1 << 24,
	NVME_CDW12_DEAC = 1 << 25, /* Write Zeroes only */
	NVME_CDW12_PRCHK_SHIFT = 26,
	NVME_CDW12_PRACT = 1 << 29,
	NVME_CDW12_FUA = 1 << 30,
};
#define NVME_CDW12_LR (1u << 31)

/* First block of a command; CDW10 and CDW11. */
static inline uint64_t nvme_command_slba(const struct nvme_command *command)
{
	return (uint64_t)command->cdw11 << 32 | command->cdw10;
}

/* Number of blocks, 1 to 65536; CDW12. */
static inline uint32_t nvme_command_blocks(const struct nvme_command *command)
{
	return (command->cdw12 & NVME_CDW12_NLB_MASK) + 1;
}

/* ---- Dataset Management ---- */

enum {
	NVME_DSM_RANGES_MAX = 256,
	NVME_DSM_CDW10_NR_MASK = 0xff, /* number of ranges, 0's based */
	NVME_DSM_CDW11_IDR = 1 << 0,
	NVME_DSM_CDW11_IDW = 1 << 1,
	NVME_DSM_CDW11_AD = 1 << 2, /* deallocate */
};

struct NVME_PACKED nvme_dsm_range {
	uint32_t cattr;
	uint32_t nlb; /* number of logical blocks, not 0's based */
	uint64_t slba;
};
NVME_ASSERT_SIZE(struct nvme_dsm_range, 16);

/* ---- Copy, source range entries of format 0 ---- */

enum { NVME_COPY_RANGES_MAX = 256 };

struct NVME_PACKED nvme_copy_range {
	uint8_t reserved0[8];
	uint64_t slba;
	uint16_t nlb; /* 0's based */
	uint8_t reserved18[6];
	uint32_t eilbrt;
	uint16_t elbat;
	uint16_t elbatm;
};
NVME_ASSERT_SIZE(struct nvme_copy_range, 32);
NVME_ASSERT_OFFSET(struct nvme_copy_range, eilbrt, 24);

/* ---- Reservations: CDW10 fields and data structures. ---- */

enum {
	NVME_RESERVATION_ACTION_MASK = 0x7,
	NVME_RESERVATION_IEKEY = 1 << 3,
	NVME_RESERVATION_RTYPE_SHIFT = 8,
	NVME_RESERVATION_RTYPE_MASK = 0xff,
	NVME_RESERVATION_CPTPL_SHIFT = 30,
	NVME_RESERVATION_REPORT_EDS = 1 << 0, /* CDW11: extended data structure */
};

enum nvme_reservation_type {
	NVME_RESERVATION_NONE = 0,
	NVME_RESERVATION_WRITE_EXCLUSIVE = 1,
	NVME_RESERVATION_EXCLUSIVE_ACCESS = 2,
	NVME_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS_ONLY = 3,
	NVME_RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS_ONLY = 4,
	NVME_RESERVATION_WRITE_EXCLUSIVE_ALL_REGISTRANTS = 5,
	NVME_RESERVATION_EXCLUSIVE_ACCESS_ALL_REGISTRANTS = 6,
};

enum nvme_reservation_register_action {
	NVME_RESERVATION_REGISTER_KEY = 0,
	NVME_RESERVATION_UNREGISTER_KEY = 1,
	NVME_RESERVATION_REPLACE_KEY = 2,
};

enum nvme_reservation_acquire_action {
	NVME_RESERVATION_ACQUIRE = 0,
	NVME_RESERVATION_PREEMPT = 1,
	NVME_RESERVATION_PREEMPT_ABORT = 2,
};

enum nvme_reservation_release_action {
	NVME_RESERVATION_RELEASE = 0,
	NVME_RESERVATION_CLEAR = 1,
};

enum nvme_reservation_cptpl {
	NVME_RESERVATION_PTPL_UNCHANGED = 0,
	NVME_RESERVATION_PTPL_CLEAR = 2,
	NVME_RESERVATION_PTPL_SET = 3,
};

/* Register: crkey, nrkey. Acquire: crkey, prkey. Release: crkey only (8 bytes). */
struct NVME_PACKED nvme_reservation_keys {
	uint64_t crkey;
	uint64_t second;
};
NVME_ASSERT_SIZE(struct nvme_reservation_keys, 16);

struct NVME_PACKED nvme_reservation_status {
	uint32_t gen;
	uint8_t rtype;
	uint16_t regctl; /* number of registered controllers that follow */
	uint8_t reserved7[2];
	uint8_t ptpls;
	uint8_t reserved10[14];
};
NVME_ASSERT_SIZE(struct nvme_reservation_status, 24);
NVME_ASSERT_OFFSET(struct nvme_reservation_status, ptpls, 9);

struct NVME_PACKED nvme_reservation_registrant {
	uint16_t cntlid;
	uint8_t rcsts; /* bit 0: holds the reservation */
	uint8_t reserved3[5];
	uint64_t hostid;
	uint64_t rkey;
};
NVME_ASSERT_SIZE(struct nvme_reservation_registrant, 24);

struct NVME_PACKED nvme_reservation_status_extended {
	struct nvme_reservation_status head;
	uint8_t reserved24[40];
};
NVME_ASSERT_SIZE(struct nvme_reservation_status_extended, 64);

struct NVME_PACKED nvme_reservation_registrant_extended {
	uint16_t cntlid;
	uint8_t rcsts;
	uint8_t reserved3[5];
	uint64_t rkey;
	uint8_t hostid[16];
	uint8_t reserved32[32];
};
NVME_ASSERT_SIZE(struct nvme_reservation_registrant_extended, 64);

#endif
