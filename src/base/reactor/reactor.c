/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reactors of the process: start, loop, stop.
 *
 * One array: the data reactors in the order of their CPUs, then the control reactor. It exists from reactors_start() to
 * reactors_stop(), which waits until all threads but the control thread have ended, joins the pthreads, and ends the
 * control thread last.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/signals.h"
#include "base/reactor/internal.h"

enum { TIMER_SLACK_NS = 1000 }; /* the default of 50 us would be added to every timed sleep */

static struct {
	struct reactor *reactors;
	unsigned int count;   /* data reactors */
	unsigned int running; /* data reactors that have a pthread */
	struct fathom_thread *control_thread;
	_Atomic(struct reactor *) control;
	atomic_uint turn; /* selects the data reactor of the next thread, round-robin */
	bool simulated, stopping;
	uint64_t simulated_tick;
	cpu_set_t process_cpus;
	atomic_bool stop_data;
} process;

/* Not in `process`: a signal may set it before reactors_start(). */
static atomic_bool stop_control;

struct running_names running_names;
__thread struct reactor *self_reactor;

/* ---- time ---- */

bool reactors_simulated(void)
{
	return process.simulated;
}

uint64_t reactor_ticks_from_ns(uint64_t ns)
{
	return process.simulated || ns == UINT64_MAX ? ns : clock_ticks_from_ns(ns);
}

uint64_t reactor_ns_from_ticks(uint64_t ticks)
{
	return process.simulated ? ticks : clock_ns_from_ticks(ticks);
}

static uint64_t foreign_tick(void)
{
	return process.simulated ? process.simulated_tick : clock_ticks();
}

uint64_t reactor_tick(void)
{
	return self_reactor ? counter_read(&self_reactor->now) : foreign_tick();
}

uint64_t reactor_now(void)
{
	return self_reactor ? reactor_read_clock(self_reactor) : foreign_tick();
}

uint64_t probe_tick(void)
{
	return self_reactor ? counter_read(&self_reactor->now) | TICK_SHARED : foreign_tick();
}

/* ---- the loop ---- */

void charge_idle_turn(struct reactor *r, uint64_t now)
{
	uint64_t ticks = now - counter_read(&r->charged);
	struct fathom_thread *thread;

	counter_set(&r->charged, now);
	counter_add(&r->idle_ticks, ticks);
	if (r->thread_count > 1)
		ticks /= r->thread_count;
	TAILQ_FOREACH (thread, &r->threads, in_reactor)
		counter_add(&thread->idle_ticks, ticks);
}

void note_stall(struct reactor *r, uint64_t ticks)
{
	uint64_t window = counter_read(&r->now) / r->stall_window_ticks;
	unsigned int place = window & 1;

	if (counter_read(&r->stalls[place].window) != window) {
		counter_set(&r->stalls[place].longest, 0);
		counter_set(&r->stalls[place].window, window);
	}
	if (ticks > counter_read(&r->stalls[place].longest))
		counter_set(&r->stalls[place].longest, ticks);
}

static void publish_turns(const struct reactor *r)
{
	/* simulated reactors share one pthread and therefore one slot */
	if (trace_self.slot && !r->simulated)
		__atomic_store_n(&trace_self.slot->turns, r->turn_count, __ATOMIC_RELAXED);
}

static uint32_t sample_of_turn(struct reactor *r)
{
	if ((++r->turn_count & (TURNS_PER_SAMPLE - 1)) == 0) {
		publish_turns(r);
		return TURNS_PER_SAMPLE;
	}
	if (likely(r->suspect_turns == 0))
		return 0;
	r->suspect_turns--;
	return 1;
}

