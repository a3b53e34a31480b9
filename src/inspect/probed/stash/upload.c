/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * upload - large objects in slices: written to an unnamed file, compared with the tree's object, and freed after removal.
 *
 *   begin -> write ... -> map -> compare ... -> stash_add(): the file gets names, or an equal object is linked
 *                                            -> end: the mapping, and a file without a name, become garbage
 *
 * An unnamed file (O_TMPFILE) disappears with its daemon. Unlinking the last name of a large file would free all its memory
 * in one call. So the file is kept open and truncated slice by slice (stash_free_slice()). If there is too much garbage,
 * the next file is freed at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "inspect/probed/stash/internal.h"

enum { GARBAGE_MAX = 64, PIECE_BYTES = 64 << 10 };
/* Freeing is faster than writing. */
enum { FREE_BYTES = 4 * STASH_SLICE_BYTES };
static_assert(STASH_SLICE_BYTES % PIECE_BYTES == 0, "a slice is compared in whole pieces");

/* Memory to be freed: of an upload, or of a file in dof/ that lost its last name. */
struct stash_garbage {
	TAILQ_ENTRY(stash_garbage) link;
	int fd;
	uint64_t bytes; /* of the file, to be truncated; 0: the file is in use */
	void *map;
	uint64_t map_bytes;
};

struct stash_upload {
	struct stash *stash;
	int fd;
	uint64_t bytes;
	void *map;
	bool has_name;
	/* the comparison with another file */
	int other;
	uint64_t other_inode, compared;
	bool same;
};

/* ---- garbage ---- */

static void free_garbage(struct stash *stash, struct stash_garbage *garbage)
{
	must(stash->garbage_count > 0);
	must(garbage->fd >= 0);
	TAILQ_REMOVE(&stash->garbage, garbage, link);
	stash->garbage_count--;
	if (garbage->map_bytes > 0)
		munmap(garbage->map, garbage->map_bytes);
	if (garbage->fd >= 0)
		close(garbage->fd);
	free(garbage);
}

static void add_garbage(struct stash *stash, struct stash_garbage what)
{
	struct stash_garbage *garbage = stash->garbage_count < GARBAGE_MAX ? malloc(sizeof(*garbage)) : NULL;

	must(what.fd >= 0);
	if (garbage) {
		*garbage = what;
		TAILQ_INSERT_TAIL(&stash->garbage, garbage, link);
		stash->garbage_count++;
		must(stash->garbage_count <= GARBAGE_MAX);
		return;
	}
	if (what.map_bytes > 0)
		munmap(what.map, what.map_bytes);
	close(what.fd);
}

void stash_discard_file(struct stash *stash, int fd, uint64_t bytes)
{
	add_garbage(stash, (struct stash_garbage){ .fd = fd, .bytes = bytes });
}

void stash_free_garbage(struct stash *stash)
{
	while (!TAILQ_EMPTY(&stash->garbage))
		free_garbage(stash, TAILQ_FIRST(&stash->garbage));
	must(stash->garbage_count == 0);
}

bool stash_free_slice(struct stash *stash)
{
	struct stash_garbage *garbage = TAILQ_FIRST(&stash->garbage);
	uint64_t left;

	if (!garbage)
		return false;
	if (garbage->map_bytes > 0) {
		left = garbage->map_bytes > FREE_BYTES ? garbage->map_bytes - FREE_BYTES : 0;
		left = round_up(left, FREE_BYTES);
		left = left < garbage->map_bytes ? left : 0;
		must(left < garbage->map_bytes); /* so the loop of the caller ends */
		must(left % FREE_BYTES == 0);
		munmap((char *)garbage->map + left, garbage->map_bytes - left);
		garbage->map_bytes = left;
	} else if (garbage->bytes > 0) {
		garbage->bytes -= min_u64(garbage->bytes, FREE_BYTES);
		if (ftruncate(garbage->fd, (off_t)garbage->bytes) != 0)
			garbage->bytes = 0; /* close() frees the rest */
	}
	if (garbage->map_bytes == 0 && garbage->bytes == 0)
		free_garbage(stash, garbage);
	return !TAILQ_EMPTY(&stash->garbage);
}

bool stash_has_slices_to_free(const struct stash *stash)
{
	return !TAILQ_EMPTY(&stash->garbage);
}

/* ---- an upload ---- */

