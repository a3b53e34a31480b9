/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power cuts at every call of every change of a storage tree, and of every sequence of up to three changes. The tree opens
 * with the state before the change or after it, never with another one; after the change has returned, only with the one
 * after it. Nothing else is left in the storage.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/text.h"
#include "contents.h"

enum { TEXTS_MAX = 32, MET_MAX = 4096 };

enum op {
	CREATE_POOL,
	UPDATE_POOL,
	REMOVE_POOL,
	CREATE_THIN,
	CREATE_THICK,
	ALLOW_HOST,
	RENAME,
	GROW,
	SHRINK,
	REMOVE,
	WRITE,
	SNAPSHOT,
	SNAPSHOT_S,
	SNAPSHOT_GROUP,
	REMOVE_SNAPSHOT,
	CLONE,
	RESTORE,
	DELETE_TRASH,
	OP_COUNT,
};

static const char *op_names[OP_COUNT] = { "create pool", "update pool", "remove pool", "create thin", "create thick",
					  "allow host",	 "rename",	"grow",	       "shrink",      "remove",
					  "write",	 "snapshot t",	"snapshot s",  "group",	      "remove snapshot",
					  "clone",	 "restore",	"delete trash" };

/* ---- changes ---- */

static struct volume_record volume_named(const char *name, bool thick)
{
	struct volume_record record = { .size_bytes = 4 * BLOCK,
					.block_bytes = BLOCK,
					.generation = 1,
					.thick = thick,
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
							      .block_bytes = BLOCK };
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
	}
	if (error == 0)
		return snapshot_group_commit(now->tree, &group, NULL);
	snapshot_group_abandon(now->tree, &group);
	return error;
}

/* Copy snapshot a@s into `fd`, and return its size in `bytes_ret`. */
static int copy_snapshot(struct contents *now, struct memory_fs *memory, int fd)
{
	const struct pool_fs *fs = memory_fs_calls(memory);
	int from, error = snapshot_open_data(now->tree, "p", "a", "s", &from, NULL);

	if (error)
		return error;
	error = fs->clone(fs->ctx, fd, from, 0, 0);
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
	error = copy_snapshot(now, memory, build.fd);
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
	error = copy_snapshot(now, memory, build.fd);
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

static int allow_host(struct contents *now)
{
	struct volume_host host = { .nqn = "nqn.2014-08.org.nvmexpress:uuid:1" };
	const struct volume_record *volume = find_volume(now, "a");
	struct volume_record record;

	if (!volume)
		return -ENOENT;
	record = *volume;
	record.hosts = &host;
	record.host_count = 1;
	return volume_update(now->tree, "p", &record, NULL);
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

/* Make the change on the open tree. Returns what it returned. */
static int change(enum op op, struct contents *now, struct memory_fs *memory)
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
	case ALLOW_HOST:
		return allow_host(now);
	case RENAME:
		return volume_rename(now->tree, "p", "a", "c", NULL);
	case GROW:
		return resize(now, 2);
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
	case DELETE_TRASH:
		return pool_tree_delete_trash(now->tree, NULL) < 0 ? -EIO : 0;
	case OP_COUNT:
		break;
	}
	must(!"a change");
	return 0;
}

/* ---- power cuts ---- */

static uint32_t cuts; /* states that were opened */

/* The different contents that the tree had after a power cut during one change. */
struct outcome {
	char *texts[TEXTS_MAX];
	uint32_t text_count;
	bool is_broken; /* it did not open, or something was left that belongs to no object */
	char broken_text[TEXT_BYTES + 128];
};

static void add_outcome(struct outcome *self, const char *text)
{
	for (uint32_t i = 0; i < self->text_count; i++)
		if (strcmp(self->texts[i], text) == 0)
			return;
	must(self->text_count < TEXTS_MAX);
	self->texts[self->text_count] = strdup(text);
	must(self->texts[self->text_count++]);
}

/* Open what a power cut left. After the trash is emptied, no file may be there that belongs to no object. */
static void open_crashed(void *ctx, struct memory_fs *crashed)
{
	struct outcome *self = ctx;
	struct contents *contents = open_tree(crashed);

	cuts++;
	add_outcome(self, contents->text);
	while (contents->tree && pool_tree_delete_trash(contents->tree, NULL) == 1)
		;
	if (!contents->tree || contents->damaged_count > 0 || memory_fs_nodes(crashed) != contents->node_count) {
		self->is_broken = true;
		snprintf(self->broken_text, sizeof(self->broken_text), "%s(%zu files and folders, %zu belong to objects)\n",
			 contents->text, memory_fs_nodes(crashed), contents->node_count);
	}
	close_tree(contents);
	must(memory_fs_open_count(crashed) == 0);
}

