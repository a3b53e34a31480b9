/* SPDX-License-Identifier: BSD-2-Clause */
/* image - an image in progress, shared by image.c, owners.c and follow.c. */
#ifndef INSPECT_SPDK_IMAGE_H
#define INSPECT_SPDK_IMAGE_H

#include "inspect/spdk/internal.h"

/* Unwritten records of a ring of the image. */
struct output {
	struct trace_record *records; /* output_records of them */
	uint32_t count, seq;
};

struct build {
	struct source *source;
	const struct spdk_origin *origin;
	struct objects objects;
	struct strings strings;
	struct trace_header header;
	int fd;
	uint64_t bytes;
	uint8_t *map; /* maps the part up to the end of the rings, for their heads */
	uint64_t map_bytes;
	struct trace_thread *threads;
	struct output *outputs; /* one per ring */
	struct trace_record *output_memory;
	uint32_t output_records;
	uint64_t owners_offset, strings_offset;
	uint64_t *owner_ticks; /* of a followed target: `tick` of each owner that the image has */
	uint32_t owner_count;
	struct trace_story *stories;
	uint32_t story_count;
};

/* ---- image.c ---- */

/* Open the source, and allocate its rings in the image. Pair: source_close(), also after an error. */
MUST_CHECK int image_open_source(struct source *source, struct fathom_fault *why);
/*
 * Write the image; items and layout of events must be known. The fd belongs to the image, even if it is extended later.
 */
MUST_CHECK int image_make(struct build *build, struct fathom_fault *why);
/* Call it after success and failure. */
void image_build_deinit(struct build *build);

/* Reserve the next section of the file. Returns its offset. */
uint64_t image_place(struct build *build, enum trace_section_kind kind, uint32_t stride, uint64_t bytes, uint64_t count);
/* Reserve a section and write it. */
MUST_CHECK int image_append(struct build *build, enum trace_section_kind kind, uint32_t stride, const void *data,
			    uint64_t bytes);
/* Fill the slots of an event. `slots` must be zero, with SPDK_SLOTS_MAX + TRACE_ARG_SLOTS_PART elements. -ENOMEM. */
MUST_CHECK int image_fill_slots(struct build *build, const struct event *event, uint32_t parent, uint32_t *slots);
/* Append the events of the items to the rings. */
MUST_CHECK int image_write_events(struct build *build);
/* Write all texts collected so far. */
MUST_CHECK int image_write_strings(struct build *build);

/* ---- image_stories.c ---- */

/* Reserve and write the sections of objects in progress; none of a live target. Errors: -ENOMEM, -EIO ... */
MUST_CHECK int image_append_stories(struct build *build);

/* ---- owners.c ---- */

MUST_CHECK int owners_append(struct build *build);
/* Write the owner of a new event, if the image does not have it. */
MUST_CHECK int owners_follow(struct build *build, uint16_t owner);

#endif
