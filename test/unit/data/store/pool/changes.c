/* SPDX-License-Identifier: BSD-2-Clause */
#include "changes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/text.h"
#include "data/store/pool/sums.h"

const char *const op_names[OP_COUNT] = {
	[CREATE_POOL] = "create pool",
	[UPDATE_POOL] = "update pool",
	[REMOVE_POOL] = "remove pool",
	[CREATE_THIN] = "create thin",
	[CREATE_THICK] = "create thick",
	[PUBLISH] = "publish",
	[PUBLISH_MORE] = "publish to two",
	[UNPUBLISH] = "unpublish",
	[RENAME] = "rename",
	[GROW] = "grow",
	[SHRINK] = "shrink",
	[REMOVE] = "remove",
	[WRITE] = "write",
	[SNAPSHOT] = "snapshot t",
	[SNAPSHOT_S] = "snapshot s",
	[SNAPSHOT_GROUP] = "group",
	[REMOVE_SNAPSHOT] = "remove snapshot",
	[CLONE] = "clone",
	[RESTORE] = "restore",
	[MAKE_THICK] = "make thick",
	[ALLOCATE] = "allocate",
	[MARK_SHARING] = "mark sharing",
	[UNSHARE] = "unshare",
	[DELETE_TRASH] = "delete trash",
	[REVERT] = "revert",
	[PREPARE_COPY] = "prepare copy",
	[COPY_SNAPSHOT] = "copy snapshot",
	[ACCEPT_COPY] = "accept copy",
	[DISCARD_COPY] = "discard copy",
	[GIVE_AWAY] = "give away",
	[TAKE_BACK] = "take back",
	[ABANDON] = "abandon",
	[TRY_REFLINKS] = "try reflinks",
};

bool changes_with_sums;

static struct volume_record volume_named(const char *name, bool thick)
{
	struct volume_record record = { .size_bytes = 4 * BLOCK,
					.block_bytes = BLOCK,
					.generation = 1,
					.thick = thick,
					.checksums = changes_with_sums && name[0] != 'b',
					.uuid = { (uint8_t)name[0], 1 } };

	must(text_copy(record.name, sizeof(record.name), name) == 0);
	return record;
}

static struct pool_record pool_sized(uint64_t bytes)
{
	return (struct pool_record){ .name = "p", .uuid = { 1, 1 }, .size_bytes = bytes };
}

/* Write block 0 of a volume, as a host with a flush does; its value changes with each write. */
static int write_volume(struct contents *now, struct memory_fs *memory, const struct volume_record *volume)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	uint8_t block[BLOCK];
	int fd, error = volume_open_data(now->tree, "p", volume, O_RDWR, &fd, NULL);

	if (error)
		return error;
	must(fs->read(fs->ctx, fd, block, BLOCK) == BLOCK);
	fs->close(fs->ctx, fd);
	memset(block, block[0] + 1, BLOCK);
	must(volume_open_data(now->tree, "p", volume, O_RDWR, &fd, NULL) == 0);
	error = fs->write(fs->ctx, fd, block, BLOCK);
	if (error == 0)
		error = fs->sync(fs->ctx, fd);
	fs->close(fs->ctx, fd);
	return error;
}

void write_sums(struct contents *now, struct memory_fs *memory)
{
	const struct volume_record *volume = find_volume(now, "a");
	static const uint8_t sums[] = { 0x5a, 0x5a, 0x5a, 0x5a, 0x77, 0x77, 0x77, 0x77 };
	const struct pool_fs *fs = memory_fs_calls(memory);
	int fd;

	must(volume_open_sums(now->tree, "p", volume, O_RDWR, &fd, NULL) == 0);
	memory_fs_write(memory, fd, sums_offset(0), sums, sizeof(sums));
	fs->close(fs->ctx, fd);
}