bool reactor_turn(struct reactor *r, uint64_t now, bool look_at_fds)
{
	struct fathom_thread *thread, *next;
	uint32_t sample = sample_of_turn(r);
	bool busy = false;

	counter_set(&r->now, now);
	if (unlikely(now - counter_read(&r->charged) > r->slow_ticks))
		r->suspect_turns = SUSPECT_TURNS;
	charge_idle_turn(r, now);
	if (unlikely(mpsc_may_pop(&r->arrivals)))
		busy |= threads_arrive(r);
	TAILQ_FOREACH_SAFE (thread, &r->threads, in_reactor, next)
		busy |= thread_turn(r, thread, now, look_at_fds, sample);
	publish_running(r, NULL, NULL, NULL);
	return busy;
}

bool reactor_step(struct reactor *r, uint64_t now)
{
	bool busy;

	must(r->simulated);
	must(!self_reactor);
	now &= ~TICK_SHARED;
	must(now >= process.simulated_tick);
	process.simulated_tick = now;
	self_reactor = r;
	busy = reactor_turn(r, now, false);
	self_reactor = NULL;
	return busy;
}

static void run_loop(struct reactor *r)
{
	uint64_t now = clock_ticks();

	counter_set(&r->charged, now);
	r->last_busy = now;
	while (!atomic_load_explicit(r->stop, memory_order_relaxed)) {
		bool look;

		now = clock_ticks();
		/* Without active pollers, the system call in every turn delays no other work. */
		look = r->active_pollers == 0 || now - r->last_look >= r->fd_poll_ticks;
		if (look)
			r->last_look = now;
		if (reactor_turn(r, now, look)) {
			if (r->idle)
				spin_gap(&r->spin, now - r->last_busy);
			r->idle = false;
			r->last_busy = counter_read(&r->now);
		} else {
			r->idle = true;
			if (now - r->last_busy >= r->spin.ticks)
				reactor_sleep(r);
		}
	}
}

/* Give the calling pthread a place in the trace. Without it the reactor runs untraced. */
static void attach_trace(const struct reactor *r)
{
	char name[32];
	int rc;

	if (trace_self.slot)
		return;
	if (r->control)
		snprintf(name, sizeof(name), "control");
	else
		snprintf(name, sizeof(name), "reactor_%u", r->cpu);
	if (!r->control)
		pthread_setname_np(pthread_self(), name);
	rc = trace_thread_attach(name, r->control ? -1 : (int)r->cpu, !r->control);
	if (rc && rc != -ENOENT)
		log_warning("%s: not in the trace: %s", name, strerror(-rc));
}

static void attach_pthread(struct reactor *r)
{
	if (!r->control)
		signals_give_stack(); /* the first pthread has one, if the program reports crashes */
	self_reactor = r;
	atomic_store(&r->tid, gettid());
	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0); /* refused: timers are 50 us late */
	attach_trace(r);
}

static void *reactor_main(void *r)
{
	attach_pthread(r);
	run_loop(r);
	trace_thread_detach();
	self_reactor = NULL;
	return NULL;
}

/* ---- starting ---- */

static void reactor_init(struct reactor *r, unsigned int index, unsigned int cpu, const struct reactor_options *options)
{
	r->index = index;
	r->cpu = cpu;
	r->simulated = options->simulated;
	r->epoll_fd = r->event_fd = -1;
	r->fd_poll_ticks = reactor_ticks_from_ns(FD_POLL_US * NS_PER_US);
	r->slow_ticks = reactor_ticks_from_ns(POLLER_SLOW_US * NS_PER_US);
	r->stall_window_ticks = reactor_ticks_from_ns(STALL_WINDOW_SEC * NS_PER_SEC);
	r->stop = &process.stop_data;
	counter_set(&r->now, options->simulated ? options->simulated_tick & ~TICK_SHARED : clock_ticks());
	counter_set(&r->charged, counter_read(&r->now));
	TAILQ_INIT(&r->threads);
	mpsc_init(&r->arrivals);
	if (options->spin_ns > 0) {
		uint64_t ticks = reactor_ticks_from_ns(options->spin_ns);

		spin_init(&r->spin, ticks, ticks, ticks);
	} else {
		spin_init(&r->spin, reactor_ticks_from_ns(SPIN_MIN_US * NS_PER_US),
			  reactor_ticks_from_ns(SPIN_BASE_US * NS_PER_US), reactor_ticks_from_ns(SPIN_MAX_US * NS_PER_US));
	}
}

