/* SPDX-License-Identifier: BSD-2-Clause */
/* The database: transactions, watches, leases, copies; damage, a second process, a full disk. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/bits.h"
#include "base/random.h"
#include "control/db/sqlite.h"
#include "control/fault/fault.h"

static char folder[] = "/tmp/fathom-db-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/system.db", folder);
	return 0;
}

static int empty_folder(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s/*", folder);
	return system(command);
}

static int remove_folder(void **state)
{
	return rmdir(folder);
}

static struct db *open_db(void)
{
	struct db *db = NULL;
	struct fathom_fault why = { 0 };

	if (db_open_sqlite(path, &db, &why) < 0)
		fail_msg("%s", why.text);
	return db;
}

static void assert_open_fails(int error, int code)
{
	struct fathom_fault why = { 0 };
	struct db *db = NULL;
	int got = db_open_sqlite(path, &db, &why);

	if (got != error || why.code != code)
		fail_msg("%d %d %s", got, why.code, why.text);
	assert_null(db);
	assert_true(strlen(why.resolution) > 0);
}

static int put_expecting(struct db *db, const char *key, const char *value, uint64_t expected)
{
	struct db_change change = {
		.key = key, .expected = expected, .what = DB_PUT, .value = value, .bytes = strlen(value)
	};

	return db_commit(db, &change, 1, NULL, NULL);
}

static void put(struct db *db, const char *key, const char *value)
{
	assert_int_equal(put_expecting(db, key, value, DB_VERSION_ANY), 0);
}

struct got {
	char text[256];
	uint64_t version;
};

static int take_row(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	struct got *got = ctx;
	size_t used = strlen(got->text);

	snprintf(got->text + used, sizeof(got->text) - used, "%s=%.*s;", key, (int)bytes, (const char *)value);
	got->version = version;
	return 0;
}

static void assert_has(struct db *db, const char *prefix, const char *expected)
{
	struct got got = { "", 0 };

	assert_int_equal(db_scan(db, prefix, take_row, &got, NULL), 0);
	assert_string_equal(got.text, expected);
}

static void a_change_needs_the_expected_version_of_its_key(void **state)
{
	struct db *db = open_db();
	struct got got = { "", 0 };
	struct fathom_fault why = { 0 };
	struct db_change change = { .key = "a", .expected = 7, .what = DB_DELETE };

	assert_int_equal(db_revision(db), 0);
	assert_int_equal(put_expecting(db, "a", "1", DB_VERSION_NONE), 0);
	assert_int_equal(put_expecting(db, "a", "2", DB_VERSION_NONE), -ESTALE);
	assert_int_equal(put_expecting(db, "a", "2", 1), 0);
	assert_int_equal(put_expecting(db, "a", "3", 1), -ESTALE);
	assert_int_equal(db_revision(db), 2);
	assert_int_equal(db_get(db, "a", take_row, &got, NULL), 0);
	assert_string_equal(got.text, "a=2;");
	assert_int_equal(got.version, 2);
	assert_int_equal(db_commit(db, &change, 1, NULL, &why), -ESTALE);
	assert_int_equal(why.code, FAULT_DB_CONFLICT);
	change.expected = 2;
	assert_int_equal(db_commit(db, &change, 1, NULL, &why), 0);
	assert_int_equal(db_get(db, "a", take_row, &got, NULL), -ENOENT);
	db_close(db);
	db = open_db();
	assert_int_equal(db_revision(db), 3);
	db_close(db);
	db_close(NULL);
}

static void a_transaction_is_applied_whole_or_not_at_all(void **state)
{
	struct db *db = open_db();
	struct db_change changes[] = {
		{ .key = "a", .expected = DB_VERSION_ANY, .what = DB_PUT, .value = "1", .bytes = 1 },
		{ .key = "b", .expected = DB_VERSION_ANY, .what = DB_PUT, .value = "", .bytes = 0 },
		{ .key = "c", .expected = 5, .what = DB_CHECK },
	};
	uint64_t revision = 0;

	assert_int_equal(db_commit(db, changes, 3, &revision, NULL), -ESTALE);
	assert_has(db, "", "");
	assert_int_equal(db_revision(db), 0);
	changes[2].expected = DB_VERSION_NONE;
	assert_int_equal(db_commit(db, changes, 3, &revision, NULL), 0);
	assert_int_equal(revision, 1);
	assert_has(db, "", "a=1;b=;");
	db_close(db);
}

static void a_scan_returns_keys_with_the_prefix_in_order(void **state)
{
	struct db *db = open_db();

	put(db, "m/2", "x");
	put(db, "m/10", "y");
	put(db, "m", "z");
	put(db, "n/%", "p");
	put(db, "n/a", "q");
	assert_has(db, "m/", "m/10=y;m/2=x;");
	assert_has(db, "n/%", "n/%=p;");
	assert_has(db, "o", "");
	db_close(db);
}

static void record_change(void *ctx, const char *key, const void *value, size_t bytes, uint64_t revision)
{
	struct got *got = ctx;
	size_t used = strlen(got->text);

	snprintf(got->text + used, sizeof(got->text) - used, "%s%s%.*s@%d;", key, value ? "=" : " gone", (int)bytes,
		 value ? (const char *)value : "", (int)revision);
}

static void watches_receive_committed_changes_of_their_prefix(void **state)
{
	struct db *db = open_db();
	struct got all = { "", 0 }, some = { "", 0 };
	struct db_change gone = { .key = "a/1", .expected = DB_VERSION_ANY, .what = DB_DELETE };

	assert_int_equal(db_watch(db, "", record_change, &all), 0);
	assert_int_equal(db_watch(db, "a/", record_change, &some), 0);
	put(db, "a/1", "x");
	put(db, "b", "y");
	assert_int_equal(put_expecting(db, "a/1", "no", DB_VERSION_NONE), -ESTALE);
	assert_int_equal(db_commit(db, &gone, 1, NULL, NULL), 0);
	assert_string_equal(all.text, "a/1=x@1;b=y@2;a/1 gone@3;");
	assert_string_equal(some.text, "a/1=x@1;a/1 gone@3;");
	db_unwatch(db, record_change, &all);
	put(db, "a/2", "z");
	assert_string_equal(all.text, "a/1=x@1;b=y@2;a/1 gone@3;");
	assert_string_equal(some.text, "a/1=x@1;a/1 gone@3;a/2=z@4;");
	db_close(db);
}

static void a_lease_has_one_owner_until_it_expires(void **state)
{
	struct db *db = open_db();
	struct fathom_fault why = { 0 };

	assert_int_equal(db_lease_take(db, "leader", "host1", 1000, 100, &why), 0);
	assert_int_equal(db_lease_take(db, "leader", "host2", 1099, 100, &why), -EBUSY);
	assert_int_equal(why.code, FAULT_DB_LEASE_HELD);
	assert_int_equal(db_lease_take(db, "leader", "host1", 1050, 100, &why), 0);
	assert_int_equal(db_lease_take(db, "leader", "host2", 1149, 100, &why), -EBUSY);
	assert_int_equal(db_lease_release(db, "leader", "host2", &why), 0);
	assert_int_equal(db_lease_take(db, "leader", "host2", 1150, 100, &why), 0);
	assert_int_equal(db_lease_release(db, "leader", "host2", &why), 0);
	assert_int_equal(db_lease_take(db, "leader", "host1", 1151, 100, &why), 0);
	put(db, "lease/bad", "rubbish");
	assert_int_equal(db_lease_take(db, "bad", "host1", 1, 1, &why), -EBADMSG);
	assert_int_equal(why.code, FAULT_DB_VALUE_BAD);
	db_close(db);
}

static void a_second_process_cannot_open_the_database(void **state)
{
	int opened[2], refused[2], status;
	char byte = 0;
	pid_t child;

	assert_int_equal(pipe(opened) | pipe(refused), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) { /* the child owns the database, and commits also after the second open failed */
		struct db *db = open_db();

		put(db, "a", "1");
		must(write(opened[1], "", 1) == 1);
		must(read(refused[0], &byte, 1) == 1);
		put(db, "a", "2");
		db_close(db);
		_exit(0);
	}
	assert_int_equal(read(opened[0], &byte, 1), 1);
	assert_open_fails(-EBUSY, FAULT_DB_IN_USE);
	assert_int_equal(write(refused[1], "", 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (int i = 0; i < 2; i++) {
		close(opened[i]);
		close(refused[i]);
	}
}

static void only_the_owner_may_read_the_file(void **state)
{
	struct db *db = open_db();
	struct stat stat_of;

	assert_int_equal(stat(path, &stat_of), 0);
	assert_int_equal(stat_of.st_mode & 0777, 0600);
	db_close(db);
}

static void put_200_keys(struct db *db)
{
	for (int i = 0; i < 200; i++) {
		char key[32], value[128];

		snprintf(key, sizeof(key), "key-%03d", i);
		memset(value, 'a' + i % 26, sizeof(value) - 1);
		value[sizeof(value) - 1] = '\0';
		put(db, key, value);
	}
}

static int hash_row(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	uint64_t *hash = ctx;

	for (const char *at = key; *at; at++)
		*hash = (*hash ^ (uint8_t)*at) * 0x100000001b3ull;
	for (size_t i = 0; i < bytes; i++)
		*hash = (*hash ^ ((const uint8_t *)value)[i]) * 0x100000001b3ull;
	*hash ^= version;
	return 0;
}

static uint64_t hash_of(struct db *db)
{
	uint64_t hash = 1;

	assert_int_equal(db_scan(db, "", hash_row, &hash, NULL), 0);
	return hash;
}

/* With any bit flipped, the database has its original content or is refused as damaged, foreign or newer. */
static void a_flipped_bit_is_detected_or_has_no_effect(void **state)
{
	struct random random;
	struct db *db = open_db();
	size_t refused = 0;
	uint64_t expected;
	struct stat stat_of;

	put_200_keys(db);
	expected = hash_of(db);
	db_close(db);
	assert_int_equal(stat(path, &stat_of), 0);
	random_init(&random, 5);
	for (int round = 0; round < 300; round++) {
		off_t at = (off_t)random_below(&random, (uint64_t)stat_of.st_size);
		uint8_t byte, flipped;
		int fd = open(path, O_RDWR);
		struct fathom_fault why = { 0 };
		int error;

		assert_int_equal(pread(fd, &byte, 1, at), 1);
		flipped = byte ^ (uint8_t)BIT(random_below(&random, 8));
		assert_int_equal(pwrite(fd, &flipped, 1, at), 1);
		close(fd);
		db = NULL;
		error = db_open_sqlite(path, &db, &why);
		if (error == 0) {
			assert_int_equal(hash_of(db), expected);
			assert_int_equal(db_revision(db), 200);
		} else {
			refused++;
			if (why.code != FAULT_DB_DAMAGED && why.code != FAULT_DB_FOREIGN && why.code != FAULT_DB_NEWER)
				fail_msg("error %d, fault %d: %s", error, why.code, why.text);
		}
		db_close(db);
		fd = open(path, O_RDWR);
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		close(fd);
	}
	assert_true(refused > 100);
}

/* Change the file as another program would. */
static void run_sql(const char *sql)
{
	sqlite3 *handle;

	assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
	assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

static void foreign_newer_and_damaged_files_are_refused(void **state)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	for (int i = 0; i < 1000; i++)
		assert_int_equal(write(fd, "this is no database, but some text\n", 35), 35);
	close(fd);
	assert_open_fails(-EBADMSG, FAULT_DB_DAMAGED);
	unlink(path);
	run_sql("CREATE TABLE t(a); INSERT INTO t VALUES(1)");
	assert_open_fails(-EINVAL, FAULT_DB_FOREIGN);
	unlink(path);
	db_close(open_db());
	run_sql("PRAGMA user_version = 9");
	assert_open_fails(-EPROTO, FAULT_DB_NEWER);
	run_sql("PRAGMA user_version = -1");
	assert_open_fails(-EBADMSG, FAULT_DB_DAMAGED);
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_open_fails(-EIO, FAULT_DB_FAILED);
	assert_int_equal(rmdir(path), 0);
}

static void a_copy_of_a_database_in_use_is_restored(void **state)
{
	char copy[96], aside[96];
	struct db *db = open_db();
	struct fathom_fault why = { 0 };

	snprintf(copy, sizeof(copy), "%s/copy", folder);
	snprintf(aside, sizeof(aside), "%s.before-1", path);
	put_200_keys(db);
	put(db, "a", "copied");
	assert_int_equal(db_backup(db, copy, &why), 0);
	put(db, "a", "later");
	assert_int_equal(db_restore_sqlite(path, copy, false, NULL, &why), -EEXIST);
	assert_int_equal(why.code, FAULT_DB_RESTORE_OVER);
	/* restoring over a database needs force, also if only this process has it open */
	db_close(db);
	assert_int_equal(db_restore_sqlite(path, copy, true, NULL, &why), 0);
	db = open_db();
	assert_has(db, "a", "a=copied;");
	assert_int_equal(db_revision(db), 201);
	db_close(db);
	assert_int_equal(rename(aside, path), 0);
	db = open_db();
	assert_has(db, "a", "a=later;");
	db_close(db);
	unlink(path);
	assert_int_equal(db_restore_sqlite(path, copy, false, NULL, &why), 0);
	db_close(open_db());
}

/* Make a copy with a=copied, and a write-ahead log with a=later, as a killed server leaves it. */
static void make_copy_and_log(char copy[96], char log[96])
{
	struct db *db = open_db();
	struct fathom_fault why = { 0 };
	char command[256];

	snprintf(copy, 96, "%s/copy", folder);
	snprintf(log, 96, "%s/log", folder);
	put(db, "a", "copied");
	assert_int_equal(db_backup(db, copy, &why), 0);
	put(db, "a", "later");
	snprintf(command, sizeof(command), "cp %s-wal %s", path, log);
	assert_int_equal(system(command), 0);
	db_close(db);
}

static bool has_file(const char *ending)
{
	char file[128];

	snprintf(file, sizeof(file), "%s%s", path, ending);
	return access(file, F_OK) == 0;
}

static void link_as(const char *file, const char *ending)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", path, ending);
	assert_int_equal(link(file, name), 0);
}

