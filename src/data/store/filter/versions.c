/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "data/store/filter/internal.h"

int versions_init(struct versions *versions, uint64_t bytes)
{
	uint8_t *memory;

	must(bytes > 0);
	must(bytes <= SIZE_MAX / 2);
	must(!versions->latest);
	memory = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	versions->latest = memory;
	versions->before = memory + bytes;
	versions->bytes = bytes;
	return 0;
}

void versions_deinit(struct versions *versions)
{
	if (versions->latest)
		must(munmap(versions->latest, 2 * versions->bytes) == 0);
	versions->latest = versions->before = NULL;
}

void versions_write(struct versions *versions, uint64_t offset, uint64_t bytes, const struct iovec *iov, int iov_count)
{
	if (!versions->latest)
		return;
	must(offset + bytes <= versions->bytes);
	memcpy(versions->before + offset, versions->latest + offset, bytes);
	if (!iov)
		memset(versions->latest + offset, 0, bytes);
	for (int i = 0; iov && i < iov_count; offset += iov[i++].iov_len) {
		must(iov[i].iov_len <= bytes);
		bytes -= iov[i].iov_len;
		memcpy(versions->latest + offset, iov[i].iov_base, iov[i].iov_len);
	}
	must(!iov || bytes == 0);
}

void versions_read_before(const struct versions *versions, uint64_t offset, const struct iovec *iov, int iov_count)
{
	must(versions->before);
	for (int i = 0; i < iov_count; offset += iov[i++].iov_len) {
		must(offset + iov[i].iov_len <= versions->bytes);
		memcpy(iov[i].iov_base, versions->before + offset, iov[i].iov_len);
	}
}
