/* SPDX-License-Identifier: BSD-2-Clause */
/* The system: joins, reports, exclusion, attributes, fault domains, and each pair of states. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/system/probes.gen.h"
#include "control/system/system.h"
#include "failing.h"

static const char *const uuids[] = {
	"950fc86b-a987-4a2b-bde9-cd728548bb25",
	"0b0f021e-718f-410f-98f7-f3011f7f2e3c",
	"19178836-c38e-4ddf-b025-3b3dcdb666f1",
};

static struct join_request request_of(size_t host)
{
	static const struct member_fabric fabrics[] = {
		{ "ofi+tcp://10.0.0.1:20000", 5 },
		{ "ofi+tcp://10.0.0.2:20000", 5 },
		{ "ofi+tcp://10.0.0.3:20000", 5 },
	};
	static const char *const addresses[] = { "10.0.0.1:10001", "10.0.0.2:10001", "10.0.0.3:10001" };
	static const char *const domains[] = { "/rack0/node0", "/rack0/node1", "/rack1/node0" };

	return (struct join_request){
		.uuid = uuids[host],
		.rank = RANK_NONE,
		.incarnation = 100,
		.address = addresses[host],
		.domain = domains[host],
		.fabrics = &fabrics[host],
		.fabric_count = 1,
	};
}

static void apply(struct system *system, const struct system_change *change)
{
	assert_int_equal(system_apply(system, change, 2), 0);
}

/* Join, and return the rank. */
static uint32_t join(struct system *system, const struct join_request *request)
{
	struct system_change change;
	struct fathom_fault why = { 0 };

	if (system_join(system, request, 7, &change, &why) < 0)
		fail_msg("%s", why.text);
	apply(system, &change);
	return change.member.rank;
}

static void assert_join_refused(const struct system *system, const struct join_request *request, int code)
{
	struct system_change change = { .version = 4711 };
	struct fathom_fault why = { 0 };
	int error = system_join(system, request, 7, &change, &why);

	if (error >= 0 || why.code != code)
		fail_msg("%d: %d %s", error, why.code, why.text);
	assert_int_equal(change.version, 4711);
}

static void report(struct system *system, uint32_t rank, enum member_state to)
{
	struct system_change change;
	struct fathom_fault why = { 0 };

	assert_int_equal(system_report(system, &(struct member_report){ rank, 0, to, "so", 8 }, &change, &why), 0);
	apply(system, &change);
}

/* The table of DAOS: reports do not make these changes. */
static void legal_state_changes_equal_those_of_daos(void **state)
{
	static const char *const illegal[MEMBER_STATES] = {
		[MEMBER_AWAIT_FORMAT] = "Excluded",
		[MEMBER_STARTING] = "Excluded",
		[MEMBER_READY] = "Excluded",
		[MEMBER_JOINED] = "Ready",
		[MEMBER_STOPPING] = "",
		[MEMBER_STOPPED] = "",
		[MEMBER_EXCLUDED] = "Errored Stopping Stopped Starting Ready Unresponsive",
		[MEMBER_ERRORED] = "Ready Joined Stopping",
		[MEMBER_UNRESPONSIVE] = "Ready Joined Stopping",
		[MEMBER_CHECKER_STARTED] = "Ready Joined",
	};
	size_t legal = 0;

	for (enum member_state from = MEMBER_UNKNOWN; from < MEMBER_STATES; from++) {
		for (enum member_state to = MEMBER_UNKNOWN; to < MEMBER_STATES; to++) {
			char words[128], word[32];
			bool expected;

			snprintf(words, sizeof(words), " %s ", illegal[from] ? illegal[from] : "");
			snprintf(word, sizeof(word), " %s ", member_state_title(to));
			expected = from != to && to != MEMBER_UNKNOWN && from != MEMBER_UNKNOWN &&
				   from != MEMBER_ADMIN_EXCLUDED && !strstr(words, word);
			if (member_may_report(from, to) != expected)
				fail_msg("%s to %s differs from DAOS", member_state_title(from), member_state_title(to));
			/* the generated state machine must allow each legal change */
			assert_true(!expected || (member_state_may_move[from] >> to & 1));
			legal += expected;
		}
	}
	assert_int_equal(legal, 10 * 11 - 10 - 18);
}

