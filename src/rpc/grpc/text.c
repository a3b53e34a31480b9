/* SPDX-License-Identifier: BSD-2-Clause */
#include "rpc/grpc/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "rpc/grpc/grpc.h"
#include "base/bits.h"
#include "base/clock.h"

/* ---- grpc-timeout ---- */

static const struct unit {
	char letter;
	uint64_t ns;
} units[] = {
	{ 'n', 1 },	     { 'u', NS_PER_US },       { 'm', NS_PER_MS },
	{ 'S', NS_PER_SEC }, { 'M', 60 * NS_PER_SEC }, { 'H', 3600 * NS_PER_SEC },
};

enum { TIMEOUT_DIGITS_MAX = 8, TIMEOUT_MAX = 99999999 };
#define TIMEOUT_NS_MAX (100 * 365 * 24 * UINT64_C(3600) * NS_PER_SEC) /* a longer time-out is no deadline */

int grpc_timeout_parse(const char *text, uint64_t *ns_ret)
{
	size_t digits = strspn(text, "0123456789");
	uint64_t number = 0;

	if (digits == 0 || digits > TIMEOUT_DIGITS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < digits; i++)
		number = number * 10 + (uint64_t)(text[i] - '0');
	for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
		if (text[digits] == units[i].letter && text[digits + 1] == '\0') {
			/* 99999999 hours do not fit into 64 bits */
			*ns_ret = number > TIMEOUT_NS_MAX / units[i].ns ? GRPC_NO_DEADLINE : number * units[i].ns;
			return 0;
		}
	}
	return -EINVAL;
}

void grpc_timeout_format(char text[static GRPC_TIMEOUT_BYTES_MAX], uint64_t ns)
{
	for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
		uint64_t number = ns / units[i].ns + (ns % units[i].ns != 0);

		if (number <= TIMEOUT_MAX || i == ARRAY_COUNT(units) - 1) {
			snprintf(text, GRPC_TIMEOUT_BYTES_MAX, "%u%c", (unsigned int)min_u64(number, TIMEOUT_MAX),
				 units[i].letter);
			return;
		}
	}
}

/* ---- grpc-message ---- */

static const char hex[] = "0123456789ABCDEF";

void grpc_percent_encode(char *to, size_t to_bytes, const char *from)
{
	size_t used = 0;

	must(to_bytes > 0);
	for (; *from; from++) {
		unsigned char c = (unsigned char)*from;
		bool plain = c >= ' ' && c <= '~' && c != '%';

		if (used + (plain ? 1 : 3) >= to_bytes)
			break;
		if (plain) {
			to[used++] = (char)c;
		} else {
			to[used++] = '%';
			to[used++] = hex[c >> 4];
			to[used++] = hex[c & 15];
		}
	}
	to[used] = '\0';
}

static int nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void grpc_percent_decode(char *to, size_t to_bytes, const char *from)
{
	size_t used = 0;

	must(to_bytes > 0);
	while (*from && used + 1 < to_bytes) {
		if (from[0] == '%' && nibble(from[1]) >= 0 && nibble(from[2]) >= 0) {
			to[used++] = (char)(nibble(from[1]) << 4 | nibble(from[2]));
			from += 3;
		} else {
			to[used++] = *from++;
		}
	}
	to[used] = '\0';
}

/* ---- -bin ---- */

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void grpc_base64_encode(char *to, const uint8_t *from, size_t bytes)
{
	for (; bytes > 0; from += min_u64(bytes, 3), bytes -= min_u64(bytes, 3)) {
		uint32_t three = (uint32_t)from[0] << 16 | (uint32_t)(bytes > 1 ? from[1] : 0) << 8 |
				 (uint32_t)(bytes > 2 ? from[2] : 0);

		*to++ = digits64[three >> 18];
		*to++ = digits64[three >> 12 & 63];
		if (bytes > 1)
			*to++ = digits64[three >> 6 & 63];
		if (bytes > 2)
			*to++ = digits64[three & 63];
	}
	*to = '\0';
}

int grpc_base64_decode(uint8_t *to, const char *from, size_t *bytes_ret)
{
	size_t length = strlen(from), used = 0;
	uint32_t bits = 0;

	while (length > 0 && from[length - 1] == '=')
		length--;
	if (length % 4 == 1)
		return -EINVAL;
	for (size_t i = 0; i < length; i++) {
		const char *digit = memchr(digits64, from[i], sizeof(digits64) - 1);

		if (!digit)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)(digit - digits64);
		if (i % 4 != 0)
			to[used++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
	}
	*bytes_ret = used;
	return 0;
}
