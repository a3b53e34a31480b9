/* SPDX-License-Identifier: BSD-2-Clause */
/* States of members have the bits and names of DAOS. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/system/member.h"

static void states_have_the_bits_and_names_of_daos(void **state)
{
	static const uint32_t bits[] = { 0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100, 0x200, 0x400 };
	enum member_state found;

	for (enum member_state each = MEMBER_UNKNOWN; each < MEMBER_STATES; each++) {
		assert_int_equal(member_state_bit(each), bits[each]);
		assert_int_equal(member_state_of_bit(bits[each], &found), 0);
		assert_int_equal(found, each);
		assert_int_equal(member_state_parse(member_state_title(each), &found), 0);
		assert_int_equal(found, each);
	}
	assert_int_equal(member_state_of_bit(3, &found), -EINVAL);
	assert_int_equal(member_state_of_bit(0x800, &found), -EINVAL);
	assert_int_equal(member_state_parse("jointed", &found), -EINVAL);
	assert_string_equal(member_state_wire(MEMBER_ADMIN_EXCLUDED), "adminexcluded");
	assert_int_equal(MEMBER_OUT_BITS, 0x241);
	assert_int_equal(MEMBER_AVAILABLE_BITS, 0xc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_have_the_bits_and_names_of_daos),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