static void a_report_changes_the_state_only_if_the_table_allows_it(void **state)
{
	for (enum member_state from = MEMBER_AWAIT_FORMAT; from < MEMBER_STATES; from++) {
		for (enum member_state to = MEMBER_AWAIT_FORMAT; to < MEMBER_STATES; to++) {
			struct system *system = system_create();
			struct join_request request = request_of(0);
			struct system_change change, begin;
			struct fathom_fault why = { 0 };
			int error;

			assert_int_equal(system_join(system, &request, 1, &begin, NULL), 0);
			begin.member.state = from;
			apply(system, &begin);
			error = system_report(system, &(struct member_report){ 1, 0, to, "", 2 }, &change, &why);
			if (from == to) {
				assert_int_equal(error, -EALREADY);
				assert_int_equal(why.code, 0);
			} else if (member_may_report(from, to)) {
				assert_int_equal(error, 0);
				apply(system, &change);
				assert_int_equal(system_member_at(system, 0)->state, to);
				assert_int_equal(system_map_version(system) - begin.map_version,
						 !!(member_state_bit(from) & MEMBER_OUT_BITS) !=
							 !!(member_state_bit(to) & MEMBER_OUT_BITS));
			} else {
				assert_int_equal(error, -EPERM);
				assert_int_equal(why.code, FAULT_STATE_CHANGE);
				assert_non_null(strstr(why.text, member_state_title(from)));
			}
			system_destroy(system);
		}
	}
}

/* "killed by signal 9" is outdated if the engine then cannot start because its storage is damaged. */
static void a_report_with_another_reason_updates_a_down_member(void **state)
{
	for (enum member_state is = MEMBER_AWAIT_FORMAT; is < MEMBER_STATES; is++) {
		bool is_down = is == MEMBER_ERRORED || is == MEMBER_AWAIT_FORMAT || is == MEMBER_UNRESPONSIVE;
		struct system *system = system_create();
		struct join_request request = request_of(0);
		struct member_report report = { 1, 0, is, "one reason", 2 };
		struct system_change change, begin;
		char longer[2 * MEMBER_INFO_BYTES] = { 0 };

		assert_int_equal(system_join(system, &request, 1, &begin, NULL), 0);
		begin.member.state = is;
		snprintf(begin.member.info, sizeof(begin.member.info), "one reason");
		apply(system, &begin);
		assert_int_equal(system_report(system, &report, &change, NULL), -EALREADY);
		report.info = "";
		assert_int_equal(system_report(system, &report, &change, NULL), -EALREADY);
		memset(longer, 'x', sizeof(longer) - 1);
		report.info = longer;
		assert_int_equal(system_report(system, &report, &change, NULL), is_down ? 0 : -EALREADY);
		if (is_down) {
			apply(system, &change);
			assert_int_equal(strlen(system_member_at(system, 0)->info), MEMBER_INFO_BYTES - 1);
			assert_int_equal(system_report(system, &report, &change, NULL), -EALREADY);
		}
		assert_int_equal(system_map_version(system), begin.map_version);
		system_destroy(system);
	}
}

