/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault - the faults of the control plane: raised by typed functions, printed as two lines, carried between programs.
 *
 *     return fault_pool_label_taken(why, label);              faults.gen.h: -EEXIST, and `why` filled
 *     fault_show(why, &shown); fault_print(&shown, ...)       domain: code = N description = "..."
 *     fault_to_info(&shown, &info)                            what google.rpc.ErrorInfo holds
 *     fault_from_info(&info, &shown)                          and back, at the other end
 *
 * faults.def is the one table; docs/faults.md is made of it, and `make check` says when it is not current. What comes from
 * another program may have codes that this one does not know: it is shown in that one's words. Any thread; no allocation.
 */
#ifndef CONTROL_FAULT_FAULT_H
#define CONTROL_FAULT_FAULT_H

#include <stddef.h>

#include "base/fault.h"
#include "control/fault/faults.gen.h"

enum {
	/* every byte of both texts escaped, and the words around them */
	FAULT_LINES_BYTES_MAX = 2 * (4 * FAULT_TEXT_BYTES_MAX + 128),
	FAULT_PAIRS_MAX = 8,
};

/* A fault as it is shown and sent. Texts are UTF-8. */
struct fault_shown {
	int code;
	char domain[FAULT_DOMAIN_BYTES]; /* no ':' and no blanks in it */
	char description[FAULT_TEXT_BYTES_MAX];
	char reason[FAULT_TEXT_BYTES_MAX]; /* what lay below, or "" */
	char resolution[FAULT_TEXT_BYTES_MAX];
};

/*
 * A fault of this program. One without a code is shown with code 0, by its text; it is not to be sent as ErrorInfo.
 * `why->error` is not 0.
 */
void fault_show(const struct fault *why, struct fault_shown *shown_ret);

/* The same back: a fault of which this program has no row has the error -EREMOTEIO. */
void fault_from_shown(const struct fault_shown *shown, struct fault *why_ret);

/*
 * `domain: code = N description = "..."` and the same with the resolution, each behind `prefix` and with a line's end;
 * one without a code: its text alone. Returns `text`, cut to fit and NUL-terminated.
 */
const char *fault_print(const struct fault_shown *shown, const char *prefix, char *text, size_t text_bytes);

/* The first of these lines without its end, as it goes into grpc-message. Returns `text`. */
const char *fault_message(const struct fault_shown *shown, char *text, size_t text_bytes);

/* What is in the fields of a google.rpc.ErrorInfo: strings are borrowed from whoever filled it. */
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

/* `info_ret` borrows `shown`. Its code is not 0. */
void fault_to_info(const struct fault_shown *shown, struct fault_info *info_ret);

/*
 * Errors: -ENOENT (another reason than FAULT_INFO_REASON), -EBADMSG (no code, or no number in it). What is missing
 * otherwise is "", what is too long is cut, and what is no UTF-8 has '?' in its place.
 */
MUST_CHECK int fault_from_info(const struct fault_info *info, struct fault_shown *shown_ret);

/* "pool_label_taken"; NULL: no row has the code. */
const char *fault_name(int code);

#endif
