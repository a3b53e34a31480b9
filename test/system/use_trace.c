/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * use_trace CASE NAME - what a stranger's daemon may do to the library that an orderly one does not. Prints what it saw.
 *
 *   slots   threads come and go, more than there are slots, and more at a time; none of them detaches
 *   close   threads record while the trace is closed and opened again, and end afterwards
 *   fork    a child records, and then opens a trace of its own
 *   refuse  everything that trace_open() refuses, and lines that go to the program
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

/* Names that the headers must leave to the program. */
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
static pthread_barrier_t all_there;
static int attached;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;

static int open_or_say(void)
{
	struct fathom_fault why;
	int rc = trace_open(&options, &why);

	if (rc)
		printf("refused: %s\n", why.text);
	return rc;
}

static void *come_and_go(void *together)
{
	int rc = trace_thread_attach("visitor", -1, true);

	if (together)
		pthread_barrier_wait(&all_there);
	pthread_mutex_lock(&lock);
	attached += rc == 0;
	pthread_mutex_unlock(&lock);
	probe_visited(trace_now(), 7);
	if (together)
		pthread_barrier_wait(&all_there);
	return NULL;
}

static void visits(int count, int at_a_time)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < count; i += at_a_time) {
		for (int j = 0; j < at_a_time; j++)
			pthread_create(&threads[j], NULL, come_and_go, at_a_time > 1 ? &all_there : NULL);
		for (int j = 0; j < at_a_time; j++)
			pthread_join(threads[j], NULL);
	}
}

static int slots(void)
{
	if (open_or_say())
		return 1;
	visits(ROUNDS * THREADS, 1);
	printf("one at a time: %d attached\n", attached);
	attached = 0;
	pthread_barrier_init(&all_there, NULL, THREADS);
	visits(THREADS, THREADS);
	printf("together: %d attached\n", attached);
	return 0;
}

static void *go_on(void *unused)
{
	(void)unused;
	(void)trace_thread_attach("worker", -1, true);
	while (!stop)
		probe_visited(trace_now(), 1);
	return NULL;
}

static int closing(void)
{
	struct timespec moment = { .tv_nsec = 2000000 };
	pthread_t threads[2];

	for (int i = 0; i < ROUNDS; i++) {
		stop = 0;
		if (open_or_say())
			return 1;
		for (int j = 0; j < 2; j++)
			pthread_create(&threads[j], NULL, go_on, NULL);
		nanosleep(&moment, NULL);
		trace_close();
		nanosleep(&moment, NULL);
		if (open_or_say())
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

static int forking(void)
{
	int status;
	pid_t pid;

	if (open_or_say() || trace_thread_attach("parent", -1, true))
		return 1;
	probe_visited(trace_now(), 1);
	pid = fork();
	if (pid == 0) {
		probe_visited(trace_now(), 2);
		if (*trace_path() || open_or_say() || trace_thread_attach("child", -1, true))
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

static int refused(void)
{
	const char *name = options.name;
	struct trace_schema other = stranger_schema;
	int opened = 0;

	options.say = say;
	options.name = "a/b";
	opened += open_or_say() == 0;
	options.name = name;
	options.groups = "nonsense";
	opened += open_or_say() == 0;
	options.groups = NULL;
	options.thread_count = 100;
	opened += open_or_say() == 0;
	options.thread_count = 1;
	options.io_entries = 1000;
	opened += open_or_say() == 0;
	options.io_entries = 0;
	other.abi++;
	options.schema = &other;
	opened += open_or_say() == 0;
	options.schema = NULL;
	opened += open_or_say() == 0;
	options.schema = &stranger_schema;
	if (open_or_say())
		return 1;
	if (open_or_say() != -EBUSY || !*trace_path())
		return 1;
	trace_close();
	return opened;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} cases[] = { { "slots", slots }, { "close", closing }, { "fork", forking }, { "refuse", refused } };

	options.name = argc > 2 ? argv[2] : NULL;
	for (size_t i = 0; argc > 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run();
	}
	return 2;
}
