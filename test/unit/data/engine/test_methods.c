/* SPDX-License-Identifier: BSD-2-Clause */
/* The defaults in docs/json-rpc.md and `fathom rpc --help` equal those of the target. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>

#include "data/engine/methods.gen.h"

/* iobuf sizes without effect: "not set" is UINT32_MAX in the target, as in SPDK */
static bool is_default(uint64_t value, uint64_t in_table)
{
	return value == in_table || (value == UINT32_MAX && in_table == 0);
}

static void defaults_in_the_table_equal_those_of_the_target(void **state)
{
	unsigned int count = 0;

#define STRUCT(NAME, INIT, ...)                                                                                            \
	{                                                                                                                  \
		struct NAME options;                                                                                       \
                                                                                                                           \
		INIT(&options);                                                                                            \
		__VA_ARGS__                                                                                                \
	}
#define DEFAULT(FIELD, VALUE)                                                                                              \
	if (!is_default((uint64_t)options.FIELD, VALUE))                                                                   \
		fail_msg(#FIELD ": the table says %llu, the target %llu", (unsigned long long)(VALUE),                     \
			 (unsigned long long)options.FIELD);                                                               \
	count++;
#include "data/engine/methods_defaults.gen.inc"
	assert_true(count > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_in_the_table_equal_those_of_the_target),
	};

	return cmocka_run_group_tests_name("engine methods", tests, NULL, NULL);
}
