/* SPDX-License-Identifier: BSD-2-Clause */
/* temporary - for data larger than memory: unnamed files, positioned reads, and releasing pages. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inspect/spdk/internal.h"

enum { IN_MEMORY_BYTES_MAX = 8 << 20 /* larger ones are on a disk: a file in memory counts as memory of this process */ };

int temporary_open(uint64_t bytes)
{
	const char *directory = getenv("TMPDIR");
	int fd = -1;

	if (bytes > IN_MEMORY_BYTES_MAX)
		fd = open(directory && *directory ? directory : "/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		fd = memfd_create("fathom-trace", MFD_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

uint64_t read_at(int fd, uint64_t offset, void *data, uint64_t bytes)
{
	uint64_t done = 0;

	while (done < bytes) {
		ssize_t n = pread(fd, (char *)data + done, bytes - done, (off_t)(offset + done));

		if (n == 0 || (n < 0 && errno != EINTR))
			break;
		done += n > 0 ? (uint64_t)n : 0;
	}
	return done;
}

void forget_pages(const void *from, uint64_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = round_up((uintptr_t)from, page),
		  end = ((uintptr_t)from + bytes) / page * page;

	if (end > begin)
		(void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* only a hint */
}
