/* SPDX-License-Identifier: BSD-2-Clause */
/* File I/O with io_uring, with helpers and simulated gives the same results. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "rig.h"

enum { BLOCK_BYTES = 4096, BLOCKS = 2000 /* more than a ring holds */ };

struct block {
	struct uring_op op; /* must be the first member */
	struct iovec iov;
	uint64_t *words;
	bool reading;
};

static struct {
	int fd;
	struct block *blocks;
	struct fathom_thread *thread;
	_Atomic(uint64_t) done, wrong;
} io;

static void fill(struct block *block, uint64_t value)
{
	for (size_t i = 0; i < BLOCK_BYTES / 8; i++)
		block->words[i] = value;
}

static void start(struct block *block, bool write)
{
	block->iov = (struct iovec){ .iov_base = block->words, .iov_len = BLOCK_BYTES };
	block->op.kind = write ? URING_WRITEV : URING_READV;
	block->op.fd = io.fd;
	block->op.iov = &block->iov;
	block->op.iov_count = 1;
	block->op.offset_bytes = (uint64_t)(block - io.blocks) * BLOCK_BYTES;
	uring_submit(&block->op);
}

static void read_done(struct uring_op *op, int32_t result)
{
	struct block *block = container_of(op, struct block, op);

	io.wrong += thread_self() != io.thread || result != BLOCK_BYTES || block->words[7] != (uint64_t)(block - io.blocks);
	io.done++;
}

static void written(struct uring_op *op, int32_t result)
{
	struct block *block = container_of(op, struct block, op);

	io.wrong += thread_self() != io.thread || result != BLOCK_BYTES;
	fill(block, UINT64_MAX);
	op->done = read_done;
	start(block, false);
}

/* Write each block, and read it as soon as it is written. */
static void write_and_read_all(void *unused)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		fill(&io.blocks[i], i);
		io.blocks[i].op.done = written;
		start(&io.blocks[i], true);
	}
}

static void begin(void)
{
	char path[] = "/tmp/fathom-file-io-XXXXXX";

	io.fd = mkstemp(path);
	assert_true(io.fd >= 0);
	unlink(path);
	io.done = io.wrong = 0;
	io.blocks = calloc(BLOCKS, sizeof(*io.blocks));
	assert_non_null(io.blocks);
	for (size_t i = 0; i < BLOCKS; i++) {
		io.blocks[i].words = malloc(BLOCK_BYTES);
		assert_non_null(io.blocks[i].words);
	}
}

static void end(void)
{
	for (size_t i = 0; i < BLOCKS; i++)
		free(io.blocks[i].words);
	free(io.blocks);
	close(io.fd);
	assert_int_equal(io.wrong, 0);
}

struct other {
	struct uring_op op;
	_Atomic(uint64_t) done;
	int32_t result;
	uint64_t done_ns;
};

static void other_done(struct uring_op *op, int32_t result)
{
	struct other *other = container_of(op, struct other, op);

	other->result = result;
	other->done_ns = clock_monotonic_ns();
	other->done = 1;
}

static void submit_message(void *op)
{
	uring_submit(op);
}

static int32_t run_other(struct uring_op op)
{
	struct other other = { .op = op };

	other.op.done = other_done;
	thread_send_msg(io.thread, submit_message, &other.op);
	rig_wait_u64(&other.done, 1);
	return other.result;
}

static void all_kinds(void)
{
	struct iovec iov = { .iov_base = (void *)"x", .iov_len = 1 };
	struct stat st;

	begin();
	rig_start(2);
	io.thread = thread_create("file", rig_reactor(0));
	thread_send_msg(io.thread, write_and_read_all, NULL);
	rig_wait_u64(&io.done, BLOCKS);
	assert_int_equal(run_other((struct uring_op){ .kind = URING_FDATASYNC, .fd = io.fd }), 0);
	assert_int_equal(run_other((struct uring_op){ .kind = URING_FALLOCATE,
						      .fd = io.fd,
						      .length_bytes = 8192,
						      .offset_bytes = BLOCKS * BLOCK_BYTES }),
			 0);
	assert_int_equal(fstat(io.fd, &st), 0);
	assert_int_equal(st.st_size, BLOCKS * BLOCK_BYTES + 8192);
	assert_int_equal(run_other((struct uring_op){ .kind = URING_WRITEV, .fd = -1, .iov = &iov, .iov_count = 1 }),
			 -EBADF);
	rig_exit(io.thread);
	rig_stop();
	end();
}

