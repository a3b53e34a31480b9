/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/export/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"

void value_object(const struct reader_object *object, uint32_t id, char *to, size_t to_bytes)
{
	snprintf(to, to_bytes, "%.32s%" PRIu32, object->prefix, id);
}

static void set_value_text(struct value *value, const char *text, size_t bytes)
{
	value->kind = VALUE_TEXT;
	value->bytes = text_utf8_copy(value->text, sizeof(value->text), text, bytes);
}

static void set_hex(struct value *value, int digits)
{
	value->kind = VALUE_TEXT;
	value->bytes = (size_t)snprintf(value->text, sizeof(value->text), "0x%0*" PRIx64, digits, value->number);
}

void value_of_arg(const struct reader *reader, const struct reader_arg *arg, const uint32_t *slots, struct value *value_ret)
{
	const struct reader_object *object;
	const char *text;
	size_t bytes;
	uint32_t id;

	value_ret->number = reader_arg_value(arg, slots);
	value_ret->kind = VALUE_UNSIGNED;
	switch (arg->type) {
	case READER_U8:
	case READER_U16:
	case READER_U32:
	case READER_U64:
		text = arg->labels ? reader_label(arg->labels, (int64_t)value_ret->number) : NULL;
		if (text)
			set_value_text(value_ret, text, strlen(text));
		break;
	case READER_I32:
	case READER_I64:
		value_ret->kind = VALUE_SIGNED;
		break;
	case READER_BOOL:
		value_ret->kind = VALUE_BOOL;
		break;
	case READER_HEX8:
		set_hex(value_ret, 2);
		break;
	case READER_HEX16:
		set_hex(value_ret, 4);
		break;
	case READER_HEX32:
		set_hex(value_ret, 8);
		break;
	case READER_HEX64:
	case READER_PTR:
		set_hex(value_ret, 16);
		break;
	case READER_STR:
		text = reader_string(reader, (uint32_t)value_ret->number, &bytes);
		set_value_text(value_ret, text, bytes);
		break;
	case READER_OBJ:
	case READER_REF:
		value_ret->kind = VALUE_NONE;
		if (reader_arg_object(reader, arg, slots, &object, &id)) {
			char name[64];

			value_object(object, id, name, sizeof(name));
			set_value_text(value_ret, name, strlen(name));
		}
		break;
	}
}

uint64_t value_ns(const struct reader *reader, uint64_t tick)
{
	uint64_t start = reader_info(reader)->start_tick;

	return tick > start ? reader_ns_from_ticks(reader, tick - start) : 0;
}
