/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - what finding and writing share. */
#ifndef INSPECT_TYPES_INTERNAL_H
#define INSPECT_TYPES_INTERNAL_H

#include <elfutils/libdw.h>
#include <stdio.h>

#include "inspect/types/types.h"

/* A definition at the top of a unit. */
struct definition {
	const char *name;
	Dwarf_Die die;
};

struct definitions {
	struct definition *rows;
	uint32_t count;
};

/* An enumerator that is wanted. */
struct enumerator {
	const char *name;
	Dwarf_Die die; /* of its enum */
	int64_t value; /* or its bits */
	bool negative;
};

/* What the program has of what is wanted; names and dies are the Dwarf's. */
struct found {
	struct definitions compounds; /* all structures and unions with names; by name */
	struct definitions enums, typedefs;
	struct enumerator *enumerators; /* each name once */
	uint32_t enumerator_count;
};

/* -ENOTUNIQ (explained). `found_ret` is to be given to found_free(), also after an error. */
MUST_CHECK int types_find(Dwarf *dwarf, const struct types_wanted *wanted, struct found *found_ret, struct fault *why);
void found_free(struct found *found);

/* The first definition of that name; NULL: none. */
const struct definition *found_compound(const struct found *found, const char *name);

/* Does a header's definition, compiled twice, stand for one thing? */
bool die_is_same(Dwarf_Die *one, Dwarf_Die *other);
/* Its attribute as a number. False: it has none. */
bool die_number(Dwarf_Die *die, unsigned int name, Dwarf_Word *number_ret);
/* The value of an enumerator. */
void die_value(Dwarf_Die *die, int64_t *value_ret, bool *negative_ret);
/* Its name, if C has such names; else NULL. */
const char *die_name(Dwarf_Die *die);
bool die_is_compound(Dwarf_Die *die);
/* Its next sibling, in its place. False: it is the last, or the next one stands before it. */
bool die_next(Dwarf_Die *die);

/* ---- shape.c ---- */

enum { DIMENSIONS_MAX = 8 };

/* A type without typedefs and qualifiers. */
struct plain {
	Dwarf_Die die;
	const char *word; /* the last typedef's; NULL: none */
};

/* What a member is: an array of pointers to pointers to something, each as often as may be, also never. */
struct shape {
	uint64_t dimensions[DIMENSIONS_MAX];
	uint32_t dimension_count;
	uint32_t stars;
	bool is_void;	    /* what is behind all of it has no type that can be written */
	struct plain plain; /* if it has */
	uint64_t bytes;	    /* of all of it; 0: an array that ends with its structure */
};

/* Where a structure is defined that `die` may only announce. False: nowhere; it is `die` then. */
bool definition_of(const struct found *found, Dwarf_Die *die, Dwarf_Die *die_ret);
/* Of a member, or of whatever has a type. False: it makes no sense. */
bool shape_of(const struct found *found, Dwarf_Die *member, struct shape *shape_ret);
/* Where in its structure a member begins, and whether it is a bit field. False: that cannot be told. */
bool place_of(Dwarf_Die *member, const struct shape *shape, uint64_t *at_bits_ret, uint64_t *bits_ret, bool *is_field_ret);

/* Of a number, an enum and the like. False: it is no integer. */
bool integer_shape(Dwarf_Die *type, Dwarf_Word *bytes_ret, bool *is_signed_ret, bool *is_char_ret);
/* As a declaration has it; NULL: there is no integer of so many bytes. */
const char *integer_of(Dwarf_Word bytes, bool is_signed);
const char *integer_word(Dwarf_Die *type);

/* ---- write.c ---- */

/* Declare it. -E2BIG (explained); `declared` is half done then. */
MUST_CHECK int types_write(const struct found *found, const struct types_wanted *wanted, struct types_declared *declared,
			   struct fault *why);

#endif
