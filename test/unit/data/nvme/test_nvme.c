/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers, byte images and names. Layouts are asserted where they are declared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "data/nvme/command.h"
#include "data/nvme/fabrics.h"
#include "data/nvme/feature.h"
#include "data/nvme/identify.h"
#include "data/nvme/log.h"
#include "data/nvme/names.h"
#include "data/nvme/opcode.h"
#include "data/nvme/register.h"
#include "data/nvme/status.h"
#include "data/nvme/tcp.h"

static void a_status_is_equal_after_encoding_and_decoding(void **state)
{
	static const uint16_t statuses[] = { NVME_SC_SUCCESS,
					     NVME_SC_INVALID_FIELD,
					     NVME_SC_LBA_OUT_OF_RANGE,
					     NVME_SC_INVALID_QUEUE_SIZE,
					     NVME_SC_CONNECT_INVALID_PARAMETERS,
					     NVME_SC_UNRECOVERED_READ_ERROR,
					     NVME_SC_ANA_INACCESSIBLE,
					     0x7ff };

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		assert_int_equal(nvme_status_from_field(nvme_status_field(statuses[i], false)), statuses[i]);
		assert_int_equal(nvme_status_from_field(nvme_status_field(statuses[i], true)), statuses[i]);
		assert_int_equal(nvme_status_field(statuses[i], true) & 1, 0); /* without the phase bit */
	}
	assert_int_equal(nvme_status_field(NVME_SC_SUCCESS, false), 0);
	assert_int_equal(nvme_status_field(NVME_SC_INVALID_FIELD, true), 0x8004);
	assert_int_equal(nvme_status_field(NVME_SC_CONNECT_INVALID_PARAMETERS, true), 0x8304);
	assert_int_equal(nvme_status_type(NVME_SC_COMPARE_FAILURE), NVME_SCT_MEDIA);
	assert_int_equal(nvme_status_code(NVME_SC_COMPARE_FAILURE), 0x85);
}

static void a_command_is_decoded_from_its_bytes(void **state)
{
	/* Read, CID 1234h, namespace 1, 8 blocks at 1_0000_0002h, transport SGL of 4096 bytes; at an odd address */
	uint8_t bytes[1 + NVME_COMMAND_BYTES] = { 0 };
	static const uint8_t head[] = { 0x02, 0x40, 0x34, 0x12, 0x01 };
	static const uint8_t sgl[] = { 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x5a };
	static const uint8_t dwords[] = { 0x02, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x40 };
	const struct nvme_command *command = (const void *)(bytes + 1);

	memcpy(bytes + 1, head, sizeof(head));
	memcpy(bytes + 1 + 32, sgl, sizeof(sgl));
	memcpy(bytes + 1 + 40, dwords, sizeof(dwords));
	assert_int_equal(command->opc, NVME_NVM_READ);
	assert_int_equal(command->flags & NVME_CMD_PSDT_MASK, NVME_CMD_PSDT_SGL);
	assert_int_equal(command->cid, 0x1234);
	assert_int_equal(command->nsid, 1);
	assert_int_equal(command->sgl.length, 4096);
	assert_int_equal(command->sgl.id, NVME_SGL_ID_TRANSPORT_DATA_BLOCK);
	assert_int_equal(nvme_sgl_type(&command->sgl), NVME_SGL_TRANSPORT_DATA_BLOCK);
	assert_int_equal(nvme_sgl_subtype(&command->sgl), NVME_SGL_SUBTYPE_TRANSPORT);
	assert_true(nvme_command_slba(command) == 0x100000002ull);
	assert_int_equal(nvme_command_blocks(command), 8);
	assert_true(command->cdw12 & NVME_CDW12_FUA);
	assert_int_equal(nvme_opcode_transfer(command->opc), NVME_TRANSFER_CONTROLLER_TO_HOST);
	assert_int_equal(nvme_opcode_transfer(NVME_NVM_WRITE), NVME_TRANSFER_HOST_TO_CONTROLLER);
	assert_int_equal(nvme_opcode_transfer(NVME_NVM_FLUSH), NVME_TRANSFER_NONE);
	assert_int_equal(nvme_opcode_transfer(NVME_FABRICS_CONNECT), NVME_TRANSFER_HOST_TO_CONTROLLER);
}

static void registers_combine_their_fields(void **state)
{
	/* 128 entries, contiguous queues, 15 s, NVM command set, 4 KiB pages */
	uint64_t cap = NVME_CAP_MQES(127) | NVME_CAP_CQR | NVME_CAP_TO(30) | NVME_CAP_CSS_NVM;

	assert_true(cap == 0x000000201e01007full);
	assert_int_equal(nvme_cap_mqes(cap), 127);
	assert_int_equal(nvme_cap_to(cap), 30);
	assert_int_equal(nvme_cap_mpsmin(cap), 0);
	assert_int_equal(NVME_VERSION_2_0, 0x00020000);
	/* the value that Linux writes to enable a controller */
	assert_int_equal(NVME_CC_GET(0x00460001u, IOSQES), 6);
	assert_int_equal(NVME_CC_GET(0x00460001u, IOCQES), 4);
	assert_int_equal(NVME_CC_GET(0x00464001u, SHN), NVME_CC_SHN_NORMAL);
}

