/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hanging_close - close() of a chosen file that was opened for reads and writes hangs, as on NFS or FUSE, also after the
 * file was renamed or removed. The linker sends the calls here: --wrap=close in meson.build.
 */
#ifndef TEST_UNIT_HANGING_CLOSE_H
#define TEST_UNIT_HANGING_CLOSE_H

#include <fcntl.h>
#include <sys/stat.h>

#include "hanging_call.h"

static struct hang hanging_close;
static struct stat hanging_file; /* under the mutex */

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
	struct stat stat;
	bool is_chosen = fstat(fd, &stat) == 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;

	pthread_mutex_lock(&hang_mutex);
	is_chosen = is_chosen && hanging_close.path && stat.st_dev == hanging_file.st_dev &&
		    stat.st_ino == hanging_file.st_ino;
	pthread_mutex_unlock(&hang_mutex);
	if (is_chosen)
		hang_if_chosen(&hanging_close, "chosen");
	return __real_close(fd);
}

/* NULL: none any more. */
static inline void hang_close(const char *path)
{
	if (path) {
		pthread_mutex_lock(&hang_mutex);
		must(stat(path, &hanging_file) == 0);
		pthread_mutex_unlock(&hang_mutex);
	}
	hang_call(&hanging_close, path ? "chosen" : NULL);
}

static inline void wait_for_hung_close(void)
{
	wait_for_hung_calls(&hanging_close, 1);
}

#endif
