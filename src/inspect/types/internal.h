/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - shared by finding and writing. */
#ifndef INSPECT_TYPES_INTERNAL_H
#define INSPECT_TYPES_INTERNAL_H

#include <elfutils/libdw.h>
#include <stdio.h>

#include "inspect/types/types.h"

/* A top-level definition of a unit. */
struct definition {
	const char *name;
	Dwarf_Die die;
};

struct definitions {
	struct definition *rows;
	uint32_t count;
};

/* A wanted enumerator. */
struct enumerator {
	const char *name;
	Dwarf_Die die; /* of its enum */
	int64_t value; /* its value, or its bits if unsigned */
	bool negative;
};

/* What was found of the wanted names; names and DIEs belong to the Dwarf. */
struct found {
	struct definitions compounds; /* all named structures and unions, sorted by name */
	struct definitions enums, typedefs;
	struct enumerator *enumerators; /* each name once */
	uint32_t enumerator_count;
};

/* Errors: -ENOTUNIQ (explained). Free `found_ret` with found_free(), also after an error. */
MUST_CHECK int types_find(Dwarf *dwarf, const struct types_wanted *wanted, struct found *found_ret,
			  struct fathom_fault *why);
void found_free(struct found *found);

/* The first definition of this name; NULL: none. */
const struct definition *found_compound(const struct found *found, const char *name);

/* Are both the same definition, such as one of a header that was compiled twice? */
bool die_is_same(Dwarf_Die *one, Dwarf_Die *other);
/* An attribute as a number. False: it has none. */
bool die_number(Dwarf_Die *die, unsigned int name, Dwarf_Word *number_ret);
/* The value of an enumerator. */
void die_value(Dwarf_Die *die, int64_t *value_ret, bool *negative_ret);
/* Its name, if valid in C; else NULL. */
const char *die_name(Dwarf_Die *die);
bool die_is_compound(Dwarf_Die *die);
/* Advance to the next sibling. False: there is none, or it precedes this one, which is invalid. */
bool die_next(Dwarf_Die *die);

/* ---- shape.c ---- */

enum { DIMENSIONS_MAX = 8 };

/* A type without typedefs and qualifiers. */
struct plain {
	Dwarf_Die die;
	const char *word; /* name of the last typedef; NULL: none */
};

/* The type of a member: an array of pointers to a plain type; the numbers of dimensions and pointers may be 0. */
struct shape {
	uint64_t dimensions[DIMENSIONS_MAX];
	uint32_t dimension_count;
	uint32_t stars;
	bool is_void;	    /* the pointers' target has no type that can be written */
	struct plain plain; /* valid unless is_void */
	uint64_t bytes;	    /* total size; 0: a flexible array member */
};

/* Find the definition of a structure that `die` may only declare. False: none; `*die_ret` is `die` then. */
bool definition_of(const struct found *found, Dwarf_Die *die, Dwarf_Die *die_ret);
/* The shape of a member, or of any DIE with a type. False: invalid. */
bool shape_of(const struct found *found, Dwarf_Die *member, struct shape *shape_ret);
/* The offset of a member in its structure, and whether it is a bit field. False: unknown. */
bool place_of(Dwarf_Die *member, const struct shape *shape, uint64_t *at_bits_ret, uint64_t *bits_ret, bool *is_field_ret);

/* Size and signedness of an integer, enum or boolean. False: not an integer. */
bool integer_shape(Dwarf_Die *type, Dwarf_Word *bytes_ret, bool *is_signed_ret, bool *is_char_ret);
/* The C type; NULL: no integer has this size. */
const char *integer_of(Dwarf_Word bytes, bool is_signed);
const char *integer_word(Dwarf_Die *type);

/* ---- write.c ---- */

/* Write the declarations. Errors: -E2BIG (explained); `declared` is incomplete then. */
MUST_CHECK int types_write(const struct found *found, const struct types_wanted *wanted, struct types_declared *declared,
			   struct fathom_fault *why);

#endif
