/* SPDX-License-Identifier: BSD-2-Clause */
/* Encode and decode the text of a superblock. */
#include <errno.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "control/superblock/superblock.h"

#define CHECKSUM_LINE "checksum: 0x"
#define REPLACEMENT_LINE "replacement: true\n"

enum { CHECKSUM_DIGITS = 8, VALUE_BYTES = 256 };

/* what superblock_encode() writes, superblock_decode() reads */
static_assert(SUPERBLOCK_SYSTEM_BYTES <= (int)VALUE_BYTES, "a system's name is a value");
static_assert(MEMBER_URI_BYTES <= (int)VALUE_BYTES, "an URI is a value");
static_assert(MEMBER_DOMAIN_BYTES <= (int)VALUE_BYTES, "a fault domain is a value");
static_assert(SUPERBLOCK_SYSTEM_BYTES + MEMBER_URI_BYTES + MEMBER_DOMAIN_BYTES + MEMBER_UUID_TEXT_BYTES + 256 <=
		      SUPERBLOCK_TEXT_BYTES_MAX,
	      "all values and the keys fit");

static uint32_t checksum_of(const char *text, size_t bytes)
{
	return crc32_iscsi((unsigned char *)(uintptr_t)text, (int)bytes, 0xffffffff) ^ 0xffffffff;
}

