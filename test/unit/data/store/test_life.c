/* SPDX-License-Identifier: BSD-2-Clause */
/* Life cycle of bdevs, statistics, names and tables. */
#include "tricky.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

static int setup_real(void **state)
{
	rig_start(false);
	return 0;
}

/* ---- life cycle ---- */

static void a_deleted_bdev_is_destroyed_at_its_last_close(void **state)
{
	uint32_t removed[2] = { 0, 0 }, destroyed = 0;
	struct tricky *tricky = tricky_create(&tricky_plain);
	struct bdev_desc *a = rig_open_watched("t", &removed[0]), *b = rig_open_watched("t", &removed[1]);
	struct bdev_channel *ch = rig_channel_get(rig_thread(0), a), *other = rig_channel_get(rig_thread(1), b);
	uint8_t buffer[512];

	tricky->destroyed = &destroyed;
	assert_ptr_not_equal(ch, other);
	rig_delete_begin("t");
	rig_settle();
	assert_int_equal(removed[0], 1);
	assert_int_equal(removed[1], 1);
	assert_null(rig_find("t"));
	assert_int_equal(rig_delete_gone(), 0);
	assert_int_equal(rig_io(rig_thread(0), ch, IO_TYPE_READ, buffer, 0, 1),
			 IO_SUCCESS); /* I/O through open descriptors still works */
	rig_channel_put(rig_thread(0), ch);
	rig_close(a);
	rig_channel_put(rig_thread(1), other);
	rig_settle();
	assert_int_equal(destroyed, 0);
	rig_close(b);
	rig_settle();
	assert_int_equal(destroyed, 1);
	assert_int_equal(rig_delete_gone(), 1);
	/* the name is free again */
	tricky_create(&tricky_plain);
	rig_delete("t");
}

static struct bdev_desc *closing[2];

static void close_both(void *ctx)
{
	for (int i = 0; i < 2; i++) {
		bdev_close(closing[i]);
		closing[i] = NULL;
	}
}

static void open_both(void *unused)
{
	for (int i = 0; i < 2; i++)
		must(bdev_open("t", close_both, NULL, &closing[i]) == 0);
}

static void descriptors_may_be_closed_in_the_removal_callback(void **state)
{
	uint32_t destroyed = 0;

	tricky_create(&tricky_plain)->destroyed = &destroyed;
	rig_on(thread_control(), open_both, NULL);
	rig_delete("t");
	assert_int_equal(destroyed, 1);
	assert_null(closing[0]);
}

static void check_registry(void *unused)
{
	struct bdev *bdev = bdev_find("t"), *other = bdev_find("n");
	struct bdev_desc *desc;

	must(bdev);
	must(bdev_first() == bdev);
	must(bdev_next(bdev) == other);
	must(!bdev_next(other));
	must(bdev_open("absent", NULL, NULL, &desc) == -ENODEV);
	must(bdev_claim(bdev) == 0);
	must(bdev_claim(bdev) == -EPERM);
	bdev_release(bdev);
	must(bdev_claim(bdev) == 0);
	bdev_release(bdev);
	must(backend_delete("n", "malloc", NULL, NULL) == -ENODEV);
	must(backend_delete("absent", NULL, NULL, NULL) == -ENODEV);
	must(bdev_open("n", NULL, NULL, &desc) == 0);
	must(backend_delete("n", "null", NULL, NULL) == 0);
	must(bdev_unregister(other, NULL, NULL) == -EBUSY);
	must(!bdev_find("n"));
	bdev_close(desc);
	bdev_close(NULL);
}

static void names_are_found_opened_and_claimed_once(void **state)
{
	uint8_t nil[16] = { 0 };
	struct bdev *bdev;

	bdev = &tricky_create(&tricky_plain)->bdev;
	rig_null("n", 1, 512);
	assert_memory_not_equal(bdev->uuid, nil, sizeof(nil));
	rig_on(thread_control(), check_registry, NULL);
	rig_delete("t");
}

