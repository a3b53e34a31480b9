/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * image - writes SPDK's file in our format into an unlinked file.
 *
 *   header | process | clocks | masks | threads | rings | pools | stories | owners | strings | schema
 *
 * The rings are in front: their size is known when their entries have been counted. The content of the sections behind
 * them is known when the events have been written.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "inspect/spdk/image.h"

enum {
	PART_ALIGN = 64,
	RARE_ENTRIES = 2 * TRACE_PARTS_MAX, /* of the ring that all threads share and that stays empty */
	FOLLOW_STRINGS_BYTES = 1 << 20,	    /* space for texts of future events */
	OUTPUTS_BYTES_MAX = 4 << 20,	    /* unwritten records of all rings together */
	OUTPUT_RECORDS_MIN = 64,
	OUTPUT_RECORDS_MAX = 1 << 11,
};

/* ---- the file ---- */

uint64_t image_place(struct build *build, enum trace_section_kind kind, uint32_t stride, uint64_t bytes, uint64_t count)
{
	uint64_t offset = round_up(build->bytes, PART_ALIGN);

	must(build->header.section_count < TRACE_SECTIONS_MAX);
	build->header.sections[build->header.section_count++] =
		(struct trace_section){ .kind = kind, .stride = stride, .offset = offset, .bytes = bytes, .count = count };
	build->bytes = offset + bytes;
	return offset;
}

int image_append(struct build *build, enum trace_section_kind kind, uint32_t stride, const void *data, uint64_t bytes)
{
	return file_write_at(build->fd, data, bytes, image_place(build, kind, stride, bytes, bytes / stride));
}

/* ---- process, clocks, masks ---- */

static int append_process(struct build *build)
{
	const struct source *source = build->source;
	struct trace_process process = {
		.pid = build->origin->pid,
		.tick_rate = source->main.tick_rate,
		.start_tick = source->start_tick,
		.version = "SPDK",
	};

	(void)text_copy(process.name, sizeof(process.name), build->origin->name);
	(void)text_copy(process.host, sizeof(process.host), build->origin->host);
	return image_append(build, TRACE_SECTION_PROCESS, sizeof(process), &process, sizeof(process));
}

/* The file has no time of day. While its writer runs on this machine, read all clocks now. */
static int append_clocks(struct build *build)
{
	struct trace_clocks clocks = { 0 };

	if (build->origin->alive) {
		clocks.count = 1;
		clocks.pairs[0] = (struct trace_clock_pair){ .tick = clock_ticks(),
							     .realtime_ns = clock_realtime_ns(),
							     .monotonic_ns = clock_monotonic_ns() };
	}
	return image_append(build, TRACE_SECTION_CLOCKS, sizeof(clocks), &clocks, sizeof(clocks));
}

static int append_masks(struct build *build)
{
	const struct source *source = build->source;
	struct trace_mask_words masks = { 0 };

	for (uint32_t i = 0; i < source->point_count; i++) {
		uint16_t id = source->points[i].id;

		if (id && i / 64 < source->mask_count && source->masks[i / 64] & BIT(i % 64))
			masks.words[id / 64] |= BIT(id % 64);
	}
	return image_append(build, TRACE_SECTION_MASKS, sizeof(masks), &masks, sizeof(masks));
}

/* ---- events ---- */

int image_fill_slots(struct build *build, const struct event *event, uint32_t parent, uint32_t *slots)
{
	const struct point *point = &build->source->points[event->point];
	const uint8_t *bytes = event->args, *next = bytes;
	uint32_t at = 0;

	if (point->size_slot)
		slots[at++] = event->size;
	for (uint32_t i = 0; i < point->tpoint.arg_count; i++) {
		const struct spdk_arg *arg = &point->tpoint.args[i];
		uint32_t count = arg_slots(arg);
		uint64_t number;

		bytes = next;
		next += arg->bytes;
		if (count == 0)
			continue;
		if (arg->type == SPDK_ARG_STR) {
			int rc = strings_intern(&build->strings, (const char *)bytes,
						strnlen((const char *)bytes, arg->bytes), &slots[at++]);

			if (rc)
				return rc;
			if (slots[at - 1] == UINT32_MAX)
				source_problem(build->source,
					       "it has more different texts than are kept; the others are left out");
			continue;
		}
		number = arg_number(bytes, arg->bytes);
		slots[at++] = (uint32_t)number;
		if (count == 2)
			slots[at++] = (uint32_t)(number >> 32);
	}
	if (point->tpoint.relations[0].object_type)
		slots[at++] = parent;
	if (point->tpoint.new_object) {
		slots[at++] = (uint32_t)event->object;
		slots[at++] = (uint32_t)(event->object >> 32);
	}
	must(at == point->slot_count);
	return 0;
}

