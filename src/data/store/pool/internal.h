/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pool, internal:
 *
 *	tree.c		open: the folders, what a crash interrupted, what exists
 *	change.c	the steps of which all changes consist: build, sync, rename, sync
 *	trash.c		removed objects, until their files are deleted
 *	pools.c, volumes.c, snapshots.c
 *			the changes
 *	upkeep.c	blocks for a volume that became thick; the mark of a file that shared blocks
 *	changed.c	in what two files differ
 */
#ifndef DATA_STORE_POOL_INTERNAL_H
#define DATA_STORE_POOL_INTERNAL_H

#include "data/store/pool/tree.h"

enum {
	DATA_NAME_BYTES = 16,			     /* "data.2147483647" with the NUL */
	MEMBER_NAME_BYTES = 3 * POOL_NAME_BYTES_MAX, /* "POOL:VOLUME:SNAPSHOT" with the NUL */
	TREE_DEPTH_MAX = 8, /* of what is deleted: pools/POOL/volumes/VOLUME/snapshots/SNAPSHOT/data is 6 */
};

struct pool_tree {
	const struct pool_fs *fs;
	int root, pools, pending, commit, trash; /* folders */
	bool is_failed;
	struct pool_trash trash_now;
	char **aside; /* trash_now.undeletable names: see trash.c */
};

/* ---- change.c ---- */

/* -EROFS with its reason if the tree is failed, else 0. */
MUST_CHECK int tree_check_writable(const struct pool_tree *tree, struct fathom_fault *why);

/* Fill `why` for `error` of `verb` ("sync", "create" ...) on `what`, and return it. */
MUST_CHECK int tree_fault(struct fathom_fault *why, int error, const char *verb, const char *what);

/* A new random name for a folder of pending, commit or trash. */
void tree_new_name(char name_ret[POOL_UUID_TEXT_BYTES]);

/* Create a folder and open it. */
MUST_CHECK int tree_make_folder(struct pool_tree *tree, int folder, const char *name, int *folder_ret,
				struct fathom_fault *why);

/* Create the file `name` with `bytes` of `text`, and sync it. */
MUST_CHECK int tree_write_file(struct pool_tree *tree, int folder, const char *name, const char *text, size_t bytes,
			       struct fathom_fault *why);
/* Replace the file `name` by one with `bytes` of `text`; atomic and durable. */
MUST_CHECK int tree_replace_file(struct pool_tree *tree, int folder, const char *name, const char *text, size_t bytes,
				 struct fathom_fault *why);
/* Read the file `name`, at most POOL_RECORD_BYTES_MAX; `text_ret` is the caller's to free. */
MUST_CHECK int tree_read_file(struct pool_tree *tree, int folder, const char *name, char **text_ret, size_t *bytes_ret,
			      struct fathom_fault *why);

/* Rename, then sync both folders. After a rename that cannot be synced the tree is failed. Errors: -EEXIST, -ENOENT. */
MUST_CHECK int tree_move(struct pool_tree *tree, int from_folder, const char *from, int to_folder, const char *to,
			 struct fathom_fault *why);
/* Sync the folders of a rename that was made; the tree is failed if one cannot be synced. */
MUST_CHECK int tree_sync_renamed(struct pool_tree *tree, int from_folder, int to_folder, struct fathom_fault *why);
/* Delete `name` with all that is in it; not atomic, not durable. -ENOENT is no error. */
MUST_CHECK int tree_delete(struct pool_tree *tree, int folder, const char *name);

/* The same for an object of pending that failed. If it cannot be deleted now, the next open deletes it. */
void tree_discard(struct pool_tree *tree, int folder, const char *name);

/* Close a folder or file if it is not -1, and set it to -1. */
void tree_close(struct pool_tree *tree, int *fd);

/* ---- trash.c ---- */

/* Move `name` to the trash. */
MUST_CHECK int tree_move_to_trash(struct pool_tree *tree, int folder, const char *name, struct fathom_fault *why);
/* Count what is in it, at the open. */
MUST_CHECK int tree_count_trash(struct pool_tree *tree, struct fathom_fault *why);
void tree_forget_aside(struct pool_tree *tree);

/* ---- volumes.c ---- */

/* "data.N", "sums.N" */
void volume_data_name(char name_ret[DATA_NAME_BYTES], uint32_t generation);
void volume_sums_name(char name_ret[DATA_NAME_BYTES], uint32_t generation);
/* Create a file with `bytes`, all of which are holes. */
MUST_CHECK int tree_create_sized(struct pool_tree *tree, int folder, const char *name, uint64_t bytes, int *fd_ret,
				 struct fathom_fault *why);
/* Open pools/POOL/volumes. Errors: -ENOENT. */
MUST_CHECK int tree_open_volumes(struct pool_tree *tree, const char *pool, int *folder_ret, struct fathom_fault *why);
/* Open pools/POOL/volumes/VOLUME. Errors: -ENOENT. */
MUST_CHECK int tree_open_volume(struct pool_tree *tree, const char *pool, const char *volume, int *folder_ret,
				struct fathom_fault *why);

/* ---- snapshots.c ---- */

/* Move the members of commit/`name` that are still there to their volumes, and remove the folder. */
MUST_CHECK int snapshot_group_finish(struct pool_tree *tree, const char *name, const struct pool_tree_visitor *visitor,
				     struct fathom_fault *why);

#endif
