/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fs - the file system calls of a storage tree, behind a table, so that tests can record them and make any call fail.
 *
 * Names are single path components relative to an open folder; symbolic links are not followed. All calls may block for as
 * long as the device does, so they run on a worker thread. They return 0, a descriptor or a count, or negative errno.
 */
#ifndef DATA_STORE_POOL_FS_H
#define DATA_STORE_POOL_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/must.h"

/* Called for each name of a folder but "." and "..", in no order. Non-zero ends the list with that value. */
typedef int (*pool_fs_entry_fn)(void *ctx, const char *name);

/* Blocks of a file that follow one another, in the file and on the disk. */
struct pool_extent {
	uint64_t offset, bytes;
	uint64_t physical; /* is_shared: where they are on the disk */
	bool is_data;	   /* false: they are allocated and read as zeroes */
	bool is_shared;	   /* other files have these blocks, too */
};

struct pool_fs {
	void *ctx; /* the first argument of each call */
	int (*open_folder)(void *ctx, int folder, const char *name);
	/* `flags`: O_RDONLY, O_RDWR, or O_RDWR | O_CREAT | O_EXCL (mode 0600) */
	int (*open_file)(void *ctx, int folder, const char *name, int flags);
	void (*close)(void *ctx, int fd);
	/* Lock until the descriptor is closed. -EWOULDBLOCK: another open file has the lock. */
	int (*lock)(void *ctx, int fd);
	int (*make_folder)(void *ctx, int folder, const char *name); /* mode 0700 */
	int (*list)(void *ctx, int folder, pool_fs_entry_fn entry, void *entry_ctx);
	int (*stat)(void *ctx, int fd, struct stat *stat_ret);
	/* Like stat, of the file at `path` below an open folder: several components. */
	int (*stat_path)(void *ctx, int folder, const char *path, struct stat *stat_ret);
	/* Bytes of the file system, and how many of them a write can still use. */
	int (*space)(void *ctx, int folder, uint64_t *total_ret, uint64_t *free_ret);
	/* All bytes, at the descriptor's position. Returns 0. */
	int (*write)(void *ctx, int fd, const void *data, size_t bytes);
	/* At most `bytes`, from the descriptor's position to the end of the file. Returns their number. */
	int (*read)(void *ctx, int fd, void *data, size_t bytes);
	int (*set_size)(void *ctx, int fd, uint64_t bytes);
	/* The end of the last data at `from` or behind it; `from` if there are only holes. */
	int (*data_end)(void *ctx, int fd, uint64_t from, uint64_t *end_ret);
	/*
	 * The extents of a file that end behind `offset`, ascending, at most `extents_max`; holes have none. Data in memory
	 * are written first. Returns their number; fewer than extents_max: there are no more. -EOPNOTSUPP: no maps.
	 */
	int (*map)(void *ctx, int fd, uint64_t offset, struct pool_extent *extents, uint32_t extents_max);
	/* Allocate blocks; the file grows to offset + bytes if it is shorter. */
	int (*allocate)(void *ctx, int fd, uint64_t offset, uint64_t bytes);
	/* Share blocks of `from` with `fd` at the same offset. 0 bytes: to the end of `from`. -EOPNOTSUPP: no reflinks. */
	int (*clone)(void *ctx, int fd, int from, uint64_t offset, uint64_t bytes);
	/*
	 * Give the file blocks of its own in this range. If it shares no others then, the file system forgets that it did.
	 * -EOPNOTSUPP: it does not know such blocks.
	 */
	int (*unshare)(void *ctx, int fd, uint64_t offset, uint64_t bytes);
	int (*sync)(void *ctx, int fd); /* fsync, of files and folders */
	/* -EEXIST if `to` exists, unless `replace` is set. */
	int (*rename)(void *ctx, int from_folder, const char *from, int to_folder, const char *to, bool replace);
	int (*remove)(void *ctx, int folder, const char *name, bool is_folder);
};

/* The calls of the operating system. */
const struct pool_fs *pool_fs_system(void);

#endif
