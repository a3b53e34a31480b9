/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failing - counts the stash's system calls and allocations. The Nth fails, or the process is killed before it.
 *
 * The linker redirects the calls (--wrap, meson.build). A failing write writes half first, as on a full disk.
 */
#ifndef TEST_PROBED_STASH_FAILING_H
#define TEST_PROBED_STASH_FAILING_H

#include <stdbool.h>
#include <stdint.h>

enum failing_kind {
	FAILING_ONCE, /* only the Nth */
	FAILING_LONG, /* the Nth and all later ones */
	FAILING_KILL, /* the process is killed before the Nth */
};

/* Start counting. `error` is the errno of failing calls; allocations fail without one. */
void failing_begin(enum failing_kind kind, uint32_t n, int error);
/* Stop counting. Return whether the Nth call was made. */
bool failing_end(void);

/* The next `count` calls of flock() fail with EWOULDBLOCK, as if another process held it. Return how many were left. */
uint32_t failing_set_busy_locks(uint32_t count);

#endif
