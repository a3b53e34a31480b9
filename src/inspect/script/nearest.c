/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/script/nearest.h"

#include <string.h>

#include "base/bits.h"

/* Letters to insert, remove or replace to make one name of the other. */
static size_t distance(const char *a, const char *b)
{
	size_t row[NOTES_NAME_BYTES], b_bytes = strlen(b);

	for (size_t j = 0; j <= b_bytes; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < b_bytes; j++) {
			size_t changed = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			row[j + 1] = min_u64(changed, min_u64(row[j], diagonal) + 1);
		}
	}
	return row[b_bytes];
}

const struct note_probe *nearest_probe(const struct notes *notes, const char *name)
{
	size_t best = strlen(name) / 3 + 1;
	const struct note_probe *nearest = NULL;

	for (uint32_t i = 0; i < notes->probe_count; i++) {
		size_t far = distance(name, notes->probes[i].name);

		if (far < best) {
			best = far;
			nearest = &notes->probes[i];
		}
	}
	/* or one that goes on where this ends */
	for (uint32_t i = 0; !nearest && *name && i < notes->probe_count; i++) {
		if (strstr(notes->probes[i].name, name))
			nearest = &notes->probes[i];
	}
	return nearest;
}
