/* SPDX-License-Identifier: BSD-2-Clause */
/* ledger - see ledger.h. */
#include <stdlib.h>
#include <string.h>

#include "ledger.h"
#include "sim.h"

enum { CANDIDATES_MAX = 12 };
#define NOT_YET UINT64_MAX

struct candidate {
	uint64_t stamp, write;
	uint64_t ended;	  /* event; NOT_YET: in progress */
	uint64_t removed; /* event after which no host may read it; NOT_YET: it exists */
};

struct block {
	struct candidate candidates[CANDIDATES_MAX];
	uint8_t count;
	uint64_t anything; /* NOT_YET: too many candidates to store; otherwise the event until which that was so */
};

static struct {
	struct block *blocks;
	uint64_t block_count;
} disks[LEDGER_DISKS_MAX];
static uint64_t events = 1, stamps;

uint64_t ledger_event(void)
{
	return events++;
}

uint64_t ledger_new_stamp(void)
{
	return ++stamps;
}

void ledger_init(unsigned int disk, uint64_t block_count, uint32_t block_bytes)
{
	must(disk < LEDGER_DISKS_MAX);
	must(block_bytes % sizeof(uint64_t) == 0);
	disks[disk].blocks = calloc(block_count, sizeof(struct block));
	disks[disk].block_count = block_count;
	must(disks[disk].blocks);
	for (uint64_t i = 0; i < block_count; i++) {
		disks[disk].blocks[i].count = 1;
		disks[disk].blocks[i].candidates[0] = (struct candidate){ .removed = NOT_YET };
	}
}

static struct block *block_at(unsigned int disk, uint64_t index)
{
	must(index < disks[disk].block_count);
	return &disks[disk].blocks[index];
}

/* Get a free candidate, or replace the one that was removed first. */
static struct candidate *new_candidate(struct block *block)
{
	struct candidate *oldest = NULL;

	if (block->count < CANDIDATES_MAX)
		return &block->candidates[block->count++];
	for (int i = 0; i < CANDIDATES_MAX; i++) {
		struct candidate *candidate = &block->candidates[i];

		if (candidate->removed != NOT_YET && (!oldest || candidate->removed < oldest->removed))
			oldest = candidate;
	}
	/* a read that began before its removal might return it; that case is no longer checked */
	if (oldest) {
		block->anything = max_u64(block->anything, oldest->removed);
		return oldest;
	}
	block->anything = NOT_YET;
	return NULL;
}

uint64_t ledger_write_begin(unsigned int disk, uint64_t first, uint64_t count, uint64_t stamp)
{
	uint64_t write = ledger_event();

	for (uint64_t i = 0; i < count; i++) {
		struct candidate *candidate = new_candidate(block_at(disk, first + i));

		if (candidate)
			*candidate = (struct candidate){ stamp, write, NOT_YET, NOT_YET };
	}
	return write;
}

static void end_in_block(struct block *block, uint64_t write, bool success, uint64_t now)
{
	for (int i = 0; i < block->count; i++) {
		struct candidate *candidate = &block->candidates[i];

		if (candidate->write == write)
			candidate->ended = now;
		else if (success && candidate->removed == NOT_YET && candidate->ended < write)
			candidate->removed = now;
	}
}

void ledger_write_end(unsigned int disk, uint64_t first, uint64_t count, uint64_t write, bool success)
{
	uint64_t now = ledger_event();

	for (uint64_t i = 0; i < count; i++)
		end_in_block(block_at(disk, first + i), write, success, now);
}

bool ledger_allows(unsigned int disk, uint64_t index, uint64_t stamp, uint64_t since)
{
	const struct block *block = block_at(disk, index);

	if (block->anything > since)
		return true;
	for (int i = 0; i < block->count; i++) {
		if (block->candidates[i].stamp == stamp && block->candidates[i].removed > since)
			return true;
	}
	return false;
}

bool ledger_is_as_new(unsigned int disk, uint64_t index, uint64_t stamp, uint64_t write)
{
	const struct block *block = block_at(disk, index);

	if (block->anything > write)
		return true;
	for (int i = 0; i < block->count; i++) {
		if (block->candidates[i].stamp == stamp && block->candidates[i].ended > write)
			return true;
	}
	return false;
}

bool ledger_is_sure(unsigned int disk, uint64_t index, uint64_t since, uint64_t *stamp_ret)
{
	const struct block *block = block_at(disk, index);
	const struct candidate *only = NULL;

	if (block->anything > since)
		return false;
	for (int i = 0; i < block->count; i++) {
		if (block->candidates[i].removed <= since)
			continue;
		if (only && only->stamp != block->candidates[i].stamp)
			return false;
		only = &block->candidates[i];
	}
	must(only);
	*stamp_ret = only->stamp;
	return true;
}

void ledger_describe(unsigned int disk, uint64_t index, char *text, size_t text_bytes)
{
	const struct block *block = block_at(disk, index);
	size_t at = 0;

	text[0] = 0;
	for (int i = 0; i < block->count && at + 64 < text_bytes; i++) {
		const struct candidate *candidate = &block->candidates[i];

		at += (size_t)snprintf(text + at, text_bytes - at, " %lx(%lu..%ld%s)", (unsigned long)candidate->stamp,
				       (unsigned long)candidate->write, (long)candidate->ended,
				       candidate->removed == NOT_YET ? "" : " gone");
	}
}

static uint64_t word(uint64_t seed, uint32_t i)
{
	return (seed + i) * 0x9e3779b97f4a7c15ull ^ seed >> 7;
}

void ledger_fill(unsigned int disk, uint64_t index, uint64_t stamp, void *bytes, uint32_t block_bytes)
{
	uint64_t *words = bytes, seed = stamp << 20 ^ index << 2 ^ disk;

	if (stamp == 0) {
		memset(bytes, 0, block_bytes);
		return;
	}
	words[0] = stamp;
	for (uint32_t i = 1; i < block_bytes / 8; i++)
		words[i] = word(seed, i);
}

bool ledger_read(unsigned int disk, uint64_t index, const void *bytes, uint32_t block_bytes, uint64_t *stamp_ret)
{
	const uint64_t *words = bytes;
	uint64_t stamp = words[0], seed = stamp << 20 ^ index << 2 ^ disk;

	for (uint32_t i = 1; i < block_bytes / 8; i++) {
		if (words[i] != (stamp ? word(seed, i) : 0))
			return false;
	}
	*stamp_ret = stamp;
	return true;
}
