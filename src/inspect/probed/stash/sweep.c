/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sweep - reads the whole tree and makes it consistent: at the start, and when an operation could not undo itself.
 *
 *   work/      files of an interrupted operation: removed
 *   dof-pid/   check.c
 *   probes/    records that no registration has, and empty folders: removed; other files: set aside
 *   dof/       objects that no registration has: removed
 *
 * The index in memory is built again. Registrations whose probes were damaged are `stale` in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "inspect/probed/stash/internal.h"
#include "inspect/probed/stash/record.h"

/* ---- probes/ ---- */

uint64_t stash_path_hash(const char *path)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *path; path++)
		hash = (hash ^ (uint8_t)*path) * 0x100000001b3ull;
	return hash;
}

int stash_add_seen(struct stash_sweep *sweep, uint64_t inode, uint64_t path_hash)
{
	must(!sweep->is_sorted);
	must(sweep->seen_count <= sweep->seen_room);
	if (sweep->seen_count == sweep->seen_room) {
		size_t room = sweep->seen_room ? sweep->seen_room * 2 : 256;
		struct stash_seen *grown = realloc(sweep->seen, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		sweep->seen = grown;
		sweep->seen_room = room;
	}
	must(sweep->seen_count < sweep->seen_room);
	sweep->seen[sweep->seen_count++] = (struct stash_seen){ inode, path_hash };
	return 0;
}

static int compare_seen(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct stash_seen)); /* any order, for bsearch() */
}

static bool is_seen(const struct stash_sweep *sweep, uint64_t inode, uint64_t path_hash)
{
	const struct stash_seen seen = { inode, path_hash };

	must(sweep->is_sorted);
	return sweep->seen_count > 0 && bsearch(&seen, sweep->seen, sweep->seen_count, sizeof(seen), compare_seen);
}

/* Remove a record in probes/ that no registration has; an interrupted operation left it. Set other files aside. */
static int remove_unregistered(struct stash *stash, int folder, const char *name, const char *path)
{
	struct record record;
	size_t bytes;
	void *data;
	int rc = stash_read_file(folder, name, RECORD_BYTES_MAX, &data, &bytes);

	must(!strchr(name, '/'));
	if (rc == 0) {
		rc = record_decode(data, bytes, &record, NULL);
		free(data);
	}
	if (rc && !stash_is_damage(rc))
		return rc;
	if (rc)
		return stash_set_aside(stash, folder, name, path, "not a record of a registered probe");
	record_free(&record);
	stash->stats.swept++;
	return stash_unlink(folder, name, 0);
}

static int sweep_file(struct stash_sweep *sweep, int folder, const char *name, const char *path, const char *parent)
{
	struct stat status;

	if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	if (is_seen(sweep, status.st_ino, stash_path_hash(path)))
		return 0;
	return remove_unregistered(sweep->stash, folder, name, parent);
}

enum { FILE_DEPTH = 4 };

static int sweep_folder(struct stash_sweep *sweep, int at, const char *name, const char *parent, int depth);

static int sweep_below(struct stash_sweep *sweep, int folder, const char *path, int depth)
{
	struct stash_list list = { 0 };
	int rc = stash_list_folder(folder, &list);

	must(depth > 0 && depth <= FILE_DEPTH);
	for (uint32_t i = 0; i < list.count && rc == 0; i++) {
		const char *name = stash_list_at(&list, i);
		char below[4 * STASH_PATH_BYTES];

		if (depth < FILE_DEPTH) {
			rc = sweep_folder(sweep, folder, name, path, depth);
			continue;
		}
		snprintf(below, sizeof(below), "%s/%s", path, name);
		rc = sweep_file(sweep, folder, name, below, path);
	}
	stash_list_free(&list);
	return rc;
}

/* Sweep a folder at `depth` below probes/ (0: that of a process), and remove it if it is empty. */
static int sweep_folder(struct stash_sweep *sweep, int at, const char *name, const char *parent, int depth)
{
	char path[3 * STASH_PATH_BYTES];
	int folder, rc = stash_open_folder(at, name, &folder);

	must(depth >= 0 && depth < FILE_DEPTH);
	if (rc && stash_is_damage(rc))
		return stash_set_aside(sweep->stash, at, name, *parent ? parent : "probes", "not a folder");
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "%s%s%s", parent, *parent ? "/" : "", name);
	rc = sweep_below(sweep, folder, path, depth + 1);
	close(folder);
	if (rc == 0 && unlinkat(at, name, AT_REMOVEDIR) != 0 && errno != ENOTEMPTY && errno != EEXIST)
		rc = -errno;
	return rc;
}

/* ---- links of providers ---- */

static int sweep_provider_link(struct stash *stash, const char *name)
{
	char target[STASH_PATH_BYTES];
	ssize_t bytes = readlinkat(stash->probes, name, target, sizeof(target) - 1);
	char *slash;

	if (bytes < 0)
		return -errno;
	target[bytes] = '\0';
	slash = strchr(target, '/');
	if (stash->provider_links && slash && strcmp(slash + 1, name) == 0 &&
	    faccessat(stash->probes, target, F_OK, 0) == 0)
		return 0;
	return stash_unlink(stash->probes, name, 0);
}

