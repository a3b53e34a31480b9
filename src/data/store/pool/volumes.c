/* SPDX-License-Identifier: BSD-2-Clause */
/* volumes - creates, resizes, renames, restores and removes volumes on disk: see tree.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "data/store/pool/internal.h"
#include "data/store/pool/sums.h"

void volume_data_name(char name_ret[DATA_NAME_BYTES], uint32_t generation)
{
	must(generation > 0 && generation <= INT32_MAX);
	must(snprintf(name_ret, DATA_NAME_BYTES, "data.%" PRIu32, generation) < DATA_NAME_BYTES);
}

void volume_sums_name(char name_ret[DATA_NAME_BYTES], uint32_t generation)
{
	must(generation > 0 && generation <= INT32_MAX);
	must(snprintf(name_ret, DATA_NAME_BYTES, "sums.%" PRIu32, generation) < DATA_NAME_BYTES);
}

/* ---- folders ---- */

int tree_open_volumes(struct pool_tree *tree, const char *pool, int *folder_ret, struct fathom_fault *why)
{
	int volumes, folder = tree->fs->open_folder(tree->fs->ctx, tree->pools, pool);

	if (folder < 0)
		return tree_fault(why, folder, "open pool", pool);
	volumes = tree->fs->open_folder(tree->fs->ctx, folder, "volumes");
	tree_close(tree, &folder);
	if (volumes < 0)
		return tree_fault(why, volumes, "open the volumes of pool", pool);
	*folder_ret = volumes;
	return 0;
}

int tree_open_volume(struct pool_tree *tree, const char *pool, const char *volume, int *folder_ret,
		     struct fathom_fault *why)
{
	int volumes, folder, error = tree_open_volumes(tree, pool, &volumes, why);

	if (error)
		return error;
	folder = tree->fs->open_folder(tree->fs->ctx, volumes, volume);
	tree_close(tree, &volumes);
	if (folder < 0)
		return tree_fault(why, folder, "open volume", volume);
	*folder_ret = folder;
	return 0;
}

int volume_allocated(struct pool_tree *tree, const char *pool, const struct volume_record *volume, uint64_t *bytes_ret,
		     struct fathom_fault *why)
{
	char name[DATA_NAME_BYTES], path[POOL_PATH_BYTES_MAX];
	struct stat stat;
	int error;

	volume_data_name(name, volume->generation);
	must((size_t)snprintf(path, sizeof(path), "%s/volumes/%s/%s", pool, volume->name, name) < sizeof(path));
	error = tree->fs->stat_path(tree->fs->ctx, tree->pools, path, &stat);
	if (error)
		return tree_fault(why, error, "read the size of", path);
	*bytes_ret = (uint64_t)stat.st_blocks * 512;
	return 0;
}

/* ---- records ---- */

static int write_record(struct pool_tree *tree, int folder, const struct volume_record *volume, bool replace,
			struct fathom_fault *why)
{
	size_t bytes;
	char *text;
	int error = volume_record_encode(volume, &text, &bytes);

	if (error)
		return tree_fault(why, error, "encode", "volume.json");
	if (replace)
		error = tree_replace_file(tree, folder, "volume.json", text, bytes, why);
	else
		error = tree_write_file(tree, folder, "volume.json", text, bytes, why);
	free(text);
	return error;
}

int volume_update(struct pool_tree *tree, const char *pool, const struct volume_record *volume, struct fathom_fault *why)
{
	int folder, error = tree_check_writable(tree, why);

	if (error == 0)
		error = tree_open_volume(tree, pool, volume->name, &folder, why);
	if (error)
		return error;
	error = write_record(tree, folder, volume, true, why);
	tree_close(tree, &folder);
	return error;
}

/* ---- building a volume ---- */

/* Create a file with `bytes`, all of which are holes. */
int tree_create_sized(struct pool_tree *tree, int folder, const char *name, uint64_t bytes, int *fd_ret,
		      struct fathom_fault *why)
{
	int error, fd = tree->fs->open_file(tree->fs->ctx, folder, name, O_RDWR | O_CREAT | O_EXCL);

	if (fd < 0)
		return tree_fault(why, fd, "create", name);
	error = tree->fs->set_size(tree->fs->ctx, fd, bytes);
	if (error) {
		tree_close(tree, &fd);
		return tree_fault(why, error, "extend", name);
	}
	*fd_ret = fd;
	return 0;
}

/* Create the files of a new generation. After an error `build` may have one of them. */
static int create_data(struct pool_tree *tree, const struct volume_record *volume, uint32_t generation, uint64_t bytes,
		       struct volume_build *build, struct fathom_fault *why)
{
	char data[DATA_NAME_BYTES], sums[DATA_NAME_BYTES];
	int error;

