/* SPDX-License-Identifier: BSD-2-Clause */
/* check - what no single file of the tree shows: UUIDs, space, and the folders pending, commit and trash. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/ddb/internal.h"

/* ---- UUIDs ---- */

struct identity {
	uint8_t uuid[POOL_UUID_BYTES];
	const struct store_object *object;
};

static const uint8_t *uuid_of(const struct store_object *object)
{
	return object->kind == STORE_POOL     ? object->record.pool.uuid
	       : object->kind == STORE_VOLUME ? object->record.volume.uuid
					      : object->record.snapshot.uuid;
}

static int compare_identities(const void *a, const void *b)
{
	const struct identity *one = a, *other = b;
	int order = memcmp(one->uuid, other->uuid, POOL_UUID_BYTES);

	return order ? order : strcmp(one->object->path, other->object->path);
}

static void check_uuids(struct store *store)
{
	struct identity *rows = calloc(store->object_count + 1, sizeof(*rows));
	size_t count = 0;

	must(rows);
	for (size_t i = 0; i < store->object_count; i++) {
		if (!store->objects[i].is_read)
			continue;
		rows[count].object = &store->objects[i];
		memcpy(rows[count++].uuid, uuid_of(&store->objects[i]), POOL_UUID_BYTES);
	}
	qsort(rows, count, sizeof(*rows), compare_identities);
	for (size_t i = 1; i < count; i++) {
		if (memcmp(rows[i].uuid, rows[i - 1].uuid, POOL_UUID_BYTES) == 0)
			store_add_finding(store, STORE_UUID_TWICE, rows[i].object->path, 0, "it has the UUID of %s",
					  rows[i - 1].object->name);
	}
	free(rows);
}

static void check_snapshots(struct store *store)
{
	for (size_t i = 0; i < store->object_count; i++) {
		const struct store_object *object = &store->objects[i], *volume;

		if (object->kind != STORE_SNAPSHOT || !object->is_read)
			continue;
		volume = &store->objects[object->parent];
		if (volume->is_read &&
		    memcmp(object->record.snapshot.volume, volume->record.volume.uuid, POOL_UUID_BYTES) != 0)
			store_add_finding(store, STORE_FOREIGN_SNAPSHOT, object->path, 0,
					  "its record names another volume than %s, by UUID", volume->name);
	}
}

/* ---- space ---- */

static bool is_volume_of(const struct store_object *object, size_t pool)
{
	return object->kind == STORE_VOLUME && object->is_read && object->parent == (int)pool;
}

/* Whether a write to an allocated block may need a new one, because a snapshot or another volume has it, too. */
static bool may_share(const struct store *store, size_t index)
{
	if (store->objects[index].record.volume.has_origin)
		return true;
	return index + 1 < store->object_count && store->objects[index + 1].parent == (int)index;
}

/* What the volume may still allocate, as the ledger of the engine counts it. */
static uint64_t promise_of(const struct store *store, size_t index)
{
	const struct store_object *volume = &store->objects[index];
	uint64_t size = volume->record.volume.size_bytes;

	return may_share(store, index) ? size : size - min_u64(volume->allocated_bytes, size);
}

static void check_pool(struct store *store, size_t index)
{
	const struct store_object *pool = &store->objects[index];
	uint64_t used = 0;

	for (size_t i = index + 1; i < store->object_count && store->objects[i].kind != STORE_POOL; i++) {
		const struct store_object *object = &store->objects[i];

		if (!is_volume_of(object, index) || (pool->record.pool.overcommit && !object->record.volume.thick))
			continue;
		used += object->record.volume.size_bytes;
		store->space.promised_bytes += promise_of(store, i);
	}
	if (pool->record.pool.size_bytes > 0 && used > pool->record.pool.size_bytes)
		store_add_finding(store, STORE_POOL_FULL, pool->path, 0,
				  "its volumes have %" PRIu64 " bytes, its limit is %" PRIu64, used,
				  pool->record.pool.size_bytes);
}

