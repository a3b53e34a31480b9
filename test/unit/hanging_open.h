/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hanging_open - open() of chosen paths hangs, as on a disk that does not respond. The linker sends the calls here:
 * --wrap=open64 in meson.build.
 */
#ifndef TEST_UNIT_HANGING_OPEN_H
#define TEST_UNIT_HANGING_OPEN_H

#include <sys/types.h>

#include "hanging_call.h"

static struct hang hanging_open;

int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);

int __wrap_open64(const char *path, int flags, mode_t mode)
{
	hang_if_chosen(&hanging_open, path);
	return __real_open64(path, flags, mode);
}

/* NULL: none any more. */
static inline void hang_open(const char *part_of_path)
{
	hang_call(&hanging_open, part_of_path);
}

static inline void wait_for_hung_open(void)
{
	wait_for_hung_calls(&hanging_open, 1);
}

#endif
