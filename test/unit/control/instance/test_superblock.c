/* SPDX-License-Identifier: BSD-2-Clause */
/* The storage's owner: superblocks that are damaged, that are another engine's, that are missing. */
#include "instance_rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"

enum { LIVING_US = 1400000 }; /* more than a process that lives is waited for */

static struct rig_asked asked, other;

static void spoil_superblock(const char *with)
{
	char path[128];
	FILE *file;

	rig_path(path, "superblock");
	file = fopen(path, "r+");
	must(file);
	fputs(with, file);
	must(fclose(file) == 0);
}

static void a_superblock_is_never_guessed(void **state)
{
	struct superblock before, after;
	struct fathom_fault why;
	char path[128];

	rig_begin();
	rig_bring_up();
	before = rig_superblock();
	rig_stop();
	rig_path(path, "superblock");
	spoil_superblock(before.uuid[0] >> 4 ? "version: 1\nuuid: 0" : "version: 1\nuuid: 1"); /* another first digit */
	rig_start_it(&asked);
	rig_fails(&asked, 160);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_int_equal(rig.info.restart_in_ns, 0); /* an operator must act */
	assert_int_equal(rig.info.why.code, 160);
	assert_int_equal(rig.own_events[RAS_ENGINE_NOT_STARTED - RAS_OWN_FIRST], 1);
	rig_start_it(&asked);
	rig_fails(&asked, 160);
	assert_int_equal(rig.own_events[RAS_ENGINE_NOT_STARTED - RAS_OWN_FIRST], 1); /* for the same reason */
	spoil_superblock("version: 9\n");
	rig_start_it(&asked);
	rig_fails(&asked, 161);
	assert_int_equal(rig.own_events[RAS_ENGINE_NOT_STARTED - RAS_OWN_FIRST], 2);
	snprintf(before.system, sizeof(before.system), "other");
	must(superblock_write(path, &before, &why) == 0);
	rig_start_it(&asked);
	rig_fails(&asked, 162);
	snprintf(before.system, sizeof(before.system), "fathom");
	must(superblock_write(path, &before, &why) == 0);
	rig_start_it(&asked);
	rig_done(&asked);
	after = rig_superblock();
	assert_memory_equal(before.uuid, after.uuid, sizeof(before.uuid));
	rig_stop();
	assert_int_equal(rig.died, 0);
	rig_end();
}

/* The superblock may be apart from the storage (control_metadata), and one of them another's, or not there. */
static void storage_says_whose_it_is(void **state)
{
	struct superblock before, found;
	char apart[128], path[160], identity[128];
	struct fathom_fault why;
	int fd;

	rig_begin();
	snprintf(apart, sizeof(apart), "%s/apart", rig.folder);
	snprintf(path, sizeof(path), "%s/superblock", apart);
	rig_path(identity, "engine.uuid");
	rig.options.superblock_dir = apart;
	rig_bring_up();
	must(superblock_read(path, NULL, &before, &why) == 0);
	rig_stop();
	found = before;
	found.uuid[0] ^= 1;
	must(superblock_write(path, &found, &why) == 0);
	rig_start_it(&asked);
	rig_fails(&asked, 165);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_int_equal(unlink(path), 0);
	rig_start_it(&asked);
	rig_fails(&asked, 164);
	assert_int_equal(access(path, F_OK), -1); /* none is made */
	assert_int_equal(rig_look()->rank, 3);	  /* by which an operator names it */
	must(superblock_write(path, &before, &why) == 0);
	assert_int_equal(unlink(identity), 0); /* as before there were any: it is made */
	rig_start_it(&asked);
	rig_done(&asked);
	assert_int_equal(access(identity, F_OK), 0);
	rig_stop();
	fd = open(rig.storage, O_RDONLY | O_DIRECTORY);
	must(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
	rig_start_it(&asked);
	rig_fails(&asked, 166);
	rig_format_it(&other, true, false);
	rig_fails(&other, 166);
	close(fd);
	rig_start_it(&asked);
	rig_done(&asked);
	must(superblock_read(path, NULL, &found, &why) == 0);
	assert_memory_equal(before.uuid, found.uuid, sizeof(before.uuid));
	rig_stop();
	assert_int_equal(rig.died, 0);
	rig_end();
}

/*
 * The kernel lets go of the lock of an engine that was killed a moment after its pid is gone. Here: a child locks a file
 * that it shares with us, and ends.
 */
static void storage_of_a_process_that_ends_is_waited_for(void **state)
{
	int fd, status;
	pid_t pid;

	rig_begin();
	rig_bring_up();
	rig_stop();
	for (int format = 0; format < 2; format++) {
		fd = open(rig.storage, O_RDONLY | O_DIRECTORY);
		must(fd >= 0);
		pid = fork();
		if (pid == 0)
			_exit(flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : 1);
		must(waitpid(pid, &status, 0) == pid && status == 0);
		if (format)
			rig_format_it(&asked, true, false);
		else
			rig_start_it(&asked);
		rig_until(format ? INSTANCE_FORMATTING : INSTANCE_CHECKING);
		usleep(LIVING_US);
		assert_int_equal(rig_look()->state, format ? INSTANCE_FORMATTING : INSTANCE_CHECKING);
		assert_int_equal(asked.answers, 0);
		close(fd);
		rig_done(&asked);
		rig_until(INSTANCE_JOINED);
		rig_stop();
	}
	assert_int_equal(rig.died, 0);
	rig_end();
}

/* The clock is set back to before its last start: the next process comes after it all the same. */
static void a_clock_that_was_set_back_makes_no_older_engine(void **state)
{
	struct superblock before;
	struct fathom_fault why;
	char path[128];
	uint64_t late;

	rig_begin();
	rig_create();
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_stop();
	before = rig_superblock();
	late = before.incarnation += 1000000000000000ull;
	rig_path(path, "superblock");
	must(superblock_write(path, &before, &why) == 0);
	for (uint64_t i = 1; i <= 2; i++) {
		rig_start_it(&asked);
		rig_done(&asked);
		assert_int_equal(rig.joined_incarnation, late + i);
		rig_stop();
	}
	rig_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_superblock_is_never_guessed),
		cmocka_unit_test(storage_says_whose_it_is),
		cmocka_unit_test(storage_of_a_process_that_ends_is_waited_for),
		cmocka_unit_test(a_clock_that_was_set_back_makes_no_older_engine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
