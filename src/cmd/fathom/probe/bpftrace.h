/* SPDX-License-Identifier: BSD-2-Clause */
/* bpftrace - runs bpftrace as a child and explains its errors. Thread: one. */
#ifndef CMD_FATHOM_PROBE_BPFTRACE_H
#define CMD_FATHOM_PROBE_BPFTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fault.h"

struct bpftrace {
	pid_t pid;
	int out_fd, err_fd; /* its stdout and stderr; -1: ended */
	bool attached;
	char *messages; /* its stderr, at most 1 MiB; NUL-terminated, or NULL */
	size_t messages_bytes;
};

struct bpftrace_start {
	const char *program;
	const char *types; /* C declarations in front of the program; "": none */
	int32_t pid;	   /* only events of this process; bpftrace ends with it */
	bool json;
	char *const *args; /* for $1, $2 ...; ends with NULL */
};

/* Can bpftrace run here? Errors (explained): -ENOENT: not installed; -EPERM; -ENOTSUP: not with this kernel. */
MUST_CHECK int bpftrace_check(struct fathom_fault *why);

/* Start it in its own process group. It is interrupted when we end. Borrows `start`. Errors (explained). */
MUST_CHECK int bpftrace_start(const struct bpftrace_start *start, struct bpftrace *child_ret, struct fathom_fault *why);

/* Read from its stderr, which poll() must have reported. */
void bpftrace_read_messages(struct bpftrace *child);

/* Does it wait for events at this moment? */
bool bpftrace_waits_for_events(const struct bpftrace *child);

/* Has it attached to all probes? Once true, it stays true. */
bool bpftrace_has_attached(struct bpftrace *child);

/* Wait for its end. 0: it succeeded; else an error (explained). `script`: the script's name in messages. */
MUST_CHECK int bpftrace_wait(struct bpftrace *child, const char *script, struct fathom_fault *why);

#endif
