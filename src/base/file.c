/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Evaluate the result of write(2): add it to `*done` and return 0 (also after EINTR), or return -errno. */
static int add_written(ssize_t written, size_t *done)
{
	if (written < 0)
		return errno == EINTR ? 0 : -errno;
	if (written == 0)
		return -EIO; /* a retry would never end */
	*done += (size_t)written;
	return 0;
}

int file_write(int fd, const void *data, size_t bytes)
{
	int rc = 0;

	for (size_t done = 0; done < bytes && rc == 0;)
		rc = add_written(write(fd, (const char *)data + done, bytes - done), &done);
	return rc;
}

int file_write_at(int fd, const void *data, size_t bytes, uint64_t offset)
{
	int rc = 0;

	for (size_t done = 0; done < bytes && rc == 0;)
		rc = add_written(pwrite(fd, (const char *)data + done, bytes - done, (off_t)(offset + done)), &done);
	return rc;
}

int file_check_new(const char *path, bool force, struct fathom_fault *why)
{
	struct stat st;

	if (force || strcmp(path, "-") == 0 || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return fault(why, -EEXIST, "%s is there already: --force overwrites it", path);
}

int file_give_name(const char *from, const char *to, bool force)
{
	if (!force) {
		if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
			return 0;
		if (errno != EINVAL && errno != ENOSYS)
			return -errno;
		if (access(to, F_OK) == 0) /* the filesystem lacks RENAME_NOREPLACE: a racy check must do */
			return -EEXIST;
	}
	return rename(from, to) == 0 ? 0 : -errno;
}

int file_sync_folder(const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int fd, error = 0;

	if (slash && slash - path + 1 >= (ptrdiff_t)sizeof(folder))
		return -ENAMETOOLONG;
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fsync(fd) < 0)
		error = -errno;
	close(fd);
	return error;
}
