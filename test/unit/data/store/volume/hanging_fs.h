/* SPDX-License-Identifier: BSD-2-Clause */
/* hanging_fs - the file system of a test: its steps and syncs can hang. All is under the mutex. */
#ifndef TEST_UNIT_DATA_STORE_VOLUME_HANGING_FS_H
#define TEST_UNIT_DATA_STORE_VOLUME_HANGING_FS_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "data/store/pool/fs.h"
#include "copy_bytes.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_hung, is_waiting, has_no_reflinks;
static bool hangs_sync, has_cloned; /* a sync after a step hangs: */
static int syncs_passed;	    /* the one after so many */
static int sync_error;		    /* what it returns then */
static bool by_reflink;		    /* constant */
static uint64_t free_bytes;	    /* 0: as it is */

static int test_clone(void *ctx, int fd, int from, uint64_t offset, uint64_t bytes)
{
	bool refuse;

	pthread_mutex_lock(&mutex);
	has_cloned = true;
	is_waiting = is_hung;
	pthread_cond_broadcast(&changed);
	while (is_hung)
		pthread_cond_wait(&changed, &mutex);
	is_waiting = false;
	refuse = has_no_reflinks;
	pthread_mutex_unlock(&mutex);
	if (refuse)
		return -EOPNOTSUPP;
	return by_reflink ? pool_fs_system()->clone(ctx, fd, from, offset, bytes) : copy_bytes(fd, from, offset, bytes);
}

static int test_sync(void *ctx, int fd)
{
	int error = 0;

	pthread_mutex_lock(&mutex);
	if (hangs_sync && has_cloned && syncs_passed-- <= 0) {
		while (hangs_sync) {
			is_waiting = true;
			pthread_cond_broadcast(&changed);
			pthread_cond_wait(&changed, &mutex);
		}
		error = sync_error;
	}
	pthread_mutex_unlock(&mutex);
	return error ? error : pool_fs_system()->sync(ctx, fd);
}

static void hang_sync_no_more(void)
{
	pthread_mutex_lock(&mutex);
	hangs_sync = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static bool hangs_space;

static void hang_space(bool hang)
{
	pthread_mutex_lock(&mutex);
	hangs_space = hang;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static int test_space(void *ctx, int folder, uint64_t *total_ret, uint64_t *free_ret)
{
	int error = pool_fs_system()->space(ctx, folder, total_ret, free_ret);

	pthread_mutex_lock(&mutex);
	while (hangs_space) {
		is_waiting = true;
		pthread_cond_broadcast(&changed);
		pthread_cond_wait(&changed, &mutex);
	}
	pthread_mutex_unlock(&mutex);
	if (error == 0 && free_bytes) {
		*total_ret = free_bytes;
		*free_ret = free_bytes;
	}
	return error;
}

static inline void hang_steps(bool hang)
{
	pthread_mutex_lock(&mutex);
	is_hung = hang;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void wait_for_hung_step(void)
{
	pthread_mutex_lock(&mutex);
	while (!is_waiting)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}

#endif
