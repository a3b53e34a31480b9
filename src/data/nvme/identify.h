/* SPDX-License-Identifier: BSD-2-Clause */
/* identify - the Identify command's data structures. Base spec 2.0, 5.17; NVM command set 1.0, 4.1.5. */
#ifndef NVME_IDENTIFY_H
#define NVME_IDENTIFY_H

#include "data/nvme/fabrics.h"
#include "data/nvme/layout.h"

enum {
	NVME_IDENTIFY_BYTES = 4096,
	NVME_IDENTIFY_CDW10_CNS_MASK = 0xff,
	NVME_IDENTIFY_CDW10_CNTID_SHIFT = 16,
	NVME_IDENTIFY_CDW11_CSI_SHIFT = 24,
};

#define NVME_CNS_VALUES(X)                                                                                                 \
	X(NS, 0x00, "Namespace")                                                                                           \
	X(CONTROLLER, 0x01, "Controller")                                                                                  \
	X(ACTIVE_NS_LIST, 0x02, "Active Namespace ID list")                                                                \
	X(NS_DESCRIPTORS, 0x03, "Namespace Identification Descriptor list")                                                \
	X(NVM_SET_LIST, 0x04, "NVM Set List")                                                                              \
	X(NS_IOCS, 0x05, "I/O Command Set specific Namespace")                                                             \
	X(CONTROLLER_IOCS, 0x06, "I/O Command Set specific Controller")                                                    \
	X(ACTIVE_NS_LIST_IOCS, 0x07, "I/O Command Set specific Active Namespace ID list")                                  \
	X(NS_INDEPENDENT, 0x08, "I/O Command Set Independent Namespace")                                                   \
	X(ALLOCATED_NS_LIST, 0x10, "Allocated Namespace ID list")                                                          \
	X(ALLOCATED_NS, 0x11, "Allocated Namespace")                                                                       \
	X(NS_CONTROLLER_LIST, 0x12, "Namespace Attached Controller list")                                                  \
	X(CONTROLLER_LIST, 0x13, "Controller list")                                                                        \
	X(PRIMARY_CONTROLLER, 0x14, "Primary Controller Capabilities")                                                     \
	X(SECONDARY_CONTROLLERS, 0x15, "Secondary Controller list")                                                        \
	X(NS_GRANULARITY_LIST, 0x16, "Namespace Granularity List")                                                         \
	X(UUID_LIST, 0x17, "UUID List")                                                                                    \
	X(DOMAIN_LIST, 0x18, "Domain List")                                                                                \
	X(ENDURANCE_GROUP_LIST, 0x19, "Endurance Group List")                                                              \
	X(ALLOCATED_NS_LIST_IOCS, 0x1a, "I/O Command Set specific Allocated Namespace ID list")                            \
	X(ALLOCATED_NS_IOCS, 0x1b, "I/O Command Set specific Allocated Namespace")                                         \
	X(IOCS, 0x1c, "I/O Command Set")

#define NVME_ENUM_ROW_CNS(name, value, text) NVME_CNS_##name = (value),
enum nvme_cns { NVME_CNS_VALUES(NVME_ENUM_ROW_CNS) }; /* NVME_CNS_CONTROLLER ... */

enum nvme_csi { NVME_CSI_NVM = 0, NVME_CSI_KV = 1, NVME_CSI_ZNS = 2 };

enum nvme_cntrltype {
	NVME_CNTRLTYPE_NOT_REPORTED = 0,
	NVME_CNTRLTYPE_IO = 1,
	NVME_CNTRLTYPE_DISCOVERY = 2,
	NVME_CNTRLTYPE_ADMINISTRATIVE = 3,
};

/* Bits of struct nvme_identify_controller, in the order of its fields. */
enum {
	NVME_CMIC_MULTI_PORT = 1 << 0,
	NVME_CMIC_MULTI_CONTROLLER = 1 << 1,
	NVME_CMIC_SRIOV = 1 << 2,
	NVME_CMIC_ANA = 1 << 3,

