/* SPDX-License-Identifier: BSD-2-Clause */
/* The open of a volume's files hangs, as on a disk that does not respond: all but the one change goes on. */
#include "../../../hanging_open.h"
#include "storage_rig.h"

static int control_count_volumes(void *ctx)
{
	struct volumes_info info;

	volumes_get_info(volumes, &info);
	return (int)info.volumes;
}

static int control_is_changing(void *ctx)
{
	struct volumes_info info;

	volumes_get_info(volumes, &info);
	return info.is_changing;
}

static int control_clone(void *ctx)
{
	struct volume_record clone = { .name = "c" };

	volumes_clone(volumes, &key, snapshot, &clone, note_end, ctx);
	return 0;
}

static int end_opening(void **state)
{
	hang_open(NULL);
	return end(state);
}

/* Queries and the I/O of other volumes go on. */
static void a_new_volume_whose_open_hangs_stops_no_other_call(void **state)
{
	struct call *creating;

	create_volume("a");
	write_data("before");
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	hang_open("/volumes/b/");
	key.volume = "b";
	creating = start_call(control_create);
	wait_for_hung_open();
	assert_int_equal(on_control(control_count_volumes, NULL), 1);
	assert_true(on_control(control_is_changing, NULL));
	assert_read("before");
	hang_open(NULL);
	assert_int_equal(wait_for(creating), 0);
	assert_int_equal(on_control(control_count_volumes, NULL), 2);
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void a_clone_whose_open_hangs_stops_no_other_call(void **state)
{
	struct call *cloning;

	create_volume("a");
	assert_int_equal(run(control_snapshot), 0);
	hang_open("/volumes/c/");
	cloning = start_call(control_clone);
	wait_for_hung_open();
	assert_int_equal(on_control(control_count_volumes, NULL), 1);
	hang_open(NULL);
	assert_int_equal(wait_for(cloning), 0);
	assert_int_equal(on_control(control_count_volumes, NULL), 2);
}

/* The new file is opened before the I/O of the volume is held. */
static void a_restore_whose_open_hangs_does_not_stop_the_volume(void **state)
{
	struct call *restoring;

	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	write_data("behind");
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	is_forced = true;
	hang_open("/volumes/a/data.2");
	restoring = start_call(control_restore);
	wait_for_hung_open();
	assert_read("behind");
	hang_open(NULL);
	assert_int_equal(wait_for(restoring), 0);
	assert_read("before");
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void a_storage_whose_open_hangs_stops_no_other_call(void **state)
{
	struct call *opening;

	create_volume("a");
	close_storage();
	hang_open("/volumes/a/");
	opening = start_call(control_open);
	wait_for_hung_open();
	assert_int_equal(on_control(control_count_volumes, NULL), 0);
	hang_open(NULL);
	assert_int_equal(wait_for(opening), 0);
	assert_int_equal(on_control(control_count_volumes, NULL), 1);
}

/* The engine stops during the open: the files that were opened are closed, and nothing is served. */
static void a_storage_that_is_closed_while_its_open_hangs_serves_nothing(void **state)
{
	struct call *opening, *closing;

	create_volume("a");
	create_volume("b");
	close_storage();
	hang_open("/volumes/b/");
	opening = start_call(control_open);
	wait_for_hung_open();
	closing = start_call(control_close);
	hang_open(NULL);
	assert_int_equal(wait_for(opening), 0);
	assert_int_equal(wait_for(closing), 0);
	volumes = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_new_volume_whose_open_hangs_stops_no_other_call, begin, end_opening),
		cmocka_unit_test_setup_teardown(a_clone_whose_open_hangs_stops_no_other_call, begin, end_opening),
		cmocka_unit_test_setup_teardown(a_restore_whose_open_hangs_does_not_stop_the_volume, begin, end_opening),
		cmocka_unit_test_setup_teardown(a_storage_whose_open_hangs_stops_no_other_call, begin, end_opening),
		cmocka_unit_test_setup_teardown(a_storage_that_is_closed_while_its_open_hangs_serves_nothing, begin,
						end_opening),
	};
	int result;

	if (!storage_begin())
		return 0;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	result = cmocka_run_group_tests_name("volume opening", tests, NULL, NULL);
	storage_end();
	return result;
}
