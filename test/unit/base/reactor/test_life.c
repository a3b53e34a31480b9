/* SPDX-License-Identifier: BSD-2-Clause */
/* Starting, stopping and identity of reactors and threads; and that in the simulator one seed gives one order. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/random.h"
#include "base/observe/trace/points.gen.h"
#include "fathom/trace/trace.h"
#include "rig.h"

static void processors_outside_of_the_affinity_are_refused(void **state)
{
	struct reactor_options options = { 0 };

	cpuset_add(&options.cpus, CPUSET_CPUS_MAX - 1);
	assert_int_equal(reactors_start(&options), -EINVAL);
}

static void check_identity(void *reactor)
{
	cpu_set_t cpus;

	assert_ptr_equal(reactor_self(), reactor);
	assert_ptr_equal(thread_reactor(thread_self()), reactor);
	assert_string_equal(thread_name(thread_self()), "subject");
	assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof(cpus), &cpus), 0);
	assert_int_equal(CPU_COUNT(&cpus), 1);
	assert_true(CPU_ISSET(reactor_cpu(reactor), &cpus));
	assert_true(reactor_tick() <= reactor_now());
}

static void threads_and_reactors_have_their_identity(void **state)
{
	for (int round = 0; round < 5; round++) {
		rig_start(2);
		assert_null(reactor_self());
		assert_null(thread_self());
		assert_int_equal(reactor_index(reactor_control()), reactors_count());
		for (unsigned int i = 0; i < reactors_count(); i++) {
			struct fathom_thread *thread = thread_create("subject", reactor_at(i));

			assert_int_equal(reactor_index(reactor_at(i)), i);
			assert_int_equal(thread_id(thread), i + 2);
			rig_run_on(thread, check_identity, reactor_at(i));
			rig_exit(thread);
		}
		rig_stop();
	}
}

static unsigned int control_runs;

static void on_control(void *ctx)
{
	assert_ptr_equal(thread_self(), thread_control());
	assert_ptr_equal(reactor_self(), reactor_control());
	if (++control_runs == 3)
		reactors_request_stop();
	else
		thread_send_msg(thread_control(), on_control, NULL);
}

static void the_control_reactor_runs_until_it_is_stopped(void **state)
{
	rig_start(1);
	control_runs = 0;
	thread_send_msg(thread_control(), on_control, NULL);
	reactors_run();
	assert_int_equal(control_runs, 3);
	rig_stop();
}

static void *stop_later(void *unused)
{
	usleep(20000);
	reactors_request_stop();
	return NULL;
}

static void a_sleeping_control_reactor_can_be_stopped_from_elsewhere(void **state)
{
	pthread_t pthread;

	rig_start(1);
	assert_int_equal(pthread_create(&pthread, NULL, stop_later, NULL), 0);
	reactors_run();
	assert_int_equal(pthread_join(pthread, NULL), 0);
	rig_stop();
}

static unsigned int lone_runs;

static void end_lone_thread(void *thread)
{
	assert_ptr_equal(reactor_self(), reactor_control());
	assert_ptr_equal(thread_self(), thread);
	lone_runs++;
	thread_exit(thread);
	reactors_request_stop();
}

/* As in a daemon without a data plane. */
static void without_processors_only_the_control_reactor_runs(void **state)
{
	const struct reactor_options options = { 0 };

	for (lone_runs = 0; lone_runs < 3;) {
		struct fathom_thread *thread;

		assert_int_equal(reactors_start(&options), 0);
		assert_int_equal(reactors_count(), 0);
		assert_int_equal(reactor_index(reactor_control()), 0);
		thread = thread_create("lone", NULL);
		assert_ptr_equal(thread_reactor(thread), reactor_control());
		thread_send_msg(thread, end_lone_thread, thread);
		reactors_run();
		reactors_stop();
	}
}

/* ---- one seed, one order ---- */

enum { ACTORS = 12, LOG_MAX = 20000 };

struct actor {
	struct fathom_thread *thread;
	struct poller *poller;
};

static struct {
	struct random random;
	struct actor actors[ACTORS];
	uint64_t log[LOG_MAX];
	unsigned int count;
} sim;

static void note(uint64_t what)
{
	if (sim.count < LOG_MAX)
		sim.log[sim.count++] = what << 48 | thread_id(thread_self()) << 40 | (reactor_tick() & 0xffffffffff);
}

static void receive(void *ctx)
{
	note(1 + (uintptr_t)ctx);
	if (random_below(&sim.random, 10) == 0)
		thread_move(thread_self(), rig_reactor((unsigned int)random_below(&sim.random, 3)));
	for (uint64_t n = random_below(&sim.random, 2); n > 0; n--) {
		uintptr_t to = random_below(&sim.random, ACTORS);

		thread_send_msg(sim.actors[to].thread, receive, (void *)to);
	}
}

static int tick(void *ctx)
{
	uintptr_t to = random_below(&sim.random, ACTORS);

	note(100);
	thread_send_msg(sim.actors[to].thread, receive, (void *)to);
	return (int)random_below(&sim.random, 2);
}

static void begin_ticking(void *ctx)
{
	struct actor *actor = ctx;

	actor->poller = poller_register("tick", tick, NULL, 2 * (1 + random_below(&sim.random, 300)));
}

