/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbered events in the database: repeating sources, pruning, reading, invalid values. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "control/db/sqlite.h"
#include "control/events/store.h"
#include "control/fault/fault.h"

#include "event_sample.h"

#define A "11111111-1111-4111-8111-111111111111"
#define B "22222222-2222-4222-8222-222222222222"

static char folder[] = "/tmp/fathom-events-XXXXXX";
static char path[64];
static struct db *db;
static struct event_store *store;

static void open_store(uint64_t events_max)
{
	struct fathom_fault why = { 0 };

	assert_int_equal(db_open_sqlite(path, &db, NULL), 0);
	if (event_store_open(db, events_max, &store, &why) < 0)
		fail_msg("%s", why.text);
}

static void close_store(void)
{
	event_store_close(store);
	db_close(db);
}

static int setup(void **state)
{
	unlink(path);
	open_store(0);
	return 0;
}

static int teardown(void **state)
{
	close_store();
	return 0;
}

/* Store events `first` ... `last` of `source`; their messages have the same numbers. */
static int take(const char *source, uint64_t first, uint64_t last, uint64_t *taken_ret, struct fathom_fault *why)
{
	size_t count = last - first + 1;
	Fathom__NumberedEvent *events = calloc(count, sizeof(*events)), **places = calloc(count, sizeof(*places));
	struct ras_event *bodies = calloc(count, sizeof(*bodies));
	int error;

	must(events && places && bodies);
	for (size_t i = 0; i < count; i++) {
		fathom__numbered_event__init(&events[i]);
		ras_event_init(&bodies[i], RAS_DEVICE_PLUGGED, "%" PRIu64, first + i);
		events[i].number = first + i;
		events[i].event = &bodies[i].message;
		places[i] = &events[i];
	}
	error = event_store_take(store, &(struct event_batch){ .source = source, .events = places, .count = count },
				 taken_ret, why);
	free(bodies);
	free(events);
	free(places);
	return error;
}

/* Assert that the events after number `after` have these messages. */
static void assert_events_after(uint64_t after, uint32_t max, const uint64_t *messages, size_t count)
{
	struct event_range range = { .after = after, .max = max, .bytes_max = SIZE_MAX };
	Fathom__NumberedEvent **events;
	size_t got;

	assert_int_equal(event_store_read(store, &range, &events, &got, NULL), 0);
	assert_int_equal(got, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(sample_number(events[i]->event), messages[i]);
		assert_int_equal(events[i]->number, events[0]->number + i);
	}
	event_store_free(events, got);
}

static void a_repeated_event_of_a_source_is_stored_once(void **state)
{
	static const uint64_t all[] = { 1, 2, 3, 1, 4, 5, 2 };
	uint64_t taken;

	assert_int_equal(event_store_last(store), 0);
	assert_int_equal(event_store_first(store), 0);
	assert_events_after(0, 0, NULL, 0);
	assert_int_equal(take(A, 1, 3, &taken, NULL), 0);
	assert_int_equal(taken, 3);
	assert_int_equal(take(B, 1, 1, &taken, NULL), 0);
	assert_int_equal(taken, 1);
	assert_int_equal(take(A, 1, 3, &taken, NULL), 0); /* repeated, as after a lost answer */
	assert_int_equal(taken, 3);
	assert_int_equal(take(A, 2, 5, &taken, NULL), 0);
	assert_int_equal(taken, 5);
	close_store();
	open_store(0);
	assert_int_equal(event_store_taken(store, A), 5);
	assert_int_equal(event_store_taken(store, "nobody"), 0);
	assert_int_equal(take(A, 1, 5, &taken, NULL), 0);
	assert_int_equal(take(B, 2, 2, &taken, NULL), 0);
	assert_events_after(0, 0, all, ARRAY_COUNT(all));
	assert_events_after(5, 0, all + 5, 2);
	assert_events_after(2, 3, all + 2, 3);
	assert_events_after(7, 0, NULL, 0);
	assert_events_after(UINT64_MAX, 0, NULL, 0);
	assert_int_equal(event_store_first(store), 1);
	assert_int_equal(event_store_last(store), 7);
}

static void events_without_a_source_are_always_stored(void **state)
{
	static const uint64_t all[] = { 5, 5, 1 };
	uint64_t taken;

	assert_int_equal(take(NULL, 5, 5, &taken, NULL), 0);
	assert_int_equal(take(NULL, 5, 5, &taken, NULL), 0);
	assert_int_equal(take(NULL, 1, 1, &taken, NULL), 0);
	assert_events_after(0, 0, all, 3);
}

