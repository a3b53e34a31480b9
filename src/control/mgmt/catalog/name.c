/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of pools, volumes, snapshots and hosts. The engines have the same rules (data/store/pool/record.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/mgmt/catalog/catalog.h"

static bool is_alphanumeric(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int catalog_check_name(const char *kind, const char *name, struct fathom_fault *why)
{
	uint8_t uuid[MEMBER_UUID_BYTES];
	char shown[CATALOG_NAME_BYTES];

	shown[text_utf8_copy(shown, sizeof(shown) - 1, name, strlen(name))] = '\0';
	if (!*name)
		return fault_storage_name_bad(why, kind, shown, "it is empty");
	if (strlen(name) >= CATALOG_NAME_BYTES)
		return fault_storage_name_bad(why, kind, shown, "it is longer than 63 characters");
	if (!is_alphanumeric(*name))
		return fault_storage_name_bad(why, kind, shown, "it does not begin with a letter or a digit");
	for (const char *c = name; *c; c++) {
		if (!is_alphanumeric(*c) && !strchr("._-", *c))
			return fault_storage_name_bad(why, kind, shown,
						      "it has other characters than a-z, A-Z, 0-9, \".\", \"_\" and \"-\"");
	}
	if (member_uuid_parse(name, uuid) == 0)
		return fault_storage_name_bad(why, kind, shown, "it is a UUID");
	return 0;
}

int catalog_check_nqn(const char *nqn, struct fathom_fault *why)
{
	char shown[CATALOG_NQN_BYTES];

	shown[text_utf8_copy(shown, sizeof(shown) - 1, nqn, strlen(nqn))] = '\0';
	if (strncmp(nqn, "nqn.", 4) != 0 || strlen(nqn) < 5)
		return fault_nqn_bad(why, shown, "it does not begin with \"nqn.\"");
	if (strlen(nqn) >= CATALOG_NQN_BYTES)
		return fault_nqn_bad(why, shown, "it is longer than 223 characters");
	for (const char *c = nqn; *c; c++) {
		if (*c <= ' ' || *c > '~')
			return fault_nqn_bad(why, shown, "it has other characters than printable ASCII");
	}
	return 0;
}

/* Copy the part of `text` up to `end`, or all of it, and check it. Returns what is behind `end`, NULL after an error. */
static const char *take_part(const char *kind, const char *text, char end, char *part, struct fathom_fault *why)
{
	const char *found = end ? strchr(text, end) : NULL;
	size_t bytes = found ? (size_t)(found - text) : strlen(text);
	char copy[CATALOG_NAME_BYTES + 1];

	if (end && !found) {
		fill_fault_storage_name_bad(why, kind, text,
					    end == '/' ? "it is not POOL/VOLUME" : "it is not POOL/VOLUME@SNAPSHOT");
		return NULL;
	}
	/* one byte more than a name may have, so that the check finds it too long */
	snprintf(copy, sizeof(copy), "%.*s", (int)bytes, text);
	if (catalog_check_name(kind, copy, why) < 0)
		return NULL;
	must(text_copy(part, CATALOG_NAME_BYTES, copy) == 0);
	return text + bytes + (found != NULL);
}

int catalog_split_name(const char *text, bool has_snapshot, struct catalog_full_name *name_ret, struct fathom_fault *why)
{
	struct catalog_full_name name = { 0 };
	const char *rest = take_part(has_snapshot ? "snapshot" : "volume", text, '/', name.pool, why);

	if (rest)
		rest = take_part(has_snapshot ? "snapshot" : "volume", rest, has_snapshot ? '@' : '\0', name.volume, why);
	if (rest && has_snapshot)
		rest = take_part("snapshot", rest, '\0', name.snapshot, why);
	if (!rest)
		return -EINVAL;
	must(name.pool[0] && name.volume[0]);
	*name_ret = name;
	return 0;
}

const char *catalog_new_uuid(char *uuid)
{
	uint8_t bytes[MEMBER_UUID_BYTES];

	must(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes));
	bytes[6] = (bytes[6] & 0x0f) | 0x40; /* version 4, random */
	bytes[8] = (bytes[8] & 0x3f) | 0x80;
	return member_uuid_format(bytes, uuid);
}
