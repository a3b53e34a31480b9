/* SPDX-License-Identifier: BSD-2-Clause */
/* The spool of a dead engine: each intact event is read once, even if other parts are damaged. */
#include <errno.h>

#include "control/events/spool_internal.h"
#include "control/fault/fault.h"
#include "spool_fixture.h"

enum { EVENTS = 5, INSTANCE = 3, INCARNATION = 77 };

static struct fathom_fault why;

struct seen {
	uint64_t numbers[2 * EVENTS];
	size_t count, stop_at; /* 0: never */
};

static int record_event(void *ctx, const struct spool_origin *origin, const Shared__RASEvent *event)
{
	struct seen *seen = ctx;

	assert_int_equal(origin->instance, INSTANCE);
	assert_int_equal(origin->incarnation, INCARNATION);
	assert_int_equal(origin->sequence, sample_number(event));
	assert_true(seen->count < ARRAY_COUNT(seen->numbers));
	seen->numbers[seen->count++] = origin->sequence;
	return seen->count == seen->stop_at ? -ENOSPC : 0;
}

static void add(struct spool *spool, uint64_t first, uint64_t last)
{
	for (uint64_t number = first; number <= last; number++) {
		struct spool_origin origin = { INSTANCE, INCARNATION, number };

		assert_int_equal(spool_add(spool, &origin, sample_event(number), NULL), 0);
		assert_int_equal(spool_flush(spool, NULL), 0);
	}
}

/* Recover, and assert that the events are `first` ... `last`. */
static struct spool_loss assert_recovers(uint64_t first, uint64_t last)
{
	struct seen seen = { 0 };
	struct spool_loss loss = { 99, 99 };

	assert_int_equal(spool_recover(spool_path, record_event, &seen, &loss, &why), 0);
	assert_int_equal(seen.count, last + 1 - first);
	for (size_t i = 0; i < seen.count; i++)
		assert_int_equal(seen.numbers[i], first + i);
	return loss;
}

static void assert_recovers_all(uint64_t first, uint64_t last)
{
	struct spool_loss loss = assert_recovers(first, last);

	assert_int_equal(loss.cut_bytes, 0);
	assert_int_equal(loss.damaged_bytes, 0);
}

static void unacknowledged_events_are_recovered_in_order(void **state)
{
	struct spool *spool = spool_open_whole();
	struct seen seen = { .stop_at = 2 };
	struct spool_loss loss;

	spool_close(spool);
	assert_recovers_all(1, 0);
	spool = spool_open_whole();
	add(spool, 1, EVENTS);
	/* its owner still has it open */
	assert_int_equal(spool_recover(spool_path, record_event, &seen, &loss, &why), -EBUSY);
	assert_int_equal(why.code, 685);
	spool_close(spool);
	assert_recovers_all(1, EVENTS);
	assert_recovers_all(1, EVENTS); /* recovery acknowledges nothing */
	assert_int_equal(spool_recover(spool_path, record_event, &seen, &loss, &why), -ENOSPC);
	assert_int_equal(seen.count, 2);
}

/* Repeated acknowledgements, and an older one after a newer one. */
static void repeated_acknowledgements_are_accepted(void **state)
{
	struct spool *spool = spool_open_whole();
	struct spool_record record;
	FILE *file;

	add(spool, 1, EVENTS);
	assert_int_equal(spool_taken(spool, 3, NULL), 0);
	spool_close(spool);
	file = fopen(spool_path, "a");
	for (uint64_t number = 4; number > 1; number -= 2) {
		spool_record_fill(&record, &(struct spool_contents){ .kind = SPOOL_TAKEN, .number = number });
		assert_int_equal(fwrite(&record, sizeof(record), 1, file), 1);
		assert_int_equal(fwrite(&record, sizeof(record), 1, file), 1);
	}
	fclose(file);
	assert_recovers_all(5, EVENTS);
}

static void an_incomplete_record_at_the_end_is_not_damage(void **state)
{
	struct spool *spool = spool_open_whole();
	uint64_t before;
	uint8_t *data;
	size_t whole;

	add(spool, 1, 2);
	before = spool_bytes(spool);
	add(spool, 3, 3);
	spool_close(spool);
	data = spool_file_read();
	whole = spool_file_bytes();
	for (size_t bytes = before; bytes < whole; bytes++) {
		struct spool_loss loss;

		spool_file_write(data, bytes);
		loss = assert_recovers(1, 2);
		assert_int_equal(loss.cut_bytes, bytes - before);
		assert_int_equal(loss.damaged_bytes, 0);
	}
	free(data);
}

