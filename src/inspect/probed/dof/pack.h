/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pack - a set serialized without pointers. Both ends must be the same version of the program on the same machine.
 *
 *   head, sites, providers, probes, types (32 bits each: of the string), maps, strings
 *
 * Each provider's probes, each probe's sites, types (native, then translated) and map are consecutive, in the order of a
 * set. Strings are referenced by their offset in the string part; its first and last byte are NUL.
 */
#ifndef PROBED_DOF_PACK_H
#define PROBED_DOF_PACK_H

#include "inspect/probed/dof/internal.h"

enum { PACK_MAGIC = 0x646f6670, PACK_BYTES_MAX = 1 << 30 };

struct pack_head {
	uint32_t magic, provider_count, probe_count, site_count, type_count, map_bytes, string_bytes, pad;
};

struct pack_site {
	uint64_t address;
	uint32_t args, is_enabled;
};

struct pack_provider {
	uint32_t name, probe_count, attributes[DOF_ATTRIBUTES];
};

struct pack_probe {
	uint32_t module, function, name, native_count, translated_count, site_count;
};

static_assert(sizeof(struct pack_head) == 32, "");
static_assert(sizeof(struct pack_site) == 16, "");
static_assert(sizeof(struct pack_provider) == 28, "");
static_assert(sizeof(struct pack_probe) == 24, "");

/* The start of each part; `bytes` of all. */
struct pack_places {
	uint64_t sites, providers, probes, types, map, strings, bytes;
};

static inline struct pack_places pack_places(const struct pack_head *head)
{
	struct pack_places places = { .sites = sizeof(*head) };

	places.providers = places.sites + head->site_count * sizeof(struct pack_site);
	places.probes = places.providers + head->provider_count * sizeof(struct pack_provider);
	places.types = places.probes + head->probe_count * sizeof(struct pack_probe);
	places.map = places.types + head->type_count * sizeof(uint32_t);
	places.strings = places.map + head->map_bytes;
	places.bytes = places.strings + head->string_bytes;
	return places;
}

#endif
