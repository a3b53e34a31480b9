/* SPDX-License-Identifier: BSD-2-Clause */
/* find - walks over the top-level entries of all units. Declarations inside functions have no name outside of them. */
#include <ctype.h>
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/types/internal.h"

/* ---- one DIE ---- */

bool die_number(Dwarf_Die *die, unsigned int name, Dwarf_Word *number_ret)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, name, &attribute) && dwarf_formudata(&attribute, number_ret) == 0;
}

void die_value(Dwarf_Die *die, int64_t *value_ret, bool *negative_ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Sword value = 0;
	Dwarf_Word bits = 0;
	bool is_signed;

	*value_ret = 0;
	*negative_ret = false;
	if (!dwarf_attr(die, DW_AT_const_value, &attribute))
		return;
	/* forms with a fixed size: compilers use them for values that are not negative */
	is_signed = dwarf_whatform(&attribute) == DW_FORM_sdata || dwarf_whatform(&attribute) == DW_FORM_implicit_const;
	if (is_signed && dwarf_formsdata(&attribute, &value) == 0)
		*negative_ret = value < 0;
	else if (!is_signed && dwarf_formudata(&attribute, &bits) == 0)
		value = (int64_t)bits;
	*value_ret = value;
}

const char *die_name(Dwarf_Die *die)
{
	const char *name = dwarf_diename(die);

	if (!name || !*name || isdigit((unsigned char)*name))
		return NULL;
	for (const char *at = name; *at; at++) {
		if (!isalnum((unsigned char)*at) && *at != '_')
			return NULL;
	}
	return name;
}

bool die_is_compound(Dwarf_Die *die)
{
	return dwarf_tag(die) == DW_TAG_structure_type || dwarf_tag(die) == DW_TAG_union_type;
}

bool die_next(Dwarf_Die *die)
{
	const void *before = die->addr;

	return dwarf_siblingof(die, die) == 0 && die->addr > before;
}

static const char *file_of(Dwarf_Die *die)
{
	const char *path = dwarf_decl_file(die), *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ? path : "an unknown file";
}

bool die_is_same(Dwarf_Die *one, Dwarf_Die *other)
{
	const char *name = dwarf_diename(one), *other_name = dwarf_diename(other);
	Dwarf_Word bytes = 0, other_bytes = 0;
	int line = 0, other_line = 0;

	if (one->addr == other->addr)
		return true;
	(void)die_number(one, DW_AT_byte_size, &bytes);
	(void)die_number(other, DW_AT_byte_size, &other_bytes);
	(void)dwarf_decl_line(one, &line);
	(void)dwarf_decl_line(other, &other_line);
	if (!name != !other_name || (name && strcmp(name, other_name) != 0) || (!name && !line))
		return false;
	return dwarf_tag(one) == dwarf_tag(other) && bytes == other_bytes && line == other_line &&
	       strcmp(file_of(one), file_of(other)) == 0;
}

/* ---- the walk ---- */

static void add_definition(struct definitions *to, const char *name, Dwarf_Die *die)
{
	if (to->count == 0 || is_power_of_two(to->count)) {
		to->rows = realloc(to->rows, (size_t)(to->count ? to->count : 1) * 2 * sizeof(*to->rows));
		must(to->rows);
	}
	to->rows[to->count++] = (struct definition){ .name = name, .die = *die };
}

static int report_ambiguous(const char *what, const char *name, Dwarf_Die *one, Dwarf_Die *other, struct fathom_fault *why)
{
	int line = 0, other_line = 0;

	(void)dwarf_decl_line(one, &line);
	(void)dwarf_decl_line(other, &other_line);
	return fault(why, -ENOTUNIQ,
		     "%s%s has two definitions, in %s (line %d) and in %s (line %d): declare it in the script", what, name,
		     file_of(one), line, file_of(other), other_line);
}

