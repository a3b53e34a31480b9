/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors: one epoll descriptor per thread, created for its first watch, nested in its reactor's.
 *
 * A sleeping reactor learns from its own epoll descriptor which threads have events; a polling reactor polls the threads'
 * descriptors directly. Events are collected in batches. Removing a watch clears its events in the current batch.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/reactor/internal.h"

struct fd_watch {
	struct fathom_thread *thread;
	int fd;
	fd_fn fn;
	void *ctx;
};

static int nest_in_reactor(const struct reactor *r, struct fathom_thread *thread)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = thread };

	return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, thread->epoll_fd, &event) ? -errno : 0;
}

int thread_epoll_open(struct fathom_thread *thread)
{
	int rc;

	if (thread->epoll_fd >= 0)
		return 0;
	must(!self_reactor->simulated);
	thread->events = malloc(FD_EVENTS_MAX * sizeof(*thread->events));
	if (!thread->events)
		return -ENOMEM;
	thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	rc = thread->epoll_fd < 0 ? -errno : nest_in_reactor(self_reactor, thread);
	if (rc)
		fds_close(thread);
	return rc;
}

void fds_close(struct fathom_thread *thread)
{
	if (thread->epoll_fd >= 0)
		close(thread->epoll_fd);
	thread->epoll_fd = -1;
	free(thread->events);
	thread->events = NULL;
	thread->event_count = thread->event_at = 0;
}

void fds_arrive(struct reactor *r, struct fathom_thread *thread)
{
	if (thread->epoll_fd >= 0)
		must(nest_in_reactor(r, thread) == 0); /* the previous reactor nested it, so the limits of epoll allow it */
}

void fds_leave(struct reactor *r, struct fathom_thread *thread)
{
	if (thread->epoll_fd >= 0)
		must(epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, thread->epoll_fd, NULL) == 0);
}

struct fd_watch *fd_watch_add(int fd, uint32_t events, fd_fn fn, void *ctx)
{
	struct fathom_thread *thread = thread_self();
	struct epoll_event event = { .events = events };
	struct fd_watch *watch;
	int rc;

	must(thread);
	must(fn);
	if (self_reactor->simulated) {
		errno = ENOTSUP;
		return NULL;
	}
	rc = thread_epoll_open(thread);
	if (rc) {
		errno = -rc;
		return NULL;
	}
	watch = malloc(sizeof(*watch));
	if (!watch)
		return NULL;
	*watch = (struct fd_watch){ .thread = thread, .fd = fd, .fn = fn, .ctx = ctx };
	event.data.ptr = watch;
	if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		free(watch);
		return NULL;
	}
	thread->fd_count++;
	return watch;
}

void fd_watch_modify(struct fd_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	must_be_on(watch->thread);
	must(epoll_ctl(watch->thread->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) == 0);
}

void fd_watch_remove(struct fd_watch **watch_at)
{
	struct fd_watch *watch = *watch_at;
	struct fathom_thread *thread;

	if (!watch)
		return;
	*watch_at = NULL;
	thread = watch->thread;
	must_be_on(thread);
	/* Fails only if `fd` was closed before, which is a bug: its number may already belong to another user. */
	must(epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL) == 0);
	for (int i = thread->event_at; i < thread->event_count; i++) {
		if (thread->events[i].data.ptr == watch)
			thread->events[i].data.ptr = NULL;
	}
	must(thread->fd_count > 0);
	thread->fd_count--;
	free(watch);
}

bool fds_run(struct reactor *r, struct fathom_thread *thread)
{
	bool told = false;

	thread->fd_ready = false;
	thread->event_count = epoll_wait(thread->epoll_fd, thread->events, FD_EVENTS_MAX, 0);
	must(thread->event_count >= 0 || errno == EINTR);
	for (thread->event_at = 0; thread->event_at < thread->event_count;) {
		struct epoll_event *event = &thread->events[thread->event_at++];
		struct fd_watch *watch = event->data.ptr;

		/* NULL: the watch was removed, or it is the thread's ring, which file_io_reap() handles. */
		if (!watch)
			continue;
		if (!told)
			publish_running(r, running_names.descriptors, thread, NULL);
		told = true;
		watch->fn(watch->ctx, event->events);
	}
	thread->event_count = thread->event_at = 0;
	if (told)
		thread_charge(r, thread, running_names.descriptors);
	return told;
}
