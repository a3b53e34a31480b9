/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * script - a program for bpftrace, filled in for one process.
 *
 *   __EXE__ __PID__     everywhere but in comments: the program's file, the process
 *   EXE PID             the same; EXE between the colons of an attach point, PID where a number can stand
 *   @io_status[arg3]    an enum's words: a map that BEGIN fills and END clears, unless the script writes to it
 *   enum x, x_t         in casts: bpftrace's own words for what the program has there (aliases)
 *   struct x            another name, where the kernel has one, too (an alias); where the kernel is looked at, the kernel's
 *   printf() and others say when and on which CPU, in front of what they print, so that the output can be put in order
 *
 * Lines stay where they are, so that bpftrace's complaints have the script's line numbers. No I/O here; any thread.
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
 * What is printed: SCRIPT_MARK, nanoseconds, ',', CPU, both in hexadecimal, SCRIPT_MARK_END, the text, SCRIPT_TEXT_END.
 * With SCRIPT_MARK_OPEN in place of SCRIPT_MARK_END there is no text: the mark is for what bpftrace prints next by other
 * means, such as a map.
 */
enum { SCRIPT_MARK = 0x1e, SCRIPT_MARK_END = 0x1f, SCRIPT_MARK_OPEN = 0x1c, SCRIPT_TEXT_END = 0x1d };

struct script_table {
	const char *name; /* of the map, without '@' */
	const struct reader_enum *words;
};

struct script_target {
	const char *path; /* for attach points: without spaces, quotes, colons and the like */
	const char *name; /* what people call it */
	int32_t pid;
	const struct notes *notes;
	const struct script_table *tables;
	uint32_t table_count;
	const struct types_alias *aliases;
	uint32_t alias_count;
};

struct script_program {
	char *text;
	bool beats; /* every CPU prints an empty text ten times a second: the output has to be put in order */
};

/*
 * Fill `text` in. All of `target` is borrowed. `program_ret` is to be given to script_free(). Errors (explained): -ENOENT:
 * a probe that the process does not have, with the line and the name that is nearest; -EINVAL: a string or a comment does
 * not end.
 */
MUST_CHECK int script_fill(const char *text, const struct script_target *target, struct script_program *program_ret,
			   struct fault *why);
void script_free(struct script_program *program);

/*
 * Which words of a script a program's debug information may explain: add them to `wanted`, sorted; what the script declares
 * itself is taken. Structures that are only named where it looks at the kernel go to `kernels`. The rest of both is left
 * alone. Errors as above.
 */
MUST_CHECK int script_names(const char *text, struct types_wanted *wanted, struct types_names *kernels, struct fault *why);

#endif
