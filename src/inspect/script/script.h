/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * script - fills in a bpftrace program for one process.
 *
 *   __EXE__ __PID__     everywhere but in comments: the program's file, the process
 *   EXE PID             the same; EXE between the colons of an attach point, PID where a number may be
 *   @io_status[arg3]    an enum's words: a map that BEGIN fills and END clears, unless the script writes to it
 *   enum x, x_t         in casts: bpftrace's own words for the program's types (aliases)
 *   struct x            an alias, if the kernel has one of that name, too; in blocks that read the kernel, the kernel's
 *   printf() and others a mark with time and CPU is printed in front of their output, so that the output can be sorted
 *
 * Lines keep their numbers, so that bpftrace's messages have the script's line numbers. No I/O. Thread: any.
 */
#ifndef INSPECT_SCRIPT_SCRIPT_H
#define INSPECT_SCRIPT_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "inspect/notes/notes.h"
#include "inspect/trace/trace_file.h"
#include "inspect/types/types.h"

/*
 * Format of the output: SCRIPT_MARK, nanoseconds, ',', CPU, both in hexadecimal, SCRIPT_MARK_END, the text,
 * SCRIPT_TEXT_END. With SCRIPT_MARK_OPEN in place of SCRIPT_MARK_END there is no text: the mark applies to what bpftrace
 * prints next without a format, such as a map.
 */
enum { SCRIPT_MARK = 0x1e, SCRIPT_MARK_END = 0x1f, SCRIPT_MARK_OPEN = 0x1c, SCRIPT_TEXT_END = 0x1d };

struct script_table {
	const char *name; /* of the map, without '@' */
	const struct reader_enum *words;
};

struct script_target {
	const char *path; /* for attach points: must not contain spaces, quotes, colons and the like */
	const char *name; /* for messages */
	int32_t pid;
	const struct notes *notes;
	const struct script_table *tables;
	uint32_t table_count;
	const struct types_alias *aliases;
	uint32_t alias_count;
};

struct script_program {
	char *text;
	bool beats; /* every CPU prints an empty text ten times a second: the output must be sorted */
};

/*
 * Fill in `text`. `target` is borrowed. Free `*program_ret` with script_free(). Errors (explained): -ENOENT: the process
 * has no such probe, with the line and the nearest name; -EINVAL: a string or a comment does not end.
 */
MUST_CHECK int script_fill(const char *text, const struct script_target *target, struct script_program *program_ret,
			   struct fathom_fault *why);
void script_free(struct script_program *program);

/*
 * Collect the names of a script that a program's debug information may explain into `wanted`, sorted; names that the
 * script declares itself go to `wanted->taken`. Structures named only in blocks that read the kernel go to `kernels`.
 * Existing contents are kept. Errors as above.
 */
MUST_CHECK int script_names(const char *text, struct types_wanted *wanted, struct types_names *kernels,
			    struct fathom_fault *why);

#endif