static void assert_restored(const char *copy, bool is_forced)
{
	struct fathom_fault why = { 0 };
	struct db *db;

	if (db_restore_sqlite(path, copy, is_forced, NULL, &why) < 0)
		fail_msg("%s", why.text);
	assert_false(has_file("-wal") || has_file("-journal") || has_file(".copy-restore-wal"));
	db = open_db();
	assert_has(db, "a", "a=copied;");
	db_close(db);
}

/* system.db was removed, but not system.db-wal. Each restore must keep that log under a new name. */
static void a_log_without_its_database_is_kept_and_not_applied_to_a_copy(void **state)
{
	char copy[96], log[96];

	make_copy_and_log(copy, log);
	for (int i = 1; i <= 2; i++) {
		unlink(path);
		link_as(log, "-wal");
		link_as(log, "-journal");
		assert_restored(copy, false);
		assert_true(has_file(i == 1 ? ".before-1-wal" : ".before-2-wal"));
		assert_false(has_file(i == 1 ? ".before-1" : ".before-2"));
	}
}

static void the_log_of_an_interrupted_restore_is_not_applied_to_the_next(void **state)
{
	char copy[96], log[96];

	make_copy_and_log(copy, log);
	link_as(log, ".copy-restore-wal");
	assert_restored(copy, true);
}

