/* SPDX-License-Identifier: BSD-2-Clause */
/* A host's spool: order, once each, what a crash leaves, damage, a full disk, files that get smaller. */
#include <errno.h>
#include <fcntl.h>

#include "control/events/spool_internal.h"
#include "control/fault/fault.h"
#include "spool_fixture.h"

#define FAILING_ERRNO(of_row) fail_with
#include "../../failing_calls.h"

/* Which of the wrapped calls fails from now on: 0 none. `half`: the write is done in part first. */
static uint32_t calls, fail_at;
static int fail_with;

static bool fails(void)
{
	if (++calls != fail_at)
		return false;
	errno = fail_with;
	return true;
}

ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off_t offset)
{
	if (!fails())
		return __real_pwrite64(fd, data, bytes, offset);
	/* as a disk that fills up does: some of it is there */
	must(__real_pwrite64(fd, data, bytes / 2, offset) == (ssize_t)(bytes / 2));
	errno = fail_with;
	return -1;
}

FAILING_CALL(fdatasync)
FAILING_CALL(fsync)
FAILING_CALL(rename)

static int begin(void **state)
{
	calls = fail_at = 0;
	return spool_delete(state);
}

static void add(struct spool *spool, uint64_t number)
{
	struct spool_origin origin = { number % 3, 7, number };

	assert_int_equal(spool_add(spool, &origin, sample_event(number), NULL), 0);
}

static void add_and_flush(struct spool *spool, uint64_t first, uint64_t last)
{
	for (uint64_t number = first; number <= last; number++)
		add(spool, number);
	assert_int_equal(spool_flush(spool, NULL), 0);
}

/* All that is left is `first` ... `last`, in order. */
static void must_have(struct spool *spool, uint64_t first, uint64_t last)
{
	struct spool_batch batch;

	assert_int_equal(spool_untaken(spool), last - first + 1);
	assert_int_equal(spool_last(spool), last);
	assert_int_equal(spool_batch(spool, SPOOL_BATCH_MAX, SIZE_MAX, &batch, NULL), 0);
	assert_int_equal(batch.count, last - first + 1);
	for (size_t i = 0; i < batch.count; i++) {
		assert_int_equal(batch.events[i]->number, first + i);
		assert_int_equal(sample_number(batch.events[i]->event), first + i);
	}
	spool_batch_deinit(&batch);
}

static void events_are_handed_over_in_order_after_a_flush(void **state)
{
	struct spool *spool = spool_open_whole();
	struct spool_batch batch;
	char source[64];

	add(spool, 1);
	assert_int_equal(spool_untaken(spool), 0);
	must_have(spool, 1, 0);
	assert_int_equal(spool_flush(spool, NULL), 0);
	must_have(spool, 1, 1);
	add_and_flush(spool, 2, 5);
	assert_int_equal(spool_batch(spool, 2, SIZE_MAX, &batch, NULL), 0);
	assert_int_equal(batch.count, 2);
	spool_batch_deinit(&batch);
	assert_int_equal(spool_batch(spool, 9, 1, &batch, NULL), 0);
	assert_int_equal(batch.count, 1);
	spool_batch_deinit(&batch);
	assert_int_equal(spool_taken(spool, 3, NULL), 0);
	assert_int_equal(spool_taken(spool, 2, NULL), 0); /* an old answer changes nothing */
	must_have(spool, 4, 5);
	snprintf(source, sizeof(source), "%s", spool_source(spool));
	spool_close(spool);
	spool = spool_open_whole();
	must_have(spool, 4, 5);
	assert_string_equal(spool_source(spool), source);
	assert_int_equal(strlen(source), 36);
	spool_close(spool);
	unlink(spool_path);
	spool = spool_open_whole();
	assert_string_not_equal(spool_source(spool), source);
	spool_close(spool);
}

