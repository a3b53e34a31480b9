/* SPDX-License-Identifier: BSD-2-Clause */
/* copy_bytes - a step of a copy where the file system of a test has no reflinks. Also for files with O_DIRECT. */
#ifndef TEST_UNIT_DATA_STORE_VOLUME_COPY_BYTES_H
#define TEST_UNIT_DATA_STORE_VOLUME_COPY_BYTES_H

#include <stdlib.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/must.h"

static inline int copy_bytes(int to, int from, uint64_t offset, uint64_t bytes)
{
	enum { BUFFER_BYTES = 1 << 20 };
	uint8_t *buffer = aligned_alloc(4096, BUFFER_BYTES);

	must(buffer);
	while (bytes > 0) {
		size_t part = min_u64(bytes, BUFFER_BYTES);

		must(pread(from, buffer, part, (off_t)offset) == (ssize_t)part);
		must(pwrite(to, buffer, part, (off_t)offset) == (ssize_t)part);
		offset += part;
		bytes -= part;
	}
	free(buffer);
	return 0;
}

#endif
