/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hanging_open - open() of chosen paths hangs, as on a disk that does not respond. The linker sends the calls here:
 * --wrap=open64 in meson.build.
 */
#ifndef TEST_UNIT_HANGING_OPEN_H
#define TEST_UNIT_HANGING_OPEN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

static pthread_mutex_t hang_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hang_changed = PTHREAD_COND_INITIALIZER;
static const char *hanging_path; /* a part of the path; NULL: nothing hangs */
static unsigned int hung_count;

int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);

int __wrap_open64(const char *path, int flags, mode_t mode)
{
	pthread_mutex_lock(&hang_mutex);
	if (hanging_path && strstr(path, hanging_path)) {
		hung_count++;
		pthread_cond_broadcast(&hang_changed);
		while (hanging_path && strstr(path, hanging_path))
			pthread_cond_wait(&hang_changed, &hang_mutex);
		hung_count--;
	}
	pthread_mutex_unlock(&hang_mutex);
	return __real_open64(path, flags, mode);
}

/* NULL: none any more. */
static inline void hang_open(const char *part_of_path)
{
	pthread_mutex_lock(&hang_mutex);
	hanging_path = part_of_path;
	pthread_cond_broadcast(&hang_changed);
	pthread_mutex_unlock(&hang_mutex);
}

static inline void wait_for_hung_open(void)
{
	pthread_mutex_lock(&hang_mutex);
	while (hung_count == 0)
		pthread_cond_wait(&hang_changed, &hang_mutex);
	pthread_mutex_unlock(&hang_mutex);
}

#endif
