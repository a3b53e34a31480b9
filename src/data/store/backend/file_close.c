/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file_close - closes files on worker threads: a close() may wait for the disk, as for a file with unwritten data on NFS or
 * FUSE, and one whose disk hangs never returns.
 *
 *   file_close_later() -> waiting -> [worker: file_close()] -> closed(file) on the control thread
 *
 * Each disk (or file system) has workers of its own, so the files of a disk that hangs delay only each other. The files of
 * a disk that wait are divided among its workers in batches, so that an engine that stops closes 10,000 volumes by few
 * pthreads, and a single file has a worker of its own. No step allocates memory: `batch` of one file has it and all other
 * files of its disk that wait, or all that its worker closes.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/inject/inject.h"
#include "base/log.h"
#include "data/store/backend/file_internal.h"

enum { CLOSERS_PER_DISK = 16, BATCH_MAX = 64, RETRY_MS = 100 };

LIST_HEAD(file_batches, file_bdev);

/* Control thread. */
static struct {
	struct file_batches waiting; /* one for each disk */
	struct file_batches running; /* one for each worker */
	struct poller *retry;
} closing;

static void start_closers(dev_t device);

/* Worker thread. */
static void close_batch(struct worker_job *job)
{
	struct file_bdev *first = container_of(job, struct file_bdev, closing), *file;

	STAILQ_FOREACH (file, &first->batch, in_batch) {
		inject_wait(INJECT_VOLUME_CLOSE);
		file_close(file);
	}
}

static void note_closed(struct worker_job *job)
{
	struct file_bdev *first = container_of(job, struct file_bdev, closing), *file;
	struct file_queue batch = STAILQ_HEAD_INITIALIZER(batch);
	dev_t device = first->device;

	LIST_REMOVE(first, batches);
	STAILQ_CONCAT(&batch, &first->batch); /* `first` may be freed soon */
	while ((file = STAILQ_FIRST(&batch))) {
		STAILQ_REMOVE_HEAD(&batch, in_batch);
		file->closed(file);
	}
	start_closers(device);
}

static int try_again(void *ctx)
{
	struct file_bdev *first, *next;

	poller_unregister(&closing.retry);
	for (first = LIST_FIRST(&closing.waiting); first; first = next) {
		next = LIST_NEXT(first, batches);
		start_closers(first->device);
	}
	return 1;
}

/* The file whose batch has the files of this disk that wait; NULL: none. */
static struct file_bdev *find_waiting(dev_t device)
{
	struct file_bdev *first;

	LIST_FOREACH (first, &closing.waiting, batches) {
		if (first->device == device)
			return first;
	}
	return NULL;
}

static bool has_free_closer(dev_t device)
{
	const struct file_bdev *first;
	uint32_t closers = 0;

	LIST_FOREACH (first, &closing.running, batches)
		closers += first->device == device;
	return closers < CLOSERS_PER_DISK;
}

static void begin_batch(struct file_batches *batches, struct file_bdev *first, struct file_queue *files, uint32_t count)
{
	STAILQ_INIT(&first->batch);
	STAILQ_CONCAT(&first->batch, files);
	first->batch_count = count;
	LIST_INSERT_HEAD(batches, first, batches);
}

/* Move a worker's share from the batch of `first`, which waits, to a batch that runs. That begins with `first`, too. */
static void take_batch(struct file_bdev *first)
{
	uint32_t waiting = first->batch_count, count = (uint32_t)min_u64(max_u64(waiting / CLOSERS_PER_DISK, 1), BATCH_MAX);
	struct file_queue taken = STAILQ_HEAD_INITIALIZER(taken), rest = STAILQ_HEAD_INITIALIZER(rest);

	LIST_REMOVE(first, batches);
	STAILQ_CONCAT(&rest, &first->batch);
	for (uint32_t i = 0; i < count; i++) {
		struct file_bdev *file = STAILQ_FIRST(&rest);

		STAILQ_REMOVE_HEAD(&rest, in_batch);
		STAILQ_INSERT_TAIL(&taken, file, in_batch);
	}
	if (waiting > count)
		begin_batch(&closing.waiting, STAILQ_FIRST(&rest), &rest, waiting - count);
	begin_batch(&closing.running, first, &taken, count);
}

/* No thread could be started. */
static void give_back(struct file_bdev *first, int error)
{
	struct file_bdev *others = find_waiting(first->device);
	struct file_queue files = STAILQ_HEAD_INITIALIZER(files);
	uint32_t count = first->batch_count;

	LIST_REMOVE(first, batches);
	STAILQ_CONCAT(&files, &first->batch);
	if (others) {
		LIST_REMOVE(others, batches);
		STAILQ_CONCAT(&files, &others->batch);
		count += others->batch_count;
	}
	begin_batch(&closing.waiting, first, &files, count);
	log_warning("cannot start a thread to close files: %s; trying again", strerror(-error));
	closing.retry = poller_register("file_close", try_again, NULL, RETRY_MS * NS_PER_MS);
	must(closing.retry);
}

/* For the files of this disk that wait, as far as its share allows. */
static void start_closers(dev_t device)
{
	struct file_bdev *first;

	while (!closing.retry && (first = find_waiting(device)) && has_free_closer(device)) {
		int error;

		take_batch(first);
		first->closing = (struct worker_job){ .work = close_batch, .done = note_closed, .holds_home = true };
		error = worker_start(&first->closing);
		if (error)
			give_back(first, error);
	}
}

void file_close_later(struct file_bdev *self, void (*closed)(struct file_bdev *self))
{
	struct file_queue alone = STAILQ_HEAD_INITIALIZER(alone);
	struct file_bdev *first;

	must_be_on(thread_control());
	must(!self->closed);
	self->closed = closed;
	first = find_waiting(self->device);
	STAILQ_INSERT_TAIL(first ? &first->batch : &alone, self, in_batch);
	if (first)
		first->batch_count++;
	else
		begin_batch(&closing.waiting, self, &alone, 1);
	start_closers(self->device);
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
