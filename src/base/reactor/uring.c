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
 *
 * Each device has a lane on each thread, and a lane a bounded share of the ring (share.h). What the kernel cannot do
 * without blocking (fsync, fallocate, what a filesystem does not do at once) it gives to worker pthreads of the ring's
 * owner. Their number is raised so that it is never what is short. Operations on files that would always need such a
 * worker go to our helpers instead, whose share per device we know. Besides, the kernel does such writes one after the
 * other if the inodes of their files have the same hash, and one that hangs would stop the others.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/reactor/internal.h"

static bool available;
static atomic_bool refusal_said;
static struct uring_device no_device; /* of operations that name none */

static int ring_open(struct io_uring *ring, unsigned int entries, unsigned int completions)
{
	int rc;
	struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
			 IORING_SETUP_SINGLE_ISSUER,
		.cq_entries = completions,
	};
	rc = io_uring_queue_init_params(entries, ring, &params);
	if (rc == -EINVAL) { /* a kernel before 6.0 */
		params = (struct io_uring_params){ .flags = IORING_SETUP_CQSIZE, .cq_entries = completions };
		rc = io_uring_queue_init_params(entries, ring, &params);
	}
	return rc;
}

static void say_refused(int error)
{
	if (!atomic_exchange(&refusal_said, true))
		log_notice("the kernel refuses io_uring (%s): file I/O goes to helper threads, %d for a device",
			   strerror(-error), HELPERS_PER_DEVICE);
}

void file_io_start(bool simulated)
{
	const char *forced = getenv("FATHOM_NO_URING");
	struct io_uring ring;
	int rc;

	available = false;
	uring_device_init(&no_device, false);
	if (simulated)
		return;
	if (forced && *forced && strcmp(forced, "0") != 0) {
		if (!atomic_exchange(&refusal_said, true))
			log_notice("FATHOM_NO_URING is set: file I/O goes to helper threads, %d for a device",
				   HELPERS_PER_DEVICE);
		return;
	}
	rc = ring_open(&ring, 4, 8);
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

/* Workers for all that may be in flight. Kernels before 5.15 have no such call, and a few workers for each CPU. */
static void workers_raise(struct io_uring *ring)
{
	unsigned int counts[2] = { URING_OPS_MAX, 0 /* as it is: no operation of ours is of the other kind */ };

	(void)io_uring_register_iowq_max_workers(ring, counts);
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
	rc = ring_open(ring, URING_ENTRIES, URING_OPS_MAX);
	if (rc) {
		free(ring);
		return rc;
	}
	workers_raise(ring);
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
	must(thread->ops.used == 0);
	thread->file_io = FILE_IO_UNSETTLED;
	if (!thread->uring)
		return;
	/* Closing takes the ring out of epoll. */
	io_uring_queue_exit(thread->uring);
	free(thread->uring);
	thread->uring = NULL;
}

/* ---- devices and lanes ---- */

struct uring_device *uring_no_device(void)
{
	return &no_device;
}

void uring_device_init(struct uring_device *device, bool is_blocking)
{
	op_share_init(&device->share);
	device->is_blocking = is_blocking;
}

void uring_device_deinit(struct uring_device *device)
{
	op_share_deinit(&device->share);
}

void uring_lane_init(struct uring_lane *lane, struct uring_device *device)
{
	must(device);
	op_share_init(&lane->share);
	lane->device = device;
}

void uring_lane_deinit(struct uring_lane *lane)
{
	op_share_deinit(&lane->share);
}

/* ---- submission ---- */

void uring_submit(struct uring_op *op)
{
	struct fathom_thread *thread = thread_self();

	must(thread);
	must(op->done);
	op->thread = thread;
	op_push(&thread->ops, &uring_op_lane(op)->share, op);
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

/* As much of what may go as the submission queue holds. */
static void ring_fill(struct fathom_thread *thread)
{
	struct io_uring *ring = thread->uring;
	struct uring_op *op;

	while (io_uring_sq_space_left(ring) > 0 && (op = op_take(&thread->ops)) != NULL) {
		if (uring_op_lane(op)->device->is_blocking)
			helpers_submit(op);
		else
			prepare(io_uring_get_sqe(ring), op);
	}
}

static bool ring_flush(struct fathom_thread *thread)
{
	struct io_uring *ring = thread->uring;

	do {
		int rc;

		ring_fill(thread);
		rc = io_uring_submit(ring);
		/* The kernel is out of memory for the moment, or interrupted: what it left is in the queue still. */
		if (rc < 0) {
			must(rc == -EAGAIN || rc == -EBUSY || rc == -EINTR || rc == -ENOMEM);
			return true;
		}
	} while (op_may_take(&thread->ops) && io_uring_sq_space_left(ring) > 0);
	return io_uring_sq_ready(ring) > 0;
}

bool file_io_flush(struct fathom_thread *thread)
{
	struct uring_op *op;

	if (thread->state == THREAD_LEAVING)
		return false;
	if (thread->file_io == FILE_IO_UNSETTLED)
		settle(thread);
	if (thread->file_io == FILE_IO_URING)
		return ring_flush(thread);
	while ((op = op_take(&thread->ops)) != NULL) {
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
		op_give_back(&thread->ops, &uring_op_lane(op)->share);
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
	for (unsigned int i = 0; i < count; i++)
		op_give_back(&thread->ops, &uring_op_lane(ops[i])->share);
	for (unsigned int i = 0; i < count; i++)
		ops[i]->done(ops[i], ops[i]->result);
	return count;
}

bool file_io_reap(struct reactor *r, struct fathom_thread *thread)
{
	bool unsent = false;
	unsigned int count = 0;

	publish_running(r, running_names.file_io, thread, NULL);
	if (atomic_load_explicit(&thread->ops_done, memory_order_relaxed))
		count = reap_done(thread);
	if (thread->file_io == FILE_IO_URING) {
		count += reap_ring(thread);
		/* What a flush before could not hand over, though nothing new has come that would flush. */
		if (unlikely(io_uring_sq_ready(thread->uring) > 0))
			unsent = ring_flush(thread);
	}
	if (count > 0 && charge_busy(r, thread) > r->slow_ticks)
		r->suspect_turns = SUSPECT_TURNS;
	return count > 0 || unsent;
}
