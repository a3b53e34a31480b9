/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hanging_close - close() of a chosen file, or of all files of a file system, hangs if they were opened for reads and
 * writes, as on NFS or FUSE; also after the file was renamed or removed. The linker sends the calls here: --wrap=close in
 * meson.build.
 */
#ifndef TEST_UNIT_HANGING_CLOSE_H
#define TEST_UNIT_HANGING_CLOSE_H

#include <fcntl.h>
#include <sys/stat.h>

#include "hanging_call.h"

static struct hang hanging_close;
/* under the mutex */
static struct stat hanging_file;
static bool is_whole_device;

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
	struct stat stat;
	bool is_chosen = fstat(fd, &stat) == 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;

	pthread_mutex_lock(&hang_mutex);
	is_chosen = is_chosen && hanging_close.path && stat.st_dev == hanging_file.st_dev &&
		    (is_whole_device || stat.st_ino == hanging_file.st_ino);
	pthread_mutex_unlock(&hang_mutex);
	if (is_chosen)
		hang_if_chosen(&hanging_close, "chosen");
	return __real_close(fd);
}

static inline void choose_hanging_close(const char *path, bool whole_device)
{
	if (path) {
		pthread_mutex_lock(&hang_mutex);
		must(stat(path, &hanging_file) == 0);
		is_whole_device = whole_device;
		pthread_mutex_unlock(&hang_mutex);
	}
	hang_call(&hanging_close, path ? "chosen" : NULL);
}

/* NULL: none any more. */
static inline void hang_close(const char *path)
{
	choose_hanging_close(path, false);
}

/* Of all files of the file system of `path`. */
static inline void hang_closes_beside(const char *path)
{
	choose_hanging_close(path, true);
}

static inline void wait_for_hung_closes(unsigned int count)
{
	wait_for_hung_calls(&hanging_close, count);
}

#endif