/* Write the pending records. Readers ignore them until the ring's head includes them. */
static int write_pending(struct build *build, uint32_t index)
{
	struct output *output = &build->outputs[index];
	uint64_t offset = build->threads[index].ring_offset[TRACE_RING_IO];
	struct trace_ring *ring = (struct trace_ring *)(build->map + offset);
	uint64_t count;
	int rc = 0;

	/* in two parts around the ring's end */
	for (uint64_t done = 0; rc == 0 && done < output->count; done += count) {
		uint64_t place = ring->head & (ring->entry_count - 1);

		count = min_u64(output->count - done, ring->entry_count - place);
		rc = file_write_at(build->fd, output->records + done, count * sizeof(struct trace_record),
				   offset + sizeof(*ring) + place * sizeof(struct trace_record));
		ring->head += count;
	}
	output->count = 0;
	return rc;
}

static int write_records(struct build *build, const struct event *event, uint32_t object, const uint32_t *slots)
{
	const struct point *point = &build->source->points[event->point];
	struct output *output = &build->outputs[event->ring];
	uint32_t seq = output->seq, at = TRACE_ARG_SLOTS_HEAD; /* numbered in their ring */
	struct trace_record *record;

	if (output->count + point->record_count > build->output_records) {
		int rc = write_pending(build, event->ring);

		if (rc)
			return rc;
	}
	record = &output->records[output->count];
	*record = (struct trace_record){ .tick = event->tick };
	record->seq = seq;
	record->point = point->id;
	record->owner = event->owner;
	record->object = object;
	memcpy(record->args, slots, sizeof(record->args));
	for (uint32_t part = 1; part < point->record_count; part++) {
		record++;
		*record = (struct trace_record){ .tick = event->tick };
		record->seq = seq;
		record->point = TRACE_POINT_PART;
		record->owner = (uint16_t)part;
		record->object = slots[at];
		memcpy(record->args, &slots[at + 1], sizeof(record->args));
		at += TRACE_ARG_SLOTS_PART;
	}
	output->count += point->record_count;
	output->seq += point->record_count;
	return 0;
}

static int make_outputs(struct build *build)
{
	uint64_t rings = build->source->ring_count,
		 share = OUTPUTS_BYTES_MAX / sizeof(struct trace_record) / max_u64(rings, 1);

	build->output_records = (uint32_t)min_u64(max_u64(share, OUTPUT_RECORDS_MIN), OUTPUT_RECORDS_MAX);
	build->outputs = calloc(rings + 1, sizeof(*build->outputs));
	build->output_memory = malloc(max_u64(rings, 1) * build->output_records * sizeof(struct trace_record));
	if (!build->outputs || !build->output_memory)
		return -ENOMEM;
	for (uint64_t i = 0; i < rings; i++)
		build->outputs[i].records = build->output_memory + i * build->output_records;
	return 0;
}

static int write_event(struct build *build, const struct item *item, uint64_t index)
{
	struct source *source = build->source;
	uint32_t slots[SPDK_SLOTS_MAX + TRACE_ARG_SLOTS_PART] = { 0 }, parent;
	struct object *object;
	struct event event;
	int rc;

	event_read(source, item, true, &event);
	rc = objects_event(&build->objects, source, &event, index, &object, &parent);
	if (rc == 0)
		rc = image_fill_slots(build, &event, parent, slots);
	return rc ? rc : write_records(build, &event, object ? object->id : UINT32_MAX, slots);
}

