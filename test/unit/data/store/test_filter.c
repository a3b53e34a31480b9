/* SPDX-License-Identifier: BSD-2-Clause */
/* The faulty filter injects only the configured errors, and the same ones for the same seed. */
#include "model.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "data/store/filter/filter.h"

enum { BLOCKS = 200, BLOCK = 512 };

static struct {
	struct bdev_desc *desc, *base_desc;
	struct bdev_channel *ch, *base;
	struct fathom_thread *t;
} on;

struct call {
	const char *name;
	const void *what;
	uint64_t *counts;
	struct fathom_fault why;
	uint32_t types;
	int rc;
};

static void do_create(void *ctx)
{
	struct call *call = ctx;

	call->rc = filter_create(call->what, &call->why);
}

static void do_inject(void *ctx)
{
	struct call *call = ctx;

	call->rc = filter_inject(call->name, call->what, &call->why);
}

static void do_clear(void *ctx)
{
	struct call *call = ctx;

	call->rc = filter_clear(call->name, call->types);
}

static void do_counts(void *ctx)
{
	struct call *call = ctx;

	call->rc = filter_counts(call->name, call->counts);
}

static int create(const struct filter_options *options)
{
	struct call call = { .what = options };

	rig_on(thread_control(), do_create, &call);
	return call.rc;
}

static int inject(const struct filter_rule *rule)
{
	struct call call = { .name = "EE_m", .what = rule };

	rig_on(thread_control(), do_inject, &call);
	return call.rc;
}

static void clear(uint32_t types)
{
	struct call call = { .name = "EE_m", .types = types };

	rig_on(thread_control(), do_clear, &call);
	assert_int_equal(call.rc, 0);
}

static uint64_t count_of(enum filter_effect effect)
{
	uint64_t counts[FILTER_EFFECTS_MAX];
	struct call call = { .name = "EE_m", .counts = counts };

	rig_on(thread_control(), do_counts, &call);
	assert_int_equal(call.rc, 0);
	return counts[effect];
}

/* A filter on a malloc device, with a channel to each, so that the test can read the base directly. */
static int setup_seed(uint64_t seed)
{
	rig_start(true);
	rig_malloc("m", BLOCKS, BLOCK);
	on.t = rig_thread(0);
	on.base_desc = rig_open("m");
	assert_int_equal(create(&(struct filter_options){ .base_name = "m", .seed = seed, .keep_versions = true }), 0);
	on.desc = rig_open("EE_m");
	on.ch = rig_channel_get(on.t, on.desc);
	on.base = rig_channel_get(on.t, on.base_desc);
	return 0;
}

static int setup(void **state)
{
	return setup_seed(1);
}

static int teardown(void **state)
{
	rig_channel_put(on.t, on.ch);
	rig_channel_put(on.t, on.base);
	rig_close(on.desc);
	rig_close(on.base_desc);
	rig_delete("EE_m");
	rig_delete("m");
	rig_stop();
	return 0;
}

static enum io_status upper(enum io_type type, uint8_t *buffer, uint64_t index, uint64_t count)
{
	return rig_io(on.t, on.ch, type, buffer, index, count);
}

static void write_letter(char letter, uint64_t index)
{
	uint8_t buffer[BLOCK];

	memset(buffer, letter, BLOCK);
	assert_int_equal(upper(IO_TYPE_WRITE, buffer, index, 1), IO_SUCCESS);
}

/* The letter (or 0) that fills the block; -1: not the same in all bytes. */
static int letter_at(struct bdev_channel *ch, uint64_t index)
{
	uint8_t buffer[BLOCK];

	memset(buffer, 0xff, BLOCK);
	assert_int_equal(rig_io(on.t, ch, IO_TYPE_READ, buffer, index, 1), IO_SUCCESS);
	return memcmp(buffer, buffer + 1, BLOCK - 1) == 0 ? buffer[0] : -1;
}

#define WRITES BIT(IO_TYPE_WRITE)
#define READS BIT(IO_TYPE_READ)

static void without_rules_all_io_is_unchanged(void **state)
{
	model_run("EE_m", &(struct model_options){ .seed = 1,
						   .ops = 5000,
						   .depth = MODEL_DEPTH_MAX,
						   .blocks_max = 20,
						   .iov_count_max = 9,
						   .cut_bytes = 1,
						   .may_abort = true });
	assert_int_equal(count_of(FILTER_DROP) + count_of(FILTER_FAIL), 0);
}

