/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { WAIT_SEC = 60 };

static struct {
	bool simulated;
	uint64_t now;
	pthread_t control;
	sem_t started, may_stop;
	struct fathom_thread *threads[2];
	struct reactor_options options;
	uint32_t gone;
} rig;

/* ---- starting and stopping ---- */

static void *control_main(void *unused)
{
	must(reactors_start(&rig.options) == 0);
	must(sem_post(&rig.started) == 0);
	reactors_run();
	/* wait until no thread is inside of a call that sends a message */
	while (sem_wait(&rig.may_stop) < 0)
		;
	reactors_stop();
	return NULL;
}

static void choose_cpus(unsigned int count)
{
	cpu_set_t cpus;

	assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	for (unsigned int cpu = 0; cpu < CPUSET_CPUS_MAX && count > 0; cpu++) {
		if (rig.simulated || CPU_ISSET(cpu, &cpus)) {
			cpuset_add(&rig.options.cpus, cpu);
			count--;
		}
	}
}

void rig_start(bool simulated)
{
	memset(&rig, 0, sizeof(rig));
	rig.simulated = simulated;
	rig.now = 1000;
	rig.options = (struct reactor_options){ .simulated = simulated, .simulated_tick = rig.now };
	choose_cpus(2);
	if (simulated) {
		assert_int_equal(reactors_start(&rig.options), 0);
	} else {
		assert_int_equal(sem_init(&rig.started, 0, 0), 0);
		assert_int_equal(sem_init(&rig.may_stop, 0, 0), 0);
		assert_int_equal(pthread_create(&rig.control, NULL, control_main, NULL), 0);
		while (sem_wait(&rig.started) < 0)
			;
	}
	for (unsigned int i = 0; i < 2; i++) {
		rig.threads[i] = thread_create(i ? "one" : "zero", reactor_at(i % reactors_count()));
		assert_non_null(rig.threads[i]);
	}
}

static void exit_thread(void *unused)
{
	thread_exit(thread_self());
}

void rig_stop(void)
{
	for (unsigned int i = 0; i < 2; i++)
		rig_on(rig.threads[i], exit_thread, NULL);
	if (rig.simulated) {
		rig_settle();
		reactors_stop();
		return;
	}
	reactors_request_stop();
	assert_int_equal(sem_post(&rig.may_stop), 0);
	assert_int_equal(pthread_join(rig.control, NULL), 0);
	assert_int_equal(sem_destroy(&rig.started), 0);
	assert_int_equal(sem_destroy(&rig.may_stop), 0);
}

int rig_setup(void **state)
{
	rig_start(true);
	return 0;
}

int rig_teardown(void **state)
{
	rig_stop();
	return 0;
}

struct fathom_thread *rig_thread(unsigned int index)
{
	return rig.threads[index];
}

/* ---- waiting ---- */

static bool step_all(void)
{
	bool busy = false;

	for (unsigned int i = 0; i < reactors_count(); i++)
		busy |= reactor_step(reactor_at(i), rig.now);
	return reactor_step(reactor_control(), rig.now) || busy;
}

void rig_settle(void)
{
	unsigned int steps = 0;

	assert_true(rig.simulated);
	while (step_all())
		assert_true(++steps < 10000000);
}

void rig_pass_time(uint64_t ns)
{
	rig_settle();
	rig.now += ns;
	rig_settle();
}

void rig_wait(const uint32_t *count, uint32_t to)
{
	uint64_t deadline = clock_monotonic_ns() + WAIT_SEC * NS_PER_SEC;

	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) != to) {
		if (rig.simulated) {
			if (!step_all())
				rig.now += 10 * NS_PER_US;
		} else {
			usleep(50);
		}
		assert_true(clock_monotonic_ns() < deadline);
	}
}

struct call {
	thread_fn fn;
	void *ctx;
	uint32_t done;
};

static void run_call(void *ctx)
{
	struct call *call = ctx;

	call->fn(call->ctx);
	__atomic_store_n(&call->done, 1, __ATOMIC_RELEASE);
}

void rig_on(struct fathom_thread *thread, thread_fn fn, void *ctx)
{
	struct call call = { .fn = fn, .ctx = ctx };

	thread_send_msg(thread, run_call, &call);
	rig_wait(&call.done, 1);
}

