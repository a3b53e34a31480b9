/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks the first superblock of XFS.
 *
 * It is one sector long, big-endian, at byte 0. The headers of the first allocation group follow, a sector each: free space
 * (XAGF), inodes (XAGI), free list (XAFL). They distinguish an overwritten superblock from a device that never held XFS.
 * libblkid checks only the magic number, and finds no XFS without it.
 */
#include <isa-l/crc.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "control/storage/internal.h"

enum {
	SUPER_BLOCK_BYTES_AT = 4,
	SUPER_VERSION_AT = 100,
	SUPER_SECTOR_BYTES_AT = 102,
	SUPER_IN_PROGRESS_AT = 126, /* mkfs clears it last */
	SUPER_CRC_AT = 224,	    /* little-endian, unlike all other fields */
	SUPER_BYTES = 264,
	SECTOR_BYTES_MIN = 512,
	SECTOR_BYTES_MAX = 32768,
	BLOCK_BYTES_MAX = 65536,
	VERSION_MASK = 0xf,
	VERSION_WITH_CRC = 5,
};

static_assert(SUPER_BYTES <= SECTOR_BYTES_MIN, "the superblock is in the first sector");
static_assert(SUPER_CRC_AT + 4 <= SUPER_BYTES, "its checksum, too");
static_assert(4 * SECTOR_BYTES_MAX <= STORAGE_HEAD_BYTES, "the headers of the largest sectors are read");

static uint32_t be32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t be16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t le32(const uint8_t *at)
{
	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static uint32_t crc_of(const uint8_t *sector, uint32_t bytes)
{
	static const uint8_t no_crc[4];
	uint32_t crc = ~0u; /* ISA-L neither presets nor inverts; its prototype lacks const */

	must(bytes >= SECTOR_BYTES_MIN);
	must(bytes <= SECTOR_BYTES_MAX);
	crc = crc32_iscsi((unsigned char *)(uintptr_t)sector, SUPER_CRC_AT, crc);
	crc = crc32_iscsi((unsigned char *)(uintptr_t)no_crc, sizeof(no_crc), crc);
	crc = crc32_iscsi((unsigned char *)(uintptr_t)sector + SUPER_CRC_AT + sizeof(no_crc),
			  (int)(bytes - SUPER_CRC_AT - sizeof(no_crc)), crc);
	return ~crc;
}

/* At least two of the three headers behind a superblock, for any sector size. */
static bool has_group_heads(const uint8_t *head, size_t bytes)
{
	for (size_t sector = SECTOR_BYTES_MIN; sector <= SECTOR_BYTES_MAX && sector * 4 <= bytes; sector *= 2) {
		int found = (memcmp(head + sector, "XAGF", 4) == 0) + (memcmp(head + 2 * sector, "XAGI", 4) == 0) +
			    (memcmp(head + 3 * sector, "XAFL", 4) == 0);

		if (found >= 2)
			return true;
	}
	return false;
}

static enum xfs_super report_damage(char *damage, size_t damage_bytes, const char *what)
{
	snprintf(damage, damage_bytes, "%s", what);
	return XFS_SUPER_DAMAGED;
}

enum xfs_super storage_xfs_super(const uint8_t *head, size_t bytes, char *damage, size_t damage_bytes)
{
	uint32_t sector_bytes, block_bytes;

	must(damage_bytes > 0);
	damage[0] = '\0';
	if (bytes < SECTOR_BYTES_MIN)
		return XFS_SUPER_NONE;
	if (memcmp(head, "XFSB", 4) != 0) {
		if (!has_group_heads(head, bytes))
			return XFS_SUPER_NONE;
		return report_damage(damage, damage_bytes, "the superblock is overwritten; the sectors behind it are XFS");
	}
	sector_bytes = be16(head + SUPER_SECTOR_BYTES_AT);
	block_bytes = be32(head + SUPER_BLOCK_BYTES_AT);
	if (!is_power_of_two(sector_bytes) || sector_bytes < SECTOR_BYTES_MIN || sector_bytes > SECTOR_BYTES_MAX ||
	    sector_bytes > bytes)
		return report_damage(damage, damage_bytes, "the superblock has an invalid sector size");
	if (!is_power_of_two(block_bytes) || block_bytes < SECTOR_BYTES_MIN || block_bytes > BLOCK_BYTES_MAX)
		return report_damage(damage, damage_bytes, "the superblock has an invalid block size");
	if ((be16(head + SUPER_VERSION_AT) & VERSION_MASK) == VERSION_WITH_CRC &&
	    crc_of(head, sector_bytes) != le32(head + SUPER_CRC_AT))
		return report_damage(damage, damage_bytes, "the superblock's checksum is wrong");
	if (head[SUPER_IN_PROGRESS_AT] != 0)
		return report_damage(damage, damage_bytes, "formatting was not finished");
	return XFS_SUPER_WHOLE;
}
