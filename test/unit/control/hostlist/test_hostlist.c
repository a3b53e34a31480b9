/* SPDX-License-Identifier: BSD-2-Clause */
/* Host lists and rank sets: the grammar, errors with their column, and folding. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "control/fault/fault.h"
#include "control/hostlist/hostlist.h"
#include "control/hostlist/rankset.h"
#include "failing.h"

static struct host_set *parse(const char *text)
{
	struct fathom_fault why = { 0 };
	struct host_set *set = NULL;

	if (host_set_parse(text, &set, &why) < 0)
		fail_msg("%s: %s", text, why.text);
	return set;
}

static void assert_unfolds(const char *text, const char *expected)
{
	struct host_set *set = parse(text);
	char *all = strdup("");

	for (size_t i = 0; i < host_set_count(set); i++) {
		char *more;

		assert_true(asprintf(&more, "%s%s%s", all, i ? " " : "", host_set_at(set, i)) > 0);
		free(all);
		all = more;
	}
	assert_string_equal(all, expected);
	free(all);
	host_set_destroy(set);
}

static void assert_folds(const char *text, const char *expected)
{
	struct host_set *set = parse(text);
	char *folded = NULL;

	assert_int_equal(host_set_fold(set, &folded), 0);
	assert_string_equal(folded, expected);
	free(folded);
	host_set_destroy(set);
}

static void brackets_expand_to_hosts(void **state)
{
	assert_unfolds("node[1-3,7]", "node1 node2 node3 node7");
	assert_unfolds("node[008-011]:10001", "node008:10001 node009:10001 node010:10001 node011:10001");
	assert_unfolds("a[1-2]-b[1-2].ib", "a1-b1.ib a1-b2.ib a2-b1.ib a2-b2.ib");
	assert_unfolds("b2,a10\ta9  a9", "a9 a10 b2");
	assert_unfolds("10.0.0.[1-3]:10001", "10.0.0.1:10001 10.0.0.2:10001 10.0.0.3:10001");
	assert_unfolds("n[1,01,001]", "n001 n01 n1");
	assert_unfolds("", "");
	assert_unfolds(" ,, ", "");
}

static void ipv6_addresses_have_one_form(void **state)
{
	assert_unfolds("[::1]:10001,::1,[0:0::1]", "[::1] [::1]:10001");
	assert_unfolds("2001:DB8:0::a", "[2001:db8::a]");
	assert_folds("[fe80::2]:1,[fe80::1]:1,node1", "[fe80::1]:1,[fe80::2]:1,node1");
}

static void hosts_fold_to_the_shortest_list(void **state)
{
	assert_folds("node1:10001,node2:10001,node3:10001,node133:10001", "node[1-3,133]:10001");
	assert_folds("host1:10001 host2:10001 host3:10002", "host[1-2]:10001,host3:10002");
	assert_folds("n008,n009,n010,n099,n100", "n[008-010,099-100]");
	assert_folds("n9,n09,n10", "n[9,09-10]");
	assert_folds("rack[0-1]node[0-3]", "rack[0-1]node[0-3]");
	assert_folds("rack0node[0-3],rack1node[0-2]", "rack0node[0-3],rack1node[0-2]");
	assert_folds("127.0.0.1", "127.0.0.1");
	assert_folds("10.0.0.1,10.0.0.2", "10.0.0.[1-2]");
	assert_folds("alone", "alone");
}

static void an_error_names_its_column_and_reason(void **state)
{
	static const struct {
		const char *text;
		uint32_t column;
		const char *reason;
	} cases[] = {
		{ "node[1-", 5, "not closed" },
		{ "node[3-1]", 8, "runs down" },
		{ "node[1-99999]", 8, "too long" },
		{ "node[]", 6, "a number" },
		{ "node[1,]", 8, "a number" },
		{ "node[1;2]", 7, "a comma" },
		{ "ok,no!de", 6, "no host's name" },
		{ "node:0", 6, "a port" },
		{ "node:65536", 6, "a port" },
		{ "node:010", 6, "a port" },
		{ "node:1x", 6, "a port" },
		{ "[1-3]", 2, "no IPv6" },
		{ "[::1]10", 6, "a colon" },
		{ ":10001", 1, "before the port" },
		{ "256.0.0.1", 9, "neither" },
		{ "12", 2, "neither" },
		{ "-a", 2, "begins and ends" },
		{ "a[[1]]", 3, "a number" },
		{ "node[0-16384]x[0-9]", 19, "too many" },
		{ "a[1]b]", 6, "no host's name" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		struct host_set *set = NULL;
		struct fathom_fault why = { 0 };
		char column[32];

		snprintf(column, sizeof(column), "column %u: ", cases[i].column);
		assert_int_equal(host_set_parse(cases[i].text, &set, &why), -EINVAL);
		assert_null(set);
		assert_int_equal(why.code, FAULT_HOST_LIST_BAD);
		if (!strstr(why.text, cases[i].reason) ||
		    (strcmp(cases[i].reason, "too many") && !strstr(why.text, column)))
			fail_msg("%s: %s", cases[i].text, why.text);
	}
}

static void names_over_the_limits_are_refused(void **state)
{
	char text[400];
	struct host_set *set = NULL;

	memset(text, 'a', sizeof(text));
	text[253] = '\0';
	set = parse(text);
	host_set_destroy(set);
	text[253] = 'a';
	text[254] = '\0';
	assert_int_equal(host_set_parse(text, &set, NULL), -EINVAL);
	assert_int_equal(host_set_parse("a[1]b[1]c[1]d[1]e[1]f[1]g[1]h[1]i[1]", &set, NULL), -EINVAL);
}

static void union_intersection_and_difference_of_sets(void **state)
{
	struct host_set *a = parse("n[1-5]"), *b = parse("n[4-8]"), *c;
	static const char *const expected[] = { "n[1-8]", "n[4-5]", "n[1-3]" };

	for (enum host_set_operation operation = HOST_SET_UNION; operation <= HOST_SET_DIFFERENCE; operation++) {
		char *text;

		assert_int_equal(host_set_combine(a, b, operation, &c), 0);
		assert_int_equal(host_set_fold(c, &text), 0);
		assert_string_equal(text, expected[operation]);
		assert_int_equal(host_set_is_within(c, a), operation != HOST_SET_UNION);
		assert_true(operation != HOST_SET_UNION || (host_set_is_within(a, c) && host_set_is_within(b, c)));
		free(text);
		host_set_destroy(c);
	}
	assert_true(host_set_has(a, "n5"));
	assert_false(host_set_has(a, "n05"));
	assert_int_equal(host_set_add(a, "m[1-2]", NULL), 0);
	assert_int_equal(host_set_count(a), 7);
	assert_int_equal(host_set_add(a, "m[1-", NULL), -EINVAL);
	assert_int_equal(host_set_count(a), 7);
	host_set_destroy(a);
	host_set_destroy(b);
	host_set_destroy(NULL);
}

static void a_host_splits_into_address_and_port(void **state)
{
	struct host_address address;

	host_address("node1", 10001, &address);
	assert_string_equal(address.host, "node1");
	assert_int_equal(address.port, 10001);
	host_address("10.0.0.1:99", 10001, &address);
	assert_string_equal(address.host, "10.0.0.1");
	assert_int_equal(address.port, 99);
	assert_false(address.is_ipv6);
	host_address("[fe80::1]:99", 10001, &address);
	assert_string_equal(address.host, "fe80::1");
	assert_int_equal(address.port, 99);
	assert_true(address.is_ipv6);
	host_address("[fe80::1]", 10001, &address);
	assert_int_equal(address.port, 10001);
}

static void random_name(struct random *random, char *name, size_t bytes)
{
	static const char *const letters[] = { "n", "rack", "a-b", "x.y", "node_" };
	size_t used = 0;

	for (uint64_t parts = 1 + random_below(random, 3); parts > 0; parts--) {
		int width = (int)random_below(random, 4);

		used += (size_t)snprintf(name + used, bytes - used, "%s%0*u",
					 letters[random_below(random, ARRAY_COUNT(letters))], width,
					 (unsigned int)random_below(random, width ? 30 : 13));
	}
	if (random_below(random, 3) == 0)
		used += (size_t)snprintf(name + used, bytes - used, ".ib");
	if (random_below(random, 2) == 0)
		snprintf(name + used, bytes - used, ":%u", (unsigned int)(1 + random_below(random, 3)));
}

/* unfold(fold(x)) == x, and equal sets fold to equal text. */
static void folding_and_unfolding_gives_the_same_set(void **state)
{
	struct random random;

	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct host_set *set = host_set_create(), *again;
		char *folded, *twice, name[128];

		random_init(&random, seed);
		for (uint64_t count = random_below(&random, 200); count > 0; count--) {
			random_name(&random, name, sizeof(name));
			assert_int_equal(host_set_add(set, name, NULL), 0);
		}
		assert_int_equal(host_set_fold(set, &folded), 0);
		again = parse(folded);
		assert_int_equal(host_set_count(again), host_set_count(set));
		assert_true(host_set_is_within(set, again));
		assert_int_equal(host_set_fold(again, &twice), 0);
		assert_string_equal(twice, folded);
		free(folded);
		free(twice);
		host_set_destroy(set);
		host_set_destroy(again);
	}
}

