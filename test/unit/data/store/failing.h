/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failing - memory that ends when a test says so. The linker sends the program's allocations here first (see meson.build).
 *
 * Between failing_begin() and failing_end() malloc, calloc, realloc, aligned_alloc and mmap count, from any
 * caller, but for what aborts by its contract when out of memory: messages, trace pools, interned names, device_register().
 * What was allocated is remembered until it is given back, trace pools included, so that a leak shows without a sanitizer.
 *
 * One pthread only: for simulated reactors.
 */
#ifndef TEST_UNIT_STORE_FAILING_H
#define TEST_UNIT_STORE_FAILING_H

#include <stdbool.h>
#include <stdint.h>

enum failing_kind {
	FAILING_ONCE, /* the n-th fails */
	FAILING_LONG, /* and so do all behind it */
	FAILING_KINDS
};

/* `n` from 1. */
void failing_begin(enum failing_kind kind, uint32_t n);
/* True: there was an n-th, so at least one has failed. */
bool failing_end(void);

/*
 * What was allocated in between and is there still. Not counted is what stays for good: bdev_zeroes(),
 * and what realloc grows, which is the reactor's.
 */
uint32_t failing_held(void);

/* While true, the kernel has nothing to say about O_DIRECT. */
extern bool failing_no_direct_rules;
/* While not 0, this is where the kernel says that O_DIRECT may begin in a file. */
extern uint32_t failing_direct_offset;

#endif
