/* SPDX-License-Identifier: BSD-2-Clause */
/* Shares of a bounded resource: users that never return places leave the others theirs, and waiting users take turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "base/reactor/share.h"

enum { CAPACITY = 64, COMMON_MAX = 48, RESERVED = 2, SHARE_MAX = 16, USERS = 8, OPS = 4096 };
static_assert((CAPACITY - COMMON_MAX) / RESERVED == USERS, "as many as have reserved places");

struct user {
	struct op_share share; /* must be the first member */
};

struct test_op {
	struct uring_op op; /* must be the first member */
	struct user *user;
};

static struct op_pool pool;
static struct user users[USERS];
static struct test_op ops[OPS];
static unsigned int op_count;

static int setup(void **state)
{
	op_pool_init(&pool, CAPACITY, COMMON_MAX, RESERVED, SHARE_MAX);
	for (int i = 0; i < USERS; i++)
		op_share_init(&users[i].share);
	op_count = 0;
	return 0;
}

static void push(struct user *user, int count)
{
	for (; count > 0; count--) {
		assert_true(op_count < OPS);
		ops[op_count].user = user;
		op_push(&pool, &user->share, &ops[op_count++].op);
	}
}

/* The user with the next operation that may start; NULL: none. */
static struct user *take(void)
{
	struct uring_op *op = op_take(&pool);

	return op ? container_of(op, struct test_op, op)->user : NULL;
}

static int take_all(void)
{
	int count = 0;

	while (take())
		count++;
	return count;
}

static void a_user_that_returns_nothing_holds_at_most_its_share(void **state)
{
	push(&users[0], 100);
	assert_int_equal(take_all(), SHARE_MAX);
	push(&users[1], 3);
	assert_int_equal(take_all(), 3);
	assert_int_equal(users[1].share.used, 3);
}

static void each_user_has_its_reserved_places_whatever_others_hold(void **state)
{
	for (int i = 0; i < USERS - 1; i++)
		push(&users[i], 100);
	(void)take_all();
	assert_int_equal(pool.common_used, COMMON_MAX);
	push(&users[USERS - 1], 100);
	assert_int_equal(take_all(), RESERVED);
	/* repeatedly, as long as it returns them */
	for (int i = 0; i < 50; i++) {
		op_give_back(&pool, &users[USERS - 1].share);
		assert_ptr_equal(take(), &users[USERS - 1]);
		assert_null(take());
	}
}

static void waiting_users_get_one_place_each_in_turn(void **state)
{
	for (int i = 0; i < USERS; i++)
		push(&users[i], 100);
	(void)take_all();
	/* The first user returns its common places: each goes to the user that has waited longest. */
	for (int i = 0; i < 30; i++) {
		struct user *giver = &users[i % 2], *taker;

		if (giver->share.used <= RESERVED)
			continue;
		op_give_back(&pool, &giver->share);
		taker = take();
		assert_non_null(taker);
		assert_null(take());
	}
	for (int i = 0; i < USERS; i++)
		assert_true(users[i].share.used >= RESERVED);
	/* of six waiting users with equal shares, none has two places more than another */
	for (int i = 2; i < USERS; i++) {
		for (int j = 2; j < USERS; j++)
			assert_in_range(users[i].share.used + 1, users[j].share.used, users[j].share.used + 2);
	}
}

static void a_full_user_continues_with_returned_places(void **state)
{
	push(&users[0], SHARE_MAX + 2);
	assert_int_equal(take_all(), SHARE_MAX);
	op_give_back(&pool, &users[0].share);
	assert_int_equal(take_all(), 1);
	op_give_back(&pool, &users[0].share);
	assert_int_equal(take_all(), 1);
	op_give_back(&pool, &users[0].share);
	assert_int_equal(take_all(), 0);
	assert_int_equal(users[0].share.place, OP_SHARE_IDLE);
}

/* More users than reserved places: they share all places within the limits. */
static void random_steps_keep_the_limits_and_lose_no_operation(void **state)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct random random;
		unsigned int in_hand = 0, pushed = 0;

		(void)setup(state);
		random_init(&random, seed);
		while (pushed < 2000 || pool.waiting > 0 || in_hand > 0) {
			struct user *user = &users[random_below(&random, USERS)];

			if (pushed < 2000 && random_below(&random, 2)) {
				push(user, 1);
				pushed++;
			}
			if (random_below(&random, 2) && take())
				in_hand++;
			if (user->share.used > 0 && random_below(&random, 3) == 0) {
				op_give_back(&pool, &user->share);
				in_hand--;
			}
			assert_int_equal(pool.used, in_hand);
			assert_true(pool.used <= CAPACITY);
			assert_true(pool.common_used <= COMMON_MAX);
			for (int i = 0; i < USERS; i++) {
				assert_true(users[i].share.used <= SHARE_MAX);
				/* a waiting user has its reserved places or may start */
				assert_true(!users[i].share.first || users[i].share.used >= RESERVED ||
					    users[i].share.place == OP_SHARE_READY);
			}
		}
		for (int i = 0; i < USERS; i++)
			op_share_deinit(&users[i].share);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_user_that_returns_nothing_holds_at_most_its_share, setup),
		cmocka_unit_test_setup(each_user_has_its_reserved_places_whatever_others_hold, setup),
		cmocka_unit_test_setup(waiting_users_get_one_place_each_in_turn, setup),
		cmocka_unit_test_setup(a_full_user_continues_with_returned_places, setup),
		cmocka_unit_test_setup(random_steps_keep_the_limits_and_lose_no_operation, setup),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
