/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usdt - .note.usdt, which DTrace's compiler header and `dtrace -G` write since 2.0.3 in place of DOF.
 *
 *   "usdt", 1 or 2   a firing or is-enabled site: address, address of the function's name in .rodata, provider, probe
 *                    (with __ for -), number of arguments, where they are
 *   "prov", 1        a provider: name, attributes, its probes with the types of their arguments
 *
 * Each site's probe must be declared by its provider; probes without sites are omitted.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/probed/dof/notes.h"

enum { SITE_FIRES = 1, SITE_ASKS = 2, PROVIDER = 1, NOTE_BYTES_MIN = 12 + 8 + 16 + 4, DECLARED_BYTES_MIN = 3 };
static_assert(DOF_ARGS_MAX <= UINT8_MAX, "a note counts arguments in 8 bits");

/* A probe that a provider declares. */
struct declared {
	const char *provider, *name;
	uint8_t native_count, translated_count;
	struct note_bytes native;     /* strings */
	struct note_bytes translated; /* strings, each followed by the index of its native argument */
};

struct declared_provider {
	const char *name;
	uint32_t attributes[DOF_ATTRIBUTES];
	struct note_bytes desc; /* the whole note */
};

struct reading {
	const struct dof_parsing *parsing;
	struct note_rows rows;
	uint8_t *arg_counts; /* of each row in order of insertion: valid only before the rows are sorted */
	struct declared *declared;
	uint32_t declared_count, declared_room;
	struct declared_provider *providers;
	uint32_t provider_count, provider_room;
};

static bool is_note_named(const struct note *note, const char *name)
{
	size_t bytes = strlen(name);

	/* the name may or may not include the NUL */
	return (note->name_bytes == bytes || (note->name_bytes == bytes + 1 && note->name[bytes] == '\0')) &&
	       memcmp(note->name, name, bytes) == 0;
}

/* ---- providers ---- */

/* Skip padding to 4 bytes, relative to the note's start. */
static bool skip_padding(struct note_bytes *bytes, const char *start)
{
	size_t padding = (size_t)(-(bytes->at - start) & 3);

	if (padding > (size_t)(bytes->end - bytes->at))
		return false;
	bytes->at += padding;
	return true;
}

static bool take_types(struct note_bytes *bytes, uint8_t count, bool has_map, uint8_t native_count,
		       struct note_bytes *types)
{
	types->at = bytes->at;
	for (uint8_t i = 0; i < count; i++) {
		const char *type;
		uint8_t from = 0;

		if (!dof_note_take_text(bytes, &type) || !dof_text_ok(type, DOF_TYPE_BYTES) ||
		    (has_map && (!dof_note_take(bytes, &from, 1) || from >= native_count)))
			return false;
	}
	types->end = bytes->at;
	must(types->at <= types->end);
	return true;
}

static int take_declared(struct reading *reading, const struct note *note, const char *provider, struct note_bytes *bytes)
{
	struct declared *declared;

	must(reading->declared_count <= reading->declared_room);
	if (reading->declared_count == reading->declared_room)
		return dof_note_refuse(reading->parsing, -E2BIG, note->offset, "more than %" PRIu32 " probes",
				       reading->declared_room);
	declared = &reading->declared[reading->declared_count++];
	*declared = (struct declared){ .provider = provider };
	if (!skip_padding(bytes, note->desc.at) || !dof_note_take_text(bytes, &declared->name) ||
	    !dof_name_ok(declared->name, DOF_NAME_BYTES) || !dof_note_take(bytes, &declared->native_count, 1) ||
	    !take_types(bytes, declared->native_count, false, 0, &declared->native) ||
	    !dof_note_take(bytes, &declared->translated_count, 1) ||
	    !take_types(bytes, declared->translated_count, true, declared->native_count, &declared->translated))
		return dof_note_refuse(reading->parsing, -EINVAL, note->offset,
				       "a probe of provider %s, at 0x%zx, has no valid name, types or map", provider,
				       (size_t)(bytes->at - (const char *)reading->parsing->input->blocks[0].data));
	return 0;
}

static int take_provider(struct reading *reading, const struct note *note)
{
	struct note_bytes bytes = note->desc;
	struct declared_provider *provider;
	uint32_t probe_count = 0;
	int rc = 0;

	must(reading->provider_count < reading->provider_room);
	provider = &reading->providers[reading->provider_count];
	provider->desc = note->desc;
	if (!dof_note_take_text(&bytes, &provider->name) || !dof_name_ok(provider->name, DOF_PROVIDER_BYTES) ||
	    !skip_padding(&bytes, note->desc.at) ||
	    !dof_note_take(&bytes, provider->attributes, sizeof(provider->attributes)) ||
	    !dof_note_take(&bytes, &probe_count, sizeof(probe_count)))
		return dof_note_refuse(reading->parsing, -EINVAL, note->offset,
				       "a provider without a valid name or attributes");
	reading->provider_count++;
	for (uint32_t i = 0; rc == 0 && i < probe_count; i++)
		rc = take_declared(reading, note, provider->name, &bytes);
	return rc;
}

