/* SPDX-License-Identifier: BSD-2-Clause */
/* unpack - reads an untrusted packed set, and checks every property that dof_parse() guarantees. */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/probed/dof/pack.h"

/* The unread rest of the input, and the strings, already copied. */
struct unpacker {
	const struct pack_site *sites;
	const struct pack_provider *providers;
	const struct pack_probe *probes;
	const uint32_t *types;
	const uint8_t *map;
	struct pack_head left;		 /* unread count of each part */
	const char *strings;		 /* head.string_bytes; the last byte is NUL */
	uint32_t module_at, function_at; /* of the last probe, already checked; 0: none */
	struct dof_layout layout;
	struct fathom_fault *why;
};

static int refuse_packed(const struct unpacker *unpacker, const char *what)
{
	return fault(unpacker->why, -EPROTO, "not a packed set: %s", what);
}

/* Subtract `count` from `*left`; false: not enough is left. */
static bool subtract_count(uint32_t *left, uint64_t count)
{
	if (count > *left)
		return false;
	*left -= (uint32_t)count;
	return true;
}

static const char *packed_name_at(const struct unpacker *unpacker, uint32_t at, size_t bytes_max)
{
	if (at >= unpacker->left.string_bytes || !dof_name_ok(unpacker->strings + at, bytes_max))
		return NULL;
	return unpacker->strings + at;
}

/* A valid name. Skips the check if it equals the last probe's, which is the common case. */
static const char *cached_name_at(const struct unpacker *unpacker, uint32_t at, size_t bytes_max, uint32_t *last_at)
{
	const char *name = at && at == *last_at ? unpacker->strings + at : packed_name_at(unpacker, at, bytes_max);

	*last_at = at;
	return name;
}

static const char *packed_text_at(const struct unpacker *unpacker, uint32_t at, size_t bytes_max)
{
	if (at >= unpacker->left.string_bytes || !dof_text_ok(unpacker->strings + at, bytes_max))
		return NULL;
	return unpacker->strings + at;
}

static int unpack_types(struct unpacker *unpacker, struct dof_probe *probe)
{
	const uint32_t *native = unpacker->types, *translated = native + probe->native_count;
	uint64_t count = (uint64_t)probe->native_count + probe->translated_count;

	if (probe->native_count > DOF_ARGS_MAX || probe->translated_count > DOF_ARGS_MAX ||
	    !subtract_count(&unpacker->left.type_count, count) ||
	    !subtract_count(&unpacker->left.map_bytes, probe->translated_count))
		return refuse_packed(unpacker, "arguments");
	probe->native = unpacker->layout.types;
	probe->translated = probe->native + probe->native_count;
	probe->map = unpacker->layout.map;
	for (uint32_t i = 0; i < probe->native_count; i++) {
		unpacker->layout.types[i] = packed_text_at(unpacker, native[i], DOF_TYPE_BYTES);
		if (!unpacker->layout.types[i])
			return refuse_packed(unpacker, "a native type");
	}
	unpacker->layout.types += probe->native_count;
	for (uint32_t i = 0; i < probe->translated_count; i++) {
		uint8_t from = unpacker->map[i];

		if (from >= probe->native_count)
			return refuse_packed(unpacker, "a map");
		unpacker->layout.map[i] = from;
		unpacker->layout.types[i] = translated[i] == native[from]
						    ? probe->native[from]
						    : packed_text_at(unpacker, translated[i], DOF_TYPE_BYTES);
		if (!unpacker->layout.types[i])
			return refuse_packed(unpacker, "a translated type");
	}
	unpacker->layout.types += probe->translated_count;
	unpacker->layout.map += probe->translated_count;
	unpacker->types += count;
	unpacker->map += probe->translated_count;
	return 0;
}

static int unpack_sites(struct unpacker *unpacker, struct dof_probe *probe)
{
	struct dof_site *sites = unpacker->layout.sites;

	if (probe->site_count == 0 || !subtract_count(&unpacker->left.site_count, probe->site_count))
		return refuse_packed(unpacker, "sites");
	for (uint32_t i = 0; i < probe->site_count; i++) {
		const struct pack_site *site = &unpacker->sites[i];

		sites[i] = (struct dof_site){ .address = site->address,
					      .is_enabled = site->is_enabled,
					      .args = packed_text_at(unpacker, site->args, DOF_SITE_ARGS_BYTES) };
		if (site->is_enabled > 1 || !sites[i].args)
			return refuse_packed(unpacker, "a site");
		if (i > 0 && dof_site_compare(&sites[i - 1], &sites[i]) >= 0)
			return refuse_packed(unpacker, "the order of sites");
	}
	probe->sites = sites;
	unpacker->layout.sites += probe->site_count;
	unpacker->sites += probe->site_count;
	return 0;
}

