/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A storage tree on a real file system: a temporary folder, and as root also an XFS image on a loop device, where files can
 * share blocks.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/text.h"
#include "data/store/pool/tree.h"

enum { MIB = 1 << 20 };

static struct pool_fs calls; /* those of the system, with the calls below */
static char root[] = "/tmp/fathom-pool-XXXXXX";

/* ---- what open finds ---- */

struct found {
	struct pool_tree *tree;
	char text[4096];
};

static void add_found(struct found *self, const char *format, ...) PRINTF_LIKE(2, 3);

static void add_found(struct found *self, const char *format, ...)
{
	size_t used = strlen(self->text);
	va_list arguments;

	va_start(arguments, format);
	must(vsnprintf(self->text + used, sizeof(self->text) - used, format, arguments) < (int)(sizeof(self->text) - used));
	va_end(arguments);
}

static void see_pool(void *ctx, const struct pool_record *pool)
{
	add_found(ctx, "pool %s\n", pool->name);
}

static void see_volume(void *ctx, const struct pool_record *pool, const struct volume_record *volume, uint64_t allocated)
{
	add_found(ctx, "volume %s/%s %ld MiB, %s\n", pool->name, volume->name, (long)(volume->size_bytes / MIB),
		  allocated >= volume->size_bytes ? "allocated" : "thin");
}

static void see_snapshot(void *ctx, const struct pool_record *pool, const struct volume_record *volume,
			 const struct snapshot_record *snapshot, uint64_t allocated)
{
	add_found(ctx, "snapshot %s/%s@%s\n", pool->name, volume->name, snapshot->name);
}

static void see_damaged(void *ctx, const char *path, const struct fathom_fault *why)
{
	add_found(ctx, "damaged %s: %s\n", path, why->text);
}

static int open_found(struct found *self, struct fathom_fault *why)
{
	struct pool_tree_visitor visitor = {
		.ctx = self, .pool = see_pool, .volume = see_volume, .snapshot = see_snapshot, .damaged = see_damaged
	};

	*self = (struct found){ .tree = NULL };
	return pool_tree_open(&calls, root, &visitor, &self->tree, why);
}

static void open_or_fail(struct found *self)
{
	struct fathom_fault why;

	if (open_found(self, &why) < 0)
		fail_msg("%s", why.text);
}

/* ---- objects ---- */

static struct pool_record pool_p(void)
{
	return (struct pool_record){ .name = "p", .uuid = { 1 } };
}

static struct volume_record volume_of(const char *name, uint64_t bytes, bool thick)
{
	struct volume_record record = {
		.uuid = { 2 }, .size_bytes = bytes, .block_bytes = 512, .generation = 1, .thick = thick
	};

	must(text_copy(record.name, sizeof(record.name), name) == 0);
	return record;
}

static void make_volume(struct pool_tree *tree, const char *name, bool thick)
{
	struct volume_record record = volume_of(name, 4 * MIB, thick);
	struct fathom_fault why;

	if (volume_create(tree, "p", &record, &why) < 0)
		fail_msg("%s", why.text);
}

static int set_up(void **state)
{
	struct pool_record pool = pool_p();
	struct found found;

	calls = *pool_fs_system();
	open_or_fail(&found);
	assert_int_equal(pool_create(found.tree, &pool, NULL), 0);
	pool_tree_close(found.tree);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s/*", root);
	return system(command);
}

/* ---- tests ---- */

static void test_objects_are_there_after_a_restart(void **state)
{
	struct found found;

	open_or_fail(&found);
	make_volume(found.tree, "thin", false);
	make_volume(found.tree, "thick", true);
	assert_int_equal(volume_rename(found.tree, "p", "thin", "lean", NULL), 0);
	pool_tree_close(found.tree);
	open_or_fail(&found);
	assert_non_null(strstr(found.text, "pool p\n"));
	assert_non_null(strstr(found.text, "volume p/lean 4 MiB, thin\n"));
	assert_non_null(strstr(found.text, "volume p/thick 4 MiB, allocated\n"));
	assert_null(strstr(found.text, "damaged"));
	pool_tree_close(found.tree);
}

static void test_a_second_process_gets_busy(void **state)
{
	struct fathom_fault why;
	struct found first, second;

	open_or_fail(&first);
	assert_int_equal(open_found(&second, &why), -EBUSY);
	assert_non_null(strstr(why.text, "another engine"));
	pool_tree_close(first.tree);
	open_or_fail(&second);
	pool_tree_close(second.tree);
}

static void test_errors_name_what_is_wrong(void **state)
{
	struct volume_record record = volume_of("a", 4 * MIB, false);
	struct fathom_fault why;
	struct found found;

	open_or_fail(&found);
	make_volume(found.tree, "a", false);
	assert_int_equal(volume_create(found.tree, "p", &record, &why), -EEXIST);
	assert_int_equal(volume_create(found.tree, "q", &record, &why), -ENOENT);
	assert_non_null(strstr(why.text, "q"));
	assert_int_equal(volume_rename(found.tree, "p", "a", "../a", &why), -EINVAL);
	assert_int_equal(volume_remove(found.tree, "p", "b", &why), -ENOENT);
	must(text_copy(record.name, sizeof(record.name), ".hidden") == 0);
	assert_int_equal(volume_create(found.tree, "p", &record, &why), -EINVAL);
	pool_tree_close(found.tree);
}

/* Replace a part of the file at `path` below the root. */
static void overwrite(const char *path, off_t offset, const char *text)
{
	char full[256];
	int fd;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	fd = open(full, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, text, strlen(text), offset), strlen(text));
	close(fd);
}

