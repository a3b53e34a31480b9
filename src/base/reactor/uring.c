/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * File I/O of a thread: through its own ring if the kernel allows it, else through the helpers (helpers.c). Under the
 * simulator it is executed at once and completed in the next turn.
 *
 *   uring_submit() -> waiting list -> [end of the turn] flush: ring, helper or execution -> [a later turn] reap: done()
 *
 * The ring has one issuer, which enters the kernel often (SINGLE_ISSUER, COOP_TASKRUN). So completions interrupt no
 * pthread: a polling reactor sees them in shared memory, a sleeping one through epoll. The issuer is a pthread, so a thread
 * that moves cannot keep its ring: it waits until no operation is in flight, holds back new ones, and opens a ring on the
 * new reactor. Operations in flight are limited to the size of the completion queue, so it never overflows.
 *
 * Each device has a lane on each thread, and a lane has a bounded share of the ring (share.h). Operations that would block
 * (fsync, fallocate, others that a filesystem cannot finish at once) run on kernel workers of the ring's owner. Their limit
 * is raised so that workers are never the bottleneck. Operations on files that would always need a worker go to our
 * helpers, whose number per device is bounded. The helpers also avoid a hazard: the kernel serializes such writes to files
 * whose inodes have the same hash, so one that hangs would block the others.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/reactor/internal.h"

static bool available;
static atomic_bool refusal_logged;
static struct uring_device no_device; /* the device of operations without a lane */

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

static void log_refusal(int error)
{
	if (!atomic_exchange(&refusal_logged, true))
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
		if (!atomic_exchange(&refusal_logged, true))
			log_notice("FATHOM_NO_URING is set: file I/O goes to helper threads, %d for a device",
				   HELPERS_PER_DEVICE);
		return;
	}
	rc = ring_open(&ring, 4, 8);
	if (rc) {
		log_refusal(rc);
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

/* Allow one worker per operation in flight. Kernels before 5.15 lack the call and use a few workers per CPU; ignored. */
static void raise_worker_limit(struct io_uring *ring)
{
	unsigned int counts[2] = { URING_OPS_MAX, 0 /* unbounded workers: unchanged, we use none */ };

	(void)io_uring_register_iowq_max_workers(ring, counts);
}

/* Workers run on the CPUs without a data reactor, if there is one. Kernels before 5.14 lack the call; ignored. */
static void keep_workers_off_reactors(struct io_uring *ring)
{
	cpu_set_t cpus = reactors_other_cpus();

	if (CPU_COUNT(&cpus) > 0)
		(void)io_uring_register_iowq_aff(ring, sizeof(cpus), &cpus);
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
	raise_worker_limit(ring);
	keep_workers_off_reactors(ring);
	(void)io_uring_register_ring_fd(ring); /* optional: saves a look-up per system call */
	if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, ring->ring_fd, &event)) {
		rc = -errno;
		io_uring_queue_exit(ring);
		free(ring);
		return rc;
	}
	thread->uring = ring;
	return 0;
}

static void choose_file_io(struct fathom_thread *thread)
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
		log_refusal(rc);
	else
		thread->file_io = FILE_IO_URING;
}

void file_io_leave(struct fathom_thread *thread)
{
	must(thread->ops.used == 0);
	thread->file_io = FILE_IO_UNSETTLED;
	if (!thread->uring)
		return;
	/* Closing the ring removes it from epoll. */
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

static void prepare_sqe(struct io_uring_sqe *sqe, struct uring_op *op)
{
	switch (op->kind) {
	case URING_READV:
		io_uring_prep_readv(sqe, op->fd, op->iov, (unsigned int)op->iov_count, op->offset_bytes);
		break;
	case URING_WRITEV:
		io_uring_prep_writev(sqe, op->fd, op->iov, (unsigned int)op->iov_count, op->offset_bytes);
		sqe->rw_flags = op->is_durable ? RWF_DSYNC : 0;
		break;
	case URING_FDATASYNC:
		io_uring_prep_fsync(sqe, op->fd, IORING_FSYNC_DATASYNC);
		break;
	case URING_FALLOCATE:
		io_uring_prep_fallocate(sqe, op->fd, op->mode, (off_t)op->offset_bytes, (off_t)op->length_bytes);
		break;
	case URING_CALL:
		must(op->kind != URING_CALL); /* its device is blocking */
	}
	io_uring_sqe_set_data(sqe, op);
}

/* Fill the submission queue with operations that may start; hand those of blocking devices to the helpers. */
static void ring_fill(struct fathom_thread *thread)
{
	struct io_uring *ring = thread->uring;
	struct uring_op *op;

	while (io_uring_sq_space_left(ring) > 0 && (op = op_take(&thread->ops)) != NULL) {
		if (uring_op_lane(op)->device->is_blocking)
			helpers_submit(op);
		else
			prepare_sqe(io_uring_get_sqe(ring), op);
	}
}

static bool ring_flush(struct fathom_thread *thread)
{
	struct io_uring *ring = thread->uring;

	do {
		int rc;

		ring_fill(thread);
		rc = io_uring_submit(ring);
		/* The kernel is temporarily out of memory, or was interrupted: unsubmitted entries stay in the queue. */
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
		choose_file_io(thread);
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

/* Complete the operations that the helpers have finished, oldest first. */
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
		/* Retry what an earlier flush could not submit: without new operations no other flush follows. */
		if (unlikely(io_uring_sq_ready(thread->uring) > 0))
			unsent = ring_flush(thread);
	}
	if (count > 0)
		thread_charge(r, thread, running_names.file_io);
	return count > 0 || unsent;
}