int image_write_events(struct build *build)
{
	struct source *source = build->source;
	int rc = events_begin(source);
	struct item item;

	for (uint64_t i = 0; rc == 0 && events_next(source, &item); i++) {
		if (source->points[item.point].id)
			rc = write_event(build, &item, i);
		else
			source->image->counts.unknown += source->points[item.point].part_count;
	}
	for (uint32_t i = 0; rc == 0 && i < source->ring_count; i++)
		rc = write_pending(build, i);
	return rc == 0 && source->unread ? -EIO : rc;
}

/* ---- threads and their rings ---- */

static uint64_t image_ring_bytes(uint64_t entry_count)
{
	return sizeof(struct trace_ring) + entry_count * sizeof(struct trace_record);
}

/* Enough entries for all records of a ring; for a followed target also for the largest batch. */
static uint64_t image_entries(const struct source *source, const struct ring *ring)
{
	uint64_t records = ring->record_count, record_max = 1;

	for (uint32_t i = 0; source->live && i < source->point_count; i++)
		record_max = max_u64(record_max, source->points[i].record_count);
	if (source->live)
		records = max_u64(records, record_max * min_u64(ring->entry_count, FOLLOW_ENTRIES));
	return max_u64(RARE_ENTRIES, round_up_power_of_two(records + TRACE_PARTS_MAX));
}

static void put_ring(struct build *build, uint64_t offset, uint32_t thread, enum trace_ring_kind kind, uint64_t entries)
{
	struct trace_ring *ring = (struct trace_ring *)(build->map + offset);

	ring->entry_count = entries;
	ring->thread = thread;
	ring->kind = kind;
}