static void a_database_that_cannot_be_opened_is_kept_aside_with_its_log(void **state)
{
	char copy[96], log[96];

	make_copy_and_log(copy, log);
	unlink(path);
	assert_int_equal(symlink("copy", path), 0); /* the open fails for root, too */
	link_as(log, "-wal");
	assert_restored(copy, true);
	assert_true(has_file(".before-1-wal"));
}

/* The copy is made page by page while transactions commit. It must have all transactions committed before its last step. */
static void a_copy_in_steps_has_transactions_committed_meanwhile(void **state)
{
	char copy[96], number[16];
	struct db *db = open_db(), *copied;
	struct fathom_fault why = { 0 };
	struct db_copy *steps;
	bool is_done = false;
	int count = 0;

	snprintf(copy, sizeof(copy), "%s/copy", folder);
	put_200_keys(db);
	assert_int_equal(db_copy_begin(db, copy, &steps, &why), 0);
	while (!is_done) {
		assert_int_equal(access(copy, F_OK), -1); /* the copy appears only when it is complete */
		snprintf(number, sizeof(number), "%d", ++count);
		put(db, "a", number);
		put(db, "z", number);
		assert_int_equal(db_copy_step(steps, 1, &is_done, &why), 0);
	}
	assert_true(count > 3);
	put(db, "a", "later");
	assert_int_equal(db_copy_finish(steps, &why), 0);
	db_copy_end(steps);
	db_close(db);
	assert_int_equal(db_restore_sqlite(path, copy, true, NULL, &why), 0);
	copied = open_db();
	snprintf(copy, sizeof(copy), "a=%d;", count);
	assert_has(copied, "a", copy);
	snprintf(copy, sizeof(copy), "z=%d;", count);
	assert_has(copied, "z", copy);
	db_close(copied);
}

