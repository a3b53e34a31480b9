/* SPDX-License-Identifier: BSD-2-Clause */
/* layout - where the program has what fields.def names; and reading it. */
#ifndef INSPECT_CORE_LAYOUT_H
#define INSPECT_CORE_LAYOUT_H

#include <elfutils/libdw.h>

#include "inspect/core/core.h"

enum { CORE_ENGINE = 1, CORE_SERVER = 2, CORE_BOTH = 3 };

enum core_variable {
#define VARIABLE(id, name, file, program) CORE_VARIABLE_##id,
#define ENUM(tag, program)
#define STRUCTURE(tag, program)
#define FIELD(tag, name, type)
#include "inspect/core/fields.def"
#undef VARIABLE
#undef ENUM
#undef STRUCTURE
#undef FIELD
	CORE_VARIABLES,
};

enum core_enum {
#define VARIABLE(id, name, file, program)
#define ENUM(tag, program) CORE_ENUM_##tag,
#define STRUCTURE(tag, program)
#define FIELD(tag, name, type)
#include "inspect/core/fields.def"
#undef VARIABLE
#undef ENUM
#undef STRUCTURE
#undef FIELD
	CORE_ENUMS,
};

enum core_structure {
#define VARIABLE(id, name, file, program)
#define ENUM(tag, program)
#define STRUCTURE(tag, program) CORE_STRUCTURE_##tag,
#define FIELD(tag, name, type)
#include "inspect/core/fields.def"
#undef VARIABLE
#undef ENUM
#undef STRUCTURE
#undef FIELD
	CORE_STRUCTURES,
};

enum core_field {
#define VARIABLE(id, name, file, program)
#define ENUM(tag, program)
#define STRUCTURE(tag, program)
#define FIELD(tag, name, type) CORE_FIELD_##tag##_##name,
#include "inspect/core/fields.def"
#undef VARIABLE
#undef ENUM
#undef STRUCTURE
#undef FIELD
	CORE_FIELDS,
};

/* The place of a field in its structure. */
struct core_place {
	uint32_t offset;
	uint32_t bytes; /* 0: the program has no such field */
	bool is_signed, is_enum;
	Dwarf_Die type; /* of an enum */
};

struct core_enum_names {
	struct core_enum_name {
		int64_t value;
		const char *name; /* without the prefix that all names of the enum have */
	} * rows;
	uint32_t count;
};

struct core_rows;

struct core_layout {
	struct core *core;
	uint8_t program; /* CORE_ENGINE, CORE_SERVER; 0: another */
	bool has_debug_information;
	uint64_t variables[CORE_VARIABLES];	   /* addresses; 0: the program has none */
	uint32_t structure_bytes[CORE_STRUCTURES]; /* 0: the program has none */
	uint64_t structure_lines[CORE_STRUCTURES]; /* bits: the cache lines with the fields, of the first 64 */
	struct core_place fields[CORE_FIELDS];
	Dwarf_Die enums[CORE_ENUMS];
	bool has_enum[CORE_ENUMS];
	struct core_enum_names names[CORE_ENUMS + CORE_FIELDS]; /* read at their first use */
	const char *wrong[CORE_STRUCTURES]; /* a sentence about a field that is missing or has another type; NULL: none */
	uint64_t tick_rate, now;
	/* the text of a pointer is often that of the object before */
	uint64_t last_text_at;
	const char *last_text;
	struct core_rows *lists[CORE_LISTS_MAX]; /* made at their first use */
};

/* Read the layout of layout->program. A structure that it lacks has no bytes. */
void core_read_layout(struct core_layout *layout, Dwarf *dwarf, uint64_t bias);

/*
 * Explain what the layout lacks of `structures`, up to a row of CORE_STRUCTURES; NULL: nothing. A sentence for people.
 */
const char *core_layout_problem(const struct core_layout *layout, const enum core_structure *structures);

/* The layout of the core's program, read at the first call. */
struct core_layout *core_layout_of(struct core *core);

/* Print what the layout lacks on stderr; returns the number. For tests. */
int core_layout_report(const struct core_layout *layout);

/* ---- reading ---- */

/* An object at an address: its bytes. NULL: not in the core. */
const uint8_t *core_object_of(struct core_layout *layout, uint64_t address, enum core_structure structure);
uint64_t core_number(const struct core_layout *layout, const uint8_t *object, enum core_field field);
const uint8_t *core_part_of(const struct core_layout *layout, const uint8_t *object, enum core_field field);
/* A char array. */
const char *core_chars(struct core_layout *layout, const uint8_t *object, enum core_field field);
/* A char *, or a struct trace_istr *; "": NULL, or not in the core. */
const char *core_pointed_text(struct core_layout *layout, const uint8_t *object, enum core_field field);
const char *core_interned_text(struct core_layout *layout, const uint8_t *object, enum core_field field);
/* The name of a value; a number if it has none. */
const char *core_enum_text(struct core_layout *layout, const uint8_t *object, enum core_field field);
const char *core_enum_value_text(struct core_layout *layout, enum core_enum number, int64_t value); /* NULL: none */

/* ---- lists of <sys/queue.h> ---- */

struct core_walk {
	uint64_t at;		/* address of the next element; 0: no more */
	const uint8_t *element; /* its bytes; NULL: not looked up yet */
	uint32_t seen;
	enum core_structure structure;
	enum core_field link;
	bool is_broken; /* it does not end, or an element is not in the core */
};

/* Begin at the first element of the list whose head is at `head`. */
struct core_walk core_walk_begin(const uint8_t *head, enum core_structure structure, enum core_field link);
/* The next element, and its address; NULL: no more. */
const uint8_t *core_walk_next(struct core_layout *layout, struct core_walk *walk, uint64_t *address_ret);

#endif
