/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The database when the n-th call fails: each open, write, sync and truncate of SQLite, each of its allocations, and each
 * call of our own code for copies. Acknowledged commits must survive. A copy, or a restored database, must be the old one
 * or the new one, complete. Each failure must be reported by a fault.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/bits.h"
#include "base/must.h"
#include "control/db/sqlite.h"
#include "control/fault/fault.h"
#include "failing.h"

enum { COMMITS = 6, OLD_ROWS = 1, CALLS_MAX = 20000 };

static char folder[] = "/dev/shm/fathom-dbfail-XXXXXX";
static char path[64], copy[64];

enum { NOTHING, FILES, MEMORY, CALLS, SPACE };
static int which;     /* the kind of call that fails */
static uint32_t left; /* calls until it fails */
static bool has_failed;
static const char *unopened; /* the suffix of a file that SQLite never can open */

static bool fails(int what)
{
	if (which != what || left == 0 || --left > 0)
		return false;
	has_failed = true;
	return true;
}

/* ---- files: SQLite's VFS with failing calls ---- */

/* SQLite uses different methods for files with and without locks. */
static struct methods {
	sqlite3_io_methods ours; /* must be the first member: a file's pMethods points to it */
	const sqlite3_io_methods *real;
} methods[4];
static sqlite3_vfs shim;

static const sqlite3_io_methods *real_of(const sqlite3_file *file)
{
	return ((const struct methods *)file->pMethods)->real;
}

static int write_file(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 offset)
{
	if (fails(SPACE))
		return SQLITE_FULL;
	return fails(FILES) ? SQLITE_IOERR_WRITE : real_of(file)->xWrite(file, data, bytes, offset);
}

static int sync_file(sqlite3_file *file, int flags)
{
	return fails(FILES) ? SQLITE_IOERR_FSYNC : real_of(file)->xSync(file, flags);
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 bytes)
{
	return fails(FILES) ? SQLITE_IOERR_TRUNCATE : real_of(file)->xTruncate(file, bytes);
}

static void insert_methods(sqlite3_file *file)
{
	struct methods *at = methods;

	while (at->real && at->real != file->pMethods)
		at++;
	must(at < methods + ARRAY_COUNT(methods));
	at->real = file->pMethods;
	at->ours = *at->real;
	at->ours.xWrite = write_file;
	at->ours.xSync = sync_file;
	at->ours.xTruncate = truncate_file;
	file->pMethods = &at->ours;
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *flags_ret)
{
	sqlite3_vfs *real = vfs->pAppData;
	int result = SQLITE_CANTOPEN;

	file->pMethods = NULL;
	if (!fails(FILES) && !(unopened && name && strcmp(name, unopened) == 0))
		result = real->xOpen(real, name, file, flags, flags_ret);
	if (file->pMethods)
		insert_methods(file);
	return result;
}

/* ---- SQLite's memory ---- */

static sqlite3_mem_methods real_memory;

static void *allocate(int bytes)
{
	return fails(MEMORY) ? NULL : real_memory.xMalloc(bytes);
}

static void *reallocate(void *memory, int bytes)
{
	return fails(MEMORY) ? NULL : real_memory.xRealloc(memory, bytes);
}

static int setup(void **state)
{
	sqlite3_mem_methods memory;

	if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory) != SQLITE_OK)
		return -1;
	memory = real_memory;
	memory.xMalloc = allocate;
	memory.xRealloc = reallocate;
	/* no cache of small allocations: each calls allocate() */
	if (sqlite3_config(SQLITE_CONFIG_MALLOC, &memory) != SQLITE_OK ||
	    sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) != SQLITE_OK || sqlite3_initialize() != SQLITE_OK)
		return -1;
	shim = *sqlite3_vfs_find(NULL);
	shim.pAppData = sqlite3_vfs_find(NULL);
	shim.zName = "failing";
	shim.xOpen = open_file;
	if (sqlite3_vfs_register(&shim, 1) != SQLITE_OK || !mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/system.db", folder);
	snprintf(copy, sizeof(copy), "%s/copy", folder);
	return 0;
}

