/* SPDX-License-Identifier: BSD-2-Clause */
/* snapshots - groups of snapshots of one instant, committed as a whole: see tree.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/store/pool/internal.h"
#include "data/store/pool/sums.h"

enum { REFLINK_TRIAL_BYTES = 64 << 10 }; /* the largest block of a file system */

/* The folder of a member in pending and in commit; ":" occurs in no name. */
static void member_name(char name_ret[MEMBER_NAME_BYTES], const struct snapshot_member *member)
{
	must(snprintf(name_ret, MEMBER_NAME_BYTES, "%s:%s:%s", member->pool, member->volume, member->record.name) <
	     MEMBER_NAME_BYTES);
}

/* Open pools/POOL/volumes/VOLUME/snapshots. */
static int open_snapshots(struct pool_tree *tree, const char *pool, const char *volume, int *folder_ret,
			  struct fathom_fault *why)
{
	int snapshots, folder, error = tree_open_volume(tree, pool, volume, &folder, why);

	if (error)
		return error;
	snapshots = tree->fs->open_folder(tree->fs->ctx, folder, "snapshots");
	tree_close(tree, &folder);
	if (snapshots < 0)
		return tree_fault(why, snapshots, "open the snapshots of volume", volume);
	*folder_ret = snapshots;
	return 0;
}

/* ---- begin ---- */

/* Whether the member may be created. */
static int check_member(struct pool_tree *tree, const struct snapshot_member *member, struct fathom_fault *why)
{
	int fd, folder, error = pool_name_check("snapshot", member->record.name, why);

	if (error == 0)
		error = open_snapshots(tree, member->pool, member->volume, &folder, why);
	if (error)
		return error;
	fd = tree->fs->open_folder(tree->fs->ctx, folder, member->record.name);
	tree_close(tree, &folder);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return tree_fault(why, fd, "look up snapshot", member->record.name);
	tree_close(tree, &fd);
	return tree_fault(why, -EEXIST, "create snapshot", member->record.name);
}

static int begin_member(struct pool_tree *tree, int group, struct snapshot_member *member, struct fathom_fault *why)
{
	char name[MEMBER_NAME_BYTES];
	int error = check_member(tree, member, why);

	if (error)
		return error;
	member_name(name, member);
	error = tree_make_folder(tree, group, name, &member->folder, why);
	if (error)
		return error;
	error = tree_create_sized(tree, member->folder, "data", member->record.size_bytes, &member->fd, why);
	if (error == 0 && member->record.checksums)
		error = tree_create_sized(tree, member->folder, "sums", sums_file_bytes(member->record.size_bytes),
					  &member->sums_fd, why);
	return error;
}

int snapshot_group_begin(struct pool_tree *tree, struct snapshot_group *group, struct fathom_fault *why)
{
	int error = tree_check_writable(tree, why);

	must(group->count > 0 && group->count <= SNAPSHOT_GROUP_MAX);
	if (error)
		return error;
	tree_new_name(group->name);
	for (size_t i = 0; i < group->count; i++)
		group->members[i].fd = group->members[i].sums_fd = group->members[i].folder = -1;
	error = tree_make_folder(tree, tree->pending, group->name, &group->folder, why);
	if (error)
		return error;
	for (size_t i = 0; error == 0 && i < group->count; i++)
		error = begin_member(tree, group->folder, &group->members[i], why);
	if (error)
		snapshot_group_abandon(tree, group);
	return error;
}

static void close_group(struct pool_tree *tree, struct snapshot_group *group)
{
	for (size_t i = 0; i < group->count; i++) {
		tree_close(tree, &group->members[i].fd);
		tree_close(tree, &group->members[i].sums_fd);
		tree_close(tree, &group->members[i].folder);
	}
	tree_close(tree, &group->folder);
}

void snapshot_group_abandon(struct pool_tree *tree, struct snapshot_group *group)
{
	close_group(tree, group);
	tree_discard(tree, tree->pending, group->name);
}

/* ---- commit ---- */

