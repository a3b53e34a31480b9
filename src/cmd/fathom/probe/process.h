/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * process - running programs with USDT probes: found by id, program, or the name of their trace file.
 *
 * The probes are in the program's file; the meaning of their arguments is in the schema of its trace file.
 */
#ifndef CMD_FATHOM_PROBE_PROCESS_H
#define CMD_FATHOM_PROBE_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/fathom/probe/probe.h"
#include "inspect/notes/notes.h"
#include "inspect/trace/trace_file.h"

/* Exit status: a selected process was not found, could not be read or has no probes; of `check`: it cannot be traced. */
enum { EXIT_NO_PROCESS = 1 };

struct process {
	int32_t pid;
	char program[PATH_MAX]; /* the path of its file, from the kernel; printable */
	char command[32];	/* printable */
	char trace_name[64];	/* "": no trace file that we can read */
	struct notes notes;
	struct reader *reader; /* of its trace file; NULL: none */
};

/*
 * Open a process. Pass `process_ret` to process_close(), also after an error. Errors (explained): -ENOENT: it has ended,
 * or is a kernel thread; -EACCES and the like: no permission.
 */
MUST_CHECK int process_open(int32_t pid, struct process *process_ret, struct fathom_fault *why);
void process_close(struct process *process);

enum process_file { PROCESS_FILE_RUNS, PROCESS_FILE_GONE, PROCESS_FILE_OTHER, PROCESS_FILE_HIDDEN };

/*
 * Is the file with its program's name the running one? GONE and OTHER: it was removed or replaced since the start;
 * HIDDEN: unknown (errno). `path_ret`: that name in the process's mount namespace, as we can open it.
 */
enum process_file process_file_of(const struct process *process, char *path_ret, size_t bytes);
/* The length of its program's name, without the suffix that the kernel adds for a removed file. */
size_t process_program_bytes(const struct process *process);

/* Its trace file's name, or its command. Borrowed from it. */
const char *process_name(const struct process *process);

/*
 * Call `each` for all processes with probes that `request` selects; it borrows its process for the call. Missing
 * processes are reported on stderr. Returns the exit status: 0, or EXIT_NO_PROCESS.
 */
int process_each(const struct probe_request *request, void (*each)(void *ctx, struct process *process), void *ctx);

#endif
