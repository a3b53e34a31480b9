/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * encode - a set as DOF, laid out as `dtrace -G` does: header, section headers, per provider PROBES, PRARGS, PROFFS,
 * PRENOFFS if there are is-enabled sites, PROVIDER, RELTAB and URELHDR if relocatable; the strings, which are section 0,
 * last. The sections about the producer are omitted, so the whole object is loaded.
 *
 * A probe's address is that of its first site: consumers do not need the start of the function.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/probed/dof/format.h"
#include "inspect/probed/dof/internal.h"

enum { SECTIONS_PER_PROVIDER_MAX = 7 };

/* A growing buffer. */
struct output {
	char *data;
	size_t bytes, room;
};

struct encoder {
	const struct dof_encoding *encoding;
	struct output body, strings;
	uint32_t section_count;
	struct fathom_fault *why;
	bool out_of_memory;
};

/* ---- bytes ---- */

static void *append_dof_bytes(struct encoder *encoder, struct output *output, const void *data, size_t bytes)
{
	size_t at = output->bytes;

	if (output->bytes + bytes > output->room) {
		size_t room = round_up_power_of_two(output->bytes + bytes + 64);
		char *grown = realloc(output->data, room);

		if (!grown) {
			encoder->out_of_memory = true;
			return NULL;
		}
		output->data = grown;
		output->room = room;
	}
	must(bytes <= output->room - output->bytes);
	output->bytes += bytes;
	if (data)
		memcpy(output->data + at, data, bytes);
	else
		memset(output->data + at, 0, bytes);
	return output->data + at;
}

static uint32_t put_dof_string(struct encoder *encoder, const char *text)
{
	uint32_t at = (uint32_t)encoder->strings.bytes;

	append_dof_bytes(encoder, &encoder->strings, text, strlen(text) + 1);
	return at;
}

/* Start an aligned section; returns its index. end_section() sets its length. */
static uint32_t begin_section(struct encoder *encoder, enum dof_section_type type, uint32_t align, uint32_t entry_bytes)
{
	struct dof_section section = { type, align, DOF_SECTION_LOADED, entry_bytes, 0, 0 };
	uint32_t index = encoder->section_count++;

	append_dof_bytes(encoder, &encoder->body, NULL, round_up(encoder->body.bytes, align) - encoder->body.bytes);
	section.offset = encoder->body.bytes;
	must(is_power_of_two(align));
	/* the table of sections lies before the first section */
	must(encoder->out_of_memory || sizeof(struct dof_header) + (index + 1) * sizeof(section) <= section.offset);
	if (!encoder->out_of_memory)
		memcpy(encoder->body.data + sizeof(struct dof_header) + index * sizeof(section), &section, sizeof(section));
	return index;
}

static void end_section(struct encoder *encoder, uint32_t index)
{
	struct dof_section section;
	char *at;

	if (encoder->out_of_memory)
		return;
	at = encoder->body.data + sizeof(struct dof_header) + index * sizeof(section);
	memcpy(&section, at, sizeof(section));
	must(section.offset <= encoder->body.bytes);
	section.bytes = encoder->body.bytes - section.offset;
	memcpy(at, &section, sizeof(section));
}

/* ---- checks: whether the version can express the set ---- */

static uint32_t count_sites_of_kind(const struct dof_probe *probe, bool is_enabled)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < probe->site_count; i++)
		count += probe->sites[i].is_enabled == is_enabled;
	return count;
}

static bool has_enabled(const struct dof_provider *provider)
{
	for (uint32_t i = 0; i < provider->probe_count; i++) {
		if (count_sites_of_kind(&provider->probes[i], true))
			return true;
	}
	return false;
}

static uint64_t first_address(const struct dof_probe *probe)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < probe->site_count; i++)
		first = min_u64(first, probe->sites[i].address);
	return first;
}