static int complete_member(struct pool_tree *tree, struct snapshot_member *member, struct fathom_fault *why)
{
	const struct pool_fs *fs = tree->fs;
	size_t bytes;
	char *text;
	int error = fs->sync(fs->ctx, member->fd);

	if (error == 0 && member->sums_fd >= 0)
		error = fs->sync(fs->ctx, member->sums_fd);
	if (error)
		return tree_fault(why, error, "sync snapshot", member->record.name);
	error = snapshot_record_encode(&member->record, &text, &bytes);
	if (error)
		return tree_fault(why, error, "encode", "snapshot.json");
	error = tree_write_file(tree, member->folder, "snapshot.json", text, bytes, why);
	free(text);
	if (error == 0 && (error = fs->sync(fs->ctx, member->folder)))
		error = tree_fault(why, error, "sync snapshot", member->record.name);
	return error;
}

/*
 * Move one member from the folder of its group to its volume. The new name is durable; the caller syncs `group` before it
 * removes that folder.
 */
static int move_member(struct pool_tree *tree, int group, const char *member, struct fathom_fault *why)
{
	char pool[MEMBER_NAME_BYTES], *volume, *snapshot;
	int snapshots, error;

	if (text_copy(pool, sizeof(pool), member) < 0 || !(volume = strchr(pool, ':')) ||
	    !(snapshot = strchr(volume + 1, ':')))
		return fault(why, -EBADMSG, "\"%s\" in commit is not a name of the form POOL:VOLUME:SNAPSHOT", member);
	*volume++ = '\0';
	*snapshot++ = '\0';
	error = open_snapshots(tree, pool, volume, &snapshots, why);
	if (error)
		return error;
	error = tree->fs->rename(tree->fs->ctx, group, member, snapshots, snapshot, false);
	if (error == 0)
		error = tree->fs->sync(tree->fs->ctx, snapshots);
	tree_close(tree, &snapshots);
	return error ? tree_fault(why, error, "move to its volume the snapshot", member) : 0;
}

/* Sync the folder of a group, of which all members have been moved, and remove it. If it stays, open removes it. */
static int end_group(struct pool_tree *tree, int folder, const char *name, struct fathom_fault *why)
{
	int error = tree->fs->sync(tree->fs->ctx, folder);

	if (error)
		return tree_fault(why, error, "sync", "the folder of a group of snapshots");
	tree_discard(tree, tree->commit, name);
	return 0;
}

int snapshot_group_commit(struct pool_tree *tree, struct snapshot_group *group, struct fathom_fault *why)
{
	char name[MEMBER_NAME_BYTES];
	int error = tree_check_writable(tree, why);

	for (size_t i = 0; error == 0 && i < group->count; i++) {
		error = check_member(tree, &group->members[i], why);
		if (error == 0)
			error = complete_member(tree, &group->members[i], why);
	}
	if (error == 0 && (error = tree->fs->sync(tree->fs->ctx, group->folder)))
		error = tree_fault(why, error, "sync", "the folder of a group of snapshots");
	/* from this rename on all of them exist: after a crash, open moves the rest */
	if (error == 0)
		error = tree_move(tree, tree->pending, group->name, tree->commit, group->name, why);
	if (error) {
		snapshot_group_abandon(tree, group);
		return error;
	}
	for (size_t i = 0; error == 0 && i < group->count; i++) {
		member_name(name, &group->members[i]);
		error = move_member(tree, group->folder, name, why);
	}
	if (error == 0)
		error = end_group(tree, group->folder, group->name, why);
	tree->is_failed = error != 0; /* a part of the group is in its place; the next open moves the rest */
	close_group(tree, group);
	return error;
}

/* ---- what a crash interrupted ---- */

struct finish {
	struct pool_tree *tree;
	const struct pool_tree_visitor *visitor;
	const char *group_name;
	int group;
	unsigned int moved, left;
	struct fathom_fault *why;
};

static int finish_member(void *ctx, const char *name)
{
	struct finish *self = ctx;

	self->moved += move_member(self->tree, self->group, name, self->why) == 0;
	return 0;
}

/* A member that cannot be moved, for example because its volume is damaged: it is reported, and it stays. */
static int report_member(void *ctx, const char *name)
{
	struct finish *self = ctx;
	char path[POOL_PATH_BYTES_MAX];

	if (move_member(self->tree, self->group, name, self->why) == 0)
		return 0;
	self->left++;
	snprintf(path, sizeof(path), "commit/%s/%s", self->group_name, name);
	self->visitor->damaged(self->visitor->ctx, path, self->why);
	return 0;
}

int snapshot_group_finish(struct pool_tree *tree, const char *name, const struct pool_tree_visitor *visitor,
			  struct fathom_fault *why)
{
	struct finish finish = { .tree = tree, .visitor = visitor, .group_name = name, .why = why };
	const struct pool_fs *fs = tree->fs;
	int error;

