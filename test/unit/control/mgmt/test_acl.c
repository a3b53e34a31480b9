/* SPDX-License-Identifier: BSD-2-Clause */
/* Access control lists of pools: texts that are read and written, lists that are changed, and what callers may do. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/mgmt/acl.h"

enum { RW = ACL_READ | ACL_WRITE };

static struct acl *make(const char *const *texts, size_t count)
{
	struct acl *acl = NULL;
	struct fathom_fault why = { 0 };

	assert_int_equal(acl_create(texts, count, &acl, &why), 0);
	return acl;
}
#define MAKE(...) make((const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

/* The list as one text, an entry behind the other; frees it. */
static const char *text_of(struct acl *acl)
{
	static char all[ACL_ENTRIES_MAX * ACL_ENTRY_BYTES];
	char text[ACL_ENTRY_BYTES];
	size_t used = 0;

	all[0] = '\0';
	for (uint32_t i = 0; i < acl->count; i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? " " : "",
					 acl_format_entry(&acl->entries[i], text));
	assert_true(used < sizeof(all));
	free(acl);
	return all;
}

static void entries_are_read_and_written(void **state)
{
	static const char *const same[] = { "A::OWNER@:rw", "A:G:GROUP@:rw",   "A::EVERYONE@:r",     "A::bob@:",
					    "A:G:staff@:r", "A::bob@node1:rw", "A::OWNER@:rwcdtTaAo" };
	char text[ACL_ENTRY_BYTES];
	struct acl_entry entry;

	for (size_t i = 0; i < ARRAY_COUNT(same); i++) {
		assert_int_equal(acl_parse_entry(same[i], &entry, NULL), 0);
		assert_string_equal(acl_format_entry(&entry, text), same[i]);
	}
	assert_int_equal(acl_parse_entry("A::bob@:oAaTtdcwrrw", &entry, NULL), 0);
	assert_string_equal(acl_format_entry(&entry, text), "A::bob@:rwcdtTaAo");
}

static void a_bad_entry_is_refused_with_its_flaw(void **state)
{
	static const struct {
		const char *text, *flaw;
	} rows[] = {
		{ "", "four fields" },
		{ "A::bob@", "four fields" },
		{ "A::bob@:rw:", "four fields" },
		{ "U::bob@:rw", "only entries that allow" },
		{ "::bob@:rw", "only entries that allow" },
		{ "AA::bob@:rw", "only entries that allow" },
		{ "A:S:bob@:rw", "neither empty nor G" },
		{ "A:GG:bob@:rw", "neither empty nor G" },
		{ "A::bob:rw", "no @" },
		{ "A::@:rw", "no name before" },
		{ "A::bob@a@b:rw", "two @" },
		{ "A::bo b@:rw", "a blank" },
		{ "A::bo\x01@:rw", "control character" },
		{ "A::bo\xff@:rw", "UTF-8" },
		{ "A::bob@:rx", "none of rwcdtTaAo" },
		{ "A::GROUP@:rw", "needs the flag G" },
		{ "A:G:OWNER@:rw", "only for GROUP@" },
		{ "A:G:EVERYONE@:rw", "only for GROUP@" },
	};
	struct acl_entry entry;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct fathom_fault why = { 0 };

		assert_int_equal(acl_parse_entry(rows[i].text, &entry, &why), -EINVAL);
		assert_int_equal(why.code, FAULT_ACL_BAD);
		if (!strstr(why.text, rows[i].flaw))
			fail_msg("\"%s\" is refused with \"%s\"", rows[i].text, why.text);
	}
}

static void a_principal_has_at_most_255_bytes(void **state)
{
	char name[400], text[450];
	struct acl_entry entry;

	for (size_t bytes = 200; bytes < sizeof(name); bytes++) {
		memset(name, 'x', bytes);
		name[bytes - 1] = '@';
		name[bytes] = '\0';
		snprintf(text, sizeof(text), "A:G:%s:rwcdtTaAo", name);
		assert_int_equal(acl_parse_entry(text, &entry, NULL), bytes < ACL_PRINCIPAL_BYTES ? 0 : -EINVAL);
		assert_int_equal(acl_check_principal(name, NULL), bytes < ACL_PRINCIPAL_BYTES ? 0 : -EINVAL);
	}
}

