/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * expression - a condition on an event, in the syntax that users type:
 *
 *   latency_us > 5ms and (type == READ or device =~ "disk") and not core == 3
 *
 *   either  := both { ("or" | "||") both }
 *   both    := one { ("and" | "&&") one }
 *   one     := ("not" | "!") one | "(" either ")" | NAME [compare value]
 *   compare := == = != < <= > >= =~ (contains)
 *   value   := a number (12, 0x1f, -5, 2.5, 4k = 4096, M, G, T; 20ns, 5us, 5ms, 2s), "text", or a word
 *
 * The caller resolves each name to a number, a text, or both: a value with a label (READ) and an object (r12) have both.
 * A number with a unit of time compares only with a value that has a unit of time, and both are converted to
 * nanoseconds. A number without one compares in the value's own unit. Text comparison ignores case. If the event does
 * not have the name, the comparison is false, also with !=. NAME alone means: it is not 0.
 *
 * Pure: no files, no clocks. Only the parser allocates memory. Thread: any; evaluation changes nothing.
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
	long double unit_ns; /* nanoseconds per unit of a time; 0: not a time */
	const char *text;    /* NULL: none. Lent until the next lookup */
	size_t text_bytes;
};

/* Fill `*value_ret` with the value of name number `name`. False: the event has none. */
typedef bool (*expression_lookup_fn)(void *ctx, uint32_t name, struct expression_value *value_ret);

/* Errors: -EINVAL (explained), with the offset of the error in `*place_ret`; -ENOMEM. */
MUST_CHECK int expression_parse(const char *text, struct expression **expression_ret, struct fathom_fault *why,
				size_t *place_ret);
/* Accepts NULL. */
void expression_free(struct expression *expression);

bool expression_evaluate(const struct expression *expression, expression_lookup_fn lookup, void *ctx);

/* The distinct names in the expression: each as typed, with the offset of its first use. */
uint32_t expression_name_count(const struct expression *expression);
const char *expression_name(const struct expression *expression, uint32_t name, size_t *place_ret);

/*
 * Return the text that comparison number `index` expects of name `*name_ret`, lent, with its offset. `*bytes_ret` is 0
 * if the comparison is with a number or uses =~. False: no more comparisons.
 */
bool expression_wanted_text(const struct expression *expression, uint32_t index, uint32_t *name_ret, const char **text_ret,
			    size_t *bytes_ret, size_t *place_ret);

/*
 * Split "GROUP.NAME EXPRESSION", "GROUP.NAME" or "EXPRESSION". Copies group and name, each into
 * EXPRESSION_NAME_BYTES_MAX bytes with its NUL; both are "" if there is no event. Returns the offset of the expression,
 * or of the end.
 */
size_t expression_event(const char *text, char *group, char *name);

#endif
