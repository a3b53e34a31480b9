/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remove - removes registrations. One rename to stash/work takes a mapping or a process out of the tree. Then its files are
 * removed, with their links in probes/ and dof/. After an error behind the rename a sweep does the rest, now or before the
 * next operation.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "inspect/probed/stash/internal.h"
#include "inspect/probed/stash/record.h"

/* ---- probes ---- */

/* Remove the folders of a removed probe that are empty now, from depth 3 up to `to_depth`. */
static int remove_probe_folders(struct stash *stash, int probes, const struct stash_probe_name *name, int to_depth)
{
	char path[STASH_PATH_BYTES];

	must(to_depth >= 1);
	for (int depth = 3; depth >= to_depth; depth--) {
		stash_probe_path(name, depth, path);
		if (unlinkat(probes, path, AT_REMOVEDIR) != 0 && errno != ENOENT)
			return errno == ENOTEMPTY || errno == EEXIST ? 0 : -errno; /* other probes are in it */
	}
	return to_depth == 1 && stash->provider_links ? stash_unlink(stash->probes, name->provider, 0) : 0;
}

/* The number of parts, of the first three, that two names have in common. */
static int common_depth(const struct stash_probe_name *a, const struct stash_probe_name *b)
{
	if (strcmp(a->provider, b->provider) != 0)
		return 0;
	if (strcmp(a->module, b->module) != 0)
		return 1;
	return strcmp(a->function, b->function) == 0 ? 3 : 2;
}

/* Read the names from the record of a file with a `:$number` name. */
static bool read_record_names(int parsed, const char *name, pid_t pid, struct stash_probe_name *split)
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
	return stash_is_long_name(name) ? read_record_names(parsed, name, pid, split)
					: stash_split_parsed_name(name, split);
}

