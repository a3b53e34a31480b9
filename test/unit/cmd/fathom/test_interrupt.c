/* SPDX-License-Identifier: BSD-2-Clause */
/* SIGINT and SIGTERM end a sleep, whenever they arrive. Each case has a process of its own: the flag is never reset. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/fathom/interrupt.h"

#define HOUR_NS (3600 * NS_PER_SEC)

enum { HANGS_SEC = 60 }; /* a sleep that no signal ends is ended by SIGALRM */

static bool sends_at_clock;

uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);

/* interrupt_sleep() reads the clock after it looked for a signal, and before it sleeps. */
uint64_t __wrap_clock_monotonic_ns(void)
{
	if (sends_at_clock) {
		sends_at_clock = false;
		raise(SIGTERM);
	}
	return __real_clock_monotonic_ns();
}

static bool has_unblocked_signals(void)
{
	sigset_t blocked;

	sigprocmask(SIG_BLOCK, NULL, &blocked);
	return !sigismember(&blocked, SIGINT) && !sigismember(&blocked, SIGTERM);
}

/* In the child: sleep for an hour. Status 0: a signal ended the sleep. */
static void sleep_and_exit(void)
{
	uint64_t until_ns = __real_clock_monotonic_ns() + HOUR_NS;

	alarm(HANGS_SEC);
	interrupt_sleep(until_ns);
	_exit(interrupt_arrived() && has_unblocked_signals() ? 0 : 1);
}

static void assert_ends_well(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void assert_ends_by(int number)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		interrupt_catch();
		if (interrupt_arrived() || write(ready[1], "r", 1) != 1)
			_exit(2);
		sleep_and_exit();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	usleep(20000); /* most times it sleeps then */
	assert_int_equal(kill(pid, number), 0);
	assert_ends_well(pid);
	close(ready[0]);
	close(ready[1]);
}

static void a_signal_ends_the_sleep(void **state)
{
	assert_ends_by(SIGINT);
	assert_ends_by(SIGTERM);
}

static void a_signal_between_the_check_and_the_sleep_ends_it(void **state)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		interrupt_catch();
		sends_at_clock = true;
		sleep_and_exit();
	}
	assert_ends_well(pid);
}

static void a_sleep_after_a_signal_ends_at_once(void **state)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		interrupt_catch();
		raise(SIGINT);
		sleep_and_exit();
	}
	assert_ends_well(pid);
}

static void a_sleep_without_a_signal_ends_at_its_time(void **state)
{
	uint64_t until_ns = clock_monotonic_ns() + 5 * NS_PER_MS;

	interrupt_sleep(until_ns);
	assert_true(clock_monotonic_ns() >= until_ns);
	assert_false(interrupt_arrived());
	interrupt_sleep(0); /* long ago */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_ends_the_sleep),
		cmocka_unit_test(a_signal_between_the_check_and_the_sleep_ends_it),
		cmocka_unit_test(a_sleep_after_a_signal_ends_at_once),
		cmocka_unit_test(a_sleep_without_a_signal_ends_at_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
