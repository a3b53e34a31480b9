/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits of connections: of an address and in total, and when silent connections get a shorter time-out. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
/* after those */
#include <cmocka.h>

#include "base/clock.h"
#include "data/wire/conn/admission.h"

static struct tcp_admission admission;

static void defaults_follow_the_descriptors(void **state)
{
	tcp_admission_init(&admission, 0, 0, 1000);
	assert_int_equal(admission.connections_max, 1000);
	assert_int_equal(admission.connections_per_address_max, 500);
	tcp_admission_init(&admission, 0, 0, 1 << 20);
	assert_int_equal(admission.connections_max, TCP_CONNECTIONS_MAX_DEFAULT);
	/* configured limits are used unchanged */
	tcp_admission_init(&admission, 5000, 5000, 1000);
	assert_int_equal(admission.connections_max, 5000);
	assert_int_equal(admission.connections_per_address_max, 5000);
	tcp_admission_init(&admission, 0, 0, 0);
	assert_int_equal(admission.connections_max, 1);
	assert_int_equal(admission.connections_per_address_max, 1);
}

static void connections_of_an_address_are_limited(void **state)
{
	struct tcp_peer *greedy[3], *other, *none = NULL;

	tcp_admission_init(&admission, 4, 2, 0);
	assert_int_equal(tcp_admission_enter(&admission, "10.0.0.1", &greedy[0]), 0);
	assert_int_equal(tcp_admission_enter(&admission, "10.0.0.1", &greedy[1]), 0);
	assert_ptr_equal(greedy[0], greedy[1]);
	assert_int_equal(tcp_admission_enter(&admission, "10.0.0.1", &none), -EDQUOT);
	assert_null(none);
	assert_int_equal(tcp_admission_enter(&admission, "fe80::1", &other), 0);
	tcp_admission_leave(&admission, greedy[0]);
	assert_int_equal(tcp_admission_enter(&admission, "10.0.0.1", &greedy[2]), 0);
	tcp_admission_leave(&admission, greedy[1]);
	tcp_admission_leave(&admission, greedy[2]);
	tcp_admission_leave(&admission, other);
	assert_int_equal(admission.connection_count, 0);
}

static void connections_in_total_are_limited(void **state)
{
	struct tcp_peer *peers[TCP_PEER_BUCKETS], *none;
	char address[SOCK_ADDRESS_BYTES_MAX];

	tcp_admission_init(&admission, TCP_PEER_BUCKETS, 0, 0);
	for (int i = 0; i < TCP_PEER_BUCKETS; i++) {
		snprintf(address, sizeof(address), "10.0.%d.%d", i / 256, i % 256);
		assert_int_equal(tcp_admission_enter(&admission, address, &peers[i]), 0);
		assert_string_equal(peers[i]->address, address);
	}
	assert_int_equal(tcp_admission_enter(&admission, "10.0.0.1", &none), -EUSERS);
	for (int i = 0; i < TCP_PEER_BUCKETS; i++)
		tcp_admission_leave(&admission, peers[i]);
	for (int i = 0; i < TCP_PEER_BUCKETS; i++)
		assert_true(LIST_EMPTY(&admission.buckets[i]));
}

static void silent_connections_are_shortened_once_a_second(void **state)
{
	const uint64_t begin = 5 * NS_PER_SEC;
	struct tcp_peer *peer;

	tcp_admission_init(&admission, 4, 1, 0);
	assert_false(tcp_admission_hurries(&admission, "10.0.0.1", true, begin)); /* the address has no connection */
	assert_int_equal(tcp_admission_enter(&admission, "10.0.0.1", &peer), 0);
	assert_true(tcp_admission_hurries(&admission, "10.0.0.1", true, begin));
	assert_false(tcp_admission_hurries(&admission, "10.0.0.1", true, begin + NS_PER_SEC - 1));
	assert_true(tcp_admission_hurries(&admission, "10.0.0.1", true, begin + NS_PER_SEC));
	/* for all connections: counted separately from an address */
	assert_true(tcp_admission_hurries(&admission, "10.0.0.1", false, begin));
	assert_false(tcp_admission_hurries(&admission, "10.0.0.2", false, begin + 1));
	tcp_admission_leave(&admission, peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_follow_the_descriptors),
		cmocka_unit_test(connections_of_an_address_are_limited),
		cmocka_unit_test(connections_in_total_are_limited),
		cmocka_unit_test(silent_connections_are_shortened_once_a_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
