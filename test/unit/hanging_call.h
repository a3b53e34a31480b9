/* SPDX-License-Identifier: BSD-2-Clause */
/* hanging_call - a wrapped system call hangs for chosen paths, as on a disk that does not respond. */
#ifndef TEST_UNIT_HANGING_CALL_H
#define TEST_UNIT_HANGING_CALL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/must.h"

enum { HANG_WAIT_SEC = 60 };

/* One for each call that may hang; all under the mutex. */
struct hang {
	const char *path; /* a part of the path; NULL: nothing hangs */
	unsigned int count;
};

static pthread_mutex_t hang_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hang_changed = PTHREAD_COND_INITIALIZER;

/* In the wrapper: wait while the call with `path` hangs. */
static inline void hang_if_chosen(struct hang *hang, const char *path)
{
	pthread_mutex_lock(&hang_mutex);
	if (hang->path && strstr(path, hang->path)) {
		hang->count++;
		pthread_cond_broadcast(&hang_changed);
		while (hang->path && strstr(path, hang->path))
			pthread_cond_wait(&hang_changed, &hang_mutex);
		hang->count--;
	}
	pthread_mutex_unlock(&hang_mutex);
}

/* The same for a call with a descriptor. */
static inline void hang_if_file_chosen(struct hang *hang, int fd)
{
	char link[32], path[512];
	ssize_t bytes;

	pthread_mutex_lock(&hang_mutex);
	bytes = hang->path ? 0 : -1;
	pthread_mutex_unlock(&hang_mutex);
	if (bytes < 0)
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	bytes = readlink(link, path, sizeof(path) - 1);
	if (bytes < 0)
		return;
	path[bytes] = '\0';
	hang_if_chosen(hang, path);
}

/* NULL: nothing hangs any more. */
static inline void hang_call(struct hang *hang, const char *part_of_path)
{
	pthread_mutex_lock(&hang_mutex);
	hang->path = part_of_path;
	pthread_cond_broadcast(&hang_changed);
	pthread_mutex_unlock(&hang_mutex);
}

/* Wait until `count` calls hang. */
static inline void wait_for_hung_calls(struct hang *hang, unsigned int count)
{
	struct timespec until;

	must(clock_gettime(CLOCK_REALTIME, &until) == 0);
	until.tv_sec += HANG_WAIT_SEC;
	pthread_mutex_lock(&hang_mutex);
	while (hang->count < count)
		must(pthread_cond_timedwait(&hang_changed, &hang_mutex, &until) == 0);
	pthread_mutex_unlock(&hang_mutex);
}

#endif
