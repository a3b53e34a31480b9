/* SPDX-License-Identifier: BSD-2-Clause */
/* attempt - tests whether the kernel allows attaching, by an attempt that leaves nothing behind. */
#ifndef CMD_FATHOM_PROBE_ATTEMPT_H
#define CMD_FATHOM_PROBE_ATTEMPT_H

#include <stdint.h>

/* The result of each step: 0, or negative errno. */
struct attempt {
	int load;   /* a BPF program of the kind that probes run */
	int event;  /* the probe itself: -ENOENT where the kernel has no uprobes */
	int attach; /* attaching the program to the probe; -EAGAIN: not tried, since one of them failed */
};

/*
 * Try it at `offset` of the file `path`, as the kernel resolves paths for this process. The probe is not enabled, so the
 * running program is not affected. Thread: any.
 */
void attempt_to_attach(const char *path, uint64_t offset, struct attempt *attempt_ret);

#endif
