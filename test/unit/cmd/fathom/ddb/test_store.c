/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A storage that the tree of the engine has written is healthy; each damage is found, by its name and path; what has a
 * repair is healthy after it, and the tree reads it. Data that are dumped and loaded are the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "base/text.h"
#include "cmd/fathom/ddb/store.h"
#include "data/store/pool/tree.h"

enum { MIB = 1 << 20, COMMAND_BYTES = 2048 };

static char root[] = "/dev/shm/fathom-ddb-XXXXXX"; /* tmpfs: a sync takes no time */

/* ---- a storage: pools p1 and p2, volumes p1/a (with the snapshot s1), p1/b (thick) and p2/a ---- */

static unsigned int damaged_count;

static void see_pool(void *ctx, const struct pool_record *pool)
{
}

static void see_volume(void *ctx, const struct pool_record *pool, const struct volume_record *volume, uint64_t allocated)
{
}

static void see_snapshot(void *ctx, const struct pool_record *pool, const struct volume_record *volume,
			 const struct snapshot_record *snapshot, uint64_t allocated)
{
}

static void see_damaged(void *ctx, const char *path, const struct fathom_fault *why)
{
	damaged_count++;
}

static struct pool_tree *open_tree(void)
{
	const struct pool_tree_visitor visitor = {
		.pool = see_pool, .volume = see_volume, .snapshot = see_snapshot, .damaged = see_damaged
	};
	struct pool_tree *tree;
	struct fathom_fault why;

	damaged_count = 0;
	assert_int_equal(pool_tree_open(pool_fs_system(), root, &visitor, &tree, &why), 0);
	return tree;
}

static void make_pool(struct pool_tree *tree, const char *name, uint64_t size_bytes)
{
	struct pool_record pool = { .size_bytes = size_bytes, .created_ns = 1 };
	struct fathom_fault why;

	assert_int_equal(text_copy(pool.name, sizeof(pool.name), name), 0);
	uuid_generate(pool.uuid);
	assert_int_equal(pool_create(tree, &pool, &why), 0);
}

static void make_volume(struct pool_tree *tree, const char *pool, const char *name, bool thick, uint8_t *uuid_ret)
{
	struct volume_record volume = {
		.size_bytes = 4 * MIB, .block_bytes = 4096, .generation = 1, .thick = thick, .created_ns = 1
	};
	struct fathom_fault why;

	assert_int_equal(text_copy(volume.name, sizeof(volume.name), name), 0);
	volume.checksums = strcmp(pool, "p2") == 0;
	uuid_generate(volume.uuid);
	memcpy(uuid_ret, volume.uuid, sizeof(volume.uuid));
	assert_int_equal(volume_create(tree, pool, &volume, &why), 0);
}

static void make_snapshot(struct pool_tree *tree, const uint8_t *volume)
{
	struct snapshot_member member = { .pool = "p1", .volume = "a" };
	struct snapshot_group group = { .members = &member, .count = 1 };
	struct fathom_fault why;

	member.record =
		(struct snapshot_record){ .name = "s1", .size_bytes = 4 * MIB, .block_bytes = 4096, .created_ns = 1 };
	uuid_generate(member.record.uuid);
	uuid_generate(member.record.group);
	memcpy(member.record.volume, volume, POOL_UUID_BYTES);
	assert_int_equal(snapshot_group_begin(tree, &group, &why), 0);
	assert_int_equal(snapshot_group_commit(tree, &group, &why), 0);
}

static int in_root(const char *command)
{
	char line[COMMAND_BYTES];

	assert_true(snprintf(line, sizeof(line), "cd %s && (%s)", root, command) < (int)sizeof(line));
	return system(line);
}

static int make_storage(void **state)
{
	uint8_t uuid[POOL_UUID_BYTES], other[POOL_UUID_BYTES];
	struct pool_tree *tree;

	assert_non_null(mkdtemp(root));
	tree = open_tree();
	make_pool(tree, "p1", 0);
	make_pool(tree, "p2", 4 * MIB);
	make_volume(tree, "p1", "a", false, uuid);
	make_volume(tree, "p1", "b", true, other);
	make_volume(tree, "p2", "a", false, other);
	make_snapshot(tree, uuid);
	pool_tree_close(tree);
	return 0;
}

static int remove_storage(void **state)
{
	int status = in_root("rm -rf pools pending commit trash");

	assert_int_equal(status, 0);
	assert_int_equal(rmdir(root), 0);
	memcpy(root + strlen(root) - 6, "XXXXXX", 6);
	return 0;
}

