/* SPDX-License-Identifier: BSD-2-Clause */
/* feature - features of Get and Set Features, and asynchronous events. Base spec 2.0, 5.2, 5.15, 5.27. */
#ifndef NVME_FEATURE_H
#define NVME_FEATURE_H

#include "data/nvme/layout.h"

#define NVME_FEATURES(X)                                                                                                   \
	X(ARBITRATION, 0x01, "Arbitration")                                                                                \
	X(POWER_MANAGEMENT, 0x02, "Power Management")                                                                      \
	X(LBA_RANGE_TYPE, 0x03, "LBA Range Type")                                                                          \
	X(TEMPERATURE_THRESHOLD, 0x04, "Temperature Threshold")                                                            \
	X(ERROR_RECOVERY, 0x05, "Error Recovery")                                                                          \
	X(VOLATILE_WRITE_CACHE, 0x06, "Volatile Write Cache")                                                              \
	X(NUMBER_OF_QUEUES, 0x07, "Number of Queues")                                                                      \
	X(INTERRUPT_COALESCING, 0x08, "Interrupt Coalescing")                                                              \
	X(INTERRUPT_VECTOR, 0x09, "Interrupt Vector Configuration")                                                        \
	X(WRITE_ATOMICITY, 0x0a, "Write Atomicity Normal")                                                                 \
	X(ASYNC_EVENT_CONFIG, 0x0b, "Asynchronous Event Configuration")                                                    \
	X(AUTONOMOUS_POWER, 0x0c, "Autonomous Power State Transition")                                                     \
	X(HOST_MEMORY_BUFFER, 0x0d, "Host Memory Buffer")                                                                  \
	X(TIMESTAMP, 0x0e, "Timestamp")                                                                                    \
	X(KEEP_ALIVE_TIMER, 0x0f, "Keep Alive Timer")                                                                      \
	X(THERMAL_MANAGEMENT, 0x10, "Host Controlled Thermal Management")                                                  \
	X(NON_OPERATIONAL_POWER, 0x11, "Non-Operational Power State Config")                                               \
	X(READ_RECOVERY_LEVEL, 0x12, "Read Recovery Level Config")                                                         \
	X(PREDICTABLE_LATENCY_CONFIG, 0x13, "Predictable Latency Mode Config")                                             \
	X(PREDICTABLE_LATENCY_WINDOW, 0x14, "Predictable Latency Mode Window")                                             \
	X(LBA_STATUS_ATTRIBUTES, 0x15, "LBA Status Information Report Interval")                                           \
	X(HOST_BEHAVIOR, 0x16, "Host Behavior Support")                                                                    \
	X(SANITIZE_CONFIG, 0x17, "Sanitize Config")                                                                        \
	X(ENDURANCE_GROUP_EVENT, 0x18, "Endurance Group Event Configuration")                                              \
	X(IOCS_PROFILE, 0x19, "I/O Command Set Profile")                                                                   \
	X(SPINUP_CONTROL, 0x1a, "Spinup Control")                                                                          \
	X(ENHANCED_CONTROLLER_METADATA, 0x7d, "Enhanced Controller Metadata")                                              \
	X(CONTROLLER_METADATA, 0x7e, "Controller Metadata")                                                                \
	X(NAMESPACE_METADATA, 0x7f, "Namespace Metadata")                                                                  \
	X(SOFTWARE_PROGRESS, 0x80, "Software Progress Marker")                                                             \
	X(HOST_IDENTIFIER, 0x81, "Host Identifier")                                                                        \
	X(RESERVATION_MASK, 0x82, "Reservation Notification Mask")                                                         \
	X(RESERVATION_PERSISTENCE, 0x83, "Reservation Persistence")                                                        \
	X(NS_WRITE_PROTECTION, 0x84, "Namespace Write Protection Config")

#define NVME_ENUM_ROW_FEATURE(name, value, text) NVME_FEATURE_##name = (value),
enum nvme_feature { NVME_FEATURES(NVME_ENUM_ROW_FEATURE) }; /* NVME_FEATURE_NUMBER_OF_QUEUES ... */

enum {
	NVME_FEATURE_CDW10_FID_MASK = 0xff,
	NVME_FEATURE_CDW10_SEL_SHIFT = 8, /* Get Features */
	NVME_FEATURE_CDW10_SEL_MASK = 0x7,

