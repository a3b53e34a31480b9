/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pack - writes a recorded file again with rings of minimal size, compressed if requested. It is written strictly from
 * beginning to end, since a compressed stream cannot seek.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/file.h"
#include "inspect/record/internal.h"

enum { CHUNK_BYTES = 1 << 16, ZSTD_LEVEL = 3, RING_ENTRIES_MIN = 16 };

struct sink {
	int fd;
	const char *path;
	ZSTD_CCtx *zstd; /* NULL: not compressed */
	uint64_t offset; /* bytes written, before compression */
	uint8_t *chunk;	 /* CHUNK_BYTES: scratch for copying */
	uint8_t *out;	 /* compressed data: ZSTD_CStreamOutSize() */
};

static int write_out(const struct sink *sink, const void *data, size_t bytes, struct fathom_fault *why)
{
	int rc = file_write(sink->fd, data, bytes);

	return rc ? fault(why, rc, "cannot write %s: %s", sink->path, strerror(-rc)) : 0;
}

static int compress_data(struct sink *sink, const void *data, size_t bytes, ZSTD_EndDirective end, struct fathom_fault *why)
{
	ZSTD_inBuffer in = { .src = data, .size = bytes };
	size_t left;

	do {
		ZSTD_outBuffer out = { .dst = sink->out, .size = ZSTD_CStreamOutSize() };
		int rc;

		left = ZSTD_compressStream2(sink->zstd, &out, &in, end);
		if (ZSTD_isError(left))
			return fault(why, -EIO, "cannot compress %s: %s", sink->path, ZSTD_getErrorName(left));
		rc = write_out(sink, sink->out, out.pos, why);
		if (rc)
			return rc;
	} while (end == ZSTD_e_end ? left > 0 : in.pos < in.size);
	return 0;
}

static int write_data(struct sink *sink, const void *data, size_t bytes, struct fathom_fault *why)
{
	sink->offset += bytes;
	return sink->zstd ? compress_data(sink, data, bytes, ZSTD_e_continue, why) : write_out(sink, data, bytes, why);
}

/* Write zeroes up to `offset`. */
static int skip_output_to(struct sink *sink, uint64_t offset, struct fathom_fault *why)
{
	int rc = 0;

	must(offset >= sink->offset);
	if (!sink->zstd) {
		sink->offset = offset;
		if (ftruncate(sink->fd, (off_t)offset) != 0 || lseek(sink->fd, (off_t)offset, SEEK_SET) < 0)
			return fault(why, -errno, "cannot write %s: %s", sink->path, strerror(errno));
		return 0;
	}
	memset(sink->chunk, 0, CHUNK_BYTES);
	while (sink->offset < offset && rc == 0)
		rc = write_data(sink, sink->chunk, min_u64(CHUNK_BYTES, offset - sink->offset), why);
	return rc;
}

/* Copy `bytes` at `from` of the segment's file to `to` in the packed one. */
static int copy_range(struct sink *sink, const struct segment *segment, uint64_t from, uint64_t bytes, uint64_t to,
		      struct fathom_fault *why)
{
	int rc = skip_output_to(sink, to, why);

	while (bytes > 0 && rc == 0) {
		ssize_t got = pread(segment->fd, sink->chunk, min_u64(CHUNK_BYTES, bytes), (off_t)from);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return fault(why, got ? -errno : -EIO, "cannot read %s: %s", segment->path,
				     strerror(got ? errno : EIO));
		/* unused blocks stay holes */
		if (!sink->zstd && is_all_zero(sink->chunk, (size_t)got))
			rc = skip_output_to(sink, sink->offset + (uint64_t)got, why);
		else
			rc = write_data(sink, sink->chunk, (size_t)got, why);
		from += (uint64_t)got;
		bytes -= (uint64_t)got;
	}
	return rc;
}

struct plan {
	uint64_t entries[RINGS_MAX], offset[RINGS_MAX];
	uint64_t bytes;
};

static void make_plan(const struct segment *segment, const struct source *source, struct plan *plan)
{
	plan->bytes = segment->tables_bytes;
	for (uint32_t i = 0; i < source->ring_count; i++) {
		plan->entries[i] = max_u64(RING_ENTRIES_MIN,
					   round_up_power_of_two(segment->count[i] - segment->first[i] + TRACE_PARTS_MAX));
		plan->offset[i] = plan->bytes;
		if (source->rings[i])
			plan->bytes += round_up(sizeof(struct trace_ring) + plan->entries[i] * sizeof(struct trace_record),
						4096);
	}
}

/* Write the threads with the ring offsets of the plan. */
static int put_threads(struct sink *sink, const struct segment *segment, const struct source *source,
		       const struct plan *plan, struct fathom_fault *why)
{
	const struct trace_section *section = source->threads;
	int rc = 0;

	for (uint64_t i = 0; i < section->count && rc == 0; i++) {
		uint64_t offset = section->offset + i * section->stride;
		struct trace_thread thread;

		if (pread(segment->fd, &thread, sizeof(thread), (off_t)offset) != sizeof(thread))
			return fault(why, -EIO, "cannot read %s", segment->path);
		for (uint32_t kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
			uint32_t ring = (uint32_t)i * TRACE_RINGS_PER_THREAD + kind;

			thread.ring_offset[kind] = ring < source->ring_count && source->rings[ring] ? plan->offset[ring]
												    : 0;
		}
		rc = skip_output_to(sink, offset, why);
		if (rc == 0)
			rc = write_data(sink, &thread, sizeof(thread), why);
	}
	return rc;
}