/* With the joined incarnation a serving rank becomes Joined from some states, with another one from none. */
static void a_report_of_a_serving_rank_makes_it_joined_from_uncertain_states(void **state)
{
	for (enum member_state from = MEMBER_AWAIT_FORMAT; from < MEMBER_STATES; from++) {
		bool is_doubtful = from == MEMBER_UNRESPONSIVE || from == MEMBER_STOPPING || from == MEMBER_STARTING ||
				   from == MEMBER_READY;
		int refusal = from == MEMBER_JOINED || from == MEMBER_CHECKER_STARTED ? -EALREADY : -EPERM;
		struct system *system = system_create();
		struct join_request request = request_of(0);
		struct member_report report = { 1, request.incarnation + 1, MEMBER_JOINED, "", 2 };
		struct system_change change, begin;

		assert_int_equal(system_join(system, &request, 1, &begin, NULL), 0);
		begin.member.state = from;
		apply(system, &begin);
		assert_int_equal(system_see(system, &report, &change, NULL), refusal);
		report.incarnation = request.incarnation;
		assert_int_equal(system_see(system, &report, &change, NULL), is_doubtful ? 0 : refusal);
		if (is_doubtful) {
			apply(system, &change);
			/* the rank was in the map all the time */
			assert_int_equal(system_map_version(system), begin.map_version);
		}
		system_destroy(system);
	}
}

static void ranks_are_assigned_in_order_and_0_to_the_first_instance(void **state)
{
	struct system *system = system_create();
	struct join_request request = request_of(1);

	assert_int_equal(join(system, &request), 1);
	request = request_of(0);
	request.is_first_instance = true;
	assert_int_equal(join(system, &request), 0);
	request = request_of(2);
	assert_int_equal(join(system, &request), 2);
	assert_int_equal(system_member_count(system), 3);
	assert_int_equal(system_member_at(system, 0)->rank, 0);
	assert_int_equal(system_next_rank(system), 3);
	assert_int_equal(system_map_version(system), 3);
	assert_int_equal(system_version(system), 3);
	system_destroy(system);
}

static void a_member_that_rejoins_keeps_its_rank(void **state)
{
	struct system *system = system_create();
	struct join_request request = request_of(0);
	uint32_t rank = join(system, &request);

	report(system, rank, MEMBER_ERRORED);
	request.incarnation = 101;
	request.rank = rank;
	assert_int_equal(join(system, &request), rank);
	assert_int_equal(system_member_at(system, 0)->state, MEMBER_JOINED);
	assert_int_equal(system_member_at(system, 0)->incarnation, 101);
	assert_string_equal(system_member_at(system, 0)->info, "");
	assert_int_equal(system_map_version(system), 2);
	/* an unchanged rejoin does not change the map version */
	assert_int_equal(join(system, &request), rank);
	assert_int_equal(system_map_version(system), 2);
	assert_int_equal(system_version(system), 4);
	request.incarnation = 99;
	assert_join_refused(system, &request, FAULT_JOIN_INCARNATION_OLD);
	system_destroy(system);
}

/* DAOS's updateMember loses changed contexts and addresses. */
static void a_rejoin_updates_all_fields_of_the_member(void **state)
{
	static const struct member_fabric more[] = {
		{ "ofi+tcp://10.0.0.1:30000", 9 },
		{ "ofi+tcp://10.1.0.1:30000", 11 },
		{ "ofi+tcp://10.2.0.1:30000", 12 },
	};
	struct system *system = system_create();
	struct join_request request = request_of(0);
	const struct member *member;

	join(system, &request);
	request.fabrics = more;
	request.fabric_count = 3;
	request.incarnation++;
	join(system, &request);
	member = system_member_at(system, 0);
	assert_int_equal(member->fabric_count, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(member->fabrics[i].uri, more[i].uri);
		assert_int_equal(member->fabrics[i].contexts, more[i].contexts);
	}
	request.fabric_count = 1;
	request.domain = "/other/place";
	join(system, &request);
	member = system_member_at(system, 0);
	assert_int_equal(member->fabric_count, 1);
	assert_string_equal(member->fabrics[1].uri, "");
	assert_string_equal(member->domain, "/other/place");
	assert_int_equal(system_map_version(system), 3);
	system_destroy(system);
}