static void an_invalid_geometry_is_refused_with_a_reason(void **state)
{
	const struct bdev_ops *ops = tricky_create(&tricky_plain)->bdev.ops;
	const struct bdev good = { .name = "b", .block_bytes = 512, .block_count = 1, .ops = ops };
	struct bdev bad[9];

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
		bad[i] = good;
	bad[0].name[0] = '\0';
	bad[1].block_bytes = 0;
	bad[2].block_bytes = 513;
	bad[3].block_bytes = 131072;
	bad[4].block_count = 0;
	bad[5].block_count = UINT64_MAX / 512;
	bad[6].physical_block_bytes = 256;
	bad[7].buffer_alignment = 8192;
	bad[8].name[0] = 't';
	for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
		struct fathom_fault why = { 0 };

		assert_int_equal(rig_register(&bad[i], &why), i == 8 ? -EEXIST : -EINVAL);
		assert_int_equal(why.error, i == 8 ? -EEXIST : -EINVAL);
		assert_true(strlen(why.text) > 10);
	}
	rig_delete("t");
}

static void reserve_and_rename(void *ctx)
{
	struct bdev *bdev = bdev_find("t");
	struct fathom_fault why;

	must(bdev_reserve_name(bdev, "n", &why) == -EEXIST);
	must(bdev_reserve_name(bdev, "", &why) == -EINVAL);
	must(bdev_reserve_name(bdev, "u", &why) == 0);
	bdev_drop_name(bdev);
	must(bdev_reserve_name(bdev, "u", &why) == 0);
	must(!bdev_find("u"));
	must(null_create(ctx, &why) == -EEXIST);
	bdev_rename(bdev);
	must(bdev_find("u") == bdev && !bdev_find("t"));
	must(strcmp(bdev_name(bdev), "u") == 0);
}

static void a_bdev_gets_another_name_while_it_is_used(void **state)
{
	struct null_options other = { .name = "u", .block_count = 1 };
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	uint8_t buffer[512];

	tricky_create(&tricky_plain);
	rig_null("n", 1, 512);
	desc = rig_open("t");
	ch = rig_channel_get(rig_thread(0), desc);
	rig_on(thread_control(), reserve_and_rename, &other);
	assert_int_equal(rig_io(rig_thread(0), ch, IO_TYPE_READ, buffer, 0, 1), IO_SUCCESS);
	assert_int_equal(rig_stats("u").read_ops, 1);
	tricky_create(&tricky_plain); /* "t" is free */
	rig_channel_put(rig_thread(0), ch);
	rig_close(desc);
	rig_settle();
	rig_delete("u");
	rig_delete("t");
	rig_delete("n");
}

/* ---- statistics ---- */

static void count_channels(void *ctx, uint64_t id, const struct bdev_stats *stats)
{
	uint64_t *sum = ctx;

	assert_true(id > 0);
	sum[0]++;
	sum[1] += stats->read_ops;
}

static void statistics_add_up_over_channels_open_and_closed(void **state)
{
	static uint8_t buffer[4 * 512];
	struct bdev_desc *desc;
	struct bdev_channel *a, *b;
	struct bdev_stats stats;
	struct bdev *bdev;
	uint64_t sum[2] = { 0, 0 };

	tricky_create(&tricky_plain);
	desc = rig_open("t");
	bdev = bdev_desc_bdev(desc);
	a = rig_channel_get(rig_thread(0), desc);
	b = rig_channel_get(rig_thread(1), desc);
	for (int i = 0; i < 5; i++)
		assert_int_equal(rig_io(rig_thread(0), a, IO_TYPE_READ, buffer, 0, 4), IO_SUCCESS);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rig_io(rig_thread(1), b, IO_TYPE_WRITE, buffer, 0, 2), IO_SUCCESS);
	assert_int_equal(rig_io(rig_thread(1), b, IO_TYPE_UNMAP, NULL, 0, 7), IO_SUCCESS);
	assert_int_equal(rig_io(rig_thread(1), b, IO_TYPE_READ, buffer, 99, 4), IO_INVALID);
	bdev_stats_walk(bdev, STATS_RESET_NONE, count_channels, sum);
	assert_int_equal(sum[0], 2);
	assert_int_equal(sum[1], 6);
	rig_channel_put(rig_thread(1), b);
	rig_settle();
	stats = rig_stats("t");
	assert_int_equal(stats.read_ops, 6);
	assert_int_equal(stats.bytes_read, 5 * 4 * 512);
	assert_int_equal(stats.bytes_written, 3 * 2 * 512);
	assert_int_equal(stats.write_ops, 3);
	assert_int_equal(stats.bytes_unmapped, 7 * 512);
	assert_int_equal(stats.errors[IO_INVALID], 1);
	bdev_stats_get(bdev, STATS_RESET_ALL, &stats);
	assert_int_equal(stats.read_ops, 6);
	stats = rig_stats("t");
	assert_int_equal(stats.read_ops + stats.bytes_written + stats.errors[IO_INVALID] + stats.read_latency_ticks_min, 0);
	assert_int_equal(rig_io(rig_thread(0), a, IO_TYPE_READ, buffer, 0, 4), IO_SUCCESS);
	assert_int_equal(rig_stats("t").read_ops, 1);
	tricky_close(desc, a, "t");
}

