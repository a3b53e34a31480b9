/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server is killed 500 times at random instants: while it opens its spool, adds events, sends them, rewrites the file.
 * Acknowledged events must be stored, in order, each once.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/random.h"
#include "spool_fixture.h"

enum { KILLS = 500, WAIT_US_MAX = 3000, GROUP = 64 };

/* Add and flush events for ever, and write each acknowledged number to `fd`. The number of an event is its sequence. */
static void run_until_killed(int fd, uint64_t acknowledged)
{
	struct spool *spool;
	uint64_t sequence = acknowledged;

	must(spool_open(spool_path, 0, &spool, NULL, NULL) == 0);
	for (;;) {
		for (int i = 0; i < GROUP; i++) {
			struct spool_origin origin = { 0, 1, ++sequence };
			int error = spool_add(spool, &origin, sample_event(sequence), NULL);

			must(error == 0 || error == -EALREADY);
		}
		must(spool_flush(spool, NULL) == 0);
		must(write(fd, &sequence, sizeof(sequence)) == sizeof(sequence));
		if (spool_untaken(spool) > GROUP)
			must(spool_taken(spool, spool_last(spool) - GROUP / 2, NULL) == 0);
	}
}

static uint64_t run_and_kill(struct random *random, uint64_t acknowledged)
{
	struct timespec pause = { 0, (long)random_below(random, WAIT_US_MAX) * 1000 };
	uint64_t sequence;
	int fds[2], status;
	pid_t child;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		run_until_killed(fds[1], acknowledged);
	close(fds[1]);
	nanosleep(&pause, NULL);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	while (read(fds[0], &sequence, sizeof(sequence)) == sizeof(sequence)) {
		assert_int_equal(sequence, acknowledged + GROUP);
		acknowledged = sequence;
	}
	close(fds[0]);
	return acknowledged;
}

/* Return the last stored event. */
static uint64_t check_spool(uint64_t acknowledged)
{
	struct spool *spool = spool_open_whole();
	struct spool_batch batch;
	uint64_t last;

	last = spool_last(spool);
	assert_true(last >= acknowledged);
	assert_true(last <= acknowledged + GROUP);
	assert_int_equal(spool_batch(spool, SPOOL_BATCH_MAX, SIZE_MAX, &batch, NULL), 0);
	assert_int_equal(batch.count, min_u64(spool_untaken(spool), SPOOL_BATCH_MAX));
	for (size_t i = 0; i < batch.count; i++) {
		assert_int_equal(batch.events[i]->number, last - spool_untaken(spool) + 1 + i);
		assert_int_equal(sample_number(batch.events[i]->event), batch.events[i]->number);
	}
	spool_batch_deinit(&batch);
	spool_close(spool);
	return last;
}

static void acknowledged_events_survive_every_kill(void **state)
{
	struct random random;
	uint64_t acknowledged = 0, unsaid = 0;

	random_init(&random, 5);
	for (int round = 0; round < KILLS; round++) {
		acknowledged = run_and_kill(&random, acknowledged);
		unsaid += check_spool(acknowledged) > acknowledged;
	}
	print_message("# %llu events; unacknowledged events were stored %llu times\n", (unsigned long long)acknowledged,
		      (unsigned long long)unsaid);
	assert_true(acknowledged > KILLS);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(acknowledged_events_survive_every_kill) };
	int failed;

	spool_folder_create();
	failed = cmocka_run_group_tests_name("control spool killed", tests, NULL, NULL);
	spool_folder_remove();
	return failed;
}
