/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Light threads: creation, one turn, moving, ending.
 *
 *   FREE -> ARRIVING          in the arrivals queue of a reactor, which alone may touch it from now on
 *   ARRIVING -> ACTIVE        in that reactor's list, run every turn
 *   ACTIVE -> LEAVING         thread_move(): at the end of a turn without file I/O in flight -> ARRIVING elsewhere
 *   LEAVING -> ACTIVE         its file I/O has not ended in THREAD_MOVE_MS, or it is moved back
 *   ACTIVE -> EXITING         thread_exit(): at the end of a turn in which it owns nothing and nothing is queued -> FREE
 *
 * A thread's memory is reused for other threads; only reactors_stop() frees it. A sender pushes its message before it reads
 * which reactor to wake. By then the message may have run and ended the thread; the sender then reads the reactor of the
 * thread's previous or next use, and waking that one needlessly is harmless.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpuset.h"
#include "base/log.h"
#include "base/text.h"
#include "base/reactor/internal.h"
#include "base/reactor/probes.gen.h"

struct registry registry = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.threads = TAILQ_HEAD_INITIALIZER(registry.threads),
	.unused_threads = TAILQ_HEAD_INITIALIZER(registry.unused_threads),
	.devices = TAILQ_HEAD_INITIALIZER(registry.devices),
};

__thread struct fathom_thread *self_thread;

static struct fathom_thread *reuse_or_allocate_thread(void)
{
	struct fathom_thread *thread;

	registry_lock();
	thread = TAILQ_FIRST(&registry.unused_threads);
	if (thread)
		TAILQ_REMOVE(&registry.unused_threads, thread, in_registry);
	registry_unlock();
	if (thread)
		return thread;
	thread = aligned_alloc(CACHE_LINE_BYTES, sizeof(*thread));
	if (thread)
		memset(thread, 0, sizeof(*thread));
	return thread;
}

struct fathom_thread *thread_create(const char *name, struct reactor *r)
{
	struct fathom_thread *thread = reuse_or_allocate_thread();
	char name_cut[THREAD_NAME_BYTES_MAX];

	if (!thread)
		return NULL;
	if (!r)
		r = reactor_in_turn();
	(void)text_copy(name_cut, sizeof(name_cut), name); /* a long name is cut */
	thread->interned_name = trace_intern(name_cut);
	TAILQ_INIT(&thread->active);
	TAILQ_INIT(&thread->pollers);
	TAILQ_INIT(&thread->channels);
	timer_heap_init(&thread->timers);
	thread->poller_id_last = 0;
	thread->file_io = FILE_IO_UNSETTLED;
	op_pool_init(&thread->ops, URING_OPS_MAX, URING_COMMON_MAX, LANE_OPS_RESERVED, URING_LANE_OPS_MAX);
	uring_lane_init(&thread->no_lane, uring_no_device());
	thread->epoll_fd = -1;
	thread->fd_ready = false;
	thread->move_to = NULL;
	thread->created_tick = probe_tick() & ~TICK_SHARED;
	counter_set(&thread->busy_ticks, 0);
	counter_set(&thread->idle_ticks, 0);
	mpsc_init(&thread->messages);
	atomic_store(&thread->ops_done, NULL);
	trace_object_init(&thread->trace, TRACE_OBJECT_THREAD);

	registry_lock();
	thread->id = ++registry.thread_id_last;
	TAILQ_INSERT_TAIL(&registry.threads, thread, in_registry);
	registry.thread_count++;
	registry_unlock();

	probe_thread_created(probe_tick(), thread, thread->interned_name, thread->id);
	thread_state_move(probe_tick(), thread, THREAD_ARRIVING);
	atomic_store(&thread->reactor, r);
	mpsc_push(&r->arrivals, &thread->arrival);
	reactor_wake(r);
	return thread;
}