	NVME_WRITE_CACHE_ENABLE = 1 << 0,
	NVME_ERROR_RECOVERY_DULBE = 1 << 16,
	NVME_WRITE_ATOMICITY_DN = 1 << 0,
	NVME_HOST_IDENTIFIER_EXHID = 1 << 0,
	NVME_RESERVATION_PERSISTENCE_PTPL = 1 << 0,

	NVME_RESERVATION_MASK_REGPRE = 1 << 1,
	NVME_RESERVATION_MASK_RESREL = 1 << 2,
	NVME_RESERVATION_MASK_RESPRE = 1 << 3,
};
#define NVME_FEATURE_CDW10_SAVE (1u << 31) /* Set Features */

/* SEL of Get Features. */
enum nvme_feature_select {
	NVME_FEATURE_CURRENT = 0,
	NVME_FEATURE_DEFAULT = 1,
	NVME_FEATURE_SAVED = 2,
	NVME_FEATURE_CAPABILITIES = 3,
};

/* Dword 0 of the completion for FEATURE_CAPABILITIES. */
enum {
	NVME_FEATURE_SAVEABLE = 1 << 0,
	NVME_FEATURE_NS_SPECIFIC = 1 << 1,
	NVME_FEATURE_CHANGEABLE = 1 << 2,
};

/* NUMBER_OF_QUEUES, both 0's based: requested in CDW11, allocated in the completion's dword 0. */
static inline uint32_t nvme_queues_dword(uint16_t submission_less_1, uint16_t completion_less_1)
{
	return (uint32_t)completion_less_1 << 16 | submission_less_1;
}

struct NVME_PACKED nvme_host_behavior {
	uint8_t acre; /* 1: the host honours retry delays and Command Interrupted */
	uint8_t etdas;
	uint8_t lbafee;
	uint8_t reserved3[509];
};
NVME_ASSERT_SIZE(struct nvme_host_behavior, 512);

struct NVME_PACKED nvme_timestamp {
	uint8_t milliseconds[6];
	uint8_t attributes;
	uint8_t reserved7;
};
NVME_ASSERT_SIZE(struct nvme_timestamp, 8);

/* ASYNC_EVENT_CONFIG: bits 7:0 are SMART warnings, the notices are at the same bits as in OAES of Identify Controller. */
enum {
	NVME_AEC_SMART_MASK = 0xff,
	NVME_AEC_NS_ATTRIBUTE = 1 << 8,
	NVME_AEC_FIRMWARE = 1 << 9,
	NVME_AEC_TELEMETRY = 1 << 10,
	NVME_AEC_ANA_CHANGE = 1 << 11,
};
#define NVME_AEC_DISCOVERY_LOG (1u << 31)

enum nvme_event_type {
	NVME_EVENT_ERROR = 0,
	NVME_EVENT_SMART = 1,
	NVME_EVENT_NOTICE = 2,
	NVME_EVENT_IO = 6,
	NVME_EVENT_VENDOR = 7,
};

enum nvme_event_notice {
	NVME_NOTICE_NS_ATTRIBUTE = 0x00,
	NVME_NOTICE_FIRMWARE = 0x01,
	NVME_NOTICE_TELEMETRY = 0x02,
	NVME_NOTICE_ANA_CHANGE = 0x03,
	NVME_NOTICE_DISCOVERY_LOG = 0xf0,
};

enum nvme_event_io {
	NVME_EVENT_IO_RESERVATION_LOG = 0x00,
	NVME_EVENT_IO_SANITIZE = 0x01,
};

enum nvme_event_error {
	NVME_EVENT_ERROR_INVALID_DOORBELL = 0x00,
	NVME_EVENT_ERROR_DOORBELL_VALUE = 0x01,
	NVME_EVENT_ERROR_DIAGNOSTIC = 0x02,
	NVME_EVENT_ERROR_PERSISTENT = 0x03,
	NVME_EVENT_ERROR_TRANSIENT = 0x04,
	NVME_EVENT_ERROR_FIRMWARE = 0x05,
};

/* Dword 0 of an Asynchronous Event Request's completion: what happened, and the log page that tells more. */
static inline uint32_t nvme_event_dword(enum nvme_event_type type, uint8_t info, uint8_t log_page)
{
	return (uint32_t)log_page << 16 | (uint32_t)info << 8 | (uint32_t)type;
}

#endif