static void refused_and_delayed_io_is_not_lost(void **state)
{
	assert_int_equal(inject(&(struct filter_rule){ .types = ~0u, .effect = FILTER_REFUSE, .one_in = 3 }), 0);
	assert_int_equal(inject(&(struct filter_rule){ .types = READS | WRITES,
						       .effect = FILTER_DELAY,
						       .one_in = 2,
						       .delay_ns = 300 * NS_PER_US }),
			 0);
	model_run("EE_m",
		  &(struct model_options){
			  .seed = 2, .ops = 3000, .depth = 40, .blocks_max = 20, .iov_count_max = 9, .cut_bytes = 1 });
	assert_true(count_of(FILTER_REFUSE) > 500);
	assert_true(count_of(FILTER_DELAY) > 500);
}

static void a_dropped_write_is_acknowledged_but_not_stored(void **state)
{
	write_letter('a', 5);
	assert_int_equal(inject(&(struct filter_rule){ .types = WRITES, .effect = FILTER_DROP, .skip = 1, .count = 1 }), 0);
	write_letter('b', 5);
	assert_int_equal(letter_at(on.ch, 5), 'b');
	write_letter('c', 5);
	assert_int_equal(letter_at(on.ch, 5), 'b');
	write_letter('d', 5);
	assert_int_equal(letter_at(on.base, 5), 'd');
	assert_int_equal(count_of(FILTER_DROP), 1);
}

static void a_swapped_write_is_stored_at_another_block(void **state)
{
	int found = 0;

	assert_int_equal(inject(&(struct filter_rule){ .types = WRITES, .effect = FILTER_SWAP, .count = 1 }), 0);
	write_letter('x', 7);
	assert_int_equal(letter_at(on.base, 7), 0);
	for (uint64_t i = 0; i < BLOCKS; i++)
		found += letter_at(on.base, i) == 'x';
	assert_int_equal(found, 1);
}

static void a_stale_read_returns_the_previous_content(void **state)
{
	write_letter('a', 3);
	write_letter('b', 3);
	assert_int_equal(inject(&(struct filter_rule){ .types = READS, .effect = FILTER_STALE, .count = 1 }), 0);
	assert_int_equal(letter_at(on.ch, 3), 'a');
	assert_int_equal(letter_at(on.ch, 3), 'b');
}

static void corruption_changes_the_configured_byte(void **state)
{
	uint8_t buffer[2 * BLOCK];

	write_letter('a', 0);
	write_letter('a', 1);
	assert_int_equal(inject(&(struct filter_rule){ .types = READS,
						       .effect = FILTER_CORRUPT,
						       .count = 1,
						       .corrupt_offset = 600,
						       .corrupt_value = 'z' }),
			 0);
	assert_int_equal(upper(IO_TYPE_READ, buffer, 0, 2), IO_SUCCESS);
	for (int i = 0; i < 2 * BLOCK; i++)
		assert_int_equal(buffer[i], i == 600 ? 'z' : 'a');
	assert_int_equal(letter_at(on.base, 1), 'a');
	/* a write: the caller's memory must be unchanged */
	assert_int_equal(inject(&(struct filter_rule){ .types = WRITES, .effect = FILTER_CORRUPT }), 0);
	memset(buffer, 'q', sizeof(buffer));
	assert_int_equal(upper(IO_TYPE_WRITE, buffer, 0, 1), IO_SUCCESS);
	for (int i = 0; i < 2 * BLOCK; i++)
		assert_int_equal(buffer[i], 'q');
	assert_int_equal(letter_at(on.base, 0), -1);
	clear(WRITES);
	write_letter('r', 0);
	assert_int_equal(letter_at(on.base, 0), 'r');
}

static void a_failure_has_the_configured_status_and_no_effect(void **state)
{
	uint8_t buffer[BLOCK];

	memset(buffer, 'f', BLOCK);
	assert_int_equal(inject(&(struct filter_rule){
				 .types = WRITES, .effect = FILTER_FAIL, .status = IO_NO_SPACE, .count = 2 }),
			 0);
	assert_int_equal(upper(IO_TYPE_WRITE, buffer, 0, 1), IO_NO_SPACE);
	assert_int_equal(upper(IO_TYPE_READ, buffer, 0, 1), IO_SUCCESS);
	assert_int_equal(buffer[0], 0);
	assert_int_equal(upper(IO_TYPE_WRITE, buffer, 0, 1), IO_NO_SPACE);
	assert_int_equal(upper(IO_TYPE_WRITE, buffer, 0, 1), IO_SUCCESS);
}

static void io_held_by_a_rule_ends_only_by_a_reset(void **state)
{
	uint8_t buffer[BLOCK];
	struct rig_io io;

	assert_int_equal(inject(&(struct filter_rule){ .types = READS, .effect = FILTER_PENDING, .count = 1 }), 0);
	rig_io_init(&io, on.t, on.ch);
	rig_io_begin(&io, IO_TYPE_READ, buffer, 0, 1);
	rig_pass_time(10 * NS_PER_SEC);
	assert_int_equal(io.done, 0);
	assert_int_equal(upper(IO_TYPE_READ, buffer, 0, 1), IO_SUCCESS); /* other types are not held */
	assert_int_equal(upper(IO_TYPE_RESET, NULL, 0, 0), IO_SUCCESS);
	assert_int_equal(rig_io_end(&io), IO_ABORTED);
}