static void test_a_damaged_volume_is_reported_and_others_are_used(void **state)
{
	struct found found;

	open_or_fail(&found);
	make_volume(found.tree, "a", false);
	make_volume(found.tree, "b", false);
	make_volume(found.tree, "c", false);
	pool_tree_close(found.tree);
	overwrite("pools/p/volumes/a/volume.json", 60, "9");
	{
		char full[256];

		snprintf(full, sizeof(full), "%s/pools/p/volumes/b/data.1", root);
		assert_int_equal(truncate(full, MIB), 0);
	}
	open_or_fail(&found);
	assert_non_null(strstr(found.text, "damaged pools/p/volumes/a: "));
	assert_non_null(strstr(found.text, "damaged pools/p/volumes/b: data.1 has 1048576 bytes, its record says 4194304"));
	assert_non_null(strstr(found.text, "volume p/c 4 MiB"));
	assert_null(strstr(found.text, "volume p/a"));
	pool_tree_close(found.tree);
}

static void test_a_removed_volume_stays_usable_until_it_is_closed(void **state)
{
	struct volume_record record = volume_of("a", 4 * MIB, false);
	struct found found;
	char byte = 'x';
	int fd;

	open_or_fail(&found);
	make_volume(found.tree, "a", false);
	assert_int_equal(volume_open_data(found.tree, "p", &record, O_RDWR, &fd, NULL), 0);
	assert_int_equal(volume_remove(found.tree, "p", "a", NULL), 0);
	assert_int_equal(pool_tree_delete_trash(found.tree, NULL), 1);
	assert_int_equal(pool_tree_delete_trash(found.tree, NULL), 0);
	assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
	close(fd);
	pool_tree_close(found.tree);
}

static void test_a_snapshot_shares_blocks_or_is_refused(void **state)
{
	const struct pool_fs *fs = pool_fs_system();
	struct volume_record record = volume_of("a", 4 * MIB, false);
	struct snapshot_member member = { .pool = "p", .volume = "a" };
	struct snapshot_group group = { .members = &member, .count = 1 };
	struct found found;
	char byte = 'x';
	int fd, error;

	member.record = (struct snapshot_record){
		.name = "s", .uuid = { 3 }, .volume = { 2 }, .group = { 4 }, .size_bytes = 4 * MIB, .block_bytes = 512
	};
	open_or_fail(&found);
	make_volume(found.tree, "a", false);
	assert_int_equal(volume_open_data(found.tree, "p", &record, O_RDWR, &fd, NULL), 0);
	assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
	assert_int_equal(snapshot_group_begin(found.tree, &group, NULL), 0);
	error = fs->clone(fs->ctx, member.fd, fd, 0, MIB);
	if (error) {
		assert_int_equal(error, -EOPNOTSUPP);
		snapshot_group_abandon(found.tree, &group);
	} else {
		assert_int_equal(fs->clone(fs->ctx, member.fd, fd, MIB, 3 * MIB), 0);
		assert_int_equal(snapshot_group_commit(found.tree, &group, NULL), 0);
		byte = 'y';
		assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
		close(fd);
		assert_int_equal(snapshot_open_data(found.tree, "p", "a", "s", &fd, NULL), 0);
		assert_int_equal(pread(fd, &byte, 1, 0), 1);
		assert_int_equal(byte, 'x');
	}
	close(fd);
	pool_tree_close(found.tree);
	open_or_fail(&found);
	assert_int_equal(strstr(found.text, "snapshot p/a@s") != NULL, error == 0);
	assert_null(strstr(found.text, "damaged"));
	pool_tree_close(found.tree);
}

/* ---- what cannot be deleted ---- */