static void a_join_that_contradicts_the_members_is_refused(void **state)
{
	static const struct member_fabric verbs = { "ofi+verbs://10.0.0.2:1", 1 };
	struct system *system = system_create();
	struct join_request first = request_of(0), request = first;

	join(system, &first);
	request.rank = 5;
	assert_join_refused(system, &request, FAULT_JOIN_RANK_CHANGED);
	request = first;
	request.address = "10.0.0.9:10001";
	assert_join_refused(system, &request, FAULT_JOIN_ADDRESS_CHANGED);
	request = request_of(1);
	request.rank = 1;
	assert_join_refused(system, &request, FAULT_JOIN_UUID_CHANGED);
	request = first;
	request.uuid = uuids[1];
	assert_join_refused(system, &request, FAULT_JOIN_REPLACE_MEMBER);
	request = request_of(1);
	request.domain = "/rack0";
	assert_join_refused(system, &request, FAULT_FAULT_DOMAIN_DEPTH);
	request.domain = "/rack=0/node=1";
	assert_join_refused(system, &request, FAULT_DOMAIN_LABELS);
	request = request_of(1);
	request.fabrics = &verbs;
	assert_join_refused(system, &request, FAULT_JOIN_PROVIDER);
	request = request_of(1);
	request.uuid = "950fc86b-a987-4a2b-bde9-cd728548bb2";
	assert_join_refused(system, &request, FAULT_JOIN_UUID_BAD);
	request = request_of(1);
	request.address = "10.0.0.[1-2]:10001";
	assert_join_refused(system, &request, FAULT_JOIN_ADDRESS_BAD);
	request = request_of(1);
	request.domain = "rack0/node1";
	assert_join_refused(system, &request, FAULT_FAULT_DOMAIN_BAD);
	assert_int_equal(system_version(system), 1);
	system_destroy(system);
}

static void an_unknown_rank_of_a_superblock_is_accepted(void **state)
{
	struct system *system = system_create();
	struct join_request request = request_of(0);

	request.rank = 7;
	assert_int_equal(join(system, &request), 7);
	request = request_of(1);
	assert_int_equal(join(system, &request), 8);
	request = request_of(2);
	request.rank = RANK_MAX + 1;
	assert_join_refused(system, &request, FAULT_SYSTEM_FULL);
	system_destroy(system);
}

static bool is_in_pools(void *ctx, uint32_t rank)
{
	return *(bool *)ctx;
}

static void a_replacement_takes_over_the_rank(void **state)
{
	struct system *system = system_create();
	struct join_request request = request_of(0);
	bool in_pools = true;
	uint8_t old[MEMBER_UUID_BYTES];

	join(system, &request);
	request = request_of(1);
	join(system, &request);
	memcpy(old, system_member_by_rank(system, 2)->uuid, sizeof(old));
	request.uuid = uuids[2];
	request.is_replacement = true;
	request.is_in_pools = is_in_pools;
	request.ctx = &in_pools;
	assert_join_refused(system, &request, FAULT_REPLACE_ENABLED_RANK);
	in_pools = false;
	assert_int_equal(join(system, &request), 2);
	assert_int_equal(system_member_count(system), 2);
	assert_null(system_member_by_uuid(system, old));
	assert_int_equal(system_member_by_uuid(system, system_member_by_rank(system, 2)->uuid)->rank, 2);
	request = request_of(2);
	request.uuid = "00000000-0000-0000-0000-000000000001";
	request.is_replacement = true;
	assert_join_refused(system, &request, FAULT_JOIN_REPLACE_FOUND_NONE);
	system_destroy(system);
}

