/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * change - changes of a storage without an engine. Each is one step that is durable or not made, as those of the engine:
 * a file is written in pending and synced, then one rename puts it in its place, then both folders are synced.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/file.h"
#include "cmd/fathom/ddb/internal.h"
#include "data/store/pool/sums.h"

int store_must_be_writable(const struct store *store, struct fathom_fault *why)
{
	return store->is_writable ? 0 : fault(why, -EROFS, "the storage is open for reading; open it with --write");
}

void store_new_name(char name_ret[STORE_UUID_NAME_BYTES])
{
	uuid_t uuid;

	uuid_generate_random(uuid);
	uuid_unparse_lower(uuid, name_ret);
}

/* Open the folder `name` of the root; create it if it is missing, as the start of an engine does. */
static int open_or_make(struct store *store, const char *name)
{
	int fd = store_open_folder(store->root, name);

	if (fd != -ENOENT)
		return fd;
	if (mkdirat(store->root, name, 0700) != 0 || fsync(store->root) != 0)
		return -errno;
	return store_open_folder(store->root, name);
}

int store_trash(struct store *store, const char *path, struct fathom_fault *why)
{
	char name[STORE_UUID_NAME_BYTES];
	const char *last;
	int folder = -1, trash = -1, error = store_must_be_writable(store, why);

	if (error)
		return error;
	folder = store_open_parent(store, path, &last);
	trash = open_or_make(store, "trash");
	store_new_name(name);
	if (folder < 0)
		error = folder;
	else if (trash < 0)
		error = trash;
	else if (renameat(folder, last, trash, name) != 0 || fsync(trash) != 0 || fsync(folder) != 0)
		error = -errno;
	if (folder >= 0)
		close(folder);
	if (trash >= 0)
		close(trash);
	return error ? fault(why, error, "cannot move %s to the trash: %s", path, strerror(-error)) : 0;
}

/* Create `name` with `text`, synced. */
static int write_file(int folder, const char *name, const char *text, size_t bytes)
{
	int error, fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	error = file_write(fd, text, bytes);
	if (error == 0 && fsync(fd) != 0)
		error = -errno;
	close(fd);
	return error;
}

int store_replace_file(struct store *store, int folder, const char *name, const char *text, size_t bytes,
		       struct fathom_fault *why)
{
	char pending_name[STORE_UUID_NAME_BYTES];
	int error, pending = open_or_make(store, "pending");

	if (pending < 0)
		return fault(why, pending, "cannot open the folder pending: %s", strerror(-pending));
	store_new_name(pending_name);
	error = write_file(pending, pending_name, text, bytes);
	if (error == 0 && renameat(pending, pending_name, folder, name) != 0)
		error = -errno;
	if (error)
		unlinkat(pending, pending_name, 0);
	else if (fsync(folder) != 0 || fsync(pending) != 0)
		error = -errno;
	close(pending);
	return error ? fault(why, error, "cannot write %s: %s", name, strerror(-error)) : 0;
}

/* ---- repairs ---- */

/* The object whose record is the file at `path`. */
static const struct store_object *object_of_record(const struct store *store, const char *path)
{
	for (size_t i = 0; i < store->object_count; i++) {
		size_t bytes = strlen(store->objects[i].path);

		if (strncmp(store->objects[i].path, path, bytes) == 0 && path[bytes] == '/' &&
		    !strchr(path + bytes + 1, '/'))
			return &store->objects[i];
	}
	return NULL;
}

int store_write_record(struct store *store, const struct store_object *object, const char *text, size_t bytes,
		       struct fathom_fault *why)
{
	struct store_object trial = { .kind = object->kind, .path = object->path };
	size_t fixed_bytes;
	char *fixed;
	int folder, error = store_must_be_writable(store, why);