	volume_data_name(data, generation);
	volume_sums_name(sums, generation);
	error = tree_create_sized(tree, build->folder, data, bytes, &build->fd, why);
	if (error == 0 && volume->checksums)
		error = tree_create_sized(tree, build->folder, sums, sums_file_bytes(bytes), &build->sums_fd, why);
	return error;
}

/* Sync the files of a build. */
static int sync_data(struct pool_tree *tree, const struct volume_build *build, struct fathom_fault *why)
{
	int error = tree->fs->sync(tree->fs->ctx, build->fd);

	if (error == 0 && build->sums_fd >= 0)
		error = tree->fs->sync(tree->fs->ctx, build->sums_fd);
	return error ? tree_fault(why, error, "sync", "the data of a volume") : 0;
}

int volume_build_begin(struct pool_tree *tree, const struct volume_record *volume, struct volume_build *build_ret,
		       struct fathom_fault *why)
{
	struct volume_build build = { .fd = -1, .sums_fd = -1, .folder = -1 };
	int error = tree_check_writable(tree, why);

	if (error == 0)
		error = pool_name_check("volume", volume->name, why);
	if (error)
		return error;
	tree_new_name(build.name);
	error = tree_make_folder(tree, tree->pending, build.name, &build.folder, why);
	if (error)
		return error;
	error = create_data(tree, volume, volume->generation, volume->size_bytes, &build, why);
	if (error)
		volume_build_abandon(tree, &build);
	else
		*build_ret = build;
	return error;
}

void volume_build_abandon(struct pool_tree *tree, struct volume_build *build)
{
	tree_close(tree, &build->fd);
	tree_close(tree, &build->sums_fd);
	tree_close(tree, &build->folder);
	tree_discard(tree, tree->pending, build->name);
}

/* Complete the folder in pending: the data, the record and the folder of snapshots are on disk afterwards. */
static int complete_build(struct pool_tree *tree, const struct volume_record *volume, struct volume_build *build,
			  struct fathom_fault *why)
{
	const struct pool_fs *fs = tree->fs;
	int error = sync_data(tree, build, why);

	if (error)
		return error;
	error = write_record(tree, build->folder, volume, false, why);
	if (error)
		return error;
	error = fs->make_folder(fs->ctx, build->folder, "snapshots");
	if (error == 0)
		error = fs->sync(fs->ctx, build->folder);
	return error ? tree_fault(why, error, "create", "the folder of a volume") : 0;
}

int volume_build_commit(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
			struct volume_build *build, struct fathom_fault *why)
{
	int volumes = -1, error = complete_build(tree, volume, build, why);

	if (error == 0)
		error = tree_check_writable(tree, why);
	if (error == 0)
		error = tree_open_volumes(tree, pool, &volumes, why);
	if (error == 0)
		error = tree_move(tree, tree->pending, build->name, volumes, volume->name, why);
	tree_close(tree, &volumes);
	volume_build_abandon(tree, build); /* after a success nothing of that name is left in pending */
	return error;
}

int volume_create(struct pool_tree *tree, const char *pool, const struct volume_record *volume, struct fathom_fault *why)
{
	struct volume_build build;
	int error = volume_build_begin(tree, volume, &build, why);

	if (error)
		return error;
	if (volume->thick) {
		error = tree->fs->allocate(tree->fs->ctx, build.fd, 0, volume->size_bytes);
		if (error == 0 && volume->checksums)
			error = tree->fs->allocate(tree->fs->ctx, build.sums_fd, 0, sums_file_bytes(volume->size_bytes));
		if (error) {
			volume_build_abandon(tree, &build);
			return tree_fault(why, error, "allocate the blocks of volume", volume->name);
		}
	}
	return volume_build_commit(tree, pool, volume, &build, why);
}

/* ---- other changes ---- */

int volume_rename(struct pool_tree *tree, const char *pool, const char *from, const char *to, struct fathom_fault *why)
{
	int volumes, error = tree_check_writable(tree, why);

	if (error == 0)
		error = pool_name_check("volume", to, why);
	if (error == 0)
		error = tree_open_volumes(tree, pool, &volumes, why);
	if (error)
		return error;
	error = tree_move(tree, volumes, from, volumes, to, why);
	tree_close(tree, &volumes);
	return error;
}

int volume_remove(struct pool_tree *tree, const char *pool, const char *volume, struct fathom_fault *why)
{
	int volumes, error = tree_check_writable(tree, why);

	if (error == 0)
		error = tree_open_volumes(tree, pool, &volumes, why);
	if (error)
		return error;
	error = tree_move_to_trash(tree, volumes, volume, why);
	tree_close(tree, &volumes);
	return error;
}