static void an_excluded_rank_joins_only_after_the_exclusion_is_cleared(void **state)
{
	struct system *system = system_create();
	struct join_request request = request_of(0);
	uint32_t rank = join(system, &request);
	struct member_report joined = { rank, 0, MEMBER_JOINED, "", 9 };
	struct system_change change;
	struct fathom_fault why = { 0 };

	assert_int_equal(system_clear_exclude(system, rank, 9, &change, &why), -EINVAL);
	assert_int_equal(why.code, FAULT_NOT_EXCLUDED);
	assert_int_equal(system_exclude(system, rank, 9, &change, &why), 0);
	apply(system, &change);
	assert_false(system_is_in_map(system_member_at(system, 0)));
	assert_int_equal(system_exclude(system, rank, 9, &change, &why), -EALREADY);
	assert_join_refused(system, &request, FAULT_RANK_EXCLUDED);
	assert_int_equal(system_report(system, &joined, &change, &why), -EPERM);
	assert_int_equal(system_clear_exclude(system, rank, 9, &change, &why), 0);
	apply(system, &change);
	assert_int_equal(system_member_at(system, 0)->state, MEMBER_EXCLUDED);
	assert_int_equal(join(system, &request), rank);
	assert_int_equal(system_map_version(system), 3);
	assert_int_equal(system_exclude(system, 99, 9, &change, &why), -ENOENT);
	system_destroy(system);
}

static void a_dead_rank_is_excluded_if_self_heal_allows(void **state)
{
	static const struct system_pair off = { "self_heal", "pool_exclude;pool_rebuild" }, on = { "self_heal", "" };
	struct system *system = system_create();
	struct join_request request = request_of(0);
	uint32_t rank = join(system, &request);
	struct system_change change;
	struct fathom_fault why = { 0 };

	assert_int_equal(system_set_properties(system, &off, 1, &change, &why), 0);
	apply(system, &change);
	assert_int_equal(system_rank_dead(system, rank, 100, 9, &change, &why), -ECANCELED);
	assert_int_equal(system_set_properties(system, &on, 1, &change, &why), 0);
	apply(system, &change);
	/* an earlier process */
	assert_int_equal(system_rank_dead(system, rank, 99, 9, &change, &why), -ESTALE);
	assert_int_equal(system_rank_dead(system, rank, 100, 9, &change, &why), 0);
	apply(system, &change);
	assert_int_equal(system_member_at(system, 0)->state, MEMBER_EXCLUDED);
	assert_int_equal(system_rank_dead(system, rank, 100, 9, &change, &why), -EALREADY);
	system_destroy(system);
}

static void the_rank_of_a_removed_member_is_free_only_in_an_empty_system(void **state)
{
	struct system *system = system_create();
	struct join_request request = request_of(0), other = request_of(1);
	struct system_change change;
	struct fathom_fault why = { 0 };

	join(system, &request);
	assert_int_equal(join(system, &other), 2);
	assert_int_equal(system_remove(system, 1, &change, &why), -EPERM);
	report(system, 1, MEMBER_STOPPED);
	assert_int_equal(system_remove(system, 1, &change, &why), 0);
	apply(system, &change);
	assert_null(system_member_by_rank(system, 1));
	assert_int_equal(system_next_rank(system), 3);
	report(system, 2, MEMBER_STOPPED);
	assert_int_equal(system_remove(system, 2, &change, &why), 0);
	apply(system, &change);
	assert_int_equal(system_member_count(system), 0);
	assert_int_equal(join(system, &request), 1);
	system_destroy(system);
}

static void attributes_are_set_all_or_none(void **state)
{
	static const struct system_pair good[] = { { "b", "2" }, { "a", "1" } },
					bad[] = { { "c", "3" }, { "mgmt.x", "1" } };
	static const struct system_pair change_one[] = { { "a", "" }, { "b", "22" } }, missing = { "nothing", "" };
	struct system *system = system_create();
	struct system_change change;
	struct fathom_fault why = { 0 };

	assert_int_equal(system_set_attributes(system, good, 2, &change, &why), 0);
	apply(system, &change);
	assert_int_equal(system_attribute_count(system), 2);
	assert_string_equal(system_attribute_at(system, 0).name, "a");
	assert_int_equal(system_set_attributes(system, bad, 2, &change, &why), -EINVAL);
	assert_null(system_attribute(system, "c"));
	assert_int_equal(system_set_attributes(system, change_one, 2, &change, &why), 0);
	apply(system, &change);
	assert_int_equal(system_attribute_count(system), 1);
	assert_string_equal(system_attribute(system, "b"), "22");
	assert_int_equal(system_set_attributes(system, &missing, 1, &change, &why), -ENOENT);
	assert_int_equal(system_map_version(system), 0);
	assert_int_equal(system_version(system), 2);
	system_destroy(system);
}

