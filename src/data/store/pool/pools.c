/* SPDX-License-Identifier: BSD-2-Clause */
/* pools - creates, updates and removes pools: see tree.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "data/store/pool/internal.h"

/* Build the pool's folder in pending: its record, and the folder of its volumes. */
static int fill_pool(struct pool_tree *tree, int folder, const struct pool_record *pool, struct fathom_fault *why)
{
	size_t bytes;
	char *text;
	int error;

	error = pool_record_encode(pool, &text, &bytes);
	if (error)
		return tree_fault(why, error, "encode", "pool.json");
	error = tree_write_file(tree, folder, "pool.json", text, bytes, why);
	free(text);
	if (error)
		return error;
	error = tree->fs->make_folder(tree->fs->ctx, folder, "volumes");
	if (error == 0)
		error = tree->fs->sync(tree->fs->ctx, folder);
	return error ? tree_fault(why, error, "create", "the folder of a pool") : 0;
}

int pool_create(struct pool_tree *tree, const struct pool_record *pool, struct fathom_fault *why)
{
	char name[POOL_UUID_TEXT_BYTES];
	int folder, error = tree_check_writable(tree, why);

	if (error == 0)
		error = pool_name_check("pool", pool->name, why);
	if (error)
		return error;
	tree_new_name(name);
	error = tree_make_folder(tree, tree->pending, name, &folder, why);
	if (error)
		return error;
	error = fill_pool(tree, folder, pool, why);
	tree_close(tree, &folder);
	if (error == 0)
		error = tree_move(tree, tree->pending, name, tree->pools, pool->name, why);
	if (error)
		tree_discard(tree, tree->pending, name);
	return error;
}

int pool_update(struct pool_tree *tree, const struct pool_record *pool, struct fathom_fault *why)
{
	int folder, error = tree_check_writable(tree, why);
	size_t bytes;
	char *text;

	if (error)
		return error;
	folder = tree->fs->open_folder(tree->fs->ctx, tree->pools, pool->name);
	if (folder < 0)
		return tree_fault(why, folder, "open pool", pool->name);
	error = pool_record_encode(pool, &text, &bytes);
	if (error) {
		error = tree_fault(why, error, "encode", "pool.json");
	} else {
		error = tree_replace_file(tree, folder, "pool.json", text, bytes, why);
		free(text);
	}
	tree_close(tree, &folder);
	return error;
}

int pool_remove(struct pool_tree *tree, const char *pool, struct fathom_fault *why)
{
	int error = tree_check_writable(tree, why);

	return error ? error : tree_move_to_trash(tree, tree->pools, pool, why);
}
