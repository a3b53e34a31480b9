/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_bpftrace - bpftrace as a child, and what it says as sentences. One thread. */
#ifndef CMD_FATHOM_PROBE_BPFTRACE_H
#define CMD_FATHOM_PROBE_BPFTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fault.h"

struct bpftrace {
	pid_t pid;
	int out_fd, said_fd; /* its two outputs; -1: ended */
	bool attached;
	char *said; /* all that it wrote on its standard error; NUL-terminated, or NULL */
	size_t said_bytes;
};

struct bpftrace_start {
	const char *program;
	const char *types; /* lines of C that come before it; "": none */
	int32_t pid;	   /* events of this process alone; bpftrace ends when it does */
	bool json;
	char *const *args; /* for $1, $2 ...; ends with NULL */
};

/* Can it be run here at all? Errors (explained): -ENOENT: not installed; -EPERM; -ENOTSUP: this kernel cannot. */
MUST_CHECK int bpftrace_check(struct fault *why);

/* Start it; it is in a process group of its own, and dies with us. `start` is borrowed. Errors (explained). */
MUST_CHECK int bpftrace_start(const struct bpftrace_start *start, struct bpftrace *child_ret, struct fault *why);

/* Take what it wrote on its standard error, of which there is some. */
void bpftrace_listen(struct bpftrace *child);

/* Has it attached to all probes by now? Once it has, it stays so. */
bool bpftrace_has_attached(struct bpftrace *child);

/* Reap it. 0: it did what it was told; else why not (explained), `script` being what people call the program. */
MUST_CHECK int bpftrace_finish(struct bpftrace *child, const char *script, struct fault *why);

#endif
