/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/backend/written.h"

#include <isa-l/crc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

enum { WAYS = 8, BLOCKS_MIN = 64, BATCH = 32 };

struct entry {
	uint64_t settled; /* `clock` at the end of the write; 0: not valid */
	uint32_t tag;	  /* with the bucket's index, the block */
	uint32_t sum;
};

struct bucket {
	uint64_t owner;	   /* the change that is alone here since its begin; 0: none, or several */
	uint64_t changing; /* changes in progress */
	struct entry entries[WAYS];
};

struct written {
	pthread_mutex_t mutex;
	/* ---- under the mutex ---- */
	uint64_t clock; /* counts begins and ends of changes */
	uint64_t recorded, checked, mismatches;
	uint64_t bad[FILE_MISMATCHES_MAX];
	uint32_t bad_count;
	/* ---- constant ---- */
	uint64_t bucket_count; /* a power of two */
	uint32_t bucket_bits;
	struct bucket buckets[]; /* under the mutex */
};

static void lock(struct written *written)
{
	must(pthread_mutex_lock(&written->mutex) == 0);
}

static void unlock(struct written *written)
{
	must(pthread_mutex_unlock(&written->mutex) == 0);
}

struct written *written_create(uint32_t blocks)
{
	uint64_t count = round_up_power_of_two(max_u64(blocks, BLOCKS_MIN)) / WAYS;
	struct written *written = calloc(1, sizeof(*written) + count * sizeof(written->buckets[0]));

	if (!written)
		return NULL;
	must(pthread_mutex_init(&written->mutex, NULL) == 0);
	written->bucket_count = count;
	written->bucket_bits = (uint32_t)__builtin_ctzll(count);
	return written;
}

void written_destroy(struct written *written)
{
	if (!written)
		return;
	must(pthread_mutex_destroy(&written->mutex) == 0);
	free(written);
}

/* ---- blocks and their entries ---- */

/* The blocks that the range touches, and of them those that it covers as a whole. */
struct blocks {
	uint64_t first, end;
	uint64_t whole_first, whole_end; /* equal or less: none */
};

static struct blocks blocks_of(const struct written_range *range)
{
	uint64_t end = range->offset + range->bytes;

	must(range->bytes > 0);
	return (struct blocks){
		.first = range->offset / WRITTEN_BLOCK_BYTES,
		.end = (end + WRITTEN_BLOCK_BYTES - 1) / WRITTEN_BLOCK_BYTES,
		.whole_first = (range->offset + WRITTEN_BLOCK_BYTES - 1) / WRITTEN_BLOCK_BYTES,
		.whole_end = end / WRITTEN_BLOCK_BYTES,
	};
}

static bool is_whole(const struct blocks *blocks, uint64_t block)
{
	return block >= blocks->whole_first && block < blocks->whole_end;
}

/* Adjacent blocks are in different buckets, so a long change is not in its own way. */
static struct bucket *bucket_of(struct written *written, uint64_t block)
{
	return &written->buckets[block & (written->bucket_count - 1)];
}

static uint64_t tag_of(const struct written *written, uint64_t block)
{
	return block >> written->bucket_bits;
}

/* NULL: none is valid. */
static struct entry *find_entry(struct written *written, uint64_t block)
{
	struct bucket *bucket = bucket_of(written, block);

	for (int i = 0; i < WAYS; i++) {
		if (bucket->entries[i].settled && bucket->entries[i].tag == tag_of(written, block))
			return &bucket->entries[i];
	}
	return NULL;
}

static void add_entry(struct written *written, uint64_t block, uint32_t sum)
{
	struct bucket *bucket = bucket_of(written, block);
	struct entry *entry = &bucket->entries[0];

	must(!find_entry(written, block)); /* the begin of the change removed it */
	if (tag_of(written, block) > UINT32_MAX)
		return;
	for (int i = 1; i < WAYS; i++) { /* an unused one has 0, so it is taken first */
		if (bucket->entries[i].settled < entry->settled)
			entry = &bucket->entries[i];
	}
	*entry = (struct entry){ .settled = written->clock, .tag = (uint32_t)tag_of(written, block), .sum = sum };
	written->recorded++;
}

