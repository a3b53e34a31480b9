/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verify - write blocks that identify themselves, and keep a ledger of the contents that each block may have.
 *
 * A volume, or a range of it, is divided into blocks, the unit of I/O. Each write makes a new generation of its block.
 * Every 512-byte sector of a block carries a stamp: run, seed, block, generation, sector, a filling made from them, and
 * a CRC32C over all of it. Compared with the ledger, a sector that is read shows what went wrong:
 *
 *      STALE      an earlier generation of this block: a write was lost or undone
 *      LATE       a generation newer than the last acknowledged, after a read had shown that it was not written
 *      MISPLACED  a sector of another block, or another sector of this one
 *      FOREIGN    not of this run: another run's stamp, or no stamp at all
 *      ZEROES     nothing but zeroes
 *      CORRUPT    a stamp of this run that does not match its sector
 *
 * For each block the ledger keeps the range of legal generations: one after a write was acknowledged, more after writes
 * that failed or were under way when the connection was lost. The next read settles which of them it is. A block that
 * was never written may hold anything but stamps of this run.
 *
 * The caller ensures that one thread at a time uses a block, and that no I/O to a block begins during a write to it.
 */
#ifndef INITIATOR_VERIFY_H
#define INITIATOR_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"

enum {
	VERIFY_SECTOR_BYTES = 512,
	VERIFY_TEXT_BYTES = 256, /* the size that verify_describe() needs */
};

/* Generations of a block. 0: as it was before the first write. */
struct verify_entry {
	uint32_t low;  /* legal: from this ... */
	uint32_t high; /* ... to this */
	uint32_t last; /* the highest that a write ever had; at least `high` */
};

struct verify {
	uint64_t run; /* random; distinguishes this ledger's data from others' */
	uint64_t seed;
	uint64_t offset; /* of block 0 in the volume, bytes */
	uint64_t blocks;
	uint32_t block_bytes;
	struct verify_entry *entries; /* owned; as many as blocks */
};

enum verify_kind {
	VERIFY_GOOD,
	VERIFY_STALE,
	VERIFY_LATE,
	VERIFY_MISPLACED,
	VERIFY_FOREIGN,
	VERIFY_ZEROES,
	VERIFY_CORRUPT,
};

/* A block's first bad sector, and what is wrong with it. */
struct verify_finding {
	enum verify_kind kind;
	uint64_t block;
	uint32_t sector;      /* in the block */
	uint32_t bad_sectors; /* of the block */
	uint32_t sectors;
	uint32_t low; /* the legal range */
	uint32_t high;
	bool stamped; /* the sector has a stamp; the fields below are from it */
	uint64_t found_run;
	uint64_t found_seed;
	uint64_t found_block;
	uint32_t found_generation;
	uint32_t found_sector;
};

/* `block_bytes` is a multiple of a sector. Pair: verify_deinit(). Errors: -ENOMEM. */
MUST_CHECK int verify_init(struct verify *verify, uint64_t run, uint64_t seed, uint64_t offset, uint64_t blocks,
			   uint32_t block_bytes);
void verify_deinit(struct verify *verify);

/* Begin a write: fill the block at `bytes` with its next generation and return that. It is legal from now on. */
uint32_t verify_write_begin(struct verify *verify, uint64_t block, void *bytes);

/* The write was acknowledged: only this generation is legal now. A failed write may have been done: do not end it. */
void verify_write_end(struct verify *verify, uint64_t block, uint32_t generation);

/* Check a block that was read. True: good. False: `finding_ret` is filled. Narrows the block's range to what was read. */
MUST_CHECK bool verify_read(struct verify *verify, uint64_t block, const void *bytes, struct verify_finding *finding_ret);

/* "block 1234: expected generation 7, found 6 (stale)" into `text` of VERIFY_TEXT_BYTES, which is returned. */
const char *verify_describe(const struct verify_finding *finding, char *text);

/* Was the block ever written? */
static inline bool verify_was_written(const struct verify *verify, uint64_t block)
{
	return verify->entries[block].last > 0;
}

/*
 * The ledger in a file, replaced at once or not at all. Loading makes a ledger: pair verify_deinit().
 * Errors: of files; -ENOENT; -EINVAL (not a ledger, or damaged); -ENOMEM.
 */
MUST_CHECK int verify_save(const struct verify *verify, const char *path, struct fathom_fault *why);
/* Check that verify_save() could write there: called before a run, so that its ledger is not lost. */
MUST_CHECK int verify_may_save(const char *path, struct fathom_fault *why);
MUST_CHECK int verify_load(struct verify *verify, const char *path, struct fathom_fault *why);

#endif
