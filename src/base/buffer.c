/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/buffer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"

int buffer_reserve(uint8_t **data, size_t *room, size_t bytes, size_t bytes_max)
{
	size_t grown_room;
	uint8_t *grown;

	must(bytes <= bytes_max);
	must(*data || *room == 0);
	if (bytes <= *room)
		return 0;
	grown_room = min_u64(round_up_power_of_two(bytes), bytes_max);
	must(grown_room >= bytes);
	grown = realloc(*data, grown_room);
	if (!grown)
		return -ENOMEM;
	*data = grown;
	*room = grown_room;
	return 0;
}
