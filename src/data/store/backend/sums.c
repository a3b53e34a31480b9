/* SPDX-License-Identifier: BSD-2-Clause */
/* sums - opens a sidecar, and keeps which regions are marked, suspect or in use. */
#include "data/store/backend/sums.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static void lock(struct sums *sums)
{
	must(pthread_mutex_lock(&sums->mutex) == 0);
}

static void unlock(struct sums *sums)
{
	must(pthread_mutex_unlock(&sums->mutex) == 0);
}

static bool bit_is_set(const uint8_t *bits, uint64_t index)
{
	return bits[index / 8] & (1u << (index % 8));
}

static void set_bit(uint8_t *bits, uint64_t index)
{
	bits[index / 8] |= (uint8_t)(1u << (index % 8));
}

static void clear_bit(uint8_t *bits, uint64_t index)
{
	bits[index / 8] &= (uint8_t) ~(1u << (index % 8));
}

static uint64_t count_bits(const uint8_t *bits, uint64_t bytes)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < bytes; i++)
		count += (uint64_t)__builtin_popcount(bits[i]);
	return count;
}

static uint64_t region_of(uint64_t block_index)
{
	return block_index / SUMS_REGION_BLOCKS;
}

/* ---- open and close ---- */

static int read_bits(int fd, uint8_t *bits, uint64_t bytes)
{
	for (uint64_t done = 0; done < bytes;) {
		ssize_t got = pread(fd, bits + done, bytes - done, (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		done += (uint64_t)got;
	}
	return 0;
}

/* Bits behind the last region are not used. */
static void drop_bits_behind(uint8_t *bits, uint64_t region_count)
{
	for (uint64_t i = region_count; i < 8 * sums_bits_bytes(region_count); i++)
		clear_bit(bits, i);
}

static int init_bits(struct sums *sums)
{
	uint64_t bytes = sums_bits_bytes(sums->region_count);
	int error;

	sums->marked = calloc(1, bytes);
	sums->suspect = malloc(bytes);
	sums->touched = calloc(1, bytes);
	if (!sums->marked || !sums->suspect || !sums->touched)
		return -ENOMEM;
	error = read_bits(sums->fd, sums->marked, bytes);
	if (error)
		return error;
	drop_bits_behind(sums->marked, sums->region_count);
	memcpy(sums->suspect, sums->marked, bytes);
	sums->marked_count = sums->suspect_count = count_bits(sums->marked, bytes);
	return 0;
}

static int open_sidecar(struct sums *sums, const char *filename, struct fathom_fault *why)
{
	uint64_t bytes = sums_file_bytes(sums->block_count * SUMS_BLOCK_BYTES);
	struct stat stat;
	int error;

	sums->fd = open(filename, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (sums->fd < 0 || fstat(sums->fd, &stat) < 0)
		return fault(why, -errno, "cannot open the checksums %s: %s", filename, strerror(errno));
	if (!S_ISREG(stat.st_mode) || (uint64_t)stat.st_size < bytes || sums->region_count > SUMS_REGIONS_MAX)
		return fault(why, -EINVAL, "the checksums %s have %" PRIu64 " bytes, and must have %" PRIu64, filename,
			     (uint64_t)stat.st_size, bytes);
	error = init_bits(sums);
	return error ? fault(why, error, "cannot read the checksums %s: %s", filename, strerror(-error)) : 0;
}

int sums_open(const char *filename, uint64_t block_count, struct sums **sums_ret, struct fathom_fault *why)
{
	struct sums *sums = calloc(1, sizeof(*sums));
	int error;

	must(block_count > 0);
	if (!sums)
		return fault(why, -ENOMEM, "out of memory for checksums");
	must(pthread_mutex_init(&sums->mutex, NULL) == 0);
	sums->block_count = block_count;
	sums->region_count = sums_region_count(block_count);
	sums->checked = UINT64_MAX;
	for (int i = 0; i < SUMS_BUCKETS; i++)
		LIST_INIT(&sums->ranges[i]);
	error = open_sidecar(sums, filename, why);
	if (error)
		sums_close(sums);
	else
		*sums_ret = sums;
	return error;
}

void sums_close(struct sums *sums)
{
	if (!sums)
		return;
	for (int i = 0; i < SUMS_BUCKETS; i++)
		must(LIST_EMPTY(&sums->ranges[i]));
	must(!sums->is_marking);
	must(pthread_mutex_destroy(&sums->mutex) == 0);
	if (sums->fd >= 0)
		(void)close(sums->fd); /* a flush has reported any error */
	free(sums->marked);
	free(sums->suspect);
	free(sums->touched);
	free(sums->cleaned);
	free(sums);
}

/* ---- ranges ---- */

static bool is_busy(const struct sums *sums, const struct sums_range *range)
{
	const struct sums_range *other;

	LIST_FOREACH (other, &sums->ranges[region_of(range->first) % SUMS_BUCKETS], link) {
		if ((other->is_exclusive || range->is_exclusive) && other->first < range->first + range->count &&
		    range->first < other->first + other->count)
			return true;
	}
	return false;
}

/* Whether a change of the region is in progress. */
static bool is_changing(const struct sums *sums, uint64_t region)
{
	const struct sums_range *range;

	LIST_FOREACH (range, &sums->ranges[region % SUMS_BUCKETS], link) {
		if (range->is_exclusive && region_of(range->first) == region)
			return true;
	}
	return false;
}

enum sums_entry sums_enter(struct sums *sums, struct sums_range *range, bool is_change, uint64_t *offset_ret)
{
	uint64_t region = region_of(range->first), at = region / 8 / SUMS_SECTOR_BYTES * SUMS_SECTOR_BYTES;
	enum sums_entry entry = SUMS_ENTERED;

	must(range->count > 0 && region_of(range->first + range->count - 1) == region);
	lock(sums);
	must(region < sums->region_count);
	range->is_exclusive = is_change || bit_is_set(sums->suspect, region);
	if (is_change && !bit_is_set(sums->marked, region))
		entry = SUMS_MUST_MARK;
	if (is_busy(sums, range) || (entry == SUMS_MUST_MARK && sums->is_marking)) {
		unlock(sums);
		return SUMS_BUSY;
	}
	LIST_INSERT_HEAD(&sums->ranges[region % SUMS_BUCKETS], range, link);
	if (is_change)
		set_bit(sums->touched, region);
	if (entry == SUMS_MUST_MARK) {
		sums->is_marking = true;
		memcpy(sums->sector, sums->marked + at, SUMS_SECTOR_BYTES);
		set_bit(sums->sector, region - at * 8);
		*offset_ret = at;
	}
	unlock(sums);
	return entry;
}

void sums_marked(struct sums *sums, const struct sums_range *range, bool is_done)
{
	uint64_t region = region_of(range->first);

	lock(sums);
	must(sums->is_marking && !bit_is_set(sums->marked, region));
	sums->is_marking = false;
	if (is_done) {
		set_bit(sums->marked, region);
		sums->marked_count++;
	}
	unlock(sums);
}

void sums_leave(struct sums *sums, struct sums_range *range, bool is_change)
{
	lock(sums);
	LIST_REMOVE(range, link);
	if (is_change)
		set_bit(sums->touched, region_of(range->first));
	unlock(sums);
}

/* ---- what differs ---- */

static void make_suspect(struct sums *sums, uint64_t region)
{
	sums->failures++;
	if (bit_is_set(sums->suspect, region))
		return;
	set_bit(sums->suspect, region);
	sums->suspect_count++;
}

void sums_suspect(struct sums *sums, uint64_t block_index)
{
	lock(sums);
	make_suspect(sums, region_of(block_index));
	unlock(sums);
}

enum sums_verdict sums_judge(struct sums *sums, uint64_t block_index)
{
	uint64_t region = region_of(block_index);
	enum sums_verdict verdict = SUMS_BAD;

	lock(sums);
	if (bit_is_set(sums->suspect, region)) {
		verdict = sums->checked == region ? SUMS_ADOPTED : SUMS_ACCEPTED;
		sums->adopted += verdict == SUMS_ADOPTED;
	} else {
		sums->mismatches++;
		for (uint32_t i = 0; i < sums->bad_count; i++) {
			if (sums->bad[i] == block_index)
				goto out; /* read again before it was reported */
		}
		if (sums->bad_count < FILE_MISMATCHES_MAX)
			sums->bad[sums->bad_count++] = block_index;
	}
out:
	unlock(sums);
	return verdict;
}

int sums_note_sync(struct sums *sums, int error, bool *is_first_ret)
{
	lock(sums);
	*is_first_ret = error && !sums->sync_error;
	if (*is_first_ret) {
		sums->sync_error = error;
		/* sums may be lost that were written after the mark of their region: nothing marked can be trusted */
		for (uint64_t i = 0; i < sums->region_count; i++) {
			if (bit_is_set(sums->marked, i))
				make_suspect(sums, i);
		}
	}
	error = sums->sync_error;
	unlock(sums);
	return error;
}

/* ---- clean ---- */

static bool can_clean(const struct sums *sums, uint64_t region)
{
	return bit_is_set(sums->marked, region) && !bit_is_set(sums->touched, region) &&
	       !bit_is_set(sums->suspect, region) && !is_changing(sums, region);
}

/* Under the mutex. */
static void drop_clean(struct sums *sums)
{
	sums->clean_io = NULL;
	free(sums->cleaned);
	sums->cleaned = NULL;
}

uint8_t *sums_clean_begin_write(struct sums *sums, const struct bdev_io *io, bool is_synced, uint64_t *bytes_ret)
{
	uint64_t removed = 0;
	uint8_t *bits = NULL;

	lock(sums);
	if (sums->clean_io != io) {
		unlock(sums);
		return NULL;
	}
	for (uint64_t i = 0; is_synced && !sums->is_marking && i < sums->region_count; i++) {
		if (!bit_is_set(sums->cleaned, i) || !can_clean(sums, i))
			continue;
		clear_bit(sums->marked, i);
		removed++;
	}
	must(removed <= sums->marked_count);
	sums->marked_count -= removed;
	if (removed > 0) {
		*bytes_ret = sums_bits_bytes(sums->region_count);
		bits = sums->cleaned;
		memcpy(bits, sums->marked, *bytes_ret);
		sums->cleaned = NULL;
		sums->is_marking = true;
	}
	drop_clean(sums);
	unlock(sums);
	return bits;
}

void sums_clean_end_write(struct sums *sums, uint8_t *bits)
{
	lock(sums);
	must(sums->is_marking);
	sums->is_marking = false;
	unlock(sums);
	free(bits);
}

static struct sums *sums_of(const struct bdev *bdev)
{
	return container_of(bdev, struct file_bdev, bdev)->sums;
}

bool file_sums_begin_clean(struct bdev *bdev, const struct bdev_io *io, bool all)
{
	struct sums *sums = sums_of(bdev);
	uint64_t bytes = sums_bits_bytes(sums->region_count), count = 0;
	uint8_t *cleaned = calloc(1, bytes);

	lock(sums);
	must(!sums->cleaned && !sums->clean_io);
	if (all)
		memset(sums->touched, 0, bytes);
	for (uint64_t i = 0; cleaned && sums->marked_count > 0 && i < sums->region_count; i++) {
		if (!can_clean(sums, i))
			continue;
		set_bit(cleaned, i);
		count++;
	}
	memset(sums->touched, 0, bytes);
	if (count > 0) {
		sums->clean_io = io;
		sums->cleaned = cleaned;
	}
	unlock(sums);
	if (count == 0)
		free(cleaned);
	return count > 0;
}

void file_sums_end_clean(struct bdev *bdev)
{
	struct sums *sums = sums_of(bdev);

	lock(sums);
	drop_clean(sums);
	unlock(sums);
}

/* ---- for the owner of the volume; control thread ---- */

bool file_has_sums(const struct bdev *bdev)
{
	return strcmp(bdev->ops->kind, "volume") == 0 && sums_of(bdev);
}

void file_get_sums(const struct bdev *bdev, struct file_sums_info *info_ret)
{
	struct sums *sums = sums_of(bdev);

	lock(sums);
	*info_ret = (struct file_sums_info){
		.regions = sums->region_count,
		.marked = sums->marked_count,
		.suspect = sums->suspect_count,
		.mismatches = sums->mismatches,
		.pending = sums->bad_count,
		.adopted = sums->adopted,
		.sync_error = sums->sync_error,
	};
	unlock(sums);
}

uint32_t file_take_mismatches(struct bdev *bdev, uint64_t blocks_ret[FILE_MISMATCHES_MAX])
{
	struct sums *sums = sums_of(bdev);
	uint32_t count;

	lock(sums);
	count = sums->bad_count;
	memcpy(blocks_ret, sums->bad, count * sizeof(sums->bad[0]));
	sums->bad_count = 0;
	unlock(sums);
	return count;
}

uint8_t *file_sums_copy_suspect(const struct bdev *bdev, uint64_t *bytes_ret)
{
	struct sums *sums = sums_of(bdev);
	uint8_t *bits;

	lock(sums);
	*bytes_ret = sums_bits_bytes(sums->region_count);
	bits = malloc(*bytes_ret);
	if (bits)
		memcpy(bits, sums->suspect, *bytes_ret);
	unlock(sums);
	return bits;
}

uint64_t file_sums_next_suspect(const struct bdev *bdev, uint64_t region)
{
	struct sums *sums = sums_of(bdev);

	lock(sums);
	while (region < sums->region_count && !bit_is_set(sums->suspect, region))
		region++;
	region = region < sums->region_count ? region : UINT64_MAX;
	unlock(sums);
	return region;
}

uint64_t file_sums_region_blocks(void)
{
	return SUMS_REGION_BLOCKS;
}

uint64_t file_sums_begin_check(struct bdev *bdev, uint64_t region)
{
	struct sums *sums = sums_of(bdev);
	uint64_t failures;

	lock(sums);
	must(region < sums->region_count);
	sums->checked = region;
	failures = sums->failures;
	unlock(sums);
	return failures;
}

void file_sums_end_check(struct bdev *bdev, uint64_t failures, bool is_whole)
{
	struct sums *sums = sums_of(bdev);

	lock(sums);
	/* UINT64_MAX: the file was exchanged meanwhile */
	if (sums->checked != UINT64_MAX && is_whole && sums->failures == failures && !sums->sync_error &&
	    bit_is_set(sums->suspect, sums->checked)) {
		clear_bit(sums->suspect, sums->checked);
		set_bit(sums->touched, sums->checked);
		sums->suspect_count--;
	}
	sums->checked = UINT64_MAX;
	unlock(sums);
}

static void *longer(void *bits, uint64_t bytes, uint64_t now)
{
	uint8_t *more = realloc(bits, bytes);

	must(more); /* as for a message: a bit for 16 MiB is small */
	memset(more + now, 0, bytes - now);
	return more;
}

void file_sums_grow(struct bdev *bdev, uint64_t block_count)
{
	struct sums *sums = sums_of(bdev);
	uint64_t now, bytes;

	lock(sums);
	now = sums_bits_bytes(sums->region_count);
	must(sums_region_count(block_count) <= SUMS_REGIONS_MAX);
	sums->block_count = max_u64(sums->block_count, block_count);
	sums->region_count = sums_region_count(sums->block_count);
	bytes = sums_bits_bytes(sums->region_count);
	if (bytes > now) {
		sums->marked = longer(sums->marked, bytes, now);
		sums->suspect = longer(sums->suspect, bytes, now);
		sums->touched = longer(sums->touched, bytes, now);
		if (sums->cleaned)
			sums->cleaned = longer(sums->cleaned, bytes, now);
	}
	unlock(sums);
}
