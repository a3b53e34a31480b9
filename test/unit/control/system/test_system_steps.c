/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A million random steps: valid and invalid joins, reports, exclusion, removal, attributes. The invariants must hold after
 * each. One decision in ten is never stored, as if the database had failed.
 *
 *     FATHOM_SEED=7 control_system_steps
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/system/system.h"

enum { STEPS = 1000000, HOSTS = 24, FULL_CHECK_EVERY = 256 };

/* An engine, whose joins are mostly valid. */
struct engine {
	char uuid[MEMBER_UUID_TEXT_BYTES];
	char address[64];
	char domain[64];
	struct member_fabric fabric;
	uint64_t incarnation;
	uint32_t rank; /* the rank in its superblock */
};

static struct random chance;
static struct engine engines[HOSTS];
static struct system *the_system;
static struct member before[4096]; /* members by rank before the step; UNKNOWN: none */
static uint64_t joins, refusals, removals, applied, dropped;

static uint64_t below(uint64_t n)
{
	return random_below(&chance, n);
}

static void format_engine(struct engine *engine, size_t host)
{
	snprintf(engine->uuid, sizeof(engine->uuid), "%08x-0000-4000-8000-%012x", (unsigned int)random_next(&chance),
		 (unsigned int)random_next(&chance));
	snprintf(engine->address, sizeof(engine->address), "10.0.0.%zu:10001", host / 2);
	snprintf(engine->domain, sizeof(engine->domain), "/rack%zu/node%zu", host / 8, host / 2);
	memset(&engine->fabric, 0, sizeof(engine->fabric));
	snprintf(engine->fabric.uri, sizeof(engine->fabric.uri), "ofi+tcp://10.0.0.%zu:%zu", host / 2, 20000 + host % 2);
	engine->fabric.contexts = (uint32_t)below(4);
	engine->rank = RANK_NONE;
	engine->incarnation += 10;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3ull;
	return hash;
}

/* Hash of the group map that engines get. */
static uint64_t hash_map(void)
{
	uint64_t hash = 1;

	for (size_t i = 0; i < system_member_count(the_system); i++) {
		const struct member *member = system_member_at(the_system, i);

		if (!system_is_in_map(member))
			continue;
		hash = hash_bytes(hash, &member->rank, sizeof(member->rank));
		hash = hash_bytes(hash, &member->incarnation, sizeof(member->incarnation));
		hash = hash_bytes(hash, member->uuid, sizeof(member->uuid));
		hash = hash_bytes(hash, member->fabrics, member->fabric_count * sizeof(member->fabrics[0]));
	}
	return hash;
}

static void check_all(void)
{
	size_t count = system_member_count(the_system);

	for (size_t i = 0; i < count; i++) {
		const struct member *member = system_member_at(the_system, i);

		must(i == 0 || system_member_at(the_system, i - 1)->rank < member->rank);
		must(member->rank < system_next_rank(the_system));
		must(member->state > MEMBER_UNKNOWN && member->state < MEMBER_STATES);
		must(system_member_by_rank(the_system, member->rank) == member);
		must(system_member_by_uuid(the_system, member->uuid) == member);
		must(memcmp(member, &before[member->rank], sizeof(*member)) == 0);
		if (member->state == MEMBER_ADMIN_EXCLUDED || member->state == MEMBER_EXCLUDED ||
		    member->state == MEMBER_AWAIT_FORMAT)
			must(!system_is_in_map(member));
		for (size_t j = 0; j < i; j++)
			must(memcmp(system_member_at(the_system, j)->uuid, member->uuid, MEMBER_UUID_BYTES) != 0);
	}
	for (uint32_t rank = 0, known = 0; rank < ARRAY_COUNT(before); rank++) {
		known += before[rank].state != MEMBER_UNKNOWN;
		must(rank + 1 < ARRAY_COUNT(before) || known == count);
	}
}

/* `is_join`: the step is a join, which has its own rules. */
static void check_move(const struct member *was, const struct member *is, bool is_join, bool is_clearing)
{
	if (is_join) {
		must(is->state == MEMBER_JOINED || is->state == MEMBER_CHECKER_STARTED);
		must(was->state != MEMBER_ADMIN_EXCLUDED);
		must(was->state == MEMBER_UNKNOWN || memcmp(was->uuid, is->uuid, sizeof(is->uuid)) != 0 ||
		     is->incarnation >= was->incarnation);
	} else if (is_clearing) {
		must(was->state == MEMBER_ADMIN_EXCLUDED && is->state == MEMBER_EXCLUDED);
	} else {
		must(member_may_report(was->state, is->state));
		must(is->incarnation == was->incarnation && is->rank == was->rank);
		must(memcmp(was->uuid, is->uuid, sizeof(is->uuid)) == 0 && strcmp(was->address, is->address) == 0);
	}
}

static bool apply(const struct system_change *change, bool is_join, bool is_clearing)
{
	uint64_t version = system_version(the_system), map = hash_map();
	uint32_t map_version = system_map_version(the_system), next_rank = system_next_rank(the_system);

	if (below(10) == 0) {
		dropped++;
		return false;
	}
	must(system_apply(the_system, change, 2) == 0);
	applied++;
	must(system_version(the_system) == version + 1);
	must(system_next_rank(the_system) >= next_rank ||
	     (change->kind == SYSTEM_MEMBER_GONE && system_member_count(the_system) == 0 &&
	      system_next_rank(the_system) == 1));
	must(system_map_version(the_system) == map_version + (map != hash_map()));
	if (change->kind == SYSTEM_MEMBER) {
		const struct member *member = system_member_by_rank(the_system, change->member.rank);

		must(member && memcmp(member, &change->member, sizeof(*member)) == 0);
		check_move(&before[member->rank], member, is_join, is_clearing);
		before[member->rank] = *member;
	} else if (change->kind == SYSTEM_MEMBER_GONE) {
		must(!system_member_by_rank(the_system, change->member.rank));
		before[change->member.rank].state = MEMBER_UNKNOWN;
	}
	return true;
}