static void the_oldest_events_are_removed_above_the_limit(void **state)
{
	static const uint64_t last_four[] = { 97, 98, 99, 100 };
	uint64_t taken;

	close_store();
	open_store(4);
	assert_int_equal(take(A, 1, 3, &taken, NULL), 0);
	assert_int_equal(event_store_first(store), 1);
	assert_int_equal(take(A, 4, 6, &taken, NULL), 0);
	assert_int_equal(event_store_first(store), 3);
	assert_int_equal(take(A, 7, 100, &taken, NULL), 0); /* more than the limit at once */
	assert_int_equal(event_store_first(store), 97);
	assert_events_after(0, 0, last_four, 4);
	close_store();
	open_store(2); /* reopened with a lower limit */
	assert_events_after(0, 0, last_four, 4);
	assert_int_equal(take(A, 101, 101, &taken, NULL), 0);
	assert_int_equal(event_store_first(store), 100);
	assert_int_equal(event_store_last(store), 101);
}

static void a_batch_with_an_invalid_event_is_refused_whole(void **state)
{
	Fathom__NumberedEvent event = FATHOM__NUMBERED_EVENT__INIT, *events[] = { &event, &event };
	struct event_batch batch = { .source = A, .events = events, .count = 1 };
	Shared__RASEvent bad = *sample_event(1);
	struct fathom_fault why;
	uint64_t taken = 77;

	event.number = 1;
	assert_int_equal(event_store_take(store, &batch, &taken, &why), -EINVAL); /* without an event */
	assert_int_equal(why.code, 686);
	event.event = (Shared__RASEvent *)(uintptr_t)sample_event(1);
	batch.count = 2;
	assert_int_equal(event_store_take(store, &batch, &taken, &why), -EINVAL); /* the same number twice */
	batch.count = 1;
	batch.source = "x";
	assert_int_equal(event_store_take(store, &batch, &taken, &why), -EINVAL);
	assert_int_equal(why.code, 686);
	bad.type = 9;
	event.event = &bad;
	batch.source = A;
	assert_int_equal(event_store_take(store, &batch, &taken, &why), -EINVAL);
	assert_int_equal(take(A, 1, EVENT_STORE_TAKE_MAX + 1, &taken, &why), -EINVAL);
	assert_int_equal(taken, 77);
	assert_int_equal(event_store_last(store), 0);
	assert_int_equal(event_store_taken(store, A), 0);
	/* the largest batch is accepted */
	assert_int_equal(take(A, 1, EVENT_STORE_TAKE_MAX, &taken, &why), 0);
	assert_int_equal(event_store_last(store), EVENT_STORE_TAKE_MAX);
}

static void a_read_with_little_room_returns_one_event(void **state)
{
	struct event_range range = { .bytes_max = 1 };
	Fathom__NumberedEvent **events;
	uint64_t taken;
	size_t count;

	assert_int_equal(take(A, 1, 9, &taken, NULL), 0);
	assert_int_equal(event_store_read(store, &range, &events, &count, NULL), 0);
	assert_int_equal(count, 1);
	event_store_free(events, count);
}

static void put(const char *key, const char *value)
{
	struct db_change change = {
		.key = key, .expected = DB_VERSION_ANY, .what = DB_PUT, .value = value, .bytes = strlen(value)
	};

	assert_int_equal(db_commit(db, &change, 1, NULL, NULL), 0);
}

static void invalid_values_in_the_database_are_refused(void **state)
{
	static const struct {
		const char *key, *bad, *good;
	} rows[] = {
		{ "events/range", "1", "1 0" },
		{ "events/range", "0 0", "1 0" },
		{ "events/range", "3 1", "1 0" },
		{ "events/range", "1 2 3", "1 0" },
		{ "events/source/" A, "x", "1" },
		{ "events/source/x", "1", NULL },
		{ "events/range", "9223372036854775808 9223372036854775808", "1 0" },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct event_store *other;
		struct fathom_fault why = { 0 };

		put(rows[i].key, rows[i].bad);
		assert_int_equal(event_store_open(db, 0, &other, &why), -EBADMSG);
		assert_true(why.code > 0);
		if (rows[i].good)
			put(rows[i].key, rows[i].good);
	}
}