static struct store *open_store(bool write)
{
	struct store *store;
	struct fathom_fault why;

	assert_int_equal(store_open(root, write, &store, &why), 0);
	return store;
}

/* ---- findings ---- */

struct row {
	const char *damage; /* a command in the storage's folder */
	const char *problem, *path;
	const char *text;  /* a part of the text; NULL: any */
	bool is_repaired;  /* a repair makes the storage healthy */
	const char *after; /* a command that succeeds after the repair */
};

#define A "pools/p1/volumes/a/"

static const struct row rows[] = {
	{ "rm " A "volume.json", "record-missing", A "volume.json", NULL, false, NULL },
	{ "echo x > " A "volume.json", "record-damaged", A "volume.json", "not valid JSON", false, NULL },
	{ "truncate -s 100k pools/p1/pool.json", "record-damaged", "pools/p1/pool.json", "File too large", false, NULL },
	{ "sed -i s/4194304/4190208/ " A "volume.json && truncate -s 4190208 " A "data.1", "record-checksum",
	  A "volume.json", "its checksum is", true, "grep -q 4190208 " A "volume.json" },
	{ "sed -i s/4194304/-1/ " A "volume.json", "record-damaged", A "volume.json", "its checksum is", false, NULL },
	{ "rm " A "data.1", "data-missing", A "data.1", "4194304", false, NULL },
	{ "rm " A "data.1 && mkdir " A "data.1", "data-missing", A "data.1", NULL, false, NULL },
	{ "truncate -s 1M " A "data.1", "data-short", A "data.1", "it has 1048576 bytes, its record says 4194304", true,
	  "[ $(stat -c %s " A "data.1) = 4194304 ]" },
	{ "truncate -s 1M " A "snapshots/s1/data", "data-short", A "snapshots/s1/data", NULL, true, NULL },
	{ "truncate -s 9M " A "data.1", "data-long", A "data.1", "it has 9437184 bytes", true,
	  "[ $(stat -c %s " A "data.1) = 4194304 ]" },
	{ "echo x > " A "data.7", "old-generation", A "data.7", "generation 1", true, "[ ! -e " A "data.7 ]" },
	{ "rm pools/p2/volumes/a/sums.1", "checksums-missing", "pools/p2/volumes/a/sums.1", "missing, or too short", true,
	  "[ $(stat -c %s pools/p2/volumes/a/sums.1) = 1114112 ]" },
	{ "truncate -s 1M pools/p2/volumes/a/sums.1", "checksums-missing", "pools/p2/volumes/a/sums.1", NULL, true, NULL },
	{ "echo x > pools/p2/volumes/a/sums.7", "old-generation", "pools/p2/volumes/a/sums.7", "generation 1", true, NULL },
	{ "mv " A "data.1 " A "data.7", "data-missing", A "data.1", NULL, false, "[ -e " A "data.7 ]" },
	{ "rm -r " A "snapshots", "folder-missing", A "snapshots", NULL, true, "[ -d " A "snapshots ]" },
	{ "rm -r pools/p2/volumes", "folder-missing", "pools/p2/volumes", NULL, true, NULL },
	{ "echo x > pools/junk", "stray", "pools/junk", "not a folder", true, "[ ! -e pools/junk ]" },
	{ "mkdir 'pools/p1/volumes/a b'", "stray", "pools/p1/volumes/a b", "must begin with a letter", true, NULL },
	{ "ln -s a pools/p1/volumes/c", "stray", "pools/p1/volumes/c", NULL, true, "[ ! -L pools/p1/volumes/c ]" },
	{ "mkdir -p " A "x/y/z", "stray", A "x", NULL, true, NULL },
	{ "cp -r pools/p1/volumes/a pools/p1/volumes/c", "uuid-twice", "pools/p1/volumes/c", "the UUID of p1/a", false,
	  NULL },
	{ "cp -r " A "snapshots/s1 pools/p1/volumes/b/snapshots/s2", "foreign-snapshot", "pools/p1/volumes/b/snapshots/s2",
	  "another volume than p1/b", false, NULL },
	{ "cp -r pools/p1/volumes/b pools/p2/volumes/", "pool-over-limit", "pools/p2",
	  "8388608 bytes, its limit is 4194304", false, NULL },
	{ "mkdir pending/x", "pending", "pending/x", NULL, true, "[ ! -e pending/x ]" },
	{ "mkdir trash/x", "trash", "trash/x", NULL, true, NULL },
	{ "mkdir -p commit/g && cp -r " A "snapshots/s1 commit/g/p1:b:s9 && rm -r " A "snapshots/s1", "commit",
	  "commit/g/p1:b:s9", "on the way", true, "[ -e commit/g/p1:b:s9 ]" },
	{ "mkdir -p commit/g/p1:c:s9", "commit-left", "commit/g/p1:c:s9", "its volume does not exist", true, NULL },
	{ "mkdir -p commit/g/p1", "commit-left", "commit/g/p1", "POOL:VOLUME:SNAPSHOT", true, NULL },
	{ "mkdir -p commit/g/p1:a:s1", "commit-left", "commit/g/p1:a:s1", "another snapshot", true, NULL },
};

