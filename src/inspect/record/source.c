/* SPDX-License-Identifier: BSD-2-Clause */
/* source - the file that is recorded from: mapped for good, so that it stays when its program unlinks it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inspect/record/internal.h"

static bool is_within(const struct source *source, uint64_t offset, uint64_t bytes)
{
	return offset % 8 == 0 && offset <= source->bytes && bytes <= source->bytes - offset;
}

static void find_rings(struct source *source)
{
	const struct trace_section *section = source->threads;

	for (uint64_t i = 0; i < section->count && i < TRACE_THREADS_MAX; i++) {
		const struct trace_thread *thread = (const void *)(source->map + section->offset + i * section->stride);

		for (int kind = 0; kind < TRACE_RINGS_PER_THREAD; kind++) {
			uint64_t offset = thread->ring_offset[kind];
			const struct trace_ring *ring = (const void *)(source->map + offset);

			source->rings[source->ring_count++] = NULL;
			if (!offset || !is_within(source, offset, sizeof(*ring)) || !is_power_of_two(ring->entry_count) ||
			    ring->entry_count < 2 * TRACE_PARTS_MAX || ring->entry_count > BIT(32) ||
			    !is_within(source, offset, sizeof(*ring) + ring->entry_count * sizeof(struct trace_record)))
				continue;
			source->rings[source->ring_count - 1] = ring;
		}
	}
}

static int check(struct source *source, const char *path, struct fault *why)
{
	const struct trace_header *header = source->header = (const void *)source->map;
	uint64_t after;

	if (memcmp(header->magic, TRACE_MAGIC, sizeof(header->magic)) != 0)
		return fault(why, -EBADMSG, "%s is not a Fathom trace file", path);
	if (header->version != TRACE_VERSION || header->section_count > TRACE_SECTIONS_MAX)
		return fault(why, -EBADMSG, "%s is of another version (%u), or damaged", path, header->version);
	source->section_count = header->section_count;
	after = sizeof(*header);
	memcpy(source->sections, header->sections, sizeof(source->sections));
	for (uint32_t i = 0; i < source->section_count; i++) {
		const struct trace_section *section = &source->sections[i];

		/* one behind the other, as they are written */
		if (!is_within(source, section->offset, section->bytes) || section->offset < after)
			return fault(why, -EBADMSG, "%s is damaged or truncated", path);
		after = section->offset + section->bytes;
		if (section->kind == TRACE_SECTION_THREADS && section->stride >= sizeof(struct trace_thread) &&
		    section->count <= section->bytes / section->stride)
			source->threads = section;
		if (section->kind == TRACE_SECTION_PROCESS && section->bytes >= sizeof(struct trace_process))
			source->pid = ((const struct trace_process *)(source->map + section->offset))->pid;
	}
	if (!source->threads || source->pid <= 0)
		return fault(why, -EBADMSG, "%s is damaged: it does not say who wrote it", path);
	find_rings(source);
	return 0;
}

int record_source_open(struct source *source, const char *path, struct fault *why)
{
	struct stat st;
	void *map;
	int rc;

	*source = (struct source){ .fd = open(path, O_RDONLY | O_CLOEXEC) };
	if (source->fd < 0)
		return fault(why, -errno, "%s: %s", path, strerror(errno));
	if (fstat(source->fd, &st) != 0 || st.st_size < (off_t)sizeof(struct trace_header)) {
		close(source->fd);
		return fault(why, -EBADMSG, "%s is too short for a trace file", path);
	}
	source->bytes = (uint64_t)st.st_size;
	map = mmap(NULL, source->bytes, PROT_READ, MAP_SHARED, source->fd, 0);
	if (map == MAP_FAILED) {
		rc = fault(why, -errno, "%s: %s", path, strerror(errno));
		close(source->fd);
		return rc;
	}
	source->map = map;
	rc = check(source, path, why);
	if (rc)
		record_source_close(source);
	return rc;
}

void record_source_close(struct source *source)
{
	munmap((void *)source->map, source->bytes);
	close(source->fd);
}
