/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * helper_client - uses DTrace's helper device like the start-up code of programs with probes, and in invalid ways.
 *
 *   helper_client STEP...       each prints a line: the step and its result
 *
 *   add FILE[@BASE]     map FILE, register the object at its start; its addresses are relative to BASE (hexadecimal)
 *   add-program         register this program's file by its notes (no object)
 *   remove GENERATION   remove a registration of `add`
 *   legacy              the ioctl of old programs
 *   nowhere             register an object at an address that is not mapped
 *   anonymous FILE      register an object in anonymous memory
 *   unmap               unmap the last mapping
 *   threads N FILE      N concurrent threads register FILE's object, each a mapping of its own copy FILE.0, FILE.1 ...
 *   fork STEP           do the next step in a child, and wait for it
 *   self                exec this program again with the rest of the steps
 *   sleep               wait for a signal
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MODULE_BYTES = 64, THREADS_MAX = 64, LEGACY_BYTES = 64 };

/* The structure passed to the device. */
struct helper {
	char module[MODULE_BYTES];
	uint64_t base, object;
};

#define HELPER_ADD_LEGACY _IOC(_IOC_WRITE, 0xd8, 1, LEGACY_BYTES)
#define HELPER_REMOVE _IOC(_IOC_WRITE, 0xd8, 2, sizeof(int))
#define HELPER_ADD _IOC(_IOC_WRITE, 0xd8, 3, sizeof(struct helper))

static int device = -1;
static void *last_map;
static size_t last_bytes;

static void *map_file(const char *path, size_t *bytes)
{
	struct stat stat;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *map;

	if (fd < 0 || fstat(fd, &stat) != 0) {
		perror(path);
		exit(2);
	}
	*bytes = (size_t)stat.st_size;
	map = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED) {
		perror(path);
		exit(2);
	}
	return map;
}

static int add(const char *module, uint64_t base, const void *object)
{
	struct helper helper = { .base = base, .object = (uintptr_t)object };
	const char *name = strrchr(module, '/');
	int rc;

	snprintf(helper.module, sizeof(helper.module), "%s", name ? name + 1 : module);
	rc = ioctl(device, HELPER_ADD, &helper);
	return rc < 0 ? -errno : rc;
}

static int add_file(const char *text)
{
	char path[4096];
	char *at;
	uint64_t base = 0;

	snprintf(path, sizeof(path), "%s", text);
	at = strchr(path, '@');
	if (at) {
		*at = '\0';
		base = strtoull(at + 1, NULL, 16);
	}
	last_map = map_file(path, &last_bytes);
	return add(path, base, last_map);
}

static int add_anonymous(const char *path)
{
	size_t bytes;
	void *map = map_file(path, &bytes);
	void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return -errno;
	memcpy(copy, map, bytes);
	return add(path, 0, copy);
}

static void *add_one(void *path)
{
	return (void *)(intptr_t)add_file(path);
}

static int add_at_once(int count, const char *path)
{
	pthread_t threads[THREADS_MAX];
	char paths[THREADS_MAX][4096];
	int failed = 0;

	if (count > THREADS_MAX)
		count = THREADS_MAX;
	for (int i = 0; i < count; i++)
		snprintf(paths[i], sizeof(paths[i]), "%s.%d", path, i);
	for (int i = 0; i < count; i++) {
		if (pthread_create(&threads[i], NULL, add_one, paths[i]) != 0)
			return -EAGAIN;
	}
	for (int i = 0; i < count; i++) {
		void *result = NULL;

		pthread_join(threads[i], &result);
		failed += (intptr_t)result < 0;
	}
	return failed;
}

static void report(const char *step, int result)
{
	printf("%s %d%s%s\n", step, result, result < 0 ? " " : "", result < 0 ? strerror(-result) : "");
	fflush(stdout);
}

/* Do the step at `argv`. Return its number of words. */
static int step(char **argv)
{
	static char legacy[LEGACY_BYTES];
	const char *what = argv[0], *arg = argv[1];
	struct helper helper = { .module = "us" };
	int status, rc;

	if (strcmp(what, "legacy") == 0) {
		rc = ioctl(device, HELPER_ADD_LEGACY, legacy);
		report(what, rc < 0 ? -errno : rc);
	} else if (strcmp(what, "nowhere") == 0) {
		report(what, add("nowhere", 0, (void *)8192));
	} else if (strcmp(what, "add-program") == 0) {
		rc = ioctl(device, HELPER_ADD, &helper);
		report(what, rc < 0 ? -errno : rc);
	} else if (strcmp(what, "unmap") == 0) {
		report(what, munmap(last_map, last_bytes) == 0 ? 0 : -errno);
	} else if (strcmp(what, "sleep") == 0) {
		report(what, 0);
		pause();
	} else if (strcmp(what, "fork") == 0) {
		pid_t child = fork();

		if (child == 0) {
			step(argv + 1);
			_exit(0);
		}
		waitpid(child, &status, 0);
		return 1 + (strcmp(argv[1], "legacy") != 0 && strcmp(argv[1], "nowhere") != 0 ? 2 : 1);
	} else if (strcmp(what, "self") == 0) {
		argv[0] = (char *)"/proc/self/exe";
		execv("/proc/self/exe", argv);
		report(what, -errno);
	} else if (!arg) {
		fprintf(stderr, "helper_client: %s: unknown step, or a missing argument\n", what);
		exit(2);
	} else if (strcmp(what, "add") == 0) {
		report(what, add_file(arg));
		return 2;
	} else if (strcmp(what, "anonymous") == 0) {
		report(what, add_anonymous(arg));
		return 2;
	} else if (strcmp(what, "remove") == 0) {
		/* the number itself is the argument */
		rc = ioctl(device, HELPER_REMOVE, strtoul(arg, NULL, 10));
		report(what, rc < 0 ? -errno : rc);
		return 2;
	} else if (strcmp(what, "threads") == 0 && argv[2]) {
		report(what, add_at_once((int)strtol(arg, NULL, 10), argv[2]));
		return 3;
	} else {
		fprintf(stderr, "helper_client: %s: unknown step\n", what);
		exit(2);
	}
	return 1;
}

int main(int argc, char **argv)
{
	device = open("/dev/dtrace/helper", O_RDWR | O_CLOEXEC);
	if (device < 0) {
		perror("/dev/dtrace/helper");
		return 2;
	}
	for (int i = 1; i < argc; i += step(&argv[i]))
		;
	return 0;
}
