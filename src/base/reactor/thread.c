/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Light threads: creation, a turn of one, moving, leaving.
 *
 *   FREE -> ARRIVING          in the arrivals queue of a reactor, which alone may touch it from now on
 *   ARRIVING -> ACTIVE        in that reactor's list, run every turn
 *   ACTIVE -> LEAVING         thread_move(): at the end of a turn with no operation in its ring -> ARRIVING elsewhere
 *   LEAVING -> ACTIVE         the operations in its ring have not ended in THREAD_MOVE_MS, or it is moved back
 *   ACTIVE -> EXITING         thread_exit(): at the end of a turn in which it owns nothing and nothing is queued -> FREE
 *
 * A thread's memory is used again for threads, and given back only by reactors_stop(). For a sender has pushed its message
 * before it asks which reactor must be woken, and by then the message may have run and ended the thread: what it reads is
 * then the reactor of the thread's last or next life, and waking that one in vain is harmless.
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

static struct fathom_thread *take_unused(void)
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
	struct fathom_thread *thread = take_unused();
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

static void leave_list(struct reactor *r, struct fathom_thread *thread)
{
	must(r->thread_count > 0);
	must(r->active_pollers >= thread->active_count);
	TAILQ_REMOVE(&r->threads, thread, in_reactor);
	r->thread_count--;
	r->active_pollers -= thread->active_count;
}

static void leave(struct reactor *r, struct fathom_thread *thread)
{
	struct reactor *to = thread->move_to;

	file_io_leave(thread);
	fds_leave(r, thread);
	leave_list(r, thread);
	thread->move_to = NULL;
	thread->fd_ready = false;
	probe_thread_moved(counter_read(&r->now), thread, r->index, to->index, thread->interned_name);
	thread_state_move(counter_read(&r->now), thread, THREAD_ARRIVING);
	/*
	 * Sequentially consistent, as is the read after each push: a sender that still wakes the old reactor pushed before
	 * this store, so the new one, which will have taken the thread in before it sleeps, finds the message.
	 */
	atomic_store(&thread->reactor, to);
	mpsc_push(&to->arrivals, &thread->arrival);
	reactor_wake(to);
}

/*
 * A device that does not answer holds its operations, and so the thread here, and so every other device's operations, which
 * wait for the arrival. Therefore the move is given up. True: it was.
 */
static bool leave_if_drained(struct reactor *r, struct fathom_thread *thread)
{
	if (thread->ops.used == 0) {
		leave(r, thread);
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

static void end(struct reactor *r, struct fathom_thread *thread)
{
	if (thread->fd_count > 0 || thread->ops.used > 0 || thread->ops.waiting > 0 || thread->holds > 0)
		return;
	registry_lock();
	/* Under the mutex, for walks over channels send under it to whom they find in the list. */
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
	leave_list(r, thread);
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
		busy |= leave_if_drained(r, thread);
	else if (unlikely(thread->state == THREAD_EXITING))
		end(r, thread);
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

static struct reactor *reactor_among(const struct cpuset *cpus)
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
	struct reactor *to = reactor_among(cpus);
	struct fathom_thread *thread;
	int rc = -ENOENT;

	/* under the mutex, so that who is found has not ended: end() looks for messages under it, too */
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
