/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics and exemplars of ended requests in a file: sums are exact, and incomplete rows are not shown. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inspect/trace/lives.h"
#include "inspect/trace/slowest.h"
#include "fathom/trace/life.h"
#include "rig.h"

enum { US = 1000, PERCENT = 1000 }; /* ticks are nanoseconds here; percentiles have the unit 1/100,000 */

static struct demo_errand *errands;
static uint64_t now;
static char path[64];
static uint8_t *image;
static size_t image_bytes;

static int setup(void **state)
{
	static const struct trace_options options = { .schema = &fathom_schema,
						      .name = "lives",
						      .version = "1",
						      .thread_count = 1,
						      .io_entries = 1024,
						      .in_memory = true,
						      .in_memory_tick = US };
	struct trace_pool_spec spec = { .type = TRACE_OBJECT_ERRAND,
					.story_offset = offsetof(struct demo_errand, story),
					.also_type = TRACE_OBJECT_JOB,
					.also_offset = offsetof(struct demo_errand, job.story),
					.stride = sizeof(struct demo_errand),
					.count = 8 };
	struct fathom_fault why;

	must(trace_open(&options, &why) == 0);
	must(trace_mask_set("all", &why) == 0);
	must(trace_thread_attach("reactor_0", 0, true) == 0);
	errands = trace_pool_create(&spec);
	now = 1000 * US;
	image = NULL;
	return 0;
}

static int teardown(void **state)
{
	trace_pool_destroy(errands);
	trace_close();
	free(image);
	return 0;
}

static void run_errand(uint32_t number, uint64_t begin, uint64_t going, uint64_t back)
{
	struct demo_errand *errand = &errands[number % 8];

	errand->story.args[0] = number;
	errand_state_move(begin, errand, ERRAND_GOING);
	errand_state_move(begin + going, errand, ERRAND_BACK);
	errand_state_move(begin + going + back, errand, ERRAND_FREE);
}

/* Run an errand with a job, in 50 ticks; the errand fails. */
static void run_failed_errand(uint32_t number, uint64_t begin)
{
	struct demo_errand *errand = &errands[number % 8];

	errand->story.args[0] = number;
	errand_state_move(begin, errand, ERRAND_GOING);
	probe_job_submit(begin + 10, &errand->job, NULL, 8, DEMO_READ);
	probe_job_run(begin + 20, &errand->job, NULL);
	probe_job_done(begin + 30, &errand->job, 1, DEMO_FAILED, trace_intern("disk"));
	errand_state_move((begin + 40) | TICK_SHARED, errand, ERRAND_BACK);
	errand->lost = true;
	errand_state_move(begin + 50, errand, ERRAND_FREE);
	errand->lost = false;
}

/* Copy the current file to memory, to be changed. */
static void take_image(void)
{
	const void *memory = trace_memory(&image_bytes);

	free(image);
	image = malloc(image_bytes);
	assert_non_null(image);
	memcpy(image, memory, image_bytes);
}

static struct reader *open_image(void)
{
	struct fathom_fault why = { 0 };
	struct reader *reader;
	int fd;