/* ---- checksums of a vector ---- */

struct cursor {
	const struct iovec *iov;
	size_t at; /* in *iov */
};

/* The checksum of the next `bytes`; 0 if it is not wanted. */
static uint32_t read_on(struct cursor *cursor, size_t bytes, bool is_wanted)
{
	uint32_t sum = UINT32_MAX;

	while (bytes > 0) {
		size_t part = min_u64(bytes, cursor->iov->iov_len - cursor->at);

		if (is_wanted && part > 0)
			sum = crc32_iscsi((unsigned char *)cursor->iov->iov_base + cursor->at, (int)part, sum);
		cursor->at += part;
		bytes -= part;
		if (cursor->at == cursor->iov->iov_len && bytes > 0)
			*cursor = (struct cursor){ cursor->iov + 1, 0 };
	}
	return is_wanted ? sum : 0;
}

/* The bytes of the range in this block. */
static size_t bytes_in(const struct written_range *range, uint64_t block)
{
	uint64_t first = max_u64(range->offset, block * WRITTEN_BLOCK_BYTES);
	uint64_t end = min_u64(range->offset + range->bytes, (block + 1) * WRITTEN_BLOCK_BYTES);

	must(first < end);
	return (size_t)(end - first);
}

/* ---- changes ---- */

static void forget_all(struct written *written)
{
	for (uint64_t i = 0; i < written->bucket_count; i++) {
		for (int k = 0; k < WAYS; k++)
			written->buckets[i].entries[k].settled = 0;
	}
}

/* A change of more blocks than there are buckets is in progress in all of them, and makes no entry. */
static bool is_wide(const struct written *written, const struct blocks *blocks)
{
	return blocks->end - blocks->first > written->bucket_count;
}

static void begin_wide(struct written *written)
{
	forget_all(written);
	for (uint64_t i = 0; i < written->bucket_count; i++) {
		written->buckets[i].owner = 0;
		written->buckets[i].changing++;
	}
}

static void end_wide(struct written *written)
{
	for (uint64_t i = 0; i < written->bucket_count; i++) {
		must(written->buckets[i].changing > 0);
		written->buckets[i].changing--;
	}
}

static void begin_block(struct written *written, uint64_t block, uint64_t id)
{
	struct bucket *bucket = bucket_of(written, block);
	struct entry *entry = find_entry(written, block);

	if (entry)
		entry->settled = 0;
	bucket->owner = bucket->changing == 0 ? id : 0;
	bucket->changing++;
}

/* True: no other change in the bucket was in progress since its begin. */
static bool end_block(struct written *written, uint64_t block, uint64_t id)
{
	struct bucket *bucket = bucket_of(written, block);
	bool was_alone = bucket->owner == id;

	must(bucket->changing > 0);
	must(!was_alone || bucket->changing == 1);
	bucket->changing--;
	if (was_alone)
		bucket->owner = 0;
	return was_alone;
}

uint64_t written_begin_change(struct written *written, const struct written_range *range)
{
	struct blocks blocks = blocks_of(range);
	uint64_t id;

	lock(written);
	id = ++written->clock;
	if (is_wide(written, &blocks)) {
		begin_wide(written);
	} else {
		for (uint64_t block = blocks.first; block < blocks.end; block++)
			begin_block(written, block, id);
	}
	unlock(written);
	return id;
}

/* Of up to BATCH blocks from `first` on. */
static void end_blocks(struct written *written, uint64_t id, uint64_t first, uint64_t count, const uint32_t *sums,
		       const bool *is_known)
{
	lock(written);
	written->clock++;
	for (uint64_t i = 0; i < count; i++) {
		if (end_block(written, first + i, id) && is_known[i])
			add_entry(written, first + i, sums[i]);
	}
	unlock(written);
}

