/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/nvme/names.h"

#include "data/nvme/feature.h"
#include "data/nvme/identify.h"
#include "data/nvme/log.h"
#include "data/nvme/opcode.h"
#include "data/nvme/status.h"
#include "data/nvme/tcp.h"

#define CASE(name, value, text)                                                                                            \
	case value:                                                                                                        \
		return text;

static const char reserved[] = "reserved";
static const char vendor[] = "vendor specific";

const char *nvme_admin_opcode_name(uint8_t opcode)
{
	switch (opcode) {
		NVME_ADMIN_OPCODES(CASE)
	}
	return opcode >= NVME_OPCODE_VENDOR_FIRST_ADMIN ? vendor : reserved;
}

const char *nvme_nvm_opcode_name(uint8_t opcode)
{
	switch (opcode) {
		NVME_NVM_OPCODES(CASE)
	}
	return opcode >= NVME_OPCODE_VENDOR_FIRST_IO ? vendor : reserved;
}

const char *nvme_fabrics_type_name(uint8_t fctype)
{
	switch (fctype) {
		NVME_FABRICS_TYPES(CASE)
	}
	return fctype >= 0xc0 ? vendor : reserved;
}

const char *nvme_status_name(uint16_t status)
{
	switch (status) {
		NVME_STATUSES(CASE)
	}
	/* In each type the last quarter of the codes is the vendor's. */
	if (nvme_status_type(status) == NVME_SCT_VENDOR || nvme_status_code(status) >= 0xc0)
		return vendor;
	return reserved;
}

const char *nvme_fabrics_status_name(uint16_t status)
{
	switch (status) {
		NVME_FABRICS_STATUSES(CASE)
	}
	if (nvme_status_type(status) == NVME_SCT_COMMAND && nvme_status_code(status) >= 0x80)
		return nvme_status_code(status) >= 0xc0 ? vendor : reserved;
	return nvme_status_name(status);
}

const char *nvme_tcp_pdu_type_name(uint8_t type)
{
	switch (type) {
		NVME_TCP_PDU_TYPES(CASE)
	}
	return reserved;
}

const char *nvme_tcp_fes_name(uint16_t fes)
{
	switch (fes) {
		NVME_TCP_FATAL_ERRORS(CASE)
	}
	return reserved;
}

const char *nvme_feature_name(uint8_t fid)
{
	switch (fid) {
		NVME_FEATURES(CASE)
	}
	return fid >= 0xc0 ? vendor : reserved;
}

const char *nvme_log_page_name(uint8_t lid)
{
	switch (lid) {
		NVME_LOG_PAGES(CASE)
	}
	return lid >= 0xc0 ? vendor : reserved;
}

const char *nvme_cns_name(uint8_t cns)
{
	switch (cns) {
		NVME_CNS_VALUES(CASE)
	}
	return reserved;
}
