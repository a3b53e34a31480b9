/* SPDX-License-Identifier: BSD-2-Clause */
/* Subsystems: states over all groups, changes under I/O, refused changes; life of controllers. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#include "data/store/bdev/bdev.h"
#include "data/target/internal.h"

static struct rig_conn *admin, *ios[RIG_GROUPS];
static uint16_t cntlid;
static uint8_t data[16384], back[16384];

static int setup(void **state)
{
	rig_setup(state);
	admin = rig_admin(0, &cntlid);
	for (int i = 0; i < RIG_GROUPS; i++)
		ios[i] = rig_io(i, cntlid, (uint16_t)(i + 1));
	return 0;
}

static int teardown(void **state)
{
	if (!admin->closed)
		rig_close(admin);
	rig_free(admin);
	for (int i = 0; i < RIG_GROUPS; i++)
		rig_free(ios[i]);
	return rig_teardown(state);
}

static enum nvmf_subsystem_state subsystem_state(void)
{
	return nvmf_subsystem_get_state(nvmf_subsystem_find(RIG_NQN));
}

static struct rig_cmd a_read(uint32_t nsid)
{
	return rig_c2h(NVME_NVM_READ, nsid, back, 512);
}

/* ---- pause and resume ---- */

static void test_a_pause_waits_for_io_and_delays_new_io(void **state)
{
	struct rig_cmd before[RIG_GROUPS], after[RIG_GROUPS];
	struct rig_op pause;

	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	for (int i = 0; i < RIG_GROUPS; i++) {
		before[i] = a_read(2);
		rig_submit(ios[i], &before[i]);
	}
	rig_begin(nvmf_subsystem_pause, RIG_NQN, &pause);
	assert_false(pause.done);
	assert_int_equal(subsystem_state(), NVMF_SUBSYSTEM_PAUSING);
	after[0] = a_read(1);
	rig_submit(ios[0], &after[0]);
	assert_false(after[0].done);
	rig_disk_release(IO_SUCCESS);
	assert_true(before[0].done && before[1].done && pause.done);
	assert_int_equal(subsystem_state(), NVMF_SUBSYSTEM_PAUSED);
	after[1] = a_read(1);
	rig_submit(ios[1], &after[1]);
	assert_false(after[0].done || after[1].done);
	/* the controller still answers commands that do not need the subsystem */
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), NVME_CSTS_RDY);
	assert_int_equal(rig_subsystem(nvmf_subsystem_resume, RIG_NQN), 0);
	assert_true(after[0].done && after[1].done);
	assert_int_equal(after[0].status, NVME_SC_SUCCESS);
	assert_int_equal(subsystem_state(), NVMF_SUBSYSTEM_ACTIVE);
	assert_int_equal(rig_subsystem(nvmf_subsystem_resume, RIG_NQN), -EINVAL);
}

/* The rig overwrites the buffer of a write that should complete inside submit. */
static void test_a_write_delayed_by_a_pause_keeps_its_data(void **state)
{
	struct rig_cmd write = rig_h2c(NVME_NVM_WRITE, 1, data, 4096), read = rig_c2h(NVME_NVM_READ, 1, back, 4096);

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 3 + 1);
	rig_blocks(&write, 40, 8);
	rig_blocks(&read, 40, 8);
	assert_int_equal(rig_subsystem(nvmf_subsystem_pause, RIG_NQN), 0);
	rig_submit(ios[0], &write);
	assert_true(write.inline_done);
	assert_false(write.done);
	assert_int_equal(rig_subsystem(nvmf_subsystem_resume, RIG_NQN), 0);
	assert_int_equal(write.status, NVME_SC_SUCCESS);
	assert_int_equal(rig_exec(ios[1], &read), NVME_SC_SUCCESS);
	assert_memory_equal(back, data, 4096);
}

