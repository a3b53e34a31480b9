/* SPDX-License-Identifier: BSD-2-Clause */
/* Network interfaces: of sysfs trees written by the test, and of this host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/network/network.h"
#include "control/network/port_holder.h"
#include "failing.h"
#include "fake.h"

static struct fake fake;

static int setup(void **state)
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

static int teardown(void **state)
{
	fake_end(&fake);
	return 0;
}

static void interfaces_are_listed_with_class_state_speed_and_node(void **state)
{
	const struct network_interface *eth10, *eth2;
	struct network_scan scan;
	struct fathom_fault why;

	assert_int_equal(network_scan(&fake.provider, &scan, &why), 0);
	assert_int_equal(scan.count, 5);
	assert_string_equal(scan.interfaces[0].name, "eth2"); /* in the order of interface numbers */
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

static void the_first_address_is_reachable_from_other_hosts(void **state)
{
	struct network_scan scan;
	struct fathom_fault why;

	assert_int_equal(network_scan(&fake.provider, &scan, &why), 0);
	assert_int_equal(network_find(&scan, "eth10")->address_count, 3);
	assert_string_equal(network_first_address(network_find(&scan, "eth10"))->text, "10.0.0.7");
	assert_int_equal(network_first_address(network_find(&scan, "eth10"))->prefix_bits, 24);
	assert_string_equal(network_first_address(network_find(&scan, "ib0"))->text, "fd00::3");
	assert_null(network_first_address(network_find(&scan, "eth2")));
	network_scan_free(&scan);
}

static void an_interface_lists_the_maximum_of_addresses(void **state)
{
	struct network_scan scan;
	struct fathom_fault why;

	fake.address_count = 0;
	while (fake.address_count < FAKE_ADDRESSES_MAX)
		fake_address(&fake, "eth2", "10.1.1.1", 16);
	assert_int_equal(network_scan(&fake.provider, &scan, &why), 0);
	assert_int_equal(network_find(&scan, "eth2")->address_count, FAKE_ADDRESSES_MAX);
	network_scan_free(&scan);
}

static void a_failed_call_is_an_error_or_leaves_the_scan_complete(void **state)
{
	struct failing failing;
	struct network_scan scan;
	uint32_t refused = 0, rounds = 0;
	struct fathom_fault why;

	for (failing_begin(&failing, &fake.provider, -EIO); failing_goes_on(&failing); rounds++) {
		if (network_scan(&failing.provider, &scan, &why) != 0) {
			assert_non_null(strstr(why.text, "Input/output error"));
			refused++;
			continue;
		}
		assert_int_equal(scan.count, 5);
		network_scan_free(&scan);
	}
	/* the lists of interfaces and addresses, two files for each interface, and a file that is not an interface */
	assert_int_equal(refused, 2 + 2 * 5 + 1);
	assert_true(rounds > 20);
}

/* ---- the process that has a port ---- */

#define TCP_TITLE "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
#define TCP_ROW(local, peer, state, inode)                                                                                 \
	"   0: " local " " peer " " state " 00000000:00000000 00:00000000 00000000     0        0 " inode                  \
	" 1 0000000000000000 100 0 0 10 0\n"

/* The holder of 127.0.0.1:10001, for these tables. They have addresses in the byte order of x86. */
static const char *holder_of(const char *four, const char *six)
{
	static char text[PORT_HOLDER_TEXT_BYTES];
	struct sockaddr_storage address = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&address;

	v4->sin_family = AF_INET;
	v4->sin_port = htons(10001);
	v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fake_file(&fake, "/proc/net/tcp", four);
	fake_file(&fake, "/proc/net/tcp6", six);
	port_holder_describe(&fake.provider, &address, text);
	return text;
}

static void the_holder_of_a_port_is_named(void **state)
{
	static const char none[] = TCP_TITLE TCP_ROW("0100007F:2712", "00000000:0000", "0A", "1")
		TCP_ROW("0200007F:2711", "00000000:0000", "0A", "2");

	fake_file(&fake, "/proc/self/comm", "not a number");
	fake_file(&fake, "/proc/77/comm", "ngi\x1bnx\n");
	fake_link(&fake, "/proc/77/fd/3", "socket:[4]");
	fake_link(&fake, "/proc/77/fd/4", "socket:[40]");
	assert_string_equal(holder_of(none, TCP_TITLE), "the port is taken, by what is not known");
	assert_string_equal(holder_of(TCP_TITLE TCP_ROW("0100007F:2711", "0100007F:1F90", "06", "0"), TCP_TITLE),
			    "a connection that was closed keeps the port for up to a minute (TIME_WAIT)");
	assert_string_equal(holder_of(TCP_TITLE TCP_ROW("0100007F:2711", "0100007F:1F90", "06", "0")
					      TCP_ROW("0100007F:2711", "0100007F:1F91", "01", "40"),
				      TCP_TITLE),
			    "process 77 (ngi?nx) has a connection from there to another's port 8081");
	/* a listener is preferred to a connection, also at the wildcard address; IPv6's wildcard also takes IPv4's ports */
	assert_string_equal(holder_of(TCP_TITLE TCP_ROW("0100007F:2711", "0100007F:1F91", "01", "4")
					      TCP_ROW("00000000:2711", "00000000:0000", "0A", "40"),
				      TCP_TITLE),
			    "process 77 (ngi?nx) listens there");
	assert_string_equal(holder_of(none, TCP_TITLE TCP_ROW("00000000000000000000000000000000:2711",
							      "00000000000000000000000000000000:0000", "0A", "41")),
			    "a process that this user may not see listens there");
	assert_string_equal(holder_of(none, TCP_TITLE TCP_ROW("00000000000000000000000001000000:2711",
							      "00000000000000000000000000000000:0000", "0A", "40")),
			    "the port is taken, by what is not known");
}

static void a_port_of_this_process_names_it(void **state)
{
	struct sockaddr_storage address = { .ss_family = AF_INET };
	char text[PORT_HOLDER_TEXT_BYTES], wanted[64];
	socklen_t bytes = sizeof(struct sockaddr_in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	port_holder_describe(provider_system(), &address, text);
	snprintf(wanted, sizeof(wanted), "process %d (", getpid());
	assert_memory_equal(text, wanted, strlen(wanted));
	assert_non_null(strstr(text, ") listens there"));
	close(fd);
}

static void the_loopback_interface_of_this_host_is_found(void **state)
{
	struct network_scan scan;
	struct fathom_fault why;

	assert_int_equal(network_scan(provider_system(), &scan, &why), 0);
	if (!network_find(&scan, "lo"))
		skip(); /* no loopback interface in this namespace */
	assert_int_equal(network_find(&scan, "lo")->class, NETWORK_CLASS_LOOPBACK);
	network_scan_free(&scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(interfaces_are_listed_with_class_state_speed_and_node, setup, teardown),
		cmocka_unit_test_setup_teardown(the_first_address_is_reachable_from_other_hosts, setup, teardown),
		cmocka_unit_test_setup_teardown(an_interface_lists_the_maximum_of_addresses, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_call_is_an_error_or_leaves_the_scan_complete, setup, teardown),
		cmocka_unit_test_setup_teardown(the_holder_of_a_port_is_named, setup, teardown),
		cmocka_unit_test(a_port_of_this_process_names_it),
		cmocka_unit_test(the_loopback_interface_of_this_host_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
