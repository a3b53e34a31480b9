/* SPDX-License-Identifier: BSD-2-Clause */
/* shape - type and offset of a member. Chains of types are bounded, since the file is untrusted. */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/types/internal.h"

enum { STARS_MAX = 8, LINKS_MAX = 64 };

/* Follow typedefs and qualifiers. False: void, or invalid. */
static bool plain_of(Dwarf_Die *die, struct plain *plain_ret)
{
	Dwarf_Attribute attribute;

	plain_ret->word = NULL;
	plain_ret->die = *die;
	for (int links = 0; links < LINKS_MAX; links++) {
		Dwarf_Die *at = &plain_ret->die;

		if (!dwarf_attr_integrate(at, DW_AT_type, &attribute) || !dwarf_formref_die(&attribute, at))
			return false;
		switch (dwarf_tag(at)) {
		case DW_TAG_typedef:
			plain_ret->word = die_name(at);
			break;
		case DW_TAG_const_type:
		case DW_TAG_volatile_type:
		case DW_TAG_restrict_type:
		case DW_TAG_atomic_type:
			break;
		default:
			return true;
		}
	}
	return false;
}

static void read_dimensions(Dwarf_Die *array, struct shape *shape)
{
	Dwarf_Die child;

	if (dwarf_child(array, &child) != 0)
		return;
	do {
		Dwarf_Word count = 0;

		if (dwarf_tag(&child) != DW_TAG_subrange_type || shape->dimension_count == DIMENSIONS_MAX)
			continue;
		/* for "char x[0]" the upper bound is -1, or missing */
		if (!die_number(&child, DW_AT_count, &count) && die_number(&child, DW_AT_upper_bound, &count))
			count++;
		shape->dimensions[shape->dimension_count++] = count;
	} while (die_next(&child));
}

bool definition_of(const struct found *found, Dwarf_Die *die, Dwarf_Die *die_ret)
{
	const char *name = die_name(die);
	const struct definition *definition;
	Dwarf_Attribute signature;

	*die_ret = *die;
	if (dwarf_attr(die, DW_AT_signature, &signature) && dwarf_formref_die(&signature, die_ret))
		return true;
	if (!dwarf_hasattr(die, DW_AT_declaration))
		return true;
	definition = name ? found_compound(found, name) : NULL;
	if (definition)
		*die_ret = definition->die;
	return definition != NULL;
}

/* The size of a type that is no array. libdw's own function does not terminate if types form a cycle. */
static bool type_size(Dwarf_Die *type, uint64_t *bytes_ret)
{
	Dwarf_Word bytes = sizeof(void *);

	if (!die_number(type, DW_AT_byte_size, &bytes) && dwarf_tag(type) != DW_TAG_pointer_type)
		return false;
	*bytes_ret = min_u64(bytes, UINT32_MAX);
	return true;
}

bool shape_of(const struct found *found, Dwarf_Die *member, struct shape *shape_ret)
{
	struct plain *plain = &shape_ret->plain;
	uint64_t bytes;

	*shape_ret = (struct shape){ 0 };
	if (!plain_of(member, plain))
		return false;
	for (int links = 0; dwarf_tag(&plain->die) == DW_TAG_array_type; links++) {
		read_dimensions(&plain->die, shape_ret);
		if (links == LINKS_MAX || !plain_of(&plain->die, plain))
			return false;
	}
	if (die_is_compound(&plain->die))
		(void)definition_of(found, &plain->die, &plain->die); /* without a definition it has no size */
	if (!type_size(&plain->die, &bytes))
		return false;
	for (uint32_t i = 0; i < shape_ret->dimension_count; i++) {
		if (shape_ret->dimensions[i] > UINT32_MAX || bytes * shape_ret->dimensions[i] > UINT32_MAX)
			return false;
		bytes *= shape_ret->dimensions[i];
	}
	shape_ret->bytes = bytes;
	while (!shape_ret->is_void && dwarf_tag(&plain->die) == DW_TAG_pointer_type) {
		if (++shape_ret->stars == STARS_MAX)
			return false;
		shape_ret->is_void = !plain_of(&plain->die, plain);
	}
	return true;
}

