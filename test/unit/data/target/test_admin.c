/* SPDX-License-Identifier: BSD-2-Clause */
/* Admin commands: Identify, features, log pages, events, Abort. */
#include "rig.h"

#include <string.h>

static struct rig_conn *admin;
static uint16_t cntlid;
static uint8_t page[16384];

static int setup(void **state)
{
	rig_setup(state);
	admin = rig_admin(0, &cntlid);
	return 0;
}

static int teardown(void **state)
{
	rig_close(admin);
	rig_free(admin);
	return rig_teardown(state);
}

static uint16_t identify(uint8_t cns, uint32_t nsid, uint32_t cdw11)
{
	struct rig_cmd cmd = rig_identify(cns, nsid, page);

	memset(page, 0xcc, sizeof(page));
	cmd.cmd.cdw11 = cdw11;
	return rig_exec(admin, &cmd);
}

static uint16_t get_log(struct rig_conn *conn, uint8_t lid, uint32_t bytes, uint64_t offset, bool retain)
{
	struct rig_cmd cmd = rig_log(lid, page, bytes, offset);

	memset(page, 0xcc, sizeof(page));
	if (retain)
		cmd.cmd.cdw10 |= NVME_LOG_CDW10_RAE;
	return rig_exec(conn, &cmd);
}

static uint16_t set_feature(struct rig_conn *conn, uint8_t fid, uint32_t value, uint32_t *result_ret)
{
	struct rig_cmd cmd = rig_plain(NVME_ADMIN_SET_FEATURES, 0);
	uint16_t status;

	cmd.cmd.cdw10 = fid;
	cmd.cmd.cdw11 = value;
	status = rig_exec(conn, &cmd);
	if (result_ret)
		*result_ret = cmd.cpl.cdw0;
	return status;
}

static uint16_t get_feature(struct rig_conn *conn, uint8_t fid, enum nvme_feature_select select, uint32_t cdw11,
			    uint32_t *value_ret)
{
	struct rig_cmd cmd = rig_plain(NVME_ADMIN_GET_FEATURES, 0);
	uint16_t status;

	cmd.cmd.cdw10 = fid | (uint32_t)select << NVME_FEATURE_CDW10_SEL_SHIFT;
	cmd.cmd.cdw11 = cdw11;
	status = rig_exec(conn, &cmd);
	*value_ret = cmd.cpl.cdw0;
	return status;
}

/* ---- Identify ---- */

static void test_identify_controller(void **state)
{
	const struct nvme_identify_controller *id = (const void *)page;

	assert_int_equal(identify(NVME_CNS_CONTROLLER, 0, 0), NVME_SC_SUCCESS);
	assert_memory_equal(id->sn, "00000000000000000000", 20);
	assert_memory_equal(id->mn, "Fathom bdev Controller                  ", 40);
	assert_int_equal(id->cntlid, cntlid);
	assert_int_equal(id->ver, NVME_VERSION_2_0);
	assert_int_equal(id->mdts, 5);
	assert_int_equal(id->cntrltype, NVME_CNTRLTYPE_IO);
	assert_int_equal(id->nn, 32);
	assert_int_equal(id->ioccsz, (64 + 4096) / 16);
	assert_int_equal(id->iorcsz, 1);
	assert_int_equal(id->kas, 100);
	assert_int_equal(id->sqes, 0x66);
	assert_int_equal(id->cqes, 0x44);
	assert_int_equal(id->maxcmd, 128);
	assert_true(id->vwc & NVME_VWC_PRESENT);
	assert_string_equal(id->subnqn, RIG_NQN);
	assert_int_equal(page[NVME_IDENTIFY_BYTES], 0xcc);
}

