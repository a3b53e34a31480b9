/* SPDX-License-Identifier: BSD-2-Clause */
/* freeze - copies a trace file while all threads write it. freeze.h explains how the copy stays consistent. */
#include "base/observe/trace/freeze.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/observe/trace/internal.h"

enum {
	CHUNK_BYTES = 1 << 20,
	CHUNK_RECORDS = CHUNK_BYTES / sizeof(struct trace_record),
	TRIES = 64,	 /* of copying memory that changes */
	RING_TRIES = 16, /* of copying most of a ring: if the copier is preempted, the ring is overwritten meanwhile */
};

struct copy {
	int fd;
	const char *path;
	uint8_t *chunk; /* CHUNK_BYTES */
};

static int write_at(const struct copy *copy, const void *data, uint64_t bytes, uint64_t offset, struct fathom_fault *why)
{
	int rc = file_write_at(copy->fd, data, bytes, offset);

	return rc ? fault(why, rc, "cannot write %s: %s", copy->path, strerror(-rc)) : 0;
}

/* Pieces that are all zero stay holes in the file. */
static int write_sparse(const struct copy *copy, const uint8_t *data, uint64_t bytes, uint64_t offset,
			struct fathom_fault *why)
{
	enum { PIECE_BYTES = 16384 };
	int rc = 0;

	for (uint64_t at = 0; at < bytes && rc == 0; at += PIECE_BYTES) {
		uint64_t piece = min_u64(PIECE_BYTES, bytes - at);

		if (!is_all_zero(data + at, piece))
			rc = write_at(copy, data + at, piece, offset + at, why);
	}
	return rc;
}

/* ---- memory that changes while it is copied ---- */

/* Copy until the source equals the copy a moment later; false: it changes too fast. */
static bool copy_stable(void *to, const void *from, size_t bytes)
{
	for (int try = 0; try < TRIES; try++) {
		memcpy(to, from, bytes);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (memcmp(to, from, bytes) == 0)
			return true;
	}
	return false;
}

/* Copy the stories of all requests. One that changes too fast is left empty: it has not been in flight for long. */
static int write_pools(const struct copy *copy, const struct trace_pool *pools, struct fathom_fault *why)
{
	const struct trace_file *file = &trace_file;
	int rc = 0;

	for (uint64_t i = 0; i < TRACE_POOLS_MAX && rc == 0; i++) {
		for (uint64_t n = 0; pools[i].offset && n < pools[i].count && rc == 0; n++) {
			uint64_t offset = pools[i].offset + n * pools[i].stride;
			struct trace_story story;

			must(offset + sizeof(story) <= file->bytes);
			if (!copy_stable(&story, file->memory + offset, sizeof(story)))
				story = (struct trace_story){ .trace = story.trace };
			if (!is_all_zero(&story, sizeof(story)))
				rc = write_at(copy, &story, sizeof(story), offset, why);
		}
	}
	return rc;
}

static int write_exemplars(const struct copy *copy, const struct trace_thread *thread, struct fathom_fault *why)
{
	const uint8_t *at = trace_file.memory + thread->exemplars_offset;
	struct trace_exemplars head;
	uint64_t rows;
	int rc;

	if (!thread->exemplars_offset)
		return 0;
	memcpy(&head, at, sizeof(head));
	rows = (uint64_t)head.epoch_count * head.epoch_rows + head.slow_rows + head.failed_rows;
	rc = write_at(copy, &head, sizeof(head), thread->exemplars_offset, why);
	for (uint64_t i = 0; i < rows && rc == 0; i++) {
		uint64_t offset = sizeof(head) + i * sizeof(struct trace_exemplar);
		struct trace_exemplar row;

		if (copy_stable(&row, at + offset, sizeof(row)) && row.version != 0 && row.version % 2 == 0)
			rc = write_at(copy, &row, sizeof(row), thread->exemplars_offset + offset, why);
	}
	return rc;
}

static int write_lives(const struct copy *copy, const struct trace_thread *thread, struct fathom_fault *why)
{
	struct trace_lives lives;
	int rc = 0;

	for (uint64_t i = 0; i < thread->lives_count && rc == 0; i++) {
		uint64_t offset = thread->lives_offset + i * sizeof(lives);

		/* the sums may be torn against each other; the latest life must be consistent, or it is not counted */
		memcpy(&lives, trace_file.memory + offset, sizeof(lives));
		if (!copy_stable(&lives, trace_file.memory + offset, offsetof(struct trace_lives, stages)))
			lives.last.alike = 0;
		if (lives.object_type)
			rc = write_at(copy, &lives, sizeof(lives), offset, why);
		else
			rc = write_at(copy, &lives, offsetof(struct trace_lives, stages), offset, why);
	}
	return rc;
}

