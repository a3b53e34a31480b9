/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remove - the other way: a rename to stash/work takes a mapping, or a process, out of the tree at once. What it had is
 * taken apart there, and what is linked to it in probes/ and dof/, where a link that is the last is nobody's. An error
 * after the rename is not the end of it: a sweep does the rest, now or before the next operation.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inspect/probed/stash/internal.h"
#include "inspect/probed/stash/record.h"

/* ---- probes ---- */

/* Folders that this was the last of, from the third part up to `to_depth`. */
static int remove_folders(struct stash *stash, int probes, const struct stash_probe_name *name, int to_depth)
{
	char path[STASH_PATH_BYTES];

	for (int depth = 3; depth >= to_depth; depth--) {
		stash_probe_path(name, depth, path);
		if (unlinkat(probes, path, AT_REMOVEDIR) != 0 && errno != ENOENT)
			return errno == ENOTEMPTY || errno == EEXIST ? 0 : -errno; /* others have probes there */
	}
	return to_depth == 1 && stash->provider_links ? stash_unlink(stash->probes, name->provider, 0) : 0;
}

/* How many parts, of the first three, two names have in common. */
static int common_depth(const struct stash_probe_name *a, const struct stash_probe_name *b)
{
	if (strcmp(a->provider, b->provider) != 0)
		return 0;
	if (strcmp(a->module, b->module) != 0)
		return 1;
	return strcmp(a->function, b->function) == 0 ? 3 : 2;
}

/* The names of a file whose name could not say them. */
static bool read_names(int parsed, const char *name, pid_t pid, struct stash_probe_name *split)
{
	struct record record;
	size_t bytes;
	void *data;
	bool good = false;

	if (stash_read_file(parsed, name, RECORD_BYTES_MAX, &data, &bytes) != 0)
		return false;
	if (record_decode(data, bytes, &record, NULL) == 0) {
		const struct dof_probe *probe = record.set.providers->probes;
		char text[STASH_PATH_BYTES];
		int used = snprintf(text, sizeof(text), "%s%d:%s:%s:%s", record.set.providers->name, (int)pid,
				    probe->module, probe->function, probe->name);

		good = used < (int)sizeof(text) && stash_split_parsed_name(text, split);
		record_free(&record);
	}
	free(data);
	return good;
}

bool stash_probe_of(int parsed, const char *name, pid_t pid, struct stash_probe_name *split)
{
	return stash_is_long_name(name) ? read_names(parsed, name, pid, split) : stash_split_parsed_name(name, split);
}

/* Whether another mapping of the process has the probe, too: links that somebody made by hand do not count. */
static int look_for_others(struct stash *stash, pid_t pid, const char *name, ino_t inode, bool *found_ret)
{
	const struct stash_owner *owner = stash_find_owner(stash, pid);

	*found_ret = stash_is_long_name(name); /* it may have another number there */
	for (uint32_t i = 0; owner && i < owner->mapped_count; i++) {
		char path[2 * STASH_PATH_BYTES], mapping[STASH_MAPPING_NAME_BYTES];
		struct stat status;

		stash_mapping_name(&owner->mapped[i].mapping, mapping);
		snprintf(path, sizeof(path), "%d/%s/parsed/%s", (int)pid, mapping, name);
		if (fstatat(stash->pids, path, &status, AT_SYMLINK_NOFOLLOW) == 0)
			*found_ret |= status.st_ino == inode;
		else if (errno != ENOENT)
			return -errno;
	}
	return 0;
}

