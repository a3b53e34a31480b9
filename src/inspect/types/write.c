/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * write - writes declarations, each behind those of the structures within it.
 *
 * A record is a structure whose tag has been assigned. Wanted structures are assigned first, and so keep their own
 * names. Followed pointers assign a tag to their target, which is defined later.
 */
#include <dwarf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "inspect/types/internal.h"

enum { RECORDS_MAX = 4096, MEMBERS_MAX = 1 << 20, DEPTH_MAX = 32 };

struct record {
	char *tag;
	Dwarf_Die die; /* its definition */
	bool is_defined;
};

struct writing {
	const struct found *found;
	const struct types_wanted *wanted;
	struct types_declared *declared;
	FILE *out;
	struct record records[RECORDS_MAX];
	uint32_t record_count;
	struct types_names enumerators; /* declared so far; unsorted */
	uint32_t gaps;			/* number of gaps so far, for their names */
	uint32_t members;		/* number of members visited */
	bool too_many;
};

static const char *keyword_of(Dwarf_Die *compound)
{
	return dwarf_tag(compound) == DW_TAG_union_type ? "union" : "struct";
}

/* ---- records ---- */

static bool is_tag_free(const struct writing *writing, const char *tag)
{
	for (uint32_t i = 0; i < writing->record_count; i++) {
		if (strcmp(writing->records[i].tag, tag) == 0)
			return false;
	}
	return !types_names_has(&writing->wanted->taken, tag) && !types_names_has(&writing->wanted->structures, tag) &&
	       !types_kernel_has(writing->wanted->kernel, tag);
}

static char *choose_tag(const struct writing *writing, const char *name)
{
	char *tag = NULL;

	for (int number = 1; !tag; number++) {
		int rc = number == 1 ? asprintf(&tag, "%s", name) : asprintf(&tag, "%s__%d", name, number);

		must(rc > 0);
		if (!is_tag_free(writing, tag)) {
			free(tag);
			tag = NULL;
		}
	}
	return tag;
}

/* Takes `tag`. NULL: too many. */
static struct record *add_type_record(struct writing *writing, Dwarf_Die *die, char *tag)
{
	if (writing->record_count == RECORDS_MAX) {
		writing->too_many = true;
		free(tag);
		return NULL;
	}
	writing->records[writing->record_count] = (struct record){ .tag = tag, .die = *die };
	return &writing->records[writing->record_count++];
}

static struct record *find_type_record(struct writing *writing, Dwarf_Die *definition)
{
	for (uint32_t i = 0; i < writing->record_count; i++) {
		if (die_is_same(&writing->records[i].die, definition))
			return &writing->records[i];
	}
	return NULL;
}

/* Returns the record of a structure with a name, its own or a typedef's; NULL: no name, or no definition. */
static struct record *require_record(struct writing *writing, struct plain *plain)
{
	struct record *record;
	const char *name;
	Dwarf_Die die;

	if (!definition_of(writing->found, &plain->die, &die))
		return NULL;
	name = die_name(&die) ? die_name(&die) : plain->word;
	if (!name)
		return NULL;
	record = find_type_record(writing, &die);
	return record ? record : add_type_record(writing, &die, choose_tag(writing, name));
}

/* ---- bodies ---- */

/* Count a member: a structure that contains itself would never end. False: the limit is exceeded. */
static bool count_member(struct writing *writing)
{
	writing->too_many |= ++writing->members > MEMBERS_MAX;
	return !writing->too_many;
}

static void write_body(struct writing *writing, Dwarf_Die *die, uint32_t depth);

static void write_gap(struct writing *writing, uint64_t at_bits, uint64_t bits)
{
	uint64_t first = at_bits % 8 ? min_u64(8 - at_bits % 8, bits) : 0, rest;

	if (first)
		fprintf(writing->out, " unsigned int gap_%u : %" PRIu64 ";", writing->gaps++, first);
	rest = bits - first;
	if (rest / 8)
		fprintf(writing->out, " unsigned char gap_%u[%" PRIu64 "];", writing->gaps++, rest / 8);
	if (rest % 8)
		fprintf(writing->out, " unsigned int gap_%u : %" PRIu64 ";", writing->gaps++, rest % 8);
}

