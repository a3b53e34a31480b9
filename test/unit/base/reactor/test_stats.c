/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics: counts by kind, the busy time of each poller, and a snapshot while a reactor hangs. */
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "rig.h"

static sem_t release;
static _Atomic(uint64_t) stuck;

static int stick(void *ctx)
{
	if (stuck == 2)
		return 0;
	stuck = 1;
	while (sem_wait(&release))
		;
	stuck = 2;
	return 1;
}

static int nothing(void *ctx)
{
	return 0;
}

static int busy_for_a_while(void *ctx)
{
	uint64_t until = clock_ticks() + clock_ticks_from_ns(20 * NS_PER_US);

	while (clock_ticks() < until)
		;
	return 1;
}

static struct poller *pollers[5];

static void remove_pollers(void *unused)
{
	for (size_t i = 0; i < ARRAY_COUNT(pollers); i++)
		poller_unregister(&pollers[i]);
}

static void add_stuck(void *unused)
{
	pollers[0] = poller_register("innocent", nothing, NULL, 0);
	pollers[1] = poller_register("sticky", stick, NULL, 1000);
}

struct copy {
	struct thread_stats thread;
	struct poller_stats pollers[8];
	struct channel_stats channels[8];
	unsigned int seen;
};

static void copy_named(void *ctx, const struct thread_stats *stats)
{
	struct copy *copy = ctx;

	if (strcmp(stats->name, "subject") != 0)
		return;
	copy->seen++;
	copy->thread = *stats;
	assert_true(stats->poller_count <= ARRAY_COUNT(copy->pollers));
	assert_true(stats->channel_count <= ARRAY_COUNT(copy->channels));
	if (stats->poller_count > 0)
		memcpy(copy->pollers, stats->pollers, stats->poller_count * sizeof(copy->pollers[0]));
	if (stats->channel_count > 0)
		memcpy(copy->channels, stats->channels, stats->channel_count * sizeof(copy->channels[0]));
}

static void copy_first_reactor(void *ctx, const struct reactor_stats *stats)
{
	if (stats->index == 0)
		*(struct reactor_stats *)ctx = *stats;
}

static void a_stuck_poller_is_named_while_it_hangs(void **state)
{
	struct fathom_thread *thread;
	struct reactor_stats reactor, later;
	struct copy copy = { 0 };

	stuck = 0;
	assert_int_equal(sem_init(&release, 0, 0), 0);
	rig_start(1);
	thread = thread_create("subject", rig_reactor(0));
	thread_send_msg(thread, add_stuck, NULL);
	rig_wait_u64(&stuck, 1);
	usleep(5000);
	reactor_stats_walk(copy_first_reactor, &reactor);
	assert_string_equal(reactor.running, "sticky");
	assert_false(reactor.sleeping);
	assert_true(reactor.running_since_tick < clock_ticks());
	assert_true(reactor.tid > 0);
	thread_stats_walk(copy_named, &copy);
	assert_int_equal(copy.seen, 1);
	assert_int_equal(copy.thread.poller_count, 2);
	assert_int_equal(copy.pollers[0].state, POLLER_WAITING);
	assert_int_equal(copy.pollers[1].state, POLLER_RUNNING);
	assert_string_equal(copy.pollers[1].name, "sticky");
	/* its busy time includes the time of the hang so far */
	assert_true(copy.pollers[1].busy_ticks >= clock_ticks_from_ns(4 * NS_PER_MS));
	reactor_stats_walk(copy_first_reactor, &later);
	assert_int_equal(later.running_since_tick, reactor.running_since_tick);
	assert_true(reactor.longest_stall_ticks >= clock_ticks_from_ns(4 * NS_PER_MS));
	assert_true(later.longest_stall_ticks >= reactor.longest_stall_ticks);
	assert_int_equal(sem_post(&release), 0);
	rig_wait_u64(&stuck, 2);
	rig_run_on(thread, remove_pollers, NULL);
	reactor_stats_walk(copy_first_reactor, &reactor); /* it stays for a minute at least */
	assert_true(reactor.longest_stall_ticks >= later.longest_stall_ticks);
	rig_exit(thread);
	rig_stop();
	assert_int_equal(sem_destroy(&release), 0);
}

