/* SPDX-License-Identifier: BSD-2-Clause */
/* The core on a backend that uses all that its contract allows: limits, refusals, failures, resets. */
#include "model.h"
#include "tricky.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* ---- against the model ---- */

static void run(const struct tricky_options *tricky, const struct model_options *model)
{
	tricky_create(tricky);
	model_run(tricky->name, model);
	rig_delete(tricky->name);
}

static void random_io_agrees_with_the_model(void **state)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		run(&(struct tricky_options){ .name = "t",
					      .seed = seed,
					      .block_count = 3000,
					      .block_bytes = 512,
					      .types = TRICKY_ALL,
					      .inline_percent = 50 },
		    &(struct model_options){ .seed = seed,
					     .ops = 4000,
					     .depth = 32,
					     .blocks_max = 64,
					     .iov_count_max = 16,
					     .cut_bytes = 1 });
}

static void splits_respect_small_limits_for_any_vector(void **state)
{
	struct random random;

	random_init(&random, 7);
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct tricky_options tricky = {
			.name = "t",
			.seed = seed,
			.block_count = 2000,
			.block_bytes = seed % 3 ? 512 : 4096,
			.types = TRICKY_LEAST,
			.inline_percent = (uint32_t)random_below(&random, 101),
			.refuse_percent = seed % 2 ? 0 : 30,
			.io_blocks_max = (uint32_t)random_below(&random, 9),
			.iov_count_max = (uint32_t)random_below(&random, 5),
			.boundary_blocks = (uint32_t)random_below(&random, 20),
			.buffer_alignment = 1u << random_below(&random, 13),
		};
		const uint32_t cuts[] = { 1, 7, 64, 512 };
		struct model_options model = { .seed = seed,
					       .ops = 1500,
					       .depth = 24,
					       .blocks_max = 40,
					       .iov_count_max = 40,
					       .cut_bytes = cuts[seed % 4] };

		/* some support more than the required types */
		tricky.types |= seed % 4 == 0 ? TRICKY_ALL & ~BIT(IO_TYPE_RESET) : BIT(IO_TYPE_UNMAP);
		tricky.zeroes_refused_late = seed % 8 == 0;
		run(&tricky, &model);
	}
}

static void io_refused_by_the_backend_is_queued_and_not_lost(void **state)
{
	for (uint64_t seed = 1; seed <= 6; seed++)
		run(&(struct tricky_options){ .name = "t",
					      .seed = seed,
					      .block_count = 3000,
					      .block_bytes = 512,
					      .types = TRICKY_ALL,
					      .refuse_percent = (uint32_t)(seed * 16),
					      .inline_percent = seed % 2 ? 100 : 30 },
		    &(struct model_options){
			    .seed = seed, .ops = 3000, .depth = 64, .blocks_max = 16, .iov_count_max = 4, .cut_bytes = 1 });
}

static void each_io_ends_under_random_resets(void **state)
{
	for (uint64_t seed = 1; seed <= 12; seed++)
		run(&(struct tricky_options){ .name = "t",
					      .seed = seed,
					      .block_count = 3000,
					      .block_bytes = 512,
					      .types = seed % 2 ? TRICKY_ALL : TRICKY_LEAST | BIT(IO_TYPE_UNMAP),
					      .refuse_percent = 20,
					      .inline_percent = 30,
					      .io_blocks_max = seed % 3 ? 5 : 0 },
		    &(struct model_options){ .seed = seed,
					     .ops = 4000,
					     .depth = 48,
					     .blocks_max = 60,
					     .iov_count_max = 8,
					     .cut_bytes = 1,
					     .may_abort = true });
}

/* ---- single I/Os ---- */

