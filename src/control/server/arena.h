/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arena - the memory of one answer: many small pieces, all gone at once. protobuf-c's messages point to pieces of it.
 *
 * Never fails: answers are small, and a server that has no memory for one has ended. One thread.
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
/* A copy; what is no UTF-8 has '?' in its place, since protobuf takes nothing else. */
char *arena_text(struct arena *arena, const char *text);
char *arena_format(struct arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
/* Everything. */
void arena_free(struct arena *arena);

/* A message of `type` in protobuf-c's naming: arena_message(arena, ctl__storage_scan_resp, Ctl__StorageScanResp) */
#define arena_message(arena, init, type)                                                                                   \
	({                                                                                                                 \
		type *made = arena_take((arena), sizeof(*made));                                                           \
		init##__init(made);                                                                                        \
		made;                                                                                                      \
	})

#endif
