/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a core file of the engine has. The kernel leaves out shared mappings of named files (core(5), coredump_filter,
 * bit 3), and that is where the trace lies with the rings and the pools of requests.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/internal.h"

#define FILTER_PATH "/proc/self/coredump_filter"
#define FILTER_NAMED_SHARED BIT(3)

static void widen(int fd)
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
	(void)!file_write(fd, text, (size_t)bytes); /* what cannot be written stays as it was */
}

void core_filter_widen(void)
{
	int fd = open(FILTER_PATH, O_RDWR | O_CLOEXEC);

	/* no /proc, or a read-only one: then a core has no trace, and the trace file itself is left */
	if (fd < 0)
		return;
	widen(fd);
	close(fd);
}