	NVME_OAES_NS_ATTRIBUTE = 1 << 8,
	NVME_OAES_FIRMWARE = 1 << 9,
	NVME_OAES_ANA_CHANGE = 1 << 11,

	NVME_CTRATT_HOSTID_128 = 1 << 0,
	NVME_CTRATT_TBKAS = 1 << 6,
	NVME_CTRATT_ELBAS = 1 << 15,

	NVME_OACS_SECURITY = 1 << 0,
	NVME_OACS_FORMAT = 1 << 1,
	NVME_OACS_FIRMWARE = 1 << 2,
	NVME_OACS_NS_MANAGEMENT = 1 << 3,
	NVME_OACS_SELF_TEST = 1 << 4,
	NVME_OACS_DIRECTIVES = 1 << 5,
	NVME_OACS_DOORBELL = 1 << 8,

	NVME_FRMW_SLOT1_READ_ONLY = 1 << 0,
	NVME_FRMW_SLOTS_SHIFT = 1,
	NVME_FRMW_NO_RESET = 1 << 4,

	NVME_LPA_SMART_PER_NS = 1 << 0,
	NVME_LPA_COMMAND_EFFECTS = 1 << 1,
	NVME_LPA_EXTENDED_DATA = 1 << 2, /* NUMDU and a 64-bit offset */
	NVME_LPA_TELEMETRY = 1 << 3,
	NVME_LPA_PERSISTENT_EVENT = 1 << 4,
	NVME_LPA_SUPPORTED_PAGES = 1 << 5, /* LIDs 00h, 12h, 13h */

	NVME_ANACAP_OPTIMIZED = 1 << 0,
	NVME_ANACAP_NON_OPTIMIZED = 1 << 1,
	NVME_ANACAP_INACCESSIBLE = 1 << 2,
	NVME_ANACAP_PERSISTENT_LOSS = 1 << 3,
	NVME_ANACAP_CHANGE = 1 << 4,
	NVME_ANACAP_GROUP_FIXED = 1 << 6,   /* ANAGRPID does not change while the namespace is attached */
	NVME_ANACAP_GROUP_NONZERO = 1 << 7, /* ANAGRPID in Namespace Management is supported */

	NVME_ONCS_COMPARE = 1 << 0,
	NVME_ONCS_WRITE_UNCORRECTABLE = 1 << 1,
	NVME_ONCS_DSM = 1 << 2,
	NVME_ONCS_WRITE_ZEROES = 1 << 3,
	NVME_ONCS_SAVE = 1 << 4,
	NVME_ONCS_RESERVATIONS = 1 << 5,
	NVME_ONCS_TIMESTAMP = 1 << 6,
	NVME_ONCS_VERIFY = 1 << 7,
	NVME_ONCS_COPY = 1 << 8,

	NVME_FUSES_COMPARE_WRITE = 1 << 0,

	NVME_VWC_PRESENT = 1 << 0,
	NVME_VWC_FLUSH_ALL_NOT_SUPPORTED = 2 << 1, /* Flush to NSID FFFFFFFFh */
	NVME_VWC_FLUSH_ALL_SUPPORTED = 3 << 1,

	NVME_SGLS_SUPPORTED = 1 << 0,
	NVME_SGLS_SUPPORTED_DWORD = 2 << 0,
	NVME_SGLS_KEYED = 1 << 2,
	NVME_SGLS_BIT_BUCKET = 1 << 16,
	NVME_SGLS_OFFSET = 1 << 20,
	NVME_SGLS_TRANSPORT = 1 << 21,

	NVME_FCATT_STATIC = 1 << 0, /* static controller model */
	NVME_OFCS_DISCONNECT = 1 << 0,
};
#define NVME_OAES_DISCOVERY_LOG (1u << 31)