static const struct store_finding *find(const struct store *store, const struct row *row)
{
	for (size_t i = 0; i < store->finding_count; i++) {
		const struct store_finding *finding = &store->findings[i];

		if (strcmp(store_problem_name(finding->problem), row->problem) == 0 &&
		    strcmp(finding->path, row->path) == 0)
			return finding;
	}
	return NULL;
}

static void repair_all(struct store *store)
{
	struct fathom_fault why;

	for (size_t i = 0; i < store->finding_count; i++) {
		if (!store_problem_repair(store->findings[i].problem))
			continue;
		if (store_repair(store, &store->findings[i], &why) != 0)
			fail_msg("%s: %s", store->findings[i].path, why.text);
	}
	store_read(store);
}

/* While a volume grows, its file of checksums ends behind the last one; the next start extends it. */
static void checksums_of_an_interrupted_growth_are_no_damage(void **state)
{
	struct store *store;

	assert_int_equal(in_root("truncate -s $((1048576 + 4096)) pools/p2/volumes/a/sums.1"), 0); /* 4 MiB have 1024 */
	store = open_store(true);
	assert_int_equal(store->finding_count, 0);
	store_close(store);
}

static void check_row(const struct row *row)
{
	const struct store_finding *finding;
	struct store *store;
	void *state = NULL;

	make_storage(&state);
	assert_int_equal(in_root(row->damage), 0);
	store = open_store(true);
	finding = find(store, row);
	if (!finding)
		fail_msg("%s: %s at %s is not found", row->damage, row->problem, row->path);
	if (row->text && !strstr(finding->text, row->text))
		fail_msg("%s: the text is \"%s\"", row->damage, finding->text);
	repair_all(store);
	if ((store_count(store, false) == 0) != row->is_repaired)
		fail_msg("%s: after the repair %zu are damaged", row->damage, store_count(store, false));
	if (row->after && in_root(row->after) != 0)
		fail_msg("%s: after the repair not: %s", row->damage, row->after);
	store_close(store);
	pool_tree_close(open_tree());
	if (row->is_repaired)
		assert_int_equal(damaged_count, 0);
	remove_storage(&state);
}

static void each_damage_is_found_and_repaired_if_it_can_be(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		check_row(&rows[i]);
}

static void a_healthy_storage_has_no_findings_and_is_not_changed(void **state)
{
	struct store *store;

	assert_int_equal(in_root("find . | sort | xargs -d '\\n' stat -c '%n %s %Y %i' > ../fathom-ddb-before"), 0);
	store = open_store(false);
	assert_int_equal(store->finding_count, 0);
	assert_int_equal(store->object_count, 6);
	assert_string_equal(store->objects[2].name, "p1/a/s1");
	assert_int_equal(store_size_of(&store->objects[2]), 4 * MIB);
	assert_int_equal(store->space.promised_bytes, 8 * MIB); /* of both thin volumes */
	assert_true(store->space.allocated_bytes >= 4 * MIB);
	store_close(store);
	assert_int_equal(in_root("find . | sort | xargs -d '\\n' stat -c '%n %s %Y %i' | cmp - ../fathom-ddb-before"), 0);
	assert_int_equal(in_root("rm ../fathom-ddb-before"), 0);
}

static void a_volume_with_a_snapshot_is_promised_its_size_again(void **state)
{
	struct store *store;

	assert_int_equal(in_root("printf x | dd conv=notrunc of=" A "data.1 2>/dev/null"), 0);
	store = open_store(false);
	assert_int_equal(store->space.promised_bytes, 8 * MIB);
	store_close(store);
	assert_int_equal(in_root("rm -r " A "snapshots/s1 && sync " A "data.1"), 0);
	store = open_store(false);
	assert_true(store->space.promised_bytes < 8 * MIB);
	store_close(store);
}