static void test_identify_namespace(void **state)
{
	const struct nvme_identify_ns *id = (const void *)page;
	static const uint8_t none[NVME_IDENTIFY_BYTES];

	assert_int_equal(identify(NVME_CNS_NS, 1, 0), NVME_SC_SUCCESS);
	assert_int_equal(id->nsze, RIG_BLOCKS);
	assert_int_equal(id->lbaf[0].lbads, 9);
	assert_int_equal(id->nmic, NVME_NMIC_SHARED);
	assert_memory_equal(id->nguid, "m0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	assert_int_equal(identify(NVME_CNS_NS, 2, 0), NVME_SC_SUCCESS);
	assert_memory_equal(page, none, sizeof(none));
	assert_int_equal(identify(NVME_CNS_NS, 0, 0), NVME_SC_INVALID_NAMESPACE);
	assert_int_equal(identify(NVME_CNS_NS, 33, 0), NVME_SC_INVALID_NAMESPACE);
	assert_int_equal(identify(NVME_CNS_NS, NVME_NSID_ALL, 0), NVME_SC_INVALID_NAMESPACE);
	assert_int_equal(identify(NVME_CNS_NS_IOCS, 1, 0), NVME_SC_SUCCESS);
	assert_int_equal(identify(NVME_CNS_NS_INDEPENDENT, 1, 0), NVME_SC_SUCCESS);
	assert_int_equal(((const struct nvme_identify_ns_independent *)page)->nstat, NVME_NSTAT_READY);
	assert_int_equal(identify(NVME_CNS_CONTROLLER_IOCS, 0, 0), NVME_SC_SUCCESS);
	assert_int_equal(((const struct nvme_identify_controller_nvm *)page)->wzsl, 12);
	assert_int_equal(identify(NVME_CNS_IOCS, 0, 0), NVME_SC_SUCCESS);
	assert_int_equal(page[0], 1);
}

/* SPDK's hosts request each command set that they know, and take an error as support. */
static void test_identify_of_unsupported_command_sets_returns_zeroes(void **state)
{
	static const uint8_t zeroes[NVME_IDENTIFY_BYTES];
	static const uint32_t csis[] = { 1 /* key value */, NVME_CSI_ZNS };

	for (size_t i = 0; i < ARRAY_COUNT(csis); i++) {
		assert_int_equal(identify(NVME_CNS_NS_IOCS, 1, csis[i] << 24), NVME_SC_SUCCESS);
		assert_memory_equal(page, zeroes, sizeof(zeroes));
		assert_int_equal(identify(NVME_CNS_CONTROLLER_IOCS, 0, csis[i] << 24), NVME_SC_SUCCESS);
		assert_memory_equal(page, zeroes, sizeof(zeroes));
		assert_int_equal(identify(NVME_CNS_ACTIVE_NS_LIST_IOCS, 0, csis[i] << 24), NVME_SC_SUCCESS);
		assert_memory_equal(page, zeroes, sizeof(zeroes));
	}
	assert_int_equal(identify(NVME_CNS_IOCS, 0, 0), NVME_SC_SUCCESS);
	assert_int_equal(page[0], 1 << NVME_CSI_NVM);
}

static void test_identify_lists(void **state)
{
	const struct nvme_ns_list *list = (const void *)page;
	const struct nvme_controller_list *controllers = (const void *)page;
	struct rig_conn *other = rig_admin(1, NULL);

	rig_malloc("m7", 100, 4096);
	assert_int_equal(rig_add_ns("m7", 7, NULL), 0);
	assert_int_equal(identify(NVME_CNS_ACTIVE_NS_LIST, 0, 0), NVME_SC_SUCCESS);
	assert_int_equal(list->nsid[0], 1);
	assert_int_equal(list->nsid[1], 7);
	assert_int_equal(list->nsid[2], 0);
	assert_int_equal(identify(NVME_CNS_ACTIVE_NS_LIST_IOCS, 1, 0), NVME_SC_SUCCESS);
	assert_int_equal(list->nsid[0], 7);
	assert_int_equal(list->nsid[1], 0);
	assert_int_equal(identify(NVME_CNS_ACTIVE_NS_LIST, 0xfffffffe, 0), NVME_SC_INVALID_NAMESPACE);
	assert_int_equal(identify(NVME_CNS_CONTROLLER_LIST, 0, 0), NVME_SC_SUCCESS);
	assert_int_equal(controllers->count, 2);
	assert_int_equal(controllers->cntlid[0], 1);
	assert_int_equal(controllers->cntlid[1], 2);
	assert_int_equal(identify(NVME_CNS_NS_CONTROLLER_LIST, 7, 0), NVME_SC_SUCCESS);
	assert_int_equal(identify(NVME_CNS_NS_CONTROLLER_LIST, 6, 0), NVME_SC_INVALID_NAMESPACE);
	assert_int_equal(identify(NVME_CNS_PRIMARY_CONTROLLER, 0, 0), NVME_SC_INVALID_FIELD);
	rig_close(other);
	rig_free(other);
}

static void test_identify_descriptors(void **state)
{
	assert_int_equal(identify(NVME_CNS_NS_DESCRIPTORS, 1, 0), NVME_SC_SUCCESS);
	assert_int_equal(page[0], NVME_NIDT_NGUID);
	assert_int_equal(page[1], 16);
	assert_int_equal(page[20], NVME_NIDT_UUID);
	assert_memory_equal(page + 24, "m0", 3);
	assert_int_equal(page[40], NVME_NIDT_CSI);
	assert_int_equal(page[45], 0);
	assert_int_equal(page[46], 0);
	assert_int_equal(identify(NVME_CNS_NS_DESCRIPTORS, 2, 0), NVME_SC_INVALID_NAMESPACE);
}

static void test_identify_with_a_small_buffer_is_refused(void **state)
{
	struct rig_cmd cmd = rig_identify(NVME_CNS_CONTROLLER, 0, page);

	cmd.cmd.sgl.length = 4095;
	assert_int_equal(rig_exec(admin, &cmd), NVME_SC_DATA_SGL_LENGTH_INVALID);
	/* a larger buffer is filled with zeroes */
	cmd = rig_identify(NVME_CNS_CONTROLLER, 0, page);
	cmd.cmd.sgl.length = 8192;
	memset(page, 0xcc, sizeof(page));
	assert_int_equal(rig_exec(admin, &cmd), NVME_SC_SUCCESS);
	assert_int_equal(cmd.received_bytes, 8192);
	assert_int_equal(page[4096], 0);
	assert_int_equal(page[8191], 0);
}

static void test_unknown_admin_opcodes_are_refused(void **state)
{
	static const uint8_t known[] = { NVME_ADMIN_GET_LOG_PAGE, NVME_ADMIN_IDENTIFY,	   NVME_ADMIN_ABORT,
					 NVME_ADMIN_SET_FEATURES, NVME_ADMIN_GET_FEATURES, NVME_ADMIN_ASYNC_EVENT_REQUEST,
					 NVME_ADMIN_KEEP_ALIVE,	  NVME_OPCODE_FABRICS };

	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		struct rig_cmd cmd = rig_plain((uint8_t)opcode, 0);

		if (!memchr(known, (int)opcode, sizeof(known)))
			assert_int_equal(rig_exec(admin, &cmd), NVME_SC_INVALID_OPCODE);
	}
}