struct NVME_PACKED nvme_power_state {
	uint16_t mp;
	uint8_t reserved2;
	uint8_t flags; /* bit 0: MXPS, bit 1: NOPS */
	uint32_t enlat;
	uint32_t exlat;
	uint8_t rrt;
	uint8_t rrl;
	uint8_t rwt;
	uint8_t rwl;
	uint16_t idlp;
	uint8_t ips;
	uint8_t reserved19;
	uint16_t actp;
	uint8_t apw_aps;
	uint8_t reserved23[9];
};
NVME_ASSERT_SIZE(struct nvme_power_state, 32);

struct NVME_PACKED nvme_identify_controller {
	uint16_t vid;
	uint16_t ssvid;
	char sn[20]; /* space padded, as mn and fr */
	char mn[40];
	char fr[8];
	uint8_t rab;
	uint8_t ieee[3];
	uint8_t cmic;
	uint8_t mdts; /* power of two of the smallest page; 0: no limit */
	uint16_t cntlid;
	uint32_t ver;
	uint32_t rtd3r;
	uint32_t rtd3e;
	uint32_t oaes;
	uint32_t ctratt;
	uint16_t rrls;
	uint8_t reserved102[9];
	uint8_t cntrltype;
	uint8_t fguid[16];
	uint16_t crdt[3]; /* 100 ms each */
	uint8_t reserved134[119];
	uint8_t nvmsr;
	uint8_t vwci;
	uint8_t mec;
	uint16_t oacs;
	uint8_t acl; /* 0's based, as aerl, elpe, npss */
	uint8_t aerl;
	uint8_t frmw;
	uint8_t lpa;
	uint8_t elpe;
	uint8_t npss;
	uint8_t avscc;
	uint8_t apsta;
	uint16_t wctemp;
	uint16_t cctemp;
	uint16_t mtfa;
	uint32_t hmpre;
	uint32_t hmmin;
	uint8_t tnvmcap[16];
	uint8_t unvmcap[16];
	uint32_t rpmbs;
	uint16_t edstt;
	uint8_t dsto;
	uint8_t fwug;
	uint16_t kas; /* 100 ms each */
	uint16_t hctma;
	uint16_t mntmt;
	uint16_t mxtmt;
	uint32_t sanicap;
	uint32_t hmminds;
	uint16_t hmmaxd;
	uint16_t nsetidmax;
	uint16_t endgidmax;
	uint8_t anatt; /* seconds */
	uint8_t anacap;
	uint32_t anagrpmax;
	uint32_t nanagrpid;
	uint32_t pels;
	uint16_t domainid;
	uint8_t reserved358[10];
	uint8_t megcap[16];
	uint8_t reserved384[128];
	uint8_t sqes; /* required 3:0, maximum 7:4, powers of two */
	uint8_t cqes;
	uint16_t maxcmd;
	uint32_t nn;
	uint16_t oncs;
	uint16_t fuses;
	uint8_t fna;
	uint8_t vwc;
	uint16_t awun; /* 0's based, as awupf, acwu */
	uint16_t awupf;
	uint8_t icsvscc;
	uint8_t nwpc;
	uint16_t acwu;
	uint16_t cdfs; /* copy descriptor formats supported */
	uint32_t sgls;
	uint32_t mnan;
	uint8_t maxdna[16];
	uint32_t maxcna;
	uint8_t reserved564[204];
	char subnqn[NVME_NQN_FIELD_BYTES];
	uint8_t reserved1024[768];
	uint32_t ioccsz; /* 16 bytes each */
	uint32_t iorcsz; /* 16 bytes each */
	uint16_t icdoff; /* 16 bytes each */
	uint8_t fcatt;
	uint8_t msdbd;
	uint16_t ofcs;
	uint8_t reserved1806[242];
	struct nvme_power_state psd[32];
	uint8_t vs[1024];
};
NVME_ASSERT_SIZE(struct nvme_identify_controller, NVME_IDENTIFY_BYTES);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, cmic, 76);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, ver, 80);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, cntrltype, 111);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, crdt, 128);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, oacs, 256);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, tnvmcap, 280);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, kas, 320);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, anatt, 342);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, domainid, 356);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, sqes, 512);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, nn, 516);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, vwc, 525);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, sgls, 536);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, subnqn, 768);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, ioccsz, 1792);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, psd, 2048);
NVME_ASSERT_OFFSET(struct nvme_identify_controller, vs, 3072);

