/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_script - where scripts are found, and what a process has for them. */
#ifndef CMD_FATHOM_PROBE_SCRIPT_H
#define CMD_FATHOM_PROBE_SCRIPT_H

#include <jansson.h>

#include "cmd/fathom/probe_process.h"
#include "inspect/script/script.h"

enum { PROBE_TABLES_MAX = 256 };

struct probe_tables {
	struct script_table rows[PROBE_TABLES_MAX];
	uint32_t count;
};

/*
 * The text of the script `name`: a file, "-" for standard input, or the name, with or without ".bt", of one that came with
 * us. `*text_ret` is the caller's, for free(). Errors (explained).
 */
MUST_CHECK int probe_script_read(const char *name, char **text_ret, struct fault *why);

/*
 * The tables of enums that `process` has: those of its trace file by their names, @target and @subsystem as in SPDK's
 * scripts. Borrowed from it.
 */
void probe_tables_of(const struct process *process, struct probe_tables *tables_ret);

/* The path of its program for an attach point: one that means the file which is running. */
void probe_path_of(const struct process *process, char *path_ret, size_t bytes);

/* An object of `bpftrace -f json`: is it a map with nothing in it, as tables are at the end? */
bool probe_is_cleared_table(const json_t *row);

#endif
