/* SPDX-License-Identifier: BSD-2-Clause */
/* Missing storage is not mistaken for storage that was never formatted. */
#include "instance_rig.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

static struct rig_asked asked, other;
static char away[96];

static void begin(void)
{
	rig_begin();
	rig.options.state_dir = rig.folder;
	rig.options.missing_interval_ns = 3600 * NS_PER_SEC;
	snprintf(away, sizeof(away), "%s/away", rig.folder);
}

static void move_away(void)
{
	assert_int_equal(rename(rig.storage, away), 0);
}

static void bring_back(void)
{
	(void)!rmdir(rig.storage); /* if it exists, it is empty */
	assert_int_equal(rename(away, rig.storage), 0);
}

static void write_record(const char *text)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/engine0.storage", rig.folder);
	file = fopen(path, "w");
	must(file);
	fputs(text, file);
	must(fclose(file) == 0);
}

/* The new server has not read the superblock: only the record tells it the rank and the UUID. */
static void restart_server(void)
{
	rig_destroy();
	rig_create();
}

static void until_event(uint32_t id, uint64_t count)
{
	uint64_t until = clock_monotonic_ns() + 60 * NS_PER_SEC;

	while (rig.own_events[id - RAS_OWN_FIRST] < count) {
		assert_true(clock_monotonic_ns() < until);
		rig_look(); /* a turn of the control thread, which counts them */
	}
	assert_int_equal(rig.own_events[id - RAS_OWN_FIRST], count);
}

static void is_missing_and_left_alone(void)
{
	rig_start_it(&asked);
	rig_fails(&asked, 168);
	assert_int_equal(rig_look()->state, INSTANCE_MISSING);
	assert_int_equal(rig.info.why.code, 168);
	assert_int_equal(rig.info.rank, 3);
	assert_true(rig.info.has_uuid);
	rig_format_it(&asked, false, false);
	rig_fails(&asked, 168);
	assert_int_equal(rig_look()->state, INSTANCE_MISSING);
	rig_format_it(&asked, true, true); /* force overwrites existing data only */
	rig_fails(&asked, 168);
	assert_int_equal(rig_look()->state, INSTANCE_MISSING);
	assert_int_equal(rig.format_required, 0);
	until_event(RAS_STORAGE_MISSING, 1);
}

static void a_folder_that_was_removed_is_missing(void **state)
{
	struct superblock before, after;

	for (int restart = 0; restart < 2; restart++) {
		begin();
		rig_bring_up();
		before = rig_superblock();
		rig_stop();
		move_away();
		if (restart)
			restart_server();
		is_missing_and_left_alone();
		assert_int_equal(access(rig.storage, F_OK), -1); /* the server did not create it */
		bring_back();
		rig_start_it(&asked); /* by the same server */
		rig_done(&asked);
		after = rig_superblock();
		assert_memory_equal(before.uuid, after.uuid, sizeof(before.uuid));
		rig_stop();
		assert_int_equal(rig.died, 0);
		rig_end();
	}
}

/* The mount point of a filesystem that is not mounted looks like this. */
static void a_formatted_folder_that_is_empty_now_is_missing(void **state)
{
	for (int restart = 0; restart < 2; restart++) {
		begin();
		rig_bring_up();
		rig_stop();
		move_away();
		assert_int_equal(mkdir(rig.storage, 0700), 0);
		if (restart)
			restart_server();
		is_missing_and_left_alone();
		bring_back();
		rig_start_it(&asked);
		rig_done(&asked);
		rig_stop();
		rig_end();
	}
}

