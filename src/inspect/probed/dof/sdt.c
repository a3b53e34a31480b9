/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sdt - .note.stapsdt. A note is a site:
 *
 *   address, address of .stapsdt.base when it was linked, address of a semaphore or 0, provider, name, arguments
 *
 * prelink may have moved the file since: by the difference between the current address of .stapsdt.base and the one in the
 * note. Notes do not contain the function; of arguments they contain only size and signedness.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/probed/dof/notes.h"

enum { NOTE_TYPE_SDT = 3, ADDRESSES = 3, NOTE_BYTES_MIN = 12 + 8 + ADDRESSES * 4 + 4 };
static_assert(DOF_ARGS_MAX <= UINT8_MAX, "a map holds the index of an argument in 8 bits");

static const char *type_of(const char *arg, size_t bytes)
{
	static const struct {
		const char *width, *type;
	} types[] = { { "1", "uint8_t" },  { "-1", "int8_t" },	{ "2", "uint16_t" }, { "-2", "int16_t" },
		      { "4", "uint32_t" }, { "-4", "int32_t" }, { "8", "uint64_t" }, { "-8", "int64_t" },
		      { "4f", "float" },   { "8f", "double" },	{ "-4f", "float" },  { "-8f", "double" } };
	const char *at_sign = memchr(arg, '@', bytes);
	size_t width = at_sign ? (size_t)(at_sign - arg) : 0;

	for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
		if (strlen(types[i].width) == width && memcmp(types[i].width, arg, width) == 0)
			return types[i].type;
	}
	return "";
}

/* "8@%rbx -4@$1 ...". */
static void get_sdt_types(const void *unused, const struct note_row *row, struct note_types *types)
{
	const char *at = row->args + strspn(row->args, " ");

	types->native_count = 0;
	while (*at && types->native_count < DOF_ARGS_MAX) {
		size_t bytes = strcspn(at, " ");

		types->map[types->native_count] = (uint8_t)types->native_count;
		types->translated[types->native_count] = types->native[types->native_count] = type_of(at, bytes);
		types->native_count++;
		at += bytes;
		at += strspn(at, " ");
	}
	types->translated_count = types->native_count;
}

static const uint32_t *get_sdt_attributes(const void *unused, const char *provider)
{
	static const uint32_t none[DOF_ATTRIBUTES];

	return none;
}

static bool take_address(const struct dof_parsing *parsing, struct note_bytes *bytes, uint64_t *address_ret)
{
	*address_ret = 0;
	return dof_note_take(bytes, address_ret, parsing->input->bits_32 ? sizeof(uint32_t) : sizeof(uint64_t));
}

static int take_sdt_note(void *ctx, const struct note *note)
{
	struct note_rows *rows = ctx;
	const struct dof_parsing *parsing = rows->parsing;
	struct note_bytes bytes = note->desc;
	uint64_t base, semaphore, highest = parsing->input->bits_32 ? UINT32_MAX : UINT64_MAX;
	struct note_row row = { .function = "-" };

	/* the section may contain other notes */
	if (note->name_bytes != sizeof("stapsdt") || memcmp(note->name, "stapsdt", sizeof("stapsdt")) != 0 ||
	    note->type != NOTE_TYPE_SDT)
		return 0;
	if (!take_address(parsing, &bytes, &row.address) || !take_address(parsing, &bytes, &base) ||
	    !take_address(parsing, &bytes, &semaphore) || !dof_note_take_text(&bytes, &row.provider) ||
	    !dof_note_take_text(&bytes, &row.name) || !dof_note_take_text(&bytes, &row.args))
		return dof_note_refuse(parsing, -EINVAL, note->offset,
				       "a note that does not hold three addresses and strings");
	/* the difference may be negative: unsigned wrap-around gives the correct sum */
	if (base && parsing->input->note_base)
		row.address = (row.address + parsing->input->note_base - base) & highest;
	return dof_rows_add(rows, note->offset, &row);
}

int dof_parse_sdt(const struct dof_parsing *parsing, struct dof_set *set_ret)
{
	struct note_rows rows;
	int rc = dof_rows_init(&rows, parsing, parsing->input->blocks[0].bytes / NOTE_BYTES_MIN + 1);

	if (rc)
		return rc;
	rows.types = get_sdt_types;
	rows.attributes = get_sdt_attributes;
	rc = dof_notes_walk(parsing, take_sdt_note, &rows);
	if (rc == 0)
		rc = dof_rows_sort(&rows);
	return rc ? rc : dof_rows_make_set(&rows, set_ret);
}
