/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties of a pool: durable, limited by what its volumes have and were promised; when they are scrubbed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "data/store/pool/fs.h"
#include "data/store/volume/scrub.h"
#include "data/store/volume/volumes.h"
#include "../../../control_thread.h"

enum { MIB = 1 << 20 };

static char root[64];
static struct pool_fs calls;
static volatile uint64_t free_bytes; /* of the file system; 0: as it is */
static struct volumes *volumes;
static volatile int result; /* of the latest change; 1: it has not ended */
static struct pool_record values;
static bool is_forced;
static uint32_t properties; /* that are set; 0: all */

static int test_space(void *ctx, int folder, uint64_t *total_ret, uint64_t *free_ret)
{
	int error = pool_fs_system()->space(ctx, folder, total_ret, free_ret);

	if (error == 0 && free_bytes)
		*total_ret = *free_ret = free_bytes;
	return error;
}

static void note_end(void *ctx, const struct fathom_fault *why)
{
	result = why ? why->error : 0;
}

static void note_closed(void *ctx)
{
	result = 0;
}

/* Run it on the control thread, and return the result of the change. */
static int run(int (*fn)(void *ctx))
{
	result = 1;
	assert_int_equal(on_control(fn, NULL), 0);
	while (result == 1)
		usleep(200);
	return result;
}

static const struct volume_key key = { .pool = "p", .volume = "a" };

static int control_open(void *ctx)
{
	return volumes_open(&calls, root, note_end, NULL, &volumes);
}

static int control_close(void *ctx)
{
	volumes_close(volumes, note_closed, NULL);
	return 0;
}

static int control_remove_bdevs(void *ctx)
{
	struct bdev *bdev;

	while ((bdev = bdev_first()))
		must(bdev_unregister(bdev, NULL, NULL) == 0);
	return 0;
}

static int control_create_pool(void *ctx)
{
	struct pool_record record = { .name = "p", .uuid = { 7 } };

	volumes_create_pool(volumes, &record, note_end, NULL);
	return 0;
}

static int control_create(void *ctx)
{
	struct volume_record record = { .name = "a", .size_bytes = 8 * MIB, .checksums = true };

	volumes_create(volumes, &key, &record, note_end, NULL);
	return 0;
}

static int control_create_export(void *ctx)
{
	const struct volume_key export = { .pool = "p", .volume = "export" };
	struct volume_record record = { .name = "export", .size_bytes = 8 * MIB, .block_bytes = 4096, .read_only = true };

	volumes_create(volumes, &export, &record, note_end, NULL);
	return 0;
}

static int control_set(void *ctx)
{
	const struct pool_setting setting = { .values = values, .properties = properties, .force = is_forced };

	volumes_set_pool(volumes, &key, &setting, note_end, NULL);
	return 0;
}

static int control_get(void *ctx)
{
	*(struct pool_record *)ctx = volumes_find_pool(volumes, "p")->record;
	return 0;
}

/* Seconds until the next scrub. */
static int control_scrub_due(void *ctx)
{
	return (int)((volumes_find(volumes, "p", "a")->scrub.due_ns - clock_monotonic_ns()) / NS_PER_SEC);
}

static int control_has_scrubbed(void *ctx)
{
	volumes_set_scrub_rate(volumes, 1 << 30);
	return volumes_find(volumes, "p", "a")->scrub.ended_ns > 0;
}

static void reopen(void)
{
	assert_int_equal(run(control_close), 0);
	(void)on_control(control_remove_bdevs, NULL); /* returns 0 */
	assert_int_equal(run(control_open), 0);
}

static int begin(void **state)
{
	snprintf(root, sizeof(root), "/tmp/fathom-pool-set-XXXXXX");
	must(mkdtemp(root));
	calls = *pool_fs_system();
	calls.space = test_space;
	free_bytes = 0;
	is_forced = false;
	properties = 0;
	values = (struct pool_record){ 0 };
	control_start(&(struct reactor_options){ 0 });
	assert_int_equal(run(control_open), 0);
	assert_int_equal(run(control_create_pool), 0);
	assert_int_equal(run(control_create), 0);
	return 0;
}

static int end(void **state)
{
	char command[128];

	assert_int_equal(run(control_close), 0);
	(void)on_control(control_remove_bdevs, NULL); /* returns 0 */
	control_stop();
	snprintf(command, sizeof(command), "rm -rf %s", root);
	must(system(command) == 0);
	return 0;
}

/* ---- cases ---- */

static void values_are_kept(void **state)
{
	struct pool_record record;

	values = (struct pool_record){ .size_bytes = 9 * MIB, .scrub_off = true, .scrub_seconds = 3600 };
	assert_int_equal(run(control_set), 0);
	assert_int_equal(run(control_set), 0); /* repeated */
	reopen();
	(void)on_control(control_get, &record); /* returns 0 */
	assert_int_equal(record.size_bytes, 9 * MIB);
	assert_true(record.scrub_off && !record.overcommit);
	assert_int_equal(record.scrub_seconds, 3600);
	assert_int_equal(record.uuid[0], 7);
	values = (struct pool_record){ 0 };
	assert_int_equal(run(control_set), 0);
	(void)on_control(control_get, &record); /* returns 0 */
	assert_true(record.size_bytes == 0 && !record.scrub_off && record.scrub_seconds == 0);
}

