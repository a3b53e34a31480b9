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

#define FAILING_ERRNO(of_row) failing.error
#include "../../../failing_calls.h"

static struct {
	bool counting;
	enum failing_kind kind;
	uint32_t left; /* calls until one fails; 0: it has failed */
	int error;
} failing;

static uint32_t busy_locks;

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

/* Count a call; true: it must fail. */
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

FAILING_CALL(mkdirat)
FAILING_CALL(mkdir)
FAILING_CALL(fstatat64)
FAILING_CALL(fstat64)
FAILING_CALL(linkat)
FAILING_CALL(unlinkat)
FAILING_CALL(renameat)
FAILING_CALL(symlinkat)
FAILING_CALL(readlinkat)
FAILING_CALL(ftruncate64)
FAILING_CALL(getdents64)
FAILING_CALL(lseek64)
FAILING_CALL(read)
FAILING_CALL(malloc)
FAILING_CALL(calloc)
FAILING_CALL(realloc)

int __real_openat64(int at, const char *path, int flags, ...);
int __wrap_openat64(int at, const char *path, int flags, ...);
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);

int __wrap_openat64(int at, const char *path, int flags, ...)
{
	return fails() ? -1 : __real_openat64(at, path, flags, 0644);
}

uint32_t failing_set_busy_locks(uint32_t count)
{
	uint32_t left = busy_locks;

	busy_locks = count;
	return left;
}

int __wrap_flock(int fd, int operation)
{
	if (busy_locks > 0) {
		busy_locks--;
		errno = EWOULDBLOCK;
		return -1;
	}
	return fails() ? -1 : __real_flock(fd, operation);
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
	written = __real_write(fd, data, bytes / 2); /* a short write; the next call, for the rest, fails */
	half = false;
	return written;
}
