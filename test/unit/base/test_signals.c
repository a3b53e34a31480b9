/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread's stack for the handler of its own faults, and the signals that it does not block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/must.h"
#include "base/signals.h"

static void *give_twice(void *ctx)
{
	stack_t *stacks = ctx;

	must(sigaltstack(NULL, &stacks[0]) == 0);
	signals_give_stack();
	must(sigaltstack(NULL, &stacks[1]) == 0);
	signals_give_stack();
	must(sigaltstack(NULL, &stacks[2]) == 0);
	return NULL;
}

static void a_thread_gets_one_stack(void **unused)
{
	stack_t stacks[3];
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, give_twice, stacks), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (SIGNALS_SANITIZED)
		return;
	assert_true(stacks[0].ss_flags & SS_DISABLE);
	assert_false(stacks[1].ss_flags & SS_DISABLE);
	assert_int_equal(stacks[1].ss_size, SIGNALS_STACK_BYTES);
	assert_ptr_equal(stacks[1].ss_sp, stacks[2].ss_sp);
}

static void report_overflow(int number)
{
	_exit(number == SIGSEGV ? 7 : 8);
}

static uint64_t recurse(volatile uint64_t *above)
{
	volatile uint64_t frame[512];

	frame[0] = *above;
	return frame[0] ? recurse(frame) + frame[0] : 0;
}

static void *overflow(void *unused)
{
	volatile uint64_t one = 1;

	signals_give_stack();
	(void)recurse(&one);
	return NULL;
}

static void a_handler_runs_when_the_stack_is_full(void **unused)
{
	struct sigaction action = { .sa_handler = report_overflow, .sa_flags = SA_ONSTACK };
	pthread_t thread;
	int status;
	pid_t child;

	if (SIGNALS_SANITIZED)
		return;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (sigaction(SIGSEGV, &action, NULL) == 0 && pthread_create(&thread, NULL, overflow, NULL) == 0)
			pthread_join(thread, NULL);
		_exit(9);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

static void faults_of_the_thread_are_not_blocked(void **unused)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
	sigset_t others;

	signals_of_others(&others);
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		assert_false(sigismember(&others, own[i]));
	assert_true(sigismember(&others, SIGTERM) && sigismember(&others, SIGUSR1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_gets_one_stack),
		cmocka_unit_test(a_handler_runs_when_the_stack_is_full),
		cmocka_unit_test(faults_of_the_thread_are_not_blocked),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("signals", tests, NULL, NULL);
}
