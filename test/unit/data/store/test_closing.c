/* SPDX-License-Identifier: BSD-2-Clause */
/* Closes of files that hang, or that get no thread. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "../../hanging_close.h"
#include "rig.h"

enum { CLOSERS_PER_DISK = 16, FILES = CLOSERS_PER_DISK + 4, WAIT_SEC = 60 };

static atomic_uint refused_threads; /* how many more pthreads cannot be created */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *ctx);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *ctx);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *ctx)
{
	if (atomic_load(&refused_threads) > 0) {
		atomic_fetch_sub(&refused_threads, 1);
		return EAGAIN;
	}
	return __real_pthread_create(thread, attributes, start, ctx);
}

static struct file {
	char path[64], name[16];
} files[FILES], other;

static void create_file(struct file *file, const char *directory, int number)
{
	const struct file_options options = { .name = file->name, .filename = file->path, .block_bytes = 512 };
	int fd;

	snprintf(file->path, sizeof(file->path), "%s/fathom-closing-XXXXXX", directory);
	snprintf(file->name, sizeof(file->name), "file%d", number);
	fd = mkstemp(file->path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(rig_file(&options, NULL), 0);
}

static int begin(void **state)
{
	rig_start(false);
	for (int i = 0; i < FILES; i++)
		create_file(&files[i], "/tmp", i);
	create_file(&other, "/dev/shm", FILES);
	return 0;
}

static int end(void **state)
{
	hang_close(NULL); /* also after an assertion */
	atomic_store(&refused_threads, 0);
	rig_stop();
	for (int i = 0; i < FILES; i++)
		unlink(files[i].path);
	unlink(other.path);
	return 0;
}

static void count_gone(void *ctx)
{
	*(uint32_t *)ctx = rig_delete_gone();
}

static void wait_until_gone(uint32_t count)
{
	uint64_t end_ns = clock_monotonic_ns() + WAIT_SEC * NS_PER_SEC;

	for (uint32_t gone = 0; gone < count; usleep(1000)) {
		assert_true(clock_monotonic_ns() < end_ns);
		rig_on(thread_control(), count_gone, &gone);
	}
}

/* More files than a disk has workers; the close of a file elsewhere ends. */
static void a_file_system_whose_closes_hang_delays_no_other(void **state)
{
	uint32_t gone;

	hang_closes_beside(files[0].path);
	for (int i = 0; i < FILES; i++)
		rig_delete_begin(files[i].name);
	wait_for_hung_closes(CLOSERS_PER_DISK);
	rig_delete_begin(other.name);
	wait_until_gone(1);
	rig_on(thread_control(), count_gone, &gone);
	assert_int_equal(gone, 1);
	assert_null(rig_find(other.name));
	hang_close(NULL);
	wait_until_gone(FILES + 1);
}

static void a_close_without_a_thread_is_tried_again(void **state)
{
	atomic_store(&refused_threads, 3);
	for (int i = 0; i < FILES; i++)
		rig_delete_begin(files[i].name);
	rig_delete_begin(other.name);
	wait_until_gone(FILES + 1);
	assert_int_equal(atomic_load(&refused_threads), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_file_system_whose_closes_hang_delays_no_other, begin, end),
		cmocka_unit_test_setup_teardown(a_close_without_a_thread_is_tried_again, begin, end),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("store closing", tests, NULL, NULL);
}