static int compare_declared_providers(const void *a, const void *b)
{
	return strcmp(((const struct declared_provider *)a)->name, ((const struct declared_provider *)b)->name);
}

static int compare_declared(const void *a, const void *b)
{
	const struct declared *left = a, *right = b;
	int rc = strcmp(left->provider, right->provider);

	return rc ? rc : strcmp(left->name, right->name);
}

static bool is_same_note(const struct note_bytes *a, const struct note_bytes *b)
{
	size_t bytes = (size_t)(a->end - a->at);

	return bytes == (size_t)(b->end - b->at) && memcmp(a->at, b->at, bytes) == 0;
}

static bool is_same_declared(const struct declared *a, const struct declared *b)
{
	return a->native_count == b->native_count && a->translated_count == b->translated_count &&
	       is_same_note(&a->native, &b->native) && is_same_note(&a->translated, &b->translated);
}

/* Sort for the lookup, and check duplicates: objects linked into one file may repeat a declaration. */
static int order_declared(struct reading *reading)
{
	uint64_t bytes = max_u64((uint64_t)reading->provider_count * sizeof(*reading->providers),
				 (uint64_t)reading->declared_count * sizeof(*reading->declared));
	void *scratch = dof_memory_take(reading->parsing->memory, bytes, 1);
	uint32_t kept = 0;

	if (!scratch)
		return -ENOMEM;
	dof_sort(reading->providers, reading->provider_count, sizeof(*reading->providers), compare_declared_providers,
		 scratch);
	dof_sort(reading->declared, reading->declared_count, sizeof(*reading->declared), compare_declared, scratch);
	for (uint32_t i = 1; i < reading->provider_count; i++) {
		const struct declared_provider *provider = &reading->providers[i];

		if (compare_declared_providers(provider - 1, provider) == 0 &&
		    !is_same_note(&provider[-1].desc, &provider->desc))
			return fault(reading->parsing->why, -EEXIST,
				     "provider %s is declared twice, with different contents", provider->name);
	}
	for (uint32_t i = 0; i < reading->declared_count; i++) {
		struct declared *declared = &reading->declared[i];
		bool is_repeated = kept > 0 && compare_declared(&reading->declared[kept - 1], declared) == 0;

		if (is_repeated && !is_same_declared(&reading->declared[kept - 1], declared))
			return fault(reading->parsing->why, -EEXIST,
				     "probe %s of provider %s is declared twice, with different contents", declared->name,
				     declared->provider);
		if (!is_repeated)
			reading->declared[kept++] = *declared;
	}
	must(kept <= reading->declared_count);
	must((kept == 0) == (reading->declared_count == 0));
	reading->declared_count = kept;
	return 0;
}

