/* SPDX-License-Identifier: BSD-2-Clause */
/* Trace records of commands other than state changes. */
#include "rig.h"

#include <string.h>

#include "base/observe/trace/points.gen.h"

static struct rig_conn *admin, *io;
static uint16_t cntlid;

static int setup(void **state)
{
	rig_trace_open();
	rig_setup(state);
	admin = rig_admin(0, &cntlid);
	io = rig_io(1, cntlid, 1);
	return 0;
}

static int teardown(void **state)
{
	rig_close(admin);
	rig_free(admin);
	rig_free(io);
	rig_teardown(state);
	rig_trace_close();
	return 0;
}

static void test_deallocation_beyond_the_limits_is_recorded(void **state)
{
	struct nvme_dsm_range range = { .slba = 8, .nlb = 2097152 };
	struct rig_cmd dsm = rig_h2c(NVME_NVM_DATASET_MANAGEMENT, 2, &range, sizeof(range));
	uint32_t slots[6]; /* cid, nsid, asked, processed */

	rig_null("n0", 1 << 22, 512);
	assert_int_equal(rig_add_ns("n0", 2, NULL), 0);
	dsm.cmd.cdw11 = NVME_DSM_CDW11_AD;
	assert_int_equal(rig_exec(io, &dsm), NVME_SC_SUCCESS);
	assert_false(rig_trace_last(TRACE_POINT_NVMF_DSM_BEYOND_LIMITS, slots, ARRAY_COUNT(slots)));
	range.nlb++;
	dsm.cmd.cid = 0;
	assert_int_equal(rig_exec(io, &dsm), NVME_SC_SUCCESS);
	assert_true(rig_trace_last(TRACE_POINT_NVMF_DSM_BEYOND_LIMITS, slots, ARRAY_COUNT(slots)));
	assert_int_equal(slots[0], dsm.cmd.cid);
	assert_int_equal(slots[1], 2);
	assert_int_equal(slots[2], 2097153);
	assert_int_equal(slots[3], 0);
	assert_int_equal(slots[4], 2097152);
	assert_int_equal(slots[5], 0);
}

static void assert_failure_recorded(struct rig_conn *conn, struct rig_cmd *cmd, uint16_t status, uint8_t detail)
{
	uint32_t slots[4]; /* cid, opcode, detail, status */

	cmd->cmd.cid = 0;
	assert_int_equal(rig_exec(conn, cmd), status);
	assert_true(rig_trace_last(TRACE_POINT_NVMF_COMMAND_FAILED, slots, ARRAY_COUNT(slots)));
	assert_int_equal(slots[0], cmd->cmd.cid);
	assert_int_equal(slots[1], cmd->cmd.opc);
	assert_int_equal(slots[2], detail);
	assert_int_equal(slots[3], status);
}

static void test_a_failed_command_is_recorded_with_its_detail(void **state)
{
	static uint8_t page[NVME_IDENTIFY_BYTES];
	struct rig_cmd cmd = rig_identify(0x55, 0, page);

	assert_failure_recorded(admin, &cmd, NVME_SC_INVALID_FIELD, 0x55);
	cmd = rig_log(0x77, page, 512, 0);
	assert_failure_recorded(admin, &cmd, NVME_SC_INVALID_LOG_PAGE, 0x77);
	cmd = rig_plain(NVME_ADMIN_GET_FEATURES, 0);
	cmd.cmd.cdw10 = NVME_FEATURE_DEFAULT << NVME_FEATURE_CDW10_SEL_SHIFT | 0x98;
	assert_failure_recorded(admin, &cmd, NVME_SC_INVALID_FIELD, 0x98);
	cmd = rig_plain(NVME_ADMIN_SET_FEATURES, 0);
	cmd.cmd.cdw10 = 0x99;
	assert_failure_recorded(admin, &cmd, NVME_SC_INVALID_FIELD, 0x99);
	cmd = rig_plain(NVME_OPCODE_FABRICS, 0);
	((struct nvme_fabrics_command *)&cmd.cmd)->fctype = 0x33;
	assert_failure_recorded(admin, &cmd, NVME_SC_INVALID_OPCODE, 0x33);
	assert_failure_recorded(io, &cmd, NVME_SC_INVALID_OPCODE, 0x33);
	/* these opcodes have no sub-kinds: cdw10 is not a detail */
	cmd = rig_plain(0xee, 0);
	cmd.cmd.cdw10 = 0x44;
	assert_failure_recorded(admin, &cmd, NVME_SC_INVALID_OPCODE, 0);
	cmd = rig_c2h(NVME_NVM_READ, 1, page, 512);
	rig_blocks(&cmd, RIG_BLOCKS + 1, 1);
	assert_failure_recorded(io, &cmd, NVME_SC_LBA_OUT_OF_RANGE, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_deallocation_beyond_the_limits_is_recorded),
		T(test_a_failed_command_is_recorded_with_its_detail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
