/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server's record of an engine's storage, kept outside of that storage. Without it, a folder that is empty because its
 * filesystem is not mounted looks like a folder that was never formatted, and could be formatted on the root disk.
 *
 *	STATE_DIR/engineN.storage	UUID RANK FORMATTED MOUNT
 *
 * "- 4294967295 0 1": it was erased, and is a mount point.
 *
 * The record follows the superblock: it is written after formatting, after erasing, before each start, and when the engine
 * has its rank. UUID and rank of the record are used only while the superblock cannot be read. Without the file, an empty
 * folder awaits formatting.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/instance/internal.h"

enum { RECORD_BYTES = 128 };

static void record_path(const struct instance *instance, char *path)
{
	must(snprintf(path, INSTANCE_PATH_BYTES, "%s/engine%u.storage", instance->options.state_dir,
		      instance->options.index) < INSTANCE_PATH_BYTES);
}

static bool parse_record(char *text, struct instance_record *record_ret)
{
	char *next = text, *uuid = strsep(&next, " ");
	uint64_t rank, formatted, mount;

	if (!next || text_parse_u64(strsep(&next, " "), 10, UINT32_MAX, &rank) != 0 || !next ||
	    text_parse_u64(strsep(&next, " "), 10, 1, &formatted) != 0 || !next || text_parse_u64(next, 10, 1, &mount) != 0)
		return false;
	*record_ret = (struct instance_record){ .rank = (uint32_t)rank, .is_formatted = formatted, .is_mount = mount };
	return !formatted || member_uuid_parse(uuid, record_ret->uuid) == 0;
}

bool instance_read_record(struct instance *instance, struct instance_record *record_ret)
{
	char path[INSTANCE_PATH_BYTES], text[RECORD_BYTES];

	if (!instance->options.state_dir)
		return false;
	record_path(instance, path);
	return provider_read_text(instance->options.os, path, text, sizeof(text)) == 0 && parse_record(text, record_ret);
}

static int write_record(struct instance *instance, bool is_formatted)
{
	const struct superblock *superblock = &instance->superblock;
	char path[INSTANCE_PATH_BYTES], text[RECORD_BYTES], before[RECORD_BYTES], uuid[MEMBER_UUID_TEXT_BYTES] = "-";
	uint32_t rank = is_formatted && superblock->has_rank ? superblock->rank : RANK_NONE;

	if (!instance->options.state_dir)
		return 0;
	record_path(instance, path);
	if (is_formatted)
		member_uuid_format(superblock->uuid, uuid);
	must((size_t)snprintf(text, sizeof(text), "%s %" PRIu32 " %d %d\n", uuid, rank, is_formatted,
			      instance_is_mount(instance)) < sizeof(text));
	if (provider_read_text(instance->options.os, path, before, sizeof(before)) == 0 &&
	    strncmp(before, text, strlen(text) - 1) == 0 && strlen(before) == strlen(text) - 1)
		return 0;
	return instance_replace_file(instance, path, text, true);
}

int instance_record_formatted(struct instance *instance)
{
	must(instance->has_superblock);
	must(!is_all_zero(instance->superblock.uuid, sizeof(instance->superblock.uuid)));
	return write_record(instance, true);
}

int instance_record_erased(struct instance *instance)
{
	return write_record(instance, false);
}
