/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this folder share. */
#ifndef PROBED_JAIL_INTERNAL_H
#define PROBED_JAIL_INTERNAL_H

#include <sys/types.h>

#include "base/fault.h"
#include "inspect/probed/jail/jail.h"
#include "inspect/probed/jail/protocol.h"

/* ---- process.c: a child as a process ---- */

struct jail_sizes {
	uint64_t blocks_max, answer_max, room;
};

struct jail_process {
	pid_t pid;
	int orders, answers; /* our ends */
	int orders_unread;   /* the child's end, too: nobody gets SIGPIPE, and what it has not read can be seen */
	int memory;
};

/* Start `program` (NULL: this one) as a child; what it says first tells whether it is confined. */
MUST_CHECK int jail_process_start(const char *program, const struct jail_sizes *sizes, struct jail_process *process_ret,
				  struct fault *why);

/*
 * End it and close what is ours. `*status_ret` (may be NULL) is of wait(2); -1: not known. False: it is ending, and
 * jail_process_reap() is to be asked again later.
 */
bool jail_process_end(struct jail_process *process, bool has_died, int *status_ret);
bool jail_process_reap(pid_t pid);

/* Bytes that nobody has read yet: of answers, and of orders. */
bool jail_process_has_said(const struct jail_process *process);
bool jail_process_has_unread(const struct jail_process *process);

/* Write `bytes` of the blocks of `input` (no larger than the memory), from byte `from` of them together on, or -errno. */
MUST_CHECK int jail_process_put(const struct jail_process *process, const struct dof_input *input, uint64_t from,
				uint64_t bytes);
/* Say that all blocks of `input` are in the memory, and are to be parsed, or -errno. */
MUST_CHECK int jail_process_order(const struct jail_process *process, uint64_t sequence, const struct dof_input *input,
				  const struct dof_limits *limits);

#endif
