/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layout - finds what fields.def names in a program's debug information.
 *
 * It walks over the top-level entries of all units until everything is found. A structure of another file may have the same
 * tag: one that has all fields, of the right types, is taken.
 */
#include "inspect/core/layout.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/core/internal.h"

enum { ENGINE = CORE_ENGINE, SERVER = CORE_SERVER, BOTH = CORE_BOTH, TYPE_LINKS_MAX = 16, TYPE_BYTES = 128 };

struct variable_row {
	const char *id, *name, *file;
	uint8_t program;
};

struct named_row {
	const char *name;
	uint8_t program;
};

struct field_row {
	enum core_structure structure;
	const char *name, *type;
};

#define ENUM(tag, program)
#define STRUCTURE(tag, program)
#define FIELD(tag, name, type)
#define VARIABLE(id, name, file, program) { #id, #name, file, program },
static const struct variable_row variables[] = {
#include "inspect/core/fields.def"
};
#undef VARIABLE
#define VARIABLE(id, name, file, program)
#undef ENUM
#define ENUM(tag, program) { #tag, program },
static const struct named_row enums[] = {
#include "inspect/core/fields.def"
};
#undef ENUM
#define ENUM(tag, program)
#undef STRUCTURE
#define STRUCTURE(tag, program) { #tag, program },
static const struct named_row structures[] = {
#include "inspect/core/fields.def"
};
#undef STRUCTURE
#define STRUCTURE(tag, program)
#undef FIELD
#define FIELD(tag, name, type) { CORE_STRUCTURE_##tag, #name, type },
static const struct field_row fields[] = {
#include "inspect/core/fields.def"
};

#define VARIABLE_PREFIX "variable_"

/* ---- types ---- */

static bool type_of(Dwarf_Die *die, Dwarf_Die *type_ret)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, DW_AT_type, &attribute) && dwarf_formref_die(&attribute, type_ret);
}

static bool is_qualifier(int tag)
{
	return tag == DW_TAG_const_type || tag == DW_TAG_volatile_type || tag == DW_TAG_atomic_type ||
	       tag == DW_TAG_restrict_type;
}

static void add_text(char *to, const char *text)
{
	size_t used = strlen(to);

	snprintf(to + used, TYPE_BYTES - used, "%s", text);
}

static uint64_t array_count(Dwarf_Die *array)
{
	Dwarf_Attribute attribute;
	Dwarf_Word bound = 0;
	Dwarf_Die range;

	if (dwarf_child(array, &range) != 0)
		return 0;
	if (dwarf_attr(&range, DW_AT_count, &attribute) && dwarf_formudata(&attribute, &bound) == 0)
		return bound;
	return dwarf_attr(&range, DW_AT_upper_bound, &attribute) && dwarf_formudata(&attribute, &bound) == 0 ? bound + 1
													     : 0;
}

/* "struct bdev *", "char[256]", "uint32_t", "enum io_type": the name of a typedef, without qualifiers. */
static void spell_type(Dwarf_Die *type, char *to, int links)
{
	int tag = dwarf_tag(type);
	Dwarf_Die target;
	const char *name;
	char number[32];

	while (is_qualifier(tag) && links++ < TYPE_LINKS_MAX) {
		if (!type_of(type, &target)) {
			add_text(to, "void");
			return;
		}
		*type = target;
		tag = dwarf_tag(type);
	}
	name = dwarf_diename(type);
	if ((tag == DW_TAG_pointer_type || tag == DW_TAG_array_type) && links < TYPE_LINKS_MAX) {
		if (type_of(type, &target))
			spell_type(&target, to, links + 1);
		else
			add_text(to, "void");
		snprintf(number, sizeof(number), tag == DW_TAG_array_type ? "[%lu]" : " *",
			 tag == DW_TAG_array_type ? (unsigned long)array_count(type) : 0ul);
		add_text(to, number);
		return;
	}
	add_text(to, tag == DW_TAG_structure_type     ? "struct"
		     : tag == DW_TAG_enumeration_type ? "enum"
		     : tag == DW_TAG_union_type	      ? "union"
						      : "");
	if (name && to[0] && !strchr(to, '*'))
		add_text(to, " ");
	if (name)
		add_text(to, strcmp(name, "_Bool") == 0 ? "bool" : name);
}

