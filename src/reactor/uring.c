/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * File I/O of a thread: through a ring of its own where the kernel lets us, else through the helpers (helpers.c), and at
 * once, to be told in the next turn, under the simulator.
 *
 *   uring_submit() -> waiting list -> [end of the turn] flush: ring, helper or execution -> [a later turn] reap: done()
 *
 * The ring is set up for one issuer that comes by often (SINGLE_ISSUER, COOP_TASKRUN): completions then interrupt nobody,
 * and are seen by looking at shared memory while the reactor polls, through epoll when it sleeps. The issuer is a pthread,
 * so a thread that moves leaves its ring behind: it waits until nothing is in flight, holds back what is new, and makes
 * another ring where it arrives. What the kernel has is limited to the completion queue's size, which so never overflows.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "reactor/internal.h"

static bool available;
static atomic_bool refusal_said;

static int ring_open(struct io_uring *ring, unsigned int entries)
{
	int rc;

	rc = io_uring_queue_init(entries, ring,
				 IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SINGLE_ISSUER);
	if (rc == -EINVAL) /* a kernel before 6.0 */
		rc = io_uring_queue_init(entries, ring, 0);
	return rc;
}

static void say_refused(int error)
{
	if (!atomic_exchange(&refusal_said, true))
		log_notice("the kernel refuses io_uring (%s): file I/O goes to %d helper threads", strerror(-error),
			   HELPERS_COUNT);
}

void file_io_start(bool simulated)
{
	const char *forced = getenv("FATHOM_NO_URING");
	struct io_uring ring;
	int rc;

	available = false;
	if (simulated)
		return;
	if (forced && *forced && strcmp(forced, "0") != 0) {
		if (!atomic_exchange(&refusal_said, true))
			log_notice("FATHOM_NO_URING is set: file I/O goes to %d helper threads", HELPERS_COUNT);
		return;
	}
	rc = ring_open(&ring, 4);
	if (rc) {
		say_refused(rc);
		return;
	}
	io_uring_queue_exit(&ring);
	available = true;
}

void file_io_stop(void)
{
	helpers_stop();
}

bool uring_available(void)
{
	return available;
}

/* The thread's own ring, watched in its epoll descriptor. */
static int thread_ring_open(struct fathom_thread *thread)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct io_uring *ring;
	int rc;

	rc = thread_epoll_open(thread);
	if (rc)
		return rc;
	ring = malloc(sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	rc = ring_open(ring, URING_ENTRIES);
	if (rc) {
		free(ring);
		return rc;
	}
	(void)io_uring_register_ring_fd(ring); /* saves a look-up per call; works as well without */
	if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, ring->ring_fd, &event)) {
		rc = -errno;
		io_uring_queue_exit(ring);
		free(ring);
		return rc;
	}
	thread->uring = ring;
	return 0;
}

static void settle(struct fathom_thread *thread)
{
	int rc;

	if (self_reactor->simulated) {
		thread->file_io = FILE_IO_SIMULATED;
		return;
	}
	thread->file_io = FILE_IO_HELPERS;
	if (!available)
		return;
	rc = thread_ring_open(thread);
	if (rc)
		say_refused(rc);
	else
		thread->file_io = FILE_IO_URING;
}

void file_io_leave(struct fathom_thread *thread)
{
	must(thread->ops_in_flight == 0);
	thread->file_io = FILE_IO_UNSETTLED;
	if (!thread->uring)
		return;
	/* Closing takes the ring out of epoll. */
	io_uring_queue_exit(thread->uring);
	free(thread->uring);
	thread->uring = NULL;
}

void uring_submit(struct uring_op *op)
{
	struct fathom_thread *thread = thread_self();

	must(thread);
	must(op->done);
	op->thread = thread;
	op->next = NULL;
	*thread->ops_waiting_end = op;
	thread->ops_waiting_end = &op->next;
}

static struct uring_op *take_waiting(struct fathom_thread *thread)
{
	struct uring_op *op = thread->ops_waiting;

	thread->ops_waiting = op->next;
	if (!thread->ops_waiting)
		thread->ops_waiting_end = &thread->ops_waiting;
	thread->ops_in_flight++;
	return op;
}

