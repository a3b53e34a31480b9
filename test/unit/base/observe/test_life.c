/* SPDX-License-Identifier: BSD-2-Clause */
/* Ended lives are added to histograms of their stages, and kept with their records if slow or failed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/must.h"
#include "base/observe/trace/figures.h"
#include "demo/demo.h"
#include "demo/probes.gen.h"
#include "fathom/trace/life.h"
#include "fathom/trace/trace.h"

enum { US = 1000 }; /* ticks are nanoseconds here */

static struct demo_errand *errands;
static uint64_t now;

static int setup(void **state)
{
	static const struct trace_options options = { .schema = &fathom_schema,
						      .name = "life",
						      .version = "1",
						      .thread_count = 1,
						      .io_entries = 1024,
						      .in_memory = true,
						      .keeps_named = true };
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
	return 0;
}

static int teardown(void **state)
{
	trace_pool_destroy(errands);
	trace_close();
	return 0;
}

static const struct trace_lives *lives(void)
{
	return &trace_self.lives[TRACE_LIVES_ERRAND];
}

/* Run an errand from `begin`, with this time in each state. */
static void run_errand(uint32_t number, uint64_t begin, uint64_t going, uint64_t back)
{
	struct demo_errand *errand = &errands[number % 8];

	errand->story.args[0] = number;
	errand_state_move(begin, errand, ERRAND_GOING);
	errand_state_move(begin + going, errand, ERRAND_BACK);
	errand_state_move(begin + going + back, errand, ERRAND_FREE);
}

/* The count of the stage after the latest lives are added. */
static uint64_t stage_count(unsigned int state)
{
	const struct trace_lives *all = lives();

	uint64_t count = 0;

	for (int bucket = 0; bucket < TRACE_BUCKETS; bucket++)
		count += all->stages[state].buckets[bucket];
	return count + (state == 0 || all->last.path >> state & 1 ? all->last.alike : 0);
}

static bool is_kept(uint32_t number, enum trace_exemplar_why why, struct trace_exemplar *kept_ret)
{
	const struct trace_exemplars *all = trace_self.exemplars;
	uint32_t rows = all->epoch_count * all->epoch_rows + all->slow_rows + all->failed_rows;

	for (uint32_t i = 0; i < rows; i++) {
		const struct trace_exemplar *row = &all->rows[i];

		assert_int_equal(row->version % 2, 0);
		if (row->version && row->why == why && row->stories[0].args[0] == number) {
			*kept_ret = *row;
			return true;
		}
	}
	return false;
}

/* Without this the first lives count as the slowest so far. */
static void prevent_slow_lives(void)
{
	struct fathom_fault why;

	assert_int_equal(trace_slow_set("errand", NULL, 1000000 * US, &why), 0);
}

static void buckets_are_an_eighth_wide(void **state)
{
	uint64_t before = 0;

	for (unsigned int bucket = 0; bucket < TRACE_BUCKETS; bucket++) {
		uint64_t begin = trace_bucket_begin(bucket);

		assert_true(bucket == 0 || begin > before);
		assert_true(bucket < 16 || begin - before <= before / 8 + 1);
		assert_int_equal(trace_bucket(begin), bucket);
		if (bucket > 0)
			assert_int_equal(trace_bucket(begin - 1), bucket - 1);
		before = begin;
	}
	assert_int_equal(trace_bucket(UINT64_MAX), TRACE_BUCKETS - 1);
}

static void each_life_is_counted_in_its_stages(void **state)
{
	const struct trace_lives *all = lives();

	for (uint32_t i = 0; i < 1000; i++)
		run_errand(i, now + i * US, 300 + i % 3, 200);
	assert_int_equal(stage_count(0), 1000);
	assert_int_equal(stage_count(ERRAND_GOING), 1000);
	assert_int_equal(stage_count(ERRAND_BACK), 1000);
	assert_int_equal(stage_count(ERRAND_WAITING), 0);
	assert_int_equal(all->stages[ERRAND_BACK].ticks, 999 * 200);
	assert_int_equal(all->stages[ERRAND_BACK].buckets[trace_bucket(200)], 999);
	assert_int_equal(all->stages[0].ticks_max, 502);
	assert_int_equal(all->failed, 0);
}

/* ---- base/observe/trace/figures.h ---- */

