/* SPDX-License-Identifier: BSD-2-Clause */
/* descriptor_count - how many files this process has open. Tests compare counts to find descriptors left open. */
#ifndef TEST_UNIT_DESCRIPTOR_COUNT_H
#define TEST_UNIT_DESCRIPTOR_COUNT_H

#include <dirent.h>
#include <stdint.h>

#include "base/must.h"

/* A constant is added: the entries "." and ".." and the folder itself. Compare counts only. */
static inline uint32_t descriptor_count(void)
{
	DIR *folder = opendir("/proc/self/fd");
	uint32_t count = 0;

	must(folder);
	while (readdir(folder))
		count++;
	must(closedir(folder) == 0);
	return count;
}

#endif