static void an_engines_event_is_taken_once(void **state)
{
	struct spool *spool = spool_open_whole();
	struct spool_origin origin = { 1, 100, 1 };

	assert_int_equal(spool_add(spool, &origin, sample_event(1), NULL), 0);
	assert_int_equal(spool_add(spool, &origin, sample_event(1), NULL), -EALREADY);
	assert_int_equal(spool_flush(spool, NULL), 0);
	assert_int_equal(spool_taken(spool, 1, NULL), 0);
	assert_int_equal(spool_add(spool, &origin, sample_event(1), NULL), -EALREADY);
	spool_close(spool);
	spool = spool_open_whole();
	assert_int_equal(spool_add(spool, &origin, sample_event(1), NULL), -EALREADY);
	origin.instance = 2; /* another engine, another incarnation, the next sequence */
	assert_int_equal(spool_add(spool, &origin, sample_event(2), NULL), 0);
	origin = (struct spool_origin){ 1, 101, 1 };
	assert_int_equal(spool_add(spool, &origin, sample_event(3), NULL), 0);
	origin = (struct spool_origin){ 1, 100, 2 }; /* its last word came late */
	assert_int_equal(spool_add(spool, &origin, sample_event(4), NULL), 0);
	/* the server's own are new each time */
	assert_int_equal(spool_add(spool, NULL, sample_event(5), NULL), 0);
	assert_int_equal(spool_add(spool, NULL, sample_event(6), NULL), 0);
	assert_int_equal(spool_flush(spool, NULL), 0);
	must_have(spool, 2, 6);
	/* so many incarnations later the first is forgotten, and so has nothing new to say */
	for (uint64_t incarnation = 200; incarnation < 200 + SPOOL_INCARNATIONS; incarnation++) {
		origin = (struct spool_origin){ 1, incarnation, 1 };
		assert_int_equal(spool_add(spool, &origin, sample_event(7), NULL), 0);
	}
	origin = (struct spool_origin){ 1, 100, 9 };
	assert_int_equal(spool_add(spool, &origin, sample_event(8), NULL), -EALREADY);
	spool_close(spool);
}

static void what_is_no_event_is_refused(void **state)
{
	struct spool *spool = spool_open_whole();
	struct spool_origin origins[] = { { SPOOL_SOURCES_MAX, 1, 1 }, { 0, 0, 1 }, { 0, 1, 0 } };
	Shared__RASEvent event = *sample_event(1);
	struct fathom_fault why;

	for (size_t i = 0; i < ARRAY_COUNT(origins); i++) {
		assert_int_equal(spool_add(spool, &origins[i], sample_event(1), &why), -EINVAL);
		assert_int_equal(why.code, 686);
	}
	event.id = 0;
	assert_int_equal(spool_add(spool, NULL, &event, &why), -EINVAL);
	assert_int_equal(why.code, 686);
	spool_close(spool);
}

/* A crash while events 3 and 4 were being written, at every byte. */
static void what_was_being_written_is_cut_off(void **state)
{
	struct spool *spool = spool_open_whole();
	uint64_t before, whole;
	uint8_t *data;

	add_and_flush(spool, 1, 2);
	before = spool_bytes(spool);
	add_and_flush(spool, 3, 3);
	whole = spool_bytes(spool);
	spool_close(spool);
	data = spool_file_read();
	for (uint64_t bytes = before; bytes <= whole; bytes++) {
		uint64_t cut;

		spool_file_write(data, bytes);
		assert_int_equal(spool_open(spool_path, 0, &spool, &cut, NULL), 0);
		assert_int_equal(cut, bytes == whole ? 0 : bytes - before);
		must_have(spool, 1, bytes == whole ? 3 : 2);
		if (bytes != whole)
			add_and_flush(spool, 3, 3);
		must_have(spool, 1, 3);
		spool_close(spool);
		assert_int_equal(spool_file_bytes(), whole);
	}
	free(data);
}

