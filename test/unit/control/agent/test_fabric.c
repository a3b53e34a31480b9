/* SPDX-License-Identifier: BSD-2-Clause */
/* The choice of a network interface for a client process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* after those */
#include <cmocka.h>

#include "control/agent/fabric.h"
#include "fake.h"

static struct network_interface interfaces[8];
static struct network_scan scan = { interfaces, 0 };
static struct agent_config config;
static struct fabric fabric;

static void add(const char *name, enum network_class class, int node, bool has_address)
{
	struct network_interface *interface = &interfaces[scan.count++];

	*interface = (struct network_interface){ .class = class, .state = NETWORK_STATE_UP, .numa_node = node };
	snprintf(interface->name, sizeof(interface->name), "%s", name);
	interface->address_count = has_address;
	interface->addresses[0] = (struct network_address){ .family = 2, .text = "10.0.0.1" };
}

static int begin(void **state)
{
	scan.count = 0;
	config = (struct agent_config){ 0 };
	fabric = (struct fabric){ 0 };
	add("lo", NETWORK_CLASS_LOOPBACK, -1, true);
	add("eth0", NETWORK_CLASS_ETHERNET, 0, true);
	add("eth1", NETWORK_CLASS_ETHERNET, 1, true);
	add("eth2", NETWORK_CLASS_ETHERNET, 1, true);
	add("eth3", NETWORK_CLASS_ETHERNET, 0, false);
	add("ib0", NETWORK_CLASS_INFINIBAND, 1, true);
	fabric_fill(&fabric, &config, &scan);
	return 0;
}

static const char *choose(int node, enum network_class class)
{
	const struct fabric_interface *chosen = fabric_choose(&fabric, node, class);

	return chosen ? chosen->name : "none";
}

static void a_process_gets_interfaces_of_its_node_in_turn(void **state)
{
	for (int i = 0; i < 2; i++) {
		assert_string_equal(choose(1, NETWORK_CLASS_ETHERNET), "eth1");
		assert_string_equal(choose(1, NETWORK_CLASS_ETHERNET), "eth2");
		assert_string_equal(choose(0, NETWORK_CLASS_ETHERNET), "eth0");
	}
}

static void without_one_there_it_gets_those_of_other_nodes_in_turn(void **state)
{
	assert_string_equal(choose(3, NETWORK_CLASS_ETHERNET), "eth0");
	assert_string_equal(choose(3, NETWORK_CLASS_ETHERNET), "eth1");
	assert_string_equal(choose(-1, NETWORK_CLASS_ETHERNET), "eth2");
	assert_string_equal(choose(0, NETWORK_CLASS_INFINIBAND), "ib0");
}

static void the_class_of_the_servers_decides(void **state)
{
	assert_string_equal(choose(1, NETWORK_CLASS_LOOPBACK), "lo");
	assert_string_equal(choose(1, NETWORK_CLASS_INFINIBAND), "ib0");
	assert_string_equal(choose(0, NETWORK_CLASSES), "eth0"); /* any, but the loopback interface last */
	scan.count = 1;
	fabric_fill(&fabric, &config, &scan);
	assert_string_equal(choose(0, NETWORK_CLASSES), "lo");
	assert_string_equal(choose(0, NETWORK_CLASS_ETHERNET), "none");
}

static void the_configuration_includes_and_excludes(void **state)
{
	char *names[] = { (char *)"eth0", (char *)"eth1" };

	config.exclude_fabric_ifaces = (struct config_strings){ names, 2 };
	fabric_fill(&fabric, &config, &scan);
	assert_string_equal(choose(0, NETWORK_CLASS_ETHERNET), "eth2");
	config.include_fabric_ifaces = (struct config_strings){ names, 1 };
	fabric_fill(&fabric, &config, &scan);
	assert_string_equal(choose(1, NETWORK_CLASS_ETHERNET), "eth0");
}

static void configured_interfaces_replace_those_of_the_host(void **state)
{
	struct agent_fabric_device device = { (char *)"bond7", (char *)"domain7" };
	struct agent_fabric_node node = { .numa_node = 1, .devices = { &device, 1 } };

	config.fabric_ifaces = (struct config_list){ &node, 1 };
	fabric_fill(&fabric, &config, &scan);
	assert_int_equal(fabric.count, 1);
	assert_string_equal(choose(0, NETWORK_CLASS_INFINIBAND), "bond7");
	assert_string_equal(fabric_choose(&fabric, 1, NETWORK_CLASSES)->domain, "domain7");
}

static void the_node_of_a_process_is_that_of_its_processor(void **state)
{
	struct fake fake;

	fake_begin(&fake);
	fake_file(&fake, "/proc/7/stat",
		  "7 (a) b (c) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 5 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 12 0 0 0 0 "
		  "0\n");
	fake_folder(&fake, "/sys/devices/system/cpu/cpu12/node3");
	fake_folder(&fake, "/sys/devices/system/cpu/cpu12/topology");
	assert_int_equal(fabric_node_of(&fake.provider, 7), 3);
	assert_int_equal(fabric_node_of(&fake.provider, 8), -1);
	assert_int_equal(fabric_node_of(&fake.provider, 0), -1);
	fake_file(&fake, "/proc/9/stat", "9 (x) S 1\n");
	assert_int_equal(fabric_node_of(&fake.provider, 9), -1);
	fake_end(&fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_process_gets_interfaces_of_its_node_in_turn, begin),
		cmocka_unit_test_setup(without_one_there_it_gets_those_of_other_nodes_in_turn, begin),
		cmocka_unit_test_setup(the_class_of_the_servers_decides, begin),
		cmocka_unit_test_setup(the_configuration_includes_and_excludes, begin),
		cmocka_unit_test_setup(configured_interfaces_replace_those_of_the_host, begin),
		cmocka_unit_test_setup(the_node_of_a_process_is_that_of_its_processor, begin),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