static uint64_t figures_count(uint32_t state)
{
	struct trace_stage_sum sum;
	uint64_t count = 0;

	trace_figures_stage(TRACE_LIVES_ERRAND, state, &sum);
	for (int i = 0; i < LATENCY_BUCKETS; i++)
		count += sum.buckets[i];
	return count;
}

static void figures_sum_up_the_stages(void **state)
{
	struct trace_stage_sum sum;

	for (uint32_t i = 0; i < 1000; i++)
		run_errand(i, now + i * US, 300 + i % 3, 200);
	assert_int_equal(figures_count(0), 999); /* the latest life is not in its histogram yet */
	assert_int_equal(figures_count(ERRAND_BACK), 999);
	assert_int_equal(figures_count(ERRAND_WAITING), 0);
	trace_figures_stage(TRACE_LIVES_ERRAND, ERRAND_BACK, &sum);
	assert_int_equal(sum.ticks, 999 * 200);
	assert_string_equal(trace_figures_type(TRACE_LIVES_ERRAND)->states[ERRAND_BACK], "BACK");
	assert_true(trace_figures_type_count() > TRACE_LIVES_ERRAND);
}

static uint32_t walked;

static void check_story(void *ctx, const struct trace_story *story, const struct trace_story *with)
{
	assert_int_equal(story->trace.id, errands[5].story.trace.id);
	assert_int_equal(story->state, ERRAND_GOING);
	assert_int_equal(with != NULL, *(bool *)ctx);
	walked++;
}

static void figures_find_requests_under_way_and_their_ios(void **state)
{
	bool has_io = false;

	run_errand(1, now, 1, 1);
	walked = 0;
	trace_figures_stories(TRACE_OBJECT_ERRAND, TRACE_OBJECT_JOB, check_story, &has_io);
	assert_int_equal(walked, 0);
	errand_state_move(now, &errands[5], ERRAND_GOING);
	trace_figures_stories(TRACE_OBJECT_ERRAND, TRACE_OBJECT_JOB, check_story, &has_io);
	assert_int_equal(walked, 1);
	probe_job_submit(now + 10, &errands[5].job, NULL, 8, DEMO_READ);
	has_io = true;
	trace_figures_stories(TRACE_OBJECT_ERRAND, TRACE_OBJECT_JOB, check_story, &has_io);
	assert_int_equal(walked, 2);
}

static void check_kept(void *ctx, const struct trace_kept *kept)
{
	if (kept->stories[0].args[0] != 4712)
		return;
	assert_int_equal(kept->why, TRACE_EXEMPLAR_SLOW);
	assert_int_equal(kept->end_tick - kept->begin_tick, 500 * US);
	walked++;
}

static void figures_find_kept_lives_and_totals(void **state)
{
	struct trace_totals totals;

	walked = 0;
	for (uint32_t i = 0; i < 1000; i++)
		run_errand(i, now - US, 100, 100);
	run_errand(4712, now, 400 * US, 100 * US);
	trace_figures_kept(check_kept, NULL);
	assert_int_equal(walked, 1);
	trace_figures_totals(&totals);
	assert_true(totals.kept_slow >= 1);
	assert_int_equal(totals.kept_failed, 0);
	assert_true(totals.records >= 3 * 1001);
	assert_true(totals.overwritten > 0);
}

static struct trace_kept to_name;
static uint32_t named_of_old;

static void find_old(void *ctx, const struct trace_kept *kept)
{
	if (kept->stories[0].args[0] != 4720)
		return;
	to_name = *kept;
	named_of_old += kept->is_named;
}

static void a_life_that_metrics_name_is_kept_when_others_need_its_row(void **state)
{
	named_of_old = 0;
	for (uint32_t i = 0; i < 1000; i++)
		run_errand(i, now - US, 100, 100);
	run_errand(4720, now, 400 * US, 100 * US);
	trace_figures_kept(find_old, NULL);
	assert_int_equal(to_name.stories[0].args[0], 4720);
	assert_int_equal(named_of_old, 0);
	assert_true(trace_figures_name(&to_name));
	trace_figures_kept(find_old, NULL);
	assert_int_equal(named_of_old, 1); /* the row and its copy */
	for (uint32_t i = 0; i < 400; i++) /* each slower than all before: more than all rows of slow lives */
		run_errand(5000 + i, now, (500 + i) * US, 100 * US);
	to_name = (struct trace_kept){ 0 };
	trace_figures_kept(find_old, NULL);
	assert_int_equal(named_of_old, 2);
	assert_int_equal(to_name.end_tick - to_name.begin_tick, 500 * US);
	assert_false(is_kept(4720, TRACE_EXEMPLAR_SLOW, &(struct trace_exemplar){ 0 }));
	for (uint32_t i = 0; i < 400; i++) /* and more than all rows of named ones of this quarter of an hour */
		assert_true(trace_figures_name(&to_name));
	trace_figures_kept(find_old, NULL);
	assert_true(named_of_old > 32 + 100);
}

