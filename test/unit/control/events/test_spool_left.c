/* SPDX-License-Identifier: BSD-2-Clause */
/* What a dead engine's spool still has: all that is whole, once, whatever became of the rest. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "control/events/spool.h"
#include "control/events/spool_internal.h"
#include "control/fault/fault.h"

#include "event_sample.h"

enum { EVENTS = 5, INSTANCE = 3, INCARNATION = 77 };

static char folder[] = "/tmp/fathom-spool-left-XXXXXX";
static char path[64];
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

static struct spool *open_spool(void)
{
	struct spool *spool;

	assert_int_equal(spool_open(path, 0, &spool, NULL, NULL), 0);
	return spool;
}

static void add(struct spool *spool, uint64_t first, uint64_t last)
{
	for (uint64_t number = first; number <= last; number++) {
		struct spool_origin origin = { INSTANCE, INCARNATION, number };

		assert_int_equal(spool_add(spool, &origin, sample_event(number), NULL), 0);
		assert_int_equal(spool_flush(spool, NULL), 0);
	}
}

/* What is left is `first` ... `last`. */
static struct spool_loss must_leave(uint64_t first, uint64_t last)
{
	struct seen seen = { 0 };
	struct spool_loss loss = { 99, 99 };

	assert_int_equal(spool_read_left(path, see, &seen, &loss, &why), 0);
	assert_int_equal(seen.count, last + 1 - first);
	for (size_t i = 0; i < seen.count; i++)
		assert_int_equal(seen.numbers[i], first + i);
	return loss;
}

static void must_leave_whole(uint64_t first, uint64_t last)
{
	struct spool_loss loss = must_leave(first, last);

	assert_int_equal(loss.cut_bytes, 0);
	assert_int_equal(loss.damaged_bytes, 0);
}

static int begin(void **state)
{
	unlink(path);
	return 0;
}

static void what_was_not_taken_is_left_in_order(void **state)
{
	struct spool *spool = open_spool();
	struct seen seen = { .stop_at = 2 };
	struct spool_loss loss;

	spool_close(spool);
	must_leave_whole(1, 0);
	spool = open_spool();
	add(spool, 1, EVENTS);
	assert_int_equal(spool_read_left(path, see, &seen, &loss, &why), -EBUSY); /* its owner lives */
	assert_int_equal(why.code, 685);
	spool_close(spool);
	must_leave_whole(1, EVENTS);
	must_leave_whole(1, EVENTS); /* reading takes nothing */
	assert_int_equal(spool_read_left(path, see, &seen, &loss, &why), -ENOSPC);
	assert_int_equal(seen.count, 2);
}

/* Acknowledged again after the file was opened again, and an older one behind a newer one. */
static void an_acknowledgement_may_come_twice(void **state)
{
	struct spool *spool = open_spool();
	struct spool_record record;
	FILE *file;

	add(spool, 1, EVENTS);
	assert_int_equal(spool_taken(spool, 3, NULL), 0);
	spool_close(spool);
	file = fopen(path, "a");
	for (uint64_t number = 4; number > 1; number -= 2) {
		spool_record_fill(&record, SPOOL_TAKEN, number, NULL, NULL, 0, 0);
		assert_int_equal(fwrite(&record, sizeof(record), 1, file), 1);
		assert_int_equal(fwrite(&record, sizeof(record), 1, file), 1);
	}
	fclose(file);
	must_leave_whole(5, EVENTS);
}

static size_t read_file(uint8_t *data, size_t room)
{
	FILE *file = fopen(path, "r");
	size_t bytes = fread(data, 1, room, file);

	fclose(file);
	return bytes;
}

static void write_file(const uint8_t *data, size_t bytes)
{
	FILE *file = fopen(path, "w");

	assert_int_equal(fwrite(data, 1, bytes, file), bytes);
	fclose(file);
}