static void io_beyond_the_end_or_with_a_wrong_length_is_invalid(void **state)
{
	static uint8_t buffer[200 * 512];
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct tricky *tricky = tricky_open(&tricky_plain, &desc, &ch);
	struct fathom_thread *t = rig_thread(0);
	const struct {
		uint64_t index, count;
	} bad[] = { { 0, 0 },	       { 100, 1 },	  { 99, 2 },	     { 0, 101 },
		    { UINT64_MAX, 1 }, { UINT64_MAX, 2 }, { 1, UINT64_MAX }, { 50, 51 } };
	struct rig_io io;

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
		for (enum io_type type = IO_TYPE_READ; type <= IO_TYPE_COMPARE; type++) {
			if (type != IO_TYPE_FLUSH)
				assert_int_equal(rig_io(t, ch, type, buffer, bad[i].index, bad[i].count), IO_INVALID);
		}
	}
	/* a vector whose length differs from the block count */
	rig_io_init(&io, t, ch);
	io.iov[0] = (struct iovec){ buffer, 511 };
	io.iov_count = 1;
	rig_io_begin(&io, IO_TYPE_WRITE, NULL, 0, 1);
	assert_int_equal(rig_io_end(&io), IO_INVALID);
	io.iov[1] = (struct iovec){ buffer, 2 };
	io.iov_count = 2;
	rig_io_begin(&io, IO_TYPE_WRITE, NULL, 0, 1);
	assert_int_equal(rig_io_end(&io), IO_INVALID);
	io.iov[1].iov_len = 1;
	rig_io_begin(&io, IO_TYPE_WRITE, NULL, 99, 1);
	assert_int_equal(rig_io_end(&io), IO_SUCCESS);
	assert_int_equal(tricky->submits, 1);
	tricky_close(desc, ch, "t");
}

static void missing_types_of_a_backend_are_emulated_or_unsupported(void **state)
{
	struct tricky_options options = tricky_plain;
	uint8_t buffer[512] = { 1 };
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct fathom_thread *t = rig_thread(0);
	struct bdev *bdev;

	options.types = BIT(IO_TYPE_READ) | BIT(IO_TYPE_WRITE);
	tricky_open(&options, &desc, &ch);
	bdev = bdev_desc_bdev(desc);
	assert_int_equal(rig_io(t, ch, IO_TYPE_UNMAP, NULL, 0, 1), IO_UNSUPPORTED);
	assert_false(bdev_supports(bdev, IO_TYPE_UNMAP));
	assert_int_equal(rig_io(t, ch, IO_TYPE_WRITE, buffer, 3, 1), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_COMPARE, buffer, 3, 1), IO_SUCCESS);
	assert_true(bdev_supports(bdev, IO_TYPE_COMPARE));
	buffer[511] = 1;
	assert_int_equal(rig_io(t, ch, IO_TYPE_COMPARE, buffer, 3, 1), IO_MISCOMPARE);
	assert_int_equal(rig_io(t, ch, IO_TYPE_WRITE_ZEROES, NULL, 0, 100), IO_SUCCESS);
	memset(buffer, 0, sizeof(buffer));
	assert_int_equal(rig_io(t, ch, IO_TYPE_COMPARE, buffer, 3, 1), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_FLUSH, NULL, 0, 0), IO_SUCCESS); /* without a cache a flush succeeds */
	assert_int_equal(rig_io(t, ch, IO_TYPE_RESET, NULL, 0, 0), IO_SUCCESS);
	tricky_close(desc, ch, "t");
	options.write_cache = true;
	tricky_open(&options, &desc, &ch);
	assert_int_equal(rig_io(t, ch, IO_TYPE_FLUSH, NULL, 0, 0), IO_UNSUPPORTED);
	tricky_close(desc, ch, "t");
}

static void writes_to_a_read_only_device_are_refused(void **state)
{
	struct tricky_options options = tricky_plain;
	uint8_t buffer[512] = { 0 };
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct fathom_thread *t = rig_thread(0);

	options.read_only = true;
	tricky_open(&options, &desc, &ch);
	assert_int_equal(rig_io(t, ch, IO_TYPE_WRITE, buffer, 0, 1), IO_READ_ONLY);
	assert_int_equal(rig_io(t, ch, IO_TYPE_UNMAP, NULL, 0, 1), IO_READ_ONLY);
	assert_int_equal(rig_io(t, ch, IO_TYPE_WRITE_ZEROES, NULL, 0, 1), IO_READ_ONLY);
	assert_int_equal(rig_io(t, ch, IO_TYPE_READ, buffer, 0, 1), IO_SUCCESS);
	assert_int_equal(rig_io(t, ch, IO_TYPE_COMPARE, buffer, 0, 1), IO_SUCCESS);
	assert_int_equal(rig_stats("t").errors[IO_READ_ONLY], 3);
	tricky_close(desc, ch, "t");
}

static void io_refused_with_no_other_io_in_progress_is_retried(void **state)
{
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct tricky *tricky = tricky_open(&tricky_plain, &desc, &ch);
	uint8_t buffer[512];
	struct rig_io io;

	tricky->refuse_next = 5;
	rig_io_init(&io, rig_thread(0), ch);
	rig_io_begin(&io, IO_TYPE_READ, buffer, 0, 1);
	assert_int_equal(io.done, 0);
	assert_int_equal(rig_stats("t").queued, 1);
	assert_int_equal(rig_stats("t").queue_depth, 1);
	assert_int_equal(io.io.story.state, BDEV_IO_QUEUED);
	assert_int_equal(rig_io_end(&io), IO_SUCCESS);
	assert_int_equal(tricky->refuse_next, 0);
	assert_true(rig_stats("t").read_latency_ticks >= 5 * 100 * NS_PER_US);
	tricky_close(desc, ch, "t");
}

