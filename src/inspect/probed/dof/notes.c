/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/dof/notes.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"

/* Arguments and sites per probe, on average. */
enum { PARTS_PER_PROBE_MAX = 16 };
/* one walk reads the notes of both classes */
static_assert(sizeof(Elf64_Nhdr) == sizeof(Elf32_Nhdr), "");
static_assert(offsetof(Elf64_Nhdr, n_type) == offsetof(Elf32_Nhdr, n_type), "");

int dof_note_refuse(const struct dof_parsing *parsing, int error, uint64_t offset, const char *format, ...)
{
	char text[FAULT_TEXT_BYTES_MAX / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return fault(parsing->why, error, "at 0x%" PRIx64 " of %s: %s", offset,
		     parsing->input->kind == DOF_KIND_SDT ? ".note.stapsdt" : ".note.usdt", text);
}

/* ---- bytes ---- */

bool dof_note_take(struct note_bytes *bytes, void *to, size_t count)
{
	must(bytes->at <= bytes->end);
	if (count > (size_t)(bytes->end - bytes->at))
		return false;
	memcpy(to, bytes->at, count);
	bytes->at += count;
	return true;
}

bool dof_note_take_text(struct note_bytes *bytes, const char **text_ret)
{
	const char *nul = memchr(bytes->at, '\0', (size_t)(bytes->end - bytes->at));

	if (!nul)
		return false;
	*text_ret = bytes->at;
	bytes->at = nul + 1;
	must(bytes->at <= bytes->end);
	return true;
}

int dof_notes_walk(const struct dof_parsing *parsing, int (*visit)(void *ctx, const struct note *note), void *ctx)
{
	const struct dof_block *block = &parsing->input->blocks[0];
	const char *start = block->data;
	uint64_t at = 0;
	int rc = 0;

	while (rc == 0 && at < block->bytes) {
		struct note note = { .offset = at };
		uint64_t left, name_room, desc_room;
		Elf64_Nhdr header; /* same layout as Elf32_Nhdr */

		if (block->bytes - at < sizeof(header))
			return dof_note_refuse(parsing, -EINVAL, at, "the section ends within a note's header");
		memcpy(&header, start + at, sizeof(header));
		at += sizeof(header);
		left = block->bytes - at;
		name_room = round_up(header.n_namesz, 4);
		desc_room = round_up(header.n_descsz, 4);
		/* the last note may lack its padding */
		if (name_room > left || header.n_descsz > left - name_room)
			return dof_note_refuse(parsing, -EINVAL, note.offset,
					       "a note of %" PRIu64 " bytes, of which the section has %" PRIu64 "",
					       name_room + desc_room, left);
		note.type = header.n_type;
		note.name = start + at;
		note.name_bytes = header.n_namesz;
		note.desc.at = start + at + name_room;
		note.desc.end = note.desc.at + header.n_descsz;
		at += name_room + min_u64(desc_room, left - name_room);
		must(at <= block->bytes);
		must(note.desc.end <= start + at);
		rc = visit(ctx, &note);
	}
	return rc;
}

/* ---- rows ---- */

int dof_rows_init(struct note_rows *rows, const struct dof_parsing *parsing, uint64_t count_max)
{
	uint64_t limit = (uint64_t)parsing->limits.probes_max * PARTS_PER_PROBE_MAX;

	*rows = (struct note_rows){ .parsing = parsing, .room = (uint32_t)min_u64(count_max, limit) };
	rows->rows = dof_memory_take(parsing->memory, rows->room, sizeof(*rows->rows));
	return rows->rows ? 0 : -ENOMEM;
}

int dof_rows_add(struct note_rows *rows, uint64_t offset, const struct note_row *row)
{
	const struct dof_parsing *parsing = rows->parsing;
	struct note_row *to;
	uint64_t highest = parsing->input->bits_32 ? UINT32_MAX : UINT64_MAX;

	must(rows->count <= rows->room);
	if (rows->count == rows->room)
		return dof_note_refuse(parsing, -E2BIG, offset, "more than %" PRIu32 " sites", rows->room);
	if (!dof_name_ok(row->provider, DOF_PROVIDER_BYTES))
		return dof_note_refuse(parsing, -EINVAL, offset, "the name of the provider is not valid");
	if (!dof_name_ok(row->name, DOF_NAME_BYTES) || !dof_name_ok(row->function, DOF_FUNCTION_BYTES))
		return dof_note_refuse(parsing, -EINVAL, offset, "the name of a probe or of its function is not valid");
	if (!dof_text_ok(row->args, DOF_SITE_ARGS_BYTES))
		return dof_note_refuse(parsing, -EINVAL, offset, "the arguments of %s:%s cannot be read", row->provider,
				       row->name);
	to = &rows->rows[rows->count++];
	*to = *row;
	if (__builtin_add_overflow(row->address, parsing->input->helper.base, &to->address) || to->address > highest)
		return dof_note_refuse(parsing, -EINVAL, offset, "the address is beyond the data model");
	return 0;
}

/* By probe; result as of strcmp(). */
static int compare_row_probes(const struct note_row *a, const struct note_row *b)
{
	int rc = a->provider == b->provider ? 0 : strcmp(a->provider, b->provider);

	if (rc == 0)
		rc = a->function == b->function ? 0 : strcmp(a->function, b->function);
	return rc ? rc : strcmp(a->name, b->name);
}

static int compare_note_rows(const void *a, const void *b)
{
	const struct note_row *left = a, *right = b;
	int rc = compare_row_probes(left, right);

	if (rc == 0 && left->address != right->address)
		rc = left->address < right->address ? -1 : 1;
	return rc ? rc : left->is_enabled - right->is_enabled;
}

int dof_rows_sort(struct note_rows *rows)
{
	void *scratch = dof_memory_take(rows->parsing->memory, rows->count, sizeof(*rows->rows));
	uint32_t kept = 0;

	if (!scratch)
		return -ENOMEM;
	dof_sort(rows->rows, rows->count, sizeof(*rows->rows), compare_note_rows, scratch);
	for (uint32_t i = 0; i < rows->count; i++) {
		if (kept == 0 || compare_note_rows(&rows->rows[kept - 1], &rows->rows[i]) != 0)
			rows->rows[kept++] = rows->rows[i];
	}
	must(kept <= rows->count);
	must((kept == 0) == (rows->count == 0));
	rows->count = kept;
	return 0;
}

/* ---- the set ---- */

/* The number of sites from `from` on that belong to one probe. */
static uint32_t count_row_sites(const struct note_rows *rows, uint32_t from)
{
	uint32_t end = from + 1;

	must(from < rows->count);
	while (end < rows->count && compare_row_probes(&rows->rows[from], &rows->rows[end]) == 0)
		end++;
	return end - from;
}

static bool begins_provider(const struct note_rows *rows, uint32_t at)
{
	return at == 0 || strcmp(rows->rows[at - 1].provider, rows->rows[at].provider) != 0;
}

static uint64_t measure_types(const char *const *types, uint32_t count)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += strlen(types[i]) + 1;
	return bytes;
}