static int take_snapshots(struct contents *now, struct memory_fs *memory, const char *name, const char *volumes[],
			  size_t count)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	struct snapshot_member members[2] = { { .fd = -1 } };
	struct snapshot_group group = { .members = members, .count = count };
	int error = 0;

	for (size_t i = 0; i < count; i++) {
		const struct volume_record *volume = find_volume(now, volumes[i]);

		if (!volume)
			return -ENOENT;
		members[i] = (struct snapshot_member){ .pool = "p", .volume = volume->name, .fd = -1 };
		members[i].record = (struct snapshot_record){ .uuid = { 7, 1 },
							      .group = { (uint8_t)name[0], 1 },
							      .size_bytes = volume->size_bytes,
							      .block_bytes = BLOCK,
							      .checksums = volume->checksums };
		must(text_copy(members[i].record.name, sizeof(members[i].record.name), name) == 0);
		memcpy(members[i].record.volume, volume->uuid, POOL_UUID_BYTES);
	}
	error = snapshot_group_begin(now->tree, &group, NULL);
	if (error)
		return error;
	for (size_t i = 0; error == 0 && i < count; i++) {
		int fd;

		must(volume_open_data(now->tree, "p", find_volume(now, volumes[i]), O_RDONLY, &fd, NULL) == 0);
		error = fs->clone(fs->ctx, members[i].fd, fd, 0, members[i].record.size_bytes);
		fs->close(fs->ctx, fd);
		if (error || members[i].sums_fd < 0)
			continue;
		must(volume_open_sums(now->tree, "p", find_volume(now, volumes[i]), O_RDONLY, &fd, NULL) == 0);
		error = fs->clone(fs->ctx, members[i].sums_fd, fd, 0, 0);
		fs->close(fs->ctx, fd);
	}
	if (error == 0)
		return snapshot_group_commit(now->tree, &group, NULL);
	snapshot_group_abandon(now->tree, &group);
	return error;
}

/* Copy snapshot a@s into the files of `build`. */
static int copy_snapshot(struct contents *now, struct memory_fs *memory, const struct volume_build *build)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	int from, error = snapshot_open_data(now->tree, "p", "a", "s", &from, NULL);

	if (error)
		return error;
	error = fs->clone(fs->ctx, build->fd, from, 0, 0);
	fs->close(fs->ctx, from);
	if (error || build->sums_fd < 0)
		return error;
	must(snapshot_open_sums(now->tree, "p", "a", "s", &from, NULL) == 0);
	error = fs->clone(fs->ctx, build->sums_fd, from, 0, 0);
	fs->close(fs->ctx, from);
	return error;
}

static int clone_snapshot(struct contents *now, struct memory_fs *memory)
{
	struct volume_record record = volume_named("d", false);
	struct volume_build build;
	int error;

	record.has_origin = true;
	record.origin_volume[0] = record.origin_snapshot[0] = 9;
	error = volume_build_begin(now->tree, &record, &build, NULL);
	if (error)
		return error;
	error = copy_snapshot(now, memory, &build);
	if (error == 0)
		return volume_build_commit(now->tree, "p", &record, &build, NULL);
	volume_build_abandon(now->tree, &build);
	return error;
}

/* Replace volume a by its snapshot s; `begun_ret` has what close and revert need. */
static int commit_restore(struct contents *now, struct memory_fs *memory, struct begun *begun_ret)
{
	const struct volume_record *volume = find_volume(now, "a");
	struct volume_build build;
	uint64_t bytes = 0;
	bool is_unknown;
	int error;

	for (uint32_t i = 0; volume && i < now->object_count; i++)
		if (strcmp(now->objects[i].volume, "a") == 0 && strcmp(now->objects[i].snapshot.name, "s") == 0)
			bytes = now->objects[i].snapshot.size_bytes;
	if (bytes == 0)
		return -ENOENT;
	error = volume_restore_begin(now->tree, "p", volume, bytes, &build, NULL);
	if (error)
		return error;
	error = copy_snapshot(now, memory, &build);
	if (error) {
		volume_restore_abandon(now->tree, volume, &build);
		return error;
	}
	error = volume_restore_commit(now->tree, volume, bytes, &build, &is_unknown, NULL);
	must(is_unknown == (error && pool_tree_is_failed(now->tree)));
	begun_ret->record = *volume; /* its hosts are those of `now` */
	begun_ret->build = build;
	return error;
}

static int restore_snapshot(struct contents *now, struct memory_fs *memory)
{
	struct begun begun;
	int error = commit_restore(now, memory, &begun);

	if (error == 0)
		volume_restore_close(now->tree, &begun.record, &begun.build);
	return error;
}

