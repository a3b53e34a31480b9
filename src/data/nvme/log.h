/* SPDX-License-Identifier: BSD-2-Clause */
/* log - log pages. Base spec 2.0, 5.16; discovery log: 5.16.1.23. */
#ifndef NVME_LOG_H
#define NVME_LOG_H

#include "data/nvme/fabrics.h"
#include "data/nvme/layout.h"

#define NVME_LOG_PAGES(X)                                                                                                  \
	X(SUPPORTED_PAGES, 0x00, "Supported Log Pages")                                                                    \
	X(ERROR, 0x01, "Error Information")                                                                                \
	X(SMART, 0x02, "SMART / Health Information")                                                                       \
	X(FIRMWARE_SLOT, 0x03, "Firmware Slot Information")                                                                \
	X(CHANGED_NS_LIST, 0x04, "Changed Namespace List")                                                                 \
	X(COMMAND_EFFECTS, 0x05, "Commands Supported and Effects")                                                         \
	X(SELF_TEST, 0x06, "Device Self-test")                                                                             \
	X(TELEMETRY_HOST, 0x07, "Telemetry Host-Initiated")                                                                \
	X(TELEMETRY_CONTROLLER, 0x08, "Telemetry Controller-Initiated")                                                    \
	X(ENDURANCE_GROUP, 0x09, "Endurance Group Information")                                                            \
	X(PREDICTABLE_LATENCY, 0x0a, "Predictable Latency Per NVM Set")                                                    \
	X(PREDICTABLE_LATENCY_EVENT, 0x0b, "Predictable Latency Event Aggregate")                                          \
	X(ANA, 0x0c, "Asymmetric Namespace Access")                                                                        \
	X(PERSISTENT_EVENT, 0x0d, "Persistent Event Log")                                                                  \
	X(LBA_STATUS, 0x0e, "LBA Status Information")                                                                      \
	X(ENDURANCE_GROUP_EVENT, 0x0f, "Endurance Group Event Aggregate")                                                  \
	X(MEDIA_UNIT_STATUS, 0x10, "Media Unit Status")                                                                    \
	X(CAPACITY_CONFIGURATION, 0x11, "Supported Capacity Configuration List")                                           \
	X(FEATURE_EFFECTS, 0x12, "Feature Identifiers Supported and Effects")                                              \
	X(MI_EFFECTS, 0x13, "NVMe-MI Commands Supported and Effects")                                                      \
	X(LOCKDOWN, 0x14, "Command and Feature Lockdown")                                                                  \
	X(BOOT_PARTITION, 0x15, "Boot Partition")                                                                          \
	X(ROTATIONAL_MEDIA, 0x16, "Rotational Media Information")                                                          \
	X(DISCOVERY, 0x70, "Discovery")                                                                                    \
	X(RESERVATION, 0x80, "Reservation Notification")                                                                   \
	X(SANITIZE, 0x81, "Sanitize Status")                                                                               \
	X(CHANGED_ZONES, 0xbf, "Changed Zone List")

#define NVME_ENUM_ROW_LOG(name, value, text) NVME_LOG_##name = (value),
enum nvme_log_page { NVME_LOG_PAGES(NVME_ENUM_ROW_LOG) }; /* NVME_LOG_SMART ... */

enum {
	NVME_LOG_CDW10_LID_MASK = 0xff,
	NVME_LOG_CDW10_LSP_SHIFT = 8,
	NVME_LOG_CDW10_LSP_MASK = 0x7f,
	NVME_LOG_CDW10_RAE = 1 << 15, /* retain the asynchronous event */
	NVME_LOG_CDW10_NUMDL_SHIFT = 16,
	NVME_LOG_CDW11_NUMDU_MASK = 0xffff,
	NVME_LOG_CDW14_OT = 1 << 23, /* the offset is an index */
	NVME_LOG_CDW14_CSI_SHIFT = 24,
};

/* Bytes that a Get Log Page asks for: NUMD is dwords, 0's based. 4 to 16 GiB. */
static inline uint64_t nvme_log_bytes(uint32_t cdw10, uint32_t cdw11)
{
	uint32_t numd = (cdw11 & NVME_LOG_CDW11_NUMDU_MASK) << 16 | cdw10 >> NVME_LOG_CDW10_NUMDL_SHIFT;

	return ((uint64_t)numd + 1) * 4;
}

