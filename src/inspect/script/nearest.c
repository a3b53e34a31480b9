/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/script/nearest.h"

#include <string.h>

#include "base/text.h"

const struct note_probe *nearest_probe(const struct notes *notes, const char *name)
{
	size_t best = strlen(name) / 3 + 1;
	const struct note_probe *nearest = NULL;

	for (uint32_t i = 0; i < notes->probe_count; i++) {
		size_t far = text_distance(name, notes->probes[i].name);

		if (far < best) {
			best = far;
			nearest = &notes->probes[i];
		}
	}
	/* otherwise a probe whose name contains `name` */
	for (uint32_t i = 0; !nearest && *name && i < notes->probe_count; i++) {
		if (strstr(notes->probes[i].name, name))
			nearest = &notes->probes[i];
	}
	return nearest;
}