static void a_life_whose_row_was_changed_is_not_named(void **state)
{
	for (uint32_t i = 0; i < 1000; i++)
		run_errand(i, now - US, 100, 100);
	run_errand(4720, now, 400 * US, 100 * US);
	trace_figures_kept(find_old, NULL);
	for (uint32_t i = 0; i < 400; i++)
		run_errand(5000 + i, now, (500 + i) * US, 100 * US);
	assert_false(trace_figures_name(&to_name));
}

static void figures_name_an_owner_only_while_it_had_the_id(void **state)
{
	uint16_t owner = trace_owner_create(1, now, "disk");
	char text[16];

	assert_true(trace_figures_owner(owner, now + 1, text, sizeof(text)));
	assert_string_equal(text, "disk");
	assert_false(trace_figures_owner(owner, now - 1, text, sizeof(text)));
	assert_false(trace_figures_owner(0, now, text, sizeof(text)));
	assert_false(trace_figures_owner(TRACE_OWNERS_MAX, now, text, sizeof(text)));
	trace_owner_destroy(owner, now + 2);
}

static void lives_of_a_batch_are_added_together_and_none_is_lost(void **state)
{
	prevent_slow_lives();
	for (uint32_t batch = 0; batch < 10; batch++) {
		uint64_t begin = (now + batch * US) | (batch > 4);

		for (uint32_t i = 0; i < 100; i++)
			run_errand(i, begin, 400, 100);
		assert_int_equal(lives()->last.alike, 100);
		assert_int_equal(stage_count(0), 100 * (batch + 1));
	}
	assert_int_equal(stage_count(ERRAND_GOING), 1000);
	assert_int_equal(lives()->stages[ERRAND_GOING].ticks, 900 * 400);
}

/* The first of a batch reads the clock, the others share its tick, which must make no difference. */
static void a_thread_adds_the_lives_left_by_the_former_thread_of_its_slot(void **state)
{
	prevent_slow_lives();
	for (uint32_t i = 0; i < 3; i++)
		run_errand(i, now, 400, 100);
	trace_thread_detach();
	assert_int_equal(trace_thread_attach("reactor_1", 0, true), 0);
	/* slots are given in turn: attach until this thread gets the same slot again */
	for (int slot = 0; slot < 64 && lives()->last.alike == 0; slot++) {
		trace_thread_detach();
		assert_int_equal(trace_thread_attach("reactor_1", 0, true), 0);
	}
	assert_int_equal(lives()->last.alike, 3);
	run_errand(1, now + US, 700, 200);
	assert_int_equal(lives()->stages[0].ticks, 3 * 500);
	assert_int_equal(lives()->stages[ERRAND_GOING].ticks, 3 * 400);
	assert_int_equal(lives()->stages[ERRAND_BACK].ticks, 3 * 100);
}

static void a_shared_tick_counts_as_the_same_tick(void **state)
{
	prevent_slow_lives();
	run_errand(1, now, 400, 100);
	run_errand(2, now | TICK_SHARED, 400, 100);
	assert_int_equal(lives()->last.alike, 2);
}

static void a_state_entered_twice_counts_from_the_second_time(void **state)
{
	struct demo_errand *errand = &errands[0];

	errand_state_move(now, errand, ERRAND_GOING);
	errand_state_move(now + 10, errand, ERRAND_WAITING);
	errand_state_move(now + 110, errand, ERRAND_GOING);
	errand_state_move(now + 150, errand, ERRAND_BACK);
	errand_state_move(now + 152, errand, ERRAND_FREE);
	run_errand(1, now + US, 1, 1); /* adds the previous life */
	assert_int_equal(lives()->stages[ERRAND_WAITING].ticks, 100);
	assert_int_equal(lives()->stages[ERRAND_GOING].ticks, 40);
	assert_int_equal(lives()->stages[0].ticks, 152);
}

