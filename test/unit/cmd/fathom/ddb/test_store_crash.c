/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power cuts in the changes that `fathom ddb` makes itself. The linker sends its file calls here, which are recorded on a
 * real storage and then made again on a memory_fs, with a power cut at each: the tree of the engine opens with the state
 * before the change or after it, and after the command only with the one after it. Missing and late syncs and late renames
 * are found.
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
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "base/text.h"
#include "cmd/fathom/ddb/store.h"
#include "data/store/pool/tree.h"

#include "../../../data/store/pool/recording.h"
#include "../../../data/store/pool/trial.h"

enum { FDS_MAX = 256, SIZE_BYTES = 4 * BLOCK, COMMAND_BYTES = 1024 };

/* ---- recorded calls ---- */

static struct recording recording;
static bool is_recording;
static struct {
	int handle; /* -1: not of the storage, or only read */
	uint64_t offset;
} files[FDS_MAX];

static int handle_of(int fd)
{
	must(fd < FDS_MAX);
	return is_recording && fd >= 0 ? files[fd].handle : -1;
}

static void begin_recording(int root)
{
	for (int i = 0; i < FDS_MAX; i++)
		files[i].handle = -1;
	files[root].handle = 0;
	recording_begin(&recording);
	is_recording = true;
}

/* `fd` is open now. */
static int note_open(int fd, int folder, const char *name, int flags)
{
	bool is_noted = (flags & (O_DIRECTORY | O_CREAT)) || (flags & O_ACCMODE) != O_RDONLY;

	if (!is_recording || fd < 0)
		return fd;
	must(fd < FDS_MAX);
	files[fd].offset = 0;
	files[fd].handle = -1;
	if (folder >= 0 && is_noted && strcmp(name, ".") != 0)
		files[fd].handle = recording_note_open(&recording, folder, name, flags);
	return fd;
}

int __real_open64(const char *name, int flags, ...);
int __wrap_open64(const char *name, int flags, ...);
int __real_openat64(int at, const char *name, int flags, ...);
int __wrap_openat64(int at, const char *name, int flags, ...);
int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_mkdirat(int at, const char *name, mode_t mode);
int __wrap_mkdirat(int at, const char *name, mode_t mode);
int __real_renameat(int at, const char *name, int to, const char *name_to);
int __wrap_renameat(int at, const char *name, int to, const char *name_to);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);
int __real_ftruncate64(int fd, off64_t bytes);
int __wrap_ftruncate64(int fd, off64_t bytes);
int __real_posix_fallocate64(int fd, off64_t offset, off64_t bytes);
int __wrap_posix_fallocate64(int fd, off64_t offset, off64_t bytes);
int __real_unlinkat(int at, const char *name, int flags);
int __wrap_unlinkat(int at, const char *name, int flags);

int __wrap_open64(const char *name, int flags, ...)
{
	return note_open(__real_open64(name, flags, 0600), -1, name, flags);
}

int __wrap_openat64(int at, const char *name, int flags, ...)
{
	return note_open(__real_openat64(at, name, flags, 0600), handle_of(at), name, flags);
}

/* Only the root is opened in this way. */
int __wrap_fcntl64(int fd, int command, ...)
{
	va_list arguments;
	int argument;

	va_start(arguments, command);
	argument = va_arg(arguments, int);
	va_end(arguments);
	must(!is_recording || command == F_DUPFD_CLOEXEC);
	return note_open(__real_fcntl64(fd, command, argument), handle_of(fd), "", O_DIRECTORY);
}

int __wrap_close(int fd)
{
	if (handle_of(fd) >= 0) {
		recording_note(&recording, RECORDED_CLOSE, files[fd].handle, "", 0);
		files[fd].handle = -1;
	}
	return __real_close(fd);
}

int __wrap_mkdirat(int at, const char *name, mode_t mode)
{
	int result = __real_mkdirat(at, name, mode);

	if (result == 0 && handle_of(at) >= 0)
		recording_note(&recording, RECORDED_MAKE_FOLDER, handle_of(at), name, 0);
	return result;
}

