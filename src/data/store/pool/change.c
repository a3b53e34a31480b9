/* SPDX-License-Identifier: BSD-2-Clause */
/* change - the steps of which all changes of the tree consist: build in pending, sync, rename, sync; deletion. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/text.h"
#include "data/store/pool/internal.h"

int tree_check_writable(const struct pool_tree *tree, struct fathom_fault *why)
{
	if (!tree->is_failed)
		return 0;
	return fault(why, -EROFS,
		     "an earlier change could not be synced, so the state on disk is unknown: restart the engine when the "
		     "device works");
}

int tree_fault(struct fathom_fault *why, int error, const char *verb, const char *what)
{
	must(error < 0);
	return fault(why, error, "cannot %s %s: %s", verb, what, strerror(-error));
}

void tree_new_name(char name_ret[POOL_UUID_TEXT_BYTES])
{
	uuid_t uuid;

	uuid_generate_random(uuid);
	uuid_unparse_lower(uuid, name_ret);
}

void tree_close(struct pool_tree *tree, int *fd)
{
	if (*fd >= 0)
		tree->fs->close(tree->fs->ctx, *fd);
	*fd = -1;
}

int tree_make_folder(struct pool_tree *tree, int folder, const char *name, int *folder_ret, struct fathom_fault *why)
{
	int fd, error = tree->fs->make_folder(tree->fs->ctx, folder, name);

	if (error)
		return tree_fault(why, error, "create", name);
	fd = tree->fs->open_folder(tree->fs->ctx, folder, name);
	if (fd < 0) {
		tree_discard(tree, folder, name);
		return tree_fault(why, fd, "open", name);
	}
	*folder_ret = fd;
	return 0;
}

/* ---- files ---- */

int tree_write_file(struct pool_tree *tree, int folder, const char *name, const char *text, size_t bytes,
		    struct fathom_fault *why)
{
	const struct pool_fs *fs = tree->fs;
	int error, fd;

	must(bytes > 0 && bytes <= POOL_RECORD_BYTES_MAX);
	fd = fs->open_file(fs->ctx, folder, name, O_RDWR | O_CREAT | O_EXCL);
	if (fd < 0)
		return tree_fault(why, fd, "create", name);
	error = fs->write(fs->ctx, fd, text, bytes);
	if (error)
		error = tree_fault(why, error, "write", name);
	else if ((error = fs->sync(fs->ctx, fd)))
		error = tree_fault(why, error, "sync", name);
	fs->close(fs->ctx, fd);
	return error;
}

int tree_read_file(struct pool_tree *tree, int folder, const char *name, char **text_ret, size_t *bytes_ret,
		   struct fathom_fault *why)
{
	const struct pool_fs *fs = tree->fs;
	int bytes, fd = fs->open_file(fs->ctx, folder, name, O_RDONLY);
	char *text;

	if (fd < 0)
		return tree_fault(why, fd, "open", name);
	text = malloc(POOL_RECORD_BYTES_MAX + 1);
	bytes = text ? fs->read(fs->ctx, fd, text, POOL_RECORD_BYTES_MAX + 1) : -ENOMEM;
	fs->close(fs->ctx, fd);
	if (bytes < 0) {
		free(text);
		return tree_fault(why, bytes, "read", name);
	}
	*text_ret = text;
	*bytes_ret = (size_t)bytes; /* a file that is too long fails to decode */
	return 0;
}

/* ---- changes of names ---- */

int tree_sync_renamed(struct pool_tree *tree, int from_folder, int to_folder, struct fathom_fault *why)
{
	int error = tree->fs->sync(tree->fs->ctx, to_folder);

	if (error == 0 && from_folder != to_folder)
		error = tree->fs->sync(tree->fs->ctx, from_folder);
	if (error == 0)
		return 0;
	tree->is_failed = true;
	return tree_fault(why, error, "sync", "a folder after a rename");
}

int tree_move(struct pool_tree *tree, int from_folder, const char *from, int to_folder, const char *to,
	      struct fathom_fault *why)
{
	int error;

	must(!tree->is_failed);
	error = tree->fs->rename(tree->fs->ctx, from_folder, from, to_folder, to, false);
	if (error)
		return tree_fault(why, error, "create", to);
	return tree_sync_renamed(tree, from_folder, to_folder, why);
}

int tree_replace_file(struct pool_tree *tree, int folder, const char *name, const char *text, size_t bytes,
		      struct fathom_fault *why)
{
	char new_name[POOL_UUID_TEXT_BYTES];
	int error;

	must(!tree->is_failed);
	tree_new_name(new_name);
	error = tree_write_file(tree, tree->pending, new_name, text, bytes, why);
	if (error == 0) {
		error = tree->fs->rename(tree->fs->ctx, tree->pending, new_name, folder, name, true);
		if (error == 0)
			return tree_sync_renamed(tree, tree->pending, folder, why);
		error = tree_fault(why, error, "replace", name);
	}
	tree_discard(tree, tree->pending, new_name);
	return error;
}

/* ---- deletion ---- */

struct deletion {
	struct pool_tree *tree;
	int folder, depth;
	unsigned int count;
	int error; /* the first one; the rest is deleted */
};

static int delete_name(struct pool_tree *tree, int folder, const char *name, int depth);

static int delete_entry(void *ctx, const char *name)
{
	struct deletion *self = ctx;
	int error = delete_name(self->tree, self->folder, name, self->depth);

	if (error == 0)
		self->count++;
	else if (self->error == 0)
		self->error = error;
	return 0;
}

/* A folder may skip names while it is read and changed, so it is read until it is empty. */
static int empty_folder(struct pool_tree *tree, int folder, int depth)
{
	struct deletion deletion = { .tree = tree, .folder = folder, .depth = depth };
	int error;

	do {
		deletion.count = 0;
		deletion.error = 0;
		error = tree->fs->list(tree->fs->ctx, folder, delete_entry, &deletion);
	} while (error == 0 && deletion.count > 0);
	return error ? error : deletion.error;
}

static int delete_folder(struct pool_tree *tree, int folder, const char *name, int depth)
{
	int error, fd;

	if (depth >= TREE_DEPTH_MAX)
		return -ELOOP;
	fd = tree->fs->open_folder(tree->fs->ctx, folder, name);
	if (fd < 0)
		return fd;
	error = empty_folder(tree, fd, depth + 1);
	tree->fs->close(tree->fs->ctx, fd);
	return error ? error : tree->fs->remove(tree->fs->ctx, folder, name, true);
}

static int delete_name(struct pool_tree *tree, int folder, const char *name, int depth)
{
	int error = tree->fs->remove(tree->fs->ctx, folder, name, false);

	if (error == -EISDIR || error == -EPERM) /* POSIX and Linux */
		error = delete_folder(tree, folder, name, depth);
	return error == -ENOENT ? 0 : error;
}

int tree_delete(struct pool_tree *tree, int folder, const char *name)
{
	return delete_name(tree, folder, name, 0);
}

void tree_discard(struct pool_tree *tree, int folder, const char *name)
{
	int error = delete_name(tree, folder, name, 0);

	maybe(error != 0);
}
