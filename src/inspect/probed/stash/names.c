/* SPDX-License-Identifier: BSD-2-Clause */
/* names - makes and parses the names of files in the tree. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "inspect/probed/stash/internal.h"

static_assert(STASH_FILE_NAME_BYTES == NAME_MAX + 1, "");
/* `$prv$pid/$mod/$fun/$prb`: each part with its separator */
static_assert(DOF_PROVIDER_BYTES + 10 + DOF_MODULE_BYTES + DOF_FUNCTION_BYTES + DOF_NAME_BYTES <= STASH_PATH_BYTES, "");

void stash_mapping_name(const struct stash_mapping *mapping, char *name)
{
	must(snprintf(name, STASH_MAPPING_NAME_BYTES, "%" PRIu64 "-%" PRIu64, mapping->device, mapping->inode) <
	     STASH_MAPPING_NAME_BYTES);
}

bool stash_parse_number(const char *name, uint64_t max, uint64_t *number_ret)
{
	/* no leading zeros: one number has one name */
	return name[0] >= '0' && name[0] <= '9' && (name[0] != '0' || !name[1]) &&
	       text_parse_u64(name, 10, max, number_ret) == 0;
}

bool stash_parse_mapping(const char *name, struct stash_mapping *mapping_ret)
{
	char device[STASH_MAPPING_NAME_BYTES];
	const char *dash = strchr(name, '-');
	struct stash_mapping mapping;

	if (!dash || (size_t)(dash - name) >= sizeof(device))
		return false;
	memcpy(device, name, (size_t)(dash - name));
	device[dash - name] = '\0';
	if (!stash_parse_number(device, UINT64_MAX, &mapping.device) ||
	    !stash_parse_number(dash + 1, UINT64_MAX, &mapping.inode))
		return false;
	*mapping_ret = mapping;
	return true;
}

void stash_parsed_name(const char *provider, pid_t pid, const struct dof_probe *probe, uint32_t number, char *name)
{
	int bytes;

	must(pid > 0);
	bytes = snprintf(name, STASH_FILE_NAME_BYTES, "%s%d:%s:%s:%s", provider, (int)pid, probe->module, probe->function,
			 probe->name);

	if (bytes >= STASH_FILE_NAME_BYTES)
		snprintf(name, STASH_FILE_NAME_BYTES, ":%" PRIu32, number);
	must(strlen(name) > 0 && strlen(name) < STASH_FILE_NAME_BYTES);
}

bool stash_is_long_name(const char *name)
{
	uint64_t number;

	return name[0] == ':' && stash_parse_number(name + 1, UINT32_MAX, &number);
}

bool stash_split_parsed_name(const char *name, struct stash_probe_name *split)
{
	const char **parts[] = { &split->provider, &split->module, &split->function, &split->name };
	char *at = split->text;

	if (text_copy(split->text, sizeof(split->text), name) != 0)
		return false;
	for (size_t i = 0; i < 4; i++) {
		char *colon = strchr(at, ':');

		if ((colon != NULL) != (i < 3) || *at == ':' || !*at)
			return false;
		*parts[i] = at;
		if (colon) {
			*colon = '\0';
			at = colon + 1;
		}
	}
	return true;
}

void stash_probe_path(const struct stash_probe_name *split, int depth, char *path)
{
	const char *parts[] = { split->provider, split->module, split->function, split->name };
	size_t at = 0;

	must(depth >= 1 && depth <= 4);
	for (int i = 0; i < depth; i++) {
		size_t bytes = strlen(parts[i]);

		must(at + bytes + 1 < STASH_PATH_BYTES);
		if (i > 0)
			path[at++] = '/';
		memcpy(path + at, parts[i], bytes);
		at += bytes;
	}
	must(at > 0 && at < STASH_PATH_BYTES);
	path[at] = '\0';
}