static void check_space(struct store *store)
{
	struct store_space *space = &store->space;

	for (size_t i = 0; i < store->object_count; i++) {
		if (store->objects[i].kind == STORE_POOL && store->objects[i].is_read)
			check_pool(store, i);
	}
	if (space->promised_bytes > space->free_bytes)
		store_add_finding(store, STORE_SPACE_PROMISED, "pools", 0,
				  "volumes were promised %" PRIu64 " bytes more than they occupy, and %" PRIu64 " are free",
				  space->promised_bytes, space->free_bytes);
}

/* ---- pending, commit, trash ---- */

/* A finding for each entry of a folder of the root. */
static void note_entries(struct store *store, const char *folder, enum store_problem problem, const char *text)
{
	char path[STORE_PATH_BYTES_MAX];
	struct store_names names;
	int error, fd = store_open_folder(store->root, folder);

	if (fd == -ENOENT)
		return; /* the start of an engine creates it */
	error = fd < 0 ? fd : store_list(fd, &names);
	if (fd >= 0)
		close(fd);
	if (error) {
		store_add_finding(store, STORE_UNREADABLE, folder, 0, "cannot list the folder: %s", strerror(-error));
		return;
	}
	for (size_t i = 0; i < names.count; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names.names[i]);
		store_add_finding(store, problem, path, 0, "%s", text);
	}
	store_free_names(&names);
}

/* Why the start cannot move the snapshot POOL:VOLUME:SNAPSHOT of a group to its volume; NULL: it can. */
static const char *reason_of_member(const struct store *store, const char *name)
{
	char path[STORE_PATH_BYTES_MAX], *mark = path;
	int index;

	if (text_copy(path, sizeof(path), name) < 0)
		return "its name is too long";
	for (int i = 0; i < 2; i++) {
		mark = strchr(mark, ':');
		if (!mark)
			return "its name does not have the form POOL:VOLUME:SNAPSHOT";
		*mark++ = '/';
	}
	if (store_find(store, path, NULL) >= 0)
		return "its volume has another snapshot of this name";
	mark[-1] = '\0';
	index = store_find(store, path, NULL);
	if (index < 0)
		return "its volume does not exist";
	return store->objects[index].is_read ? NULL : "the record of its volume is damaged";
}

static void check_group(struct store *store, int commit, const char *group)
{
	char path[STORE_PATH_BYTES_MAX];
	struct store_names names;
	int error, fd = store_open_folder(commit, group);

	error = fd < 0 ? fd : store_list(fd, &names);
	if (fd >= 0)
		close(fd);
	snprintf(path, sizeof(path), "commit/%s", group);
	if (error) {
		store_add_finding(store, STORE_COMMIT_LEFT, path, 0, "cannot list the folder: %s", strerror(-error));
		return;
	}
	if (names.count == 0)
		store_add_finding(store, STORE_COMMIT, path, 0, "all its snapshots were moved");
	for (size_t i = 0; i < names.count; i++) {
		const char *reason = reason_of_member(store, names.names[i]);

		snprintf(path, sizeof(path), "commit/%s/%s", group, names.names[i]);
		store_add_finding(store, reason ? STORE_COMMIT_LEFT : STORE_COMMIT, path, 0, "%s",
				  reason ? reason : "a snapshot on the way to its volume");
	}
	store_free_names(&names);
}

static void check_commit(struct store *store)
{
	struct store_names names;
	int commit = store_open_folder(store->root, "commit");

	if (commit < 0)
		return; /* the start of an engine creates it */
	if (store_list(commit, &names) == 0) {
		for (size_t i = 0; i < names.count; i++)
			check_group(store, commit, names.names[i]);
		store_free_names(&names);
	}
	close(commit);
}

void store_check(struct store *store)
{
	check_uuids(store);
	check_snapshots(store);
	check_space(store);
	check_commit(store);
	note_entries(store, "pending", STORE_PENDING, "an object that was being built");
	note_entries(store, "trash", STORE_TRASH, "an object that was removed; its files are still there");
}
