/* SPDX-License-Identifier: BSD-2-Clause */
/* Results: an arena header, directly followed by the result, and a list of blocks that are freed with it. */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/client/internal.h"

enum { PIECE_BYTES = 4096 };

struct piece {
	struct piece *next;
	size_t used, room;
	alignas(max_align_t) char bytes[];
};

struct arena {
	struct piece *pieces; /* the block being filled is the first */
	alignas(max_align_t) char result[];
};

static struct arena *create_arena(size_t bytes)
{
	struct arena *arena = calloc(1, sizeof(*arena) + bytes);

	must(arena);
	return arena;
}

void *result_create(size_t bytes)
{
	return create_arena(bytes)->result;
}

struct arena *result_arena(void *result)
{
	return container_of(result, struct arena, result);
}

struct arena *arena_create(void)
{
	return create_arena(0);
}

void arena_destroy(struct arena *arena)
{
	if (!arena)
		return;
	while (arena->pieces) {
		struct piece *piece = arena->pieces;

		arena->pieces = piece->next;
		free(piece);
	}
	free(arena);
}

void fathom_control_free(void *result)
{
	if (result)
		arena_destroy(result_arena(result));
}

void *arena_zero(struct arena *arena, size_t bytes)
{
	struct piece *piece = arena->pieces;
	void *at;

	bytes = round_up(bytes, alignof(max_align_t));
	if (!piece || piece->room - piece->used < bytes) {
		size_t room = max_u64(bytes, PIECE_BYTES);

		piece = calloc(1, sizeof(*piece) + room);
		must(piece);
		piece->room = room;
		piece->next = arena->pieces;
		arena->pieces = piece;
	}
	at = piece->bytes + piece->used;
	piece->used += bytes;
	return at;
}

const char *arena_text(struct arena *arena, const char *text)
{
	size_t bytes;
	char *copy;

	if (!text || !*text)
		return "";
	bytes = strlen(text) + 1;
	copy = arena_zero(arena, bytes);
	memcpy(copy, text, bytes);
	return copy;
}

const int32_t *arena_i32s(struct arena *arena, const int32_t *numbers, size_t count)
{
	int32_t *copies = arena_array(arena, int32_t, count);

	if (count > 0)
		memcpy(copies, numbers, count * sizeof(*copies));
	return copies;
}

const uint32_t *arena_u32s(struct arena *arena, const uint32_t *numbers, size_t count)
{
	uint32_t *copies = arena_array(arena, uint32_t, count);

	if (count > 0)
		memcpy(copies, numbers, count * sizeof(*copies));
	return copies;
}

const uint64_t *arena_u64s(struct arena *arena, const uint64_t *numbers, size_t count)
{
	uint64_t *copies = arena_array(arena, uint64_t, count);

	if (count > 0)
		memcpy(copies, numbers, count * sizeof(*copies));
	return copies;
}

const char *enum_name(const ProtobufCEnumDescriptor *names, int value)
{
	const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(names, value);

	return found ? found->name : "UNKNOWN";
}

const char *const *arena_texts(struct arena *arena, char *const *texts, size_t count)
{
	const char **copies = arena_array(arena, const char *, count);

	for (size_t i = 0; i < count; i++)
		copies[i] = arena_text(arena, texts[i]);
	return copies;
}