/* ---- control thread's work ---- */

struct control_call {
	const char *name;
	const void *options;
	struct space_limit *limit;
	struct bdev_desc *desc;
	struct bdev *bdev;
	struct fathom_fault *why;
	uint32_t *count;
	struct bdev_stats stats;
	int rc;
};

static void count_up(void *ctx)
{
	uint32_t *count = ctx;

	__atomic_fetch_add(count, 1, __ATOMIC_RELEASE);
}

static void do_open(void *ctx)
{
	struct control_call *call = ctx;

	call->rc = bdev_open(call->name, call->count ? count_up : NULL, call->count, &call->desc);
}

struct bdev_desc *rig_open_watched(const char *name, uint32_t *removed)
{
	struct control_call call = { .name = name, .count = removed };

	rig_on(thread_control(), do_open, &call);
	assert_int_equal(call.rc, 0);
	return call.desc;
}

struct bdev_desc *rig_open(const char *name)
{
	return rig_open_watched(name, NULL);
}

static void do_close(void *ctx)
{
	bdev_close(ctx);
}

void rig_close(struct bdev_desc *desc)
{
	rig_on(thread_control(), do_close, desc);
}

static void do_null(void *ctx)
{
	struct control_call *call = ctx;

	call->rc = null_create(call->options, call->why);
}

void rig_null(const char *name, uint64_t block_count, uint32_t block_bytes)
{
	const struct null_options options = { .name = name, .block_count = block_count, .block_bytes = block_bytes };
	struct control_call call = { .options = &options };

	rig_on(thread_control(), do_null, &call);
	assert_int_equal(call.rc, 0);
}

static void do_malloc(void *ctx)
{
	struct control_call *call = ctx;

	call->rc = malloc_create(call->options, call->why);
}

void rig_malloc(const char *name, uint64_t block_count, uint32_t block_bytes)
{
	const struct malloc_options options = { .name = name, .block_count = block_count, .block_bytes = block_bytes };
	struct control_call call = { .options = &options };

	rig_on(thread_control(), do_malloc, &call);
	assert_int_equal(call.rc, 0);
}

static int create_file(const struct file_options *options, struct space_limit *limit, struct fathom_fault *why)
{
	struct file_bdev *file;
	int rc;

	if (options->name && bdev_find(options->name))
		return fault(why, -EEXIST, "a block device named \"%s\" exists already", options->name);
	rc = file_bdev_open(options, &file, why);
	return rc ? rc : file_bdev_register(file, limit, why);
}

int rig_create_file(const struct file_options *options, struct fathom_fault *why)
{
	return create_file(options, NULL, why);
}

static void do_file(void *ctx)
{
	struct control_call *call = ctx;

	call->rc = create_file(call->options, call->limit, call->why);
}

int rig_limited_file(const struct file_options *options, struct space_limit *limit, struct fathom_fault *why)
{
	struct control_call call = { .options = options, .limit = limit, .why = why };

	rig_on(thread_control(), do_file, &call);
	return call.rc;
}

int rig_file(const struct file_options *options, struct fathom_fault *why)
{
	return rig_limited_file(options, NULL, why);
}

static void do_register(void *ctx)
{
	struct control_call *call = ctx;

	call->rc = bdev_register(call->bdev, call->why);
}

int rig_register(struct bdev *bdev, struct fathom_fault *why)
{
	struct control_call call = { .bdev = bdev, .why = why };

	rig_on(thread_control(), do_register, &call);
	return call.rc;
}

static void do_delete(void *ctx)
{
	struct control_call *call = ctx;

	call->rc = backend_delete(call->name, NULL, count_up, call->count);
}

void rig_delete(const char *name)
{
	uint32_t gone = 0;
	struct control_call call = { .name = name, .count = &gone };

	rig_on(thread_control(), do_delete, &call);
	assert_int_equal(call.rc, 0);
	rig_wait(&gone, 1);
}

static void do_find(void *ctx)
{
	struct control_call *call = ctx;

	call->bdev = bdev_find(call->name);
	if (call->bdev)
		bdev_stats_get(call->bdev, STATS_RESET_NONE, &call->stats);
}