/* One I/O that takes `ns`. */
static void io_of(struct tricky *tricky, struct fathom_thread *thread, struct bdev_channel *ch, enum io_type type,
		  uint64_t ns)
{
	static uint8_t buffer[512];
	struct rig_io io;

	tricky->hold = true;
	rig_io_init(&io, thread, ch);
	rig_io_begin(&io, type, type == IO_TYPE_UNMAP ? NULL : buffer, 0, 1);
	rig_pass_time(ns);
	tricky->hold = false;
	assert_int_equal(rig_io_end(&io), IO_SUCCESS);
}

/* Run reads, writes, unmaps and an error on each of two threads; close the second thread's channel. */
static struct bdev_channel *run_counted_io(struct tricky *tricky, struct bdev_desc *desc)
{
	struct bdev_channel *ch[2];

	for (unsigned int i = 0; i < 2; i++) {
		struct fathom_thread *t = rig_thread(i);

		ch[i] = rig_channel_get(t, desc);
		io_of(tricky, t, ch[i], IO_TYPE_READ, NS_PER_MS);
		io_of(tricky, t, ch[i], IO_TYPE_READ, 3 * NS_PER_MS);
		io_of(tricky, t, ch[i], IO_TYPE_WRITE, NS_PER_MS);
		io_of(tricky, t, ch[i], IO_TYPE_UNMAP, NS_PER_MS);
		assert_int_equal(rig_io(t, ch[i], IO_TYPE_UNMAP, NULL, 99, 4), IO_INVALID);
	}
	rig_channel_put(rig_thread(1), ch[1]);
	rig_settle();
	return ch[0];
}

static void check_all_counted(const struct bdev_stats *stats)
{
	assert_int_equal(stats->read_ops, 4);
	assert_int_equal(stats->bytes_read, 4 * 512);
	assert_int_equal(stats->unmap_ops, 4);
	assert_int_equal(stats->errors[IO_INVALID], 2);
	assert_in_range(stats->read_latency_ticks_min, NS_PER_MS, 2 * NS_PER_MS);
	assert_in_range(stats->read_latency_ticks_max, 3 * NS_PER_MS, 4 * NS_PER_MS);
	assert_true(stats->write_latency_ticks_min >= NS_PER_MS);
	assert_true(stats->unmap_latency_ticks_min >= NS_PER_MS);
}

static void each_reset_mode_resets_only_its_statistics(void **state)
{
	for (enum stats_reset reset = STATS_RESET_ALL; reset <= STATS_RESET_NONE; reset++) {
		struct bdev_stats told, expected, after;
		struct bdev_desc *desc;
		struct bdev_channel *ch;
		struct tricky *tricky;

		tricky = tricky_create(&tricky_plain);
		desc = rig_open("t");
		ch = run_counted_io(tricky, desc);
		bdev_stats_get(bdev_desc_bdev(desc), reset, &told);
		check_all_counted(&told);
		expected = told;
		if (reset == STATS_RESET_ALL)
			memset(&expected, 0, sizeof(expected));
		if (reset == STATS_RESET_ERROR)
			expected.errors[IO_INVALID] = 0;
		if (reset == STATS_RESET_MAXMIN) {
			expected.read_latency_ticks_max = expected.read_latency_ticks_min = 0;
			expected.write_latency_ticks_max = expected.write_latency_ticks_min = 0;
			expected.unmap_latency_ticks_max = expected.unmap_latency_ticks_min = 0;
		}
		after = rig_stats("t");
		assert_memory_equal(&after, &expected, sizeof(after));
		tricky_close(desc, ch, "t");
	}
}

