/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crash - crashes the engine on purpose, for tests of what a crash leaves: each way to crash, on each kind of thread.
 *
 * A crash with a thread and a way that the tables lack is refused. Nothing here returns after it has begun.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "base/reactor/worker.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"

enum { NEAR_NULL = 64, PAGE_BYTES = 4096, READ_BYTES = 4096 };

/* ---- ways ---- */

static void crash_store(void)
{
	int *volatile near_null = (int *)(uintptr_t)NEAR_NULL;

	*(volatile int *)near_null = 1;
}

static void crash_unmapped(void)
{
	volatile uint64_t *gone = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(gone != MAP_FAILED);
	munmap((void *)gone, PAGE_BYTES);
	gone[1] = 1;
}

static const uint32_t crash_constant_value = 5;

static void crash_constant(void)
{
	uint32_t *volatile constant = (uint32_t *)(uintptr_t)&crash_constant_value;

	*(volatile uint32_t *)constant = 6;
}

/* Its frame is smaller than the page that guards the stack. */
static __attribute__((noinline)) uint64_t recurse_without_end(volatile uint64_t *above)
{
	volatile uint64_t frame[128];

	frame[0] = *above;
	return frame[0] ? recurse_without_end(frame) + frame[0] : 0;
}

static void crash_stack(void)
{
	volatile uint64_t one = 1;

	(void)recurse_without_end(&one); /* never returns: overflows the stack */
}

static void crash_must(void)
{
	void *volatile unused = NULL;

	must(unused == crash_must);
}

/* Values that `fathom core` shows. */
static volatile struct {
	uint32_t used;
	int32_t left;
} crash_room = { .used = 3, .left = -2 };

static void crash_check(void)
{
	volatile uint32_t wanted = 5;

	must(crash_room.used + wanted <= 7 || crash_room.left > 0);
}

static void crash_abort(void)
{
	abort();
}

static void crash_free(void)
{
	void *volatile memory = malloc(NEAR_NULL);
	void *volatile again = memory;

	free(memory);
	free(again); /* the C library aborts */
	memory = NULL;
}

static void crash_call(void)
{
	void (*volatile nowhere)(void) = NULL;

	nowhere();
	nowhere = crash_call; /* so that the call is not the function's end, which the compiler makes a jump */
}

static void crash_jump(void)
{
	void (*volatile nowhere)(void) = (void (*)(void))0x123456789000ull; /* an address with nothing mapped */

	nowhere();
	nowhere = crash_jump;
}

static void crash_wild(void)
{
	(void)*(volatile uint64_t *)0x6b6b6b6b6b6b6b6bull; /* no address at all: as in freed memory */
}

static void crash_divide(void)
{
	volatile int zero = 0;

	zero = 7 / zero;
}

static void crash_illegal(void)
{
	__builtin_trap();
}

static void crash_mapping(void)
{
	int fd = memfd_create("crash", MFD_CLOEXEC);
	volatile uint8_t *map = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	must(map != MAP_FAILED);
	(void)*map; /* the file is empty: SIGBUS */
}

static const struct way {
	const char *how;
	void (*run)(void);
} ways[] = {
	{ "store", crash_store },     { "unmapped", crash_unmapped }, { "constant", crash_constant },
	{ "stack", crash_stack },     { "must", crash_must },	      { "check", crash_check },
	{ "abort", crash_abort },     { "free", crash_free },	      { "call", crash_call },
	{ "jump", crash_jump },	      { "wild", crash_wild },	      { "divide", crash_divide },
	{ "illegal", crash_illegal }, { "mapping", crash_mapping },
};

static void crash_now(const struct way *way)
{
	way->run();
	must(!way->how); /* it did not crash */
}

/* ---- threads ---- */

static void crash_here(void *ctx)
{
	const struct way *way = ctx;

	thread_exit(thread_self());
	crash_now(way);
}

static void crash_on_reactor(const struct way *way, struct reactor *reactor)
{
	struct fathom_thread *thread = thread_create("engine_crash", reactor);

	must(thread);
	thread_send_msg(thread, crash_here, (void *)way);
}

