/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <sched.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static void start(unsigned int count, uint64_t spin_ns, bool simulated)
{
	struct reactor_options options = { .spin_ns = spin_ns, .simulated = simulated, .simulated_tick = 1000 };
	cpu_set_t cpus;

	assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	for (unsigned int cpu = 0; cpu < CPUSET_CPUS_MAX && count > 0; cpu++) {
		if (simulated || CPU_ISSET(cpu, &cpus)) {
			cpuset_add(&options.cpus, cpu);
			count--;
		}
	}
	assert_int_equal(reactors_start(&options), 0);
}

void rig_start(unsigned int count)
{
	start(count, 0, false);
}

void rig_start_spinning(unsigned int count, uint64_t spin_ns)
{
	start(count, spin_ns, false);
}

void rig_start_simulated(unsigned int count)
{
	start(count, 0, true);
}

void rig_stop(void)
{
	reactors_stop();
}

struct reactor *rig_reactor(unsigned int index)
{
	return reactor_at(index % reactors_count());
}

struct call {
	thread_fn fn;
	void *ctx;
	sem_t done;
};

static void run_call(void *ctx)
{
	struct call *call = ctx;

	call->fn(call->ctx);
	assert_int_equal(sem_post(&call->done), 0);
}

void rig_run_on(struct fathom_thread *thread, thread_fn fn, void *ctx)
{
	struct call call = { .fn = fn, .ctx = ctx };

	assert_int_equal(sem_init(&call.done, 0, 0), 0);
	thread_send_msg(thread, run_call, &call);
	while (sem_wait(&call.done))
		;
	assert_int_equal(sem_destroy(&call.done), 0);
}

static void exit_message(void *thread)
{
	thread_exit(thread);
}

void rig_exit(struct fathom_thread *thread)
{
	thread_send_msg(thread, exit_message, thread);
}

void rig_wait_u64(_Atomic(uint64_t) *value, uint64_t at_least)
{
	uint64_t deadline = clock_monotonic_ns() + 60 * NS_PER_SEC;

	while (*value < at_least) {
		assert_true(clock_monotonic_ns() < deadline);
		usleep(100);
	}
}

void rig_settle(uint64_t now)
{
	bool busy;
	unsigned int steps = 0;

	do {
		busy = false;
		for (unsigned int i = 0; i < reactors_count(); i++)
			busy |= reactor_step(reactor_at(i), now);
		busy |= reactor_step(reactor_control(), now);
		assert_true(++steps < 100000);
	} while (busy);
}