static int open_data_in(struct pool_tree *tree, int folder, uint32_t generation, int flags, int *fd_ret,
			struct fathom_fault *why)
{
	char name[DATA_NAME_BYTES];
	int fd;

	volume_data_name(name, generation);
	fd = tree->fs->open_file(tree->fs->ctx, folder, name, flags);
	if (fd < 0)
		return tree_fault(why, fd, "open", name);
	*fd_ret = fd;
	return 0;
}

static int open_sums_in(struct pool_tree *tree, int folder, uint32_t generation, int flags, int *fd_ret,
			struct fathom_fault *why)
{
	char name[DATA_NAME_BYTES];
	int fd;

	volume_sums_name(name, generation);
	fd = tree->fs->open_file(tree->fs->ctx, folder, name, flags);
	if (fd < 0)
		return tree_fault(why, fd, "open", name);
	*fd_ret = fd;
	return 0;
}

int volume_open_data(struct pool_tree *tree, const char *pool, const struct volume_record *volume, int flags, int *fd_ret,
		     struct fathom_fault *why)
{
	int folder, error = tree_open_volume(tree, pool, volume->name, &folder, why);

	if (error)
		return error;
	error = open_data_in(tree, folder, volume->generation, flags, fd_ret, why);
	tree_close(tree, &folder);
	return error;
}

int volume_open_sums(struct pool_tree *tree, const char *pool, const struct volume_record *volume, int flags, int *fd_ret,
		     struct fathom_fault *why)
{
	int folder, error = tree_open_volume(tree, pool, volume->name, &folder, why);

	if (error)
		return error;
	error = open_sums_in(tree, folder, volume->generation, flags, fd_ret, why);
	tree_close(tree, &folder);
	return error;
}

/* ---- size ---- */

int volume_data_end(struct pool_tree *tree, const char *pool, const struct volume_record *volume, uint64_t from,
		    uint64_t *end_ret, struct fathom_fault *why)
{
	int fd, error = volume_open_data(tree, pool, volume, O_RDONLY, &fd, why);

	if (error)
		return error;
	error = tree->fs->data_end(tree->fs->ctx, fd, from, end_ret);
	tree_close(tree, &fd);
	return error ? tree_fault(why, error, "find the data of volume", volume->name) : 0;
}

/*
 * Give the data file the new size. The record has the smaller of both sizes meanwhile: after a crash the file is as long as
 * the record says, or longer. A file that is longer already has old data beyond the end, which must not come back.
 */
static int grow_data(struct pool_tree *tree, int fd, const struct volume_record *volume, uint64_t size_bytes)
{
	const struct pool_fs *fs = tree->fs;
	int error = fs->set_size(fs->ctx, fd, volume->size_bytes);

	if (error == 0 && volume->thick)
		error = fs->allocate(fs->ctx, fd, volume->size_bytes, size_bytes - volume->size_bytes);
	else if (error == 0)
		error = fs->set_size(fs->ctx, fd, size_bytes);
	return error ? error : fs->sync(fs->ctx, fd);
}

/* The same for the sums: they are longer before the record says so, and what is behind their end is zeroes. */
static int grow_sums(struct pool_tree *tree, int fd, const struct volume_record *volume, uint64_t size_bytes)
{
	const struct pool_fs *fs = tree->fs;
	int error = fs->set_size(fs->ctx, fd, sums_end(volume->size_bytes));

	if (error == 0)
		error = fs->set_size(fs->ctx, fd, sums_file_bytes(size_bytes));
	if (error == 0 && volume->thick)
		error = fs->allocate(fs->ctx, fd, 0, sums_file_bytes(size_bytes));
	return error ? error : fs->sync(fs->ctx, fd);
}

/* The record has this size. If this is not done, or lost, the next open or growth cuts the file. */
static void cut_data(struct pool_tree *tree, int fd, uint64_t size_bytes)
{
	int error = tree->fs->set_size(tree->fs->ctx, fd, size_bytes);

	maybe(error != 0);
}

int volume_resize(struct pool_tree *tree, const char *pool, const struct volume_record *volume, uint64_t size_bytes,
		  struct fathom_fault *why)
{
	struct volume_record changed = *volume;
	int folder, fd = -1, sums_fd = -1, error = tree_check_writable(tree, why);

