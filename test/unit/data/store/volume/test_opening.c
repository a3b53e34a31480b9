/* SPDX-License-Identifier: BSD-2-Clause */
/* The open or the close of a volume's files hangs, as on a disk that does not respond: all but the one change goes on. */
#include "../../../descriptor_count.h"
#include "../../../hanging_close.h"
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

static int control_destroy(void *ctx)
{
	volumes_destroy(volumes, &key, true, note_end, ctx);
	return 0;
}

static int control_count_devices(void *ctx)
{
	int count = 0;

	for (const struct bdev *bdev = bdev_first(); bdev; bdev = bdev_next(bdev))
		count++;
	return count;
}

static int control_count_going(void *ctx)
{
	return (int)bdev_going_count();
}

static int control_hung_is_a(void *ctx)
{
	const struct bdev_going *going = bdev_going_next(NULL);

	return going && strcmp(going->name, "p/a") == 0;
}

static void hang_close_of(const char *volume)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/pools/p/volumes/%s/data.1", root, volume);
	hang_close(path);
}

static bool has_ended(const struct call *call)
{
	bool ended;

	pthread_mutex_lock(&mutex);
	ended = call->error != 1;
	pthread_mutex_unlock(&mutex);
	return ended;
}

static void wait_until_none_goes(void)
{
	for (uint64_t end_ns = clock_monotonic_ns() + 60 * NS_PER_SEC; on_control(control_count_going, NULL) > 0;) {
		assert_true(clock_monotonic_ns() < end_ns);
		usleep(1000);
	}
}

static int end_opening(void **state)
{
	hang_open(NULL); /* also after an assertion */
	hang_close(NULL);
	return end(state);
}

/* Volume p/a with data, and a host that uses it. */
static void create_used_volume(void)
{
	create_volume("a");
	write_data("before");
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
}

