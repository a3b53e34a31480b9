/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * follow - extends the image of a running target with what the target records, in batches.
 *
 * This file writes the image, as an engine writes its file. Its reader is in the same thread: it reads a batch before
 * the next one is written. Numbers of objects, texts and owners continue from batch to batch. The schema is fixed at the
 * beginning, so it allows for events that have not occurred yet.
 */
#include <errno.h>
#include <stdlib.h>

#include "inspect/spdk/image.h"

struct spdk_follower {
	struct source source;
	struct build build;
};

/* Translate recent events, and lay out all events that may come. */
static int start_following(struct spdk_follower *follower, struct fathom_fault *why)
{
	struct source *source = &follower->source;
	uint64_t until;
	int rc = image_open_source(source, why);

	if (rc)
		return rc;
	rc = rings_follow(source);
	if (rc == -ENOTSUP)
		return fault(why, rc, "this trace file of SPDK cannot be followed: it is damaged, or a recording");
	if (rc == 0)
		rc = rings_take_more(source, &until);
	if (rc)
		return fault(why, rc, "out of memory");
	for (uint32_t i = 0; i < source->ring_count; i++)
		source->image->rings[i].entry_count = source->rings[i].entry_count;
	/* future events may have sizes */
	for (uint32_t i = 0; i < source->point_count; i++)
		source->points[i].size_slot = 1;
	points_lay_out(source);
	rc = image_make(&follower->build, why);
	follower->build.objects.live = true;
	return rc;
}

int spdk_follow(const void *map, uint64_t bytes, const struct spdk_origin *origin, struct spdk_image *image_ret,
		struct spdk_follower **follower_ret, struct fathom_fault *why)
{
	struct spdk_follower *follower = calloc(1, sizeof(*follower));
	int rc;

	if (!follower)
		return fault(why, -ENOMEM, "out of memory");
	*image_ret = (struct spdk_image){ .fd = -1 };
	follower->source = (struct source){ .map = map, .bytes = bytes, .fd = -1, .image = image_ret, .live = true };
	follower->build = (struct build){ .source = &follower->source, .origin = origin };
	rc = start_following(follower, why);
	follower->build.origin = NULL; /* borrowed for the beginning only */
	if (rc) {
		spdk_follower_destroy(follower);
		spdk_image_deinit(image_ret);
		return rc;
	}
	*follower_ret = follower;
	return 0;
}

void spdk_follower_destroy(struct spdk_follower *follower)
{
	if (!follower)
		return;
	image_build_deinit(&follower->build);
	source_close(&follower->source);
	free(follower);
}

int spdk_follow_more(struct spdk_follower *follower, struct spdk_counts *counts_ret, uint64_t *until_ret)
{
	struct source *source = &follower->source;
	struct build *build = &follower->build;
	struct event event;
	struct item item;
	int rc;

	source->image->counts = (struct spdk_counts){ 0 };
	rc = rings_take_more(source, until_ret);
	if (rc == 0)
		rc = events_begin(source);
	while (rc == 0 && events_next(source, &item)) {
		event_read(source, &item, false, &event);
		rc = owners_follow(build, event.owner);
	}
	if (rc == 0)
		rc = image_write_events(build);
	if (rc == 0 && build->strings.bytes > ((struct trace_strings *)build->strings.text)->used)
		rc = image_write_strings(build);
	for (uint32_t i = 0; i < source->ring_count; i++) {
		if (source->rings[i].taken)
			build->threads[i].state = TRACE_THREAD_LIVE;
	}
	*counts_ret = source->image->counts;
	return rc;
}

uint64_t spdk_follow_total(const struct spdk_follower *follower, uint16_t id)
{
	const struct source *source = &follower->source;
	uint64_t total = 0;

	for (uint32_t point = 0; point < source->point_count; point++) {
		for (uint32_t i = 0; i < source->ring_count && source->points[point].id == id; i++) {
			const uint64_t *counts = (const uint64_t *)(source->rings[i].there + 1);

			/* the ring's counts end where its entries begin */
			if (counts + point < (const uint64_t *)source->rings[i].entries_in_file)
				total += __atomic_load_n(&counts[point], __ATOMIC_RELAXED);
		}
	}
	return total;
}
