/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * types - converts structures and enums in a program's DWARF into declarations that bpftrace can read.
 *
 *   program -> its own DWARF, or that of its debug file -> definitions by name (find) -> text (write)
 *
 * Each member has its offset in the program: structures are packed, and each gap is a member. Types that bpftrace does
 * not support are replaced by types of the same size: enums and booleans by integers, floating point by bytes.
 *
 * Declared are the wanted structures, structures within them, and structures that their pointers lead to if the
 * pointer's name is in `members`; other pointers are void *. If a wanted name has two different definitions in the
 * program, this is an error. A structure that is only needed by others gets another name if its own is taken.
 *
 * Thread: any; no global state. Programs are untrusted: invalid members become gaps.
 */
#ifndef INSPECT_TYPES_TYPES_H
#define INSPECT_TYPES_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

struct types_names {
	char **names; /* owned; NULL: none */
	uint32_t count;
};

/* Add a copy of `bytes` at `name`. */
void types_names_add(struct types_names *names, const char *name, size_t bytes);
/* Sort and remove duplicates. Required before types_names_has(). */
void types_names_sort(struct types_names *names);
bool types_names_has(const struct types_names *names, const char *name);
void types_names_free(struct types_names *names);

/* The running kernel's types, from its BTF. */
struct types_kernel;

/* NULL: no readable BTF. */
struct types_kernel *types_kernel_open(void);
/* Accepts NULL. */
void types_kernel_close(struct types_kernel *kernel);
/* Does the kernel have a structure or union of this name? Accepts NULL. */
bool types_kernel_has(const struct types_kernel *kernel, const char *name);

/* What to declare. All lists must be sorted. */
struct types_wanted {
	struct types_names structures; /* and unions */
	struct types_names enums;
	struct types_names casts;	   /* words that may be typedefs */
	struct types_names words;	   /* words that may be enumerators */
	struct types_names members;	   /* names of members with pointers to follow */
	struct types_names taken;	   /* names declared elsewhere */
	const struct types_kernel *kernel; /* structures that are only needed do not use its names either; borrowed */
};

void types_wanted_free(struct types_wanted *wanted);

struct types_program {
	const char *path;   /* the file, such as /proc/PID/exe */
	const char *beside; /* its location, for finding debug files */
	const char *root;   /* a directory that may have another usr/lib/debug; "": none */
};

/* bpftrace's spelling of a typedef, of "enum NAME", or of a "struct NAME" that the kernel has, too. */
struct types_alias {
	char *name, *spelled;
};

struct types_declared {
	char *text; /* lines of C; "": no declarations */
	struct types_alias *aliases;
	uint32_t alias_count;
};

/*
 * Declare the wanted names that the program has; missing names are no error. Free `*declared_ret` with
 * types_declared_free(). Errors (explained): -ENODATA: neither the program nor a debug file of it has debug information;
 * -ENOTUNIQ: a wanted name has two meanings; -E2BIG: too many structures are reachable; -ENOENT and the like.
 */
MUST_CHECK int types_declare(const struct types_program *program, const struct types_wanted *wanted,
			     struct types_declared *declared_ret, struct fathom_fault *why);
void types_declared_free(struct types_declared *declared);

#endif
