/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/stash/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

enum kind { PROVIDER = 0, PROBE = 1, SITE = 2, NATIVE = 5, TRANSLATED = 6, MAP = 7 };

/* Every record begins with its size and kind. Offsets of fields: */
enum {
	VERSION_BYTES = 8,
	KIND_AT = 8,
	BODY_AT = 16, /* types and maps begin here */
	PROVIDER_PROBES_AT = 16,
	PROVIDER_NAME_AT = 24,
	PROBE_SITES_AT = 16,
	PROBE_NATIVE_AT = 24,	  /* from version 2 on */
	PROBE_TRANSLATED_AT = 32, /* from version 2 on */
	PROBE_NAMES_AT_V1 = 24,
	PROBE_NAMES_AT = 40,
	SITE_ADDRESS_AT = 16,
	SITE_IS_ENABLED_AT = 24,
	SITE_ARGS_AT = 28, /* from version 3 on */
	SITE_BYTES_V1 = 32,
	SITE_BYTES = 48, /* without args */
};
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian");

/* ---- writing ---- */

static size_t record_types_bytes(const char *const *types, uint32_t count)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += strlen(types[i]) + 1;
	return bytes;
}

static size_t provider_bytes(const struct dof_provider *provider)
{
	return PROVIDER_NAME_AT + strlen(provider->name) + 1;
}

static size_t names_at(uint32_t version)
{
	return version == 1 ? PROBE_NAMES_AT_V1 : PROBE_NAMES_AT;
}

static size_t probe_bytes(const struct dof_probe *probe, uint32_t version)
{
	return names_at(version) + strlen(probe->module) + 1 + strlen(probe->function) + 1 + strlen(probe->name) + 1;
}

static size_t site_bytes(const struct dof_site *site, uint32_t version)
{
	if (version == 1)
		return SITE_BYTES_V1;
	return version == 2 || !site->args[0] ? SITE_BYTES : SITE_ARGS_AT + strlen(site->args) + 1;
}

size_t record_bytes(const struct dof_provider *provider, const struct dof_probe *probe, uint32_t version)
{
	size_t bytes = VERSION_BYTES + provider_bytes(provider) + probe_bytes(probe, version);

	must(version >= RECORD_VERSION_MIN && version <= RECORD_VERSION_MAX);
	must(probe->site_count > 0);
	must(probe->native_count <= DOF_ARGS_MAX && probe->translated_count <= DOF_ARGS_MAX);
	if (version > 1 && probe->native_count > 0)
		bytes += BODY_AT + record_types_bytes(probe->native, probe->native_count);
	if (version > 1 && probe->translated_count > 0)
		bytes += 2 * BODY_AT + record_types_bytes(probe->translated, probe->translated_count) +
			 probe->translated_count;
	for (uint32_t i = 0; i < probe->site_count; i++)
		bytes += site_bytes(&probe->sites[i], version);
	return bytes;
}