static void a_failed_life_is_kept_with_its_io_and_records(void **state)
{
	struct demo_errand *errand = &errands[3];
	const struct trace_istr *device = trace_intern("disk");
	struct trace_exemplar kept;

	for (uint32_t i = 0; i < 100; i++)
		run_errand(i, now - US, 100, 100);
	errand->story.args[0] = 4711;
	errand_state_move(now, errand, ERRAND_GOING);
	probe_job_submit(now + 10, &errand->job, NULL, 8, DEMO_READ);
	run_errand(1, now + 11, 1, 1); /* a record of another errand in between */
	probe_job_run(now + 20, &errand->job, NULL);
	probe_job_done(now + 30, &errand->job, 1, DEMO_FAILED, device);
	errand_state_move(now + 40, errand, ERRAND_BACK);
	errand->lost = true;
	errand_state_move(now + 50, errand, ERRAND_FREE);
	errand->lost = false;
	assert_int_equal(lives()->failed, 1);
	assert_true(is_kept(4711, TRACE_EXEMPLAR_FAILED, &kept));
	assert_int_equal(kept.total_ticks, 50);
	assert_int_equal(kept.story_count, 2);
	assert_int_equal(kept.stories[1].ticks[JOB_RUNNING], now + 20);
	assert_int_equal(kept.record_count, 6);
	assert_int_equal(kept.records_cut, 0);
	assert_int_equal(kept.records[1].point, TRACE_POINT_JOB_SUBMIT);
	assert_int_equal(kept.records[5].tick, now + 50);
}

/* A batch shares a clock read: a request may begin and end at one tick, and so may the previous request in its slot. */
static void a_life_with_equal_ticks_is_kept_with_all_moves(void **state)
{
	struct demo_errand *errand = &errands[3];
	struct trace_exemplar kept;

	run_errand(1, now - US, 100, 100);
	for (int life = 0; life < 2; life++) {
		errand->story.args[0] = 4711 + (uint32_t)life;
		errand->lost = true;
		errand_state_move(now, errand, ERRAND_GOING);
		errand_state_move(now | TICK_SHARED, errand, ERRAND_WAITING);
		errand_state_move(now | TICK_SHARED, errand, ERRAND_GOING);
		errand_state_move(now | TICK_SHARED, errand, ERRAND_BACK);
		errand_state_move(now | TICK_SHARED, errand, ERRAND_FREE);
	}
	errand->lost = false;
	for (int life = 0; life < 2; life++) {
		assert_true(is_kept(4711 + (uint32_t)life, TRACE_EXEMPLAR_FAILED, &kept));
		assert_int_equal(kept.record_count, 5);
		assert_int_equal(kept.records_cut, 0);
		assert_int_equal(kept.records[0].args[0], ERRAND_FREE);
	}
}

/* The slow I/O of an earlier life must not be kept for this one. */
static void an_io_of_an_earlier_life_is_not_kept(void **state)
{
	struct demo_errand *errand = &errands[3];
	struct trace_exemplar kept;

	probe_job_submit(now - 20, &errand->job, NULL, 8, DEMO_READ);
	probe_job_run(now - 15, &errand->job, NULL);
	probe_job_done(now - 10, &errand->job, 1, DEMO_OK, trace_intern("disk"));
	errand->lost = true;
	run_errand(3, now, 10, 10);
	assert_true(is_kept(3, TRACE_EXEMPLAR_FAILED, &kept));
	assert_int_equal(kept.story_count, 1);
	assert_int_equal(kept.record_count, 3);
}

static void a_slow_life_whose_records_were_overwritten_keeps_its_stages(void **state)
{
	struct demo_errand *errand = &errands[7];
	struct trace_exemplar kept;

	errand->story.args[0] = 4712;
	errand_state_move(now, errand, ERRAND_GOING);
	for (uint32_t i = 0; i < 2000; i++)
		run_errand(i % 7, now + i, 1, 1);
	errand_state_move(now + 500 * US, errand, ERRAND_BACK);
	errand_state_move(now + 501 * US, errand, ERRAND_FREE);
	assert_true(is_kept(4712, TRACE_EXEMPLAR_SLOW, &kept));
	assert_int_equal(kept.stories[0].ticks[ERRAND_GOING], now);
	assert_int_equal(kept.total_ticks, 501 * US);
	assert_int_equal(kept.record_count, 2);
	assert_int_not_equal(kept.records_cut, 0);
}

