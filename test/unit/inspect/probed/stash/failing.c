/* SPDX-License-Identifier: BSD-2-Clause */
#include "failing.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/must.h"

static struct {
	bool counting;
	enum failing_kind kind;
	uint32_t left; /* until one fails; 0: it has */
	int error;
} failing;

void failing_begin(enum failing_kind kind, uint32_t n, int error)
{
	must(!failing.counting && n > 0);
	failing.counting = true;
	failing.kind = kind;
	failing.left = n;
	failing.error = error;
}

bool failing_end(void)
{
	must(failing.counting);
	failing.counting = false;
	return failing.left == 0;
}

/* Whether this one fails. */
static bool fails(void)
{
	if (!failing.counting)
		return false;
	if (failing.left > 0)
		failing.left--;
	else if (failing.kind != FAILING_LONG)
		return false;
	if (failing.left > 0)
		return false;
	if (failing.kind == FAILING_KILL)
		kill(getpid(), SIGKILL);
	errno = failing.error;
	return true;
}

#define WRAP(type, name, parameters, arguments)                                                                            \
	type __real_##name parameters;                                                                                     \
	type __wrap_##name parameters;                                                                                     \
	type __wrap_##name parameters                                                                                      \
	{                                                                                                                  \
		return fails() ? (type)-1 : __real_##name arguments;                                                       \
	}

#define WRAP_MEMORY(name, parameters, arguments)                                                                           \
	void *__real_##name parameters;                                                                                    \
	void *__wrap_##name parameters;                                                                                    \
	void *__wrap_##name parameters                                                                                     \
	{                                                                                                                  \
		return fails() ? NULL : __real_##name arguments;                                                           \
	}

WRAP(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, fstatat64, (int at, const char *path, struct stat64 *status, int flags), (at, path, status, flags))
WRAP(int, fstat64, (int fd, struct stat64 *status), (fd, status))
WRAP(int, linkat, (int at, const char *path, int to, const char *to_path, int flags), (at, path, to, to_path, flags))
WRAP(int, unlinkat, (int at, const char *path, int flags), (at, path, flags))
WRAP(int, renameat, (int at, const char *path, int to, const char *to_path), (at, path, to, to_path))
WRAP(int, symlinkat, (const char *target, int at, const char *path), (target, at, path))
WRAP(ssize_t, readlinkat, (int at, const char *path, char *target, size_t bytes), (at, path, target, bytes))
WRAP(int, ftruncate64, (int fd, off64_t bytes), (fd, bytes))
WRAP(ssize_t, getdents64, (int fd, void *entries, size_t bytes), (fd, entries, bytes))
WRAP(off64_t, lseek64, (int fd, off64_t offset, int whence), (fd, offset, whence))
WRAP(ssize_t, read, (int fd, void *data, size_t bytes), (fd, data, bytes))
WRAP(int, flock, (int fd, int operation), (fd, operation))
WRAP_MEMORY(malloc, (size_t bytes), (bytes))
WRAP_MEMORY(calloc, (size_t count, size_t bytes), (count, bytes))
WRAP_MEMORY(realloc, (void *memory, size_t bytes), (memory, bytes))

int __real_openat64(int at, const char *path, int flags, ...);
int __wrap_openat64(int at, const char *path, int flags, ...);
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);

int __wrap_openat64(int at, const char *path, int flags, ...)
{
	return fails() ? -1 : __real_openat64(at, path, flags, 0644);
}

int __wrap_open64(const char *path, int flags, ...)
{
	return fails() ? -1 : __real_open64(path, flags, 0644);
}

ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	static bool half;
	ssize_t written;

	if (half || !failing.counting || failing.left != 1 || bytes < 2)
		return fails() ? -1 : __real_write(fd, data, bytes);
	half = true;
	written = __real_write(fd, data, bytes / 2); /* the rest is asked for next, and fails */
	half = false;
	return written;
}
