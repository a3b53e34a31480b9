/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels: created once per thread and device, counted, destroyed later; walks over all channels of a device. Simulated.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "rig.h"

enum { THREADS = 4 };

struct context {
	uint64_t made_by;
	uint64_t visits;
};

static int device; /* only its address is used */
static struct fathom_thread *threads[THREADS];
static struct channel *channels[THREADS];
static unsigned int created, destroyed, unregistered;
static int create_result;

static int create(void *dev, void *ctx)
{
	struct context *context = ctx;

	assert_ptr_equal(dev, &device);
	assert_int_equal((uintptr_t)ctx % CACHE_LINE_BYTES, 0);
	assert_int_equal(context->visits, 0);
	if (create_result)
		return create_result;
	context->made_by = thread_id(thread_self());
	created++;
	return 0;
}

static void destroy(void *dev, void *ctx)
{
	struct context *context = ctx;

	assert_ptr_equal(dev, &device);
	assert_int_equal(context->made_by, thread_id(thread_self()));
	destroyed++;
}

static unsigned int self_index(void)
{
	for (unsigned int i = 0; i < THREADS; i++) {
		if (threads[i] == thread_self())
			return i;
	}
	fail();
	return 0;
}

static void get(void *unused)
{
	channels[self_index()] = channel_get(&device);
}

static void put(void *unused)
{
	channel_put(channels[self_index()]);
}

static void on_unregistered(void *dev)
{
	assert_ptr_equal(dev, &device);
	assert_ptr_equal(thread_self(), thread_control());
	unregistered++;
}

static void unregister(void *unused)
{
	device_unregister(&device, on_unregistered);
}

static void begin(void)
{
	created = destroyed = unregistered = 0;
	create_result = 0;
	rig_start_simulated(2);
	for (unsigned int i = 0; i < THREADS; i++) {
		threads[i] = thread_create("thread", NULL);
		channels[i] = NULL;
	}
	device_register(&device, create, destroy, sizeof(struct context), "device");
	rig_settle(1000);
}

static void end(void)
{
	for (unsigned int i = 0; i < THREADS; i++)
		rig_exit(threads[i]);
	rig_stop();
}

static void on(unsigned int index, thread_fn fn)
{
	thread_send_msg(threads[index], fn, NULL);
}

static void a_thread_has_one_channel_of_a_device(void **state)
{
	struct channel *first;

	begin();
	on(0, get);
	rig_settle(1000);
	first = channels[0];
	assert_non_null(first);
	assert_ptr_equal(channel_thread(first), threads[0]);
	assert_ptr_equal(channel_from_ctx(channel_ctx(first)), first);
	on(0, get);
	on(1, get);
	rig_settle(1000);
	assert_ptr_equal(channels[0], first);
	assert_ptr_not_equal(channels[1], first);
	assert_int_equal(created, 2);
	on(0, put);
	rig_settle(1000);
	assert_int_equal(destroyed, 0);
	on(0, put);
	on(1, put);
	rig_settle(1000);
	assert_int_equal(destroyed, 2);
	thread_send_msg(thread_control(), unregister, NULL);
	rig_settle(1000);
	assert_int_equal(unregistered, 1);
	end();
}

static void put_and_get(void *unused)
{
	struct channel *before = channels[self_index()];

	put(NULL);
	get(NULL);
	assert_ptr_equal(channels[self_index()], before);
}

static void a_channel_got_again_before_its_destruction_is_kept(void **state)
{
	begin();
	on(0, get);
	on(0, put_and_get);
	on(0, put_and_get);
	rig_settle(1000);
	assert_int_equal(destroyed, 0);
	assert_int_equal(created, 1);
	on(0, put_and_get);
	on(0, put);
	rig_settle(1000);
	assert_int_equal(destroyed, 1);
	thread_send_msg(thread_control(), unregister, NULL);
	end();
}

