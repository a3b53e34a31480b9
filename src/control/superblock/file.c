/* SPDX-License-Identifier: BSD-2-Clause */
/* Read and replace the superblock file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/inject/inject.h"
#include "control/fault/fault.h"
#include "control/superblock/superblock.h"

enum { PATH_BYTES_MAX = 4096 };

int superblock_read(const char *path, const char *system, struct superblock *superblock_ret, struct fathom_fault *why)
{
	char text[SUPERBLOCK_TEXT_BYTES_MAX + 1];
	struct superblock superblock;
	const char *reason;
	uint32_t version = 0;
	size_t used = 0;
	ssize_t got = 1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), error;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : fault_superblock_unreadable(why, path, strerror(errno));
	while (got > 0 && used < sizeof(text)) {
		got = read(fd, text + used, sizeof(text) - used);
		used += got > 0 ? (size_t)got : 0;
	}
	must(used <= sizeof(text));
	error = got < 0 ? errno : 0;
	close(fd);
	if (error)
		return fault_superblock_unreadable(why, path, strerror(error));
	error = superblock_decode(text, used, &superblock, &version, &reason);
	if (error == -EPROTO)
		return fault_superblock_newer(why, path, version, SUPERBLOCK_VERSION);
	if (error)
		return fault_superblock_damaged(why, path, reason);
	if (system && strcmp(superblock.system, system) != 0)
		return fault_superblock_foreign(why, path, superblock.system, system);
	*superblock_ret = superblock;
	return 0;
}

static int write_new(const char *path, const char *text, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600), error;

	if (fd < 0)
		return -errno;
	error = file_write(fd, text, bytes);
	if (!error && fsync(fd) < 0)
		error = -errno;
	if (close(fd) < 0 && !error)
		error = -errno;
	return error;
}

int superblock_write(const char *path, const struct superblock *superblock, struct fathom_fault *why)
{
	char text[SUPERBLOCK_TEXT_BYTES_MAX], new_path[PATH_BYTES_MAX];
	size_t bytes;
	int error = superblock_encode(superblock, text, &bytes);

	if (error)
		return fault_superblock_unwritten(why, path, "a value in it cannot be");
	must(bytes <= sizeof(text));
	if ((size_t)snprintf(new_path, sizeof(new_path), "%s.new", path) >= sizeof(new_path))
		return fault_superblock_unwritten(why, path, strerror(ENAMETOOLONG));
	error = inject(INJECT_SUPERBLOCK_WRITE);
	if (!error)
		error = write_new(new_path, text, bytes);
	if (!error && rename(new_path, path) < 0)
		error = -errno;
	if (error)
		(void)unlink(new_path); /* it may not exist; if it stays, readers ignore it */
	else
		error = file_sync_folder(path);
	return error ? fault_superblock_unwritten(why, path, strerror(-error)) : 0;
}
