/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * values - the values of the variables in a failed condition.
 *
 * It looks up the condition's words in the function that failed: its blocks, its parameters, the variables of its file; and
 * follows `->` and `.` by their types. An optimised program has lost some values: these are left out.
 */
#include "inspect/core/values.h"

#include <ctype.h>
#include <dwarf.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/core/frames.h"
#include "inspect/core/internal.h"
#include "inspect/core/layout.h"

enum { FUNCTION_BYTES = 128, STACK_DEPTH = 16, TYPE_LINKS_MAX = 16, NAME_BYTES = 128, WORDS_MAX = 16 };

/* A frame: where its values come from. */
struct place {
	struct core *core;
	struct core_module *module;
	Dwfl_Frame *state;
	uint64_t pc, bias; /* bias of the debug information */
	Dwarf_Die unit, scopes[CORE_SCOPES_MAX];
	uint32_t scope_count;
};

/* A value in memory, or a number. */
struct value {
	bool in_memory;
	uint64_t number; /* the address, or the value */
	Dwarf_Die type;
};

struct search {
	const char *condition;
	char *values, *function;
	bool is_next, is_done; /* is_next: the frame that comes is the one that failed */
};

/* ---- locations ---- */

static bool evaluate(const struct place *place, const Dwarf_Op *steps, size_t count, struct value *value_ret);

static bool frame_cfa(const struct place *place, uint64_t *cfa_ret)
{
	Dwarf_Addr bias;
	Dwarf_CFI *cfi = dwfl_module_eh_cfi(place->module->dwfl, &bias);
	Dwarf_Frame *frame = NULL;
	struct value value;
	Dwarf_Op *steps;
	size_t count;
	bool found;

	if (!cfi || dwarf_cfi_addrframe(cfi, place->pc - bias, &frame) != 0)
		return false;
	found = dwarf_frame_cfa(frame, &steps, &count) == 0 && count > 0 && steps[0].atom != DW_OP_call_frame_cfa &&
		steps[0].atom != DW_OP_fbreg && evaluate(place, steps, count, &value);
	if (found)
		*cfa_ret = value.number;
	free(frame);
	return found;
}

static bool register_plus(const struct place *place, uint64_t number, uint64_t offset, uint64_t *result_ret)
{
	Dwarf_Word word;

	if (number >= CORE_REGISTERS_MAX || dwfl_frame_reg(place->state, (unsigned int)number, &word) != 0)
		return false;
	*result_ret = word + offset;
	return true;
}

/* Steps that push a value that does not depend on others. */
static bool push_of(const struct place *place, const Dwarf_Op *step, uint64_t *result_ret)
{
	uint8_t atom = step->atom;

	if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31) {
		*result_ret = (uint64_t)(atom - DW_OP_lit0);
		return true;
	}
	if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
		return register_plus(place, (uint64_t)(atom - DW_OP_breg0), step->number, result_ret);
	if (atom >= DW_OP_reg0 && atom <= DW_OP_reg31)
		return register_plus(place, (uint64_t)(atom - DW_OP_reg0), 0, result_ret);
	if (atom >= DW_OP_const1u && atom <= DW_OP_consts) {
		*result_ret = step->number;
		return true;
	}
	switch (atom) {
	case DW_OP_addr:
		*result_ret = step->number + place->bias;
		return true;
	case DW_OP_bregx:
		return register_plus(place, step->number, step->number2, result_ret);
	case DW_OP_call_frame_cfa:
		return frame_cfa(place, result_ret);
	case DW_OP_fbreg: /* our compilers' frame base is the CFA */
		if (!frame_cfa(place, result_ret))
			return false;
		*result_ret += step->number;
		return true;
	default:
		return false;
	}
}

static bool combine(uint8_t atom, uint64_t a, uint64_t b, uint64_t *result_ret)
{
	switch (atom) {
	case DW_OP_plus:
		*result_ret = a + b;
		return true;
	case DW_OP_minus:
		*result_ret = a - b;
		return true;
	case DW_OP_mul:
		*result_ret = a * b;
		return true;
	case DW_OP_and:
		*result_ret = a & b;
		return true;
	case DW_OP_or:
		*result_ret = a | b;
		return true;
	case DW_OP_xor:
		*result_ret = a ^ b;
		return true;
	case DW_OP_shl:
		*result_ret = b < 64 ? a << b : 0;
		return true;
	case DW_OP_shr:
		*result_ret = b < 64 ? a >> b : 0;
		return true;
	default:
		return false;
	}
}

