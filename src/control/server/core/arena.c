/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/server/core/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct arena_piece {
	struct arena_piece *next;
	max_align_t data[];
};

void *arena_take(struct arena *arena, size_t bytes)
{
	struct arena_piece *piece;

	must(bytes <= SIZE_MAX - sizeof(*piece));
	piece = calloc(1, sizeof(*piece) + bytes);
	must(piece);
	piece->next = arena->pieces;
	arena->pieces = piece;
	return piece->data;
}

char *arena_text(struct arena *arena, const char *text)
{
	size_t bytes = strlen(text);
	char *copy = arena_take(arena, bytes + 1);

	copy[text_utf8_copy(copy, bytes, text, bytes)] = '\0';
	return copy;
}

char *arena_format(struct arena *arena, const char *format, ...)
{
	char *text, *copy;
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vasprintf(&text, format, args);
	va_end(args);
	must(bytes >= 0);
	copy = arena_text(arena, text);
	free(text);
	return copy;
}

void arena_free(struct arena *arena)
{
	while (arena->pieces) {
		struct arena_piece *piece = arena->pieces;

		arena->pieces = piece->next;
		free(piece);
	}
}