/* ---- features ---- */

static void test_features_can_be_set_and_read_and_a_reset_restores_them(void **state)
{
	static const uint8_t plain[] = { NVME_FEATURE_ARBITRATION, NVME_FEATURE_INTERRUPT_COALESCING };
	uint32_t value;

	for (size_t i = 0; i < ARRAY_COUNT(plain); i++) {
		assert_int_equal(set_feature(admin, plain[i], 0x1234, NULL), NVME_SC_SUCCESS);
		assert_int_equal(get_feature(admin, plain[i], NVME_FEATURE_CURRENT, 0, &value), NVME_SC_SUCCESS);
		assert_int_equal(value, 0x1234);
		assert_int_equal(get_feature(admin, plain[i], NVME_FEATURE_DEFAULT, 0, &value), NVME_SC_SUCCESS);
		assert_int_equal(value, 0);
		assert_int_equal(get_feature(admin, plain[i], NVME_FEATURE_CAPABILITIES, 0, &value), NVME_SC_SUCCESS);
		assert_int_equal(value, NVME_FEATURE_CHANGEABLE);
	}
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, 0), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	assert_int_equal(get_feature(admin, plain[0], NVME_FEATURE_CURRENT, 0, &value), NVME_SC_SUCCESS);
	assert_int_equal(value, 0);
}