/* LID 00h: bit 0 of an entry: supported; bit 1: index offset supported. */
struct NVME_PACKED nvme_log_supported_pages {
	uint32_t lid[256];
};
NVME_ASSERT_SIZE(struct nvme_log_supported_pages, 1024);

/* LID 01h: entries, newest first. */
struct NVME_PACKED nvme_log_error {
	uint64_t error_count;
	uint16_t sqid;
	uint16_t cid;
	uint16_t status; /* as in a completion; nvme_status_field() */
	uint16_t parameter_location;
	uint64_t lba;
	uint32_t nsid;
	uint8_t vs;
	uint8_t trtype;
	uint8_t reserved30[2];
	uint64_t command_specific;
	uint16_t transport_specific;
	uint8_t reserved42[22];
};
NVME_ASSERT_SIZE(struct nvme_log_error, 64);
NVME_ASSERT_OFFSET(struct nvme_log_error, lba, 16);
NVME_ASSERT_OFFSET(struct nvme_log_error, trtype, 29);

enum {
	NVME_SMART_SPARE_LOW = 1 << 0,
	NVME_SMART_TEMPERATURE = 1 << 1,
	NVME_SMART_RELIABILITY = 1 << 2,
	NVME_SMART_READ_ONLY = 1 << 3,
	NVME_SMART_BACKUP_FAILED = 1 << 4,
	NVME_SMART_DATA_UNIT_BYTES = 512 * 1000, /* a data unit: rounded up thousands of 512 bytes */
};

/* 128-bit counters of the SMART page. */
struct NVME_PACKED nvme_u128 {
	uint64_t low;
	uint64_t high;
};

/* LID 02h */
struct NVME_PACKED nvme_log_smart {
	uint8_t critical_warning;
	uint16_t temperature; /* Kelvin */
	uint8_t available_spare;
	uint8_t available_spare_threshold;
	uint8_t percentage_used;
	uint8_t endurance_group_warning;
	uint8_t reserved7[25];
	struct nvme_u128 data_units_read;
	struct nvme_u128 data_units_written;
	struct nvme_u128 host_read_commands;
	struct nvme_u128 host_write_commands;
	struct nvme_u128 controller_busy_time; /* minutes */
	struct nvme_u128 power_cycles;
	struct nvme_u128 power_on_hours;
	struct nvme_u128 unsafe_shutdowns;
	struct nvme_u128 media_errors;
	struct nvme_u128 error_log_entries;
	uint32_t warning_temperature_time;
	uint32_t critical_temperature_time;
	uint16_t temperature_sensor[8];
	uint8_t reserved216[296];
};
NVME_ASSERT_SIZE(struct nvme_log_smart, 512);
NVME_ASSERT_OFFSET(struct nvme_log_smart, data_units_read, 32);
NVME_ASSERT_OFFSET(struct nvme_log_smart, error_log_entries, 176);
NVME_ASSERT_OFFSET(struct nvme_log_smart, temperature_sensor, 200);

/* LID 03h */
struct NVME_PACKED nvme_log_firmware_slot {
	uint8_t afi; /* active slot 2:0, slot at the next reset 6:4 */
	uint8_t reserved1[7];
	char revision[7][8];
	uint8_t reserved64[448];
};
NVME_ASSERT_SIZE(struct nvme_log_firmware_slot, 512);

/* LID 04h is a struct nvme_ns_list (data/nvme/identify.h); the first entry is FFFFFFFFh when more than 1024 changed. */
enum { NVME_CHANGED_NS_MAX = 1024 };

/* LID 05h */
enum {
	NVME_EFFECT_SUPPORTED = 1 << 0,
	NVME_EFFECT_CONTENT = 1 << 1, /* changes logical block content */
	NVME_EFFECT_NS_CAPABILITY = 1 << 2,
	NVME_EFFECT_NS_INVENTORY = 1 << 3,
	NVME_EFFECT_CONTROLLER_CAPABILITY = 1 << 4,
	NVME_EFFECT_CSE_SHIFT = 16,
};

struct NVME_PACKED nvme_log_command_effects {
	uint32_t admin[256];
	uint32_t io[256];
	uint8_t reserved2048[2048];
};
NVME_ASSERT_SIZE(struct nvme_log_command_effects, 4096);
NVME_ASSERT_OFFSET(struct nvme_log_command_effects, io, 1024);