/* Bits of struct nvme_identify_ns. */
enum {
	NVME_NSFEAT_THIN = 1 << 0,
	NVME_NSFEAT_ATOMIC = 1 << 1, /* nawun, nawupf, nacwu are valid */
	NVME_NSFEAT_DEALLOC_ERROR = 1 << 2,
	NVME_NSFEAT_UID_NOT_REUSED = 1 << 3,
	NVME_NSFEAT_OPTPERF = 1 << 4, /* npwg, npwa, npdg, npda, nows are valid */

	NVME_FLBAS_INDEX_MASK = 0x0f,
	NVME_FLBAS_EXTENDED = 1 << 4,

	NVME_NMIC_SHARED = 1 << 0,

	NVME_RESCAP_PTPL = 1 << 0,
	NVME_RESCAP_WRITE_EXCLUSIVE = 1 << 1,
	NVME_RESCAP_EXCLUSIVE_ACCESS = 1 << 2,
	NVME_RESCAP_WRITE_EXCLUSIVE_REGISTRANTS = 1 << 3,
	NVME_RESCAP_EXCLUSIVE_ACCESS_REGISTRANTS = 1 << 4,
	NVME_RESCAP_WRITE_EXCLUSIVE_ALL = 1 << 5,
	NVME_RESCAP_EXCLUSIVE_ACCESS_ALL = 1 << 6,
	NVME_RESCAP_IEKEY_13 = 1 << 7,

	NVME_DLFEAT_READ_ZEROES = 1 << 0,
	NVME_DLFEAT_READ_ONES = 2 << 0,
	NVME_DLFEAT_WRITE_ZEROES_DEALLOCATE = 1 << 3,

	NVME_NSATTR_WRITE_PROTECTED = 1 << 0,

	NVME_LBA_FORMATS_MAX = 64,
};

struct NVME_PACKED nvme_lba_format {
	uint16_t ms;
	uint8_t lbads; /* power of two */
	uint8_t rp;
};
NVME_ASSERT_SIZE(struct nvme_lba_format, 4);

struct NVME_PACKED nvme_identify_ns {
	uint64_t nsze;
	uint64_t ncap;
	uint64_t nuse;
	uint8_t nsfeat;
	uint8_t nlbaf; /* 0's based */
	uint8_t flbas;
	uint8_t mc;
	uint8_t dpc;
	uint8_t dps;
	uint8_t nmic;
	uint8_t rescap;
	uint8_t fpi;
	uint8_t dlfeat;
	uint16_t nawun;
	uint16_t nawupf;
	uint16_t nacwu;
	uint16_t nabsn;
	uint16_t nabo;
	uint16_t nabspf;
	uint16_t noiob;
	uint8_t nvmcap[16];
	uint16_t npwg;
	uint16_t npwa;
	uint16_t npdg;
	uint16_t npda;
	uint16_t nows;
	uint16_t mssrl;
	uint32_t mcl;
	uint8_t msrc;
	uint8_t reserved81[11];
	uint32_t anagrpid;
	uint8_t reserved96[3];
	uint8_t nsattr;
	uint16_t nvmsetid;
	uint16_t endgid;
	uint8_t nguid[16]; /* big-endian, as eui64 */
	uint8_t eui64[8];
	struct nvme_lba_format lbaf[NVME_LBA_FORMATS_MAX];
	uint8_t vs[3712];
};
NVME_ASSERT_SIZE(struct nvme_identify_ns, NVME_IDENTIFY_BYTES);
NVME_ASSERT_OFFSET(struct nvme_identify_ns, nsfeat, 24);
NVME_ASSERT_OFFSET(struct nvme_identify_ns, dlfeat, 33);
NVME_ASSERT_OFFSET(struct nvme_identify_ns, noiob, 46);
NVME_ASSERT_OFFSET(struct nvme_identify_ns, npwg, 64);
NVME_ASSERT_OFFSET(struct nvme_identify_ns, mssrl, 74);
NVME_ASSERT_OFFSET(struct nvme_identify_ns, anagrpid, 92);
NVME_ASSERT_OFFSET(struct nvme_identify_ns, nguid, 104);
NVME_ASSERT_OFFSET(struct nvme_identify_ns, eui64, 120);
NVME_ASSERT_OFFSET(struct nvme_identify_ns, lbaf, 128);