/* False: not known, or not supported here. */
static bool evaluate(const struct place *place, const Dwarf_Op *steps, size_t count, struct value *value_ret)
{
	uint64_t stack[STACK_DEPTH];
	size_t used = 0;

	value_ret->in_memory = true;
	for (size_t i = 0; i < count; i++) {
		uint8_t atom = steps[i].atom;

		if (atom == DW_OP_stack_value || (atom >= DW_OP_reg0 && atom <= DW_OP_reg31))
			value_ret->in_memory = false;
		if (atom == DW_OP_stack_value)
			break;
		if (used < STACK_DEPTH && push_of(place, &steps[i], &stack[used])) {
			used++;
		} else if (atom == DW_OP_plus_uconst && used > 0) {
			stack[used - 1] += steps[i].number;
		} else if (atom == DW_OP_deref && used > 0) {
			if (!core_read(place->core, stack[used - 1], &stack[used - 1], sizeof(stack[0])))
				return false;
		} else if (used > 1 && combine(atom, stack[used - 2], stack[used - 1], &stack[used - 2])) {
			used--;
		} else {
			return false;
		}
	}
	if (used == 0)
		return false;
	value_ret->number = stack[used - 1];
	return true;
}

/* ---- variables ---- */

static bool type_of(Dwarf_Die *die, Dwarf_Die *type_ret)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, DW_AT_type, &attribute) && dwarf_formref_die(&attribute, type_ret);
}

/* Without typedefs and qualifiers. */
static bool plain_type(Dwarf_Die *type)
{
	for (int links = 0; links < TYPE_LINKS_MAX; links++) {
		int tag = dwarf_tag(type);

		if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type &&
		    tag != DW_TAG_atomic_type && tag != DW_TAG_restrict_type)
			return true;
		if (!type_of(type, type))
			return false;
	}
	return false;
}

static bool read_variable(const struct place *place, Dwarf_Die *die, struct value *value_ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *steps;
	Dwarf_Word word;
	size_t count;

	if (!type_of(die, &value_ret->type) || !plain_type(&value_ret->type))
		return false;
	if (dwarf_attr(die, DW_AT_const_value, &attribute) && dwarf_formudata(&attribute, &word) == 0) {
		value_ret->in_memory = false;
		value_ret->number = word;
		return true;
	}
	return dwarf_attr(die, DW_AT_location, &attribute) &&
	       dwarf_getlocation_addr(&attribute, place->pc - place->bias, &steps, &count, 1) == 1 &&
	       evaluate(place, steps, count, value_ret);
}

/* A variable among the children of a scope. */
static bool find_in(const struct place *place, Dwarf_Die *scope, const char *name, struct value *value_ret)
{
	Dwarf_Die child;
	bool more;

	for (more = dwarf_child(scope, &child) == 0; more; more = dwarf_siblingof(&child, &child) == 0) {
		int tag = dwarf_tag(&child);
		const char *there = tag == DW_TAG_variable || tag == DW_TAG_formal_parameter ? dwarf_diename(&child) : NULL;

		if (there && strcmp(there, name) == 0 && read_variable(place, &child, value_ret))
			return true;
	}
	return false;
}

static bool find_variable(struct place *place, const char *name, struct value *value_ret)
{
	for (uint32_t i = place->scope_count; i > 0; i--) {
		if (find_in(place, &place->scopes[i - 1], name, value_ret))
			return true;
	}
	return find_in(place, &place->unit, name, value_ret);
}

/* Read the number that a value in memory is. */
static bool load(const struct core *core, struct value *value)
{
	Dwarf_Word bytes = 0;
	uint64_t number = 0;

	if (!value->in_memory)
		return true;
	if (dwarf_aggregate_size(&value->type, &bytes) != 0 || bytes == 0 || bytes > sizeof(number) ||
	    !core_read(core, value->number, &number, bytes))
		return false;
	*value = (struct value){ .number = number, .type = value->type };
	return true;
}

static bool step_to_member(const struct core *core, struct value *value, bool by_pointer, const char *name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word offset = 0;
	Dwarf_Die member;
	bool more;

	if (by_pointer) {
		if (dwarf_tag(&value->type) != DW_TAG_pointer_type || !load(core, value) ||
		    !type_of(&value->type, &value->type) || !plain_type(&value->type))
			return false;
		value->in_memory = true;
	}
	if (!value->in_memory || dwarf_tag(&value->type) != DW_TAG_structure_type)
		return false;
	for (more = dwarf_child(&value->type, &member) == 0; more; more = dwarf_siblingof(&member, &member) == 0) {
		const char *there = dwarf_tag(&member) == DW_TAG_member ? dwarf_diename(&member) : NULL;

		if (!there || strcmp(there, name) != 0 || dwarf_hasattr(&member, DW_AT_bit_size))
			continue;
		if (dwarf_attr(&member, DW_AT_data_member_location, &attribute) &&
		    dwarf_formudata(&attribute, &offset) != 0)
			return false;
		value->number += offset;
		return type_of(&member, &value->type) && plain_type(&value->type);
	}
	return false;
}

/* ---- the condition ---- */

static void add(char *values, const char *format, ...) PRINTF_LIKE(2, 3);
static void add(char *values, const char *format, ...)
{
	size_t used = strlen(values);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(values + used, CORE_WORDS_BYTES - used, format, args); /* what does not fit is left out */
	va_end(args);
}

