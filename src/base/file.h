/* SPDX-License-Identifier: BSD-2-Clause */
/* file - all of something into a file, and its name onto the disk: writes that were cut short or interrupted go on. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"

/*
 * Write all `bytes` of `data`: file_write() where the file stands, file_write_at() from byte `offset` on, as write(2) and
 * pwrite(2) do. 0 or -errno: then some of it may be written. They may block. Any thread; signal handlers, too.
 */
MUST_CHECK int file_write(int fd, const void *data, size_t bytes);
MUST_CHECK int file_write_at(int fd, const void *data, size_t bytes, uint64_t offset);

/* The names in the folder of `path`, new and changed ones, are on the disk. 0 or -errno. Blocks. */
MUST_CHECK int file_sync_folder(const char *path);

#endif