bool threads_arrive(struct reactor *r)
{
	struct mpsc_node *node;
	bool any = false;

	while ((node = mpsc_pop(&r->arrivals)) != NULL) {
		struct fathom_thread *thread = container_of(node, struct fathom_thread, arrival);

		must(atomic_load(&thread->reactor) == r);
		fds_arrive(r, thread);
		TAILQ_INSERT_TAIL(&r->threads, thread, in_reactor);
		r->thread_count++;
		r->active_pollers += thread->active_count;
		thread_state_move(counter_read(&r->now), thread, THREAD_ACTIVE);
		any = true;
	}
	return any;
}

static void remove_from_reactor(struct reactor *r, struct fathom_thread *thread)
{
	must(r->thread_count > 0);
	must(r->active_pollers >= thread->active_count);
	TAILQ_REMOVE(&r->threads, thread, in_reactor);
	r->thread_count--;
	r->active_pollers -= thread->active_count;
}

static void hand_over_thread(struct reactor *r, struct fathom_thread *thread)
{
	struct reactor *to = thread->move_to;

	file_io_leave(thread);
	fds_leave(r, thread);
	remove_from_reactor(r, thread);
	thread->move_to = NULL;
	thread->fd_ready = false;
	probe_thread_moved(counter_read(&r->now), thread, r->index, to->index, thread->interned_name);
	thread_state_move(counter_read(&r->now), thread, THREAD_ARRIVING);
	/*
	 * Sequentially consistent, like the load after each push: a sender that still wakes the old reactor pushed before
	 * this store. The new reactor adds the thread to its list before it sleeps, so it finds the message.
	 */
	atomic_store(&thread->reactor, to);
	mpsc_push(&to->arrivals, &thread->arrival);
	reactor_wake(to);
}

/*
 * A device that does not answer would keep the thread LEAVING, and meanwhile the new operations of all devices wait. So
 * after THREAD_MOVE_MS the move is cancelled. Returns true if it was cancelled.
 */
static bool hand_over_if_drained(struct reactor *r, struct fathom_thread *thread)
{
	if (thread->ops.used == 0) {
		hand_over_thread(r, thread);
		return false;
	}
	if (clock_monotonic_ns() - thread->leaving_ns < THREAD_MOVE_MS * NS_PER_MS)
		return false;
	log_warning("thread %s stays on its reactor: %u operations of file I/O have not ended in %d ms",
		    thread_name(thread), thread->ops.used, THREAD_MOVE_MS);
	thread->move_to = NULL;
	thread_state_move(counter_read(&r->now), thread, THREAD_ACTIVE);
	return true;
}

static void end_thread_if_idle(struct reactor *r, struct fathom_thread *thread)
{
	if (thread->fd_count > 0 || thread->ops.used > 0 || thread->ops.waiting > 0 || thread->holds > 0)
		return;
	registry_lock();
	/* Under the mutex: walks over channels hold it from finding a thread until they have sent their message. */
	if (thread->poller_count > 0 || thread->channel_count > 0 || !thread_is_quiet(thread)) {
		registry_unlock();
		return;
	}
	TAILQ_REMOVE(&registry.threads, thread, in_registry);
	registry.thread_count--;
	registry_unlock();

	must(TAILQ_EMPTY(&thread->active));
	file_io_leave(thread);
	fds_leave(r, thread);
	fds_close(thread);
	timer_heap_deinit(&thread->timers);
	remove_from_reactor(r, thread);
	thread_state_move(counter_read(&r->now), thread, THREAD_FREE);
	registry_lock();
	TAILQ_INSERT_TAIL(&registry.unused_threads, thread, in_registry);
	registry_unlock();
}

bool thread_is_quiet(const struct fathom_thread *thread)
{
	return mpsc_is_empty(&thread->messages) && atomic_load(&thread->ops_done) == NULL;
}

void thread_wake(struct fathom_thread *thread)
{
	reactor_wake(atomic_load(&thread->reactor));
}

