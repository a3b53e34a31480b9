/* SPDX-License-Identifier: BSD-2-Clause */
/* The entries of the discovery log: addresses and port ids. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

static struct rig_conn *conn;

/* The log as last read. */
static struct {
	uint64_t generation;
	size_t count;
	struct nvme_discovery_entry *entries;
} seen;

static int setup(void **state)
{
	struct rig_connect connect = rig_connect_admin();

	rig_setup(state);
	connect.subnqn = NVME_DISCOVERY_NQN;
	conn = rig_open(0);
	assert_int_equal(rig_connect(conn, &connect, NULL), NVME_SC_SUCCESS);
	assert_int_equal(rig_property_set(conn, NVME_PROPERTY_CC, RIG_CC_ENABLED), NVME_SC_SUCCESS);
	return 0;
}

static int teardown(void **state)
{
	free(seen.entries);
	memset(&seen, 0, sizeof(seen));
	rig_close(conn);
	rig_free(conn);
	return rig_teardown(state);
}

static void get_log(void *to, size_t bytes, uint64_t offset)
{
	struct rig_cmd cmd = rig_log(NVME_LOG_DISCOVERY, to, (uint32_t)bytes, offset);

	assert_int_equal(rig_exec(conn, &cmd), NVME_SC_SUCCESS);
}

static void read_log(void)
{
	struct nvme_discovery_log log;
	size_t bytes;

	get_log(&log, sizeof(log), 0);
	seen.generation = log.genctr;
	seen.count = log.numrec;
	bytes = seen.count * sizeof(*seen.entries);
	free(seen.entries);
	seen.entries = malloc(bytes + 1);
	assert_non_null(seen.entries);
	for (size_t at = 0, part; at < bytes; at += part) {
		part = min_u64(bytes - at, NVMF_IO_BYTES_DEFAULT);
		get_log((uint8_t *)seen.entries + at, part, NVME_DISCOVERY_HEADER_BYTES + at);
	}
}

/* Assert that `count` entries have this address and the same port id, and return it. */
static uint16_t port_id(const char *traddr, const char *trsvcid, unsigned int count)
{
	uint16_t id = 0;

	for (size_t i = 0; i < seen.count; i++) {
		const struct nvme_discovery_entry *entry = &seen.entries[i];
		size_t traddr_bytes = strlen(traddr), trsvcid_bytes = strlen(trsvcid);

		if (memcmp(entry->traddr, traddr, traddr_bytes) != 0 || entry->traddr[traddr_bytes] != ' ' ||
		    memcmp(entry->trsvcid, trsvcid, trsvcid_bytes) != 0 || entry->trsvcid[trsvcid_bytes] != ' ')
			continue;
		assert_true(count-- > 0);
		assert_int_not_equal(entry->portid, 0);
		if (id != 0)
			assert_int_equal(entry->portid, id);
		id = entry->portid;
	}
	assert_int_equal(count, 0);
	return id;
}

static void make_subsystem(const char *nqn)
{
	struct nvmf_subsystem_options options;

	nvmf_subsystem_options_init(&options);
	snprintf(options.nqn, sizeof(options.nqn), "%s", nqn);
	options.allow_any_host = true;
	assert_int_equal(rig_create(&options), 0);
}

static void test_an_address_has_one_port_id_in_all_subsystems(void **state)
{
	uint16_t ids[3];

	make_subsystem(RIG_NQN_TWO);
	assert_int_equal(rig_address_op(true, RIG_NQN_TWO, "127.0.0.1", "4421"), 0);
	assert_int_equal(rig_address_op(true, RIG_NQN_TWO, "127.0.0.1", "4420"), 0);
	assert_int_equal(rig_address_op(true, RIG_NQN_TWO, "::1", "4420"), 0);
	read_log();
	assert_int_equal(seen.count, 7); /* each address also has an entry of the discovery subsystem */
	ids[0] = port_id("127.0.0.1", "4420", 3);
	ids[1] = port_id("127.0.0.1", "4421", 2);
	ids[2] = port_id("::1", "4420", 2);
	assert_int_not_equal(ids[0], ids[1]);
	assert_int_not_equal(ids[0], ids[2]);
	assert_int_not_equal(ids[1], ids[2]);
}