static void measure_rows(const struct note_rows *rows, struct dof_shape *shape)
{
	struct note_types types;

	*shape = (struct dof_shape){ .sites = rows->count };
	shape->string_bytes = 1 + strlen(rows->parsing->input->helper.module) + 1;
	for (uint32_t at = 0, sites; at < rows->count; at += sites) {
		const struct note_row *row = &rows->rows[at];

		sites = count_row_sites(rows, at);
		rows->types(rows->ctx, row, &types);
		must(types.native_count <= DOF_ARGS_MAX && types.translated_count <= DOF_ARGS_MAX);
		if (begins_provider(rows, at)) {
			shape->providers++;
			shape->string_bytes += strlen(row->provider) + 1;
		}
		shape->probes++;
		shape->types += types.native_count + types.translated_count;
		shape->map_bytes += types.translated_count;
		shape->string_bytes += strlen(row->function) + 1 + strlen(row->name) + 1 +
				       measure_types(types.native, types.native_count) +
				       measure_types(types.translated, types.translated_count);
		for (uint32_t i = 0; i < sites; i++)
			shape->string_bytes += row[i].args[0] ? strlen(row[i].args) + 1 : 0;
	}
}

static const char *put_layout_text(struct dof_layout *layout, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *to = layout->strings;

	memcpy(to, text, bytes);
	layout->strings += bytes;
	return to;
}