/* Write the target type of a pointer. */
static void write_target(struct writing *writing, struct shape *shape, const char *name)
{
	Dwarf_Die *target = &shape->plain.die, definition;
	const struct record *record = NULL;
	const char *word = NULL;

	if (!shape->is_void && die_is_compound(target)) {
		if (types_names_has(&writing->wanted->members, name))
			record = require_record(writing, &shape->plain);
		else if (definition_of(writing->found, target, &definition))
			record = find_type_record(writing, &definition);
	} else if (!shape->is_void) {
		word = integer_word(target);
	}
	if (record)
		fprintf(writing->out, " %s %s ", keyword_of((Dwarf_Die *)&record->die), record->tag);
	else
		fprintf(writing->out, " %s ", word ? word : "void");
}

/* Write a member with its ';'. False: nothing was written; the caller must write a gap. */
static bool write_member(struct writing *writing, struct shape *shape, const char *name, uint32_t depth)
{
	Dwarf_Die *die = &shape->plain.die;
	const struct record *record = NULL;

	if (shape->stars) {
		if (!name)
			return false;
		write_target(writing, shape, name);
		for (uint32_t i = 0; i < shape->stars; i++)
			fputc('*', writing->out);
	} else if (die_is_compound(die)) {
		/* members of an anonymous structure are accessible in the enclosing one */
		if (name && die_name(die))
			record = require_record(writing, &shape->plain);
		if (name && die_name(die) && (!record || !record->is_defined))
			return false;
		fprintf(writing->out, " %s ", keyword_of(die));
		if (record)
			fprintf(writing->out, "%s ", record->tag);
		else
			write_body(writing, die, depth + 1);
	} else {
		const char *word = integer_word(die);

		if (!word || !name)
			return false;
		/*
		 * bpftrace takes an array of char as a string, here of no bytes; an array of numbers can be cast to a
		 * pointer
		 */
		if (shape->bytes == 0 && strcmp(word, "char") == 0)
			word = "unsigned char";
		fprintf(writing->out, " %s ", word);
	}
	if (name)
		fputs(name, writing->out);
	for (uint32_t i = 0; name && i < shape->dimension_count; i++)
		fprintf(writing->out, "[%" PRIu64 "]", shape->dimensions[i]);
	fputc(';', writing->out);
	return true;
}

static void write_bits(struct writing *writing, struct shape *shape, const char *name, uint64_t bits)
{
	Dwarf_Word bytes;
	bool is_signed = false, is_char;

	(void)integer_shape(&shape->plain.die, &bytes, &is_signed, &is_char); /* other types are unsigned */
	fprintf(writing->out, " %s %s : %" PRIu64 ";", integer_of(bits > 32 ? 8 : 4, is_signed), name, bits);
}

static void write_body(struct writing *writing, Dwarf_Die *die, uint32_t depth)
{
	bool is_union = dwarf_tag(die) == DW_TAG_union_type, more, is_field;
	uint64_t end_bits, at_bits = 0, largest_bits = 0, start_bits, bits;
	Dwarf_Word bytes = 0;
	Dwarf_Die member;

	fputs("{", writing->out);
	(void)die_number(die, DW_AT_byte_size, &bytes); /* 0: an empty structure */
	end_bits = min_u64(bytes, UINT32_MAX) * 8;
	for (more = depth < DEPTH_MAX && dwarf_child(die, &member) == 0; more; more = die_next(&member)) {
		const char *name = die_name(&member);
		struct shape shape;

		if (!count_member(writing))
			break;
		if (dwarf_tag(&member) != DW_TAG_member || !shape_of(writing->found, &member, &shape) ||
		    !place_of(&member, &shape, &start_bits, &bits, &is_field) || start_bits < at_bits ||
		    start_bits > end_bits || bits > end_bits - start_bits || (is_field ? !name : start_bits % 8 != 0))
			continue;
		write_gap(writing, at_bits, start_bits - at_bits);
		if (is_field)
			write_bits(writing, &shape, name, bits);
		else if (!write_member(writing, &shape, name, depth))
			write_gap(writing, start_bits, bits);
		largest_bits = max_u64(largest_bits, bits);
		at_bits = is_union ? 0 : start_bits + bits;
	}
	if (is_union && largest_bits < end_bits)
		write_gap(writing, 0, end_bits);
	else if (!is_union)
		write_gap(writing, at_bits, end_bits - at_bits);
	fputs(" } __attribute__((packed)) ", writing->out);
}