/* Whether `text` may be a value: valid UTF-8, no control characters, no blank at either end. */
static bool is_plain(const char *text)
{
	size_t bytes = strlen(text);

	if (bytes > 0 && (text[0] == ' ' || text[bytes - 1] == ' '))
		return false;
	while (bytes > 0) {
		size_t length = text_utf8_length(text, bytes);

		if (length == 0 || (unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
		text += length;
		bytes -= length;
	}
	return true;
}

int superblock_encode(const struct superblock *superblock, char *text, size_t *bytes_ret)
{
	char uuid[MEMBER_UUID_TEXT_BYTES], labels[MEMBER_DOMAIN_BYTES];
	uint32_t depth;
	int bytes, more;

	if (!*superblock->system || !is_plain(superblock->system) || !is_plain(superblock->uri) ||
	    superblock->rank > RANK_MAX || (!superblock->has_rank && superblock->rank != 0) ||
	    member_domain_parse(superblock->domain, &depth, labels, NULL) < 0)
		return -EINVAL;
	bytes = snprintf(text, SUPERBLOCK_TEXT_BYTES_MAX,
			 "version: %d\nuuid: %s\nsystem: %s\nrank: %" PRIu32
			 "\nuri: %s\nvalidrank: %s\nhostfaultdomain: %s\nincarnation: %" PRIu64 "\n%s",
			 SUPERBLOCK_VERSION, member_uuid_format(superblock->uuid, uuid), superblock->system,
			 superblock->rank, superblock->uri, superblock->has_rank ? "true" : "false", superblock->domain,
			 superblock->incarnation, superblock->is_replacement ? REPLACEMENT_LINE : "");
	must(bytes > 0);
	must(bytes < SUPERBLOCK_TEXT_BYTES_MAX);
	more = snprintf(text + bytes, (size_t)(SUPERBLOCK_TEXT_BYTES_MAX - bytes), CHECKSUM_LINE "%08" PRIx32 "\n",
			checksum_of(text, (size_t)bytes));
	must(more > 0);
	must(bytes + more < SUPERBLOCK_TEXT_BYTES_MAX);
	*bytes_ret = (size_t)(bytes + more);
	return 0;
}

/* Copy the value of the line at `at` into `value`, of VALUE_BYTES. Returns the next line; NULL: no line with this key. */
static const char *parse_line(const char *at, const char *end, const char *key, char *value)
{
	const char *line_end = memchr(at, '\n', (size_t)(end - at));
	size_t key_bytes = strlen(key), bytes;

	if (!line_end || (size_t)(line_end - at) < key_bytes + 2 || memcmp(at, key, key_bytes) != 0 ||
	    memcmp(at + key_bytes, ": ", 2) != 0)
		return NULL;
	bytes = (size_t)(line_end - at) - key_bytes - 2;
	if (bytes >= VALUE_BYTES || memchr(at, '\0', (size_t)(line_end - at)))
		return NULL;
	memcpy(value, at + key_bytes + 2, bytes);
	value[bytes] = '\0';
	return line_end + 1;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *number_ret)
{
	return text_parse_u64(text, 10, max, number_ret) == 0;
}

/* Parse the lines between the version and the checksum. */
static bool parse_lines(const char *at, const char *end, struct superblock *superblock)
{
	char value[VALUE_BYTES];
	uint64_t rank;

	at = parse_line(at, end, "uuid", value);
	if (!at || member_uuid_parse(value, superblock->uuid) < 0)
		return false;
	at = parse_line(at, end, "system", value);
	if (!at || text_copy(superblock->system, sizeof(superblock->system), value) < 0)
		return false;
	at = parse_line(at, end, "rank", value);
	if (!at || !parse_number(value, RANK_MAX, &rank))
		return false;
	superblock->rank = (uint32_t)rank;
	at = parse_line(at, end, "uri", value);
	if (!at || text_copy(superblock->uri, sizeof(superblock->uri), value) < 0)
		return false;
	at = parse_line(at, end, "validrank", value);
	if (!at)
		return false;
	superblock->has_rank = strcmp(value, "true") == 0;
	at = parse_line(at, end, "hostfaultdomain", value);
	if (!at || text_copy(superblock->domain, sizeof(superblock->domain), value) < 0)
		return false;
	at = parse_line(at, end, "incarnation", value);
	if (!at || !parse_number(value, UINT64_MAX, &superblock->incarnation))
		return false;
	superblock->is_replacement = at != end;
	return at == end ||
	       ((size_t)(end - at) == strlen(REPLACEMENT_LINE) && memcmp(at, REPLACEMENT_LINE, (size_t)(end - at)) == 0);
}

int superblock_decode(const char *text, size_t bytes, struct superblock *superblock_ret, uint32_t *version_ret,
		      const char **reason_ret)
{
	const size_t last_bytes = strlen(CHECKSUM_LINE) + CHECKSUM_DIGITS + 1;
	char value[VALUE_BYTES], again[SUPERBLOCK_TEXT_BYTES_MAX];
	struct superblock superblock = { 0 };
	size_t again_bytes;
	const char *at;
	uint64_t version;

	*reason_ret = "it does not begin with a version";
	at = parse_line(text, text + bytes, "version", value);
	if (!at || !parse_number(value, UINT32_MAX, &version) || version == 0)
		return -EBADMSG;
	*version_ret = (uint32_t)version;
	*reason_ret = "it has a newer version";
	if (version > SUPERBLOCK_VERSION)
		return -EPROTO;
	*reason_ret = "it is cut off, or has too much";
	if (bytes >= SUPERBLOCK_TEXT_BYTES_MAX || (size_t)(text + bytes - at) < last_bytes ||
	    memcmp(text + bytes - last_bytes, CHECKSUM_LINE, strlen(CHECKSUM_LINE)) != 0)
		return -EBADMSG;
	*reason_ret = "its checksum is wrong";
	snprintf(value, sizeof(value), "%08" PRIx32 "\n", checksum_of(text, bytes - last_bytes));
	if (memcmp(text + bytes - CHECKSUM_DIGITS - 1, value, CHECKSUM_DIGITS + 1) != 0)
		return -EBADMSG;
	/* the checksum is right, but another program may have written the lines: accept only our own encoding */
	*reason_ret = "its lines are not those of a superblock";
	if (!parse_lines(at, text + bytes - last_bytes, &superblock) ||
	    superblock_encode(&superblock, again, &again_bytes) < 0 || again_bytes != bytes ||
	    memcmp(again, text, bytes) != 0)
		return -EBADMSG;
	*superblock_ret = superblock;
	return 0;
}
