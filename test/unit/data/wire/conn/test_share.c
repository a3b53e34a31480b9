/* SPDX-License-Identifier: BSD-2-Clause */
/* Shares of data memory: each host gets its part whatever the others hold, and no host uses the reserve. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "data/wire/conn/share.h"

enum { UNIT = 16384, FAIR = 2048 * UNIT, MOST = FAIR * SHARE_GROWTH, USERS_MAX = 256 };

struct user {
	struct share_list shares; /* the shares of its connection */
	struct share *share;
};

static struct share_pool pool;
static struct user users[USERS_MAX];
static const char disk_a[1], disk_b[1], disk_c[1];

static int setup(void **state)
{
	share_pool_init(&pool, FAIR, MOST);
	for (int i = 0; i < USERS_MAX; i++) {
		TAILQ_INIT(&users[i].shares);
		users[i].share = NULL;
	}
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < USERS_MAX; i++) {
		struct share *share, *next;

		TAILQ_FOREACH_SAFE (share, &users[i].shares, conn_link, next) {
			if (share->lent_bytes)
				share_give(&pool, share, share->lent_bytes);
			share_drop(&pool, &users[i].shares, share);
		}
	}
	share_pool_deinit(&pool);
	return 0;
}

/* Connection `i` of host `host` uses `disk`. */
static struct share *use(int i, int host, const void *disk)
{
	char nqn[64];

	snprintf(nqn, sizeof(nqn), "nqn.2026-11.org.fathom:host%d", host);
	users[i].share = share_find(&pool, &users[i].shares, nqn, disk, NULL);
	return users[i].share;
}

/* Take as much as possible, `bytes` at a time, without returning it. */
static uint64_t take_all(struct share *share, uint64_t bytes)
{
	while (share_ask(&pool, share, bytes) == SHARE_GRANTED)
		share_take(&pool, share, bytes);
	return share->lent_bytes;
}

static void a_single_host_gets_all_fair_memory(void **state)
{
	assert_int_equal(take_all(use(0, 0, disk_a), UNIT), FAIR);
	assert_int_equal(share_ask(&pool, users[0].share, UNIT), SHARE_FULL);
}

static void each_host_gets_its_part_even_if_others_hold_theirs(void **state)
{
	static char disks[USERS_MAX];

	for (int n = 1; n <= USERS_MAX; n++)
		assert_true(take_all(use(n - 1, n, &disks[n - 1]), UNIT) >= (uint64_t)FAIR / n / UNIT * UNIT);
}

static void more_connections_give_a_host_no_more_memory(void **state)
{
	struct share *quick;

	for (int i = 0; i < 16; i++)
		use(i, 0, disk_a);
	quick = use(16, 1, disk_b);
	for (int i = 0; i < 16; i++)
		assert_int_equal(take_all(users[i].share, UNIT), FAIR / 2 / 16);
	assert_int_equal(take_all(quick, UNIT), FAIR / 2);
}

static void a_hung_disk_leaves_memory_for_other_disks_of_its_host(void **state)
{
	struct share *hung = use(0, 0, disk_a), *well;

	assert_int_equal(take_all(hung, UNIT), FAIR);
	well = use(0, 0, disk_b);
	assert_ptr_not_equal(hung, well);
	assert_int_equal(take_all(well, UNIT), FAIR / 2);
	assert_ptr_equal(use(0, 0, disk_a), hung);
}

/* The most hosts, one after the other, use one disk: the disk never gets more than half. */
static void a_hung_disk_never_uses_the_reserve(void **state)
{
	struct share *share;

	for (int i = 0; i < USERS_MAX - 3; i++) {
		share = use(i, i, disk_a);
		for (int again = 0; again < 8; again++) {
			take_all(share, UNIT);
			if (share->lent_bytes > 0 && share_ask(&pool, share, UNIT) == SHARE_GRANTED)
				fail();
		}
	}
	assert_true(users[0].share->device->lent_bytes <= MOST / 2);
	assert_true(take_all(use(USERS_MAX - 3, 1000, disk_b), UNIT) >= (uint64_t)FAIR / (USERS_MAX - 2) / UNIT * UNIT);
	assert_true(take_all(use(USERS_MAX - 2, 1001, disk_c), UNIT) > 0);
}