int __wrap_renameat(int at, const char *name, int to, const char *name_to)
{
	int result = __real_renameat(at, name, to, name_to);

	if (result == 0 && is_recording)
		recording_note_rename(&recording, handle_of(at), name, handle_of(to), name_to);
	return result;
}

int __wrap_fsync(int fd)
{
	if (handle_of(fd) >= 0)
		recording_note(&recording, RECORDED_SYNC, handle_of(fd), "", 0);
	return __real_fsync(fd);
}

ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	ssize_t written = __real_write(fd, data, bytes);

	if (handle_of(fd) >= 0 && written > 0) {
		recording_note_write(&recording, handle_of(fd), files[fd].offset, data, (size_t)written);
		files[fd].offset += (uint64_t)written;
	}
	return written;
}

ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
	ssize_t written = __real_pwrite64(fd, data, bytes, offset);

	if (handle_of(fd) >= 0 && written > 0)
		recording_note_write(&recording, handle_of(fd), (uint64_t)offset, data, (size_t)written);
	return written;
}

int __wrap_ftruncate64(int fd, off64_t bytes)
{
	if (handle_of(fd) >= 0)
		recording_note(&recording, RECORDED_SET_SIZE, handle_of(fd), "", (uint64_t)bytes);
	return __real_ftruncate64(fd, bytes);
}

int __wrap_posix_fallocate64(int fd, off64_t offset, off64_t bytes)
{
	if (handle_of(fd) >= 0)
		recording_note(&recording, RECORDED_ALLOCATE, handle_of(fd), "", (uint64_t)(offset + bytes));
	return __real_posix_fallocate64(fd, offset, bytes);
}

/* Only changes that fail remove what they made. */
int __wrap_unlinkat(int at, const char *name, int flags)
{
	must(!is_recording);
	return __real_unlinkat(at, name, flags);
}

/* ---- a storage: pool p, volume p/a with the snapshot s, and p/b, which is thick and has checksums ---- */

static char root[] = "/dev/shm/fathom-ddb-crash-XXXXXX"; /* tmpfs: a sync takes no time */
static char source[sizeof(root) + 8];

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
	must(!"damaged");
}

static void make_volume(struct pool_tree *tree, const char *name, bool has_sums)
{
	struct volume_record volume = { .size_bytes = SIZE_BYTES,
					.block_bytes = BLOCK,
					.generation = 1,
					.thick = has_sums,
					.checksums = has_sums,
					.uuid = { (uint8_t)name[0], 1 },
					.created_ns = 1 };

	must(text_copy(volume.name, sizeof(volume.name), name) == 0);
	must(volume_create(tree, "p", &volume, NULL) == 0);
}

static void make_snapshot(struct pool_tree *tree)
{
	struct snapshot_member member = { .pool = "p", .volume = "a" };
	struct snapshot_group group = { .members = &member, .count = 1 };

	member.record = (struct snapshot_record){ .name = "s",
						  .uuid = { 's', 1 },
						  .group = { 's', 2 },
						  .volume = { 'a', 1 },
						  .size_bytes = SIZE_BYTES,
						  .block_bytes = BLOCK,
						  .created_ns = 1 };
	must(snapshot_group_begin(tree, &group, NULL) == 0);
	must(snapshot_group_commit(tree, &group, NULL) == 0);
}

static void in_root(const char *command)
{
	char line[COMMAND_BYTES];

	must(snprintf(line, sizeof(line), "cd %s && (%s)", root, command) < (int)sizeof(line));
	if (system(line) != 0)
		fail_msg("%s", line);
}

/* The data that `load` takes; they are no part of the storage. */
static void make_source(void)
{
	uint8_t data[SIZE_BYTES];
	int fd;

	snprintf(source, sizeof(source), "%s.load", root);
	fd = open(source, O_RDWR | O_CREAT | O_EXCL, 0600);
	memset(data, 'y', sizeof(data));
	must(fd >= 0 && write(fd, data, sizeof(data)) == sizeof(data) && close(fd) == 0);
}