static void names_and_numbers_find_objects(void **state)
{
	struct store *store = open_store(false);
	struct fathom_fault why;

	assert_string_equal(store->objects[store_find(store, "p1/b", &why)].name, "p1/b");
	assert_string_equal(store->objects[store_find(store, "/[0]/[1]/", &why)].name, "p1/b");
	assert_string_equal(store->objects[store_find(store, "[1]/a", &why)].name, "p2/a");
	assert_string_equal(store->objects[store_find(store, "p1/a/[0]", &why)].name, "p1/a/s1");
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(store_find(store, ((const char *[]){ "p3", "[2]", "p1/a/s1/x", "", "/", "[x]" })[i], &why),
				 -ENOENT);
	store_close(store);
}

/* ---- random damage ---- */

enum { DAMAGES = 120, DAMAGES_AT_ONCE = 3 };

static const char *const victims[] = {
	"pools/p1/pool.json",
	"pools/p1/volumes",
	"pools/p1/volumes/b",
	"pools/p2/pool.json",
	"pools/p2",
	A "volume.json",
	A "data.1",
	A "snapshots",
	A "snapshots/s1/snapshot.json",
	A "snapshots/s1/data",
	"pools/p1/volumes/b/volume.json",
	"pools/p2/volumes/a/volume.json",
	"pools/p2/volumes/a/data.1",
};

static void change_byte(struct random *random, const char *path)
{
	char byte = (char)random_next(random);
	int fd = openat(AT_FDCWD, path, O_RDWR);
	off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

	if (end > 0)
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)random_below(random, (uint64_t)end)), 1);
	if (fd >= 0)
		close(fd);
}

static void damage(struct random *random)
{
	const char *victim = victims[random_below(random, ARRAY_COUNT(victims))];
	char path[128], to[128];
	int status = 0;

	snprintf(path, sizeof(path), "%s/%s", root, victim);
	switch (random_below(random, 6)) {
	case 0:
	case 1:
		change_byte(random, path);
		break;
	case 2:
		status = truncate(path, (off_t)random_below(random, 5 * MIB));
		break;
	case 3:
		status = unlink(path);
		break;
	case 4:
		status = mkdir(path, 0700);
		break;
	default:
		snprintf(to, sizeof(to), "%s/%s", root, victims[random_below(random, ARRAY_COUNT(victims))]);
		status = rename(path, to);
	}
	maybe(status != 0);
}

/* What is healthy here is healthy for an engine, before a repair and after it. */
static void the_engine_agrees_about_random_damage(void **state)
{
	struct random random;
	unsigned int healthy = 0;

	random_init(&random, 20261128);
	for (int i = 0; i < DAMAGES; i++) {
		struct store *store;
		void *rig = NULL;
		bool is_healthy;

		make_storage(&rig);
		for (int j = 0; j < DAMAGES_AT_ONCE; j++)
			damage(&random);
		store = open_store(true);
		if (i % 2)
			repair_all(store);
		is_healthy = store_count(store, false) == 0;
		healthy += is_healthy;
		store_close(store);
		pool_tree_close(open_tree());
		if (is_healthy && damaged_count > 0)
			fail_msg("damage %d: the engine finds %u damaged, and verify none", i, damaged_count);
		remove_storage(&rig);
	}
	assert_true(healthy > 0 && healthy < DAMAGES);
}

/* ---- locks ---- */

static void a_storage_in_use_is_read_and_not_written(void **state)
{
	struct pool_tree *tree = open_tree();
	struct store *store;
	struct fathom_fault why;

	assert_int_equal(store_open(root, true, &store, &why), -EBUSY);
	assert_non_null(strstr(why.text, "stop its engine"));
	store = open_store(false);
	assert_true(store->is_in_use);
	assert_int_equal(store_trash(store, "pools/p1", &why), -EROFS);
	pool_tree_close(tree);
	tree = open_tree(); /* a reader holds no lock */
	pool_tree_close(tree);
	store_close(store);
	store = open_store(true);
	assert_int_equal(store_trash(store, "pools/../pools/p1", &why), -EINVAL);
	assert_int_equal(store_trash(store, "pools/p9", &why), -ENOENT);
	assert_int_equal(store_trash(store, "pools/p1", &why), 0);
	store_read(store);
	assert_int_equal(store->object_count, 2);
	store_close(store);
}

