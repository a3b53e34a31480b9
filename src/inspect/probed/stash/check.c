/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * check - dof-pid/$pid, read after a start or after an error: registrations that are whole are counted, what was cut
 * short is undone, and what somebody damaged is repaired from what is left of it. What the parsed files of a
 * registration have lost, its raw object brings back: it is then `stale`, and is parsed again.
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

struct check {
	struct stash_sweep *sweep;
	struct stash *stash;
	struct stash_owner *owner;
	const char *pid_name;
	int folder; /* dof-pid/$pid */
};

/* ---- one probe ---- */

/* -EINVAL: it is not what its name says. */
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
	snprintf(provider, sizeof(provider), "%s%s", record.set.providers->name, pid_name);
	if (record.version != stash->record_version || strcmp(provider, split->provider) != 0 ||
	    strcmp(record.set.providers->probes->module, split->module) != 0 ||
	    strcmp(record.set.providers->probes->function, split->function) != 0 ||
	    strcmp(record.set.providers->probes->name, split->name) != 0)
		rc = -EINVAL;
	record_free(&record);
	return rc;
}

/* `$pid/$prv$pid/$mod/$fun/$prb`, or the first parts of it: none, only the process; four, all. */
static void path_of(const char *pid_name, const struct stash_probe_name *split, int depth, char *path)
{
	size_t used = strlen(pid_name);

	memcpy(path, pid_name, used + 1);
	if (depth > 0) {
		path[used] = '/';
		stash_probe_path(split, depth, path + used + 1);
	}
}

