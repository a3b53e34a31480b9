/* SPDX-License-Identifier: BSD-2-Clause */
/* The system in the database: a loaded system equals the stored one; contradicting records are refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/bits.h"
#include "base/random.h"
#include "control/db/sqlite.h"
#include "control/db/system_store.h"
#include "control/fault/fault.h"

#include "failing.h"

static char folder[] = "/tmp/fathom-store-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/system.db", folder);
	return 0;
}

static int empty_folder(void **state)
{
	unlink(path);
	return 0;
}

static int remove_folder(void **state)
{
	return rmdir(folder);
}

struct opened {
	struct db *db;
	struct system_store store;
	struct system *system;
};

static struct opened open_all(void)
{
	struct opened opened = { 0 };
	struct fathom_fault why = { 0 };

	if (db_open_sqlite(path, &opened.db, &why) < 0 ||
	    system_store_load(opened.db, 2, &opened.store, &opened.system, &why) < 0)
		fail_msg("%s", why.text);
	return opened;
}

static void close_all(struct opened *opened)
{
	system_destroy(opened->system);
	db_close(opened->db);
}

static void store_and_apply(struct opened *opened, const struct system_change *change)
{
	struct fathom_fault why = { 0 };

	if (system_store_change(&opened->store, change, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(system_apply(opened->system, change, 2), 0);
}

static uint32_t join(struct opened *opened, unsigned int host)
{
	struct member_fabric fabrics[] = { { "", 5 }, { "ofi+tcp://second:1", 6 } };
	char uuid[MEMBER_UUID_TEXT_BYTES], address[32], domain[32];
	struct system_change change;
	struct fathom_fault why = { 0 };
	struct join_request request = { .uuid = uuid,
					.rank = RANK_NONE,
					.incarnation = 0xfedcba9876543210ull,
					.address = address,
					.domain = domain,
					.fabrics = fabrics,
					.fabric_count = 1 + host % 2 };

	snprintf(uuid, sizeof(uuid), "950fc86b-a987-4a2b-bde9-%012x", host);
	snprintf(address, sizeof(address), "10.0.%u.%u:10001", host / 250, host % 250 + 1);
	snprintf(domain, sizeof(domain), "/rack%u/node%u", host / 10, host);
	snprintf(fabrics[0].uri, sizeof(fabrics[0].uri), "ofi+tcp://10.0.%u.%u:20000", host / 250, host % 250 + 1);
	if (system_join(opened->system, &request, 1795208903215944704ull, &change, &why) < 0)
		fail_msg("%s", why.text);
	store_and_apply(opened, &change);
	return change.member.rank;
}

static void assert_same(const struct system *a, const struct system *b)
{
	assert_int_equal(system_version(a), system_version(b));
	assert_int_equal(system_map_version(a), system_map_version(b));
	assert_int_equal(system_next_rank(a), system_next_rank(b));
	assert_int_equal(system_member_count(a), system_member_count(b));
	for (size_t i = 0; i < system_member_count(a); i++)
		assert_memory_equal(system_member_at(a, i), system_member_at(b, i), sizeof(struct member));
	assert_int_equal(system_attribute_count(a), system_attribute_count(b));
	for (size_t i = 0; i < system_attribute_count(a); i++) {
		assert_string_equal(system_attribute_at(a, i).name, system_attribute_at(b, i).name);
		assert_string_equal(system_attribute_at(a, i).value, system_attribute_at(b, i).value);
	}
	for (const struct system_property *property = system_properties; property->name; property++)
		assert_string_equal(system_property(a, property->name), system_property(b, property->name));
}

/* Assert that the database equals memory. */
static void assert_stored(struct opened *opened)
{
	struct system_store store;
	struct system *loaded;

	assert_int_equal(system_store_load(opened->db, 2, &store, &loaded, NULL), 0);
	assert_same(opened->system, loaded);
	assert_int_equal(store.versions_revision, opened->store.versions_revision);
	system_destroy(loaded);
}

static void a_loaded_system_equals_the_stored_one(void **state)
{
	static const struct system_pair attributes[] = { { "a", "1" }, { "with space %", "x\ty\xff" } }, gone = { "a", "" };
	static const struct system_pair property = { "self_heal", "none" };
	struct opened opened = open_all();
	struct system_change change;

	assert_int_equal(system_member_count(opened.system), 0);
	for (unsigned int host = 0; host < 20; host++)
		join(&opened, host);
	assert_stored(&opened);
	assert_int_equal(system_report(opened.system,
				       &(struct member_report){ 3, 0, MEMBER_ERRORED, "it \"died\" \xff\n", 9 }, &change,
				       NULL),
			 0);
	store_and_apply(&opened, &change);
	assert_int_equal(system_set_attributes(opened.system, attributes, 2, &change, NULL), 0);
	store_and_apply(&opened, &change);
	assert_int_equal(system_set_attributes(opened.system, &gone, 1, &change, NULL), 0);
	store_and_apply(&opened, &change);
	assert_int_equal(system_set_properties(opened.system, &property, 1, &change, NULL), 0);
	store_and_apply(&opened, &change);
	assert_int_equal(system_remove(opened.system, 3, &change, NULL), 0);
	store_and_apply(&opened, &change);
	assert_stored(&opened);
	close_all(&opened);
	opened = open_all();
	assert_int_equal(system_member_count(opened.system), 19);
	assert_null(system_member_by_rank(opened.system, 3));
	assert_int_equal(system_member_by_rank(opened.system, 4)->incarnation, 0xfedcba9876543210ull);
	assert_int_equal(system_member_by_rank(opened.system, 4)->fabric_count, 2);
	assert_int_equal(join(&opened, 100), 21);
	close_all(&opened);
}