/* ---- moves between engines ---- */

/* A volume whose record says that it is this part of a move; NULL: there is none. */
static const struct volume_record *find_moving(const struct contents *now, const char *name, enum volume_move move)
{
	const struct volume_record *volume = find_volume(now, name);

	return volume && volume->move == move ? volume : NULL;
}

static int set_move(struct contents *now, enum volume_move from, enum volume_move to)
{
	const struct volume_record *volume = find_moving(now, "a", from);
	struct volume_record record;

	if (!volume)
		return -ENOENT;
	record = *volume;
	record.move = to;
	return volume_update(now->tree, "p", &record, NULL);
}

static int prepare_copy(struct contents *now)
{
	struct volume_record record = volume_named("m", false);

	record.move = VOLUME_MOVE_INCOMING;
	return volume_create(now->tree, "p", &record, NULL);
}

/*
 * Write the next value to all blocks of the copy, and a checksum, as the copy from another engine does. Nothing is synced:
 * the caller closes both files.
 */
static void write_copy(struct contents *now, struct memory_fs *memory, const struct volume_record *volume, int fds_ret[2])
{
	uint8_t blocks[4 * BLOCK];

	must(volume->size_bytes == sizeof(blocks));
	must(volume_open_data(now->tree, "p", volume, O_RDWR, &fds_ret[0], NULL) == 0);
	memory_fs_read(memory, fds_ret[0], 0, blocks, sizeof(blocks));
	memset(blocks, blocks[0] + 1, sizeof(blocks));
	memory_fs_write(memory, fds_ret[0], 0, blocks, sizeof(blocks));
	fds_ret[1] = -1;
	if (!volume->checksums)
		return;
	must(volume_open_sums(now->tree, "p", volume, O_RDWR, &fds_ret[1], NULL) == 0);
	memory_fs_write(memory, fds_ret[1], sums_offset(0), blocks, sizeof(uint32_t));
}

static void close_copy(struct memory_fs *memory, const int fds[2])
{
	const struct pool_fs *fs = memory_fs_calls(memory);

	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			fs->close(fs->ctx, fds[i]);
}

/* The snapshot of a copy: it is smaller than the volume, whose blocks are cloned, and is cut to its size. */
static int clone_copy(struct memory_fs *memory, const int from[2], struct snapshot_member *member)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	int error = from[1] >= 0 ? fs->clone(fs->ctx, member->sums_fd, from[1], 0, 0) : 0;

	if (error == 0)
		error = fs->clone(fs->ctx, member->fd, from[0], 0, 4 * BLOCK);
	return error ? error : fs->set_size(fs->ctx, member->fd, member->record.size_bytes);
}

static int take_copied_snapshot(struct contents *now, struct memory_fs *memory)
{
	const struct volume_record *volume = find_moving(now, "m", VOLUME_MOVE_INCOMING);
	struct snapshot_member member = { .pool = "p", .volume = "m" };
	struct snapshot_group group = { .members = &member, .count = 1 };
	int fds[2], error;

	if (!volume)
		return -ENOENT;
	member.record = (struct snapshot_record){ .name = "i",
						  .uuid = { 7, 1 },
						  .group = { 'i', 1 },
						  .size_bytes = 3 * BLOCK,
						  .block_bytes = BLOCK,
						  .checksums = volume->checksums };
	memcpy(member.record.volume, volume->uuid, POOL_UUID_BYTES);
	error = snapshot_group_begin(now->tree, &group, NULL);
	if (error)
		return error;
	write_copy(now, memory, volume, fds);
	error = clone_copy(memory, fds, &member);
	close_copy(memory, fds);
	if (error == 0)
		return snapshot_group_commit(now->tree, &group, NULL);
	snapshot_group_abandon(now->tree, &group);
	return error;
}

