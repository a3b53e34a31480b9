/* SPDX-License-Identifier: BSD-2-Clause */
/* walk - reads the tree below pools: records, data files, and what does not belong there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/fathom/ddb/internal.h"
#include "data/store/pool/sums.h"

/* ---- records ---- */

int store_decode(struct store_object *object, const char *text, size_t bytes, struct fathom_fault *why)
{
	const char *slash = strrchr(object->path, '/'), *name = slash ? slash + 1 : object->path;

	if (object->kind == STORE_POOL)
		return pool_record_decode(name, text, bytes, &object->record.pool, why);
	if (object->kind == STORE_VOLUME)
		return volume_record_decode(name, text, bytes, &object->record.volume, why);
	return snapshot_record_decode(name, text, bytes, &object->record.snapshot, why);
}

int store_resum(enum store_kind kind, const char *text, size_t bytes, char **text_ret, size_t *bytes_ret,
		struct fathom_fault *why)
{
	static const char *const keys[] = { "pool", "volume", "snapshot" };
	json_t *outer = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	json_t *object = json_object_get(outer, keys[kind]);
	char checksum[16], *compact, *fixed;

	if (!json_is_object(object) || json_object_size(outer) > 2) {
		json_decref(outer);
		return fault(why, -EBADMSG, "it is not valid JSON of a %s", keys[kind]);
	}
	compact = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
	must(compact);
	snprintf(checksum, sizeof(checksum), "0x%08" PRIx32,
		 ~crc32_iscsi((unsigned char *)compact, (int)strlen(compact), ~0U));
	free(compact);
	must(json_object_set_new(outer, "checksum", json_string(checksum)) == 0);
	fixed = json_dumps(outer, JSON_INDENT(1) | JSON_SORT_KEYS);
	must(fixed);
	json_decref(outer);
	*text_ret = fixed;
	*bytes_ret = strlen(fixed);
	return 0;
}

/* Whether the values of a record that cannot be used are all right, so that only its checksum is wrong. */
static bool only_checksum_is_wrong(struct store_object *object, const char *text, size_t bytes)
{
	struct store_object trial = { .kind = object->kind, .path = object->path };
	size_t fixed_bytes;
	bool good = false;
	char *fixed;

	if (store_resum(object->kind, text, bytes, &fixed, &fixed_bytes, NULL) == 0) {
		good = store_decode(&trial, fixed, fixed_bytes, NULL) == 0;
		free(fixed);
	}
	if (good && trial.kind == STORE_VOLUME)
		volume_record_deinit(&trial.record.volume);
	return good;
}

static void read_record(struct store *store, int folder, int index)
{
	struct store_object *object = &store->objects[index];
	const char *name = store_record_name(object->kind);
	char path[STORE_PATH_BYTES_MAX], *text;
	struct fathom_fault why;
	size_t bytes;
	int error = store_read_text(folder, name, &text, &bytes);

	snprintf(path, sizeof(path), "%s/%s", object->path, name);
	if (error == -ENOENT) {
		store_add_finding(store, STORE_RECORD_MISSING, path, 0, "the file does not exist");
		return;
	}
	if (error) {
		store_add_finding(store, error == -EFBIG ? STORE_RECORD_DAMAGED : STORE_UNREADABLE, path, 0,
				  "cannot read the file: %s", strerror(-error));
		return;
	}
	error = store_decode(object, text, bytes, &why);
	if (error == 0)
		object->is_read = true;
	else if (error == -EPROTO)
		store_add_finding(store, STORE_RECORD_NEWER, path, 0, "%s", why.text);
	else if (only_checksum_is_wrong(object, text, bytes))
		store_add_finding(store, STORE_RECORD_CHECKSUM, path, 0, "%s", why.text);
	else
		store_add_finding(store, STORE_RECORD_DAMAGED, path, 0, "%s", why.text);
	free(text);
}