static void a_folder_that_is_no_storage_is_rejected(void **state)
{
	struct store *store;
	struct fathom_fault why;

	assert_int_equal(in_root("mv pools away"), 0);
	assert_int_equal(store_open(root, false, &store, &why), -EINVAL);
	assert_non_null(strstr(why.text, "no folder \"pools\""));
	assert_int_equal(in_root("mv away pools"), 0);
	assert_int_equal(store_open("/nowhere", false, &store, &why), -ENOENT);
}

/* ---- records ---- */

static void a_record_is_replaced_only_by_valid_values(void **state)
{
	static const char *const bad[] = { "", "{}", "{\"volume\": 5}", "{\"volume\": {\"size_bytes\": 5}}",
					   "{\"pool\": {}, \"checksum\": \"0x0\"}" };
	struct store *store = open_store(true);
	struct fathom_fault why;
	char *text, *size;
	int index = store_find(store, "p1/a", &why);

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
		assert_int_equal(store_write_record(store, &store->objects[index], bad[i], strlen(bad[i]), &why), -EBADMSG);
	assert_int_equal(store_read_record(store, &store->objects[index], &text, &why), 0);
	size = strstr(text, "4194304");
	assert_non_null(size);
	memcpy(size, "4190208", 7);
	assert_int_equal(store_write_record(store, &store->objects[index], text, strlen(text), &why), 0);
	free(text);
	store_read(store);
	assert_int_equal(store_size_of(&store->objects[index]), 4190208);
	assert_int_equal(store_count(store, false), 0);
	assert_int_equal(store_count(store, true), 1); /* the data file is longer */
	store_close(store);
}

/* ---- data ---- */

static void in_file(char path[64], const char *name)
{
	snprintf(path, 64, "%s/%s", root, name);
}

static void data_are_the_same_after_a_dump_and_a_load(void **state)
{
	struct store *store = open_store(true);
	char out[64], again[64];
	struct store_copy copy, other;
	struct fathom_fault why;
	int index = store_find(store, "p1/a", &why);

	in_file(out, "out");
	in_file(again, "again");
	/* 3 KiB across a block, and one byte at the end; the rest are holes */
	assert_int_equal(in_root("head -c 3000 /dev/urandom | dd conv=notrunc bs=1 seek=1046000 of=" A
				 "data.1 2>/dev/null &&"
				 "printf x | dd conv=notrunc bs=1 seek=4194303 of=" A "data.1 2>/dev/null"),
			 0);
	assert_int_equal(store_dump(store, &store->objects[index], out, &copy, &why), 0);
	assert_int_equal(copy.size_bytes, 4 * MIB);
	assert_true(copy.written_bytes <= 12288);
	assert_int_equal(in_root("cmp out " A "data.1 && [ $(stat -c %b out) -le 128 ]"), 0);
	assert_int_equal(store_dump(store, &store->objects[index], out, &copy, &why), -EEXIST);

	index = store_find(store, "p1/b", &why);
	assert_int_equal(store_load(store, &store->objects[index], out, copy.sha256, &other, &why), 0);
	assert_string_equal(other.sha256, copy.sha256);
	store_read(store);
	assert_int_equal(store->objects[index].record.volume.generation, 2);
	assert_int_equal(store_count(store, false), 0);
	assert_true(store->objects[index].allocated_bytes >= 4 * MIB); /* it is thick */
	assert_int_equal(store_dump(store, &store->objects[index], again, &other, &why), 0);
	assert_string_equal(other.sha256, copy.sha256);
	assert_int_equal(
		in_root("cmp out again && [ $(sha256sum < out | cut -c 1-64) = $(sha256sum < again | cut -c 1-64) ]"), 0);
	assert_int_equal(in_root("rm out again"), 0);
	store_close(store);
}

/* `ctx`: the first range, and the number of ranges. */
static void note_mismatch(void *ctx, uint64_t first_block, uint64_t block_count)
{
	uint64_t *seen = ctx;

	if (seen[2]++ == 0) {
		seen[0] = first_block;
		seen[1] = block_count;
	}
}

#define DD(bytes, to, offset)                                                                                              \
	"printf '" bytes "' | dd bs=1 conv=notrunc status=none of=pools/p2/volumes/a/" to " seek=" offset

