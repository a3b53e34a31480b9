/* SPDX-License-Identifier: BSD-2-Clause */
/* Watched descriptors: callbacks on their thread, level-triggered, and none after the removal. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bits.h"
#include "rig.h"

enum { WATCHES = 8 };

struct watched {
	int fd;
	struct fd_watch *watch;
	struct watched *removes; /* in its callback */
	_Atomic(bool) drains;
	_Atomic(uint64_t) calls;
};

static struct watched watched[WATCHES];
static struct fathom_thread *home;
static _Atomic(uint64_t) wrong_thread;

static void on_ready(void *ctx, uint32_t events)
{
	struct watched *w = ctx;
	uint64_t value;

	wrong_thread += thread_self() != home;
	wrong_thread += (events & EPOLLIN) == 0;
	if (w->drains)
		(void)!read(w->fd, &value, sizeof(value));
	w->calls++; /* after the read, which otherwise could read the next poke too */
	for (size_t i = 0; w->removes && i < WATCHES; i++) {
		if (w->removes == &watched[i] || w->removes == watched + WATCHES)
			fd_watch_remove(&watched[i].watch);
	}
}

static void watch_all(void *unused)
{
	for (size_t i = 0; i < WATCHES; i++) {
		watched[i].watch = fd_watch_add(watched[i].fd, EPOLLIN, on_ready, &watched[i]);
		assert_non_null(watched[i].watch);
	}
}

static void remove_all(void *unused)
{
	for (size_t i = 0; i < WATCHES; i++)
		fd_watch_remove(&watched[i].watch);
}

static void begin(void)
{
	wrong_thread = 0;
	rig_start(2);
	home = thread_create("watcher", rig_reactor(0));
	for (size_t i = 0; i < WATCHES; i++)
		watched[i] = (struct watched){ .fd = eventfd(0, EFD_NONBLOCK) };
}

static void end(void)
{
	rig_run_on(home, remove_all, NULL);
	rig_exit(home);
	rig_stop();
	for (size_t i = 0; i < WATCHES; i++)
		close(watched[i].fd);
	assert_int_equal(wrong_thread, 0);
}

static void poke(const struct watched *w)
{
	uint64_t one = 1;

	assert_int_equal(write(w->fd, &one, sizeof(one)), sizeof(one));
}

static void a_ready_descriptor_is_reported_until_drained(void **state)
{
	begin();
	rig_run_on(home, watch_all, NULL);
	poke(&watched[0]);
	rig_wait_u64(&watched[0].calls, 5); /* it is still readable */
	watched[0].drains = true;
	for (uint64_t round = 1; round <= 500; round++) {
		watched[1].drains = true;
		poke(&watched[1]);
		rig_wait_u64(&watched[1].calls, round);
		if (round % 100 == 0)
			usleep(2000); /* let the reactor sleep */
	}
	assert_int_equal(watched[2].calls, 0);
	end();
}

static uint64_t total_calls(void)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < WATCHES; i++)
		calls += watched[i].calls;
	return calls;
}

/* All are ready in one batch; the first callback removes all watches, also its own. */
static void no_callback_after_removal_also_for_collected_events(void **state)
{
	for (int round = 0; round < 50; round++) {
		begin();
		for (size_t i = 0; i < WATCHES; i++) {
			watched[i].removes = watched + WATCHES;
			poke(&watched[i]);
		}
		rig_run_on(home, watch_all, NULL);
		for (int waited = 0; total_calls() == 0 && waited < 100000; waited++)
			usleep(100);
		usleep(500);
		end();
		assert_int_equal(total_calls(), 1);
	}
}

static void watch_nothing(void *unused)
{
	fd_watch_modify(watched[0].watch, 0);
}

static void watch_input(void *unused)
{
	fd_watch_modify(watched[0].watch, EPOLLIN);
}

static void a_watch_can_be_disabled_and_enabled(void **state)
{
	uint64_t calls;

	begin();
	rig_run_on(home, watch_all, NULL);
	rig_run_on(home, watch_nothing, NULL);
	calls = watched[0].calls;
	poke(&watched[0]);
	usleep(5000);
	assert_int_equal(watched[0].calls, calls);
	rig_run_on(home, watch_input, NULL);
	rig_wait_u64(&watched[0].calls, calls + 1);
	end();
}

static void watch_closed(void *unused)
{
	struct fd_watch *watch = fd_watch_add(-1, EPOLLIN, on_ready, NULL);

	assert_null(watch);
	assert_int_equal(errno, EBADF);
}

static void a_descriptor_refused_by_epoll_is_an_error(void **state)
{
	begin();
	rig_run_on(home, watch_closed, NULL);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ready_descriptor_is_reported_until_drained),
		cmocka_unit_test(no_callback_after_removal_also_for_collected_events),
		cmocka_unit_test(a_watch_can_be_disabled_and_enabled),
		cmocka_unit_test(a_descriptor_refused_by_epoll_is_an_error),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