static void test_invalid_feature_values_are_refused(void **state)
{
	uint32_t value;

	assert_int_equal(set_feature(admin, NVME_FEATURE_POWER_MANAGEMENT, 1, NULL), NVME_SC_INVALID_FIELD);
	assert_int_equal(set_feature(admin, NVME_FEATURE_POWER_MANAGEMENT, 0, NULL), NVME_SC_SUCCESS);
	assert_int_equal(set_feature(admin, NVME_FEATURE_ERROR_RECOVERY, NVME_ERROR_RECOVERY_DULBE, NULL),
			 NVME_SC_INVALID_FIELD);
	assert_int_equal(set_feature(admin, NVME_FEATURE_TEMPERATURE_THRESHOLD, 0x30000 | 300, NULL),
			 NVME_SC_INVALID_FIELD);
	assert_int_equal(set_feature(admin, NVME_FEATURE_TEMPERATURE_THRESHOLD, 1 << 20 | 280, NULL), NVME_SC_SUCCESS);
	assert_int_equal(get_feature(admin, NVME_FEATURE_TEMPERATURE_THRESHOLD, NVME_FEATURE_CURRENT, 1 << 20, &value), 0);
	assert_int_equal(value, 280);
	assert_int_equal(get_feature(admin, NVME_FEATURE_TEMPERATURE_THRESHOLD, NVME_FEATURE_CURRENT, 0, &value), 0);
	assert_int_equal(value, 0xffff);
	assert_int_equal(set_feature(admin, NVME_FEATURE_NUMBER_OF_QUEUES, 0xffff, NULL), NVME_SC_INVALID_FIELD);
	assert_int_equal(set_feature(admin, 0x7d, 0, NULL), NVME_SC_INVALID_FIELD);
	assert_int_equal(get_feature(admin, 0x30, NVME_FEATURE_CURRENT, 0, &value), NVME_SC_INVALID_FIELD);
	assert_int_equal(set_feature(admin, NVME_FEATURE_IOCS_PROFILE, 1, NULL), NVME_SC_INVALID_FIELD);
	assert_int_equal(set_feature(admin, NVME_FEATURE_IOCS_PROFILE, 0, NULL), NVME_SC_SUCCESS);
	assert_int_equal(set_feature(admin, NVME_FEATURE_KEEP_ALIVE_TIMER, 0, NULL), NVME_SC_KEEP_ALIVE_INVALID);
	assert_int_equal(set_feature(admin, NVME_FEATURE_HOST_IDENTIFIER, 1, NULL), NVME_SC_COMMAND_SEQUENCE_ERROR);
	assert_int_equal(get_feature(admin, NVME_FEATURE_HOST_IDENTIFIER, NVME_FEATURE_CURRENT, 0, &value),
			 NVME_SC_HOST_ID_INCONSISTENT);
	assert_int_equal(get_feature(admin, NVME_FEATURE_HOST_IDENTIFIER, NVME_FEATURE_CURRENT, 1, &value),
			 NVME_SC_SGL_TYPE_INVALID);
	struct rig_cmd save = rig_plain(NVME_ADMIN_SET_FEATURES, 0);

	save.cmd.cdw10 = NVME_FEATURE_ARBITRATION | NVME_FEATURE_CDW10_SAVE;
	assert_int_equal(rig_exec(admin, &save), NVME_SC_FEATURE_NOT_SAVEABLE);
}

static void test_number_of_queues_is_fixed_after_the_first_io_queue(void **state)
{
	struct rig_conn *io;
	uint32_t value;

	assert_int_equal(set_feature(admin, NVME_FEATURE_NUMBER_OF_QUEUES, 0x00070007, &value), NVME_SC_SUCCESS);
	assert_int_equal(value, nvme_queues_dword(126, 126));
	io = rig_io(1, cntlid, 1);
	assert_int_equal(set_feature(admin, NVME_FEATURE_NUMBER_OF_QUEUES, 0, NULL), NVME_SC_COMMAND_SEQUENCE_ERROR);
	rig_close(io);
	rig_free(io);
}

static void test_features_with_data(void **state)
{
	struct nvme_host_behavior behavior = { .acre = 1 };
	struct rig_cmd set = rig_h2c(NVME_ADMIN_SET_FEATURES, 0, &behavior, sizeof(behavior));
	struct rig_cmd get = rig_c2h(NVME_ADMIN_GET_FEATURES, 0, page, sizeof(behavior));

	set.cmd.cdw10 = get.cmd.cdw10 = NVME_FEATURE_HOST_BEHAVIOR;
	assert_int_equal(rig_exec(admin, &set), NVME_SC_SUCCESS);
	assert_int_equal(rig_exec(admin, &get), NVME_SC_SUCCESS);
	assert_int_equal(page[0], 1);
	behavior.acre = 2;
	set.cmd.cid = 0;
	assert_int_equal(rig_exec(admin, &set), NVME_SC_INVALID_FIELD);
	get = rig_c2h(NVME_ADMIN_GET_FEATURES, 0, page, 16);
	get.cmd.cdw10 = NVME_FEATURE_HOST_IDENTIFIER;
	get.cmd.cdw11 = NVME_HOST_IDENTIFIER_EXHID;
	assert_int_equal(rig_exec(admin, &get), NVME_SC_SUCCESS);
	for (int i = 0; i < 16; i++)
		assert_int_equal(page[i], 7);
}

/* ---- log pages ---- */

static void test_supported_log_pages_are_readable_and_others_refused(void **state)
{
	uint32_t lids[256];

	assert_int_equal(get_log(admin, NVME_LOG_SUPPORTED_PAGES, 1024, 0, false), NVME_SC_SUCCESS);
	memcpy(lids, page, sizeof(lids));
	for (unsigned int lid = 0; lid < 256; lid++)
		assert_int_equal(get_log(admin, (uint8_t)lid, 512, 0, false),
				 lids[lid] ? NVME_SC_SUCCESS : NVME_SC_INVALID_LOG_PAGE);
	assert_true(lids[NVME_LOG_SMART] & 1);
	assert_int_equal(lids[NVME_LOG_ANA], 0);
}