static int unpack_probe(struct unpacker *unpacker, const struct dof_probe *before)
{
	const struct pack_probe *record = unpacker->probes++;
	struct dof_probe *probe = unpacker->layout.probes++;
	int rc;

	*probe = (struct dof_probe){
		.module = cached_name_at(unpacker, record->module, DOF_MODULE_BYTES, &unpacker->module_at),
		.function = cached_name_at(unpacker, record->function, DOF_FUNCTION_BYTES, &unpacker->function_at),
		.name = packed_name_at(unpacker, record->name, DOF_NAME_BYTES),
		.native_count = record->native_count,
		.translated_count = record->translated_count,
		.site_count = record->site_count,
	};
	if (!probe->module || !probe->function || !probe->name)
		return refuse_packed(unpacker, "a name");
	if (before && dof_probe_compare(before, probe) >= 0)
		return refuse_packed(unpacker, "the order of probes");
	rc = unpack_types(unpacker, probe);
	return rc ? rc : unpack_sites(unpacker, probe);
}

static int unpack_provider(struct unpacker *unpacker, const struct dof_provider *before)
{
	const struct pack_provider *record = unpacker->providers++;
	struct dof_provider *provider = unpacker->layout.providers++;
	int rc = 0;

	if (record->probe_count == 0 || !subtract_count(&unpacker->left.probe_count, record->probe_count))
		return refuse_packed(unpacker, "the probes of a provider");
	*provider = (struct dof_provider){ .name = packed_name_at(unpacker, record->name, DOF_PROVIDER_BYTES),
					   .probe_count = record->probe_count,
					   .probes = unpacker->layout.probes };
	memcpy(provider->attributes, record->attributes, sizeof(provider->attributes));
	if (!provider->name)
		return refuse_packed(unpacker, "the name of a provider");
	if (before && strcmp(before->name, provider->name) >= 0)
		return refuse_packed(unpacker, "the order of providers");
	for (uint32_t i = 0; rc == 0 && i < provider->probe_count; i++)
		rc = unpack_probe(unpacker, i ? &provider->probes[i - 1] : NULL);
	return rc;
}

static int unpack_all(struct unpacker *unpacker, struct dof_set *set)
{
	uint32_t strings = unpacker->left.string_bytes;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < set->provider_count; i++)
		rc = unpack_provider(unpacker, i ? &set->providers[i - 1] : NULL);
	if (rc == 0 && (unpacker->left.probe_count || unpacker->left.site_count || unpacker->left.type_count ||
			unpacker->left.map_bytes))
		rc = refuse_packed(unpacker, "something is left");
	must(unpacker->left.string_bytes == strings);
	must(rc <= 0);
	return rc;
}

int dof_unpack(const void *data, size_t bytes, struct dof_set *set_ret, struct fathom_fault *why)
{
	struct unpacker unpacker = { .why = why };
	struct dof_memory memory = { 0 };
	struct pack_head head;
	struct pack_places places;
	struct dof_shape shape;
	const char *from = data;
	struct dof_set set;
	int rc;

	if (bytes < sizeof(head))
		return refuse_packed(&unpacker, "too short");
	memcpy(&head, data, sizeof(head));
	must((uintptr_t)data % _Alignof(struct pack_site) == 0);
	places = pack_places(&head);
	if (head.magic != PACK_MAGIC || head.pad || places.bytes != bytes || bytes > PACK_BYTES_MAX ||
	    head.string_bytes == 0 || from[bytes - 1] != '\0' || from[places.strings] != '\0')
		return refuse_packed(&unpacker, "its head");
	shape = (struct dof_shape){ head.provider_count, head.probe_count, head.site_count,
				    head.type_count,	 head.map_bytes,   head.string_bytes };
	rc = dof_layout_make(&memory, &shape, &set, &unpacker.layout);
	if (rc)
		return fault(why, rc, "out of memory for %zu bytes", bytes);
	memcpy(unpacker.layout.strings, from + places.strings, head.string_bytes);
	unpacker.sites = (const void *)(from + places.sites);
	unpacker.providers = (const void *)(from + places.providers);
	unpacker.probes = (const void *)(from + places.probes);
	unpacker.types = (const void *)(from + places.types);
	unpacker.map = (const void *)(from + places.map);
	unpacker.strings = unpacker.layout.strings;
	unpacker.left = head;
	rc = unpack_all(&unpacker, &set);
	if (rc == 0) {
		dof_layout_check_filled(&unpacker.layout, &shape, &set);
		must((const char *)unpacker.sites == from + places.providers);
		must((const char *)unpacker.providers == from + places.probes);
		must((const char *)unpacker.probes == from + places.types);
		must((const char *)unpacker.types == from + places.map);
		must((const char *)unpacker.map == from + places.strings);
	}
	if (rc)
		dof_set_free(&set);
	else
		*set_ret = set;
	return rc;
}