	if (error == 0)
		error = store_resum(object->kind, text, bytes, &fixed, &fixed_bytes, why);
	if (error)
		return error;
	error = store_decode(&trial, fixed, fixed_bytes, why);
	if (error == 0) {
		if (trial.kind == STORE_VOLUME)
			volume_record_deinit(&trial.record.volume);
		folder = store_open_path(store, object->path, O_RDONLY | O_DIRECTORY);
		if (folder < 0)
			error = fault(why, folder, "cannot open %s: %s", object->path, strerror(-folder));
		else
			error = store_replace_file(store, folder, store_record_name(object->kind), fixed, fixed_bytes, why);
		if (folder >= 0)
			close(folder);
	}
	free(fixed);
	return error;
}

static int rewrite_record(struct store *store, const char *path, struct fathom_fault *why)
{
	const struct store_object *object = object_of_record(store, path);
	char *text;
	int error;

	must(object);
	error = store_read_record(store, object, &text, why);
	if (error)
		return error;
	error = store_write_record(store, object, text, strlen(text), why);
	free(text);
	return error;
}

static int set_size(struct store *store, const char *path, uint64_t bytes, struct fathom_fault *why)
{
	int error = 0, fd = store_open_path(store, path, O_RDWR);

	if (fd < 0)
		error = fd;
	else if (ftruncate(fd, (off_t)bytes) != 0 || fsync(fd) != 0)
		error = -errno;
	if (fd >= 0)
		close(fd);
	return error ? fault(why, error, "cannot change the size of %s: %s", path, strerror(-error)) : 0;
}

/* A sidecar whose regions are all marked: an engine computes its checksums. */
static int write_sums(int folder, const char *name, uint64_t size_bytes)
{
	uint64_t marks = (sums_region_count((size_bytes - 1) / SUMS_BLOCK_BYTES + 1) + 7) / 8;
	uint8_t *bits = malloc(marks);
	int error, fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	must(bits);
	memset(bits, 0xff, marks);
	error = fd < 0 ? -errno : file_write(fd, bits, marks);
	if (error == 0 && (ftruncate(fd, (off_t)sums_file_bytes(size_bytes)) != 0 || fsync(fd) != 0))
		error = -errno;
	if (fd >= 0)
		close(fd);
	free(bits);
	return error;
}

int store_make_sums(struct store *store, const char *path, uint64_t size_bytes, struct fathom_fault *why)
{
	char name[STORE_UUID_NAME_BYTES];
	const char *last;
	int error = 0, folder = store_open_parent(store, path, &last), pending = open_or_make(store, "pending");

	store_new_name(name);
	if (folder < 0 || pending < 0)
		error = folder < 0 ? folder : pending;
	else
		error = write_sums(pending, name, size_bytes);
	if (error == 0 && renameat(pending, name, folder, last) != 0)
		error = -errno;
	if (error && pending >= 0)
		unlinkat(pending, name, 0);
	if (error == 0 && (fsync(folder) != 0 || fsync(pending) != 0))
		error = -errno;
	if (folder >= 0)
		close(folder);
	if (pending >= 0)
		close(pending);
	return error ? fault(why, error, "cannot create %s: %s", path, strerror(-error)) : 0;
}

static int make_folder(struct store *store, const char *path, struct fathom_fault *why)
{
	const char *last;
	int error = 0, folder = store_open_parent(store, path, &last);

	if (folder < 0)
		error = folder;
	else if (mkdirat(folder, last, 0700) != 0 || fsync(folder) != 0)
		error = -errno;
	if (folder >= 0)
		close(folder);
	return error ? fault(why, error, "cannot create the folder %s: %s", path, strerror(-error)) : 0;
}

int store_repair(struct store *store, const struct store_finding *finding, struct fathom_fault *why)
{
	int error = store_must_be_writable(store, why);

	must(store_problem_repair(finding->problem));
	if (error)
		return error;
	switch (finding->problem) {
	case STORE_RECORD_CHECKSUM:
		return rewrite_record(store, finding->path, why);
	case STORE_DATA_SHORT:
	case STORE_DATA_LONG:
		return set_size(store, finding->path, finding->size_bytes, why);
	case STORE_SUMS_MISSING:
		return store_make_sums(store, finding->path, finding->size_bytes, why);
	case STORE_FOLDER_MISSING:
		return make_folder(store, finding->path, why);
	default:
		return store_trash(store, finding->path, why);
	}
}