bool thread_turn(struct reactor *r, struct fathom_thread *thread, uint64_t now, bool look_at_fds, uint32_t sample)
{
	bool busy = false;

	self_thread = thread;
	if (mpsc_may_pop(&thread->messages))
		busy |= messages_run(r, thread);
	if (thread->ops.used > 0)
		busy |= file_io_reap(r, thread);
	if (thread->fd_ready || (look_at_fds && thread->epoll_fd >= 0))
		busy |= fds_run(r, thread);
	busy |= pollers_run(r, thread, sample);
	if (unlikely(thread->timers.due <= now))
		busy |= timers_run(r, thread, now);
	if (op_may_take(&thread->ops))
		busy |= file_io_flush(thread);
	self_thread = NULL;
	if (unlikely(thread->state == THREAD_LEAVING))
		busy |= hand_over_if_drained(r, thread);
	else if (unlikely(thread->state == THREAD_EXITING))
		end_thread_if_idle(r, thread);
	return busy;
}

void thread_exit(struct fathom_thread *thread)
{
	must_be_on(thread);
	must(thread != thread_control() || reactors_stopping());
	if (thread->state == THREAD_EXITING)
		return;
	thread->move_to = NULL;
	thread_state_move(probe_tick(), thread, THREAD_EXITING);
}

void thread_move(struct fathom_thread *thread, struct reactor *to)
{
	struct reactor *from;

	must_be_on(thread);
	must(to);
	must(thread != thread_control());
	if (thread->state == THREAD_EXITING)
		return;
	from = atomic_load(&thread->reactor);
	thread->move_to = to == from ? NULL : to;
	if (thread->move_to && thread->state == THREAD_ACTIVE) {
		thread->leaving_ns = clock_monotonic_ns();
		thread_state_move(probe_tick(), thread, THREAD_LEAVING);
	}
	if (!thread->move_to && thread->state == THREAD_LEAVING)
		thread_state_move(probe_tick(), thread, THREAD_ACTIVE);
}

static struct reactor *find_reactor_on_cpus(const struct cpuset *cpus)
{
	for (unsigned int i = 0; i < reactors_count(); i++) {
		if (cpuset_has(cpus, reactor_cpu(reactor_at(i))))
			return reactor_at(i);
	}
	return NULL;
}

static void move_self(void *ctx)
{
	thread_move(thread_self(), ctx);
}

int thread_place(uint64_t id, const struct cpuset *cpus)
{
	struct reactor *to = find_reactor_on_cpus(cpus);
	struct fathom_thread *thread;
	int rc = -ENOENT;

	/*
	 * send under the mutex, so that the thread cannot end before: end_thread_if_idle() checks its queue under it, too
	 */
	registry_lock();
	TAILQ_FOREACH (thread, &registry.threads, in_registry) {
		if (thread->id == id)
			break;
	}
	if (thread == thread_control() && thread)
		rc = -EPERM;
	else if (thread && !to)
		rc = -EINVAL;
	else if (thread)
		rc = 0;
	if (rc == 0 && !cpuset_has(cpus, reactor_cpu(thread_reactor(thread))))
		thread_send_msg(thread, move_self, to);
	registry_unlock();
	return rc;
}

void threads_free(void)
{
	struct fathom_thread *thread, *next;

	must(TAILQ_EMPTY(&registry.threads));
	TAILQ_FOREACH_SAFE (thread, &registry.unused_threads, in_registry, next)
		free(thread);
	TAILQ_INIT(&registry.unused_threads);
	registry.thread_id_last = 0;
}

void thread_charge(struct reactor *r, struct fathom_thread *thread, const struct trace_istr *name)
{
	uint64_t ticks = charge_busy(r, thread);

	if (likely(ticks <= r->slow_ticks))
		return;
	r->suspect_turns = SUSPECT_TURNS;
	note_stall(r, ticks);
	probe_thread_slow(counter_read(&r->now), thread, name, ticks);
}

struct fathom_thread *thread_self(void)
{
	return self_thread;
}

const char *thread_name(const struct fathom_thread *thread)
{
	return thread->interned_name->text;
}

uint64_t thread_id(const struct fathom_thread *thread)
{
	return thread->id;
}

struct reactor *thread_reactor(const struct fathom_thread *thread)
{
	return atomic_load(&thread->reactor);
}