struct point {
	struct memory_fs *memory;
	struct outcome *outcome;
};

static void cut_power(void *ctx)
{
	struct point *self = ctx;

	memory_fs_each_crash(self->memory, open_crashed, self->outcome);
}

static void free_outcome(struct outcome *self)
{
	for (uint32_t i = 0; i < self->text_count; i++)
		free(self->texts[i]);
	free(self);
}

/* Whether the outcome has only these two texts; NULL: not allowed. */
static bool has_only(const struct outcome *self, const char *before, const char *after)
{
	for (uint32_t i = 0; i < self->text_count; i++)
		if ((!before || strcmp(self->texts[i], before) != 0) && strcmp(self->texts[i], after) != 0)
			return false;
	return !self->is_broken;
}

/*
 * Make the change `op` to `memory`, with a power cut before each call and after the last one. Returns NULL if all is right,
 * else a text to free. `skipped_sync`: this sync does nothing (UINT32_MAX: none). `*syncs_ret`: how many there were.
 */
static char *try_change(struct memory_fs *memory, enum op op, uint32_t skipped_sync, uint32_t *syncs_ret)
{
	struct outcome *during = calloc(1, sizeof(*during)), *after_it = calloc(1, sizeof(*after_it));
	struct point point = { .memory = memory, .outcome = during };
	struct contents *now = open_tree(memory), *after;
	char *before, *problem = NULL;
	int error;

	must(during && after_it && now->tree);
	before = strdup(now->text);
	memory_fs_settle(memory); /* open may have made the folders */
	memory_fs_skip_sync(memory, skipped_sync);
	memory_fs_at_each_call(memory, cut_power, &point);
	error = change(op, now, memory);
	memory_fs_at_each_call(memory, NULL, NULL);
	*syncs_ret = memory_fs_syncs(memory);
	memory_fs_skip_sync(memory, UINT32_MAX);
	memory_fs_each_crash(memory, open_crashed, after_it);
	close_tree(now);
	memory_fs_settle(memory);
	after = open_tree(memory);
	must(error == 0 || strcmp(after->text, before) == 0);
	if (!has_only(during, before, after->text) || !has_only(after_it, NULL, after->text)) {
		struct outcome *wrong = has_only(during, before, after->text) ? after_it : during;

		must(asprintf(&problem, "%s %s: before:\n%safter:\n%sbroken:\n%slast:\n%s",
			      wrong == during ? "during" : "after", op_names[op], before, after->text, wrong->broken_text,
			      wrong->text_count ? wrong->texts[wrong->text_count - 1] : "") > 0);
	}
	close_tree(after);
	free(before);
	free_outcome(during);
	free_outcome(after_it);
	return problem;
}

/* ---- tests ---- */

/* A pool with the volumes a (with data and the snapshot s) and b. */
static struct memory_fs *populated(void)
{
	static const enum op ops[] = { CREATE_POOL, CREATE_THIN, CREATE_THICK, WRITE, SNAPSHOT_S, WRITE };
	struct memory_fs *memory = memory_fs_create();

	for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
		struct contents *now = open_tree(memory);

		must(now->tree);
		must(change(ops[i], now, memory) == 0);
		close_tree(now);
		memory_fs_settle(memory);
	}
	return memory;
}

/* A state in which the change `op` is possible. */
static struct memory_fs *prepared(enum op op)
{
	struct memory_fs *memory = op == CREATE_POOL ? memory_fs_create() : populated();
	struct contents *now = open_tree(memory);

	if (op == CREATE_THIN || op == DELETE_TRASH)
		must(change(REMOVE, now, memory) == 0);
	if (op == CREATE_THICK)
		must(volume_remove(now->tree, "p", "b", NULL) == 0);
	if (op == SNAPSHOT_S)
		must(change(REMOVE_SNAPSHOT, now, memory) == 0);
	close_tree(now);
	memory_fs_settle(memory);
	return memory;
}

/* States that were met: of two sequences that lead to the same state only one is continued. */
static struct {
	char *text;
	int depth; /* of the sequences that began there */
} met[MET_MAX];
static uint32_t met_count;

static bool is_met(struct memory_fs *memory, int depth)
{
	struct contents *contents = open_tree(memory);
	char text[TEXT_BYTES + 32];

	must(contents->tree);
	snprintf(text, sizeof(text), "%zu\n%s", memory_fs_nodes(memory), contents->text);
	close_tree(contents);
	for (uint32_t i = 0; i < met_count; i++)
		if (strcmp(met[i].text, text) == 0) {
			bool is_known = met[i].depth >= depth;

			met[i].depth = MAX(met[i].depth, depth);
			return is_known;
		}
	must(met_count < MET_MAX);
	met[met_count].depth = depth;
	met[met_count].text = strdup(text);
	must(met[met_count++].text);
	return false;
}

