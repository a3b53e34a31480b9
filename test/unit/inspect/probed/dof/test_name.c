/* SPDX-License-Identifier: BSD-2-Clause */
/* Valid names, and the equality of sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "samples.h"

static void names_with_special_characters_are_refused(void **state)
{
	static const char *const good[] = { "a",	 "go-on-now",  "_start",  "$dtrace.helper",
					    "libc.so.6", "foo.part.0", ".a",	  "..a",
					    "a.",	 "...",	       "my prog", "gr\303\274n" };
	static const char *const bad[] = { "",	     ".",    "..",   "/",    "a/b",  "../x",	 ":",
					   "a:b:c",  "*",    "a*",   "?",    "[",    "]",	 "a\\b",
					   "\n\033", "a\tb", "\177", "\200", "\303", "\302\205", "\300\257" };

	for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
		if (!dof_name_ok(good[i], DOF_NAME_BYTES))
			fail_msg("\"%s\" is refused", good[i]);
	}
	for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
		if (dof_name_ok(bad[i], DOF_NAME_BYTES))
			fail_msg("name %zu is accepted", i);
	}
}

static void the_longest_name_has_room_for_its_nul(void **state)
{
	char name[DOF_NAME_BYTES + 1];

	memset(name, 'n', sizeof(name));
	name[DOF_NAME_BYTES - 1] = '\0';
	assert_true(dof_name_ok(name, DOF_NAME_BYTES));
	name[DOF_NAME_BYTES - 1] = 'n';
	name[DOF_NAME_BYTES] = '\0';
	assert_false(dof_name_ok(name, DOF_NAME_BYTES));
}

/* Two providers, the first with two probes of two sites. */
struct made {
	struct dof_site sites[4];
	struct dof_probe probes[3];
	struct dof_provider providers[2];
	struct dof_set set;
};

static const char *const types[] = { "int", "char *" };
static const uint8_t map[] = { 1, 0 };

static void make(struct made *made, bool backwards)
{
	static const uint64_t addresses[] = { 0x10, 0x20, 0x30, 0x40 };
	int swap = backwards;

	memset(made, 0, sizeof(*made));
	for (int i = 0; i < 4; i++)
		made->sites[i] = (struct dof_site){ .address = addresses[i ^ swap], .args = "" };
	for (int i = 0; i < 2; i++)
		made->probes[i] = (struct dof_probe){ .module = "m",
						      .function = "f",
						      .name = i ^ swap ? "b" : "a",
						      .native_count = 2,
						      .translated_count = 2,
						      .native = types,
						      .translated = types,
						      .map = map,
						      .site_count = 2,
						      .sites = &made->sites[(i ^ swap) * 2] };
	made->probes[2] =
		(struct dof_probe){ .module = "m", .function = "f", .name = "a", .site_count = 1, .sites = made->sites };
	made->providers[swap] = (struct dof_provider){ .name = "one", .probe_count = 2, .probes = made->probes };
	made->providers[!swap] = (struct dof_provider){ .name = "two", .probe_count = 1, .probes = &made->probes[2] };
	made->probes[2].sites = &made->sites[swap];
	made->set = (struct dof_set){ .provider_count = 2, .providers = made->providers };
}

static void sets_in_another_order_are_equal(void **state)
{
	struct made a, b;

	make(&a, false);
	make(&b, true);
	assert_true(dof_set_equal(&a.set, &b.set));
}

static void sets_with_any_other_difference_are_not_equal(void **state)
{
	static const char *const other_types[] = { "int", "void *" };
	static const uint8_t other_map[] = { 0, 0 };
	struct made a, b;

	make(&a, false);
#define DIFFERS(change)                                                                                                    \
	make(&b, false);                                                                                                   \
	change;                                                                                                            \
	assert_false(dof_set_equal(&a.set, &b.set))
	DIFFERS(b.set.provider_count = 1);
	DIFFERS(b.providers[0].name = "three");
	DIFFERS(b.providers[0].attributes[4] = 1);
	DIFFERS(b.providers[0].probe_count = 1);
	DIFFERS(b.probes[0].module = "n");
	DIFFERS(b.probes[0].function = "g");
	DIFFERS(b.probes[0].name = "c");
	DIFFERS(b.probes[0].native = other_types);
	DIFFERS(b.probes[0].translated = other_types);
	DIFFERS(b.probes[0].native_count = 1);
	DIFFERS(b.probes[0].translated_count = 1);
	DIFFERS(b.probes[0].map = other_map);
	DIFFERS(b.probes[0].site_count = 1);
	DIFFERS(b.sites[0].address = 0x11);
	DIFFERS(b.sites[0].is_enabled = true);
	DIFFERS(b.sites[0].args = "8@%rdi");
#undef DIFFERS
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_with_special_characters_are_refused),
		cmocka_unit_test(the_longest_name_has_room_for_its_nul),
		cmocka_unit_test(sets_in_another_order_are_equal),
		cmocka_unit_test(sets_with_any_other_difference_are_not_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