/* Size, sign and enum of a type that is stored. False: not known. */
static bool read_kind(Dwarf_Die *type, struct core_place *place)
{
	Dwarf_Word bytes = 0, encoding = 0;
	Dwarf_Attribute attribute;
	Dwarf_Die at = *type;

	for (int links = 0; links < TYPE_LINKS_MAX && (is_qualifier(dwarf_tag(&at)) || dwarf_tag(&at) == DW_TAG_typedef);
	     links++) {
		Dwarf_Die target;

		if (!type_of(&at, &target))
			return false;
		at = target;
	}
	if (dwarf_aggregate_size(&at, &bytes) != 0 || bytes == 0 || bytes > UINT32_MAX)
		return false;
	if (dwarf_attr(&at, DW_AT_encoding, &attribute))
		(void)dwarf_formudata(&attribute, &encoding);
	place->bytes = (uint32_t)bytes;
	place->is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
	place->is_enum = dwarf_tag(&at) == DW_TAG_enumeration_type;
	place->type = at;
	return true;
}

static bool read_member(Dwarf_Die *member, const struct field_row *row, struct core_place *place)
{
	char spelled[TYPE_BYTES] = "";
	Dwarf_Attribute attribute;
	Dwarf_Word offset = 0;
	Dwarf_Die type;

	if (!type_of(member, &type) || !read_kind(&type, place))
		return false;
	if (dwarf_attr(member, DW_AT_data_member_location, &attribute) && dwarf_formudata(&attribute, &offset) != 0)
		return false;
	place->offset = (uint32_t)offset;
	spell_type(&type, spelled, 0);
	return strcmp(spelled, row->type) == 0;
}

/* ---- structures ---- */

/* Read the fields of `structure` from `die`. If it lacks some, they are taken from another definition with this tag. */
static void read_structure(struct core_layout *layout, enum core_structure structure, Dwarf_Die *die)
{
	struct core_place places[CORE_FIELDS];
	const char *missing = NULL;
	Dwarf_Word bytes = 0;
	uint32_t first = 0, count = 0;

	while (first < CORE_FIELDS && fields[first].structure != structure)
		first++;
	while (first + count < CORE_FIELDS && fields[first + count].structure == structure)
		count++;
	memset(places, 0, count * sizeof(*places));
	if (dwarf_aggregate_size(die, &bytes) != 0 || bytes == 0 || bytes > UINT32_MAX)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const struct field_row *row = &fields[first + i];
		bool found = false, more;
		Dwarf_Die member;

		for (more = dwarf_child(die, &member) == 0; more && !found;
		     more = !found && dwarf_siblingof(&member, &member) == 0) {
			const char *name = dwarf_tag(&member) == DW_TAG_member ? dwarf_diename(&member) : NULL;

			if (name && strcmp(name, row->name) == 0)
				found = read_member(&member, row, &places[i]);
		}
		if (!found || (uint64_t)places[i].offset + places[i].bytes > bytes) {
			places[i] = (struct core_place){ 0 };
			missing = row->name;
		}
	}
	if (missing && layout->structure_bytes[structure])
		return; /* an earlier definition is at least as good */
	layout->wrong[structure] = missing;
	layout->structure_bytes[structure] = (uint32_t)bytes;
	memcpy(&layout->fields[first], places, count * sizeof(*places));
	layout->structure_lines[structure] = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (places[i].offset / CORE_LINE_BYTES < 64)
			layout->structure_lines[structure] |= (uint64_t)1 << places[i].offset / CORE_LINE_BYTES;
	}
}

static bool is_complete(const struct core_layout *layout, uint32_t structure)
{
	return layout->structure_bytes[structure] && !layout->wrong[structure];
}

/* ---- units ---- */

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	return length >= tail && strcmp(text + length - tail, end) == 0;
}

static void read_variable(struct core_layout *layout, enum core_variable number, Dwarf_Die *die, uint64_t bias)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *steps;
	Dwarf_Die type;
	size_t count;

	if (!dwarf_attr(die, DW_AT_location, &attribute) || dwarf_getlocation(&attribute, &steps, &count) != 0 ||
	    count != 1 || steps->atom != DW_OP_addr)
		return;
	layout->variables[number] = steps->number + bias;
	for (uint32_t i = 0; i < CORE_STRUCTURES; i++) {
		const char *name = structures[i].name;

		if (strncmp(name, VARIABLE_PREFIX, strlen(VARIABLE_PREFIX)) == 0 &&
		    strcmp(name + strlen(VARIABLE_PREFIX), variables[number].id) == 0 && type_of(die, &type)) {
			for (int links = 0;
			     links < TYPE_LINKS_MAX && is_qualifier(dwarf_tag(&type)) && type_of(&type, &type); links++)
				;
			read_structure(layout, i, &type);
		}
	}
}

