/* SPDX-License-Identifier: BSD-2-Clause */
/* upkeep - what is done to the files of a volume in the background, in short steps: see tree.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/bits.h"
#include "data/store/pool/internal.h"
#include "data/store/pool/sums.h"

/* ---- blocks for the holes of a thick volume ---- */

int volume_allocate(struct pool_tree *tree, const char *pool, const struct volume_record *volume, uint64_t offset,
		    uint64_t bytes, struct fathom_fault *why)
{
	int fd, error = tree_check_writable(tree, why);

	must(offset < volume->size_bytes && bytes > 0);
	if (error == 0)
		error = volume_open_data(tree, pool, volume, O_RDWR, &fd, why);
	if (error)
		return error;
	error = tree->fs->allocate(tree->fs->ctx, fd, offset, min_u64(bytes, volume->size_bytes - offset));
	tree_close(tree, &fd);
	return error ? tree_fault(why, error, "allocate the blocks of volume", volume->name) : 0;
}

static int sync_files(struct pool_tree *tree, const struct volume_record *volume, int fd, int sums_fd,
		      struct fathom_fault *why)
{
	int error = tree->fs->sync(tree->fs->ctx, fd);

	if (error == 0 && sums_fd >= 0)
		error = tree->fs->sync(tree->fs->ctx, sums_fd);
	return error ? tree_fault(why, error, "sync the files of volume", volume->name) : 0;
}

/* Open the data, and the checksums if there are some; else *sums_fd_ret is -1. */
static int open_files(struct pool_tree *tree, const char *pool, const struct volume_record *volume, int *fd_ret,
		      int *sums_fd_ret, struct fathom_fault *why)
{
	int error = tree_check_writable(tree, why);

	*fd_ret = *sums_fd_ret = -1;
	if (error == 0)
		error = volume_open_data(tree, pool, volume, O_RDWR, fd_ret, why);
	if (error == 0 && volume->checksums)
		error = volume_open_sums(tree, pool, volume, O_RDWR, sums_fd_ret, why);
	if (error)
		tree_close(tree, fd_ret);
	return error;
}

int volume_end_allocation(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
			  struct fathom_fault *why)
{
	struct volume_record allocated = *volume;
	int fd, sums_fd, error = open_files(tree, pool, volume, &fd, &sums_fd, why);

	must(volume->thick && volume->allocating);
	if (error)
		return error;
	if (sums_fd >= 0 && (error = tree->fs->allocate(tree->fs->ctx, sums_fd, 0, sums_file_bytes(volume->size_bytes))))
		error = tree_fault(why, error, "allocate the checksums of volume", volume->name);
	if (error == 0)
		error = sync_files(tree, volume, fd, sums_fd, why);
	tree_close(tree, &fd);
	tree_close(tree, &sums_fd);
	allocated.allocating = false;
	return error ? error : volume_update(tree, pool, &allocated, why);
}

/* ---- the mark of a file that shared blocks ---- */

int volume_find_shared(struct pool_tree *tree, const char *pool, const struct volume_record *volume,
		       struct shared_search *search, struct fathom_fault *why)
{
	struct pool_extent *extents = calloc(SHARED_SEARCH_EXTENTS, sizeof(*extents));
	int fd, count, error = extents ? 0 : tree_fault(why, -ENOMEM, "read the map of volume", volume->name);

	if (error == 0)
		error = volume_open_data(tree, pool, volume, O_RDONLY, &fd, why);
	if (error) {
		free(extents);
		return error;
	}
	count = tree->fs->map(tree->fs->ctx, fd, search->offset, extents, SHARED_SEARCH_EXTENTS);
	tree_close(tree, &fd);
	for (int i = 0; i < count && !search->is_shared; i++) {
		search->is_shared = extents[i].is_shared;
		search->offset = extents[i].offset + extents[i].bytes;
		if (extents[i].is_data && !search->has_data) {
			search->has_data = true;
			search->data_offset = extents[i].offset;
		}
	}
	search->is_complete = count >= 0 && count < SHARED_SEARCH_EXTENTS;
	free(extents);
	return count < 0 ? tree_fault(why, count, "read the map of volume", volume->name) : 0;
}

/* A file system without this call keeps no mark. */
static int unshare_file(struct pool_tree *tree, int fd, uint64_t offset)
{
	int error = tree->fs->unshare(tree->fs->ctx, fd, offset, UNSHARE_BYTES);

	return error == -EOPNOTSUPP ? 0 : error;
}

int volume_unshare(struct pool_tree *tree, const char *pool, const struct volume_record *volume, uint64_t data_offset,
		   struct fathom_fault *why)
{
	struct volume_record unshared = *volume;
	int fd, sums_fd, error = open_files(tree, pool, volume, &fd, &sums_fd, why);

	if (error)
		return error;
	error = unshare_file(tree, fd, data_offset);
	if (error == 0 && sums_fd >= 0)
		error = unshare_file(tree, sums_fd, 0);
	if (error)
		error = tree_fault(why, error, "unshare the blocks of volume", volume->name);
	else
		error = sync_files(tree, volume, fd, sums_fd, why);
	tree_close(tree, &fd);
	tree_close(tree, &sums_fd);
	unshared.shares = false;
	return error ? error : volume_update(tree, pool, &unshared, why);
}