static void make_storage(void)
{
	const struct pool_tree_visitor visitor = {
		.pool = see_pool, .volume = see_volume, .snapshot = see_snapshot, .damaged = see_damaged
	};
	struct pool_record pool = { .name = "p", .uuid = { 1, 1 }, .created_ns = 1 };
	struct pool_tree *tree;

	must(mkdtemp(root));
	must(pool_tree_open(pool_fs_system(), root, &visitor, &tree, NULL) == 0);
	must(pool_create(tree, &pool, NULL) == 0);
	make_volume(tree, "a", false);
	make_volume(tree, "b", true);
	make_snapshot(tree);
	pool_tree_close(tree);
	in_root("printf xxxx | dd of=pools/p/volumes/a/data.1 conv=notrunc status=none");
	make_source();
}

static void remove_storage(void)
{
	in_root("rm -rf pools pending commit trash");
	must(rmdir(root) == 0 && unlink(source) == 0);
	memcpy(root + strlen(root) - 6, "XXXXXX", 6);
}

/* ---- changes ---- */

#define A "pools/p/volumes/a"
#define B "pools/p/volumes/b"

struct row {
	const char *name;
	int (*change)(struct store *store, const struct row *row);
	const char *path;   /* of what is changed */
	const char *before; /* a command in the storage's folder */
	bool is_unseen;	    /* the engine finds the same before and after: no bug can be found */
	/* for each bug, as bits, the syncs or renames with which it does no harm */
	uint32_t harmless[PLANT_LATE_RENAME + 1];
};

static int remove_path(struct store *store, const struct row *row)
{
	return store_trash(store, row->path, NULL);
}

/* Repair what is found at the path. */
static int repair(struct store *store, const struct row *row)
{
	for (size_t i = 0; i < store->finding_count; i++)
		if (strcmp(store->findings[i].path, row->path) == 0)
			return store_repair(store, &store->findings[i], NULL);
	return -ENOENT;
}

static const struct store_object *find(struct store *store, const char *path)
{
	for (size_t i = 0; i < store->object_count; i++)
		if (strcmp(store->objects[i].path, path) == 0)
			return &store->objects[i];
	must(!"an object");
	return NULL;
}

/* The volume becomes smaller by one block. */
static int load_value(struct store *store, const struct row *row)
{
	const struct store_object *object = find(store, row->path);
	char *text, *size;
	int error = store_read_record(store, object, &text, NULL);

	must(error == 0);
	size = strstr(text, "2048");
	must(size);
	memcpy(size, "1536", 4);
	error = store_write_record(store, object, text, strlen(text), NULL);
	free(text);
	return error;
}

static int load_data(struct store *store, const struct row *row)
{
	struct store_copy copy;

	return store_load(store, find(store, row->path), source, NULL, &copy, NULL);
}

#define ROW(name_, change_, path_, before_, ...)                                                                           \
	{                                                                                                                  \
		.name = name_, .change = change_, .path = path_, .before = before_, __VA_ARGS__                            \
	}

/* If the new folder is lost, the start of an engine makes it again: what it had was to be deleted, or came from it. */
#define NEW_FOLDER .harmless = { [PLANT_MISSING_SYNC] = BIT(0), [PLANT_LATE_SYNC] = BIT(0) }

