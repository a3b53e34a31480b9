/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * helpers - pthreads for file I/O that io_uring refuses or would pass to a kernel worker. reactors_stop() joins them when
 * no operation is left. One mutex suffices: every operation makes a blocking system call anyway.
 *
 * A system call can hang for ever, and its pthread with it. So a device uses a bounded number of helpers (share.h), and a
 * helper is started whenever an operation may start and all helpers are busy.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/signals.h"
#include "base/reactor/internal.h"

enum { HELPER_STACK_BYTES = 256 * 1024 };

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	struct op_pool pool;
	unsigned int count; /* pthreads */
	unsigned int idle;  /* helpers that wait; excludes those that were woken and have not run yet */
	unsigned int wakes; /* wake-ups sent that no helper has consumed yet */
	bool stop, failed;  /* failed: a failed pthread_create() has been logged */
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
		rc = pwritev2(op->fd, op->iov, op->iov_count, (off_t)op->offset_bytes, op->is_durable ? RWF_DSYNC : 0);
		break;
	case URING_FDATASYNC:
		rc = fdatasync(op->fd);
		break;
	case URING_FALLOCATE:
		rc = fallocate(op->fd, op->mode, (off_t)op->offset_bytes, (off_t)op->length_bytes);
		break;
	case URING_CALL:
		return op->call(op);
	}
	return rc < 0 ? -errno : (int32_t)rc;
}

static void *helper_main(void *unused);

/*
 * Under the mutex. The caller is pinned; the new helper may run on every CPU of the process, and it blocks all signals but
 * those of its own faults. If it cannot be started, the operation waits for another helper; without any the process aborts.
 */
static void start_helper(void)
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

/* Under the mutex. Wake or start a helper if an operation may start. */
static void wake_or_start_helper(void)
{
	if (!op_may_take(&helpers.pool))
		return;
	if (helpers.idle > 0) {
		helpers.idle--;
		helpers.wakes++;
		must(pthread_cond_signal(&helpers.filled) == 0);
	} else if (helpers.wakes == 0 && helpers.count < HELPERS_MAX) {
		start_helper();
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
		helpers.idle--; /* woken by the stop, not by wake_or_start_helper() */
}

static void *helper_main(void *unused)
{
	signals_give_stack();
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
		wake_or_start_helper(); /* for the next operation */
		device = uring_op_lane(op)->device;
		must(pthread_mutex_unlock(&helpers.mutex) == 0);
		op->result = uring_op_execute(op);
		must(pthread_mutex_lock(&helpers.mutex) == 0);
		op_give_back(&helpers.pool, &device->share); /* first: the thread may free `device` after the delivery */
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
	wake_or_start_helper();
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
