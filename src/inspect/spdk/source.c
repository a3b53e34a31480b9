/* SPDX-License-Identifier: BSD-2-Clause */
/* source - opens SPDK's file: finds its sections and checks them before use. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/spdk/internal.h"

enum { FILE_BYTES_SHIFT_MAX = 48 };

bool spdk_recognise(const void *begin)
{
	static const uint8_t zeros[sizeof(((struct spdk_header *)0)->reserved)];
	struct spdk_header header;

	memcpy(&header, begin, sizeof(header));
	if (header.section_count < SPDK_SECTIONS || header.section_count > 64 || header.file_bytes < sizeof(header) ||
	    header.file_bytes >> FILE_BYTES_SHIFT_MAX || memcmp(header.reserved, zeros, sizeof(zeros)) != 0)
		return false;
	for (int i = 0; i < SPDK_SECTIONS; i++) {
		if (header.sections[i] < sizeof(header) || header.sections[i] % 8 != 0 ||
		    header.sections[i] >= header.file_bytes)
			return false;
		for (int j = 0; j < i; j++) {
			if (header.sections[i] == header.sections[j])
				return false;
		}
	}
	return true;
}

void source_problem(struct source *source, const char *format, ...)
{
	va_list args;

	if (source->image->problem[0])
		return;
	va_start(args, format);
	vsnprintf(source->image->problem, sizeof(source->image->problem), format, args);
	va_end(args);
}

const void *source_at(const struct source *source, uint64_t offset, uint64_t bytes)
{
	return offset <= source->bytes && bytes <= source->bytes - offset ? source->map + offset : NULL;
}

/*
 * Returns the elements of a section that begins with their number. `*count_ret`: how many are within the file. NULL:
 * none.
 */
static const uint8_t *section_elements(struct source *source, enum spdk_section section, const char *name, uint64_t bytes,
				       uint32_t *count_ret)
{
	uint64_t offset = source->header.sections[section];
	const uint8_t *head = source_at(source, offset, SPDK_SECTION_HEAD_BYTES);
	uint16_t count = 0;

	*count_ret = 0;
	if (!head) {
		source_problem(source, "the %s are missing", name);
		return NULL;
	}
	memcpy(&count, head, sizeof(count));
	*count_ret = (uint32_t)min_u64(count, (source->bytes - offset - SPDK_SECTION_HEAD_BYTES) / bytes);
	if (*count_ret < count)
		source_problem(source, "the end of the %s is missing", name);
	return *count_ret ? head + SPDK_SECTION_HEAD_BYTES : NULL;
}

static void read_main(struct source *source)
{
	const void *main_section = source_at(source, source->header.sections[SPDK_SECTION_MAIN], sizeof(source->main));

	if (main_section)
		memcpy(&source->main, main_section, sizeof(source->main));
	else
		source_problem(source, "the tick rate is missing");
}

/* Make a name valid for the schema: unprintable characters become '?', and it ends with a NUL. */
static void tidy_name(char *name, size_t room)
{
	name[room - 1] = '\0';
	for (; *name; name++) {
		if (*name < 0x20 || *name > 0x7e || *name == '"' || *name == '\\')
			*name = '?';
	}
}

static void read_point(struct source *source, uint32_t index, const uint8_t *at)
{
	struct point *point = &source->points[index];
	struct spdk_tpoint *tpoint = &point->tpoint;
	uint32_t bytes = 0;

	memcpy(tpoint, at, sizeof(*tpoint));
	tidy_name(tpoint->name, sizeof(tpoint->name));
	point->named = tpoint->name[0] != '\0';
	tpoint->arg_count = (uint8_t)min_u64(tpoint->arg_count, SPDK_ARGS_MAX);
	for (uint32_t i = 0; i < tpoint->arg_count; i++) {
		tidy_name(tpoint->args[i].name, sizeof(tpoint->args[i].name));
		bytes += tpoint->args[i].bytes;
		if (point->named && arg_slots(&tpoint->args[i]) == 0)
			source_problem(source, "argument %s of %s is of an unknown type", tpoint->args[i].name,
				       tpoint->name);
	}
	point->part_count = 1;
	if (bytes > SPDK_HEAD_ARG_BYTES)
		point->part_count += (bytes - SPDK_HEAD_ARG_BYTES + SPDK_PART_ARG_BYTES - 1) / SPDK_PART_ARG_BYTES;
	if (point->named)
		source->part_max = (uint32_t)max_u64(source->part_max, point->part_count);
	point->arg_bytes = bytes;
	point_bound(point);
}

static int read_points(struct source *source, struct fathom_fault *why)
{
	uint16_t count = 0;
	const uint8_t *at = section_elements(source, SPDK_SECTION_TPOINTS, "tracepoints", sizeof(struct spdk_tpoint),
					     &source->point_count);

	if (!at)
		return fault(why, -EBADMSG, "this trace file of SPDK is damaged: it has no tracepoints");
	memcpy(&count, at - SPDK_SECTION_HEAD_BYTES, sizeof(count));
	source->part_mark = count;
	source->part_max = 1;
	source->points = calloc(source->point_count, sizeof(*source->points));
	if (!source->points)
		return fault(why, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < source->point_count; i++)
		read_point(source, i, at + i * sizeof(struct spdk_tpoint));
	return 0;
}

