/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sums - the layout of a sidecar: the checksums of a volume's blocks, in the file "sums.N" beside "data.N".
 *
 *   0                 a bit for each region of 16 MiB: 1 if its sums may not fit its data after a crash
 *   SUMS_HEAD_BYTES   the CRC-32C of each block of 4096 bytes, little-endian. 0: the block reads as zeroes, and has no sum
 *
 * docs/decisions/017-checksums.md has the order of writes.
 */
#ifndef DATA_STORE_POOL_SUMS_H
#define DATA_STORE_POOL_SUMS_H

#include <isa-l/crc.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/must.h"

enum {
	SUMS_BLOCK_BYTES = 4096,
	SUMS_HEAD_BYTES = 1 << 20,
	SUMS_ALIGN_BYTES = 64 << 10,
	SUMS_REGION_BLOCKS = 4096,
	SUMS_REGIONS_MAX = 8 * SUMS_HEAD_BYTES,
	SUMS_SECTOR_BYTES = 512,	      /* of the bits that are written at a time */
	SUMS_OF_ZEROES = (int32_t)0x98f94189, /* the CRC of a block of zeroes */
};

#define SUMS_VOLUME_BYTES_MAX ((uint64_t)SUMS_REGIONS_MAX * SUMS_REGION_BLOCKS * SUMS_BLOCK_BYTES)

/* The end of the sums of a volume of `bytes`. */
static inline uint64_t sums_end(uint64_t bytes)
{
	return SUMS_HEAD_BYTES + (bytes + SUMS_BLOCK_BYTES - 1) / SUMS_BLOCK_BYTES * 4;
}

/* Size of its sidecar: whole blocks of any file system, because it is cloned. */
static inline uint64_t sums_file_bytes(uint64_t bytes)
{
	return round_up(sums_end(bytes), SUMS_ALIGN_BYTES);
}

static inline uint64_t sums_region_count(uint64_t block_count)
{
	return (block_count + SUMS_REGION_BLOCKS - 1) / SUMS_REGION_BLOCKS;
}

/* Bytes of the bits of so many regions, in whole sectors. */
static inline uint64_t sums_bits_bytes(uint64_t region_count)
{
	return round_up((region_count + 7) / 8, SUMS_SECTOR_BYTES);
}

static inline uint64_t sums_offset(uint64_t block_index)
{
	return SUMS_HEAD_BYTES + block_index * 4;
}

/* The sum of a block comes in pieces: crc = SUMS_INIT, crc = sums_update(crc, piece) ..., sums_final(crc). */
#define SUMS_INIT UINT32_MAX

static inline uint32_t sums_update(uint32_t crc, const void *piece, size_t bytes)
{
	return crc32_iscsi((unsigned char *)piece, (int)bytes, crc);
}

/* Never 0, which means that there is no sum. */
static inline uint32_t sums_final(uint32_t crc)
{
	return crc == UINT32_MAX ? UINT32_MAX : ~crc;
}

/* Whether a block with the sum `found`, of sums_final(), fits the entry `kept`. */
static inline bool sums_fit(uint32_t found, uint32_t kept)
{
	return found == (kept ? kept : (uint32_t)SUMS_OF_ZEROES);
}

#endif