/* ---- definitions ---- */

static void define_record(struct writing *writing, struct record *record, uint32_t depth);

/* Define the structures within a structure in front of it. */
static void define_parts(struct writing *writing, Dwarf_Die *die, uint32_t depth)
{
	Dwarf_Die member;

	if (depth == DEPTH_MAX || dwarf_child(die, &member) != 0)
		return;
	do {
		struct shape shape;
		struct record *record;

		if (!count_member(writing))
			break;
		if (dwarf_tag(&member) != DW_TAG_member || !shape_of(writing->found, &member, &shape) || shape.stars ||
		    !die_is_compound(&shape.plain.die))
			continue;
		record = die_name(&member) && die_name(&shape.plain.die) ? require_record(writing, &shape.plain) : NULL;
		if (record)
			define_record(writing, record, depth + 1);
		else
			define_parts(writing, &shape.plain.die, depth + 1);
	} while (die_next(&member));
}

static void define_record(struct writing *writing, struct record *record, uint32_t depth)
{
	if (record->is_defined || depth == DEPTH_MAX)
		return;
	define_parts(writing, &record->die, depth);
	if (record->is_defined) /* invalid: it contains itself */
		return;
	fprintf(writing->out, "%s %s ", keyword_of(&record->die), record->tag);
	write_body(writing, &record->die, 0);
	fputs(";\n", writing->out);
	record->is_defined = true;
}

/* ---- enums ---- */

/* May it be declared? Each name once, and none of the script's. */
static bool claim_enumerator(struct writing *writing, const char *name)
{
	for (uint32_t i = 0; i < writing->enumerators.count; i++) {
		if (strcmp(writing->enumerators.names[i], name) == 0)
			return false;
	}
	if (types_names_has(&writing->wanted->taken, name))
		return false;
	types_names_add(&writing->enumerators, name, strlen(name));
	return true;
}

static void write_enumerator(struct writing *writing, const struct enumerator *row)
{
	if (row->negative || row->value >= 0)
		fprintf(writing->out, " %s = %" PRId64 ",", row->name, row->value);
	else
		fprintf(writing->out, " %s = %" PRIu64 "ul,", row->name, (uint64_t)row->value);
}

/* Write an enum that the script names. */
static void write_enum(struct writing *writing, const struct definition *definition)
{
	Dwarf_Die die = definition->die, child;
	Dwarf_Word bytes = sizeof(int);

	(void)die_number(&die, DW_AT_byte_size, &bytes); /* default: the size of an int */
	if (dwarf_child(&die, &child) != 0)
		return;
	fprintf(writing->out, "enum %s {", definition->name);
	do {
		struct enumerator row = { .name = dwarf_tag(&child) == DW_TAG_enumerator ? die_name(&child) : NULL };

		die_value(&child, &row.value, &row.negative);
		if (row.name && claim_enumerator(writing, row.name))
			write_enumerator(writing, &row);
	} while (die_next(&child));
	/* a member of its own: all others may be declared elsewhere */
	fprintf(writing->out, " gap_%u = 0 }%s;\n", writing->gaps++, bytes < sizeof(int) ? " __attribute__((packed))" : "");
}

/* ---- aliases ---- */

static void add_alias(struct writing *writing, const char *kind, const char *name, const char *spelled, uint32_t stars)
{
	struct types_declared *declared = writing->declared;
	struct types_alias *alias;

	declared->aliases = realloc(declared->aliases, (declared->alias_count + 1) * sizeof(*declared->aliases));
	must(declared->aliases);
	alias = &declared->aliases[declared->alias_count++];
	must(asprintf(&alias->name, "%s%s", kind, name) > 0);
	must(asprintf(&alias->spelled, "%s%s%.*s", spelled, stars ? " " : "", (int)stars, "********") > 0);
}

/* Add bpftrace's own name of an integer type as an alias. */
static void add_integer_alias(struct writing *writing, const char *kind, const char *name, Dwarf_Die *type, uint32_t stars)
{
	char word[16];
	Dwarf_Word bytes;
	bool is_signed, is_char;

	if (!integer_shape(type, &bytes, &is_signed, &is_char))
		return;
	snprintf(word, sizeof(word), "%sint%d", is_signed ? "" : "u", (int)bytes * 8);
	add_alias(writing, kind, name, word, stars);
}

