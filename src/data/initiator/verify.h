/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verify - data that tells where it belongs, and the ledger of what should be where.
 *
 * A volume, or a range of it, is cut into blocks, the unit of I/O. Each write of a block is a generation of it. Every
 * 512-byte sector of a block carries a stamp: run, seed, block, generation, sector, filling made from them, and a
 * CRC32C over all of it. So a sector that is read says by itself what it is, and compared with the ledger, which of
 * the accidents has happened:
 *
 *      STALE      an earlier generation of this block: a write was dropped, or came back
 *      LATE       a later one than was last acknowledged, though a newer state had been read: it came after all
 *      MISPLACED  a sector of another block, or another sector of this one
 *      FOREIGN    not of this run: another run's stamp, or no stamp at all
 *      ZEROES     nothing but zeroes
 *      CORRUPT    a stamp of this run that does not match its sector
 *
 * The ledger keeps for each block which generations are legal, lowest to highest: one after a write was acknowledged,
 * two or more after writes that failed or were under way when the connection was lost. What is then read decides which
 * it was. A block that was never written may hold anything that is not of this run.
 *
 * A block is used by one thread at a time, and no I/O to a block begins while a write to it is under way: the caller's
 * to see to.
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
	VERIFY_TEXT_BYTES = 256, /* as much as verify_describe() writes */
};

/* Generations of a block. 0: as it was before the first write. */
struct verify_entry {
	uint32_t low;  /* legal: from this ... */
	uint32_t high; /* ... to this */
	uint32_t last; /* the highest ever given to a write; high at least */
};

struct verify {
	uint64_t run; /* random: tells this ledger's data from any other's */
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

/* What is wrong with a block: its first bad sector. */
struct verify_finding {
	enum verify_kind kind;
	uint64_t block;
	uint32_t sector;      /* in the block */
	uint32_t bad_sectors; /* of the block */
	uint32_t sectors;
	uint32_t low; /* what was legal */
	uint32_t high;
	bool stamped; /* the rest says what was found */
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

/* Begin a write: fill the block at `bytes` with its next generation, which is returned, and legal from now on. */
uint32_t verify_write_begin(struct verify *verify, uint64_t block, void *bytes);

/* It was acknowledged: this generation and no other is legal. A write that failed is not ended, for nobody knows. */
void verify_write_end(struct verify *verify, uint64_t block, uint32_t generation);

/* Judge what was read of a block. True: good. False: `finding_ret` is filled. Settles what was open about the block. */
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
MUST_CHECK int verify_save(const struct verify *verify, const char *path, struct fault *why);
/* Could it be saved there? For before a run that would lose it. */
MUST_CHECK int verify_may_save(const char *path, struct fault *why);
MUST_CHECK int verify_load(struct verify *verify, const char *path, struct fault *why);

#endif
