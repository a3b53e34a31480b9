/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault - an error that a person must act on: a sentence that states what happened, with its values.
 *
 * A function whose errors need an explanation takes a `struct fault *why`, fills it where the values are known and returns
 * the negative errno. The caller that handles the error prints or sends the fault, once.
 *
 * A fault that an operator can act on also has a code and a resolution. The functions generated from
 * control/fault/faults.def fill it; control/fault/fault.h prints and sends it. docs/decisions/009-one-kind-of-fault.md
 * explains why both kinds share one structure.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stddef.h>

#include "base/must.h"
#include "fathom/fault.h"

enum { FAULT_TEXT_BYTES_MAX = 512, FAULT_RESOLUTION_BYTES_MAX = 256, FAULT_DOMAIN_BYTES = 64 };

struct fault {
	int error; /* negative errno; 0: no fault */
	char text[FAULT_TEXT_BYTES_MAX];
	int code;
	char resolution[FAULT_RESOLUTION_BYTES_MAX];
	char domain[FAULT_DOMAIN_BYTES]; /* as in "domain: code = N", if only another program knows `code`; else "" */
};

static_assert(sizeof(struct fathom_fault) == sizeof(struct fault), "");
static_assert(offsetof(struct fathom_fault, text) == offsetof(struct fault, text), "");
static_assert(offsetof(struct fathom_fault, resolution) == offsetof(struct fault, resolution), "");
static_assert(offsetof(struct fathom_fault, domain) == offsetof(struct fault, domain), "");

/* `struct fathom_fault` is the same structure under its name in the installed headers. */
static inline struct fault *as_fault(struct fathom_fault *why)
{
	return (struct fault *)why;
}

static inline struct fathom_fault *as_installed_fault(struct fault *why)
{
	return (struct fathom_fault *)why;
}

/* Fill `why` (which may be NULL) and return `error`, a negative errno. */
MUST_CHECK int fault(struct fault *why, int error, const char *format, ...) PRINTF_LIKE(3, 4);

/* Like fault(), with a code; for the functions of control/fault/faults.gen.h. `why` may be NULL. */
void fault_coded(struct fault *why, int error, int code, const char *format, ...) PRINTF_LIKE(4, 5);

/* Set the resolution of the fault that `why` (which may be NULL) holds. */
void fault_resolve(struct fault *why, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