/* CNS 05h, CSI 0 */
struct NVME_PACKED nvme_identify_ns_nvm {
	uint64_t lbstm;
	uint8_t pic;
	uint8_t reserved9[3];
	uint32_t elbaf[NVME_LBA_FORMATS_MAX];
	uint8_t reserved268[3828];
};
NVME_ASSERT_SIZE(struct nvme_identify_ns_nvm, NVME_IDENTIFY_BYTES);

/* CNS 06h, CSI 0: limits as powers of two of the smallest page (vsl, wzsl, wusl); 0: none reported. */
struct NVME_PACKED nvme_identify_controller_nvm {
	uint8_t vsl;
	uint8_t wzsl;
	uint8_t wusl;
	uint8_t dmrl;
	uint32_t dmrsl;
	uint64_t dmsl;
	uint8_t reserved16[4080];
};
NVME_ASSERT_SIZE(struct nvme_identify_controller_nvm, NVME_IDENTIFY_BYTES);

enum { NVME_NSTAT_READY = 1 << 0 };

/* CNS 08h */
struct NVME_PACKED nvme_identify_ns_independent {
	uint8_t nsfeat; /* bit 3: UIDREUSE, bit 4: rotational media, bit 5: no volatile write cache */
	uint8_t nmic;
	uint8_t rescap;
	uint8_t fpi;
	uint32_t anagrpid;
	uint8_t nsattr;
	uint8_t reserved9;
	uint16_t nvmsetid;
	uint16_t endgid;
	uint8_t nstat;
	uint8_t reserved15[4081];
};
NVME_ASSERT_SIZE(struct nvme_identify_ns_independent, NVME_IDENTIFY_BYTES);
NVME_ASSERT_OFFSET(struct nvme_identify_ns_independent, nstat, 14);

/* CNS 02h, 07h, 10h, 1Ah: ascending, ended by 0 unless full. */
enum { NVME_NS_LIST_ENTRIES = 1024 };

struct NVME_PACKED nvme_ns_list {
	uint32_t nsid[NVME_NS_LIST_ENTRIES];
};
NVME_ASSERT_SIZE(struct nvme_ns_list, NVME_IDENTIFY_BYTES);

/* CNS 12h, 13h */
enum { NVME_CONTROLLER_LIST_ENTRIES = 2047 };

struct NVME_PACKED nvme_controller_list {
	uint16_t count;
	uint16_t cntlid[NVME_CONTROLLER_LIST_ENTRIES];
};
NVME_ASSERT_SIZE(struct nvme_controller_list, NVME_IDENTIFY_BYTES);

/* CNS 03h: descriptors one after the other, ended by one with nidl 0. */
enum nvme_nidt { NVME_NIDT_EUI64 = 1, NVME_NIDT_NGUID = 2, NVME_NIDT_UUID = 3, NVME_NIDT_CSI = 4 };

enum { NVME_NIDL_EUI64 = 8, NVME_NIDL_NGUID = 16, NVME_NIDL_UUID = 16, NVME_NIDL_CSI = 1 };

struct NVME_PACKED nvme_ns_descriptor {
	uint8_t nidt;
	uint8_t nidl;
	uint8_t reserved2[2];
	uint8_t nid[];
};
NVME_ASSERT_SIZE(struct nvme_ns_descriptor, 4);

/* CNS 1Ch: each combination is a bit a command set, 1 << enum nvme_csi. */
struct NVME_PACKED nvme_identify_iocs {
	uint64_t combination[512];
};
NVME_ASSERT_SIZE(struct nvme_identify_iocs, NVME_IDENTIFY_BYTES);

#endif
