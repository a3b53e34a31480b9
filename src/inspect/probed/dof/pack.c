/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/dof/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

/* Write positions of each part. A string equal to the previous one is written once. */
struct packer {
	struct pack_site *sites;
	struct pack_provider *providers;
	struct pack_probe *probes;
	uint32_t *types;
	uint8_t *map;
	char *strings;
	uint64_t string_bytes; /* used */
	const char *module, *function;
	uint32_t module_at, function_at;
};

static uint64_t text_bytes(const char *text, const char *known)
{
	return known && (text == known || strcmp(text, known) == 0) ? 0 : strlen(text) + 1;
}

/* Each part begins aligned, because the sizes of those before it are multiples of its alignment. */
static_assert(sizeof(struct pack_head) % _Alignof(struct pack_site) == 0, "");
static_assert(sizeof(struct pack_site) % _Alignof(struct pack_provider) == 0, "");
static_assert(sizeof(struct pack_provider) % _Alignof(struct pack_probe) == 0, "");
static_assert(sizeof(struct pack_probe) % _Alignof(uint32_t) == 0, "");
static_assert(PACK_BYTES_MAX <= UINT32_MAX, "an offset in the strings has 32 bits");

/* ---- measuring ---- */

static void measure_probe(const struct dof_probe *probe, const struct dof_probe *before, struct dof_shape *shape)
{
	shape->probes++;
	shape->sites += probe->site_count;
	shape->types += (uint64_t)probe->native_count + probe->translated_count;
	shape->map_bytes += probe->translated_count;
	shape->string_bytes += text_bytes(probe->module, before ? before->module : NULL) +
			       text_bytes(probe->function, before ? before->function : NULL) + strlen(probe->name) + 1;
	for (uint32_t i = 0; i < probe->native_count; i++)
		shape->string_bytes += strlen(probe->native[i]) + 1;
	for (uint32_t i = 0; i < probe->translated_count; i++)
		shape->string_bytes += text_bytes(probe->translated[i], probe->native[probe->map[i]]);
	for (uint32_t i = 0; i < probe->site_count; i++)
		shape->string_bytes += text_bytes(probe->sites[i].args, "");
}

static void measure_packed_set(const struct dof_set *set, struct dof_shape *shape)
{
	const struct dof_probe *before = NULL;

	*shape = (struct dof_shape){ .string_bytes = 1 };
	for (uint32_t i = 0; i < set->provider_count; i++) {
		const struct dof_provider *provider = &set->providers[i];

		shape->providers++;
		shape->string_bytes += strlen(provider->name) + 1;
		for (uint32_t j = 0; j < provider->probe_count; j++) {
			measure_probe(&provider->probes[j], before, shape);
			before = &provider->probes[j];
		}
	}
}

/* ---- writing ---- */

static uint32_t put_packed_text(struct packer *packer, const char *text)
{
	uint32_t at = (uint32_t)packer->string_bytes;
	size_t bytes = strlen(text) + 1;

	memcpy(packer->strings + at, text, bytes);
	packer->string_bytes += bytes;
	return at;
}

static uint32_t put_repeated_text(struct packer *packer, const char *text, const char **last, uint32_t *last_at)
{
	if (text_bytes(text, *last) > 0)
		*last_at = put_packed_text(packer, text);
	*last = text;
	return *last_at;
}

static void put_packed_probe(struct packer *packer, const struct dof_probe *probe)
{
	const uint32_t *native = packer->types;

	must(probe->native_count <= DOF_ARGS_MAX && probe->translated_count <= DOF_ARGS_MAX);
	must(probe->site_count > 0);
	*packer->probes++ = (struct pack_probe){
		.module = put_repeated_text(packer, probe->module, &packer->module, &packer->module_at),
		.function = put_repeated_text(packer, probe->function, &packer->function, &packer->function_at),
		.name = put_packed_text(packer, probe->name),
		.native_count = probe->native_count,
		.translated_count = probe->translated_count,
		.site_count = probe->site_count,
	};
	for (uint32_t i = 0; i < probe->native_count; i++)
		*packer->types++ = put_packed_text(packer, probe->native[i]);
	for (uint32_t i = 0; i < probe->translated_count; i++) {
		const char *type = probe->translated[i];

		must(probe->map[i] < probe->native_count);
		*packer->types++ = text_bytes(type, probe->native[probe->map[i]]) ? put_packed_text(packer, type)
										  : native[probe->map[i]];
		*packer->map++ = probe->map[i];
	}
	for (uint32_t i = 0; i < probe->site_count; i++) {
		const struct dof_site *site = &probe->sites[i];

		*packer->sites++ = (struct pack_site){ .address = site->address,
						       .args = site->args[0] ? put_packed_text(packer, site->args) : 0,
						       .is_enabled = site->is_enabled };
	}
}