static void an_aborted_copy_leaves_no_file(void **state)
{
	struct db *db = open_db();
	struct fathom_fault why = { 0 };
	struct db_copy *steps;
	bool is_done;
	char copy[96];
	glob_t found;

	snprintf(copy, sizeof(copy), "%s/copy", folder);
	put_200_keys(db);
	assert_int_equal(db_copy_begin(db, copy, &steps, &why), 0);
	assert_int_equal(db_copy_step(steps, 1, &is_done, &why), 0);
	assert_false(is_done);
	db_copy_end(steps);
	put(db, "a", "1");
	db_close(db);
	snprintf(copy, sizeof(copy), "%s/copy*", folder);
	assert_int_equal(glob(copy, 0, NULL, &found), GLOB_NOMATCH);
}

static void a_damaged_copy_is_not_restored(void **state)
{
	char copy[96];
	struct db *db = open_db();
	struct fathom_fault why = { 0 };

	snprintf(copy, sizeof(copy), "%s/copy", folder);
	put_200_keys(db);
	assert_int_equal(db_backup(db, copy, &why), 0);
	put(db, "a", "1");
	db_close(db);
	assert_int_equal(truncate(copy, 20000), 0);
	assert_int_equal(db_restore_sqlite(path, copy, true, NULL, &why), -EBADMSG);
	assert_int_equal(why.code, FAULT_DB_DAMAGED);
	db = open_db();
	assert_has(db, "a", "a=1;");
	db_close(db);
}

