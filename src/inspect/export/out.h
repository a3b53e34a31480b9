/* SPDX-License-Identifier: BSD-2-Clause */
/* out - a buffered output file. The first error is kept; nothing is written after it. */
#ifndef INSPECT_EXPORT_OUT_H
#define INSPECT_EXPORT_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/must.h"

enum { OUT_BUFFER_BYTES = 1 << 18 };

struct out {
	int fd, error; /* negative errno */
	size_t used;
	char buffer[OUT_BUFFER_BYTES];
};

/* `fd` is borrowed. */
void out_init(struct out *out, int fd);
/* Write the buffer. Returns the first error so far. */
int out_flush(struct out *out);

void out_bytes(struct out *out, const void *bytes, size_t count);
void out_format(struct out *out, const char *format, ...) PRINTF_LIKE(2, 3);
void out_u64(struct out *out, uint64_t number);

/*
 * Write a JSON string with its quotes. It cannot end an HTML script element or a line of JavaScript: '<', '>', '&' and
 * the two Unicode line ends are escaped, too. Invalid UTF-8 becomes '?'.
 */
void out_json(struct out *out, const char *text, size_t count);

static inline void out_text(struct out *out, const char *text)
{
	out_bytes(out, text, strlen(text));
}

static inline void out_char(struct out *out, char c)
{
	out_bytes(out, &c, 1);
}

#endif
