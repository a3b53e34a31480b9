/* SPDX-License-Identifier: BSD-2-Clause */
#include "failing.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../failing_calls.h"

static bool is_counting, has_failed, memory_fails;
static uint32_t left;
static int64_t held;

void failing_begin(uint32_t n)
{
	is_counting = true;
	has_failed = false;
	memory_fails = true;
	left = n;
	held = 0;
}

void failing_begin_files(uint32_t n)
{
	failing_begin(n);
	memory_fails = false;
}

bool failing_end(void)
{
	is_counting = false;
	return has_failed;
}

bool failing_has_failed(void)
{
	return has_failed;
}

int64_t failing_held(void)
{
	return held;
}

static bool fails(void)
{
	if (!is_counting || left == 0 || --left > 0)
		return false;
	has_failed = true;
	return true;
}

bool failing_this_call(void)
{
	return fails();
}

static bool lacks_memory(void)
{
	if (!memory_fails || !fails())
		return false;
	errno = ENOMEM;
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
	return lacks_memory() ? NULL : hold(__real_malloc(bytes));
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	return lacks_memory() ? NULL : hold(__real_calloc(count, bytes));
}

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
	if (lacks_memory())
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
	return lacks_memory() ? NULL : hold(__real_strdup(text));
}

int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **text, const char *format, ...)
{
	va_list args;
	int bytes;

	if (lacks_memory())
		return -1;
	va_start(args, format);
	bytes = vasprintf(text, format, args);
	va_end(args);
	if (bytes >= 0)
		hold(*text);
	return bytes;
}

FAILING_CALL(fsync)
FAILING_CALL(rename)
FAILING_CALL(link)
FAILING_CALL(unlink)
FAILING_CALL(open64)
FAILING_CALL(mkostemp64)
FAILING_CALL(mkdir)
FAILING_CALL(fchown)
FAILING_CALL(stat64)
FAILING_CALL(access)
FAILING_CALL(scandir64)
FAILING_CALL(read)

/* Write half of the bytes each time. */
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	if (fails()) {
		errno = ENOSPC;
		return -1;
	}
	return __real_write(fd, data, is_counting && bytes > 1 ? bytes / 2 : bytes);
}

/* The descriptor is closed also if the call fails. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	int result = __real_close(fd);

	if (!fails())
		return result;
	errno = EDQUOT;
	return -1;
}
