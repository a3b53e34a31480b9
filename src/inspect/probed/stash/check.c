/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * check - reads dof-pid/$pid of a sweep, and indexes its whole registrations.
 *
 *   raw, dh, blocks, process, exec-mapping   originals. Damaged: the entry is set aside; nothing can restore it.
 *   parsed/, probes/$pid                     made of the originals. Damaged: removed; the registration is `stale`
 *                                            until it is parsed again from raw.
 *   $gen without a mapping, or a mapping without $gen     left by an interrupted operation: removed
 *
 * Nothing damaged is repaired in place.
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

struct check {
	struct stash_sweep *sweep;
	struct stash *stash;
	struct stash_owner *owner;
	const char *pid_name;
	char where[32]; /* "dof-pid/$pid", for log lines */
	int folder;	/* dof-pid/$pid */
};

/* ---- one probe ---- */

/* -EINVAL: the record is not of the probe that its name identifies. */
static int check_record(struct stash *stash, int parsed, const char *name, const char *pid_name,
			const struct stash_probe_name *split)
{
	char provider[STASH_PATH_BYTES];
	struct record record;
	size_t bytes;
	void *data;
	int rc = stash_read_file(parsed, name, RECORD_BYTES_MAX, &data, &bytes);

	if (rc)
		return rc;
	rc = record_decode(data, bytes, &record, NULL);
	free(data);
	if (rc)
		return rc;
	must(record.set.provider_count == 1 && record.set.providers->probe_count == 1);
	snprintf(provider, sizeof(provider), "%s%s", record.set.providers->name, pid_name);
	if (record.version != stash->record_version || strcmp(provider, split->provider) != 0 ||
	    strcmp(record.set.providers->probes->module, split->module) != 0 ||
	    strcmp(record.set.providers->probes->function, split->function) != 0 ||
	    strcmp(record.set.providers->probes->name, split->name) != 0)
		rc = -EINVAL;
	record_free(&record);
	return rc;
}