static void extremes_are_set_by_the_next_io_after_a_reset(void **state)
{
	struct bdev_stats stats;
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct tricky *tricky = tricky_open(&tricky_plain, &desc, &ch);

	io_of(tricky, rig_thread(0), ch, IO_TYPE_WRITE, 5 * NS_PER_MS);
	io_of(tricky, rig_thread(0), ch, IO_TYPE_WRITE, 1 * NS_PER_MS);
	bdev_stats_get(&tricky->bdev, STATS_RESET_MAXMIN, &stats);
	io_of(tricky, rig_thread(0), ch, IO_TYPE_WRITE, 3 * NS_PER_MS);
	stats = rig_stats("t");
	assert_in_range(stats.write_latency_ticks_max, 3 * NS_PER_MS, 4 * NS_PER_MS);
	assert_int_equal(stats.write_latency_ticks_min, stats.write_latency_ticks_max);
	assert_in_range(stats.write_latency_ticks, 9 * NS_PER_MS, 10 * NS_PER_MS);
	assert_int_equal(stats.write_ops, 3);
	tricky_close(desc, ch, "t");
}

static void a_walk_resets_only_the_open_channels_it_visits(void **state)
{
	uint64_t sum[2] = { 0, 0 };
	struct bdev_desc *desc;
	struct tricky *tricky = tricky_create(&tricky_plain);
	struct bdev_channel *ch;

	desc = rig_open("t");
	ch = run_counted_io(tricky, desc);
	bdev_stats_walk(bdev_desc_bdev(desc), STATS_RESET_ALL, count_channels, sum);
	assert_int_equal(sum[0], 1);
	assert_int_equal(sum[1], 2);
	assert_int_equal(rig_stats("t").read_ops, 2);
	tricky_close(desc, ch, "t");
}

static uint64_t count_of(const uint64_t buckets[static LATENCY_BUCKETS])
{
	uint64_t count = 0;

	for (int i = 0; i < LATENCY_BUCKETS; i++)
		count += buckets[i];
	return count;
}

static void figures_have_histograms_and_survive_resets_and_closed_channels(void **state)
{
	struct bdev_figures figures;
	struct bdev_stats stats;
	struct bdev_desc *desc;
	struct tricky *tricky = tricky_create(&tricky_plain);
	struct bdev_channel *ch;

	desc = rig_open("t");
	ch = run_counted_io(tricky, desc); /* on two channels, one of which is closed now */
	bdev_stats_get(bdev_desc_bdev(desc), STATS_RESET_ALL, &stats);
	bdev_figures_get(bdev_desc_bdev(desc), &figures);
	assert_int_equal(figures.types[IO_TYPE_READ].ops, 4);
	assert_int_equal(figures.types[IO_TYPE_READ].bytes, 4 * 512);
	assert_int_equal(figures.types[IO_TYPE_UNMAP].ops, 4); /* the failed ones, too */
	assert_int_equal(figures.errors[IO_INVALID], 2);
	assert_int_equal(figures.queue_depth, 0);
	assert_int_equal(count_of(figures.latency[BDEV_LATENCY_READ]), 4);
	assert_int_equal(count_of(figures.latency[BDEV_LATENCY_WRITE]), 2);
	assert_int_equal(count_of(figures.latency[BDEV_LATENCY_OTHER]), 2);
	/* 3 ms and a little is between the edges of 2.5 and 5 ms */
	assert_int_equal(figures.latency[BDEV_LATENCY_READ][latency_bucket(3 * NS_PER_MS)], 2);
	assert_true(figures.types[IO_TYPE_READ].latency_ticks >= 8 * NS_PER_MS);
	tricky_close(desc, ch, "t");
}

/* Reads one after the other on a reactor, while the test reads the statistics. */
static struct {
	struct bdev_io io;
	struct iovec iov;
	struct bdev_channel *ch;
	bool stop;
	uint64_t count;
	uint32_t ended;
} steady;

static void steady_next(void *unused);

static void steady_done(struct bdev_io *io, enum io_status status)
{
	must(status == IO_SUCCESS);
	if (++steady.count % 64 == 0)
		thread_send_msg(thread_self(), steady_next, NULL);
	else
		steady_next(NULL);
}

static void steady_next(void *unused)
{
	if (__atomic_load_n(&steady.stop, __ATOMIC_ACQUIRE))
		__atomic_store_n(&steady.ended, 1, __ATOMIC_RELEASE);
	else
		bdev_read(&steady.io, steady.ch, &steady.iov, 1, 0, 8, reactor_now(), steady_done);
}

