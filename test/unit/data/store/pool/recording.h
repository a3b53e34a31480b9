/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recording - the file calls of a program on a real folder, to be made again on a memory_fs that has the same files.
 *
 * A test notes each call that succeeded. Folders and files are known by handles: the root has 0, and each open makes a new
 * one. Paths are relative to a folder, and may have several components.
 */
#ifndef TEST_UNIT_DATA_STORE_POOL_RECORDING_H
#define TEST_UNIT_DATA_STORE_POOL_RECORDING_H

#include <stddef.h>
#include <stdint.h>

#include "memory_fs.h"

enum { RECORDED_MAX = 256, RECORDED_PATH_BYTES = 128 };

struct recorded {
	enum {
		RECORDED_OPEN_FOLDER,
		RECORDED_OPEN_FILE,
		RECORDED_CLOSE,
		RECORDED_MAKE_FOLDER,
		RECORDED_WRITE, /* at `offset` */
		RECORDED_SET_SIZE,
		RECORDED_ALLOCATE,
		RECORDED_SYNC,
		RECORDED_RENAME,
	} kind;
	int handle, handle_to; /* of the folder or the file; RENAME: the folder that the name comes to */
	char path[RECORDED_PATH_BYTES], path_to[RECORDED_PATH_BYTES];
	int flags; /* of OPEN_FILE */
	uint64_t offset, bytes;
	uint8_t *data; /* of WRITE */
};

struct recording {
	struct recorded calls[RECORDED_MAX];
	uint32_t count;
	int handles; /* that were given */
};

/* Begin with no call: only the root has a handle. */
void recording_begin(struct recording *self);
/* Free what the calls have. */
void recording_end(struct recording *self);

/* Note an open; the new handle. `flags`: of open(2). "": the root once more. */
int recording_note_open(struct recording *self, int folder, const char *path, int flags);
void recording_note_write(struct recording *self, int file, uint64_t offset, const void *data, size_t bytes);
void recording_note_rename(struct recording *self, int from, const char *path, int to, const char *path_to);
/* CLOSE, SYNC, SET_SIZE and ALLOCATE (to `bytes`); MAKE_FOLDER (with `path`). */
void recording_note(struct recording *self, int kind, int handle, const char *path, uint64_t bytes);

/* Make the calls. Returns the first error, behind which there are no more calls. */
int recording_play(const struct recording *self, struct memory_fs *memory);

/* Give the empty file system all that is in a real folder; settled. */
void memory_fs_load(struct memory_fs *memory, const char *folder);

#endif