/* The variables of this unit, as bits. */
static uint32_t variables_of_unit(const struct core_layout *layout, const char *file)
{
	uint32_t bits = 0;

	for (uint32_t i = 0; i < CORE_VARIABLES; i++) {
		if ((variables[i].program & layout->program) && !layout->variables[i] && ends_with(file, variables[i].file))
			bits |= 1u << i;
	}
	return bits;
}

static void read_entry(struct core_layout *layout, Dwarf_Die *die, uint32_t wanted, uint64_t bias)
{
	int tag = dwarf_tag(die);
	const char *name;

	if (tag != DW_TAG_structure_type && tag != DW_TAG_enumeration_type && !(tag == DW_TAG_variable && wanted))
		return;
	name = dwarf_diename(die);
	if (!name)
		return;
	if (tag == DW_TAG_variable) {
		for (uint32_t i = 0; i < CORE_VARIABLES; i++) {
			if ((wanted >> i & 1) && strcmp(name, variables[i].name) == 0)
				read_variable(layout, i, die, bias);
		}
		return;
	}
	for (uint32_t i = 0; tag == DW_TAG_structure_type && i < CORE_STRUCTURES; i++) {
		if (name[0] == structures[i].name[0] && !is_complete(layout, i) && strcmp(name, structures[i].name) == 0 &&
		    !dwarf_hasattr(die, DW_AT_declaration))
			read_structure(layout, i, die);
	}
	for (uint32_t i = 0; tag == DW_TAG_enumeration_type && i < CORE_ENUMS; i++) {
		if (!layout->has_enum[i] && strcmp(name, enums[i].name) == 0) {
			layout->has_enum[i] = true;
			layout->enums[i] = *die;
		}
	}
}

static bool is_all_found(const struct core_layout *layout)
{
	for (uint32_t i = 0; i < CORE_VARIABLES; i++) {
		if ((variables[i].program & layout->program) && !layout->variables[i])
			return false;
	}
	for (uint32_t i = 0; i < CORE_STRUCTURES; i++) {
		if ((structures[i].program & layout->program) && !is_complete(layout, i))
			return false;
	}
	for (uint32_t i = 0; i < CORE_ENUMS; i++) {
		if ((enums[i].program & layout->program) && !layout->has_enum[i])
			return false;
	}
	return true;
}

void core_read_layout(struct core_layout *layout, Dwarf *dwarf, uint64_t bias)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die top, die;

	while (!is_all_found(layout) && dwarf_get_units(dwarf, unit, &unit, NULL, NULL, &top, NULL) == 0) {
		const char *file = dwarf_diename(&top);
		uint32_t wanted = file ? variables_of_unit(layout, file) : 0;

		if (dwarf_child(&top, &die) != 0)
			continue;
		do {
			read_entry(layout, &die, wanted, bias);
		} while (dwarf_siblingof(&die, &die) == 0);
	}
}

const char *core_layout_problem(const struct core_layout *layout, const enum core_structure *structures_used)
{
	char text[256];

	for (; *structures_used != CORE_STRUCTURES; structures_used++) {
		uint32_t i = *structures_used;

		if (is_complete(layout, i))
			continue;
		if (layout->structure_bytes[i])
			snprintf(text, sizeof(text),
				 "struct %s of this program has another %s: it is of another version than this command",
				 structures[i].name, layout->wrong[i]);
		else
			snprintf(text, sizeof(text),
				 "the program has no struct %s: it is of another version than this command",
				 structures[i].name);
		return core_keep_text(layout->core, text, sizeof(text));
	}
	return NULL;
}

int core_layout_report(const struct core_layout *layout)
{
	int count = 0;

	for (uint32_t i = 0; i < CORE_VARIABLES; i++) {
		if (!(variables[i].program & layout->program) || layout->variables[i])
			continue;
		fprintf(stderr, "there is no variable %s in %s\n", variables[i].name, variables[i].file);
		count++;
	}
	for (uint32_t i = 0; i < CORE_STRUCTURES; i++) {
		if (!(structures[i].program & layout->program) || is_complete(layout, i))
			continue;
		fprintf(stderr, "struct %s: %s\n", structures[i].name,
			layout->wrong[i] ? layout->wrong[i] : "there is none");
		count++;
	}
	for (uint32_t i = 0; i < CORE_ENUMS; i++) {
		if (!(enums[i].program & layout->program) || layout->has_enum[i])
			continue;
		fprintf(stderr, "there is no enum %s\n", enums[i].name);
		count++;
	}
	return count;
}
