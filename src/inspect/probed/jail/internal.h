/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of this folder. */
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
	int orders, answers; /* the parent's ends */
	int orders_unread;   /* the child's end: prevents SIGPIPE, and shows whether an order is unread */
	int memory;
};

/* Start `program` (NULL: this one) as a child; its first answer reports whether it is confined. */
MUST_CHECK int jail_process_start(const char *program, const struct jail_sizes *sizes, struct jail_process *process_ret,
				  struct fathom_fault *why);

/*
 * Kill the child and close the parent's descriptors. `*status_ret` (may be NULL): the status of wait(2); -1: unknown.
 * False: it has not exited yet; call jail_process_reap() later.
 */
bool jail_process_end(struct jail_process *process, bool has_died, int *status_ret);
bool jail_process_reap(pid_t pid);

/* Whether the pipe contains unread bytes: of answers, or of orders. */
bool jail_process_has_answer(const struct jail_process *process);
bool jail_process_has_unread_order(const struct jail_process *process);

/* Copy `bytes` of `input` to the memory, from byte `from` of its concatenated blocks on. They must fit. 0 or -errno. */
MUST_CHECK int jail_process_put(const struct jail_process *process, const struct dof_input *input, uint64_t from,
				uint64_t bytes);
/* Order the child to parse `input`, whose blocks must be in the memory. 0 or -errno. */
MUST_CHECK int jail_process_order(const struct jail_process *process, uint64_t sequence, const struct dof_input *input,
				  const struct dof_limits *limits);

#endif
