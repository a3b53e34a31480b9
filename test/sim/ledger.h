/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ledger - what each block of each disk may hold, as far as hosts can know.
 *
 * Every write carries a stamp of its own, from which all bytes of its blocks follow. A block has candidates: the stamps
 * that a read may find. A write that begins adds one. One that succeeds takes away those that had ended before it began;
 * one that fails may have been done or not; one whose connection broke may still be done at any time, and stays.
 *
 * Order is by events: ledger_event() gives the next number. A read may find any stamp that was a candidate at some moment
 * since the event at which it began.
 */
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEDGER_DISKS_MAX = 4 };

/* Stamp 0 is zeroes, which is what all blocks hold at first. */
void ledger_init(unsigned int disk, uint64_t block_count, uint32_t block_bytes);
uint64_t ledger_event(void);
uint64_t ledger_new_stamp(void);

/* Write of `stamp` on [first, first + count). Returns the write's name for ledger_write_end(). */
uint64_t ledger_write_begin(unsigned int disk, uint64_t first, uint64_t count, uint64_t stamp);
/* `success` false: it ended, done or not. */
void ledger_write_end(unsigned int disk, uint64_t first, uint64_t count, uint64_t write, bool success);

/* What a command that began at `since` may find in `block`. */
bool ledger_allows(unsigned int disk, uint64_t block, uint64_t stamp, uint64_t since);
/* Whether `stamp` may have been written to `block` by `write`, or after it. */
bool ledger_is_as_new(unsigned int disk, uint64_t block, uint64_t stamp, uint64_t write);
/* The only stamp it may find, if there is but one. */
bool ledger_is_sure(unsigned int disk, uint64_t block, uint64_t since, uint64_t *stamp_ret);
void ledger_describe(unsigned int disk, uint64_t block, char *text, size_t text_bytes);

/* The bytes that `stamp` makes of `block`, and back. False: no stamp makes these bytes of this block. */
void ledger_fill(unsigned int disk, uint64_t block, uint64_t stamp, void *bytes, uint32_t block_bytes);
bool ledger_read(unsigned int disk, uint64_t block, const void *bytes, uint32_t block_bytes, uint64_t *stamp_ret);

#endif
