/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spdk_file - the trace file of an SPDK target, made readable for those who read ours.
 *
 * Such a file (26.05 and later, in seven typed sections; layout.h) says the same things in another way: entries of 32 bytes
 * in a ring for each core, arguments packed one behind the other, objects by their pointers, owners in a table. It is
 * translated into an image of our own format, which inspect/trace then opens like any file:
 *
 *   entry and its continuations   a record with as many continuations as its arguments need
 *   pointer of an object          a number within its type: that of its life, counted from 0 as SPDK's own tool does. An
 *                                 object whose beginning is no longer in the file gets a number above those
 *   relation                      an argument `within`, which names the object that the other argument points to
 *   points about one object       a state machine: each point is the state that it leads to; one after which an object
 *                                 never did anything but begin anew is its end. So there are stages
 *   objects that have not ended   stories: what is under way
 *
 * The file is hostile until proven otherwise. What makes no sense is left out and counted. Of a ring that is being written
 * the head is read before and after it is copied, and what may have been overwritten meanwhile is counted and left out; of
 * a file that was copied or left behind while it was written, what is newer than its head.
 *
 * The image differs from a file in what only the reader of `struct spdk_image` needs to know: ticks have 64 bits (bit 0
 * is no flag), an event may have SPDK_SLOTS_MAX slots, text of owners goes on to the end of the row, the reserved byte of
 * a story is 1 if its life began before the file's memory, and points have their `total` in the schema.
 *
 * A running target can be followed, too (spdk_follow): the image then grows by what is recorded, piece by piece.
 *
 * Memory: less than 64 MiB however large the file is, and room for the image, about twice the file, in $TMPDIR (/var/tmp).
 * The file is read in windows and more than once instead of being remembered. What is remembered grows with what a target
 * has and not with what it does, and ends somewhere: 2^19 addresses of objects, 2^16 objects under way, 2 MiB of texts.
 * What is beyond is left out, and `problem` says so. Of a target that is followed it is some 6 MiB for each of its threads.
 * No threads of its own, no state.
 */
#ifndef INSPECT_SPDK_SPDK_FILE_H
#define INSPECT_SPDK_SPDK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

enum {
	SPDK_RINGS_MAX = 1024, /* threads of an image */
	SPDK_SLOTS_MAX = 23,
	SPDK_OWNER_TEXT_BYTES = 256,
	SPDK_HEADER_BYTES = 72, /* which spdk_recognise() looks at */
};

/* Of entries; an event with many arguments has several. */
struct spdk_counts {
	uint64_t recorded, overwritten, torn, missing, cleared, orphans, unknown;
};

struct spdk_ring_counts {
	uint64_t recorded, entry_count;
};

struct spdk_image {
	int fd; /* of an unlinked file that nobody else knows */
	uint64_t bytes;
	struct spdk_counts counts;
	uint32_t ring_count;
	struct spdk_ring_counts *rings;
	bool truncated;
	uint64_t file_bytes; /* that there should be */
	char problem[256];   /* what could not be read, a sentence; "": nothing */
};

/* What the file itself does not say. */
struct spdk_origin {
	const char *name; /* of the program */
	const char *host; /* "": not known */
	int32_t pid;	  /* 0: not known */
	bool alive;	  /* the program runs, on this machine, and writes the file */
};

/* Do these SPDK_HEADER_BYTES begin a trace file of SPDK? */
bool spdk_recognise(const void *begin);

/*
 * Translate the file `fd`, which is mapped, shared, at `map`. Borrows both. Pair: spdk_image_deinit(). Errors (explained):
 * -EBADMSG (damaged beyond use), -ENOMEM, those of making a temporary file.
 */
MUST_CHECK int spdk_translate(int fd, const void *map, uint64_t bytes, const struct spdk_origin *origin,
			      struct spdk_image *image_ret, struct fault *why);
/*
 * A target that runs: the image has what is recent, and grows. Its rings go round; what is added is read before more is
 * asked for. `map` and `image_ret` are lent until the follower is destroyed. Events of points that have not been met may
 * come, so all points have sizes and states. Errors as above, and -ENOTSUP (explained): it is no target's.
 */
struct spdk_follower;
MUST_CHECK int spdk_follow(const void *map, uint64_t bytes, const struct spdk_origin *origin, struct spdk_image *image_ret,
			   struct spdk_follower **follower_ret, struct fault *why);
/* Before the image is deinitialised. Accepts NULL. */
void spdk_follower_destroy(struct spdk_follower *follower);
/*
 * Add to the image what has been recorded since. `*counts_ret`: how much that was, and what is not in the image of it;
 * `*until_ret`: no earlier tick is left to be added. -ENOMEM, those of writing a file: some may be missing.
 */
MUST_CHECK int spdk_follow_more(struct spdk_follower *follower, struct spdk_counts *counts_ret, uint64_t *until_ret);
/* How often the image's point `id` was recorded since the target started, by its own count. */
uint64_t spdk_follow_total(const struct spdk_follower *follower, uint16_t id);

/* Closes image->fd; accepts an image of zeros but for fd -1. */
void spdk_image_deinit(struct spdk_image *image);

#endif
