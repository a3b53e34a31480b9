/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/pool/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/store/pool/internal.h"
#include "data/store/pool/sums.h"

/* ---- the folders of the root ---- */

static int open_or_make(struct pool_tree *tree, const char *name, bool *made, int *folder_ret, struct fathom_fault *why)
{
	const struct pool_fs *fs = tree->fs;
	int folder = fs->open_folder(fs->ctx, tree->root, name);

	if (folder == -ENOENT) {
		folder = fs->make_folder(fs->ctx, tree->root, name);
		*made = true;
		if (folder == 0)
			folder = fs->open_folder(fs->ctx, tree->root, name);
	}
	if (folder < 0)
		return tree_fault(why, folder, "open the folder", name);
	*folder_ret = folder;
	return 0;
}

static int open_folders(struct pool_tree *tree, struct fathom_fault *why)
{
	bool made = false;
	int error = open_or_make(tree, "pools", &made, &tree->pools, why);

	if (error == 0)
		error = open_or_make(tree, "pending", &made, &tree->pending, why);
	if (error == 0)
		error = open_or_make(tree, "commit", &made, &tree->commit, why);
	if (error == 0)
		error = open_or_make(tree, "trash", &made, &tree->trash, why);
	if (error == 0 && made && (error = tree->fs->sync(tree->fs->ctx, tree->root)))
		error = tree_fault(why, error, "sync", "the root folder");
	return error;
}

static int open_root(struct pool_tree *tree, const char *root, struct fathom_fault *why)
{
	int error;

	tree->root = tree->fs->open_folder(tree->fs->ctx, AT_FDCWD, root);
	if (tree->root < 0)
		return tree_fault(why, tree->root, "open", root);
	error = tree->fs->lock(tree->fs->ctx, tree->root);
	if (error == -EWOULDBLOCK)
		return fault(why, -EBUSY, "another engine uses it");
	return error ? tree_fault(why, error, "lock", root) : 0;
}

/* ---- what a crash interrupted ---- */

struct recovery {
	struct pool_tree *tree;
	const struct pool_tree_visitor *visitor;
	struct fathom_fault *why;
	unsigned int count;
};

static int finish_group(void *ctx, const char *name)
{
	struct recovery *self = ctx;

	return snapshot_group_finish(self->tree, name, self->visitor, self->why);
}

static int delete_pending(void *ctx, const char *name)
{
	struct recovery *self = ctx;
	int error = tree_delete(self->tree, self->tree->pending, name);

	self->count += error == 0;
	return 0;
}

/* What cannot be deleted is moved to the trash, or stays: new objects have other names. */
static int clear_pending(void *ctx, const char *name)
{
	struct recovery *self = ctx;
	char path[POOL_PATH_BYTES_MAX], new_name[POOL_UUID_TEXT_BYTES];
	int error = tree_delete(self->tree, self->tree->pending, name);
	struct fathom_fault why;

	if (error == 0)
		return 0;
	fill_fault(&why, error, "cannot delete it: %s", strerror(-error));
	snprintf(path, sizeof(path), "pending/%.*s", NAME_MAX, name);
	self->visitor->damaged(self->visitor->ctx, path, &why);
	tree_new_name(new_name);
	error = self->tree->fs->rename(self->tree->fs->ctx, self->tree->pending, name, self->tree->trash, new_name, false);
	maybe(error != 0);
	return 0;
}

static int recover(struct pool_tree *tree, const struct pool_tree_visitor *visitor, struct fathom_fault *why)
{
	struct recovery recovery = { .tree = tree, .visitor = visitor, .why = why };
	const struct pool_fs *fs = tree->fs;
	int error = fs->list(fs->ctx, tree->commit, finish_group, &recovery);

	while (error == 0) {
		recovery.count = 0;
		error = fs->list(fs->ctx, tree->pending, delete_pending, &recovery);
		if (recovery.count == 0)
			break;
	}
	if (error == 0)
		error = fs->list(fs->ctx, tree->pending, clear_pending, &recovery);
	return error ? tree_fault(why, error, "read", "pending or commit") : 0;
}

/* ---- what exists ---- */

/* A folder that is being read: its path below the root, for reports, and its records. */
struct scan {
	struct pool_tree *tree;
	const struct pool_tree_visitor *visitor;
	struct fathom_fault *why; /* of errors that end the open */
	const struct pool_record *pool;
	const struct volume_record *volume;
	int folder;
	char path[POOL_PATH_BYTES_MAX];
};

/* A scan of the folder `name` in the one that `outer` reads. False: it cannot be opened, which is reported. */
static bool enter(struct scan *self, const struct scan *outer, const char *name);

static void report(const struct scan *self, const struct fathom_fault *why)
{
	self->visitor->damaged(self->visitor->ctx, self->path, why);
}

static bool enter(struct scan *self, const struct scan *outer, const char *name)
{
	struct fathom_fault why;

	*self = *outer;
	must(snprintf(self->path, sizeof(self->path), "%.*s%s%.*s", POOL_NAME_BYTES_MAX * 4, outer->path,
		      outer->path[0] ? "/" : "", NAME_MAX, name) < (int)sizeof(self->path));
	self->folder = self->tree->fs->open_folder(self->tree->fs->ctx, outer->folder, name);
	if (self->folder >= 0)
		return true;
	fill_fault(&why, self->folder, "cannot open the folder: %s", strerror(-self->folder));
	report(self, &why);
	return false;
}