static void properties_are_checked_and_a_similar_name_is_suggested(void **state)
{
	static const struct {
		struct system_pair pair;
		int error;
	} cases[] = {
		{ { "self_heal", "none" }, 0 },
		{ { "self_heal", "exclude" }, 0 },
		{ { "self_heal", "pool_rebuild;exclude" }, 0 },
		{ { "self_heal", "exclude;exclude" }, -EINVAL },
		{ { "self_heal", "exclude;" }, -EINVAL },
		{ { "self_heal", "excl" }, -EINVAL },
		{ { "pool_scrub_mode", "timed" }, 0 },
		{ { "pool_scrub_mode", "on" }, -EINVAL },
		{ { "pool_scrub_thresh", "12" }, 0 },
		{ { "pool_scrub_thresh", "-1" }, -EINVAL },
		{ { "selfheal", "none" }, -ENOENT },
	};
	struct system *system = system_create();
	struct fathom_fault why = { 0 };

	assert_string_equal(system_property(system, "self_heal"), "exclude;pool_exclude;pool_rebuild");
	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		struct system_change change;

		assert_int_equal(system_set_properties(system, &cases[i].pair, 1, &change, &why), cases[i].error);
		if (cases[i].error)
			continue;
		apply(system, &change);
		assert_string_equal(system_property(system, cases[i].pair.name), cases[i].pair.value);
	}
	assert_non_null(strstr(why.resolution, "\"self_heal\""));
	system_destroy(system);
}

