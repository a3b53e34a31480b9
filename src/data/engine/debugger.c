/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Support for debuggers.
 *
 * Core files: by default the kernel omits shared mappings of named files (core(5), coredump_filter, bit 3), and such a
 * mapping holds the trace, with its rings and the pools of requests.
 *
 * ^C in gdb: gdb stops the program when it receives SIGINT. The engine reads SIGINT from a signalfd, where gdb misses it.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "base/text.h"
#include "data/engine/internal.h"

#define FILTER_PATH "/proc/self/coredump_filter"
#define FILTER_NAMED_SHARED BIT(3)

static void widen_core_filter(int fd)
{
	char text[32];
	uint64_t filter;
	ssize_t bytes = read(fd, text, sizeof(text) - 1);

	if (bytes <= 0)
		return;
	text[bytes] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (text_parse_u64(text, 16, UINT32_MAX, &filter) != 0 || filter & FILTER_NAMED_SHARED)
		return;
	bytes = snprintf(text, sizeof(text), "0x%x\n", (unsigned int)(filter | FILTER_NAMED_SHARED));
	must(bytes > 0 && bytes < (ssize_t)sizeof(text));
	(void)!file_write(fd, text, (size_t)bytes); /* on failure the filter stays unchanged */
}

void core_filter_widen(void)
{
	int fd = open(FILTER_PATH, O_RDWR | O_CLOEXEC);

	/* without a writable /proc a core has no trace, but the trace file itself remains */
	if (fd < 0)
		return;
	widen_core_filter(fd);
	close(fd);
}

/* Read /proc/PATH, at most `bytes` with a NUL. False: it cannot be read. */
static bool read_proc(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, text, bytes - 1);
	close(fd);
	if (got <= 0)
		return false;
	text[got] = '\0';
	return true;
}

bool debugger_is_there(void)
{
	char text[4096], path[64], *tracer;
	uint64_t pid;

	if (!read_proc("/proc/self/status", text, sizeof(text)))
		return false;
	tracer = strstr(text, "TracerPid:\t");
	if (!tracer)
		return false;
	tracer += strlen("TracerPid:\t");
	tracer[strcspn(tracer, "\n")] = '\0';
	if (text_parse_u64(tracer, 10, UINT32_MAX, &pid) != 0 || pid == 0)
		return false;
	/* strace also traces, but it does not stop the process at SIGTRAP */
	snprintf(path, sizeof(path), "/proc/%u/comm", (unsigned int)pid);
	return read_proc(path, text, sizeof(text)) && (strcmp(text, "gdb\n") == 0 || strncmp(text, "lldb", 4) == 0);
}
