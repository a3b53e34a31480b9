/* SPDX-License-Identifier: BSD-2-Clause */
/* One request's time by cause: each stage, with and without evidence; sums are always whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bits.h"
#include "inspect/blame/life.h"

/* a tick is a microsecond */
enum { MS = 1000 };

static struct blame_life life;
static struct blame_split split;

static int setup(void **state)
{
	life = (struct blame_life){ .ticks_per_sec = 1000000, .waits_recorded = true };
	return 0;
}

static void piece(uint64_t us, enum blame_stage stage)
{
	uint64_t from = life.piece_count ? life.pieces[life.piece_count - 1].to : 1000;

	assert_true(life.piece_count < BLAME_PIECES_MAX);
	life.pieces[life.piece_count++] = (struct blame_piece){ from, from + us, stage, NULL };
}

/* Evidence at the end of the last piece. */
static void waited(uint32_t closed_us, uint32_t unacked_us, uint32_t lost)
{
	life.waits[life.wait_count++] = (struct blame_wait){ life.pieces[life.piece_count - 1].to, closed_us, unacked_us,
							     lost };
}

static void check_split(uint64_t disk, uint64_t host, uint64_t network, uint64_t queue, uint64_t cpu, uint64_t unknown)
{
	blame_life_split(&life, &split);
	assert_int_equal(split.ticks[BLAME_DISK], disk);
	assert_int_equal(split.ticks[BLAME_HOST], host);
	assert_int_equal(split.ticks[BLAME_NETWORK], network);
	assert_int_equal(split.ticks[BLAME_QUEUE], queue);
	assert_int_equal(split.ticks[BLAME_CPU], cpu);
	assert_int_equal(split.ticks[BLAME_UNKNOWN], unknown);
	assert_int_equal(split.whole, disk + host + network + queue + cpu + unknown);
}

static void stages_without_a_choice_have_their_cause(void **state)
{
	piece(10, BLAME_CAPSULE);
	piece(200, BLAME_WAITING);
	piece(5, BLAME_WORK);
	piece(3000, BLAME_AT_DEVICE);
	piece(7, BLAME_WORK);
	piece(100000, BLAME_RESTING);
	piece(11, BLAME_UNCLEAR);
	check_split(3000, 0, 0, 200, 22, 11);
}

static void a_short_sending_is_our_cpu(void **state)
{
	piece(150, BLAME_SENDING);
	check_split(0, 0, 0, 0, 150, 0);
	setup(state);
	/* too short for a record of its wait */
	piece(900, BLAME_SENDING);
	check_split(0, 0, 0, 0, 0, 900);
	setup(state);
	/* the socket was never full, or there would be a record */
	piece(50 * MS, BLAME_SENDING);
	check_split(0, 0, 0, 0, 50 * MS, 0);
	setup(state);
	/* an older engine makes no such records */
	life.waits_recorded = false;
	piece(50 * MS, BLAME_SENDING);
	check_split(0, 0, 0, 0, 0, 50 * MS);
}

static void a_closed_window_is_the_host_and_an_open_one_the_network(void **state)
{
	piece(1000 * MS, BLAME_SENDING);
	waited(990 * MS, 6 * MS, 0);
	/* 4 ms are less than the kernel's times resolve */
	check_split(0, 994 * MS, 6 * MS, 0, 0, 0);
	setup(state);
	piece(1000 * MS, BLAME_SENDING);
	waited(0, 995 * MS, 3);
	check_split(0, 0, 1000 * MS, 0, 0, 0);
	setup(state);
	/* nothing was under way: our side did not send */
	piece(1000 * MS, BLAME_SENDING);
	waited(100 * MS, 200 * MS, 0);
	check_split(0, 100 * MS, 200 * MS, 0, 700 * MS, 0);
	setup(state);
	/* packets were lost, and the kernel does not say for how long */
	piece(1000 * MS, BLAME_SENDING);
	waited(100 * MS, 200 * MS, 2);
	check_split(0, 100 * MS, 200 * MS, 0, 0, 700 * MS);
	setup(state);
	piece(5 * MS, BLAME_SENDING);
	waited(0, 0, 0);
	check_split(0, 0, 0, 0, 0, 5 * MS);
}