/*
 * Change each byte. At most one event is lost, or an acknowledged one is read again, which its reader drops as a duplicate.
 */
static void a_damaged_byte_costs_at_most_one_event(void **state)
{
	struct spool *spool = spool_open_whole();
	uint8_t *data;
	size_t whole;

	add(spool, 1, EVENTS);
	assert_int_equal(spool_taken(spool, 1, NULL), 0);
	spool_close(spool);
	data = spool_file_read();
	whole = spool_file_bytes();
	for (size_t at = 0; at < whole; at++) {
		struct seen seen = { 0 };
		struct spool_loss loss;

		data[at] ^= 0x40;
		spool_file_write(data, whole);
		assert_int_equal(spool_recover(spool_path, record_event, &seen, &loss, &why), 0);
		assert_true(seen.count >= EVENTS - 2 && seen.count <= EVENTS);
		assert_true(loss.damaged_bytes + loss.cut_bytes >= sizeof(struct spool_head));
		assert_true(loss.cut_bytes == 0 || loss.cut_bytes == sizeof(struct spool_record)); /* the last record */
		for (size_t i = 1; i < seen.count; i++)
			assert_true(seen.numbers[i] > seen.numbers[i - 1]);
		data[at] ^= 0x40;
	}
	/* random bytes in place of the beginning; only random bytes; an empty file */
	memset(data, 0x5a, 200);
	spool_file_write(data, whole);
	assert_int_equal(assert_recovers(3, EVENTS).cut_bytes, 0);
	spool_file_write(data, 200);
	assert_int_equal(assert_recovers(1, 0).damaged_bytes, 200);
	spool_file_write(data, 0);
	assert_recovers_all(1, 0);
	free(data);
}

/* The checksum is correct, but the record is not a valid event. */
static void an_invalid_record_with_a_correct_checksum_is_damage(void **state)
{
	const struct spool_origin good = { INSTANCE, INCARNATION, 1 }, bad = { SPOOL_SOURCES_MAX, 1, 1 };
	struct spool *spool = spool_open_whole();
	struct spool_record record;
	FILE *file;

	spool_close(spool);
	file = fopen(spool_path, "a");
	spool_record_fill(&record, &(struct spool_contents){
					   .kind = SPOOL_EVENT,
					   .number = 1,
					   .origin = &good,
					   .payload = "\377\377\377",
					   .payload_bytes = 3,
				   });
	assert_int_equal(fwrite(&record, sizeof(record), 1, file), 1);
	assert_int_equal(fwrite("\377\377\377", 3, 1, file), 1);
	spool_record_fill(&record, &(struct spool_contents){ .kind = SPOOL_EVENT, .number = 2, .origin = &bad });
	assert_int_equal(fwrite(&record, sizeof(record), 1, file), 1);
	fclose(file);
	assert_int_equal(assert_recovers(1, 0).damaged_bytes, 2 * sizeof(record) + 3);
}

static void an_unreadable_spool_is_a_fault(void **state)
{
	struct seen seen = { 0 };
	struct spool_loss loss;

	assert_int_equal(spool_recover(spool_path, record_event, &seen, &loss, &why), -ENOENT);
	assert_int_equal(why.code, 684);
	assert_int_equal(mkfifo(spool_path, 0600), 0);
	assert_int_equal(spool_recover(spool_path, record_event, &seen, &loss, &why), -EINVAL);
	assert_int_equal(why.code, 684);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(unacknowledged_events_are_recovered_in_order, spool_delete),
		cmocka_unit_test_setup(repeated_acknowledgements_are_accepted, spool_delete),
		cmocka_unit_test_setup(an_incomplete_record_at_the_end_is_not_damage, spool_delete),
		cmocka_unit_test_setup(a_damaged_byte_costs_at_most_one_event, spool_delete),
		cmocka_unit_test_setup(an_invalid_record_with_a_correct_checksum_is_damage, spool_delete),
		cmocka_unit_test_setup(an_unreadable_spool_is_a_fault, spool_delete),
	};
	int failed;

	spool_folder_create();
	failed = cmocka_run_group_tests_name("control spool recovery", tests, NULL, NULL);
	spool_folder_remove();
	return failed;
}