/* ---- rings ---- */

/* Copy records [from, to), which do not wrap around; zero those overwritten meanwhile. Returns the first whole record. */
static uint64_t copy_records(const struct trace_ring *ring, uint64_t from, uint64_t to, struct trace_record *records)
{
	uint64_t whole;

	memcpy(records, &ring->records[from & (ring->entry_count - 1)], (to - from) * sizeof(*records));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	whole = trace_oldest_whole(ring->entry_count, __atomic_load_n(&ring->head, __ATOMIC_RELAXED));
	if (whole <= from)
		return from;
	whole = min_u64(whole, to);
	memset(records, 0, (whole - from) * sizeof(*records));
	return whole;
}

static const struct trace_ring *ring_at(uint64_t offset)
{
	return (const struct trace_ring *)(trace_file.memory + offset);
}

/* `most_ret`: at least half of the ring's records are whole. */
static int write_ring(const struct copy *copy, uint64_t offset, uint64_t head, bool *most_ret, struct fathom_fault *why)
{
	const struct trace_ring *ring = ring_at(offset);
	struct trace_ring now = *ring;
	uint64_t first = trace_oldest_whole(ring->entry_count, head);
	int rc = 0;

	now.head = head;
	now.first = first;
	for (uint64_t from = first, to; from < head && rc == 0; from = to) {
		uint64_t slot = from & (ring->entry_count - 1), whole;

		to = min_u64(min_u64(head, from + CHUNK_RECORDS), from + ring->entry_count - slot);
		whole = copy_records(ring, from, to, (struct trace_record *)copy->chunk);
		if (whole > from)
			now.first = whole;
		rc = write_at(copy, copy->chunk, (to - from) * sizeof(struct trace_record),
			      offset + sizeof(now) + slot * sizeof(struct trace_record), why);
	}
	*most_ret = now.first - first <= (head - first) / 2;
	return rc ? rc : write_at(copy, &now, sizeof(now), offset, why);
}

/* Both rings of a thread, as of one moment. */
static int write_rings(const struct copy *copy, const struct trace_thread *thread, struct fathom_fault *why)
{
	const uint64_t *offsets = thread->ring_offset;
	bool most = false;
	int rc = 0;

	for (int try = 0; try < RING_TRIES && !most && rc == 0; try++) {
		uint64_t heads[TRACE_RINGS_PER_THREAD];

		trace_heads(ring_at(offsets[TRACE_RING_IO]), ring_at(offsets[TRACE_RING_RARE]), &heads[TRACE_RING_IO],
			    &heads[TRACE_RING_RARE]);
		rc = write_ring(copy, offsets[TRACE_RING_IO], heads[TRACE_RING_IO], &most, why);
		if (rc == 0 && (most || try == RING_TRIES - 1)) {
			bool most_rare; /* ignored: this ring is rarely written, so its records are whole */

			rc = write_ring(copy, offsets[TRACE_RING_RARE], heads[TRACE_RING_RARE], &most_rare, why);
		}
	}
	return rc;
}

/* ---- the whole file ---- */

static bool is_table(const struct trace_section *section)
{
	return section->kind != TRACE_SECTION_RINGS && section->kind != TRACE_SECTION_POOL_MEMORY &&
	       section->kind != TRACE_SECTION_LIVES && section->kind != TRACE_SECTION_EXEMPLARS;
}

/* A consistent copy of the tables, at their offsets, in memory that the caller frees; NULL: out of memory. */
static uint8_t *copy_tables(uint64_t *bytes_ret)
{
	const struct trace_file *file = &trace_file;
	uint64_t bytes = sizeof(struct trace_header);
	uint8_t *tables;

	/* the tables have gaps between them (rings, ...), whose pages of the copy are never touched */
	for (uint32_t i = 0; i < file->header->section_count; i++) {
		const struct trace_section *section = &file->header->sections[i];

		if (is_table(section))
			bytes = max_u64(bytes, section->offset + section->bytes);
	}
	tables = calloc(1, bytes);
	if (!tables)
		return NULL;
	pthread_mutex_lock(&trace_lock);
	memcpy(tables, file->header, sizeof(*file->header));
	for (uint32_t i = 0; i < file->header->section_count; i++) {
		const struct trace_section *section = &file->header->sections[i];

		if (is_table(section))
			memcpy(tables + section->offset, file->memory + section->offset, section->bytes);
	}
	pthread_mutex_unlock(&trace_lock);
	*bytes_ret = bytes;
	return tables;
}

