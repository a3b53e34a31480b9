/* SPDX-License-Identifier: BSD-2-Clause */
/* What the trace says of commands, where that is more than the moves of their states. */
#include "rig.h"

#include <string.h>

#include "observe/trace/points.gen.h"

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

static void test_deallocation_beyond_the_limits_is_told(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_deallocation_beyond_the_limits_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
