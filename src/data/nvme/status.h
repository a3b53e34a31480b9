/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * status - how a command ended, as one number: status code type << 8 | status code.
 *
 * A status is data, not an error of ours: it is carried in uint16_t or enum nvme_status, 0 is success. On the wire it is in
 * bits 15:1 of the completion's last word, with phase (always 0 on fabrics) below and retry delay, more, do-not-retry
 * above. Codes 80h and up of the command specific type mean one thing for Fabrics commands, another for I/O commands.
 */
#ifndef NVME_STATUS_H
#define NVME_STATUS_H

#include <stdbool.h>
#include <stdint.h>

enum nvme_status_type {
	NVME_SCT_GENERIC = 0,
	NVME_SCT_COMMAND = 1,
	NVME_SCT_MEDIA = 2,
	NVME_SCT_PATH = 3,
	NVME_SCT_VENDOR = 7,
};

#define NVME_STATUSES(X)                                                                                                   \
	X(SUCCESS, 0x000, "Successful Completion")                                                                         \
	X(INVALID_OPCODE, 0x001, "Invalid Command Opcode")                                                                 \
	X(INVALID_FIELD, 0x002, "Invalid Field in Command")                                                                \
	X(COMMAND_ID_CONFLICT, 0x003, "Command ID Conflict")                                                               \
	X(DATA_TRANSFER_ERROR, 0x004, "Data Transfer Error")                                                               \
	X(ABORTED_POWER_LOSS, 0x005, "Commands Aborted due to Power Loss Notification")                                    \
	X(INTERNAL_ERROR, 0x006, "Internal Error")                                                                         \
	X(ABORTED_BY_REQUEST, 0x007, "Command Abort Requested")                                                            \
	X(ABORTED_SQ_DELETION, 0x008, "Command Aborted due to SQ Deletion")                                                \
	X(ABORTED_FAILED_FUSED, 0x009, "Command Aborted due to Failed Fused Command")                                      \
	X(ABORTED_MISSING_FUSED, 0x00a, "Command Aborted due to Missing Fused Command")                                    \
	X(INVALID_NAMESPACE, 0x00b, "Invalid Namespace or Format")                                                         \
	X(COMMAND_SEQUENCE_ERROR, 0x00c, "Command Sequence Error")                                                         \
	X(INVALID_SGL_SEGMENT, 0x00d, "Invalid SGL Segment Descriptor")                                                    \
	X(INVALID_SGL_COUNT, 0x00e, "Invalid Number of SGL Descriptors")                                                   \
	X(DATA_SGL_LENGTH_INVALID, 0x00f, "Data SGL Length Invalid")                                                       \
	X(METADATA_SGL_LENGTH_INVALID, 0x010, "Metadata SGL Length Invalid")                                               \
	X(SGL_TYPE_INVALID, 0x011, "SGL Descriptor Type Invalid")                                                          \
	X(INVALID_CMB_USE, 0x012, "Invalid Use of Controller Memory Buffer")                                               \
	X(INVALID_PRP_OFFSET, 0x013, "PRP Offset Invalid")                                                                 \
	X(ATOMIC_WRITE_UNIT_EXCEEDED, 0x014, "Atomic Write Unit Exceeded")                                                 \
	X(OPERATION_DENIED, 0x015, "Operation Denied")                                                                     \
	X(SGL_OFFSET_INVALID, 0x016, "SGL Offset Invalid")                                                                 \
	X(HOST_ID_INCONSISTENT, 0x018, "Host Identifier Inconsistent Format")                                              \
	X(KEEP_ALIVE_EXPIRED, 0x019, "Keep Alive Timer Expired")                                                           \
	X(KEEP_ALIVE_INVALID, 0x01a, "Keep Alive Timeout Invalid")                                                         \
	X(ABORTED_PREEMPT, 0x01b, "Command Aborted due to Preempt and Abort")                                              \
	X(SANITIZE_FAILED, 0x01c, "Sanitize Failed")                                                                       \
	X(SANITIZE_IN_PROGRESS, 0x01d, "Sanitize In Progress")                                                             \
	X(SGL_GRANULARITY_INVALID, 0x01e, "SGL Data Block Granularity Invalid")                                            \
	X(COMMAND_INVALID_IN_CMB, 0x01f, "Command Not Supported for Queue in CMB")                                         \
	X(NAMESPACE_WRITE_PROTECTED, 0x020, "Namespace is Write Protected")                                                \
	X(COMMAND_INTERRUPTED, 0x021, "Command Interrupted")                                                               \
	X(TRANSIENT_TRANSPORT_ERROR, 0x022, "Transient Transport Error")                                                   \
	X(PROHIBITED_BY_LOCKDOWN, 0x023, "Command Prohibited by Command and Feature Lockdown")                             \
	X(ADMIN_MEDIA_NOT_READY, 0x024, "Admin Command Media Not Ready")                                                   \
	X(LBA_OUT_OF_RANGE, 0x080, "LBA Out of Range")                                                                     \
	X(CAPACITY_EXCEEDED, 0x081, "Capacity Exceeded")                                                                   \
	X(NAMESPACE_NOT_READY, 0x082, "Namespace Not Ready")                                                               \
	X(RESERVATION_CONFLICT, 0x083, "Reservation Conflict")                                                             \
	X(FORMAT_IN_PROGRESS, 0x084, "Format In Progress")                                                                 \
	X(COMPLETION_QUEUE_INVALID, 0x100, "Completion Queue Invalid")                                                     \
	X(INVALID_QUEUE_ID, 0x101, "Invalid Queue Identifier")                                                             \
	X(INVALID_QUEUE_SIZE, 0x102, "Invalid Queue Size")                                                                 \
	X(ABORT_LIMIT_EXCEEDED, 0x103, "Abort Command Limit Exceeded")                                                     \
	X(ASYNC_EVENT_LIMIT_EXCEEDED, 0x105, "Asynchronous Event Request Limit Exceeded")                                  \
	X(INVALID_FIRMWARE_SLOT, 0x106, "Invalid Firmware Slot")                                                           \
	X(INVALID_FIRMWARE_IMAGE, 0x107, "Invalid Firmware Image")                                                         \
	X(INVALID_INTERRUPT_VECTOR, 0x108, "Invalid Interrupt Vector")                                                     \
	X(INVALID_LOG_PAGE, 0x109, "Invalid Log Page")                                                                     \
	X(INVALID_FORMAT, 0x10a, "Invalid Format")                                                                         \
	X(FIRMWARE_NEEDS_CONVENTIONAL_RESET, 0x10b, "Firmware Activation Requires Conventional Reset")                     \
	X(INVALID_QUEUE_DELETION, 0x10c, "Invalid Queue Deletion")                                                         \
	X(FEATURE_NOT_SAVEABLE, 0x10d, "Feature Identifier Not Saveable")                                                  \
	X(FEATURE_NOT_CHANGEABLE, 0x10e, "Feature Not Changeable")                                                         \
	X(FEATURE_NOT_NAMESPACE_SPECIFIC, 0x10f, "Feature Not Namespace Specific")                                         \
	X(FIRMWARE_NEEDS_SUBSYSTEM_RESET, 0x110, "Firmware Activation Requires NVM Subsystem Reset")                       \
	X(FIRMWARE_NEEDS_RESET, 0x111, "Firmware Activation Requires Controller Level Reset")                              \
	X(FIRMWARE_NEEDS_MAX_TIME, 0x112, "Firmware Activation Requires Maximum Time Violation")                           \
	X(FIRMWARE_PROHIBITED, 0x113, "Firmware Activation Prohibited")                                                    \
	X(OVERLAPPING_RANGE, 0x114, "Overlapping Range")                                                                   \
	X(NAMESPACE_INSUFFICIENT_CAPACITY, 0x115, "Namespace Insufficient Capacity")                                       \
	X(NAMESPACE_ID_UNAVAILABLE, 0x116, "Namespace Identifier Unavailable")                                             \
	X(NAMESPACE_ALREADY_ATTACHED, 0x118, "Namespace Already Attached")                                                 \
	X(NAMESPACE_IS_PRIVATE, 0x119, "Namespace Is Private")                                                             \
	X(NAMESPACE_NOT_ATTACHED, 0x11a, "Namespace Not Attached")                                                         \
	X(THIN_PROVISIONING_NOT_SUPPORTED, 0x11b, "Thin Provisioning Not Supported")                                       \
	X(CONTROLLER_LIST_INVALID, 0x11c, "Controller List Invalid")                                                       \
	X(SELF_TEST_IN_PROGRESS, 0x11d, "Device Self-test In Progress")                                                    \
	X(BOOT_PARTITION_WRITE_PROHIBITED, 0x11e, "Boot Partition Write Prohibited")                                       \
	X(INVALID_CONTROLLER_ID, 0x11f, "Invalid Controller Identifier")                                                   \
	X(INVALID_SECONDARY_CONTROLLER_STATE, 0x120, "Invalid Secondary Controller State")                                 \
	X(INVALID_CONTROLLER_RESOURCES, 0x121, "Invalid Number of Controller Resources")                                   \
	X(INVALID_RESOURCE_ID, 0x122, "Invalid Resource Identifier")                                                       \
	X(SANITIZE_PROHIBITED, 0x123, "Sanitize Prohibited While Persistent Memory Region is Enabled")                     \
	X(ANA_GROUP_ID_INVALID, 0x124, "ANA Group Identifier Invalid")                                                     \
	X(ANA_ATTACH_FAILED, 0x125, "ANA Attach Failed")                                                                   \
	X(INSUFFICIENT_CAPACITY, 0x126, "Insufficient Capacity")                                                           \
	X(NAMESPACE_ATTACH_LIMIT_EXCEEDED, 0x127, "Namespace Attachment Limit Exceeded")                                   \
	X(PROHIBITION_NOT_SUPPORTED, 0x128, "Prohibition of Command Execution Not Supported")                              \
	X(IOCS_NOT_SUPPORTED, 0x129, "I/O Command Set Not Supported")                                                      \
	X(IOCS_NOT_ENABLED, 0x12a, "I/O Command Set Not Enabled")                                                          \
	X(IOCS_COMBINATION_REJECTED, 0x12b, "I/O Command Set Combination Rejected")                                        \
	X(INVALID_IOCS, 0x12c, "Invalid I/O Command Set")                                                                  \
	X(IDENTIFIER_UNAVAILABLE, 0x12d, "Identifier Unavailable")                                                         \
	X(CONFLICTING_ATTRIBUTES, 0x180, "Conflicting Attributes")                                                         \
	X(INVALID_PROTECTION_INFO, 0x181, "Invalid Protection Information")                                                \
	X(WRITE_TO_READ_ONLY_RANGE, 0x182, "Attempted Write to Read Only Range")                                           \
	X(COMMAND_SIZE_LIMIT_EXCEEDED, 0x183, "Command Size Limit Exceeded")                                               \
	X(ZONE_BOUNDARY_ERROR, 0x1b8, "Zoned Boundary Error")                                                              \
	X(ZONE_IS_FULL, 0x1b9, "Zone Is Full")                                                                             \
	X(ZONE_IS_READ_ONLY, 0x1ba, "Zone Is Read Only")                                                                   \
	X(ZONE_IS_OFFLINE, 0x1bb, "Zone Is Offline")                                                                       \
	X(ZONE_INVALID_WRITE, 0x1bc, "Zone Invalid Write")                                                                 \
	X(TOO_MANY_ACTIVE_ZONES, 0x1bd, "Too Many Active Zones")                                                           \
	X(TOO_MANY_OPEN_ZONES, 0x1be, "Too Many Open Zones")                                                               \
	X(INVALID_ZONE_TRANSITION, 0x1bf, "Invalid Zone State Transition")                                                 \
	X(WRITE_FAULT, 0x280, "Write Fault")                                                                               \
	X(UNRECOVERED_READ_ERROR, 0x281, "Unrecovered Read Error")                                                         \
	X(GUARD_CHECK_ERROR, 0x282, "End-to-end Guard Check Error")                                                        \
	X(APPLICATION_TAG_CHECK_ERROR, 0x283, "End-to-end Application Tag Check Error")                                    \
	X(REFERENCE_TAG_CHECK_ERROR, 0x284, "End-to-end Reference Tag Check Error")                                        \
	X(COMPARE_FAILURE, 0x285, "Compare Failure")                                                                       \
	X(ACCESS_DENIED, 0x286, "Access Denied")                                                                           \
	X(DEALLOCATED_BLOCK, 0x287, "Deallocated or Unwritten Logical Block")                                              \
	X(STORAGE_TAG_CHECK_ERROR, 0x288, "End-to-end Storage Tag Check Error")                                            \
	X(INTERNAL_PATH_ERROR, 0x300, "Internal Path Error")                                                               \
	X(ANA_PERSISTENT_LOSS, 0x301, "Asymmetric Access Persistent Loss")                                                 \
	X(ANA_INACCESSIBLE, 0x302, "Asymmetric Access Inaccessible")                                                       \
	X(ANA_TRANSITION, 0x303, "Asymmetric Access Transition")                                                           \
	X(CONTROLLER_PATH_ERROR, 0x360, "Controller Pathing Error")                                                        \
	X(HOST_PATH_ERROR, 0x370, "Host Pathing Error")                                                                    \
	X(ABORTED_BY_HOST, 0x371, "Command Aborted By Host")

