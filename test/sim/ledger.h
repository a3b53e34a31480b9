/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ledger - the allowed content of each block of each disk, as far as hosts can know it.
 *
 * Each write has a unique stamp, which determines all bytes of its blocks. A block has candidates: the stamps that a read
 * may return. The start of a write adds one. A successful write removes those that had ended before it began. A failed
 * write may have been executed or not. A write whose connection broke may still be executed at any time, so its candidate
 * stays.
 *
 * Order is by events: ledger_event() gives the next number. A read may return any stamp that was a candidate at some time
 * since the event at which it began.
 */
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEDGER_DISKS_MAX = 4 };

/* Stamp 0 is zeroes, the initial content of all blocks. */
void ledger_init(unsigned int disk, uint64_t block_count, uint32_t block_bytes);
uint64_t ledger_event(void);
uint64_t ledger_new_stamp(void);

/* Start a write of `stamp` on [first, first + count). Return its id for ledger_write_end(). */
uint64_t ledger_write_begin(unsigned int disk, uint64_t first, uint64_t count, uint64_t stamp);
/* End a write. `success` false: it may have been executed or not. */
void ledger_write_end(unsigned int disk, uint64_t first, uint64_t count, uint64_t write, bool success);

/* May a command that began at `since` find `stamp` in `block`? */
bool ledger_allows(unsigned int disk, uint64_t block, uint64_t stamp, uint64_t since);
/* May `stamp` have been written to `block` by `write` or later? */
bool ledger_is_as_new(unsigned int disk, uint64_t block, uint64_t stamp, uint64_t write);
/* Get the only stamp that a read may return. False: there are several. */
bool ledger_is_sure(unsigned int disk, uint64_t block, uint64_t since, uint64_t *stamp_ret);
void ledger_describe(unsigned int disk, uint64_t block, char *text, size_t text_bytes);

/* Convert a stamp to the bytes of `block`, and back. False: no stamp gives these bytes for this block. */
void ledger_fill(unsigned int disk, uint64_t block, uint64_t stamp, void *bytes, uint32_t block_bytes);
bool ledger_read(unsigned int disk, uint64_t block, const void *bytes, uint32_t block_bytes, uint64_t *stamp_ret);

#endif
