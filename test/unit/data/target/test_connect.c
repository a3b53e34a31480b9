/* SPDX-License-Identifier: BSD-2-Clause */
/* Connect: permitted hosts and parameters, and the statuses of refused ones. */
#include "rig.h"

#include <string.h>

#include "base/text.h"

struct refusal {
	uint16_t status, ipo;
	uint8_t iattr;
};

static struct refusal assert_refused(const struct rig_connect *connect)
{
	struct rig_conn *conn = rig_open(0);
	struct rig_cmd cmd;
	struct refusal refusal = { .status = rig_connect(conn, connect, &cmd) };
	const struct nvme_connect_response *response = (const struct nvme_connect_response *)&cmd.cpl;

	refusal.ipo = response->invalid.ipo;
	refusal.iattr = response->invalid.iattr;
	assert_int_not_equal(refusal.status, NVME_SC_SUCCESS);
	assert_int_equal(conn->connected_count, 0);
	rig_close(conn);
	rig_free(conn);
	return refusal;
}

static void assert_invalid(const struct rig_connect *connect, uint16_t ipo, uint8_t iattr)
{
	struct refusal refusal = assert_refused(connect);

	assert_int_equal(refusal.status, NVME_SC_CONNECT_INVALID_PARAMETERS);
	assert_int_equal(refusal.ipo, ipo);
	assert_int_equal(refusal.iattr, iattr);
}

static void test_admin_connect_gives_a_cntlid_and_a_queue(void **state)
{
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *conn = rig_open(0), *other;
	struct rig_cmd cmd;

	assert_int_equal(rig_connect(conn, &connect, &cmd), NVME_SC_SUCCESS);
	assert_int_equal(cmd.cpl.cdw0, 1);
	assert_int_equal(cmd.cpl.sqhd, 1);
	assert_int_equal(conn->qpair.queue_entries, 32);
	assert_int_equal(conn->qpair.qid, 0);
	assert_int_equal(conn->connected_count, 1);
	assert_false(conn->qpair.flow_control_off);
	/* the next controller gets the next id */
	other = rig_open(1);
	connect.cattr = NVME_CATTR_DISABLE_SQFLOW;
	assert_int_equal(rig_connect(other, &connect, &cmd), NVME_SC_SUCCESS);
	assert_int_equal(cmd.cpl.cdw0, 2);
	assert_int_equal(cmd.cpl.sqhd, 0xffff);
	assert_true(other->qpair.flow_control_off);
	rig_close(conn);
	rig_close(other);
	rig_free(conn);
	rig_free(other);
}

static void test_a_host_without_a_nqn_connects_if_any_host_is_allowed(void **state)
{
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *conn = rig_open(0);

	connect.hostnqn = "";
	assert_int_equal(rig_connect(conn, &connect, NULL), NVME_SC_SUCCESS);
	rig_close(conn);
	rig_free(conn);
}

static void test_invalid_admin_connects_name_the_wrong_parameter(void **state)
{
	struct rig_connect connect = rig_connect_admin();
	char endless[NVME_NQN_FIELD_BYTES + 1];

	memset(endless, 'x', sizeof(endless));
	endless[sizeof(endless) - 1] = '\0';
	connect.subnqn = "nqn.2026-01.io.fathom:none";
	assert_invalid(&connect, 256, NVME_CONNECT_IATTR_DATA);
	connect.subnqn = endless;
	assert_invalid(&connect, 256, NVME_CONNECT_IATTR_DATA);
	connect = rig_connect_admin();
	connect.hostnqn = endless;
	assert_invalid(&connect, 512, NVME_CONNECT_IATTR_DATA);
	connect = rig_connect_admin();
	connect.cntlid = 5;
	assert_invalid(&connect, 16, NVME_CONNECT_IATTR_DATA);
	connect = rig_connect_admin();
	connect.sqsize = 0;
	assert_invalid(&connect, 44, NVME_CONNECT_IATTR_COMMAND);
	connect.sqsize = 128;
	assert_invalid(&connect, 44, NVME_CONNECT_IATTR_COMMAND);
	connect = rig_connect_admin();
	connect.recfmt = 1;
	assert_int_equal(assert_refused(&connect).status, NVME_SC_CONNECT_INCOMPATIBLE_FORMAT);
}