/* One parsed file, and its link in probes/. */
static int unlink_one(struct stash *stash, int parsed, const char *name, int probes, const struct stash_probe_name *split,
		      pid_t pid, bool shared)
{
	char path[STASH_PATH_BYTES];
	struct stat status;
	int rc = 0;

	if (shared) {
		if (fstatat(parsed, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
			return errno == ENOENT ? 0 : -errno;
		shared = status.st_nlink > 2;
		if (shared)
			rc = look_for_others(stash, pid, name, status.st_ino, &shared);
	}
	if (rc == 0 && !shared && probes >= 0) {
		stash_probe_path(split, 4, path);
		rc = stash_unlink(probes, path, 0);
	}
	return rc && rc != -ENOTDIR ? rc : stash_unlink(parsed, name, 0);
}

int stash_unlink_parsed(struct stash *stash, int parsed, int probes, pid_t pid, bool shared)
{
	struct stash_list list = { 0 };
	struct stash_probe_name names[2];
	const struct stash_probe_name *before = NULL;
	int rc = stash_list_folder(parsed, &list);

	for (uint32_t i = 0; i < list.count && rc == 0; i++) {
		const char *name = stash_list_at(&list, i);
		struct stash_probe_name *split = before == &names[0] ? &names[1] : &names[0];

		if (!stash_probe_of(parsed, name, pid, split)) { /* version, and what is damaged */
			rc = stash_unlink(parsed, name, 0);
			continue;
		}
		if (before && probes >= 0)
			rc = remove_folders(stash, probes, before, common_depth(before, split) + 1);
		if (rc == 0)
			rc = unlink_one(stash, parsed, name, probes, split, pid, shared);
		before = split;
	}
	if (rc == 0 && before && probes >= 0)
		rc = remove_folders(stash, probes, before, 1);
	stash_list_free(&list);
	return rc;
}

/* ---- what was taken out of the tree ---- */

/* The rest of a mapping's folder, whose files are known; if there are others it is searched. */
static int remove_rest(struct stash *stash, const char *name)
{
	static const char *const files[] = { "raw", "dh" };
	char path[STASH_PATH_BYTES];
	int rc;

	snprintf(path, sizeof(path), "%s/parsed", name);
	rc = stash_remove_folder(stash->work, path);
	for (size_t i = 0; i < 2 && rc == 0; i++) {
		snprintf(path, sizeof(path), "%s/%s", name, files[i]);
		rc = stash_unlink(stash->work, path, 0);
	}
	return rc ? rc : stash_remove_folder(stash->work, name);
}

/* Of a mapping's folder: its parsed files, and all else. `name`, in work/, is gone then. */
static int take_apart(struct stash *stash, const char *name, int probes, pid_t pid, bool shared)
{
	char path[STASH_PATH_BYTES];
	int parsed, rc;

	snprintf(path, sizeof(path), "%s/parsed", name);
	rc = stash_open_folder(stash->work, path, &parsed);
	if (rc == 0) {
		rc = stash_unlink_parsed(stash, parsed, probes, pid, shared);
		close(parsed);
	} else if (rc == -ENOENT) {
		rc = 0;
	}
	return rc ? rc : remove_rest(stash, name);
}

/* Take probes/$pid out of the tree, to work/probes. `*probes_ret`: the folder; -1: there is none. */
static int take_probes(struct stash *stash, pid_t pid, int *probes_ret)
{
	char name[16];

	*probes_ret = -1;
	snprintf(name, sizeof(name), "%d", (int)pid);
	if (renameat(stash->probes, name, stash->work, "probes") != 0)
		return errno == ENOENT ? 0 : -errno;
	return stash_open_folder(stash->work, "probes", probes_ret);
}

static int finish_mapping(struct stash *stash, pid_t pid, const struct stash_mapped *mapped, bool shared)
{
	char name[16];
	int probes = -1, rc;

	snprintf(name, sizeof(name), "%d", (int)pid);
	rc = shared ? stash_open_folder(stash->probes, name, &probes) : take_probes(stash, pid, &probes);
	if (rc == 0 || rc == -ENOENT)
		rc = take_apart(stash, "mapping", probes, pid, shared);
	if (probes >= 0)
		close(probes);
	if (rc == 0)
		rc = stash_remove_folder(stash->work, "probes");
	if (rc == 0 && shared && unlinkat(stash->probes, name, AT_REMOVEDIR) != 0 && errno != ENOTEMPTY && errno != ENOENT)
		rc = -errno;
	return rc ? rc : stash_drop_raw(stash, pid, &mapped->mapping, mapped->block_count);
}

static int finish_process(struct stash *stash, const struct stash_owner *owner)
{
	pid_t pid = owner->process.pid;
	int probes, rc = take_probes(stash, pid, &probes);

	for (uint32_t i = 0; i < owner->mapped_count && rc == 0; i++) {
		char path[STASH_PATH_BYTES] = "process/";

		stash_mapping_name(&owner->mapped[i].mapping, path + strlen(path));
		rc = take_apart(stash, path, probes, pid, false);
	}
	if (probes >= 0)
		close(probes);
	if (rc == 0)
		rc = stash_remove_tree(stash->work, "process");
	if (rc == 0)
		rc = stash_remove_folder(stash->work, "probes");
	for (uint32_t i = 0; i < owner->mapped_count && rc == 0; i++)
		rc = stash_drop_raw(stash, pid, &owner->mapped[i].mapping, owner->mapped[i].block_count);
	return rc;
}

/* ---- the door ---- */

static int failed(struct fathom_fault *why, int error, pid_t pid)
{
	return fault(why, error, "cannot remove probes of process %d: %s", (int)pid, strerror(-error));
}

/* What is left after an error is done by a sweep, so that what was asked for is done in the end. */
static int finish(struct stash *stash, int rc, pid_t pid, struct fathom_fault *why)
{
	if (rc == 0)
		return 0;
	(void)stash_recover(stash, rc);
	return stash->dirty ? failed(why, rc, pid) : 0;
}

static int unlink_generation(struct stash *stash, pid_t pid, const char *generation)
{
	char path[STASH_PATH_BYTES];

	snprintf(path, sizeof(path), "%d/%s", (int)pid, generation);
	return stash_unlink(stash->pids, path, 0);
}

static int unlink_generations(struct stash *stash, pid_t pid, const char *mapping_name)
{
	char name[16];
	int folder, rc;

	snprintf(name, sizeof(name), "%d", (int)pid);
	rc = stash_open_folder(stash->pids, name, &folder);
	if (rc)
		return rc;
	rc = stash_unlink_links(folder, mapping_name);
	close(folder);
	return rc;
}

/* `generation`: the only one, if that is known; else NULL. */
static int remove_mapping(struct stash *stash, struct stash_owner *owner, struct stash_mapped *mapped,
			  const char *generation, struct fathom_fault *why)
{
	const struct stash_mapped was = *mapped;
	bool shared = owner->mapped_count > 1;
	pid_t pid = owner->process.pid;
	char path[STASH_PATH_BYTES], name[STASH_MAPPING_NAME_BYTES];
	int rc;

	stash_mapping_name(&was.mapping, name);
	snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
	if (renameat(stash->pids, path, stash->work, "mapping") != 0 && errno != ENOENT)
		return failed(why, -errno, pid);
	stash->stats.removed += mapped->count;
	stash_forget_mapped(stash, owner, mapped);
	rc = generation ? unlink_generation(stash, pid, generation) : unlink_generations(stash, pid, name);
	if (rc == 0)
		rc = finish_mapping(stash, pid, &was, shared);
	return finish(stash, rc, pid, why);
}

int stash_remove(struct stash *stash, pid_t pid, uint64_t generation, struct fathom_fault *why)
{
	char path[STASH_PATH_BYTES], name[24], target[STASH_MAPPING_NAME_BYTES];
	struct stash_mapping mapping;
	struct stash_mapped *mapped;
	struct stash_owner *owner;
	int rc = stash_begin(stash, why);

	if (rc)
		return rc;
	owner = stash_find_owner(stash, pid);
	if (!owner)
		return 0;
	snprintf(name, sizeof(name), "%" PRIu64, generation);
	snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
	rc = stash_read_link(stash->pids, path, target);
	if (rc)
		return rc == -ENOENT ? 0 : failed(why, rc, pid);
	mapped = stash_parse_mapping(target, &mapping) ? stash_find_mapped(owner, &mapping) : NULL;
	if (mapped && mapped->count == 1)
		return remove_mapping(stash, owner, mapped, name, why);
	rc = unlink_generation(stash, pid, name);
	if (rc)
		return failed(why, rc, pid);
	if (mapped) {
		mapped->count--;
		stash_count(stash, owner, -1, 1, 0, 0);
		stash->stats.removed++;
	}
	return 0;
}

int stash_remove_mapping(struct stash *stash, pid_t pid, const struct stash_mapping *mapping, struct fathom_fault *why)
{
	struct stash_owner *owner;
	struct stash_mapped *mapped;
	int rc = stash_begin(stash, why);

	if (rc)
		return rc;
	owner = stash_find_owner(stash, pid);
	mapped = owner ? stash_find_mapped(owner, mapping) : NULL;
	return mapped ? remove_mapping(stash, owner, mapped, NULL, why) : 0;
}

int stash_clear_process(struct stash *stash, pid_t pid, struct fathom_fault *why)
{
	int rc = stash_begin(stash, why);

	while (rc == 0) {
		/* anew each time: there may have been a sweep */
		struct stash_owner *owner = stash_find_owner(stash, pid);

		if (!owner || owner->mapped_count == 0)
			break;
		rc = remove_mapping(stash, owner, &owner->mapped[0], NULL, why);
	}
	return rc;
}

int stash_remove_process(struct stash *stash, pid_t pid, struct fathom_fault *why)
{
	struct stash_owner *owner;
	char name[16];
	int rc = stash_begin(stash, why);

	if (rc)
		return rc;
	owner = stash_find_owner(stash, pid);
	if (!owner)
		return 0;
	snprintf(name, sizeof(name), "%d", (int)pid);
	if (renameat(stash->pids, name, stash->work, "process") != 0 && errno != ENOENT)
		return failed(why, -errno, pid);
	stash->stats.removed += owner->counts.objects;
	rc = finish_process(stash, owner);
	stash_forget_owner(stash, owner);
	return finish(stash, rc, pid, why);
}