static void put_packed_set(struct packer *packer, const struct dof_set *set)
{
	must(packer->string_bytes == 0); /* offset 0 is the empty string */
	packer->strings[packer->string_bytes++] = '\0';
	for (uint32_t i = 0; i < set->provider_count; i++) {
		const struct dof_provider *provider = &set->providers[i];
		struct pack_provider *record = packer->providers++;

		*record = (struct pack_provider){ .name = put_packed_text(packer, provider->name),
						  .probe_count = provider->probe_count };
		memcpy(record->attributes, provider->attributes, sizeof(record->attributes));
		for (uint32_t j = 0; j < provider->probe_count; j++)
			put_packed_probe(packer, &provider->probes[j]);
	}
}

/* -E2BIG: over the limit of the packed form. */
static int compute_places(const struct dof_set *set, struct pack_head *head, struct pack_places *places)
{
	struct dof_shape shape;

	measure_packed_set(set, &shape);
	if (shape.providers > PACK_BYTES_MAX || shape.probes > PACK_BYTES_MAX || shape.sites > PACK_BYTES_MAX ||
	    shape.types > PACK_BYTES_MAX || shape.map_bytes > PACK_BYTES_MAX || shape.string_bytes > PACK_BYTES_MAX)
		return -E2BIG;
	*head = (struct pack_head){ PACK_MAGIC,
				    (uint32_t)shape.providers,
				    (uint32_t)shape.probes,
				    (uint32_t)shape.sites,
				    (uint32_t)shape.types,
				    (uint32_t)shape.map_bytes,
				    (uint32_t)shape.string_bytes,
				    0 };
	*places = pack_places(head);
	return places->bytes > PACK_BYTES_MAX ? -E2BIG : 0;
}

static void write_set(const struct dof_set *set, const struct pack_head *head, const struct pack_places *places, char *to)
{
	struct packer packer = {
		.sites = (void *)(to + places->sites),
		.providers = (void *)(to + places->providers),
		.probes = (void *)(to + places->probes),
		.types = (void *)(to + places->types),
		.map = (void *)(to + places->map),
		.strings = to + places->strings,
	};

	must((uintptr_t)to % _Alignof(struct pack_site) == 0);
	memcpy(to, head, sizeof(*head));
	put_packed_set(&packer, set);
	/* the measured sizes equal the written ones */
	must((char *)packer.sites == to + places->providers && (char *)packer.providers == to + places->probes);
	must((char *)packer.probes == to + places->types && (char *)packer.types == to + places->map);
	must((char *)packer.map == packer.strings && packer.string_bytes == head->string_bytes);
}

int dof_pack(const struct dof_set *set, void **data_ret, size_t *bytes_ret)
{
	struct pack_places places;
	struct pack_head head;
	int rc = compute_places(set, &head, &places);
	char *data = rc ? NULL : malloc(places.bytes);

	if (!data)
		return rc ? rc : -ENOMEM;
	write_set(set, &head, &places, data);
	*data_ret = data;
	*bytes_ret = places.bytes;
	return 0;
}

int dof_parse_packed(const struct dof_input *input, const struct dof_limits *limits, const struct dof_room *room,
		     struct dof_packed *packed, struct fathom_fault *why)
{
	struct dof_memory memory = { .room = room->start, .room_bytes = room->bytes };
	struct dof_set set = { 0 };
	struct pack_places places;
	struct pack_head head;
	int rc = dof_parse_in(&memory, input, limits, &set, why);

	if (rc)
		return rc;
	must(!set.memory);
	must(memory.room_used <= room->bytes);
	if (compute_places(&set, &head, &places) != 0 || places.bytes > packed->bytes_max)
		return fault(why, -E2BIG, "the object's probes need more than %zu bytes", packed->bytes_max);
	must(places.strings + head.string_bytes == places.bytes);
	write_set(&set, &head, &places, packed->data);
	packed->bytes = places.bytes;
	return 0;
}