static int remove_but_stuck(void *ctx, int folder, const char *name, bool is_folder)
{
	return strcmp(name, "stuck") == 0 ? -EACCES : pool_fs_system()->remove(ctx, folder, name, is_folder);
}

static void make_file(const char *path)
{
	char full[128];
	int fd;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	fd = open(full, O_RDWR | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, full, sizeof(full)), sizeof(full));
	close(fd);
}

static void make_trash(const char *name, const char *file)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/trash/%s", root, name);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "trash/%s/%s", name, file);
	make_file(path);
}

static void an_object_that_cannot_be_deleted_does_not_stop_the_trash(void **state)
{
	struct pool_trash trash;
	struct fathom_fault why;
	struct found found;
	int count[3] = { 0, 0, 0 }, result;

	make_trash("a", "file");
	make_trash("b", "stuck");
	make_trash("c", "file");
	make_file("trash/b/other");
	calls.remove = remove_but_stuck;
	open_or_fail(&found);
	pool_tree_get_trash(found.tree, &trash);
	assert_int_equal(trash.objects, 3);
	assert_true(trash.bytes > 0);
	while ((result = pool_tree_delete_trash(found.tree, &why)) > 0)
		count[result]++;
	assert_int_equal(result, 0);
	assert_int_equal(count[1], 2);
	assert_int_equal(count[2], 1);
	assert_non_null(strstr(why.text, "trash/b"));
	pool_tree_get_trash(found.tree, &trash);
	assert_int_equal(trash.objects, 1);
	assert_int_equal(trash.undeletable, 1);
	pool_tree_close(found.tree);
	calls.remove = pool_fs_system()->remove; /* the next start tries again */
	open_or_fail(&found);
	assert_int_equal(pool_tree_delete_trash(found.tree, &why), 1);
	assert_int_equal(pool_tree_delete_trash(found.tree, &why), 0);
	pool_tree_close(found.tree);
}

static void stray_files_do_not_stop_the_open(void **state)
{
	struct found found;

	make_file("commit/stray");
	make_file("pending/stuck");
	calls.remove = remove_but_stuck;
	open_or_fail(&found);
	assert_non_null(strstr(found.text, "damaged commit/stray: it is not a folder"));
	assert_non_null(strstr(found.text, "damaged pending/stuck: cannot delete it"));
	assert_non_null(strstr(found.text, "pool p\n"));
	pool_tree_close(found.tree);
	open_or_fail(&found); /* it is in the trash now */
	assert_null(strstr(found.text, "pending"));
	pool_tree_close(found.tree);
}

static int failing_sync(void *ctx, int fd)
{
	return -EIO;
}

static void a_growth_that_fails_gives_its_blocks_back(void **state)
{
	struct volume_record volume = volume_of("a", 4 * MIB, true);
	uint64_t before, after;
	struct found found;

	open_or_fail(&found);
	make_volume(found.tree, "a", true);
	assert_int_equal(volume_allocated(found.tree, "p", &volume, &before, NULL), 0);
	calls.sync = failing_sync;
	assert_int_equal(volume_resize(found.tree, "p", &volume, 8 * MIB, NULL), -EIO);
	assert_int_equal(volume_allocated(found.tree, "p", &volume, &after, NULL), 0);
	assert_int_equal(after, before);
	pool_tree_close(found.tree);
}

static void the_end_of_the_data_is_found(void **state)
{
	struct volume_record volume = volume_of("a", 4 * MIB, false);
	struct found found;
	uint64_t end;
	int fd;

	open_or_fail(&found);
	make_volume(found.tree, "a", false);
	assert_int_equal(volume_data_end(found.tree, "p", &volume, 0, &end, NULL), 0);
	assert_int_equal(end, 0);
	assert_int_equal(volume_open_data(found.tree, "p", &volume, O_RDWR, &fd, NULL), 0);
	assert_int_equal(pwrite(fd, "data", 4, MIB), 4);
	assert_int_equal(pwrite(fd, "data", 4, 3 * MIB), 4);
	close(fd);
	assert_int_equal(volume_data_end(found.tree, "p", &volume, 0, &end, NULL), 0);
	assert_in_range(end, 3 * MIB + 4, 3 * MIB + 65536);
	assert_int_equal(volume_data_end(found.tree, "p", &volume, 3 * MIB + 65536, &end, NULL), 0);
	assert_int_equal(end, 3 * MIB + 65536);
	pool_tree_close(found.tree);
}