static void test_changes_are_made_during_an_explicit_pause(void **state)
{
	struct rig_cmd read;

	rig_malloc("m2", 100, 512);
	assert_int_equal(rig_subsystem(nvmf_subsystem_pause, RIG_NQN), 0);
	assert_int_equal(rig_add_ns("m2", 2, NULL), 0);
	assert_int_equal(rig_remove_ns(1), 0);
	assert_int_equal(subsystem_state(), NVMF_SUBSYSTEM_PAUSED);
	rig_delete_bdev("m0");
	assert_int_equal(rig_subsystem(nvmf_subsystem_resume, RIG_NQN), 0);
	read = a_read(2);
	assert_int_equal(rig_exec(ios[1], &read), NVME_SC_SUCCESS);
	read = a_read(1);
	assert_int_equal(rig_exec(ios[1], &read), NVME_SC_INVALID_NAMESPACE);
}

/* ---- namespaces ---- */

static void test_namespaces_are_added_and_removed_under_io(void **state)
{
	uint32_t nsid = 0;

	rig_malloc("m2", 100, 4096);
	for (int i = 0; i < 20; i++) {
		struct rig_cmd on_one[RIG_GROUPS], on_two = rig_c2h(NVME_NVM_READ, 2, back, 4096);

		for (int j = 0; j < RIG_GROUPS; j++) {
			on_one[j] = a_read(1);
			rig_begin_submit(ios[j], &on_one[j]);
		}
		assert_int_equal(rig_add_ns("m2", 0, &nsid), 0);
		assert_int_equal(nsid, 2);
		assert_int_equal(rig_exec(ios[i % 2], &on_two), NVME_SC_SUCCESS);
		assert_int_equal(rig_remove_ns(2), 0);
		on_two.cmd.cid = 0;
		assert_int_equal(rig_exec(ios[i % 2], &on_two), NVME_SC_INVALID_NAMESPACE);
		for (int j = 0; j < RIG_GROUPS; j++)
			assert_true(on_one[j].done && on_one[j].status == NVME_SC_SUCCESS);
	}
}

static void test_bad_namespaces_are_refused(void **state)
{
	rig_malloc("m2", 100, 512);
	assert_int_equal(rig_add_ns("none", 0, NULL), -ENODEV);
	assert_int_equal(rig_add_ns("m0", 0, NULL), -EPERM);
	assert_int_equal(rig_add_ns("m2", 1, NULL), -EEXIST);
	assert_int_equal(rig_add_ns("m2", 33, NULL), -EINVAL);
	assert_int_equal(rig_add_ns("m2", NVME_NSID_ALL, NULL), -EINVAL);
	assert_int_equal(rig_remove_ns(2), -ENOENT);
	assert_int_equal(subsystem_state(), NVMF_SUBSYSTEM_ACTIVE);
	/* the refused call left nothing */
	assert_int_equal(rig_add_ns("m2", 32, NULL), 0);
}

static void test_a_command_waiting_for_a_removed_namespace_ends(void **state)
{
	struct rig_cmd read = a_read(1);

	assert_int_equal(rig_subsystem(nvmf_subsystem_pause, RIG_NQN), 0);
	rig_submit(ios[0], &read);
	assert_false(read.done);
	rig_delete_bdev("m0");
	assert_int_equal(subsystem_state(), NVMF_SUBSYSTEM_PAUSED);
	assert_false(read.done);
	assert_int_equal(rig_subsystem(nvmf_subsystem_resume, RIG_NQN), 0);
	assert_true(read.done);
	assert_int_equal(read.status, NVME_SC_INVALID_NAMESPACE);
}