/* The last data come, and are synced; then the copy becomes the volume, with its hosts. */
static int accept_copy(struct contents *now, struct memory_fs *memory)
{
	const struct volume_record *volume = find_moving(now, "m", VOLUME_MOVE_INCOMING);
	struct volume_host host = { .nqn = "nqn.2014-08.org.nvmexpress:uuid:1" };
	const struct pool_fs *fs = memory_fs_calls(memory);
	struct volume_record record;
	int fds[2], error;

	if (!volume)
		return -ENOENT;
	record = *volume;
	record.move = VOLUME_MOVE_NONE;
	record.hosts = &host;
	record.host_count = 1;
	write_copy(now, memory, volume, fds);
	error = fs->sync(fs->ctx, fds[0]);
	if (error == 0 && fds[1] >= 0)
		error = fs->sync(fs->ctx, fds[1]);
	close_copy(memory, fds);
	return error ? error : volume_update(now->tree, "p", &record, NULL);
}

/* ---- what changes no object ---- */

static int abandon_snapshot(struct contents *now, const struct volume_record *volume)
{
	struct snapshot_member member = { .pool = "p", .volume = "a" };
	struct snapshot_group group = { .members = &member, .count = 1 };
	int error;

	member.record = (struct snapshot_record){ .name = "u", .size_bytes = BLOCK, .checksums = volume->checksums };
	error = snapshot_group_begin(now->tree, &group, NULL);
	if (error == 0)
		snapshot_group_abandon(now->tree, &group);
	return error;
}

static int abandon_all(struct contents *now)
{
	const struct volume_record clone = volume_named("d", false), *volume = find_volume(now, "a");
	struct volume_build build;
	int error = volume ? abandon_snapshot(now, volume) : -ENOENT;

	if (error == 0)
		error = volume_build_begin(now->tree, &clone, &build, NULL);
	if (error)
		return error;
	volume_build_abandon(now->tree, &build);
	error = volume_restore_begin(now->tree, "p", volume, BLOCK, &build, NULL);
	if (error == 0)
		volume_restore_abandon(now->tree, volume, &build);
	return error;
}

static int make_other(enum op op, struct contents *now, struct memory_fs *memory)
{
	switch (op) {
	case PREPARE_COPY:
		return prepare_copy(now);
	case COPY_SNAPSHOT:
		return take_copied_snapshot(now, memory);
	case ACCEPT_COPY:
		return accept_copy(now, memory);
	case DISCARD_COPY:
		return find_moving(now, "m", VOLUME_MOVE_INCOMING) ? volume_remove(now->tree, "p", "m", NULL) : -ENOENT;
	case GIVE_AWAY:
		return set_move(now, VOLUME_MOVE_NONE, VOLUME_MOVE_OUTGOING);
	case TAKE_BACK:
		return set_move(now, VOLUME_MOVE_OUTGOING, VOLUME_MOVE_NONE);
	case ABANDON:
		return abandon_all(now);
	case TRY_REFLINKS:
		return pool_tree_has_reflinks(now->tree) ? 0 : -EOPNOTSUPP;
	default:
		break;
	}
	must(!"a change");
	return 0;
}

/* ---- properties ---- */

/* The first `count` hosts may use volume a. */
static int set_hosts(struct contents *now, uint32_t count)
{
	struct volume_host hosts[] = { { .nqn = "nqn.2014-08.org.nvmexpress:uuid:1" },
				       { .nqn = "nqn.2014-08.org.nvmexpress:uuid:2" } };
	const struct volume_record *volume = find_volume(now, "a");
	struct volume_record record;

	if (!volume)
		return -ENOENT;
	record = *volume;
	record.hosts = hosts;
	record.host_count = count;
	return volume_update(now->tree, "p", &record, NULL);
}

/* Volume a becomes thick, or its record says that it shares blocks; each is the first half of what upkeep ends. */
static int update_upkeep(struct contents *now, bool thick, bool shares)
{
	const struct volume_record *volume = find_volume(now, "a");
	struct volume_record record;

	if (!volume)
		return -ENOENT;
	record = *volume;
	record.thick = record.allocating = thick || record.thick;
	record.shares = shares || record.shares;
	return volume_update(now->tree, "p", &record, NULL);
}

static int allocate_volume(struct contents *now)
{
	const struct volume_record *volume = find_volume(now, "a");
	int error = 0;

	if (!volume || !volume->allocating)
		return -ENOENT;
	for (uint64_t offset = 0; error == 0 && offset < volume->size_bytes; offset += 2 * BLOCK)
		error = volume_allocate(now->tree, "p", volume, offset, 2 * BLOCK, NULL);
	return error ? error : volume_end_allocation(now->tree, "p", volume, NULL);
}