static void file_io_through_io_uring_if_available(void **state)
{
	unsetenv("FATHOM_NO_URING");
	all_kinds();
}

static void note_cpu(void *ctx)
{
	atomic_store((_Atomic(uint64_t) *)ctx, (uint64_t)sched_getcpu() + 1);
}

/* The pthreads of this process with this name that may run on `cpu`; `*count_ret`: all with the name. */
static unsigned int count_pthreads_on(const char *name, int cpu, unsigned int *count_ret)
{
	unsigned int found = 0;
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/task");

	assert_non_null(dir);
	*count_ret = 0;
	while ((entry = readdir(dir))) {
		char path[300], comm[32] = "";
		uint64_t pid;
		cpu_set_t cpus;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(comm, sizeof(comm), file) && strncmp(comm, name, strlen(name)) == 0 &&
		    text_parse_u64(entry->d_name, 10, INT32_MAX, &pid) == 0 &&
		    sched_getaffinity((pid_t)pid, sizeof(cpus), &cpus) == 0) {
			(*count_ret)++;
			found += CPU_ISSET(cpu, &cpus) != 0;
		}
		fclose(file);
	}
	closedir(dir);
	return found;
}

static void workers_of_io_uring_stay_off_the_reactors_cpus(void **state)
{
	_Atomic(uint64_t) cpu = 0;
	unsigned int count, wrong;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip(); /* one CPU */
	begin();
	rig_start(1);
	io.thread = thread_create("file", rig_reactor(0));
	thread_send_msg(io.thread, note_cpu, &cpu);
	assert_int_equal(run_other((struct uring_op){ .kind = URING_FDATASYNC, .fd = io.fd }), 0);
	wrong = count_pthreads_on("iou-wrk", (int)atomic_load(&cpu) - 1, &count);
	maybe(count == 0); /* without io_uring */
	rig_exit(io.thread);
	rig_stop();
	end();
	assert_int_equal(wrong, 0);
}

static void file_io_through_helpers(void **state)
{
	setenv("FATHOM_NO_URING", "1", 1);
	rig_start(1);
	assert_false(uring_available());
	rig_stop();
	all_kinds();
	unsetenv("FATHOM_NO_URING");
}

static void file_io_simulated(void **state)
{
	begin();
	rig_start_simulated(1);
	assert_false(uring_available());
	io.thread = thread_create("file", NULL);
	thread_send_msg(io.thread, write_and_read_all, NULL);
	rig_settle(1000);
	assert_int_equal(io.done, BLOCKS);
	rig_exit(io.thread);
	rig_stop();
	end();
}

/* A read of an empty pipe ends long after the reactor has gone to sleep. */
static void a_completion_wakes_a_sleeping_reactor(void **state)
{
	struct iovec iov = { .iov_base = (char[1]){ 0 }, .iov_len = 1 };
	uint64_t waited_ns = 0;
	int fds[2];

	rig_start(1);
	if (!uring_available()) {
		rig_stop();
		skip();
	}
	assert_int_equal(pipe(fds), 0);
	io.thread = thread_create("file", rig_reactor(0));
	for (int i = 0; i < 50; i++) {
		struct uring_op op = { .done = other_done, .kind = URING_READV, .fd = fds[0], .iov = &iov, .iov_count = 1 };
		struct other other = { .op = op };
		uint64_t from;

		thread_send_msg(io.thread, submit_message, &other.op);
		usleep(2000);
		assert_int_equal(other.done, 0);
		from = clock_monotonic_ns();
		assert_int_equal(write(fds[1], "x", 1), 1);
		rig_wait_u64(&other.done, 1);
		waited_ns += other.done_ns - from;
		assert_int_equal(other.result, 1);
	}
	print_message("# woken by a completion: %.1f us on average\n", (double)waited_ns / 50 / 1e3);
	rig_exit(io.thread);
	rig_stop();
	close(fds[0]);
	close(fds[1]);
}

