/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of a script that are looked up in debug information. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/must.h"
#include "inspect/script/script.h"

static void joined(const struct types_names *assert_names, char *to, size_t bytes)
{
	size_t at = 0;

	to[0] = '\0';
	for (uint32_t i = 0; i < assert_names->count; i++)
		at += (size_t)snprintf(to + at, bytes - at, "%s%s", i ? " " : "", assert_names->names[i]);
	must(at < bytes);
}

struct expected {
	const char *structures, *enums, *casts, *words, *members, *taken, *kernels; /* NULL: any */
};

static void assert_names_equal(const char *what, const struct types_names *assert_names, const char *expected,
			       const char *script)
{
	char text[1024];

	joined(assert_names, text, sizeof(text));
	if (expected && strcmp(text, expected) != 0)
		fail_msg("%s of \"%s\": \"%s\", expected \"%s\"", what, script, text, expected);
}

static void assert_names(const char *script, struct expected expected)
{
	struct types_wanted wanted = { 0 };
	struct types_names kernels = { 0 };
	struct fathom_fault why;

	assert_int_equal(script_names(script, &wanted, &kernels, &why), 0);
	assert_names_equal("structures", &wanted.structures, expected.structures, script);
	assert_names_equal("enums", &wanted.enums, expected.enums, script);
	assert_names_equal("casts", &wanted.casts, expected.casts, script);
	assert_names_equal("words", &wanted.words, expected.words, script);
	assert_names_equal("members", &wanted.members, expected.members, script);
	assert_names_equal("taken", &wanted.taken, expected.taken, script);
	assert_names_equal("kernels", &kernels, expected.kernels, script);
	types_wanted_free(&wanted);
	types_names_free(&kernels);
}

static void structures_and_members_are_found_in_each_position(void **state)
{
	(void)state;
	assert_names("usdt:EXE:io_done /((struct bdev *)arg1)->open == 1/ { $s = (struct nvmf_ctrlr *)arg1; "
		     "@a[$s->host.nqn] = 1; "
		     "}",
		     (struct expected){
			     .structures = "bdev nvmf_ctrlr", .members = "host nqn open", .enums = "", .kernels = "" });
	assert_names(
		"BEGIN { sizeof(struct\n\tbig); sizeof(union  small); /* struct no */ printf(\"struct none\"); } // struct "
		"never",
		(struct expected){ .structures = "big small" });
	assert_names("usdt:EXE:x { @x = ((struct a *)arg1) -> b . c; }", (struct expected){ .members = "b c" });
}

static void names_declared_by_the_script_are_not_looked_up(void **state)
{
	(void)state;
	assert_names("#define LIMIT 5\nstruct mine { int a; struct theirs inner; struct other *next; };\nenum colour { "
		     "RED, BLUE "
		     "= 3 };\n"
		     "BEGIN { @ = (struct mine *)0; @b = RED; @c = BLUE; @d = LIMIT; @e = GREEN; }",
		     (struct expected){ .structures = "other theirs",
					.words = "GREEN a inner next",
					.taken = "BLUE LIMIT RED colour mine" });
	assert_names("enum { ONE, TWO };\nBEGIN { @ = ONE + THREE; }", (struct expected){ .words = "THREE" });
}

static void words_that_may_be_enumerators_or_typedefs_are_looked_up(void **state)
{
	(void)state;
	assert_names("BEGIN { $x = STATE; @STATE2 = 1; $STATE3 = pid + 0x7f; f(OTHER); @s->WORD = (count_t)1; $y = (p_t * "
		     "*)2; }",
		     (struct expected){
			     .words = "OTHER STATE count_t p_t", .casts = "OTHER count_t p_t", .members = "WORD" });
	assert_names("usdt:/usr/bin/x:fathom:io_done, interval:s:1\n/arg1 == DONE && 7 / HALF/ { @ = sum(arg12 + sarg0 + "
		     "argument); }",
		     (struct expected){ .words = "DONE HALF argument" });
	assert_names("BEGIN { $x = (enum colour)3; if ($x == RED) { @ = count(); } }",
		     (struct expected){ .enums = "colour", .words = "RED" });
}

static void structures_in_kernel_probes_may_be_the_kernels(void **state)
{
	(void)state;
	assert_names("kprobe:tcp_sendmsg { $s = (struct sock *)arg0; }\nusdt:EXE:x { $s = (struct bdev *)arg1; }\n"
		     "tracepoint:a:b,\nkretfunc:x { $f = (struct file *)args->f; }",
		     (struct expected){ .structures = "bdev", .kernels = "file sock" });
	assert_names("kprobe:x, uprobe:/bin/x:y { $s = (struct sock *)arg0; }",
		     (struct expected){ .structures = "sock", .kernels = "" });
	assert_names("BEGIN { $s = (struct sock *)0; } interval:s:1 { $f = (struct file *)0; }",
		     (struct expected){ .structures = "file sock", .kernels = "" });
}

static void an_unfinished_comment_is_refused(void **state)
{
	struct types_wanted wanted = { 0 };
	struct types_names kernels = { 0 };
	struct fathom_fault why;

	(void)state;
	assert_int_equal(script_names("BEGIN {\n /* ", &wanted, &kernels, &why), -EINVAL);
	assert_string_equal(why.text, "line 2: a comment does not end");
	assert_names("", (struct expected){ "", "", "", "", "", "", "" });
	assert_names("struct", (struct expected){ .structures = "" });
	assert_names("struct { } enum {", (struct expected){ .structures = "", .enums = "" });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(structures_and_members_are_found_in_each_position),
		cmocka_unit_test(names_declared_by_the_script_are_not_looked_up),
		cmocka_unit_test(words_that_may_be_enumerators_or_typedefs_are_looked_up),
		cmocka_unit_test(structures_in_kernel_probes_may_be_the_kernels),
		cmocka_unit_test(an_unfinished_comment_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