static void ten_slow_ones_among_ten_million_are_kept(void **state)
{
	uint32_t random = 1;
	struct trace_exemplar kept;
	uint64_t slow = 0;

	for (uint32_t i = 0; i < 10 * 1000 * 1000; i++) {
		bool is_slow = i % 1000000 == 999999;

		random = random * 1664525 + 1013904223;
		/* most take 5 to 6 us, one in a hundred takes 20 */
		run_errand(is_slow ? 1000000 + (uint32_t)slow : i % 7, now, 4 * US + random % US,
			   random % 100 ? US : 15 * US);
		if (is_slow) {
			run_errand(1000000 + (uint32_t)slow, now, 300 * US, US);
			slow++;
		}
		now += US;
	}
	for (uint32_t i = 0; i < 10; i++) {
		assert_true(is_kept(1000000 + i, TRACE_EXEMPLAR_SLOW, &kept));
		assert_int_equal(kept.total_ticks, 301 * US);
	}
	/* about one in 10,000 of ten million, for each stage that takes time */
	assert_in_range(lives()->kept, 200, 6000);
}

/* A busy neighbour makes all lives slower than any before, long before the window of lives ends. */
static void a_slower_device_does_not_make_all_lives_kept(void **state)
{
	uint64_t kept;

	for (uint32_t i = 0; i < 600 * 1000; i++)
		run_errand(i % 7, now += US, 5 * US + i % 1000, US);
	kept = lives()->kept;
	for (uint32_t i = 0; i < 100 * 1000; i++)
		run_errand(i % 7, now += US, 8 * US + i * 7919 % 1000, US);
	assert_in_range(lives()->kept - kept, 1, 300);
	run_errand(4715, now += US, 20 * US, US);
	assert_true(is_kept(4715, TRACE_EXEMPLAR_SLOW, &(struct trace_exemplar){ 0 }));
}

/* At 100 lives a second a window lasts for long. One hang of the device must not hide later slow lives in it. */
static void an_earlier_hang_does_not_hide_later_slow_lives(void **state)
{
	const uint64_t sec = 1000 * 1000 * US;
	struct trace_exemplar kept;

	for (uint32_t i = 0; i < 600 * 1000; i++)
		run_errand(i % 7, now += US, 5 * US + i % 1000, US);
	for (uint32_t i = 0; i < 128; i++)
		run_errand(i % 7, now += US, 30 * sec + i * US, US);
	for (uint32_t i = 0; i < 3 * 60 * 100; i++)
		run_errand(i % 7, now += sec / 100, 5 * US + i % 1000, US);
	run_errand(4716, now += US, sec, US);
	assert_true(is_kept(4716, TRACE_EXEMPLAR_SLOW, &kept));
}

static void thresholds_of_slow_lives_can_be_set(void **state)
{
	struct trace_exemplar kept;
	struct fathom_fault why;

	assert_int_equal(trace_slow_set("errand", "LOST", US, &why), -ENOENT);
	assert_string_equal(why.text, "errand has no state \"LOST\"");
	assert_int_equal(trace_slow_set("errand", NULL, 50 * US, &why), 0);
	assert_int_equal(trace_slow_set("errand", "BACK", 10 * US, &why), 0);
	assert_int_equal(trace_slow_set("errand", "going", 100 * US, &why), 0);
	assert_int_equal(trace_slow_set("thing", NULL, US, &why), -ENOENT);
	for (uint32_t i = 0; i < 100000; i++)
		run_errand(1, now + i * US, 30 * US + i % 100, US);
	assert_int_equal(lives()->kept, 0);
	run_errand(4713, now, 48 * US, 2 * US);
	assert_true(is_kept(4713, TRACE_EXEMPLAR_SLOW, &kept));
	assert_int_equal(kept.slow_state, 0);
	run_errand(4714, now, US, 10 * US);
	assert_true(is_kept(4714, TRACE_EXEMPLAR_SLOW, &kept));
	assert_int_equal(kept.slow_state, ERRAND_BACK);
	/* after a reset thresholds are computed again */
	assert_int_equal(trace_slow_set("errand", NULL, UINT64_MAX, &why), 0);
	assert_int_equal(lives()->fixed, 1u << ERRAND_BACK | 1u << ERRAND_GOING);
}