/* Find out whether another mapping of the process has the probe. Links made by hand do not count. */
static int find_other_mapping(struct stash *stash, pid_t pid, const char *name, ino_t inode, bool *found_ret)
{
	const struct stash_owner *owner = stash_find_owner(stash, pid);

	*found_ret = stash_is_long_name(name); /* its number may differ in the other mapping */
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

/* The probes to remove. */
struct removal {
	struct stash *stash;
	pid_t pid;
	int probes;  /* the folder probes/$pid, perhaps in work/; -1: it does not exist */
	bool shared; /* other mappings of the process remain, and may have some of the probes */
};

/* Remove a parsed file, and its link in probes/ unless another mapping has the probe. */
static int unlink_stored_probe(const struct removal *removal, int parsed, const char *name,
			       const struct stash_probe_name *split)
{
	bool keep_link = false;
	char path[STASH_PATH_BYTES];
	struct stat status;
	int rc = 0;

	if (removal->shared) {
		if (fstatat(parsed, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
			return errno == ENOENT ? 0 : -errno;
		if (status.st_nlink > 2)
			rc = find_other_mapping(removal->stash, removal->pid, name, status.st_ino, &keep_link);
	}
	if (rc == 0 && !keep_link && removal->probes >= 0) {
		stash_probe_path(split, 4, path);
		rc = stash_unlink(removal->probes, path, 0);
	}
	return rc && rc != -ENOTDIR ? rc : stash_unlink(parsed, name, 0);
}

static int unlink_probes(const struct removal *removal, int parsed)
{
	struct stash_list list = { 0 };
	struct stash_probe_name names[2];
	const struct stash_probe_name *before = NULL;
	int rc = stash_list_folder(parsed, &list);

	for (uint32_t i = 0; i < list.count && rc == 0; i++) {
		const char *name = stash_list_at(&list, i);
		struct stash_probe_name *split = before == &names[0] ? &names[1] : &names[0];

		if (!stash_probe_of(parsed, name, removal->pid, split)) { /* `version`, or a damaged file */
			rc = stash_unlink(parsed, name, 0);
			continue;
		}
		if (before && removal->probes >= 0)
			rc = remove_probe_folders(removal->stash, removal->probes, before, common_depth(before, split) + 1);
		if (rc == 0)
			rc = unlink_stored_probe(removal, parsed, name, split);
		before = split;
	}
	if (rc == 0 && before && removal->probes >= 0)
		rc = remove_probe_folders(removal->stash, removal->probes, before, 1);
	stash_list_free(&list);
	return rc;
}

/* ---- folders in work/ ---- */

/* Remove the rest of a mapping's folder: first the usual files by name, then all that is left. */
static int remove_mapping_files(struct stash *stash, const char *name)
{
	static const char *const files[] = { "raw", "dh" }; /* the usual ones */
	char path[STASH_PATH_BYTES];
	int rc;

	snprintf(path, sizeof(path), "%s/parsed", name);
	rc = stash_remove_folder(stash->work, path);
	for (size_t i = 0; i < ARRAY_COUNT(files) && rc == 0; i++) {
		snprintf(path, sizeof(path), "%s/%s", name, files[i]);
		rc = stash_unlink(stash->work, path, 0);
	}
	return rc ? rc : stash_remove_folder(stash->work, name);
}

/* Remove the mapping's folder work/`name`, with its links in probes/. */
static int remove_mapping_folder(const struct removal *removal, const char *name)
{
	char path[STASH_PATH_BYTES];
	int parsed, rc;

	snprintf(path, sizeof(path), "%s/parsed", name);
	rc = stash_open_folder(removal->stash->work, path, &parsed);
	if (rc == 0) {
		rc = unlink_probes(removal, parsed);
		close(parsed);
	} else if (rc == -ENOENT) {
		rc = 0;
	}
	return rc ? rc : remove_mapping_files(removal->stash, name);
}

/* Move probes/$pid out of the tree, to work/probes. `*probes_ret`: the folder; -1: it does not exist. */
static int move_probes_to_work(struct stash *stash, pid_t pid, int *probes_ret)
{
	char name[16];

	*probes_ret = -1;
	snprintf(name, sizeof(name), "%d", (int)pid);
	if (renameat(stash->probes, name, stash->work, "probes") != 0)
		return errno == ENOENT ? 0 : -errno;
	return stash_open_folder(stash->work, "probes", probes_ret);
}

/* Remove the files of a mapping, which is in work/mapping now. */
static int remove_mapping_from_work(struct stash *stash, pid_t pid, const struct stash_mapped *mapped, bool shared)
{
	struct removal removal = { .stash = stash, .pid = pid, .probes = -1, .shared = shared };
	char name[16];
	int rc;

	snprintf(name, sizeof(name), "%d", (int)pid);
	rc = shared ? stash_open_folder(stash->probes, name, &removal.probes)
		    : move_probes_to_work(stash, pid, &removal.probes);
	if (rc == 0 || rc == -ENOENT)
		rc = remove_mapping_folder(&removal, "mapping");
	if (removal.probes >= 0)
		close(removal.probes);
	if (rc == 0)
		rc = stash_remove_folder(stash->work, "probes");
	if (rc == 0 && shared && unlinkat(stash->probes, name, AT_REMOVEDIR) != 0 && errno != ENOTEMPTY && errno != ENOENT)
		rc = -errno;
	return rc ? rc : stash_drop_raw(stash, pid, &mapped->mapping, mapped->block_count);
}

/* Remove the files of a process, which is in work/process now. */
static int remove_process_from_work(struct stash *stash, const struct stash_owner *owner)
{
	pid_t pid = owner->process.pid;
	struct removal removal = { .stash = stash, .pid = pid };
	int rc = move_probes_to_work(stash, pid, &removal.probes);

	for (uint32_t i = 0; i < owner->mapped_count && rc == 0; i++) {
		char path[STASH_PATH_BYTES] = "process/";

		stash_mapping_name(&owner->mapped[i].mapping, path + strlen(path));
		rc = remove_mapping_folder(&removal, path);
	}
	if (removal.probes >= 0)
		close(removal.probes);
	if (rc == 0)
		rc = stash_remove_tree(stash->work, "process");
	if (rc == 0)
		rc = stash_remove_folder(stash->work, "probes");
	for (uint32_t i = 0; i < owner->mapped_count && rc == 0; i++)
		rc = stash_drop_raw(stash, pid, &owner->mapped[i].mapping, owner->mapped[i].block_count);
	return rc;
}

/* ---- operations ---- */

static int remove_failed(struct fathom_fault *why, int error, pid_t pid)
{
	must(error < 0);
	return fault(why, error, "cannot remove probes of process %d: %s", (int)pid, strerror(-error));
}

/* After an error a sweep completes the removal. It fails only if the sweep fails, too. */
static int complete_removal(struct stash *stash, int rc, pid_t pid, struct fathom_fault *why)
{
	must(rc <= 0);
	if (rc == 0)
		return 0;
	(void)stash_recover(stash, rc);
	return stash->dirty ? remove_failed(why, rc, pid) : 0;
}

static int unlink_generation(struct stash *stash, pid_t pid, const char *generation)
{
	char path[STASH_PATH_BYTES];

	must(pid > 0);
	must(generation[0] >= '0' && generation[0] <= '9'); /* never another entry of the folder */
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

/* `generation`: the mapping's only generation; NULL: it may have several. */
static int remove_mapping(struct stash *stash, struct stash_owner *owner, struct stash_mapped *mapped,
			  const char *generation, struct fathom_fault *why)
{
	const struct stash_mapped removed = *mapped;
	bool shared = owner->mapped_count > 1;
	pid_t pid = owner->process.pid;
	char path[STASH_PATH_BYTES], name[STASH_MAPPING_NAME_BYTES];
	int rc;

	stash_mapping_name(&removed.mapping, name);
	snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
	if (renameat(stash->pids, path, stash->work, "mapping") != 0 && errno != ENOENT)
		return remove_failed(why, -errno, pid);
	must(mapped->count > 0);
	must(mapped->count <= owner->counts.objects);
	must(!generation || mapped->count == 1);
	stash->stats.removed += mapped->count;
	stash_forget_mapped(stash, owner, mapped);
	rc = generation ? unlink_generation(stash, pid, generation) : unlink_generations(stash, pid, name);
	if (rc == 0)
		rc = remove_mapping_from_work(stash, pid, &removed, shared);
	return complete_removal(stash, rc, pid, why);
}

int stash_remove(struct stash *stash, pid_t pid, uint64_t generation, struct fathom_fault *why)
{
	char path[STASH_PATH_BYTES], name[24], target[STASH_MAPPING_NAME_BYTES];
	struct stash_mapping mapping;
	struct stash_mapped *mapped;
	struct stash_owner *owner;
	int rc = stash_sweep_if_dirty(stash, why);

	if (rc)
		return rc;
	owner = stash_find_owner(stash, pid);
	if (!owner)
		return 0;
	snprintf(name, sizeof(name), "%" PRIu64, generation);
	snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
	rc = stash_read_link(stash->pids, path, target);
	if (rc)
		return rc == -ENOENT ? 0 : remove_failed(why, rc, pid);
	mapped = stash_parse_mapping(target, &mapping) ? stash_find_mapped(owner, &mapping) : NULL;
	if (mapped && mapped->count == 1)
		return remove_mapping(stash, owner, mapped, name, why);
	rc = unlink_generation(stash, pid, name);
	if (rc)
		return remove_failed(why, rc, pid);
	if (mapped) {
		must(mapped->count > 1);
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
	int rc = stash_sweep_if_dirty(stash, why);

	if (rc)
		return rc;
	owner = stash_find_owner(stash, pid);
	mapped = owner ? stash_find_mapped(owner, mapping) : NULL;
	return mapped ? remove_mapping(stash, owner, mapped, NULL, why) : 0;
}

int stash_clear_process(struct stash *stash, pid_t pid, struct fathom_fault *why)
{
	int rc = stash_sweep_if_dirty(stash, why);

	while (rc == 0) {
		/* found again each time: a sweep may have made the index again */
		struct stash_owner *owner = stash_find_owner(stash, pid);

		if (!owner || owner->mapped_count == 0)
			break;
		must(owner->process.pid == pid);
		rc = remove_mapping(stash, owner, &owner->mapped[0], NULL, why);
	}
	return rc;
}

int stash_remove_process(struct stash *stash, pid_t pid, struct fathom_fault *why)
{
	struct stash_owner *owner;
	char name[16];
	int rc = stash_sweep_if_dirty(stash, why);

	if (rc)
		return rc;
	owner = stash_find_owner(stash, pid);
	if (!owner)
		return 0;
	snprintf(name, sizeof(name), "%d", (int)pid);
	if (renameat(stash->pids, name, stash->work, "process") != 0 && errno != ENOENT)
		return remove_failed(why, -errno, pid);
	stash->stats.removed += owner->counts.objects;
	must(owner->counts.objects >= owner->mapped_count);
	rc = remove_process_from_work(stash, owner);
	stash_forget_owner(stash, owner);
	must(!stash_find_owner(stash, pid));
	return complete_removal(stash, rc, pid, why);
}
