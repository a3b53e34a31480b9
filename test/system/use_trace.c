/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * use_trace CASE NAME - uses libfathom-trace as a careless daemon may. Prints the results.
 *
 *   slots   more threads than slots attach, one after the other and at once; none of them detaches
 *   close   threads record while the trace is closed and opened again, and end afterwards
 *   fork    a child records, which must not reach its parent's trace, and then opens its own
 *   refuse  each option that trace_open() refuses; log lines go to the program
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stranger_probes.h"

/* Names that the headers must not use. */
#define must(x) (void)(x)
#define likely(x) (x)
#define min(a, b) ((a) < (b) ? (a) : (b))
struct fault {
	int mine;
};
struct istr {
	int mine;
};

enum { THREADS = 6, ROUNDS = 5 };

static struct trace_options options = {
	.schema = &stranger_schema, .groups = "all", .thread_count = 2, .small_thread_count = 2
};
static pthread_barrier_t all_attached;
static int attached;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;

static int open_or_print(void)
{
	struct fathom_fault why;
	int rc = trace_open(&options, &why);

	if (rc)
		printf("refused: %s\n", why.text);
	return rc;
}

static void *attach_and_record(void *together)
{
	int rc = trace_thread_attach("visitor", -1, true);

	if (together)
		pthread_barrier_wait(&all_attached);
	pthread_mutex_lock(&lock);
	attached += rc == 0;
	pthread_mutex_unlock(&lock);
	probe_visited(trace_now(), 7);
	if (together)
		pthread_barrier_wait(&all_attached);
	return NULL;
}

static void run_threads(int count, int at_a_time)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < count; i += at_a_time) {
		for (int j = 0; j < at_a_time; j++)
			pthread_create(&threads[j], NULL, attach_and_record, at_a_time > 1 ? &all_attached : NULL);
		for (int j = 0; j < at_a_time; j++)
			pthread_join(threads[j], NULL);
	}
}

static int test_slots(void)
{
	if (open_or_print())
		return 1;
	run_threads(ROUNDS * THREADS, 1);
	printf("one at a time: %d attached\n", attached);
	attached = 0;
	pthread_barrier_init(&all_attached, NULL, THREADS);
	run_threads(THREADS, THREADS);
	printf("together: %d attached\n", attached);
	return 0;
}

static void *record_until_stop(void *unused)
{
	(void)unused;
	(void)trace_thread_attach("worker", -1, true);
	while (!stop)
		probe_visited(trace_now(), 1);
	return NULL;
}

static int test_close(void)
{
	struct timespec moment = { .tv_nsec = 2000000 };
	pthread_t threads[2];

	for (int i = 0; i < ROUNDS; i++) {
		stop = 0;
		if (open_or_print())
			return 1;
		for (int j = 0; j < 2; j++)
			pthread_create(&threads[j], NULL, record_until_stop, NULL);
		nanosleep(&moment, NULL);
		trace_close();
		nanosleep(&moment, NULL);
		if (open_or_print())
			return 1;
		nanosleep(&moment, NULL);
		stop = 1;
		for (int j = 0; j < 2; j++)
			pthread_join(threads[j], NULL);
		trace_close();
	}
	puts("closed");
	return 0;
}

static int test_fork(void)
{
	int status;
	pid_t pid;

	if (open_or_print() || trace_thread_attach("parent", -1, true))
		return 1;
	probe_visited(trace_now(), 1);
	pid = fork();
	if (pid == 0) {
		probe_visited(trace_now(), 2);
		if (*trace_path() || open_or_print() || trace_thread_attach("child", -1, true))
			_exit(1);
		probe_visited(trace_now(), 3);
		trace_close();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	probe_visited(trace_now(), 4);
	printf("child ended with %d: %d\n", WEXITSTATUS(status), pid);
	return 0;
}

static void say(const char *text)
{
	printf("said: %s\n", text);
}

static int test_refusals(void)
{
	const char *name = options.name;
	struct trace_schema other = stranger_schema;
	int opened = 0;

	options.say = say;
	options.name = "a/b";
	opened += open_or_print() == 0;
	options.name = name;
	options.groups = "nonsense";
	opened += open_or_print() == 0;
	options.groups = NULL;
	options.thread_count = 100;
	opened += open_or_print() == 0;
	options.thread_count = 1;
	options.io_entries = 1000;
	opened += open_or_print() == 0;
	options.io_entries = 0;
	other.abi++;
	options.schema = &other;
	opened += open_or_print() == 0;
	options.schema = NULL;
	opened += open_or_print() == 0;
	options.schema = &stranger_schema;
	if (open_or_print())
		return 1;
	if (open_or_print() != -EBUSY || !*trace_path())
		return 1;
	trace_close();
	return opened;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} cases[] = {
		{ "slots", test_slots }, { "close", test_close }, { "fork", test_fork }, { "refuse", test_refusals }
	};

	options.name = argc > 2 ? argv[2] : NULL;
	for (size_t i = 0; argc > 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run();
	}
	return 2;
}
