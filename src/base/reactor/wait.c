/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleep and wake-up of a reactor.
 *
 *   the sleeper                          a sender
 *   sleeping = true          (seq_cst)   push the message         (seq_cst exchange)
 *   if pushed, do not sleep  (seq_cst)   if sleeping, write to the event descriptor      (seq_cst)
 *   epoll_pwait2()
 *
 * In any order of the four, either the sleeper sees the message or the sender sees the sleeper. Only the sender that clears
 * `sleeping` makes the system call write(), once per sleep. The event descriptor is watched edge-triggered and never read:
 * each write is an edge, and its counter does not reach 2^64. Other descriptors are level-triggered, so no event is lost
 * before the sleep; the next timer is the time-out.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/reactor/internal.h"
#include "base/reactor/probes.gen.h"

/* epoll_pwait2() is missing before Linux 5.11 and under old seccomp profiles. */
static atomic_bool pwait2_refused;

int wait_open(struct reactor *r)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };

	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll_fd < 0)
		return -errno;
	r->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->event_fd < 0 || epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->event_fd, &event)) {
		int rc = -errno;

		wait_close(r);
		return rc;
	}
	return 0;
}

void wait_close(struct reactor *r)
{
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	if (r->event_fd >= 0)
		close(r->event_fd);
	r->epoll_fd = r->event_fd = -1;
}

void reactor_wake(struct reactor *r)
{
	uint64_t one = 1;

	if (!atomic_load(&r->sleeping) || !atomic_exchange(&r->sleeping, false))
		return;
	/* Cannot fail: the counter does not reach 2^64 - 1, and a non-blocking eventfd never returns EINTR. */
	must(write(r->event_fd, &one, sizeof(one)) == sizeof(one));
}

uint64_t reactor_next_tick(struct reactor *r)
{
	uint64_t due = UINT64_MAX;
	struct fathom_thread *thread;

	if (!mpsc_is_empty(&r->arrivals))
		return 0;
	TAILQ_FOREACH (thread, &r->threads, in_reactor) {
		if (!thread_is_quiet(thread))
			return 0;
		due = min_u64(due, thread->timers.due);
	}
	return due;
}

/*
 * Wait for at most `timeout_ns`, without limit if `due` is UINT64_MAX. Returns the number of events; 0: time-out or signal.
 */
static int wait_for_events(struct reactor *r, struct epoll_event *events, uint64_t due, uint64_t timeout_ns)
{
	int count;

	if (!atomic_load_explicit(&pwait2_refused, memory_order_relaxed)) {
		struct timespec timeout = { .tv_sec = (time_t)(timeout_ns / NS_PER_SEC),
					    .tv_nsec = (long)(timeout_ns % NS_PER_SEC) };

		count = epoll_pwait2(r->epoll_fd, events, FD_EVENTS_MAX, due == UINT64_MAX ? NULL : &timeout, NULL);
		if (count >= 0 || errno == EINTR)
			return count < 0 ? 0 : count;
		must(errno == ENOSYS || errno == EPERM);
		atomic_store(&pwait2_refused, true);
	}
	count = epoll_wait(r->epoll_fd, events, FD_EVENTS_MAX,
			   due == UINT64_MAX ? -1 : (int)min_u64((timeout_ns + NS_PER_MS - 1) / NS_PER_MS, 1000 * 1000));
	must(count >= 0 || errno == EINTR);
	return count < 0 ? 0 : count;
}

void reactor_sleep(struct reactor *r)
{
	struct epoll_event events[FD_EVENTS_MAX];
	uint64_t asleep, awake, due, timeout_ns;
	enum reactor_wake_reason reason = REACTOR_WAKE_TIMER;
	int count;

	atomic_store(&r->sleeping, true);
	due = reactor_next_tick(r);
	asleep = clock_ticks();
	if (due <= asleep || atomic_load(r->stop)) {
		atomic_store(&r->sleeping, false);
		return;
	}
	timeout_ns = due == UINT64_MAX ? UINT64_MAX : reactor_ns_from_ticks(due - asleep);
	counter_add(&r->sleep_count, 1);
	probe_reactor_sleep(asleep, r->index, timeout_ns);
	count = wait_for_events(r, events, due, timeout_ns);
	/* A sender that clears it concurrently still writes; that costs one idle turn. */
	atomic_store(&r->sleeping, false);
	awake = clock_ticks();
	charge_idle_turn(r, awake);
	for (int i = 0; i < count; i++) {
		struct fathom_thread *thread = events[i].data.ptr;

		if (thread)
			thread->fd_ready = true;
		reason = thread ? REACTOR_WAKE_DESCRIPTOR : REACTOR_WAKE_MESSAGE;
	}
	probe_reactor_wake(awake, r->index, reason,
			   (uint32_t)min_u64(reactor_ns_from_ticks(awake - asleep) / NS_PER_US, UINT32_MAX));
}
