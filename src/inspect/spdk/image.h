/* SPDX-License-Identifier: BSD-2-Clause */
/* image - an image that is being made: what image.c, owners.c and follow.c share. */
#ifndef INSPECT_SPDK_IMAGE_H
#define INSPECT_SPDK_IMAGE_H

#include "inspect/spdk/internal.h"

/* Records of a ring of the image that are still to be written. */
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
	uint8_t *map; /* of the part up to the end of the rings, for their heads */
	uint64_t map_bytes;
	struct trace_thread *threads;
	struct output *outputs; /* of each ring */
	struct trace_record *output_memory;
	uint32_t output_records;
	uint64_t owners_offset, strings_offset;
	uint64_t *owner_ticks; /* of a target that is followed: which owners the image has */
	uint32_t owner_count;
	struct trace_story *stories;
	uint32_t story_count;
};

/* ---- image.c ---- */

/* Open the source, and count its rings in the image. Pair: source_close(), in any case. */
MUST_CHECK int image_open_source(struct source *source, struct fault *why);
/* When the items and the form of events are known. The file becomes the image's, also if more is to be added to it. */
MUST_CHECK int image_make(struct build *build, struct fault *why);
/* Whether it was made or not. */
void image_build_deinit(struct build *build);

/* The next part of the file. Returns its offset. */
uint64_t image_place(struct build *build, enum trace_section_kind kind, uint32_t stride, uint64_t bytes, uint64_t count);
/* Place a part and write it. */
MUST_CHECK int image_append(struct build *build, enum trace_section_kind kind, uint32_t stride, const void *data,
			    uint64_t bytes);
/* The items, behind those of before. */
MUST_CHECK int image_write_events(struct build *build);
/* All texts that there are now. */
MUST_CHECK int image_write_strings(struct build *build);

/* ---- owners.c ---- */

MUST_CHECK int owners_append(struct build *build);
/* The owner of an event that has just come, if the image does not have it. */
MUST_CHECK int owners_follow(struct build *build, uint16_t owner);

#endif
