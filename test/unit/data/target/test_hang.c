/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A block device that does not answer: what an operator can still change, and how everything ends without it.
 *
 * Namespace 1 is on "m0", which answers at once; namespace 2 on "d0", which holds a read of each group's I/O queue.
 */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "data/store/bdev/bdev.h"
#include "data/target/subsystem/subsystem.h"

#define HOST_TWO "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000bb"

static struct rig_conn *admin, *ios[RIG_GROUPS];
static uint16_t cntlid;
static uint8_t back[4096];
static struct rig_cmd hung[RIG_GROUPS];
static uint32_t stuck_count;

static void note_stuck(uint32_t count)
{
	stuck_count = count;
}

static int setup(void **state)
{
	rig_setup(state);
	admin = rig_admin(0, &cntlid);
	rig_disk("d0", false, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	for (int i = 0; i < RIG_GROUPS; i++) {
		ios[i] = rig_io(i, cntlid, (uint16_t)(i + 1));
		hung[i] = rig_c2h(NVME_NVM_READ, 2, back, 512);
		rig_submit(ios[i], &hung[i]);
		assert_false(hung[i].done);
	}
	stuck_count = 0;
	nvmf_target_on_stuck(note_stuck);
	return 0;
}

static int teardown(void **state)
{
	rig_disk_release(IO_SUCCESS);
	if (!admin->closed)
		rig_close(admin);
	rig_free(admin);
	for (int i = 0; i < RIG_GROUPS; i++)
		rig_free(ios[i]);
	return rig_teardown(state);
}

static uint16_t read_from(struct rig_conn *conn, uint32_t nsid)
{
	struct rig_cmd read = rig_c2h(NVME_NVM_READ, nsid, back, 512);

	return rig_exec(conn, &read);
}

static void check_namespace_1_works(void)
{
	struct rig_cmd identify = rig_identify(NVME_CNS_ACTIVE_NS_LIST, 0, back);

	for (int i = 0; i < RIG_GROUPS; i++)
		assert_int_equal(read_from(ios[i], 1), NVME_SC_SUCCESS);
	assert_int_equal(rig_exec(admin, &identify), NVME_SC_SUCCESS);
}

static void check_a_new_host_is_served(void)
{
	uint16_t id;
	struct rig_conn *conn = rig_admin(1, &id), *io = rig_io(1, id, 1);

	assert_int_equal(read_from(io, 1), NVME_SC_SUCCESS);
	rig_close(conn);
	rig_free(conn);
	rig_free(io);
}

/* ---- an operator's changes ---- */

static void test_hosts_listeners_and_other_namespaces_change_without_waiting(void **state)
{
	rig_malloc("m3", 100, 512);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(rig_host(nvmf_subsystem_add_host, RIG_NQN, HOST_TWO), 0);
		check_namespace_1_works();
		assert_int_equal(rig_address_op(true, RIG_NQN, "127.0.0.1", "4421"), 0);
		check_namespace_1_works();
		assert_int_equal(rig_add_ns("m3", 3, NULL), 0);
		assert_int_equal(read_from(ios[round], 3), NVME_SC_SUCCESS);
		check_a_new_host_is_served();
		assert_int_equal(rig_allow_any(RIG_NQN, true), 0);
		assert_int_equal(rig_remove_ns(3), 0);
		assert_int_equal(read_from(ios[round], 3), NVME_SC_INVALID_NAMESPACE);
		assert_int_equal(rig_address_op(false, RIG_NQN, "127.0.0.1", "4421"), 0);
		assert_int_equal(rig_host(nvmf_subsystem_remove_host, RIG_NQN, HOST_TWO), 0);
		check_namespace_1_works();
	}
	assert_int_equal(rig_disk_held(), RIG_GROUPS);
	rig_disk_release(IO_SUCCESS);
	assert_true(hung[0].done && hung[1].done && hung[0].status == NVME_SC_SUCCESS);
}