static const char *const *put_types(struct dof_layout *layout, const char *const *types, uint32_t count)
{
	const char **to = layout->types;

	for (uint32_t i = 0; i < count; i++)
		to[i] = put_layout_text(layout, types[i]);
	layout->types += count;
	return to;
}

/* `empty`: an empty string in the set. */
static void fill_noted_probe(const struct note_rows *rows, const struct note_row *row, uint32_t sites, const char *module,
			     const char *empty, struct dof_layout *layout)
{
	struct dof_probe *probe = layout->probes++;
	struct note_types types;

	rows->types(rows->ctx, row, &types);
	*probe = (struct dof_probe){
		.module = module,
		.function = put_layout_text(layout, row->function),
		.name = put_layout_text(layout, row->name),
		.native_count = types.native_count,
		.translated_count = types.translated_count,
		.native = put_types(layout, types.native, types.native_count),
		.translated = put_types(layout, types.translated, types.translated_count),
		.map = layout->map,
		.site_count = sites,
		.sites = layout->sites,
	};
	memcpy(layout->map, types.map, types.translated_count);
	layout->map += types.translated_count;
	for (uint32_t i = 0; i < sites; i++)
		*layout->sites++ = (struct dof_site){ .address = row[i].address,
						      .is_enabled = row[i].is_enabled,
						      .args = row[i].args[0] ? put_layout_text(layout, row[i].args)
									     : empty };
}

int dof_rows_make_set(const struct note_rows *rows, struct dof_set *set_ret)
{
	const uint64_t parts_max = (uint64_t)rows->parsing->limits.probes_max * PARTS_PER_PROBE_MAX;
	struct dof_provider *provider = NULL;
	struct dof_layout layout;
	struct dof_shape shape;
	const char *module, *empty;
	int rc;

	measure_rows(rows, &shape);
	if (shape.probes > rows->parsing->limits.probes_max || shape.types > parts_max || shape.string_bytes > UINT32_MAX)
		return dof_note_refuse(rows->parsing, -E2BIG, 0,
				       "%" PRIu64 " probes with %" PRIu64 " types; %" PRIu32 " probes are allowed",
				       shape.probes, shape.types, rows->parsing->limits.probes_max);
	rc = dof_layout_make(rows->parsing->memory, &shape, set_ret, &layout);
	if (rc)
		return rc;
	empty = put_layout_text(&layout, "");
	module = put_layout_text(&layout, rows->parsing->input->helper.module);
	for (uint32_t at = 0, sites; at < rows->count; at += sites) {
		const struct note_row *row = &rows->rows[at];

		sites = count_row_sites(rows, at);
		if (begins_provider(rows, at)) {
			provider = layout.providers++;
			*provider = (struct dof_provider){ .name = put_layout_text(&layout, row->provider),
							   .probes = layout.probes };
			memcpy(provider->attributes, rows->attributes(rows->ctx, row->provider),
			       sizeof(provider->attributes));
		}
		fill_noted_probe(rows, row, sites, module, empty, &layout);
		must(provider);
		provider->probe_count++;
	}
	dof_layout_check_filled(&layout, &shape, set_ret);
	must(layout.strings == (char *)layout.map + shape.string_bytes); /* the strings follow the maps */
	return 0;
}
