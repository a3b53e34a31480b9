/* SPDX-License-Identifier: BSD-2-Clause */
/* strings - the texts of events, each stored once: the strings section of the image. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/spdk/internal.h"

enum { PLACES_FIRST = 1 << 8, ROOM_FIRST = 1 << 12 };

int strings_init(struct strings *strings)
{
	*strings = (struct strings){ .bytes = sizeof(struct trace_strings),
				     .room = ROOM_FIRST,
				     .bytes_max = STRINGS_BYTES_MAX,
				     .place_count = PLACES_FIRST };
	strings->text = calloc(1, strings->room);
	strings->places = calloc(strings->place_count, sizeof(*strings->places));
	return strings->text && strings->places ? 0 : -ENOMEM;
}

void strings_deinit(struct strings *strings)
{
	free(strings->text);
	free(strings->places);
}

/* Returns the place of a text, or the empty one where it belongs. */
static uint32_t *find_string_slot(const struct strings *strings, const char *text, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3ull;
	for (uint32_t at = (uint32_t)(hash ^ hash >> 32);; at++) {
		uint32_t *found = &strings->places[at & (strings->place_count - 1)];
		const char *there = strings->text + *found;

		if (*found == 0 || (strncmp(there, text, bytes) == 0 && there[bytes] == '\0'))
			return found;
	}
}

static int grow_string_table(struct strings *strings)
{
	struct strings larger = *strings;

	larger.place_count *= 2;
	larger.places = calloc(larger.place_count, sizeof(*larger.places));
	if (!larger.places)
		return -ENOMEM;
	for (uint32_t i = 0; i < strings->place_count; i++) {
		const char *text = strings->text + strings->places[i];

		if (strings->places[i])
			*find_string_slot(&larger, text, strlen(text)) = strings->places[i];
	}
	free(strings->places);
	*strings = larger;
	return 0;
}

int strings_intern(struct strings *strings, const char *text, size_t bytes, uint32_t *id_ret)
{
	uint32_t *found;

	if (bytes == 0) {
		*id_ret = 0;
		return 0;
	}
	if (strings->used >= strings->place_count / 2 && grow_string_table(strings) != 0)
		return -ENOMEM;
	found = find_string_slot(strings, text, bytes);
	if (*found == 0 && strings->bytes + bytes + 1 > strings->bytes_max) {
		*id_ret = UINT32_MAX;
		return 0;
	}
	if (*found == 0) {
		if (strings->bytes + bytes + 1 > strings->room) {
			char *larger = realloc(strings->text, strings->room * 2 + bytes + 1);

			if (!larger || strings->room > UINT32_MAX / 4) {
				strings->text = larger ? larger : strings->text;
				return -ENOMEM;
			}
			strings->text = larger;
			strings->room = strings->room * 2 + bytes + 1;
		}
		*found = (uint32_t)strings->bytes;
		memcpy(strings->text + strings->bytes, text, bytes);
		strings->text[strings->bytes + bytes] = '\0';
		strings->bytes += bytes + 1;
		strings->used++;
	}
	*id_ret = *found;
	return 0;
}
