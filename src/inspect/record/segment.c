/* SPDX-License-Identifier: BSD-2-Clause */
/* segment - one recorded file: the source's tables, and rings that only grow. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "inspect/record/internal.h"

static int write_segment_at(const struct segment *segment, const void *data, uint64_t bytes, uint64_t offset,
			    struct fathom_fault *why)
{
	int rc = file_write_at(segment->fd, data, bytes, offset);

	return rc ? fault(why, rc, "cannot write %s: %s", segment->path, strerror(-rc)) : 0;
}

static uint64_t ring_span(const struct segment *segment)
{
	return PAGE_BYTES + round_up(segment->ring_entries * sizeof(struct trace_record), PAGE_BYTES);
}

uint64_t segment_records_offset(const struct segment *segment, uint32_t ring)
{
	return segment->tables_bytes + ring * ring_span(segment) + PAGE_BYTES;
}

uint64_t segment_ring_offset(const struct segment *segment, uint32_t ring)
{
	return segment_records_offset(segment, ring) - sizeof(struct trace_ring);
}

static uint64_t segment_end(const struct segment *segment, const struct source *source)
{
	return segment->tables_bytes + source->ring_count * ring_span(segment);
}

int segment_init(struct segment *segment, const struct source *source, int fd, uint64_t ring_entries,
		 struct fathom_fault *why)
{
	must(is_power_of_two(ring_entries));
	segment->fd = fd;
	segment->tables_bytes = round_up(source->bytes, PAGE_BYTES);
	segment->ring_entries = ring_entries;
	if (ftruncate(fd, (off_t)segment_end(segment, source)) != 0)
		return fault(why, -errno, "cannot extend %s: %s", segment->path, strerror(errno));
	return 0;
}

int segment_open(struct segment *segment, const struct source *source, const char *path, uint64_t ring_entries, bool force,
		 struct fathom_fault *why)
{
	int rc = file_check_new(path, force, why);

	*segment = (struct segment){ .fd = -1, .force = force };
	if (rc)
		return rc;
	if (snprintf(segment->path, sizeof(segment->path), "%s", path) >= (int)sizeof(segment->path))
		return fault(why, -ENAMETOOLONG, "%s: the name is too long", path);
	segment->fd = open(path, O_RDWR | O_CREAT | (force ? O_TRUNC : O_EXCL) | O_CLOEXEC, 0600);
	if (segment->fd < 0)
		return fault(why, -errno, "cannot make %s: %s", path, strerror(errno));
	segment->path_is_own = true;
	rc = segment_init(segment, source, segment->fd, ring_entries, why);
	if (rc) {
		close(segment->fd);
		segment->fd = -1;
	}
	return rc;
}

/* Set the ring offsets of thread `i` to those in this file. */
static void relocate_rings(const struct segment *segment, const struct source *source, struct trace_thread *thread,
			   uint64_t i)
{
	for (uint32_t kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
		uint32_t ring = (uint32_t)i * TRACE_RINGS_PER_THREAD + kind;

		thread->ring_offset[kind] = ring < source->ring_count && source->rings[ring]
						    ? segment_ring_offset(segment, ring)
						    : 0;
	}
}

static int write_segment_threads(struct segment *segment, const struct source *source, struct fathom_fault *why)
{
	const struct trace_section *section = source->threads;
	int rc = 0;

	for (uint64_t i = 0; i < section->count && rc == 0; i++) {
		uint64_t offset = section->offset + i * section->stride;
		struct trace_thread thread;

		memcpy(&thread, source->map + offset, sizeof(thread));
		relocate_rings(segment, source, &thread, i);
		rc = write_segment_at(segment, &thread, sizeof(thread), offset, why);
	}
	return rc;
}

static int write_ring_heads(struct segment *segment, const struct source *source, struct fathom_fault *why)
{
	int rc = 0;

	for (uint32_t i = 0; i < source->ring_count && rc == 0; i++) {
		struct trace_ring head = { .head = segment->count[i],
					   .entry_count = segment->ring_entries,
					   .thread = i / TRACE_RINGS_PER_THREAD,
					   .kind = i % TRACE_RINGS_PER_THREAD,
					   .lost = segment->lost[i] };

		if (source->rings[i])
			rc = write_segment_at(segment, &head, sizeof(head), segment_ring_offset(segment, i), why);
	}
	return rc;
}

/* Write threads, ring heads and header, in this order: the header last, as the engine does. */
static int write_ends(struct segment *segment, const struct source *source, struct fathom_fault *why)
{
	struct trace_header header = *source->header;
	int rc = write_segment_threads(segment, source, why);

	header.file_bytes = segment_end(segment, source);
	header.section_count = source->section_count;
	for (uint32_t i = 0; i < source->section_count; i++) {
		header.sections[i] = source->sections[i];
		if (header.sections[i].kind == TRACE_SECTION_RINGS) {
			header.sections[i].offset = segment->tables_bytes;
			header.sections[i].bytes = header.file_bytes - segment->tables_bytes;
		}
	}
	if (rc == 0)
		rc = write_ring_heads(segment, source, why);
	return rc ? rc : write_segment_at(segment, &header, sizeof(header), 0, why);
}

int segment_tables_piece(struct segment *segment, const struct source *source, bool *whole_ret, struct fathom_fault *why)
{
	uint64_t room = TABLES_PIECE_BYTES;
	int rc = 0;

	*whole_ret = false;
	while (segment->tables_section < source->section_count && room > 0 && rc == 0) {
		const struct trace_section *section = &source->sections[segment->tables_section];
		bool is_table = section->kind != TRACE_SECTION_RINGS && section->kind != TRACE_SECTION_THREADS;
		uint64_t left = is_table ? section->bytes - segment->tables_at : 0, bytes = min_u64(room, left);
		uint64_t offset = section->offset + segment->tables_at;

		if (bytes)
			rc = write_segment_at(segment, source->map + offset, bytes, offset, why);
		room -= bytes;
		segment->tables_at += bytes;
		if (bytes == left) {
			segment->tables_section++;
			segment->tables_at = 0;
		}
	}
	if (rc || segment->tables_section < source->section_count)
		return rc;
	segment->tables_section = 0;
	*whole_ret = true;
	return write_ends(segment, source, why);
}

int segment_tables(struct segment *segment, const struct source *source, struct fathom_fault *why)
{
	bool whole = false;
	int rc = 0;

	segment->tables_section = 0;
	segment->tables_at = 0;
	while (!whole && rc == 0)
		rc = segment_tables_piece(segment, source, &whole, why);
	return rc;
}

int segment_append(struct segment *segment, uint32_t ring, const struct trace_record *records, uint64_t count,
		   struct fathom_fault *why)
{
	uint64_t entries = segment->ring_entries, at = segment->count[ring] & (entries - 1);
	uint64_t before_end = min_u64(count, entries - at), offset = segment_records_offset(segment, ring);
	int rc;

	must(segment->count[ring] + count - segment->first[ring] <= entries - TRACE_PARTS_MAX);
	rc = write_segment_at(segment, records, before_end * sizeof(*records), offset + at * sizeof(*records), why);
	if (rc == 0)
		rc = write_segment_at(segment, records + before_end, (count - before_end) * sizeof(*records), offset, why);
	if (rc == 0)
		segment->count[ring] += count;
	return rc;
}
