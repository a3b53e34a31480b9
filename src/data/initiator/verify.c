/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/initiator/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "data/wire/pdu/pdu.h"

/* ---- Sectors ---- */

#define SECTOR_MAGIC 0x31304f494d4f5446ull /* "FTOMIO01" */

enum {
	STAMP_BYTES = 48,
	FILLING_WORDS = (VERIFY_SECTOR_BYTES - STAMP_BYTES - 8) / 8,
};

/* A sector on the volume. */
struct sector {
	uint64_t magic;
	uint64_t run;
	uint64_t seed;
	uint64_t block;
	uint32_t generation;
	uint32_t sector;
	uint32_t block_bytes;
	uint32_t reserved;
	uint64_t filling[FILLING_WORDS];
	uint32_t reserved2;
	uint32_t crc; /* of all before */
};
static_assert(sizeof(struct sector) == VERIFY_SECTOR_BYTES, "a sector is filled to its end");
static_assert(offsetof(struct sector, filling) == STAMP_BYTES, "");
static_assert(offsetof(struct sector, crc) == VERIFY_SECTOR_BYTES - 4, "");

static uint32_t sector_crc(const struct sector *sector)
{
	return pdu_crc_final(pdu_crc_update(PDU_CRC_INIT, sector, offsetof(struct sector, crc)));
}

static void fill_sector(const struct verify *verify, uint64_t block, uint32_t generation, uint32_t index, struct sector *to)
{
	uint64_t word = (verify->run ^ verify->seed) + (block << 24) + ((uint64_t)generation << 8) + index;

	to->magic = SECTOR_MAGIC;
	to->run = verify->run;
	to->seed = verify->seed;
	to->block = block;
	to->generation = generation;
	to->sector = index;
	to->block_bytes = verify->block_bytes;
	to->reserved = 0;
	to->reserved2 = 0;
	for (uint64_t i = 0; i < FILLING_WORDS; i++)
		to->filling[i] = (word + i) * 0x9e3779b97f4a7c15ull;
	to->crc = sector_crc(to);
}

/* ---- The ledger ---- */

int verify_init(struct verify *verify, uint64_t run, uint64_t seed, uint64_t offset, uint64_t blocks, uint32_t block_bytes)
{
	must(block_bytes > 0);
	must(block_bytes % VERIFY_SECTOR_BYTES == 0);
	*verify =
		(struct verify){ .run = run, .seed = seed, .offset = offset, .blocks = blocks, .block_bytes = block_bytes };
	verify->entries = calloc(max_u64(blocks, 1), sizeof(*verify->entries));
	return verify->entries ? 0 : -ENOMEM;
}

void verify_deinit(struct verify *verify)
{
	free(verify->entries);
	verify->entries = NULL;
}

uint32_t verify_write_begin(struct verify *verify, uint64_t block, void *bytes)
{
	struct verify_entry *entry = &verify->entries[block];
	uint32_t sectors = verify->block_bytes / VERIFY_SECTOR_BYTES;
	struct sector *to = bytes;

	must(block < verify->blocks);
	must(entry->last < UINT32_MAX);
	entry->high = ++entry->last;
	must(entry->low < entry->high);
	for (uint32_t i = 0; i < sectors; i++)
		fill_sector(verify, block, entry->high, i, &to[i]);
	return entry->high;
}

void verify_write_end(struct verify *verify, uint64_t block, uint32_t generation)
{
	struct verify_entry *entry = &verify->entries[block];

	must(block < verify->blocks);
	must(generation == entry->high);
	entry->low = generation;
}

/* ---- Checking ---- */

/* Check one sector. If it is good: *generation_ret is its generation, 0 for contents from before the first write. */
static enum verify_kind check_sector(const struct verify *verify, uint64_t block, uint32_t index,
				     const struct sector *sector, uint32_t *generation_ret)
{
	const struct verify_entry *entry = &verify->entries[block];
	bool ours = sector->magic == SECTOR_MAGIC && sector->run == verify->run;

	if (!ours) {
		if (entry->low == 0) {
			*generation_ret = 0;
			return VERIFY_GOOD;
		}
		return is_all_zero(sector, sizeof(*sector)) ? VERIFY_ZEROES : VERIFY_FOREIGN;
	}
	if (sector->crc != sector_crc(sector))
		return VERIFY_CORRUPT;
	if (sector->block != block || sector->sector != index)
		return VERIFY_MISPLACED;
	if (sector->generation < entry->low)
		return VERIFY_STALE;
	if (sector->generation > entry->high)
		return VERIFY_LATE;
	*generation_ret = sector->generation;
	return VERIFY_GOOD;
}