static void no_io_is_lost_between_two_resets(void **state)
{
	uint64_t ops = 0, bytes = 0;
	struct bdev_stats stats;
	struct bdev_desc *desc;

	rig_null("n", 100, 512);
	desc = rig_open("n");
	memset(&steady, 0, sizeof(steady));
	steady.iov = (struct iovec){ bdev_zeroes(), 8 * 512 };
	bdev_io_init(&steady.io);
	steady.ch = rig_channel_get(rig_thread(0), desc);
	thread_send_msg(rig_thread(0), steady_next, NULL);
	for (int looks = 0; looks < 200000 || ops == 0; looks++) {
		bdev_stats_get(bdev_desc_bdev(desc), STATS_RESET_ALL, &stats);
		ops += stats.read_ops;
		bytes += stats.bytes_read;
	}
	__atomic_store_n(&steady.stop, true, __ATOMIC_RELEASE);
	rig_wait(&steady.ended, 1);
	stats = rig_stats("n");
	assert_int_equal(ops + stats.read_ops, steady.count);
	assert_int_equal(bytes + stats.bytes_read, steady.count * 8 * 512);
	tricky_close(desc, steady.ch, "n");
}

static void latency_is_from_submission_to_completion(void **state)
{
	struct tricky_options options = tricky_plain;
	struct bdev_desc *desc;
	struct bdev_channel *ch;
	struct tricky *tricky;
	uint8_t buffer[512];
	struct bdev_stats stats;
	struct rig_io io;

	options.inline_percent = 0;
	tricky = tricky_open(&options, &desc, &ch);
	assert_int_equal(rig_io(rig_thread(0), ch, IO_TYPE_WRITE, buffer, 0, 1), IO_SUCCESS);
	tricky->hold = true;
	rig_io_init(&io, rig_thread(0), ch);
	rig_io_begin(&io, IO_TYPE_WRITE, buffer, 0, 1);
	rig_pass_time(2000 * NS_PER_US);
	tricky->hold = false;
	assert_int_equal(rig_io_end(&io), IO_SUCCESS);
	stats = rig_stats("t");
	assert_in_range(stats.write_latency_ticks_max, 2000 * NS_PER_US, 2100 * NS_PER_US);
	assert_true(stats.write_latency_ticks_min < 50 * NS_PER_US);
	assert_int_equal(stats.write_latency_ticks, stats.write_latency_ticks_max + stats.write_latency_ticks_min);
	tricky_close(desc, ch, "t");
}

/* ---- tables ---- */

static void every_errno_has_a_status(void **state)
{
	assert_int_equal(bdev_status_from_errno(0), IO_SUCCESS);
	assert_int_equal(bdev_status_from_errno(-ENOSPC), IO_NO_SPACE);
	assert_int_equal(bdev_status_from_errno(-EIO), IO_MEDIA_ERROR);
	assert_int_equal(bdev_status_from_errno(-EROFS), IO_READ_ONLY);
	assert_int_equal(bdev_status_from_errno(-ENODEV), IO_GONE);
	assert_int_equal(bdev_status_from_errno(-EOPNOTSUPP), IO_UNSUPPORTED);
	for (int error = 1; error < 200; error++)
		assert_int_not_equal(bdev_status_from_errno(-error), IO_SUCCESS);
}

static void bdev_zeroes_are_zero(void **state)
{
	const uint8_t *zeroes = bdev_zeroes();

	assert_ptr_equal(zeroes, bdev_zeroes());
	for (int i = 0; i < BDEV_ZEROES_BYTES; i++)
		must(zeroes[i] == 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_deleted_bdev_is_destroyed_at_its_last_close),
		CASE(descriptors_may_be_closed_in_the_removal_callback),
		CASE(names_are_found_opened_and_claimed_once),
		CASE(a_bdev_gets_another_name_while_it_is_used),
		CASE(an_invalid_geometry_is_refused_with_a_reason),
		CASE(statistics_add_up_over_channels_open_and_closed),
		CASE(each_reset_mode_resets_only_its_statistics),
		CASE(extremes_are_set_by_the_next_io_after_a_reset),
		CASE(figures_have_histograms_and_survive_resets_and_closed_channels),
		CASE(a_walk_resets_only_the_open_channels_it_visits),
		cmocka_unit_test_setup_teardown(no_io_is_lost_between_two_resets, setup_real, rig_teardown),
		CASE(latency_is_from_submission_to_completion),
		cmocka_unit_test(every_errno_has_a_status),
		cmocka_unit_test(bdev_zeroes_are_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
