/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client - a program that registers its probes when it is loaded. Its argument says what it does then; "stay" means until
 * standard input ends:
 *
 *   hold                    stay until standard input ends
 *   again N                 register the same object N times more, stay, and remove one registration before the end
 *   load LIBRARY N          load and unload a library N times, load it once more, stay
 *   fork N                  fork N children, one after the other, each of which forks a child; stay
 *   exec N                  execute this program again, N times; stay
 *   become PROGRAM          read a line, then execute PROGRAM
 *   threads N TIMES         N threads, each of which registers and removes an object TIMES times; stay
 *   unmap FILE              map FILE and register its object; read a line, unmap it without removing it; stay
 *   refresh                 call fathom_probe_refresh() for each line
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fathom/probe.h>

#include "client_object.h"

FATHOM_PROBE_REGISTER(object);

enum { THREADS_MAX = 64, AGAIN_MAX = 64 };

static void stay(void)
{
	char line[80];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
}

static int number(const char *text)
{
	return text ? (int)strtol(text, NULL, 10) : 0;
}

static void check(int error, const char *what)
{
	if (error == 0)
		return;
	fprintf(stderr, "client: %s: %s\n", what, strerror(-error));
	exit(1);
}

static void again(int count)
{
	static struct fathom_probe probes[AGAIN_MAX];

	for (int i = 0; i < count && i < AGAIN_MAX; i++)
		check(fathom_probe_add_mapped(&probes[i], object), "again");
	stay();
	check(fathom_probe_remove(&probes[0]), "remove");
}

static void load(const char *library, int count)
{
	for (int i = 0; i <= count; i++) {
		void *handle = dlopen(library, RTLD_NOW);

		if (!handle) {
			fprintf(stderr, "client: %s\n", dlerror());
			exit(1);
		}
		if (i < count)
			dlclose(handle);
	}
	stay();
}

static void fork_some(int count)
{
	for (int i = 0; i < count; i++) {
		pid_t child = fork();

		if (child == 0) {
			if (fork() == 0)
				_exit(0);
			(void)wait(NULL);
			exit(fathom_probe_of_this_file.error ? 1 : 0);
		}
		int status;

		if (waitpid(child, &status, 0) != child || status != 0)
			exit(1);
	}
	stay();
}

static void exec_again(char **argv, int count)
{
	char text[16];

	if (count == 0) {
		stay();
		return;
	}
	snprintf(text, sizeof(text), "%d", count - 1);
	argv[2] = text;
	execv("/proc/self/exe", argv);
	perror("execv");
	exit(1);
}

static void become(char **argv)
{
	char line[80];

	puts("ready");
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin))
		execv(argv[2], argv + 2);
	exit(1);
}

static void *one_thread(void *times)
{
	for (int i = 0; i < *(int *)times; i++) {
		struct fathom_probe probe = { 0 };

		check(fathom_probe_add_mapped(&probe, object), "of a thread");
		check(fathom_probe_remove(&probe), "of a thread, back");
	}
	return NULL;
}

static void threads(int count, int times)
{
	pthread_t all[THREADS_MAX];

	for (int i = 0; i < count && i < THREADS_MAX; i++)
		check(-pthread_create(&all[i], NULL, one_thread, &times), "thread");
	for (int i = 0; i < count && i < THREADS_MAX; i++)
		pthread_join(all[i], NULL);
	stay();
}

static void unmap(const char *path)
{
	static struct fathom_probe probe;
	struct fathom_probe_object of = { .module = "mapped" };
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	char line[80];

	if (fd < 0 || write(fd, object, sizeof(object)) != (ssize_t)sizeof(object))
		exit(1);
	of.dof = mmap(NULL, sizeof(object), PROT_READ, MAP_PRIVATE, fd, 0);
	of.bytes = sizeof(object);
	close(fd);
	check(fathom_probe_add(&probe, &of), "mapped");
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
	munmap((void *)of.dof, of.bytes);
	stay();
	_exit(0);
}

static void refresh(void)
{
	char line[80];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		printf("%u\n", fathom_probe_refresh());
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "hold", *first = argc > 2 ? argv[2] : NULL,
		   *second = argc > 3 ? argv[3] : NULL;

	if (strcmp(what, "again") == 0)
		again(number(first));
	else if (strcmp(what, "load") == 0)
		load(first, number(second));
	else if (strcmp(what, "fork") == 0)
		fork_some(number(first));
	else if (strcmp(what, "exec") == 0)
		exec_again(argv, number(first));
	else if (strcmp(what, "become") == 0)
		become(argv);
	else if (strcmp(what, "threads") == 0)
		threads(number(first), number(second));
	else if (strcmp(what, "unmap") == 0)
		unmap(first);
	else if (strcmp(what, "refresh") == 0)
		refresh();
	else
		stay();
	return 0;
}
