/* SPDX-License-Identifier: BSD-2-Clause */
#include "failing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_counting, has_failed;
static uint32_t left;
static int64_t held;

void failing_begin(uint32_t n)
{
	is_counting = true;
	has_failed = false;
	left = n;
	held = 0;
}

bool failing_end(void)
{
	is_counting = false;
	return has_failed;
}

int64_t failing_held(void)
{
	return held;
}

static bool fails(int error)
{
	if (!is_counting || left == 0 || --left > 0)
		return false;
	has_failed = true;
	errno = error;
	return true;
}

static void *hold(void *memory)
{
	held += is_counting && memory;
	return memory;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return fails(ENOMEM) ? NULL : hold(__real_malloc(bytes));
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails(ENOMEM) ? NULL : hold(__real_calloc(count, bytes));
}

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
	if (fails(ENOMEM))
		return NULL;
	return memory ? __real_realloc(memory, bytes) : hold(__real_realloc(memory, bytes));
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
	held -= is_counting && memory;
	__real_free(memory);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
	return fails(ENOMEM) ? NULL : hold(__real_strdup(text));
}

int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **text, const char *format, ...)
{
	va_list args;
	int bytes;

	if (fails(ENOMEM))
		return -1;
	va_start(args, format);
	bytes = vasprintf(text, format, args);
	va_end(args);
	if (bytes >= 0)
		hold(*text);
	return bytes;
}

ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	return fails(ENOSPC) ? -1 : __real_write(fd, data, bytes);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	return fails(EIO) ? -1 : __real_fsync(fd);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
	return fails(EIO) ? -1 : __real_rename(from, to);
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	va_list args;
	int mode;

	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	return fails(EMFILE) ? -1 : __real_open64(path, flags, mode);
}
