/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * expression - a condition on an event, as people type it:
 *
 *   latency_us > 5ms and (type == READ or device =~ "disk") and not core == 3
 *
 *   either  := both { ("or" | "||") both }
 *   both    := one { ("and" | "&&") one }
 *   one     := ("not" | "!") one | "(" either ")" | NAME [compare value]
 *   compare := == = != < <= > >= =~ (contains)
 *   value   := a number (12, 0x1f, -5, 2.5, 4k = 4096, M, G, T; 20ns, 5us, 5ms, 2s), "text", or a word
 *
 * What a name stands for is the caller's: a number, a text, or both, as a value with a label (READ) or an object (r12) has.
 * A number with a unit of time compares with what has a unit of time, whatever that is; one without is in the value's own
 * unit. Texts compare without regard to case. A name that an event does not have makes its comparison false, also with !=.
 * NAME alone: it is not 0.
 *
 * Pure: no files, no clocks. Memory is allocated by the parser alone. Thread: any; evaluating does not change anything.
 */
#ifndef INSPECT_TRACE_EXPRESSION_H
#define INSPECT_TRACE_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"

enum {
	EXPRESSION_BYTES_MAX = 1024,
	EXPRESSION_NODES_MAX = 128,
	EXPRESSION_NAMES_MAX = 32,
	EXPRESSION_DEPTH_MAX = 32, /* of parentheses and `not` */
	EXPRESSION_NAME_BYTES_MAX = 64,
};

struct expression;

struct expression_value {
	bool has_number;
	long double number;  /* holds every 64-bit integer exactly */
	long double unit_ns; /* of a time: nanoseconds in its unit; 0: no time */
	const char *text;    /* NULL: none. Lent until the lookup's next call */
	size_t text_bytes;
};

/* The value of name number `name`. False: this event has none. */
typedef bool (*expression_lookup_fn)(void *ctx, uint32_t name, struct expression_value *value_ret);

/* -EINVAL (explained), with the offset of the place in `*place_ret`; -ENOMEM. */
MUST_CHECK int expression_parse(const char *text, struct expression **expression_ret, struct fault *why, size_t *place_ret);
/* Accepts NULL. */
void expression_free(struct expression *expression);

bool expression_evaluate(const struct expression *expression, expression_lookup_fn lookup, void *ctx);

/* The names that it asks for, each once: as typed, and the offset at which it stands first. */
uint32_t expression_name_count(const struct expression *expression);
const char *expression_name(const struct expression *expression, uint32_t name, size_t *place_ret);

/*
 * The text that comparison number `index` looks for in `*name_ret`'s value, lent, with the offset at which it stands.
 * False: there are no more comparisons. `*bytes_ret` 0: this one is with a number, or for a part of a text.
 */
bool expression_wanted_text(const struct expression *expression, uint32_t index, uint32_t *name_ret, const char **text_ret,
			    size_t *bytes_ret, size_t *place_ret);

/*
 * "GROUP.NAME EXPRESSION", "GROUP.NAME" or "EXPRESSION": copy group and name, each of EXPRESSION_NAME_BYTES_MAX with its
 * NUL, "" if there are none. Returns the offset at which the expression begins, or the end.
 */
size_t expression_event(const char *text, char *group, char *name);

#endif