/* Any text is refused, or is written so that it is read as the same entry. */
static void any_text_is_refused_or_kept(void **state)
{
	static const char letters[] = "AG::@@rwcdtTaAoOWNERGUPEVYbob \x80\xff\n#";
	char text[40], once[ACL_ENTRY_BYTES], twice[ACL_ENTRY_BYTES];
	struct acl_entry entry, again;
	size_t taken = 0;

	srand(14);
	for (size_t round = 0; round < 200000; round++) {
		size_t length = (size_t)rand() % 14;

		/* most begin like an entry, so that some are valid */
		snprintf(text, sizeof(text), "%s", round % 8 == 0 ? "" : round % 2 ? "A::b" : "A:G:g");
		for (size_t i = strlen(text), end = i + length; i < end; i++)
			text[i] = letters[(size_t)rand() % (sizeof(letters) - 1)], text[i + 1] = '\0';
		if (acl_parse_entry(text, &entry, NULL) != 0)
			continue;
		taken++;
		acl_format_entry(&entry, once);
		assert_int_equal(acl_parse_entry(once, &again, NULL), 0);
		assert_memory_equal(&entry, &again, sizeof(entry));
		assert_string_equal(acl_format_entry(&again, twice), once);
	}
	assert_true(taken > 100);
}

static void a_list_is_sorted_by_the_kind_of_its_entries(void **state)
{
	assert_string_equal(text_of(MAKE("A::EVERYONE@:r", "A:G:b@:r", "A:G:GROUP@:rw", "A::z@:rw", "A:G:a@:r",
					 "A::OWNER@:rw", "A::c@:r")),
			    "A::OWNER@:rw A::z@:rw A::c@:r A:G:GROUP@:rw A:G:b@:r A:G:a@:r A::EVERYONE@:r");
	assert_string_equal(text_of(acl_default()), "A::OWNER@:rw A:G:GROUP@:rw");
	assert_string_equal(text_of(acl_everyone()), "A::EVERYONE@:rw");
}

static void two_entries_for_a_principal_are_refused(void **state)
{
	const char *const texts[] = { "A::bob@:rw", "A:G:bob@:r", "A::bob@:r" };
	struct fathom_fault why = { 0 };
	struct acl *acl = NULL;

	assert_int_equal(acl_create(texts, 3, &acl, &why), -EINVAL);
	assert_non_null(strstr(why.text, "same principal"));
	assert_int_equal(acl_create(texts, 2, &acl, &why), 0);
	free(acl);
}

static void entries_are_replaced_added_and_removed(void **state)
{
	struct acl *acl = MAKE("A::OWNER@:rw", "A::bob@:r"), *next, *last;
	const char *const changes[] = { "A:G:bob@:w", "A::bob@:rw", "A::OWNER@:" };

	assert_int_equal(acl_update(acl, changes, 3, &next, NULL), 0);
	assert_int_equal(acl_remove(next, "u:bob@", &last, NULL), 0);
	assert_string_equal(text_of(last), "A::OWNER@: A:G:bob@:w");
	assert_int_equal(acl_remove(next, "g:bob@", &last, NULL), 0);
	assert_string_equal(text_of(last), "A::OWNER@: A::bob@:rw");
	assert_int_equal(acl_remove(next, "OWNER@", &last, NULL), 0);
	assert_string_equal(text_of(last), "A::bob@:rw A:G:bob@:w");
	assert_int_equal(acl_remove(next, "EVERYONE@", &last, NULL), -ENOENT);
	assert_int_equal(acl_remove(next, "u:bob@node1", &last, NULL), -ENOENT);
	for (size_t i = 0; i < 4; i++) {
		static const char *const bad[] = { "bob@", "u:bob", "owner@", "" };

		assert_int_equal(acl_remove(next, bad[i], &last, NULL), -EINVAL);
	}
	last = acl_copy(next);
	assert_non_null(last);
	assert_string_equal(text_of(last), "A::OWNER@: A::bob@:rw A:G:bob@:w");
	assert_string_equal(text_of(acl), "A::OWNER@:rw A::bob@:r"); /* as before */
	free(next);
}

static void a_list_has_a_limit(void **state)
{
	char texts[ACL_ENTRIES_MAX + 1][16];
	const char *places[ACL_ENTRIES_MAX + 1];
	struct fathom_fault why = { 0 };
	struct acl *acl, *next;

	for (size_t i = 0; i <= ACL_ENTRIES_MAX; i++) {
		snprintf(texts[i], sizeof(texts[i]), "A::u%zu@:rw", i);
		places[i] = texts[i];
	}
	assert_int_equal(acl_create(places, ACL_ENTRIES_MAX + 1, &acl, &why), -ENOSPC);
	assert_int_equal(why.code, FAULT_ACL_FULL);
	assert_int_equal(acl_create(places, ACL_ENTRIES_MAX, &acl, NULL), 0);
	assert_int_equal(acl_update(acl, places + ACL_ENTRIES_MAX, 1, &next, &why), -ENOSPC);
	assert_int_equal(acl_update(acl, places, ACL_ENTRIES_MAX, &next, &why), 0);
	free(next);
	free(acl);
}