static void a_set_has_at_most_65536_hosts(void **state)
{
	struct host_set *set = parse("r[0-15]n[0-4095]");
	char *text;

	assert_int_equal(host_set_count(set), HOSTS_MAX);
	assert_int_equal(host_set_fold(set, &text), 0);
	assert_string_equal(text, "r[0-15]n[0-4095]");
	free(text);
	assert_int_equal(host_set_add(set, "s", NULL), -ERANGE);
	assert_int_equal(host_set_count(set), HOSTS_MAX);
	host_set_destroy(set);
}

static void ranks_fold_and_unfold(void **state)
{
	static const struct {
		const char *text, *folded, *bracketed;
	} cases[] = {
		{ "", "", "" },
		{ "0", "0", "0" },
		{ "[0-3,7]", "0-3,7", "[0-3,7]" },
		{ "7,3,2,1,0", "0-3,7", "[0-3,7]" },
		{ "1,3,5,3", "1,3,5", "[1,3,5]" },
		{ "[]", "", "" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		struct rank_set set = { 0 };
		char *text;

		assert_int_equal(rank_set_parse(cases[i].text, &set, NULL), 0);
		assert_int_equal(rank_set_fold(&set, false, &text), 0);
		assert_string_equal(text, cases[i].folded);
		free(text);
		assert_int_equal(rank_set_fold(&set, true, &text), 0);
		assert_string_equal(text, cases[i].bracketed);
		free(text);
		rank_set_deinit(&set);
	}
}

static void a_wrong_rank_set_is_refused_with_its_column(void **state)
{
	static const char *const wrong[] = { "1,", "[1",  "1]",	      "a",	    "3-1", "1-",
					     "-1", "1 2", "16777217", "0-99999999", ",1",  "[[1]]" };

	for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
		struct rank_set set = { 0 };
		struct fathom_fault why = { 0 };

		if (rank_set_parse(wrong[i], &set, &why) != -EINVAL)
			fail_msg("\"%s\" was accepted", wrong[i]);
		assert_int_equal(why.code, FAULT_RANK_LIST_BAD);
		assert_non_null(strstr(why.text, "at column "));
		assert_null(set.ranks);
	}
}