static void try_sequences(struct memory_fs *from, int depth, uint32_t *changes)
{
	for (enum op op = 0; op < OP_COUNT; op++) {
		struct memory_fs *memory = memory_fs_copy(from);
		uint32_t syncs;
		char *problem = try_change(memory, op, UINT32_MAX, &syncs);

		if (problem)
			fail_msg("%s", problem);
		(*changes)++;
		if (depth > 1 && !is_met(memory, depth - 1))
			try_sequences(memory, depth - 1, changes);
		memory_fs_destroy(memory);
	}
}

static void test_three_changes_survive_power_cuts(void **state)
{
	struct memory_fs *empty = memory_fs_create(), *full = populated();
	uint32_t changes = 0;

	try_sequences(empty, 3, &changes);
	try_sequences(full, 3, &changes);
	print_message("# %u changes, %u states, %u power cuts\n", changes, met_count, cuts);
	assert_true(changes > 100);
	memory_fs_destroy(empty);
	memory_fs_destroy(full);
	while (met_count > 0)
		free(met[--met_count].text);
}

/*
 * Without any one of its syncs each change loses data or keeps its promise too late. Not tried: a single snapshot, which
 * does not need all syncs of a group.
 */
static void test_each_missing_sync_is_found(void **state)
{
	uint32_t planted = 0;

	for (enum op op = 0; op < OP_COUNT; op++) {
		uint32_t syncs = op == SNAPSHOT || op == SNAPSHOT_S ? 0 : 1;

		for (uint32_t skipped = 0; skipped < syncs; skipped++) {
			struct memory_fs *memory = prepared(op);
			char *problem = try_change(memory, op, skipped, &syncs);

			if (!problem && syncs > 0)
				fail_msg("%s: nothing is wrong without sync %u of %u", op_names[op], skipped, syncs);
			planted += problem != NULL;
			free(problem);
			memory_fs_destroy(memory);
		}
	}
	assert_true(planted > 40);
}

/* The contents after the tree is opened again. */
static char *text_after(struct memory_fs *memory)
{
	struct contents *contents = open_tree(memory);
	char *text = strdup(contents->text);

	must(text && contents->tree);
	close_tree(contents);
	return text;
}

/*
 * Call number `index` of the change fails. Without an error the change is complete; with one it is not there, unless the
 * tree has failed. Returns whether there was such a call.
 */
static bool try_failure(struct memory_fs *memory, enum op op, uint32_t index, const char *complete)
{
	char *before = text_after(memory), *after;
	struct contents *now = open_tree(memory);
	bool has_failed, is_tree_failed;
	int error;

	memory_fs_fail_call(memory, index, -EIO);
	error = change(op, now, memory);
	has_failed = memory_fs_has_failed(memory);
	memory_fs_fail_call(memory, UINT32_MAX, 0);
	is_tree_failed = pool_tree_is_failed(now->tree);
	assert_true(!is_tree_failed || pool_create(now->tree, &(struct pool_record){ .name = "q" }, NULL) == -EROFS);
	close_tree(now);
	assert_int_equal(memory_fs_open_count(memory), 0);
	after = text_after(memory);
	if (error == 0 || is_tree_failed)
		assert_string_equal(after, complete); /* without a power cut the rename stays */
	else if (op != WRITE)
		assert_string_equal(after, before);
	free(after);
	free(before);
	return has_failed;
}

static void test_each_failing_call_leaves_the_old_state_or_fails_the_tree(void **state)
{
	uint32_t failures = 0;

	for (enum op op = 0; op < OP_COUNT; op++) {
		struct memory_fs *memory = prepared(op);
		struct contents *now = open_tree(memory);
		char *complete;

		must(change(op, now, memory) == 0);
		close_tree(now);
		complete = text_after(memory);
		memory_fs_destroy(memory);
		for (uint32_t index = 0;; index++) {
			bool has_failed;

			memory = prepared(op);
			has_failed = try_failure(memory, op, index, complete);
			memory_fs_destroy(memory);
			if (!has_failed)
				break;
			failures++;
		}
		free(complete);
	}
	assert_true(failures > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_failing_call_leaves_the_old_state_or_fails_the_tree),
		cmocka_unit_test(test_three_changes_survive_power_cuts),
		cmocka_unit_test(test_each_missing_sync_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