	finish.group = fs->open_folder(fs->ctx, tree->commit, name);
	if (finish.group == -ENOTDIR || finish.group == -ELOOP) { /* not ours: it stays */
		char path[POOL_PATH_BYTES_MAX];

		fill_fault(why, finish.group, "it is not a folder");
		snprintf(path, sizeof(path), "commit/%s", name);
		visitor->damaged(visitor->ctx, path, why);
		return 0;
	}
	if (finish.group < 0)
		return tree_fault(why, finish.group, "open the group of snapshots", name);
	do { /* a folder may skip names while it is read and changed */
		finish.moved = 0;
		error = fs->list(fs->ctx, finish.group, finish_member, &finish);
	} while (error == 0 && finish.moved > 0);
	if (error == 0)
		error = fs->list(fs->ctx, finish.group, report_member, &finish);
	if (error)
		error = tree_fault(why, error, "list the group of snapshots", name);
	else if (finish.left == 0)
		error = end_group(tree, finish.group, name, why);
	tree_close(tree, &finish.group);
	return error;
}

/* ---- other functions ---- */

int snapshot_remove(struct pool_tree *tree, const char *pool, const char *volume, const char *snapshot,
		    struct fathom_fault *why)
{
	int snapshots, error = tree_check_writable(tree, why);

	if (error == 0)
		error = open_snapshots(tree, pool, volume, &snapshots, why);
	if (error)
		return error;
	error = tree_move_to_trash(tree, snapshots, snapshot, why);
	tree_close(tree, &snapshots);
	return error;
}

struct snapshot_path {
	const char *pool, *volume, *snapshot;
};

static int open_file_of(struct pool_tree *tree, const struct snapshot_path *path, const char *file, int *fd_ret,
			struct fathom_fault *why)
{
	const struct pool_fs *fs = tree->fs;
	int fd, folder, snapshots, error = open_snapshots(tree, path->pool, path->volume, &snapshots, why);

	if (error)
		return error;
	folder = fs->open_folder(fs->ctx, snapshots, path->snapshot);
	tree_close(tree, &snapshots);
	if (folder < 0)
		return tree_fault(why, folder, "open snapshot", path->snapshot);
	fd = fs->open_file(fs->ctx, folder, file, O_RDONLY);
	tree_close(tree, &folder);
	if (fd < 0)
		return tree_fault(why, fd, "open the data of snapshot", path->snapshot);
	*fd_ret = fd;
	return 0;
}

int snapshot_open_data(struct pool_tree *tree, const char *pool, const char *volume, const char *snapshot, int *fd_ret,
		       struct fathom_fault *why)
{
	return open_file_of(tree, &(struct snapshot_path){ pool, volume, snapshot }, "data", fd_ret, why);
}

int snapshot_open_sums(struct pool_tree *tree, const char *pool, const char *volume, const char *snapshot, int *fd_ret,
		       struct fathom_fault *why)
{
	return open_file_of(tree, &(struct snapshot_path){ pool, volume, snapshot }, "sums", fd_ret, why);
}

/* ---- whether the file system has reflinks ---- */

static bool try_clone(struct pool_tree *tree, int folder)
{
	static const uint8_t block[REFLINK_TRIAL_BYTES];
	const struct pool_fs *fs = tree->fs;
	int from = fs->open_file(fs->ctx, folder, "from", O_RDWR | O_CREAT | O_EXCL);
	int to = fs->open_file(fs->ctx, folder, "to", O_RDWR | O_CREAT | O_EXCL);
	bool can = from >= 0 && to >= 0 && fs->write(fs->ctx, from, block, sizeof(block)) == 0 &&
		   fs->set_size(fs->ctx, to, sizeof(block)) == 0 && fs->clone(fs->ctx, to, from, 0, sizeof(block)) == 0;

	tree_close(tree, &from);
	tree_close(tree, &to);
	return can;
}

bool pool_tree_has_reflinks(struct pool_tree *tree)
{
	char name[POOL_UUID_TEXT_BYTES];
	struct fathom_fault why;
	int folder;
	bool can;

	tree_new_name(name);
	if (tree_make_folder(tree, tree->pending, name, &folder, &why))
		return false;
	can = try_clone(tree, folder);
	tree_close(tree, &folder);
	tree_discard(tree, tree->pending, name);
	return can;
}