static void counts_longer_than_the_stage_are_cut(void **state)
{
	piece(100 * MS, BLAME_SENDING);
	waited(UINT32_MAX, UINT32_MAX, UINT32_MAX);
	check_split(0, 100 * MS, 0, 0, 0, 0);
	setup(state);
	piece(100 * MS, BLAME_DATA_IN);
	waited(UINT32_MAX, UINT32_MAX, 0);
	check_split(0, 100 * MS, 0, 0, 0, 0);
}

static void late_data_of_an_r2t_are_the_host_if_the_network_was_idle(void **state)
{
	life.rtt_us = 200;
	piece(1000 * MS, BLAME_DATA_IN);
	waited(0, 40 * MS, 0); /* a delayed acknowledgement */
	check_split(0, 999800, 200, 0, 0, 0);
	setup(state);
	/* the R2T did not fit into the host's window */
	piece(1000 * MS, BLAME_DATA_IN);
	waited(900 * MS, 0, 0);
	check_split(0, 1000 * MS, 0, 0, 0, 0);
}

static void late_data_of_an_r2t_are_the_network_if_packets_were_lost_or_not_acknowledged(void **state)
{
	piece(1000 * MS, BLAME_DATA_IN);
	waited(0, 40 * MS, 1);
	check_split(0, 0, 1000 * MS, 0, 0, 0);
	setup(state);
	/* longer than any host delays an acknowledgement */
	piece(1000 * MS, BLAME_DATA_IN);
	waited(0, 600 * MS, 0);
	check_split(0, 400 * MS, 600 * MS, 0, 0, 0);
}

static void late_data_of_an_r2t_are_unknown_where_host_and_network_look_alike(void **state)
{
	/* an acknowledgement after 30 ms: the host's delay or the network's */
	piece(31 * MS, BLAME_DATA_IN);
	waited(0, 30 * MS, 0);
	check_split(0, 1 * MS, 0, 0, 0, 30 * MS);
	setup(state);
	piece(1000 * MS, BLAME_DATA_IN);
	waited(0, 150 * MS, 0);
	check_split(0, 850 * MS, 0, 0, 0, 150 * MS);
	setup(state);
	/* data that trickle */
	piece(1000 * MS, BLAME_DATA_IN);
	life.data_tick = life.pieces[0].from + 300 * MS;
	waited(0, 0, 0);
	check_split(0, 300 * MS, 0, 0, 0, 700 * MS);
	setup(state);
	piece(900, BLAME_DATA_IN);
	check_split(0, 0, 0, 0, 0, 900);
}

static void late_data_of_a_capsule_are_not_our_cpu(void **state)
{
	piece(500 * MS, BLAME_CAPSULE);
	waited(0, 0, 0);
	check_split(0, 0, 0, 0, 0, 500 * MS);
	setup(state);
	piece(500 * MS, BLAME_CAPSULE);
	waited(0, 0, 2);
	check_split(0, 0, 500 * MS, 0, 0, 0);
}

static void evidence_belongs_to_the_stage_that_it_ends(void **state)
{
	piece(1000 * MS, BLAME_DATA_IN);
	waited(0, 0, 0);
	piece(10 * MS, BLAME_AT_DEVICE);
	piece(500 * MS, BLAME_SENDING);
	waited(0, 500 * MS, 4);
	check_split(10 * MS, 1000 * MS, 500 * MS, 0, 0, 0);
}

static void a_stage_that_ends_when_the_reactor_is_free_is_our_cpu(void **state)
{
	struct blame_hold holds[] = { { .from = 1000 + 20 * MS, .to = 1000 + 900 * MS } };

	life.holds = holds;
	life.hold_count = 1;
	piece(905 * MS, BLAME_AT_DEVICE);
	piece(10, BLAME_WORK);
	check_split(25 * MS, 0, 0, 0, 880 * MS + 10, 0);
	assert_ptr_equal(split.hold, &holds[0]);
	/* the device took longer than the reactor was held: it would have been late in any case */
	setup(state);
	life.holds = holds;
	life.hold_count = 1;
	piece(1100 * MS, BLAME_AT_DEVICE);
	check_split(1100 * MS, 0, 0, 0, 0, 0);
	assert_null(split.hold);
	/* a hold behind the stage is not its reason */
	setup(state);
	life.holds = holds;
	life.hold_count = 1;
	piece(10 * MS, BLAME_AT_DEVICE);
	piece(5 * MS, BLAME_WORK);
	check_split(10 * MS, 0, 0, 0, 5 * MS, 0);
}