static const struct row rows[] = {
	ROW("rm of a pool", remove_path, "pools/p", "true"),
	ROW("rm of a volume", remove_path, A, "true"),
	ROW("rm of a snapshot", remove_path, A "/snapshots/s", "true"),
	ROW("rm in a storage without trash", remove_path, A, "rmdir trash", NEW_FOLDER),
	ROW("value_load", load_value, A, "true"),
	ROW("value_load in a storage without pending", load_value, A, "rmdir pending", NEW_FOLDER),
	ROW("repair of a record", repair, A "/volume.json", "sed -i s/2048/1536/ " A "/volume.json"),
	ROW("repair of short data", repair, A "/data.1", "truncate -s 1024 " A "/data.1"),
	ROW("repair of long data", repair, A "/data.1", "truncate -s 4096 " A "/data.1", .is_unseen = true),
	ROW("repair of checksums", repair, B "/sums.1", "rm " B "/sums.1"),
	ROW("repair of a folder", repair, A "/snapshots", "rm -r " A "/snapshots"),
	ROW("repair of a stray folder", repair, "pools/p/volumes/a b", "mkdir 'pools/p/volumes/a b'"),
	ROW("repair of a former generation", repair, A "/data.7", "echo x > " A "/data.7", .is_unseen = true),
	ROW("repair of pending", repair, "pending/x", "mkdir pending/x", .is_unseen = true),
	/*
	 * The new data may be synced after their rename, but before that of the record. If the former ones do not come to
	 * the trash, the start of an engine deletes them.
	 */
	ROW("load", load_data, A, "true",
	    .harmless = { [PLANT_MISSING_SYNC] = BIT(6) | BIT(7),
			  [PLANT_LATE_SYNC] = BIT(0),
			  [PLANT_LATE_RENAME] = BIT(2) }),
	/* Likewise; the folders are synced after both renames of new files, so the syncs after the first are not needed. */
	ROW("load with checksums", load_data, B, "true",
	    .harmless = { [PLANT_MISSING_SYNC] = BIT(1) | BIT(2) | BIT(9) | BIT(10) | BIT(11) | BIT(12),
			  [PLANT_LATE_SYNC] = BIT(0) | BIT(1) | BIT(2) | BIT(3) | BIT(9) | BIT(10),
			  [PLANT_LATE_RENAME] = BIT(0) | BIT(3) | BIT(4) }),
};

/* Record the change. Returns the storage before it. */
static struct memory_fs *record(const struct row *row)
{
	struct memory_fs *memory = memory_fs_create();
	struct fathom_fault why;
	struct store *store;
	int error;

	make_storage();
	in_root(row->before);
	must(store_open(root, true, &store, &why) == 0);
	memory_fs_load(memory, root);
	begin_recording(store->root);
	error = row->change(store, row);
	is_recording = false;
	if (error)
		fail_msg("%s: %d", row->name, error);
	store_close(store);
	remove_storage();
	return memory;
}

static int play(void *ctx, struct contents *now, struct memory_fs *memory)
{
	return recording_play(&recording, memory);
}

/* ---- tests ---- */

static bool is_harmless(void *ctx, enum plant plant, uint32_t index)
{
	const struct row *row = ctx;

	return row->is_unseen || (row->harmless[plant] & BIT(index));
}

static void try_row(const struct row *row, uint32_t found[])
{
	struct memory_fs *before = record(row), *memory = memory_fs_copy(before);
	const struct trial_change change = { .name = row->name, .make = play, .ctx = (void *)row, .is_offline = true };
	struct trial trial = { .may_be_damaged = true };
	char *problem = try_change(&memory, &change, &trial);

	assert_int_equal(trial.error, 0);
	for (enum plant plant = PLANT_MISSING_SYNC; !problem && plant <= PLANT_LATE_RENAME; plant++) {
		trial = (struct trial){ .plant = plant, .may_be_damaged = true };
		problem = try_bugs(before, &change, &trial, is_harmless, &found[plant]);
	}
	recording_end(&recording);
	memory_fs_destroy(before);
	memory_fs_destroy(memory);
	if (problem)
		fail_msg("%s", problem);
}

static void each_change_of_ddb_survives_power_cuts(void **state)
{
	uint32_t found[PLANT_LATE_RENAME + 1] = { 0 };

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		try_row(&rows[i], found);
	print_message("# %u power cuts; bugs found: %u %u %u\n", trial_cuts(), found[PLANT_MISSING_SYNC],
		      found[PLANT_LATE_SYNC], found[PLANT_LATE_RENAME]);
	assert_true(found[PLANT_MISSING_SYNC] > 25);
	assert_true(found[PLANT_LATE_SYNC] > 10);
	assert_true(found[PLANT_LATE_RENAME] > 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_change_of_ddb_survives_power_cuts) };

	return cmocka_run_group_tests_name("ddb store_crash", tests, NULL, NULL);
}
