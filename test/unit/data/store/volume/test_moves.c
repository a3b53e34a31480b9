/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a volume in a move between engines: durable, and changed only in the allowed ways. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/pool/fs.h"
#include "data/store/volume/snapshots.h"
#include "../../../control_thread.h"

enum { MIB = 1 << 20 };
#define HOST "nqn.2026-11.org.fathom:a"

static char root[64];
static struct volumes *volumes;
static volatile int result; /* of the latest change; 1: it has not ended */
static struct volume_host hosts[2];
static uint32_t host_count;
static enum volume_move made_as, from, to;

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
	return volumes_open(pool_fs_system(), root, note_end, NULL, &volumes);
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
	struct pool_record record = { .name = "p", .overcommit = true };

	volumes_create_pool(volumes, &record, note_end, NULL);
	return 0;
}

static int control_create(void *ctx)
{
	struct volume_record record = { .name = "a", .size_bytes = MIB, .move = made_as };

	volumes_create(volumes, &key, &record, note_end, NULL);
	return 0;
}

static int control_move(void *ctx)
{
	const struct volume_moving moving = { from, to, hosts, from == VOLUME_MOVE_INCOMING ? host_count : 0 };

	volumes_move(volumes, &key, &moving, note_end, NULL);
	return 0;
}

static int control_publish(void *ctx)
{
	volumes_publish(volumes, &key, HOST, note_end, NULL);
	return 0;
}

static int control_resize(void *ctx)
{
	volumes_resize(volumes, &key, 2 * MIB, false, note_end, NULL);
	return 0;
}

static int control_rename(void *ctx)
{
	volumes_rename(volumes, &key, "b", note_end, NULL);
	return 0;
}

static int control_destroy(void *ctx)
{
	volumes_destroy(volumes, &key, true, note_end, NULL);
	return 0;
}

static int control_get_move(void *ctx)
{
	return (int)volumes_find(volumes, "p", "a")->record.move;
}

static int control_count_hosts(void *ctx)
{
	return (int)volumes_find(volumes, "p", "a")->record.host_count;
}

static int move(enum volume_move before, enum volume_move after)
{
	from = before;
	to = after;
	return run(control_move);
}

static void reopen(void)
{
	assert_int_equal(run(control_close), 0);
	(void)on_control(control_remove_bdevs, NULL); /* returns 0 */
	assert_int_equal(run(control_open), 0);
}

static int begin(void **state)
{
	snprintf(root, sizeof(root), "/tmp/fathom-moves-XXXXXX");
	must(mkdtemp(root));
	host_count = 0;
	made_as = VOLUME_MOVE_NONE;
	control_start(&(struct reactor_options){ 0 });
	assert_int_equal(run(control_open), 0);
	assert_int_equal(run(control_create_pool), 0);
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

static void a_copy_becomes_the_volume_with_its_hosts(void **state)
{
	made_as = VOLUME_MOVE_INCOMING;
	assert_int_equal(run(control_create), 0);
	assert_int_equal(run(control_create), 0); /* repeated */
	assert_int_equal(run(control_publish), -EBUSY);
	made_as = VOLUME_MOVE_NONE;
	assert_int_equal(run(control_create), -EEXIST);
	reopen();
	assert_int_equal(on_control(control_get_move, NULL), VOLUME_MOVE_INCOMING);
	assert_int_equal(move(VOLUME_MOVE_NONE, VOLUME_MOVE_OUTGOING), -EINVAL);
	assert_int_equal(move(VOLUME_MOVE_OUTGOING, VOLUME_MOVE_NONE), -EINVAL);
	host_count = 2;
	snprintf(hosts[0].nqn, sizeof(hosts[0].nqn), HOST);
	snprintf(hosts[1].nqn, sizeof(hosts[1].nqn), HOST "b");
	assert_int_equal(move(VOLUME_MOVE_INCOMING, VOLUME_MOVE_NONE), 0);
	assert_int_equal(move(VOLUME_MOVE_INCOMING, VOLUME_MOVE_NONE), 0); /* repeated */
	reopen();
	assert_int_equal(on_control(control_get_move, NULL), VOLUME_MOVE_NONE);
	assert_int_equal(on_control(control_count_hosts, NULL), 2);
	assert_int_equal(run(control_resize), 0);
}

static void a_volume_that_goes_away_keeps_its_hosts_and_changes_no_more(void **state)
{
	assert_int_equal(run(control_create), 0);
	assert_int_equal(run(control_publish), 0);
	assert_int_equal(move(VOLUME_MOVE_NONE, VOLUME_MOVE_OUTGOING), 0);
	assert_int_equal(run(control_publish), -EBUSY);
	assert_int_equal(run(control_resize), -EBUSY);
	assert_int_equal(run(control_rename), -EBUSY);
	reopen();
	assert_int_equal(on_control(control_get_move, NULL), VOLUME_MOVE_OUTGOING);
	assert_int_equal(move(VOLUME_MOVE_INCOMING, VOLUME_MOVE_NONE), -EINVAL);
	assert_int_equal(move(VOLUME_MOVE_OUTGOING, VOLUME_MOVE_NONE), 0);
	reopen();
	assert_int_equal(on_control(control_count_hosts, NULL), 1);
	assert_int_equal(run(control_publish), 0);
	assert_int_equal(move(VOLUME_MOVE_NONE, VOLUME_MOVE_OUTGOING), 0);
	assert_int_equal(run(control_destroy), 0);
	assert_int_equal(move(VOLUME_MOVE_OUTGOING, VOLUME_MOVE_NONE), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_copy_becomes_the_volume_with_its_hosts, begin, end),
		cmocka_unit_test_setup_teardown(a_volume_that_goes_away_keeps_its_hosts_and_changes_no_more, begin, end),
	};

	return cmocka_run_group_tests_name("volume moves", tests, NULL, NULL);
}
