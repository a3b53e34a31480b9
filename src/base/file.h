/* SPDX-License-Identifier: BSD-2-Clause */
/* file - all of something into a file, and its name onto the disk: writes that were cut short or interrupted go on. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"

/*
 * Write all `bytes` of `data`: file_write() where the file stands, file_write_at() from byte `offset` on, as write(2) and
 * pwrite(2) do. 0 or -errno: then some of it may be written. They may block. Any thread; signal handlers, too.
 */
MUST_CHECK int file_write(int fd, const void *data, size_t bytes);
MUST_CHECK int file_write_at(int fd, const void *data, size_t bytes, uint64_t offset);

/*
 * Before a file is made that a person named: may it be? With `force` always. A pipe, a device and "-" are written to and
 * not replaced; of a folder the caller decides. Errors (explained): -EEXIST: there is a file.
 */
MUST_CHECK int file_check_new(const char *path, bool force, struct fault *why);
/* The file `from` gets the name `to`. Without `force` -EEXIST where a file has it. Else 0 or -errno. */
MUST_CHECK int file_give_name(const char *from, const char *to, bool force);

/* The names in the folder of `path`, new and changed ones, are on the disk. 0 or -errno. Blocks. */
MUST_CHECK int file_sync_folder(const char *path);

#endif