static int create(void *device, void *ctx)
{
	return 0;
}

static void destroy(void *device, void *ctx)
{
}

static int device;

static void add_many(void *unused)
{
	pollers[0] = poller_register("active", nothing, NULL, 0);
	pollers[1] = poller_register("paused", nothing, NULL, 0);
	pollers[2] = poller_register("timed", nothing, NULL, 500);
	pollers[3] = poller_register("timed and paused", nothing, NULL, 500);
	pollers[4] = poller_register("a name that is too long by far, so that of what it says the last must be given up",
				     nothing, NULL, 0);
	poller_pause(pollers[1]);
	poller_pause(pollers[3]);
	assert_non_null(channel_get(&device));
	assert_non_null(channel_get(&device));
}

static void put_twice(void *unused)
{
	struct channel *channel = channel_get(&device);

	for (int i = 0; i < 3; i++)
		channel_put(channel);
}

static void unregister(void *unused)
{
	device_unregister(&device, NULL);
}

static void pollers_and_channels_are_counted_by_kind(void **state)
{
	struct fathom_thread *thread;
	struct copy copy = { 0 };

	rig_start_simulated(2);
	device_register(&device, create, destroy, 8, "disk0");
	thread = thread_create("subject", reactor_at(1));
	thread_send_msg(thread, add_many, NULL);
	rig_settle(1000);
	(void)reactor_step(reactor_at(1), 2000);
	thread_stats_walk(copy_named, &copy);
	assert_int_equal(copy.thread.id, 2); /* 1 is the control thread */
	assert_int_equal(copy.thread.cpu, 1);
	assert_false(copy.thread.control);
	assert_int_equal(copy.thread.active_pollers, 2);
	assert_int_equal(copy.thread.timed_pollers, 1);
	assert_int_equal(copy.thread.paused_pollers, 2);
	assert_int_equal(copy.thread.poller_count, 5);
	assert_int_equal(copy.thread.elapsed_ticks, 1000);
	assert_int_equal(copy.thread.busy_ticks + copy.thread.idle_ticks, 1000);
	assert_int_equal(copy.pollers[2].period_ticks, 500);
	assert_int_equal(copy.pollers[2].run_count, 1);
	assert_int_equal(copy.pollers[3].state, POLLER_PAUSED);
	assert_true(copy.pollers[3].timed);
	assert_int_equal(strlen(copy.pollers[4].name), POLLER_NAME_BYTES_MAX - 1);
	assert_int_equal(copy.thread.channel_count, 1);
	assert_string_equal(copy.channels[0].device, "disk0");
	assert_int_equal(copy.channels[0].ref_count, 2);
	thread_send_msg(thread, put_twice, NULL);
	thread_send_msg(thread, remove_pollers, NULL);
	thread_send_msg(thread_control(), unregister, NULL);
	rig_settle(2000);
	rig_exit(thread);
	rig_stop();
}

static void add_busy(void *unused)
{
	pollers[0] = poller_register("idle", nothing, NULL, 0);
	pollers[1] = poller_register("busy", busy_for_a_while, NULL, 0);
}

static void busy_time_is_counted_for_the_busy_poller(void **state)
{
	struct fathom_thread *thread;
	struct copy copy = { 0 };

	rig_start(1);
	thread = thread_create("subject", rig_reactor(0));
	rig_run_on(thread, add_busy, NULL);
	do {
		usleep(1000);
		thread_stats_walk(copy_named, &copy);
	} while (copy.pollers[1].busy_count < 100);
	assert_int_equal(copy.pollers[0].busy_ticks, 0);
	assert_int_equal(copy.pollers[0].busy_count, 0);
	assert_true(copy.pollers[1].busy_ticks >= copy.pollers[1].busy_count * clock_ticks_from_ns(20 * NS_PER_US));
	assert_true(copy.thread.busy_ticks >= copy.pollers[1].busy_ticks);
	rig_run_on(thread, remove_pollers, NULL);
	rig_exit(thread);
	rig_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stuck_poller_is_named_while_it_hangs),
		cmocka_unit_test(pollers_and_channels_are_counted_by_kind),
		cmocka_unit_test(busy_time_is_counted_for_the_busy_poller),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