static void blocks_that_do_not_match_their_checksums_are_found(void **state)
{
	struct store *store = open_store(false);
	const struct store_object *object = &store->objects[store_find(store, "p2/a", NULL)];
	uint64_t seen[3] = { 0 };
	struct store_sums sums;
	struct fathom_fault why;

	assert_int_equal(store_verify_data(store, object, note_mismatch, seen, &sums, &why), 0);
	assert_int_equal(sums.blocks, 1024);
	assert_int_equal(sums.mismatches + sums.suspect_blocks + seen[2], 0);
	/* in blocks 7 and 8, and in the checksum of block 1023 */
	assert_int_equal(in_root(DD("xxx", "data.1", "32767") " && " DD("x", "sums.1", "1052668")), 0);
	assert_int_equal(store_verify_data(store, object, note_mismatch, seen, &sums, &why), 0);
	assert_int_equal(sums.mismatches, 3);
	assert_int_equal(seen[0], 7);
	assert_int_equal(seen[1], 2);
	assert_int_equal(seen[2], 2);
	assert_int_equal(in_root(DD("\\001", "sums.1", "0")), 0); /* writes of the region were interrupted */
	assert_int_equal(store_verify_data(store, object, note_mismatch, seen, &sums, &why), 0);
	assert_int_equal(sums.blocks + sums.mismatches, 0);
	assert_int_equal(sums.suspect_blocks, 1024);
	store_close(store);
}

static void what_cannot_be_loaded_changes_nothing(void **state)
{
	struct store *store = open_store(true);
	char path[64];
	struct store_copy copy;
	struct fathom_fault why;
	int index = store_find(store, "p1/a", &why);

	in_file(path, "in");
	assert_int_equal(in_root("truncate -s 5M in"), 0);
	assert_int_equal(store_load(store, &store->objects[index], path, NULL, &copy, &why), -EINVAL);
	assert_int_equal(in_root("truncate -s 4M in"), 0);
	assert_int_equal(store_load(store, &store->objects[index], path, "00", &copy, &why), -EBADMSG);
	assert_int_equal(store_load(store, &store->objects[index], "/nowhere", NULL, &copy, &why), -ENOENT);
	assert_int_equal(store_load(store, &store->objects[0], path, NULL, &copy, &why), -EINVAL);
	assert_int_equal(store_load(store, &store->objects[2], path, NULL, &copy, &why), -EINVAL);
	store_read(store);
	assert_int_equal(store->finding_count, 0);
	assert_int_equal(store->objects[index].record.volume.generation, 1);
	assert_int_equal(in_root("rm in"), 0);
	store_close(store);
}

static void a_short_data_file_is_dumped_with_zeroes(void **state)
{
	struct store *store;
	struct store_copy copy;
	struct fathom_fault why;
	char out[64];

	assert_int_equal(in_root("printf x > " A "data.1"), 0);
	store = open_store(false);
	in_file(out, "out");
	assert_int_equal(store_dump(store, &store->objects[store_find(store, "p1/a", &why)], out, &copy, &why), 0);
	assert_int_equal(in_root("[ $(stat -c %s out) = 4194304 ] && [ $(head -c 1 out) = x ] && rm out"), 0);
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_damage_is_found_and_repaired_if_it_can_be),
		cmocka_unit_test(the_engine_agrees_about_random_damage),
		cmocka_unit_test_setup_teardown(checksums_of_an_interrupted_growth_are_no_damage, make_storage,
						remove_storage),
		cmocka_unit_test_setup_teardown(a_healthy_storage_has_no_findings_and_is_not_changed, make_storage,
						remove_storage),
		cmocka_unit_test_setup_teardown(a_volume_with_a_snapshot_is_promised_its_size_again, make_storage,
						remove_storage),
		cmocka_unit_test_setup_teardown(names_and_numbers_find_objects, make_storage, remove_storage),
		cmocka_unit_test_setup_teardown(a_storage_in_use_is_read_and_not_written, make_storage, remove_storage),
		cmocka_unit_test_setup_teardown(a_folder_that_is_no_storage_is_rejected, make_storage, remove_storage),
		cmocka_unit_test_setup_teardown(a_record_is_replaced_only_by_valid_values, make_storage, remove_storage),
		cmocka_unit_test_setup_teardown(data_are_the_same_after_a_dump_and_a_load, make_storage, remove_storage),
		cmocka_unit_test_setup_teardown(what_cannot_be_loaded_changes_nothing, make_storage, remove_storage),
		cmocka_unit_test_setup_teardown(blocks_that_do_not_match_their_checksums_are_found, make_storage,
						remove_storage),
		cmocka_unit_test_setup_teardown(a_short_data_file_is_dumped_with_zeroes, make_storage, remove_storage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
