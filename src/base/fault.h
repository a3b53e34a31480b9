/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault - an error that a person must act on: a sentence that states what happened, with its values.
 *
 * A function whose errors need an explanation takes a `struct fathom_fault *why`, fills it where the values are known and
 * returns the negative errno. The caller that handles the error prints or sends the fault, once.
 *
 * A fault that an operator can act on also has a code and a resolution. The functions generated from
 * control/fault/faults.def fill it; control/fault/fault.h prints and sends it. docs/decisions/009-one-kind-of-fault.md
 * explains why both kinds share one structure, which the installed headers define.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include "base/must.h"
#include "fathom/fault.h"

enum {
	FAULT_TEXT_BYTES_MAX = FATHOM_FAULT_BYTES,
	FAULT_RESOLUTION_BYTES_MAX = FATHOM_RESOLUTION_BYTES,
	FAULT_DOMAIN_BYTES = FATHOM_DOMAIN_BYTES,
};

/* Fill `why` (which may be NULL). `error` is a negative errno. */
void fill_fault(struct fathom_fault *why, int error, const char *format, ...) PRINTF_LIKE(3, 4);

/* The same, and return `error`. */
MUST_CHECK int fault(struct fathom_fault *why, int error, const char *format, ...) PRINTF_LIKE(3, 4);

/* Like fault(), with a code; for the functions of control/fault/faults.gen.h. `why` may be NULL. */
void fault_coded(struct fathom_fault *why, int error, int code, const char *format, ...) PRINTF_LIKE(4, 5);

/* Set the resolution of the fault that `why` (which may be NULL) holds. */
void fault_resolve(struct fathom_fault *why, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