/* Each event that the store accepts can be loaded again, for any number of its source. */
static void a_number_that_could_not_be_loaded_is_rejected(void **state)
{
	Fathom__NumberedEvent event = FATHOM__NUMBERED_EVENT__INIT, *events[] = { &event };
	struct event_batch batch = { .source = A, .events = events, .count = 1 };
	struct fathom_fault why = { 0 };
	uint64_t taken;

	event.event = (Shared__RASEvent *)(uintptr_t)sample_event(1);
	event.number = (uint64_t)INT64_MAX + 1;
	assert_int_equal(event_store_take(store, &batch, &taken, &why), -EINVAL);
	assert_int_equal(why.code, 686);
	event.number = UINT64_MAX;
	assert_int_equal(event_store_take(store, &batch, &taken, &why), -EINVAL);
	event.number = INT64_MAX;
	assert_int_equal(event_store_take(store, &batch, &taken, &why), 0);
	close_store();
	open_store(0);
	assert_int_equal(event_store_taken(store, A), INT64_MAX);
}

/* ---- more sources than are remembered ---- */

static void write_source(uint32_t number, char *uuid)
{
	snprintf(uuid, 37, "00000000-0000-4000-8000-%012x", number);
}

static void fill_sources(void)
{
	static struct db_change changes[DB_CHANGES_MAX];
	static char keys[DB_CHANGES_MAX][64];

	for (uint32_t number = 0; number < EVENT_STORE_SOURCES_MAX; number += DB_CHANGES_MAX) {
		for (uint32_t i = 0; i < DB_CHANGES_MAX; i++) {
			char uuid[37];

			write_source(number + i, uuid);
			snprintf(keys[i], sizeof(keys[i]), "events/source/%s", uuid);
			changes[i] = (struct db_change){
				.key = keys[i], .expected = DB_VERSION_NONE, .what = DB_PUT, .value = "7", .bytes = 1
			};
		}
		assert_int_equal(db_commit(db, changes, DB_CHANGES_MAX, NULL, NULL), 0);
	}
}

static int count_one(void *ctx, const char *key, const void *value, size_t bytes, uint64_t version)
{
	++*(uint32_t *)ctx;
	return 0;
}

static uint32_t count_sources(void)
{
	uint32_t count = 0;

	assert_int_equal(db_scan(db, "events/source/", count_one, &count, NULL), 0);
	return count;
}

static void above_the_limit_the_least_recently_used_source_is_removed(void **state)
{
	char first[37], second[37], third[37];
	uint64_t taken;

	write_source(0, first);
	write_source(1, second);
	write_source(2, third);
	fill_sources();
	close_store();
	open_store(0);
	assert_int_equal(take(first, 1, 9, &taken, NULL), 0); /* this source is used now; 8 and 9 are new */
	assert_int_equal(taken, 9);
	assert_int_equal(take(A, 1, 3, &taken, NULL), 0);
	assert_int_equal(take(B, 1, 4, &taken, NULL), 0);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(event_store_taken(store, first), 9);
		assert_int_equal(event_store_taken(store, second), 0);
		assert_int_equal(event_store_taken(store, third), 0);
		assert_int_equal(event_store_taken(store, A), 3);
		assert_int_equal(event_store_taken(store, B), 4);
		assert_int_equal(count_sources(), EVENT_STORE_SOURCES_MAX);
		close_store();
		open_store(0);
	}
	/* the removed source reports again, with its unacknowledged events */
	assert_int_equal(take(second, 8, 10, &taken, NULL), 0);
	assert_int_equal(taken, 10);
	assert_int_equal(event_store_last(store), 2 + 3 + 4 + 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_repeated_event_of_a_source_is_stored_once, setup, teardown),
		cmocka_unit_test_setup_teardown(events_without_a_source_are_always_stored, setup, teardown),
		cmocka_unit_test_setup_teardown(the_oldest_events_are_removed_above_the_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(a_batch_with_an_invalid_event_is_refused_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(a_read_with_little_room_returns_one_event, setup, teardown),
		cmocka_unit_test_setup_teardown(above_the_limit_the_least_recently_used_source_is_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(invalid_values_in_the_database_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_number_that_could_not_be_loaded_is_rejected, setup, teardown),
	};
	int failed;

	must(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/db", folder);
	failed = cmocka_run_group_tests_name("control event store", tests, NULL, NULL);
	unlink(path);
	rmdir(folder);
	return failed;
}
