/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failing - the calls that the stash makes, of the system and for memory, counted: the Nth fails, or is not lived to see.
 *
 * By the linker's --wrap (meson.build). A write that fails has written half, as on a full disk.
 */
#ifndef TEST_PROBED_STASH_FAILING_H
#define TEST_PROBED_STASH_FAILING_H

#include <stdbool.h>
#include <stdint.h>

enum failing_kind {
	FAILING_ONCE, /* the Nth, and no other */
	FAILING_LONG, /* that and all that come */
	FAILING_KILL, /* before it, the process is killed */
};

/* From now on. `error` is an errno; allocations fail all the same, with none. */
void failing_begin(enum failing_kind kind, uint32_t n, int error);
/* Whether it came to that. */
bool failing_end(void);

#endif
