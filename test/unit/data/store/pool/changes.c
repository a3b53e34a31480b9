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

static int restore_snapshot(struct contents *now, struct memory_fs *memory)
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
	if (error == 0)
		volume_restore_close(now->tree, volume, &build);
	return error;
}

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

int change(enum op op, struct contents *now, struct memory_fs *memory)
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
	case OP_COUNT:
		break;
	}
	must(!"a change");
	return 0;
}
