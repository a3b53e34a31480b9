/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables and entity lists are equal to the output of dmg, byte for byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "cmd/fathom/show/dmg.h"
#include "failing.h"

/* `cells`: first `columns` titles, then the rows. */
static char *print(const char *const *cells, size_t columns, size_t rows, unsigned int indent)
{
	struct table *table = dmg_table_create(cells, columns);
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(table);
	assert_non_null(out);
	for (size_t row = 1; row < rows; row++)
		assert_int_equal(table_add(table, cells + row * columns), 0);
	table_print(table, indent, out);
	fclose(out);
	table_destroy(table);
	return text;
}

static void assert_prints(const char *const *cells, size_t columns, size_t rows, unsigned int indent, const char *expected)
{
	char *text = print(cells, columns, rows, indent);

	assert_string_equal(text, expected);
	free(text);
}

static void tables_equal_those_of_dmg(void **state)
{
	static const char *const ranks[] = { "Rank", "State", "0", "Joined" };
	static const char *const members[] = { "Rank",
					       "UUID",
					       "Control Address",
					       "Fault Domain",
					       "State",
					       "Reason",
					       "0",
					       "950fc86b-a987-4a2b-bde9-cd728548bb25",
					       "127.0.0.1:10001",
					       "/rack0/node0",
					       "Joined",
					       "" };
	static const char *const format[] = { "Hosts", "SCM Devices", "NVMe Devices", "127.0.0.1", "1", "0" };
	static const char *const scan[] = { "Hosts",	 "SCM Total",	    "NVMe Total",
					    "127.0.0.1", "0 B (0 modules)", "0 B (0 controllers)" };
	static const char *const network[] = { "Provider",	   "Interfaces", "ofi+sockets",
					       "eth0, ifb0, ifb1", "ofi+tcp",	 "eth0, ifb0, ifb1" };

	assert_prints(ranks, 2, 2, 0, "Rank State  \n---- -----  \n0    Joined \n");
	assert_prints(members, 6, 2, 0,
		      "Rank UUID                                 Control Address Fault Domain State  Reason \n"
		      "---- ----                                 --------------- ------------ -----  ------ \n"
		      "0    950fc86b-a987-4a2b-bde9-cd728548bb25 127.0.0.1:10001 /rack0/node0 Joined        \n");
	assert_prints(format, 3, 2, 2,
		      "  Hosts     SCM Devices NVMe Devices \n"
		      "  -----     ----------- ------------ \n"
		      "  127.0.0.1 1           0            \n");
	assert_prints(scan, 3, 2, 0,
		      "Hosts     SCM Total       NVMe Total          \n"
		      "-----     ---------       ----------          \n"
		      "127.0.0.1 0 B (0 modules) 0 B (0 controllers) \n");
	assert_prints(network, 2, 3, 8,
		      "        Provider    Interfaces       \n"
		      "        --------    ----------       \n"
		      "        ofi+sockets eth0, ifb0, ifb1 \n"
		      "        ofi+tcp     eth0, ifb0, ifb1 \n");
	assert_prints(ranks, 2, 1, 0, "Rank State \n---- ----- \n");
}

static void cells_have_one_line_and_are_aligned_by_characters(void **state)
{
	static const char *const cells[] = { "A", "B", "gr\xc3\xbc\xc3\x9f", "x\ny\tz", "abcd\xff", "" };

	assert_prints(cells, 2, 3, 0, "A     B     \n-     -     \ngr\xc3\xbc\xc3\x9f  x y z \nabcd?       \n");
}

static void entities_and_headings_equal_those_of_dmg(void **state)
{
	static const char *const pool[] = { "UUID",
					    "0b0f021e-718f-410f-98f7-f3011f7f2e3c",
					    "Service Leader",
					    "0",
					    "Storage tier 1 (NVMe)",
					    "0 B (0 B / rank)" };
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	entity_print("Pool created with 100.00%,0.00% storage tier ratio", pool, 3, 0, out);
	heading_print("127.0.0.1", 0, out);
	heading_print("NUMA Socket 0", 4, out);
	entity_print(NULL, pool, 0, 0, out);
	fclose(out);
	assert_string_equal(text, "Pool created with 100.00%,0.00% storage tier ratio\n"
				  "--------------------------------------------------\n"
				  "  UUID                 : 0b0f021e-718f-410f-98f7-f3011f7f2e3c\n"
				  "  Service Leader       : 0                                   \n"
				  "  Storage tier 1 (NVMe): 0 B (0 B / rank)                    \n"
				  "---------\n127.0.0.1\n---------\n"
				  "    -------------\n    NUMA Socket 0\n    -------------\n");
	free(text);
}

static void sizes_equal_those_of_dmg(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 9, "9 B" },
		{ 999, "999 B" },
		{ 1000, "1.0 kB" },
		{ 250000000, "250 MB" },
		{ 1000000000, "1.0 GB" },
		{ 4294967296, "4.3 GB" },
		{ 9940, "9.9 kB" },
		{ 9950, "10 kB" },
		{ 12345678901234, "12 TB" },
		{ UINT64_MAX, "18 EB" },
	};
	char text[SIZE_TEXT_BYTES];

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
		assert_string_equal(size_text(cases[i].bytes, text), cases[i].text);
}

static int fill_a_table(void)
{
	static const char *const cells[] = { "a", "b", "c" };
	struct table *table = dmg_table_create(cells, 3);
	int error = table ? 0 : -ENOMEM;

	for (int row = 0; !error && row < 20; row++)
		error = table_add(table, cells);
	table_destroy(table);
	return error;
}

static void a_failed_allocation_is_an_error_and_leaks_nothing(void **state)
{
	bool failed = true;

	for (uint32_t n = 1; failed; n++) {
		int error;

		failing_begin(n);
		error = fill_a_table();
		failed = failing_end();
		assert_int_equal(error, failed ? -ENOMEM : 0);
		assert_int_equal(failing_held(), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_equal_those_of_dmg),
		cmocka_unit_test(cells_have_one_line_and_are_aligned_by_characters),
		cmocka_unit_test(entities_and_headings_equal_those_of_dmg),
		cmocka_unit_test(sizes_equal_those_of_dmg),
		cmocka_unit_test(a_failed_allocation_is_an_error_and_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