static const struct trace_section *find_section(const struct trace_header *header, enum trace_section_kind kind)
{
	for (uint32_t i = 0; i < header->section_count; i++) {
		if (header->sections[i].kind == kind)
			return &header->sections[i];
	}
	must(false);
	return NULL;
}

static int write_threads(const struct copy *copy, const struct trace_thread *threads, struct fathom_fault *why)
{
	int rc = 0;

	for (uint32_t i = 0; i < trace_file.thread_count && rc == 0; i++) {
		rc = write_rings(copy, &threads[i], why);
		if (rc == 0)
			rc = write_lives(copy, &threads[i], why);
		if (rc == 0)
			rc = write_exemplars(copy, &threads[i], why);
	}
	return rc;
}

static int write_trace_copy(const struct copy *copy, const char *reason, struct fathom_fault *why)
{
	struct trace_header *header;
	struct trace_frozen *frozen;
	uint64_t bytes;
	uint8_t *tables;
	int rc = 0;

	if (ftruncate(copy->fd, (off_t)trace_file.bytes) != 0)
		return fault(why, -errno, "cannot extend %s: %s", copy->path, strerror(errno));
	tables = copy_tables(&bytes);
	if (!tables)
		return fault(why, -ENOMEM, "out of memory");
	header = (struct trace_header *)tables;
	rc = write_threads(copy, (const void *)(tables + find_section(header, TRACE_SECTION_THREADS)->offset), why);
	if (rc == 0)
		rc = write_pools(copy, (const void *)(tables + find_section(header, TRACE_SECTION_POOLS)->offset), why);
	frozen = (struct trace_frozen *)(tables + find_section(header, TRACE_SECTION_FROZEN)->offset);
	*frozen = (struct trace_frozen){ .tick = clock_ticks(),
					 .why = TRACE_FROZEN_ASKED,
					 .realtime_ns = clock_realtime_ns() };
	(void)text_copy(frozen->text, sizeof(frozen->text), reason ? reason : ""); /* may be truncated */
	for (uint32_t i = 0; i < header->section_count && rc == 0; i++) {
		const struct trace_section *section = &header->sections[i];

		if (is_table(section))
			rc = write_sparse(copy, tables + section->offset, section->bytes, section->offset, why);
	}
	/* the magic comes last, so that an incomplete copy is no trace file */
	if (rc == 0)
		rc = write_at(copy, header, sizeof(*header), 0, why);
	free(tables);
	return rc;
}

/* Make the file: `path`, or the next of our own names. */
static int create_copy_file(const char *path, bool force, char *path_ret, size_t path_bytes, int *fd_ret,
			    struct fathom_fault *why)
{
	struct stat st;
	int fd = -1;

	if (path && force && lstat(path, &st) == 0 && S_ISREG(st.st_mode))
		(void)unlink(path); /* on failure open() reports -EEXIST */
	for (int number = 1; fd < 0 && number <= (path ? 1 : TRACE_FREEZE_NUMBERS); number++) {
		int length = path ? snprintf(path_ret, path_bytes, "%s", path)
				  : snprintf(path_ret, path_bytes, "%s.frozen%d", trace_file.path, number);

		if (length >= (int)path_bytes)
			return fault(why, -ENAMETOOLONG, "%s: the name is too long", path ? path : trace_file.path);
		fd = open(path_ret, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0)
		return fault(why, -errno, "cannot make %s: %s%s", path_ret, strerror(errno),
			     errno == EEXIST && path ? "; --force overwrites it" : "");
	*fd_ret = fd;
	return 0;
}

int trace_freeze(const char *path, bool force, const char *reason, char *path_ret, size_t path_bytes,
		 struct fathom_fault *why)
{
	struct copy copy = { .path = path_ret };
	int rc;

	if (!trace_file.memory || trace_file.in_memory)
		return fault(why, -ENOENT, "there is no trace file: the engine was started with --num-trace-entries 0");
	trace_clock_note();
	rc = create_copy_file(path, force, path_ret, path_bytes, &copy.fd, why);
	if (rc)
		return rc;
	copy.chunk = malloc(CHUNK_BYTES);
	rc = copy.chunk ? write_trace_copy(&copy, reason, why) : fault(why, -ENOMEM, "out of memory");
	if (close(copy.fd) != 0 && rc == 0)
		rc = fault(why, -errno, "cannot write %s: %s", path_ret, strerror(errno));
	free(copy.chunk);
	if (rc)
		unlink(path_ret);
	return rc;
}
