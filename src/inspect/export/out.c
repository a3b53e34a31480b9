/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/export/out.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/file.h"
#include "base/text.h"

void out_init(struct out *out, int fd)
{
	out->fd = fd;
	out->error = 0;
	out->used = 0;
}

int out_flush(struct out *out)
{
	if (out->error == 0)
		out->error = file_write(out->fd, out->buffer, out->used);
	out->used = 0;
	return out->error;
}

void out_bytes(struct out *out, const void *bytes, size_t count)
{
	const char *from = bytes;

	while (count > 0) {
		size_t piece = min_u64(count, sizeof(out->buffer) - out->used);

		memcpy(out->buffer + out->used, from, piece);
		out->used += piece;
		from += piece;
		count -= piece;
		if (out->used == sizeof(out->buffer))
			out_flush(out);
	}
}

void out_format(struct out *out, const char *format, ...)
{
	char text[1024];
	va_list args;
	int count;

	va_start(args, format);
	count = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	must(count >= 0 && (size_t)count < sizeof(text));
	out_bytes(out, text, (size_t)count);
}

void out_u64(struct out *out, uint64_t number)
{
	char text[24], *at = text + sizeof(text);

	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	out_bytes(out, at, (size_t)(text + sizeof(text) - at));
}

/* Number of bytes from `text` on that JSON needs no escape for. */
static size_t plain_bytes(const char *text, size_t count)
{
	size_t at = 0;

	while (at < count && text[at] >= 0x20 && text[at] < 0x7f && text[at] != '"' && text[at] != '\\' &&
	       text[at] != '<' && text[at] != '>' && text[at] != '&')
		at++;
	return at;
}

void out_json(struct out *out, const char *text, size_t count)
{
	size_t plain = plain_bytes(text, count);

	out_char(out, '"');
	out_bytes(out, text, plain);
	for (size_t at = plain, read; at < count; at += read) {
		char escaped[TEXT_JSON_BYTES_MAX];
		size_t bytes = text_json_escape(escaped, text + at, count - at, TEXT_JSON_HTML, &read);

		out_bytes(out, escaped, bytes);
	}
	out_char(out, '"');
}