/* While `hung` runs: queries are answered, p/a is read, and the next change waits for its turn. */
static void assert_others_go_on(const struct call *hung, int volume_count)
{
	struct call *next;

	assert_int_equal(on_control(control_count_volumes, NULL), volume_count);
	assert_true(on_control(control_is_changing, NULL));
	assert_read("before");
	key.volume = "next";
	next = start_call(control_create);
	assert_int_equal(on_control(control_count_volumes, NULL), volume_count);
	assert_read("before");
	assert_false(has_ended(hung));
	assert_false(has_ended(next));
	hang_open(NULL);
	assert_int_equal(wait_for(hung), 0);
	assert_int_equal(wait_for(next), 0);
	assert_int_equal(on_control(control_count_volumes, NULL), volume_count + 2);
	assert_int_equal(on_control(control_count_devices, NULL), volume_count + 2);
	assert_read("before");
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void a_new_volume_whose_open_hangs_stops_no_other_call(void **state)
{
	struct call *creating;

	create_used_volume();
	hang_open("/volumes/b/");
	key.volume = "b";
	creating = start_call(control_create);
	wait_for_hung_open();
	assert_others_go_on(creating, 1);
}

static void a_clone_whose_open_hangs_stops_no_other_call(void **state)
{
	struct call *cloning;

	create_used_volume();
	assert_int_equal(run(control_snapshot), 0);
	hang_open("/volumes/c/");
	cloning = start_call(control_clone);
	wait_for_hung_open();
	assert_others_go_on(cloning, 1);
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
	assert_false(on_control(control_is_held, NULL));
	assert_false(has_ended(restoring));
	hang_open(NULL);
	assert_int_equal(wait_for(restoring), 0);
	assert_read("before");
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

static void a_storage_whose_open_hangs_stops_no_other_call(void **state)
{
	struct call *opening;

	create_volume("a");
	write_data("before");
	create_volume("b");
	close_storage();
	hang_open("/volumes/b/");
	opening = start_call(control_open);
	wait_for_hung_open();
	for (int i = 0; i < 10; i++) { /* the control thread answers, and serves nothing yet */
		assert_int_equal(on_control(control_count_volumes, NULL), 0);
		assert_int_equal(on_control(control_count_devices, NULL), 0);
	}
	assert_false(has_ended(opening));
	hang_open(NULL);
	assert_int_equal(wait_for(opening), 0);
	assert_int_equal(on_control(control_count_volumes, NULL), 2);
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	assert_read("before");
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

/* The engine stops during the open: the files that were opened are closed, and nothing is served. */
static void a_storage_that_is_closed_while_its_open_hangs_serves_nothing(void **state)
{
	struct call *opening, *closing;
	uint32_t descriptors;

	create_volume("a");
	create_volume("b");
	close_storage();
	wait_until_none_goes();
	descriptors = descriptor_count();
	hang_open("/volumes/b/");
	opening = start_call(control_open);
	wait_for_hung_open();
	closing = start_call(control_close);
	assert_int_equal(on_control(control_count_devices, NULL), 0);
	assert_false(has_ended(opening));
	assert_false(has_ended(closing));
	hang_open(NULL);
	assert_int_equal(wait_for(opening), 0);
	assert_int_equal(wait_for(closing), 0);
	volumes = NULL;
	assert_int_equal(on_control(control_count_devices, NULL), 0);
	wait_until_none_goes();
	assert_int_equal(descriptor_count(), descriptors);
}

/* ---- close ---- */

static void a_destroyed_volume_whose_close_hangs_stops_no_other_call(void **state)
{
	create_used_volume();
	create_volume("b");
	hang_close_of("b");
	assert_int_equal(run(control_destroy), 0);
	wait_for_hung_closes(1);
	assert_int_equal(on_control(control_count_volumes, NULL), 1);
	assert_read("before");
	create_volume("c");
	assert_int_equal(on_control(control_count_going, NULL), 1);
	hang_close(NULL);
	wait_until_none_goes();
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

/* The former file of a volume is closed after its I/O goes on. */
static void a_restore_whose_close_hangs_does_not_stop_the_volume(void **state)
{
	create_volume("a");
	write_data("before");
	assert_int_equal(run(control_snapshot), 0);
	write_data("behind");
	assert_int_equal(on_control(control_use, (void *)"p/a"), 0);
	assert_read("behind");
	is_forced = true;
	hang_close_of("a");
	assert_int_equal(run(control_restore), 0);
	wait_for_hung_closes(1);
	assert_read("before");
	assert_false(on_control(control_is_held, NULL));
	create_volume("b");
	assert_int_equal(on_control(control_count_going, NULL), 1);
	hang_close(NULL);
	wait_until_none_goes();
	assert_read("before");
	assert_int_equal(on_control(control_unuse, NULL), 0);
}

/* As an engine does it when it stops: the storage is closed, the block devices go but for the one that hangs. */
static void a_close_that_hangs_at_a_stop_keeps_one_device(void **state)
{
	create_volume("a");
	create_volume("b");
	hang_close_of("a");
	close_storage();
	wait_for_hung_closes(1);
	for (uint64_t end_ns = clock_monotonic_ns() + 60 * NS_PER_SEC; on_control(control_count_going, NULL) > 1;) {
		assert_true(clock_monotonic_ns() < end_ns);
		usleep(1000);
	}
	assert_int_equal(on_control(control_count_going, NULL), 1);
	assert_true(on_control(control_hung_is_a, NULL));
	hang_close(NULL);
	wait_until_none_goes();
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
		cmocka_unit_test_setup_teardown(a_destroyed_volume_whose_close_hangs_stops_no_other_call, begin,
						end_opening),
		cmocka_unit_test_setup_teardown(a_restore_whose_close_hangs_does_not_stop_the_volume, begin, end_opening),
		cmocka_unit_test_setup_teardown(a_close_that_hangs_at_a_stop_keeps_one_device, begin, end_opening),
	};
	int result;

	if (!storage_begin())
		return 0;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	result = cmocka_run_group_tests_name("volume opening", tests, NULL, NULL);
	storage_end();
	return result;
}
