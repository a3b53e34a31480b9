/* SPDX-License-Identifier: BSD-2-Clause */
/* Scripts of users, and the scripts that bpftrace gets. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "inspect/script/script.h"

static const struct reader_label colours[] = { { 0, "RED" }, { 7, "BLUE" } };
static const struct reader_enum colour = { "colour", colours, ARRAY_COUNT(colours) };
static const struct script_table tables[] = { { "colour", &colour }, { "tint", &colour } };
static const struct types_alias aliases[] = {
	{ "count_t", "uint32" }, { "ref_t", "struct ref *" }, { "enum hue", "int8" }, { "struct sock", "struct sock__2" }
};
static struct note_probe probes[] = {
	{ .provider = "fathom", .name = "io_done" },
	{ .provider = "fathom", .name = "io_submit" },
};
static const struct notes notes = { .probes = probes, .probe_count = ARRAY_COUNT(probes) };
static const struct script_target target = {
	.path = "/bin/x",
	.name = "x",
	.pid = 42,
	.notes = &notes,
	.tables = tables,
	.table_count = ARRAY_COUNT(tables),
	.aliases = aliases,
	.alias_count = ARRAY_COUNT(aliases),
};

static void assert_has(const char *script, const char *wanted)
{
	struct script_program program;
	struct fathom_fault why;

	assert_int_equal(script_fill(script, &target, &program, &why), 0);
	if (!strstr(program.text, wanted))
		fail_msg("\"%s\" is not in \"%s\"", wanted, program.text);
	script_free(&program);
}

static void assert_has_not(const char *script, const char *unwanted)
{
	struct script_program program;
	struct fathom_fault why;

	assert_int_equal(script_fill(script, &target, &program, &why), 0);
	if (strstr(program.text, unwanted))
		fail_msg("\"%s\" is in \"%s\"", unwanted, program.text);
	script_free(&program);
}

static void assert_refused(const char *script, int error, const char *text)
{
	struct script_program program;
	struct fathom_fault why;

	assert_int_equal(script_fill(script, &target, &program, &why), error);
	if (!strstr(why.text, text))
		fail_msg("\"%s\" is not in \"%s\"", text, why.text);
}

static void placeholders_are_replaced_only_as_whole_words(void **state)
{
	assert_has("usdt:EXE:io_done /pid == PID/ { @ = PID }", "usdt:/bin/x:fathom:io_done /pid == 42/ { @ = 42 }");
	assert_has("usdt:__EXE__:fathom:io_done{}", "usdt:/bin/x:fathom:io_done{}");
	assert_has("uprobe:EXE:main,uprobe:__EXE__:exit { }", "uprobe:/bin/x:main,uprobe:/bin/x:exit { }");
	assert_has("usdt:EXE:io_* { }", "usdt:/bin/x:io_* { }");
	assert_has("BEGIN { $PID = 1; @PID = 2; @x = $a->PID; @y = $b.PID; @z = 3 > PID; }",
		   "$PID = 1; @PID = 2; @x = $a->PID; @y = $b.PID; @z = 3 > 42;");
	assert_has("#define PID 7\nBEGIN { @ = PID }", "{ @ = PID }");
	assert_has("BEGIN { @ = \"EXE __EXE__ __PID__\" } // __PID__", "@ = \"EXE /bin/x 42\" } // __PID__");
	assert_has("usdt:/other:io_done { } usdt:/other:no_such { }", "usdt:/other:io_done { } usdt:/other:no_such { }");
	assert_has("usdt:__EXE__:spdk:spdk_io_done { }", "usdt:/bin/x:fathom:io_done { }");
}

static void tables_of_names_are_added_for_maps_that_are_only_read(void **state)
{
	assert_has("usdt:EXE:io_done { @a[@colour[arg1]] = count(); }",
		   "BEGIN { @colour[0] = \"RED\"; @colour[7] = \"BLUE\"; }");
	assert_has("usdt:EXE:io_done /@colour[arg1] == \"RED\"/ { }", "@colour[7] = \"BLUE\";");
	assert_has("BEGIN { @b = 1; } usdt:EXE:io_done { @b = @tint[0]; }",
		   "BEGIN { @tint[0] = \"RED\"; @tint[7] = \"BLUE\"; @b = 1; }");
	assert_has("END { print(@b) } usdt:EXE:io_done { @b = @tint[0]; }", "print(@b) ; clear(@tint);");
	assert_has_not("usdt:EXE:io_done { @colour[arg1] = count(); }", "RED");
	assert_has_not("usdt:EXE:io_done { @colour[arg1]++; }", "RED");
	assert_has_not("usdt:EXE:io_done { @a = @colour[arg1]; @colour[arg1] += 2; }", "RED");
	assert_has_not("usdt:EXE:io_done { @colour[arg1, arg2] = 1; @x = @colour[1, 2]; }", "RED");
	assert_has_not("usdt:EXE:io_done { @colours[arg1] = 1; } // @colour[1]", "RED");
}

static void each_output_is_prefixed_with_its_time(void **state)
{
	assert_has("usdt:EXE:io_done { printf(\"%d, \\\"x\\\"\\n\", arg1); }",
		   "printf(\"\\036%lx,%x\\037%d, \\\"x\\\"\\n\\035\", nsecs, cpu, arg1);");
	assert_has("usdt:EXE:io_done { printf(\"a\") }", "printf(\"\\036%lx,%x\\037a\\035\", nsecs, cpu)");
	assert_has("interval:s:1 { time(); if (1) { print(@a); } }",
		   "printf(\"\\036%lx,%x\\034\", nsecs, cpu); print(@a);");
	assert_has("usdt:EXE:io_done { printf(\"a\") }", "\nprofile:ms:100 {");
	assert_has_not("BEGIN { printf(\"a\") } interval:s:1 { print(@a) } END { print(@a) }", "profile");
	assert_has_not("usdt:EXE:io_done { @printf[arg1] = count(); }", "\\037");
}

static void line_numbers_are_kept(void **state)
{
	assert_has("BEGIN\n{\n\t@a = @colour[0];\n}\n/* c\n */\nusdt:EXE:io_done\n{\n}",
		   ";\n\t@a = @colour[0];\n}\n/* c\n */\nusdt:");
}