/* Only the removal of its namespace waits for the device. */
static void test_a_waiting_removal_delays_no_other_operation(void **state)
{
	struct rig_op remove, again;

	rig_malloc("m3", 100, 512);
	rig_remove_ns_begin(2, NVMF_DRAIN_MS_DEFAULT, &remove);
	assert_false(remove.done);
	assert_int_equal(read_from(ios[0], 2), NVME_SC_INVALID_NAMESPACE);
	assert_int_equal(rig_host(nvmf_subsystem_add_host, RIG_NQN, HOST_TWO), 0);
	assert_int_equal(rig_address_op(true, RIG_NQN, "127.0.0.1", "4421"), 0);
	assert_int_equal(rig_add_ns("m3", 2, NULL), -EEXIST);
	assert_int_equal(rig_add_ns("m3", 3, NULL), 0);
	assert_int_equal(read_from(ios[1], 3), NVME_SC_SUCCESS);
	assert_int_equal(rig_remove_ns(3), 0);
	rig_remove_ns_begin(2, 0, &again);
	assert_true(again.done && again.rc == -ENOENT);
	check_namespace_1_works();
	check_a_new_host_is_served();
	assert_false(remove.done);
	/* the device answers in time */
	rig_disk_release(IO_SUCCESS);
	assert_true(remove.done && remove.rc == 0);
	assert_int_equal(hung[0].status, NVME_SC_SUCCESS);
	rig_delete_bdev("d0");
}

static void test_a_removal_ends_if_the_device_does_not_answer(void **state)
{
	struct rig_op remove;

	rig_remove_ns_begin(2, 3000, &remove);
	rig_advance(2900 * NS_PER_MS);
	assert_false(remove.done || hung[0].done);
	rig_advance(200 * NS_PER_MS);
	assert_true(remove.done && remove.rc == 0);
	for (int i = 0; i < RIG_GROUPS; i++) {
		assert_true(hung[i].done);
		assert_int_equal(hung[i].status, NVME_SC_INTERNAL_ERROR);
		assert_true(hung[i].dnr);
		assert_int_equal(ios[i]->qpair.req_count, 0);
		assert_int_equal(ios[i]->qpair.parked_count, 1);
	}
	check_namespace_1_works();
	/* its nsid is free, its device is still in use */
	assert_int_equal(rig_add_ns("d0", 2, NULL), -EPERM);
	rig_malloc("m3", 100, 512);
	assert_int_equal(rig_add_ns("m3", 2, NULL), 0);
	assert_int_equal(read_from(ios[0], 2), NVME_SC_SUCCESS);
	/* late completions are dropped: no command is answered twice */
	rig_disk_release(IO_MEDIA_ERROR);
	for (int i = 0; i < RIG_GROUPS; i++)
		assert_int_equal(ios[i]->qpair.parked_count, 0);
	check_namespace_1_works();
	assert_int_equal(rig_add_ns("d0", 3, NULL), 0);
	assert_int_equal(rig_remove_ns(3), 0);
	rig_delete_bdev("d0");
}

/* The host uses a command id again while the device still has the command with that id. */
static void test_a_host_may_reuse_the_ids_of_abandoned_commands(void **state)
{
	struct rig_cmd again[100];
	struct rig_op remove;

	rig_remove_ns_begin(2, 0, &remove);
	rig_advance(NS_PER_SEC);
	assert_true(remove.done && hung[0].done);
	for (size_t i = 0; i < ARRAY_COUNT(again); i++) {
		again[i] = rig_c2h(NVME_NVM_READ, 1, back, 512);
		again[i].cmd.cid = hung[0].cmd.cid;
		assert_int_equal(rig_exec(ios[0], &again[i]), NVME_SC_SUCCESS);
	}
	rig_disk_release(IO_SUCCESS);
	assert_int_equal(read_from(ios[0], 1), NVME_SC_SUCCESS);
}

/* A durable write is two I/Os: the flush is not submitted for an abandoned write. */
static void test_no_io_is_submitted_for_an_abandoned_command(void **state)
{
	struct rig_cmd write = rig_h2c(NVME_NVM_WRITE, 2, back, 512);
	struct rig_op remove;

	rig_disk_release(IO_SUCCESS);
	assert_int_equal(rig_remove_ns(2), 0);
	rig_delete_bdev("d0");
	rig_disk("d0", true, false);
	assert_int_equal(rig_add_ns("d0", 2, NULL), 0);
	write.cmd.cdw12 |= NVME_CDW12_FUA;
	rig_submit(ios[1], &write);
	rig_remove_ns_begin(2, 0, &remove);
	rig_advance(NS_PER_SEC);
	assert_true(remove.done && write.done);
	rig_disk_release(IO_SUCCESS);
	assert_int_equal(rig_disk_count(IO_TYPE_FLUSH), 0);
	rig_delete_bdev("d0");
}

