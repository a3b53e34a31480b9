/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault - the faults of the control plane: raised by typed functions, printed as two lines, carried between programs.
 *
 *     return fault_pool_label_taken(why, label);              faults.gen.h: -EEXIST, and `why` filled
 *     fault_show(why, &shown); fault_print(&shown, ...)       domain: code = N description = "..."
 *     fault_to_info(&shown, &info)                            the fields of a google.rpc.ErrorInfo
 *     fault_from_info(&info, &shown)                          the reverse, at the receiver
 *
 * faults.def is the only table; docs/faults.md is generated from it, and `make check` fails if the page is out of date. A
 * fault from another program may have a code that this program does not know: it is shown with the sender's texts. Any
 * thread; no allocation.
 */
#ifndef CONTROL_FAULT_FAULT_H
#define CONTROL_FAULT_FAULT_H

#include <stddef.h>

#include "base/fault.h"
#include "control/fault/faults.gen.h"

enum {
	/* both texts with every byte escaped, plus the fixed words */
	FAULT_LINES_BYTES_MAX = 2 * (4 * FAULT_TEXT_BYTES_MAX + 128),
	FAULT_PAIRS_MAX = 8,
};

/* A fault in the form that is printed and sent. Texts are UTF-8. */
struct fault_shown {
	int code;
	char domain[FAULT_DOMAIN_BYTES]; /* no ':' and no blanks in it */
	char description[FAULT_TEXT_BYTES_MAX];
	char reason[FAULT_TEXT_BYTES_MAX]; /* the underlying cause, or "" */
	char resolution[FAULT_TEXT_BYTES_MAX];
};

/*
 * Convert a fault of this program. A fault without a code gets code 0; it must not be sent as ErrorInfo. `why->error` must
 * not be 0.
 */
void fault_show(const struct fathom_fault *why, struct fault_shown *shown_ret);

/* The reverse of fault_show(). If no row has the code, the error is -EREMOTEIO. */
void fault_from_shown(const struct fault_shown *shown, struct fathom_fault *why_ret);

/*
 * Print two lines: `domain: code = N description = "..."`, and the same with the resolution. Each begins with `prefix` and
 * ends with a newline. Without a code the first line is the plain text, and the second one is there only if there is a
 * resolution. Returns `text`, cut to fit and NUL-terminated.
 */
const char *fault_print(const struct fault_shown *shown, const char *prefix, char *text, size_t text_bytes);

/*
 * The first line of fault_print() without prefix and newline, for grpc-message. It ends with ": " and the reason, if there
 * is one. Returns `text`.
 */
const char *fault_message(const struct fault_shown *shown, char *text, size_t text_bytes);

/* The fields of a google.rpc.ErrorInfo. Strings are borrowed from the structure or message that they were taken from. */
struct fault_info {
	const char *reason;
	const char *domain;
	struct {
		const char *key;
		const char *value;
	} metadata[FAULT_PAIRS_MAX];
	size_t metadata_count;
	char code_text[12]; /* metadata may point here */
};

#define FAULT_INFO_REASON "proto.fault.Fault"

/* `info_ret` borrows `shown`, whose code must not be 0. */
void fault_to_info(const struct fault_shown *shown, struct fault_info *info_ret);

/*
 * Errors: -ENOENT (the reason is not FAULT_INFO_REASON), -EBADMSG (the code is missing or not a positive number). Other
 * missing fields become "". Texts that are too long are cut; '?' replaces bytes that are not UTF-8.
 */
MUST_CHECK int fault_from_info(const struct fault_info *info, struct fault_shown *shown_ret);

/* "pool_label_taken"; NULL: no row has the code. */
const char *fault_name(int code);

#endif