static int teardown(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static int count_row(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	(*(uint64_t *)ctx)++;
	return 0;
}

static void remove_all(void)
{
	char log[80];

	unlink(path);
	snprintf(log, sizeof(log), "%s-wal", path);
	unlink(log);
	snprintf(log, sizeof(log), "%s-journal", path);
	unlink(log);
}

/* Open, commit, close; returns how many commits were acknowledged. */
static uint64_t open_commit_and_close(int *error_ret, struct fathom_fault *why)
{
	uint64_t done = 0;
	struct db *db = NULL;
	int error = db_open_sqlite(path, &db, why);

	for (uint64_t i = 0; !error && i < COMMITS; i++) {
		char key[16], value[3000];
		struct db_change change = {
			.key = key, .expected = DB_VERSION_NONE, .what = DB_PUT, .value = value, .bytes = sizeof(value)
		};

		memset(value, 'a' + (int)i, sizeof(value));
		snprintf(key, sizeof(key), "key%d", (int)i);
		error = db_commit(db, &change, 1, NULL, why);
		done += !error;
	}
	db_close(db);
	*error_ret = error;
	return done;
}

static void fail_each(int what)
{
	uint32_t n;

	has_failed = true;
	for (n = 1; has_failed; n++) {
		struct fathom_fault why = { 0 };
		uint64_t done, rows = 0;
		struct db *db;
		int error;

		assert_true(n < CALLS_MAX);
		remove_all();
		has_failed = false;
		which = what;
		left = n;
		done = open_commit_and_close(&error, &why);
		which = NOTHING;
		assert_true(error <= 0);
		if (error && why.code == 0)
			fail_msg("call %u: error %d without a fault", n, error);
		if (error && what == SPACE)
			assert_int_equal(why.code, FAULT_DB_FULL);
		assert_true(has_failed || (error == 0 && done == COMMITS));
		why = (struct fathom_fault){ 0 };
		if (db_open_sqlite(path, &db, &why) < 0)
			fail_msg("call %u: %s", n, why.text);
		assert_int_equal(db_scan(db, "key", count_row, &rows, NULL), 0);
		/* a failed commit may be stored: it was written before a later call failed */
		if (rows < done || rows > done + 1)
			fail_msg("call %u: %d commits were acknowledged, %d are stored", n, (int)done, (int)rows);
		db_close(db);
	}
	printf("# %u calls\n", n - 2);
}

static void a_failed_file_call_loses_no_acknowledged_commit(void **state)
{
	fail_each(FILES);
}

static void a_full_disk_loses_no_acknowledged_commit(void **state)
{
	fail_each(SPACE);
}

static void a_failed_allocation_loses_no_acknowledged_commit(void **state)
{
	fail_each(MEMORY);
}

/* ---- copies ---- */

static void arm(int what, uint32_t n)
{
	has_failed = false;
	if (what == CALLS) {
		failing_begin(n);
		return;
	}
	which = what;
	left = n;
}

/* True: a call has failed. */
static bool disarm(int what)
{
	which = NOTHING;
	return what == CALLS ? failing_end() : has_failed;
}

static void assert_explained(int what, uint32_t n, const struct fathom_fault *why)
{
	if (why->code == 0 || why->text[0] == '\0' || why->resolution[0] == '\0')
		fail_msg("kind %d, call %u: no complete fault: %s", what, n, why->text);
}

static void make_database(const char *at, int rows)
{
	struct db *db;

	unlink(at);
	assert_int_equal(db_open_sqlite(at, &db, NULL), 0);
	for (int i = 0; i < rows; i++) {
		char key[16], value[3000];
		struct db_change change = {
			.key = key, .expected = DB_VERSION_NONE, .what = DB_PUT, .value = value, .bytes = sizeof(value)
		};

		memset(value, 'a' + i, sizeof(value));
		snprintf(key, sizeof(key), "key%d", i);
		assert_int_equal(db_commit(db, &change, 1, NULL, NULL), 0);
	}
	db_close(db);
}

/* The number of rows of the database at `at`, which must be intact. */
static uint64_t rows_of(const char *at)
{
	struct fathom_fault why = { 0 };
	uint64_t rows = 0;
	struct db *db;

	assert_int_equal(access(at, F_OK), 0);
	if (db_open_sqlite(at, &db, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(db_scan(db, "key", count_row, &rows, NULL), 0);
	db_close(db);
	return rows;
}

/* The number of files in the folder whose names contain `part`. */
static int files_with(const char *part)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;
	int count = 0;

	assert_non_null(entries);
	while ((entry = readdir(entries)))
		count += strstr(entry->d_name, part) != NULL;
	closedir(entries);
	return count;
}

static void empty_folder(void)
{
	char command[80];

	snprintf(command, sizeof(command), "rm -f %s/*", folder);
	assert_int_equal(system(command), 0);
}

/* Make a copy in small steps, as a server does. */
static int make_copy(struct db *db, struct fathom_fault *why)
{
	struct db_copy *making;
	bool is_done = false;
	int error = db_copy_begin(db, copy, &making, why);

	if (error)
		return error;
	while (!error && !is_done)
		error = db_copy_step(making, 4, &is_done, why);
	if (!error)
		error = db_copy_finish(making, why);
	db_copy_end(making);
	return error;
}

static void fail_each_of_a_copy(int what)
{
	bool failed = true;
	struct db *db;
	uint32_t n;

	empty_folder();
	make_database(path, COMMITS);
	assert_int_equal(db_open_sqlite(path, &db, NULL), 0);
	for (n = 1; failed; n++) {
		struct fathom_fault why = { 0 };
		uint64_t rows = 0;
		int error;

		assert_true(n < CALLS_MAX);
		make_database(copy, OLD_ROWS);
		arm(what, n);
		error = make_copy(db, &why);
		failed = disarm(what);
		if (error)
			assert_explained(what, n, &why);
		if (what == MEMORY && error)
			assert_int_equal(why.code, FAULT_DB_NO_MEMORY);
		assert_true(failed || error == 0);
		if (files_with("copy.copy-") != 0)
			fail_msg("kind %d, call %u: an incomplete copy is left", what, n);
		rows = rows_of(copy);
		assert_true(rows == COMMITS || (error && rows == OLD_ROWS));
		rows = 0;
		assert_int_equal(db_scan(db, "key", count_row, &rows, NULL), 0);
		assert_int_equal(rows, COMMITS);
	}
	db_close(db);
	printf("# %u calls\n", n - 2);
	assert_true(n > 10);
}

static void after_a_failed_copy_the_old_or_the_new_copy_is_complete(void **state)
{
	for (int what = FILES; what <= CALLS; what++)
		fail_each_of_a_copy(what);
}

static void a_copy_over_the_database_itself_is_refused(void **state)
{
	struct stat before, after;
	bool failed = true;
	struct db *db;

	empty_folder();
	make_database(path, COMMITS);
	assert_int_equal(db_open_sqlite(path, &db, NULL), 0);
	assert_int_equal(stat(path, &before), 0);
	for (uint32_t n = 1; failed; n++) {
		struct fathom_fault why = { 0 };

		arm(CALLS, n);
		assert_true(db_backup(db, path, &why) < 0);
		failed = disarm(CALLS);
		assert_string_not_equal(why.text, "");
		assert_int_equal(stat(path, &after), 0);
		assert_int_equal(after.st_ino, before.st_ino);
	}
	db_close(db);
}

static int restored(struct db *db, struct fathom_fault *why)
{
	struct db_change change = {
		.key = "key-restored", .expected = DB_VERSION_ANY, .what = DB_PUT, .value = "x", .bytes = 1
	};

	return db_commit(db, &change, 1, NULL, why);
}

#define DAMAGED "no database, but what there is of one"
#define LOG "its log"

static void put_text(const char *at, const char *text)
{
	int fd = open(at, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static bool has_text(const char *at, const char *text)
{
	char back[128] = "";
	int fd = open(at, O_RDONLY | O_CLOEXEC);
	bool has = fd >= 0 && read(fd, back, sizeof(back) - 1) >= 0 && strcmp(back, text) == 0;

	if (fd >= 0)
		close(fd);
	return has;
}

static void assert_as_before(bool is_damaged, int what, uint32_t n)
{
	char log[80];

	snprintf(log, sizeof(log), "%s-wal", path);
	if (files_with(".before") != 0)
		fail_msg("kind %d, call %u: the database is kept aside and still in its place", what, n);
	if (!is_damaged)
		assert_int_equal(rows_of(path), OLD_ROWS);
	else if (!has_text(path, DAMAGED) || !has_text(log, LOG))
		fail_msg("kind %d, call %u: the previous file is lost", what, n);
}

static void assert_kept_aside(bool is_damaged)
{
	char before[80], log[96];

	snprintf(before, sizeof(before), "%s.before-1", path);
	snprintf(log, sizeof(log), "%s-wal", before);
	if (is_damaged)
		assert_true(has_text(before, DAMAGED) && has_text(log, LOG));
	else
		assert_int_equal(rows_of(before), OLD_ROWS);
}

static void fail_each_of_a_restore(int what, bool is_damaged)
{
	bool failed = true;
	char log[80];
	uint32_t n;

	snprintf(log, sizeof(log), "%s-wal", path);
	for (n = 1; failed; n++) {
		struct fathom_fault why = { 0 };
		bool is_new;
		int error;

		assert_true(n < CALLS_MAX);
		empty_folder();
		make_database(copy, COMMITS);
		if (is_damaged) {
			put_text(path, DAMAGED);
			put_text(log, LOG);
		} else {
			make_database(path, OLD_ROWS);
		}
		unopened = is_damaged ? path : NULL;
		arm(what, n);
		error = db_restore_sqlite(path, copy, true, restored, &why);
		failed = disarm(what);
		unopened = NULL;
		if (error)
			assert_explained(what, n, &why);
		assert_true(failed || error == 0);
		if (files_with(".copy-restore") != 0)
			fail_msg("kind %d, call %u: an incomplete file is left", what, n);
		is_new = is_damaged ? !has_text(path, DAMAGED) : rows_of(path) > OLD_ROWS;
		if (is_new) {
			assert_int_equal(rows_of(path), COMMITS + 1); /* one more row, added by restored() */
			assert_kept_aside(is_damaged);
		} else {
			assert_true(error < 0);
			assert_as_before(is_damaged, what, n);
		}
	}
	printf("# %u calls\n", n - 2);
	assert_true(n > 10);
}

static void after_a_failed_restore_the_old_or_the_new_database_is_complete(void **state)
{
	for (int what = FILES; what <= CALLS; what++) {
		fail_each_of_a_restore(what, false);
		fail_each_of_a_restore(what, true);
	}
}

/* ---- health ---- */

static void a_failed_commit_is_remembered_until_one_succeeds(void **state)
{
	struct db_change change = { .key = "k", .expected = DB_VERSION_ANY, .what = DB_PUT, .value = "v", .bytes = 1 };
	struct fathom_fault why = { 0 };
	struct db *db;

	remove_all();
	assert_int_equal(db_open_sqlite(path, &db, NULL), 0);
	assert_int_equal(db_health(db)->failing_ns, 0);
	arm(SPACE, 1);
	assert_true(db_commit(db, &change, 1, NULL, &why) < 0);
	assert_true(disarm(SPACE));
	assert_true(db_health(db)->failing_ns > 0);
	assert_int_equal(db_health(db)->failures, 1);
	assert_int_equal(db_health(db)->failed_ns, db_health(db)->failing_ns);
	arm(SPACE, 1);
	assert_true(db_commit(db, &change, 1, NULL, &why) < 0);
	assert_true(disarm(SPACE));
	assert_true(db_health(db)->failed_ns > db_health(db)->failing_ns);
	assert_int_equal(db_health(db)->failures, 2);
	assert_string_equal(db_health(db)->why.text, why.text);
	change.expected = 99;
	assert_int_equal(db_commit(db, &change, 1, NULL, &why), -ESTALE);
	assert_int_equal(db_health(db)->failures, 2);
	change.expected = DB_VERSION_ANY;
	assert_int_equal(db_commit(db, &change, 1, NULL, &why), 0);
	assert_int_equal(db_health(db)->failing_ns, 0);
	assert_int_equal(db_health(db)->failures, 0);
	db_close(db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_file_call_loses_no_acknowledged_commit),
		cmocka_unit_test(a_full_disk_loses_no_acknowledged_commit),
		cmocka_unit_test(a_failed_allocation_loses_no_acknowledged_commit),
		cmocka_unit_test(after_a_failed_copy_the_old_or_the_new_copy_is_complete),
		cmocka_unit_test(a_copy_over_the_database_itself_is_refused),
		cmocka_unit_test(after_a_failed_restore_the_old_or_the_new_database_is_complete),
		cmocka_unit_test(a_failed_commit_is_remembered_until_one_succeeds),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