static void test_smart_counts_io_of_all_groups(void **state)
{
	struct rig_conn *ios[2] = { rig_io(0, cntlid, 1), rig_io(1, cntlid, 2) };
	const struct nvme_log_smart *smart = (const void *)page;
	static uint8_t data[NVMF_IO_BYTES_DEFAULT];
	struct rig_cmd cmd;

	for (int i = 0; i < 10; i++) {
		cmd = rig_h2c(NVME_NVM_WRITE, 1, data, sizeof(data));
		rig_blocks(&cmd, 0, 256);
		assert_int_equal(rig_exec(ios[i % 2], &cmd), NVME_SC_SUCCESS);
	}
	for (int i = 0; i < 3; i++) {
		cmd = rig_c2h(NVME_NVM_READ, 1, data, 512);
		assert_int_equal(rig_exec(ios[i % 2], &cmd), NVME_SC_SUCCESS);
	}
	assert_int_equal(get_log(admin, NVME_LOG_SMART, 512, 0, false), NVME_SC_SUCCESS);
	assert_int_equal(smart->host_write_commands.low, 10);
	assert_int_equal(smart->host_read_commands.low, 3);
	assert_int_equal(smart->data_units_written.low, 3); /* 1310720 bytes of 512000 each, rounded up */
	assert_int_equal(smart->data_units_read.low, 1);
	/* read in parts */
	assert_int_equal(get_log(admin, NVME_LOG_SMART, 16, 64, false), NVME_SC_SUCCESS);
	assert_int_equal(page[0], 3);
	rig_close(ios[0]);
	rig_close(ios[1]);
	/* the counts survive a stop and start of the subsystem */
	rig_free(ios[0]);
	rig_free(ios[1]);
	assert_int_equal(rig_subsystem(nvmf_subsystem_stop, RIG_NQN), 0);
	assert_true(admin->closed);
	rig_free(admin);
	assert_int_equal(rig_subsystem(nvmf_subsystem_start, RIG_NQN), 0);
	admin = rig_admin(1, &cntlid);
	assert_int_equal(get_log(admin, NVME_LOG_SMART, 512, 0, false), NVME_SC_SUCCESS);
	assert_int_equal(smart->host_write_commands.low, 10);
}

static void test_errors_are_logged_newest_first(void **state)
{
	const struct nvme_log_error *errors = (const void *)page;
	struct rig_conn *io = rig_io(1, cntlid, 1);
	struct rig_cmd bad = rig_plain(0xee, 0), read = rig_c2h(NVME_NVM_READ, 1, page, 512);

	assert_int_equal(rig_exec(admin, &bad), NVME_SC_INVALID_OPCODE);
	rig_blocks(&read, RIG_BLOCKS, 1);
	assert_int_equal(rig_exec(io, &read), NVME_SC_LBA_OUT_OF_RANGE);
	assert_int_equal(get_log(admin, NVME_LOG_ERROR, 256, 0, false), NVME_SC_SUCCESS);
	assert_int_equal(errors[0].error_count, 2);
	assert_int_equal(errors[0].sqid, 1);
	assert_int_equal(errors[0].cid, read.cmd.cid);
	assert_int_equal(errors[0].lba, RIG_BLOCKS);
	assert_int_equal(nvme_status_from_field(errors[0].status), NVME_SC_LBA_OUT_OF_RANGE);
	assert_int_equal(errors[1].error_count, 1);
	assert_int_equal(errors[1].sqid, 0);
	assert_int_equal(errors[2].error_count, 0);
	for (int i = 0; i < 70; i++) {
		bad.cmd.cid = 0;
		(void)rig_exec(admin, &bad);
	}
	assert_int_equal(get_log(admin, NVME_LOG_ERROR, 64, 63 * 64, false), NVME_SC_SUCCESS);
	assert_int_equal(errors[0].error_count, 72 - 63);
	rig_close(io);
	rig_free(io);
}