static int check_encodable_sites(const struct encoder *encoder, const struct dof_provider *provider,
				 const struct dof_probe *probe)
{
	uint64_t first = first_address(probe), highest = encoder->encoding->bits_32 ? UINT32_MAX : UINT64_MAX;

	if (probe->site_count == 0)
		return fault(encoder->why, -EINVAL, "%s:%s has no site", provider->name, probe->name);
	if (count_sites_of_kind(probe, false) > UINT16_MAX || count_sites_of_kind(probe, true) > UINT16_MAX)
		return fault(encoder->why, -EINVAL, "%s:%s has more than 65535 sites of a kind", provider->name,
			     probe->name);
	for (uint32_t i = 0; i < probe->site_count; i++) {
		uint64_t address = probe->sites[i].address;

		if (address - first > UINT32_MAX || address > highest)
			return fault(encoder->why, -EINVAL, "%s:%s: a site at 0x%" PRIx64 " is too far from the first one",
				     provider->name, probe->name, address);
	}
	if (encoder->encoding->version < 3 && count_sites_of_kind(probe, true))
		return fault(encoder->why, -EINVAL, "%s:%s has is-enabled sites, which need version 3", provider->name,
			     probe->name);
	return 0;
}

static int check_encodable_types(const struct encoder *encoder, const struct dof_probe *probe, const char *const *types,
				 uint32_t count)
{
	if (count > DOF_ARGS_MAX)
		return fault(encoder->why, -EINVAL, "%s has more than %d arguments", probe->name, DOF_ARGS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (!dof_text_ok(types[i], DOF_TYPE_BYTES))
			return fault(encoder->why, -EINVAL, "%s: the type of argument %" PRIu32 " is not valid",
				     probe->name, i);
	}
	return 0;
}

static int check_encodable_probe(const struct encoder *encoder, const struct dof_provider *provider,
				 const struct dof_probe *probe)
{
	int rc;

	if (!dof_name_ok(probe->function, DOF_FUNCTION_BYTES) || !dof_name_ok(probe->name, DOF_NAME_BYTES))
		return fault(encoder->why, -EINVAL, "a probe of provider %s has an invalid name", provider->name);
	rc = check_encodable_types(encoder, probe, probe->native, probe->native_count);
	if (rc == 0)
		rc = check_encodable_types(encoder, probe, probe->translated, probe->translated_count);
	for (uint32_t i = 0; rc == 0 && i < probe->translated_count; i++) {
		if (probe->map[i] >= probe->native_count)
			rc = fault(encoder->why, -EINVAL, "%s: argument %" PRIu32 " refers to no native argument",
				   probe->name, i);
	}
	return rc ? rc : check_encodable_sites(encoder, provider, probe);
}