void written_end_change(struct written *written, uint64_t id, const struct written_range *range, const struct iovec *iov)
{
	struct blocks blocks = blocks_of(range);
	struct cursor cursor = { iov, 0 };
	uint32_t sums[BATCH];
	bool is_known[BATCH];

	if (is_wide(written, &blocks)) {
		lock(written);
		end_wide(written);
		unlock(written);
		return;
	}
	for (uint64_t first = blocks.first; first < blocks.end; first += BATCH) {
		uint64_t count = min_u64(BATCH, blocks.end - first);

		for (uint64_t i = 0; i < count; i++) {
			is_known[i] = iov && is_whole(&blocks, first + i);
			if (iov)
				sums[i] = read_on(&cursor, bytes_in(range, first + i), is_known[i]);
		}
		end_blocks(written, id, first, count, sums, is_known);
	}
}

/* ---- reads ---- */

uint64_t written_begin_read(struct written *written)
{
	uint64_t id;

	lock(written);
	id = written->clock;
	unlock(written);
	return id;
}

/* The valid entries of up to BATCH blocks that are older than the read. */
static uint64_t find_sums(struct written *written, uint64_t id, uint64_t first, uint64_t count, uint32_t *sums,
			  bool *is_known)
{
	uint64_t found = 0;

	lock(written);
	for (uint64_t i = 0; i < count; i++) {
		const struct entry *entry = is_known[i] ? find_entry(written, first + i) : NULL;

		is_known[i] = entry && entry->settled <= id;
		if (is_known[i])
			sums[i] = entry->sum;
		found += is_known[i];
	}
	written->checked += found;
	unlock(written);
	return found;
}

static void note_bad(struct written *written, uint64_t block)
{
	bool is_known = false;

	lock(written);
	written->mismatches++;
	for (uint32_t i = 0; i < written->bad_count; i++)
		is_known |= written->bad[i] == block; /* read again before it was reported */
	if (!is_known && written->bad_count < FILE_MISMATCHES_MAX)
		written->bad[written->bad_count++] = block;
	unlock(written);
}

bool written_check(struct written *written, uint64_t id, const struct written_range *range, const struct iovec *iov,
		   uint64_t *block_ret)
{
	struct blocks blocks = blocks_of(range);
	struct cursor cursor = { iov, 0 };
	uint32_t sums[BATCH] = { 0 };
	bool is_known[BATCH], is_right = true;

	for (uint64_t first = blocks.first; first < blocks.end; first += BATCH) {
		uint64_t count = min_u64(BATCH, blocks.end - first);

		for (uint64_t i = 0; i < count; i++)
			is_known[i] = is_whole(&blocks, first + i);
		(void)find_sums(written, id, first, count, sums, is_known); /* it counts for the statistics */
		for (uint64_t i = 0; i < count; i++) {
			uint32_t sum = read_on(&cursor, bytes_in(range, first + i), is_known[i]);

			if (!is_known[i] || sum == sums[i])
				continue;
			note_bad(written, first + i);
			if (is_right)
				*block_ret = first + i;
			is_right = false;
		}
	}
	return is_right;
}

/* ---- the rest ---- */

void written_forget(struct written *written)
{
	lock(written);
	forget_all(written);
	unlock(written);
}

void written_get(struct written *written, struct file_written_info *info_ret)
{
	lock(written);
	*info_ret = (struct file_written_info){
		.blocks = written->bucket_count * WAYS,
		.recorded = written->recorded,
		.checked = written->checked,
		.mismatches = written->mismatches,
		.pending = written->bad_count,
	};
	unlock(written);
}

uint32_t written_take_bad(struct written *written, uint64_t blocks_ret[FILE_MISMATCHES_MAX])
{
	uint32_t count;

	lock(written);
	count = written->bad_count;
	memcpy(blocks_ret, written->bad, count * sizeof(written->bad[0]));
	written->bad_count = 0;
	unlock(written);
	return count;
}