enum { FIFO_COUNT = 300 };

static struct {
	struct bdev_io ios[FIFO_COUNT];
	struct iovec iov;
	uint8_t buffer[512];
	struct bdev_channel *ch;
	uint32_t done;
} fifo;

static void fifo_done(struct bdev_io *io, enum io_status status)
{
	must(status == IO_SUCCESS);
	must(io == &fifo.ios[fifo.done]);
	fifo.done++;
}

static void fifo_submit(void *unused)
{
	for (int i = 0; i < FIFO_COUNT; i++) {
		bdev_io_init(&fifo.ios[i]);
		bdev_read(&fifo.ios[i], fifo.ch, &fifo.iov, 1, 0, 1, reactor_now(), fifo_done);
	}
}

static void the_queue_is_first_in_first_out(void **state)
{
	struct bdev_desc *desc;
	struct tricky *tricky = tricky_open(&tricky_plain, &desc, &fifo.ch);

	tricky->refuse_next = 2;
	fifo.iov = (struct iovec){ fifo.buffer, sizeof(fifo.buffer) };
	fifo.done = 0;
	rig_on(rig_thread(0), fifo_submit, NULL);
	assert_int_equal(fifo.done, 0);
	rig_wait(&fifo.done, FIFO_COUNT);
	tricky_close(desc, fifo.ch, "t");
}

enum { CHAIN_COUNT = 200000 };

static struct {
	struct bdev_io io;
	struct iovec iov;
	struct bdev_channel *ch;
	uint32_t begun, done;
	uintptr_t stack_from;
} chain;

static void chain_next(void);

static void chain_done(struct bdev_io *io, enum io_status status)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	must(status == IO_SUCCESS);
	/* the second case: called by the poller, further up the stack */
	must(chain.stack_from - here < 64 * 1024 || here > chain.stack_from);
	chain.done++;
	if (chain.begun < CHAIN_COUNT)
		chain_next();
}

static void chain_next(void)
{
	chain.begun++;
	bdev_read(&chain.io, chain.ch, &chain.iov, 1, 0, 1, 1000, chain_done);
}

static void chain_start(void *unused)
{
	bdev_io_init(&chain.io);
	chain.stack_from = (uintptr_t)__builtin_frame_address(0);
	chain_next();
}

static void submission_inside_done_does_not_recurse_without_bound(void **state)
{
	struct bdev_desc *desc;

	rig_null("n", 100, 512);
	desc = rig_open("n");
	chain.ch = rig_channel_get(rig_thread(0), desc);
	chain.iov = (struct iovec){ bdev_zeroes(), 512 };
	chain.begun = chain.done = 0;
	rig_on(rig_thread(0), chain_start, NULL);
	rig_wait(&chain.done, CHAIN_COUNT);
	tricky_close(desc, chain.ch, "n");
}

/* ---- failures ---- */

/* Fail the n-th submission to the backend, for each n. */
static void fail_each_child(enum io_type type, struct tricky_options options)
{
	static uint8_t buffer[100 * 512];
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct tricky *tricky = tricky_open(&options, &desc, &ch);
	enum io_status status;
	uint32_t n = 0;

	memset(buffer, 0, sizeof(buffer));
	do {
		tricky->submits = 0;
		tricky->fail_at = ++n;
		status = rig_io(rig_thread(0), ch, type, type == IO_TYPE_WRITE_ZEROES ? NULL : buffer, 0, 100);
		assert_true(status == IO_SUCCESS || status == IO_MEDIA_ERROR);
		assert_int_equal(rig_stats("t").queue_depth, 0);
		assert_int_equal(tricky->held, 0);
	} while (status != IO_SUCCESS);
	assert_true(n > 10);
	assert_int_equal(rig_stats("t").errors[IO_MEDIA_ERROR], n - 1);
	tricky_close(desc, ch, "t");
}