static int check_set(const struct encoder *encoder, const struct dof_set *set)
{
	uint8_t version = encoder->encoding->version;

	if (version < 1 || version > 3)
		return fault(encoder->why, -EINVAL, "version %u is not supported; 1 to 3 are", version);
	if (set->provider_count > UINT32_MAX / SECTIONS_PER_PROVIDER_MAX - 1)
		return fault(encoder->why, -EINVAL, "%" PRIu32 " providers", set->provider_count);
	for (uint32_t i = 0; i < set->provider_count; i++) {
		const struct dof_provider *provider = &set->providers[i];
		int rc = 0;

		if (!dof_name_ok(provider->name, DOF_PROVIDER_BYTES) || provider->probe_count == 0)
			return fault(encoder->why, -EINVAL, "a provider without probes, or without a name that can be one");
		for (uint32_t j = 0; rc == 0 && j < provider->probe_count; j++)
			rc = check_encodable_probe(encoder, provider, &provider->probes[j]);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- sections ---- */

static uint32_t put_dof_types(struct encoder *encoder, const char *const *types, uint32_t count)
{
	uint32_t at = (uint32_t)encoder->strings.bytes;

	for (uint32_t i = 0; i < count; i++)
		put_dof_string(encoder, types[i]);
	return count ? at : 0;
}

static uint32_t put_probes(struct encoder *encoder, const struct dof_provider *provider)
{
	uint32_t section = begin_section(encoder, DOF_SECTION_PROBES, 8, sizeof(struct dof_probe_record));
	uint32_t map = 0, sites = 0, enabled = 0;

	for (uint32_t i = 0; i < provider->probe_count; i++) {
		const struct dof_probe *probe = &provider->probes[i];
		struct dof_probe_record record = {
			.address = first_address(probe),
			.function = put_dof_string(encoder, probe->function),
			.name = put_dof_string(encoder, probe->name),
			.native = put_dof_types(encoder, probe->native, probe->native_count),
			.translated = put_dof_types(encoder, probe->translated, probe->translated_count),
			.map_index = map,
			.site_index = sites,
			.native_count = (uint8_t)probe->native_count,
			.translated_count = (uint8_t)probe->translated_count,
			.site_count = (uint16_t)count_sites_of_kind(probe, false),
			.enabled_index = enabled,
			.enabled_count = (uint16_t)count_sites_of_kind(probe, true),
		};

		/* check_set() has refused counts that the record cannot hold */
		must(record.native_count == probe->native_count);
		must(record.translated_count == probe->translated_count);
		must((uint32_t)record.site_count + record.enabled_count == probe->site_count);
		append_dof_bytes(encoder, &encoder->body, &record, sizeof(record));
		map += record.translated_count;
		sites += record.site_count;
		enabled += record.enabled_count;
	}
	end_section(encoder, section);
	return section;
}

static uint32_t put_map(struct encoder *encoder, const struct dof_provider *provider)
{
	uint32_t section = begin_section(encoder, DOF_SECTION_PRARGS, 1, 1);
	size_t before = encoder->body.bytes;

	for (uint32_t i = 0; i < provider->probe_count; i++) {
		if (provider->probes[i].translated_count)
			append_dof_bytes(encoder, &encoder->body, provider->probes[i].map,
					 provider->probes[i].translated_count);
	}
	/* never empty, as with `dtrace -G` */
	if (encoder->body.bytes == before)
		append_dof_bytes(encoder, &encoder->body, NULL, 1);
	end_section(encoder, section);
	return section;
}

static uint32_t put_dof_sites(struct encoder *encoder, const struct dof_provider *provider, bool is_enabled)
{
	uint32_t section = begin_section(encoder, is_enabled ? DOF_SECTION_PRENOFFS : DOF_SECTION_PROFFS, 4, 4);

	for (uint32_t i = 0; i < provider->probe_count; i++) {
		const struct dof_probe *probe = &provider->probes[i];
		uint64_t first = first_address(probe);

		for (uint32_t j = 0; j < probe->site_count; j++) {
			uint32_t offset = (uint32_t)(probe->sites[j].address - first);

			if (probe->sites[j].is_enabled == is_enabled)
				append_dof_bytes(encoder, &encoder->body, &offset, sizeof(offset));
		}
	}
	end_section(encoder, section);
	return section;
}

static void put_relocations(struct encoder *encoder, const struct dof_provider *provider, uint32_t probes)
{
	struct dof_relocation_header header = { .strings = 0, .target = probes };
	uint32_t section;

	header.relocations = begin_section(encoder, DOF_SECTION_RELTAB, 8, sizeof(struct dof_relocation));
	for (uint32_t i = 0; i < provider->probe_count; i++) {
		struct dof_relocation record = { .name = put_dof_string(encoder, provider->probes[i].function),
						 .type = DOF_RELOCATION_SETX,
						 .offset = i * sizeof(struct dof_probe_record) };

		append_dof_bytes(encoder, &encoder->body, &record, sizeof(record));
	}
	end_section(encoder, header.relocations);
	section = begin_section(encoder, DOF_SECTION_URELHDR, 4, 0);
	append_dof_bytes(encoder, &encoder->body, &header, sizeof(header));
	end_section(encoder, section);
}

static void put_provider(struct encoder *encoder, const struct dof_provider *provider)
{
	struct dof_provider_record record = { .strings = 0 };
	uint32_t section;

	record.probes = put_probes(encoder, provider);
	record.map = put_map(encoder, provider);
	record.sites = put_dof_sites(encoder, provider, false);
	if (has_enabled(provider))
		record.enabled_sites = put_dof_sites(encoder, provider, true);
	record.name = put_dof_string(encoder, provider->name);
	memcpy(record.attributes, provider->attributes, sizeof(record.attributes));
	section = begin_section(encoder, DOF_SECTION_PROVIDER, 4, 0);
	append_dof_bytes(encoder, &encoder->body, &record, sizeof(record));
	end_section(encoder, section);
	if (encoder->encoding->relocate)
		put_relocations(encoder, provider, record.probes);
}

/* ---- the object ---- */

static uint32_t count_sections(const struct encoder *encoder, const struct dof_set *set)
{
	uint32_t count = 1;

	for (uint32_t i = 0; i < set->provider_count; i++)
		count += 4 + has_enabled(&set->providers[i]) + (encoder->encoding->relocate ? 2 : 0);
	return count;
}

static void put_dof_set(struct encoder *encoder, const struct dof_set *set)
{
	struct dof_section strings = { DOF_SECTION_STRTAB, 1, DOF_SECTION_LOADED, 0, 0, 0 };
	struct dof_header header = {
		.model = encoder->encoding->bits_32 ? DOF_MODEL_32 : DOF_MODEL_64,
		.encoding = DOF_ENCODING_LSB,
		.version = encoder->encoding->version,
		.dif_version = DOF_DIF_VERSION,
		.dif_registers = DOF_DIF_REGISTERS,
		.dif_tuple_registers = DOF_DIF_REGISTERS,
		.header_bytes = sizeof(header),
		.section_bytes = sizeof(struct dof_section),
		.section_count = count_sections(encoder, set),
		.sections_at = sizeof(header),
	};

	memcpy(header.magic, DOF_MAGIC, sizeof(header.magic));
	append_dof_bytes(encoder, &encoder->body, NULL, sizeof(header) + header.section_count * sizeof(struct dof_section));
	append_dof_bytes(encoder, &encoder->strings, "", 1);
	encoder->section_count = 1; /* the strings */
	for (uint32_t i = 0; i < set->provider_count; i++)
		put_provider(encoder, &set->providers[i]);
	must(encoder->section_count == header.section_count);
	strings.offset = encoder->body.bytes;
	strings.bytes = encoder->strings.bytes;
	if (encoder->out_of_memory ||
	    !append_dof_bytes(encoder, &encoder->body, encoder->strings.data, encoder->strings.bytes))
		return;
	header.load_bytes = header.file_bytes = encoder->body.bytes;
	memcpy(encoder->body.data, &header, sizeof(header));
	memcpy(encoder->body.data + sizeof(header), &strings, sizeof(strings));
}

int dof_encode(const struct dof_set *set, const struct dof_encoding *encoding, void **data_ret, size_t *bytes_ret,
	       struct fathom_fault *why)
{
	struct encoder encoder = { .encoding = encoding, .why = why };
	int rc = check_set(&encoder, set);

	if (rc)
		return rc;
	put_dof_set(&encoder, set);
	free(encoder.strings.data);
	if (encoder.out_of_memory) {
		free(encoder.body.data);
		return fault(why, -ENOMEM, "out of memory for an object");
	}
	if (encoder.strings.bytes > UINT32_MAX) {
		free(encoder.body.data);
		return fault(why, -EINVAL, "more strings than 32 bits can count");
	}
	*data_ret = encoder.body.data;
	*bytes_ret = encoder.body.bytes;
	return 0;
}