static void end_ticking(void *ctx)
{
	struct actor *actor = ctx;

	poller_unregister(&actor->poller);
	thread_exit(thread_self());
}

static uint64_t run_simulation(uint64_t seed)
{
	uint64_t now = 1000, hash = 0xcbf29ce484222325;

	random_init(&sim.random, seed);
	sim.count = 0;
	rig_start_simulated(3);
	for (unsigned int i = 0; i < ACTORS; i++) {
		sim.actors[i].thread = thread_create("actor", NULL);
		thread_send_msg(sim.actors[i].thread, begin_ticking, &sim.actors[i]);
	}
	for (int round = 0; round < 3000; round++) {
		uint64_t next = UINT64_MAX;

		for (unsigned int i = 0; i < reactors_count(); i++)
			(void)reactor_step(reactor_at(i), now);
		for (unsigned int i = 0; i < reactors_count(); i++)
			next = min_u64(next, reactor_next_tick(reactor_at(i)));
		now = max_u64(now, next);
	}
	for (unsigned int i = 0; i < ACTORS; i++)
		thread_send_msg(sim.actors[i].thread, end_ticking, &sim.actors[i]);
	rig_stop();
	assert_true(sim.count > 1000);
	for (unsigned int i = 0; i < sim.count; i++)
		hash = (hash ^ sim.log[i]) * 0x100000001b3;
	return hash;
}

/* The trace is the oracle: each recorded byte is compared, not only the order of callbacks. */
static uint64_t trace_simulation(uint64_t seed)
{
	struct trace_options options = { .schema = &fathom_schema,
					 .name = "sim",
					 .version = "0",
					 .thread_count = 3,
					 .io_entries = TRACE_IO_ENTRIES_MIN,
					 .in_memory = true,
					 .in_memory_tick = 1000 };
	uint64_t hash = 0xcbf29ce484222325;
	const unsigned char *bytes;
	struct fathom_fault why;
	size_t count;

	assert_int_equal(trace_open(&options, &why), 0);
	assert_int_equal(trace_mask_set("reactor,thread", &why), 0);
	assert_int_equal(trace_thread_attach("sim", -1, false), 0);
	(void)run_simulation(seed);
	trace_thread_detach();
	bytes = trace_memory(&count);
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3;
	trace_close();
	return hash;
}

static void one_seed_gives_one_trace(void **state)
{
	(void)trace_simulation(1); /* interns all strings */
	assert_int_equal(trace_simulation(1), trace_simulation(1));
	assert_int_not_equal(trace_simulation(1), trace_simulation(2));
}

static void one_seed_gives_one_order(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++)
		assert_int_equal(run_simulation(seed), run_simulation(seed));
	assert_int_not_equal(run_simulation(1), run_simulation(2));
}

static int busy(void *ctx)
{
	return 1;
}

static void be_polled(void *poller)
{
	*(struct poller **)poller = poller_register("busy", busy, NULL, 0);
}

static void be_left_alone(void *poller)
{
	poller_unregister(poller);
}

/* The turns of the thread with this name. */
static uint64_t turns_in_trace(const char *name)
{
	size_t bytes;
	const uint8_t *file = trace_memory(&bytes);
	const struct trace_header *header = (const struct trace_header *)file;

	for (uint32_t i = 0; i < header->section_count; i++) {
		const struct trace_section *section = &header->sections[i];
		const struct trace_thread *threads = (const struct trace_thread *)(file + section->offset);

		for (uint64_t k = 0; section->kind == TRACE_SECTION_THREADS && k < section->count; k++) {
			if (strncmp(threads[k].name, name, strlen(name)) == 0)
				return __atomic_load_n(&threads[k].turns, __ATOMIC_RELAXED);
		}
	}
	fail_msg("no thread %s", name);
	return 0;
}

static void the_trace_has_the_number_of_turns(void **state)
{
	struct trace_options options = { .schema = &fathom_schema,
					 .name = "turns",
					 .in_memory = true,
					 .version = "0",
					 .thread_count = 1,
					 .io_entries = TRACE_IO_ENTRIES_MIN };
	struct fathom_thread *thread;
	struct poller *poller;
	struct fathom_fault why;

	assert_int_equal(trace_open(&options, &why), 0);
	rig_start(1);
	thread = thread_create("subject", rig_reactor(0));
	rig_run_on(thread, be_polled, &poller);
	while (turns_in_trace("reactor_") < 10000)
		usleep(1000);
	rig_run_on(thread, be_left_alone, &poller);
	rig_exit(thread);
	rig_stop();
	trace_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_trace_has_the_number_of_turns),
		cmocka_unit_test(processors_outside_of_the_affinity_are_refused),
		cmocka_unit_test(threads_and_reactors_have_their_identity),
		cmocka_unit_test(the_control_reactor_runs_until_it_is_stopped),
		cmocka_unit_test(a_sleeping_control_reactor_can_be_stopped_from_elsewhere),
		cmocka_unit_test(without_processors_only_the_control_reactor_runs),
		cmocka_unit_test(one_seed_gives_one_order),
		cmocka_unit_test(one_seed_gives_one_trace),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