/* LID 12h: bit 0: supported, bit 4: controller capabilities may change. */
struct NVME_PACKED nvme_log_feature_effects {
	uint32_t fid[256];
};
NVME_ASSERT_SIZE(struct nvme_log_feature_effects, 1024);

/* LID 0Ch: header, then each group's descriptor followed by its namespaces. */
enum nvme_ana_state {
	NVME_ANA_OPTIMIZED = 0x01,
	NVME_ANA_NON_OPTIMIZED = 0x02,
	NVME_ANA_INACCESSIBLE = 0x03,
	NVME_ANA_PERSISTENT_LOSS = 0x04,
	NVME_ANA_CHANGE = 0x0f,
};

enum { NVME_LOG_ANA_LSP_RGO = 1 << 0 }; /* groups only, without namespaces */

struct NVME_PACKED nvme_log_ana {
	uint64_t change_count;
	uint16_t groups;
	uint8_t reserved10[6];
};
NVME_ASSERT_SIZE(struct nvme_log_ana, 16);

struct NVME_PACKED nvme_ana_group {
	uint32_t anagrpid;
	uint32_t nsids;
	uint64_t change_count;
	uint8_t state; /* enum nvme_ana_state, bits 3:0 */
	uint8_t reserved17[15];
	uint32_t nsid[];
};
NVME_ASSERT_SIZE(struct nvme_ana_group, 32);
NVME_ASSERT_OFFSET(struct nvme_ana_group, state, 16);

/* LID 80h */
enum nvme_reservation_log_type {
	NVME_RESERVATION_LOG_EMPTY = 0,
	NVME_RESERVATION_LOG_REGISTRATION_PREEMPTED = 1,
	NVME_RESERVATION_LOG_RELEASED = 2,
	NVME_RESERVATION_LOG_PREEMPTED = 3,
};

struct NVME_PACKED nvme_log_reservation {
	uint64_t count;
	uint8_t type;
	uint8_t available;
	uint8_t reserved10[2];
	uint32_t nsid;
	uint8_t reserved16[48];
};
NVME_ASSERT_SIZE(struct nvme_log_reservation, 64);

/* LID 70h: header, then numrec entries. The host reads genctr before and after and starts again when it differs. */
enum {
	NVME_DISCOVERY_HEADER_BYTES = 1024,
	NVME_DISCOVERY_ENTRY_BYTES = 1024,
	NVME_DISCOVERY_PORTID_NONE = 0,
	NVME_DISCOVERY_CNTLID_DYNAMIC = 0xffff,
	NVME_DISCOVERY_EFLAG_DUPLICATE = 1 << 0,  /* this entry's address leads to the same information */
	NVME_DISCOVERY_EFLAG_PERSISTENT = 1 << 1, /* explicit persistent connections are supported */
};

struct NVME_PACKED nvme_discovery_log {
	uint64_t genctr;
	uint64_t numrec;
	uint16_t recfmt;
	uint8_t reserved18[1006];
};
NVME_ASSERT_SIZE(struct nvme_discovery_log, NVME_DISCOVERY_HEADER_BYTES);

struct NVME_PACKED nvme_discovery_entry {
	uint8_t trtype;
	uint8_t adrfam;
	uint8_t subtype;
	uint8_t treq;
	uint16_t portid;
	uint16_t cntlid;
	uint16_t asqsz;
	uint16_t eflags;
	uint8_t reserved12[20];
	char trsvcid[NVME_TRSVCID_FIELD_BYTES]; /* space padded, as traddr */
	uint8_t reserved64[192];
	char subnqn[NVME_NQN_FIELD_BYTES]; /* NUL-terminated */
	char traddr[NVME_TRADDR_FIELD_BYTES];
	union NVME_PACKED {
		uint8_t raw[256];
		uint8_t tcp_sectype; /* enum nvme_tcp_sectype */
	} tsas;
};
NVME_ASSERT_SIZE(struct nvme_discovery_entry, NVME_DISCOVERY_ENTRY_BYTES);
NVME_ASSERT_OFFSET(struct nvme_discovery_entry, trsvcid, 32);
NVME_ASSERT_OFFSET(struct nvme_discovery_entry, subnqn, 256);
NVME_ASSERT_OFFSET(struct nvme_discovery_entry, traddr, 512);
NVME_ASSERT_OFFSET(struct nvme_discovery_entry, tsas, 768);

#endif