/* Check a parsed file and its link in probes/. An error that is damage: the registration must be parsed again. */
static int check_stored_probe(struct check *check, int parsed, const char *name)
{
	struct stash_probe_name split;
	struct stat own, link;
	char path[STASH_PATH_BYTES + 16];
	int rc;

	if (!stash_probe_of(parsed, name, check->owner->process.pid, &split))
		return -EINVAL;
	rc = check_record(check->stash, parsed, name, check->pid_name, &split);
	if (rc)
		return rc;
	rc = snprintf(path, sizeof(path), "%s/", check->pid_name);
	stash_probe_path(&split, 4, path + rc);
	if (fstatat(parsed, name, &own, AT_SYMLINK_NOFOLLOW) != 0 ||
	    fstatat(check->stash->probes, path, &link, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	return link.st_ino == own.st_ino ? stash_add_seen(check->sweep, own.st_ino, stash_path_hash(path)) : -EINVAL;
}

/* ---- one mapping ---- */

/* -ENOTSUP: of another version; -ENOENT: not complete. */
static int check_stored_version(struct stash *stash, int parsed)
{
	uint64_t version;
	size_t bytes;
	void *data;
	int rc = stash_read_file(parsed, "version", sizeof(version), &data, &bytes);

	if (rc)
		return rc;
	memcpy(&version, data, bytes);
	free(data);
	return bytes == sizeof(version) && version == stash->record_version ? 0 : -ENOTSUP;
}

static int check_probes(struct check *check, struct stash_mapped *mapped, int parsed)
{
	struct stash_list list = { 0 };
	int rc = stash_list_folder(parsed, &list);

	for (uint32_t i = 0; i < list.count && rc == 0; i++) {
		const char *name = stash_list_at(&list, i);

		if (strcmp(name, "version") == 0)
			continue;
		rc = check_stored_probe(check, parsed, name);
		mapped->probes++;
	}
	stash_list_free(&list);
	return rc;
}

/* Remove parsed/ unless all of its probes are whole. The sweep then removes the links that only it had in probes/. */
static int check_parsed(struct check *check, struct stash_mapped *mapped, int folder)
{
	const size_t seen_before = check->sweep->seen_count;
	int parsed, rc = stash_open_folder(folder, "parsed", &parsed);

	must(!mapped->stale && mapped->probes == 0);
	if (rc == 0) {
		int version = check_stored_version(check->stash, parsed);

		rc = version ? version : check_probes(check, mapped, parsed);
		close(parsed);
		if (rc && version == 0 && stash_is_damage(rc)) {
			check->stash->stats.repaired++;
			stash_log(check->stash, "probes of process %s: damaged; they will be parsed again",
				  check->pid_name);
		}
	}
	if (rc == 0 || !stash_is_damage(rc))
		return rc;
	mapped->stale = true;
	mapped->probes = 0;
	check->sweep->seen_count = seen_before;
	return stash_remove_tree(folder, "parsed");
}

/* Set aside a mapping that cannot be parsed again, with its generations. */
static int set_mapping_aside(struct check *check, const char *name)
{
	int rc = stash_set_aside(check->stash, check->folder, name, check->where,
				 "raw, dh or blocks is damaged, so it cannot be parsed again");

	return rc ? rc : stash_unlink_links(check->folder, name);
}

/* `*whole_ret`: the mapping is in the tree. If not, it was removed or set aside. */
static int check_mapping(struct check *check, struct stash_mapped *mapped, bool *whole_ret)
{
	char name[STASH_MAPPING_NAME_BYTES];
	int folder, rc;

	*whole_ret = false;
	stash_mapping_name(&mapped->mapping, name);
	if (mapped->count == 0) {
		check->stash->stats.swept++;
		return stash_remove_tree(check->folder, name);
	}
	rc = stash_open_folder(check->folder, name, &folder);
	if (rc)
		return rc;
	rc = stash_check_input(check->sweep, check->owner->process.pid, mapped, folder);
	if (rc == 0) {
		*whole_ret = true;
		rc = check_parsed(check, mapped, folder);
	} else if (stash_is_damage(rc)) {
		rc = set_mapping_aside(check, name);
	}
	close(folder);
	return rc;
}

/* ---- a process ---- */

static int index_mappings(struct check *check, const struct stash_list *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		const char *name = stash_list_at(list, i);
		struct stash_mapping mapping;
		struct stat status;

		if (!stash_parse_mapping(name, &mapping))
			continue;
		if (fstatat(check->folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
			return -errno;
		if (S_ISDIR(status.st_mode) && !stash_index_mapped(check->owner, &mapping))
			return -ENOMEM;
	}
	return 0;
}

/* A generation without its mapping is left by an interrupted registration. */
static int check_generation(struct check *check, const char *name, uint64_t generation)
{
	char target[STASH_MAPPING_NAME_BYTES];
	struct stash_mapping mapping;
	struct stash_mapped *mapped;
	int rc = stash_read_link(check->folder, name, target);

	must(generation < STASH_GENERATION_MAX);
	if (rc)
		return rc;
	if (!stash_parse_mapping(target, &mapping))
		return -EINVAL;
	if (check->owner->next_generation <= generation)
		check->owner->next_generation = generation + 1;
	mapped = stash_find_mapped(check->owner, &mapping);
	if (mapped) {
		mapped->count++;
		return 0;
	}
	check->stash->stats.swept++;
	return stash_unlink(check->folder, name, 0);
}

static int check_entry(struct check *check, const char *name)
{
	static const char *const known[] = { "next-gen", "exec-mapping", "process" };
	struct stash_mapping mapping;
	uint64_t generation;
	int rc = -EINVAL;

	for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
		if (strcmp(name, known[i]) == 0)
			return 0;
	}
	if (stash_parse_mapping(name, &mapping) && stash_find_mapped(check->owner, &mapping))
		return 0;
	if (stash_parse_number(name, STASH_GENERATION_MAX - 1, &generation))
		rc = check_generation(check, name, generation);
	if (!rc || !stash_is_damage(rc))
		return rc;
	return stash_set_aside(check->stash, check->folder, name, check->where,
			       "not a generation, a mapping or a file of the stash");
}

/*
 * The counter must be above every generation that was given. A lost counter may have been far above the generations that
 * are left, so it continues a million further.
 */
static int check_next_generation(struct check *check)
{
	enum { GAP = 1 << 20 };
	uint64_t seen = check->owner->next_generation;
	struct stat status;
	int rc;

	must(seen <= STASH_GENERATION_MAX);
	if (fstatat(check->folder, "next-gen", &status, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISREG(status.st_mode) && (uint64_t)status.st_size >= seen && status.st_size <= STASH_GENERATION_MAX) {
			check->owner->next_generation = (uint64_t)status.st_size;
			return 0;
		}
	} else if (errno != ENOENT) {
		return -errno;
	}
	check->owner->next_generation = min_u64(seen + GAP, STASH_GENERATION_MAX);
	rc = stash_remove_tree(check->folder, "next-gen");
	if (rc == 0)
		rc = stash_put_size(check->folder, "next-gen", check->owner->next_generation, O_CREAT | O_EXCL);
	if (rc)
		return rc;
	check->stash->stats.repaired++;
	stash_log(check->stash, "%s/next-gen: lost; generations continue at %" PRIu64, check->where,
		  check->owner->next_generation);
	return 0;
}

static int check_mappings(struct check *check)
{
	struct stash_owner *owner = check->owner;
	int rc = 0;

	for (uint32_t i = 0; i < owner->mapped_count && rc == 0;) {
		struct stash_mapped *mapped = &owner->mapped[i];
		struct stash_mapped counted;
		bool whole;

		rc = check_mapping(check, mapped, &whole);
		counted = *mapped;
		mapped->count = mapped->bytes = mapped->probes = 0; /* they count once the mapping is known to be whole */
		if (rc == 0 && !whole) {
			stash_forget_mapped(check->stash, owner, mapped);
		} else if (rc == 0) {
			must(counted.count > 0 && counted.block_count > 0);
			*mapped = counted;
			stash_count(check->stash, owner, 1, mapped->count, mapped->bytes, mapped->probes);
			i++;
		}
	}
	return rc;
}

static int check_open_process(struct check *check)
{
	struct stash_list list = { 0 };
	int rc = stash_list_folder(check->folder, &list);

	if (rc == 0)
		rc = index_mappings(check, &list);
	for (uint32_t i = 0; i < list.count && rc == 0; i++)
		rc = check_entry(check, stash_list_at(&list, i));
	stash_list_free(&list);
	if (rc == 0)
		rc = check_next_generation(check);
	return rc ? rc : check_mappings(check);
}

int stash_check_process(struct stash_sweep *sweep, const char *name)
{
	struct check check = { .sweep = sweep, .stash = sweep->stash, .pid_name = name };
	struct stash_process process;
	uint64_t pid;
	int rc = -EINVAL;

	if (stash_parse_number(name, INT32_MAX, &pid) && pid > 0)
		rc = stash_open_folder(sweep->stash->pids, name, &check.folder);
	if (rc == 0) {
		rc = stash_get_process(check.folder, (pid_t)pid, &process);
		if (rc)
			close(check.folder);
	}
	if (rc)
		return stash_is_damage(rc) ? stash_set_aside(sweep->stash, sweep->stash->pids, name, "dof-pid",
							     "it does not identify its process")
					   : rc;
	snprintf(check.where, sizeof(check.where), "dof-pid/%s", name);
	check.owner = stash_index_owner(sweep->stash, &process);
	rc = check.owner ? check_open_process(&check) : -ENOMEM;
	close(check.folder);
	return rc;
}