static void test_log_pages_are_read_in_parts_within_bounds(void **state)
{
	assert_int_equal(get_log(admin, NVME_LOG_FIRMWARE_SLOT, 8, 8, false), NVME_SC_SUCCESS);
	assert_memory_equal(page, "0.1     ", 8);
	assert_int_equal(get_log(admin, NVME_LOG_FIRMWARE_SLOT, 64, 508, false), NVME_SC_SUCCESS);
	for (int i = 0; i < 64; i++)
		assert_int_equal(page[i], 0);
	assert_int_equal(get_log(admin, NVME_LOG_FIRMWARE_SLOT, 4, 516, false), NVME_SC_INVALID_FIELD);
	assert_int_equal(get_log(admin, NVME_LOG_FIRMWARE_SLOT, 4, 2, false), NVME_SC_INVALID_FIELD);
	assert_int_equal(get_log(admin, NVME_LOG_COMMAND_EFFECTS, 4096, 0, false), NVME_SC_SUCCESS);
	assert_int_equal(page[1024 + NVME_NVM_READ * 4], NVME_EFFECT_SUPPORTED);
	assert_int_equal(page[1024 + NVME_NVM_WRITE * 4], NVME_EFFECT_SUPPORTED | NVME_EFFECT_CONTENT);
}

/* ---- events ---- */