static void test_a_removed_device_waits_for_its_commands_only_a_limited_time(void **state)
{
	struct nvmf_ns_info info;

	rig_delete_bdev("d0");
	check_namespace_1_works();
	rig_advance((NVMF_DRAIN_MS_DEFAULT + 100) * NS_PER_MS);
	assert_true(hung[0].done && hung[1].done);
	assert_false(nvmf_subsystem_next_ns(nvmf_subsystem_find(RIG_NQN), 1, &info));
	check_namespace_1_works();
}

/* ---- a stalled group ---- */

static void test_a_stalled_group_delays_only_the_namespace(void **state)
{
	struct rig_op remove;

	rig_disk_release(IO_SUCCESS);
	rig_malloc("m3", 100, 512);
	assert_int_equal(rig_add_ns("m3", 3, NULL), 0);
	rig_stall(1);
	rig_remove_ns_begin(3, 0, &remove);
	rig_advance(60 * NS_PER_SEC);
	assert_false(remove.done);
	assert_int_equal(rig_host(nvmf_subsystem_add_host, RIG_NQN, HOST_TWO), 0);
	assert_int_equal(rig_address_op(true, RIG_NQN, "127.0.0.1", "4421"), 0);
	assert_int_equal(read_from(ios[0], 1), NVME_SC_SUCCESS);
	assert_int_equal(read_from(ios[0], 3), NVME_SC_INVALID_NAMESPACE);
	rig_stall(-1);
	rig_run();
	assert_true(remove.done && remove.rc == 0);
	assert_int_equal(read_from(ios[1], 3), NVME_SC_INVALID_NAMESPACE);
}

/* ---- connections and controllers ---- */

static void test_a_closed_connection_leaves_only_its_parked_commands(void **state)
{
	struct nvmf_subsystem *subsystem = nvmf_subsystem_find(RIG_NQN);

	rig_close(admin);
	assert_int_equal(subsystem->ctrlr_count, 1);
	assert_false(ios[0]->closed);
	rig_advance((NVMF_DRAIN_MS_DEFAULT + 100) * NS_PER_MS);
	assert_int_equal(subsystem->ctrlr_count, 0);
	assert_false(ios[0]->closed || ios[1]->closed);
	check_a_new_host_is_served();
	rig_disk_release(IO_SUCCESS);
	assert_true(ios[0]->closed && ios[1]->closed);
}

static void test_a_controller_reset_ends_if_the_device_does_not_answer(void **state)
{
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, 0), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), NVME_CSTS_RDY);
	rig_advance((NVMF_DRAIN_MS_DEFAULT + 100) * NS_PER_MS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), 0);
	assert_int_equal(rig_property_set(admin, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_get(admin, NVME_PROPERTY_CSTS, false), NVME_CSTS_RDY);
}

/* Each reconnect of the host leaves more parked commands, up to the limit. */
static void test_a_device_with_too_many_parked_commands_gets_no_more(void **state)
{
	struct rig_conn *left[NVMF_NS_PARKED_MAX + 8];
	struct rig_cmd *reads = calloc(ARRAY_COUNT(left), sizeof(*reads));
	size_t count = 0;
	uint16_t id;

	for (;;) {
		struct rig_conn *conn = rig_admin(0, &id);

		left[count] = rig_io(0, id, 1);
		reads[count] = rig_c2h(NVME_NVM_READ, 2, back, 512);
		rig_submit(left[count], &reads[count]);
		rig_close(conn);
		if (!left[count]->closed)
			rig_advance((NVMF_DRAIN_MS_DEFAULT + 100) * NS_PER_MS);
		rig_free(conn);
		count++;
		if (reads[count - 1].status == NVME_SC_NAMESPACE_NOT_READY)
			break;
		assert_true(count < ARRAY_COUNT(left));
	}
	/* the command of this group's first host is still in progress */
	assert_int_equal(count, NVMF_NS_PARKED_MAX + 1);
	assert_int_equal(nvmf_subsystem_find(RIG_NQN)->ctrlr_count, 1);
	check_namespace_1_works();
	rig_disk_release(IO_SUCCESS);
	for (size_t i = 0; i < count; i++)
		rig_free(left[i]);
	free(reads);
	rig_disk_hold(false);
	assert_int_equal(read_from(ios[0], 2), NVME_SC_SUCCESS);
}

