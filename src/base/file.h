/* SPDX-License-Identifier: BSD-2-Clause */
/* file - complete writes to a file, its name, and making the name durable. Short or interrupted writes are continued. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"

/*
 * Write all `bytes` of `data`: file_write() at the file's position, like write(2); file_write_at() at byte `offset`, like
 * pwrite(2). Returns 0, or -errno after which a part may have been written. May block. Any thread; safe in signal handlers.
 */
MUST_CHECK int file_write(int fd, const void *data, size_t bytes);
MUST_CHECK int file_write_at(int fd, const void *data, size_t bytes, uint64_t offset);

/*
 * Check whether a file that a person named may be created: it may if `force` is set or if `path` is no regular file. A
 * pipe, a device and "-" are written to, not replaced; the caller handles a directory. Errors (explained): -EEXIST: a
 * regular file exists.
 */
MUST_CHECK int file_check_new(const char *path, bool force, struct fathom_fault *why);
/* Rename `from` to `to`. Without `force`, -EEXIST if `to` exists. Returns 0 or -errno. */
MUST_CHECK int file_give_name(const char *from, const char *to, bool force);

/* Sync the directory that contains `path`, so that new and changed names survive a power cut. 0 or -errno. Blocks. */
MUST_CHECK int file_sync_folder(const char *path);

#endif