static void fault_domains_are_checked_level_by_level(void **state)
{
	static const struct {
		const char *text;
		int depth; /* -1: invalid */
		const char *labels;
	} cases[] = {
		{ "/rack0/node0", 2, "" },
		{ "/rack=0/node=n1", 2, "/rack/node" },
		{ "/a", 1, "" },
		{ "", -1, "" },
		{ "/", -1, "" },
		{ "/a//b", -1, "" },
		{ "/a/", -1, "" },
		{ "/a=1/b", -1, "" },
		{ "/=1", -1, "" },
		{ "/a=", -1, "" },
		{ "/a=b=c", -1, "" },
		{ "/a b", -1, "" },
		{ "a/b", -1, "" },
		{ "/1/2/3/4/5/6/7/8", 8, "" },
		{ "/1/2/3/4/5/6/7/8/9", -1, "" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		char labels[MEMBER_DOMAIN_BYTES] = "";
		struct fathom_fault why = { 0 };
		uint32_t depth = 0;
		int error = member_domain_parse(cases[i].text, &depth, labels, &why);

		if (error < 0 ? cases[i].depth >= 0 || !strstr(why.text, cases[i].text) : depth != (uint32_t)cases[i].depth)
			fail_msg("\"%s\": %d %s", cases[i].text, error, why.text);
		assert_string_equal(labels, cases[i].labels);
	}
}

static void the_tree_of_fault_domains_is_in_breadth_first_order(void **state)
{
	static const char *const names[] = { "", "/rack0", "/rack1", "/rack0/node0", "/rack0/node1", "/rack1/node0" };
	static const uint32_t parents[] = { 0, 0, 0, 1, 1, 2 }, children[] = { 2, 2, 1, 0, 0, 0 },
			      ranks[] = { 3, 2, 1, 1, 1, 1 };
	struct system *system = system_create();
	struct domain_tree tree;

	assert_int_equal(system_domain_tree(system, 0, &tree), 0);
	assert_int_equal(tree.count, 1);
	domain_tree_deinit(&tree);
	for (size_t host = 0; host < 3; host++) {
		struct join_request request = request_of(2 - host);

		join(system, &request);
	}
	assert_int_equal(system_domain_tree(system, 0, &tree), 0);
	assert_int_equal(tree.count, ARRAY_COUNT(names));
	for (size_t i = 0; i < tree.count; i++) {
		assert_string_equal(tree.nodes[i].name, names[i]);
		assert_int_equal(tree.nodes[i].parent, parents[i]);
		assert_int_equal(tree.nodes[i].child_count, children[i]);
		assert_int_equal(tree.nodes[i].rank_count, ranks[i]);
	}
	domain_tree_deinit(&tree);
	report(system, 1, MEMBER_EXCLUDED);
	assert_int_equal(system_domain_tree(system, MEMBER_OUT_BITS, &tree), 0);
	assert_int_equal(tree.count, 4);
	domain_tree_deinit(&tree);
	system_destroy(system);
}

static int join_and_set_attributes(void)
{
	static const struct system_pair pairs[] = { { "a", "1" }, { "b", "2" } };
	struct system *system = system_create();
	struct domain_tree tree = { 0 };
	struct system_change change;
	int error = system ? 0 : -ENOMEM;

	for (size_t host = 0; !error && host < 3; host++) {
		struct join_request request = request_of(host);

		error = system_join(system, &request, 1, &change, NULL);
		if (!error)
			error = system_apply(system, &change, 2);
	}
	if (!error)
		error = system_set_attributes(system, pairs, 2, &change, NULL);
	if (!error) {
		error = system_apply(system, &change, 2);
		must(!error == (system_attribute_count(system) == 2));
	}
	if (!error)
		error = system_domain_tree(system, 0, &tree);
	domain_tree_deinit(&tree);
	system_destroy(system);
	return error;
}

static void a_failed_allocation_is_an_error_and_leaks_nothing(void **state)
{
	bool failed = true;

	for (uint32_t n = 1; failed; n++) {
		int error;

		failing_begin(n);
		error = join_and_set_attributes();
		failed = failing_end();
		assert_int_equal(error, failed ? -ENOMEM : 0);
		assert_int_equal(failing_held(), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(legal_state_changes_equal_those_of_daos),
		cmocka_unit_test(a_report_changes_the_state_only_if_the_table_allows_it),
		cmocka_unit_test(a_report_with_another_reason_updates_a_down_member),
		cmocka_unit_test(a_report_of_a_serving_rank_makes_it_joined_from_uncertain_states),
		cmocka_unit_test(ranks_are_assigned_in_order_and_0_to_the_first_instance),
		cmocka_unit_test(a_member_that_rejoins_keeps_its_rank),
		cmocka_unit_test(a_rejoin_updates_all_fields_of_the_member),
		cmocka_unit_test(a_join_that_contradicts_the_members_is_refused),
		cmocka_unit_test(an_unknown_rank_of_a_superblock_is_accepted),
		cmocka_unit_test(a_replacement_takes_over_the_rank),
		cmocka_unit_test(an_excluded_rank_joins_only_after_the_exclusion_is_cleared),
		cmocka_unit_test(a_dead_rank_is_excluded_if_self_heal_allows),
		cmocka_unit_test(the_rank_of_a_removed_member_is_free_only_in_an_empty_system),
		cmocka_unit_test(attributes_are_set_all_or_none),
		cmocka_unit_test(properties_are_checked_and_a_similar_name_is_suggested),
		cmocka_unit_test(fault_domains_are_checked_level_by_level),
		cmocka_unit_test(the_tree_of_fault_domains_is_in_breadth_first_order),
		cmocka_unit_test(a_failed_allocation_is_an_error_and_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
