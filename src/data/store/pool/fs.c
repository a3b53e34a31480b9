/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/store/pool/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/inject/inject.h"

static int open_folder(void *ctx, int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_file(void *ctx, int folder, const char *name, int flags)
{
	/* O_NONBLOCK: a pipe in the place of a file must not block; regular files ignore it */
	int fd = openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

static void close_fd(void *ctx, int fd)
{
	must(fd >= 0);
	must(close(fd) == 0 || errno != EBADF);
}

static int lock_fd(void *ctx, int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

static int make_folder(void *ctx, int folder, const char *name)
{
	return mkdirat(folder, name, 0700) < 0 ? -errno : 0;
}

static int list_folder(void *ctx, int folder, pool_fs_entry_fn entry, void *entry_ctx)
{
	/* a new open file: the position of `folder` is shared with its other users */
	int error = 0, fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *dirent;
	DIR *dir;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		error = -errno;
		must(close(fd) == 0);
		return error;
	}
	while (error == 0 && (errno = 0, dirent = readdir(dir))) {
		if (strcmp(dirent->d_name, ".") != 0 && strcmp(dirent->d_name, "..") != 0)
			error = entry(entry_ctx, dirent->d_name);
	}
	if (error == 0 && errno)
		error = -errno;
	must(closedir(dir) == 0);
	return error;
}

static int stat_fd(void *ctx, int fd, struct stat *stat_ret)
{
	return fstat(fd, stat_ret) < 0 ? -errno : 0;
}

static int stat_path(void *ctx, int folder, const char *path, struct stat *stat_ret)
{
	return fstatat(folder, path, stat_ret, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int read_space(void *ctx, int folder, uint64_t *total_ret, uint64_t *free_ret)
{
	struct statvfs space;

	if (fstatvfs(folder, &space) < 0)
		return -errno;
	*total_ret = (uint64_t)space.f_blocks * space.f_frsize;
	*free_ret = (uint64_t)space.f_bavail * space.f_frsize;
	return 0;
}

static int write_all(void *ctx, int fd, const void *data, size_t bytes)
{
	return file_write(fd, data, bytes);
}

static int read_all(void *ctx, int fd, void *data, size_t bytes)
{
	size_t done = 0;

	must(bytes <= INT32_MAX);
	while (done < bytes) {
		ssize_t count = read(fd, (uint8_t *)data + done, bytes - done);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		if (count == 0)
			break;
		done += (size_t)count;
	}
	return (int)done;
}

static int set_size(void *ctx, int fd, uint64_t bytes)
{
	return ftruncate(fd, (off_t)bytes) < 0 ? -errno : 0;
}

/*
 * Pages of allocated blocks that nothing has written count as data if a program has read them through the page cache (a
 * backup, `fathom ddb`). So clean pages are dropped first; an error of that only leaves them.
 */
static int data_end(void *ctx, int fd, uint64_t from, uint64_t *end_ret)
{
	off_t at = (off_t)from, end = (off_t)from;

	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		at = lseek(fd, at, SEEK_HOLE); /* of a file that was cut meanwhile: -ENXIO, too */
		if (at < 0)
			break;
		end = at;
	}
	if (errno != ENXIO)
		return -errno;
	*end_ret = (uint64_t)end;
	return 0;
}

/* Extents whose place on the disk is not known, or not that of whole blocks. */
#define FIEMAP_UNPLACED (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_NOT_ALIGNED)

static int map_file(void *ctx, int fd, uint64_t offset, struct pool_extent *extents, uint32_t extents_max)
{
	struct fiemap *map = calloc(1, sizeof(*map) + extents_max * sizeof(map->fm_extents[0]));
	int count;

	if (!map)
		return -ENOMEM;
	map->fm_start = offset;
	map->fm_length = FIEMAP_MAX_OFFSET - offset;
	map->fm_flags = FIEMAP_FLAG_SYNC;
	map->fm_extent_count = extents_max;
	count = ioctl(fd, FS_IOC_FIEMAP, map) == 0 ? (int)map->fm_mapped_extents : -errno;
	for (int i = 0; i < count; i++) {
		const struct fiemap_extent *extent = &map->fm_extents[i];

		extents[i] = (struct pool_extent){
			.offset = extent->fe_logical,
			.bytes = extent->fe_length,
			.physical = extent->fe_physical,
			.is_data = !(extent->fe_flags & FIEMAP_EXTENT_UNWRITTEN),
			.is_shared = (extent->fe_flags & FIEMAP_EXTENT_SHARED) && !(extent->fe_flags & FIEMAP_UNPLACED),
		};
	}
	free(map);
	return count == -ENOTTY ? -EOPNOTSUPP : count;
}

static int allocate(void *ctx, int fd, uint64_t offset, uint64_t bytes)
{
	int result;

	must(bytes > 0);
	do {
		result = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
	} while (result < 0 && errno == EINTR);
	return result < 0 ? -errno : 0;
}

static int clone_range(void *ctx, int fd, int from, uint64_t offset, uint64_t bytes)
{
	struct file_clone_range range = {
		.src_fd = from, .src_offset = offset, .src_length = bytes, .dest_offset = offset
	};

	if (ioctl(fd, FICLONERANGE, &range) == 0)
		return 0;
	/* a file system without this call */
	return errno == ENOTTY ? -EOPNOTSUPP : -errno;
}

static int unshare(void *ctx, int fd, uint64_t offset, uint64_t bytes)
{
	int result;

	do {
		result = fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_UNSHARE_RANGE, (off_t)offset, (off_t)bytes);
	} while (result < 0 && errno == EINTR);
	return result < 0 ? -errno : 0;
}

static int sync_fd(void *ctx, int fd)
{
	int error = inject(INJECT_POOL_SYNC);

	if (error)
		return error;
	return fsync(fd) < 0 ? -errno : 0;
}

static int rename_name(void *ctx, int from_folder, const char *from, int to_folder, const char *to, bool replace)
{
	int error = inject(INJECT_POOL_RENAME);

	if (error)
		return error;
	return renameat2(from_folder, from, to_folder, to, replace ? 0 : RENAME_NOREPLACE) < 0 ? -errno : 0;
}

static int remove_name(void *ctx, int folder, const char *name, bool is_folder)
{
	return unlinkat(folder, name, is_folder ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
}

const struct pool_fs *pool_fs_system(void)
{
	static const struct pool_fs calls = {
		.open_folder = open_folder,
		.open_file = open_file,
		.close = close_fd,
		.lock = lock_fd,
		.make_folder = make_folder,
		.list = list_folder,
		.stat = stat_fd,
		.stat_path = stat_path,
		.space = read_space,
		.write = write_all,
		.read = read_all,
		.set_size = set_size,
		.data_end = data_end,
		.map = map_file,
		.allocate = allocate,
		.clone = clone_range,
		.unshare = unshare,
		.sync = sync_fd,
		.rename = rename_name,
		.remove = remove_name,
	};

	return &calls;
}
