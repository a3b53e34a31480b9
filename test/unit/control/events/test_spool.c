/* SPDX-License-Identifier: BSD-2-Clause */
/* A host's spool: order, duplicates, recovery after a crash, damage, a full disk, compaction. */
#include <errno.h>
#include <fcntl.h>

#include "control/events/spool_internal.h"
#include "control/fault/fault.h"
#include "spool_fixture.h"

#define FAILING_ERRNO(of_row) fail_with
#include "../../failing_calls.h"

/* The number of the wrapped call that fails; 0: none. `half`: a failing write writes half first. */
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
	/* like a disk that fills up: a part is written */
	must(__real_pwrite64(fd, data, bytes / 2, offset) == (ssize_t)(bytes / 2));
	errno = fail_with;
	return -1;
}

FAILING_CALL(fdatasync)
FAILING_CALL(fsync)
FAILING_CALL(rename)

static int setup(void **state)
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

/* Assert that the unacknowledged events are `first` ... `last`, in order. */
static void assert_untaken(struct spool *spool, uint64_t first, uint64_t last)
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

static void events_are_readable_in_order_after_a_flush(void **state)
{
	struct spool *spool = spool_open_whole();
	struct spool_batch batch;
	char source[64];

	add(spool, 1);
	assert_int_equal(spool_untaken(spool), 0);
	assert_untaken(spool, 1, 0);
	assert_int_equal(spool_flush(spool, NULL), 0);
	assert_untaken(spool, 1, 1);
	add_and_flush(spool, 2, 5);
	assert_int_equal(spool_batch(spool, 2, SIZE_MAX, &batch, NULL), 0);
	assert_int_equal(batch.count, 2);
	spool_batch_deinit(&batch);
	assert_int_equal(spool_batch(spool, 9, 1, &batch, NULL), 0);
	assert_int_equal(batch.count, 1);
	spool_batch_deinit(&batch);
	assert_int_equal(spool_taken(spool, 3, NULL), 0);
	assert_int_equal(spool_taken(spool, 2, NULL), 0); /* an older acknowledgement changes nothing */
	assert_untaken(spool, 4, 5);
	snprintf(source, sizeof(source), "%s", spool_source(spool));
	spool_close(spool);
	spool = spool_open_whole();
	assert_untaken(spool, 4, 5);
	assert_string_equal(spool_source(spool), source);
	assert_int_equal(strlen(source), 36);
	spool_close(spool);
	unlink(spool_path);
	spool = spool_open_whole();
	assert_string_not_equal(spool_source(spool), source);
	spool_close(spool);
}

static void an_event_of_an_engine_is_stored_once(void **state)
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
	origin.instance = 2; /* another engine, another incarnation, the next sequence: all new */
	assert_int_equal(spool_add(spool, &origin, sample_event(2), NULL), 0);
	origin = (struct spool_origin){ 1, 101, 1 };
	assert_int_equal(spool_add(spool, &origin, sample_event(3), NULL), 0);
	origin = (struct spool_origin){ 1, 100, 2 }; /* a late event of the older incarnation */
	assert_int_equal(spool_add(spool, &origin, sample_event(4), NULL), 0);
	/* events without an origin are always new */
	assert_int_equal(spool_add(spool, NULL, sample_event(5), NULL), 0);
	assert_int_equal(spool_add(spool, NULL, sample_event(6), NULL), 0);
	assert_int_equal(spool_flush(spool, NULL), 0);
	assert_untaken(spool, 2, 6);
	/* the spool remembers SPOOL_INCARNATIONS incarnations; events of an older one are dropped as duplicates */
	for (uint64_t incarnation = 200; incarnation < 200 + SPOOL_INCARNATIONS; incarnation++) {
		origin = (struct spool_origin){ 1, incarnation, 1 };
		assert_int_equal(spool_add(spool, &origin, sample_event(7), NULL), 0);
	}
	origin = (struct spool_origin){ 1, 100, 9 };
	assert_int_equal(spool_add(spool, &origin, sample_event(8), NULL), -EALREADY);
	spool_close(spool);
}

static void an_invalid_event_or_origin_is_refused(void **state)
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

