/* SPDX-License-Identifier: BSD-2-Clause */
/* register - controller properties: where they are (Property Get and Set) and the fields in them. Base spec 2.0, 3.1.3. */
#ifndef NVME_REGISTER_H
#define NVME_REGISTER_H

#include <stdint.h>

enum nvme_property {
	NVME_PROPERTY_CAP = 0x00, /* 8 bytes */
	NVME_PROPERTY_VS = 0x08,
	NVME_PROPERTY_CC = 0x14,
	NVME_PROPERTY_CSTS = 0x1c,
	NVME_PROPERTY_NSSR = 0x20,
	NVME_PROPERTY_CRTO = 0x68,
};

#define NVME_NSSR_VALUE 0x4e564d65u /* "NVMe" resets the subsystem */

/* CAP */
#define NVME_CAP_MQES(entries_less_1) ((uint64_t)(entries_less_1)&0xffff)
#define NVME_CAP_CQR (1ull << 16)
#define NVME_CAP_TO(half_seconds) (((uint64_t)(half_seconds)&0xff) << 24)
#define NVME_CAP_DSTRD(n) (((uint64_t)(n)&0xf) << 32)
#define NVME_CAP_NSSRS (1ull << 36)
#define NVME_CAP_CSS_NVM (1ull << 37)
#define NVME_CAP_CSS_IOCS (1ull << 43)
#define NVME_CAP_CSS_NOIO (1ull << 44)
#define NVME_CAP_MPSMIN(n) (((uint64_t)(n)&0xf) << 48)
#define NVME_CAP_MPSMAX(n) (((uint64_t)(n)&0xf) << 52)
#define NVME_CAP_CRWMS (1ull << 59)
#define NVME_CAP_CRIMS (1ull << 60)

static inline uint32_t nvme_cap_mqes(uint64_t cap)
{
	return (uint32_t)(cap & 0xffff);
}

static inline uint32_t nvme_cap_to(uint64_t cap)
{
	return (uint32_t)(cap >> 24 & 0xff);
}

static inline uint32_t nvme_cap_mpsmin(uint64_t cap)
{
	return (uint32_t)(cap >> 48 & 0xf);
}

/* CRTO */
#define NVME_CRTO_CRWMT(half_seconds) ((uint32_t)(half_seconds)&0xffff)

/* VS */
#define NVME_VERSION(major, minor, tertiary) ((uint32_t)(major) << 16 | (uint32_t)(minor) << 8 | (uint32_t)(tertiary))
#define NVME_VERSION_2_0 NVME_VERSION(2, 0, 0)

/* CC */
enum {
	NVME_CC_EN = 1 << 0,
	NVME_CC_CSS_SHIFT = 4,
	NVME_CC_CSS_MASK = 0x7,
	NVME_CC_MPS_SHIFT = 7,
	NVME_CC_MPS_MASK = 0xf,
	NVME_CC_AMS_SHIFT = 11,
	NVME_CC_AMS_MASK = 0x7,
	NVME_CC_SHN_SHIFT = 14,
	NVME_CC_SHN_MASK = 0x3,
	NVME_CC_IOSQES_SHIFT = 16,
	NVME_CC_IOSQES_MASK = 0xf,
	NVME_CC_IOCQES_SHIFT = 20,
	NVME_CC_IOCQES_MASK = 0xf,
	NVME_CC_CRIME = 1 << 24,
};

enum nvme_cc_css { NVME_CC_CSS_NVM = 0, NVME_CC_CSS_IOCS = 6, NVME_CC_CSS_ADMIN_ONLY = 7 };
enum nvme_cc_shn { NVME_CC_SHN_NONE = 0, NVME_CC_SHN_NORMAL = 1, NVME_CC_SHN_ABRUPT = 2 };

/* A field of CC: NVME_CC_GET(cc, SHN). */
#define NVME_CC_GET(cc, field) ((uint32_t)(cc) >> NVME_CC_##field##_SHIFT & NVME_CC_##field##_MASK)

/* CSTS */
enum {
	NVME_CSTS_RDY = 1 << 0,
	NVME_CSTS_CFS = 1 << 1,
	NVME_CSTS_SHST_SHIFT = 2,
	NVME_CSTS_SHST_MASK = 0x3,
	NVME_CSTS_NSSRO = 1 << 4,
	NVME_CSTS_PP = 1 << 5,
};

enum nvme_csts_shst { NVME_CSTS_SHST_NORMAL = 0, NVME_CSTS_SHST_OCCURRING = 1, NVME_CSTS_SHST_COMPLETE = 2 };

#endif