static void test_removing_a_device_removes_its_namespace(void **state)
{
	struct nvmf_ns_info info;
	struct rig_cmd event = rig_plain(NVME_ADMIN_ASYNC_EVENT_REQUEST, 0),
		       features = rig_plain(NVME_ADMIN_SET_FEATURES, 0);

	features.cmd.cdw10 = NVME_FEATURE_ASYNC_EVENT_CONFIG;
	features.cmd.cdw11 = NVME_AEC_NS_ATTRIBUTE;
	assert_int_equal(rig_exec(admin, &features), NVME_SC_SUCCESS);
	rig_submit(admin, &event);
	assert_true(nvmf_subsystem_next_ns(nvmf_subsystem_find(RIG_NQN), 0, &info));
	assert_string_equal(info.bdev_name, "m0");
	assert_int_equal(info.block_count, RIG_BLOCKS);
	rig_delete_bdev("m0");
	assert_false(nvmf_subsystem_next_ns(nvmf_subsystem_find(RIG_NQN), 0, &info));
	assert_true(event.done);
	/* the name is free again */
	rig_malloc("m0", 10, 512);
	assert_int_equal(rig_add_ns("m0", 1, NULL), 0);
}

static void test_a_change_that_fails_on_one_group_is_undone(void **state)
{
	struct nvmf_ns_info info;

	for (int group = 0; group < RIG_GROUPS; group++) {
		struct rig_cmd read = a_read(1);

		rig_disk("d0", false, false);
		rig_disk_refuse_channel(group);
		assert_int_equal(rig_add_ns("d0", 2, NULL), -ENOMEM);
		assert_int_equal(subsystem_state(), NVMF_SUBSYSTEM_ACTIVE);
		assert_false(nvmf_subsystem_next_ns(nvmf_subsystem_find(RIG_NQN), 1, &info));
		assert_int_equal(rig_exec(ios[0], &read), NVME_SC_SUCCESS);
		assert_int_equal(rig_subsystem(nvmf_subsystem_pause, RIG_NQN), 0);
		assert_int_equal(rig_add_ns("d0", 2, NULL), -ENOMEM);
		assert_int_equal(subsystem_state(), NVMF_SUBSYSTEM_PAUSED);
		assert_int_equal(rig_subsystem(nvmf_subsystem_resume, RIG_NQN), 0);
		rig_disk_refuse_channel(-1);
		assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
		assert_int_equal(rig_subsystem(nvmf_subsystem_pause, RIG_NQN), 0);
		assert_int_equal(rig_remove_ns(2), 0);
		assert_int_equal(rig_subsystem(nvmf_subsystem_resume, RIG_NQN), 0);
		rig_delete_bdev("d0");
	}
}

static void test_a_failed_start_leaves_the_subsystem_inactive(void **state)
{
	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	assert_int_equal(rig_subsystem(nvmf_subsystem_stop, RIG_NQN), 0);
	assert_true(admin->closed && ios[0]->closed && ios[1]->closed);
	for (int group = 0; group < RIG_GROUPS; group++) {
		rig_disk_refuse_channel(group);
		assert_int_equal(rig_subsystem(nvmf_subsystem_start, RIG_NQN), -ENOMEM);
		assert_int_equal(subsystem_state(), NVMF_SUBSYSTEM_INACTIVE);
	}
	rig_disk_refuse_channel(-1);
	assert_int_equal(rig_subsystem(nvmf_subsystem_start, RIG_NQN), 0);
}

/* ---- subsystems ---- */