static void test_short_connect_data_are_refused(void **state)
{
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *conn = rig_open(0);
	struct nvme_connect_data data;
	struct rig_cmd cmd;

	rig_connect_cmd(&cmd, &connect, &data);
	cmd.cmd.sgl.length = 1020;
	assert_int_equal(rig_exec(conn, &cmd), NVME_SC_DATA_SGL_LENGTH_INVALID);
	rig_close(conn);
	rig_free(conn);
}

static void test_a_host_must_be_allowed(void **state)
{
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *conn;

	assert_int_equal(rig_allow_any(RIG_NQN, false), 0);
	assert_int_equal(assert_refused(&connect).status, NVME_SC_CONNECT_INVALID_HOST);
	assert_int_equal(rig_host(nvmf_subsystem_add_host, RIG_NQN, RIG_HOST), 0);
	assert_int_equal(rig_host(nvmf_subsystem_add_host, RIG_NQN, RIG_HOST), -EEXIST);
	assert_int_equal(rig_host(nvmf_subsystem_add_host, RIG_NQN, "nonsense"), -EINVAL);
	conn = rig_open(1);
	assert_int_equal(rig_connect(conn, &connect, NULL), NVME_SC_SUCCESS);
	assert_string_equal(nvmf_subsystem_host_at(nvmf_subsystem_find(RIG_NQN), 0), RIG_HOST);
	/* a host that is removed is disconnected */
	assert_int_equal(rig_host(nvmf_subsystem_remove_host, RIG_NQN, RIG_HOST), 0);
	assert_true(conn->closed);
	assert_int_equal(rig_host(nvmf_subsystem_remove_host, RIG_NQN, RIG_HOST), -ENOENT);
	rig_free(conn);
}

static void test_connect_needs_an_address_at_which_the_subsystem_listens(void **state)
{
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *conn = rig_open(0);

	(void)text_copy(conn->qpair.local_service, sizeof(conn->qpair.local_service), "4421"); /* fits */
	assert_int_equal(rig_connect(conn, &connect, NULL), NVME_SC_CONNECT_INVALID_HOST);
	assert_int_equal(rig_address_op(true, RIG_NQN, "0.0.0.0", "4421"), 0);
	/* the host may retry on the same connection */
	assert_int_equal(rig_connect(conn, &connect, NULL), NVME_SC_SUCCESS);
	assert_int_equal(rig_address_op(false, RIG_NQN, "0.0.0.0", "4421"), 0);
	assert_true(conn->closed);
	rig_free(conn);
}

static void test_a_second_connect_is_out_of_order(void **state)
{
	struct rig_conn *conn = rig_admin(0, NULL);
	struct rig_connect connect = rig_connect_admin();

	assert_int_equal(rig_connect(conn, &connect, NULL), NVME_SC_COMMAND_SEQUENCE_ERROR);
	rig_close(conn);
	rig_free(conn);
}

static void test_commands_before_connect_are_refused(void **state)
{
	struct rig_conn *conn = rig_open(0);
	uint8_t page[NVME_IDENTIFY_BYTES];
	struct rig_cmd cmd = rig_identify(NVME_CNS_CONTROLLER, 0, page);

	assert_int_equal(rig_exec(conn, &cmd), NVME_SC_COMMAND_SEQUENCE_ERROR);
	assert_true(cmd.dnr);
	assert_int_equal(rig_property_get(conn, NVME_PROPERTY_VS, false), UINT64_MAX);
	rig_close(conn);
	rig_free(conn);
}

