/* SPDX-License-Identifier: BSD-2-Clause */
/* The owner of the storage: superblocks that are damaged, missing, or of another engine. */
#include "instance_rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"

enum { LIVING_US = 1400000 }; /* longer than the retries for a lock of a living process */

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

static void an_unusable_superblock_is_never_replaced(void **state)
{
	struct superblock before, after;
	struct fathom_fault why;
	char path[128];

	rig_begin();
	rig_bring_up();
	before = rig_superblock();
	rig_stop();
	rig_path(path, "superblock");
	spoil_superblock(before.uuid[0] >> 4 ? "version: 1\nuuid: 0" : "version: 1\nuuid: 1"); /* changes its first digit */
	rig_start_it(&asked);
	rig_fails(&asked, 160);
	assert_int_equal(rig_look()->state, INSTANCE_ERRORED);
	assert_int_equal(rig.info.restart_in_ns, 0); /* an operator must act */
	assert_int_equal(rig.info.why.code, 160);
	assert_int_equal(rig.own_events[RAS_ENGINE_NOT_STARTED - RAS_OWN_FIRST], 1);
	rig_start_it(&asked);
	rig_fails(&asked, 160);
	assert_int_equal(rig.own_events[RAS_ENGINE_NOT_STARTED - RAS_OWN_FIRST], 1); /* the same fault: no second event */
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

/* With control_metadata the superblock is outside of the storage: one of them may be missing, or of another engine. */
static void engine_uuid_states_the_owner_of_the_storage(void **state)
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
	assert_int_equal(access(path, F_OK), -1); /* the server does not create one */
	assert_int_equal(rig_look()->rank, 3);	  /* kept: operators name the engine by it */
	must(superblock_write(path, &before, &why) == 0);
	assert_int_equal(unlink(identity), 0); /* storage of an older version has none: the start creates it */
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
 * The kernel releases the lock of a killed engine a moment after its pid has disappeared. Here a child takes the lock on a
 * file description that it shares with this test, and ends: the lock stays until the test closes the file.
 */
static void the_lock_of_an_ending_process_is_waited_for(void **state)
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

/* The clock was set back to a time before the last start. The next process must still have a greater incarnation. */
static void the_incarnation_grows_although_the_clock_was_set_back(void **state)
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
		cmocka_unit_test(an_unusable_superblock_is_never_replaced),
		cmocka_unit_test(engine_uuid_states_the_owner_of_the_storage),
		cmocka_unit_test(the_lock_of_an_ending_process_is_waited_for),
		cmocka_unit_test(the_incarnation_grows_although_the_clock_was_set_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