static void test_bad_subsystems_are_refused(void **state)
{
	static const char *const bad[] = {
		"", "x", "nqn.2026-13.io.fathom:x", "nqn.20a6-01.io.fathom:x", "nqn.2026-01.", "nqn.2026-01.io.fathom:a b"
	};
	struct nvmf_subsystem_options options;

	nvmf_subsystem_options_init(&options);
	for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
		(void)text_copy(options.nqn, sizeof(options.nqn), bad[i]); /* fits */
		assert_int_equal(rig_create(&options), -EINVAL);
	}
	(void)text_copy(options.nqn, sizeof(options.nqn), RIG_NQN); /* fits */
	assert_int_equal(rig_create(&options), -EEXIST);
	(void)text_copy(options.nqn, sizeof(options.nqn), RIG_NQN_TWO); /* fits */
	options.max_namespaces = NVMF_NAMESPACES_MAX + 1;
	assert_int_equal(rig_create(&options), -EINVAL);
	options.max_namespaces = 0;
	options.min_cntlid = 5;
	options.max_cntlid = 4;
	assert_int_equal(rig_create(&options), -EINVAL);
	options.max_cntlid = 5;
	(void)text_copy(options.serial_number, sizeof(options.serial_number), "tab\there"); /* fits */
	assert_int_equal(rig_create(&options), -EINVAL);
	assert_int_equal(rig_subsystem(nvmf_subsystem_destroy, "nqn.2026-01.io.fathom:none"), -ENOENT);
	assert_int_equal(rig_subsystem(nvmf_subsystem_destroy, NVME_DISCOVERY_NQN), -EPERM);
}

static void test_listeners_are_counted_and_checked(void **state)
{
	struct nvmf_subsystem_options options;

	assert_int_equal(rig_address_op(true, RIG_NQN, "127.0.0.1", "4420"), -EEXIST);
	assert_int_equal(rig_address_op(true, RIG_NQN, "127.0.0.1", "9999"), -EADDRINUSE);
	assert_int_equal(rig_address_op(true, RIG_NQN, "nonsense", "4420"), -EINVAL);
	assert_int_equal(rig_address_op(true, RIG_NQN, "127.0.0.1", "port"), -EINVAL);
	assert_int_equal(rig_address_op(false, RIG_NQN, "127.0.0.1", "4421"), -ENOENT);
	assert_null(nvmf_subsystem_listener_at(nvmf_subsystem_find(RIG_NQN), 1));
	nvmf_subsystem_options_init(&options);
	(void)text_copy(options.nqn, sizeof(options.nqn), RIG_NQN_TWO); /* fits */
	assert_int_equal(rig_create(&options), 0);
	assert_int_equal(rig_address_op(true, options.nqn, "127.0.0.1", "4420"), 0);
	assert_int_equal(rig_address_op(true, options.nqn, "::1", "4420"), 0);
	assert_string_equal(nvmf_subsystem_listener_at(nvmf_subsystem_find(options.nqn), 1)->adrfam, "IPv6");
	assert_string_equal(nvmf_subsystem_listener_at(nvmf_subsystem_find(options.nqn), 1)->trtype, "TCP");
	assert_int_equal(rig_subsystem(nvmf_subsystem_destroy, options.nqn), 0);
	assert_null(nvmf_subsystem_find(options.nqn));
}

static void test_destruction_waits_for_io_at_a_disk(void **state)
{
	struct rig_cmd read = a_read(2);
	struct rig_op destroy;

	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	rig_submit(ios[1], &read);
	rig_begin(nvmf_subsystem_destroy, RIG_NQN, &destroy);
	assert_false(destroy.done || ios[1]->closed);
	assert_true(ios[0]->closed);
	/* no further change is accepted */
	assert_int_equal(rig_remove_ns(1), -ENOENT);
	rig_disk_release(IO_SUCCESS);
	assert_true(destroy.done && read.done && ios[1]->closed && admin->closed);
	assert_int_equal(destroy.rc, 0);
}

/* ---- controllers ---- */

