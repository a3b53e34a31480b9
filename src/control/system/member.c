/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/system/member.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/fault/fault.h"

enum { DOMAIN_LEVELS_MAX = 8 };
static_assert(MEMBER_UUID_TEXT_BYTES == 2 * MEMBER_UUID_BYTES + 4 + 1,
	      "two digits for each byte, four dashes, and the NUL");

size_t member_provider_bytes(const char *uri)
{
	const char *end = strstr(uri, "://");

	return end ? (size_t)(end - uri) : strlen(uri);
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

int member_uuid_parse(const char *text, uint8_t *uuid_ret)
{
	uint8_t uuid[MEMBER_UUID_BYTES];
	const char *at = text;

	for (size_t i = 0; i < sizeof(uuid); i++) {
		int high, low;

		if ((i == 4 || i == 6 || i == 8 || i == 10) && *at++ != '-')
			return -EINVAL;
		high = hex_digit(at[0]);
		low = high < 0 ? -1 : hex_digit(at[1]);
		if (low < 0)
			return -EINVAL;
		uuid[i] = (uint8_t)(high << 4 | low);
		at += 2;
	}
	must(at == text + MEMBER_UUID_TEXT_BYTES - 1);
	if (*at)
		return -EINVAL;
	memcpy(uuid_ret, uuid, sizeof(uuid));
	return 0;
}

const char *member_uuid_format(const uint8_t *uuid, char *text)
{
	char *at = text;

	for (size_t i = 0; i < MEMBER_UUID_BYTES; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		at += snprintf(at, 3, "%02x", uuid[i]);
	}
	must(at == text + MEMBER_UUID_TEXT_BYTES - 1);
	return text;
}

/* Check one level, `bytes` long. Returns NULL if it is valid, else the reason. */
static const char *check_level(const char *level, size_t bytes, bool *has_label_ret)
{
	const char *equals = memchr(level, '=', bytes);

	if (bytes == 0)
		return "a level is empty";
	for (size_t i = 0; i < bytes; i++) {
		if (!isgraph((unsigned char)level[i]))
			return "a level has a blank or an unprintable character";
	}
	*has_label_ret = equals != NULL;
	if (equals && (equals == level || equals == level + bytes - 1 ||
		       memchr(equals + 1, '=', (size_t)(level + bytes - equals - 1))))
		return "a labelled level is label=name, and = stands in neither";
	return NULL;
}

int member_domain_parse(const char *text, uint32_t *depth_ret, char *labels_ret, struct fathom_fault *why)
{
	char labels[MEMBER_DOMAIN_BYTES];
	size_t used = 0;
	uint32_t depth = 0, labelled = 0;

	if (strlen(text) >= MEMBER_DOMAIN_BYTES)
		return fault_fault_domain_bad(why, text, "it is longer than 255 characters");
	if (text[0] != '/')
		return fault_fault_domain_bad(why, text, "it does not begin with /");
	for (const char *level = text; *level;) {
		size_t bytes = strcspn(level + 1, "/");
		bool has_label = false;
		const char *wrong = check_level(level + 1, bytes, &has_label);

		if (wrong || depth == DOMAIN_LEVELS_MAX)
			return fault_fault_domain_bad(why, text, wrong ? wrong : "it has more than 8 levels");
		if (has_label)
			used += (size_t)snprintf(labels + used, sizeof(labels) - used, "/%.*s",
						 (int)strcspn(level + 1, "="), level + 1);
		labelled += has_label;
		depth++;
		level += bytes + 1;
	}
	if (labelled && labelled != depth)
		return fault_fault_domain_bad(why, text, "some levels have a label and some have none");
	must(depth > 0 && depth <= DOMAIN_LEVELS_MAX);
	must(used < sizeof(labels)); /* labels are parts of the text */
	labels[used] = '\0';
	memcpy(labels_ret, labels, used + 1);
	*depth_ret = depth;
	return 0;
}