/* A folder there, whatever was. */
static int make_folder_again(struct stash *stash, const char *path)
{
	struct stat status;
	int rc;

	if (mkdirat(stash->probes, path, 0755) == 0)
		return 0;
	if (errno != EEXIST || fstatat(stash->probes, path, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	if (S_ISDIR(status.st_mode))
		return 0;
	rc = stash_set_aside(stash, stash->probes, path, "probes", "a folder should be there");
	if (rc == 0 && mkdirat(stash->probes, path, 0755) != 0)
		rc = -errno;
	return rc;
}

static int link_again(struct stash *stash, int parsed, const char *name, const char *pid_name,
		      const struct stash_probe_name *split)
{
	char path[STASH_PATH_BYTES + 16];
	int rc = 0;

	for (int depth = 0; depth < 4 && rc == 0; depth++) {
		path_of(pid_name, split, depth, path);
		rc = make_folder_again(stash, path);
	}
	if (rc)
		return rc;
	path_of(pid_name, split, 4, path);
	if (linkat(parsed, name, stash->probes, path, 0) != 0)
		return -errno;
	stash->stats.repaired++;
	stash_say(stash, "probes/%s: was missing; linked again", path);
	return 0;
}

/* Before they are sorted. */
static bool is_anybodys(const struct stash_sweep *sweep, uint64_t inode)
{
	for (size_t i = 0; i < sweep->seen_count; i++) {
		if (sweep->seen[i].inode == inode)
			return true;
	}
	return false;
}

/* One parsed file. Damage: the registration is to be parsed again. */
static int check_probe(struct check *check, int parsed, const char *name)
{
	struct stash *stash = check->stash;
	struct stash_probe_name split;
	struct stat own, there;
	char path[STASH_PATH_BYTES + 16];
	int rc;

	if (!stash_probe_of(parsed, name, check->owner->process.pid, &split))
		return -EINVAL;
	rc = check_record(stash, parsed, name, check->pid_name, &split);
	if (rc)
		return rc;
	if (fstatat(parsed, name, &own, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	path_of(check->pid_name, &split, 4, path);
	if (fstatat(stash->probes, path, &there, AT_SYMLINK_NOFOLLOW) != 0) {
		rc = errno == ENOENT || errno == ENOTDIR ? link_again(stash, parsed, name, check->pid_name, &split)
							 : -errno;
	} else if (there.st_ino != own.st_ino) {
		if (is_anybodys(check->sweep, there.st_ino))
			return -EEXIST; /* of another mapping, and different */
		rc = stash_set_aside(stash, stash->probes, path, "probes", "it is not what was registered");
		if (rc == 0)
			rc = link_again(stash, parsed, name, check->pid_name, &split);
	}
	return rc ? rc : stash_see(check->sweep, own.st_ino, stash_path_hash(path));
}

/* ---- one mapping ---- */

static int check_version(struct stash *stash, int parsed)
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
		rc = check_probe(check, parsed, name);
		mapped->probes++;
	}
	stash_list_free(&list);
	return rc;
}

/* The probes of a mapping, which are whole, or not there until they are parsed again. */
static int check_parsed(struct check *check, struct stash_mapped *mapped, int folder)
{
	const size_t seen_before = check->sweep->seen_count;
	int parsed, rc = stash_open_folder(folder, "parsed", &parsed);

	if (rc == 0) {
		int version = check_version(check->stash, parsed);

		rc = version ? version : check_probes(check, mapped, parsed);
		close(parsed);
		if (rc && version == 0 && stash_is_damage(rc)) {
			check->stash->stats.repaired++;
			stash_say(check->stash, "probes of process %s: damaged; they are to be parsed again",
				  check->pid_name);
		}
	}
	if (rc == 0 || !stash_is_damage(rc))
		return rc;
	mapped->stale = true;
	mapped->probes = 0;
	check->sweep->seen_count = seen_before;
	/* links in probes/ that were theirs alone are found there */
	return stash_remove_tree(folder, "parsed");
}

static int check_open_mapping(struct check *check, struct stash_mapped *mapped, int folder)
{
	int rc = stash_check_input(check->sweep, check->owner->process.pid, mapped, folder);

	if (rc && stash_is_damage(rc))
		return -EBADMSG;
	return rc ? rc : check_parsed(check, mapped, folder);
}

/* -EBADMSG: it is no longer there. */
static int check_mapping(struct check *check, struct stash_mapped *mapped)
{
	char name[STASH_MAPPING_NAME_BYTES], where[32];
	int folder, rc;

	stash_mapping_name(&mapped->mapping, name);
	if (mapped->count == 0) {
		check->stash->stats.swept++;
		rc = stash_remove_tree(check->folder, name);
		return rc ? rc : -EBADMSG;
	}
	rc = stash_open_folder(check->folder, name, &folder);
	if (rc)
		return rc;
	rc = check_open_mapping(check, mapped, folder);
	close(folder);
	if (rc != -EBADMSG)
		return rc;
	snprintf(where, sizeof(where), "dof-pid/%s", check->pid_name);
	rc = stash_set_aside(check->stash, check->folder, name, where,
			     "raw or dh, without which it cannot be parsed, is damaged");
	if (rc == 0)
		rc = stash_unlink_links(check->folder, name);
	return rc ? rc : -EBADMSG;
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

/* A link that leads nowhere is of a registration that was cut short. */
static int check_generation(struct check *check, const char *name, uint64_t generation)
{
	char target[STASH_MAPPING_NAME_BYTES];
	struct stash_mapping mapping;
	struct stash_mapped *mapped;
	int rc = stash_read_link(check->folder, name, target);

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
	char where[32];
	int rc = -EINVAL;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(name, known[i]) == 0)
			return 0;
	}
	if (stash_parse_mapping(name, &mapping) && stash_find_mapped(check->owner, &mapping))
		return 0;
	if (stash_parse_number(name, STASH_GENERATION_MAX - 1, &generation))
		rc = check_generation(check, name, generation);
	if (!rc || !stash_is_damage(rc))
		return rc;
	snprintf(where, sizeof(where), "dof-pid/%s", check->pid_name);
	return stash_set_aside(check->stash, check->folder, name, where, "nothing of this kind belongs here");
}

/*
 * The counter must be beyond what was given. Where it was lost, nobody knows what was given and removed again: it goes on
 * far beyond.
 */
static int check_next_generation(struct check *check)
{
	enum { FAR = 1 << 20 };
	uint64_t seen = check->owner->next_generation;
	struct stat status;
	int fd, rc;

	if (fstatat(check->folder, "next-gen", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
	    (uint64_t)status.st_size >= seen && status.st_size <= STASH_GENERATION_MAX) {
		check->owner->next_generation = (uint64_t)status.st_size;
		return 0;
	}
	rc = stash_remove_tree(check->folder, "next-gen");
	if (rc)
		return rc;
	check->owner->next_generation = seen + FAR < STASH_GENERATION_MAX ? seen + FAR : STASH_GENERATION_MAX;
	fd = openat(check->folder, "next-gen", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, (off_t)check->owner->next_generation) == 0 ? 0 : -errno;
	close(fd);
	check->stash->stats.repaired++;
	stash_say(check->stash, "dof-pid/%s/next-gen: was lost; generations go on at %" PRIu64, check->pid_name,
		  check->owner->next_generation);
	return rc;
}

static int check_mappings(struct check *check)
{
	struct stash_owner *owner = check->owner;
	int rc = 0;

	for (uint32_t i = 0; i < owner->mapped_count && rc == 0;) {
		struct stash_mapped *mapped = &owner->mapped[i];
		struct stash_mapped counted;

		rc = check_mapping(check, mapped);
		counted = *mapped;
		mapped->count = mapped->bytes = mapped->probes = 0; /* not counted yet */
		if (rc == -EBADMSG) {
			stash_forget_mapped(check->stash, owner, mapped);
			rc = 0;
		} else if (rc == 0) {
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
							     "it does not say which process it is")
					   : rc;
	check.owner = stash_index_owner(sweep->stash, &process);
	rc = check.owner ? check_open_process(&check) : -ENOMEM;
	close(check.folder);
	return rc;
}
