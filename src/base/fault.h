/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault - something a person must act on: what happened, with its values.
 *
 * A function that can fail for reasons worth a sentence takes a `struct fault *why`, fills it where the values are known
 * and returns the negative errno. The caller that handles the error prints or sends it, once.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include "base/must.h"

enum { FAULT_TEXT_BYTES_MAX = 512 };

struct fault {
	int error; /* negative errno; 0: nothing happened */
	char text[FAULT_TEXT_BYTES_MAX];
};

/* Fill `why` (which may be NULL) and return `error`, so that one line says and returns it. `error` is a negative errno. */
MUST_CHECK int fault(struct fault *why, int error, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
