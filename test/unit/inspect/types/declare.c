/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * declare PROGRAM [KIND:NAME]... - prints the result of types_declare() for a program; for test_layout.py.
 *
 * Kinds: struct, enum, cast, word, member, taken; "kernel:" takes the running kernel's names into account. "has:NAME" looks
 * up only the kernel.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/types/types.h"

static int declare(const char *path, const struct types_wanted *wanted)
{
	const char *root = getenv("TYPES_ROOT");
	struct types_declared declared;
	struct fathom_fault why;

	if (types_declare(&(struct types_program){ .path = path, .beside = path, .root = root ? root : "" }, wanted,
			  &declared, &why) != 0) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	fputs(declared.text, stdout);
	for (uint32_t i = 0; i < declared.alias_count; i++)
		printf("// %s = %s\n", declared.aliases[i].name, declared.aliases[i].spelled);
	types_declared_free(&declared);
	return 0;
}

int main(int argc, char **argv)
{
	struct types_kernel *kernel = NULL;
	struct types_wanted wanted = { 0 };
	const struct {
		const char *kind;
		struct types_names *names;
	} kinds[] = {
		{ "struct:", &wanted.structures }, { "enum:", &wanted.enums },	   { "cast:", &wanted.casts },
		{ "word:", &wanted.words },	   { "member:", &wanted.members }, { "taken:", &wanted.taken },
	};
	int rc;

	if (argc < 2)
		return 2;
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "kernel:") == 0)
			kernel = types_kernel_open();
		for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
			size_t bytes = strlen(kinds[k].kind);

			if (strncmp(argv[i], kinds[k].kind, bytes) == 0)
				types_names_add(kinds[k].names, argv[i] + bytes, strlen(argv[i] + bytes));
		}
		if (strncmp(argv[i], "has:", 4) == 0) {
			kernel = types_kernel_open();
			printf("%d\n", types_kernel_has(kernel, argv[i] + 4));
		}
	}
	for (size_t k = 0; k < ARRAY_COUNT(kinds); k++)
		types_names_sort(kinds[k].names);
	wanted.kernel = kernel;
	rc = declare(argv[1], &wanted);
	types_wanted_free(&wanted);
	types_kernel_close(kernel);
	return rc;
}