static void unregistering_waits_for_the_last_channel(void **state)
{
	begin();
	on(0, get);
	on(1, get);
	rig_settle(1000);
	thread_send_msg(thread_control(), unregister, NULL);
	rig_settle(1000);
	on(2, get);
	rig_settle(1000);
	assert_null(channels[2]);
	on(0, put);
	rig_settle(1000);
	assert_int_equal(unregistered, 0);
	on(1, put);
	rig_settle(1000);
	assert_int_equal(unregistered, 1);
	assert_int_equal(destroyed, 2);
	end();
}

static void get_refused(void *unused)
{
	assert_null(channel_get(&device));
	assert_int_equal(errno, EPERM);
	assert_null(channel_get(&created));
	assert_int_equal(errno, ENODEV);
}

static void a_failed_creation_leaves_no_channel(void **state)
{
	begin();
	create_result = -EPERM;
	on(0, get_refused);
	rig_settle(1000);
	thread_send_msg(thread_control(), unregister, NULL);
	rig_settle(1000);
	assert_int_equal(unregistered, 1);
	assert_int_equal(destroyed, 0);
	end();
}

/* ---- the walk ---- */

static struct {
	unsigned int visits;
	uint64_t last_id;
	int stop_at; /* the n-th visit ends the walk with -ECANCELED */
	thread_fn meanwhile;
	unsigned int meanwhile_on;
	unsigned int late; /* the visit ends with the n-th message */
	struct channel_iter *iter;
	int done, status;
} walk;

static void next_message(void *left)
{
	if ((uintptr_t)left > 1)
		thread_send_msg(thread_self(), next_message, (void *)((uintptr_t)left - 1));
	else
		channel_iter_next(walk.iter, 0);
}

static void visit(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	struct context *context = channel_ctx(channel);

	assert_ptr_equal(ctx, &walk);
	assert_ptr_equal(channel_thread(channel), thread_self());
	assert_true(thread_id(thread_self()) > walk.last_id);
	walk.last_id = thread_id(thread_self());
	context->visits++;
	walk.visits++;
	if (walk.meanwhile) {
		thread_send_msg(threads[walk.meanwhile_on], walk.meanwhile, NULL);
		walk.meanwhile = NULL;
	}
	if (walk.late) {
		walk.iter = iter;
		thread_send_msg(thread_self(), next_message, (void *)(uintptr_t)walk.late);
	} else {
		channel_iter_next(iter, (int)walk.visits == walk.stop_at ? -ECANCELED : 0);
	}
}

static void visited(int status, void *ctx)
{
	assert_ptr_equal(ctx, &walk);
	assert_ptr_equal(thread_self(), thread_control());
	walk.done++;
	walk.status = status;
}

static void walk_all(void *unused)
{
	for_each_channel(&device, visit, visited, &walk);
}

static void begin_walk(void)
{
	begin();
	memset(&walk, 0, sizeof(walk));
	on(0, get);
	on(1, get);
	on(3, get);
	rig_settle(1000);
}

static void run_walk(void)
{
	thread_send_msg(thread_control(), walk_all, NULL);
	rig_settle(1000);
	assert_int_equal(walk.done, 1);
}

static void end_walk(unsigned int channels_left)
{
	for (unsigned int i = 0; i < THREADS; i++) {
		if (channels_left & (1u << i))
			on(i, put);
	}
	thread_send_msg(thread_control(), unregister, NULL);
	rig_settle(1000);
	assert_int_equal(unregistered, 1);
	assert_int_equal(created, destroyed);
	end();
}

static void a_walk_visits_each_channel_once_then_completes(void **state)
{
	begin_walk();
	run_walk();
	assert_int_equal(walk.visits, 3);
	assert_int_equal(walk.status, 0);
	end_walk(0xb);
}

static void a_status_ends_the_walk(void **state)
{
	begin_walk();
	walk.stop_at = 2;
	run_walk();
	assert_int_equal(walk.visits, 2);
	assert_int_equal(walk.status, -ECANCELED);
	end_walk(0xb);
}

static void a_walk_without_channels_succeeds(void **state)
{
	begin();
	memset(&walk, 0, sizeof(walk));
	run_walk();
	assert_int_equal(walk.visits, 0);
	end_walk(0);
}