	must(size_bytes > 0 && size_bytes % volume->block_bytes == 0);
	if (error == 0)
		error = tree_open_volume(tree, pool, volume->name, &folder, why);
	if (error)
		return error;
	changed.size_bytes = size_bytes;
	error = open_data_in(tree, folder, volume->generation, O_RDWR, &fd, why);
	if (error == 0 && volume->checksums)
		error = open_sums_in(tree, folder, volume->generation, O_RDWR, &sums_fd, why);
	if (error == 0 && size_bytes > volume->size_bytes) {
		error = volume->checksums ? grow_sums(tree, sums_fd, volume, size_bytes) : 0;
		if (error == 0)
			error = grow_data(tree, fd, volume, size_bytes);
		if (error)
			error = tree_fault(why, error, "extend volume", volume->name);
	}
	if (error == 0)
		error = write_record(tree, folder, &changed, true, why);
	if (error == 0 && size_bytes < volume->size_bytes)
		cut_data(tree, fd, size_bytes);
	else if (error && fd >= 0 && size_bytes > volume->size_bytes && !tree->is_failed)
		cut_data(tree, fd, volume->size_bytes); /* give the new blocks back */
	tree_close(tree, &fd);
	tree_close(tree, &sums_fd);
	tree_close(tree, &folder);
	return error;
}

/* ---- restoring ---- */

static void discard_generation(struct pool_tree *tree, int folder, const struct volume_record *volume, uint32_t generation)
{
	char name[DATA_NAME_BYTES];

	volume_data_name(name, generation);
	tree_discard(tree, folder, name);
	if (!volume->checksums)
		return;
	volume_sums_name(name, generation);
	tree_discard(tree, folder, name);
}

int volume_restore_begin(struct pool_tree *tree, const char *pool, const struct volume_record *volume, uint64_t size_bytes,
			 struct volume_build *build_ret, struct fathom_fault *why)
{
	struct volume_build build = { .fd = -1, .sums_fd = -1, .folder = -1 };
	int error = tree_check_writable(tree, why);

	must(volume->generation < INT32_MAX);
	if (error == 0)
		error = tree_open_volume(tree, pool, volume->name, &build.folder, why);
	if (error)
		return error;
	volume_data_name(build.name, volume->generation + 1);
	discard_generation(tree, build.folder, volume, volume->generation + 1); /* of a restore that failed */
	error = create_data(tree, volume, volume->generation + 1, size_bytes, &build, why);
	if (error)
		volume_restore_abandon(tree, volume, &build);
	else
		*build_ret = build;
	return error;
}

void volume_restore_abandon(struct pool_tree *tree, const struct volume_record *volume, struct volume_build *build)
{
	must(build->folder >= 0);
	tree_close(tree, &build->fd);
	tree_close(tree, &build->sums_fd);
	discard_generation(tree, build->folder, volume, volume->generation + 1);
	tree_close(tree, &build->folder);
}

static void close_build(struct pool_tree *tree, struct volume_build *build)
{
	tree_close(tree, &build->fd);
	tree_close(tree, &build->sums_fd);
	tree_close(tree, &build->folder);
}

int volume_restore_commit(struct pool_tree *tree, const struct volume_record *volume, uint64_t size_bytes,
			  struct volume_build *build, bool *is_unknown_ret, struct fathom_fault *why)
{
	const struct pool_fs *fs = tree->fs;
	struct volume_record changed = *volume;
	int error = tree_check_writable(tree, why);
	bool was_failed = error != 0;

	changed.size_bytes = size_bytes;
	changed.generation++;
	if (error == 0)
		error = sync_data(tree, build, why);
	if (error == 0 && (error = fs->sync(fs->ctx, build->folder)))
		error = tree_fault(why, error, "sync the folder of volume", volume->name);
	if (error == 0 && build->deadline_ns && clock_monotonic_ns() > build->deadline_ns)
		error = fault(why, -ETIMEDOUT, "the data of volume %s could not be synced in time: the device is slow",
			      volume->name);
	if (error == 0)
		error = write_record(tree, build->folder, &changed, true, why);
	/* failed after the rename: the next open reads which generation the disk has, so both files stay */
	*is_unknown_ret = error && tree->is_failed && !was_failed;
	if (error && *is_unknown_ret)
		close_build(tree, build);
	else if (error)
		volume_restore_abandon(tree, volume, build);
	return error;
}

void volume_restore_close(struct pool_tree *tree, const struct volume_record *volume, struct volume_build *build)
{
	discard_generation(tree, build->folder, volume, volume->generation);
	close_build(tree, build);
}

int volume_restore_revert(struct pool_tree *tree, const struct volume_record *volume, struct volume_build *build,
			  struct fathom_fault *why)
{
	int error = tree_check_writable(tree, why);

	if (error == 0)
		error = write_record(tree, build->folder, volume, true, why);
	if (error)
		close_build(tree, build); /* both files stay, for the record that the next open reads */
	else
		volume_restore_abandon(tree, volume, build);
	return error;
}
