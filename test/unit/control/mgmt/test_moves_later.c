/* SPDX-License-Identifier: BSD-2-Clause */
/* What remains of a move when it has ended: requests to create the volume, and the next move. */
#include "storage_calls.h"

#include "control/mgmt/catalog/catalog.h"
#include "control/mgmt/internal.h"

/* ---- the clock of the service: it may go back ---- */

static uint64_t clock_back_ns;

uint64_t __real_clock_realtime_ns(void);
uint64_t __wrap_clock_realtime_ns(void);

uint64_t __wrap_clock_realtime_ns(void)
{
	return __real_clock_realtime_ns() - clock_back_ns;
}

/* Created on rank 0, and moved to rank 1. */
static void begin_moved(uint32_t ranks)
{
	begin_with_pool(ranks);
	volume_of(create_volume_on("p/a", GIB, "0"));
	assert_int_equal(volume_of(move_volume("p/a", 1))->rank, 1);
}

/* The request that created it is repeated, for example because its answer was lost. */
static void a_volume_that_was_moved_is_still_the_one_that_was_requested(void **state)
{
	const char *text;

	begin_moved(3);
	assert_int_equal(volume_of(create_volume_on("p/a", GIB, "0"))->rank, 1);
	assert_int_equal(volume_of(create_volume_on("p/a", GIB, "1"))->rank, 1);
	assert_int_equal(create_volume_on("p/a", GIB, "2")->why.code, FAULT_VOLUME_DIFFERS);
	reopen_mgmt();
	volume_of(create_volume_on("p/a", GIB, "0"));
	assert_int_equal(volume_of(move_volume("p/a", 2))->rank, 2);
	volume_of(create_volume_on("p/a", GIB, "0"));
	text = create_volume_on("p/a", GIB, "1")->why.text;
	assert_string_equal(text, "volume \"p/a\" exists, with another rank: 2, not 1");
	assert_int_equal(volume_of(move_volume("p/a", 0))->rank, 0);
	volume_of(create_volume_on("p/a", GIB, "0"));
	assert_int_equal(create_volume_on("p/a", GIB, "2")->why.code, FAULT_VOLUME_DIFFERS);
}

static bool is_drained(void *unused)
{
	const struct catalog *catalog = fixture.mgmt->catalog;
	const struct catalog_volume *volume = catalog_find_volume(catalog, catalog_find_pool(catalog, "p"), "a");

	return volume->record.place.rank == 1 && volume->record.change.kind == CATALOG_NO_CHANGE;
}

static void a_drain_does_not_refuse_a_repeated_creation(void **state)
{
	begin_with_pool(2);
	volume_of(create_volume_on("p/a", GIB, "0"));
	answer_of(drain_ranks("p", "0"));
	wait_until(is_drained, NULL);
	assert_int_equal(volume_of(create_volume_on("p/a", GIB, "0"))->rank, 1);
}

/* Of the latest session in which the rank was the source. */
static uint64_t offered[2];

static void note_serials(void)
{
	for (uint32_t rank = 0; rank < 2; rank++) {
		const struct fake_storage *storage = &fixture.fakes[rank].storage;

		if (storage->volume_count > 0 && storage->volumes[0].serial > 0)
			offered[rank] = storage->volumes[0].serial;
	}
}

/* An engine rejects requests with a lower number than that of its session: those that are delayed to the next move. */
static void numbers_of_sessions_grow_from_move_to_move(void **state)
{
	fixture.after_storage = note_serials;
	begin_moved(2);
	clock_back_ns = 3600 * NS_PER_SEC;
	reopen_mgmt();
	assert_int_equal(volume_of(move_volume("p/a", 0))->rank, 0);
	assert_true(offered[0] > 0);
	assert_true(offered[1] > offered[0]);
	clock_back_ns = 0;
	fixture.after_storage = NULL;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)
	const struct CMUnitTest tests[] = {
		TEST(a_volume_that_was_moved_is_still_the_one_that_was_requested),
		TEST(a_drain_does_not_refuse_a_repeated_creation),
		TEST(numbers_of_sessions_grow_from_move_to_move),
	};

	return cmocka_run_group_tests_name("control mgmt moves_later", tests, NULL, NULL);
}