static void step_join(void)
{
	size_t host = below(HOSTS);
	struct engine *engine = &engines[host], claim;
	struct system_change change;
	struct join_request request;
	bool is_new = below(100) == 0, is_false = below(6) == 0;

	if (is_new)
		format_engine(engine, host);
	engine->incarnation += below(3);
	claim = *engine;
	if (is_false && below(3) == 0)
		claim.rank = (uint32_t)below(40);
	else if (is_false && below(2) == 0)
		memcpy(claim.address, engines[below(HOSTS)].address, sizeof(claim.address));
	else if (is_false)
		claim.incarnation -= min_u64(claim.incarnation, below(5));
	request = (struct join_request){ .uuid = claim.uuid,
					 .rank = claim.rank,
					 .incarnation = claim.incarnation,
					 .address = claim.address,
					 .domain = claim.domain,
					 .fabrics = &claim.fabric,
					 .fabric_count = 1,
					 .is_replacement = is_new && below(2),
					 .is_for_checker = below(20) == 0,
					 .is_first_instance = host == 0 };
	joins++;
	if (system_next_rank(the_system) >= ARRAY_COUNT(before) ||
	    system_join(the_system, &request, joins, &change, NULL) < 0) {
		refusals++;
		return;
	}
	must(change.kind == SYSTEM_MEMBER);
	if (apply(&change, true, false))
		engine->rank = change.member.rank;
}

static uint32_t some_rank(void)
{
	size_t count = system_member_count(the_system);

	return count && below(10) ? system_member_at(the_system, below(count))->rank : (uint32_t)below(64);
}

static void step_report(void)
{
	uint32_t rank = some_rank();
	const struct member *member = system_member_by_rank(the_system, rank);
	enum member_state to = (enum member_state)(1 + below(MEMBER_STATES - 1));
	uint64_t incarnation = below(2) && member ? member->incarnation + 1 - below(3) : 0;
	struct system_change change;

	if (system_report(the_system, &(struct member_report){ rank, incarnation, to, "said so", 5 }, &change, NULL) == 0) {
		must(member && (!incarnation || incarnation >= member->incarnation));
		apply(&change, false, false);
	} else {
		refusals++;
	}
}

static void step_operator(void)
{
	uint32_t rank = some_rank();
	struct system_change change;
	uint64_t what = below(8);

	if (what < 3 && system_exclude(the_system, rank, 6, &change, NULL) == 0)
		apply(&change, false, false);
	else if (what >= 3 && what < 6 && system_clear_exclude(the_system, rank, 6, &change, NULL) == 0)
		apply(&change, false, true);
	else if (what == 6 && system_rank_dead(the_system, rank, 0, 6, &change, NULL) == 0)
		apply(&change, false, false);
	else if (what == 7 && below(8) == 0 && system_remove(the_system, rank, &change, NULL) == 0)
		removals += apply(&change, false, false);
}

static void step_pairs(void)
{
	static const char *const policies[] = { "none", "exclude", "", "wrong" };
	char name[16], value[16];
	struct system_pair pair = { name, value }, property = { "self_heal", policies[below(4)] };
	struct system_change change;

	snprintf(name, sizeof(name), "%s%u", below(20) ? "a" : "mgmt.", (unsigned int)below(20));
	snprintf(value, sizeof(value), "%.0u", (unsigned int)below(3));
	if (system_set_attributes(the_system, &pair, 1, &change, NULL) == 0 && apply(&change, false, false)) {
		must(strncmp(name, "mgmt.", 5) != 0);
		must(*value ? strcmp(system_attribute(the_system, name), value) == 0 : !system_attribute(the_system, name));
	}
	if (system_set_properties(the_system, &property, 1, &change, NULL) == 0)
		apply(&change, false, false);
	must(strcmp(system_property(the_system, "self_heal"), "wrong") != 0);
}

static void a_million_steps_keep_the_invariants(void **state)
{
	const char *text = getenv("FATHOM_SEED");
	uint64_t seed = 1;

	assert_true(!text || text_parse_u64(text, 10, UINT64_MAX, &seed) == 0);
	printf("# FATHOM_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	random_init(&chance, seed);
	the_system = system_create();
	assert_non_null(the_system);
	for (size_t host = 0; host < HOSTS; host++)
		format_engine(&engines[host], host);
	for (uint32_t step = 0; step < STEPS; step++) {
		uint64_t what = below(100);

		if (what < 30)
			step_join();
		else if (what < 75)
			step_report();
		else if (what < 95)
			step_operator();
		else
			step_pairs();
		if (step % FULL_CHECK_EVERY == 0)
			check_all();
	}
	check_all();
	printf("# %llu joins, %llu refused, %llu changes, %llu not stored, %llu removals, %zu members, next rank %u, map "
	       "version %u\n",
	       (unsigned long long)joins, (unsigned long long)refusals, (unsigned long long)applied,
	       (unsigned long long)dropped, (unsigned long long)removals, system_member_count(the_system),
	       system_next_rank(the_system), system_map_version(the_system));
	assert_true(applied > STEPS / 10 && removals > 100);
	system_destroy(the_system);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_million_steps_keep_the_invariants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