static void test_an_address_added_again_has_the_same_port_id(void **state)
{
	uint16_t ids[2];

	assert_int_equal(rig_address_op(true, RIG_NQN, "::1", "4420"), 0);
	read_log();
	ids[0] = port_id("127.0.0.1", "4420", 2);
	ids[1] = port_id("::1", "4420", 2);
	/* nothing is stored of a removed address, so the id is the same after a restart */
	assert_int_equal(rig_address_op(false, RIG_NQN, "127.0.0.1", "4420"), 0);
	assert_int_equal(rig_address_op(false, RIG_NQN, "::1", "4420"), 0);
	make_subsystem(RIG_NQN_TWO);
	assert_int_equal(rig_address_op(true, RIG_NQN_TWO, "127.0.0.1", "4444"), 0);
	assert_int_equal(rig_address_op(true, RIG_NQN_TWO, "0:0::0:1", "4420"), 0);
	assert_int_equal(rig_address_op(true, RIG_NQN_TWO, "127.0.0.1", "4420"), 0);
	read_log();
	assert_int_equal(port_id("127.0.0.1", "4420", 2), ids[0]);
	assert_int_equal(port_id("0:0::0:1", "4420", 2), ids[1]);
}

/* Random addresses: of so many, some hash to the same port id. */
static void test_the_most_addresses_have_different_port_ids(void **state)
{
	static uint8_t used[UINT16_MAX + 1];
	unsigned int count = 1; /* the rig's address */
	char nqn[64], traddr[16];
	uint32_t random = 1;

	for (unsigned int i = 0; count < NVMF_ADDRESSES_MAX; i++) {
		snprintf(nqn, sizeof(nqn), "nqn.2026-01.io.fathom:many%u", i);
		make_subsystem(nqn);
		for (unsigned int j = 0; j < NVMF_LISTENERS_MAX && count < NVMF_ADDRESSES_MAX; j++) {
			random = random * 1664525 + 1013904223;
			snprintf(traddr, sizeof(traddr), "10.%u.%u.%u", random >> 24, random >> 16 & 0xff,
				 random >> 8 & 0xff);
			assert_int_equal(rig_address_op(true, nqn, traddr, "4420"), 0);
			count++;
		}
	}
	assert_int_equal(rig_address_op(true, RIG_NQN, "127.0.0.1", "4421"), -ENOSPC);
	assert_int_equal(rig_address_op(true, RIG_NQN, traddr, "4420"), 0); /* over the limit */
	read_log();
	assert_int_equal(seen.count, 2 * NVMF_ADDRESSES_MAX + 1);
	memset(used, 0, sizeof(used));
	for (size_t i = 0; i < seen.count; i++) {
		if (seen.entries[i].subtype == NVME_SUBTYPE_DISCOVERY_CURRENT)
			assert_int_equal(used[seen.entries[i].portid]++, 0);
	}
	assert_int_equal(used[0], 0);
}

static bool shown(const char *trsvcid)
{
	for (size_t i = 0; i < seen.count; i++) {
		if (memcmp(seen.entries[i].trsvcid, trsvcid, strlen(trsvcid)) == 0)
			return true;
	}
	return false;
}

static void test_an_address_is_listed_while_it_accepts_connections(void **state)
{
	struct rig_op op;
	uint64_t before;

	read_log();
	before = seen.generation;
	rig_listen_hold(true);
	rig_address_begin(true, RIG_NQN, "127.0.0.1", "4421", &op);
	rig_run();
	read_log();
	assert_false(op.done);
	assert_int_equal(seen.generation, before);
	assert_int_equal(seen.count, 2);
	assert_false(shown("4421"));
	rig_listen_hold(false);
	assert_true(op.done && op.rc == 0);
	read_log();
	assert_true(seen.generation > before);
	assert_true(shown("4421"));
	rig_listen_hold(true);
	rig_address_begin(false, RIG_NQN, "127.0.0.1", "4421", &op);
	rig_run();
	read_log();
	before = seen.generation;
	assert_false(op.done);
	assert_false(shown("4421"));
	rig_listen_hold(false);
	assert_true(op.done && op.rc == 0);
	read_log();
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.generation, before);
}

/* The log is read at each step while a listener is removed: one generation has one content. */
static void test_each_change_of_the_log_has_a_new_generation(void **state)
{
	struct nvme_discovery_log log;
	struct rig_op op;

	for (int steps = 0; steps < 40; steps++) {
		struct rig_cmd cmd = rig_log(NVME_LOG_DISCOVERY, &log, sizeof(log), 0);

		assert_int_equal(rig_address_op(true, RIG_NQN, "127.0.0.1", "4421"), 0);
		rig_address_begin(false, RIG_NQN, "127.0.0.1", "4421", &op);
		rig_steps(steps);
		assert_int_equal(rig_exec(conn, &cmd), NVME_SC_SUCCESS);
		assert_true(op.done && op.rc == 0);
		read_log();
		assert_int_equal(seen.count, 2);
		assert_int_equal(log.genctr == seen.generation, log.numrec == seen.count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_an_address_has_one_port_id_in_all_subsystems),
		T(test_an_address_added_again_has_the_same_port_id),
		T(test_an_address_is_listed_while_it_accepts_connections),
		T(test_each_change_of_the_log_has_a_new_generation),
		T(test_the_most_addresses_have_different_port_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