/* A crash at each byte while event 3 is being written. */
static void an_incomplete_record_at_the_end_is_removed(void **state)
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
		assert_untaken(spool, 1, bytes == whole ? 3 : 2);
		if (bytes != whole)
			add_and_flush(spool, 3, 3);
		assert_untaken(spool, 1, 3);
		spool_close(spool);
		assert_int_equal(spool_file_bytes(), whole);
	}
	free(data);
}

/* Change each byte of an acknowledged record that has another record behind it: this cannot be the effect of a crash. */
static void damage_before_the_last_record_is_reported(void **state)
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

static void a_record_changed_while_open_is_reported(void **state)
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

static void a_spool_in_use_cannot_be_opened(void **state)
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

/* Each external call fails once. No flushed event may be lost or stored twice. */
static void a_failed_call_loses_no_flushed_event(void **state)
{
	static const int errors[] = { ENOSPC, EIO };

	for (uint32_t n = 1, seen = 1; seen; n++) {
		struct spool *spool;
		struct fathom_fault why = { 0 };
		int error;

		setup(NULL);
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
				/* the event is not stored; the next flush repeats it */
				assert_int_equal(spool_untaken(spool), spool_last(spool));
				assert_int_equal(spool_last(spool), number - 1);
				assert_int_equal(spool_flush(spool, NULL), 0);
			}
			assert_untaken(spool, 1, number);
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
		assert_untaken(spool, 3, 4);
		spool_close(spool);
	}
}

/* A server dies after a failed write. The incomplete record is neither an event nor damage. */
static void the_rest_of_a_failed_write_is_removed(void **state)
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

static void a_full_spool_refuses_events(void **state)
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
	assert_untaken(spool, 1, count);
	/* acknowledged events make room */
	assert_int_equal(spool_taken(spool, count, NULL), 0);
	assert_int_equal(spool_add(spool, NULL, sample_event(1), NULL), 0);
	spool_close(spool);
	assert_int_equal(spool_open(spool_path, 1 << 30, &spool, NULL, NULL), 0);
	for (int i = 0; i < SPOOL_PENDING_MAX; i++)
		assert_int_equal(spool_add(spool, NULL, sample_event(1), NULL), 0);
	assert_int_equal(spool_add(spool, NULL, sample_event(1), NULL), -ENOBUFS);
	spool_close(spool);
}

/* The file must stay small while 40,000 events are added and acknowledged. Each call of a rewrite may fail. */
static void acknowledged_events_are_removed_from_the_file(void **state)
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
		assert_untaken(spool, number + 90, number + 99);
		rewritten += spool_bytes(spool) < before;
		most = max_u64(most, spool_file_bytes());
		if (number % 1000 == 1) {
			spool_close(spool);
			spool = spool_open_whole();
			assert_true(spool_untaken(spool) >= 10);
			assert_int_equal(spool_taken(spool, number + 89, NULL), 0);
			assert_untaken(spool, number + 90, number + 99);
		}
	}
	assert_true(rewritten > 0);
	assert_true(most < 3 * SPOOL_COMPACT_BYTES);
	/* events of all incarnations are still duplicates */
	for (uint64_t number = 39998; number <= 40000; number++) {
		struct spool_origin origin = { number % 3, 7, number };

		assert_int_equal(spool_add(spool, &origin, sample_event(number), NULL), -EALREADY);
	}
	spool_close(spool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(events_are_readable_in_order_after_a_flush, setup),
		cmocka_unit_test_setup(an_event_of_an_engine_is_stored_once, setup),
		cmocka_unit_test_setup(an_invalid_event_or_origin_is_refused, setup),
		cmocka_unit_test_setup(an_incomplete_record_at_the_end_is_removed, setup),
		cmocka_unit_test_setup(damage_before_the_last_record_is_reported, setup),
		cmocka_unit_test_setup(a_record_changed_while_open_is_reported, setup),
		cmocka_unit_test_setup(a_spool_in_use_cannot_be_opened, setup),
		cmocka_unit_test_setup(a_failed_call_loses_no_flushed_event, setup),
		cmocka_unit_test_setup(the_rest_of_a_failed_write_is_removed, setup),
		cmocka_unit_test_setup(a_full_spool_refuses_events, setup),
		cmocka_unit_test_setup(acknowledged_events_are_removed_from_the_file, setup),
	};
	int failed;

	spool_folder_create();
	failed = cmocka_run_group_tests_name("control spool", tests, NULL, NULL);
	spool_folder_remove();
	return failed;
}