static void a_size_below_that_of_the_volumes_needs_force(void **state)
{
	struct pool_record record;

	values.size_bytes = 4 * MIB;
	assert_int_equal(run(control_set), -ENOSPC);
	is_forced = true;
	assert_int_equal(run(control_set), 0);
	is_forced = false;
	values.overcommit = true;
	assert_int_equal(run(control_set), 0); /* a thin volume does not count */
	values.overcommit = false;
	assert_int_equal(run(control_set), -ENOSPC);
	(void)on_control(control_get, &record); /* returns 0 */
	assert_true(record.overcommit);
}

/* The pool has less than its volumes need, which forbids no change of another property. */
static void a_property_is_set_without_the_others(void **state)
{
	struct pool_record record;

	values.size_bytes = 4 * MIB;
	is_forced = true;
	assert_int_equal(run(control_set), 0);
	is_forced = false;
	values = (struct pool_record){ .scrub_off = true, .scrub_seconds = 60 };
	properties = POOL_PROPERTY_SCRUB;
	assert_int_equal(run(control_set), 0);
	(void)on_control(control_get, &record); /* returns 0 */
	assert_true(record.scrub_off && record.scrub_seconds == 0 && record.size_bytes == 4 * MIB);
	properties = POOL_PROPERTY_SCRUB_SECONDS | POOL_PROPERTY_OVERCOMMIT;
	values = (struct pool_record){ .overcommit = true, .scrub_seconds = 60 };
	assert_int_equal(run(control_set), 0);
	properties = POOL_PROPERTY_SIZE;
	values = (struct pool_record){ .size_bytes = 9 * MIB };
	assert_int_equal(run(control_set), 0);
	(void)on_control(control_get, &record); /* returns 0 */
	assert_true(record.scrub_off && record.overcommit && record.size_bytes == 9 * MIB);
	assert_int_equal(record.scrub_seconds, 60);
}

static void a_clone_that_is_only_read_does_not_count(void **state)
{
	assert_int_equal(run(control_create_export), 0);
	values.size_bytes = 9 * MIB; /* the other volume has 8 */
	assert_int_equal(run(control_set), 0);
}

/* A pool without overcommit has promised its volumes. Force does not make space. */
static void overcommit_ends_only_if_the_promises_fit(void **state)
{
	values.overcommit = true;
	assert_int_equal(run(control_set), 0);
	free_bytes = 4 * MIB;
	values.overcommit = false;
	assert_int_equal(run(control_set), -ENOSPC);
	is_forced = true;
	assert_int_equal(run(control_set), -ENOSPC);
	free_bytes = 16 * MIB;
	assert_int_equal(run(control_set), 0);
}

static int control_create_copy(void *ctx)
{
	struct volume_record record = { .name = "b", .size_bytes = MIB, .move = VOLUME_MOVE_INCOMING };

	volumes_create(volumes, &key, &record, note_end, NULL);
	return 0;
}

static int control_accept_copy(void *ctx)
{
	const struct volume_key copy = { .pool = "p", .volume = "b" };
	const struct volume_moving moving = { .from = VOLUME_MOVE_INCOMING, .to = VOLUME_MOVE_NONE };

	volumes_move(volumes, &copy, &moving, note_end, NULL);
	return 0;
}

static void overcommit_does_not_change_during_a_move_to_the_pool(void **state)
{
	assert_int_equal(run(control_create_copy), 0);
	values.overcommit = true;
	assert_int_equal(run(control_set), -EBUSY);
	is_forced = true;
	assert_int_equal(run(control_set), -EBUSY);
	values = (struct pool_record){ .scrub_seconds = 3600 };
	assert_int_equal(run(control_set), 0);
	assert_int_equal(run(control_accept_copy), 0);
	values.overcommit = true;
	assert_int_equal(run(control_set), 0);
}

static void volumes_are_scrubbed_as_their_pool_says(void **state)
{
	assert_in_range(on_control(control_scrub_due, NULL), 0, SCRUB_FIRST_SEC);
	values.scrub_seconds = 36000;
	assert_int_equal(run(control_set), 0);
	assert_in_range(on_control(control_scrub_due, NULL), SCRUB_FIRST_SEC + 1, 36000);
	values.scrub_seconds = 1;
	assert_int_equal(run(control_set), 0);
	for (uint64_t until = clock_monotonic_ns() + 60 * NS_PER_SEC; !on_control(control_has_scrubbed, NULL);) {
		assert_true(clock_monotonic_ns() < until);
		usleep(1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(values_are_kept, begin, end),
		cmocka_unit_test_setup_teardown(a_size_below_that_of_the_volumes_needs_force, begin, end),
		cmocka_unit_test_setup_teardown(a_property_is_set_without_the_others, begin, end),
		cmocka_unit_test_setup_teardown(a_clone_that_is_only_read_does_not_count, begin, end),
		cmocka_unit_test_setup_teardown(overcommit_ends_only_if_the_promises_fit, begin, end),
		cmocka_unit_test_setup_teardown(overcommit_does_not_change_during_a_move_to_the_pool, begin, end),
		cmocka_unit_test_setup_teardown(volumes_are_scrubbed_as_their_pool_says, begin, end),
	};

	return cmocka_run_group_tests_name("volume pool_set", tests, NULL, NULL);
}
