/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The database when the n-th call fails: every open, write, sync and truncation of a file that SQLite makes, and every
 * allocation of its own. What was acknowledged is there afterwards, whatever failed; every failure is a fault.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/bits.h"
#include "base/must.h"
#include "control/db/sqlite.h"
#include "control/fault/fault.h"

enum { COMMITS = 6 };

static char folder[] = "/tmp/fathom-dbfail-XXXXXX";
static char path[64];

enum { NOTHING, FILES, MEMORY };
static int which;     /* of these fails */
static uint32_t left; /* until it does */
static bool has_failed;

static bool fails(int what)
{
	if (which != what || left == 0 || --left > 0)
		return false;
	has_failed = true;
	return true;
}

/* ---- files: the system's own, some calls of which fail ---- */

/* Files that are locked and files that are not have different methods. */
static struct methods {
	sqlite3_io_methods ours; /* first: a file's pMethods leads here */
	const sqlite3_io_methods *real;
} methods[4];
static sqlite3_vfs shim;

static const sqlite3_io_methods *real_of(const sqlite3_file *file)
{
	return ((const struct methods *)file->pMethods)->real;
}

static int write_file(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 offset)
{
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

static void put_between(sqlite3_file *file)
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
	if (!fails(FILES))
		result = real->xOpen(real, name, file, flags, flags_ret);
	if (file->pMethods)
		put_between(file);
	return result;
}

/* ---- memory: of SQLite ---- */

static sqlite3_mem_methods real_memory;

static void *allocate(int bytes)
{
	return fails(MEMORY) ? NULL : real_memory.xMalloc(bytes);
}

static void *reallocate(void *memory, int bytes)
{
	return fails(MEMORY) ? NULL : real_memory.xRealloc(memory, bytes);
}

static int begin(void **state)
{
	sqlite3_mem_methods memory;

	if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory) != SQLITE_OK)
		return -1;
	memory = real_memory;
	memory.xMalloc = allocate;
	memory.xRealloc = reallocate;
	/* no cache of small pieces: each is asked for */
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
	return 0;
}

static int end(void **state)
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
static uint64_t live(int *error_ret, struct fault *why)
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
		struct fault why = { 0 };
		uint64_t done, rows = 0;
		struct db *db;
		int error;

		assert_true(n < 20000);
		remove_all();
		has_failed = false;
		which = what;
		left = n;
		done = live(&error, &why);
		which = NOTHING;
		assert_true(error <= 0);
		if (error && error != -ENOMEM && why.code == 0)
			fail_msg("call %u: %d, and no fault", n, error);
		assert_true(has_failed || (error == 0 && done == COMMITS));
		why = (struct fault){ 0 };
		if (db_open_sqlite(path, &db, &why) < 0)
			fail_msg("call %u: %s", n, why.text);
		assert_int_equal(db_scan(db, "key", count_row, &rows, NULL), 0);
		/* one that failed may yet be there: it was written, and what failed came behind it */
		if (rows < done || rows > done + 1)
			fail_msg("call %u: %d were acknowledged, %d are there", n, (int)done, (int)rows);
		db_close(db);
	}
	printf("# %u calls\n", n - 2);
}

static void a_file_call_that_fails_loses_nothing(void **state)
{
	fail_each(FILES);
}

static void memory_that_ends_loses_nothing(void **state)
{
	fail_each(MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_call_that_fails_loses_nothing),
		cmocka_unit_test(memory_that_ends_loses_nothing),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