static void add_value(const struct core *core, struct value value, const char *name, char *values)
{
	int tag = dwarf_tag(&value.type);
	Dwarf_Attribute attribute;
	Dwarf_Word encoding = 0, bytes = 0;

	if ((tag != DW_TAG_base_type && tag != DW_TAG_pointer_type && tag != DW_TAG_enumeration_type) ||
	    !load(core, &value))
		return;
	if (dwarf_attr(&value.type, DW_AT_encoding, &attribute))
		(void)dwarf_formudata(&attribute, &encoding);
	(void)dwarf_aggregate_size(&value.type, &bytes);
	if (bytes > 0 && bytes < sizeof(value.number)) {
		uint64_t unused = UINT64_MAX << (8 * bytes);

		value.number &= ~unused;
		if ((encoding == DW_ATE_signed || encoding == DW_ATE_signed_char) && (value.number >> (8 * bytes - 1) & 1))
			value.number |= unused;
	}
	add(values, "%s%s = ", values[0] ? ", " : "", name);
	if (tag == DW_TAG_pointer_type)
		add(values, value.number ? "0x%" PRIx64 : "%" PRIu64 " (NULL)", value.number);
	else if (encoding == DW_ATE_boolean)
		add(values, "%s", value.number ? "true" : "false");
	else
		add(values, "%" PRId64, (int64_t)value.number);
}

static size_t word_length(const char *at)
{
	size_t length = 0;

	if (!isalpha((unsigned char)*at) && *at != '_')
		return 0;
	while (isalnum((unsigned char)at[length]) || at[length] == '_')
		length++;
	return length;
}

/* Show the values of "a", "b->c" and "d.e" in the condition. */
static void add_values(struct place *place, const char *condition, char *values)
{
	const char *at = condition;

	while (*at) {
		char name[NAME_BYTES], word[NAME_BYTES];
		size_t length = word_length(at);
		const char *begin = at;
		struct value value;
		bool known;

		if (length == 0) {
			at += *at ? 1 : 0;
			while (isdigit((unsigned char)at[-1]) && isalnum((unsigned char)*at)) /* 0x10, 1ul */
				at++;
			continue;
		}
		snprintf(word, sizeof(word), "%.*s", (int)length, at);
		at += length;
		known = find_variable(place, word, &value);
		for (size_t sign; (sign = at[0] == '.'			 ? 1
					  : at[0] == '-' && at[1] == '>' ? 2
									 : 0) &&
				  word_length(at + sign);
		     at += length) {
			at += sign;
			length = word_length(at);
			snprintf(word, sizeof(word), "%.*s", (int)length, at);
			known = known && step_to_member(place->core, &value, sign == 2, word);
		}
		snprintf(name, sizeof(name), "%.*s", (int)(at - begin), begin);
		if (known && *at != '(' && *at != '[')
			add_value(place->core, value, name, values);
	}
}

/* ---- the frame ---- */

static void on_frame(struct frame_walk *walk, Dwfl_Frame *state, uint64_t pc, uint32_t first)
{
	struct search *search = walk->ctx;
	const char *function = walk->frames[walk->count - 1].function;
	struct place place = { .core = walk->core, .state = state, .pc = pc, .module = core_module_of(walk->core, pc) };
	Dwarf_Addr bias = 0;
	Dwarf_Die *unit;

	if (search->is_done)
		return;
	if (!search->is_next) {
		search->is_next = function &&
				  (strcmp(function, "must_failed") == 0 || strcmp(function, "trace_must_failed") == 0);
		return;
	}
	search->is_done = true;
	if (walk->frames[first].function)
		snprintf(search->function, FUNCTION_BYTES, "%s", walk->frames[first].function);
	if (!place.module || !place.module->dwfl || !(unit = dwfl_module_addrdie(place.module->dwfl, pc, &bias)))
		return;
	place.unit = *unit;
	place.bias = bias;
	place.scope_count = core_find_scopes(unit, pc - bias, place.scopes);
	add_values(&place, search->condition, search->values);
}

void core_must_values(struct core *core, const struct core_crash *crash, char *values, char *function)
{
	struct core_frame frames[CORE_FRAMES_MAX];
	struct search search = { .condition = crash->condition, .values = values, .function = function };
	struct frame_walk walk = { .core = core, .frames = frames, .on_frame = on_frame, .ctx = &search };

	if (core->thread_count)
		core_walk_frames(&walk, &core->threads[0]);
}

void core_find_must(struct core *core, struct core_crash *crash)
{
	struct core_layout *layout = core_layout_of(core);
	const uint8_t *failure = core_object_of(layout, layout->variables[CORE_VARIABLE_must],
						CORE_STRUCTURE_variable_must);
	const char *file;

	if (!failure || !core_number(layout, failure, CORE_FIELD_variable_must_condition))
		return;
	file = core_pointed_text(layout, failure, CORE_FIELD_variable_must_file);
	while (strncmp(file, "../", 3) == 0)
		file += 3;
	snprintf(crash->condition, sizeof(crash->condition), "%s",
		 core_pointed_text(layout, failure, CORE_FIELD_variable_must_condition));
	snprintf(crash->place, sizeof(crash->place), "%s:%" PRIu64, file,
		 core_number(layout, failure, CORE_FIELD_variable_must_line));
}