/* Every byte of what was acknowledged, and then something was written behind it. */
static void damage_is_told_from_a_crash(void **state)
{
	struct spool *spool = spool_open_whole();
	struct fathom_fault why;
	uint64_t first, whole;
	uint8_t *data;

	add_and_flush(spool, 1, 1);
	first = spool_bytes(spool);
	add_and_flush(spool, 2, 2);
	whole = spool_bytes(spool);
	spool_close(spool);
	data = spool_file_read();
	for (uint64_t at = 0; at < first; at++) {
		data[at] ^= 0x40;
		spool_file_write(data, whole);
		assert_int_equal(spool_open(spool_path, 0, &spool, NULL, &why), -EBADMSG);
		assert_int_equal(why.code, 683);
		assert_non_null(strstr(why.text, spool_path));
		data[at] ^= 0x40;
	}
	spool_file_write(data, sizeof(struct spool_head) - 1);
	assert_int_equal(spool_open(spool_path, 0, &spool, NULL, &why), -EBADMSG);
	free(data);
}

static void a_record_that_changes_under_us_is_seen(void **state)
{
	struct spool *spool = spool_open_whole();
	struct spool_batch batch;
	struct fathom_fault why;
	int fd;

	add_and_flush(spool, 1, 3);
	fd = open(spool_path, O_RDWR);
	assert_int_equal(__real_pwrite64(fd, "x", 1, (off_t)spool_place(spool, 2)->offset + 60), 1);
	close(fd);
	assert_int_equal(spool_batch(spool, 9, SIZE_MAX, &batch, &why), -EBADMSG);
	assert_int_equal(why.code, 683);
	spool_close(spool);
}

static void two_do_not_open_it(void **state)
{
	struct spool *spool = spool_open_whole(), *other;
	struct fathom_fault why;

	assert_int_equal(spool_open(spool_path, 0, &other, NULL, &why), -EBUSY);
	assert_int_equal(why.code, 685);
	spool_close(spool);
	spool_close(NULL);
	assert_int_equal(spool_open("/nowhere/spool", 0, &spool, NULL, &why), -ENOENT);
	assert_int_equal(why.code, 684);
}

/* Each call to the outside fails once, wherever it is; nothing that was acknowledged is lost, nothing comes twice. */
static void a_full_disk_loses_nothing(void **state)
{
	static const int errors[] = { ENOSPC, EIO };

	for (uint32_t n = 1, seen = 1; seen; n++) {
		struct spool *spool;
		struct fathom_fault why = { 0 };
		int error;

		begin(NULL);
		fail_with = errors[n % 2];
		spool = spool_open_whole();
		calls = 0;
		fail_at = n;
		for (uint64_t number = 1; number <= 4; number++) {
			add(spool, number);
			error = spool_flush(spool, &why);
			if (error) {
				assert_int_equal(error, -fail_with);
				assert_int_equal(why.code, 684);
				/* the sender repeats it, and it is not yet there */
				assert_int_equal(spool_untaken(spool), spool_last(spool));
				assert_int_equal(spool_last(spool), number - 1);
				assert_int_equal(spool_flush(spool, NULL), 0);
			}
			must_have(spool, 1, number);
		}
		error = spool_taken(spool, 2, &why);
		maybe(error == 0);
		assert_int_equal(spool_untaken(spool), 2);
		seen = calls >= fail_at;
		fail_at = 0;
		spool_close(spool);
		spool = spool_open_whole();
		assert_int_equal(spool_last(spool), 4);
		assert_true(spool_untaken(spool) == 2 || error < 0);
		assert_int_equal(spool_taken(spool, 2, NULL), 0);
		must_have(spool, 3, 4);
		spool_close(spool);
	}
}

/* A server dies after a write that failed: what is left of it is no event, and no damage. */
static void what_a_failed_write_left_is_cut_off(void **state)
{
	struct spool *spool = spool_open_whole();

	add_and_flush(spool, 1, 1);
	add(spool, 2);
	add(spool, 3);
	calls = 0;
	fail_at = 1;
	fail_with = ENOSPC;
	assert_int_equal(spool_flush(spool, NULL), -ENOSPC);
	assert_int_equal(spool_taken(spool, 1, NULL), 0);
	spool_close(spool);
	spool = spool_open_whole();
	assert_int_equal(spool_untaken(spool), 0);
	add_and_flush(spool, 4, 4);
	spool_close(spool);
}

