/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file_close - closes files on worker threads: a close() may wait for the disk, as for a file with unwritten data on NFS or
 * FUSE, and one whose disk hangs never returns.
 *
 *   file_close_later() -> waiting -> [worker: file_close()] -> closed(file) on the control thread
 *
 * Files that wait are shared out among the workers in batches, so that an engine that stops closes 10,000 volumes by few
 * pthreads, and a single file has a worker of its own. No step allocates memory.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/store/backend/file_internal.h"

enum { CLOSERS_MAX = 16, BATCH_MAX = 64, RETRY_MS = 100 };

/* Control thread. */
static struct {
	struct file_queue waiting;
	uint32_t count;	  /* of them */
	uint32_t closers; /* workers that run */
	struct poller *retry;
} closing = { .waiting = STAILQ_HEAD_INITIALIZER(closing.waiting) };

static void start_closers(void);

/* Worker thread. The first file of the batch has the job. */
static void close_batch(struct worker_job *job)
{
	struct file_bdev *first = container_of(job, struct file_bdev, closing), *file;

	STAILQ_FOREACH (file, &first->batch, in_batch)
		file_close(file);
}

static void note_closed(struct worker_job *job)
{
	struct file_bdev *first = container_of(job, struct file_bdev, closing), *file;
	struct file_queue batch = STAILQ_HEAD_INITIALIZER(batch);

	must(closing.closers > 0);
	closing.closers--;
	STAILQ_CONCAT(&batch, &first->batch); /* `first` may be freed soon */
	while ((file = STAILQ_FIRST(&batch))) {
		STAILQ_REMOVE_HEAD(&batch, in_batch);
		file->closed(file);
	}
	start_closers();
}

static int try_again(void *ctx)
{
	poller_unregister(&closing.retry);
	start_closers();
	return 1;
}

static void take_batch(struct file_queue *batch)
{
	uint64_t count = min_u64(max_u64(closing.count / CLOSERS_MAX, 1), BATCH_MAX);

	for (; count > 0; count--) {
		struct file_bdev *file = STAILQ_FIRST(&closing.waiting);

		STAILQ_REMOVE_HEAD(&closing.waiting, in_batch);
		STAILQ_INSERT_TAIL(batch, file, in_batch);
		closing.count--;
	}
}

/* No thread could be started. */
static void give_back(struct file_queue *batch, int error)
{
	const struct file_bdev *file;

	STAILQ_FOREACH (file, batch, in_batch)
		closing.count++;
	STAILQ_CONCAT(batch, &closing.waiting);
	STAILQ_CONCAT(&closing.waiting, batch);
	if (closing.retry)
		return;
	log_warning("cannot start a thread to close files: %s; trying again", strerror(-error));
	closing.retry = poller_register("file_close", try_again, NULL, RETRY_MS * NS_PER_MS);
	must(closing.retry);
}

static void start_closers(void)
{
	while (closing.count > 0 && closing.closers < CLOSERS_MAX && !closing.retry) {
		struct file_bdev *first = STAILQ_FIRST(&closing.waiting);
		int error;

		STAILQ_INIT(&first->batch);
		take_batch(&first->batch);
		first->closing = (struct worker_job){ .work = close_batch, .done = note_closed, .holds_home = true };
		closing.closers++;
		error = worker_start(&first->closing);
		if (!error)
			continue;
		closing.closers--;
		give_back(&first->batch, error);
	}
}

void file_close_later(struct file_bdev *self, void (*closed)(struct file_bdev *self))
{
	must_be_on(thread_control());
	must(!self->closed);
	self->closed = closed;
	STAILQ_INSERT_TAIL(&closing.waiting, self, in_batch);
	closing.count++;
	start_closers();
}

static void note_abandoned(struct file_bdev *self)
{
	bdev_going_end(&self->bdev.going);
	file_free(self);
}

void file_bdev_abandon(struct file_bdev *file)
{
	if (!file)
		return;
	bdev_going_begin(&file->bdev.going, file->bdev.name);
	file_close_later(file, note_abandoned);
}