static void read_types(struct source *source, enum spdk_section section, const char *name, char *prefixes)
{
	uint32_t count;
	const uint8_t *at = section_elements(source, section, name, sizeof(struct spdk_type), &count);

	for (uint32_t i = 0; i < count; i++) {
		struct spdk_type row;
		char prefix[2] = "";

		memcpy(&row, at + i * sizeof(row), sizeof(row));
		prefix[0] = row.prefix;
		tidy_name(prefix, sizeof(prefix));
		/* unused rows have no type */
		if (row.type && !prefixes[row.type])
			prefixes[row.type] = prefix[0];
	}
}

static int read_spdk_masks(struct source *source)
{
	const uint8_t *at = section_elements(source, SPDK_SECTION_MASKS, "masks", sizeof(uint64_t), &source->mask_count);

	source->masks = calloc(source->mask_count + 1, sizeof(uint64_t));
	if (!source->masks)
		return -ENOMEM;
	if (at)
		memcpy(source->masks, at, source->mask_count * sizeof(uint64_t));
	return 0;
}

/* Add the number of records of each point on this thread. */
static void read_totals(struct source *source, const uint8_t *counts, uint64_t count)
{
	for (uint32_t i = 0; i < source->point_count && i < count; i++) {
		uint64_t total;

		memcpy(&total, counts + i * sizeof(total), sizeof(total));
		source->points[i].total += total;
	}
}

/*
 * Read the ring at `offset`. False: no ring, or damaged. `*entries_left`: number of entries for which the file has
 * space.
 */
static bool read_ring(struct source *source, uint64_t offset, struct ring *ring, uint64_t *entries_left)
{
	const struct spdk_ring *there = source_at(source, offset, sizeof(*there));
	uint64_t counts_bytes, entries_offset;

	if (!there || offset % 8 != 0 || there->count_count > SPDK_TPOINTS_MAX)
		return false;
	counts_bytes = there->count_count * sizeof(uint64_t);
	entries_offset = offset + sizeof(*there) + counts_bytes;
	if (there->entry_count == 0 || there->entry_count > BIT(40) || entries_offset > source->bytes)
		return false;
	*ring = (struct ring){
		.there = there,
		.entry_count = there->entry_count,
		.entries_in_file = (const struct spdk_entry *)(source->map + entries_offset),
		.entries_there = min_u64(there->entry_count, (source->bytes - entries_offset) / sizeof(struct spdk_entry)),
		.fd = source->fd,
		.offset = entries_offset,
		.cpu = -1,
	};
	/* overlapping rings would exceed the file's size */
	if (ring->entries_there > *entries_left)
		return false;
	*entries_left -= ring->entries_there;
	memcpy(ring->name, there->thread_name, sizeof(there->thread_name));
	if (!ring->name[0]) {
		ring->cpu = there->lcore >= 0 ? there->lcore : -1;
		snprintf(ring->name, sizeof(ring->name), "lcore_%d", there->lcore);
	}
	read_totals(source, (const uint8_t *)(there + 1), counts_bytes / sizeof(uint64_t));
	forget_pages(there, sizeof(*there) + counts_bytes);
	return true;
}

static int read_rings(struct source *source, struct fathom_fault *why)
{
	uint32_t count;
	uint64_t entries_left = source->bytes / sizeof(struct spdk_entry);
	const uint8_t *at = section_elements(source, SPDK_SECTION_RINGS, "places of the rings", sizeof(uint64_t), &count);

	if (!at)
		return fault(why, -EBADMSG, "this trace file of SPDK is damaged: it has no offsets of rings");
	source->rings = calloc(SPDK_RINGS_MAX, sizeof(*source->rings));
	if (!source->rings)
		return fault(why, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset;

		memcpy(&offset, at + i * sizeof(offset), sizeof(offset));
		if (offset == 0)
			continue;
		if (source->ring_count < SPDK_RINGS_MAX &&
		    read_ring(source, offset, &source->rings[source->ring_count], &entries_left))
			source->ring_count++;
		else
			source_problem(source, "the ring of lcore %u is missing or damaged", i);
	}
	return 0;
}

int source_open(struct source *source, struct fathom_fault *why)
{
	int rc;

	source->copy_fd = source->sorted_fds[0] = source->sorted_fds[1] = -1;
	if (source->bytes < sizeof(source->header))
		return fault(why, -EBADMSG, "this is too short for a trace file of SPDK");
	memcpy(&source->header, source->map, sizeof(source->header));
	source->image->file_bytes = source->header.file_bytes;
	if (source->header.file_bytes > source->bytes) {
		source->image->truncated = true;
		source_problem(source, "the file is truncated: %lu of %lu bytes", (unsigned long)source->bytes,
			       (unsigned long)source->header.file_bytes);
	}
	read_main(source);
	read_types(source, SPDK_SECTION_OWNER_TYPES, "types of owners", source->owner_prefixes);
	read_types(source, SPDK_SECTION_OBJECTS, "types of objects", source->object_prefixes);
	rc = read_points(source, why);
	if (rc == 0 && read_spdk_masks(source) != 0)
		rc = fault(why, -ENOMEM, "out of memory");
	if (rc == 0)
		rc = read_rings(source, why);
	forget_pages(source->map, source->bytes);
	return rc;
}

void source_close(struct source *source)
{
	const int fds[] = { source->copy_fd, source->sorted_fds[0], source->sorted_fds[1] };

	for (uint32_t i = 0; i < source->ring_count; i++) {
		free(source->rings[i].copy);
		free(source->rings[i].ahead.entries);
		free(source->rings[i].about.entries);
		free(source->rings[i].waiting);
	}
	for (size_t i = 0; i < ARRAY_COUNT(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	free(source->rings);
	free(source->points);
	free(source->masks);
	free(source->items);
	free(source->heap);
}