int stash_upload_begin(struct stash *stash, uint64_t bytes, struct stash_upload **upload_ret)
{
	struct stash_upload *upload = calloc(1, sizeof(*upload));
	int rc;

	must(bytes > 0);
	if (!upload)
		return -ENOMEM;
	*upload = (struct stash_upload){ .stash = stash, .bytes = bytes, .other = -1 };
	upload->fd = openat(stash->work, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
	if (upload->fd < 0) {
		rc = errno == EISDIR || errno == EINVAL ? -EOPNOTSUPP : -errno; /* of filesystems without O_TMPFILE */
		free(upload);
		return rc;
	}
	*upload_ret = upload;
	return 0;
}

int stash_upload_write(struct stash_upload *upload, uint64_t at, const void *data, size_t bytes)
{
	must(!upload->map);
	must(!upload->has_name);
	must(at <= upload->bytes && bytes <= upload->bytes - at);
	return file_write_at(upload->fd, data, bytes, at);
}

int stash_upload_map(struct stash_upload *upload, const void **data_ret)
{
	struct stat status;

	must(!upload->map);
	must(upload->fd >= 0);
	if (fstat(upload->fd, &status) != 0)
		return -errno;
	if ((uint64_t)status.st_size != upload->bytes)
		return -EIO; /* a read behind the end of the file raises SIGBUS */
	upload->map = mmap(NULL, upload->bytes, PROT_READ, MAP_SHARED, upload->fd, 0);
	if (upload->map == MAP_FAILED) {
		upload->map = NULL;
		return -errno;
	}
	*data_ret = upload->map;
	return 0;
}

/* Open the object to compare with: this process's object for the mapping, or the first object of the file. */
static void open_other_object(struct stash_upload *upload, pid_t pid, const struct stash_mapping *mapping, uint32_t block)
{
	char name[STASH_FILE_NAME_BYTES], path[STASH_PATH_BYTES];
	struct stash *stash = upload->stash;
	struct stat status;

	must(upload->other < 0 && upload->compared == 0);
	must(block < DOF_BLOCKS_MAX);
	stash_mapping_name(mapping, name);
	snprintf(path, sizeof(path), "%d/%.*s/%s", (int)pid, STASH_MAPPING_NAME_BYTES, name, stash_raw_name(block));
	upload->other = openat(stash->pids, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (upload->other < 0) {
		stash_object_name(mapping, pid, block, false, name);
		upload->other = openat(stash->dof, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	}
	upload->same = upload->other >= 0 && fstat(upload->other, &status) == 0 && S_ISREG(status.st_mode) &&
		       (uint64_t)status.st_size == upload->bytes;
	upload->other_inode = upload->same ? status.st_ino : 0;
}

bool stash_upload_compare(struct stash_upload *upload, pid_t pid, const struct stash_mapping *mapping, uint32_t block)
{
	uint64_t end = min_u64(upload->compared + STASH_SLICE_BYTES, upload->bytes);
	uint8_t piece[PIECE_BYTES];

	must(upload->map);
	if (upload->other < 0)
		open_other_object(upload, pid, mapping, block);
	while (upload->same && upload->compared < end) {
		uint64_t want = min_u64(sizeof(piece), end - upload->compared);
		ssize_t got = pread(upload->other, piece, want, (off_t)upload->compared);

		upload->same = got > 0 && memcmp(piece, (char *)upload->map + upload->compared, (size_t)got) == 0;
		upload->compared += got > 0 ? (uint64_t)got : 0;
	}
	must(upload->compared <= upload->bytes);
	return upload->same && upload->compared < upload->bytes;
}

int stash_upload_is(const struct stash_upload *upload, int at, const char *name, bool *same_ret)
{
	struct stat status;

	if (fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	*same_ret = upload->same && upload->compared == upload->bytes && status.st_ino == upload->other_inode;
	return 0;
}

int stash_upload_link(struct stash_upload *upload, int folder, const char *name)
{
	char path[64];

	must(upload->fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", upload->fd);
	if (linkat(AT_FDCWD, path, folder, name, AT_SYMLINK_FOLLOW) != 0)
		return -errno;
	upload->has_name = true;
	return 0;
}

void stash_upload_end(struct stash_upload *upload)
{
	struct stat status;
	bool is_unused;

	if (!upload)
		return;
	/* a registration that failed may have removed the names again */
	is_unused = !upload->has_name || (fstat(upload->fd, &status) == 0 && status.st_nlink == 0);
	if (upload->other >= 0)
		close(upload->other);
	add_garbage(upload->stash, (struct stash_garbage){ .fd = upload->fd,
							   .bytes = is_unused ? upload->bytes : 0,
							   .map = upload->map,
							   .map_bytes = upload->map ? upload->bytes : 0 });
	free(upload);
}
