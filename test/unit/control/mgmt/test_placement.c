/* SPDX-License-Identifier: BSD-2-Clause */
/* The rule of placement: a table of cases for volumes, and one for pools. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "control/mgmt/placement.h"

#define GIB (1ull << 30)
#define MIB (1ull << 20)

enum { RANKS_MAX = 8 };

/* A rank that has joined, with `room` GiB of 100. */
#define RANK(number, room)                                                                                                 \
	.rank = (number), .domain = "/r0/n0", .is_joined = true, .is_known = true, .room_bytes = (room)*GIB,               \
	.free_bytes = (room)*GIB, .total_bytes = 100 * GIB

struct volume_case {
	const char *what;
	uint64_t bytes;
	struct placement_rank ranks[RANKS_MAX]; /* up to the first with the domain NULL */
	int error;
	uint32_t rank, possible;
	enum placement_reason reason;
};

static const struct volume_case volume_cases[] = {
	{ "no rank", 0, { { 0 } }, -ENOENT, 0, 0, 0 },
	{ "one rank", GIB, { { RANK(4, 50) } }, 0, 4, 1, PLACEMENT_ONLY },
	{ "much more space wins", GIB, { { RANK(0, 50) }, { RANK(1, 90) } }, 0, 1, 2, PLACEMENT_SPACE },
	{ "space within a tenth is equal, and then load decides",
	  GIB,
	  { { RANK(0, 90), .bytes = GIB }, { RANK(1, 81) } },
	  0,
	  1,
	  2,
	  PLACEMENT_LOAD },
	{ "just below a tenth it is not",
	  GIB,
	  { { RANK(0, 90), .bytes = GIB }, { RANK(1, 80) } },
	  0,
	  0,
	  2,
	  PLACEMENT_SPACE },
	{ "operations are load, too",
	  GIB,
	  { { RANK(0, 90), .operations = 8192 }, { RANK(1, 90) } },
	  0,
	  1,
	  2,
	  PLACEMENT_LOAD },
	{ "a little load is none",
	  GIB,
	  { { RANK(0, 90), .bytes = 63 * MIB }, { RANK(1, 90), .volumes = 1 } },
	  0,
	  0,
	  2,
	  PLACEMENT_VOLUMES },
	{ "loads of one class are equal",
	  GIB,
	  { { RANK(0, 90), .bytes = 1900 * MIB, .volumes = 1 }, { RANK(1, 90), .bytes = 1100 * MIB, .volumes = 2 } },
	  0,
	  0,
	  2,
	  PLACEMENT_VOLUMES },
	{ "a load that does not fit a number is the highest",
	  GIB,
	  { { RANK(0, 90), .bytes = UINT64_MAX, .operations = UINT64_MAX }, { RANK(1, 90), .bytes = GIB } },
	  0,
	  1,
	  2,
	  PLACEMENT_LOAD },
	{ "a published volume counts twice",
	  GIB,
	  { { RANK(0, 90), .volumes = 2, .published = 2 }, { RANK(1, 90), .volumes = 3 } },
	  0,
	  1,
	  2,
	  PLACEMENT_VOLUMES },
	{ "then free bytes", GIB, { { RANK(0, 90) }, { RANK(1, 91) } }, 0, 1, 2, PLACEMENT_FREE_BYTES },
	{ "then the number, wherever it stands",
	  GIB,
	  { { RANK(7, 90) }, { RANK(3, 90) }, { RANK(5, 90) } },
	  0,
	  3,
	  3,
	  PLACEMENT_RANK },
	{ "a rank that has not joined is left out",
	  GIB,
	  { { .rank = 0, .domain = "", .room_bytes = 99 * GIB }, { RANK(1, 50) } },
	  0,
	  1,
	  1,
	  PLACEMENT_ONLY },
	{ "a failed one, too", GIB, { { RANK(0, 90), .is_failed = true }, { RANK(1, 50) } }, 0, 1, 1, PLACEMENT_ONLY },
	{ "an excluded one, too", GIB, { { RANK(0, 90), .is_excluded = true }, { RANK(1, 50) } }, 0, 1, 1, PLACEMENT_ONLY },
	{ "all are left out", GIB, { { RANK(0, 90), .is_failed = true } }, -ENOENT, 0, 0, 0 },
	{ "a rank above 95 % is left out, though it has the room",
	  GIB,
	  { { RANK(0, 4) }, { RANK(1, 5), .bytes = GIB } },
	  0,
	  1,
	  1,
	  PLACEMENT_ONLY },
	{ "all are above 95 %", GIB, { { RANK(2, 4) }, { RANK(1, 3) } }, -EDQUOT, 0, 0, 0 },
	{ "an operator may name such a rank", GIB, { { RANK(2, 4), .is_named = true } }, 0, 2, 1, PLACEMENT_ONLY },
	{ "none has the room", 60 * GIB, { { RANK(0, 40) }, { RANK(1, 50) } }, -ENOSPC, 0, 0, 0 },
	{ "without a promise no room is needed", 0, { { RANK(0, 0), .is_named = true } }, 0, 0, 1, PLACEMENT_ONLY },
	{ "a rank without the room is left out",
	  45 * GIB,
	  { { RANK(0, 44) }, { RANK(1, 46), .bytes = GIB } },
	  0,
	  1,
	  1,
	  PLACEMENT_ONLY },
	{ "a rank without figures is left out if another has some",
	  GIB,
	  { { .rank = 0, .domain = "", .is_joined = true }, { RANK(1, 10) } },
	  0,
	  1,
	  1,
	  PLACEMENT_ONLY },
	{ "without any figures the number decides",
	  GIB,
	  { { .rank = 5, .domain = "", .is_joined = true }, { .rank = 2, .domain = "", .is_joined = true } },
	  0,
	  2,
	  2,
	  PLACEMENT_RANK },
};