static void there_is_an_end_to_its_size(void **state)
{
	struct spool *spool;
	struct fathom_fault why;
	uint64_t count = 0;
	int error = 0;

	assert_int_equal(spool_open(spool_path, 4096, &spool, NULL, NULL), 0);
	while (!error) {
		error = spool_add(spool, NULL, sample_event(count + 1), &why);
		count += !error;
	}
	assert_int_equal(error, -ENOSPC);
	assert_int_equal(why.code, 682);
	assert_true(count > 10);
	assert_int_equal(spool_flush(spool, NULL), 0);
	must_have(spool, 1, count);
	/* what is taken makes room */
	assert_int_equal(spool_taken(spool, count, NULL), 0);
	assert_int_equal(spool_add(spool, NULL, sample_event(1), NULL), 0);
	spool_close(spool);
	assert_int_equal(spool_open(spool_path, 1 << 30, &spool, NULL, NULL), 0);
	for (int i = 0; i < SPOOL_PENDING_MAX; i++)
		assert_int_equal(spool_add(spool, NULL, sample_event(1), NULL), 0);
	assert_int_equal(spool_add(spool, NULL, sample_event(1), NULL), -ENOBUFS);
	spool_close(spool);
}

/* 40,000 events go through, and the file stays small; each call of a rewriting may fail. */
static void a_file_of_what_was_taken_gets_smaller(void **state)
{
	struct spool *spool = spool_open_whole();
	uint64_t most = 0, rewritten = 0;

	for (uint64_t number = 1; number <= 40000; number += 100) {
		uint64_t before = spool_bytes(spool);
		int error;

		add_and_flush(spool, number, number + 99);
		calls = 0;
		fail_at = spool_bytes(spool) > SPOOL_COMPACT_BYTES && number / 100 % 16 < 12 ? (uint32_t)(number / 100 % 16)
											     : 0;
		fail_with = EIO;
		error = spool_taken(spool, number + 89, NULL);
		fail_at = 0;
		maybe(error == 0);
		must_have(spool, number + 90, number + 99);
		rewritten += spool_bytes(spool) < before;
		most = max_u64(most, spool_file_bytes());
		if (number % 1000 == 1) {
			spool_close(spool);
			spool = spool_open_whole();
			assert_true(spool_untaken(spool) >= 10);
			assert_int_equal(spool_taken(spool, number + 89, NULL), 0);
			must_have(spool, number + 90, number + 99);
		}
	}
	assert_true(rewritten > 0);
	assert_true(most < 3 * SPOOL_COMPACT_BYTES);
	/* it still knows all of them */
	for (uint64_t number = 39998; number <= 40000; number++) {
		struct spool_origin origin = { number % 3, 7, number };

		assert_int_equal(spool_add(spool, &origin, sample_event(number), NULL), -EALREADY);
	}
	spool_close(spool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(events_are_handed_over_in_order_after_a_flush, begin),
		cmocka_unit_test_setup(an_engines_event_is_taken_once, begin),
		cmocka_unit_test_setup(what_is_no_event_is_refused, begin),
		cmocka_unit_test_setup(what_was_being_written_is_cut_off, begin),
		cmocka_unit_test_setup(damage_is_told_from_a_crash, begin),
		cmocka_unit_test_setup(a_record_that_changes_under_us_is_seen, begin),
		cmocka_unit_test_setup(two_do_not_open_it, begin),
		cmocka_unit_test_setup(a_full_disk_loses_nothing, begin),
		cmocka_unit_test_setup(what_a_failed_write_left_is_cut_off, begin),
		cmocka_unit_test_setup(there_is_an_end_to_its_size, begin),
		cmocka_unit_test_setup(a_file_of_what_was_taken_gets_smaller, begin),
	};
	int failed;

	spool_folder_create();
	failed = cmocka_run_group_tests_name("control spool", tests, NULL, NULL);
	spool_folder_remove();
	return failed;
}