void rig_delete_begin(const char *name)
{
	struct control_call call = { .name = name, .count = &rig.gone };

	rig_on(thread_control(), do_delete, &call);
	assert_int_equal(call.rc, 0);
}

uint32_t rig_delete_gone(void)
{
	return rig.gone;
}

struct bdev *rig_find(const char *name)
{
	struct control_call call = { .name = name };

	rig_on(thread_control(), do_find, &call);
	return call.bdev;
}

struct bdev_stats rig_stats(const char *name)
{
	struct control_call call = { .name = name };

	rig_on(thread_control(), do_find, &call);
	assert_non_null(call.bdev);
	return call.stats;
}

/* ---- channels ---- */

struct channel_call {
	struct bdev_desc *desc;
	struct bdev_channel *channel;
};

static void do_get(void *ctx)
{
	struct channel_call *call = ctx;

	call->channel = bdev_channel_get(call->desc);
}

struct bdev_channel *rig_channel_get(struct fathom_thread *thread, struct bdev_desc *desc)
{
	struct channel_call call = { .desc = desc };

	rig_on(thread, do_get, &call);
	return call.channel;
}

static void do_put(void *ctx)
{
	bdev_channel_put(ctx);
}

void rig_channel_put(struct fathom_thread *thread, struct bdev_channel *channel)
{
	rig_on(thread, do_put, channel);
}

/* ---- one I/O ---- */

static void io_done(struct bdev_io *bio, enum io_status status)
{
	struct rig_io *io = (struct rig_io *)bio;

	must(thread_self() == io->thread);
	io->status = status;
	__atomic_fetch_add(&io->done, 1, __ATOMIC_RELEASE);
}

static void io_submit(void *ctx)
{
	struct rig_io *io = ctx;
	uint64_t now = reactor_now();

	switch (io->type) {
	case IO_TYPE_READ:
		bdev_read(&io->io, io->channel, io->iov, io->iov_count, io->block_index, io->block_count, now, io_done);
		break;
	case IO_TYPE_WRITE:
		bdev_write(&io->io, io->channel, io->iov, io->iov_count, io->block_index, io->block_count, now, io_done);
		break;
	case IO_TYPE_COMPARE:
		bdev_compare(&io->io, io->channel, io->iov, io->iov_count, io->block_index, io->block_count, now, io_done);
		break;
	case IO_TYPE_FLUSH:
		bdev_flush(&io->io, io->channel, now, io_done);
		break;
	case IO_TYPE_UNMAP:
		bdev_unmap(&io->io, io->channel, io->block_index, io->block_count, now, io_done);
		break;
	case IO_TYPE_WRITE_ZEROES:
		bdev_write_zeroes(&io->io, io->channel, io->block_index, io->block_count, now, io_done);
		break;
	case IO_TYPE_RESET:
		bdev_reset(&io->io, io->channel, now, io_done);
		break;
	}
}

void rig_io_init(struct rig_io *io, struct fathom_thread *thread, struct bdev_channel *channel)
{
	memset(io, 0, sizeof(*io));
	bdev_io_init(&io->io);
	io->thread = thread;
	io->channel = channel;
}

void rig_io_begin(struct rig_io *io, enum io_type type, void *buffer, uint64_t block_index, uint64_t block_count)
{
	io->type = type;
	io->block_index = block_index;
	io->block_count = block_count;
	if (buffer) {
		io->iov[0] = (struct iovec){ buffer, block_count * bdev_channel_bdev(io->channel)->block_bytes };
		io->iov_count = 1;
	}
	io->done = 0;
	rig_on(io->thread, io_submit, io);
}

enum io_status rig_io_end(struct rig_io *io)
{
	rig_wait(&io->done, 1);
	return io->status;
}

enum io_status rig_io(struct fathom_thread *thread, struct bdev_channel *channel, enum io_type type, void *buffer,
		      uint64_t block_index, uint64_t block_count)
{
	struct rig_io io;

	rig_io_init(&io, thread, channel);
	rig_io_begin(&io, type, buffer, block_index, block_count);
	return rig_io_end(&io);
}