static void submit_event_request(struct rig_conn *conn, struct rig_cmd *cmd)
{
	*cmd = rig_plain(NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
	rig_submit(conn, cmd);
}

static void test_adding_or_removing_a_namespace_is_an_event(void **state)
{
	struct rig_cmd event, again, third;

	rig_malloc("m2", 100, 512);
	assert_int_equal(set_feature(admin, NVME_FEATURE_ASYNC_EVENT_CONFIG, NVME_AEC_NS_ATTRIBUTE, NULL), NVME_SC_SUCCESS);
	submit_event_request(admin, &event);
	submit_event_request(admin, &again);
	assert_false(event.done);
	assert_int_equal(rig_add_ns("m2", 5, NULL), 0);
	assert_true(event.done);
	assert_int_equal(event.cpl.cdw0,
			 nvme_event_dword(NVME_EVENT_NOTICE, NVME_NOTICE_NS_ATTRIBUTE, NVME_LOG_CHANGED_NS_LIST));
	/* masked until the log page has been read without "retain" */
	assert_int_equal(rig_remove_ns(5), 0);
	assert_false(again.done);
	assert_int_equal(get_log(admin, NVME_LOG_CHANGED_NS_LIST, 4096, 0, true), NVME_SC_SUCCESS);
	assert_int_equal(page[0], 5);
	assert_int_equal(rig_add_ns("m2", 3, NULL), 0);
	assert_false(again.done);
	assert_int_equal(get_log(admin, NVME_LOG_CHANGED_NS_LIST, 4096, 0, false), NVME_SC_SUCCESS);
	assert_int_equal(((const struct nvme_ns_list *)page)->nsid[0], 3);
	assert_int_equal(((const struct nvme_ns_list *)page)->nsid[1], 5);
	assert_int_equal(((const struct nvme_ns_list *)page)->nsid[2], 0);
	assert_false(again.done);
	assert_int_equal(rig_remove_ns(3), 0);
	assert_true(again.done);
	assert_int_equal(get_log(admin, NVME_LOG_CHANGED_NS_LIST, 4096, 0, false), NVME_SC_SUCCESS);
	assert_int_equal(((const struct nvme_ns_list *)page)->nsid[0], 3);
	/* pending if no event request waits */
	assert_int_equal(rig_add_ns("m2", 3, NULL), 0);
	submit_event_request(admin, &third);
	assert_true(third.done);
}

static void test_a_disabled_event_is_not_reported(void **state)
{
	struct rig_cmd event;

	submit_event_request(admin, &event);
	assert_int_equal(rig_remove_ns(1), 0);
	assert_false(event.done);
	rig_close(admin);
	assert_int_equal(event.status, NVME_SC_ABORTED_SQ_DELETION);
}

static void test_event_requests_have_a_limit(void **state)
{
	struct rig_cmd events[5];

	for (int i = 0; i < 5; i++)
		submit_event_request(admin, &events[i]);
	for (int i = 0; i < 4; i++)
		assert_false(events[i].done);
	assert_true(events[4].done);
	assert_int_equal(events[4].status, NVME_SC_ASYNC_EVENT_LIMIT_EXCEEDED);
	rig_close(admin);
	for (int i = 0; i < 4; i++) {
		assert_true(events[i].done);
		assert_int_equal(events[i].status, NVME_SC_ABORTED_SQ_DELETION);
	}
}

/* ---- Abort ---- */

static uint32_t abort_command(uint16_t sqid, uint16_t cid)
{
	struct rig_cmd cmd = rig_plain(NVME_ADMIN_ABORT, 0);

	cmd.cmd.cdw10 = (uint32_t)cid << 16 | sqid;
	assert_int_equal(rig_exec(admin, &cmd), NVME_SC_SUCCESS);
	return cmd.cpl.cdw0;
}

static void test_abort_ends_waiting_commands_but_no_running_ones(void **state)
{
	struct rig_conn *io = rig_io(1, cntlid, 1);
	struct rig_cmd event, at_disk, in_transfer, waiting;

	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	submit_event_request(admin, &event);
	assert_int_equal(abort_command(0, event.cmd.cid), 0);
	assert_true(event.done);
	assert_int_equal(event.status, NVME_SC_ABORTED_BY_REQUEST);
	assert_int_equal(abort_command(0, event.cmd.cid), 1);
	assert_int_equal(abort_command(9, 1), 1);
	at_disk = rig_c2h(NVME_NVM_READ, 2, page, 512);
	rig_submit(io, &at_disk);
	assert_int_equal(abort_command(1, at_disk.cmd.cid), 1);
	assert_false(at_disk.done);
	rig_disk_release(0);
	assert_int_equal(at_disk.status, NVME_SC_SUCCESS);
	in_transfer = rig_h2c(NVME_NVM_WRITE, 1, page, 8192);
	rig_blocks(&in_transfer, 0, 16);
	in_transfer.hold_transfer = true;
	rig_submit(io, &in_transfer);
	/* its data was requested and will arrive */
	assert_int_equal(abort_command(1, in_transfer.cmd.cid), 1);
	assert_false(in_transfer.done);
	rig_transfer(&in_transfer);
	assert_int_equal(in_transfer.status, NVME_SC_SUCCESS);
	assert_int_equal(rig_subsystem(nvmf_subsystem_pause, RIG_NQN), 0);
	waiting = rig_c2h(NVME_NVM_READ, 1, page, 512);
	rig_submit(io, &waiting);
	assert_int_equal(abort_command(1, waiting.cmd.cid), 0);
	assert_int_equal(waiting.status, NVME_SC_ABORTED_BY_REQUEST);
	assert_int_equal(rig_subsystem(nvmf_subsystem_resume, RIG_NQN), 0);
	rig_close(io);
	rig_free(io);
}

/* ---- the discovery controller ---- */

static struct rig_conn *discovery(uint32_t kato)
{
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *conn = rig_open(1);

	connect.subnqn = NVME_DISCOVERY_NQN;
	connect.kato = kato;
	assert_int_equal(rig_connect(conn, &connect, NULL), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(conn, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	return conn;
}

static void test_discovery_lists_subsystems_that_the_host_may_use(void **state)
{
	const struct nvme_discovery_log *log = (const void *)page;
	const struct nvme_discovery_entry *entry = (const void *)(page + 1024);
	struct rig_conn *conn = discovery(0);
	uint64_t generation;

	assert_int_equal(get_log(conn, NVME_LOG_DISCOVERY, 1024, 0, false), NVME_SC_SUCCESS);
	assert_int_equal(log->numrec, 2);
	generation = log->genctr;
	assert_int_equal(get_log(conn, NVME_LOG_DISCOVERY, 3072, 0, false), NVME_SC_SUCCESS);
	assert_int_equal(entry[0].subtype, NVME_SUBTYPE_DISCOVERY_CURRENT);
	assert_int_equal(entry[1].subtype, NVME_SUBTYPE_NVM);
	assert_string_equal(entry[1].subnqn, RIG_NQN);
	assert_memory_equal(entry[1].traddr, "127.0.0.1 ", 10);
	assert_memory_equal(entry[1].trsvcid, "4420 ", 5);
	assert_int_equal(entry[1].trtype, NVME_TRTYPE_TCP);
	assert_int_equal(entry[1].adrfam, NVME_ADRFAM_IPV4);
	/* one entry, and half of an entry */
	assert_int_equal(get_log(conn, NVME_LOG_DISCOVERY, 1024, 2048, false), NVME_SC_SUCCESS);
	assert_string_equal(((const struct nvme_discovery_entry *)page)->subnqn, RIG_NQN);
	assert_int_equal(get_log(conn, NVME_LOG_DISCOVERY, 256, 2048 + 256, false), NVME_SC_SUCCESS);
	assert_string_equal((const char *)page, RIG_NQN);
	assert_int_equal(get_log(conn, NVME_LOG_DISCOVERY, 4, 3076, false), NVME_SC_INVALID_FIELD);
	assert_int_equal(rig_allow_any(RIG_NQN, false), 0);
	assert_int_equal(get_log(conn, NVME_LOG_DISCOVERY, 1024, 0, false), NVME_SC_SUCCESS);
	assert_int_equal(log->numrec, 1);
	assert_true(log->genctr > generation);
	assert_int_equal(rig_allow_any(RIG_NQN, true), 0);
	rig_close(conn);
	rig_free(conn);
}

static void test_discovery_reports_changes_by_events(void **state)
{
	struct rig_conn *conn = discovery(30000);
	struct rig_cmd event, again;

	assert_int_equal(set_feature(conn, NVME_FEATURE_ASYNC_EVENT_CONFIG, NVME_AEC_DISCOVERY_LOG, NULL), NVME_SC_SUCCESS);
	submit_event_request(conn, &event);
	submit_event_request(conn, &again);
	assert_int_equal(rig_address_op(true, RIG_NQN, "127.0.0.1", "4421"), 0);
	assert_true(event.done);
	assert_int_equal(event.cpl.cdw0,
			 nvme_event_dword(NVME_EVENT_NOTICE, NVME_NOTICE_DISCOVERY_LOG, NVME_LOG_DISCOVERY));
	assert_int_equal(rig_address_op(true, RIG_NQN, "127.0.0.1", "4422"), 0);
	assert_false(again.done);
	assert_int_equal(get_log(conn, NVME_LOG_DISCOVERY, 1024, 0, false), NVME_SC_SUCCESS);
	assert_int_equal(rig_address_op(false, RIG_NQN, "127.0.0.1", "4422"), 0);
	assert_true(again.done);
	rig_close(conn);
	rig_free(conn);
}

static void test_discovery_refuses_other_admin_commands(void **state)
{
	const struct nvme_identify_controller *id = (const void *)page;
	struct rig_conn *conn = discovery(0);
	struct rig_cmd cmd = rig_identify(NVME_CNS_CONTROLLER, 0, page);

	assert_int_equal(rig_exec(conn, &cmd), NVME_SC_SUCCESS);
	assert_int_equal(id->cntrltype, NVME_CNTRLTYPE_DISCOVERY);
	assert_string_equal(id->subnqn, NVME_DISCOVERY_NQN);
	cmd = rig_identify(NVME_CNS_NS, 1, page);
	assert_int_equal(rig_exec(conn, &cmd), NVME_SC_INVALID_FIELD);
	cmd = rig_plain(NVME_ADMIN_ABORT, 0);
	assert_int_equal(rig_exec(conn, &cmd), NVME_SC_INVALID_OPCODE);
	assert_int_equal(get_log(conn, NVME_LOG_SMART, 512, 0, false), NVME_SC_INVALID_LOG_PAGE);
	assert_int_equal(set_feature(conn, NVME_FEATURE_NUMBER_OF_QUEUES, 0, NULL), NVME_SC_INVALID_FIELD);
	rig_close(conn);
	rig_free(conn);
}

static void test_a_discovery_host_without_keep_alives_is_disconnected(void **state)
{
	struct rig_conn *conn = discovery(0);

	rig_advance(110 * NS_PER_SEC);
	assert_int_equal(get_log(conn, NVME_LOG_DISCOVERY, 1024, 0, false), NVME_SC_SUCCESS);
	rig_advance(110 * NS_PER_SEC);
	assert_false(conn->closed);
	rig_advance(11 * NS_PER_SEC);
	assert_true(conn->closed);
	rig_free(conn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_identify_controller),
		T(test_identify_namespace),
		T(test_identify_of_unsupported_command_sets_returns_zeroes),
		T(test_identify_lists),
		T(test_identify_descriptors),
		T(test_identify_with_a_small_buffer_is_refused),
		T(test_unknown_admin_opcodes_are_refused),
		T(test_features_can_be_set_and_read_and_a_reset_restores_them),
		T(test_invalid_feature_values_are_refused),
		T(test_number_of_queues_is_fixed_after_the_first_io_queue),
		T(test_features_with_data),
		T(test_supported_log_pages_are_readable_and_others_refused),
		T(test_smart_counts_io_of_all_groups),
		T(test_errors_are_logged_newest_first),
		T(test_log_pages_are_read_in_parts_within_bounds),
		T(test_adding_or_removing_a_namespace_is_an_event),
		T(test_a_disabled_event_is_not_reported),
		T(test_event_requests_have_a_limit),
		T(test_abort_ends_waiting_commands_but_no_running_ones),
		T(test_discovery_lists_subsystems_that_the_host_may_use),
		T(test_discovery_reports_changes_by_events),
		T(test_discovery_refuses_other_admin_commands),
		T(test_a_discovery_host_without_keep_alives_is_disconnected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
