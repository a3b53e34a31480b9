/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tap - linked into each unit test: cmocka prints TAP, and FATHOM_TEST_CASES selects cases (a pattern; `.*` is supported).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PATTERN_BYTES_MAX = 256 };

__attribute__((constructor)) static void choose_output_and_cases(void)
{
	static char pattern[PATTERN_BYTES_MAX];
	const char *cases = getenv("FATHOM_TEST_CASES");
	size_t used = 0;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!cases || !*cases)
		return;
	pattern[used++] = '*';
	for (; *cases && used < sizeof(pattern) - 2; cases++) {
		if (cases[0] == '.' && cases[1] == '*')
			continue;
		if (*cases != '^' && *cases != '$')
			pattern[used++] = *cases;
	}
	pattern[used++] = '*';
	cmocka_set_test_filter(pattern);
}
