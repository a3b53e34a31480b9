/* SPDX-License-Identifier: BSD-2-Clause */
/* value - an argument in the form that all formats use: a number or a text. */
#ifndef INSPECT_EXPORT_VALUE_H
#define INSPECT_EXPORT_VALUE_H

#include <stddef.h>

#include "inspect/trace/trace_file.h"

enum { VALUE_TEXT_BYTES_MAX = 4096 };

enum value_kind {
	VALUE_NONE, /* an object argument that names no object */
	VALUE_UNSIGNED,
	VALUE_SIGNED,
	VALUE_BOOL,
	VALUE_TEXT, /* a string, an enum's label, "0x..." for a hexadecimal number, "i435" for an object */
};

struct value {
	enum value_kind kind;
	uint64_t number; /* as recorded, for each kind; signed types are sign-extended */
	size_t bytes;	 /* of the text, which is valid UTF-8 without control characters other than white space */
	char text[VALUE_TEXT_BYTES_MAX];
};

void value_of_arg(const struct reader *reader, const struct reader_arg *arg, const uint32_t *slots,
		  struct value *value_ret);

/* "i435", cut to `to_bytes`; 64 are enough for all but hostile prefixes. */
void value_object(const struct reader_object *object, uint32_t id, char *to, size_t to_bytes);

/* Nanoseconds since the program started; 0 if earlier. */
uint64_t value_ns(const struct reader *reader, uint64_t tick);

#endif
