/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probe_process - a running program that has USDT probes: found by its id, its program, or the name of its trace file.
 *
 * That a probe is there is known from the program's file; what its arguments mean from the schema in its trace file.
 */
#ifndef CMD_FATHOM_PROBE_PROCESS_H
#define CMD_FATHOM_PROBE_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/fathom/probe.h"
#include "inspect/notes/notes.h"
#include "inspect/trace/trace_file.h"

enum { EXIT_NOBODY = 1 };

struct process {
	int32_t pid;
	char program[PATH_MAX]; /* its file, as the kernel names it; printable */
	char command[32];	/* printable */
	char trace_name[64];	/* "": it has no trace file that we can read */
	struct notes notes;
	struct reader *reader; /* of its trace file; NULL: none */
};

/*
 * Look at one. `process_ret` is to be given to process_close(), also after an error. Errors (explained): -ENOENT: it is
 * gone, or is a thread of the kernel; -EACCES and the like: it is not ours to look at.
 */
MUST_CHECK int process_open(int32_t pid, struct process *process_ret, struct fault *why);
void process_close(struct process *process);

enum process_file { PROCESS_FILE_RUNS, PROCESS_FILE_GONE, PROCESS_FILE_OTHER, PROCESS_FILE_HIDDEN };

/*
 * Is the file of its program's name the one that runs? Removed or replaced since the start are GONE and OTHER; HIDDEN: it
 * cannot be told (errno). `path_ret`: that name as we can open it, in the process's own mount namespace.
 */
enum process_file process_file_of(const struct process *process, char *path_ret, size_t bytes);
/* The length of its program's name, without what the kernel adds to that of a removed file. */
size_t process_program_bytes(const struct process *process);

/* What people call it: its trace file's name, or its command. Borrowed from it. */
const char *process_name(const struct process *process);

/*
 * Call `each` for all processes with probes that `request` asks for; it borrows its process for the call. Who is not there
 * is said on stderr. Returns the exit status: 0, or EXIT_NOBODY.
 */
int process_each(const struct probe_request *request, void (*each)(void *ctx, struct process *process), void *ctx);

#endif