/* The pool is bob's, of the group staff. */
static uint32_t permissions(struct acl *acl, const char *user, const char *group, const char *more, const char *machine)
{
	char *groups[] = { (char *)more };
	const struct acl_caller caller = { user, group, machine, groups, more ? 1 : 0 };
	uint32_t found = acl_permissions(acl, "bob@", "staff@", &caller);

	free(acl);
	return found;
}

static void the_first_rule_that_matches_gives_the_permissions(void **state)
{
	/* the owner, before its own name and its groups */
	assert_int_equal(permissions(MAKE("A::OWNER@:r", "A::bob@:rw", "A:G:GROUP@:rw"), "bob@", "staff@", NULL, "n"),
			 ACL_READ);
	assert_int_equal(permissions(acl_default(), "bob", "x", NULL, "n"), RW);
	assert_int_equal(permissions(acl_default(), "ann@", "x@", NULL, "n"), 0);
	assert_int_equal(permissions(acl_default(), "ann@", "staff@", NULL, "n"), RW);
	assert_int_equal(permissions(acl_default(), "ann@", "x@", "staff@", "n"), RW);
	/* the owner without an entry: by name */
	assert_int_equal(permissions(MAKE("A::bob@:r", "A::EVERYONE@:rw"), "bob@", "x@", NULL, "n"), ACL_READ);
	/* a user's entry, before groups, also to deny */
	assert_int_equal(permissions(MAKE("A::ann@:", "A:G:GROUP@:rw", "A::EVERYONE@:rw"), "ann@", "staff@", NULL, "n"), 0);
	/* all groups together, before anyone */
	assert_int_equal(permissions(MAKE("A:G:GROUP@:r", "A:G:wheel@:w", "A::EVERYONE@:rwcd"), "ann@", "wheel@", "staff",
				     "n"),
			 RW);
	assert_int_equal(permissions(MAKE("A:G:GROUP@:", "A::EVERYONE@:rw"), "ann@", "staff@", NULL, "n"), 0);
	/* anyone */
	assert_int_equal(permissions(acl_everyone(), "ann@", "x@", NULL, "n"), RW);
	assert_int_equal(permissions(MAKE("A::carl@:rw"), "ann@", "x@", NULL, "n"), 0);
	/* names are whole and differ by case */
	assert_int_equal(permissions(MAKE("A::an@:rw", "A::annie@:rw", "A::Ann@:rw"), "ann@", "x@", NULL, "n"), 0);
	/* a user's name is no group's */
	assert_int_equal(permissions(MAKE("A:G:ann@:rw", "A::x@:rw"), "ann@", "x@", NULL, "n"), 0);
}

static void a_machine_limits_an_entry(void **state)
{
	assert_int_equal(permissions(MAKE("A::root@node1:rw"), "root@", "root@", NULL, "node1"), RW);
	assert_int_equal(permissions(MAKE("A::root@node1:rw"), "root@", "root@", NULL, "NODE1"), RW);
	assert_int_equal(permissions(MAKE("A::root@node1:rw"), "root@", "root@", NULL, "node2"), 0);
	assert_int_equal(permissions(MAKE("A::root@node1:rw"), "root@", "root@", NULL, ""), 0);
	/* the entry with the machine comes first */
	assert_int_equal(permissions(MAKE("A::root@:rw", "A::root@node1:"), "root@", "root@", NULL, "node1"), 0);
	assert_int_equal(permissions(MAKE("A::root@:rw", "A::root@node1:"), "root@", "root@", NULL, "node2"), RW);
	assert_int_equal(permissions(MAKE("A:G:wheel@node1:rw"), "ann@", "wheel@", NULL, "node1"), RW);
	assert_int_equal(permissions(MAKE("A:G:wheel@node1:rw"), "ann@", "wheel@", NULL, "node2"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_are_read_and_written),
		cmocka_unit_test(a_bad_entry_is_refused_with_its_flaw),
		cmocka_unit_test(a_principal_has_at_most_255_bytes),
		cmocka_unit_test(any_text_is_refused_or_kept),
		cmocka_unit_test(a_list_is_sorted_by_the_kind_of_its_entries),
		cmocka_unit_test(two_entries_for_a_principal_are_refused),
		cmocka_unit_test(entries_are_replaced_added_and_removed),
		cmocka_unit_test(a_list_has_a_limit),
		cmocka_unit_test(the_first_rule_that_matches_gives_the_permissions),
		cmocka_unit_test(a_machine_limits_an_entry),
	};

	return cmocka_run_group_tests_name("control mgmt acl", tests, NULL, NULL);
}