static void storage_that_returns_is_detected(void **state)
{
	begin();
	rig.options.missing_interval_ns = 20 * NS_PER_MS;
	rig_bring_up();
	rig_stop();
	move_away();
	rig_start_it(&asked);
	rig_fails(&asked, 168);
	usleep(100000); /* the server looks for it several times */
	assert_int_equal(rig_look()->state, INSTANCE_MISSING);
	assert_int_equal(rig.own_events[RAS_STORAGE_MISSING - RAS_OWN_FIRST], 1);
	bring_back();
	rig_until(INSTANCE_JOINED); /* without a request */
	rig_stop();
	move_away();
	rig_start_it(&asked);
	rig_fails(&asked, 168);
	rig_stop_it(&asked, false);
	rig_done(&asked);
	bring_back();
	usleep(100000);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPED); /* the stop is kept */
	rig_end();
}

static void a_folder_that_never_existed_is_missing(void **state)
{
	begin();
	assert_int_equal(rmdir(rig.storage), 0);
	rig.options.missing_interval_ns = 20 * NS_PER_MS;
	rig_create();
	rig_start_it(&asked);
	rig_fails(&asked, 168);
	assert_int_equal(rig_look()->rank, RANK_NONE);
	assert_false(rig.info.has_uuid);
	rig_format_it(&asked, false, false);
	rig_fails(&asked, 168);
	assert_int_equal(mkdir(rig.storage, 0700), 0);
	rig_until(INSTANCE_AWAIT_FORMAT);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_stop();
	rig_end();
}

static void missing_storage_is_formatted_if_the_operator_requests_new_storage(void **state)
{
	struct superblock before, after;

	begin();
	rig_bring_up();
	before = rig_superblock();
	rig_stop();
	move_away();
	rig_format_it(&asked, false, false);
	rig_fails(&asked, 168);
	assert_int_equal(rig_look()->state, INSTANCE_STOPPED); /* unchanged */
	rig_format_new(&asked, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	after = rig_superblock();
	assert_memory_not_equal(before.uuid, after.uuid, sizeof(before.uuid));
	rig_stop();
	rig_end();
}

static void a_former_mount_point_is_not_formatted_on_the_disk_below(void **state)
{
	begin();
	write_record("- 4294967295 0 1\n"); /* erased, and a mount point: here nothing is mounted */
	rig_create();
	rig_start_it(&asked);
	rig_fails(&asked, 168);
	rig_format_it(&asked, true, false);
	rig_fails(&asked, 168);
	rig_format_new(&asked, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_stop();
	restart_server();
	rig_start_it(&asked);
	rig_done(&asked);
	rig_stop();
	rig_end();
}

static void erased_storage_awaits_format(void **state)
{
	begin();
	rig_bring_up();
	rig_stop();
	rig_erase_it(&asked);
	rig_done(&asked);
	restart_server();
	rig_start_it(&asked);
	rig_fails(&asked, 152);
	assert_int_equal(rig_look()->state, INSTANCE_AWAIT_FORMAT);
	rig_format_it(&asked, false, false);
	rig_done(&asked);
	rig_until(INSTANCE_JOINED);
	rig_stop();
	move_away();
	rig_erase_it(&other); /* rejected: otherwise its data would come back */
	rig_fails(&other, 168);
	bring_back();
	rig_start_it(&asked);
	rig_done(&asked);
	rig_stop();
	rig_end();
}

static void an_invalid_record_is_ignored(void **state)
{
	static const char *const texts[] = { "", "x", "- 0 2 0\n", "nonsense 1 1 0\n", "- 0 0\n", "- -1 0 0\n" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		begin();
		write_record(texts[i]);
		rig_create();
		rig_start_it(&asked);
		rig_fails(&asked, 152);
		rig_end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_folder_that_was_removed_is_missing),
		cmocka_unit_test(a_formatted_folder_that_is_empty_now_is_missing),
		cmocka_unit_test(storage_that_returns_is_detected),
		cmocka_unit_test(a_folder_that_never_existed_is_missing),
		cmocka_unit_test(missing_storage_is_formatted_if_the_operator_requests_new_storage),
		cmocka_unit_test(a_former_mount_point_is_not_formatted_on_the_disk_below),
		cmocka_unit_test(erased_storage_awaits_format),
		cmocka_unit_test(an_invalid_record_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