static int unshare_volume(struct contents *now)
{
	const struct volume_record *volume = find_volume(now, "a");
	struct shared_search search = { 0 };
	int error;

	if (!volume || !volume->shares)
		return -ENOENT;
	error = volume_find_shared(now->tree, "p", volume, &search, NULL);
	if (error)
		return error;
	must(search.is_complete && search.has_data && !search.is_shared);
	return volume_unshare(now->tree, "p", volume, search.data_offset, NULL);
}

static int resize(struct contents *now, int64_t blocks)
{
	const struct volume_record *volume = find_volume(now, "a");
	uint64_t size_bytes;

	if (!volume)
		return -ENOENT;
	size_bytes = volume->size_bytes + (uint64_t)(blocks * BLOCK);
	if (size_bytes == 0 || size_bytes > BLOCKS_MAX * BLOCK)
		return -ERANGE;
	return volume_resize(now->tree, "p", volume, size_bytes, NULL);
}

static int create_volume(struct contents *now, const char *name, bool thick)
{
	struct volume_record record = volume_named(name, thick);

	return volume_create(now->tree, "p", &record, NULL);
}

int begin_change(enum op op, struct contents *now, struct memory_fs *memory, struct begun *begun_ret)
{
	return op == REVERT ? commit_restore(now, memory, begun_ret) : 0;
}

int make_change(enum op op, struct contents *now, struct memory_fs *memory, struct begun *begun)
{
	struct pool_record pool = pool_sized(op == CREATE_POOL ? 1 << 20 : 2 << 20);

	switch (op) {
	case CREATE_POOL:
		return pool_create(now->tree, &pool, NULL);
	case UPDATE_POOL:
		return pool_update(now->tree, &pool, NULL);
	case REMOVE_POOL:
		return pool_remove(now->tree, "p", NULL);
	case CREATE_THIN:
		return create_volume(now, "a", false);
	case CREATE_THICK:
		return create_volume(now, "b", true);
	case PUBLISH:
		return set_hosts(now, 1);
	case PUBLISH_MORE:
		return set_hosts(now, 2);
	case UNPUBLISH:
		return set_hosts(now, 0);
	case RENAME:
		return volume_rename(now->tree, "p", "a", "c", NULL);
	case GROW:
		return resize(now, changes_with_sums ? 6 : 2); /* one checksum is for 8 blocks */
	case SHRINK:
		return resize(now, -2);
	case REMOVE:
		return volume_remove(now->tree, "p", "a", NULL);
	case WRITE:
		return find_volume(now, "a") ? write_volume(now, memory, find_volume(now, "a")) : -ENOENT;
	case SNAPSHOT:
		return take_snapshots(now, memory, "t", (const char *[]){ "a" }, 1);
	case SNAPSHOT_S:
		return take_snapshots(now, memory, "s", (const char *[]){ "a" }, 1);
	case SNAPSHOT_GROUP:
		return take_snapshots(now, memory, "g", (const char *[]){ "a", "b" }, 2);
	case REMOVE_SNAPSHOT:
		return snapshot_remove(now->tree, "p", "a", "s", NULL);
	case CLONE:
		return clone_snapshot(now, memory);
	case RESTORE:
		return restore_snapshot(now, memory);
	case MAKE_THICK:
		return update_upkeep(now, true, false);
	case ALLOCATE:
		return allocate_volume(now);
	case MARK_SHARING:
		return update_upkeep(now, false, true);
	case UNSHARE:
		return unshare_volume(now);
	case DELETE_TRASH:
		return pool_tree_delete_trash(now->tree, NULL) < 0 ? -EIO : 0;
	case REVERT:
		return volume_restore_revert(now->tree, &begun->record, &begun->build, NULL);
	default:
		return make_other(op, now, memory);
	}
}

int change(enum op op, struct contents *now, struct memory_fs *memory)
{
	struct begun begun;
	int error = begin_change(op, now, memory, &begun);

	return error ? error : make_change(op, now, memory, &begun);
}