static int restore_provider_links(struct stash *stash, const char *pid_name)
{
	struct stash_list list = { 0 };
	int folder, rc = stash_open_folder(stash->probes, pid_name, &folder);

	if (rc)
		return rc == -ENOENT ? 0 : rc; /* it was empty, and was removed */
	rc = stash_list_folder(folder, &list);
	for (uint32_t i = 0; i < list.count && rc == 0; i++) {
		char target[STASH_PATH_BYTES];

		snprintf(target, sizeof(target), "%s/%s", pid_name, stash_list_at(&list, i));
		if (symlinkat(target, stash->probes, stash_list_at(&list, i)) != 0 && errno != EEXIST)
			rc = -errno;
	}
	stash_list_free(&list);
	close(folder);
	return rc;
}

static int sweep_probes_entry(struct stash_sweep *sweep, const char *name)
{
	struct stash *stash = sweep->stash;
	struct stat status;
	uint64_t pid;
	int rc;

	if (fstatat(stash->probes, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	if (S_ISLNK(status.st_mode))
		return sweep_provider_link(stash, name);
	if (!stash_parse_number(name, INT32_MAX, &pid))
		return stash_set_aside(stash, stash->probes, name, "probes", "not the folder of a process");
	rc = sweep_folder(sweep, stash->probes, name, "", 0);
	return rc == 0 && stash->provider_links ? restore_provider_links(stash, name) : rc;
}

/* ---- the tree ---- */

static int sweep_object(struct stash_sweep *sweep, const char *name)
{
	struct stash *stash = sweep->stash;
	struct stat status;

	if (fstatat(stash->dof, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return stash_set_aside(stash, stash->dof, name, "dof", "not a regular file");
	if (is_seen(sweep, status.st_ino, stash_path_hash(name))) {
		stash->total.bytes += (uint64_t)status.st_size;
		return 0;
	}
	stash->stats.swept++;
	return stash_unlink(stash->dof, name, 0);
}

static int sweep_work(struct stash_sweep *sweep, const char *name)
{
	sweep->stash->stats.swept++;
	return stash_remove_tree(sweep->stash->work, name);
}

/* In DIR/stash. DIR itself may have entries of other programs. */
static int sweep_stash_entry(struct stash_sweep *sweep, const char *name)
{
	static const char *const known[] = { "aside", "dof", "dof-pid", "lock", "version", "work" };

	for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
		if (strcmp(name, known[i]) == 0)
			return 0;
	}
	return stash_set_aside(sweep->stash, sweep->stash->folder, name, "stash", "not a file or folder of the stash");
}

static int sweep_entries(struct stash_sweep *sweep, int folder, int (*visit)(struct stash_sweep *sweep, const char *name))
{
	struct stash_list list = { 0 };
	int rc = stash_list_folder(folder, &list);

	for (uint32_t i = 0; i < list.count && rc == 0; i++)
		rc = visit(sweep, stash_list_at(&list, i));
	stash_list_free(&list);
	return rc;
}

static int sweep_tree(struct stash_sweep *sweep)
{
	struct stash *stash = sweep->stash;
	int rc = sweep_entries(sweep, stash->work, sweep_work);

	if (rc == 0)
		rc = sweep_entries(sweep, stash->folder, sweep_stash_entry);
	if (rc == 0)
		rc = sweep_entries(sweep, stash->pids, stash_check_process);
	if (rc == 0 && sweep->seen_count > 0)
		qsort(sweep->seen, sweep->seen_count, sizeof(sweep->seen[0]), compare_seen);
	must(!sweep->is_sorted);
	sweep->is_sorted = true;
	if (rc == 0)
		rc = sweep_entries(sweep, stash->probes, sweep_probes_entry);
	return rc ? rc : sweep_entries(sweep, stash->dof, sweep_object);
}

int stash_sweep(struct stash *stash, struct fathom_fault *why)
{
	struct stash_sweep sweep = { .stash = stash };
	int rc;

	stash->dirty = true;
	stash_forget_all(stash);
	must(stash->lock >= 0 && stash->work >= 0 && stash->probes >= 0); /* no other daemon writes to the tree */
	must(stash->owner_count == 0);
	must(stash->total.objects == 0 && stash->total.bytes == 0 && stash->total.probes == 0);
	rc = sweep_tree(&sweep);
	free(sweep.seen);
	if (rc)
		return fault(why, rc, "cannot sweep the tree %s: %s", stash->directory, strerror(-rc));
	stash->dirty = false;
	return 0;
}

int stash_sweep_if_dirty(struct stash *stash, struct fathom_fault *why)
{
	return stash->dirty ? stash_sweep(stash, why) : 0;
}

int stash_recover(struct stash *stash, int error)
{
	int rc = stash_sweep(stash, NULL);

	must(error <= 0);
	must((rc != 0) == stash->dirty);
	return error;
}