static void crash_on_control(const struct way *way, struct reactor *unused)
{
	crash_now(way);
}

struct worker_crash {
	struct worker_job job;
	const struct way *way;
};

static void crash_worker(struct worker_job *job)
{
	crash_now(container_of(job, struct worker_crash, job)->way);
}

static void crash_on_worker(const struct way *way, struct reactor *unused)
{
	static struct worker_crash crash;

	crash = (struct worker_crash){ .job = { .work = crash_worker, .done = crash_worker }, .way = way };
	must(worker_start(&crash.job) == 0);
}

struct helper_crash {
	struct uring_device device;
	struct uring_lane lane;
	struct uring_op op;
	const struct way *way;
};

static int32_t crash_helper(const struct uring_op *op)
{
	crash_now(container_of(op, struct helper_crash, op)->way);
	return 0;
}

static void helper_ended(struct uring_op *op, int32_t result)
{
	must(result == 0); /* the way to crash did not crash */
}

static void submit_to_helper(void *ctx)
{
	struct helper_crash *crash = ctx;

	uring_lane_init(&crash->lane, &crash->device);
	crash->op =
		(struct uring_op){ .done = helper_ended, .kind = URING_CALL, .call = crash_helper, .lane = &crash->lane };
	uring_submit(&crash->op);
}

static void crash_on_helper(const struct way *way, struct reactor *reactor)
{
	static struct helper_crash crash;
	struct fathom_thread *thread = thread_create("engine_crash", reactor);

	must(thread);
	uring_device_init(&crash.device, true);
	crash.way = way;
	thread_send_msg(thread, submit_to_helper, &crash);
}

struct completion_crash {
	struct bdev_desc *desc;
	struct bdev_io io;
	struct iovec iov;
	uint8_t data[READ_BYTES];
	const struct way *way;
};

static void crash_completion(struct bdev_io *io, enum io_status status)
{
	crash_now(container_of(io, struct completion_crash, io)->way);
}

static void submit_read(void *ctx)
{
	struct completion_crash *crash = ctx;
	struct bdev_channel *channel = bdev_channel_get(crash->desc);

	must(channel);
	bdev_io_init(&crash->io);
	crash->iov = (struct iovec){ .iov_base = crash->data, .iov_len = bdev_desc_bdev(crash->desc)->block_bytes };
	bdev_read(&crash->io, channel, &crash->iov, 1, 0, 1, clock_ticks(), crash_completion);
}

static void crash_in_completion(const struct way *way, struct reactor *reactor)
{
	static struct completion_crash crash;
	struct fathom_thread *thread = thread_create("engine_crash", reactor);
	struct bdev *bdev = bdev_first();

	must(thread && bdev);
	must(bdev->block_bytes <= READ_BYTES);
	must(bdev_open(bdev->name, NULL, NULL, &crash.desc) == 0);
	crash.way = way;
	thread_send_msg(thread, submit_read, &crash);
}

static const struct {
	const char *where;
	void (*crash)(const struct way *way, struct reactor *reactor);
} places[] = {
	{ "reactor", crash_on_reactor }, { "control", crash_on_control },	{ "worker", crash_on_worker },
	{ "helper", crash_on_helper },	 { "completion", crash_in_completion },
};

/* Crash the engine on purpose. Replies before, unless the control thread is the one that crashes. */
void method_engine_crash(struct rpc_request *request, const struct engine_crash_params *p)
{
	const char *where = p->where ? p->where : "reactor";
	const struct way *way = NULL;
	size_t place = 0;

	for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
		if (strcmp(p->how, ways[i].how) == 0)
			way = &ways[i];
	}
	while (place < ARRAY_COUNT(places) && strcmp(where, places[place].where) != 0)
		place++;
	if (!way || place == ARRAY_COUNT(places) || p->reactor >= reactors_count() ||
	    (places[place].crash == crash_in_completion && !bdev_first())) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
			  "Invalid parameters: there is no such way to crash, thread, reactor or block device");
		return;
	}
	places[place].crash(way, reactor_at((unsigned int)p->reactor));
	rpc_reply(request, json_true());
}