static void rank_sets_equal_a_bitmap_after_random_steps(void **state)
{
	enum { RANKS = 200 };
	bool bits[RANKS] = { false };
	struct rank_set set = { 0 }, again = { 0 };
	struct random random;
	char *text;

	random_init(&random, 7);
	for (int step = 0; step < 20000; step++) {
		uint32_t rank = (uint32_t)random_below(&random, RANKS);

		bits[rank] = random_below(&random, 2);
		if (bits[rank])
			assert_int_equal(rank_set_add(&set, rank), 0);
		else
			rank_set_remove(&set, rank);
		assert_int_equal(rank_set_has(&set, rank), bits[rank]);
	}
	assert_int_equal(rank_set_fold(&set, true, &text), 0);
	assert_int_equal(rank_set_parse(text, &again, NULL), 0);
	for (uint32_t rank = 0; rank < RANKS; rank++)
		assert_int_equal(rank_set_has(&again, rank), bits[rank]);
	free(text);
	rank_set_deinit(&set);
	rank_set_deinit(&again);
}

static int parse_and_fold(void)
{
	struct host_set *set = NULL;
	struct rank_set ranks = { 0 };
	char *text = NULL;
	int error = host_set_parse("a[1-20]b[1-2],[::1]:5", &set, NULL);

	if (!error)
		error = host_set_add(set, "c[1-3]", NULL);
	if (!error)
		error = host_set_fold(set, &text);
	host_set_destroy(set);
	free(text);
	text = NULL;
	if (!error)
		error = rank_set_parse("0-40,50", &ranks, NULL);
	if (!error)
		error = rank_set_fold(&ranks, false, &text);
	rank_set_deinit(&ranks);
	free(text);
	return error;
}

static void a_failed_allocation_is_an_error_and_leaks_nothing(void **state)
{
	bool failed = true;

	for (uint32_t n = 1; failed; n++) {
		int error;

		failing_begin(n);
		error = parse_and_fold();
		failed = failing_end();
		assert_int_equal(error, failed ? -ENOMEM : 0);
		assert_int_equal(failing_held(), 0);
		assert_true(!failed || n < 10000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(brackets_expand_to_hosts),
		cmocka_unit_test(ipv6_addresses_have_one_form),
		cmocka_unit_test(hosts_fold_to_the_shortest_list),
		cmocka_unit_test(an_error_names_its_column_and_reason),
		cmocka_unit_test(names_over_the_limits_are_refused),
		cmocka_unit_test(union_intersection_and_difference_of_sets),
		cmocka_unit_test(a_host_splits_into_address_and_port),
		cmocka_unit_test(folding_and_unfolding_gives_the_same_set),
		cmocka_unit_test(a_set_has_at_most_65536_hosts),
		cmocka_unit_test(ranks_fold_and_unfold),
		cmocka_unit_test(a_wrong_rank_set_is_refused_with_its_column),
		cmocka_unit_test(rank_sets_equal_a_bitmap_after_random_steps),
		cmocka_unit_test(a_failed_allocation_is_an_error_and_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