static uint32_t count_ranks(const struct placement_rank *ranks)
{
	uint32_t count = 0;

	while (count < RANKS_MAX && ranks[count].domain)
		count++;
	return count;
}

/* The result, and the same again with the ranks in the opposite order. */
static void a_volume_is_placed_by_the_rule_in_any_order(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(volume_cases); i++) {
		const struct volume_case *one = &volume_cases[i];
		uint32_t count = count_ranks(one->ranks);

		for (uint32_t is_turned = 0; is_turned < 2; is_turned++) {
			struct placement_rank ranks[RANKS_MAX];
			struct placement placement;

			for (uint32_t j = 0; j < count; j++)
				ranks[is_turned ? count - 1 - j : j] = one->ranks[j];
			print_message("# %s\n", one->what);
			assert_int_equal(placement_choose(ranks, count, one->bytes, &placement), one->error);
			if (one->error)
				continue;
			assert_int_equal(ranks[placement.index].rank, one->rank);
			assert_int_equal(placement.reason, one->reason);
			assert_int_equal(placement.possible, one->possible);
		}
	}
}

static void a_refusal_names_the_ranks(void **state)
{
	struct placement_rank small[] = { { RANK(0, 40) }, { RANK(1, 50) }, { RANK(2, 50) } };
	struct placement_rank full[] = { { RANK(0, 1) }, { RANK(1, 4) }, { RANK(2, 3) } };
	struct placement placement;

	assert_int_equal(placement_choose(small, 3, 60 * GIB, &placement), -ENOSPC);
	assert_int_equal(placement.most_rank, 1);
	assert_int_equal(placement.most_bytes, 50 * GIB);
	assert_int_equal(placement_choose(full, 3, 2 * GIB, &placement), -EDQUOT);
	assert_int_equal(placement.full, 2);
	assert_int_equal(placement.full_rank, 1);
}

/* ---- pools ---- */

/* A rank in a fault domain. */
#define IN(number, room, where)                                                                                            \
	.rank = (number), .domain = (where), .is_joined = true, .is_known = true, .room_bytes = (room)*GIB,                \
	.free_bytes = (room)*GIB, .total_bytes = 100 * GIB

struct pool_case {
	const char *what;
	uint32_t wanted;
	struct placement_rank ranks[RANKS_MAX];
	const char *chosen; /* "0 2 " */
};