/* ---- subsystems and the target ---- */

static void test_an_explicit_pause_fails(void **state)
{
	struct rig_op pause;

	rig_begin(nvmf_subsystem_pause, RIG_NQN, &pause);
	assert_false(pause.done);
	rig_advance((NVMF_DRAIN_MS_DEFAULT + 100) * NS_PER_MS);
	assert_true(pause.done && pause.rc == -ETIMEDOUT);
	assert_int_equal(nvmf_subsystem_get_state(nvmf_subsystem_find(RIG_NQN)), NVMF_SUBSYSTEM_ACTIVE);
	check_namespace_1_works();
	assert_false(hung[0].done);
}

static void test_a_subsystem_is_deleted_if_the_device_does_not_answer(void **state)
{
	struct rig_op destroy;

	rig_begin(nvmf_subsystem_destroy, RIG_NQN, &destroy);
	assert_false(destroy.done);
	/* one group after the other */
	rig_advance((NVMF_DRAIN_MS_DEFAULT + 500) * NS_PER_MS);
	assert_true(destroy.done && destroy.rc == 0);
	assert_null(nvmf_subsystem_find(RIG_NQN));
	assert_true(admin->closed);
	assert_false(ios[0]->closed || ios[1]->closed);
	rig_disk_release(IO_SUCCESS);
	assert_true(ios[0]->closed && ios[1]->closed);
	rig_delete_bdev("d0");
}

static void stop_quickly(struct rig_op *stop)
{
	rig_stop_begin(stop);
	rig_advance((NVMF_STOP_DRAIN_MS_MAX + 500) * NS_PER_MS);
	assert_false(stop->done);
	assert_int_equal(stuck_count, RIG_GROUPS);
	assert_int_equal(nvmf_target_state(), NVMF_TGT_FINI_DESTROY_POLL_GROUPS);
	rig_disk_release(IO_SUCCESS);
	assert_true(stop->done && stop->rc == 0);
}

static void start_again(void)
{
	/* the rig's teardown stops it */
	for (int i = 0; i < RIG_GROUPS; i++)
		assert_true(ios[i]->closed);
}

static void start_on_control(void *ctx)
{
	nvmf_target_reset();
	nvmf_target_start(rig_done, ctx);
}

static void check_it_starts_again(void)
{
	struct rig_op start = { 0 };

	start_again();
	rig_call(thread_control(), start_on_control, &start);
	assert_true(start.done && start.rc == 0);
}

static void test_the_target_stops_except_for_commands_at_the_device(void **state)
{
	struct rig_op stop;

	stop_quickly(&stop);
	check_it_starts_again();
}

/* The target stops while another operation waits for the device. */
static void test_the_target_stops_while_a_removal_waits(void **state)
{
	struct rig_op remove, stop;

	rig_remove_ns_begin(2, NVMF_DRAIN_MS_MAX, &remove);
	assert_false(remove.done);
	stop_quickly(&stop);
	assert_true(remove.done);
	check_it_starts_again();
}

static void test_the_target_stops_while_a_pause_waits(void **state)
{
	struct rig_op pause, stop;

	rig_begin(nvmf_subsystem_pause, RIG_NQN, &pause);
	assert_false(pause.done);
	stop_quickly(&stop);
	assert_true(pause.done);
	check_it_starts_again();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_hosts_listeners_and_other_namespaces_change_without_waiting),
		T(test_a_waiting_removal_delays_no_other_operation),
		T(test_a_removal_ends_if_the_device_does_not_answer),
		T(test_a_host_may_reuse_the_ids_of_abandoned_commands),
		T(test_no_io_is_submitted_for_an_abandoned_command),
		T(test_a_removed_device_waits_for_its_commands_only_a_limited_time),
		T(test_a_stalled_group_delays_only_the_namespace),
		T(test_a_closed_connection_leaves_only_its_parked_commands),
		T(test_a_controller_reset_ends_if_the_device_does_not_answer),
		T(test_a_device_with_too_many_parked_commands_gets_no_more),
		T(test_an_explicit_pause_fails),
		T(test_a_subsystem_is_deleted_if_the_device_does_not_answer),
		T(test_the_target_stops_except_for_commands_at_the_device),
		T(test_the_target_stops_while_a_removal_waits),
		T(test_the_target_stops_while_a_pause_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
