/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trash - removed objects, until their files are deleted.
 *
 * An object that cannot be deleted is put aside: it stays in the trash, and the next open tries again. The sizes are for
 * people: what cannot be read counts as 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "data/store/pool/internal.h"

/* ---- sizes ---- */

struct measurement {
	struct pool_tree *tree;
	int folder, depth;
	uint64_t bytes;
};

static uint64_t measure(struct pool_tree *tree, int folder, const char *name, int depth);

static int measure_entry(void *ctx, const char *name)
{
	struct measurement *self = ctx;

	self->bytes += measure(self->tree, self->folder, name, self->depth);
	return 0;
}

static uint64_t measure_file(struct pool_tree *tree, int folder, const char *name)
{
	const struct pool_fs *fs = tree->fs;
	struct stat stat;
	int error, fd = fs->open_file(fs->ctx, folder, name, O_RDONLY);

	if (fd < 0)
		return 0;
	error = fs->stat(fs->ctx, fd, &stat);
	fs->close(fs->ctx, fd);
	return error ? 0 : (uint64_t)stat.st_blocks * 512;
}

/* What the object occupies, with all that is in it. */
static uint64_t measure(struct pool_tree *tree, int folder, const char *name, int depth)
{
	const struct pool_fs *fs = tree->fs;
	struct measurement inner = { .tree = tree, .depth = depth + 1 };
	int error;

	inner.folder = fs->open_folder(fs->ctx, folder, name);
	if (inner.folder == -ENOTDIR)
		return measure_file(tree, folder, name);
	if (inner.folder < 0)
		return 0;
	error = depth < TREE_DEPTH_MAX ? fs->list(fs->ctx, inner.folder, measure_entry, &inner) : 0;
	maybe(error != 0);
	fs->close(fs->ctx, inner.folder);
	return inner.bytes;
}

static int count_object(void *ctx, const char *name)
{
	struct pool_tree *tree = ctx;

	tree->trash_now.objects++;
	tree->trash_now.bytes += measure(tree, tree->trash, name, 0);
	return 0;
}

int tree_count_trash(struct pool_tree *tree, struct fathom_fault *why)
{
	int error = tree->fs->list(tree->fs->ctx, tree->trash, count_object, tree);

	return error ? tree_fault(why, error, "list", "trash") : 0;
}

void pool_tree_get_trash(const struct pool_tree *tree, struct pool_trash *trash_ret)
{
	*trash_ret = tree->trash_now;
}

/* ---- moving to the trash ---- */

int tree_move_to_trash(struct pool_tree *tree, int folder, const char *name, struct fathom_fault *why)
{
	uint64_t bytes = measure(tree, folder, name, 0);
	char new_name[POOL_UUID_TEXT_BYTES];
	int error;

	must(!tree->is_failed);
	tree_new_name(new_name);
	error = tree->fs->rename(tree->fs->ctx, folder, name, tree->trash, new_name, false);
	if (error)
		return tree_fault(why, error, "remove", name);
	tree->trash_now.objects++;
	tree->trash_now.bytes += bytes;
	return tree_sync_renamed(tree, folder, tree->trash, why);
}

/* ---- deletion ---- */

static bool is_aside(const struct pool_tree *tree, const char *name)
{
	for (uint64_t i = 0; i < tree->trash_now.undeletable; i++) {
		if (strcmp(tree->aside[i], name) == 0)
			return true;
	}
	return false;
}

/* If out of memory: false, and the next call tries the object again. */
static bool put_aside(struct pool_tree *tree, const char *name)
{
	uint64_t count = tree->trash_now.undeletable;
	char **aside = realloc(tree->aside, (count + 1) * sizeof(*aside));

	if (!aside)
		return false;
	tree->aside = aside;
	aside[count] = strdup(name);
	if (!aside[count])
		return false;
	tree->trash_now.undeletable++;
	return true;
}

void tree_forget_aside(struct pool_tree *tree)
{
	for (uint64_t i = 0; i < tree->trash_now.undeletable; i++)
		free(tree->aside[i]);
	free(tree->aside);
}

struct first_name {
	const struct pool_tree *tree;
	char name[NAME_MAX + 1];
	bool is_found;
};

static int take_first(void *ctx, const char *name)
{
	struct first_name *self = ctx;

	if (is_aside(self->tree, name))
		return 0;
	must(text_copy(self->name, sizeof(self->name), name) == 0);
	self->is_found = true;
	return 1;
}

int pool_tree_delete_trash(struct pool_tree *tree, struct fathom_fault *why)
{
	struct first_name first = { .tree = tree, .is_found = false };
	int error = tree->fs->list(tree->fs->ctx, tree->trash, take_first, &first);
	uint64_t bytes;

	if (error < 0)
		return tree_fault(why, error, "list", "trash");
	if (!first.is_found)
		return 0;
	bytes = measure(tree, tree->trash, first.name, 0);
	error = tree_delete(tree, tree->trash, first.name);
	if (error) {
		fill_fault(why, error, "cannot delete trash/%s: %s", first.name, strerror(-error));
		return put_aside(tree, first.name) ? 2 : -ENOMEM;
	}
	tree->trash_now.bytes -= min_u64(bytes, tree->trash_now.bytes);
	tree->trash_now.objects -= tree->trash_now.objects > 0;
	return 1;
}
