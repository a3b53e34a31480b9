/* SPDX-License-Identifier: BSD-2-Clause */
/* Short writes: by a signal while a pipe is full, and by the limit of a file's size. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/file.h"

enum { BYTES = 1 << 20, LIMIT = 10000 };

static volatile sig_atomic_t signals;

static void count_signal(int signal_number)
{
	signals++;
}

static uint8_t *make_data(void)
{
	uint8_t *data = malloc(BYTES);

	assert_non_null(data);
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i * 31 + (i >> 8));
	return data;
}

static int make_file(void)
{
	int fd = memfd_create("file_test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void assert_file_has(int fd, const uint8_t *data, size_t bytes, uint64_t offset)
{
	uint8_t *there = malloc(bytes);

	assert_non_null(there);
	assert_int_equal(pread(fd, there, bytes, (off_t)offset), bytes);
	assert_memory_equal(there, data, bytes);
	free(there);
}

static void writes_append_or_use_their_offset(void **state)
{
	uint8_t *data = make_data();
	int fd = make_file();

	assert_int_equal(file_write(fd, data, 100), 0);
	assert_int_equal(file_write_at(fd, data, 5000, 1 << 20), 0);
	assert_int_equal(file_write(fd, data + 100, 900), 0);
	assert_int_equal(file_write(fd, NULL, 0), 0);
	assert_int_equal(file_write_at(fd, NULL, 0, 1 << 22), 0);
	assert_file_has(fd, data, 1000, 0);
	assert_file_has(fd, data, 5000, 1 << 20);
	assert_int_equal(lseek(fd, 0, SEEK_END), (1 << 20) + 5000);
	close(fd);
	free(data);
}

/* Signal the writer before each read, from a pipe smaller than its data. */
static void read_and_signal(int fd, pid_t writer, const uint8_t *data)
{
	uint8_t piece[3000];
	size_t done = 0;
	ssize_t got;

	for (;;) {
		(void)kill(writer, SIGUSR1);
		got = read(fd, piece, sizeof(piece));
		if (got <= 0 || done + (size_t)got > BYTES || memcmp(piece, data + done, (size_t)got) != 0)
			break;
		done += (size_t)got;
	}
	_exit(got == 0 && done == BYTES ? 0 : 1);
}

static void a_write_interrupted_by_signals_is_completed(void **state)
{
	const struct sigaction action = { .sa_handler = count_signal }; /* without SA_RESTART */
	uint8_t *data = make_data();
	int ends[2], status;
	pid_t pid;

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ends[1]);
		read_and_signal(ends[0], getppid(), data);
	}
	close(ends[0]);
	assert_int_equal(file_write(ends[1], data, BYTES), 0);
	close(ends[1]);
	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_true(signals > 0);
	free(data);
}

/* The kernel writes up to the limit and refuses the rest. */
static void a_write_over_the_size_limit_writes_up_to_it_and_fails(void **state)
{
	struct rlimit before, limit;
	uint8_t *data = make_data();
	int fd = make_file(), other = make_file(), rc, rc_at;

	assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){ LIMIT, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	rc = file_write(fd, data, LIMIT + 1);
	rc_at = file_write_at(other, data, LIMIT, 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(rc, -EFBIG);
	assert_int_equal(rc_at, -EFBIG);
	assert_file_has(fd, data, LIMIT, 0);
	assert_file_has(other, data, LIMIT - 1, 1);
	close(fd);
	close(other);
	free(data);
}

static void the_error_of_the_kernel_is_returned(void **state)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC), reader = open("/dev/null", O_RDONLY | O_CLOEXEC), ends[2];

	assert_true(fd >= 0 && reader >= 0);
	assert_int_equal(file_write(fd, "x", 1), -ENOSPC);
	assert_int_equal(file_write(reader, "x", 1), -EBADF);
	assert_int_equal(file_write_at(reader, "x", 1, 0), -EBADF);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(file_write_at(ends[1], "x", 1, 0), -ESPIPE);
	close(ends[0]);
	close(ends[1]);
	close(reader);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_append_or_use_their_offset),
		cmocka_unit_test(a_write_interrupted_by_signals_is_completed),
		cmocka_unit_test(a_write_over_the_size_limit_writes_up_to_it_and_fails),
		cmocka_unit_test(the_error_of_the_kernel_is_returned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