static void a_split_io_fails_if_any_child_fails(void **state)
{
	for (uint32_t inline_percent = 0; inline_percent <= 100; inline_percent += 50) {
		struct tricky_options options = { .name = "t",
						  .block_count = 100,
						  .block_bytes = 512,
						  .io_blocks_max = 7,
						  .types = TRICKY_LEAST,
						  .inline_percent = inline_percent };

		fail_each_child(IO_TYPE_READ, options);
		fail_each_child(IO_TYPE_WRITE, options);
		fail_each_child(IO_TYPE_COMPARE, options);
		fail_each_child(IO_TYPE_WRITE_ZEROES, options);
		options.buffer_alignment = 4096; /* 512 bytes further: not aligned */
		fail_each_child(IO_TYPE_READ, options);
		fail_each_child(IO_TYPE_WRITE, options);
	}
}

/* ---- reset ---- */

static void a_reset_aborts_the_queue_and_waits_for_the_backend(void **state)
{
	struct tricky_options options = tricky_plain;
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct tricky *tricky;
	static uint8_t buffer[100 * 512];
	struct rig_io held, queued, split, reset, after, again;
	struct rig_io *all[] = { &held, &queued, &split, &reset, &after, &again };

	options.types = TRICKY_LEAST;
	options.io_blocks_max = 1;
	options.inline_percent = 0;
	tricky = tricky_open(&options, &desc, &ch);
	for (size_t i = 0; i < ARRAY_COUNT(all); i++)
		rig_io_init(all[i], rig_thread(0), ch);
	tricky->hold = true;
	rig_io_begin(&held, IO_TYPE_READ, buffer, 0, 1);
	tricky->refuse_next = 1 << 30;
	rig_io_begin(&queued, IO_TYPE_READ, buffer, 0, 1);
	rig_io_begin(&split, IO_TYPE_WRITE, buffer, 0, 100);
	assert_int_equal(rig_stats("t").queued, 1 + BDEV_IO_CHILDREN_MAX);
	rig_io_begin(&reset, IO_TYPE_RESET, NULL, 0, 0);
	assert_int_equal(queued.done, 1);
	assert_int_equal(queued.status, IO_ABORTED);
	assert_int_equal(split.done, 1);
	assert_int_equal(split.status, IO_ABORTED);
	assert_int_equal(reset.done, 0);
	rig_io_begin(&after, IO_TYPE_READ, buffer, 0, 1);
	rig_io_begin(&again, IO_TYPE_RESET, NULL, 0, 0);
	rig_settle();
	assert_int_equal(reset.done + after.done + again.done + held.done, 0);
	tricky->refuse_next = 0;
	tricky->hold = false;
	assert_int_equal(rig_io_end(&held), IO_SUCCESS);
	assert_int_equal(rig_io_end(&reset), IO_SUCCESS);
	assert_int_equal(rig_io_end(&again), IO_SUCCESS);
	assert_int_equal(rig_io_end(&after), IO_ABORTED); /* it was queued when the second reset began */
	assert_int_equal(rig_stats("t").errors[IO_ABORTED], 3);
	assert_int_equal(rig_stats("t").reset_ops, 2);
	tricky_close(desc, ch, "t");
}

static void a_reset_ends_io_held_by_a_backend_that_supports_it(void **state)
{
	struct tricky_options options = tricky_plain;
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct tricky *tricky = tricky_open(&options, &desc, &ch);
	uint8_t buffer[512];
	struct rig_io held;

	tricky->hold = true;
	rig_io_init(&held, rig_thread(0), ch);
	rig_io_begin(&held, IO_TYPE_READ, buffer, 0, 1);
	assert_int_equal(held.done, 0);
	assert_int_equal(rig_io(rig_thread(0), ch, IO_TYPE_RESET, NULL, 0, 0), IO_SUCCESS);
	assert_int_equal(held.done, 1);
	assert_int_equal(held.status, IO_ABORTED);
	tricky_close(desc, ch, "t");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(random_io_agrees_with_the_model),
		CASE(splits_respect_small_limits_for_any_vector),
		CASE(io_refused_by_the_backend_is_queued_and_not_lost),
		CASE(each_io_ends_under_random_resets),
		CASE(io_beyond_the_end_or_with_a_wrong_length_is_invalid),
		CASE(missing_types_of_a_backend_are_emulated_or_unsupported),
		CASE(writes_to_a_read_only_device_are_refused),
		CASE(io_refused_with_no_other_io_in_progress_is_retried),
		CASE(the_queue_is_first_in_first_out),
		CASE(submission_inside_done_does_not_recurse_without_bound),
		CASE(a_split_io_fails_if_any_child_fails),
		CASE(a_reset_aborts_the_queue_and_waits_for_the_backend),
		CASE(a_reset_ends_io_held_by_a_backend_that_supports_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