/* List the folder, and report it if that fails. */
static void scan_names(struct scan *self, pool_fs_entry_fn entry)
{
	struct fathom_fault why;
	int error = self->tree->fs->list(self->tree->fs->ctx, self->folder, entry, self);

	if (error < 0) {
		fill_fault(&why, error, "cannot list the folder: %s", strerror(-error));
		report(self, &why);
	}
}

/* The size of a file: at least `least_bytes`; if `adjust` is set, it gets `bytes`, else it must have them. */
struct wanted_size {
	uint64_t bytes, least_bytes;
	bool adjust;
};

/* The bytes that the file has allocated. One that is too short is -EBADMSG. */
static int check_size(struct scan *self, const char *name, const struct wanted_size *wanted, uint64_t *allocated_ret,
		      struct fathom_fault *why)
{
	const struct pool_fs *fs = self->tree->fs;
	uint64_t least = wanted->adjust ? wanted->least_bytes : wanted->bytes;
	struct stat stat;
	int error, fd = fs->open_file(fs->ctx, self->folder, name, wanted->adjust ? O_RDWR : O_RDONLY);

	if (fd < 0)
		return tree_fault(why, fd, "open", name);
	error = fs->stat(fs->ctx, fd, &stat);
	if (error == 0 && wanted->adjust && (uint64_t)stat.st_size >= least && (uint64_t)stat.st_size != wanted->bytes)
		error = fs->set_size(fs->ctx, fd, wanted->bytes);
	fs->close(fs->ctx, fd);
	if (error)
		return tree_fault(why, error, "read, cut or extend", name);
	if (!S_ISREG(stat.st_mode) || (uint64_t)stat.st_size < least)
		return fault(why, -EBADMSG, "%s has %" PRIu64 " bytes, its record says %" PRIu64, name,
			     (uint64_t)stat.st_size, wanted->bytes);
	*allocated_ret = (uint64_t)stat.st_blocks * 512;
	return 0;
}

/* A file that is longer than `size_bytes` is cut if `cut` is set. */
static int check_data(struct scan *self, const char *name, uint64_t size_bytes, bool cut, uint64_t *allocated_ret,
		      struct fathom_fault *why)
{
	const struct wanted_size wanted = { size_bytes, size_bytes, cut };

	return check_size(self, name, &wanted, allocated_ret, why);
}

/* The same for the file of checksums. While a volume grows, the file ends for a moment behind the last checksum. */
static int check_sums(struct scan *self, const char *name, uint64_t size_bytes, bool cut, struct fathom_fault *why)
{
	const struct wanted_size wanted = { sums_file_bytes(size_bytes), sums_end(size_bytes), cut };
	uint64_t allocated;

	return check_size(self, name, &wanted, &allocated, why);
}

static int read_snapshot(struct scan *self, const char *name, struct snapshot_record *record_ret, uint64_t *allocated_ret,
			 struct fathom_fault *why)
{
	size_t bytes;
	char *text;
	int error = tree_read_file(self->tree, self->folder, "snapshot.json", &text, &bytes, why);

	if (error)
		return error;
	error = snapshot_record_decode(name, text, bytes, record_ret, why);
	free(text);
	if (error == 0 && record_ret->checksums)
		error = check_sums(self, "sums", record_ret->size_bytes, false, why);
	return error ? error : check_data(self, "data", record_ret->size_bytes, false, allocated_ret, why);
}

/* Whether `name` can be the name of an object; others are reported. */
static bool is_name(const struct scan *outer, const char *kind, const char *name)
{
	struct fathom_fault why;

	if (pool_name_check(kind, name, &why) == 0)
		return true;
	report(outer, &why);
	return false;
}

static int scan_snapshot(void *ctx, const char *name)
{
	struct scan *outer = ctx, self;
	struct snapshot_record record;
	struct fathom_fault why;
	uint64_t allocated;

	if (!is_name(outer, "snapshot", name) || !enter(&self, outer, name))
		return 0;
	if (read_snapshot(&self, name, &record, &allocated, &why) < 0)
		report(&self, &why);
	else
		self.visitor->snapshot(self.visitor->ctx, self.pool, self.volume, &record, allocated);
	tree_close(self.tree, &self.folder);
	return 0;
}

/* Delete the files of other generations, which a restore has left. */
static int delete_generation(void *ctx, const char *name)
{
	struct scan *self = ctx;
	char data[DATA_NAME_BYTES], sums[DATA_NAME_BYTES];

	volume_data_name(data, self->volume->generation);
	volume_sums_name(sums, self->volume->generation);
	if ((strncmp(name, "data.", 5) == 0 && strcmp(name, data) != 0) ||
	    (strncmp(name, "sums.", 5) == 0 && strcmp(name, sums) != 0))
		tree_discard(self->tree, self->folder, name);
	return 0;
}