static int start_pthreads(void)
{
	sigset_t signals, before;
	pthread_attr_t attr;
	int rc = 0;

	/* Only the control reactor's pthread handles signals. */
	signals_of_others(&signals);
	must(pthread_sigmask(SIG_SETMASK, &signals, &before) == 0);
	must(pthread_attr_init(&attr) == 0);
	for (process.running = 0; process.running < process.count; process.running++) {
		struct reactor *r = &process.reactors[process.running];
		cpu_set_t cpus;

		CPU_ZERO(&cpus);
		CPU_SET(r->cpu, &cpus);
		must(pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus) == 0);
		rc = -pthread_create(&r->pthread, &attr, reactor_main, r);
		if (rc)
			break;
	}
	must(pthread_attr_destroy(&attr) == 0);
	must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	return rc;
}

static void stop_pthreads(void)
{
	atomic_store(&process.stop_data, true);
	for (unsigned int i = 0; i < process.running; i++) {
		reactor_wake(&process.reactors[i]);
		must(pthread_join(process.reactors[i].pthread, NULL) == 0);
	}
}

static void close_reactors(void)
{
	atomic_store(&process.control, NULL);
	for (unsigned int i = 0; i <= process.count; i++)
		wait_close(&process.reactors[i]);
	free(process.reactors);
	memset(&process, 0, sizeof(process));
}

static bool cpus_are_ours(const struct cpuset *cpus)
{
	for (unsigned int cpu = 0; cpu < CPUSET_CPUS_MAX; cpu++) {
		if (cpuset_has(cpus, cpu) && !CPU_ISSET(cpu, &process.process_cpus))
			return false;
	}
	return true;
}

static int open_reactors(const struct reactor_options *options)
{
	unsigned int index = 0, count = cpuset_count(&options->cpus);
	size_t bytes = (count + 1) * sizeof(struct reactor);
	int rc = 0;

	process.reactors = aligned_alloc(CACHE_LINE_BYTES, bytes);
	if (!process.reactors)
		return -ENOMEM;
	memset(process.reactors, 0, bytes);
	process.count = count;
	for (unsigned int cpu = 0; cpu < CPUSET_CPUS_MAX; cpu++) {
		if (cpuset_has(&options->cpus, cpu)) {
			reactor_init(&process.reactors[index], index, cpu, options);
			index++;
		}
	}
	reactor_init(&process.reactors[count], count, 0, options);
	process.reactors[count].control = true;
	process.reactors[count].stop = &stop_control;
	spin_init(&process.reactors[count].spin, 0, 0, 0);
	for (unsigned int i = 0; i <= count && rc == 0 && !options->simulated; i++)
		rc = wait_open(&process.reactors[i]);
	return rc;
}

int reactors_start(const struct reactor_options *options)
{
	int rc;

	must(!process.reactors);
	if (sched_getaffinity(0, sizeof(process.process_cpus), &process.process_cpus))
		return -errno;
	if (!options->simulated && !cpus_are_ours(&options->cpus))
		return -EINVAL;
	process.simulated = options->simulated;
	process.simulated_tick = options->simulated_tick & ~TICK_SHARED;
	running_names.messages = trace_intern("messages");
	running_names.descriptors = trace_intern("descriptors");
	running_names.file_io = trace_intern("file I/O");
	rc = open_reactors(options);
	if (rc) {
		if (process.reactors)
			close_reactors();
		return rc;
	}
	atomic_store(&process.control, &process.reactors[process.count]);
	if (!options->simulated)
		attach_trace(&process.reactors[process.count]);
	file_io_start(options->simulated);
	process.control_thread = thread_create("app_thread", &process.reactors[process.count]);
	must(process.control_thread);
	if (options->simulated)
		return 0;
	rc = start_pthreads();
	if (rc)
		reactors_stop();
	return rc;
}

