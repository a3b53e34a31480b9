/* SPDX-License-Identifier: BSD-2-Clause */
/* A process has one trace, with a heartbeat: also while all threads hang, and in a child of fork(). */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/must.h"
#include "demo/demo.h"
#include "demo/probes.gen.h"
#include "fathom/trace/trace.h"

static char directory[64];

/* Run `fn` in a child, which ends with the test. 0: success. */
static int in_child(void (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int open_as(const char *name)
{
	const struct trace_options options = { .schema = &fathom_schema,
					       .name = name,
					       .directory = directory,
					       .io_entries = 1024,
					       .rare_entries = 1024,
					       .thread_count = 1 };
	struct fathom_fault why = { 0 };
	int rc = trace_open(&options, &why);

	must(rc == 0 || why.text[0]);
	if (rc == -EBUSY)
		must(strstr(why.text, trace_path()));
	return rc;
}

static uint64_t alive_tick(void)
{
	size_t bytes;
	const struct trace_header *header = trace_memory(&bytes);

	return __atomic_load_n(&header->alive_tick, __ATOMIC_RELAXED);
}

static void open_twice(void)
{
	must(open_as("one") == 0);
	must(open_as("two") == -EBUSY);
	/* the first trace still works */
	must(trace_thread_attach("main", -1, true) == 0);
	trace_close();
	must(open_as("two") == 0);
	trace_close();
}

static void a_second_trace_is_refused(void **state)
{
	assert_int_equal(in_child(open_twice), 0);
}

static void hang(void)
{
	uint64_t before;

	must(open_as("hangs") == 0);
	before = alive_tick();
	must(before);
	/* the only thread records nothing and reads no clocks */
	while (alive_tick() == before)
		usleep(10000);
	trace_close();
}

static void a_hung_process_has_a_heartbeat(void **state)
{
	assert_int_equal(in_child(hang), 0);
}

static void fork_and_open(void)
{
	int status;
	pid_t pid;

	must(open_as("parent") == 0);
	pid = fork();
	if (pid == 0) {
		if (open_as("child") != 0 || !alive_tick())
			_exit(1);
		trace_close();
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid);
	must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	trace_close();
}

static void a_child_has_its_own_heartbeat(void **state)
{
	assert_int_equal(in_child(fork_and_open), 0);
}

static int make_directory(void **state)
{
	snprintf(directory, sizeof(directory), "/dev/shm/fathom-unit-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_second_trace_is_refused),
		cmocka_unit_test(a_hung_process_has_a_heartbeat),
		cmocka_unit_test(a_child_has_its_own_heartbeat),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
