/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spdk_file - translates the trace file of an SPDK target into Fathom's format.
 *
 * Such a file (26.05 and later, in seven typed sections; layout.h) has the same information in another form: entries of
 * 32 bytes in a ring for each core, packed arguments, objects by their pointers, owners in a table. It is translated
 * into an image in our format, which inspect/trace then opens like any file:
 *
 *   entry and its continuations   a record with as many continuations as its arguments need
 *   pointer of an object          a number within its type: that of its life, counted from 0 as SPDK's own tool does. An
 *                                 object with a beginning that is no longer in the file gets a number above those
 *   relation                      an argument `within`, which names the object that the other argument points to
 *   points about one object       a state machine: each point is the state that it leads to; a point after which an object
 *                                 always began a new life is its end. So there are stages
 *   objects that have not ended   stories: objects in progress
 *
 * The file is untrusted. Invalid parts are left out and counted. For a ring that is being written the head is read
 * before and after the copy, and entries that may have been overwritten meanwhile are counted and left out. For a file
 * that was copied or left behind while it was written, so are entries newer than its head.
 *
 * Readers of `struct spdk_image` must know these differences from a file: ticks have 64 bits (bit 0 is no flag); an
 * event may have SPDK_SLOTS_MAX slots; the text of an owner extends to the end of the row; the reserved byte of a story
 * is 1 if its life began before the oldest entry; points have their `total` in the schema.
 *
 * A running target can be followed, too (spdk_follow): the image then grows in batches.
 *
 * Memory: less than 64 MiB for a file of any size, plus space for the image, about twice the file's size, in $TMPDIR
 * (/var/tmp). The file is read in windows, more than once, rather than kept in memory. Memory grows with the size of the
 * target and not with its activity, up to limits: 2^19 addresses of objects, 2^16 objects in progress, 2 MiB of texts.
 * What exceeds them is left out, and `problem` says so. A followed target takes some 6 MiB for each of its threads. No
 * threads of its own, no global state.
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
	SPDK_HEADER_BYTES = 72, /* bytes that spdk_recognise() reads */
};

/* Counts of entries; an event with many arguments has several. */
struct spdk_counts {
	uint64_t recorded, overwritten, torn, missing, cleared, orphans, unknown;
};

struct spdk_ring_counts {
	uint64_t recorded, entry_count;
};

struct spdk_image {
	int fd; /* of an unlinked file; owned */
	uint64_t bytes;
	struct spdk_counts counts;
	uint32_t ring_count;
	struct spdk_ring_counts *rings;
	bool truncated;
	uint64_t file_bytes; /* size by the file's header */
	char problem[256];   /* a sentence about what could not be read; "": nothing */
};

/* Facts that are not in the file. */
struct spdk_origin {
	const char *name; /* of the program */
	const char *host; /* "": not known */
	int32_t pid;	  /* 0: not known */
	bool alive;	  /* the program runs on this machine and writes the file */
};

/* Are these SPDK_HEADER_BYTES the beginning of an SPDK trace file? */
bool spdk_recognise(const void *begin);

/*
 * Translate the file `fd`, which is mapped, shared, at `map`. Borrows both. Pair: spdk_image_deinit(). Errors
 * (explained): -EBADMSG (damaged beyond use), -ENOMEM, those of creating a temporary file.
 */
MUST_CHECK int spdk_translate(int fd, const void *map, uint64_t bytes, const struct spdk_origin *origin,
			      struct spdk_image *image_ret, struct fathom_fault *why);
/*
 * Follow a running target: the image first has recent events, and grows. Its rings wrap; events must be read before more
 * are requested. `map` and `image_ret` are lent until the follower is destroyed. Events of any point may come later, so
 * all points have sizes and states. Errors as above, and -ENOTSUP (explained): not the file of a target.
 */
struct spdk_follower;
MUST_CHECK int spdk_follow(const void *map, uint64_t bytes, const struct spdk_origin *origin, struct spdk_image *image_ret,
			   struct spdk_follower **follower_ret, struct fathom_fault *why);
/* Call before spdk_image_deinit(). Accepts NULL. */
void spdk_follower_destroy(struct spdk_follower *follower);
/*
 * Append the events recorded since to the image. `*counts_ret`: their number, and how many were left out; `*until_ret`:
 * all events with lower ticks have been added. Errors: -ENOMEM, those of writing a file; then events may be missing.
 */
MUST_CHECK int spdk_follow_more(struct spdk_follower *follower, struct spdk_counts *counts_ret, uint64_t *until_ret);
/* Number of records of the image's point `id` since the target started, by the target's own count. */
uint64_t spdk_follow_total(const struct spdk_follower *follower, uint16_t id);

/* Closes image->fd. Accepts a zeroed image with fd -1. */
void spdk_image_deinit(struct spdk_image *image);

#endif