static void test_properties_describe_the_controller(void **state)
{
	uint64_t cap = rig_property_get(admin, NVME_PROPERTY_CAP, true);

	assert_int_equal(nvme_cap_mqes(cap), 127);
	assert_true(cap & NVME_CAP_CQR);
	assert_true(cap & NVME_CAP_CSS_NVM);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CAP, false), (uint32_t)cap);
	assert_int_equal(rig_property_get(admin, 4, false), cap >> 32);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_VS, false), NVME_VERSION_2_0);
	/* NVMe 2.0: ready with media within CAP.TO */
	assert_true(cap & NVME_CAP_CRWMS);
	assert_false(cap & NVME_CAP_CRIMS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CRTO, false), nvme_cap_to(cap));
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CC, false), RIG_CC_ENABLED);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_NSSR, false), UINT64_MAX);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_VS, true), UINT64_MAX);
	assert_int_equal(rig_property_get(admin, 0x28, false), UINT64_MAX);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CSTS, 0), NVME_SC_INVALID_FIELD);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED | 2), NVME_SC_INVALID_FIELD);
	assert_int_equal(rig_property_get(ios[0], NVME_PROPERTY_VS, false), UINT64_MAX);
}

static void test_a_reset_waits_for_io_at_a_disk(void **state)
{
	struct rig_cmd read = a_read(2), event = rig_plain(NVME_ADMIN_ASYNC_EVENT_REQUEST, 0), identify;

	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	rig_submit(ios[1], &read);
	rig_submit(admin, &event);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED & ~(uint32_t)NVME_CC_EN),
			 NVME_SC_SUCCESS);
	assert_true(event.done);
	assert_true(ios[0]->closed);
	assert_false(ios[1]->closed);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), NVME_CSTS_RDY);
	rig_disk_release(IO_SUCCESS);
	assert_true(ios[1]->closed);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), 0);
	identify = rig_identify(NVME_CNS_CONTROLLER, 0, back);
	assert_int_equal(rig_exec(admin, &identify), NVME_SC_COMMAND_SEQUENCE_ERROR);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	for (int i = 0; i < RIG_GROUPS; i++) {
		rig_free(ios[i]);
		ios[i] = rig_io(i, cntlid, (uint16_t)(i + 1));
	}
}

static void test_a_shutdown_ends_io_queues_and_reports_completion(void **state)
{
	uint32_t cc = RIG_CC_ENABLED | NVME_CC_SHN_NORMAL << NVME_CC_SHN_SHIFT;
	struct rig_cmd read = a_read(2);

	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	rig_submit(ios[0], &read);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, cc), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false) >> NVME_CSTS_SHST_SHIFT,
			 NVME_CSTS_SHST_OCCURRING);
	rig_disk_release(IO_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false) >> NVME_CSTS_SHST_SHIFT,
			 NVME_CSTS_SHST_COMPLETE);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, 0), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), 0);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), NVME_CSTS_RDY);
}

static uint64_t shutdown_status(void)
{
	return rig_property_get(admin, NVME_PROPERTY_CSTS, false) >> NVME_CSTS_SHST_SHIFT;
}

/* One write clears CC.EN and sets CC.SHN. */
static void test_a_reset_may_be_a_shutdown(void **state)
{
	uint32_t shut = NVME_CC_SHN_NORMAL << NVME_CC_SHN_SHIFT;
	struct rig_cmd read = a_read(2);

	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	rig_submit(ios[0], &read);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, shut), NVME_SC_SUCCESS);
	assert_int_equal(shutdown_status(), NVME_CSTS_SHST_OCCURRING);
	rig_disk_release(IO_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false),
			 NVME_CSTS_SHST_COMPLETE << NVME_CSTS_SHST_SHIFT);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), NVME_CSTS_RDY);
	/* without I/O queues the shutdown completes at once */
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, shut), NVME_SC_SUCCESS);
	assert_int_equal(shutdown_status(), NVME_CSTS_SHST_COMPLETE);
}

static void test_a_host_that_does_not_wait_for_csts_rdy_to_clear_works(void **state)
{
	uint32_t shut = NVME_CC_SHN_NORMAL << NVME_CC_SHN_SHIFT;
	struct rig_cmd read = a_read(2);

	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	rig_submit(ios[0], &read);
	/* shutdown, reset and enable while an I/O queue cannot end */
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED | shut), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, 0), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	assert_false(ios[0]->closed);
	rig_disk_release(IO_SUCCESS);
	assert_true(ios[0]->closed);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), NVME_CSTS_RDY);
	/* a shutdown of a disabled controller */
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, 0), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, shut), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false) >> NVME_CSTS_SHST_SHIFT,
			 NVME_CSTS_SHST_COMPLETE);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), NVME_CSTS_RDY);
}