static void note_finding(const struct verify *verify, uint64_t block, uint32_t index, const struct sector *sector,
			 enum verify_kind kind, struct verify_finding *finding)
{
	if (finding->bad_sectors++ > 0)
		return;
	*finding = (struct verify_finding){
		.kind = kind,
		.block = block,
		.sector = index,
		.bad_sectors = 1,
		.sectors = verify->block_bytes / VERIFY_SECTOR_BYTES,
		.low = verify->entries[block].low,
		.high = verify->entries[block].high,
		.stamped = sector->magic == SECTOR_MAGIC,
		.found_run = sector->run,
		.found_seed = sector->seed,
		.found_block = sector->block,
		.found_generation = sector->generation,
		.found_sector = sector->sector,
	};
}

bool verify_read(struct verify *verify, uint64_t block, const void *bytes, struct verify_finding *finding_ret)
{
	struct verify_entry *entry = &verify->entries[block];
	uint32_t sectors = verify->block_bytes / VERIFY_SECTOR_BYTES, first = 0;
	struct verify_finding finding = { .kind = VERIFY_GOOD };
	const struct sector *from = bytes;
	bool settled = true;

	must(block < verify->blocks);
	for (uint32_t i = 0; i < sectors; i++) {
		uint32_t generation = 0;
		enum verify_kind kind = check_sector(verify, block, i, &from[i], &generation);

		if (kind != VERIFY_GOOD) {
			note_finding(verify, block, i, &from[i], kind, &finding);
			continue;
		}
		must(generation >= entry->low && generation <= entry->high);
		if (i == 0)
			first = generation;
		else if (generation != first)
			settled = false; /* torn: legal only for a write that was not acknowledged */
	}
	if (finding.kind != VERIFY_GOOD) {
		*finding_ret = finding;
		return false;
	}
	if (settled) {
		entry->low = first;
		entry->high = first;
	}
	return true;
}

const char *verify_describe(const struct verify_finding *finding, char *text)
{
	char expected[64], place[64] = "";
	int used;

	must(finding->kind != VERIFY_GOOD);
	if (finding->high == 0)
		snprintf(expected, sizeof(expected), "expected nothing of this run");
	else if (finding->low == finding->high)
		snprintf(expected, sizeof(expected), "expected generation %" PRIu32, finding->low);
	else
		snprintf(expected, sizeof(expected), "expected generation %" PRIu32 " to %" PRIu32, finding->low,
			 finding->high);
	if (finding->bad_sectors < finding->sectors)
		snprintf(place, sizeof(place), ", %" PRIu32 " of %" PRIu32 " sectors, first %" PRIu32, finding->bad_sectors,
			 finding->sectors, finding->sector);
	used = snprintf(text, VERIFY_TEXT_BYTES, "block %" PRIu64 ": %s, found ", finding->block, expected);
	text += used;
	switch (finding->kind) {
	case VERIFY_GOOD:
		break;
	case VERIFY_STALE:
	case VERIFY_LATE:
		snprintf(text, (size_t)(VERIFY_TEXT_BYTES - used), "%" PRIu32 " (%s%s)", finding->found_generation,
			 finding->kind == VERIFY_STALE ? "stale" : "late", place);
		break;
	case VERIFY_MISPLACED:
		snprintf(text, (size_t)(VERIFY_TEXT_BYTES - used), "block %" PRIu64 " generation %" PRIu32 " (misplaced%s)",
			 finding->found_block, finding->found_generation, place);
		break;
	case VERIFY_FOREIGN:
		if (finding->stamped)
			snprintf(text, (size_t)(VERIFY_TEXT_BYTES - used),
				 "data of another run, seed %" PRIu64 ", block %" PRIu64 " generation %" PRIu32
				 " (foreign%s)",
				 finding->found_seed, finding->found_block, finding->found_generation, place);
		else
			snprintf(text, (size_t)(VERIFY_TEXT_BYTES - used), "data without a stamp (foreign%s)", place);
		break;
	case VERIFY_ZEROES:
		snprintf(text, (size_t)(VERIFY_TEXT_BYTES - used), "zeroes (dropped%s)", place);
		break;
	case VERIFY_CORRUPT:
		snprintf(text, (size_t)(VERIFY_TEXT_BYTES - used), "a wrong checksum (corrupt%s)", place);
		break;
	}
	return text - used;
}

/* ---- The file ---- */

#define FILE_MAGIC 0x52454744454c4946ull /* "FILEDGER" */

