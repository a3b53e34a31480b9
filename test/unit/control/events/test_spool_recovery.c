/* SPDX-License-Identifier: BSD-2-Clause */
/* The spool of a dead engine: every whole event is read, once, whatever the state of the rest. */
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

static int see(void *ctx, const struct spool_origin *origin, const Shared__RASEvent *event)
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

/* The events that are read are `first` ... `last`. */
static struct spool_loss must_recover(uint64_t first, uint64_t last)
{
	struct seen seen = { 0 };
	struct spool_loss loss = { 99, 99 };

	assert_int_equal(spool_recover(spool_path, see, &seen, &loss, &why), 0);
	assert_int_equal(seen.count, last + 1 - first);
	for (size_t i = 0; i < seen.count; i++)
		assert_int_equal(seen.numbers[i], first + i);
	return loss;
}

static void must_recover_all(uint64_t first, uint64_t last)
{
	struct spool_loss loss = must_recover(first, last);

	assert_int_equal(loss.cut_bytes, 0);
	assert_int_equal(loss.damaged_bytes, 0);
}

static void what_was_not_taken_is_read_in_order(void **state)
{
	struct spool *spool = spool_open_whole();
	struct seen seen = { .stop_at = 2 };
	struct spool_loss loss;

	spool_close(spool);
	must_recover_all(1, 0);
	spool = spool_open_whole();
	add(spool, 1, EVENTS);
	assert_int_equal(spool_recover(spool_path, see, &seen, &loss, &why), -EBUSY); /* its owner lives */
	assert_int_equal(why.code, 685);
	spool_close(spool);
	must_recover_all(1, EVENTS);
	must_recover_all(1, EVENTS); /* reading takes nothing */
	assert_int_equal(spool_recover(spool_path, see, &seen, &loss, &why), -ENOSPC);
	assert_int_equal(seen.count, 2);
}

/* Acknowledged again after the file was opened again, and an older one behind a newer one. */
static void an_acknowledgement_may_come_twice(void **state)
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
	must_recover_all(5, EVENTS);
}

static void what_was_being_written_is_no_damage(void **state)
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
		loss = must_recover(1, 2);
		assert_int_equal(loss.cut_bytes, bytes - before);
		assert_int_equal(loss.damaged_bytes, 0);
	}
	free(data);
}

/* Every byte once: at most one event is lost by it, or one that was taken comes again, which its reader knows. */
static void damage_costs_what_is_damaged(void **state)
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
		assert_int_equal(spool_recover(spool_path, see, &seen, &loss, &why), 0);
		assert_true(seen.count >= EVENTS - 2 && seen.count <= EVENTS);
		assert_true(loss.damaged_bytes + loss.cut_bytes >= sizeof(struct spool_head));
		assert_true(loss.cut_bytes == 0 || loss.cut_bytes == sizeof(struct spool_record)); /* the last one */
		for (size_t i = 1; i < seen.count; i++)
			assert_true(seen.numbers[i] > seen.numbers[i - 1]);
		data[at] ^= 0x40;
	}
	/* a part that was never a spool, and the end of one */
	memset(data, 0x5a, 200);
	spool_file_write(data, whole);
	assert_int_equal(must_recover(3, EVENTS).cut_bytes, 0);
	spool_file_write(data, 200);
	assert_int_equal(must_recover(1, 0).damaged_bytes, 200);
	spool_file_write(data, 0);
	must_recover_all(1, 0);
	free(data);
}

/* The sum is right, and yet it is none. */
static void a_record_that_is_no_event_is_damage(void **state)
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
	assert_int_equal(must_recover(1, 0).damaged_bytes, 2 * sizeof(record) + 3);
}

static void what_cannot_be_read_is_told(void **state)
{
	struct seen seen = { 0 };
	struct spool_loss loss;

	assert_int_equal(spool_recover(spool_path, see, &seen, &loss, &why), -ENOENT);
	assert_int_equal(why.code, 684);
	assert_int_equal(mkfifo(spool_path, 0600), 0);
	assert_int_equal(spool_recover(spool_path, see, &seen, &loss, &why), -EINVAL);
	assert_int_equal(why.code, 684);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_was_not_taken_is_read_in_order, spool_delete),
		cmocka_unit_test_setup(an_acknowledgement_may_come_twice, spool_delete),
		cmocka_unit_test_setup(what_was_being_written_is_no_damage, spool_delete),
		cmocka_unit_test_setup(damage_costs_what_is_damaged, spool_delete),
		cmocka_unit_test_setup(a_record_that_is_no_event_is_damage, spool_delete),
		cmocka_unit_test_setup(what_cannot_be_read_is_told, spool_delete),
	};
	int failed;

	spool_folder_create();
	failed = cmocka_run_group_tests_name("control spool recovery", tests, NULL, NULL);
	spool_folder_remove();
	return failed;
}
