/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A writer is killed 2,000 times at random instants: while it opens, commits, copies. Acknowledged commits must be stored,
 * other commits must be stored whole or not at all, and the file must be intact each time.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/random.h"
#include "control/db/sqlite.h"

#ifdef __SANITIZE_ADDRESS__ /* a fork takes ten times as long */
#define KILLS 200
#else
#define KILLS 2000
#endif
enum { KEYS = 3, ACKS_MAX = 4, WAIT_US_MAX = 2500 };

static char folder[] = "/tmp/fathom-killed-XXXXXX";
static char path[64], copy[64];

static int read_number(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	char text[24];

	if (bytes >= sizeof(text))
		return -EBADMSG;
	memcpy(text, value, bytes);
	text[bytes] = '\0';
	*(uint64_t *)ctx = strtoull(text, NULL, 10);
	return 0;
}

/* The value that all keys must have in common; 0: no key exists. */
static uint64_t read_all(struct db *db)
{
	uint64_t first = 0;

	for (int i = 0; i < KEYS; i++) {
		uint64_t number = 0;
		char key[16];
		int error;

		snprintf(key, sizeof(key), "key/%d", i);
		error = db_get(db, key, read_number, &number, NULL);
		must(error == 0 || error == -ENOENT);
		must(i == 0 || number == first);
		first = number;
	}
	return first;
}

/* Increment all keys in one transaction and write each acknowledgement to `fd`, for ever. */
static void write_until_killed(int fd)
{
	struct db *db;
	uint64_t number;

	must(db_open_sqlite(path, &db, NULL) == 0);
	number = read_all(db);
	for (;;) {
		struct db_change changes[KEYS];
		char keys[KEYS][16], text[24];

		snprintf(text, sizeof(text), "%llu", (unsigned long long)++number);
		for (int i = 0; i < KEYS; i++) {
			snprintf(keys[i], sizeof(keys[i]), "key/%d", i);
			changes[i] = (struct db_change){ .key = keys[i],
							 .expected = DB_VERSION_ANY,
							 .what = DB_PUT,
							 .value = text,
							 .bytes = strlen(text) };
		}
		must(db_commit(db, changes, KEYS, NULL, NULL) == 0);
		must(write(fd, &number, sizeof(number)) == sizeof(number));
		if (number % 16 == 0)
			must(db_backup(db, copy, NULL) == 0);
	}
}

static uint64_t take_acks(int fd, uint64_t last)
{
	uint64_t number;

	while (read(fd, &number, sizeof(number)) == sizeof(number)) {
		assert_int_equal(number, last + 1);
		last = number;
	}
	return last;
}

/*
 * Let the writer run for a number of acknowledgements and then some time, and kill it. Return the last acknowledged value.
 */
static uint64_t run_and_kill(struct random *random, uint64_t last)
{
	uint64_t acks = random_below(random, ACKS_MAX), number;
	struct timespec while_ = { 0, (long)random_below(random, WAIT_US_MAX) * 1000 };
	int fds[2], status;
	pid_t child;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		write_until_killed(fds[1]);
	close(fds[1]);
	while (acks-- > 0) {
		assert_int_equal(read(fds[0], &number, sizeof(number)), sizeof(number));
		assert_int_equal(number, last + 1);
		last = number;
	}
	nanosleep(&while_, NULL);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	last = take_acks(fds[0], last);
	close(fds[0]);
	return last;
}

static void acknowledged_commits_survive_every_kill(void **state)
{
	struct random random;
	uint64_t last = 0, unsaid = 0;
	struct db *db;

	random_init(&random, 3);
	for (int round = 0; round < KILLS; round++) {
		struct fathom_fault why = { 0 };
		uint64_t acknowledged = run_and_kill(&random, last);

		if (db_open_sqlite(path, &db, &why) < 0)
			fail_msg("kill %d: %s", round, why.text);
		last = read_all(db);
		/* one commit may be stored but not yet acknowledged */
		assert_true(last == acknowledged || last == acknowledged + 1);
		unsaid += last - acknowledged;
		assert_int_equal(db_revision(db), last);
		db_close(db);
	}
	printf("# %d kills, %llu commits, %llu of them done and not said\n", KILLS, (unsigned long long)last,
	       (unsigned long long)unsaid);
	assert_true(last > KILLS / 2);
	/* a copy appears only when it is complete */
	assert_int_equal(db_restore_sqlite(path, copy, true, NULL, NULL), 0);
	assert_int_equal(db_open_sqlite(path, &db, NULL), 0);
	assert_true(read_all(db) > 0 && read_all(db) <= last);
	db_close(db);
}

static int make_folder(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/system.db", folder);
	snprintf(copy, sizeof(copy), "%s/copy", folder);
	return 0;
}

static int remove_folder(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(acknowledged_commits_survive_every_kill),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
