/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * types - a program's structures and enums, out of its DWARF, as declarations that bpftrace can read.
 *
 *   program -> its own DWARF, or that of its debug file -> definitions by name (find) -> text (write)
 *
 * Every member is where the program has it: structures are packed, each gap is a member of its own. What bpftrace does not
 * know is replaced by what has the same size: enums and booleans by integers, floating point by bytes.
 *
 * Declared are the structures asked for, those that lie in them, and those that their pointers lead to where the pointer's
 * name is among `members`; other pointers are void *. A name that stands for two different things in the program is refused
 * where it is asked for; a structure that is only needed gets another name, where its own is not free.
 *
 * Any thread; nothing is kept between calls. Programs are a stranger's: what makes no sense becomes a gap.
 */
#ifndef INSPECT_TYPES_TYPES_H
#define INSPECT_TYPES_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

struct types_names {
	char **names; /* its own; NULL: none */
	uint32_t count;
};

/* Add a copy of `bytes` at `name`. */
void types_names_add(struct types_names *names, const char *name, size_t bytes);
/* Put them in order, each once: only then types_names_has() finds them. */
void types_names_sort(struct types_names *names);
bool types_names_has(const struct types_names *names, const char *name);
void types_names_free(struct types_names *names);

/* The kernel that runs, as its BTF has it. */
struct types_kernel;

/* NULL: it has none that we can read. */
struct types_kernel *types_kernel_open(void);
/* Accepts NULL. */
void types_kernel_close(struct types_kernel *kernel);
/* Has it a structure or union of that name? Accepts NULL. */
bool types_kernel_has(const struct types_kernel *kernel, const char *name);

/* All sorted. */
struct types_wanted {
	struct types_names structures; /* and unions */
	struct types_names enums;
	struct types_names casts;	   /* words that may be typedefs */
	struct types_names words;	   /* that may be enumerators */
	struct types_names members;	   /* whose pointers are followed */
	struct types_names taken;	   /* names that are declared elsewhere */
	const struct types_kernel *kernel; /* whose names a structure which is only needed does not take either; borrowed */
};

void types_wanted_free(struct types_wanted *wanted);

struct types_program {
	const char *path;   /* the file, such as /proc/PID/exe */
	const char *beside; /* where it lies: debug files are looked for from there */
	const char *root;   /* a directory under which there may be another usr/lib/debug; "": none */
};

/* What bpftrace has in place of a typedef, of "enum NAME", or of a "struct NAME" that the kernel has, too. */
struct types_alias {
	char *name, *spelled;
};

struct types_declared {
	char *text; /* lines of C; "": nothing is to be declared */
	struct types_alias *aliases;
	uint32_t alias_count;
};

/*
 * Declare what is wanted, as far as the program has it: what it does not have is no error. `declared_ret` is to be given to
 * types_declared_free(). Errors (explained): -ENODATA: neither the program nor a file that belongs to it has debug
 * information; -ENOTUNIQ: a name that is wanted means two things; -E2BIG: it leads to too much; -ENOENT and the like.
 */
MUST_CHECK int types_declare(const struct types_program *program, const struct types_wanted *wanted,
			     struct types_declared *declared_ret, struct fault *why);
void types_declared_free(struct types_declared *declared);

#endif