/* A host can reconnect under a new name each time, which must not give it more memory. */
static void hosts_with_ever_new_names_leave_memory_to_others(void **state)
{
	static char disks[USERS_MAX];

	for (int i = 0; i < USERS_MAX - 1; i++)
		take_all(use(i, i, i % 2 ? &disks[i] : disk_a), 64 * UNIT);
	assert_true(pool.lent_bytes < MOST);
	assert_int_equal(share_ask(&pool, use(USERS_MAX - 1, 5000, disk_b), 64 * UNIT), SHARE_GRANTED);
}

static void a_request_above_the_limit_is_accepted_alone(void **state)
{
	for (int i = 0; i < 128; i++)
		use(i, i, disk_a);
	assert_true(share_limit(&pool, users[0].share) < 64 * UNIT);
	assert_int_equal(take_all(users[0].share, 64 * UNIT), 64 * UNIT);
	share_give(&pool, users[0].share, 64 * UNIT);
	assert_int_equal(share_ask(&pool, users[0].share, 64 * UNIT), SHARE_GRANTED);
}

static void returned_and_dropped_memory_is_available_to_all(void **state)
{
	uint64_t limit;

	for (int i = 0; i < 4; i++)
		take_all(use(i, i, disk_a), UNIT);
	limit = share_limit(&pool, users[3].share);
	assert_int_equal(limit, FAIR / 4);
	for (int i = 0; i < 3; i++) {
		share_give(&pool, users[i].share, users[i].share->lent_bytes);
		share_drop(&pool, &users[i].shares, users[i].share);
	}
	assert_int_equal(share_limit(&pool, users[3].share), FAIR);
	assert_int_equal(pool.lent_bytes, users[3].share->lent_bytes);
	assert_int_equal(take_all(users[3].share, UNIT), FAIR);
}

static void a_share_expires_only_while_it_is_unused(void **state)
{
	struct share *share = use(0, 0, disk_a);

	share_take(&pool, share, UNIT);
	for (int i = 0; i < 10; i++)
		assert_false(share_grow_old(share));
	share_give(&pool, share, UNIT);
	assert_false(share_grow_old(share));
	share_take(&pool, share, UNIT);
	share_give(&pool, share, UNIT);
	assert_false(share_grow_old(share));
	assert_true(share_grow_old(share));
}

/* Sums must be right, nothing exceeds `most`, and an empty share is refused only if memory is scarce. */
static void sums_are_right_after_random_steps(void **state)
{
	static char disks[5];
	struct random random;

	random_init(&random, 7);
	for (int step = 0; step < 200000; step++) {
		int i = (int)random_below(&random, 40);
		struct share *share = use(i, i % 7, &disks[random_below(&random, ARRAY_COUNT(disks))]), *other;
		uint64_t bytes = (uint64_t)UNIT << random_below(&random, 10), lent = 0;
		enum share_answer answer = share_ask(&pool, share, bytes);

		if (answer == SHARE_GRANTED && random_below(&random, 3))
			share_take(&pool, share, bytes);
		else if (share->lent_bytes)
			share_give(&pool, share, share->lent_bytes);
		else if (random_below(&random, 2) == 0)
			share_drop(&pool, &users[i].shares, share);
		else if (answer == SHARE_FULL)
			fail_msg("an empty share is reported full");
		if (step % 100)
			continue;
		TAILQ_FOREACH (other, &pool.shares, link)
			lent += other->lent_bytes;
		assert_int_equal(lent, pool.lent_bytes);
		assert_true(lent <= MOST);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_single_host_gets_all_fair_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(each_host_gets_its_part_even_if_others_hold_theirs, setup, teardown),
		cmocka_unit_test_setup_teardown(more_connections_give_a_host_no_more_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(a_hung_disk_leaves_memory_for_other_disks_of_its_host, setup, teardown),
		cmocka_unit_test_setup_teardown(a_hung_disk_never_uses_the_reserve, setup, teardown),
		cmocka_unit_test_setup_teardown(hosts_with_ever_new_names_leave_memory_to_others, setup, teardown),
		cmocka_unit_test_setup_teardown(a_request_above_the_limit_is_accepted_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(returned_and_dropped_memory_is_available_to_all, setup, teardown),
		cmocka_unit_test_setup_teardown(a_share_expires_only_while_it_is_unused, setup, teardown),
		cmocka_unit_test_setup_teardown(sums_are_right_after_random_steps, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