static int read_volume(struct scan *self, const char *name, struct volume_record *record_ret, uint64_t *allocated_ret,
		       struct fathom_fault *why)
{
	char data[DATA_NAME_BYTES], sums[DATA_NAME_BYTES], *text;
	size_t bytes;
	int error = tree_read_file(self->tree, self->folder, "volume.json", &text, &bytes, why);

	if (error)
		return error;
	error = volume_record_decode(name, text, bytes, record_ret, why);
	free(text);
	if (error)
		return error;
	volume_data_name(data, record_ret->generation);
	volume_sums_name(sums, record_ret->generation);
	error = check_data(self, data, record_ret->size_bytes, true, allocated_ret, why);
	if (error == 0 && record_ret->checksums)
		error = check_sums(self, sums, record_ret->size_bytes, true, why);
	if (error)
		volume_record_deinit(record_ret);
	return error;
}

static int scan_volume(void *ctx, const char *name)
{
	struct scan *outer = ctx, self, snapshots;
	struct volume_record record;
	struct fathom_fault why;
	uint64_t allocated;

	if (!is_name(outer, "volume", name) || !enter(&self, outer, name))
		return 0;
	if (read_volume(&self, name, &record, &allocated, &why) < 0) {
		report(&self, &why);
	} else {
		self.volume = &record;
		/* former generations: if they cannot be listed now, the next open deletes them */
		(void)self.tree->fs->list(self.tree->fs->ctx, self.folder, delete_generation, &self);
		self.visitor->volume(self.visitor->ctx, self.pool, &record, allocated);
		if (enter(&snapshots, &self, "snapshots")) {
			scan_names(&snapshots, scan_snapshot);
			tree_close(snapshots.tree, &snapshots.folder);
		}
		volume_record_deinit(&record);
	}
	tree_close(self.tree, &self.folder);
	return 0;
}

static int read_pool(struct scan *self, const char *name, struct pool_record *record_ret, struct fathom_fault *why)
{
	size_t bytes;
	char *text;
	int error = tree_read_file(self->tree, self->folder, "pool.json", &text, &bytes, why);

	if (error)
		return error;
	error = pool_record_decode(name, text, bytes, record_ret, why);
	free(text);
	return error;
}

static int scan_pool(void *ctx, const char *name)
{
	struct scan *outer = ctx, self, volumes;
	struct pool_record record;
	struct fathom_fault why;

	if (!is_name(outer, "pool", name) || !enter(&self, outer, name))
		return 0;
	if (read_pool(&self, name, &record, &why) < 0) {
		report(&self, &why);
	} else {
		self.pool = &record;
		self.visitor->pool(self.visitor->ctx, &record);
		if (enter(&volumes, &self, "volumes")) {
			scan_names(&volumes, scan_volume);
			tree_close(volumes.tree, &volumes.folder);
		}
	}
	tree_close(self.tree, &self.folder);
	return 0;
}

static int scan_pools(struct pool_tree *tree, const struct pool_tree_visitor *visitor, struct fathom_fault *why)
{
	struct scan scan = { .tree = tree, .visitor = visitor, .folder = tree->pools, .path = "pools" };
	int error = tree->fs->list(tree->fs->ctx, tree->pools, scan_pool, &scan);

	return error ? tree_fault(why, error, "list", "pools") : 0;
}

/* ---- open, close ---- */

int pool_tree_open(const struct pool_fs *fs, const char *root, const struct pool_tree_visitor *visitor,
		   struct pool_tree **tree_ret, struct fathom_fault *why)
{
	struct pool_tree *tree = malloc(sizeof(*tree));
	int error;

	must(visitor->pool && visitor->volume && visitor->snapshot && visitor->damaged);
	if (!tree)
		return tree_fault(why, -ENOMEM, "open", root);
	*tree = (struct pool_tree){ .fs = fs, .root = -1, .pools = -1, .pending = -1, .commit = -1, .trash = -1 };
	error = open_root(tree, root, why);
	if (error == 0)
		error = open_folders(tree, why);
	if (error == 0)
		error = recover(tree, visitor, why);
	if (error == 0)
		error = tree_count_trash(tree, why);
	if (error == 0)
		error = scan_pools(tree, visitor, why);
	if (error)
		pool_tree_close(tree);
	else
		*tree_ret = tree;
	return error;
}

void pool_tree_close(struct pool_tree *tree)
{
	if (!tree)
		return;
	tree_close(tree, &tree->trash);
	tree_close(tree, &tree->commit);
	tree_close(tree, &tree->pending);
	tree_close(tree, &tree->pools);
	tree_close(tree, &tree->root);
	tree_forget_aside(tree);
	free(tree);
}

bool pool_tree_is_failed(const struct pool_tree *tree)
{
	return tree->is_failed;
}

int pool_tree_space(struct pool_tree *tree, uint64_t *total_ret, uint64_t *free_ret, struct fathom_fault *why)
{
	int error = tree->fs->space(tree->fs->ctx, tree->root, total_ret, free_ret);

	return error ? tree_fault(why, error, "read the free space of", "the storage") : 0;
}