static void a_restore_over_a_damaged_database_keeps_it_aside(void **state)
{
	char copy[96], aside[96];
	struct db *db = open_db();
	struct fathom_fault why = { 0 };

	snprintf(copy, sizeof(copy), "%s/copy", folder);
	snprintf(aside, sizeof(aside), "%s.before-1", path);
	put(db, "a", "1");
	assert_int_equal(db_backup(db, copy, &why), 0);
	db_close(db);
	assert_int_equal(truncate(path, 5000), 0);
	assert_open_fails(-EBADMSG, FAULT_DB_DAMAGED);
	assert_int_equal(db_restore_sqlite(path, copy, true, NULL, &why), 0);
	db = open_db();
	assert_has(db, "a", "a=1;");
	db_close(db);
	assert_int_equal(access(aside, F_OK), 0);
}

/* A limit on the file's size simulates a full disk. */
static void a_full_disk_loses_no_acknowledged_commit(void **state)
{
	struct rlimit before, small = { 200000, 200000 };
	struct db *db = open_db();
	struct fathom_fault why = { 0 };
	int acknowledged = 0, error = 0;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	while (!error && acknowledged < 10000) {
		char value[4000];
		struct db_change change = {
			.key = "n", .expected = DB_VERSION_ANY, .what = DB_PUT, .value = value, .bytes = sizeof(value)
		};
		char key[16];

		memset(value, ' ', sizeof(value));
		snprintf(key, sizeof(key), "n%05d", acknowledged);
		change.key = key;
		error = db_commit(db, &change, 1, NULL, &why);
		acknowledged += !error;
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	if (error != -ENOSPC && error != -EIO)
		fail_msg("error %d after %d commits: %s", error, acknowledged, why.text);
	assert_true(why.code == FAULT_DB_FULL || why.code == FAULT_DB_FAILED);
	assert_int_equal(db_revision(db), acknowledged);
	/* the next commit succeeds when there is space again */
	put(db, "z", "1");
	db_close(db);
	db = open_db();
	assert_int_equal(db_revision(db), acknowledged + 1);
	assert_has(db, "z", "z=1;");
	db_close(db);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, empty_folder)
	const struct CMUnitTest tests[] = {
		CASE(a_change_needs_the_expected_version_of_its_key),
		CASE(a_transaction_is_applied_whole_or_not_at_all),
		CASE(a_scan_returns_keys_with_the_prefix_in_order),
		CASE(watches_receive_committed_changes_of_their_prefix),
		CASE(a_lease_has_one_owner_until_it_expires),
		CASE(a_second_process_cannot_open_the_database),
		CASE(only_the_owner_may_read_the_file),
		CASE(a_flipped_bit_is_detected_or_has_no_effect),
		CASE(foreign_newer_and_damaged_files_are_refused),
		CASE(a_copy_of_a_database_in_use_is_restored),
		CASE(a_log_without_its_database_is_kept_and_not_applied_to_a_copy),
		CASE(the_log_of_an_interrupted_restore_is_not_applied_to_the_next),
		CASE(a_database_that_cannot_be_opened_is_kept_aside_with_its_log),
		CASE(a_copy_in_steps_has_transactions_committed_meanwhile),
		CASE(an_aborted_copy_leaves_no_file),
		CASE(a_damaged_copy_is_not_restored),
		CASE(a_restore_over_a_damaged_database_keeps_it_aside),
		CASE(a_full_disk_loses_no_acknowledged_commit),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