static void read_data(struct store *store, int folder, int index)
{
	struct store_object *object = &store->objects[index];
	char name[STORE_DATA_NAME_BYTES], path[STORE_PATH_BYTES_MAX];
	struct stat stat;
	uint64_t size;

	if (!object->is_read)
		return;
	size = store_size_of(object);
	store_data_name(object, name);
	snprintf(path, sizeof(path), "%s/%s", object->path, name);
	if (fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(stat.st_mode)) {
		store_add_finding(store, STORE_DATA_MISSING, path, 0,
				  "the data file is missing; the record has %" PRIu64 " bytes", size);
		return;
	}
	object->has_data = true;
	object->data_bytes = (uint64_t)stat.st_size;
	object->allocated_bytes = (uint64_t)stat.st_blocks * 512;
	store->space.allocated_bytes += object->allocated_bytes;
	if (object->data_bytes < size)
		store_add_finding(store, STORE_DATA_SHORT, path, size, "it has %" PRIu64 " bytes, its record says %" PRIu64,
				  object->data_bytes, size);
	else if (object->data_bytes > size)
		store_add_finding(store, STORE_DATA_LONG, path, size,
				  "it has %" PRIu64 " bytes, its record says %" PRIu64
				  "; a change of the size was interrupted",
				  object->data_bytes, size);
}

static void read_sums(struct store *store, int folder, int index)
{
	struct store_object *object = &store->objects[index];
	char name[STORE_DATA_NAME_BYTES], path[STORE_PATH_BYTES_MAX];
	uint64_t least;
	struct stat stat;

	if (!store_has_sums(object))
		return;
	/* a volume that was growing has no more for a moment; the next start extends the file */
	least = object->kind == STORE_VOLUME ? sums_end(store_size_of(object)) : sums_file_bytes(store_size_of(object));
	store_sums_name(object, name);
	if (fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(stat.st_mode) &&
	    (uint64_t)stat.st_size >= least)
		return;
	snprintf(path, sizeof(path), "%s/%s", object->path, name);
	store_add_finding(store, STORE_SUMS_MISSING, path, store_size_of(object),
			  "the file with the checksums of the blocks is missing, or too short");
}

/* ---- folders ---- */

struct level {
	enum store_kind kind;
	const char *word;   /* in messages */
	const char *folder; /* of the objects one level below; NULL: none */
};

static const struct level levels[] = {
	[STORE_POOL] = { STORE_POOL, "pool", "volumes" },
	[STORE_VOLUME] = { STORE_VOLUME, "volume", "snapshots" },
	[STORE_SNAPSHOT] = { STORE_SNAPSHOT, "snapshot", NULL },
};