/* ---- moving a thread with I/O in progress ---- */

static _Atomic(uint64_t) messages_run, timer_runs, fd_runs, io_rounds;
static struct poller *timer, *busy;
static struct fd_watch *pipe_watch;
static int pipe_fds[2];
static bool stopping;

static void again(struct uring_op *op, int32_t result)
{
	struct block *block = container_of(op, struct block, op);

	io.wrong += thread_self() != io.thread || result != BLOCK_BYTES || thread_reactor(thread_self()) != reactor_self();
	io_rounds++;
	if (stopping)
		io.done++;
	else
		start(block, !block->reading);
	block->reading = !block->reading;
}

static int on_timer(void *ctx)
{
	io.wrong += thread_self() != io.thread || thread_reactor(thread_self()) != reactor_self();
	timer_runs++;
	return 0;
}

static int on_poll(void *ctx)
{
	return 1;
}

static void on_pipe(void *ctx, uint32_t events)
{
	char byte;

	io.wrong += thread_self() != io.thread || thread_reactor(thread_self()) != reactor_self();
	fd_runs += read(pipe_fds[0], &byte, 1) == 1;
}

static void settle_in(void *unused)
{
	timer = poller_register("timer", on_timer, NULL, 50000);
	busy = poller_register("busy", on_poll, NULL, 0);
	pipe_watch = fd_watch_add(pipe_fds[0], EPOLLIN, on_pipe, NULL);
	for (size_t i = 0; i < 64; i++) {
		io.blocks[i].op.done = again;
		fill(&io.blocks[i], i);
		start(&io.blocks[i], true);
	}
}

static void move_out(void *unused)
{
	stopping = true;
	poller_unregister(&timer);
	poller_unregister(&busy);
	fd_watch_remove(&pipe_watch);
	thread_exit(thread_self());
}

static void hello(void *unused)
{
	io.wrong += thread_self() != io.thread || thread_reactor(thread_self()) != reactor_self();
	messages_run++;
}

static void move(void *reactor)
{
	thread_move(thread_self(), reactor);
}

static void moving_with_everything_in_flight(void)
{
	enum { MOVES = 300 };

	messages_run = timer_runs = fd_runs = io_rounds = 0;
	stopping = false;
	begin();
	assert_int_equal(pipe2(pipe_fds, O_NONBLOCK), 0);
	rig_start(2);
	io.thread = thread_create("nomad", rig_reactor(0));
	thread_send_msg(io.thread, settle_in, NULL);
	for (uint64_t i = 1; i <= MOVES; i++) {
		thread_send_msg(io.thread, move, rig_reactor((unsigned int)i));
		thread_send_msg(io.thread, hello, NULL);
		assert_int_equal(write(pipe_fds[1], "x", 1), 1);
		rig_wait_u64(&messages_run, i);
		rig_wait_u64(&fd_runs, i);
		rig_wait_u64(&io_rounds, i * 4);
	}
	rig_wait_u64(&timer_runs, 10);
	thread_send_msg(io.thread, move_out, NULL);
	rig_stop();
	assert_int_equal(io.done, 64);
	print_message("# %d operations and %d timer runs in %d moves\n", (int)io_rounds, (int)timer_runs, MOVES);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	end();
}

static void a_thread_moves_with_io_in_progress(void **state)
{
	moving_with_everything_in_flight();
}

static void a_thread_moves_with_io_in_progress_in_helpers(void **state)
{
	setenv("FATHOM_NO_URING", "1", 1);
	moving_with_everything_in_flight();
	unsetenv("FATHOM_NO_URING");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_io_through_io_uring_if_available),
		cmocka_unit_test(workers_of_io_uring_stay_off_the_reactors_cpus),
		cmocka_unit_test(file_io_through_helpers),
		cmocka_unit_test(file_io_simulated),
		cmocka_unit_test(a_completion_wakes_a_sleeping_reactor),
		cmocka_unit_test(a_thread_moves_with_io_in_progress),
		cmocka_unit_test(a_thread_moves_with_io_in_progress_in_helpers),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
