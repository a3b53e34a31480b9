/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The costs of turns, messages and wake-ups. Times are printed and never asserted, since other programs use the machine.
 * Asserted is only that an idle reactor sleeps and is not woken.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/bits.h"
#include "rig.h"

enum { WAKES = 200, PLAY_MS = 300 };

static int idle_poller(void *ctx)
{
	(void)ctx;
	return 0;
}

struct idlers {
	struct poller *pollers[2];
};

static void add_idlers(void *ctx)
{
	struct idlers *idlers = ctx;

	for (size_t i = 0; i < ARRAY_COUNT(idlers->pollers); i++)
		idlers->pollers[i] = poller_register("idle", idle_poller, NULL, 0);
}

static void remove_idlers(void *ctx)
{
	struct idlers *idlers = ctx;

	for (size_t i = 0; i < ARRAY_COUNT(idlers->pollers); i++)
		poller_unregister(&idlers->pollers[i]);
}

static void read_runs(void *ctx, const struct thread_stats *stats)
{
	if (stats->poller_count > 0)
		*(uint64_t *)ctx = stats->pollers[0].run_count;
}

static void print_the_time_of_a_turn_with_two_idle_pollers(void **state)
{
	struct fathom_thread *thread;
	struct idlers idlers;
	uint64_t runs_from = 0, runs_to = 0, from, to;

	rig_start_spinning(1, REACTOR_SPIN_FOREVER);
	thread = thread_create("idle", rig_reactor(0));
	rig_run_on(thread, add_idlers, &idlers);
	usleep(20000);
	thread_stats_walk(read_runs, &runs_from);
	from = clock_monotonic_ns();
	/* on a busy machine it can take a while until the counts change */
	for (int tries = 0; tries < 100; tries++) {
		usleep(200000);
		thread_stats_walk(read_runs, &runs_to);
		if (runs_to > runs_from)
			break;
	}
	to = clock_monotonic_ns();
	assert_true(runs_to > runs_from);
	print_message("# turn with 2 idle pollers: %.1f ns\n", (double)(to - from) / (double)(runs_to - runs_from));
	rig_run_on(thread, remove_idlers, &idlers);
	rig_exit(thread);
	rig_stop();
}

struct ball {
	struct fathom_thread *player[2];
	uint64_t until_ns, caught;
	_Atomic(uint64_t) fallen;
};

static void catch_ball(void *ctx)
{
	struct ball *ball = ctx;

	ball->caught++;
	if (clock_monotonic_ns() > ball->until_ns) {
		ball->fallen = 1;
		return;
	}
	thread_send_msg(ball->player[thread_self() == ball->player[0]], catch_ball, ball);
}

static void print_the_time_of_a_message_round_trip(void **state)
{
	struct ball ball = { .until_ns = 0 };
	uint64_t from;

	rig_start_spinning(2, REACTOR_SPIN_FOREVER);
	ball.player[0] = thread_create("one", rig_reactor(0));
	ball.player[1] = thread_create("other", rig_reactor(1));
	from = clock_monotonic_ns();
	ball.until_ns = from + PLAY_MS * NS_PER_MS;
	thread_send_msg(ball.player[0], catch_ball, &ball);
	rig_wait_u64(&ball.fallen, 1);
	print_message("# message round trip between %s: %.0f ns\n",
		      reactors_count() > 1 ? "two reactors" : "threads of one reactor",
		      (double)(clock_monotonic_ns() - from) * 2 / (double)ball.caught);
	rig_exit(ball.player[0]);
	rig_exit(ball.player[1]);
	rig_stop();
}

struct wakes {
	int fd;
	struct fd_watch *watch;
	struct poller *timer;
	uint64_t due; /* in ticks */
	_Atomic(uint64_t) sent_tick, count;
	uint64_t latency[WAKES];
};

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print_latency(const char *what, struct wakes *wakes)
{
	qsort(wakes->latency, WAKES, sizeof(wakes->latency[0]), by_size);
	print_message("# woken by %s: median %.1f us, 90%% %.1f us, most %.1f us\n", what,
		      (double)clock_ns_from_ticks(wakes->latency[WAKES / 2]) / 1e3,
		      (double)clock_ns_from_ticks(wakes->latency[WAKES * 9 / 10]) / 1e3,
		      (double)clock_ns_from_ticks(wakes->latency[WAKES - 1]) / 1e3);
}

static void woken(void *ctx)
{
	struct wakes *wakes = ctx;

	wakes->latency[wakes->count] = clock_ticks() - wakes->sent_tick;
	wakes->count++;
}