static void a_channel_put_ahead_of_the_walk_is_left_out(void **state)
{
	begin_walk();
	walk.meanwhile = put;
	walk.meanwhile_on = 3;
	walk.late = 2 * MESSAGES_PER_STEP_MAX; /* several turns */
	run_walk();
	assert_int_equal(walk.visits, 2);
	end_walk(0x3);
}

static void a_channel_put_during_its_visit_is_kept_until_the_visit_ends(void **state)
{
	begin_walk();
	walk.meanwhile = put;
	walk.meanwhile_on = 0;
	walk.late = 2 * MESSAGES_PER_STEP_MAX; /* several turns */
	run_walk();
	assert_int_equal(walk.visits, 3);
	end_walk(0xa);
}

static void a_channel_got_ahead_of_the_walk_is_visited(void **state)
{
	begin_walk();
	walk.meanwhile = get;
	walk.meanwhile_on = 2;
	walk.late = 2 * MESSAGES_PER_STEP_MAX; /* several turns */
	run_walk();
	assert_int_equal(walk.visits, 4);
	end_walk(0xf);
}

/* Real reactors: threads start, get a channel, and end during walks. */
static _Atomic(uint64_t) walks_done, visits_real;

static int create_real(void *dev, void *ctx)
{
	(void)dev, (void)ctx;
	return 0;
}

static void destroy_real(void *dev, void *ctx)
{
	(void)dev, (void)ctx;
}

static void visit_real(struct channel_iter *iter, struct channel *channel, void *ctx)
{
	visits_real += channel_thread(channel) == thread_self();
	channel_iter_next(iter, 0);
}

static void visited_real(int status, void *ctx)
{
	walks_done += status == 0;
}

static void walk_real(void *unused)
{
	for_each_channel(&device, visit_real, visited_real, NULL);
}

/* Several turns later. */
static void leave(void *left)
{
	struct channel *channel;

	if ((uintptr_t)left > 0) {
		thread_send_msg(thread_self(), leave, (void *)((uintptr_t)left - 1));
		return;
	}
	channel = channel_get(&device); /* the second reference */
	channel_put(channel);
	channel_put(channel);
	thread_exit(thread_self());
}

static void live(void *unused)
{
	struct channel *channel = channel_get(&device);

	assert_non_null(channel);
	leave((void *)(uintptr_t)300);
}

static void unregister_real(void *unused)
{
	device_unregister(&device, NULL);
}

static void walks_among_short_lived_channels_on_real_reactors(void **state)
{
	struct fathom_thread *walker;

	walks_done = visits_real = 0;
	rig_start(2);
	device_register(&device, create_real, destroy_real, 100, "device");
	walker = thread_create("walker", rig_reactor(0));
	for (uint64_t i = 0; i < 1000; i++) {
		thread_send_msg(thread_create("short", NULL), live, NULL);
		thread_send_msg(walker, walk_real, NULL);
		if (i % 50 == 0)
			rig_wait_u64(&walks_done, i / 2);
	}
	rig_wait_u64(&walks_done, 1000);
	rig_run_on(walker, unregister_real, NULL);
	rig_exit(walker);
	rig_stop();
	print_message("# %d visits\n", (int)visits_real);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_has_one_channel_of_a_device),
		cmocka_unit_test(a_channel_got_again_before_its_destruction_is_kept),
		cmocka_unit_test(unregistering_waits_for_the_last_channel),
		cmocka_unit_test(a_failed_creation_leaves_no_channel),
		cmocka_unit_test(a_walk_visits_each_channel_once_then_completes),
		cmocka_unit_test(a_status_ends_the_walk),
		cmocka_unit_test(a_walk_without_channels_succeeds),
		cmocka_unit_test(a_channel_put_ahead_of_the_walk_is_left_out),
		cmocka_unit_test(a_channel_put_during_its_visit_is_kept_until_the_visit_ends),
		cmocka_unit_test(a_channel_got_ahead_of_the_walk_is_visited),
		cmocka_unit_test(walks_among_short_lived_channels_on_real_reactors),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