static const struct pool_case pool_cases[] = {
	{ "all that are possible",
	  UINT32_MAX,
	  { { IN(0, 50, "/r0/n0") },
	    { IN(1, 50, "/r0/n0"), .is_failed = true },
	    { IN(2, 4, "/r1/n1") },
	    { IN(3, 9, "/r1/n1") } },
	  "0 3 " },
	{ "one rank of each rack, the freer one",
	  2,
	  { { IN(0, 50, "/r0/n0") }, { IN(1, 90, "/r0/n1") }, { IN(2, 30, "/r1/n2") }, { IN(3, 20, "/r1/n3") } },
	  "1 2 " },
	{ "then another host of the rack",
	  3,
	  { { IN(0, 90, "/r0/n0") }, { IN(1, 90, "/r0/n0") }, { IN(2, 50, "/r0/n1") }, { IN(3, 50, "/r1/n2") } },
	  "0 2 3 " },
	{ "a name is not the beginning of another",
	  2,
	  { { IN(0, 90, "/r1/n0") }, { IN(1, 80, "/r1/n1") }, { IN(2, 30, "/r10/n2") } },
	  "0 2 " },
	{ "labels are part of a level",
	  2,
	  { { IN(0, 90, "/rack=0/node=0") }, { IN(1, 80, "/rack=0/node=1") }, { IN(2, 30, "/rack=1/node=2") } },
	  "0 2 " },
	{ "domains of different depth", 2, { { IN(0, 90, "/a") }, { IN(1, 80, "/a/b") }, { IN(2, 30, "/b") } }, "0 2 " },
	{ "equal domains: the freest",
	  2,
	  { { IN(0, 50, "/a") }, { IN(1, 90, "/a") }, { IN(2, 10, "/a") }, { IN(3, 70, "/a") } },
	  "1 3 " },
	{ "equal in all: the lowest numbers",
	  2,
	  { { IN(3, 50, "/a") }, { IN(1, 50, "/a") }, { IN(2, 50, "/a") } },
	  "1 2 " },
	{ "fewer than wanted", 3, { { IN(0, 50, "/a") }, { IN(1, 50, "/a"), .is_excluded = true } }, "0 " },
};

static void a_pool_is_spread_over_fault_domains(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(pool_cases); i++) {
		const struct pool_case *one = &pool_cases[i];
		uint32_t count = count_ranks(one->ranks), chosen;
		struct placement_rank ranks[RANKS_MAX];
		struct placement placement;
		char text[64] = "";
		size_t used = 0;

		print_message("# %s\n", one->what);
		memcpy(ranks, one->ranks, sizeof(ranks));
		chosen = placement_spread(ranks, count, one->wanted, &placement);
		for (uint32_t rank = 0; rank < RANKS_MAX; rank++) {
			for (uint32_t j = 0; j < count; j++) {
				if (ranks[j].is_chosen && ranks[j].rank == rank)
					used += (size_t)snprintf(text + used, sizeof(text) - used, "%u ", rank);
			}
		}
		assert_string_equal(text, one->chosen);
		assert_int_equal(chosen, strlen(one->chosen) / 2);
	}
}

static void a_pool_of_many_ranks_takes_each_domain_equally(void **state)
{
	static const char *const domains[] = { "/r0/n0", "/r0/n1", "/r1/n2", "/r1/n3", "/r2/n4", "/r2/n5" };
	static struct placement_rank ranks[600];
	uint32_t chosen[ARRAY_COUNT(domains)] = { 0 };
	struct placement placement;

	for (uint32_t i = 0; i < ARRAY_COUNT(ranks); i++)
		ranks[i] = (struct placement_rank){ IN(i, 50 + i % 7, domains[i % ARRAY_COUNT(domains)]) };
	assert_int_equal(placement_spread(ranks, ARRAY_COUNT(ranks), 60, &placement), 60);
	assert_int_equal(placement.possible, 600);
	for (uint32_t i = 0; i < ARRAY_COUNT(ranks); i++)
		chosen[i % ARRAY_COUNT(domains)] += ranks[i].is_chosen;
	for (size_t i = 0; i < ARRAY_COUNT(domains); i++)
		assert_int_equal(chosen[i], 10);
}

static void each_reason_has_a_text_that_is_read_again(void **state)
{
	for (uint32_t i = PLACEMENT_UNKNOWN + 1; i < PLACEMENT_REASONS; i++) {
		assert_true(placement_reason_text((enum placement_reason)i)[0]);
		assert_int_equal(placement_reason_parse(placement_reason_text((enum placement_reason)i)), i);
	}
	assert_int_equal(placement_reason_parse("of a later release"), PLACEMENT_UNKNOWN);
	assert_string_equal(placement_reason_text(PLACEMENT_UNKNOWN), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_volume_is_placed_by_the_rule_in_any_order),
		cmocka_unit_test(a_refusal_names_the_ranks),
		cmocka_unit_test(a_pool_is_spread_over_fault_domains),
		cmocka_unit_test(a_pool_of_many_ranks_takes_each_domain_equally),
		cmocka_unit_test(each_reason_has_a_text_that_is_read_again),
	};

	return cmocka_run_group_tests_name("control mgmt placement", tests, NULL, NULL);
}
