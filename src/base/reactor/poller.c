/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pollers: the active ones run every turn, newest first; the timed ones when due. A callback may register, unregister,
 * pause and resume any poller of its thread, itself included:
 *
 *   - the walk over the active list keeps its cursor in the thread; removing the poller at the cursor advances the cursor;
 *   - a new poller enters at the front, behind the cursor, so a poller that replaces itself cannot make a turn endless;
 *   - a timed poller is reinserted with its next due before it is called;
 *   - a poller that unregisters itself is freed when it returns.
 *
 * Time is charged by differences. The clock is read after a busy poller, which is charged all ticks since the last charge
 * (including the few ticks of idle pollers before it). The ticks left when the next turn begins are idle. In one turn of
 * TURNS_PER_SAMPLE the clock is read after each poller, which estimates the cost of idle pollers. After a slow turn without
 * a slow busy poller, the next SUSPECT_TURNS turns are sampled, too, so that an idle poller that is slow again is recorded.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/reactor/internal.h"
#include "base/reactor/probes.gen.h"

static void active_insert(struct fathom_thread *thread, struct poller *poller)
{
	TAILQ_INSERT_HEAD(&thread->active, poller, in_active);
	thread->active_count++;
	self_reactor->active_pollers++;
}

static void active_remove(struct fathom_thread *thread, struct poller *poller)
{
	if (thread->next_poller == poller)
		thread->next_poller = TAILQ_NEXT(poller, in_active);
	TAILQ_REMOVE(&thread->active, poller, in_active);
	must(thread->active_count > 0);
	must(self_reactor->active_pollers > 0);
	thread->active_count--;
	self_reactor->active_pollers--;
}

static void start_poller(struct poller *poller)
{
	if (poller->timed)
		timer_heap_insert(&poller->thread->timers, poller, reactor_now() + poller->period_ticks);
	else
		active_insert(poller->thread, poller);
}

static void stop_poller(struct poller *poller)
{
	if (poller->timed)
		timer_heap_remove(&poller->thread->timers, poller);
	else
		active_remove(poller->thread, poller);
}

struct poller *poller_register(const char *name, poller_fn fn, void *ctx, uint64_t period_ns)
{
	struct fathom_thread *thread = thread_self();
	char name_cut[POLLER_NAME_BYTES_MAX];
	struct poller *poller;

	must(thread);
	must(fn);
	/* Reserve room for all, paused ones included: resuming must not allocate. */
	if (period_ns > 0 && timer_heap_reserve(&thread->timers, thread->timed_count + 1))
		return NULL;
	poller = aligned_alloc(CACHE_LINE_BYTES, sizeof(*poller));
	if (!poller)
		return NULL;
	memset(poller, 0, sizeof(*poller));
	(void)text_copy(name_cut, sizeof(name_cut), name); /* a long name is truncated */
	poller->name = trace_intern(name_cut);
	poller->fn = fn;
	poller->ctx = ctx;
	poller->thread = thread;
	poller->timed = period_ns > 0;
	poller->period_ticks = poller->timed ? max_u64(reactor_ticks_from_ns(period_ns), 1) : 0;
	trace_object_init(&poller->trace, TRACE_OBJECT_POLLER);

	registry_lock();
	poller->id = ++thread->poller_id_last;
	TAILQ_INSERT_TAIL(&thread->pollers, poller, in_thread);
	thread->poller_count++;
	thread->timed_count += poller->timed;
	registry_unlock();

	start_poller(poller);
	probe_poller_registered(probe_tick(), poller, thread, poller->name, period_ns);
	return poller;
}

void poller_unregister(struct poller **poller_at)
{
	struct poller *poller = *poller_at;
	struct fathom_thread *thread;

	if (!poller)
		return;
	*poller_at = NULL;
	thread = poller->thread;
	must_be_on(thread);
	must(!(thread->running == poller && thread->running_gone));
	if (!atomic_load_explicit(&poller->paused, memory_order_relaxed))
		stop_poller(poller);

	registry_lock();
	TAILQ_REMOVE(&thread->pollers, poller, in_thread);
	thread->poller_count--;
	thread->timed_count -= poller->timed;
	registry_unlock();

	probe_poller_unregistered(probe_tick(), poller, counter_read(&poller->run_count));
	if (thread->running == poller)
		thread->running_gone = true;
	else
		free(poller);
}

void poller_pause(struct poller *poller)
{
	must_be_on(poller->thread);
	if (atomic_load_explicit(&poller->paused, memory_order_relaxed))
		return;
	stop_poller(poller);
	atomic_store_explicit(&poller->paused, true, memory_order_relaxed);
}

void poller_resume(struct poller *poller)
{
	must_be_on(poller->thread);
	if (!atomic_load_explicit(&poller->paused, memory_order_relaxed))
		return;
	atomic_store_explicit(&poller->paused, false, memory_order_relaxed);
	start_poller(poller);
}

void poller_set_period(struct poller *poller, uint64_t period_ns)
{
	bool paused = atomic_load_explicit(&poller->paused, memory_order_relaxed);

	must_be_on(poller->thread);
	must(poller->timed);
	must(period_ns > 0);
	if (!paused)
		stop_poller(poller);
	poller->period_ticks = max_u64(reactor_ticks_from_ns(period_ns), 1);
	if (!paused)
		start_poller(poller);
}

/* Run one poller; true if it was busy. If `sample` is not 0, an idle run is charged, too, `sample` times. */
static inline bool run_poller(struct reactor *r, struct fathom_thread *thread, struct poller *poller, uint32_t sample)
{
	bool busy, gone;

	counter_add(&poller->run_count, 1);
	publish_running(r, poller->name, thread, poller);
	thread->running = poller;
	busy = poller->fn(poller->ctx) > 0;
	thread->running = NULL;
	gone = thread->running_gone;
	if (unlikely(busy || sample > 0)) {
		uint64_t ticks;

		if (busy) {
			ticks = charge_busy(r, thread);
			counter_add(&poller->busy_count, 1);
			counter_add(&poller->busy_ticks, ticks);
		} else {
			ticks = charge_idle(r, thread);
			counter_add(&poller->idle_ticks, ticks * sample);
		}
		if (unlikely(ticks > r->slow_ticks)) {
			note_stall(r, ticks);
			probe_poller_slow(counter_read(&r->now), poller, poller->name, ticks);
		}
	}
	if (unlikely(gone)) {
		thread->running_gone = false;
		atomic_store_explicit(&r->running_poller, NULL, memory_order_relaxed);
		free(poller);
	}
	return busy;
}

bool pollers_run(struct reactor *r, struct fathom_thread *thread, uint32_t sample)
{
	bool busy = false;
	struct poller *poller;

	for (poller = TAILQ_FIRST(&thread->active); poller; poller = thread->next_poller) {
		thread->next_poller = TAILQ_NEXT(poller, in_active);
		busy |= run_poller(r, thread, poller, sample);
	}
	return busy;
}

bool timers_run(struct reactor *r, struct fathom_thread *thread, uint64_t now)
{
	bool busy = false;

	/* Ends: a poller that has run is due after `now`. */
	while (thread->timers.due <= now) {
		struct poller *poller = thread->timers.pollers[0];
		uint64_t due = poller->due + poller->period_ticks;

		/* Missed periods are skipped. */
		if (due <= now)
			due = now + poller->period_ticks;
		timer_heap_remove(&thread->timers, poller);
		timer_heap_insert(&thread->timers, poller, due);
		busy |= run_poller(r, thread, poller, 1);
	}
	return busy;
}