static void woken_by_fd(void *ctx, uint32_t events)
{
	struct wakes *wakes = ctx;
	uint64_t value;

	assert_true(events & EPOLLIN);
	assert_int_equal(read(wakes->fd, &value, sizeof(value)), sizeof(value));
	woken(ctx);
}

static int woken_by_timer(void *ctx)
{
	struct wakes *wakes = ctx;

	if (wakes->count < WAKES) {
		wakes->sent_tick = wakes->due;
		woken(ctx);
		wakes->due += clock_ticks_from_ns(2 * NS_PER_MS);
	}
	return 0;
}

static void watch(void *ctx)
{
	struct wakes *wakes = ctx;

	wakes->watch = fd_watch_add(wakes->fd, EPOLLIN, woken_by_fd, wakes);
	assert_non_null(wakes->watch);
}

static void unwatch(void *ctx)
{
	struct wakes *wakes = ctx;

	fd_watch_remove(&wakes->watch);
}

static void start_timer(void *ctx)
{
	struct wakes *wakes = ctx;

	wakes->timer = poller_register("timer", woken_by_timer, wakes, 2 * NS_PER_MS);
	wakes->due = reactor_tick() + clock_ticks_from_ns(2 * NS_PER_MS);
}

static void stop_timer(void *ctx)
{
	struct wakes *wakes = ctx;

	poller_unregister(&wakes->timer);
}

static void print_the_time_of_waking_a_sleeping_reactor(void **state)
{
	struct wakes wakes = { .fd = eventfd(0, EFD_NONBLOCK) };
	struct fathom_thread *thread;
	uint64_t one = 1;

	rig_start(1);
	thread = thread_create("sleeper", rig_reactor(0));
	for (uint64_t i = 0; i < WAKES; i++) {
		usleep(2000);
		wakes.sent_tick = clock_ticks();
		thread_send_msg(thread, woken, &wakes);
		rig_wait_u64(&wakes.count, i + 1);
	}
	print_latency("message", &wakes);
	wakes.count = 0;
	rig_run_on(thread, watch, &wakes);
	for (uint64_t i = 0; i < WAKES; i++) {
		usleep(2000);
		wakes.sent_tick = clock_ticks();
		assert_int_equal(write(wakes.fd, &one, sizeof(one)), sizeof(one));
		rig_wait_u64(&wakes.count, i + 1);
	}
	print_latency("descriptor", &wakes);
	rig_run_on(thread, unwatch, &wakes);
	wakes.count = 0;
	rig_run_on(thread, start_timer, &wakes);
	rig_wait_u64(&wakes.count, WAKES);
	print_latency("timer (after it was due)", &wakes);
	rig_run_on(thread, stop_timer, &wakes);
	rig_exit(thread);
	rig_stop();
	close(wakes.fd);
}

static void read_sleeps(void *ctx, const struct reactor_stats *stats)
{
	if (stats->index == 0)
		*(struct reactor_stats *)ctx = *stats;
}

static void an_idle_reactor_sleeps_and_is_not_woken(void **state)
{
	struct reactor_stats before, after;
	struct fathom_thread *thread;
	struct idlers idlers;
	struct wakes wakes = { .fd = eventfd(0, EFD_NONBLOCK) };

	rig_start(1);
	thread = thread_create("idle", rig_reactor(0));
	rig_run_on(thread, add_idlers, &idlers);
	rig_run_on(thread, watch, &wakes);
	do {
		usleep(10000);
		reactor_stats_walk(read_sleeps, &before);
	} while (!before.sleeping);
	usleep(500000);
	reactor_stats_walk(read_sleeps, &after);
	assert_true(after.sleeping);
	assert_int_equal(after.sleep_count, before.sleep_count);
	assert_true(after.idle_ticks > before.idle_ticks);
	print_message("# idle for half a second: %d wake-ups, %d ms of processor time\n",
		      (int)(after.sleep_count - before.sleep_count),
		      (int)(after.usr_ms + after.sys_ms - before.usr_ms - before.sys_ms));
	rig_run_on(thread, unwatch, &wakes);
	rig_run_on(thread, remove_idlers, &idlers);
	rig_exit(thread);
	rig_stop();
	close(wakes.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(print_the_time_of_a_turn_with_two_idle_pollers),
		cmocka_unit_test(print_the_time_of_a_message_round_trip),
		cmocka_unit_test(print_the_time_of_waking_a_sleeping_reactor),
		cmocka_unit_test(an_idle_reactor_sleeps_and_is_not_woken),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