static void test_io_connect_needs_an_enabled_controller(void **state)
{
	struct rig_connect admin = rig_connect_admin(), connect;
	struct rig_conn *conn = rig_open(0), *io;
	struct rig_cmd cmd;

	assert_int_equal(rig_connect(conn, &admin, &cmd), NVME_SC_SUCCESS);
	connect = rig_connect_io((uint16_t)cmd.cpl.cdw0, 1);
	assert_invalid(&connect, 42, NVME_CONNECT_IATTR_COMMAND);
	/* enabled, but without queue entry sizes */
	assert_int_equal(rig_property_set(conn, NVME_PROPERTY_CC, NVME_CC_EN), NVME_SC_SUCCESS);
	assert_invalid(&connect, 42, NVME_CONNECT_IATTR_COMMAND);
	assert_int_equal(rig_property_set(conn, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	io = rig_open(1);
	assert_int_equal(rig_connect(io, &connect, NULL), NVME_SC_SUCCESS);
	rig_close(conn);
	assert_true(io->closed);
	rig_free(conn);
	rig_free(io);
}

static void test_invalid_io_connects_name_the_wrong_parameter(void **state)
{
	uint16_t cntlid;
	struct rig_conn *admin = rig_admin(0, &cntlid);
	struct rig_conn *io = rig_io(1, cntlid, 1);
	struct rig_connect connect = rig_connect_io(cntlid, 1);

	assert_int_equal(assert_refused(&connect).status, NVME_SC_INVALID_QUEUE_ID);
	connect = rig_connect_io(cntlid, 128);
	assert_invalid(&connect, 42, NVME_CONNECT_IATTR_COMMAND);
	connect = rig_connect_io((uint16_t)(cntlid + 1), 2);
	assert_invalid(&connect, 16, NVME_CONNECT_IATTR_DATA);
	connect = rig_connect_io(cntlid, 2);
	connect.sqsize = 128;
	assert_invalid(&connect, 44, NVME_CONNECT_IATTR_COMMAND);
	connect = rig_connect_io(cntlid, 2);
	connect.hostid = 8;
	assert_invalid(&connect, 0, NVME_CONNECT_IATTR_DATA);
	connect = rig_connect_io(cntlid, 2);
	connect.hostnqn = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000bb";
	assert_invalid(&connect, 512, NVME_CONNECT_IATTR_DATA);
	rig_close(admin);
	rig_free(admin);
	rig_free(io);
}

static void test_a_queue_id_is_free_after_its_queue_is_destroyed(void **state)
{
	uint16_t cntlid;
	struct rig_conn *admin = rig_admin(0, &cntlid);
	struct rig_conn *io = rig_io(1, cntlid, 1);

	rig_close(io);
	rig_free(io);
	io = rig_io(0, cntlid, 1);
	rig_close(admin);
	rig_free(admin);
	assert_true(io->closed);
	rig_free(io);
}

static void test_no_memory_for_a_queue_refuses_it(void **state)
{
	uint16_t cntlid;
	struct rig_conn *admin = rig_admin(0, &cntlid), *io = rig_open(1), *other = rig_open(0);
	struct rig_connect connect = rig_connect_io(cntlid, 1);

	io->no_memory = true;
	assert_int_equal(rig_connect(io, &connect, NULL), NVME_SC_CONNECT_CONTROLLER_BUSY);
	rig_run();
	assert_true(io->closed);
	rig_free(io);
	io = rig_io(1, cntlid, 1);
	connect = rig_connect_admin();
	other->no_memory = true;
	assert_int_equal(rig_connect(other, &connect, NULL), NVME_SC_CONNECT_CONTROLLER_BUSY);
	assert_true(other->closed);
	rig_free(other);
	rig_close(admin);
	rig_free(admin);
	rig_free(io);
}

/* ---- limits and time-outs ---- */

#define OTHER_HOST "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000cc"

static void test_a_host_cannot_use_all_controllers(void **state)
{
	struct rig_conn *conns[NVMF_HOST_CONTROLLERS_DEFAULT + 1], *other = rig_open(0);
	struct rig_connect connect = rig_connect_admin();

	for (int i = 0; i <= NVMF_HOST_CONTROLLERS_DEFAULT; i++) {
		conns[i] = rig_open(i % RIG_GROUPS);
		assert_int_equal(rig_connect(conns[i], &connect, NULL),
				 i < NVMF_HOST_CONTROLLERS_DEFAULT ? NVME_SC_SUCCESS : NVME_SC_CONNECT_CONTROLLER_BUSY);
	}
	connect.hostnqn = OTHER_HOST;
	assert_int_equal(rig_connect(other, &connect, NULL), NVME_SC_SUCCESS);
	/* a controller that ends makes room */
	rig_close(conns[0]);
	rig_free(conns[0]);
	connect.hostnqn = RIG_HOST;
	conns[0] = rig_open(1);
	assert_int_equal(rig_connect(conns[0], &connect, NULL), NVME_SC_SUCCESS);
	for (int i = 0; i <= NVMF_HOST_CONTROLLERS_DEFAULT; i++) {
		rig_close(conns[i]);
		rig_free(conns[i]);
	}
	rig_close(other);
	rig_free(other);
}

static void test_the_limit_of_controllers_per_host_is_an_option(void **state)
{
	struct rig_connect connect = rig_connect_admin();
	struct nvmf_subsystem_options options;
	struct rig_conn *conns[3];

	nvmf_subsystem_options_init(&options);
	snprintf(options.nqn, sizeof(options.nqn), RIG_NQN_TWO);
	options.allow_any_host = true;
	options.max_host_controllers = 0;
	assert_int_equal(rig_create(&options), -EINVAL);
	options.max_host_controllers = NVMF_CONTROLLERS_MAX + 1;
	assert_int_equal(rig_create(&options), -EINVAL);
	options.max_host_controllers = 2;
	assert_int_equal(rig_create(&options), 0);
	assert_int_equal(rig_address_op(true, RIG_NQN_TWO, "127.0.0.1", "4420"), 0);
	connect.subnqn = RIG_NQN_TWO;
	for (int i = 0; i < 3; i++) {
		conns[i] = rig_open(0);
		assert_int_equal(rig_connect(conns[i], &connect, NULL),
				 i < 2 ? NVME_SC_SUCCESS : NVME_SC_CONNECT_CONTROLLER_BUSY);
	}
	for (int i = 0; i < 3; i++) {
		rig_close(conns[i]);
		rig_free(conns[i]);
	}
}

static void test_a_controller_that_is_not_enabled_in_time_is_removed(void **state)
{
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *idle = rig_open(0), *enabled = rig_admin(0, NULL);

	assert_int_equal(rig_connect(idle, &connect, NULL), NVME_SC_SUCCESS);
	rig_advance(29 * NS_PER_SEC);
	assert_false(idle->closed);
	rig_advance(2 * NS_PER_SEC);
	assert_true(idle->closed);
	assert_string_equal(idle->reason, "the controller was not enabled in time");
	/* the same for a controller that was disabled */
	assert_int_equal(rig_property_set(enabled, NVME_PROPERTY_CC, 0), NVME_SC_SUCCESS);
	rig_advance(60 * NS_PER_SEC);
	assert_false(enabled->closed);
	rig_close(enabled);
	rig_free(enabled);
	rig_free(idle);
}

static void test_discovery_has_no_io_queues(void **state)
{
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *conn = rig_open(0);
	struct rig_cmd cmd;

	connect.subnqn = NVME_DISCOVERY_NQN;
	assert_int_equal(rig_connect(conn, &connect, &cmd), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(conn, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	connect.cntlid = (uint16_t)cmd.cpl.cdw0;
	connect.qid = 1;
	assert_invalid(&connect, 42, NVME_CONNECT_IATTR_COMMAND);
	rig_close(conn);
	rig_free(conn);
}

static void test_cntlids_stay_in_range_and_exhaustion_is_an_error(void **state)
{
	struct nvmf_subsystem_options options;
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *conns[2];
	struct rig_cmd cmd;

	nvmf_subsystem_options_init(&options);
	(void)text_copy(options.nqn, sizeof(options.nqn), "nqn.2026-01.io.fathom:narrow"); /* fits */
	options.allow_any_host = true;
	options.min_cntlid = 10;
	options.max_cntlid = 11;
	assert_int_equal(rig_create(&options), 0);
	assert_int_equal(rig_address_op(true, options.nqn, "127.0.0.1", "4420"), 0);
	connect.subnqn = options.nqn;
	for (int i = 0; i < 2; i++) {
		conns[i] = rig_open(i);
		assert_int_equal(rig_connect(conns[i], &connect, &cmd), NVME_SC_SUCCESS);
		assert_int_equal(cmd.cpl.cdw0, 10 + i);
	}
	assert_int_equal(assert_refused(&connect).status, NVME_SC_CONNECT_CONTROLLER_BUSY);
	rig_close(conns[0]);
	rig_free(conns[0]);
	conns[0] = rig_open(1);
	assert_int_equal(rig_connect(conns[0], &connect, &cmd), NVME_SC_SUCCESS);
	assert_int_equal(cmd.cpl.cdw0, 10);
	assert_int_equal(rig_subsystem(nvmf_subsystem_destroy, options.nqn), 0);
	assert_true(conns[0]->closed && conns[1]->closed);
	rig_free(conns[0]);
	rig_free(conns[1]);
}

/* The connection breaks at each step of the Connect, which passes several threads. */
static void test_a_connection_that_breaks_during_connect_leaves_nothing(void **state)
{
	uint16_t cntlid;
	struct rig_conn *admin = rig_admin(0, &cntlid);

	for (int io = 0; io < 2; io++) {
		for (int steps = 0; steps < 12; steps++) {
			struct rig_connect connect = io ? rig_connect_io(cntlid, 1) : rig_connect_admin();
			struct rig_conn *conn = rig_open(1);
			struct nvme_connect_data data;
			struct rig_cmd cmd;

			rig_connect_cmd(&cmd, &connect, &data);
			rig_begin_submit(conn, &cmd);
			rig_steps(steps);
			rig_close(conn);
			assert_true(cmd.done);
			assert_true(conn->closed);
			rig_free(conn);
		}
	}
	rig_close(admin);
	rig_free(admin);
}

static void choose(void *ctx)
{
	*(struct nvmf_poll_group **)ctx = nvmf_target_choose_group();
}

static void unchoose(void *ctx)
{
	nvmf_target_unchoose_group(ctx);
}

static void admit(void *ctx)
{
	nvmf_target_admit(*(const bool *)ctx);
}

static void test_a_connection_gets_no_group_while_none_are_admitted(void **state)
{
	struct rig_conn *conn = rig_open(0);
	struct rig_connect connect = rig_connect_admin();
	struct nvmf_poll_group *group = NULL;
	bool admitted = false;
	struct rig_cmd cmd;

	rig_call(thread_control(), admit, &admitted);
	rig_call(thread_control(), choose, &group);
	assert_null(group);
	assert_int_equal(rig_connect(conn, &connect, &cmd), NVME_SC_SUCCESS); /* an existing connection stays */
	admitted = true;
	rig_call(thread_control(), admit, &admitted);
	rig_call(thread_control(), choose, &group);
	assert_non_null(group);
	rig_call(thread_control(), unchoose, group);
	rig_close(conn);
	rig_free(conn);
}

/* ---- accounts ---- */

static struct nvmf_accounts *accounts;
static uint64_t ends[NVMF_ENDS_MAX], refused;

static void take_accounts(void *ctx, struct nvmf_accounts *taken)
{
	nvmf_accounts_destroy(accounts);
	accounts = taken;
}

static void ask_accounts(void *ctx)
{
	nvmf_target_get_accounts(take_accounts, NULL);
}

static void add_ends(void *ctx, const char *nqn, const char *host_nqn, const uint64_t counts[static NVMF_ENDS_MAX])
{
	for (int i = 0; i < NVMF_ENDS_MAX; i++)
		ends[i] += strcmp(nqn, RIG_NQN) == 0 ? counts[i] : 0; /* earlier cases had other subsystems */
}

static void add_refusals(void *ctx, uint16_t status, uint64_t count)
{
	refused += status == NVME_SC_CONNECT_INVALID_HOST ? count : 0;
}

static void read_control_counts(void *ctx)
{
	memset(ends, 0, sizeof(ends));
	refused = 0;
	nvmf_target_each_end(add_ends, NULL);
	nvmf_target_each_refusal(add_refusals, NULL);
}

static uint64_t commands_of_host(void)
{
	uint64_t count = 0;

	rig_call(thread_control(), ask_accounts, NULL);
	for (size_t i = 0; i < accounts->host_count; i++) {
		assert_string_equal(accounts->hosts[i].nqn, RIG_NQN);
		assert_string_equal(accounts->hosts[i].host_nqn, RIG_HOST);
		count += accounts->hosts[i].command_count;
	}
	return count;
}

static void test_an_account_keeps_what_a_host_did_after_it_left(void **state)
{
	uint64_t before[NVMF_ENDS_MAX], read = 0;
	static uint8_t data[RIG_BLOCK_BYTES];
	struct rig_conn *admin, *io;
	struct rig_cmd cmd;
	uint16_t cntlid;
	uint64_t count;

	rig_call(thread_control(), read_control_counts, NULL);
	memcpy(before, ends, sizeof(before));
	admin = rig_admin(0, &cntlid);
	io = rig_io(1, cntlid, 1); /* on the other group */
	cmd = rig_c2h(NVME_NVM_READ, 1, data, sizeof(data));
	rig_blocks(&cmd, 0, 1);
	assert_int_equal(rig_exec(io, &cmd), NVME_SC_SUCCESS);
	count = commands_of_host();
	assert_true(count >= 4); /* two Connects, Property Set, a read */
	assert_int_equal(accounts->group_count, RIG_GROUPS);
	assert_int_equal(accounts->groups[0].current_admin_qpairs + accounts->groups[1].current_admin_qpairs, 1);
	assert_int_equal(accounts->groups[0].current_io_qpairs + accounts->groups[1].current_io_qpairs, 1);
	rig_close(io);
	rig_close(admin);
	rig_free(io);
	rig_free(admin);
	assert_true(commands_of_host() >= count);
	for (size_t i = 0; i < accounts->host_count; i++)
		read += accounts->hosts[i].bytes_read;
	assert_true(read >= sizeof(data));
	rig_call(thread_control(), read_control_counts, NULL);
	assert_int_equal(ends[NVMF_END_OTHER] - before[NVMF_END_OTHER], 1); /* the rig gives no reason */
	nvmf_accounts_destroy(accounts);
	accounts = NULL;
}

static void test_refused_connects_are_counted_by_status(void **state)
{
	struct rig_connect connect = rig_connect_admin();
	struct rig_conn *conn = rig_open(0);
	struct rig_cmd cmd;
	uint64_t before;

	rig_call(thread_control(), read_control_counts, NULL);
	before = refused;
	assert_int_equal(rig_allow_any(RIG_NQN, false), 0);
	assert_int_equal(rig_connect(conn, &connect, &cmd), NVME_SC_CONNECT_INVALID_HOST);
	rig_call(thread_control(), read_control_counts, NULL);
	assert_int_equal(refused, before + 1);
	rig_close(conn);
	rig_free(conn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		T(test_admin_connect_gives_a_cntlid_and_a_queue),
		T(test_a_host_without_a_nqn_connects_if_any_host_is_allowed),
		T(test_invalid_admin_connects_name_the_wrong_parameter),
		T(test_short_connect_data_are_refused),
		T(test_a_host_must_be_allowed),
		T(test_connect_needs_an_address_at_which_the_subsystem_listens),
		T(test_a_second_connect_is_out_of_order),
		T(test_commands_before_connect_are_refused),
		T(test_io_connect_needs_an_enabled_controller),
		T(test_invalid_io_connects_name_the_wrong_parameter),
		T(test_a_queue_id_is_free_after_its_queue_is_destroyed),
		T(test_no_memory_for_a_queue_refuses_it),
		T(test_a_host_cannot_use_all_controllers),
		T(test_the_limit_of_controllers_per_host_is_an_option),
		T(test_a_controller_that_is_not_enabled_in_time_is_removed),
		T(test_discovery_has_no_io_queues),
		T(test_cntlids_stay_in_range_and_exhaustion_is_an_error),
		T(test_a_connection_that_breaks_during_connect_leaves_nothing),
		T(test_a_connection_gets_no_group_while_none_are_admitted),
		T(test_an_account_keeps_what_a_host_did_after_it_left),
		T(test_refused_connects_are_counted_by_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
