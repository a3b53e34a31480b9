/* SPDX-License-Identifier: BSD-2-Clause */
/* object - reads objects of the program's memory by the layout. */
#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/core/internal.h"
#include "inspect/core/layout.h"

enum { WALK_MAX = 1 << 20, TEXT_BYTES_MAX = 1024, ISTR_TEXT = 4 };

const uint8_t *core_object_of(struct core_layout *layout, uint64_t address, enum core_structure structure)
{
	return address ? core_object(layout->core, address, layout->structure_bytes[structure]) : NULL;
}

uint64_t core_number(const struct core_layout *layout, const uint8_t *object, enum core_field field)
{
	const struct core_place *place = &layout->fields[field];
	uint64_t value = 0;

	if (place->bytes == 0 || place->bytes > sizeof(value))
		return 0;
	/* constant sizes are loads, not calls */
	switch (place->bytes) {
	case 8:
		memcpy(&value, object + place->offset, 8);
		return value;
	case 4:
		memcpy(&value, object + place->offset, 4);
		break;
	case 1:
		memcpy(&value, object + place->offset, 1);
		break;
	default:
		memcpy(&value, object + place->offset, place->bytes);
		break;
	}
	if (place->is_signed && place->bytes < sizeof(value) && (value >> (8 * place->bytes - 1)))
		value |= UINT64_MAX << (8 * place->bytes);
	return value;
}

const uint8_t *core_part_of(const struct core_layout *layout, const uint8_t *object, enum core_field field)
{
	return object + layout->fields[field].offset;
}

/* A copy: it is read again when the list is printed, and the objects are far apart in memory. */
const char *core_chars(struct core_layout *layout, const uint8_t *object, enum core_field field)
{
	const struct core_place *place = &layout->fields[field];

	return core_keep_text(layout->core, (const char *)object + place->offset, place->bytes);
}

static const char *text_at(struct core_layout *layout, uint64_t address)
{
	char text[TEXT_BYTES_MAX];

	if (address == layout->last_text_at && layout->last_text)
		return layout->last_text;
	(void)core_read_text(layout->core, address, text, sizeof(text)); /* "" if it is not in the core */
	layout->last_text_at = address;
	layout->last_text = core_keep_text(layout->core, text, sizeof(text));
	return layout->last_text;
}

const char *core_pointed_text(struct core_layout *layout, const uint8_t *object, enum core_field field)
{
	uint64_t address = core_number(layout, object, field);

	return address ? text_at(layout, address) : "";
}

const char *core_interned_text(struct core_layout *layout, const uint8_t *object, enum core_field field)
{
	uint64_t address = core_number(layout, object, field);

	return address ? text_at(layout, address + ISTR_TEXT) : "";
}

/* ---- enums ---- */

static bool read_value(Dwarf_Die *enumerator, int64_t *value_ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Sword number = 0;
	Dwarf_Word bits = 0;

	if (!dwarf_attr(enumerator, DW_AT_const_value, &attribute))
		return false;
	/* forms of a fixed size: compilers use them for values that are not negative */
	if (dwarf_whatform(&attribute) == DW_FORM_sdata || dwarf_whatform(&attribute) == DW_FORM_implicit_const) {
		if (dwarf_formsdata(&attribute, &number) != 0)
			return false;
		*value_ret = number;
		return true;
	}
	if (dwarf_formudata(&attribute, &bits) != 0)
		return false;
	*value_ret = (int64_t)bits;
	return true;
}

static void read_names(struct core *core, Dwarf_Die *type, struct core_enum_names *names)
{
	uint32_t room = 0;
	Dwarf_Die child;
	size_t common = 0;
	bool more;

	for (more = dwarf_child(type, &child) == 0; more; more = dwarf_siblingof(&child, &child) == 0)
		room += dwarf_tag(&child) == DW_TAG_enumerator;
	names->rows = core_keep(core, (room + 1) * sizeof(*names->rows));
	for (more = dwarf_child(type, &child) == 0; more; more = dwarf_siblingof(&child, &child) == 0) {
		struct core_enum_name *row = &names->rows[names->count];
		int64_t value;

		if (dwarf_tag(&child) != DW_TAG_enumerator || !dwarf_diename(&child) || !read_value(&child, &value))
			continue;
		*row = (struct core_enum_name){ value, dwarf_diename(&child) };
		names->count++;
	}
	/* the prefix that all have, up to its last "_" */
	for (size_t at = 0; names->count > 1 && names->rows[0].name[at]; at++) {
		for (uint32_t i = 1; i < names->count; i++) {
			if (names->rows[i].name[at] != names->rows[0].name[at])
				goto found;
		}
		if (names->rows[0].name[at] == '_')
			common = at + 1;
	}
found:
	for (uint32_t i = 0; i < names->count; i++)
		names->rows[i].name += common;
}

static const char *find_name(const struct core_enum_names *names, int64_t value)
{
	for (uint32_t i = 0; i < names->count; i++) {
		if (names->rows[i].value == value)
			return names->rows[i].name;
	}
	return NULL;
}

const char *core_enum_value_text(struct core_layout *layout, enum core_enum number, int64_t value)
{
	struct core_enum_names *names = &layout->names[number];

	if (!names->rows && layout->has_enum[number])
		read_names(layout->core, &layout->enums[number], names);
	return find_name(names, value);
}

const char *core_enum_text(struct core_layout *layout, const uint8_t *object, enum core_field field)
{
	struct core_enum_names *names = &layout->names[CORE_ENUMS + field];
	uint64_t value = core_number(layout, object, field);
	const char *name;
	char number[24];

	if (!names->rows && layout->fields[field].is_enum)
		read_names(layout->core, &layout->fields[field].type, names);
	name = find_name(names, (int64_t)value);
	if (name)
		return name;
	snprintf(number, sizeof(number), "%ld", (long)value);
	return core_keep_text(layout->core, number, sizeof(number));
}

/* ---- lists ---- */

struct core_walk core_walk_begin(const uint8_t *head, enum core_structure structure, enum core_field link)
{
	struct core_walk walk = { .structure = structure, .link = link };

	/* the first member of a list's head, and of a link, is the next element */
	if (head)
		memcpy(&walk.at, head, sizeof(walk.at));
	return walk;
}

/* Load the next element into the processor's cache while the caller reads this one: a walk mostly waits for memory. */
static void look_ahead(struct core_layout *layout, struct core_walk *walk)
{
	walk->element = walk->at ? core_saved(layout->core, walk->at, layout->structure_bytes[walk->structure]) : NULL;
	for (uint64_t lines = walk->element ? layout->structure_lines[walk->structure] : 0; lines; lines &= lines - 1)
		__builtin_prefetch(walk->element + (size_t)CORE_LINE_BYTES * (size_t)__builtin_ctzll(lines));
}

const uint8_t *core_walk_next(struct core_layout *layout, struct core_walk *walk, uint64_t *address_ret)
{
	const uint8_t *object;

	if (!walk->at)
		return NULL;
	object = walk->element ? walk->element : core_object_of(layout, walk->at, walk->structure);
	if (!object || !layout->fields[walk->link].bytes || walk->seen == WALK_MAX) {
		walk->is_broken = true;
		return NULL;
	}
	walk->seen++;
	if (address_ret)
		*address_ret = walk->at;
	memcpy(&walk->at, core_part_of(layout, object, walk->link), sizeof(walk->at));
	look_ahead(layout, walk);
	return object;
}