const char *integer_of(Dwarf_Word bytes, bool is_signed)
{
	switch (bytes) {
	case 1:
		return is_signed ? "signed char" : "unsigned char";
	case 2:
		return is_signed ? "short" : "unsigned short";
	case 4:
		return is_signed ? "int" : "unsigned int";
	case 8:
		return is_signed ? "long" : "unsigned long";
	default:
		return NULL;
	}
}

static bool has_negative(Dwarf_Die *of)
{
	Dwarf_Die child;
	bool negative = false;
	int64_t value;

	if (dwarf_child(of, &child) != 0)
		return false;
	do {
		if (dwarf_tag(&child) == DW_TAG_enumerator)
			die_value(&child, &value, &negative);
	} while (!negative && die_next(&child));
	return negative;
}

bool integer_shape(Dwarf_Die *type, Dwarf_Word *bytes_ret, bool *is_signed_ret, bool *is_char_ret)
{
	Dwarf_Word encoding;

	*is_char_ret = false;
	if (!type_size(type, bytes_ret) || !integer_of(*bytes_ret, false))
		return false;
	if (dwarf_tag(type) == DW_TAG_enumeration_type) {
		*is_signed_ret = has_negative(type);
		return true;
	}
	if (dwarf_tag(type) != DW_TAG_base_type || !die_number(type, DW_AT_encoding, &encoding))
		return false;
	*is_char_ret = encoding == DW_ATE_signed_char && *bytes_ret == 1;
	*is_signed_ret = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
	return *is_signed_ret || encoding == DW_ATE_unsigned || encoding == DW_ATE_unsigned_char ||
	       encoding == DW_ATE_boolean || encoding == DW_ATE_UTF;
}

const char *integer_word(Dwarf_Die *type)
{
	Dwarf_Word bytes;
	bool is_signed, is_char;

	if (!integer_shape(type, &bytes, &is_signed, &is_char))
		return NULL;
	return is_char ? "char" : integer_of(bytes, is_signed);
}

/* Offset of a member in bytes. False: not a constant. */
static bool member_offset(Dwarf_Die *member, Dwarf_Word *bytes_ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *steps;
	size_t count;

	*bytes_ret = 0;
	if (!dwarf_attr(member, DW_AT_data_member_location, &attribute) || dwarf_formudata(&attribute, bytes_ret) == 0)
		return true;
	/* DWARF 2: an expression that adds the offset */
	if (dwarf_getlocation(&attribute, &steps, &count) != 0 || count != 1 || steps->atom != DW_OP_plus_uconst)
		return false;
	*bytes_ret = steps->number;
	return true;
}

bool place_of(Dwarf_Die *member, const struct shape *shape, uint64_t *at_bits_ret, uint64_t *bits_ret, bool *is_field_ret)
{
	Dwarf_Word at = 0, bytes = 0, bits, before;

	*is_field_ret = die_number(member, DW_AT_bit_size, &bits);
	*bits_ret = *is_field_ret ? bits : shape->bytes * 8;
	if (*is_field_ret && (bits == 0 || bits > 64))
		return false;
	if (die_number(member, DW_AT_data_bit_offset, at_bits_ret))
		return true;
	if (!member_offset(member, &at))
		return false;
	*at_bits_ret = at * 8;
	if (!*is_field_ret || !die_number(member, DW_AT_bit_offset, &before))
		return true;
	/* before DWARF 4: counted from the other end of the storage unit */
	if (!die_number(member, DW_AT_byte_size, &bytes))
		bytes = shape->bytes;
	if (bytes * 8 < before + bits)
		return false;
	*at_bits_ret += bytes * 8 - before - bits;
	return true;
}