void reactors_run(void)
{
	struct reactor *control = atomic_load(&process.control);

	must(control);
	must(!process.simulated);
	attach_pthread(control);
	run_loop(control);
	self_reactor = NULL; /* the pthread stays attached to the trace: reactors_stop() uses the same rings */
	atomic_store(&stop_control, false);
}

void reactors_request_stop(void)
{
	struct reactor *control;

	atomic_store(&stop_control, true);
	control = atomic_load(&process.control);
	if (control && !control->simulated)
		reactor_wake(control);
}

/* ---- stopping ---- */

bool reactors_stopping(void)
{
	return process.stopping;
}

static unsigned int count_threads(void)
{
	unsigned int count;

	registry_lock();
	count = registry.thread_count;
	registry_unlock();
	return count;
}

static void log_threads_left(void)
{
	struct fathom_thread *thread;

	registry_lock();
	TAILQ_FOREACH (thread, &registry.threads, in_registry)
		log_error("thread %s is still there: %u pollers, %u channels", thread_name(thread), thread->poller_count,
			  thread->channel_count);
	registry_unlock();
}

/* Run the control reactor, or all simulated reactors, until at most `count` threads are left. Aborts after the time-out. */
static void wait_for_threads(unsigned int count)
{
	uint64_t deadline = clock_monotonic_ns() + STOP_TIMEOUT_SEC * NS_PER_SEC;

	while (count_threads() > count) {
		if (clock_monotonic_ns() > deadline) {
			log_threads_left();
			must(count_threads() <= count);
		}
		if (process.simulated) {
			for (unsigned int i = 0; i <= process.count; i++)
				(void)reactor_step(&process.reactors[i],
						   process.simulated_tick); /* counted by count_threads() */
		} else if (!reactor_turn(self_reactor, clock_ticks(), true)) {
			usleep(200);
		}
	}
}

static void exit_message(void *thread)
{
	thread_exit(thread);
}

void reactors_stop(void)
{
	must(process.reactors);
	must(!self_reactor);
	process.stopping = true;
	if (!process.simulated)
		attach_pthread(atomic_load(&process.control));
	wait_for_threads(1);
	stop_pthreads();
	thread_send_msg(process.control_thread, exit_message, process.control_thread);
	wait_for_threads(0);
	self_reactor = NULL;
	file_io_stop();
	devices_free();
	threads_free();
	if (!process.simulated)
		trace_thread_detach();
	close_reactors();
	atomic_store(&stop_control, false);
}

/* ---- queries ---- */

unsigned int reactors_count(void)
{
	return process.count;
}

struct reactor *reactor_at(unsigned int index)
{
	must(index < process.count);
	return &process.reactors[index];
}

struct reactor *reactor_control(void)
{
	return &process.reactors[process.count];
}

struct reactor *reactor_in_turn(void)
{
	return process.count ? &process.reactors[atomic_fetch_add(&process.turn, 1) % process.count] : reactor_control();
}

struct reactor *reactor_self(void)
{
	return self_reactor;
}

unsigned int reactor_cpu(const struct reactor *r)
{
	return r->cpu;
}

unsigned int reactor_index(const struct reactor *r)
{
	return r->index;
}

struct fathom_thread *thread_control(void)
{
	return process.control_thread;
}

const cpu_set_t *reactors_process_cpus(void)
{
	return &process.process_cpus;
}

cpu_set_t reactors_other_cpus(void)
{
	cpu_set_t cpus = process.process_cpus;

	for (unsigned int i = 0; i < process.count; i++)
		CPU_CLR(process.reactors[i].cpu, &cpus);
	return cpus;
}