enum { FILE_VERSION = 1, PATH_BYTES_MAX = 4096 };

/* The head of the file. The entries follow. */
struct file_head {
	uint64_t magic;
	uint32_t version;
	uint32_t block_bytes;
	uint64_t run;
	uint64_t seed;
	uint64_t offset;
	uint64_t blocks;
	uint32_t entries_crc;
	uint32_t head_crc; /* of all before */
};
static_assert(sizeof(struct file_head) == 56, "");
static_assert(sizeof(struct verify_entry) == 12, "");

static uint32_t crc_of(const void *bytes, size_t bytes_count)
{
	return pdu_crc_final(pdu_crc_update(PDU_CRC_INIT, bytes, bytes_count));
}

/* -EINVAL: the file ends too soon. */
static int read_all(int fd, void *bytes, size_t bytes_count)
{
	uint8_t *to = bytes;

	while (bytes_count > 0) {
		ssize_t got = read(fd, to, bytes_count);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -EINVAL;
		to += got;
		bytes_count -= (size_t)got;
	}
	return 0;
}

/* Create a temporary file beside `path` and return its descriptor. `temporary` (PATH_BYTES_MAX) receives its name. */
static int open_temporary(const char *path, char *temporary, struct fathom_fault *why)
{
	int fd, error;

	if (snprintf(temporary, PATH_BYTES_MAX, "%s.tmp", path) >= PATH_BYTES_MAX)
		return fault(why, -ENAMETOOLONG, "%s: the name is too long", path);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	error = fd < 0 ? -errno : 0;
	return error ? fault(why, error, "%s: %s", temporary, strerror(-error)) : fd;
}

int verify_may_save(const char *path, struct fathom_fault *why)
{
	char temporary[PATH_BYTES_MAX];
	int fd = open_temporary(path, temporary, why);

	if (fd < 0)
		return fd;
	close(fd);
	(void)unlink(temporary);
	return 0;
}

int verify_save(const struct verify *verify, const char *path, struct fathom_fault *why)
{
	size_t entries_bytes = verify->blocks * sizeof(*verify->entries);
	struct file_head head = {
		.magic = FILE_MAGIC,
		.version = FILE_VERSION,
		.block_bytes = verify->block_bytes,
		.run = verify->run,
		.seed = verify->seed,
		.offset = verify->offset,
		.blocks = verify->blocks,
		.entries_crc = crc_of(verify->entries, entries_bytes),
	};
	char temporary[PATH_BYTES_MAX];
	int fd = open_temporary(path, temporary, why), error;

	if (fd < 0)
		return fd;
	head.head_crc = crc_of(&head, offsetof(struct file_head, head_crc));
	error = file_write(fd, &head, sizeof(head));
	if (!error)
		error = file_write(fd, verify->entries, entries_bytes);
	if (!error && fsync(fd) < 0)
		error = -errno;
	close(fd);
	if (!error && rename(temporary, path) < 0)
		error = -errno;
	if (error) {
		(void)unlink(temporary);
		return fault(why, error, "%s: %s", path, strerror(-error));
	}
	return 0;
}

static bool head_is_sound(const struct file_head *head)
{
	return head->magic == FILE_MAGIC && head->version == FILE_VERSION &&
	       head->head_crc == crc_of(head, offsetof(struct file_head, head_crc)) && head->block_bytes > 0 &&
	       head->block_bytes % VERIFY_SECTOR_BYTES == 0 && head->blocks <= SIZE_MAX / sizeof(struct verify_entry);
}

int verify_load(struct verify *verify, const char *path, struct fathom_fault *why)
{
	struct file_head head;
	struct verify loaded;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int error = fd < 0 ? -errno : 0;

	if (error)
		return fault(why, error, "%s: %s", path, strerror(-error));
	error = read_all(fd, &head, sizeof(head));
	if (!error && !head_is_sound(&head))
		error = -EINVAL;
	if (!error)
		error = verify_init(&loaded, head.run, head.seed, head.offset, head.blocks, head.block_bytes);
	if (!error) {
		error = read_all(fd, loaded.entries, head.blocks * sizeof(*loaded.entries));
		if (!error && crc_of(loaded.entries, head.blocks * sizeof(*loaded.entries)) != head.entries_crc)
			error = -EINVAL;
		if (error)
			verify_deinit(&loaded);
	}
	close(fd);
	if (error == -EINVAL)
		return fault(why, error, "%s is not a ledger of `fathom perf`, or is damaged", path);
	if (error)
		return fault(why, error, "%s: %s", path, strerror(-error));
	*verify = loaded;
	return 0;
}
