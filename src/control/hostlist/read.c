/* SPDX-License-Identifier: BSD-2-Clause */
/* Parse the grammar of hostlist.h into hosts. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/hostlist/internal.h"
#include "control/hostlist/range.h"

enum { NAME_BYTES_MAX = 253, BRACKETS_MAX = 8, PORT_BYTES = 8 };

static_assert(NAME_BYTES_MAX + PORT_BYTES <= HOST_BYTES_MAX, "a name with a port and a NUL");
static_assert(INET6_ADDRSTRLEN + 2 + PORT_BYTES <= HOST_BYTES_MAX, "an IPv6 address in brackets with a port");
static_assert(PORT_BYTES > sizeof(":65535") - 1, "a port and a NUL");

struct reading {
	struct host_set *set;
	const char *text; /* the whole list, to compute columns */
	struct fathom_fault *why;
	char port[PORT_BYTES]; /* of the current token: ":10001" or "" */
	const char *token_end; /* of the current token, before its port */
};

static int reject_list(const struct reading *reading, const char *at, const char *reason)
{
	must(at >= reading->text);
	return fault_host_list_bad(reading->why, reading->text, (uint32_t)(at - reading->text) + 1, reason);
}

static bool is_separator(char c)
{
	return c == ',' || c == ' ' || c == '\t';
}

static const char *token_end(const char *at)
{
	bool is_inside = false;

	for (; *at && (is_inside || !is_separator(*at)); at++) {
		if (*at == '[')
			is_inside = true;
		else if (*at == ']')
			is_inside = false;
	}
	return at;
}

/* Parse ":1" ... ":65535" at `at` into `reading->port`. */
static int read_port(struct reading *reading, const char *at, const char *end)
{
	uint64_t port = 0;

	must(at <= end);
	reading->port[0] = '\0';
	if (at == end)
		return 0;
	if (*at != ':')
		return reject_list(reading, at, "a colon and a port are expected");
	for (const char *digit = at + 1; digit < end && isdigit((unsigned char)*digit) && port <= UINT16_MAX; digit++)
		port = port * 10 + (uint64_t)(*digit - '0');
	snprintf(reading->port, sizeof(reading->port), ":%u", (unsigned int)min_u64(port, UINT16_MAX));
	/* only the canonical form: no leading zeroes, no trailing bytes */
	if (port == 0 || port > UINT16_MAX || strlen(reading->port) != (size_t)(end - at) ||
	    memcmp(reading->port, at, (size_t)(end - at)) != 0)
		return reject_list(reading, at + 1, "a port is a number from 1 to 65535");
	return 0;
}

static int append_host(struct reading *reading, const char *host, const char *at)
{
	char *copy;
	int error;

	if (asprintf(&copy, "%s%s", host, reading->port) < 0)
		return -ENOMEM;
	must(strlen(copy) < HOST_BYTES_MAX);
	error = host_set_append(reading->set, copy);
	return error == -ERANGE ? reject_list(reading, at, "these are too many hosts") : error;
}

/* Append the IPv6 address between `at` and `end` in its short form, so that equal addresses compare as equal. */
static int append_ipv6(struct reading *reading, const char *at, const char *end)
{
	char text[INET6_ADDRSTRLEN], host[INET6_ADDRSTRLEN + 2];
	struct in6_addr address;

	if ((size_t)(end - at) < sizeof(text)) {
		memcpy(text, at, (size_t)(end - at));
		text[end - at] = '\0';
		if (inet_pton(AF_INET6, text, &address) == 1 && inet_ntop(AF_INET6, &address, text, sizeof(text))) {
			snprintf(host, sizeof(host), "[%s]", text);
			return append_host(reading, host, at);
		}
	}
	return reject_list(reading, at, "this is no IPv6 address");
}

static int append_name(struct reading *reading, const char *name, const char *at)
{
	struct in_addr address;
	size_t bytes = strlen(name);

	must(bytes > 0);
	must(bytes <= NAME_BYTES_MAX);
	if (!isalnum((unsigned char)name[0]) || !isalnum((unsigned char)name[bytes - 1]))
		return reject_list(reading, at, "a name begins and ends with a letter or digit");
	if (name[strspn(name, "0123456789.")] == '\0' && inet_pton(AF_INET, name, &address) != 1)
		return reject_list(reading, at, "this is neither a name nor an IPv4 address");
	return append_host(reading, name, at);
}

/* Append the text at `at` to the first `used` bytes of `name`. A bracket is replaced by each of its numbers in turn. */
static int expand_name(struct reading *reading, const char *at, char *name, size_t used, int brackets)
{
	struct range range;
	const char *close, *reason, *wrong;
	int taken, error = 0;

	must(at <= reading->token_end);
	must(used <= NAME_BYTES_MAX);
	must(brackets <= BRACKETS_MAX);
	for (; at < reading->token_end && *at != '['; at++) {
		if (!isalnum((unsigned char)*at) && !strchr("-._", *at))
			return reject_list(reading, at, "this character is in no host's name");
		if (used == NAME_BYTES_MAX)
			return reject_list(reading, at, "the name is too long");
		name[used++] = *at;
	}
	name[used] = '\0';
	if (at == reading->token_end)
		return append_name(reading, name, at - 1);
	close = memchr(at, ']', (size_t)(reading->token_end - at));
	if (!close || brackets == BRACKETS_MAX)
		return reject_list(reading, at, close ? "there are too many brackets" : "the bracket is not closed");
	for (at++; !error; at += taken + 1) {
		taken = range_parse(at, close, HOST_RANGE_MAX, &range, &reason, &wrong);
		if (taken < 0)
			return reject_list(reading, wrong, reason);
		must(at + taken <= close);
		if (used + RANGE_DIGITS_MAX > NAME_BYTES_MAX)
			return reject_list(reading, at, "the name is too long");
		for (uint64_t number = range.low; !error && number <= range.high; number++) {
			int digits = snprintf(name + used, RANGE_DIGITS_MAX + 1, "%0*llu", range.width,
					      (unsigned long long)number);

			must(digits > 0 && digits <= RANGE_DIGITS_MAX);
			error = expand_name(reading, close + 1, name, used + (size_t)digits, brackets + 1);
		}
		if (at + taken == close)
			break;
	}
	return error;
}

static int read_token(struct reading *reading, const char *at, const char *end)
{
	char name[NAME_BYTES_MAX + RANGE_DIGITS_MAX + 1];
	const char *colon = NULL;
	int colons = 0, error;

	must(at < end);
	if (*at == '[') {
		const char *close = memchr(at, ']', (size_t)(end - at));

		if (!close)
			return reject_list(reading, at, "the bracket is not closed");
		error = read_port(reading, close + 1, end);
		return error ? error : append_ipv6(reading, at + 1, close);
	}
	for (const char *c = at; c < end; c++) {
		if (*c == ':' && colons++ == 0)
			colon = c;
	}
	if (colons > 1) {
		reading->port[0] = '\0';
		return append_ipv6(reading, at, end);
	}
	reading->token_end = colon ? colon : end;
	if (reading->token_end == at)
		return reject_list(reading, at, "a host is expected before the port");
	error = read_port(reading, reading->token_end, end);
	return error ? error : expand_name(reading, at, name, 0, 0);
}

int host_set_read(struct host_set *set, const char *text, struct fathom_fault *why)
{
	struct reading reading = { .set = set, .text = text, .why = why };
	int error = 0;

	for (const char *at = text; !error && *at;) {
		const char *end = token_end(at);

		if (end > at)
			error = read_token(&reading, at, end);
		at = *end ? end + 1 : end;
	}
	return error;
}
