/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * helpers - a few pthreads that do the file I/O of all threads where io_uring is refused. Started by the first operation,
 * joined by reactors_stop(). One queue under one mutex: a system call that blocks is behind every operation anyway.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include "reactor/internal.h"

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	struct uring_op *first, **end;
	unsigned int count; /* pthreads */
	bool stop;
	pthread_t pthreads[HELPERS_COUNT];
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

static void *helper_main(void *unused)
{
	must(pthread_mutex_lock(&helpers.mutex) == 0);
	while (!helpers.stop || helpers.first) {
		struct uring_op *op = helpers.first;

		if (!op) {
			must(pthread_cond_wait(&helpers.filled, &helpers.mutex) == 0);
			continue;
		}
		helpers.first = op->next;
		if (!helpers.first)
			helpers.end = &helpers.first;
		must(pthread_mutex_unlock(&helpers.mutex) == 0);
		op->result = uring_op_execute(op);
		uring_op_finished(op);
		must(pthread_mutex_lock(&helpers.mutex) == 0);
	}
	must(pthread_mutex_unlock(&helpers.mutex) == 0);
	return NULL;
}

/*
 * Under the mutex. One helper is enough to go on; none is not. The caller is pinned and takes no signals: they may run
 * wherever the process may, and take none either.
 */
static void helpers_start(void)
{
	sigset_t all, before;
	pthread_attr_t attr;

	helpers.end = &helpers.first;
	must(pthread_attr_init(&attr) == 0);
	must(pthread_attr_setaffinity_np(&attr, sizeof(cpu_set_t), reactors_process_cpus()) == 0);
	signals_of_others(&all);
	must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	while (helpers.count < HELPERS_COUNT &&
	       pthread_create(&helpers.pthreads[helpers.count], &attr, helper_main, NULL) == 0) {
		pthread_setname_np(helpers.pthreads[helpers.count], "file_io");
		helpers.count++;
	}
	must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	must(pthread_attr_destroy(&attr) == 0);
	must(helpers.count > 0);
}

void helpers_submit(struct uring_op *op)
{
	must(pthread_mutex_lock(&helpers.mutex) == 0);
	if (helpers.count == 0)
		helpers_start();
	op->next = NULL;
	*helpers.end = op;
	helpers.end = &op->next;
	must(pthread_cond_signal(&helpers.filled) == 0);
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
	helpers.count = 0;
	helpers.stop = false;
}
