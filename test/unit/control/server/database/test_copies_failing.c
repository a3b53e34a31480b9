/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server makes its daily copy of the database. The first, second, third ... call on a file fails, until a run meets no
 * failure. The copy must be the old one or the new one, complete, without an incomplete file beside it. The next copy must
 * succeed, and the server must know the revision of its copy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/db/sqlite.h"
#include "control/server/database/internal.h"
#include "failing.h"

enum { RUNS_MAX = 1000, COPIES = 7, OLD_COPIES = 9, PATH_BYTES = 512 };

static char folder[] = "/dev/shm/fathom-copies-XXXXXX";
static struct server_config config;
static struct server server;
static struct server_database database = { .server = &server };

/* The management service is not part of this test: its system has one member. */
struct system *__wrap_mgmt_system(const struct mgmt *mgmt);
struct system *__wrap_mgmt_system(const struct mgmt *mgmt)
{
	return NULL;
}

size_t __wrap_system_member_count(const struct system *system);
size_t __wrap_system_member_count(const struct system *system)
{
	return 1;
}

static char said[2048]; /* the last log line */

void __wrap_log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void __wrap_log_line(enum log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(said, sizeof(said), format, args);
	va_end(args);
}

/* Return whether the log line has a reason and a resolution. */
static bool log_has_resolution(void)
{
	const char *resolution = strstr(said, "; ");

	return strncmp(said, "no copy of the database was made: ", 34) == 0 && resolution && resolution[2];
}

static int setup(void **state)
{
	char path[128];
	static int any;

	if (!mkdtemp(folder))
		return -1;
	config.state_dir = folder;
	must(server_database_path(&config, path, sizeof(path)) == 0);
	server.config = &config;
	server.of_call.mgmt = (struct mgmt *)&any;
	LIST_INIT(&database.copies);
	return db_open_sqlite(path, &database.db, NULL);
}

static int teardown(void **state)
{
	char command[64];

	db_close(database.db);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

/* The number of files whose names contain `part`; `path_ret` (NULL, or of PATH_BYTES): the path of the last one. */
static int files_with(const char *part, char *path_ret)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, NULL, alphasort), found = 0;

	assert_true(count >= 0);
	for (int i = 0; i < count; i++) {
		if (strstr(entries[i]->d_name, part)) {
			found++;
			if (path_ret)
				snprintf(path_ret, PATH_BYTES, "%s/%s", folder, entries[i]->d_name);
		}
		free(entries[i]);
	}
	free(entries);
	return found;
}

static int take_revision(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	*(uint64_t *)ctx = version;
	return 0;
}

/* The revision of the daily copy, which must be intact. */
static uint64_t copied(const char *path)
{
	char beside[512], command[1200];
	struct fathom_fault why = { 0 };
	uint64_t revision = 0;
	struct db *db;

	snprintf(beside, sizeof(beside), "%s/looked-at", folder);
	snprintf(command, sizeof(command), "cp %s %s", path, beside);
	assert_int_equal(system(command), 0);
	if (db_open_sqlite(beside, &db, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(db_get(db, "key", take_revision, &revision, NULL), 0);
	db_close(db);
	unlink(beside);
	return revision;
}

static uint64_t change(void)
{
	struct db_change put = { .key = "key", .expected = DB_VERSION_ANY, .what = DB_PUT, .value = "x", .bytes = 1 };

	assert_int_equal(db_commit(database.db, &put, 1, NULL, NULL), 0);
	return db_revision(database.db);
}

/* Make copies with the dates of other days. */
static void make_old_copies(const char *of_today)
{
	char path[512];

	for (int day = 1; day <= OLD_COPIES; day++) {
		int fd;

		snprintf(path, sizeof(path), "%.*s2020-01-%02d", (int)(strlen(of_today) - strlen("2020-01-01")), of_today,
			 day);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		close(fd);
	}
}

static void after_a_failed_call_the_old_or_the_new_daily_copy_is_complete(void **state)
{
	char today[PATH_BYTES];
	bool failed = true;
	uint64_t before;
	uint32_t n;

	before = change();
	daily_copy_at_end(&database);
	assert_int_equal(files_with(".copy-", today), 1);
	assert_int_equal(copied(today), before);
	for (n = 1; failed; n++) {
		uint64_t now = change(), there;

		assert_true(n < RUNS_MAX);
		make_old_copies(today);
		failing_begin_files(n);
		said[0] = '\0';
		daily_copy_at_end(&database);
		failed = failing_end();
		there = copied(today);
		if (database.copied_revision != now && !log_has_resolution())
			fail_msg("call %u: the log line is \"%s\"", n, said);
		if (there != now && (there != before || !failed || database.copied_revision == now))
			fail_msg("call %u: the copy has revision %d, expected %d", n, (int)there, (int)now);
		assert_null(database.daily);
		change();
		daily_copy_at_end(&database);
		before = db_revision(database.db);
		assert_int_equal(database.copied_revision, before);
		assert_int_equal(copied(today), before);
		if (files_with(".copy-", NULL) != COPIES)
			fail_msg("call %u: %d files", n, files_with(".copy-", NULL));
	}
	printf("# %u calls\n", n - 2);
	assert_true(n > 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(
		after_a_failed_call_the_old_or_the_new_daily_copy_is_complete) };

	return cmocka_run_group_tests_name("server copies failing", tests, setup, teardown);
}
