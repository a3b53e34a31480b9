/* SPDX-License-Identifier: BSD-2-Clause */
/* opcode - the commands, one table a command set: X(name, value, what people call it). Names: data/nvme/names.h. */
#ifndef NVME_OPCODE_H
#define NVME_OPCODE_H

#define NVME_OPCODE_FABRICS 0x7f /* the command type is then in byte 4, see data/nvme/fabrics.h */
#define NVME_OPCODE_VENDOR_FIRST_ADMIN 0xc0
#define NVME_OPCODE_VENDOR_FIRST_IO 0x80

#define NVME_ADMIN_OPCODES(X)                                                                                              \
	X(DELETE_IO_SQ, 0x00, "Delete I/O Submission Queue")                                                               \
	X(CREATE_IO_SQ, 0x01, "Create I/O Submission Queue")                                                               \
	X(GET_LOG_PAGE, 0x02, "Get Log Page")                                                                              \
	X(DELETE_IO_CQ, 0x04, "Delete I/O Completion Queue")                                                               \
	X(CREATE_IO_CQ, 0x05, "Create I/O Completion Queue")                                                               \
	X(IDENTIFY, 0x06, "Identify")                                                                                      \
	X(ABORT, 0x08, "Abort")                                                                                            \
	X(SET_FEATURES, 0x09, "Set Features")                                                                              \
	X(GET_FEATURES, 0x0a, "Get Features")                                                                              \
	X(ASYNC_EVENT_REQUEST, 0x0c, "Asynchronous Event Request")                                                         \
	X(NS_MANAGEMENT, 0x0d, "Namespace Management")                                                                     \
	X(FIRMWARE_COMMIT, 0x10, "Firmware Commit")                                                                        \
	X(FIRMWARE_DOWNLOAD, 0x11, "Firmware Image Download")                                                              \
	X(DEVICE_SELF_TEST, 0x14, "Device Self-test")                                                                      \
	X(NS_ATTACHMENT, 0x15, "Namespace Attachment")                                                                     \
	X(KEEP_ALIVE, 0x18, "Keep Alive")                                                                                  \
	X(DIRECTIVE_SEND, 0x19, "Directive Send")                                                                          \
	X(DIRECTIVE_RECEIVE, 0x1a, "Directive Receive")                                                                    \
	X(VIRTUALIZATION_MANAGEMENT, 0x1c, "Virtualization Management")                                                    \
	X(NVME_MI_SEND, 0x1d, "NVMe-MI Send")                                                                              \
	X(NVME_MI_RECEIVE, 0x1e, "NVMe-MI Receive")                                                                        \
	X(CAPACITY_MANAGEMENT, 0x20, "Capacity Management")                                                                \
	X(LOCKDOWN, 0x24, "Lockdown")                                                                                      \
	X(DOORBELL_BUFFER_CONFIG, 0x7c, "Doorbell Buffer Config")                                                          \
	X(FABRICS, 0x7f, "Fabrics")                                                                                        \
	X(FORMAT_NVM, 0x80, "Format NVM")                                                                                  \
	X(SECURITY_SEND, 0x81, "Security Send")                                                                            \
	X(SECURITY_RECEIVE, 0x82, "Security Receive")                                                                      \
	X(SANITIZE, 0x84, "Sanitize")                                                                                      \
	X(GET_LBA_STATUS, 0x86, "Get LBA Status")

#define NVME_NVM_OPCODES(X)                                                                                                \
	X(FLUSH, 0x00, "Flush")                                                                                            \
	X(WRITE, 0x01, "Write")                                                                                            \
	X(READ, 0x02, "Read")                                                                                              \
	X(WRITE_UNCORRECTABLE, 0x04, "Write Uncorrectable")                                                                \
	X(COMPARE, 0x05, "Compare")                                                                                        \
	X(WRITE_ZEROES, 0x08, "Write Zeroes")                                                                              \
	X(DATASET_MANAGEMENT, 0x09, "Dataset Management")                                                                  \
	X(VERIFY, 0x0c, "Verify")                                                                                          \
	X(RESERVATION_REGISTER, 0x0d, "Reservation Register")                                                              \
	X(RESERVATION_REPORT, 0x0e, "Reservation Report")                                                                  \
	X(RESERVATION_ACQUIRE, 0x11, "Reservation Acquire")                                                                \
	X(IO_MANAGEMENT_RECEIVE, 0x12, "I/O Management Receive")                                                           \
	X(RESERVATION_RELEASE, 0x15, "Reservation Release")                                                                \
	X(COPY, 0x19, "Copy")                                                                                              \
	X(IO_MANAGEMENT_SEND, 0x1d, "I/O Management Send")                                                                 \
	X(ZONE_MANAGEMENT_SEND, 0x79, "Zone Management Send")                                                              \
	X(ZONE_MANAGEMENT_RECEIVE, 0x7a, "Zone Management Receive")                                                        \
	X(ZONE_APPEND, 0x7d, "Zone Append")                                                                                \
	X(IO_FABRICS, 0x7f, "Fabrics")

#define NVME_FABRICS_TYPES(X)                                                                                              \
	X(PROPERTY_SET, 0x00, "Property Set")                                                                              \
	X(CONNECT, 0x01, "Connect")                                                                                        \
	X(PROPERTY_GET, 0x04, "Property Get")                                                                              \
	X(AUTH_SEND, 0x05, "Authentication Send")                                                                          \
	X(AUTH_RECEIVE, 0x06, "Authentication Receive")                                                                    \
	X(DISCONNECT, 0x08, "Disconnect")

#define NVME_ENUM_ROW_ADMIN(name, value, text) NVME_ADMIN_##name = (value),
#define NVME_ENUM_ROW_NVM(name, value, text) NVME_NVM_##name = (value),
#define NVME_ENUM_ROW_FABRICS(name, value, text) NVME_FABRICS_##name = (value),

enum nvme_admin_opcode { NVME_ADMIN_OPCODES(NVME_ENUM_ROW_ADMIN) };   /* NVME_ADMIN_IDENTIFY ... */
enum nvme_nvm_opcode { NVME_NVM_OPCODES(NVME_ENUM_ROW_NVM) };	      /* NVME_NVM_READ ... */
enum nvme_fabrics_type { NVME_FABRICS_TYPES(NVME_ENUM_ROW_FABRICS) }; /* NVME_FABRICS_CONNECT ... */

#endif