static void put_record_u64(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

/* Write size and kind; clear the rest of the head. */
static uint8_t *put_head(uint8_t *at, size_t bytes, enum kind kind, size_t head_bytes)
{
	must(bytes >= head_bytes && head_bytes >= BODY_AT);
	memset(at, 0, head_bytes);
	put_record_u64(at, bytes);
	at[KIND_AT] = (uint8_t)kind;
	return at + head_bytes;
}

static uint8_t *put_record_string(uint8_t *at, const char *text)
{
	size_t bytes = strlen(text) + 1;

	memcpy(at, text, bytes);
	return at + bytes;
}

static uint8_t *put_record_types(uint8_t *at, enum kind kind, const char *const *types, uint32_t count)
{
	at = put_head(at, BODY_AT + record_types_bytes(types, count), kind, BODY_AT);
	for (uint32_t i = 0; i < count; i++)
		at = put_record_string(at, types[i]);
	return at;
}

static uint8_t *put_record_probe(uint8_t *at, const struct dof_probe *probe, uint32_t version)
{
	uint8_t *begin = at;

	at = put_head(at, probe_bytes(probe, version), PROBE, names_at(version));
	put_record_u64(begin + PROBE_SITES_AT, probe->site_count);
	if (version > 1) {
		put_record_u64(begin + PROBE_NATIVE_AT, probe->native_count);
		put_record_u64(begin + PROBE_TRANSLATED_AT, probe->translated_count);
	}
	at = put_record_string(at, probe->module);
	at = put_record_string(at, probe->function);
	return put_record_string(at, probe->name);
}

static uint8_t *put_site(uint8_t *at, const struct dof_site *site, uint32_t version)
{
	size_t bytes = site_bytes(site, version);

	put_head(at, bytes, SITE, bytes);
	put_record_u64(at + SITE_ADDRESS_AT, site->address);
	at[SITE_IS_ENABLED_AT] = site->is_enabled;
	if (version > 2)
		put_record_string(at + SITE_ARGS_AT, site->args);
	return at + bytes;
}

/* A set orders sites by address; a file has firing sites before is-enabled sites. */
static uint8_t *put_record_sites(uint8_t *at, const struct dof_probe *probe, bool is_enabled, uint32_t version)
{
	for (uint32_t i = 0; i < probe->site_count; i++) {
		if (probe->sites[i].is_enabled == is_enabled)
			at = put_site(at, &probe->sites[i], version);
	}
	return at;
}

void record_encode(const struct dof_provider *provider, const struct dof_probe *probe, uint32_t version, void *to)
{
	uint8_t *at = to;

	must(version >= RECORD_VERSION_MIN && version <= RECORD_VERSION_MAX);
	put_record_u64(at, version);
	at = put_head(at + VERSION_BYTES, provider_bytes(provider), PROVIDER, PROVIDER_NAME_AT);
	put_record_u64(at - PROVIDER_NAME_AT + PROVIDER_PROBES_AT, provider->probe_count);
	at = put_record_string(at, provider->name);
	at = put_record_probe(at, probe, version);
	if (version > 1 && probe->native_count > 0)
		at = put_record_types(at, NATIVE, probe->native, probe->native_count);
	if (version > 1 && probe->translated_count > 0) {
		at = put_record_types(at, TRANSLATED, probe->translated, probe->translated_count);
		at = put_head(at, BODY_AT + probe->translated_count, MAP, BODY_AT);
		memcpy(at, probe->map, probe->translated_count);
		at += probe->translated_count;
	}
	at = put_record_sites(at, probe, false, version);
	at = put_record_sites(at, probe, true, version);
	must(at == (uint8_t *)to + record_bytes(provider, probe, version));
}

bool record_same(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	enum { COUNT_AT = VERSION_BYTES + PROVIDER_PROBES_AT, AFTER = COUNT_AT + 8 };

	return a_bytes == b_bytes && a_bytes >= AFTER && memcmp(a, b, COUNT_AT) == 0 &&
	       memcmp((const uint8_t *)a + AFTER, (const uint8_t *)b + AFTER, a_bytes - AFTER) == 0;
}

/* ---- reading ---- */

struct cursor {
	const uint8_t *data;
	size_t bytes, at;
	struct fathom_fault *why;
};

/* A record within the file. */
struct piece {
	const uint8_t *data;
	size_t bytes;
};

static uint64_t get_u64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int invalid_record(const struct cursor *cursor, const char *what)
{
	return fault(cursor->why, -EINVAL, "byte %zu: %s", cursor->at, what);
}

/* The next record; -EINVAL unless it is of `kind` and has at least `bytes_min`. */
static int next_piece(struct cursor *cursor, enum kind kind, size_t bytes_min, struct piece *piece_ret)
{
	size_t left = cursor->bytes - cursor->at;
	const uint8_t *data = cursor->data + cursor->at;
	uint32_t found;

	must(cursor->at <= cursor->bytes);
	must(bytes_min >= BODY_AT);
	if (left < BODY_AT)
		return invalid_record(cursor, "the file ends before its last record");
	if (get_u64(data) < bytes_min || get_u64(data) > left)
		return invalid_record(cursor, "a record is too short for its kind, or longer than the file");
	memcpy(&found, data + KIND_AT, sizeof(found));
	if (found != kind)
		return fault(cursor->why, -EINVAL, "byte %zu: a record of kind %" PRIu32 ", expected %d", cursor->at, found,
			     (int)kind);
	*piece_ret = (struct piece){ data, get_u64(data) };
	cursor->at += piece_ret->bytes;
	must(cursor->at <= cursor->bytes);
	return 0;
}

/* The string at `*offset` of a piece; moves `*offset` behind it. NULL: it has no NUL. */
static const char *next_string(const struct piece *piece, size_t *offset)
{
	const char *text = (const char *)piece->data + *offset;
	const char *end = *offset < piece->bytes ? memchr(text, '\0', piece->bytes - *offset) : NULL;

	if (!end)
		return NULL;
	*offset += (size_t)(end - text) + 1;
	must(*offset <= piece->bytes);
	return text;
}

/* The records of a file, found before the size of the result is known. */
struct outline {
	struct piece provider, probe, native, translated, map;
	size_t sites_at;
	uint64_t site_count, native_count, translated_count;
	uint32_t version;
};

static int read_record_args(struct cursor *cursor, struct outline *outline)
{
	int rc = 0;

	if (outline->native_count > 0)
		rc = next_piece(cursor, NATIVE, BODY_AT + outline->native_count, &outline->native);
	if (rc == 0 && outline->translated_count > 0)
		rc = next_piece(cursor, TRANSLATED, BODY_AT + outline->translated_count, &outline->translated);
	if (rc == 0 && outline->translated_count > 0)
		rc = next_piece(cursor, MAP, BODY_AT + outline->translated_count, &outline->map);
	for (uint64_t i = 0; rc == 0 && i < outline->translated_count; i++) {
		if (outline->map.data[BODY_AT + i] >= outline->native_count)
			rc = invalid_record(cursor, "the map before it names an argument that does not exist");
	}
	return rc;
}

static int read_outline(struct cursor *cursor, struct outline *outline)
{
	int rc;

	if (cursor->bytes < VERSION_BYTES || cursor->bytes > RECORD_BYTES_MAX)
		return fault(cursor->why, -EINVAL, "%zu bytes are not a record", cursor->bytes);
	if (get_u64(cursor->data) < RECORD_VERSION_MIN || get_u64(cursor->data) > RECORD_VERSION_MAX)
		return fault(cursor->why, -ENOTSUP, "version %" PRIu64 " is not one of %d to %d", get_u64(cursor->data),
			     RECORD_VERSION_MIN, RECORD_VERSION_MAX);
	outline->version = (uint32_t)get_u64(cursor->data);
	cursor->at = VERSION_BYTES;
	rc = next_piece(cursor, PROVIDER, PROVIDER_NAME_AT + 2, &outline->provider);
	if (rc == 0)
		rc = next_piece(cursor, PROBE, names_at(outline->version) + 3, &outline->probe);
	if (rc)
		return rc;
	outline->site_count = get_u64(outline->probe.data + PROBE_SITES_AT);
	if (outline->version > 1) {
		outline->native_count = get_u64(outline->probe.data + PROBE_NATIVE_AT);
		outline->translated_count = get_u64(outline->probe.data + PROBE_TRANSLATED_AT);
	}
	if (outline->native_count > DOF_ARGS_MAX || outline->translated_count > DOF_ARGS_MAX)
		return invalid_record(cursor, "the probe before it has too many arguments");
	rc = read_record_args(cursor, outline);
	if (rc)
		return rc;
	outline->sites_at = cursor->at;
	must(outline->sites_at > VERSION_BYTES);
	if (outline->site_count == 0 || outline->site_count > (cursor->bytes - cursor->at) / SITE_ARGS_AT)
		return invalid_record(cursor, "the number of sites is zero, or too large for the file");
	return 0;
}

/* One allocation: the structures, the sites, and a copy of the file, into which strings point. */
struct memory {
	struct dof_provider provider;
	struct dof_probe probe;
	const char *native[DOF_ARGS_MAX];
	const char *translated[DOF_ARGS_MAX];
	struct dof_site sites[];
};

static int fill_types(struct cursor *cursor, const struct piece *piece, uint64_t count, const char **types)
{
	size_t offset = BODY_AT;

	must(count <= DOF_ARGS_MAX);
	for (uint64_t i = 0; i < count; i++) {
		types[i] = next_string(piece, &offset);
		if (!types[i] || strlen(types[i]) >= DOF_TYPE_BYTES)
			return invalid_record(cursor, "the type of an argument before it has no NUL, or is too long");
	}
	return 0;
}

static int fill_names(struct cursor *cursor, const struct outline *outline, struct memory *memory)
{
	size_t offset = PROVIDER_NAME_AT, offsets = names_at(outline->version);
	struct dof_probe *probe = &memory->probe;

	memory->provider.name = next_string(&outline->provider, &offset);
	probe->module = next_string(&outline->probe, &offsets);
	probe->function = probe->module ? next_string(&outline->probe, &offsets) : NULL;
	probe->name = probe->function ? next_string(&outline->probe, &offsets) : NULL;
	if (!memory->provider.name || !probe->name)
		return invalid_record(cursor, "a name before it has no NUL");
	if (!dof_name_ok(memory->provider.name, DOF_PROVIDER_BYTES) || !dof_name_ok(probe->module, DOF_MODULE_BYTES) ||
	    !dof_name_ok(probe->function, DOF_FUNCTION_BYTES) || !dof_name_ok(probe->name, DOF_NAME_BYTES))
		return invalid_record(cursor, "a name before it is not a valid name");
	return 0;
}

/* The order in a file: firing sites before is-enabled sites, each by address. */
static bool in_order(const struct dof_site *a, const struct dof_site *b)
{
	return a->is_enabled == b->is_enabled ? a->address < b->address : b->is_enabled;
}

/* The order in a set: by address. */
static int compare_record_sites(const void *a, const void *b)
{
	const struct dof_site *one = a, *other = b;

	if (one->address != other->address)
		return one->address < other->address ? -1 : 1;
	return one->is_enabled - other->is_enabled;
}

static int fill_record_sites(struct cursor *cursor, const struct outline *outline, struct memory *memory)
{
	for (uint64_t i = 0; i < outline->site_count; i++) {
		size_t offset = SITE_ARGS_AT;
		struct dof_site *site = &memory->sites[i];
		struct piece piece;
		int rc = next_piece(cursor, SITE, SITE_ARGS_AT + (outline->version > 2), &piece);

		if (rc)
			return rc;
		site->address = get_u64(piece.data + SITE_ADDRESS_AT);
		site->is_enabled = !is_all_zero(piece.data + SITE_IS_ENABLED_AT, 4);
		site->args = outline->version > 2 ? next_string(&piece, &offset) : "";
		if (!site->args)
			return invalid_record(cursor, "the argument locations of the site before it have no NUL");
		if (strlen(site->args) >= DOF_SITE_ARGS_BYTES || (i > 0 && !in_order(site - 1, site)))
			return invalid_record(cursor,
					      "the site before it is out of order, or its argument locations are too long");
	}
	if (cursor->at != cursor->bytes)
		return invalid_record(cursor, "bytes behind the last record");
	qsort(memory->sites, outline->site_count, sizeof(memory->sites[0]), compare_record_sites);
	return 0;
}

/* Point into the copy of the file. */
static void move_piece(struct piece *piece, const uint8_t *from, const uint8_t *to)
{
	if (piece->data)
		must(piece->data > from);
	piece->data = to + (piece->data - from);
}

static int fill_memory(struct cursor *cursor, struct outline *outline, struct memory *memory)
{
	const uint8_t *copy = (const uint8_t *)&memory->sites[outline->site_count];
	struct dof_probe *probe = &memory->probe;
	struct piece *pieces[] = { &outline->provider, &outline->probe, &outline->native, &outline->translated,
				   &outline->map };
	int rc;

	for (size_t i = 0; i < ARRAY_COUNT(pieces); i++)
		move_piece(pieces[i], cursor->data, copy);
	cursor->data = copy;
	rc = fill_names(cursor, outline, memory);
	if (rc == 0)
		rc = fill_types(cursor, &outline->native, outline->native_count, memory->native);
	if (rc == 0)
		rc = fill_types(cursor, &outline->translated, outline->translated_count, memory->translated);
	if (rc == 0)
		rc = fill_record_sites(cursor, outline, memory);
	if (rc)
		return rc;
	probe->native_count = (uint32_t)outline->native_count;
	probe->native = memory->native;
	probe->translated_count = (uint32_t)outline->translated_count;
	probe->translated = memory->translated;
	probe->map = outline->map.data ? outline->map.data + BODY_AT : NULL;
	probe->site_count = (uint32_t)outline->site_count;
	probe->sites = memory->sites;
	memory->provider.probe_count = 1;
	memory->provider.probes = probe;
	return 0;
}

int record_decode(const void *data, size_t bytes, struct record *record_ret, struct fathom_fault *why)
{
	struct cursor cursor = { .data = data, .bytes = bytes, .why = why };
	struct outline outline = { 0 };
	struct memory *memory;
	size_t sites_bytes;
	int rc = read_outline(&cursor, &outline);

	if (rc)
		return rc;
	sites_bytes = outline.site_count * sizeof(memory->sites[0]);
	memory = calloc(1, sizeof(*memory) + sites_bytes + bytes);
	if (!memory)
		return fault(why, -ENOMEM, "out of memory for a record of %zu bytes", bytes);
	memcpy((uint8_t *)memory + sizeof(*memory) + sites_bytes, data, bytes);
	rc = fill_memory(&cursor, &outline, memory);
	if (rc) {
		free(memory);
		return rc;
	}
	*record_ret = (struct record){
		.version = outline.version,
		.provider_probes = get_u64(outline.provider.data + PROVIDER_PROBES_AT),
		.set = { .provider_count = 1, .providers = &memory->provider, .memory = memory },
	};
	return 0;
}

void record_free(struct record *record)
{
	free(record->set.memory);
	*record = (struct record){ 0 };
}
