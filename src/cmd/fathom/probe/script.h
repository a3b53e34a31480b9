/* SPDX-License-Identifier: BSD-2-Clause */
/* script - finds scripts, and prepares the tables and the path of a process for them. */
#ifndef CMD_FATHOM_PROBE_SCRIPT_H
#define CMD_FATHOM_PROBE_SCRIPT_H

#include <jansson.h>

#include "cmd/fathom/probe/process.h"
#include "inspect/script/script.h"

enum { PROBE_TABLES_MAX = 256 };

struct probe_tables {
	struct script_table rows[PROBE_TABLES_MAX];
	uint32_t count;
};

/*
 * Read the script `name`: a file, "-" for standard input, or the name, with or without ".bt", of a supplied script. The
 * caller frees `*text_ret` with free(). Errors (explained).
 */
MUST_CHECK int probe_script_read(const char *name, char **text_ret, struct fathom_fault *why);

/*
 * The enum tables for `process`: those of its trace file by name, and @target and @subsystem as in SPDK's scripts.
 * Borrowed from the process.
 */
void probe_tables_of(const struct process *process, struct probe_tables *tables_ret);

/* The path of its program for an attach point; it refers to the running file. */
void probe_path_of(const struct process *process, char *path_ret, size_t bytes);

/* Is the object of `bpftrace -f json` an empty map, as the tables are at the end? */
bool probe_is_cleared_table(const json_t *row);

#endif
