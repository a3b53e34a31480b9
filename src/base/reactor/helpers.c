/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * helpers - pthreads that do file I/O where io_uring is refused, or where it would only give the work to a pthread of the
 * kernel's. Joined by reactors_stop(), which comes when no operation is left. One mutex: a system call that blocks is
 * behind every operation anyway.
 *
 * A system call can hang for ever, and its pthread with it. So a device has a bounded number of them at a time
 * (share.h), and a pthread is started whenever an operation may go and all the others are busy.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/reactor/internal.h"

enum { HELPER_STACK_BYTES = 256 * 1024 };

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	struct op_pool pool;
	unsigned int count; /* pthreads */
	unsigned int idle;  /* of them; those that have been woken and have not run yet are not */
	unsigned int wakes; /* given out and not yet taken */
	bool stop, failed;  /* failed: it has been said that no pthread could be started */
	pthread_t pthreads[HELPERS_MAX];
} helpers = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.filled = PTHREAD_COND_INITIALIZER,
};

int32_t uring_op_execute(const struct uring_op *op)
{
	ssize_t rc = 0;

	switch (op->kind) {
	case URING_READV:
		rc = preadv(op->fd, op->iov, op->iov_count, (off_t)op->offset_bytes);
		break;
	case URING_WRITEV:
		rc = pwritev(op->fd, op->iov, op->iov_count, (off_t)op->offset_bytes);
		break;
	case URING_FDATASYNC:
		rc = fdatasync(op->fd);
		break;
	case URING_FALLOCATE:
		rc = fallocate(op->fd, op->mode, (off_t)op->offset_bytes, (off_t)op->length_bytes);
		break;
	}
	return rc < 0 ? -errno : (int32_t)rc;
}

static void *helper_main(void *unused);

/*
 * Under the mutex. The caller is pinned and takes no signals: the new one may run wherever the process may, and takes none
 * either. One that cannot be started is not missed as long as there are others: the operation waits for them.
 */
static void start_one(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int rc;

	must(helpers.count < HELPERS_MAX);
	must(pthread_attr_init(&attr) == 0);
	must(pthread_attr_setaffinity_np(&attr, sizeof(cpu_set_t), reactors_process_cpus()) == 0);
	must(pthread_attr_setstacksize(&attr, HELPER_STACK_BYTES) == 0);
	signals_of_others(&all);
	must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	rc = pthread_create(&helpers.pthreads[helpers.count], &attr, helper_main, NULL);
	must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	must(pthread_attr_destroy(&attr) == 0);
	if (rc == 0) {
		pthread_setname_np(helpers.pthreads[helpers.count], "file_io");
		helpers.count++;
		return;
	}
	must(helpers.count > 0);
	if (!helpers.failed)
		log_error("helper thread %u for file I/O cannot be started: %s: I/O waits for one of those that run",
			  helpers.count + 1, strerror(rc));
	helpers.failed = true;
}

/* Under the mutex: one helper for the operation that may go, if there is one. */
static void call_one(void)
{
	if (!op_may_take(&helpers.pool))
		return;
	if (helpers.idle > 0) {
		helpers.idle--;
		helpers.wakes++;
		must(pthread_cond_signal(&helpers.filled) == 0);
	} else if (helpers.wakes == 0 && helpers.count < HELPERS_MAX) {
		start_one();
	}
}

/* Under the mutex, which is released meanwhile. */
static void wait_for_work(void)
{
	helpers.idle++;
	while (helpers.wakes == 0 && !helpers.stop)
		must(pthread_cond_wait(&helpers.filled, &helpers.mutex) == 0);
	if (helpers.wakes > 0)
		helpers.wakes--;
	else
		helpers.idle--; /* woken by the stop, not by call_one() */
}

static void *helper_main(void *unused)
{
	must(pthread_mutex_lock(&helpers.mutex) == 0);
	for (;;) {
		struct uring_op *op = op_take(&helpers.pool);
		struct uring_device *device;

		if (!op && helpers.stop)
			break;
		if (!op) {
			wait_for_work();
			continue;
		}
		call_one(); /* another, if there is more that may go */
		device = uring_op_lane(op)->device;
		must(pthread_mutex_unlock(&helpers.mutex) == 0);
		op->result = uring_op_execute(op);
		must(pthread_mutex_lock(&helpers.mutex) == 0);
		op_give_back(&helpers.pool, &device->share); /* first: `device` may go when the thread hears of it */
		must(pthread_mutex_unlock(&helpers.mutex) == 0);
		uring_op_finished(op);
		must(pthread_mutex_lock(&helpers.mutex) == 0);
	}
	must(pthread_mutex_unlock(&helpers.mutex) == 0);
	return NULL;
}

void helpers_submit(struct uring_op *op)
{
	must(pthread_mutex_lock(&helpers.mutex) == 0);
	if (helpers.pool.capacity == 0)
		op_pool_init(&helpers.pool, HELPERS_MAX, HELPERS_COMMON_MAX, HELPERS_RESERVED, HELPERS_PER_DEVICE);
	op_push(&helpers.pool, &uring_op_lane(op)->device->share, op);
	call_one();
	must(pthread_mutex_unlock(&helpers.mutex) == 0);
}

void helpers_stop(void)
{
	unsigned int count;

	must(pthread_mutex_lock(&helpers.mutex) == 0);
	helpers.stop = true;
	count = helpers.count;
	must(pthread_cond_broadcast(&helpers.filled) == 0);
	must(pthread_mutex_unlock(&helpers.mutex) == 0);
	for (unsigned int i = 0; i < count; i++)
		must(pthread_join(helpers.pthreads[i], NULL) == 0);
	must(helpers.pool.used == 0);
	must(helpers.idle == 0);
	must(helpers.wakes == 0);
	helpers.count = 0;
	helpers.stop = helpers.failed = false;
}