static void a_change_by_an_outdated_store_is_refused(void **state)
{
	struct opened opened = open_all();
	struct system_store late = opened.store;
	struct system_change change;
	struct fathom_fault why = { 0 };

	join(&opened, 0);
	assert_int_equal(system_exclude(opened.system, 1, 1, &change, NULL), 0);
	assert_int_equal(system_store_change(&late, &change, &why), -ESTALE);
	assert_int_equal(why.code, FAULT_DB_CONFLICT);
	assert_stored(&opened);
	close_all(&opened);
}

static void a_contradicting_record_is_refused_with_its_key(void **state)
{
	static const struct {
		const char *key, *value;
	} cases[] = {
		{ "system/member/00000002", NULL }, /* a copy of rank 1's record */
		{ "system/member/00000001", "{}" },
		{ "system/member/00000009", "not JSON" },
		{ "system/versions", "{\"schema\":2,\"version\":1,\"map_version\":1,\"next_rank\":2}" },
		{ "system/versions", "{\"schema\":1,\"version\":1,\"map_version\":1,\"next_rank\":1}" },
		{ "system/versions", "{\"schema\":1,\"version\":1,\"map_version\":2147483648,\"next_rank\":2}" },
		{ "system/versions", "{\"schema\":1,\"version\":1,\"map_version\":4294967295,\"next_rank\":2}" },
		{ "system/property/self_heal", "sometimes" },
		{ "system/property/unheard", "1" },
		{ "system/attribute/", "1" },
		{ "system/else", "1" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		struct opened opened = open_all();
		struct system_store store;
		struct system *system = NULL;
		struct db_change change = { .key = cases[i].key, .expected = DB_VERSION_ANY, .what = DB_PUT };
		struct fathom_fault why = { 0 };
		char *member = NULL;

		join(&opened, 0);
		assert_int_equal(member_encode(system_member_at(opened.system, 0), &member), 0);
		change.value = cases[i].value ? cases[i].value : member;
		change.bytes = strlen(change.value);
		assert_int_equal(db_commit(opened.db, &change, 1, NULL, NULL), 0);
		assert_int_equal(system_store_load(opened.db, 2, &store, &system, &why), -EBADMSG);
		assert_int_equal(why.code, FAULT_DB_VALUE_BAD);
		assert_non_null(strstr(why.text, cases[i].key));
		assert_null(system);
		free(member);
		close_all(&opened);
		unlink(path);
	}
}

/* The text must be rejected, or decode to a member that is equal after encoding and decoding. Blanks must not matter. */
static void assert_rejected_or_decoded(const char *text, size_t bytes, uint32_t *good)
{
	static struct member member, spaced_member, again;
	char *spaced = malloc(bytes + 2), *written;
	int error, spaced_error;

	assert_non_null(spaced);
	spaced[0] = ' ';
	memcpy(spaced + 1, text, bytes);
	error = member_decode(text, bytes, &member);
	spaced_error = member_decode(spaced, bytes + 1, &spaced_member);
	free(spaced);
	if (error != spaced_error || (error && error != -EBADMSG))
		fail_msg("error %d, with blanks %d: %.*s", error, spaced_error, (int)bytes, text);
	if (error)
		return;
	assert_memory_equal(&member, &spaced_member, sizeof(member));
	assert_int_equal(member_encode(&member, &written), 0);
	assert_int_equal(member_decode(written, strlen(written), &again), 0);
	assert_memory_equal(&member, &again, sizeof(member));
	free(written);
	*good += 1;
}

/* The stored form is frozen: this release reads databases of older releases, and they read ours. */
static void the_stored_form_of_a_member_is_unchanged(void **state)
{
	static const char stored[] =
		"{\"rank\":7,\"uuid\":\"00000000-0000-4000-8000-000000000001\",\"state\":\"errored\",\"incarnation\":-1,"
		"\"updated_ns\":1795000000000000000,\"address\":\"10.0.0.1:10001\",\"fault_domain\":\"/rack0/host1\","
		"\"info\":\"it said \\\"no\\\"\",\"fabrics\":[{\"uri\":\"ofi+tcp://10.0.0.1:31416\",\"contexts\":4},"
		"{\"uri\":\"ofi+tcp://10.1.0.1:31416\",\"contexts\":0}]}";
	struct member member;
	char *text;

	assert_int_equal(member_decode(stored, strlen(stored), &member), 0);
	assert_int_equal(member.rank, 7);
	assert_int_equal(member.state, MEMBER_ERRORED);
	assert_true(member.incarnation == UINT64_MAX);
	assert_int_equal(member.updated_ns, 1795000000000000000);
	assert_string_equal(member.address, "10.0.0.1:10001");
	assert_string_equal(member.domain, "/rack0/host1");
	assert_string_equal(member.info, "it said \"no\"");
	assert_int_equal(member.fabric_count, 2);
	assert_int_equal(member.fabrics[0].contexts, 4);
	assert_string_equal(member.fabrics[1].uri, "ofi+tcp://10.1.0.1:31416");
	assert_int_equal(member_encode(&member, &text), 0);
	assert_string_equal(text, stored);
	free(text);
}

static void a_failed_allocation_is_not_reported_as_a_bad_record(void **state)
{
	struct opened opened = open_all();
	struct member member, again;
	bool has_failed = true;
	uint32_t failures = 0;
	char *text;

	join(&opened, 0);
	member = *system_member_at(opened.system, 0);
	for (uint32_t n = 1; has_failed; n++) {
		int error;

		failing_begin(n);
		error = member_encode(&member, &text);
		if (!error) {
			error = member_decode(text, strlen(text), &again);
			free(text);
		}
		assert_int_equal(failing_held(), 0);
		has_failed = failing_end();
		failures += has_failed;
		assert_int_equal(error, has_failed ? -ENOMEM : 0);
	}
	assert_true(failures > 20);
	assert_memory_equal(&member, &again, sizeof(member));
	close_all(&opened);
}

static void a_changed_record_is_rejected_or_read_as_a_member(void **state)
{
	static const char *const infos[] = { "", "it said \"no\"", "\\", "\xc3\xa9", "tab\there", "plain" };
	static const char letters[] = "0129-.\"\\{}[]:, aejtu\x01\x7f\xff";
	struct opened opened = open_all();
	uint32_t good = 0, all = 0;

	join(&opened, 0);
	for (size_t i = 0; i < ARRAY_COUNT(infos); i++) {
		struct member member = *system_member_at(opened.system, 0), again;
		char *text, *mutated;
		size_t bytes;

		snprintf(member.info, sizeof(member.info), "%s", infos[i]);
		member.incarnation = i == 1 ? UINT64_MAX : i == 2 ? 0 : i == 3 ? INT64_MAX : 1795000000000000000;
		assert_int_equal(member_encode(&member, &text), 0);
		bytes = strlen(text);
		assert_int_equal(member_decode(text, bytes, &again), 0);
		assert_memory_equal(&member, &again, sizeof(member));
		mutated = strdup(text);
		assert_non_null(mutated);
		for (size_t at = 0; at < bytes; at++) {
			for (size_t letter = 0; letter < sizeof(letters); letter++, all++) {
				mutated[at] = letters[letter];
				assert_rejected_or_decoded(mutated, bytes, &good);
			}
			mutated[at] = text[at];
			assert_rejected_or_decoded(text, at, &good);		  /* cut short */
			assert_rejected_or_decoded(text + at, bytes - at, &good); /* or only its end */
		}
		free(mutated);
		free(text);
	}
	assert_true(good > 100);
	assert_true(good < all);
	close_all(&opened);
}

/* Random changes. Sometimes the process dies after a change was stored and before it was applied. */
static void memory_equals_the_database_after_each_step(void **state)
{
	struct opened opened = open_all();
	struct random random;

	random_init(&random, 11);
	for (unsigned int host = 0; host < 8; host++)
		join(&opened, host);
	for (int step = 0; step < 1500; step++) {
		uint32_t rank = 1 + (uint32_t)random_below(&random, 8);
		enum member_state to = (enum member_state)(1 + random_below(&random, MEMBER_STATES - 1));
		struct system_change change;

		if (system_report(opened.system, &(struct member_report){ rank, 0, to, "step", (uint64_t)step }, &change,
				  NULL) < 0 &&
		    system_clear_exclude(opened.system, rank, (uint64_t)step, &change, NULL) < 0)
			continue;
		assert_int_equal(system_store_change(&opened.store, &change, NULL), 0);
		if (random_below(&random, 20) == 0) {
			close_all(&opened);
			opened = open_all();
			assert_int_equal(system_member_by_rank(opened.system, rank)->state, change.member.state);
			assert_int_equal(system_version(opened.system), change.version);
		} else {
			assert_int_equal(system_apply(opened.system, &change, 2), 0);
		}
		if (step % 100 == 0)
			assert_stored(&opened);
	}
	assert_stored(&opened);
	close_all(&opened);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, empty_folder)
	const struct CMUnitTest tests[] = {
		CASE(a_loaded_system_equals_the_stored_one),
		CASE(a_change_by_an_outdated_store_is_refused),
		CASE(a_contradicting_record_is_refused_with_its_key),
		CASE(a_changed_record_is_rejected_or_read_as_a_member),
		CASE(the_stored_form_of_a_member_is_unchanged),
		CASE(a_failed_allocation_is_not_reported_as_a_bad_record),
		CASE(memory_equals_the_database_after_each_step),
	};

	json_set_alloc_funcs(malloc, free); /* the wrappers of failing.h */
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