static void test_an_invalid_cc_is_fatal_until_reset(void **state)
{
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, 0), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED | 1 << NVME_CC_MPS_SHIFT),
			 NVME_SC_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), NVME_CSTS_CFS);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, 0), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), NVME_CSTS_RDY);
}

static void test_a_host_without_keep_alives_is_disconnected(void **state)
{
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *conn = rig_open(1), *io;
	struct rig_cmd cmd;

	connect.kato = 15000; /* rounded up to 20 s */
	assert_int_equal(rig_connect(conn, &connect, &cmd), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(conn, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	io = rig_io(0, (uint16_t)cmd.cpl.cdw0, 1);
	for (int i = 0; i < 5; i++) {
		rig_advance(19 * NS_PER_SEC);
		cmd = rig_plain(NVME_ADMIN_KEEP_ALIVE, 0);
		assert_int_equal(rig_exec(conn, &cmd), NVME_SC_SUCCESS);
	}
	rig_advance(19 * NS_PER_SEC);
	assert_false(conn->closed || io->closed);
	rig_advance(2 * NS_PER_SEC);
	assert_true(conn->closed && io->closed);
	assert_string_equal(conn->reason, "keep-alive timeout");
	rig_free(conn);
	rig_free(io);
	/* controllers without a keep-alive time-out stay */
	assert_false(admin->closed);
}

/* ---- snapshots and load ---- */

static size_t seen;
static uint32_t seen_io, seen_unassociated;

static void count_controllers(void *ctx, int rc, const struct fathom_fault *why, const struct nvmf_controller_info *infos,
			      size_t count)
{
	must(rc == 0);
	seen = count;
	seen_io = count ? infos[0].io_qpair_count : 0;
}

static void count_qpairs(void *ctx, int rc, const struct fathom_fault *why, const struct nvmf_qpair_info *infos,
			 size_t count)
{
	must(rc == 0);
	seen = count;
	for (size_t i = 0; i < count; i++) {
		must(infos[i].qid == i);
		must(strcmp(infos[i].host_nqn, RIG_HOST) == 0);
		must(strcmp(infos[i].state, "enabled") == 0);
	}
}

static void count_groups(void *ctx, const struct nvmf_group_stats *stats, size_t count)
{
	seen = count;
	seen_io = stats[0].current_io_qpairs + stats[1].current_io_qpairs;
	seen_unassociated = stats[0].current_unassociated_qpairs + stats[1].current_unassociated_qpairs;
}

static void ask(void *ctx)
{
	if (ctx == count_controllers)
		nvmf_subsystem_get_controllers(RIG_NQN, count_controllers, NULL);
	else if (ctx == count_qpairs)
		nvmf_subsystem_get_qpairs(RIG_NQN, count_qpairs, NULL);
	else
		nvmf_target_get_stats(count_groups, NULL);
}

static void test_snapshots_show_what_is_connected(void **state)
{
	struct rig_conn *bare = rig_open(0);

	rig_call(thread_control(), ask, (void *)count_controllers);
	assert_int_equal(seen, 1);
	assert_int_equal(seen_io, 2);
	rig_call(thread_control(), ask, (void *)count_qpairs);
	assert_int_equal(seen, 3);
	rig_call(thread_control(), ask, NULL);
	assert_int_equal(seen, RIG_GROUPS);
	assert_int_equal(seen_io, 2);
	assert_int_equal(seen_unassociated, 1);
	rig_close(bare);
	rig_free(bare);
}

static void test_io_queues_are_spread_over_groups(void **state)
{
	struct rig_conn *admins[4], *queues[4];
	unsigned int on_first = 0;

	for (int i = 0; i < 4; i++) {
		uint16_t id;

		admins[i] = rig_admin(-1, &id);
		queues[i] = rig_io(-1, id, 1);
		on_first += nvmf_poll_group_index(queues[i]->group) == 0;
	}
	assert_int_equal(on_first, 2);
	for (int i = 0; i < 4; i++) {
		rig_close(admins[i]);
		rig_free(admins[i]);
		rig_free(queues[i]);
	}
}

static void test_the_target_stops_with_connections_and_commands_in_progress(void **state)
{
	struct rig_conn *bare = rig_open(1);
	static struct rig_cmd event;

	event = rig_plain(NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
	rig_submit(admin, &event);
	assert_int_equal(rig_add_ns("none", 0, NULL), -ENODEV);
	/* The teardown stops the target with all of these connected. */
	admin->closed = false;
	assert_false(bare->closed);
	rig_teardown(state);
	assert_true(bare->closed && admin->closed && ios[0]->closed && ios[1]->closed && event.done);
	rig_free(bare);
	rig_free(admin);
	rig_free(ios[0]);
	rig_free(ios[1]);
}

/* ---- stopping ---- */

static void stop_on_control(void *ctx)
{
	nvmf_target_stop(rig_done, ctx);
}

static void start_again_on_control(void *ctx)
{
	nvmf_target_reset();
	nvmf_target_start(rig_done, ctx);
}

static void check_down(void *ctx)
{
	nvmf_target_check_down();
}

static void check_down_behind_what_is_queued(void *ctx)
{
	thread_send_msg(thread_control(), check_down, NULL);
}

/* Queues end before their controller, whose end may reach the control thread after later stages of the stop. */
static void test_a_controller_may_end_after_the_listeners_stopped(void **state)
{
	struct rig_op stop = { 0 }, start = { 0 };

	rig_listen_hold(true);
	rig_call(thread_control(), stop_on_control, &stop);
	assert_int_equal(nvmf_target_state(), NVMF_TGT_FINI_STOP_LISTEN);
	thread_send_msg(thread_control(), check_down_behind_what_is_queued, NULL);
	rig_listen_hold(false);
	assert_true(stop.done && stop.rc == 0);
	assert_int_equal(nvmf_target_state(), NVMF_TGT_STOPPED);
	rig_call(thread_control(), start_again_on_control, &start);
	assert_true(start.done && start.rc == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_a_pause_waits_for_io_and_delays_new_io),
		T(test_a_write_delayed_by_a_pause_keeps_its_data),
		T(test_changes_are_made_during_an_explicit_pause),
		T(test_namespaces_are_added_and_removed_under_io),
		T(test_bad_namespaces_are_refused),
		T(test_a_command_waiting_for_a_removed_namespace_ends),
		T(test_removing_a_device_removes_its_namespace),
		T(test_a_change_that_fails_on_one_group_is_undone),
		T(test_a_failed_start_leaves_the_subsystem_inactive),
		T(test_bad_subsystems_are_refused),
		T(test_listeners_are_counted_and_checked),
		T(test_destruction_waits_for_io_at_a_disk),
		T(test_properties_describe_the_controller),
		T(test_a_reset_waits_for_io_at_a_disk),
		T(test_a_shutdown_ends_io_queues_and_reports_completion),
		T(test_a_reset_may_be_a_shutdown),
		T(test_a_host_that_does_not_wait_for_csts_rdy_to_clear_works),
		T(test_an_invalid_cc_is_fatal_until_reset),
		T(test_a_host_without_keep_alives_is_disconnected),
		T(test_snapshots_show_what_is_connected),
		T(test_io_queues_are_spread_over_groups),
		T(test_a_controller_may_end_after_the_listeners_stopped),
		cmocka_unit_test_setup(test_the_target_stops_with_connections_and_commands_in_progress, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