static int add_enumerators(struct found *found, const struct types_names *words, Dwarf_Die *die, struct fathom_fault *why)
{
	Dwarf_Die child;

	if (dwarf_child(die, &child) != 0)
		return 0;
	do {
		const char *name = dwarf_tag(&child) == DW_TAG_enumerator ? die_name(&child) : NULL;
		struct enumerator row = { .name = name, .die = *die };
		uint32_t i = 0;

		if (!name || !types_names_has(words, name))
			continue;
		die_value(&child, &row.value, &row.negative);
		while (i < found->enumerator_count && strcmp(found->enumerators[i].name, name) != 0)
			i++;
		if (i < found->enumerator_count && found->enumerators[i].value != row.value)
			return report_ambiguous("", name, &found->enumerators[i].die, die, why);
		if (i < found->enumerator_count)
			continue;
		found->enumerators = realloc(found->enumerators, (i + 1) * sizeof(row));
		must(found->enumerators);
		found->enumerators[found->enumerator_count++] = row;
	} while (die_next(&child));
	return 0;
}

static int collect_die(struct found *found, const struct types_wanted *wanted, Dwarf_Die *die, struct fathom_fault *why)
{
	const char *name = die_name(die);

	switch (dwarf_tag(die)) {
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		if (name && !dwarf_hasattr(die, DW_AT_declaration))
			add_definition(&found->compounds, name, die);
		return 0;
	case DW_TAG_enumeration_type:
		if (name && !dwarf_hasattr(die, DW_AT_declaration) && types_names_has(&wanted->enums, name))
			add_definition(&found->enums, name, die);
		return wanted->words.count ? add_enumerators(found, &wanted->words, die, why) : 0;
	case DW_TAG_typedef:
		if (name && types_names_has(&wanted->casts, name))
			add_definition(&found->typedefs, name, die);
		return 0;
	default:
		return 0;
	}
}

static int compare_definitions(const void *left, const void *right)
{
	const struct definition *a = left, *b = right;
	int names = strcmp(a->name, b->name);

	/* equal names in file order, so that the result is always the same */
	return names ? names : a->die.addr < b->die.addr ? -1 : a->die.addr > b->die.addr;
}

/* Keep one definition of each name. Different definitions are an error only if the name is wanted. */
static int join_definitions(struct definitions *definitions, const char *what, const struct types_names *wanted,
			    struct fathom_fault *why)
{
	uint32_t kept = 0;

	if (definitions->count)
		qsort(definitions->rows, definitions->count, sizeof(*definitions->rows), compare_definitions);
	for (uint32_t i = 0; i < definitions->count; i++) {
		struct definition *last = kept ? &definitions->rows[kept - 1] : NULL, *row = &definitions->rows[i];

		if (!last || strcmp(last->name, row->name) != 0)
			definitions->rows[kept++] = *row;
		else if (types_names_has(wanted, row->name) && !die_is_same(&last->die, &row->die))
			return report_ambiguous(what, row->name, &last->die, &row->die, why);
	}
	definitions->count = kept;
	return 0;
}

int types_find(Dwarf *dwarf, const struct types_wanted *wanted, struct found *found_ret, struct fathom_fault *why)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die top, die;
	int rc = 0;

	*found_ret = (struct found){ 0 };
	while (rc == 0 && dwarf_get_units(dwarf, unit, &unit, NULL, NULL, &top, NULL) == 0) {
		bool more = dwarf_child(&top, &die) == 0;

		for (; rc == 0 && more; more = die_next(&die))
			rc = collect_die(found_ret, wanted, &die, why);
	}
	if (rc == 0)
		rc = join_definitions(&found_ret->compounds, "struct ", &wanted->structures, why);
	if (rc == 0)
		rc = join_definitions(&found_ret->enums, "enum ", &wanted->enums, why);
	return rc ? rc : join_definitions(&found_ret->typedefs, "", &wanted->casts, why);
}

void found_free(struct found *found)
{
	free(found->compounds.rows);
	free(found->enums.rows);
	free(found->typedefs.rows);
	free(found->enumerators);
}

const struct definition *found_compound(const struct found *found, const char *name)
{
	uint32_t low = 0, high = found->compounds.count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int order = strcmp(name, found->compounds.rows[middle].name);

		if (order == 0)
			return &found->compounds.rows[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}
