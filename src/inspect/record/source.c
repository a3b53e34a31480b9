/* SPDX-License-Identifier: BSD-2-Clause */
/* source - the recorded program's file. It stays mapped, so it remains readable after the program unlinks it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inspect/record/internal.h"

static bool is_within_source(const struct source *source, uint64_t offset, uint64_t bytes)
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
			if (!offset || !is_within_source(source, offset, sizeof(*ring)) ||
			    !is_power_of_two(ring->entry_count) || ring->entry_count < 2 * TRACE_PARTS_MAX ||
			    ring->entry_count > BIT(32) ||
			    !is_within_source(source, offset,
					      sizeof(*ring) + ring->entry_count * sizeof(struct trace_record)))
				continue;
			source->rings[source->ring_count - 1] = ring;
		}
	}
}

static int check_source_file(struct source *source, const char *path, struct fathom_fault *why)
{
	const struct trace_header *header = source->header = (const void *)source->map;
	uint64_t after;

	if (memcmp(header->magic, TRACE_MAGIC, sizeof(header->magic)) != 0)
		return fault(why, -EBADMSG, "%s is not a Fathom trace file", path);
	if (header->version != TRACE_VERSION || header->section_count > TRACE_SECTIONS_MAX)
		return fault(why, -EBADMSG, "%s has an unsupported version (%u), or is damaged", path, header->version);
	source->section_count = header->section_count;
	after = sizeof(*header);
	memcpy(source->sections, header->sections, sizeof(source->sections));
	for (uint32_t i = 0; i < source->section_count; i++) {
		const struct trace_section *section = &source->sections[i];

		/* sections must not overlap and must be in the order of their offsets */
		if (!is_within_source(source, section->offset, section->bytes) || section->offset < after)
			return fault(why, -EBADMSG, "%s is damaged or truncated", path);
		after = section->offset + section->bytes;
		if (section->kind == TRACE_SECTION_THREADS && section->stride >= sizeof(struct trace_thread) &&
		    section->count <= section->bytes / section->stride)
			source->threads = section;
		if (section->kind == TRACE_SECTION_PROCESS && section->bytes >= sizeof(struct trace_process))
			source->process = (const void *)(source->map + section->offset);
	}
	source->pid = source->process ? source->process->pid : 0;
	if (!source->threads || source->pid <= 0)
		return fault(why, -EBADMSG, "%s is damaged: it has no threads, or names no process", path);
	find_rings(source);
	return 0;
}

int record_source_open(struct source *source, const char *path, struct fathom_fault *why)
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
	rc = check_source_file(source, path, why);
	if (rc)
		record_source_close(source);
	return rc;
}

void record_source_close(struct source *source)
{
	munmap((void *)source->map, source->bytes);
	close(source->fd);
}

void record_source_copy(const struct source *source, struct record_batch *batch)
{
	const struct trace_ring *ring = source->rings[batch->ring];
	uint64_t from = max_u64(*batch->next, trace_oldest_whole(ring->entry_count, batch->head));
	uint64_t count = min_u64(batch->head - from, CHUNK_RECORDS), oldest, overwritten;

	for (uint64_t n = 0; n < count; n++)
		batch->chunk[n] = ring->records[(from + n) & (ring->entry_count - 1)];
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	oldest = record_source_oldest(source, batch->ring);
	overwritten = oldest > from ? min_u64(oldest - from, count) : 0; /* during the copy */
	batch->lost = from - *batch->next + overwritten;
	*batch->next = from + count;
	batch->records = batch->chunk + overwritten;
	batch->count = count - overwritten;
	must(batch->count <= CHUNK_RECORDS);
}

uint64_t record_source_oldest(const struct source *source, uint32_t i)
{
	const struct trace_ring *ring = source->rings[i];

	return trace_oldest_whole(ring->entry_count, __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE));
}

bool record_source_has_ended(const struct source *source)
{
	return __atomic_load_n(&source->process->end_tick, __ATOMIC_ACQUIRE) != 0 ||
	       (kill(source->pid, 0) != 0 && errno == ESRCH);
}

uint64_t record_source_pace(uint64_t fill, uint64_t sleep_us)
{
	enum { MIN_US = 50, MAX_US = 20000 };

	/* poll often enough that no ring is more than a quarter unread */
	if (fill > 25)
		return fill > 60 ? 0 : max_u64(MIN_US, sleep_us / 2);
	return fill < 8 ? min_u64(MAX_US, sleep_us + sleep_us / 4 + MIN_US) : sleep_us;
}
