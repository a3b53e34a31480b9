/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failing - makes allocations fail. The linker redirects the program's allocations to failing.c (meson.build).
 *
 * Between failing_begin() and failing_end(), malloc, calloc, realloc, aligned_alloc and mmap count, from any caller. Not
 * counted are calls that end the program when out of memory, by contract: messages, trace pools, interned names,
 * device_register(). Allocations, including trace pools, are remembered until they are freed, so that leaks are detected
 * without a sanitizer.
 *
 * Not thread-safe: for simulated reactors.
 */
#ifndef TEST_UNIT_STORE_FAILING_H
#define TEST_UNIT_STORE_FAILING_H

#include <stdbool.h>
#include <stdint.h>

enum failing_kind {
	FAILING_ONCE, /* only the n-th fails */
	FAILING_LONG, /* the n-th and all later ones fail */
	FAILING_KINDS
};

/* Start counting. `n` from 1. */
void failing_begin(enum failing_kind kind, uint32_t n);
/* Stop counting. Return true if at least one allocation has failed. */
bool failing_end(void);

/*
 * Number of allocations since failing_begin() that are not freed. Not counted: bdev_zeroes(), which is never freed, and
 * memory grown by realloc, which belongs to the reactor.
 */
uint32_t failing_held(void);

/* While true, statx() reports no alignment for O_DIRECT. */
extern bool failing_no_direct_rules;
/* While not 0, statx() reports this offset alignment for O_DIRECT. */
extern uint32_t failing_direct_offset;

#endif