/* The item that compares as `key`, or NULL. */
static const void *find_sorted(const void *key, const void *items, uint32_t count, size_t bytes,
			       int (*compare)(const void *, const void *))
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const void *item = (const char *)items + middle * bytes;
		int rc = compare(key, item);

		if (rc == 0)
			return item;
		if (rc < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static const struct declared *find_declared(const struct reading *reading, const struct note_row *row)
{
	struct declared key = { .provider = row->provider, .name = row->name };

	return find_sorted(&key, reading->declared, reading->declared_count, sizeof(key), compare_declared);
}

/* ---- sites ---- */

/* The string at `address` of .rodata. */
static const char *function_at(const struct dof_parsing *parsing, uint64_t address)
{
	const struct dof_block *block = &parsing->input->blocks[1];
	const char *text;
	uint64_t at = address - block->base;

	if (address < block->base || at >= block->bytes)
		return NULL;
	text = (const char *)block->data + at;
	return memchr(text, '\0', min_u64(block->bytes - at, DOF_FUNCTION_BYTES)) ? text : NULL;
}

/* C identifiers cannot contain a hyphen: replace each `__` by `-`, from left to right. NULL: out of memory. */
static const char *hyphenate_name(const struct reading *reading, const char *name)
{
	char *hyphenated, *to;

	if (!strstr(name, "__"))
		return name;
	hyphenated = to = dof_memory_take(reading->parsing->memory, strlen(name) + 1, 1);
	if (!hyphenated)
		return NULL;
	for (; *name; name++) {
		bool is_hyphen = name[0] == '_' && name[1] == '_';

		*to++ = is_hyphen ? '-' : *name;
		name += is_hyphen;
	}
	*to = '\0';
	return hyphenated;
}

static int take_site(struct reading *reading, const struct note *note)
{
	const struct dof_parsing *parsing = reading->parsing;
	struct note_row row = { .is_enabled = note->type == SITE_ASKS };
	struct note_bytes bytes = note->desc;
	uint64_t function = 0;
	uint8_t arg_count = 0;

	if (!dof_note_take(&bytes, &row.address, sizeof(row.address)) ||
	    !dof_note_take(&bytes, &function, sizeof(function)) || !dof_note_take_text(&bytes, &row.provider) ||
	    !dof_note_take_text(&bytes, &row.name) || !dof_note_take(&bytes, &arg_count, 1) ||
	    !dof_note_take_text(&bytes, &row.args))
		return dof_note_refuse(parsing, -EINVAL, note->offset,
				       "a note that does not hold two addresses and strings");
	row.name = hyphenate_name(reading, row.name);
	if (!row.name)
		return -ENOMEM;
	row.function = function_at(parsing, function);
	if (!row.function)
		return dof_note_refuse(parsing, -EINVAL, note->offset,
				       "the function's name, at 0x%" PRIx64 ", is not in .rodata", function);
	if (reading->rows.count < reading->rows.room)
		reading->arg_counts[reading->rows.count] = arg_count;
	return dof_rows_add(&reading->rows, note->offset, &row);
}

static int take_usdt_note(void *ctx, const struct note *note)
{
	struct reading *reading = ctx;

	if (is_note_named(note, "usdt") && (note->type == SITE_FIRES || note->type == SITE_ASKS))
		return take_site(reading, note);
	if (is_note_named(note, "prov") && note->type == PROVIDER)
		return take_provider(reading, note);
	return 0; /* ignore "dver" and unknown notes */
}

/* Must be called before the rows are sorted. */
static int check_declared(const struct reading *reading)
{
	for (uint32_t i = 0; i < reading->rows.count; i++) {
		const struct note_row *row = &reading->rows.rows[i];
		const struct declared *declared = find_declared(reading, row);

		if (!declared)
			return fault(reading->parsing->why, -EINVAL,
				     "provider %s does not have the probe %s that function %s fires", row->provider,
				     row->name, row->function);
		/* an is-enabled site may pass one argument: the address of its result */
		if (declared->native_count != reading->arg_counts[i] && (!row->is_enabled || reading->arg_counts[i] != 1))
			return fault(reading->parsing->why, -EINVAL,
				     "%s:%s has %u arguments, %u where function %s fires it", row->provider, row->name,
				     declared->native_count, reading->arg_counts[i], row->function);
	}
	return 0;
}

static void get_declared_types(const void *ctx, const struct note_row *row, struct note_types *types)
{
	const struct declared *declared = find_declared(ctx, row);
	struct note_bytes native = declared->native, translated = declared->translated;
	bool fits = true;

	types->native_count = declared->native_count;
	types->translated_count = declared->translated_count;
	for (uint32_t i = 0; i < types->native_count; i++)
		fits &= dof_note_take_text(&native, &types->native[i]);
	for (uint32_t i = 0; i < types->translated_count; i++)
		fits &= dof_note_take_text(&translated, &types->translated[i]) &&
			dof_note_take(&translated, &types->map[i], 1);
	must(fits); /* take_types() checked it */
	must(native.at == declared->native.end && translated.at == declared->translated.end);
}

static const uint32_t *get_declared_attributes(const void *ctx, const char *provider)
{
	const struct reading *reading = ctx;
	struct declared_provider key = { .name = provider };
	const struct declared_provider *found = find_sorted(&key, reading->providers, reading->provider_count, sizeof(key),
							    compare_declared_providers);

	must(found); /* a probe of it was found, so the provider exists */
	return found->attributes;
}

/* ---- parsing ---- */

static int take_tables(struct reading *reading)
{
	struct dof_memory *memory = reading->parsing->memory;
	uint64_t bytes = reading->parsing->input->blocks[0].bytes;
	int rc = dof_rows_init(&reading->rows, reading->parsing, bytes / NOTE_BYTES_MIN + 1);

	if (rc)
		return rc;
	reading->declared_room = (uint32_t)min_u64(bytes / DECLARED_BYTES_MIN + 1, reading->parsing->limits.probes_max);
	reading->provider_room = (uint32_t)(bytes / (12 + 4 + 24) + 1);
	reading->arg_counts = dof_memory_take(memory, reading->rows.room, 1);
	reading->declared = dof_memory_take(memory, reading->declared_room, sizeof(*reading->declared));
	reading->providers = dof_memory_take(memory, reading->provider_room, sizeof(*reading->providers));
	return reading->arg_counts && reading->declared && reading->providers ? 0 : -ENOMEM;
}

int dof_parse_usdt(const struct dof_parsing *parsing, struct dof_set *set_ret)
{
	struct reading reading = { .parsing = parsing };
	int rc = take_tables(&reading);

	if (rc)
		return rc;
	reading.rows.types = get_declared_types;
	reading.rows.attributes = get_declared_attributes;
	reading.rows.ctx = &reading;
	rc = dof_notes_walk(parsing, take_usdt_note, &reading);
	if (rc == 0)
		rc = order_declared(&reading);
	if (rc == 0)
		rc = check_declared(&reading);
	if (rc == 0)
		rc = dof_rows_sort(&reading.rows);
	return rc ? rc : dof_rows_make_set(&reading.rows, set_ret);
}