static int map_rings(struct build *build)
{
	void *map;

	if (ftruncate(build->fd, (off_t)build->bytes) != 0)
		return -errno;
	map = mmap(NULL, build->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, build->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	build->map = map;
	build->map_bytes = build->bytes;
	return 0;
}

static int append_threads(struct build *build)
{
	struct source *source = build->source;
	uint64_t threads = image_place(build, TRACE_SECTION_THREADS, sizeof(struct trace_thread),
				       source->ring_count * sizeof(struct trace_thread), source->ring_count);
	uint64_t bytes = image_ring_bytes(RARE_ENTRIES), offset, rare;
	int rc;

	for (uint32_t i = 0; i < source->ring_count; i++)
		bytes += image_ring_bytes(image_entries(source, &source->rings[i]));
	rare = image_place(build, TRACE_SECTION_RINGS, 1, bytes, bytes);
	rc = map_rings(build);
	if (rc)
		return rc;
	build->threads = (struct trace_thread *)(build->map + threads);
	put_ring(build, rare, 0, TRACE_RING_RARE, RARE_ENTRIES);
	offset = rare + image_ring_bytes(RARE_ENTRIES);
	for (uint32_t i = 0; i < source->ring_count; i++) {
		const struct ring *ring = &source->rings[i];
		struct trace_thread *thread = &build->threads[i];

		memcpy(thread->name, ring->name, sizeof(thread->name));
		thread->cpu = ring->cpu;
		/* a slot without records was not used by any thread */
		thread->state = source->image->rings[i].recorded == 0 ? TRACE_THREAD_FREE
				: build->origin->alive		      ? TRACE_THREAD_LIVE
								      : TRACE_THREAD_ENDED;
		thread->ring_offset[TRACE_RING_IO] = offset;
		thread->ring_offset[TRACE_RING_RARE] = rare;
		put_ring(build, offset, i, TRACE_RING_IO, image_entries(source, ring));
		offset += image_ring_bytes(image_entries(source, ring));
	}
	rc = make_outputs(build);
	return rc ? rc : image_write_events(build);
}

/* ---- strings ---- */

int image_write_strings(struct build *build)
{
	((struct trace_strings *)build->strings.text)->used = build->strings.bytes;
	return file_write_at(build->fd, build->strings.text, build->strings.bytes, build->strings_offset);
}

static int append_strings(struct build *build)
{
	uint64_t room = build->strings.bytes + (build->source->live ? FOLLOW_STRINGS_BYTES : 0);

	build->strings_offset = image_place(build, TRACE_SECTION_STRINGS, 1, room, room);
	if (build->source->live)
		build->strings.bytes_max = room;
	return image_write_strings(build);
}

/* ---- the whole image ---- */

static int append_schema(struct build *build)
{
	char *text = schema_text(build->source);
	int rc = text ? image_append(build, TRACE_SECTION_SCHEMA, 1, text, strlen(text)) : -ENOMEM;

	free(text);
	return rc;
}

static int write_header(struct build *build)
{
	struct trace_header *header = &build->header;

	memcpy(header->magic, TRACE_MAGIC, sizeof(header->magic));
	header->version = TRACE_VERSION;
	header->header_bytes = sizeof(*header);
	header->clear_tick = build->source->main.clear_tick;
	header->file_bytes = build->bytes = round_up(build->bytes, PART_ALIGN);
	if (ftruncate(build->fd, (off_t)build->bytes) != 0)
		return -errno;
	return file_write_at(build->fd, header, sizeof(*header), 0);
}

static int write_image(struct build *build)
{
	const struct source *source = build->source;
	int rc;

	build->bytes = sizeof(build->header);
	rc = strings_init(&build->strings);
	if (rc == 0)
		rc = objects_init(&build->objects, source);
	if (rc == 0)
		rc = append_process(build);
	if (rc == 0)
		rc = append_clocks(build);
	if (rc == 0)
		rc = append_masks(build);
	if (rc == 0)
		rc = append_threads(build);
	if (rc == 0) {
		machines_find(build->source);
		rc = image_append_stories(build);
	}
	if (rc == 0)
		rc = owners_append(build);
	if (rc == 0)
		rc = append_strings(build);
	if (rc == 0)
		rc = append_schema(build);
	return rc ? rc : write_header(build);
}

void image_build_deinit(struct build *build)
{
	if (build->map)
		munmap(build->map, build->map_bytes);
	objects_deinit(&build->objects);
	strings_deinit(&build->strings);
	free(build->stories);
	free(build->outputs);
	free(build->output_memory);
	free(build->owner_ticks);
}

static int report_translation_failure(struct fathom_fault *why, int rc)
{
	return fault(why, rc, "cannot translate this trace file of SPDK: %s%s", strerror(-rc),
		     rc == -ENOSPC ? "; TMPDIR selects another directory" : "");
}

int image_make(struct build *build, struct fathom_fault *why)
{
	const struct source *source = build->source;
	uint64_t bytes = 0;
	int rc;

	for (uint32_t i = 0; i < source->ring_count; i++)
		bytes += image_ring_bytes(image_entries(source, &source->rings[i]));
	build->fd = temporary_open(bytes);
	rc = build->fd < 0 ? build->fd : write_image(build);
	if (rc) {
		if (build->fd >= 0)
			close(build->fd);
		return report_translation_failure(why, rc);
	}
	source->image->fd = build->fd;
	source->image->bytes = build->bytes;
	return 0;
}

int image_open_source(struct source *source, struct fathom_fault *why)
{
	struct spdk_image *image = source->image;
	int rc = source_open(source, why);

	if (rc)
		return rc;
	image->ring_count = source->ring_count;
	image->rings = calloc(source->ring_count + 1, sizeof(*image->rings));
	return image->rings ? 0 : fault(why, -ENOMEM, "out of memory");
}

int spdk_translate(int fd, const void *map, uint64_t bytes, const struct spdk_origin *origin, struct spdk_image *image_ret,
		   struct fathom_fault *why)
{
	struct spdk_image image = { .fd = -1 };
	struct source source = { .map = map, .bytes = bytes, .fd = fd, .image = &image };
	struct build build = { .source = &source, .origin = origin };
	int rc = image_open_source(&source, why);

	if (rc == 0) {
		rc = rings_take(&source, origin->alive);
		if (rc)
			rc = report_translation_failure(why, rc);
	}
	if (rc == 0) {
		points_lay_out(&source);
		rc = image_make(&build, why);
		image_build_deinit(&build);
	}
	source_close(&source);
	if (rc) {
		spdk_image_deinit(&image);
		return rc;
	}
	*image_ret = image;
	return 0;
}

void spdk_image_deinit(struct spdk_image *image)
{
	if (image->fd >= 0)
		close(image->fd);
	free(image->rings);
	*image = (struct spdk_image){ .fd = -1 };
}