static void a_delay_has_the_configured_length(void **state)
{
	uint8_t buffer[BLOCK];
	struct rig_io io;

	assert_int_equal(inject(&(struct filter_rule){ .types = READS, .effect = FILTER_DELAY, .delay_ns = NS_PER_MS }), 0);
	rig_io_init(&io, on.t, on.ch);
	rig_io_begin(&io, IO_TYPE_READ, buffer, 0, 1);
	assert_int_equal(rig_io_end(&io), IO_SUCCESS);
	assert_in_range(rig_stats("EE_m").read_latency_ticks, NS_PER_MS - 50 * NS_PER_US, NS_PER_MS + 300 * NS_PER_US);
	assert_true(rig_stats("m").read_latency_ticks < NS_PER_MS / 2); /* its base is not slow */
	/* a reset does not wait for the delay */
	rig_io_begin(&io, IO_TYPE_READ, buffer, 0, 1);
	assert_int_equal(upper(IO_TYPE_RESET, NULL, 0, 0), IO_SUCCESS);
	assert_int_equal(io.done, 1);
	assert_int_equal(io.status, IO_ABORTED);
}

/* Write 300 times; `map` has a bit for each dropped write. */
static void dropped(uint64_t seed, uint8_t map[300])
{
	setup_seed(seed);
	assert_int_equal(inject(&(struct filter_rule){ .types = WRITES, .effect = FILTER_DROP, .one_in = 10 }), 0);
	for (int i = 0; i < 300; i++) {
		uint64_t before = count_of(FILTER_DROP);

		write_letter('a', (uint64_t)i % BLOCKS);
		map[i] = (uint8_t)(count_of(FILTER_DROP) - before);
	}
	teardown(NULL);
}

static void the_same_seed_gives_the_same_faults(void **state)
{
	uint8_t a[300], b[300], c[300];
	int count = 0;

	dropped(1, a);
	dropped(1, b);
	dropped(2, c);
	assert_memory_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, c, sizeof(a));
	for (int i = 0; i < 300; i++)
		count += a[i];
	assert_in_range(count, 10, 60);
}

static void invalid_rules_are_refused(void **state)
{
	const struct filter_rule good = { .types = READS, .effect = FILTER_DROP };
	struct filter_rule bad = good;

	bad.types = 0;
	assert_int_equal(inject(&bad), -EINVAL);
	bad = good;
	bad.effect = FILTER_NONE;
	assert_int_equal(inject(&bad), -EINVAL);
	bad.effect = FILTER_FAIL;
	bad.status = IO_SUCCESS;
	assert_int_equal(inject(&bad), -EINVAL);
	for (int i = 0; i < FILTER_RULES_MAX; i++)
		assert_int_equal(inject(&good), 0);
	assert_int_equal(inject(&good), -ENOSPC);
	assert_int_equal(create(&(struct filter_options){ .base_name = "m" }), -EPERM);
	assert_int_equal(create(&(struct filter_options){ .base_name = "absent" }), -ENODEV);
	assert_int_equal(create(&(struct filter_options){ .base_name = "EE_m", .name = "EE_m" }), -EEXIST);
}

static void a_filter_is_removed_with_its_base(void **state)
{
	rig_start(true);
	rig_malloc("m", BLOCKS, BLOCK);
	assert_int_equal(create(&(struct filter_options){ .base_name = "m" }), 0);
	assert_int_equal(create(&(struct filter_options){ .base_name = "EE_m", .name = "top" }), 0);
	assert_non_null(rig_find("top"));
	rig_delete("m");
	assert_null(rig_find("m"));
	assert_null(rig_find("EE_m"));
	assert_null(rig_find("top"));
	rig_stop();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(without_rules_all_io_is_unchanged),
		CASE(refused_and_delayed_io_is_not_lost),
		CASE(a_dropped_write_is_acknowledged_but_not_stored),
		CASE(a_swapped_write_is_stored_at_another_block),
		CASE(a_stale_read_returns_the_previous_content),
		CASE(corruption_changes_the_configured_byte),
		CASE(a_failure_has_the_configured_status_and_no_effect),
		CASE(io_held_by_a_rule_ends_only_by_a_reset),
		CASE(a_delay_has_the_configured_length),
		cmocka_unit_test(the_same_seed_gives_the_same_faults),
		CASE(invalid_rules_are_refused),
		cmocka_unit_test(a_filter_is_removed_with_its_base),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