/* What the codes from 80h of the command specific type say about a Fabrics command. */
#define NVME_FABRICS_STATUSES(X)                                                                                           \
	X(CONNECT_INCOMPATIBLE_FORMAT, 0x180, "Incompatible Format")                                                       \
	X(CONNECT_CONTROLLER_BUSY, 0x181, "Controller Busy")                                                               \
	X(CONNECT_INVALID_PARAMETERS, 0x182, "Connect Invalid Parameters")                                                 \
	X(CONNECT_RESTART_DISCOVERY, 0x183, "Connect Restart Discovery")                                                   \
	X(CONNECT_INVALID_HOST, 0x184, "Connect Invalid Host")                                                             \
	X(INVALID_QUEUE_TYPE, 0x185, "Invalid Queue Type")                                                                 \
	X(DISCOVER_RESTART, 0x190, "Discover Restart")                                                                     \
	X(AUTH_REQUIRED, 0x191, "Authentication Required")

#define NVME_ENUM_ROW_STATUS(name, value, text) NVME_SC_##name = (value),

enum nvme_status { NVME_STATUSES(NVME_ENUM_ROW_STATUS) NVME_FABRICS_STATUSES(NVME_ENUM_ROW_STATUS) };

enum {
	NVME_STATUS_MASK = 0x7ff, /* of enum nvme_status */
	NVME_CQE_STATUS_SHIFT = 1,
	NVME_CQE_CRD_SHIFT = 12,
	NVME_CQE_CRD_MASK = 0x3,
	NVME_CQE_MORE = 1 << 14,
	NVME_CQE_DNR = 1 << 15,
};

static inline enum nvme_status_type nvme_status_type(uint16_t status)
{
	return (enum nvme_status_type)(status >> 8 & 7);
}

static inline uint8_t nvme_status_code(uint16_t status)
{
	return (uint8_t)status;
}

/* The status word of a completion: phase 0, no retry delay. `do_not_retry` tells the host that a retry ends the same. */
static inline uint16_t nvme_status_field(uint16_t status, bool do_not_retry)
{
	return (uint16_t)((status & NVME_STATUS_MASK) << NVME_CQE_STATUS_SHIFT | (do_not_retry ? NVME_CQE_DNR : 0));
}

/* And back: the status in a completion's status word; phase, retry delay, more and do-not-retry are left out. */
static inline uint16_t nvme_status_from_field(uint16_t field)
{
	return (uint16_t)(field >> NVME_CQE_STATUS_SHIFT & NVME_STATUS_MASK);
}

#endif