static void add_typedef(struct writing *writing, const struct definition *definition)
{
	Dwarf_Die die = definition->die;
	struct shape shape;
	struct record *record;
	char *spelled;

	/* the shape of a member of this type */
	if (!shape_of(writing->found, &die, &shape) || shape.dimension_count || shape.is_void)
		return;
	if (!die_is_compound(&shape.plain.die)) {
		add_integer_alias(writing, "", definition->name, &shape.plain.die, shape.stars);
		return;
	}
	if (!shape.plain.word && !shape.stars)
		shape.plain.word = definition->name;
	record = require_record(writing, &shape.plain);
	if (!record)
		return;
	must(asprintf(&spelled, "%s %s", keyword_of(&record->die), record->tag) > 0);
	add_alias(writing, "", definition->name, spelled, shape.stars);
	free(spelled);
}

/* ---- the whole text ---- */

/* Rename a wanted structure: the kernel has one of the same name, which bpftrace may need. */
static void rename_wanted(struct writing *writing, Dwarf_Die *die, const char *name)
{
	const struct record *record = add_type_record(writing, die, choose_tag(writing, name));
	char *kind, *spelled;

	if (!record)
		return;
	must(asprintf(&kind, "%s ", keyword_of(die)) > 0);
	must(asprintf(&spelled, "%s%s", kind, record->tag) > 0);
	add_alias(writing, kind, name, spelled, 0);
	free(spelled);
	free(kind);
}

/* Add records for the wanted structures, which have their own names. */
static void add_wanted_records(struct writing *writing)
{
	const struct types_names *wanted = &writing->wanted->structures;

	for (uint32_t i = 0; i < wanted->count; i++) {
		const struct definition *definition = found_compound(writing->found, wanted->names[i]);
		Dwarf_Die die;

		if (!definition)
			continue;
		die = definition->die;
		if (types_kernel_has(writing->wanted->kernel, definition->name))
			rename_wanted(writing, &die, definition->name);
		else
			(void)add_type_record(writing, &die, strdup(definition->name));
	}
}

static void write_declarations(struct writing *writing)
{
	const struct found *found = writing->found;

	/* macros that compilers predefine, and that may be names of members */
	fputs("#undef linux\n#undef unix\n", writing->out);
	add_wanted_records(writing);
	for (uint32_t i = 0; i < found->typedefs.count; i++)
		add_typedef(writing, &found->typedefs.rows[i]);
	for (uint32_t i = 0; i < found->enums.count; i++) {
		add_integer_alias(writing, "enum ", found->enums.rows[i].name, &found->enums.rows[i].die, 0);
		write_enum(writing, &found->enums.rows[i]);
	}
	for (uint32_t i = 0; i < found->enumerator_count; i++) {
		if (!claim_enumerator(writing, found->enumerators[i].name))
			continue;
		fputs("enum {", writing->out);
		write_enumerator(writing, &found->enumerators[i]);
		fputs(" };\n", writing->out);
	}
	for (uint32_t i = 0; i < writing->record_count && !writing->too_many; i++)
		define_record(writing, &writing->records[i], 0);
}

int types_write(const struct found *found, const struct types_wanted *wanted, struct types_declared *declared,
		struct fathom_fault *why)
{
	struct writing *writing = calloc(1, sizeof(*writing));
	size_t bytes;
	bool too_many;

	must(writing);
	writing->found = found;
	writing->wanted = wanted;
	writing->declared = declared;
	writing->out = open_memstream(&declared->text, &bytes);
	must(writing->out);
	write_declarations(writing);
	must(fclose(writing->out) == 0);
	if (writing->record_count == 0 && writing->enumerators.count == 0)
		declared->text[0] = '\0';
	for (uint32_t i = 0; i < writing->record_count; i++)
		free(writing->records[i].tag);
	types_names_free(&writing->enumerators);
	too_many = writing->too_many;
	free(writing);
	return too_many ? fault(why, -E2BIG, "the structures in the script refer to too many others") : 0;
}