static void what_was_being_written_is_no_damage(void **state)
{
	struct spool *spool = open_spool();
	uint64_t before;
	uint8_t data[8192];
	size_t whole;

	add(spool, 1, 2);
	before = spool_bytes(spool);
	add(spool, 3, 3);
	spool_close(spool);
	whole = read_file(data, sizeof(data));
	for (size_t bytes = before; bytes < whole; bytes++) {
		struct spool_loss loss;

		write_file(data, bytes);
		loss = must_leave(1, 2);
		assert_int_equal(loss.cut_bytes, bytes - before);
		assert_int_equal(loss.damaged_bytes, 0);
	}
}

/* Every byte once: at most one event is lost by it, or one that was taken comes again, which its reader knows. */
static void damage_costs_what_is_damaged(void **state)
{
	struct spool *spool = open_spool();
	uint8_t data[8192];
	size_t whole;

	add(spool, 1, EVENTS);
	assert_int_equal(spool_taken(spool, 1, NULL), 0);
	spool_close(spool);
	whole = read_file(data, sizeof(data));
	for (size_t at = 0; at < whole; at++) {
		struct seen seen = { 0 };
		struct spool_loss loss;

		data[at] ^= 0x40;
		write_file(data, whole);
		assert_int_equal(spool_read_left(path, see, &seen, &loss, &why), 0);
		assert_true(seen.count >= EVENTS - 2 && seen.count <= EVENTS);
		assert_true(loss.damaged_bytes + loss.cut_bytes >= sizeof(struct spool_head));
		assert_true(loss.cut_bytes == 0 || loss.cut_bytes == sizeof(struct spool_record)); /* the last one */
		for (size_t i = 1; i < seen.count; i++)
			assert_true(seen.numbers[i] > seen.numbers[i - 1]);
		data[at] ^= 0x40;
	}
	/* a part that was never a spool, and the end of one */
	memset(data, 0x5a, 200);
	write_file(data, whole);
	assert_int_equal(must_leave(3, EVENTS).cut_bytes, 0);
	write_file(data, 200);
	assert_int_equal(must_leave(1, 0).damaged_bytes, 200);
	write_file(data, 0);
	must_leave_whole(1, 0);
}

/* The sum is right, and yet it is none. */
static void a_record_that_is_no_event_is_damage(void **state)
{
	const struct spool_origin good = { INSTANCE, INCARNATION, 1 }, bad = { SPOOL_SOURCES_MAX, 1, 1 };
	struct spool *spool = open_spool();
	struct spool_record record;
	FILE *file;

	spool_close(spool);
	file = fopen(path, "a");
	spool_record_fill(&record, SPOOL_EVENT, 1, &good, "\377\377\377", 3, 0);
	assert_int_equal(fwrite(&record, sizeof(record), 1, file), 1);
	assert_int_equal(fwrite("\377\377\377", 3, 1, file), 1);
	spool_record_fill(&record, SPOOL_EVENT, 2, &bad, NULL, 0, 0);
	assert_int_equal(fwrite(&record, sizeof(record), 1, file), 1);
	fclose(file);
	assert_int_equal(must_leave(1, 0).damaged_bytes, 2 * sizeof(record) + 3);
}

static void what_cannot_be_read_is_told(void **state)
{
	struct seen seen = { 0 };
	struct spool_loss loss;

	assert_int_equal(spool_read_left(path, see, &seen, &loss, &why), -ENOENT);
	assert_int_equal(why.code, 684);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(spool_read_left(path, see, &seen, &loss, &why), -EINVAL);
	assert_int_equal(why.code, 684);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_was_not_taken_is_left_in_order, begin),
		cmocka_unit_test_setup(an_acknowledgement_may_come_twice, begin),
		cmocka_unit_test_setup(what_was_being_written_is_no_damage, begin),
		cmocka_unit_test_setup(damage_costs_what_is_damaged, begin),
		cmocka_unit_test_setup(a_record_that_is_no_event_is_damage, begin),
		cmocka_unit_test_setup(what_cannot_be_read_is_told, begin),
	};
	int failed;

	must(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/spool", folder);
	failed = cmocka_run_group_tests_name("control spool left", tests, NULL, NULL);
	unlink(path);
	rmdir(folder);
	return failed;
}
