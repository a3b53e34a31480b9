/* SPDX-License-Identifier: BSD-2-Clause */
/* Network interfaces: from sysfs trees written by hand, and this host's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/network/network.h"
#include "failing.h"
#include "fake.h"

static struct fake fake;

static int begin(void **state)
{
	fake_begin(&fake);
	fake_interface(&fake, "lo", "virtual", "772\n", "unknown\n", "");
	fake_interface(&fake, "eth10", "pci0000:80/0000:81:00.0", "1\n", "up\n", "100000\n");
	fake_interface(&fake, "eth2", "pci0000:00/0000:02:00.0", "1\n", "down\n", "-1\n");
	fake_interface(&fake, "ib0", "pci0000:80/0000:82:00.0", "32\n", "up\n", "200000\n");
	fake_interface(&fake, "tun0", "virtual", "65534\n", "unknown\n", "10\n");
	fake_file(&fake, "/sys/devices/pci0000:80/0000:81:00.0/net/eth10/device/numa_node", "1\n");
	fake_file(&fake, "/sys/devices/pci0000:80/0000:81:00.0/net/eth10/mtu", "9000\n");
	fake_file(&fake, "/sys/devices/pci0000:80/0000:81:00.0/net/eth10/address", "02:fc:00:00:00:01\n");
	fake_file(&fake, "/sys/class/net/bonding_masters", "\n");
	fake_address(&fake, "lo", "127.0.0.1", 8);
	fake_address(&fake, "lo", "::1", 128);
	fake_address(&fake, "eth10", "fe80::1", 64);
	fake_address(&fake, "eth10", "fd00::2", 64);
	fake_address(&fake, "eth10", "10.0.0.7", 24);
	fake_address(&fake, "ib0", "169.254.3.4", 16);
	fake_address(&fake, "ib0", "fd00::3", 64);
	fake_address(&fake, "gone0", "10.0.0.8", 24);
	return 0;
}

static int end(void **state)
{
	fake_end(&fake);
	return 0;
}

static void interfaces_are_listed_with_class_state_speed_and_node(void **state)
{
	const struct network_interface *eth10, *eth2;
	struct network_scan scan;
	struct fault why;

	assert_int_equal(network_scan(&fake.provider, &scan, &why), 0);
	assert_int_equal(scan.count, 5);
	assert_string_equal(scan.interfaces[0].name, "eth2"); /* by number */
	assert_string_equal(scan.interfaces[1].name, "eth10");
	assert_string_equal(scan.interfaces[4].name, "tun0");
	eth10 = network_find(&scan, "eth10");
	assert_int_equal(eth10->class, NETWORK_CLASS_ETHERNET);
	assert_int_equal(eth10->state, NETWORK_STATE_UP);
	assert_int_equal(eth10->speed_mbps, 100000);
	assert_int_equal(eth10->mtu_bytes, 9000);
	assert_int_equal(eth10->numa_node, 1);
	assert_string_equal(eth10->mac, "02:fc:00:00:00:01");
	assert_false(eth10->virtual_device);
	eth2 = network_find(&scan, "eth2");
	assert_int_equal(eth2->state, NETWORK_STATE_DOWN);
	assert_int_equal(eth2->speed_mbps, -1);
	assert_int_equal(eth2->numa_node, -1);
	assert_int_equal(network_find(&scan, "ib0")->class, NETWORK_CLASS_INFINIBAND);
	assert_int_equal(network_find(&scan, "lo")->class, NETWORK_CLASS_LOOPBACK);
	assert_true(network_find(&scan, "lo")->virtual_device);
	assert_int_equal(network_find(&scan, "tun0")->class, NETWORK_CLASS_OTHER);
	assert_null(network_find(&scan, "bonding_masters"));
	network_scan_free(&scan);
}

static void the_first_address_is_one_that_others_can_reach(void **state)
{
	struct network_scan scan;
	struct fault why;

	assert_int_equal(network_scan(&fake.provider, &scan, &why), 0);
	assert_int_equal(network_find(&scan, "eth10")->address_count, 3);
	assert_string_equal(network_first_address(network_find(&scan, "eth10"))->text, "10.0.0.7");
	assert_int_equal(network_first_address(network_find(&scan, "eth10"))->prefix_bits, 24);
	assert_string_equal(network_first_address(network_find(&scan, "ib0"))->text, "fd00::3");
	assert_null(network_first_address(network_find(&scan, "eth2")));
	network_scan_free(&scan);
}

static void addresses_beyond_their_number_are_counted(void **state)
{
	struct network_scan scan;
	struct fault why;

	fake.address_count = 0;
	while (fake.address_count < FAKE_ADDRESSES_MAX)
		fake_address(&fake, "eth2", "10.1.1.1", 16);
	assert_int_equal(network_scan(&fake.provider, &scan, &why), 0);
	assert_int_equal(network_find(&scan, "eth2")->address_count, FAKE_ADDRESSES_MAX);
	network_scan_free(&scan);
}

static void any_failing_call_ends_in_an_answer(void **state)
{
	struct failing failing;
	struct network_scan scan;
	uint32_t refused = 0, rounds = 0;
	struct fault why;

	for (failing_begin(&failing, &fake.provider, -EIO); failing_goes_on(&failing); rounds++) {
		if (network_scan(&failing.provider, &scan, &why) != 0) {
			assert_non_null(strstr(why.text, "Input/output error"));
			refused++;
			continue;
		}
		assert_int_equal(scan.count, 5);
		network_scan_free(&scan);
	}
	assert_int_equal(refused,
			 2 + 2 * 5 + 1); /* the list, and the addresses; and what each is, and a file that is none */
	assert_true(rounds > 20);
}

static void this_hosts_interfaces_are_found(void **state)
{
	struct network_scan scan;
	struct fault why;

	assert_int_equal(network_scan(provider_system(), &scan, &why), 0);
	if (!network_find(&scan, "lo"))
		skip(); /* no loopback interface in this namespace */
	assert_int_equal(network_find(&scan, "lo")->class, NETWORK_CLASS_LOOPBACK);
	network_scan_free(&scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(interfaces_are_listed_with_class_state_speed_and_node, begin, end),
		cmocka_unit_test_setup_teardown(the_first_address_is_one_that_others_can_reach, begin, end),
		cmocka_unit_test_setup_teardown(addresses_beyond_their_number_are_counted, begin, end),
		cmocka_unit_test_setup_teardown(any_failing_call_ends_in_an_answer, begin, end),
		cmocka_unit_test(this_hosts_interfaces_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