/* Many slow lives in one quarter of an hour must not replace the slowest ones of earlier quarters. */
static void the_slowest_lives_of_each_quarter_of_an_hour_are_kept(void **state)
{
	uint64_t epoch = 900ull * 1000 * 1000 * US;
	struct trace_exemplar kept;

	now = 100 * epoch;
	for (uint32_t e = 0; e < 12; e++) {
		run_errand(5000 + e, now + e * epoch, 900 * US, US);
		for (uint32_t i = 0; i < 1000; i++)
			run_errand(i % 7, now + e * epoch + i * 1000 * US, 500 * US + i, US);
	}
	for (uint32_t e = 0; e < 12; e++)
		assert_true(is_kept(5000 + e, TRACE_EXEMPLAR_SLOW, &kept));
	run_errand(6000, now + 12 * epoch, 900 * US, US);
	assert_true(is_kept(6000, TRACE_EXEMPLAR_SLOW, &kept));
	assert_false(is_kept(5000, TRACE_EXEMPLAR_SLOW, &kept));
}

static void lives_are_not_counted_while_their_point_is_off(void **state)
{
	struct fathom_fault why;

	assert_int_equal(trace_mask_set("none", &why), 0);
	run_errand(1, now, 100, 100);
	assert_int_equal(stage_count(0), 0);
}

static uint64_t io_records(void)
{
	return trace_self.lane[TRACE_RING_IO].ring->head;
}

static void a_filter_selects_records_by_owner_but_counts_all_lives(void **state)
{
	uint16_t one = trace_owner_create(TRACE_OWNER_SESSION, 1, "10.0.0.1 nqn.host-one"), two, late;
	struct fathom_fault why;

	two = trace_owner_create(TRACE_OWNER_SESSION, 1, "10.0.0.2");
	errands[1].story.trace.owner = one;
	errands[2].story.trace.owner = two;
	trace_filter_set("host-one");
	run_errand(0, now, 100, 100);
	run_errand(2, now, 100, 100);
	assert_int_equal(io_records(), 0);
	run_errand(1, now, 100, 100);
	assert_int_equal(io_records(), 3);
	assert_int_equal(stage_count(0), 3);
	/* the groups are reported enabled, also after a change */
	assert_int_equal(trace_group_enable("more", UINT64_MAX, false), 0);
	assert_true(trace_wanted(TRACE_POINT_ERRAND_STATE));
	assert_false(trace_wanted(TRACE_POINT_COUNT_IO));
	/* an owner whose name becomes known later; an owner that ends */
	trace_owner_describe(two, "10.0.0.2 nqn.host-one");
	run_errand(2, now, 100, 100);
	assert_int_equal(io_records(), 6);
	trace_owner_destroy(one, 2);
	run_errand(1, now, 100, 100);
	assert_int_equal(io_records(), 6);
	late = trace_owner_create(TRACE_OWNER_SESSION, 3, "nqn.host-one again");
	errands[3].story.trace.owner = late;
	run_errand(3, now, 100, 100);
	assert_int_equal(io_records(), 9);
	trace_filter_set(NULL);
	run_errand(0, now, 100, 100);
	assert_int_equal(io_records(), 12);
	assert_int_equal(trace_mask_set("all", &why), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(buckets_are_an_eighth_wide),
		CASE(each_life_is_counted_in_its_stages),
		CASE(figures_sum_up_the_stages),
		CASE(figures_find_requests_under_way_and_their_ios),
		CASE(figures_find_kept_lives_and_totals),
		CASE(a_life_that_metrics_name_is_kept_when_others_need_its_row),
		CASE(a_life_whose_row_was_changed_is_not_named),
		CASE(figures_name_an_owner_only_while_it_had_the_id),
		CASE(lives_of_a_batch_are_added_together_and_none_is_lost),
		CASE(a_thread_adds_the_lives_left_by_the_former_thread_of_its_slot),
		CASE(a_shared_tick_counts_as_the_same_tick),
		CASE(a_state_entered_twice_counts_from_the_second_time),
		CASE(a_failed_life_is_kept_with_its_io_and_records),
		CASE(a_life_with_equal_ticks_is_kept_with_all_moves),
		CASE(an_io_of_an_earlier_life_is_not_kept),
		CASE(a_slow_life_whose_records_were_overwritten_keeps_its_stages),
		CASE(ten_slow_ones_among_ten_million_are_kept),
		CASE(a_slower_device_does_not_make_all_lives_kept),
		CASE(an_earlier_hang_does_not_hide_later_slow_lives),
		CASE(thresholds_of_slow_lives_can_be_set),
		CASE(the_slowest_lives_of_each_quarter_of_an_hour_are_kept),
		CASE(a_filter_selects_records_by_owner_but_counts_all_lives),
		CASE(lives_are_not_counted_while_their_point_is_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