static void prepare(struct io_uring_sqe *sqe, struct uring_op *op)
{
	switch (op->kind) {
	case URING_READV:
		io_uring_prep_readv(sqe, op->fd, op->iov, (unsigned int)op->iov_count, op->offset_bytes);
		break;
	case URING_WRITEV:
		io_uring_prep_writev(sqe, op->fd, op->iov, (unsigned int)op->iov_count, op->offset_bytes);
		break;
	case URING_FDATASYNC:
		io_uring_prep_fsync(sqe, op->fd, IORING_FSYNC_DATASYNC);
		break;
	case URING_FALLOCATE:
		io_uring_prep_fallocate(sqe, op->fd, op->mode, (off_t)op->offset_bytes, (off_t)op->length_bytes);
		break;
	}
	io_uring_sqe_set_data(sqe, op);
}

static bool ring_flush(struct fathom_thread *thread)
{
	struct io_uring *ring = thread->uring;

	do {
		struct io_uring_sqe *sqe;
		int rc;

		while (thread->ops_waiting && thread->ops_in_flight < URING_IN_FLIGHT_MAX &&
		       (sqe = io_uring_get_sqe(ring)) != NULL)
			prepare(sqe, take_waiting(thread));
		rc = io_uring_submit(ring);
		/* The kernel is out of memory for the moment, or interrupted: what it left is in the queue still. */
		if (rc < 0) {
			must(rc == -EAGAIN || rc == -EBUSY || rc == -EINTR || rc == -ENOMEM);
			return true;
		}
	} while (thread->ops_waiting && thread->ops_in_flight < URING_IN_FLIGHT_MAX);
	return io_uring_sq_ready(ring) > 0;
}

bool file_io_flush(struct fathom_thread *thread)
{
	if (thread->state == THREAD_LEAVING)
		return false;
	if (thread->file_io == FILE_IO_UNSETTLED)
		settle(thread);
	if (thread->file_io == FILE_IO_URING)
		return ring_flush(thread);
	while (thread->ops_waiting) {
		struct uring_op *op = take_waiting(thread);

		if (thread->file_io == FILE_IO_HELPERS) {
			helpers_submit(op);
		} else {
			op->result = uring_op_execute(op);
			uring_op_finished(op);
		}
	}
	return false;
}

void uring_op_finished(struct uring_op *op)
{
	struct fathom_thread *thread = op->thread;
	struct uring_op *newest = atomic_load_explicit(&thread->ops_done, memory_order_relaxed);

	do {
		op->next = newest;
	} while (!atomic_compare_exchange_weak(&thread->ops_done, &newest, op));
	thread_wake(thread);
}

/* What the helpers have finished, oldest first. */
static unsigned int reap_done(struct fathom_thread *thread)
{
	struct uring_op *newest = atomic_exchange(&thread->ops_done, NULL);
	struct uring_op *oldest = NULL;
	unsigned int count = 0;

	while (newest) {
		struct uring_op *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest) {
		struct uring_op *op = oldest;

		oldest = op->next;
		must(thread->ops_in_flight > 0);
		thread->ops_in_flight--;
		count++;
		op->done(op, op->result);
	}
	return count;
}

static unsigned int reap_ring(struct fathom_thread *thread)
{
	struct io_uring *ring = thread->uring;
	struct io_uring_cqe *cqes[URING_REAP_MAX];
	struct uring_op *ops[URING_REAP_MAX];
	unsigned int count = io_uring_peek_batch_cqe(ring, cqes, URING_REAP_MAX);

	for (unsigned int i = 0; i < count; i++) {
		ops[i] = io_uring_cqe_get_data(cqes[i]);
		ops[i]->result = cqes[i]->res;
	}
	io_uring_cq_advance(ring, count);
	must(thread->ops_in_flight >= count);
	thread->ops_in_flight -= count;
	for (unsigned int i = 0; i < count; i++)
		ops[i]->done(ops[i], ops[i]->result);
	return count;
}

bool file_io_reap(struct reactor *r, struct fathom_thread *thread)
{
	bool unsent = false;
	unsigned int count;

	publish_running(r, running_names.file_io, thread, NULL);
	if (thread->file_io == FILE_IO_URING) {
		count = reap_ring(thread);
		/* What a flush before could not hand over, though nothing new has come that would flush. */
		if (unlikely(io_uring_sq_ready(thread->uring) > 0))
			unsent = ring_flush(thread);
	} else {
		count = atomic_load_explicit(&thread->ops_done, memory_order_relaxed) ? reap_done(thread) : 0;
	}
	if (count > 0 && charge_busy(r, thread) > r->slow_ticks)
		r->suspect_turns = SUSPECT_TURNS;
	return count > 0 || unsent;
}
