/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_attempt - would the kernel let us attach? By trying, and leaving nothing behind. */
#ifndef CMD_FATHOM_PROBE_ATTEMPT_H
#define CMD_FATHOM_PROBE_ATTEMPT_H

#include <stdint.h>

/* What each step said: 0, or negative errno. */
struct attempt {
	int load;   /* a BPF program of the kind that probes run */
	int event;  /* the probe itself: -ENOENT where the kernel has no uprobes */
	int attach; /* the one to the other; -EAGAIN: not tried, for one of them is missing */
};

/*
 * Try it at `offset` of the file `path`, as the kernel reads paths for this process. The probe is not switched on, so the
 * program that runs is not touched. Any thread.
 */
void attempt_to_attach(const char *path, uint64_t offset, struct attempt *attempt_ret);

#endif