static void a_hold_across_stages_counts_once(void **state)
{
	struct blame_hold holds[] = { { .from = 0, .to = 1000 + 50 * MS },
				      { .from = 1000 + 60 * MS, .to = 1000 + 100 * MS } };

	life.holds = holds;
	life.hold_count = 2;
	piece(50 * MS, BLAME_DATA_IN);
	waited(50 * MS, 0, 0);
	piece(50 * MS, BLAME_AT_DEVICE);
	check_split(10 * MS, 0, 0, 0, 90 * MS, 0);
	assert_ptr_equal(split.hold, &holds[0]);
}

static void the_longest_piece_names_each_cause(void **state)
{
	life.pieces[life.piece_count++] = (struct blame_piece){ 0, 10, BLAME_WAITING, "QUEUED" };
	life.pieces[life.piece_count++] = (struct blame_piece){ 10, 30, BLAME_WAITING, "WAIT_BUFFER" };
	life.pieces[life.piece_count++] = (struct blame_piece){ 30, 45, BLAME_WAITING, "HELD" };
	life.pieces[life.piece_count++] = (struct blame_piece){ 45, 46, BLAME_AT_DEVICE, "DISPATCHED" };
	check_split(1, 0, 0, 45, 0, 0);
	assert_string_equal(split.where[BLAME_QUEUE], "WAIT_BUFFER");
	assert_string_equal(split.where[BLAME_DISK], "DISPATCHED");
	assert_null(split.where[BLAME_HOST]);
}

/* Whatever the pieces and the evidence, the causes' sum is the life: blame_life_split() checks it. */
static void random_lives_have_no_gap(void **state)
{
	struct blame_hold holds[4];

	srandom(15);
	for (int round = 0; round < 20000; round++) {
		uint64_t at = 0;

		setup(state);
		life.waits_recorded = random() % 2;
		life.rtt_us = (uint32_t)(random() % 1000);
		for (int i = 0; i < 4; i++) {
			holds[i].from = at + (uint64_t)(random() % 100000);
			at = holds[i].to = holds[i].from + (uint64_t)(random() % 100000);
		}
		life.holds = holds;
		life.hold_count = (uint32_t)(random() % 5);
		for (long count = random() % 8; count > 0; count--) {
			piece((uint64_t)(random() % 100000), (enum blame_stage)(random() % (BLAME_UNCLEAR + 1)));
			if (life.wait_count < BLAME_WAITS_MAX && random() % 2)
				waited((uint32_t)(random() % 200000), (uint32_t)(random() % 200000),
				       (uint32_t)(random() % 2));
			life.data_tick = (uint64_t)(random() % 300000);
		}
		blame_life_split(&life, &split);
	}
}

static void states_have_their_stage(void **state)
{
	assert_int_equal(blame_stage_of("TRANSFER_IN", false), BLAME_DATA_IN);
	assert_int_equal(blame_stage_of("DISPATCHED", true), BLAME_AT_DEVICE);
	assert_int_equal(blame_stage_of("DISPATCHED", false), BLAME_UNCLEAR);
	assert_int_equal(blame_stage_of("WAIT_EVENT", false), BLAME_RESTING);
	assert_int_equal(blame_stage_of("NEED_BUFFER", false), BLAME_WAITING);
	assert_int_equal(blame_stage_of("REQ_NEED_BUFFER", false), BLAME_WAITING);
	assert_int_equal(blame_stage_of("of another program", false), BLAME_UNCLEAR);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		CASE(stages_without_a_choice_have_their_cause),
		CASE(a_short_sending_is_our_cpu),
		CASE(a_closed_window_is_the_host_and_an_open_one_the_network),
		CASE(counts_longer_than_the_stage_are_cut),
		CASE(late_data_of_an_r2t_are_the_host_if_the_network_was_idle),
		CASE(late_data_of_an_r2t_are_the_network_if_packets_were_lost_or_not_acknowledged),
		CASE(late_data_of_an_r2t_are_unknown_where_host_and_network_look_alike),
		CASE(late_data_of_a_capsule_are_not_our_cpu),
		CASE(evidence_belongs_to_the_stage_that_it_ends),
		CASE(a_stage_that_ends_when_the_reactor_is_free_is_our_cpu),
		CASE(a_hold_across_stages_counts_once),
		CASE(the_longest_piece_names_each_cause),
		CASE(random_lives_have_no_gap),
		CASE(states_have_their_stage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