/* Records of a former release: with checksums they have version 1, and a clone does not say whether it shares blocks. */
static void records_of_a_former_release_are_read(void **state)
{
	static const char sums[] = "{\"checksum\": \"0xe9cb3cb6\", \"volume\": "
				   "{\"block_bytes\":4096,\"checksums\":true,\"created_ns\":5,\"generation"
				   "\":1,\"hosts\":[],\"origin\":null,\"read_only\":false,\"size_bytes\":1048576,\"thick\":"
				   "false,\"uuid\":\"950fc86b-1"
				   "111-4111-8111-111111111111\",\"version\":1}}";
	static const char clone[] = "{\"checksum\": \"0x5fddd636\", \"volume\": "
				    "{\"block_bytes\":4096,\"checksums\":false,\"created_ns\":5,\"generatio"
				    "n\":1,\"hosts\":[],\"origin\":{\"snapshot\":\"950fc86b-1111-4111-8111-111111111113\","
				    "\"volume\":\"950fc86b-1111-"
				    "4111-8111-111111111112\"},\"read_only\":false,\"size_bytes\":1048576,\"thick\":false,"
				    "\"uuid\":\"950fc86b-1111-"
				    "4111-8111-111111111111\",\"version\":1}}";
	struct volume_record record;

	assert_int_equal(volume_record_decode("a", sums, strlen(sums), &record, NULL), 0);
	assert_true(record.checksums);
	assert_false(record.shares);
	volume_record_deinit(&record);
	assert_int_equal(volume_record_decode("a", clone, strlen(clone), &record, NULL), 0);
	assert_true(record.shares);
	assert_false(record.allocating);
	volume_record_deinit(&record);
}

/* So that a program that knows no checksums rejects them. */
static void records_with_checksums_have_version_2(void **state)
{
	struct volume_record record = { .size_bytes = MIB, .block_bytes = 4096, .generation = 1, .uuid = { 1 } }, read;
	struct snapshot_record snapshot = {
		.size_bytes = MIB, .block_bytes = 4096, .uuid = { 1 }, .volume = { 1 }, .group = { 1 }
	};
	size_t bytes;
	char *text;

	for (int with_sums = 0; with_sums < 2; with_sums++) {
		const char *version = with_sums ? "\"version\": 2" : "\"version\": 1";

		record.checksums = snapshot.checksums = with_sums;
		record.thick = record.allocating = record.shares = with_sums;
		assert_int_equal(volume_record_encode(&record, &text, &bytes), 0);
		assert_non_null(memmem(text, bytes, version, strlen(version)));
		assert_int_equal(volume_record_decode("a", text, bytes, &read, NULL), 0);
		assert_int_equal(read.checksums + read.allocating + read.shares, 3 * with_sums);
		volume_record_deinit(&read);
		free(text);
		assert_int_equal(snapshot_record_encode(&snapshot, &text, &bytes), 0);
		assert_non_null(memmem(text, bytes, version, strlen(version)));
		free(text);
	}
}

#define WITH_POOL(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	WITH_POOL(an_object_that_cannot_be_deleted_does_not_stop_the_trash),
	WITH_POOL(stray_files_do_not_stop_the_open),
	WITH_POOL(a_growth_that_fails_gives_its_blocks_back),
	WITH_POOL(the_end_of_the_data_is_found),
	cmocka_unit_test(records_of_a_former_release_are_read),
	cmocka_unit_test(records_with_checksums_have_version_2),
	WITH_POOL(test_objects_are_there_after_a_restart),
	WITH_POOL(test_a_second_process_gets_busy),
	WITH_POOL(test_errors_name_what_is_wrong),
	WITH_POOL(test_a_damaged_volume_is_reported_and_others_are_used),
	WITH_POOL(test_a_removed_volume_stays_usable_until_it_is_closed),
	WITH_POOL(test_a_snapshot_shares_blocks_or_is_refused),
};

/* Mount a new XFS image at `root`. False: this process may not, or there is no mkfs.xfs. */
static bool mount_xfs(void)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "truncate -s 512M %s.img && mkfs.xfs -q -m reflink=1,rmapbt=0 %s.img && mount -o loop %s.img %s "
		 "2>/dev/null",
		 root, root, root, root);
	return geteuid() == 0 && system(command) == 0;
}

int main(void)
{
	char image[64];
	int failed;

	must(mkdtemp(root));
	snprintf(image, sizeof(image), "%s.img", root);
	if (getenv("POOL_ON_XFS")) {
		if (!mount_xfs()) {
			printf("1..0 # SKIP no XFS image can be mounted here\n");
			unlink(image);
			rmdir(root);
			return 0;
		}
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (getenv("POOL_ON_XFS"))
		must(umount(root) == 0);
	unlink(image);
	rmdir(root);
	return failed;
}