static void log_lengths_are_zero_based(void **state)
{
	assert_true(nvme_log_bytes(0, 0) == 4);
	assert_true(nvme_log_bytes(127u << 16 | NVME_LOG_SMART, 0) == 512);
	assert_true(nvme_log_bytes(0xffffu << 16, 0xffff) == 0x400000000ull);
	assert_true(nvme_log_bytes(0, 0xdead0001) == 0x40004ull); /* LSID is not length */
}

static void event_and_queue_dwords_equal_the_specification(void **state)
{
	assert_int_equal(nvme_event_dword(NVME_EVENT_NOTICE, NVME_NOTICE_NS_ATTRIBUTE, NVME_LOG_CHANGED_NS_LIST), 0x040002);
	assert_int_equal(nvme_event_dword(NVME_EVENT_NOTICE, NVME_NOTICE_DISCOVERY_LOG, NVME_LOG_DISCOVERY), 0x70f002);
	assert_int_equal(nvme_queues_dword(126, 125), 125 << 16 | 126);
	assert_int_equal(NVME_AEC_ANA_CHANGE, NVME_OAES_ANA_CHANGE);
	assert_int_equal(NVME_AEC_NS_ATTRIBUTE, NVME_OAES_NS_ATTRIBUTE);
	assert_true(NVME_AEC_DISCOVERY_LOG == NVME_OAES_DISCOVERY_LOG);
}

static void opcodes_types_and_pages_have_names(void **state)
{
	assert_string_equal(nvme_admin_opcode_name(NVME_ADMIN_IDENTIFY), "Identify");
	assert_string_equal(nvme_admin_opcode_name(0x7f), "Fabrics");
	assert_string_equal(nvme_admin_opcode_name(0x03), "reserved");
	assert_string_equal(nvme_admin_opcode_name(0xc1), "vendor specific");
	assert_string_equal(nvme_nvm_opcode_name(NVME_NVM_READ), "Read");
	assert_string_equal(nvme_nvm_opcode_name(0x80), "vendor specific");
	assert_string_equal(nvme_fabrics_type_name(NVME_FABRICS_CONNECT), "Connect");
	assert_string_equal(nvme_tcp_pdu_type_name(NVME_TCP_C2H_DATA), "C2HData");
	assert_string_equal(nvme_tcp_pdu_type_name(8), "reserved");
	assert_string_equal(nvme_tcp_fes_name(NVME_TCP_FES_PDU_SEQUENCE_ERROR), "PDU Sequence Error");
	assert_string_equal(nvme_feature_name(NVME_FEATURE_KEEP_ALIVE_TIMER), "Keep Alive Timer");
	assert_string_equal(nvme_log_page_name(NVME_LOG_DISCOVERY), "Discovery");
	assert_string_equal(nvme_cns_name(NVME_CNS_CONTROLLER), "Controller");
}

static void fabrics_statuses_have_their_own_names(void **state)
{
	assert_int_equal(NVME_SC_CONNECT_INVALID_PARAMETERS, NVME_SC_WRITE_TO_READ_ONLY_RANGE);
	assert_string_equal(nvme_status_name(0x182), "Attempted Write to Read Only Range");
	assert_string_equal(nvme_fabrics_status_name(0x182), "Connect Invalid Parameters");
	assert_string_equal(nvme_fabrics_status_name(NVME_SC_INVALID_FIELD), "Invalid Field in Command");
	assert_string_equal(nvme_fabrics_status_name(0x1bf), "reserved");
	assert_string_equal(nvme_status_name(NVME_SC_SUCCESS), "Successful Completion");
	assert_string_equal(nvme_status_name(0x7aa), "vendor specific");
	assert_string_equal(nvme_status_name(0x1c5), "vendor specific");
	assert_string_equal(nvme_status_name(0x0ff), "vendor specific");
	assert_string_equal(nvme_status_name(0x070), "reserved");
}

static void each_number_has_a_name(void **state)
{
	for (unsigned int i = 0; i <= 0xffff; i++) {
		assert_non_null(nvme_status_name((uint16_t)i));
		assert_non_null(nvme_fabrics_status_name((uint16_t)i));
		assert_non_null(nvme_tcp_fes_name((uint16_t)i));
	}
	for (unsigned int i = 0; i <= 0xff; i++) {
		assert_non_null(nvme_admin_opcode_name((uint8_t)i));
		assert_non_null(nvme_nvm_opcode_name((uint8_t)i));
		assert_non_null(nvme_fabrics_type_name((uint8_t)i));
		assert_non_null(nvme_tcp_pdu_type_name((uint8_t)i));
		assert_non_null(nvme_feature_name((uint8_t)i));
		assert_non_null(nvme_log_page_name((uint8_t)i));
		assert_non_null(nvme_cns_name((uint8_t)i));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_status_is_equal_after_encoding_and_decoding),
		cmocka_unit_test(a_command_is_decoded_from_its_bytes),
		cmocka_unit_test(registers_combine_their_fields),
		cmocka_unit_test(log_lengths_are_zero_based),
		cmocka_unit_test(event_and_queue_dwords_equal_the_specification),
		cmocka_unit_test(opcodes_types_and_pages_have_names),
		cmocka_unit_test(fabrics_statuses_have_their_own_names),
		cmocka_unit_test(each_number_has_a_name),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("nvme", tests, NULL, NULL);
}