/* Write the records of a ring, in two parts around its end. */
static int put_records(struct sink *sink, const struct segment *segment, uint32_t ring, struct fathom_fault *why)
{
	uint64_t entries = segment->ring_entries, from = segment->first[ring] & (entries - 1);
	uint64_t count = segment->count[ring] - segment->first[ring], before_end = min_u64(count, entries - from);
	uint64_t offset = segment_records_offset(segment, ring), bytes = sizeof(struct trace_record);
	int rc = copy_range(sink, segment, offset + from * bytes, before_end * bytes, sink->offset, why);

	return rc ? rc : copy_range(sink, segment, offset, (count - before_end) * bytes, sink->offset, why);
}

static int put_rings(struct sink *sink, const struct segment *segment, const struct source *source, const struct plan *plan,
		     struct fathom_fault *why)
{
	int rc = 0;

	for (uint32_t i = 0; i < source->ring_count && rc == 0; i++) {
		struct trace_ring head = { .head = segment->count[i] - segment->first[i],
					   .entry_count = plan->entries[i],
					   .thread = i / TRACE_RINGS_PER_THREAD,
					   .kind = i % TRACE_RINGS_PER_THREAD,
					   .lost = segment->lost[i] };

		if (!source->rings[i])
			continue;
		rc = skip_output_to(sink, plan->offset[i], why);
		if (rc == 0)
			rc = write_data(sink, &head, sizeof(head), why);
		if (rc == 0)
			rc = put_records(sink, segment, i, why);
	}
	return rc ? rc : skip_output_to(sink, plan->bytes, why);
}

static int put_all(struct sink *sink, const struct segment *segment, const struct source *source, struct fathom_fault *why)
{
	struct trace_header header = *source->header;
	struct plan plan;
	int rc;

	make_plan(segment, source, &plan);
	header.file_bytes = plan.bytes;
	header.section_count = source->section_count;
	for (uint32_t i = 0; i < source->section_count; i++) {
		header.sections[i] = source->sections[i];
		if (source->sections[i].kind == TRACE_SECTION_RINGS) {
			header.sections[i].offset = segment->tables_bytes;
			header.sections[i].bytes = plan.bytes - segment->tables_bytes;
		}
	}
	rc = write_data(sink, &header, sizeof(header), why);
	/* sections are in the order of their offsets */
	for (uint32_t i = 0; i < source->section_count && rc == 0; i++) {
		const struct trace_section *section = &source->sections[i];

		if (section == source->threads)
			rc = put_threads(sink, segment, source, &plan, why);
		else if (section->kind != TRACE_SECTION_RINGS)
			rc = copy_range(sink, segment, section->offset, section->bytes, section->offset, why);
	}
	if (rc == 0)
		rc = put_rings(sink, segment, source, &plan, why);
	return rc == 0 && sink->zstd ? compress_data(sink, NULL, 0, ZSTD_e_end, why) : rc;
}

static int open_sink(struct sink *sink, const char *path, bool compressed, struct fathom_fault *why)
{
	*sink = (struct sink){ .path = path, .fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) };
	if (sink->fd < 0)
		return fault(why, -errno, "cannot make %s: %s", path, strerror(errno));
	sink->chunk = malloc(CHUNK_BYTES);
	must(sink->chunk);
	if (compressed) {
		sink->zstd = ZSTD_createCCtx();
		sink->out = malloc(ZSTD_CStreamOutSize());
		must(sink->zstd && sink->out);
		must(!ZSTD_isError(ZSTD_CCtx_setParameter(sink->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)));
		must(!ZSTD_isError(ZSTD_CCtx_setParameter(sink->zstd, ZSTD_c_checksumFlag, 1)));
	}
	return 0;
}

int segment_pack(struct segment *segment, const struct source *source, bool compressed, struct fathom_fault *why)
{
	char temporary[PATH_MAX + 8];
	struct sink sink;
	int rc;

	snprintf(temporary, sizeof(temporary), "%s.part", segment->packed_path);
	rc = open_sink(&sink, temporary, compressed, why);
	if (rc == 0) {
		rc = put_all(&sink, segment, source, why);
		if (close(sink.fd) != 0 && rc == 0)
			rc = fault(why, -errno, "cannot write %s: %s", temporary, strerror(errno));
		ZSTD_freeCCtx(sink.zstd);
		free(sink.out);
		free(sink.chunk);
		if (rc == 0) {
			/* if both names are equal, packed_path names the segment's own file */
			bool own = strcmp(segment->packed_path, segment->path) == 0 && segment->path_is_own;

			rc = file_give_name(temporary, segment->packed_path, segment->force || own);
			if (rc)
				rc = fault(why, rc, "cannot make %s: %s%s", segment->packed_path, strerror(-rc),
					   rc == -EEXIST ? "; --force overwrites it" : "");
		}
		if (rc == 0 && strcmp(segment->packed_path, segment->path) != 0)
			unlink(segment->path);
		if (rc)
			unlink(temporary);
	}
	close(segment->fd);
	segment->fd = -1;
	return rc;
}
