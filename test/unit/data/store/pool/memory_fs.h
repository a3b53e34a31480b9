/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory_fs - a file system in memory that knows what a power cut may leave of it.
 *
 * Each call makes changes: to the names of a folder, or to the contents of a file. A sync of a file makes its contents
 * durable, a sync of a folder its names. A rename is one change of two folders; it is durable when both are synced. A power
 * cut keeps all durable changes and any subset of the others, and may tear the last write that it keeps. This is stricter
 * than XFS, which keeps the order of metadata.
 */
#ifndef TEST_UNIT_DATA_STORE_POOL_MEMORY_FS_H
#define TEST_UNIT_DATA_STORE_POOL_MEMORY_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/store/pool/fs.h"

struct memory_fs;

/* An empty file system. */
struct memory_fs *memory_fs_create(void);
void memory_fs_destroy(struct memory_fs *memory);
/* A copy, settled, without open descriptors. */
struct memory_fs *memory_fs_copy(const struct memory_fs *memory);
/* Its calls; the root folder has any path. */
const struct pool_fs *memory_fs_calls(struct memory_fs *memory);

/* Call `point(ctx)` before each call that changes or syncs something. NULL: no more. */
void memory_fs_at_each_call(struct memory_fs *memory, void (*point)(void *ctx), void *ctx);

/* Sync number `index` from now on (0: the next one) returns 0 and does nothing. UINT32_MAX: none. */
void memory_fs_skip_sync(struct memory_fs *memory, uint32_t index);
/* Syncs since the last memory_fs_skip_sync(). */
uint32_t memory_fs_syncs(const struct memory_fs *memory);

/*
 * A planted wrong order: sync number `index` from now on takes effect only after the next rename, or rename number `index`
 * only after the next call. `is_sync`: which of them. A power cut comes in between. UINT32_MAX: none; what is still late
 * takes effect.
 */
void memory_fs_make_late(struct memory_fs *memory, bool is_sync, uint32_t index);
/* Whether another call took effect before the late one. */
bool memory_fs_was_late(const struct memory_fs *memory);

/* Call number `index` from now on that changes or syncs something fails with `error`. UINT32_MAX: none. */
void memory_fs_fail_call(struct memory_fs *memory, uint32_t index, int error);
/* Whether that call was made. */
bool memory_fs_has_failed(const struct memory_fs *memory);

/* Call `state(ctx, fs)` with each different file system that a power cut now may leave; it is destroyed afterwards. */
void memory_fs_each_crash(struct memory_fs *memory, void (*state)(void *ctx, struct memory_fs *crashed), void *ctx);
/* The same, but only with those that this function has not met since memory_fs_at_each_call(). */
void memory_fs_each_new_crash(struct memory_fs *memory, void (*state)(void *ctx, struct memory_fs *crashed), void *ctx);

/* All changes are durable now, as after some time without a power cut. */
void memory_fs_settle(struct memory_fs *memory);

/* Read or write at `offset`. What was written is durable after memory_fs_settle(). */
void memory_fs_read(struct memory_fs *memory, int fd, size_t offset, void *data, size_t bytes);
void memory_fs_write(struct memory_fs *memory, int fd, size_t offset, const void *data, size_t bytes);

/* The number of files and folders below the root; of open descriptors. */
size_t memory_fs_nodes(const struct memory_fs *memory);
size_t memory_fs_open_count(const struct memory_fs *memory);

#endif