static void unknown_types_are_replaced_by_types_of_bpftrace(void **state)
{
	(void)state;
	assert_has("BEGIN { $a = (count_t)arg1; }", "$a = (uint32)arg1;");
	assert_has("BEGIN { $a = ( count_t * )arg1; $b = (ref_t)2; }", "( uint32 * )arg1; $b = (struct ref *)2;");
	assert_has("BEGIN { $a = (enum\n\thue)arg1; @ = sizeof(enum hue); }", "$a = (int8)arg1; @ = sizeof(int8);");
	assert_has("usdt:EXE:io_done /(enum hue)arg2 == 1/ { }", "/(int8)arg2 == 1/");
	/* a structure that the kernel has too, in a probe without kernel types */
	assert_has("usdt:EXE:io_done { $a = (struct sock *)arg1; }", "$a = (struct sock__2 *)arg1;");
	assert_has("kprobe:x, uprobe:a:b { $a = (struct\tsock *)arg1; }", "$a = (struct sock__2 *)arg1;");
	assert_has(
		"BEGIN { @ = sizeof(struct sock); } kprobe:x { $a = (struct sock *)arg1; @ = (enum hue)1; } END { @ = "
		"sizeof(struct sock); }",
		"@ = sizeof(struct sock__2); } kprobe:x { $a = (struct sock *)arg1; @ = (int8)1; } END { @ = sizeof(struct "
		"sock__2);");
	assert_has_not("struct sock { int a; }; BEGIN { }", "sock__2");
	/* other uses of these words are unchanged */
	assert_has("BEGIN { @count_t = $count_t + (arg1 * count_t); @x = \"(count_t)1\"; }",
		   "@count_t = $count_t + (arg1 * count_t); @x = \"(count_t)1\";");
	assert_has("struct s { enum hue x; count_t y; };\nBEGIN { @ = (enum tint)1; }",
		   "enum hue x; count_t y; };\nBEGIN { @ = (enum tint)1;");
}

static void errors_name_their_line_and_a_similar_probe(void **state)
{
	assert_refused("\nusdt:EXE:io_dine { }", -ENOENT, "line 2: x has no probe \"io_dine\"; did you mean \"io_done\"?");
	assert_refused("usdt:EXE:qqqqqqqq { }", -ENOENT, "has no probe \"qqqqqqqq\"; `fathom probe list 42`");
	assert_refused("usdt:EXE:other:io_done { }", -ENOENT, "no probe");
	assert_refused("BEGIN { \"", -EINVAL, "a string does not end");
	assert_refused("\n\n/* ", -EINVAL, "line 3: a comment does not end");
}

static void any_prefix_of_a_script_is_filled_in_or_refused(void **state)
{
	static const char script[] =
		"#define A \\\n 1\nstruct s { int PID; };\nBEGIN { @a = @colour[(1)]; }\nusdt:EXE:io_done, "
		"interval:s:1 /arg1 == PID/ { printf(\"%s\\n\", @tint[arg2]); print(@a); @b[1]--; --@b[2]; }";
	char text[sizeof(script)];

	for (size_t bytes = 0; bytes < sizeof(script); bytes++) {
		struct script_program program;
		struct fathom_fault why;

		memcpy(text, script, bytes);
		text[bytes] = '\0';
		if (script_fill(text, &target, &program, &why) == 0)
			script_free(&program);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(placeholders_are_replaced_only_as_whole_words),
		cmocka_unit_test(tables_of_names_are_added_for_maps_that_are_only_read),
		cmocka_unit_test(each_output_is_prefixed_with_its_time),
		cmocka_unit_test(line_numbers_are_kept),
		cmocka_unit_test(unknown_types_are_replaced_by_types_of_bpftrace),
		cmocka_unit_test(errors_name_their_line_and_a_similar_probe),
		cmocka_unit_test(any_prefix_of_a_script_is_filled_in_or_refused),
	};

	return cmocka_run_group_tests_name("fill", tests, NULL, NULL);
}