	if (!image)
		take_image();
	snprintf(path, sizeof(path), "/dev/shm/fathom-lives-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, image, image_bytes), image_bytes);
	close(fd);
	assert_int_equal(reader_open(path, &reader, &why), 0);
	unlink(path);
	return reader;
}

static const struct reader_object *object_of(const struct reader *reader, const char *point)
{
	return reader_point_by_name(reader, point)->object;
}

static void sums_include_the_latest_lives(void **state)
{
	static struct reader_lives lives;
	struct reader *reader;

	for (uint32_t i = 0; i < 10; i++)
		run_errand(i, now, 400, 100);
	for (uint32_t i = 0; i < 5; i++)
		run_errand(i, now + US, 700, 300);
	reader = open_image();
	assert_true(reader_has_lives(reader));
	assert_true(reader_lives(reader, object_of(reader, "errand_state"), READER_ALL_THREADS, &lives));
	assert_int_equal(lives.thread_count, 1);
	assert_int_equal(lives.stages[0].count, 15);
	assert_int_equal(lives.stages[0].ticks, 10 * 500 + 5 * 1000);
	assert_int_equal(lives.stages[0].ticks_max, 1000);
	assert_int_equal(lives.stages[ERRAND_GOING].ticks, 10 * 400 + 5 * 700);
	assert_int_equal(lives.stages[ERRAND_BACK].count, 15);
	assert_int_equal(lives.stages[ERRAND_WAITING].count, 0);
	assert_true(lives.stages[0].slow_ticks > 0);
	assert_true(reader_lives(reader, object_of(reader, "errand_state"), 0, &lives));
	assert_int_equal(lives.stages[0].count, 15);
	assert_false(reader_lives(reader, object_of(reader, "errand_state"), 1, &lives));
	assert_false(reader_lives(reader, object_of(reader, "order_state"), READER_ALL_THREADS, &lives));
	reader_close(reader);
}

/* Each life is first the latest one, which the reader adds, and is later added by the writer. */
static void reader_and_writer_use_the_same_buckets(void **state)
{
	static struct reader_lives latest, summed;
	struct reader *reader;

	for (uint64_t ticks = 1; ticks < BIT(40); ticks = ticks * 9 / 8 + 1) {
		uint64_t before = 0, after = 0;

		run_errand(1, now, ticks, 0);
		take_image();
		reader = open_image();
		assert_true(reader_lives(reader, object_of(reader, "errand_state"), READER_ALL_THREADS, &latest));
		reader_close(reader);
		run_errand(2, now, 0, 0);
		take_image();
		reader = open_image();
		assert_true(reader_lives(reader, object_of(reader, "errand_state"), READER_ALL_THREADS, &summed));
		reader_close(reader);
		for (int bucket = 1; bucket < TRACE_BUCKETS; bucket++) {
			assert_int_equal(latest.stages[0].buckets[bucket], summed.stages[0].buckets[bucket]);
			before += latest.stages[0].buckets[bucket];
			after += summed.stages[0].buckets[bucket];
		}
		assert_int_equal(before, after);
	}
}

static void assert_near(double is, double should_be)
{
	if (is < should_be * 7 / 8 || is > should_be * 9 / 8)
		fail_msg("%f is not close to %f", is, should_be);
}

static void percentiles_are_exact_within_a_bucket(void **state)
{
	static struct reader_lives lives;
	struct reader *reader;

	for (uint32_t i = 1; i <= 10000; i++)
		run_errand(i, now, 2 * i, 0);
	reader = open_image();
	assert_true(reader_lives(reader, object_of(reader, "errand_state"), READER_ALL_THREADS, &lives));
	assert_near(reader_dwell_percentile(&lives.stages[0], 50 * PERCENT), 10000);
	assert_near(reader_dwell_percentile(&lives.stages[0], 90 * PERCENT), 18000);
	assert_near(reader_dwell_percentile(&lives.stages[0], 99 * PERCENT), 19800);
	assert_true(reader_dwell_percentile(&lives.stages[0], 100 * PERCENT) <= 20000);
	assert_true(reader_dwell_percentile(&lives.stages[0], 1) >= 1);
	assert_true(reader_dwell_percentile(&lives.stages[ERRAND_WAITING], 50 * PERCENT) < 1);
	reader_close(reader);
}

static void a_difference_of_two_sums_has_the_lives_between_them(void **state)
{
	static struct reader_lives before, after;
	struct reader_dwell_sums between;
	struct reader *reader;

	for (uint32_t i = 0; i < 100; i++)
		run_errand(i, now, 100000, 0);
	reader = open_image();
	assert_true(reader_lives(reader, object_of(reader, "errand_state"), READER_ALL_THREADS, &before));
	reader_close(reader);
	for (uint32_t i = 0; i < 10; i++)
		run_errand(i, now + US, 500, 0);
	take_image();
	reader = open_image();
	assert_true(reader_lives(reader, object_of(reader, "errand_state"), READER_ALL_THREADS, &after));
	reader_close(reader);
	reader_dwell_difference(&after.stages[0], &before.stages[0], &between);
	assert_int_equal(between.count, 10);
	assert_int_equal(between.ticks, 5000);
	assert_near(reader_dwell_percentile(&between, 50 * PERCENT), 500);
	assert_in_range(between.ticks_max, 500, 600);
}

static void a_failed_life_is_kept_with_its_io(void **state)
{
	struct reader_exemplar_walk walk = { 0 };
	struct reader_exemplar exemplar;
	struct reader_event event;
	struct reader *reader;
	bool found = false;

	run_failed_errand(4711, now);
	reader = open_image();
	while (!found && reader_exemplar_next(reader, &walk, &exemplar))
		found = exemplar.failed;
	assert_true(found);
	assert_false(exemplar.slow);
	assert_int_equal(exemplar.story_count, 2);
	assert_string_equal(exemplar.stories[0].object->name, "errand");
	assert_int_equal(exemplar.stories[0].args[0], 4711);
	assert_int_equal(exemplar.stories[0].begin_tick, now);
	assert_int_equal(exemplar.spent_ticks, 50);
	assert_int_equal(exemplar.stays[0].count, 2);
	assert_int_equal(exemplar.stays[0].states[0], ERRAND_GOING);
	assert_int_equal(exemplar.stays[0].ticks[0], 40);
	assert_int_equal(exemplar.stays[0].ticks[1], 10);
	/* the end of the I/O comes from its last record */
	assert_int_equal(exemplar.end_ticks[1], now + 30);
	assert_int_equal(exemplar.stays[1].ticks[1], 10);
	assert_int_equal(exemplar.record_count, 6);
	assert_true(reader_exemplar_event(reader, &exemplar, 3, &event));
	assert_string_equal(event.point->name, "job_done");
	assert_int_equal(event.tick, now + 30);
	assert_int_equal(event.total_ticks, 20);
	assert_int_equal(event.dwell_ticks, 10);
	assert_string_equal(event.related->name, "errand");
	reader_close(reader);
}

static void a_stay_is_measured_from_its_latest_entry(void **state)
{
	const uint64_t ticks[TRACE_STORY_STATES_MAX] = { 100, 140 | TICK_SHARED, 130, 150, 99 };
	struct reader_stays stays;

	reader_stays(ticks, BIT(1) | BIT(2) | BIT(3), 190, &stays);
	assert_int_equal(stays.count, 3);
	assert_int_equal(stays.states[0], 2);
	assert_int_equal(stays.ticks[0], 10);
	assert_int_equal(stays.states[1], 1);
	assert_int_equal(stays.ticks[1], 10);
	assert_int_equal(stays.ticks[2], 40);
	/* an end before all ticks, and bits of states that do not exist */
	reader_stays(ticks, UINT32_MAX, 0, &stays);
	assert_int_equal(stays.count, TRACE_STORY_STATES_MAX);
	assert_int_equal(stays.ticks[TRACE_STORY_STATES_MAX - 1], 0);
}

/* The rows of `fathom trace slowest`: their number, and the number of requests in each. */
static uint32_t slowest_groups(bool each, uint32_t count_max, uint32_t *counts)
{
	const struct reader_slowest_want want = { .count_max = count_max, .each = each };
	const struct reader_exemplar *const *members;
	struct reader_slowest *slowest;
	struct reader_events *events;
	struct reader_event event;
	struct reader *reader;
	uint32_t groups;

	take_image();
	reader = open_image();
	assert_int_equal(reader_slowest_create(reader, &want, &slowest), 0);
	assert_int_equal(reader_events(reader, &events), 0);
	while (reader_event_next(events, &event))
		reader_slowest_event(slowest, &event);
	reader_events_free(events);
	reader_slowest_finish(slowest);
	groups = reader_slowest_count(slowest);
	for (uint32_t i = 0; i < groups; i++) {
		counts[i] = reader_slowest_group(slowest, i, &members);
		assert_ptr_equal(members[0], reader_slowest_at(slowest, i));
		for (uint32_t j = 1; j < counts[i]; j++)
			assert_true(members[j]->spent_ticks <= members[j - 1]->spent_ticks);
	}
	reader_slowest_destroy(slowest);
	reader_close(reader);
	return groups;
}

static void requests_delayed_by_one_stall_share_a_row(void **state)
{
	uint32_t counts[16];

	/* six that wait for the same end, one in another state, and one much later */
	for (uint32_t i = 0; i < 6; i++)
		errand_state_move(now + 100 * i, &errands[i], ERRAND_GOING);
	errand_state_move(now, &errands[6], ERRAND_GOING);
	errand_state_move(now + 100, &errands[6], ERRAND_BACK);
	for (uint32_t i = 0; i < 6; i++)
		errand_state_move(now + 90 * US + 10 * i, &errands[i], ERRAND_BACK);
	for (uint32_t i = 0; i < 7; i++)
		errand_state_move(now + 91 * US, &errands[i], ERRAND_FREE);
	run_errand(7, now + 1000 * US, 50 * US, US);
	assert_int_equal(slowest_groups(false, 10, counts), 3);
	assert_int_equal(counts[0] + counts[1], 7);
	assert_int_equal(counts[0] * counts[1], 6);
	assert_int_equal(counts[2], 1);
	assert_int_equal(slowest_groups(false, 2, counts), 2);
	assert_int_equal(slowest_groups(true, 16, counts), 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(counts[i], 1);
	assert_int_equal(slowest_groups(true, 3, counts), 3);
}

static struct trace_thread *thread_row(void)
{
	const struct trace_header *header = (const struct trace_header *)image;

	for (uint32_t i = 0; i < header->section_count; i++) {
		if (header->sections[i].kind == TRACE_SECTION_THREADS)
			return (struct trace_thread *)(image + header->sections[i].offset);
	}
	return NULL;
}

static struct trace_exemplars *exemplars_of_image(void)
{
	return (struct trace_exemplars *)(image + thread_row()->exemplars_offset);
}

static struct trace_exemplar *first_row(void)
{
	struct trace_exemplar *row = exemplars_of_image()->rows;

	while (row->version == 0)
		row++;
	return row;
}

static uint64_t walk_all(struct reader_exemplar_walk *walk)
{
	struct reader_exemplar exemplar;
	struct reader *reader = open_image();
	uint64_t count = 0;

	*walk = (struct reader_exemplar_walk){ 0 };
	while (reader_exemplar_next(reader, walk, &exemplar))
		count++;
	reader_close(reader);
	return count;
}

static void incomplete_rows_are_counted_and_not_shown(void **state)
{
	struct reader_exemplar_walk walk;
	struct trace_exemplar *row, kept;
	uint64_t whole;

	for (uint32_t i = 0; i < 10; i++)
		run_failed_errand(i, now + i * US);
	take_image();
	whole = walk_all(&walk);
	assert_true(whole >= 10);
	assert_int_equal(walk.torn, 0);
	row = first_row();
	kept = *row;
	row->version |= 1; /* the writer was killed while writing */
	assert_int_equal(walk_all(&walk), whole - 1);
	assert_int_equal(walk.torn, 1);
	*row = kept;
	row->end_tick += 1; /* half of another row */
	assert_int_equal(walk_all(&walk), whole - 1);
	*row = kept;
	row->stories[0].ticks[0] += 2;
	assert_int_equal(walk_all(&walk), whole - 1);
	*row = kept;
	row->records[1].object ^= 64;
	assert_int_equal(walk_all(&walk), whole - 1);
	*row = kept;
	row->record_count = TRACE_EXEMPLAR_RECORDS_MAX + 1;
	assert_int_equal(walk_all(&walk), whole - 1);
	*row = kept;
	row->story_count = 3;
	assert_int_equal(walk_all(&walk), whole - 1);
	assert_int_equal(walk.torn, 1);
	*row = kept;
	assert_int_equal(walk_all(&walk), whole);
}

static void exemplars_from_before_a_clear_are_not_shown(void **state)
{
	struct reader_exemplar_walk walk;
	uint64_t whole;

	for (uint32_t i = 0; i < 10; i++)
		run_failed_errand(i, now + i * US);
	take_image();
	whole = walk_all(&walk);
	((struct trace_header *)image)->clear_tick = now + 9 * US;
	/* the last errand and its job */
	assert_int_equal(walk_all(&walk), 2);
	assert_int_equal(walk.cleared, whole - 2);
}

static void invalid_offsets_do_not_cause_endless_reads(void **state)
{
	static const uint64_t values[] = { 0, 1, 8, BIT(20), BIT(32) - 8, BIT(40), BIT(63), UINT64_MAX - 7, UINT64_MAX };
	static struct reader_lives lives;
	struct reader_exemplar_walk walk;
	struct trace_exemplars kept;
	struct trace_thread *thread;
	struct reader *reader;
	uint64_t whole;

	run_failed_errand(1, now);
	take_image();
	whole = walk_all(&walk);
	thread = thread_row();
	for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
		uint64_t *const places[] = { &thread->exemplars_offset, &thread->lives_offset, &thread->lives_count };

		for (size_t place = 0; place < ARRAY_COUNT(places); place++) {
			uint64_t was = *places[place];

			*places[place] = values[i];
			(void)walk_all(&walk);
			reader = open_image();
			(void)reader_lives(reader, object_of(reader, "errand_state"), READER_ALL_THREADS, &lives);
			reader_close(reader);
			*places[place] = was;
		}
		kept = *exemplars_of_image();
		exemplars_of_image()->epoch_count = exemplars_of_image()->epoch_rows = (uint32_t)values[i];
		exemplars_of_image()->slow_rows = exemplars_of_image()->failed_rows = (uint32_t)values[i];
		assert_true(walk_all(&walk) <= whole);
		*exemplars_of_image() = kept;
	}
	/* as in files of the oldest engines */
	for (int i = 0; i < TRACE_THREADS_MAX && thread[i].lives_offset; i++)
		thread[i].exemplars_offset = thread[i].lives_offset = 0;
	assert_int_equal(walk_all(&walk), 0);
	reader = open_image();
	assert_false(reader_has_lives(reader));
	reader_close(reader);
}

/* Each life has its begin tick as an argument, so that a mixture of two lives is detected. */
static void write_for_ever(void *ctx)
{
	for (uint32_t i = 0;; i++) {
		struct demo_order *order = &rig_orders[i % ORDERS];
		uint64_t tick = clock_ticks() & ~TICK_SHARED;

		order->story.args[1] = (uint32_t)tick;
		order->story.args[2] = (uint32_t)(tick >> 32);
		order_state_move(tick, order, ORDER_RECEIVED);
		order_state_move(tick + i % 1000 * 1000, order, ORDER_EXECUTING);
		order_state_move(tick + i % 1000 * 1000, order, ORDER_DONE);
		order_state_move(tick + i % 1000 * 1001, order, ORDER_FREE);
	}
}

static void only_complete_rows_of_a_live_writer_are_shown(void **state)
{
	static struct reader_lives lives;
	uint64_t shown = 0, before = 0;
	struct rig rig;

	rig_start(&rig, 1024, write_for_ever, NULL);
	for (int round = 0; round < 200 || shown < 1000; round++) {
		struct reader *reader = rig_open(&rig);
		struct reader_exemplar_walk walk = { 0 };
		struct reader_exemplar exemplar;

		assert_int_equal(reader_info(reader)->liveness, READER_ALIVE);
		while (reader_exemplar_next(reader, &walk, &exemplar)) {
			uint64_t said = exemplar.stories[0].args[1] | (uint64_t)exemplar.stories[0].args[2] << 32;

			assert_int_equal(said, exemplar.stories[0].begin_tick);
			shown++;
		}
		if (reader_lives(reader, object_of(reader, "order_state"), READER_ALL_THREADS, &lives)) {
			assert_true(lives.stages[0].count >= before);
			before = lives.stages[0].count;
		}
		reader_close(reader);
	}
	assert_true(before > 0);
	rig_clean(&rig);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(sums_include_the_latest_lives),
		CASE(reader_and_writer_use_the_same_buckets),
		CASE(percentiles_are_exact_within_a_bucket),
		CASE(a_difference_of_two_sums_has_the_lives_between_them),
		CASE(a_failed_life_is_kept_with_its_io),
		CASE(a_stay_is_measured_from_its_latest_entry),
		CASE(requests_delayed_by_one_stall_share_a_row),
		CASE(incomplete_rows_are_counted_and_not_shown),
		CASE(exemplars_from_before_a_clear_are_not_shown),
		CASE(invalid_offsets_do_not_cause_endless_reads),
		cmocka_unit_test(only_complete_rows_of_a_live_writer_are_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
