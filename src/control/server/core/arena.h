/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arena - the memory of one answer: many small pieces that are freed together. protobuf-c's messages point to its pieces.
 *
 * Never fails: answers are small, and a server that cannot allocate one must end. One thread.
 */
#ifndef CONTROL_SERVER_ARENA_H
#define CONTROL_SERVER_ARENA_H

#include <stddef.h>

#include "base/must.h"

struct arena_piece;

/* All zeroes is an empty one. */
struct arena {
	struct arena_piece *pieces;
};

/* Zeroed. */
void *arena_take(struct arena *arena, size_t bytes);
/* A copy; '?' replaces invalid UTF-8, which protobuf does not allow. */
char *arena_text(struct arena *arena, const char *text);
char *arena_format(struct arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
/* Free all pieces. */
void arena_free(struct arena *arena);

/* A message of `type` in protobuf-c's naming: arena_message(arena, ctl__storage_scan_resp, Ctl__StorageScanResp) */
#define arena_message(arena, init, type)                                                                                   \
	({                                                                                                                 \
		type *made = arena_take((arena), sizeof(*made));                                                           \
		init##__init(made);                                                                                        \
		made;                                                                                                      \
	})

#endif