static void add_stray(struct store *store, const char *folder, const char *name, const char *reason)
{
	char path[STORE_PATH_BYTES_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	store_add_finding(store, STORE_STRAY, path, 0, "%s", reason);
}

/* Is `name` "data.N" or "sums.N" of a generation other than the record's? */
static bool is_other_generation(const struct store_object *object, const char *name)
{
	char current[STORE_DATA_NAME_BYTES];

	if ((strncmp(name, "data.", 5) != 0 && strncmp(name, "sums.", 5) != 0) || !name[5] ||
	    name[5 + strspn(name + 5, "0123456789")])
		return false;
	if (!object->is_read)
		return true;
	store_data_name(object, current);
	return strcmp(name, current) != 0;
}

static bool is_known(const struct store_object *object, const char *name)
{
	char data[STORE_DATA_NAME_BYTES] = "", sums[STORE_DATA_NAME_BYTES] = "";

	if (store_has_sums(object))
		store_sums_name(object, sums);
	if (object->kind != STORE_POOL && object->is_read)
		store_data_name(object, data);
	return strcmp(name, store_record_name(object->kind)) == 0 || strcmp(name, data) == 0 || strcmp(name, sums) == 0 ||
	       (object->kind == STORE_SNAPSHOT && strcmp(name, "data") == 0) ||
	       (levels[object->kind].folder && strcmp(name, levels[object->kind].folder) == 0);
}

/* Everything in the folder of an object that does not belong to it. */
static void find_strays(struct store *store, int folder, int index)
{
	const struct store_object *object = &store->objects[index];
	char path[STORE_PATH_BYTES_MAX];
	struct store_names names;
	int error = store_list(folder, &names);

	if (error) {
		store_add_finding(store, STORE_UNREADABLE, object->path, 0, "cannot list the folder: %s", strerror(-error));
		return;
	}
	for (size_t i = 0; i < names.count; i++) {
		if (is_known(object, names.names[i]))
			continue;
		if (object->kind != STORE_VOLUME || !is_other_generation(object, names.names[i])) {
			add_stray(store, object->path, names.names[i], "no file of a storage has this name");
			continue;
		}
		if (!object->has_data || object->data_bytes < object->record.volume.size_bytes)
			continue; /* it may be the only good data of the volume: keep it */
		snprintf(path, sizeof(path), "%s/%s", object->path, names.names[i]);
		store_add_finding(store, STORE_OLD_GENERATION, path, 0, "the record has generation %u",
				  object->record.volume.generation);
	}
	store_free_names(&names);
}

static void walk_objects(struct store *store, int folder, const char *path, enum store_kind kind, int parent);

static void walk_below(struct store *store, int folder, int index)
{
	const char *name = levels[store->objects[index].kind].folder;
	char path[STORE_PATH_BYTES_MAX];
	int below;

	if (!name)
		return;
	snprintf(path, sizeof(path), "%s/%s", store->objects[index].path, name);
	below = store_open_folder(folder, name);
	if (below == -ENOENT)
		store_add_finding(store, STORE_FOLDER_MISSING, path, 0, "the folder does not exist");
	else if (below < 0)
		store_add_finding(store, STORE_UNREADABLE, path, 0, "cannot open the folder: %s", strerror(-below));
	if (below < 0)
		return;
	walk_objects(store, below, path, store->objects[index].kind + 1, index);
	close(below);
}

static void walk_object(struct store *store, int folder, const char *path, enum store_kind kind, int parent,
			const char *name)
{
	char own[STORE_PATH_BYTES_MAX];
	struct fathom_fault why;
	int fd, index;

	snprintf(own, sizeof(own), "%s/%s", path, name);
	if (pool_name_check(levels[kind].word, name, &why) != 0) {
		add_stray(store, path, name, why.text);
		return;
	}
	fd = store_open_folder(folder, name);
	if (fd == -ENOTDIR || fd == -ELOOP) {
		add_stray(store, path, name, "it is not a folder");
		return;
	}
	if (fd < 0) {
		store_add_finding(store, STORE_UNREADABLE, own, 0, "cannot open the folder: %s", strerror(-fd));
		return;
	}
	index = store_add_object(store, kind, parent, own, name);
	read_record(store, fd, index);
	if (kind != STORE_POOL)
		read_data(store, fd, index);
	read_sums(store, fd, index);
	find_strays(store, fd, index);
	walk_below(store, fd, index);
	close(fd);
}

/* The objects in an open folder. */
static void walk_objects(struct store *store, int folder, const char *path, enum store_kind kind, int parent)
{
	struct store_names names;
	int error = store_list(folder, &names);

	if (error) {
		store_add_finding(store, STORE_UNREADABLE, path, 0, "cannot list the folder: %s", strerror(-error));
		return;
	}
	for (size_t i = 0; i < names.count; i++)
		walk_object(store, folder, path, kind, parent, names.names[i]);
	store_free_names(&names);
}

void store_walk(struct store *store)
{
	int pools = store_open_folder(store->root, "pools");

	if (pools < 0) {
		store_add_finding(store, STORE_UNREADABLE, "pools", 0, "cannot open the folder: %s", strerror(-pools));
		return;
	}
	walk_objects(store, pools, "pools", STORE_POOL, STORE_NONE);
	close(pools);
}
